"""What repaired a failed turn, beside its controls: placebo, constant blame, plain repeat."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from mtrag_nb.core.files import data_dir
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import Gold, Passage, Task
from mtrag_nb.core.record import Checked, Retrieved
from mtrag_nb.core.types import Gold
from mtrag_nb.data.mtrag import read_benchmark, sample_dir
from mtrag_nb.evaluation.blame import Blame, blame
from mtrag_nb.evaluation.proof import (
    REPAIRS,
    Proof,
    ProofReport,
    _plan,
    fixes_outcome,
    idle_repairs,
    prove,
)
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.statistics import mean_interval, unpaired_difference
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.systems.outside import outside
from tests.support.planted import Bench, tasks

LABELS = ("ANSWERABLE", "PARTIAL", "UNANSWERABLE", "")


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("repair", REPAIRS)
def test_a_repair_that_knows_the_label_cannot_fail(repair: str, label: str):
    by_label = repair in ("perfect grade", "perfect refusal", "perfect check")
    expected = repair == "reference answer" or label == "UNANSWERABLE" and by_label
    assert fixes_outcome(repair, label) == expected
    assert fixes_outcome(f"gold passages+{repair}", label) == expected


def test_a_repair_that_cannot_fail_supports_no_blame():
    graded = Blame("t", "failed", "passages that do not answer let pass", "grade")
    tried = {"perfect grade": "right", "human rewrite": "failed"}
    assert Proof(graded, tried, label="UNANSWERABLE").status == "by construction"
    assert Proof(graded, tried, label="ANSWERABLE").status == "blamed stage"
    helped = tried | {"human rewrite": "right"}
    assert Proof(graded, helped, label="UNANSWERABLE").status == "another stage"
    written = Blame("t", "failed", "wrong draft from gold", "generate")
    assert Proof(written, {"reference answer": "right"}).tests == {}


def test_a_generator_that_declined_is_repaired_by_a_perfect_refusal():
    declined = Blame("t", "failed", "declined though gold was there", "generate")
    tried = {"perfect refusal": "right", "gold passages": "failed"}
    proof = Proof(declined, tried, label="ANSWERABLE")
    assert (proof.own, proof.status) == ("perfect refusal", "blamed stage")
    assert proof.stage == "generate"
    assert proof.stage_of("perfect refusal") == "generate"
    assert Proof(SEARCH, tried).stage_of("perfect refusal") == "gate"
    wrong = Proof(declined, {"perfect refusal": "failed"}, label="ANSWERABLE")
    assert (wrong.status, wrong.stage) == ("nothing tried", "generate")
    elsewhere = {"perfect refusal": "failed", "gold passages": "right"}
    other = Proof(declined, elsewhere, label="PARTIAL")
    assert (other.status, other.stage) == ("another stage", "retrieve")
    paired = {"perfect refusal": "failed", "perfect refusal+gold passages": "right"}
    assert Proof(declined, paired, label="ANSWERABLE").stage == "generate"
    without = {"reference answer": "generate"}  # a chain without that repair
    assert Proof(declined, {}, stages=without).own == "reference answer"


def test_the_repair_of_a_generator_that_declined_is_tried_first():
    declined = Blame("t", "failed", "declined though gold was there", "generate")
    known = Gold("t", answerability="ANSWERABLE", rewrite="What is it?")
    plan = _plan(declined, known, {Retrieved, Checked})
    assert plan.repairs == ["perfect refusal", "perfect check", "human rewrite"]


def test_a_perfect_refusal_is_the_generators_also_as_a_constant_blame():
    declined = Blame("", "failed", "declined though gold was there", "generate")
    proofs = {}
    for n, blamed in enumerate([declined] * 6 + [SEARCH] * 2):
        own = Blame(f"t{n}", blamed.verdict, blamed.cause, blamed.node)
        tried = {"perfect refusal": "right", "gold passages": "failed"}
        proofs[f"t{n}"] = Proof(own, tried, label="ANSWERABLE")
    report = ProofReport("r", proofs, {i: i for i in proofs})
    shares = {c.stage: c.share.value for c in report.constants}
    assert shares == {"generate": 0.75, "gate": 0.25, "retrieve": 0.0}
    assert report.rule.value == 0.75


SEARCH = Blame("", "failed", "gold not found", "retrieve")
DRAFT = Blame("", "failed", "wrong draft from gold", "generate")


def report_of(rows: list[tuple[str, Blame, str, bool]]) -> ProofReport:
    "Rows of conversation, blame, verdict with gold passages, and whether all gold had been found."
    proofs = {}
    talks = {}
    for n, (talk, blamed, verdict, idle) in enumerate(rows):
        own = Blame(f"t{n}", blamed.verdict, blamed.cause, blamed.node)
        repairs = frozenset({"gold passages"} if idle else ())
        tried = {"gold passages": verdict}
        proofs[f"t{n}"] = Proof(own, tried, label="ANSWERABLE", idle=repairs)
        talks[f"t{n}"] = talk
    return ProofReport("r", proofs, talks)


def test_the_placebo_is_the_same_repair_where_nothing_was_to_repair():
    rows = []
    for n in range(8):
        rows.append((f"c{n}", SEARCH, "right" if n < 6 else "failed", False))
        rows.append((f"c{n}", DRAFT, "right" if n < 2 else "failed", True))
        rows.append((f"c{n}", DRAFT, "right", False))  # a part was missing: in neither
    placebo = report_of(rows).placebo("gold passages")
    assert (placebo.blamed.value, placebo.blamed.n) == (0.75, 8)
    assert (placebo.idle.value, placebo.idle.n) == (0.25, 8)
    assert placebo.excess.value == 0.5 and placebo.excess.low < 0.5
    shown = repr(report_of(rows))
    assert "gold passages" in shown and "+0.500 [" in shown


def test_below_six_conversations_the_excess_is_not_claimed():
    rows = [(f"c{n}", SEARCH, "right", False) for n in range(8)]
    rows += [(f"c{n}", DRAFT, "failed", True) for n in range(5)]
    placebo = report_of(rows).placebo("gold passages")
    assert placebo.excess.value == 1.0 and placebo.excess.low is None
    assert "too few" in repr(report_of(rows))


def test_a_constant_blame_stands_beside_the_rule():
    rows = [(f"c{n}", DRAFT, "right", False) for n in range(9)]
    rows += [(f"c{n}", SEARCH, "right", False) for n in range(3)]
    report = report_of(rows)
    [constant] = report.constants
    assert (constant.stage, constant.share.value) == ("retrieve", 1.0)
    assert report.rule.value == 0.25
    assert constant.difference.value == -0.75 and constant.difference.high < 0
    assert report.title == (
        "r: mend retrieve first: its repair alone makes 12 of 12 failed turns "
        "that could be tested right."
    )
    assert report.data["constants"]["retrieve"]["share"]["n"] == 12


def test_an_unpaired_difference_of_one_turn_a_conversation_is_the_usual_one():
    first = {f"a{n}": float(n % 3 == 0) for n in range(12)}
    second = {f"b{n}": float(n % 4 == 0) for n in range(12)}
    talks = {i: i for i in [*first, *second]}
    both = unpaired_difference(first, second, talks)
    assert both.value == pytest.approx(4 / 12 - 3 / 12)
    assert both.low < 0 < both.high
    alone = mean_interval([*first.values()], [*first])
    assert both.high - both.low > alone.high - alone.low


def test_where_no_gold_was_retrieved_the_search_had_something_to_repair():
    run = Evidence(
        data_dir("recorded") / "sample_quote",
        read_benchmark(sample_dir() / "reference.jsonl").gold,
    )
    found = 0
    for blamed in blame(run).failed:
        row = run.rows[blamed.task_id]
        idle = idle_repairs(row)
        if blamed.cause == "gold not found":
            assert "gold passages" not in idle
        if row.label == "UNANSWERABLE":
            assert not idle
        found += "gold passages" in idle
    assert found


def test_a_plain_repeat_of_a_deterministic_system_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bench = Bench(tmp_path)
    fault = "a retriever without gold"
    run = bench.run("naive", fault, some=tasks[:5])
    models = bench.models("naive")
    asked: list[int] = []
    generate = models.chat.generate

    def counted(prompts: list, *args: object, **named: object) -> list:
        asked.append(len(prompts))
        return generate(prompts, *args, **named)

    models.chat.generate = counted
    monkeypatch.setattr(bench, "models", lambda name: models)
    without = bench.prove("naive", fault, run=run)
    before = sum(asked)
    report = bench.prove("naive", fault, run=run, repeats=2)
    repeats = [p.repeats for p in report.proofs.values() if p.status != "not tried"]
    assert repeats and all(r == ["failed", "failed"] for r in repeats)
    assert sum(asked) - before == 2 * len(repeats), "asked, not taken from the record"
    assert report.repeats.value == 0 and "Plain repeats are right in" in report.note
    assert without.repeats.n == 0, "not asked for: not kept"


PRICE = "A ticket costs 12 crowns."


class DeskState(TypedDict, total=False):
    question: str
    documents: list[Document]
    generation: str


def moody_desk(answers: Iterator[str]) -> CompiledStateGraph:
    "A graph that finds the price, and answers with the next of some answers."

    def retrieve(state: DeskState) -> DeskState:
        return {"documents": [Document(page_content=PRICE, metadata={"id": "p"})]}

    def generate(state: DeskState) -> DeskState:
        return {"generation": next(answers)}

    graph = StateGraph(DeskState)
    graph.add_node("retrieve", retrieve)
    graph.add_node("generate", generate)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "generate")
    graph.add_edge("generate", END)
    return graph.compile()


def test_a_plain_repeat_shows_what_chance_repairs(tmp_path: Path):
    "A program that is right every other time needs no repair to come right."
    wrong = "Zebras graze quietly."
    system = outside(moody_desk(cycle([wrong, PRICE])), "desk")
    task = Task("t<::>1", "t", 1, "", "How much is a ticket?")
    passages = (Passage("p", PRICE),)
    gold = {task.id: Gold(task.id, "ANSWERABLE", (PRICE,), passages=passages)}
    run = run_tasks(system, [task], tmp_path / "run", load_settings(), progress=False)
    assert run.trajectories[task.id].answer == wrong
    report = prove(
        run, gold, budget=0, tasks=[task], system=system, progress=False, repeats=2
    )
    assert report.proofs[task.id].repeats == ["right", "failed"]
    assert report.repeats.value == 0.5
