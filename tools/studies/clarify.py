"""A gate that asks back where a question says too little: fitted, chosen and judged on MTRAG-UN's questions.

A ridge-penalized logistic regression of sixteen numbers of a question; the penalty was fixed beforehand. Each half of the
conversations (every other one, by name) is scored by weights from the other half, and once more each collection by weights from
the three others. The gate as it stands (`tests/support/clarity.py`) has weights from all questions, and its threshold from
probabilities that each half gave the other. Asking back rightly is worth 1, and each clear question that is asked back costs its
answer; gain is in points of the mean conditioned score, a hundred being all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from mtrag_nb.core.html import text_table
from mtrag_nb.core.types import TO_ASK
from mtrag_nb.data.mtrag import read_gold, read_tasks
from mtrag_nb.data.official import official_file
from mtrag_nb.evaluation.calibrate import _halves
from mtrag_nb.evaluation.statistics import Interval, auroc_interval, mean_interval
from tests.support import clarity
from tools.study import kept_in


@dataclass(frozen=True)
class Table:
    "The questions of a set, as numbers."

    names: tuple[str, ...]
    x: np.ndarray  # [questions, names]
    labels: np.ndarray
    conversations: np.ndarray
    domains: np.ndarray
    turns: np.ndarray

    @property
    def vague(self) -> np.ndarray:
        return np.array([v in TO_ASK for v in self.labels])

    def only(self, names: Iterable[str]) -> Table:
        return replace(
            self, names=tuple(names), x=self.x[:, [self.names.index(n) for n in names]]
        )


def read_table(part: Mapping) -> Table:
    "A set of the file, in which a column is one line."
    x = np.array([v.split() for v in part["features"].values()], float).T
    labels, talks, domains = (
        np.array(part[k].split()) for k in ("labels", "talks", "domains")
    )
    turns = np.array(part["turns"].split(), int)
    return Table(tuple(part["features"]), x, labels, talks, domains, turns)


PENALTY = 10.0  # of the squared weights, over standardized numbers
PRICE = 0.5  # what an answer to a clear question is worth, where asking back rightly is worth 1


def fit(
    x: np.ndarray, y: np.ndarray
) -> np.ndarray:  # [names + 1]: weights, then the intercept
    "The gate's weights of the numbers as they are, by ridge regression over standardized ones."
    mean = x.mean(axis=0)
    spread = np.maximum(x.std(axis=0), 1e-9)
    model = LogisticRegression(C=1 / PENALTY, tol=1e-8, max_iter=10_000)
    model.fit((x - mean) / spread, y)
    w = model.coef_[0] / spread
    return np.r_[w, model.intercept_ - w @ mean]


def probability(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    "The probability that each question says too little, by the weights of `fit`."
    return expit(x @ w[:-1] + w[-1])


def cross_fit(t: Table, groups: np.ndarray) -> np.ndarray:  # groups: of each question
    "Probabilities of each group by weights that come from all the others."
    p = np.zeros(len(groups))
    for g in np.unique(groups):
        here = groups == g
        p[here] = probability(t.x[here], fit(t.x[~here], t.vague[~here]))
    return p


def conversation_half(t: Table) -> np.ndarray:  # [questions] 0 or 1
    "The half of each question, by its conversation."
    first, _ = _halves(t.conversations)
    return np.array([int(c not in first) for c in t.conversations])


def gain(
    p: np.ndarray, vague: np.ndarray, threshold: float, price: float = PRICE
) -> float:
    "What asking back at a threshold adds to the mean conditioned score, in points of a hundred; below 0 it costs."
    asked = p >= threshold
    return float(
        100 * ((asked & vague).sum() - price * (asked & ~vague).sum()) / len(p)
    )


def best_point(p: np.ndarray, vague: np.ndarray, price: float = PRICE) -> float:
    "The threshold with the largest gain: the middle between the last question that is asked back and the next."
    x = np.unique(np.round(p, 4))[::-1]
    n = int(np.argmax([gain(p, vague, v - 1e-4, price) for v in x]))
    return round(float(x[n] + x[min(n + 1, len(x) - 1)]) / 2, 3)


@cache
def kept_table(name: str = "mtragun-human") -> Table:
    "A set of questions that is kept."
    return read_table(kept_in("clarify")["sets"][name])


@cache
def crossed_probabilities() -> np.ndarray:
    "Of each question of MTRAG-UN: what the gate fitted to the other half says."
    un = kept_table()
    return cross_fit(un, conversation_half(un))


@cache
def fitted_gate() -> dict:
    "The gate as it stands: weights and bias from all questions, the threshold from the crossed halves."
    un = kept_table()
    *w, bias = fit(un.x, un.vague).round(2).tolist()
    threshold = round(best_point(crossed_probabilities(), un.vague), 2)
    return {"weights": dict(zip(un.names, w)), "bias": bias, "threshold": threshold}


def groups_of_numbers() -> dict[str, Sequence[str]]:
    "The groups of the sixteen numbers whose worth is told apart."
    names = kept_table().names
    return {
        "the words": names[:10],
        "words and history": names[:12],
        "the hits alone": names[12:],
        "all but the question mark": [n for n in names if n != "asks"],
        "all": names,
    }


def area(
    p: np.ndarray, some: np.ndarray | slice = slice(None), **more: np.ndarray
) -> Interval:
    "AUROC of probabilities for underspecified questions of MTRAG-UN."
    un = kept_table()
    return auroc_interval(p[some], un.vague[some], un.conversations[some], **more)


@cache
def group_probabilities(name: str) -> np.ndarray:
    "Crossed probabilities by one group of numbers."
    un = kept_table()
    return cross_fit(un.only(groups_of_numbers()[name]), conversation_half(un))


def added_by_hits() -> Interval:
    "What the hits add to words and history, in AUROC."
    return area(crossed_probabilities(), minus=group_probabilities("words and history"))


def show_groups() -> None:
    "Print the AUROC of each group of numbers."
    un = kept_table()
    half = conversation_half(un)
    rows = []
    for name, names in groups_of_numbers().items():
        q = group_probabilities(name)
        apart = cross_fit(un.only(names), un.domains)
        parts = [f"{area(q, half == h).value:.2f}" for h in (0, 1)]
        against = area(q, un.vague | (un.labels == "UNANSWERABLE"))
        rows.append([name, str(area(q)), *parts, str(area(apart)), str(against)])
    heads = ["numbers", "AUROC", "first half", "second half", "by collection"]
    print(text_table([*heads, "against unanswerable ones"], rows))
    print(f"The hits add to words and history: {added_by_hits()}")


@dataclass(frozen=True, eq=False)
class Point:
    "What a threshold does to questions of MTRAG-UN."

    p: np.ndarray
    vague: np.ndarray
    threshold: float
    price: float = PRICE

    def share(self, hit: np.ndarray, among: np.ndarray) -> Interval:
        return mean_interval(hit[among].astype(float), np.arange(len(hit))[among])

    @property
    def asked(self) -> np.ndarray:
        return self.p >= self.threshold

    @property
    def gain(self) -> float:
        return gain(self.p, self.vague, self.threshold, self.price)

    @property
    def shares(self) -> tuple[Interval, Interval, Interval]:
        "Precision, recall, and the share of clear questions that are asked back."
        a = self.asked
        v = self.vague
        return self.share(v, a), self.share(a, v), self.share(a, ~v)

    def row(self) -> list:
        counts = [self.asked.sum(), (self.asked & self.vague).sum()]
        sizes = [len(self.vague), self.vague.sum()]
        return [
            f"{self.threshold:.2f}",
            *map(int, sizes + counts),
            *map(str, self.shares),
            f"{self.gain:+.1f}",
        ]


HEADS = ["questions", "underspecified", "asked back", "rightly", "precision", "recall"]
HEADS = ["threshold", *HEADS, "clear ones asked back", "gain"]


def judge(choosing: int, price: float = PRICE) -> Point:
    "The weights and threshold of one half, on the other."
    un = kept_table()
    half = conversation_half(un)
    there = half == choosing
    here = half != choosing
    inner = replace(
        un,
        x=un.x[there],
        labels=un.labels[there],
        conversations=un.conversations[there],
    )
    threshold = best_point(
        cross_fit(inner, conversation_half(inner)), inner.vague, price
    )
    w = fit(inner.x, inner.vague)
    return Point(probability(un.x[here], w), un.vague[here], threshold, price)


def joined_points() -> tuple[Point, Point]:
    "MTRAG-UN with the thresholds that each half chose for the other, and with that of the rule."
    un = kept_table()
    p = crossed_probabilities()
    first = judge(0)
    second = judge(1)
    other = np.where(conversation_half(un) == 0, second.threshold, first.threshold)
    chosen = Point((p >= other).astype(float), un.vague, 0.5)
    return chosen, Point(p, un.vague, PRICE / (1 + PRICE))


def show_points() -> None:
    "Print what thresholds do that one half chose for the other, by what an answer is worth; then both halves together."
    rows = []
    for price in (0.3, 0.5, 0.7):
        for h, name in enumerate(("first", "second")):
            rows.append([price, f"{name} half", *judge(h, price).row()])
    print(text_table(["an answer is worth", "chosen on", *HEADS], rows, digits=1), "\n")
    chosen, ruled = joined_points()
    rows = [["chosen on the other half", *chosen.row()[1:]]]
    rows.append(["a third, by rule", *ruled.row()[1:]])
    print(text_table(HEADS, rows))


def stated_bins() -> list[tuple[str, int, float, Interval]]:
    "Bins of the gate's probabilities: name, questions, mean stated, share of underspecified questions."
    un = kept_table()
    p = crossed_probabilities()
    found = []
    for a, b in pairwise((0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.001)):
        some = (p >= a) & (p < b)
        observed = mean_interval(un.vague[some] * 1.0, un.conversations[some])
        name = f"{a:.2f} to {min(b, 1):.2f}"
        found.append((name, int(some.sum()), p[some].mean(), observed))
    return found


def show_bins() -> None:
    "Print whether the gate's probabilities hold, and how often seven large models ask back."
    rows = [
        [name, n, f"{stated:.2f}", str(observed)]
        for name, n, stated, observed in stated_bins()
    ]
    print(text_table(["stated", "questions", "mean stated", "observed"], rows), "\n")
    vague = kept_table().vague
    heads = ["model", f"asks back, of {vague.sum()} underspecified"]
    heads.append(f"of {(~vague).sum()} others")
    askers = kept_in("clarify")["askers"]
    print(text_table(heads, [[name, *counts] for name, counts in askers.items()]))


@cache
def false_alarms() -> dict[str, Interval]:
    "The shares of MTRAG's own questions that the gate asks back, by place and collection."
    human = kept_table("mtrag-human")
    gate = fitted_gate()
    w = np.array([*gate["weights"].values(), gate["bias"]])
    sent = (probability(human.x, w) >= gate["threshold"]).astype(float)
    parts = {
        "all": human.turns > 0,
        "first turns": human.turns == 1,
        "later turns": human.turns > 1,
    }
    parts |= {d: human.domains == d for d in sorted(set(human.domains))}
    return {
        name: mean_interval(sent[s], human.conversations[s])
        for name, s in parts.items()
    }


def break_even() -> dict[str, float]:
    "The shares of underspecified questions from which on asking back pays, by whose false alarms are counted."
    chosen, _ = joined_points()
    _, recall, false = chosen.shares
    alarms = {
        "MTRAG-UN's clear questions": false.value,
        "MTRAG-human": false_alarms()["all"].value,
    }
    return {n: PRICE * f / (recall.value + PRICE * f) for n, f in alarms.items()}


def show_cost() -> None:
    "Print what the gate spoils where nothing is underspecified, where it pays, and its weights."
    alarms = false_alarms()
    rows = [[name, i.n, str(i)] for name, i in alarms.items()]
    print(text_table(["MTRAG-human", "questions", "asked back"], rows), "\n")
    chosen, _ = joined_points()
    shares = [chosen.shares[2].value, alarms["all"].value]
    rows = []
    for (name, even), f in zip(break_even().items(), shares):
        rows.append([name, f"{f:.1%}", f"{even:.1%} underspecified"])
    print(text_table(["false alarms as among", "share", "asking back pays from"], rows))
    un = kept_table()
    gains = [judge(h).gain for h in (0, 1)]
    cost = 100 * PRICE * alarms["all"].value
    print(
        f"On MTRAG-human, where none is underspecified by label, it costs {cost:.1f} points of a hundred; on MTRAG-UN, "
        f"with {un.vague.mean():.0%} of them, it gains {gains[0]:.1f} and {gains[1]:.1f}.\n"
    )
    weights = fitted_gate()["weights"]
    scaled = {k: w * s for (k, w), s in zip(weights.items(), un.x.std(axis=0))}
    rows = []
    for k in sorted(scaled, key=lambda k: -abs(scaled[k])):
        rows.append([k, f"{weights[k]:+.2f}", f"{scaled[k]:+.2f}"])
    print(text_table(["number", "weight", "for one standard deviation"], rows))


def check_labels(data: Path) -> None:
    "Assert that no passages come with 75 unanswerable and 27 underspecified tasks: they give the label away."
    path = official_file(data, "mtragun-human/reference")
    of_file = set(kept_in("clarify")["sets"]["mtragun-human"]["tasks"].split())
    gold = {t: g for t, g in read_gold(path).items() if t in of_file}
    assert gold.keys() == of_file
    tasks = read_tasks(path, contexts=True)
    empty = [t.id for t in tasks if not t.contexts and t.id in gold]
    labels = Counter(gold[t].answerability for t in empty)
    assert labels == {"UNANSWERABLE": 75, "UNDERSPECIFIED": 27}


def check_findings() -> None:
    "Assert what the study says of the gate, of the numbers that are kept."
    un = kept_table()
    human = kept_table("mtrag-human")
    sizes = (len(un.vague), un.vague.sum(), len(set(un.conversations)))
    assert sizes == (399, 62, 399)
    assert (len(human.vague), human.vague.sum()) == (842, 0)
    own = {"weights": clarity._WEIGHTS, "bias": clarity._BIAS}
    own["threshold"] = clarity._THRESHOLD
    assert fitted_gate() == kept_in("clarify")["gate"] == own
    areas = {name: area(group_probabilities(name)) for name in groups_of_numbers()}
    assert areas["all"].low > 0.7
    assert areas["all but the question mark"].low > 0.7
    assert added_by_hits().low > 0
    order = [areas[n].value for n in ("all", "words and history", "the hits alone")]
    assert order == sorted(order, reverse=True)
    chosen, ruled = joined_points()
    points = [judge(h) for h in (0, 1)]
    precision, recall, _ = chosen.shares
    assert chosen.row()[4] == sum(point.row()[4] for point in points)
    assert all(point.gain > 0 for point in (*points, ruled))
    assert precision.low > un.vague.mean()
    assert precision.value < 0.55 < recall.value
    inside = 0
    for _, _, stated, observed in stated_bins():
        inside += observed.low is not None and observed.low <= stated <= observed.high
    assert inside >= 5
    askers = kept_in("clarify")["askers"]
    assert len(askers) == 7
    assert all(sum(counts) <= 2 for counts in askers.values())
    alarms = false_alarms()
    assert alarms["first turns"].low > 0.2
    assert alarms["later turns"].high < 0.06
    assert alarms["all"].low > 0.03
    assert break_even()["MTRAG-human"] < un.vague.mean()
    assert max(break_even().values()) < 0.1
