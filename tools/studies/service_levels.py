"""Promises of a specification, held against what was measured: percentiles of latency, retrieval at six, targets.

A target is met only if the whole interval lies on its good side, not met if the whole interval lies on the other, and else open.
Latency belongs to one conversation at a time on a machine; precision, recall and rank need relevant passages; faithfulness and
relevance need a judge whom somebody has licensed (`7_evaluation/10_licence`). Without one, they are not judged; nor is what a
stand-in did in the place of the specified stage, nor a percentile of so few turns that it is the slowest one. What somebody waits
for is the turn: a node's seconds are those of its visits in a turn together. Turns that broke are counted apart, and those that
ran out of time for themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mtrag_nb.core.html import Table, show
from mtrag_nb.core.record import Trajectory
from mtrag_nb.core.types import SettingsError, build_object
from mtrag_nb.evaluation.statistics import Interval
from mtrag_nb.systems.agents import AGENTS
from mtrag_nb.systems.outside import departures

CUTS = (50, 90, 99)


def percentiles(
    seconds: Sequence[float], cuts: Sequence[int] = CUTS
) -> dict[int, float]:
    "The least time within which so many of a hundred are done: an observed value, none in between; {} for no values."
    if not len(seconds):
        return {}
    return {q: float(np.percentile(seconds, q, method="inverted_cdf")) for q in cuts}


SIX = ("precision at 6", "recall at 6", "MRR")


@dataclass(frozen=True)
class Target:
    "What a specification promises."

    name: str
    limit: float
    above: bool  # True: at least the limit is promised; False: at most
    place: str  # where it is promised


def standing(target: Target, found: Interval | float | None) -> str:
    "met, not met, open, or not judged."
    if isinstance(found, (int, float)):
        found = Interval(float(found), float(found), float(found), 1, 1)
    if found is None or found.value is None:
        return "not judged"
    low, high = (found.low, found.high) if found.low is not None else (-np.inf, np.inf)
    if target.above:
        good = low > target.limit
        bad = high <= target.limit
    else:
        good = high < target.limit
        bad = low >= target.limit
    return "met" if good else "not met" if bad else "open"


class Targets(Table):
    "Promises, what was measured, and whether they are met."

    head = ("", "promised", "found", "", "why, or who says so", "place")

    def __init__(
        self,
        targets: Sequence[Target],
        found: Mapping[str, Interval | float],  # name -> what was measured
        notes: Mapping[str, str] = {},  # name -> who measured it, or why nobody did
    ):
        if unknown := set(found) - {t.name for t in targets}:
            raise SettingsError(f"nothing was promised of {sorted(unknown)[0]!r}")
        self.rows = []
        for t in targets:
            x = found.get(t.name)
            limit = f"{'>' if t.above else '<'} {t.limit:g}"
            measured = str(x) if isinstance(x, Interval) else show(x)
            row = (
                t.name,
                limit,
                measured,
                standing(t, x),
                notes.get(t.name, ""),
                t.place,
            )
            self.rows.append(row)


TARGETS = (
    Target("P50 of a turn, s", 4.0, False, "8.2"),
    Target("P90 of a turn, s", 6.0, False, "8.2"),
    Target("P99 of a turn, s", 10.0, False, "8.2"),
    Target("P90 of retrieval, s", 0.2, False, "8.2"),
    Target("P90 of grading, s", 0.5, False, "8.2"),
    Target("P90 of generation, s", 3.0, False, "8.2"),
    Target("precision at 6", 0.7, True, "8.1"),
    Target("recall at 6", 0.6, True, "8.1"),
    Target("MRR", 0.7, True, "8.1"),
    Target("faithfulness, of 10", 8.0, True, "8.1"),
    Target("answer relevance, of 10", 8.5, True, "8.1"),
    Target("hits of the embedding cache", 0.3, True, "9.2"),
)
PARTS = {
    "retrieval": "retrieve_documents",
    "grading": "grade_documents",
    "generation": "generate",
}


def latencies(levels: ServiceLevels) -> dict[str, float]:
    "What the targets of latency are held against."
    turn = percentiles(levels.turn)
    found = {f"P{q} of a turn, s": v for q, v in turn.items()}
    return found | {
        f"P90 of {part}, s": percentiles(levels.nodes[node])[90]
        for part, node in PARTS.items()
        if node in levels.nodes
    }


UNJUDGED = {
    "faithfulness, of 10": "the judge's scale is 1 to 10, and no judge has a licence",
    "answer relevance, of 10": "no protocol here asks a judge for it",
}


def least_turns(q: int) -> int:
    "Turns from which on a percentile is not simply the slowest."
    return -(-100 // (100 - q))


def unjudged(
    name: str, profile: str, n: int
) -> str:  # n: turns one at a time; "" if the target can be judged
    "Why a target cannot be judged under a profile: a stand-in for what the specification aims at, or too few turns."
    if name in UNJUDGED:
        return UNJUDGED[name]
    settings = AGENTS.configure(profile)
    cut = re.match(r"P(\d+)", name)
    searches = name in SIX or "retrieval" in name
    other = any(
        d.setting.startswith("retrieval.")
        for d, _ in departures(AGENTS, "published", settings).rows
    )
    by_cosine = name == "P90 of grading, s" and settings.own.grade == "cosine"
    why = {
        "a cosine grades: nothing is asked": by_cosine,
        f"another model: {settings.chat.name}": bool(cut)
        and not searches
        and not by_cosine
        and profile not in AGENTS.profiles,
        "another search than the specified": searches and other,
        f"{n} turns are too few for it": bool(cut) and n < least_turns(int(cut[1])),
    }
    return "; ".join(reason for reason, holds in why.items() if holds)


def held_to_targets(told: Mapping) -> Targets:
    "The targets and what came of them, from what `main` wrote."
    six = {
        m: build_object(Interval, i) for m, i in told["beside"]["six"]["agents"].items()
    }
    cache = told["cache"]
    waits = {k: v for k, v in told["alone"].items() if k != "n"}
    out = Targets(
        TARGETS,
        {**waits, **six, TARGETS[-1].name: cache["hits"] / max(1, cache["asked"])},
        {TARGETS[-1].name: "of five systems over the same tasks"},
    )
    why = {
        t.name: unjudged(t.name, told["profile"], told["alone"]["n"]) for t in TARGETS
    }
    if told["cache"].get("not judged"):
        why[TARGETS[-1].name] = told["cache"]["not judged"]
    out.rows = [
        (*r[:3], "not judged", why[r[0]], r[5]) if why[r[0]] else r for r in out.rows
    ]
    return out


def seconds_by_node(turns: Iterable[Trajectory]) -> dict[str, list[float]]:
    "Node -> its seconds in each turn that visited it, in the order of the first visits."
    out: dict[str, list[float]] = {}
    for t in turns:
        in_turn: dict[str, float] = {}
        for s in t.steps:
            in_turn[s.node] = in_turn.get(s.node, 0.0) + s.seconds
        for node, seconds in in_turn.items():
            out.setdefault(node, []).append(seconds)
    return out


class ServiceLevels(Table):
    "Percentiles of a run."

    head = ("seconds", "turns", *(f"P{q}" for q in CUTS))

    def __init__(
        self,
        turns: Iterable[Trajectory],
        how: str,  # how they were run, e.g. "one conversation at a time"
        too_long: str = "TurnTooLong",  # the type of error of a turn that ran out of time
    ):
        turns = list(turns)
        whole = [t for t in turns if not t.failed]
        self.failed = len(turns) - len(whole)
        self.late = sum(bool(t.error and t.error.type == too_long) for t in turns)
        self.turn = [t.seconds for t in whole]
        self.nodes = seconds_by_node(whole)
        every = {"a turn": self.turn, **self.nodes}
        self.rows = [
            (n, len(s), *percentiles(s).values()) for n, s in every.items() if s
        ]
        self.note = (
            f"{how}; {self.failed} turns broke, {self.late} of them ran out of time"
        )
