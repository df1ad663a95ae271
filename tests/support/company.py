"""Contextual support: words of an answer in the passages, each by the company that it keeps; what two studies show.

Each content word of the answer looks for its best occurrence in the passages. Being there counts half; the other half is the
share of its neighbours in the answer (three on either side, in its sentence) that stand near that occurrence (within eight
content words). If one of the two stands in the four words after a negation and the other does not, the occurrence counts half.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from mtrag_nb.core.text import STOPWORDS, all_words, sentences

_NEGATIONS = frozenset("not no never none neither nor without unable unless".split())
# neighbours on each side; content words around an occurrence; words that a negation reaches
_NEAR, _WINDOW, _REACH = 3, 8, 4


@lru_cache(None)
def _marked(text: str) -> tuple[tuple[tuple[str, bool], ...], ...]:
    "The content words of each sentence, and whether they stand in the reach of a negation."
    text = (
        text.replace("’", "'").replace("can't", "can not").replace("won't", "will not")
    )
    text = re.sub(
        r"\bcan(?:'|no)t\b", "can not", re.sub(r"n't\b", " not", text), flags=re.I
    )
    rows = []
    for s in sentences(text):
        since, row = _REACH + 1, []
        for w in all_words(s):
            since = 0 if w in _NEGATIONS else since + 1
            if w not in STOPWORDS and w not in _NEGATIONS:
                row.append((w, since <= _REACH))
        if row:
            rows.append(tuple(row))
    return tuple(rows)


@lru_cache(None)
def _places(document: str) -> tuple[list[tuple[str, bool]], dict[str, list[int]]]:
    "A document's content words in order, and where each stands."
    words = [w for row in _marked(document) for w in row]
    at: dict[str, list[int]] = {}
    for i, (w, _) in enumerate(words):
        at.setdefault(w, []).append(i)
    return words, at


def _company(
    near: set[str], negated: bool, words: Sequence[tuple[str, bool]], i: int
) -> float:
    "What the i-th word of a document is worth to a word with these neighbours."
    around = {x for x, _ in words[max(0, i - _WINDOW) : i + _WINDOW + 1]}
    found = 0.5 + 0.5 * (len(near & around) / len(near) if near else 1.0)
    return found if words[i][1] == negated else found / 2


def contextual_support(answer: str, documents: Sequence[str]) -> float:
    "Support by each word's company: a number, name or negation from elsewhere has another. In [0, 1]."
    known, values = list(map(_places, documents)), []
    for row in _marked(answer):
        for j, (w, negated) in enumerate(row):
            near = {
                x for x, _ in row[max(0, j - _NEAR) : j] + row[j + 1 : j + 1 + _NEAR]
            }
            places = [(words, i) for words, at in known for i in at.get(w, ())]
            found = (_company(near, negated, words, i) for words, i in places)
            values.append(max(found, default=0.0))
    return sum(values) / len(values) if values else 1.0
