"""How often intervals over conversations hold the true value of simulated benchmarks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import data_dir, read_json, write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.types import build_object
from mtrag_nb.evaluation.statistics import (
    LEAST,
    Interval,
    auroc_interval,
    difference_interval,
    mean_interval,
)


@dataclass(frozen=True)
class Coverage:
    "What the intervals of one kind hold, at one number of conversations."

    what: str
    conversations: int
    runs: int
    printed: float  # share of the runs in which an interval was printed
    held: float | None  # of these, share that held the truth; None: none was printed
    width: float | None  # their median width


def coverage_table(found: list[Coverage]) -> str:
    "A row a kind, a column a number of conversations: the share that held the truth, and how often an interval was printed."

    def cell(c):
        return (
            "none printed"
            if c.held is None
            else f"{c.held:.3f}"
            + (f" ({c.printed:.0%} printed)" if c.printed < 0.995 else "")
        )

    by = {(c.what, c.conversations): cell(c) for c in found}
    columns = sorted({c.conversations for c in found})
    return text_table(
        ["a nominal 95 % at ... conversations", *map(str, columns)],
        [
            [w, *(by.get((w, k), "") for k in columns)]
            for w in dict.fromkeys(c.what for c in found)
        ],
    )


def read_coverage(path: str | Path) -> list[Coverage]:
    "What `main` wrote down."

    return [build_object(Coverage, c) for c in read_json(path)["coverage"]]


ICC = 0.3  # share of the variance that belongs to the conversation


def conversations(rng: np.random.Generator, k: int) -> np.ndarray:
    "The conversation of each task: k of them, with 4 to 10 tasks."
    return np.repeat(np.arange(k), rng.integers(4, 11, k))


def latent(rng: np.random.Generator, talks: np.ndarray) -> np.ndarray:
    "A value for each task."
    own = rng.normal(size=len(talks))
    return (
        math.sqrt(ICC) * rng.normal(size=talks.max() + 1)[talks]
        + math.sqrt(1 - ICC) * own
    )


Case = Callable[
    [np.random.Generator, int], Interval
]  # random numbers, conversations -> an interval


def a_mean(rng: np.random.Generator, k: int) -> Interval:
    "Of scores whose true mean is 0."
    talks = conversations(rng, k)
    return mean_interval(latent(rng, talks), talks, 1000)


def a_share(rng: np.random.Generator, k: int, true: float) -> Interval:
    "Of tasks that are right."
    talks = conversations(rng, k)
    scale = 1 / ICC - 1
    chance = rng.beta(true * scale, (1 - true) * scale, k)[talks]
    return mean_interval((rng.random(len(talks)) < chance).astype(float), talks)


def a_difference(rng: np.random.Generator, k: int) -> Interval:
    "Of two systems' scores that share the difficulty of a task; its true mean is 0."
    talks = conversations(rng, k)
    hard = latent(rng, talks)
    a, b = (hard + 0.5 * latent(rng, talks) for _ in range(2))
    return difference_interval(a - b, talks, 1000)


def two_shares(rng: np.random.Generator, k: int) -> Interval:
    "The difference of two systems that are right where difficulty and chance allow; its true mean is 0."
    talks = conversations(rng, k)
    hard = latent(rng, talks)
    a, b = (hard + 0.7 * latent(rng, talks) > 0 for _ in range(2))
    return difference_interval(a.astype(float) - b, talks, 1000)


def _labelled(
    rng: np.random.Generator, k: int, positives: float
) -> tuple[np.ndarray, np.ndarray]:
    "Conversations and labels, with this share of positives."
    from scipy.special import ndtri

    talks = conversations(rng, k)
    return talks, latent(rng, talks) < ndtri(positives)


def separation(true: float) -> float:
    "How far apart two normal distributions of variance 1 lie whose AUROC is this."
    from scipy.special import ndtri

    return float(ndtri(true)) * math.sqrt(2)


def an_auroc(
    rng: np.random.Generator, k: int, true: float, positives: float
) -> Interval:
    "Of a score with this AUROC."
    talks, labels = _labelled(rng, k, positives)
    return auroc_interval(separation(true) * labels + latent(rng, talks), labels, talks)


def two_aurocs(
    rng: np.random.Generator, k: int, true: float, other: float, positives: float
) -> Interval:
    "Of two scores that have half of their noise in common."
    (talks, labels), half = _labelled(rng, k, positives), math.sqrt(0.5)
    shared = latent(rng, talks)
    x, y = (
        separation(t) * labels + half * shared + half * latent(rng, talks)
        for t in (true, other)
    )
    return auroc_interval(x, labels, talks, minus=y)


SKEWED = (1.5, 6.0)  # of a beta distribution with mean .2
ZEROS, ONES = (
    0.22,
    0.06,
)  # shares of the turns that are refused, and that are refused rightly
CHANGED = 0.12  # share of the turns that a mechanism changes


def _skewed(u: np.ndarray) -> np.ndarray:
    "Uniform numbers as scores with a long tail to the right."
    from scipy.stats import beta

    return beta.ppf(u, *SKEWED)


def a_skewed_mean(rng: np.random.Generator, k: int) -> Interval:
    "Of scores like ROUGE-L; its true value is .2."
    from scipy.special import ndtr

    talks = conversations(rng, k)
    return mean_interval(_skewed(ndtr(latent(rng, talks))), talks, 1000)


def a_mixed_mean(rng: np.random.Generator, k: int) -> Interval:
    "Of such scores with zeros and ones in them."
    from scipy.special import ndtr

    talks = conversations(rng, k)
    u = ndtr(latent(rng, talks))
    inside = np.clip((u - ZEROS) / (1 - ZEROS - ONES), 0, 1)
    return mean_interval(
        np.where(u < ZEROS, 0.0, np.where(u > 1 - ONES, 1.0, _skewed(inside))),
        talks,
        1000,
    )


def a_sparse_difference(
    rng: np.random.Generator, k: int, one: bool = False
) -> Interval:  # one: one task a conversation
    "Of a mechanism that gains such a score in some turns and is nothing in the others."
    from scipy.special import ndtr

    talks = np.arange(k) if one else conversations(rng, k)
    changed = ndtr(latent(rng, talks)) < CHANGED
    return difference_interval(
        np.where(changed, _skewed(rng.random(len(talks))), 0.0), talks, 1000
    )


CASES: dict[str, tuple[float, Case]] = {  # what -> its true value, and how it is made
    "mean": (0.0, a_mean),
    "share, true .5": (0.5, partial(a_share, true=0.5)),
    "share, true .2": (0.2, partial(a_share, true=0.2)),
    "share, true .05": (0.05, partial(a_share, true=0.05)),
    "paired difference": (0.0, a_difference),
    "paired difference of shares": (0.0, two_shares),
    "AUROC .85, three in ten positive": (
        0.85,
        partial(an_auroc, true=0.85, positives=0.3),
    ),
    "AUROC .7, half positive": (0.7, partial(an_auroc, true=0.7, positives=0.5)),
    "AUROC .85 minus .75": (
        0.1,
        partial(two_aurocs, true=0.85, other=0.75, positives=0.3),
    ),
    "mean, skewed like ROUGE-L": (0.2, a_skewed_mean),
    "mean, with zeros and ones": (ONES + 0.2 * (1 - ZEROS - ONES), a_mixed_mean),
    "difference, 12 % of turns change": (0.2 * CHANGED, a_sparse_difference),
    "the same, one turn each": (0.2 * CHANGED, partial(a_sparse_difference, one=True)),
}
TALKS = (4, 6, 10, 20, 40, 110)


def coverage(what: str, k: int, runs: int, seed: int = 0) -> Coverage:
    "Simulate one kind."
    true, case = CASES[what]
    rng = np.random.default_rng([seed, k, list(CASES).index(what)])
    found = [i for i in (case(rng, k) for _ in range(runs)) if i.low is not None]
    if not found:
        return Coverage(what, k, runs, 0.0, None, None)
    held = sum(i.low <= true <= i.high for i in found) / len(found)
    return Coverage(
        what,
        k,
        runs,
        len(found) / runs,
        round(held, 4),
        round(float(np.median([i.high - i.low for i in found])), 3),
    )


def simulate(
    out: str | Path = "data/measured/intervals.json", runs: int = 2000
) -> list[Coverage]:
    "Simulate all kinds at all numbers of conversations, print it, write it down. Takes some minutes."
    found = [coverage(what, k, runs) for what in CASES for k in TALKS]
    print(coverage_table(found))
    write_json(out, {"icc": ICC, "coverage": found})
    return found


SKEWED_KINDS = ("mean, ", "difference, ", "the same")


def show_coverage() -> None:
    "Print the share of intervals that held the truth, by kind and number of conversations."
    coverages = read_coverage(data_dir("measured") / "intervals.json")
    print(coverage_table(coverages))
    means = []
    sparse = []
    for c in coverages:
        if c.held is not None and c.what.startswith(SKEWED_KINDS):
            (means if c.what.startswith("mean") else sparse).append(c.held)
    print(
        f"skewed means: {min(means):.2f} to {max(means):.2f}; "
        f"sparse differences: {min(sparse):.2f} to {max(sparse):.2f}"
    )


def check_findings() -> None:
    "Assert what the study says of intervals, of the results that are kept."
    for c in read_coverage(data_dir("measured") / "intervals.json"):
        assert c.runs == 2000
        assert (c.held is None) == (c.conversations < LEAST)
        if c.held is None:
            continue
        if c.what.startswith("share"):
            assert c.held >= 0.94
            if c.what == "share, true .5":
                assert c.held <= 0.975
            if c.what == "share, true .2":
                assert c.held <= 0.985
        elif c.what.startswith("mean, "):
            assert 0.90 <= c.held <= 0.955
        elif c.what.startswith(SKEWED_KINDS):
            assert 0.85 <= c.held <= 0.955
        else:
            assert 0.93 <= c.held <= 0.97
        if c.what == "the same, one turn each" and c.conversations == 110:
            assert 0.90 < c.held < 0.95
