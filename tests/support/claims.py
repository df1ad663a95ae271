"""Claims that are true or false of passages, made by rule from the passages' own sentences, for tests and studies of checks.

The rules know nothing of the check: their word lists are their own. Half 0 of the documents is for choosing, half 1 for
reporting; clauses that are invented are others in each half.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mtrag_nb.core.files import data_dir, read_jsonl
from mtrag_nb.core.text import content_words, sentences, is_title


class Planted(NamedTuple):
    "A claim about passages."

    kind: str
    text: str
    true: bool
    passages: tuple[str, ...]  # the first is where its sentence stands


class Source(NamedTuple):
    "What an edit may draw from."

    passages: tuple[str, ...]  # the first is where the sentence stands
    other: str  # a passage that is not among them
    half: int
    rng: random.Random


Edit = Callable[[str, Source], str | None]  # None: it cannot be made of this sentence

NUMBER = re.compile(r"(?<![\w.,:/-])\d[\d,]*(?:\.\d+)?(?![\w:/.-]*\d)(?!\w)")
NAME = re.compile(r"(?<=[a-z,] )(?!I\b)[A-Z][a-z]+(?: [A-Z][a-z]+)*")
AUXILIARY = re.compile(
    r"\b(is|are|was|were|can|will|should|must|may|does|do|has|have|had|could|would)\b(?! not| no\b|n't)"
)
UNITS = (
    "hours/days weeks/months months/years days/weeks minutes/hours seconds/minutes years/decades percent/points metres/miles "
    "meters/feet kilometres/miles km/miles miles/yards dollars/euros crowns/euros euros/pounds GB/TB MB/GB KB/MB mm/cm cm/mm "
    "inches/feet feet/yards pounds/ounces tonnes/kilograms litres/gallons hour/day week/month month/year day/week minute/hour "
    "second/minute year/decade mile/yard dollar/euro"
).split()
DIRECTIONS = (
    "more/fewer more/less higher/lower larger/smaller longer/shorter before/after increase/decrease increases/decreases "
    "increased/decreased rise/fall rises/falls rose/fell earlier/later first/last oldest/youngest most/least above/below "
    "over/under maximum/minimum greater/smaller better/worse north/south east/west northern/southern eastern/western "
    "inside/outside faster/slower largest/smallest highest/lowest up/down allowed/forbidden opened/closed begins/ends won/lost "
    "buys/sells cheaper/dearer gains/losses warmer/colder early/late top/bottom high/low long/short large/small add/remove "
    "enable/disable accept/reject included/excluded upper/lower"
).split()
MODALS = (
    "must/may;have to/can;has to/can;need to/may;needs to/may;required/allowed;may/must;can/must;could/must;might/will certainly;"
    "should/need not;usually/always;often/always;sometimes/always;generally/always;most/all;some/all;many/all;all/some;"
    "always/sometimes;every/almost every;only/mostly;mandatory/optional;optional/mandatory;never/rarely;typically/always;"
    "probably/certainly"
).split(";")
INVENTED = (  # the first half chooses, the second reports
    "which was decided after a long dispute in the committee",
    "and visitors praise it as the finest of its sort",
    "because the founder had promised it to a friend",
    "although critics doubted it from the very start",
    "and this earned a national award the next spring",
    "which scientists later traced to a rare mineral",
    "and a documentary about it won two prizes",
    "as the mayor announced at a press conference",
    "which cost the owners nearly their whole fortune",
    "and the archive burned down shortly afterwards",
    "because a storm had destroyed the earlier equipment",
    "although an independent audit found serious errors",
    "and the queen herself attended the ceremony",
    "which neighbouring regions have copied ever since",
    "and engineers still argue about the reason",
    "as a leaked memo showed some weeks earlier",
)
SYNONYMS = dict(
    pair.split("/")
    for pair in (
        "begin/start begins/starts began/started buy/purchase bought/purchased show/demonstrate shows/demonstrates use/employ "
        "used/employed help/assist helps/assists need/require needs/requires big/large get/obtain give/provide gives/provides "
        "given/provided made/produced make/produce makes/produces important/significant several/various about/approximately "
        "held/hosted people/persons companies/firms company/firm receive/get receives/gets received/got also/additionally "
        "called/named known/recognized found/discovered large/sizeable small/little part/portion kind/type town/township "
        "takes/requires cost/price money/funds job/position created/established founded/established area/region build/construct "
        "built/constructed sent/forwarded choose/select chosen/selected keep/retain kept/retained happens/occurs happen/occur "
        "allows/lets ask/request fee/charge fees/charges rules/regulations permit/authorization home/residence children/kids "
        "quick/fast ends/finishes ended/finished often/frequently usually/normally documents/papers student/pupil students/pupils"
    ).split()
)
VERBS = {  # of passives: verb -> be and participle
    **{v: f"was {v}" for v in "founded built won bought sold made led used owned opened created designed played".split()},
    **{v: f"was {v}" for v in "hosted supported provided required".split()},
    "wrote": "was written", "ran": "was run", "beat": "was beaten", "uses": "is used", "requires": "is required",
    "owns": "is owned", "hosts": "is hosted", "supports": "is supported", "provides": "is provided",
}  # fmt: skip
WRITTEN = dict(
    enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen twenty".split()
    )
)
LATER = "in|on|at|after|before|from|since|during|for|if|when|until|by|under|between"
BEGINS = r"The|A|An|It|In|On|At|This|These|They|There|If|When|You|We|He|She|For|All|Most|Some|Each|Every|No"


def put(text: str, m: re.Match, new: str) -> str:
    "A text with other words in the place of a match."
    return text[: m.start()] + new + text[m.end() :]


def lowered(s: str) -> str:
    "A sentence as it stands inside another."
    return s[0].lower() + s[1:] if re.fullmatch(BEGINS, s.split()[0]) else s


def swapped(pairs: Sequence[str], both: bool = True, before: str = r"\b") -> Edit:
    "One word replaced by its partner."
    table: dict[str, str] = {}
    for a, b in (p.split("/") for p in pairs):
        table.setdefault(a, b)
        if both:
            table.setdefault(b, a)
    words = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
    find = re.compile(rf"{before}(?:{words})\b")

    def edit(s: str, of: Source) -> str | None:
        here = list(find.finditer(s))
        return put(s, m := of.rng.choice(here), table[m[0]]) if here else None

    return edit


def number(s: str, of: Source) -> str | None:
    "A number replaced by another of the passages, or with another digit."
    if not (here := list(NUMBER.finditer(s))):
        return None
    m, own = of.rng.choice(here), set(NUMBER.findall(s))
    theirs = sorted({x for t in of.passages for x in NUMBER.findall(t)} - own)
    if theirs and of.rng.random() < 0.5:
        return put(s, m, of.rng.choice(theirs))
    digits = list(m[0])
    k = of.rng.choice([i for i, c in enumerate(digits) if c.isdigit()])
    digits[k] = of.rng.choice([c for c in "123456789" if c != digits[k]])
    return None if (new := "".join(digits)) in own else put(s, m, new)


def unit(s: str, of: Source) -> str | None:
    signs = list(re.finditer(r"(?<=\d)%|[$€£](?=\d)", s))
    if signs and of.rng.random() < 0.5:
        m = of.rng.choice(signs)
        return put(s, m, {"%": " euros", "$": "€", "€": "$", "£": "$"}[m[0]])
    return swapped(UNITS, before=r"(?<=\d )")(s, of)


def name(s: str, of: Source) -> str | None:
    "A name replaced by another of the passages with as many words."
    here, low = [m for m in NAME.finditer(s) if content_words(m[0])], s.lower()
    found = {m[0] for t in of.passages for m in NAME.finditer(t) if content_words(m[0])}
    theirs = sorted(x for x in found if x.lower() not in low)
    pairs = [
        (m, x) for m in here for x in theirs if len(x.split()) == len(m[0].split())
    ]
    return put(s, *of.rng.choice(pairs)) if pairs else None


def negation(s: str, of: Source) -> str | None:
    if there := list(re.finditer(r"(?: not|n't)\b", s)):
        return put(s, of.rng.choice(there), "")
    here = list(AUXILIARY.finditer(s))
    return put(s, m := of.rng.choice(here), f"{m[0]} not") if here else None


def head_of(s: str) -> str:
    "The sentence up to its last comma, where something is left; else the whole."
    s = s.rstrip(".!")
    head = s.rpartition(", ")[0]
    return head if len(content_words(head)) > 3 else s


def clause(s: str, of: Source) -> str | None:
    "The end replaced by what another passage says."
    some = [
        x for x in sentences(of.other) if 5 <= len(x.split()) <= 30 and x[-1] == "."
    ]
    some = [x for x in some if len(content_words(x)) > 3]
    if not some:
        return None
    return (
        f"{head_of(s)}, and {lowered(of.rng.choice(some)).split(', ')[0].rstrip('.')}."
    )


def invented(s: str, of: Source) -> str:
    k = len(INVENTED) // 2
    return f"{head_of(s)}, {of.rng.choice(INVENTED[of.half * k : (of.half + 1) * k])}."


def reordered(s: str, of: Source) -> str | None:
    "A phrase of time, place or condition moved from one end to the other."
    if m := re.fullmatch(rf"((?:{LATER.title()}|With)\b[^,;:]+), ([^;:]+)\.", s):
        return f"{m[2][0].upper()}{m[2][1:]} {m[1][0].lower()}{m[1][1:]}."
    if m := re.fullmatch(
        rf"((?:The|A|An|It|They|You) [^,;:]+?) ((?:{LATER}) [^,;:]+)\.", s
    ):
        return f"{m[2][0].upper()}{m[2][1:]}, {m[1][0].lower()}{m[1][1:]}."
    return None


def synonyms(s: str, of: Source) -> str | None:
    "Up to two words replaced."
    here = [m for m in re.finditer(r"[A-Za-z]+", s) if m[0] in SYNONYMS]
    for m in sorted(of.rng.sample(here, min(2, len(here))), key=lambda m: -m.start()):
        s = put(s, m, SYNONYMS[m[0]])
    return s if here else None


def passive(s: str, of: Source) -> str | None:
    doer = r"(?:[A-Z][\w'-]+ ?){1,6}|(?:The|A|An|Its|Their)(?: [\w'-]+){1,4}"
    thing = r"(?:[Aa]n?|[Tt]he|[Ii]ts|[A-Z0-9])[^,;:]*?"
    rest = r"(?: (?:in|on|at|for|with|since|from|after|to) .*)?"
    if m := re.fullmatch(rf"({doer}) ({'|'.join(VERBS)}) ({thing})({rest})\.", s):
        return f"{m[3][0].upper()}{m[3][1:]} {VERBS[m[2]]} by {lowered(m[1].strip())}{m[4]}."
    return None


def shortened(s: str, of: Source) -> str | None:
    "Without what stands in brackets, or without a last clause."
    less = re.sub(r" \([^()]*\)", "", s)
    head, _, tail = less.rstrip(".").rpartition(", ")
    added = "which|who|where|when|because|although|though|with|so|as|including|such"
    again = r"(?:and|but|so) (?:it|they|you|he|she|we|the)"
    if (
        len(content_words(head)) > 3
        and "," not in head
        and re.match(rf"(?:{added}|{again})\b", tail)
    ):
        return f"{head}."
    return less if less != s else None


def numerals(s: str, of: Source) -> str | None:
    "Numbers written out, or in digits; signs of units as words."

    def new(m: re.Match) -> str:
        value = int(m[0]) if m[0].isdigit() else -1
        return WRITTEN.get(value, f"{value:,}" if value > 9_999 else m[0])

    out = re.sub(r"\$(\d[\d,.]*\d|\d)(?!\w)", r"\1 dollars", s)
    out = NUMBER.sub(new, re.sub(r"(?<=\d)%", " percent", out))
    back = {v: str(k) for k, v in WRITTEN.items() if k > 1}
    digits = re.sub(rf"\b({'|'.join(back)})\b", lambda m: back[m[0]], s)
    return next((t for t in (out, digits) if t != s), None)


def contracted(s: str, of: Source) -> str | None:
    verbs = "do does is are was did".split()
    pairs = {f"{v} not": f"{v}n't" for v in verbs} | {
        "cannot": "can't",
        "will not": "won't",
    }
    for table in (pairs, {b: a for a, b in pairs.items()}):
        out = s
        for a, b in table.items():
            out = out.replace(a, b)
        if out != s:
            return out
    return None


def prefaced(s: str, of: Source) -> str | None:
    words = (
        "According to the documents,",
        "The passage says that",
        "As the source states,",
        "Yes,",
    )
    return f"{of.rng.choice(words)} {lowered(s)}" if lowered(s) != s else None


def merged(s: str, of: Source) -> str | None:
    "Joined with the sentence behind it."
    whole = sentences(of.passages[0])
    k = whole.index(s) + 1 if s in whole else len(whole)
    t = whole[k] if k < len(whole) else ""
    if not t or t[-1] != "." or len(t.split()) > 30 or lowered(t) == t:
        return None
    return f"{s.rstrip('.')}, and {lowered(t)}"


def twice(s: str, of: Source) -> str | None:
    "Two of the edits, one on the other."
    edits = [reordered, synonyms, passive, shortened, numerals, contracted, prefaced]
    of.rng.shuffle(edits)
    done = 0
    for edit in edits:
        if done < 2 and (new := edit(s, of)):
            s, done = new, done + 1
    return s if done == 2 else None


FALSE: dict[str, Edit] = {
    "number": number,
    "unit": unit,
    "name": name,
    "negation": negation,
    "direction": swapped(DIRECTIONS),
    "modality": swapped(MODALS, both=False),
    "clause": clause,
    "invented": invented,
}
TRUE: dict[str, Edit] = {
    "reordered": reordered,
    "synonyms": synonyms,
    "passive": passive,
    "shortened": shortened,
    "numerals": numerals,
    "contracted": contracted,
    "prefaced": prefaced,
    "merged": merged,
    "two edits": twice,
}


def plain_sentences(text: str) -> list[str]:
    "The sentences that claim something in words: no headings, lists or questions."

    def plain(s: str) -> bool:
        return (
            6 <= len(s.split()) <= 40
            and s[-1] == "."
            and s[0].isupper()
            and not is_title(s)
        )

    return [s for s in sentences(text) if plain(s) and len(content_words(s)) > 3]


def planted(
    passages: Sequence[str],  # of one domain
    half: int,
    most: int = 3,  # sentences of each passage
    beside: int = 2,  # passages that stand beside it
    seed: int = 0,
) -> list[Planted]:
    "Of some sentences of every passage each edit that can be made."
    rng, out = random.Random(f"{seed} {half}"), []
    for p in passages:
        some, rest = plain_sentences(p), [q for q in passages if q != p]
        for s in rng.sample(some, min(most, len(some))):
            near = rng.sample(rest, beside + 1)
            of = Source((p, *near[:beside]), near[beside], half, rng)
            for edits, true in ((FALSE, False), (TRUE, True)):
                made = ((kind, edit(s, of)) for kind, edit in edits.items())
                out += [
                    Planted(k, t, true, of.passages) for k, t in made if t and t != s
                ]
    return out


def of_sample(half: int) -> list[Planted]:
    "Claims from every second document of the sample, domain by domain."
    out = []
    for path in sorted(
        (data_dir("sample") / "corpora" / "passage_level").glob("*.jsonl")
    ):
        by_document = defaultdict(list)
        for _, o in read_jsonl(path):
            by_document[o["title"] or o["id"].split("-")[0]].append(o["text"])
        chosen = sorted(by_document)[half::2]
        out += planted([t for d in chosen for t in by_document[d]], half)
    return out
