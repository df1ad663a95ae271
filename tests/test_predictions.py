"""Prediction files that are broken or odd: an error that names file and remedy, or a run; never a traceback, and no wrong number."""

import copy
import gzip
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtrag_nb.app.exchange import import_run
from mtrag_nb.core.files import write_whole
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import DataError, Outcome
from mtrag_nb.data.mtrag import read_benchmark, sample_dir
from mtrag_nb.data.predictions import holds_predictions, import_predictions, _lines_of
from tests.test_fuzz import ANY_JSON, as_line, places

KNOWN = read_benchmark(sample_dir() / "reference.jsonl")
TASKS = KNOWN.tasks[:3]
CONTEXTS = [
    {"document_id": f"d{n}", "text": f"Text {n}.", "score": 1 / n} for n in (1, 2)
]
SCORED = {"metrics": {"RL_F": [0.5], "idk_eval": [0.0]}}
ANSWER = {"predictions": [{"text": "The Harbour Crows won it."}]}


def by_task(**of) -> list[dict]:
    return [
        {"task_id": t.id, "Collection": t.domain, **copy.deepcopy(of)} for t in TASKS
    ]


def viewer(answers: str, said: str, marks: str, text) -> dict:
    "An InspectorRAGet file."
    talk = [{"role": "user", "content": "Who?"}]
    some = [
        {"task_id": t.id, "input": talk, "contexts": [{"document_id": "d1"}]}
        for t in TASKS
    ]
    mark = {"fluency": {"ann": {"value": 4}, "bob": {"value": "3"}}}
    mark |= {"note": {"ann": {"value": "ok"}}}
    given = [{"task_id": t.id, "model_id": "m", said: text, marks: mark} for t in TASKS]
    return {"models": [], "documents": CONTEXTS[:1], "tasks": some, answers: given}


ASSISTANT = [{"role": "assistant", "content": "It did."}]
THEIRS = {
    "fallback_reason": "llm_refusal",
    "docs_relevant": "yes",
    "is_hallucination": "no",
}
OBJECTS = {  # form -> file name, its lines, or its one value
    "A": ("a.jsonl", by_task(contexts=CONTEXTS)),
    "C": ("c.jsonl", by_task(contexts=CONTEXTS, **ANSWER, **SCORED)),
    "theirs": (
        "theirs.jsonl",
        [
            {"task_id": t.id, "answer": "No.", "references": CONTEXTS, **THEIRS}
            for t in TASKS
        ],
    ),
    "rewrites": (
        "rewrites.jsonl",
        [{"_id": t.id, "text": f"|user|: {t.question}"} for t in TASKS],
    ),
    "scores": (
        "scores.json",
        {"scores": {"per_query": {t.id: {"nDCG@5": 0.5} for t in TASKS}}},
    ),
    "viewer": (
        "viewer.json",
        viewer("evaluations", "model_response", "annotations", "It did."),
    ),
    "viewer 2": (
        "viewer.json",
        {"schema_version": 2, **viewer("results", "output", "scores", ASSISTANT)},
    ),
}
TREC = "".join(
    f"{t.id} Q0 d{n} {n} {1 / n} run\n" for t in TASKS for n in (1, 2)
).encode()
every_form = pytest.mark.parametrize("form", OBJECTS)


def as_file(value: object) -> bytes:
    lines = value if isinstance(value, list) else [value]
    return "".join(f"{as_line(x)}\n" for x in lines).encode("utf-8", "surrogatepass")


@pytest.fixture
def reading(tmp_path):
    "What comes of a file: a run, or an error that says where it is and what to do."

    def read(name: str, data: bytes) -> Run | None:
        path, out = tmp_path / name, tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        path.write_bytes(data)
        try:
            holds_predictions(path)
            return import_predictions(path, KNOWN, out, passages=())
        except DataError as e:
            assert str(e.path) == str(path) and e.remedy, e
            assert not out.exists() and not list(tmp_path.glob("*.part"))
            return None

    return read


def test_what_stands_beside_is_nobodys_to_remove(tmp_path):
    "Three imports into one folder, beside a folder and a file of somebody's own: one is done, the others say why not."
    out, mine = tmp_path / "mine", tmp_path / "mine.part"
    mine.mkdir()
    (mine / "t.txt").write_text("thesis")
    (tmp_path / "i.html.part").write_text("notes")
    name, value = OBJECTS["C"]
    (tmp_path / name).write_bytes(as_file(value))
    how = {"passages": ()}
    begun = Barrier(3)

    def once(_) -> str:
        begun.wait()
        try:
            return str(import_predictions(tmp_path / name, KNOWN, out, **how).folder)
        except DataError as e:
            return e.problem

    with ThreadPoolExecutor(3) as pool:
        said = sorted(pool.map(once, range(3)))
    assert said == sorted([str(out), *["holds something already"] * 2])
    write_whole(tmp_path / "i.html", "page")
    assert (mine / "t.txt").read_text() == "thesis" and Run(out).trajectories
    assert (tmp_path / "i.html.part").read_text() == "notes"
    assert {p.name for p in tmp_path.glob("*.part")} == {"mine.part", "i.html.part"}


@every_form
def test_a_valid_file_is_read(form, reading):
    name, value = OBJECTS[form]
    run = reading(name, as_file(value))
    assert len(run.trajectories) == 3 and run.manifest["imported"]["notes"]
    packed = reading(f"{name}.gz", gzip.compress(as_file(value)))
    assert [*packed.trajectories.values()] == [*run.trajectories.values()]
    answered = {t.outcome for t in run.trajectories.values()}
    silent = form in ("A", "rewrites", "scores")
    assert (
        answered == {Outcome.NOT_RECORDED}
        if silent
        else Outcome.NOT_RECORDED not in answered
    )


@pytest.mark.parametrize("form", ["C", "scores", "viewer"])
def test_a_byte_order_mark_is_no_part_of_a_file(form, reading):
    name, value = OBJECTS[form]
    plain, marked = (
        reading(name, as_file(value)),
        reading(name, b"\xef\xbb\xbf" + as_file(value)),
    )
    assert [*marked.trajectories.values()] == [*plain.trajectories.values()]
    plain, marked = (
        reading("bm25.run", TREC),
        reading("bm25.run", b"\xef\xbb\xbf" + TREC),
    )
    assert [*marked.trajectories.values()] == [*plain.trajectories.values()]


def test_a_trec_run_is_ordered_by_score(reading):
    swapped = TREC.replace(b" 0.5 run", b" 2 run")
    for data, first in ((TREC, "d1"), (swapped, "d2")):
        run = reading("bm25.run", data)
        assert {t.found[0] for t in run.trajectories.values()} == {first}


@every_form
@given(data=st.data())
def test_no_value_ends_in_a_traceback(form, data, tmp_path_factory):
    name, value = OBJECTS[form]
    path = data.draw(st.sampled_from([p for p, _ in places(value)]))
    odd = data.draw(
        ANY_JSON | st.sampled_from(["@nan@", "@huge@", "\ud800", "שלום", "", "yes"])
    )
    made = at = copy.deepcopy(value)
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = odd
    folder = tmp_path_factory.mktemp("odd")
    try:
        (folder / name).write_bytes(as_file(made))
        run = import_predictions(folder / name, KNOWN, folder / "run", passages=())
        assert Run(run.folder).trajectories
    except DataError as e:
        assert str(e.path) == str(folder / name) and e.remedy, e


@given(
    cut=st.integers(0, len(TREC)),
    byte=st.sampled_from([b"", b"\xff", b"\xc3", b"\n\n", b"\t"]),
)
def test_a_torn_trec_run(cut, byte, tmp_path_factory):
    path = tmp_path_factory.mktemp("trec") / "bm25.run"
    path.write_bytes(TREC[:cut] + byte)
    try:
        form, lines = _lines_of(path)
        whole = [row for row in TREC[:cut].splitlines() if len(row.split()) == 6]
        assert sum(len(line["contexts"]) for _, line in lines) == len(whole)
    except DataError as e:
        assert e.remedy and (e.line or not TREC[:cut].strip())


@every_form
@given(data=st.data())
def test_a_torn_file_is_an_error(form, data, tmp_path_factory):
    name, value = OBJECTS[form]
    whole = as_file(value).rstrip()
    last = len(whole.splitlines()[-1])
    path = tmp_path_factory.mktemp("torn") / name
    path.write_bytes(whole[: len(whole) - data.draw(st.integers(1, last - 1))])
    with pytest.raises(DataError) as e:
        import_predictions(path, KNOWN, path.with_name("run"), passages=())
    assert e.value.line == len(whole.splitlines()) or name.endswith(".json")


WRONG = [  # what makes a line an error, and the words that say why
    ({"contexts": [{"document_id": "d1", "score": "@nan@"}]}, "score"),
    ({"contexts": [{"document_id": "d1", "score": "high"}]}, "score"),
    ({"contexts": [{"document_id": "d1", "score": 1}, {"document_id": "d2"}]}, "score"),
    ({"contexts": [{"score": 1}]}, "document_id"),
    ({"contexts": {"d1": 1}}, "contexts"),
    ({"predictions": []}, "predictions"),
    ({"predictions": [{"text": 7}]}, "text"),
    ({"predictions": [{"text": "\ud800"}]}, "half of a character"),
    ({"task_id": TASKS[1].id}, "predicted before"),
    ({"task_id": 7}, "task_id"),
    ({"task_id": ""}, "task_id"),
    ({"Collection": ["govt"]}, "collection"),
]


@pytest.mark.parametrize("odd,words", WRONG, ids=[str(n) for n in range(len(WRONG))])
def test_a_wrong_line_is_an_error_with_its_place(odd, words, tmp_path):
    lines = by_task(contexts=CONTEXTS, **ANSWER)
    lines = [lines[0] | odd, *lines[1:]]
    path = tmp_path / "c.jsonl"
    path.write_bytes(as_file(lines))
    with pytest.raises(DataError, match=words) as e:
        import_predictions(path, KNOWN, tmp_path / "run", passages=())
    assert e.value.line in (1, 2) and e.value.remedy


def test_odd_but_possible_lines_are_counted(tmp_path):
    lines = by_task(contexts=CONTEXTS + CONTEXTS[:1], **ANSWER)
    lines[1] |= {"task_id": "nobody<::>1", "predictions": [{"text": "  "}]}
    lines[2] |= {
        "contexts": [],
        "input": [{"speaker": "user", "text": "Another question?"}],
    }
    (tmp_path / "c.jsonl").write_bytes(as_file(lines))
    run = import_predictions(tmp_path / "c.jsonl", KNOWN, tmp_path / "run", passages=())
    told = run.manifest["imported"]
    assert told["joined"] == {"by task id": 2, "none of the tasks": 1}
    assert [*told["odd"].values()] == [1, 2, 1, 1]
    assert run.trajectories["nobody<::>1"].refused
    assert any("no gold for 1 of 3" in n for n in told["notes"])


def test_wrong_files_say_so(tmp_path):
    for text in ("", "hello\n", "[1, 2]\n", "<html>", "\n\n"):
        for ending in (".jsonl", ".json", ".run", ".jsonl.gz"):
            path = tmp_path / f"odd{ending}"
            path.write_text(text)
            with pytest.raises(DataError):
                import_predictions(path, KNOWN, tmp_path / "run")


def test_the_command_tells_files_of_predictions_from_spans(tmp_path, capsys):
    path = tmp_path / "c.jsonl"
    path.write_bytes(as_file(by_task(contexts=CONTEXTS, **ANSWER)))
    span = {
        "name": "task_id",
        "trace_id": "1",
        "span_id": "2",
        "attributes": {"task_id": "x"},
    }
    (tmp_path / "spans.jsonl").write_bytes(as_file([span]))
    assert holds_predictions(path) and not holds_predictions(tmp_path / "spans.jsonl")
    run = import_run(path, out=tmp_path / "run", tasks=sample_dir() / "reference.jsonl")
    assert len(run.trajectories) == 3 and "note: task C" in capsys.readouterr().out
