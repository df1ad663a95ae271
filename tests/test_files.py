"""What cannot be written ends one turn and not the run; what is written over is only one's own; odd paths are errors in words."""

import json
import math
import os
import shutil
from pathlib import Path

import pytest

from mtrag_nb import evaluate
from mtrag_nb.app.exchange import export_run
from mtrag_nb.app.measure import gate
from mtrag_nb.app.pages import cases, report
from mtrag_nb.core.files import LONGEST_LINE, JsonlLog, Unwritable, data_dir, read_jsonl
from mtrag_nb.core.files import make_folder, require_replaceable, write_whole
from mtrag_nb.core.record import Fault, Trajectory
from mtrag_nb.core.run_folder import Run, read_trajectories
from mtrag_nb.core.types import Outcome
from mtrag_nb.core.types import Context, DataError
from mtrag_nb.runs.run import Recorder

RECORDED = data_dir("recorded") / "sample_naive"
HUGE = "x" * (LONGEST_LINE + 1)


class Tools:
    "The part of a toolbox that a recorder reads."

    def __init__(self, passages: dict[str, Context]):
        self.passages = passages
        self.retriever = None

    def contexts(self, ids: list[str]) -> list[Context]:
        return [self.passages[i] for i in ids]


def turn(task_id: str, **changes: object) -> Trajectory:
    "An answered turn without steps."
    whole = {"outcome": Outcome.ANSWERED, "answer": "12 crowns.", **changes}
    return Trajectory(task_id, "c", 1, "", "How much?", (), **whole)


CIRCLE: dict = {}
CIRCLE["self"] = CIRCLE
BAD_VALUES = {
    "NaN": {"a": math.nan},
    "infinity": {"a": [1, {"b": math.inf}]},
    "minus infinity": {"a": -math.inf},
    "too long": {"a": HUGE},
    "a long key": {HUGE: 1},
    "control characters": {"a": "\x01" * (LONGEST_LINE // 6 + 1)},
    "two bytes a letter": {"a": "\u00e9" * (LONGEST_LINE // 2 + 1)},
    "a circle": CIRCLE,
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_what_no_line_holds_is_refused_and_the_log_goes_on(name, tmp_path):
    path = tmp_path / "log.jsonl"
    with JsonlLog(path) as log:
        log.append({"n": 1})
        with pytest.raises(Unwritable):
            log.append(BAD_VALUES[name])
        log.append({"n": 2})
    assert [line["n"] for _, line in read_jsonl(path)] == [1, 2]


def test_the_longest_line_that_is_written_is_read(tmp_path):
    path = tmp_path / "log.jsonl"
    with JsonlLog(path) as log:
        log.append({"a": "x" * (LONGEST_LINE - len('{"a": ""}\n'))})
    assert path.stat().st_size == LONGEST_LINE
    assert len(list(read_jsonl(path))) == 1


BAD_TURNS = {
    "a long answer": turn("b", answer=HUGE),
    "a long question": Trajectory("b", "c", 1, "", HUGE, (), Outcome.ANSWERED),
    "a long error": turn("b", outcome=Outcome.ERROR, error=Fault("", "E", HUGE)),
    "seconds that are none": turn("b", seconds=math.nan),
    "endless seconds": turn("b", seconds=math.inf),
}


@pytest.mark.parametrize("name", BAD_TURNS)
def test_a_turn_that_no_line_holds_is_an_error_of_that_turn(name, tmp_path):
    recorder = Recorder(tmp_path, Tools({}))
    recorder.write(turn("a"))
    written = recorder.write(BAD_TURNS[name])
    recorder.write(turn("d"))
    recorder.close()
    turns = read_trajectories(tmp_path / "trajectories.jsonl")
    assert [t.task_id for t in turns.values()] == ["a", "b", "d"]
    assert written.failed and turns["b"].failed
    assert "cannot be recorded" in turns["b"].error.message
    assert turns["d"].answered


@pytest.mark.slow  # a turn of more than 32 MiB is written and read
def test_a_run_with_a_turn_that_is_too_long_can_be_read(tmp_path):
    def system(messages: list[dict]) -> str:
        question = messages[-1]["content"]
        return HUGE if "dog" in question else "12 crowns"

    questions = [
        {"question": q, "answer": "12"} for q in ("a cat?", "a dog?", "a cow?")
    ]
    done = evaluate(system, questions, out=tmp_path / "run", progress=False)
    run = Run(done.run.folder)
    failed = [t.failed for t in run.trajectories.values()]
    assert failed == [False, True, False]


@pytest.mark.parametrize("path", ["/", ".", "a\0b", "\0", "a/b\0/c"])
def test_an_impossible_file_is_an_error_in_words(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError):
        write_whole(path, "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["a\0b", "\0"])
def test_an_impossible_folder_is_an_error_in_words(path):
    with pytest.raises(DataError, match="NUL"):
        make_folder(path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    "Files of somebody's own."
    texts = {"notes.txt": "mine", "manifest.json": '{"identity": 1}', "a.html": "<p>"}
    texts |= {"predictions.jsonl": '{"task_id": "a"}\n', "x.jsonl": "[]", "x.md": "# A"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return {name: tmp_path / name for name in texts}


NAMES = ["notes.txt", "manifest.json", "a.html", "predictions.jsonl", "x.jsonl", "x.md"]


@pytest.mark.parametrize("name", NAMES)
def test_export_and_the_gate_write_over_no_file_of_others(name, files):
    before = files[name].read_bytes()
    with pytest.raises(DataError, match="is a file, and not"):
        export_run(RECORDED, out=files[name])
    with pytest.raises(DataError, match="is a file, and not"):
        gate(RECORDED, RECORDED, comment=files[name])
    assert files[name].read_bytes() == before


def test_export_leaves_a_file_beside_that_is_not_its_own(tmp_path):
    beside = tmp_path / "spans.annotations.json"
    beside.write_text("mine")
    with pytest.raises(DataError, match="not the annotations"):
        export_run(RECORDED, out=tmp_path / "spans.jsonl")
    assert beside.read_text() == "mine"
    assert not (tmp_path / "spans.jsonl").exists()


def test_export_writes_over_its_own_file(tmp_path, capsys):
    first = export_run(RECORDED, out=tmp_path / "spans.jsonl")
    second = export_run(RECORDED, out=tmp_path / "spans.jsonl")
    assert first == second
    assert json.loads(second.read_text().splitlines()[0])["resourceSpans"]


@pytest.mark.parametrize("out", ["/", ".", "a\0b"])
def test_an_impossible_place_of_an_export_or_comment_is_an_error_in_words(out):
    with pytest.raises(DataError):
        export_run(RECORDED, out=out)
    with pytest.raises(DataError):
        gate(RECORDED, RECORDED, comment=out)


def test_an_empty_file_may_be_written_over(tmp_path):
    (tmp_path / "new").touch()
    assert require_replaceable(tmp_path / "new", [b"{"], "it") == tmp_path / "new"


@pytest.mark.skipif(os.name == "nt", reason="names are bytes only on POSIX")
@pytest.mark.parametrize(
    "name", [b"run\xff", b"\xe9t\xe9", b"\x80", b"a\xc3", b"a \xfe"]
)
@pytest.mark.parametrize("command", [report, cases])
def test_a_folder_whose_name_is_not_utf_8_has_a_page(command, name, tmp_path):
    folder = tmp_path / os.fsdecode(name)
    shutil.copytree(RECORDED, folder)
    page = command([folder], out=tmp_path / "page.html")
    assert "\ufffd" in Path(page).read_text(encoding="utf-8")
