"Words of a text, cut anew by the description of the package's one spelling and by none of its code: for tests that count again."

import re
import sys
import unicodedata
from functools import lru_cache
from itertools import groupby

SIGNS = [  # how the package's one spelling is described: what counts as what
    (r"[\u2019\u2018\u201a\u201b\u02bc\u02bb\u02b9\u2032\u00b4`\uff07]", "'"),
    (r"(?<=\d)\u2013(?=\d)|[\u2010-\u2012\u2212]", "-"),
    (r"[\u2013-\u2015\u2122\u2026\uff0c\uff1a]", " "),
    (r"[\u00ad\u200b-\u200f\u2060\ufe0e\ufe0f\ufeff]", ""),
    (
        r"(?<![\u00b2\u00b3\u00b9\u2070-\u2079])(?=[\u00b2\u00b3\u00b9\u2070-\u2079])",
        "^",
    ),
    (r"(?<=\d)(?=[\u00bc-\u00be])", " "),
]
MARKS = "".join(
    c
    for c in map(chr, range(sys.maxunicode))
    if unicodedata.category(c) in ("Mn", "Mc")
)
LETTERS = rf"(?:[^\W_]|[{MARKS}])(?:[\w{MARKS}'.,:-]*(?:[^\W_]|[{MARKS}]))?"
UNSPACED = (
    "CJK UNIFIED",
    "CJK COMPATIBILITY IDEOGRAPH",
    "IDEOGRAPHIC ITERATION",
)  # as names begin
UNSPACED += ("HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
GROUPS = re.compile(r"(?<![\w.,])-?[1-9]\d{0,2}(?: \d{3})+(?!\w|[.,]\d)")


def one_number(word):
    "A number without groups of thousands, with a decimal point; other words as they are."
    if re.fullmatch(
        r"-?[1-9]\d{0,2}([ ,']\d{3})+(\.\d+)?|-?[1-9]\d{0,2}(\.\d{3}){2,}", word
    ):
        return re.sub(
            r"\.(?=\d{3}\.|\d{3}$)" if word.count(".") > 1 else "[ ,']", "", word
        )
    return re.sub(r"(?<=\d),(?=\d+$)", ".", word) if word.count(",") == 1 else word


@lru_cache(None)
def unspaced(letter):
    "Whether a letter or mark is of a script that is written without blanks between words."
    kind = unicodedata.category(letter)[0]
    return kind in "LM" and unicodedata.name(letter, "").startswith(UNSPACED)


def pairs(run):
    "The pairs of neighbours of a run of such letters; a letter alone is itself."
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


@lru_cache(None)
def words(text):
    for sign, other in SIGNS:
        text = re.sub(sign, other, text)
    text = unicodedata.normalize("NFKC", text).lower()
    if not text.isascii():
        parts = ((of, "".join(run)) for of, run in groupby(text, unspaced))
        text = "".join(f" {run} " if of else run for of, run in parts)
    found = re.findall(rf"{GROUPS.pattern}|(?:(?<![\w)\]])-(?=\d))?{LETTERS}", text)
    cut = (pairs(w) if unspaced(w[0]) else [one_number(w)] for w in found)
    return [w for some in cut for w in some]
