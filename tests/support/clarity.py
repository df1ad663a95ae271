"The gate that asks back where a question says too little: no part of a system, since it did not pay (`9_studies/00_retrieval`, part *Asking back*; a signal in `9_studies/04_released`). A logistic function of sixteen numbers: ten of the words, two of how near the question is to what was said before, four of the scores and titles of what was found."

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mtrag_nb.core.text import content_words, known_words
from mtrag_nb.core.types import DataError, Turn

if TYPE_CHECKING:
    from mtrag_nb.models.chat import EmbedderLike

_PHRASE = re.compile(
    r"\b(the|this|that|these|those|such)(?=((?:\s+[a-z][\w'’-]*){1,3}))", re.I
)
_ENDS = "the this that these those a an is are was were be been can could will would do does did has have had of in on"
_ENDS = {
    *_ENDS.split(),
    *"at for to from by with and or as which who whom whose it they".split(),
}


def _pointed_at(question: str) -> list[tuple[str, str]]:
    'The phrases of a question that point at something unnamed: word and phrase, e.g. ("the", "burger").'
    found = []
    for m in _PHRASE.finditer(question):
        words = m[2].split()
        end = next(
            (n for n, w in enumerate(words) if w in _ENDS or not w[0].islower()),
            len(words),
        )
        if end:
            found.append((m[1].lower(), " ".join(words[:end])))
    return found


def _unclear(question: str, history: Sequence[Turn] = ()) -> list[str]:
    "The phrases, as they stand in the question, that point at something of which nothing was said before."
    before = known_words([t.text for t in history])
    return [
        f"{d} {p}"
        for d, p in _pointed_at(question)
        if not set(content_words(p)) & before
    ]


def _word_features(question: str, history: Sequence[Turn] = ()) -> dict[str, float]:
    words, content = question.split(), content_words(question)
    pointers, before = (
        [d for d, _ in _pointed_at(question)],
        known_words(t.text for t in history),
    )
    pronoun = re.search(
        r"\b(?:it|its|they|them|their|he|she|his|her|him|ones?)\b", question, re.I
    )
    return {
        "words": math.log1p(len(words)),
        "this": float(any(d not in ("the", "such") for d in pointers)),
        "the": float("the" in pointers),
        "unclear": float(min(2, len(_unclear(question, history)))),
        "pronoun": float(bool(pronoun)),
        "no name": float(not any(re.match(r"[\"'“(]?[A-Z0-9]", w) for w in words[1:])),
        "first": float(not history),
        "known": sum(w in before for w in content) / max(1, len(content)),
        "asks": float(question.strip().endswith("?")),
        "two": float(question.count("?") > 1 or " and " in question),
    }


# What stands for a question that opens a conversation
_ALONE = {"near the last": 0.3, "nearest": 0.4}


def _near_features(
    question: str, history: Sequence[Turn], embedder
) -> dict[str, float]:
    "How near a question is to the user's last one, and to the nearest turn; cosines."
    turns = [t for t in history if t.text.strip()]
    if not turns:
        return dict(_ALONE)
    (asked,) = embedder.encode([question], query=True)
    cosines = (embedder.encode([t.text for t in turns], query=True) @ asked).tolist()
    by_user = [x for x, t in zip(cosines, turns) if t.speaker == "user"]
    last = by_user[-1] if by_user else _ALONE["near the last"]
    return {"near the last": last, "nearest": max(cosines)}


def _hit_features(scores: Sequence[float], titles: Sequence[str]) -> dict[str, float]:
    "What the kept hits tell, by cosines and titles. Raises DataError for a score that is no number."
    import numpy as np

    x, names = np.asarray(scores, float), ("best", "spread", "entropy", "titles")
    if not np.isfinite(x).all():
        remedy = "Search again: the record is broken"
        raise DataError("a hit has a score that is no number", remedy=remedy)
    if not len(x):
        return dict.fromkeys(names, 0.0)
    p = np.exp((x - x.max()) / 0.05)
    p /= p.sum()
    entropy, n = (
        -(p * np.log(np.maximum(p, 1e-12))).sum(),
        len({t.strip().lower() for t in titles}),
    )
    return dict(zip(names, map(float, (x.max(), x.max() - x.min(), entropy, n))))


def features(
    question: str, history: Sequence[Turn], embedder: EmbedderLike, scores, titles
) -> dict[str, float]:
    "All that the gate looks at; scores and titles of the hits that were kept."
    words, near = (
        _word_features(question, history),
        _near_features(question, history, embedder),
    )
    return {**words, **near, **_hit_features(scores, titles)}


_WEIGHTS = {  # of the numbers as they are
    "words": 0.54,
    "this": 1.3,
    "the": 0.75,
    "unclear": -0.05,
    "pronoun": 0.4,
    "no name": 0.6,
    "first": 1.15,
    "known": 0.03,
    "asks": 1.39,
    "two": -0.74,
    "near the last": -0.67,
    "nearest": -2.81,
    "best": 1.91,
    "spread": -1.0,
    "entropy": 0.8,
    "titles": 0.49,
}
_BIAS, _THRESHOLD = -6.73, 0.36  # ask back at or above it


def underspecified(told: Mapping[str, float]) -> float:  # `features` -> in [0, 1]
    "How likely it is that a question says too little. Raises DataError for other numbers than `features`."
    if odd := sorted(told.keys() ^ _WEIGHTS.keys()):
        remedy = "Give the numbers of `features`"
        raise DataError(f"the gate has no weight for {odd[0]!r}", remedy=remedy)
    logit = _BIAS + sum(_WEIGHTS[k] * told[k] for k in _WEIGHTS)
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, logit))))
