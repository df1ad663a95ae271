"""The threshold of a gate, moved over the recorded scores of a run: risk against coverage.

One row for each turn: the gate's score, and whether the question has an answer. Only the gate moves: a turn that ended later for
another reason stays refused, and one without passages too. A turn that the run's own gate refused has no answer on the record;
with a lower threshold it counts as answered, and as `unseen`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from matplotlib.figure import Figure

from mtrag_nb.core.html import SERIES_COLOURS
from mtrag_nb.core.record import Trajectory
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import TO_ASK, TO_REFUSE, DataError, Gold
from mtrag_nb.show.figures import QUIET, _legend_below, blank, house_style


@dataclass(frozen=True)
class GatePoint:
    "What a threshold does to the turns of a run."

    threshold: float  # the gate lets pass what scores at or above it
    answered: int  # turns that have an answer, and get one
    wrong: int  # turns that have none, and get one
    refused: int  # turns that have none, and get none
    lost: int  # turns that have an answer, and get none: over-abstention
    unseen: int  # of those that get an answer: how many the run did not generate
    risk: float | None  # mean loss over the answers; None without any

    @property
    def coverage(self) -> float:
        "The share of turns that get an answer."
        given = self.answered + self.wrong
        return given / max(1, given + self.refused + self.lost)


@dataclass(frozen=True)
class GateCurve:
    "The dial of a run."

    points: tuple[GatePoint, ...]  # from the open gate to the closed one
    way: str  # how the gate scored: yesno, cosine
    used: float  # the run's own threshold
    loss: str  # "label": an answer costs 1 where the label says that there is none, else nothing; "score": else 1 - its score
    left_out: int  # turns without a label that decides, errors

    @property
    def here(self) -> GatePoint:
        "The run's own threshold."
        return next(
            (p for p in self.points if p.threshold >= self.used), self.points[-1]
        )


def operating_point(curve: GateCurve, risk: float) -> GatePoint | None:
    "The threshold that answers the most turns at a risk of at most so much; None if no threshold keeps it."
    kept = [p for p in curve.points if p.risk is not None and p.risk <= risk]
    return max(kept, key=lambda p: (p.coverage, -p.threshold), default=None)


FATES = {  # a count of GatePoint -> its colour
    "answered": SERIES_COLOURS[2],
    "lost": SERIES_COLOURS[4],
    "wrong": SERIES_COLOURS[1],
    "refused": QUIET,
}
DASHES = ("-", (0, (5, 2)), (0, (1.2, 1.5)), (0, (8, 2, 1.2, 2)))
LOOKS = tuple(zip(SERIES_COLOURS, "osD^", DASHES))  # colour, marker and line


@house_style
def gate_figure(
    curve: GateCurve,
    risk: float | None = None,  # mark the operating point for this risk
) -> Figure:
    "Left: risk against coverage. Right: what becomes of the turns as the threshold rises."
    fig = blank(height=3.1)
    left, right = fig.subplots(1, 2)
    known = [p for p in curve.points if p.risk is not None]
    x = [p.coverage for p in known]
    y = [p.risk for p in known]
    left.plot(x, y, drawstyle="steps-post", color=QUIET, label="all thresholds")
    marks = {"as run": curve.here}
    if risk is not None:
        marks[f"risk at most {risk}"] = operating_point(curve, risk)
    for (name, p), (colour, marker, _) in zip(marks.items(), LOOKS):
        if p and p.risk is not None:
            label = f"{name}: {p.threshold:.2f}"
            left.plot([p.coverage], [p.risk], marker, color=colour, label=label)
    left.set(xlabel="coverage: share of turns answered", xlim=(0, 1), ylim=(0, None))
    left.set(title=f"gate by {curve.way}")
    left.set_ylabel("risk" if curve.loss == "label" else "risk: 1 - score")
    thresholds = [p.threshold for p in curve.points]
    for (fate, colour), (_, _, line) in zip(FATES.items(), LOOKS):
        turns = [getattr(p, fate) for p in curve.points]
        look = {"linestyle": line, "color": colour}
        right.plot(thresholds, turns, label=fate, drawstyle="steps-pre", **look)
    right.axvline(curve.used, color=QUIET, linestyle=":")
    right.set(xlabel="threshold", ylabel="turns")
    _legend_below(fig, (left, right), 4)
    return fig


class GateRow(NamedTuple):
    "A turn before the gate."

    turn: Trajectory
    score: float | None  # the gate's; None: the turn never came to it
    has_answer: bool  # as the label says

    @property
    def shut(self) -> bool:
        "Whether the run's own gate refused the turn: it has no answer on the record."
        gates = self.turn.gates
        return self.turn.refused and bool(gates) and not gates[-1].verdict.passed

    def passes(self, threshold: float) -> bool:
        "Whether the turn gets an answer at a threshold: nothing behind the gate refused it."
        scored = self.score is not None and self.score >= threshold
        return scored and (self.shut or self.turn.answered)

    def loss(self, scores: Mapping[str, float | None] | None) -> float | None:
        "By label: 1 where there is no answer to give, else 0. With scores 1 - its score, None where the answer has none."
        if scores is None or not self.has_answer:
            return float(not self.has_answer)
        score = scores.get(self.turn.task_id)
        return None if self.shut or score is None else 1 - score


def _gate_score(t: Trajectory) -> float | None:
    "What the gate scored; None if the turn never came to it. Raises DataError for a gate of words."
    if not t.gates:
        return None
    if (score := t.gates[-1].verdict.score) is None:
        what = (
            f"the gate of task {t.task_id!r} kept no score: it was a verdict in words"
        )
        raise DataError(what, remedy="Run with a gate that scores (yesno, cosine)")
    return score


def _gate_point(
    threshold: float, rows: Sequence[GateRow], scores: Mapping[str, float | None] | None
) -> GatePoint:
    "Count at one threshold."
    got = [r for r in rows if r.passes(threshold)]
    cell = Counter((r.passes(threshold), r.has_answer) for r in rows)
    known = [x for r in got if (x := r.loss(scores)) is not None]
    risk = sum(known) / len(known) if known else None
    cells = [
        cell[c] for c in ((True, True), (True, False), (False, False), (False, True))
    ]
    return GatePoint(threshold, *cells, sum(r.shut for r in got), risk)


def gate_curve(
    run: Run,  # of a system with a gate that scores
    gold: Mapping[str, Gold],  # labels by task
    scores: Mapping[str, float | None]
    | None = None,  # by task, in [0, 1]; None: loss by label
    negatives: Run | None = None,  # over evidence that cannot answer (`leave_gold_out`)
) -> GateCurve:
    "Move the gate's threshold over all recorded scores. Raises DataError for a run whose gate kept none."
    labels = {t: gold[t].answerability for t in run.trajectories if t in gold}
    turns = [(run.trajectories[t], label) for t, label in labels.items()]
    for t in negatives.trajectories.values() if negatives else ():
        turns.append((replace(t, task_id=f"{t.task_id} without gold"), "UNANSWERABLE"))
    counted = [(t, label) for t, label in turns if not t.failed and label not in TO_ASK]
    rows = [GateRow(t, _gate_score(t), label not in TO_REFUSE) for t, label in counted]
    found = sorted({r.score for r in rows if r.score is not None})
    if not found:
        remedy = "Give a run of a system that has one, over tasks with passages"
        raise DataError("no turn of this run came to a gate", run.folder, remedy=remedy)
    own = next(r.turn.gates[-1].verdict for r in rows if r.score is not None)
    cuts = [*found, round(found[-1] + 0.01, 4)]
    points = tuple(_gate_point(c, rows, scores) for c in cuts)
    loss = "label" if scores is None else "score"
    return GateCurve(points, own.how, own.threshold, loss, len(turns) - len(rows))
