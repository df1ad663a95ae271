"""The published schema of a run folder: it is that of the types, every field has a description, and every recorded
run is valid by it."""

import json
from dataclasses import fields

import jsonschema
import pytest

from mtrag_nb.core.files import data_dir, read_json, read_jsonl
from mtrag_nb.core.record import turn_line
from mtrag_nb.core.run_folder import VERSION
from mtrag_nb.core.schema import FILES, CallValue, run_schema
from mtrag_nb.core.types import plain
from mtrag_nb.data.mtrag import sample_dir
from mtrag_nb.data.predictions import import_predictions
from mtrag_nb.evaluation.scores import score_run
from mtrag_nb.models.chat import Completion, Score
from tests.support.made_turns import GOLD, TASKS, turn_of, write_run

SCHEMA = run_schema()
CHECK = jsonschema.Draft202012Validator(SCHEMA)
PLACES = ("recorded", "paper/runs", "talks")
FOLDERS = [p.parent for name in PLACES for p in data_dir(name).glob("*/manifest.json")]


def problems(folder) -> list[str]:
    "What the schema says of the files of a folder."
    content = {}
    for name in FILES:
        path = folder / name
        if path.exists() and name.endswith(".jsonl"):
            content[name] = [line for _, line in read_jsonl(path)]
        elif path.exists():
            content[name] = read_json(path)
    return [
        f"{'/'.join(map(str, e.path))}: {e.message:.200}"
        for e in CHECK.iter_errors(content)
    ]


def test_what_is_published_is_the_schema_of_the_types():
    path = data_dir("schema") / f"run_v{VERSION}.json"
    remedy = f"write_json({str(path)!r}, run_schema())"
    assert read_json(path) == SCHEMA, f"the types have changed: {remedy}"
    CHECK.check_schema(SCHEMA)


def test_every_type_and_field_has_a_description():
    bare = [
        f"{name}.{key}"
        for name, definition in SCHEMA["$defs"].items()
        for key, part in definition.get("properties", {}).items()
        if not part.get("description")
    ]
    bare += [name for name, d in SCHEMA["$defs"].items() if not d.get("description")]
    assert not bare


def test_calls_have_the_fields_of_replies():
    replies = {f.name for kind in (Completion, Score) for f in fields(kind)}
    assert CallValue.__annotations__.keys() == replies


@pytest.mark.parametrize("folder", FOLDERS, ids=[f.name for f in FOLDERS])
def test_recorded_runs_are_valid(folder):
    assert problems(folder) == []


def test_recorded_calls_and_judgements_are_valid(tmp_path):
    calls = data_dir("talks") / "walkthrough" / "calls.jsonl"
    judged = data_dir("recorded") / "sample_ncl" / "judged"
    content = {"calls.jsonl": [line for _, line in read_jsonl(calls)]}
    for name in ("judgements.jsonl", "scores.jsonl"):
        content[name] = [line for _, line in read_jsonl(judged / name)]
    missing = {m.message for m in CHECK.iter_errors(content)}
    assert missing == {
        f"{name!r} is a required property" for name in SCHEMA["required"]
    }


def test_new_runs_are_valid(tmp_path):
    turns = [turn_of(n, task) for n, task in enumerate(TASKS)]
    run = write_run(tmp_path / "run", turns)
    score_run(run, GOLD)
    assert problems(run.folder) == []
    path = sample_dir() / "taskb_input.jsonl"
    lines = [{**line, "predictions": [{"text": "12"}]} for _, line in read_jsonl(path)]
    predictions = tmp_path / "predictions.jsonl"
    predictions.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    imported = import_predictions(predictions, None, tmp_path / "imported")
    assert problems(imported.folder) == []


@pytest.mark.parametrize(
    "change",
    [{"outcome": "bored"}, {"turn": "1"}, {"mood": "good"}, {"steps": [{"node": "a"}]}],
    ids=str,
)
def test_odd_turns_are_not_valid(tmp_path, change):
    run = write_run(tmp_path / "run", [turn_of(1, TASKS[1])])
    line = {**turn_line(turn_of(1, TASKS[1])), **change}
    content = {"trajectories.jsonl": [plain(line)], "passages.jsonl": []}
    content["manifest.json"] = run.manifest
    assert not CHECK.is_valid(content)
