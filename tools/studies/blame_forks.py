"""Which stage of six systems fails first over the turns of `equal`, and what mechanisms and perfect stages gain, by forks.

Of each system: mechanisms that are taken out and stages that are made perfect, those that need few model calls beside the run's
own, so that a laptop is done in an hour. Of the seven released submissions for task B there are the answers, and the passages that
came with the tasks: a turn can be blamed on the generator, or on no stage. A turn is kept without its text. Of each ending: right,
wrong or undecided, whether it refuses, the outcome, a digest of the answer, tokens, seconds, calls; `"="` where a fork ended as
the run did at the same cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from matplotlib.figure import Figure

from mtrag_nb.core.files import data_dir, read_jsonl, write_json, write_jsonl
from mtrag_nb.core.html import View, html_table, text_table
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import TO_REFUSE, DataError, Outcome, plain
from mtrag_nb.data.mtrag import read_benchmark, read_gold, read_tasks
from mtrag_nb.data.official import official_file
from mtrag_nb.evaluation.blame import COSTS, Blame, blame_turn
from mtrag_nb.evaluation.cards import Gate, GateDecision, _merge_gates, _step_gates
from mtrag_nb.evaluation.items import prediction_items
from mtrag_nb.evaluation.pairs import Pair, Ending, endings, pair_endings
from mtrag_nb.evaluation.proof import right_by_target
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.models.calls import Models
from mtrag_nb.runs.audits import audit_run
from mtrag_nb.runs.oracles import RUNGS, run_ladder
from mtrag_nb.runs.run import machine, package_versions
from mtrag_nb.show.figures import STAGE_COLOURS, note_origin, shares_figure
from tests.support.attributed import blame_items
from tests.support.prices import PriceCurve, price_curve
from tools.studies.equal import CORNERS, CURVE_HEAD
from tools.study import kept_in

Forks = Mapping[
    str, Mapping[str, Ending]
]  # "off": mechanism -> without it; "known": stage -> perfect


@dataclass(frozen=True)
class Turned:
    "What one system came to in one turn, and in its forks."

    system: str
    blame: Blame
    run: Ending
    gates: tuple[Gate, ...]
    forks: Forks


def turned(run: Evidence, forks: Mapping[str, Mapping[str, Evidence]]) -> list[Turned]:
    "The turns of a run. Raises DataError if a fork lacks one of them."
    ended = {
        kind: {n: endings(f) for n, f in some.items()} for kind, some in forks.items()
    }
    out = []
    for i, e in endings(run).items():
        lost = [
            n for some in ended.values() for n, found in some.items() if i not in found
        ]
        if lost:
            remedy = "Make it anew, of all turns"
            raise DataError(
                f"{run.name}: the fork {lost[0]} lacks the turn {i}", remedy=remedy
            )
        own = {kind: {n: f[i] for n, f in some.items()} for kind, some in ended.items()}
        gates = tuple(_merge_gates(_step_gates(run.rows[i])))
        out.append(Turned(run.system, blame_turn(run.rows[i]), e, gates, own))
    return out


def _row(e: Ending, run: Ending | None = None) -> list | str:
    'An ending as a row; "=" where it is that of the run at the same cost.'
    if (
        run
        and replace(e, value=run.value, cost={**e.cost, "seconds": run.cost["seconds"]})
        == run
    ):
        return "="
    return [
        e.verdict,
        int(e.refused),
        e.outcome.value,
        e.answer_digest,
        *(round(v, 1) for v in e.cost.values()),
    ]


def as_line(t: Turned) -> dict:
    "A turn as plain data."
    gates = [
        [
            g.name,
            g.what,
            g.calls,
            g.tokens,
            [[c.good, c.passed, c.score and round(c.score, 4)] for c in g.cases],
        ]
        for g in t.gates
    ]
    forks = {
        k: {n: _row(e, t.run) for n, e in some.items()} for k, some in t.forks.items()
    }
    about = {
        "task": t.blame.task_id,
        "talk": t.run.talk,
        "turn": t.run.turn,
        "label": t.run.label,
    }
    why = {"cause": t.blame.cause, "node": t.blame.node}
    return {
        "system": t.system,
        **about,
        **why,
        "run": _row(t.run),
        "gates": gates,
        **forks,
    }


def from_line(line: Mapping) -> Turned:
    "A turn from plain data."

    def ending(row):
        if row == "=":
            return run
        came, refused, outcome, said, *cost = row
        spent = dict(zip(COSTS, cost, strict=True))
        of_teams = (
            came,
            None,
            Outcome(outcome),
            said,
            spent,
            "",
            bool(refused),
            line["label"],
        )
        return Ending(line["talk"], line["turn"], *of_teams)

    run = ending(line["run"])
    forks = {k: {n: ending(r) for n, r in line[k].items()} for k in ("off", "known")}
    gates = tuple(
        Gate(
            name,
            what,
            tuple(GateDecision(line["talk"], *c) for c in cases),
            calls,
            tokens,
        )
        for name, what, calls, tokens, cases in line["gates"]
    )
    blame = Blame(line["task"], run.verdict, line["cause"], line["node"])
    return Turned(line["system"], blame, run, gates, forks)


def shown(head: list[str], rows: list[list]) -> View:
    "A table as a page and as text."
    return View("blame", html_table(head, rows), text_table(head, rows))


@cache
def kept_turns() -> dict[str, list[Turned]]:
    "System -> its turns with their forks."
    turns: dict[str, list[Turned]] = {}
    for _, line in read_jsonl(data_dir("measured") / "blame_turns.jsonl"):
        t = from_line(line)
        turns.setdefault(t.system, []).append(t)
    return turns


def stage_figure() -> Figure:
    "The stage at which the failed turns of each system fail first."
    stages = {}
    for system, turns in kept_turns().items():
        failed = [t.blame.stage for t in turns if t.blame.verdict == "failed"]
        rest = len(turns) - len(failed)  # counted, not drawn: it has no colour
        stages[system] = Counter(failed) + Counter({"not failed": rest})
    what = "share of the 120 turns"
    names = {"": "none can be named"}
    figure = shares_figure(stages, STAGE_COLOURS, what, names)
    return note_origin(figure, "blame_turns.jsonl")


@cache
def failed_causes() -> dict[str, Counter]:
    "System -> cause -> failed turns."
    return {
        n: Counter(t.blame.cause for t in some if t.blame.verdict == "failed")
        for n, some in kept_turns().items()
    }


def cause_table() -> View:
    "The causes of the failed turns."
    causes = failed_causes()
    kinds = sorted({c for found in causes.values() for c in found})
    rows = [[c or "none", *(found[c] for found in causes.values())] for c in kinds]
    return shown(["cause", *causes], rows)


@cache
def kept_gates() -> dict[str, list[Gate]]:
    "System -> its gates, over all turns."
    turns = kept_turns().items()
    return {n: _merge_gates(g for t in some for g in t.gates) for n, some in turns}


def gate_table() -> View:
    "What each gate kept and dropped."
    gates = kept_gates()
    head = ["system", "gate", "of", "good kept", "dropped", "bad kept", "dropped"]
    rows = [
        [
            n,
            g.name,
            g.what,
            *(
                g.count(good, passed)
                for good in (True, False)
                for passed in (True, False)
            ),
        ]
        + [g.kept, g.dropped, g.auroc or "–"]
        for n, some in gates.items()
        for g in some
    ]
    return shown([*head, "of the good, kept", "of the bad, dropped", "AUROC"], rows)


def pairs_of(kind: str) -> dict[str, Pair]:
    "The forks of all systems: before the mechanism, or the perfect stage, and after."
    found = {}
    for n, some in kept_turns().items():
        run = {t.blame.task_id: t.run for t in some}
        for fork in some[0].forks[kind]:
            other = {t.blame.task_id: t.forks[kind][fork] for t in some}
            both = (other, run) if kind == "off" else (run, other)
            found[f"{n}: {fork}"] = pair_endings(fork, *both)
    return found


def acted(p: Pair) -> int:
    "Turns in which it did anything."

    def end(e):
        return (
            e.outcome,
            e.answer_digest,
            {by: n for by, n in e.cost.items() if by != "seconds"},
        )

    return sum(end(e) != end(p.after[i]) for i, e in p.before.items())


@cache
def fork_pairs() -> dict[str, dict[str, Pair]]:
    "Forks without a mechanism, and with a perfect stage."
    return {kind: pairs_of(kind) for kind in ("off", "known")}


@cache
def fork_curves() -> dict[str, PriceCurve]:
    "Each fork over prices and shares, with intervals for all of them (Bonferroni)."
    pairs = fork_pairs().values()
    level = 1 - 0.05 / sum(map(len, pairs))
    return {n: price_curve(p, level=level) for some in pairs for n, p in some.items()}


def fork_table(kind: str) -> View:
    "What each fork changed, at the corners of prices and shares."
    curves = fork_curves()
    head = ["", "acted in", "changed", *CURVE_HEAD[1:]]
    rows = []
    for n, p in fork_pairs()[kind].items():
        points = [curves[n].points[x] for x in CORNERS]
        rows.append([n, acted(p), p.changed, *points, curves[n].verdict])
    return shown(head, rows)


def ended(e: Ending) -> str:
    "How a turn ended: right, undecided, wrong or refused."
    return "refused" if e.refused else "wrong" if e.verdict == "failed" else e.verdict


def counts_of(ends: Mapping[str, Ending], cannot: bool) -> str:
    "How many turns with an answer, or without one, ended in each way, in words."
    some = Counter(ended(e) for e in ends.values() if (e.label in TO_REFUSE) == cannot)
    return ", ".join(
        f"{some[k]} {k}" for k in ("right", "undecided", "wrong", "refused") if some[k]
    )


def kind_table() -> View:
    "How the turns of each fork ended before and after, by kind of question."
    rows = []
    for some in fork_pairs().values():
        for n, p in some.items():
            for cannot in (False, True):
                kind = "without" if cannot else "with"
                ends = [counts_of(x, cannot) for x in (p.before, p.after)]
                rows.append([n, kind, *ends])
    return shown(["", "an answer", "before", "after"], rows)


CLAIMS = (  # system, mechanism, what its paper says that it does
    (
        "self_crag",
        "rewrite",
        "the rewrite makes questions that lean on the conversation searchable (seed paper, II.D.1)",
    ),
    (
        "self_crag",
        "grade",
        "the grade keeps away documents that lead the generator astray (seed paper, II.D.2)",
    ),
    (
        "self_crag",
        "check and retry",
        "the check catches what stands in no document, and its retries repair it (seed paper, II.C)",
    ),
    (
        "ncl",
        "rewrite",
        "two rewrites make the question stand alone (NCL paper, 3.2, 3.4)",
    ),
    (
        "ncl",
        "relation control",
        "only the turns that the question belongs to should be seen (NCL paper, 3.3)",
    ),
    (
        "ncl",
        "gate",
        "the gate refuses what the passages cannot answer (NCL paper, 3.5)",
    ),
    (
        "ncl",
        "check and retry",
        "the quality gate and its stricter retry mend bad answers (NCL paper, 3.6)",
    ),
    (
        "agents",
        "wordings",
        "three wordings find more than one (multi-agent specification, 5.1)",
    ),
    (
        "agents",
        "grade",
        "grading keeps what is relevant (multi-agent specification, 5.1)",
    ),
    (
        "nexus",
        "grade",
        "three labels keep what is correct, and what is ambiguous behind it (description of NexusRAG, 3.3)",
    ),
    (
        "nexus",
        "reformulation",
        "another search where all is incorrect (description of NexusRAG, 3.3)",
    ),
    (
        "agents",
        "reformulation",
        "another round finds what the first did not (multi-agent specification, 5.2)",
    ),
)


def standing(name: str) -> str:
    "What the forks say of a claim."
    pairs = fork_pairs()
    curves = fork_curves()
    if name not in pairs["off"]:
        return "not tried"
    n = acted(pairs["off"][name])
    return curves[name].verdict if n >= 20 else f"not examined: acted in {n} turns"


def claim_table() -> View:
    "What the forks say of the claims of papers and specifications."
    rows = [[system, claim, standing(f"{system}: {m}")] for system, m, claim in CLAIMS]
    return shown(["system", "claim", "shown"], rows)


def moved(name: str, cannot: bool) -> Counter:
    "How many more turns of a kind end so with a mechanism."
    p = fork_pairs()["off"][name]
    some = [i for i, e in p.before.items() if (e.label in TO_REFUSE) == cannot]
    after, before = (Counter(ended(e[i]) for i in some) for e in (p.after, p.before))
    after.subtract(before)
    return after


def check_findings() -> None:
    "Assert what the study says of stages and forks, of the results that are kept."
    pairs = fork_pairs()
    curves = fork_curves()
    gates = kept_gates()
    causes = failed_causes()
    both = "self_crag: check and retry"
    retry = "self_crag: retry"
    assert curves[both].verdict == "better at prices 0.3 to 1"
    assert (moved(both, False)["refused"], moved(both, False)["wrong"]) == (15, -13)
    assert moved(both, True)["refused"] == 17 and not curves[retry].verdict.startswith(
        "better"
    )
    assert [moved(retry, False)[k] for k in ("right", "undecided", "wrong")] == [
        1,
        1,
        4,
    ]
    assert moved(retry, True)["wrong"] == 5
    assert sum(e.refused for e in pairs["off"][retry].before.values()) == 47
    found = {(n, g.name): g for n, some in gates.items() for g in some}
    grade = curves["self_crag: grade"]
    perfect = curves["quote: perfect grade"]
    assert (
        grade.verdict == "not shown" and acted(pairs["off"]["self_crag: grade"]) == 29
    )
    assert perfect.verdict == "better throughout"
    assert [round(perfect.points[x].value, 1) for x in (CORNERS[0], CORNERS[-1])] == [
        0.1,
        0.7,
    ]
    refusal = curves["self_crag: perfect refusal"]
    p = pairs["known"]["self_crag: perfect refusal"]
    gave = Counter(
        p.after[i].verdict
        for i, e in p.before.items()
        if e.refused and e.label not in TO_REFUSE
    )
    assert refusal.verdict.startswith("better at price 0") and gave == {
        "failed": 15,
        "undecided": 1,
    }
    check = found["self_crag", "hallucination_check: grounded"]
    assert (
        check.count(True, True) == 8
        and check.kept.value == 1
        and round(check.auroc.value, 2) == 0.88
    )
    evidence = found["ncl", "gate: answerable"]
    assert [evidence.count(x, False) for x in (True, False)] == [3, 9]
    for n, some in causes.items():
        can = {
            c: k
            for c, k in some.items()
            if c in ("gold not found", "wrong draft from gold")
        }
        assert max(can, key=can.get) == "wrong draft from gold", n
        assert (
            n in ("quote", "nexus")
            or 2 < can["wrong draft from gold"] / can["gold not found"] < 3.2
        )
    lost = {
        n: found[n, "grade_documents"]
        for n in ("self_crag", "agents", "quote", "nexus")
    }
    assert [round(g.dropped.value, 2) for g in lost.values()] == [
        0.16,
        0.14,
        0.07,
        0.07,
    ]
    assert [round(1 - g.kept.value, 2) for g in lost.values()] == [0.06, 0.06, 0, 0]
    for n in ("ncl: check and retry", "agents: reformulation"):
        assert "not testable" in curves[n].verdict


FORKED = {
    "naive": ((), ()),
    "self_crag": (("grade", "check and retry", "retry"), ("perfect refusal",)),
    "quote": (("grade",), ("perfect grade",)),
    "nexus": ((), ()),
    "ncl": (("check and retry",), ()),
    "agents": (("reformulation",), ()),
}


def fork_turns(
    folder: Path,  # that `make study NAME=equal` has filled
    out: Path,
    models: Models | None = None,
    forked: Mapping[str, tuple[Sequence[str], Sequence[str]]] = FORKED,
) -> None:
    "Fork the runs, and keep what became of every turn. What was forked before is read."
    known = read_benchmark(folder / "tasks.jsonl")
    models = models or Models(load_settings())
    how = {"models": models, "progress": False, "index": folder / "index"}
    questions = {t.id: t.question for t in known.tasks}
    right = right_by_target(known.gold, questions)
    every_turn = []
    for name, (without, perfect) in forked.items():
        run = Run(folder / "runs" / name)
        off = audit_run(run, folder / "off" / name, without, **how) if without else {}
        place = folder / "known" / name
        top = {}
        for rung in (r for r in RUNGS if r.name in perfect):
            top |= run_ladder(run, place, known.gold, right, [rung], **how)
        history = {i: t.history for i, t in run.tasks.items()}
        forks = {
            kind: {
                n: Evidence(r, known.gold, histories=history) for n, r in some.items()
            }
            for kind, some in (("off", off), ("known", top))
        }
        every_turn += turned(Evidence(run, known.gold, histories=history), forks)
    write_jsonl(out / "blame_turns.jsonl", map(as_line, every_turn))


def submissions(folder: Path, reference: Path) -> dict[str, dict]:  # file -> plain data
    "Released prediction files over given passages, attributed as far as answers and qrels say."
    gold = read_gold(reference)
    tasks = read_tasks(reference, contexts=True)
    found = [
        blame_items(p.stem, prediction_items(p, tasks), gold)
        for p in sorted(folder.glob("*.jsonl"))
    ]
    return {
        r.name: {
            "judged": len(r.judged),
            "came": Counter(b.verdict for b in r.turns.values()),
            "causes": r.counts(),
            "failed": r.share(lambda b: b.verdict == "failed"),
        }
        for r in found
    }


def measure_blame(folder: Path) -> None:
    "Fork the runs of `equal` and blame released submissions, into data/measured."
    out = data_dir("measured")
    un = official_file(None, "mtragun-human/reference")
    fork_turns(folder, out)
    found = submissions(un.parent / "predictions_raguteam", un)
    made = {"machine": machine(), "packages": package_versions()}
    write_json(out / "blame.json", {"made": made, "submissions": plain(found)})


def submission_table() -> View:
    "The blame of the seven released submissions."
    of_teams = kept_in("blame")["submissions"]
    kinds = list(dict.fromkeys(c for s in of_teams.values() for c in s["causes"]))
    verdicts = ("right", "undecided", "failed")
    rows = []
    for n, s in of_teams.items():
        came = [s["came"].get(c, 0) for c in verdicts]
        causes = [s["causes"].get(c, 0) for c in kinds]
        rows.append([n[:30], s["judged"], *came, *causes])
    return shown(["submission", "judged", *verdicts, *kinds], rows)
