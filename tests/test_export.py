"""Runs go out to other tools and come back: what the spans hold is equal."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtrag_nb.core.files import data_dir, read_json, read_jsonl
from mtrag_nb.core.record import (
    Checked,
    Drafted,
    Fault,
    Grade,
    Graded,
    Refused,
    Retrieved,
    Rewritten,
    Step,
)
from mtrag_nb.core.run_folder import Run
from tests.support.turns import new_turn
from mtrag_nb.core.replies import Label, Verdict
from mtrag_nb.core.types import Context, DataError
from mtrag_nb.data.export import export_spans
from mtrag_nb.data.imports import KnownPassages
from mtrag_nb.data.mtrag import read_benchmark, sample_dir
from mtrag_nb.data.traces import import_traces
from mtrag_nb.evaluation.blame import blame
from mtrag_nb.evaluation.notes import notes_on
from mtrag_nb.evaluation.evidence import Evidence

KNOWN = read_benchmark(sample_dir() / "reference.jsonl", contexts=True)
HISTORIES = {t.id: t.history for t in KNOWN.tasks}
RECORDED = sorted(p.name for p in data_dir("recorded").iterdir())


def evidence(name: str) -> Evidence:
    return Evidence(Run(data_dir("recorded") / name), KNOWN.gold, histories=HISTORIES)


def exported(run: Evidence, path: Path) -> tuple[Path, dict[str, int]]:
    return export_spans(run.run, path, KNOWN.tasks, notes_on(run))


def spans_in(line: dict) -> list[dict]:
    return line["resourceSpans"][0]["scopeSpans"][0]["spans"]


GOLD = [p for g in KNOWN.gold.values() for p in g.passages]


@pytest.mark.parametrize("name", RECORDED)
def test_spans_come_back(name, tmp_path):
    run = evidence(name)
    path, wrote = exported(run, tmp_path / "spans.jsonl")
    assert wrote["traces"] == len(run.turns)
    back = import_traces(path, tmp_path / "back", KNOWN.tasks, KnownPassages(GOLD))
    told, read = (
        blame(run).turns,
        blame(Evidence(back, KNOWN.gold, histories=HISTORIES)).turns,
    )
    same = sum(
        (told[i].verdict, told[i].stage) == (read[i].verdict, read[i].stage)
        for i in told
    )
    assert same >= len(told) - 1, "from what OpenInference has names for, alone"
    nodes = [(i, s.node) for i, t in run.turns.items() for s in t.steps]
    known = Counter((i, s.node) for i, t in back.trajectories.items() for s in t.steps)
    assert not Counter(nodes) - known, "each node is still a step"


def as_phoenix(s: dict) -> dict:
    "A span of OTLP as Phoenix' `GET /v1/projects/NAME/spans` gives it back: JSON in metadata is flattened."
    flat = {}
    for a in s["attributes"]:
        ((kind, value),) = a["value"].items()
        value = int(value) if kind == "intValue" else value
        inner = json.loads(value) if a["key"].endswith("metadata") else {}
        flat |= {f"{a['key']}.{k}": v for k, v in inner.items()} or {a["key"]: value}
    return {
        "name": s["name"],
        "context": {"trace_id": s["traceId"], "span_id": s["spanId"]},
        "parent_id": s["parentSpanId"] or None,
        "span_kind": flat.pop("openinference.span.kind"),
        "start_time": s["startTimeUnixNano"],
        "end_time": s["endTimeUnixNano"],
        "status_code": "ERROR" if s["status"]["code"] == 2 else "OK",
        "status_message": s["status"].get("message", ""),
        "attributes": flat,
        "events": [],
    }


def in_short(run: Run) -> dict:
    "Answer and nodes of each turn; steps that take no time have no order in spans."
    return {
        i: (t.answer, Counter(s.node for s in t.steps))
        for i, t in run.trajectories.items()
    }


@pytest.mark.parametrize("name", RECORDED)
def test_spans_come_back_through_phoenix(name, tmp_path):
    run = evidence(name)
    path, _ = exported(run, tmp_path / "spans.jsonl")
    spans = [as_phoenix(s) for _, line in read_jsonl(path) for s in spans_in(line)]
    (tmp_path / "phoenix.json").write_text(json.dumps(spans[::-1]))
    how = (KNOWN.tasks, KnownPassages(GOLD))
    straight = import_traces(path, tmp_path / "straight", *how)
    back = import_traces(tmp_path / "phoenix.json", tmp_path / "back", *how)
    assert in_short(back) == in_short(straight) and back.passages == straight.passages


def test_annotations_name_spans(tmp_path):
    run = evidence("sample_self_crag_laptop")
    path, _ = exported(run, tmp_path / "spans.jsonl")
    ids = {s["spanId"]: s for _, line in read_jsonl(path) for s in spans_in(line)}
    found = read_json(tmp_path / "spans.annotations.json")["data"]
    assert {a["span_id"] for a in found} <= ids.keys()
    told = blame(run).turns
    at = Counter(
        ids[a["span_id"]]["name"]
        for a in found
        if a["name"] == "blame" and ids[a["span_id"]]["parentSpanId"]
    )
    assert at == Counter(b.node for b in told.values() if b.node)


HALF = st.characters(categories=("Cs",))
TEXT = st.text(st.characters() | HALF, max_size=30)
VERDICTS = st.builds(
    Verdict,
    st.sampled_from((Label.YES, Label.NO)),
    TEXT,
    st.none() | st.floats(-9, 9),
    st.none() | st.floats(-9, 9),
    TEXT,
)
PLAIN = st.dictionaries(
    TEXT, st.recursive(st.integers() | TEXT | st.none(), st.lists, max_leaves=5)
)
IDS = st.sampled_from(("c1", "c.2", "3", "{"))
STEPS = st.one_of(
    st.builds(
        Step,
        node=TEXT,
        note=TEXT,
        state_update=PLAIN.filter(lambda d: not d.keys() & {"task", "steps"}),
    ),
    st.builds(Rewritten, node=TEXT, text=TEXT, raw=TEXT),
    st.builds(
        Retrieved, node=TEXT, contexts=st.lists(IDS, unique=True, max_size=4).map(tuple)
    ),
    st.builds(
        Graded,
        node=TEXT,
        grades=st.lists(st.builds(Grade, IDS, VERDICTS), max_size=4).map(tuple),
    ),
    st.builds(Drafted, node=TEXT, text=TEXT, seconds=st.floats(0, 99)),
    st.builds(Checked, node=TEXT, verdict=VERDICTS),
    st.builds(Refused, node=TEXT, reason=TEXT, role=st.just("dropped")),
)
ERRORS = st.none() | st.builds(Fault, TEXT, TEXT, TEXT, TEXT)


@given(steps=st.lists(STEPS, max_size=6), question=TEXT, text=TEXT, error=ERRORS)
def test_any_turn_goes_out_and_is_read_or_refused(
    steps, question, text, error, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("any")
    contexts = [Context(i, f"p{i}", text, title=text) for i in ("c1", "c.2", "3", "{")]
    turn = new_turn(*steps, question=question, **({"error": error} if error else {}))
    run = Evidence(Run.of("made", [turn], contexts))
    path, wrote = export_spans(run.run, folder / "spans.jsonl", notes=notes_on(run))
    assert wrote["spans"] == 1 + len(steps)
    try:
        back = import_traces(path, folder / "back")
    except DataError as e:
        assert "holds no turn" in str(e) and not question.strip()
    else:
        [read] = back.trajectories.values()
        assert read.failed == bool(error or not read.answer)
