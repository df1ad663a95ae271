"""Systems from outside, each unaware of this project: three programs that are known by their spans, a function, an address."""

import copy
import gzip
import json
import math
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtrag_nb.app.evaluate import evaluate
from mtrag_nb.core.files import data_dir
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import DataError, Outcome
from mtrag_nb.data.mtrag import read_benchmark, sample_dir
from mtrag_nb.data.literals import read_literal
from mtrag_nb.data.imports import KnownPassages
from mtrag_nb.data.traces import import_traces
from mtrag_nb.evaluation.blame import blame
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.statistics import mean_interval
from mtrag_nb.systems.outside import find_system
from tests.conftest import ROOT
from tests.support.foreign import (
    FAULTS,
    PROGRAMS,
    SPANS,
    asked,
    blamed,
    served,
    table,
)
from tests.support.foreign import write_sample
from tests.support.volume import few
from tests.test_fuzz import places

SAMPLE = sample_dir() / "reference.jsonl"
MTRAG = Path(sys.executable).with_name("mtrag")

# From spans alone, as a function, at an address


KEPT_ROWS = json.loads((data_dir("measured") / "outside.json").read_text("utf-8"))


@pytest.mark.parametrize("program", few(sorted(FAULTS, key="function".__ne__)))
def test_the_stage_with_the_fault_is_named_as_it_is_kept(program, tmp_path):
    pytest.importorskip("openinference.instrumentation.llama_index")
    pytest.importorskip("openinference.instrumentation.langchain")
    rows = blamed(program, write_sample(tmp_path))
    assert table(rows) == table([r for r in KEPT_ROWS if r["program"] == program])


def named_at_home() -> tuple[int, int]:
    "How often the stage with the planted fault is named in the systems of this package, as a notebook of `7_evaluation` measures it."
    shown = ""
    for path in ROOT.glob("nbs/7_evaluation/*.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            outputs = cell.get("outputs", ())
            shown += "".join("".join(o.get("text", ())) for o in outputs)
    named, broken = re.search(r"together: (\d+) of (\d+)", shown).groups()
    return int(named), int(broken)


def test_the_stage_is_named_as_often_as_at_home():
    for r in KEPT_ROWS:
        right = sum(s == r["stage"] for s in r["named"].values())
        assert len(r["named"]) >= 8, r
        assert right >= 0.95 * len(r["named"]), r
    hits = [float(s == r["stage"]) for r in KEPT_ROWS for s in r["named"].values()]
    talks = [i.partition("<")[0] for r in KEPT_ROWS for i in r["named"]]
    share, (named, broken) = mean_interval(hits, talks), named_at_home()
    assert share.value >= named / broken or share.low <= named / broken <= share.high


def test_programs_know_nothing_of_this_project():
    for path in {*PROGRAMS.glob("*.py")} - {PROGRAMS / "glue_function.py"}:
        code = re.sub(r'^""".*?"""', "", path.read_text("utf-8"), flags=re.S)
        assert "mtrag" not in code.lower(), path


# A function and an address: glue, resuming, live conversations, a server in trouble


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> Path:
    return write_sample(tmp_path_factory.mktemp("desk")) / "documents.jsonl"


def answers(run: Run) -> dict[str, str]:
    return {i: t.answer for i, t in run.trajectories.items()}


def count(url: str) -> dict[str, int]:
    "How many requests the server has had, and how many at a time."
    return httpx.get(url).json()


@pytest.fixture(scope="module")
def whole(documents, tmp_path_factory) -> dict[str, str]:
    "What the help desk answers when nothing is in its way."
    with served(documents) as url:
        run = asked(find_system(url), tmp_path_factory.mktemp("whole") / "run")
        assert count(url)["all"] == 81 and count(url)["most"] > 1, (
            "several turns in flight"
        )
    return answers(run)


def test_the_glue_has_ten_lines_at_most():
    lines = (PROGRAMS / "glue_function.py").read_text("utf-8").splitlines()
    assert len([x for x in lines if x.strip()]) <= 10


def mtrag(*args: object) -> subprocess.CompletedProcess:
    command = [MTRAG, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_a_function_from_command_to_report(documents, tmp_path, monkeypatch):
    monkeypatch.setenv("DESK_DOCUMENTS", str(documents))
    system, out = f"{PROGRAMS}/glue_function.py:answer", tmp_path / "mine"
    made = evaluate(system, SAMPLE, out, limit=12, progress=False)
    again = evaluate(system, SAMPLE, out, limit=24, in_flight=4, progress=False)
    assert len(made.run.trajectories) == 12 and len(again.run.trajectories) == 24
    assert answers(made.run).items() <= answers(again.run).items()
    stages = set(again.blame.counts("stage"))
    assert {"retrieve", "generate"} <= stages and again.scores.of("RougeL")
    assert "glue_function.py:answer" in again.page.read_text("utf-8")
    live = evaluate(
        system, SAMPLE, tmp_path / "live", live=True, limit=12, progress=False
    )
    assert len(live.run.trajectories) == 12
    turns = [t for t in live.run.trajectories.values() if t.turn > 1]
    own = [live.run.tasks[t.task_id].history[-1].text for t in turns]
    first = [
        live.run.trajectories[f"{t.conversation_id}<::>{t.turn - 1}"].answer
        for t in turns
    ]
    assert turns and own == first, "its own earlier answers are the history"


def test_an_address_from_command_to_report(documents, whole, tmp_path):
    with served(documents) as url:
        made = evaluate(
            url, SAMPLE, tmp_path / "run", limit=12, in_flight=4, progress=False
        )
        live = evaluate(
            url, SAMPLE, tmp_path / "live", live=True, limit=12, progress=False
        )
    assert (
        answers(made.run).items() <= whole.items() and len(made.run.trajectories) == 12
    )
    assert {"retrieve", "generate"} <= set(made.blame.counts("stage"))
    assert made.scores.of("RougeL") and url in made.page.read_text("utf-8")
    assert len(live.run.trajectories) == 12 and live.blame.judged


@pytest.mark.parametrize("field", ["documents", "sources", "context", "annotations"])
def test_passages_in_the_fields_of_other_servers(field, documents, whole, tmp_path):
    with served(documents, "--field", field) as url:
        run = asked(find_system(url), tmp_path / "run", 12)
    assert len(answers(run)) == 12 and answers(run).items() <= whole.items()
    texts = {c.text for c in run.passages.values()}
    known = {
        json.loads(line)["text"] for line in documents.read_text("utf-8").splitlines()
    }
    assert texts and texts <= known


@pytest.mark.parametrize("trouble", few(["busy", "broken", "drop", "slow"]))
def test_a_server_in_trouble_is_asked_again(trouble, documents, whole, tmp_path):
    changes = {"outside.timeout": 0.8, "outside.patience": 60.0}
    with served(documents, "--trouble", trouble) as url:
        run = asked(find_system(url), tmp_path / "run", 24, **changes)
        assert count(url)["all"] == 24 + 8, "each third question twice, none more often"
    assert len(run.trajectories) == 24 and answers(run).items() <= whole.items()


def test_a_turn_of_a_server_that_fails_is_tried_three_times(documents, tmp_path):
    with served(documents, "--trouble", "dead") as url:
        run = asked(find_system(url), tmp_path / "run", 8)
        assert count(url)["all"] == 3 * 4 * 8, (
            "three tries of a turn, four of a request"
        )
    assert all(t.failed and "500" in t.error.message for t in run.trajectories.values())


def test_a_server_that_is_gone_is_no_refusal(documents, tmp_path):
    with served(documents) as url:
        address = url
    changes = {"outside.timeout": 0.5, "outside.patience": 0.5}
    gone = asked(find_system(address), tmp_path / "gone", 8, **changes)
    assert len(gone.trajectories) == 8
    assert all(t.failed and not t.refused for t in gone.trajectories.values())
    said = next(iter(gone.trajectories.values())).error
    assert said.type == "Unreachable" and "Traceback" not in said.message


@pytest.mark.slow  # tests/test_fuzz.py cuts runs anywhere
def test_a_run_that_is_killed_goes_on_and_asks_nothing_twice(
    documents, whole, tmp_path
):
    out = tmp_path / "run"
    with served(documents, "--trouble", "slow") as url:
        command = ["run", "--system", url, "--tasks", SAMPLE, "--out", out]
        lines, quiet = out / "trajectories.jsonl", subprocess.DEVNULL
        words = [MTRAG, *map(str, command)]
        with subprocess.Popen(words, stdout=quiet, stderr=quiet) as first:
            until = time.monotonic() + 120
            while time.monotonic() < until:
                if lines.exists() and lines.read_bytes().count(b"\n") >= 20:
                    break
                time.sleep(0.05)
            first.send_signal(signal.SIGKILL)
        done = lines.read_bytes().count(b"\n")
        assert 20 <= done < 81
        second = mtrag(*command)
        assert second.returncode == 0, second.stderr
        assert count(url)["all"] <= 81 + 8, "at most what was in flight is asked again"
    assert answers(Run(out)) == whole


# Spans that are broken: no traceback, and nothing that changes a number unseen

BENCH = read_benchmark(SAMPLE, contexts=True)
PIECES = KnownPassages([p for g in BENCH.gold.values() for p in g.passages])
KEPT = {
    p: gzip.decompress((sample_dir() / "spans" / f"{p}.jsonl.gz").read_bytes()).decode()
    for p in SPANS
}


def turn_of(program: str) -> list[dict]:
    "The spans of one turn, one object each."
    found = [json.loads(line) for line in KEPT[program].splitlines()]
    if program == "otel":
        batches = [
            s for o in found for s in o["resourceSpans"][0]["scopeSpans"][0]["spans"]
        ]
        last = batches[-1]["traceId"]
        return [s for s in batches if s["traceId"] == last]
    last = found[-1]["context"]["trace_id"]
    return [s for s in found if s["context"]["trace_id"] == last]


TURNS = {p: turn_of(p) for p in SPANS}


def read(spans: list, out: Path, text: bytes | None = None) -> Run:
    "A run from spans, or from the bytes of a file of spans."
    shutil.rmtree(out, ignore_errors=True)
    source = out.with_suffix(".jsonl")
    lines = (json.dumps(s, ensure_ascii=False) for s in spans)
    data = "".join(f"{x}\n" for x in lines).encode("utf-8", "surrogatepass")
    source.write_bytes(data if text is None else text)
    return import_traces(source, out, BENCH.tasks, PIECES)


def steps(run: Run) -> list[tuple]:
    "What a run says that numbers are made of."
    return [
        (
            t.task_id,
            t.outcome,
            t.answer,
            t.contexts,
            [(type(s).__name__, s.node) for s in t.steps],
        )
        for t in run.trajectories.values()
    ]


def sane(run: Run) -> None:
    "A run can be read again, and its numbers are numbers."
    again = Run(run.folder)
    for t in again.trajectories.values():
        times = [t.seconds, *(s.seconds for s in t.steps)]
        scores = [h.score for s in t.retrievals for h in s.hits]
        assert all(math.isfinite(x) for x in (*times, *scores)) and min(times) >= 0
        assert min([t.calls.tokens, *(s.calls.tokens for s in t.steps)]) >= 0
    blame(Evidence(again, BENCH.gold))


WRONG = [
    None, True, -1, 0, 1e308, 10**400, "", "NaN", "9" * 400, "-9999999999999999999", "\ud800",
    "2026-13-45T99:99:99Z", "{", "[[[[", '{"documents": [null, 5, {"id": []}]}', [], {}, [[]],
    {"": {"": ""}}, [{"role": 5}], "\u202e\x00", "A=" * 5000, "Answer(result='", ["x"] * 3,
]  # fmt: skip


@given(data=st.data())
def test_no_value_in_a_span_ends_in_a_traceback(data):
    form = data.draw(st.sampled_from([*SPANS, as_langsmith]))
    same = TURNS[form] if form in SPANS else map(form, TURNS["langgraph"])
    spans = copy.deepcopy([*same])
    for _ in range(data.draw(st.integers(1, 3))):
        span = data.draw(st.sampled_from(spans))
        *above, last = data.draw(st.sampled_from([path for path, _ in places(span)]))
        for key in above:
            span = span[key]
        span[last] = copy.deepcopy(data.draw(st.sampled_from(WRONG)))
        spans = [s for s in spans if isinstance(s, dict)]
    with tempfile.TemporaryDirectory() as tmp:
        try:
            run = read(spans, Path(tmp) / "run")
        except DataError:
            return
        sane(run)


@given(program=st.sampled_from(SPANS), cut=st.floats(0, 1), junk=st.binary(max_size=6))
def test_a_torn_file_is_an_error_with_its_line(program, cut, junk):
    text = KEPT[program].encode()
    at = int(cut * len(text))
    with tempfile.TemporaryDirectory() as tmp:
        try:
            run = read([], Path(tmp) / "run", text[:at] + junk)
        except DataError as e:
            assert "run.jsonl" in str(e)
        else:
            assert text[:at].endswith((b"\n", b"}")) and not junk.strip()
            sane(run)


@pytest.mark.parametrize("program", SPANS)
def test_order_repetition_and_strange_parents_change_nothing_unseen(program, tmp_path):
    spans = TURNS[program]
    key = "parentSpanId" if program == "otel" else "parent_id"
    whole = read(spans, tmp_path / "whole")
    for order in (
        spans[::-1],
        spans[1::2] + spans[::2],
        [s for s in spans for _ in (1, 2)],
    ):
        run = read(order, tmp_path / "other")
        assert steps(run) == steps(whole)
        odd = run.manifest["imported"]["odd"]
        assert odd.get("spans that are there twice", 0) == len(order) - len(spans)
    roots = [s for s in spans if not s[key]]
    lost = [{**s, key: "00000000deadbeef"} if s in roots else s for s in spans]
    run = read(lost, tmp_path / "lost")
    assert run.manifest["imported"]["odd"]["spans whose parent is not in the file"] == 1
    assert steps(run) == steps(whole)
    ids = [s["spanId"] if program == "otel" else s["context"]["span_id"] for s in spans]
    circle = [{**s, key: ids[(n + 1) % len(ids)]} for n, s in enumerate(spans)]
    run = read(circle, tmp_path / "circle")
    assert run.manifest["imported"]["odd"]["circles of spans"] == 1
    sane(run)


def test_times_backwards_and_missing_are_counted(tmp_path):
    spans = copy.deepcopy(TURNS["otel"])
    for s in spans:
        s["startTimeUnixNano"], s["endTimeUnixNano"] = (
            s["endTimeUnixNano"],
            s["startTimeUnixNano"],
        )
    spans[0]["startTimeUnixNano"] = "soon"
    run = read(spans, tmp_path / "run")
    odd = run.manifest["imported"]["odd"]
    assert odd["spans that end before they begin"] == len(spans) - 1
    assert odd["spans without a beginning that can be read"] == 1
    sane(run)


@pytest.mark.parametrize("program", SPANS)
def test_texts_ten_times_too_long_and_foreign_letters(program, tmp_path):
    def longer(value):
        if isinstance(value, dict):
            kept = (
                "traceId",
                "spanId",
                "trace_id",
                "span_id",
                "parent_id",
                "parentSpanId",
            )
            return {k: v if k in kept else longer(v) for k, v in value.items()}
        if isinstance(value, list):
            return [longer(v) for v in value]
        return value * 10 if isinstance(value, str) and len(value) > 500 else value

    sane(read([longer(s) for s in TURNS[program]], tmp_path / "run"))
    letters = json.dumps(TURNS[program], ensure_ascii=False).translate(
        {ord("a"): "\u0430", ord("o"): "\U0001f600", ord(" "): "\u00a0"}
    )
    broken = read([*TURNS[program], {"name": letters}], tmp_path / "letters")
    assert broken.manifest["imported"]["odd"]["an object that is no span"] == 1
    assert steps(broken) == steps(read(TURNS[program], tmp_path / "whole"))


@pytest.mark.parametrize("coding", ["utf-16", "latin-1", "gzip"])
def test_other_encodings_are_said(coding, tmp_path):
    text = KEPT["otel"].replace("answer", "antwörtlich")
    data = (
        text.encode(coding, "replace")
        if coding != "gzip"
        else gzip.compress(text.encode())[:-9]
    )
    path = tmp_path / ("spans.jsonl.gz" if coding == "gzip" else "spans.jsonl")
    path.write_bytes(data)
    with pytest.raises(
        DataError, match=r"UTF-16|not UTF-8|cannot be read|end-of-stream"
    ):
        import_traces(path, tmp_path / "run", BENCH.tasks, PIECES)


# The forms of other stores


def as_langsmith(s: dict) -> dict:
    "A span of LangChain's tracer as the run that LangSmith exports of it."
    a = s["attributes"]
    kinds = {"LLM": "llm", "RETRIEVER": "retriever", "PROMPT": "prompt"}

    def put(value, name):
        found = read_literal(value)
        return found if isinstance(found, dict) else {name: value}

    return {
        "id": s["context"]["span_id"],
        "trace_id": s["context"]["trace_id"],
        "parent_run_id": s["parent_id"],
        "session_id": "6e1a0c6e-the-project",
        "name": s["name"],
        "run_type": kinds.get(a["openinference.span.kind"], "chain"),
        "inputs": put(a["input.value"], "input"),
        "outputs": put(a["output.value"], "output"),
        "start_time": s["start_time"].removesuffix("Z"),
        "end_time": s["end_time"].removesuffix("Z"),
        "extra": {"metadata": json.loads(a["metadata"])},
        "error": None,
        "tags": ["seq:step:1"],
        "feedback_stats": None,
    }


def test_runs_of_langsmith_are_read_as_the_spans_of_the_same_program(tmp_path):
    spans = [json.loads(line) for line in KEPT["langgraph"].splitlines()]
    whole, run = (
        read(spans, tmp_path / "whole"),
        read(map(as_langsmith, spans), tmp_path / "runs"),
    )
    assert steps(run) == steps(whole)
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps({"runs": [as_langsmith(s) for s in spans]}), "utf-8")
    assert steps(
        import_traces(listed, tmp_path / "list", BENCH.tasks, PIECES)
    ) == steps(whole)


def test_a_page_of_phoenix_is_read_as_the_spans_of_the_same_program(tmp_path):
    spans = [json.loads(line) for line in KEPT["langgraph"].splitlines()]
    whole = read(spans, tmp_path / "whole")
    page = [{**s, "id": n, "status_code": "OK"} for n, s in enumerate(spans)]
    for s in page:
        s["span_kind"] = s["attributes"]["openinference.span.kind"]
    (tmp_path / "page.json").write_text(
        json.dumps({"data": page, "next_cursor": None}), "utf-8"
    )
    run = import_traces(tmp_path / "page.json", tmp_path / "page", BENCH.tasks, PIECES)
    assert steps(run) == steps(whole)


# What other tracers write: texts of Python and LangChain, frameworks around the program, marks of Windows


TICKET, PASSAGE = (
    "A ticket costs 12 crowns.",
    "A ticket costs 12 crowns. Students pay 7.",
)
QUESTION = "How much is a ticket?"
SAID = "content={!r} additional_kwargs={{'refusal': None}} response_metadata={{}} id='run-1'"


def typed(value: object) -> dict:
    return (
        {"arrayValue": {"values": value}}
        if isinstance(value, list)
        else {"stringValue": value}
    )


def spanned(id: str, parent: str, name: str, at: int, **attributes) -> dict:
    "A span of OTLP; attributes by name, with __ in the place of dots."
    pairs = [
        {"key": k.replace("__", "."), "value": typed(v)} for k, v in attributes.items()
    ]
    known = {"traceId": "t1", "spanId": id, "parentSpanId": parent, "name": name}
    times = {
        "startTimeUnixNano": f"{17 * 10**17 + at}",
        "endTimeUnixNano": f"{17 * 10**17 + 99}",
    }
    return {**known, **times, "attributes": pairs}


def message(side: str, **said: str) -> dict:
    return {f"llm__{side}_messages__0__message__{k}": v for k, v in said.items()}


def chain(
    asked: str = QUESTION, said: str | None = TICKET, parent: str = "", **shown
) -> list:
    "A search and a model in a chain."
    root = {"openinference__span__kind": "CHAIN", "input__value": asked}
    root |= {} if said is None else {"output__value": said}
    search = {"openinference__span__kind": "RETRIEVER", "input__value": QUESTION}
    found = {"retrieval__documents__0__document__id": "d1"}
    found |= {"retrieval__documents__0__document__content": PASSAGE}
    model = {"openinference__span__kind": "LLM"}
    model |= message("input", role="user", content=f"{PASSAGE}\n{QUESTION}")
    model |= message("output", role="assistant", content=TICKET)
    return [
        spanned("a", parent, "chain", 1, **root),
        spanned("b", "a", "retrieve", 2, **search, **(shown or found)),
        spanned("c", "a", "ChatOpenAI", 3, **model),
    ]


def parts(quote: Callable) -> str:
    content = quote([{"type": "text", "text": QUESTION}])
    return json.dumps({"messages": [{"role": "user", "content": content}]})


DOTTED = {"document.id": "d1", "document.content": PASSAGE}
BARE = {"lc": 1, "type": "constructor", "id": ["schema", "messages", "AIMessage"]}
MADE = {"messages": [{**BARE, "kwargs": {"content": TICKET}}]}
CHOICES = {"choices": [{"message": {"role": "assistant", "content": TICKET}}]}
ASKED, ANSWERED = SAID.format(QUESTION), SAID.format(TICKET)
BEFORE, AFTER = (
    json.dumps({"messages": [ASKED]}),
    json.dumps({"messages": [ASKED, ANSWERED]}),
)
PDF = f"[Document(metadata={{'source': 'fees.pdf'}}, page_content={PASSAGE!r})]"
WORKER = "run_in_threadpool"
REQUEST = spanned("h", "", "POST /chat", 0, http__method="POST")
FORMS = {
    "as they are": chain(),
    "a question in quotes": chain(json.dumps(QUESTION)),
    "a question of Python": chain(repr({"question": QUESTION, "chat_history": []})),
    "a question's parts as JSON": chain(parts(json.dumps)),
    "a question's parts of Python": chain(parts(repr)),
    "a list of LangChain": chain(
        f"[HumanMessage(content={QUESTION!r}, additional_kwargs={{}})]"
    ),
    "an answer of LangChain": chain(said=ANSWERED),
    "messages of LangChain": chain(BEFORE, AFTER),
    "a constructor": chain(said=json.dumps(MADE)),
    "generations": chain(said=json.dumps({"generations": [[{"text": TICKET}]]})),
    "choices": chain(said=json.dumps(CHOICES)),
    "null": chain(said="null"),
    "no output": chain(said=None),
    "documents in JSON": chain(retrieval__documents=json.dumps([DOTTED])),
    "documents, each in JSON": chain(
        retrieval__documents=[{"stringValue": json.dumps(DOTTED)}]
    ),
    "documents of LangChain": chain(output__value=PDF),
    "documents as texts": chain(output__value=json.dumps([PASSAGE])),
    "below a request": [REQUEST, *chain(parent="h")],
    "below a request and a worker": [
        REQUEST,
        spanned("w", "h", WORKER, 0),
        *chain(parent="w"),
    ],
    "the root lost": chain()[1:],
}


@pytest.mark.parametrize("form", FORMS)
def test_what_other_tracers_write_is_the_same_turn(form, tmp_path):
    turn = next(iter(read(FORMS[form], tmp_path / "run").trajectories.values()))
    asked = QUESTION if form != "the root lost" else turn.question
    assert (turn.question, turn.answer, turn.outcome) == (
        asked,
        TICKET,
        Outcome.ANSWERED,
    )
    assert [s.path for s in turn.steps] == ["retrieved", "drafted"] and len(
        turn.contexts
    ) == 1


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    whole = read(chain(), tmp_path / "whole")
    for name, value in (
        ("list", json.dumps(chain())),
        ("pretty", json.dumps(chain(), indent=1)),
    ):
        path = tmp_path / f"{name}.json"
        path.write_text(value, encoding="utf-8-sig")
        assert steps(
            import_traces(path, tmp_path / name, BENCH.tasks, PIECES)
        ) == steps(whole)
