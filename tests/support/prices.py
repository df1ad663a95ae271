"""A difference of two runs by the price of a wrong answer and the share of unanswerable questions: what three studies show.

A right answer is worth 1, a refusal of what can be answered 0, a wrong answer minus its price; where there is no answer, a
refusal is worth 1 and an answer minus the price. An answer between right and wrong counts half as each. A sign is shown if the
95 % interval excludes 0 at every point of the range: all points have to reject, so no correction is due for their number. Below
11 conversations in which the two differ nothing is testable: by sign flips their p is at least 2 ** -9, which Holm among a
report's comparisons, some 34, puts above .05.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mtrag_nb.core.types import TO_ASK, TO_REFUSE, Outcome
from mtrag_nb.evaluation.pairs import Pair, Ending, right_and_wrong
from mtrag_nb.evaluation.statistics import Interval, Report
from tests.support.intervals import sum_intervals

PRICES = tuple(n / 10 for n in range(11))  # of a wrong answer
SHARES = (0.05, 0.1, 0.15, 0.2, 0.25)  # of unanswerable questions
TESTABLE = 11  # conversations that have to differ


_FORMER = {"came": "verdict", "said": "answer_digest"}  # fields of 1.0.0


def read_ending(found: Mapping[str, object]) -> Ending:
    "An ending that was written down, under today's names of the fields or those of 1.0.0."
    known = {_FORMER.get(k, k): v for k, v in found.items()}
    return Ending(**known | {"outcome": Outcome(known["outcome"])})


@dataclass(frozen=True, repr=False)
class PriceCurve(Report):
    "A difference by the price of a wrong answer and the share of unanswerable questions."

    name: str
    points: Mapping[tuple[float, float], Interval]  # price, share -> after less before
    turns: tuple[int, int]  # answerable, unanswerable
    changed: int  # conversations in which the two differ

    def sign(self, price: float, share: float) -> int:  # 1, -1; 0: not shown
        i = self.points[price, share]
        return 0 if i.low is None or i.low <= 0 <= i.high else 1 if i.low > 0 else -1

    @property
    def shown(self) -> int:
        "The sign that holds over the whole range; 0 if none does."
        signs = (
            {self.sign(*x) for x in self.points} if self.changed >= TESTABLE else {0}
        )
        return signs.pop() if len(signs) == 1 else 0

    def _where(self, sign: int) -> str:
        "Where a sign holds; '' if nowhere."
        word, n = (
            "better" if sign > 0 else "worse",
            sum(self.sign(*x) == sign for x in self.points),
        )
        prices = dict.fromkeys(p for p, _ in self.points)
        whole = [
            p
            for p in prices
            if all(self.sign(*x) == sign for x in self.points if x[0] == p)
        ]
        if whole:
            span = f"s {whole[0]:g} to {whole[-1]:g}" if whole[1:] else f" {whole[0]:g}"
            return f"{word} at price{span}"
        return f"{word} at {n} of {len(self.points)} points" if n else ""

    @property
    def verdict(self) -> str:
        "Where the sign of the difference is shown, in words."
        if self.changed < TESTABLE:
            return f"not testable: {self.changed} conversations differ"
        if self.shown:
            return "better throughout" if self.shown > 0 else "worse throughout"
        return "; ".join(filter(None, map(self._where, (1, -1)))) or "not shown"

    def _table(self):
        prices, shares = (list(dict.fromkeys(x)) for x in zip(*self.points))
        rows = [[f"{p:g}", *(str(self.points[p, s]) for s in shares)] for p in prices]
        return ["price", *(f"{s:.0%} unanswerable" for s in shares)], rows

    @property
    def note(self) -> str:
        counts = f"{self.turns[0]} answerable and {self.turns[1]} unanswerable turns"
        return f"{self.name}: {self.verdict}. {counts}; {self.changed} conversations differ."


def price_curve(
    p: Pair,
    prices: Sequence[float] = PRICES,
    shares: Sequence[float] = SHARES,
    level: float = 0.95,  # of the intervals; 1 - .05 / n for n pairs of one table (Bonferroni)
) -> PriceCurve | None:
    "The difference of a pair by price and share (0 without unanswerable turns). None if no turn is judged."
    ends = {
        i: (right_and_wrong(e), right_and_wrong(p.after[i]))
        for i, e in p.before.items()
    }
    ids = [
        i for i, x in ends.items() if None not in x and p.after[i].label not in TO_ASK
    ]
    if not ids:
        return None
    refuse = np.array([p.after[i].label in TO_REFUSE for i in ids])
    change = np.array([np.subtract(*reversed(ends[i])) for i in ids])  # right, wrong
    kinds = [k for k in (~refuse, refuse) if k.any()]
    columns = np.hstack([np.where(k[:, None], change, np.nan) for k in kinds])
    grid = [
        (x, s)
        for x in prices
        for s in (shares if len(kinds) == 2 else (float(refuse[0]),))
    ]
    mix = [(1 - s, s) if len(kinds) == 2 else (1.0,) for _, s in grid]
    weights = np.array(
        [[w for m in ms for w in (m, -m * x)] for (x, _), ms in zip(grid, mix)]
    )
    talks = [p.after[i].talk for i in ids]
    found = sum_intervals(columns, talks, weights, level=level)
    changed = len({t for t, c in zip(talks, change) if c.any()})
    counts = (int((~refuse).sum()), int(refuse.sum()))
    return PriceCurve(p.name, dict(zip(grid, found)), counts, changed)
