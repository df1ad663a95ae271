"""What is read from a file or a command line is what its type says; a log is opened without being read."""

import json
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtrag_nb.core.files import JsonlLog, data_dir
from mtrag_nb.core.record import read_step, read_turn, turn_line
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import EmbedderSpec, ModelSpec, load_settings, with_settings
from mtrag_nb.core.types import SettingsError, plain, build_object
from mtrag_nb.runs.run import _git_commit, machine, package_versions


@dataclass(frozen=True)
class Part:
    n: int = 0


@dataclass(frozen=True)
class Whole:
    "A field of each form that the package uses."

    pair: tuple[str, str] = ("a", "b")
    counts: Mapping[str, int] = field(default_factory=dict)
    table: dict = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    parts: tuple[Part, ...] = ()
    by_name: Mapping[str, Part] = field(default_factory=dict)
    word: Literal["a", "b"] = "a"
    number: float = 0.0
    most: int | None = None
    either: bool | str = False


VALUES = [
    True,
    1,
    40.7,
    "a",
    "xyz",
    None,
    [],
    ["a"],
    [1],
    ["a", "b"],
    {},
    {"a": 1},
    {"n": "1"},
]
WRONG = {  # field -> the values that are none of it
    "pair": [True, 1, 40.7, "a", "xyz", None, [], ["a"], [1], {}, {"a": 1}, {"n": "1"}],
    "counts": [True, 1, 40.7, "a", "xyz", None, [], ["a"], [1], ["a", "b"], {"n": "1"}],
    "table": [True, 1, 40.7, "a", "xyz", None, [], ["a"], [1], ["a", "b"]],
    "names": [True, 1, 40.7, "a", "xyz", None, [1], {}, {"a": 1}, {"n": "1"}],
    "parts": [
        True,
        1,
        40.7,
        "a",
        "xyz",
        None,
        ["a"],
        [1],
        ["a", "b"],
        {},
        {"a": 1},
        {"n": "1"},
    ],
    "by_name": [
        True,
        1,
        40.7,
        "a",
        "xyz",
        None,
        [],
        ["a"],
        [1],
        ["a", "b"],
        {"a": 1},
        {"n": "1"},
    ],
    "word": [v for v in VALUES if v != "a"],
    "number": [v for v in VALUES if type(v) not in (int, float)],
    "most": [v for v in VALUES if v is not None and type(v) is not int],
    "either": [v for v in VALUES if type(v) not in (bool, str)],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_field_takes_what_its_type_says(name):
    for value in VALUES:
        if any(value == w and type(value) is type(w) for w in WRONG[name]):
            with pytest.raises(TypeError, match=rf"^Whole\.{name}\b"):
                build_object(Whole, {name: value})
        else:
            read = getattr(build_object(Whole, {name: value}), name)
            assert plain(read) == value, name


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*WRONG, "other"]), ANY))
def test_nothing_else_than_a_type_error(data):
    try:
        read = build_object(Whole, data)
    except TypeError as e:
        assert str(e).startswith("Whole")
    else:
        assert build_object(Whole, json.loads(json.dumps(plain(read)))) == read


def test_a_recorded_role_and_mapping_are_looked_into():
    refused = {"kind": "refused", "reason": "r", "role": "no such role"}
    with pytest.raises(TypeError, match=r"Refused\.role is 'no such role'"):
        read_step(refused)
    verdict = {"label": "yes", "how": "x"}
    with pytest.raises(TypeError, match=r"Clarified\.seen"):
        read_step({"kind": "clarified", "verdict": verdict, "seen": "not a mapping"})


RUNS = sorted(f.name for f in data_dir("recorded").iterdir())


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_turn_written_again_is_the_same_line(name):
    path = data_dir("recorded") / name / "trajectories.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines and all(turn_line(read_turn(line)) == line for line in lines)
    assert len(Run(path.parent).trajectories) == len(lines)


WRONG_SETTINGS = {  # setting -> values of another type
    "retrieval.top_k": [40.7, True, "40.7"],
    "stages.grade": [5, None],
    "stages.tidy": [2],
    "qdrant_url": [5],
    "chat.dtype": [5],
    "chat.name": [["a"]],
}


@pytest.mark.parametrize(
    "key, value", [(k, v) for k, vs in WRONG_SETTINGS.items() for v in vs]
)
def test_a_setting_of_another_type_is_named(key, value):
    with pytest.raises(SettingsError, match=re.escape(key)):
        with_settings(load_settings(), {key: value})


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("retrieval.top_k", "40", 40),
        ("stages.grade_threshold", "1", 1.0),
        ("stages.tidy", "No", False),
        ("chat.name", "123", "123"),
        ("stages.check", "mine.py:check", "mine.py:check"),
    ],
)
def test_a_text_is_read_as_what_the_setting_takes(key, text, value):
    changed = with_settings(load_settings(), {key: text})
    group, _, name = key.partition(".")
    read = getattr(getattr(changed, group), name)
    assert read == value and type(read) is type(value)


def test_settings_with_any_model_as_embedder_are_those_that_are_read_again():
    "Of equal settings a fork takes its run's models; a class of their own would make them others."
    made = replace(load_settings(), embedder=ModelSpec("mine", device="cpu"))
    assert made.embedder == EmbedderSpec("mine", device="cpu")
    assert build_object(type(made), plain(made)) == made
    with pytest.raises(SettingsError, match="the embedder mine has no quantization"):
        replace(made, embedder=ModelSpec("mine", quantization="nf4"))


def test_a_log_is_opened_without_reading_it(tmp_path):
    path = tmp_path / "calls.jsonl"
    line = json.dumps({"text": "x" * 1000}) + "\n"
    path.write_text(line * 20_000 + '{"text": "torn')
    tracemalloc.start()
    with JsonlLog(path) as log:
        _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert log.torn == 14 and path.stat().st_size == len(line) * 20_000
    assert peak < 2**20, f"{peak:,} bytes"


def test_settings_and_record_load_no_pydantic():
    "What a command's help imports: pydantic takes a third of the time that help may take."
    names = ["pydantic", "torch", "langgraph", "llama_index", "qdrant_client"]
    code = (
        "import sys, mtrag_nb.app.cli, mtrag_nb.core.record, mtrag_nb.core.settings\n"
        f"print([n for n in {names} if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_versions_machine_and_commit_are_noted():
    assert package_versions(["numpy", "no-such-package"])["no-such-package"] == ""
    assert package_versions()["torch"]
    assert machine()["cores"] >= 1 and len(_git_commit()) in (0, 40)
    with patch.dict(os.environ, PATH=""):  # a machine without git
        assert _git_commit() == ""
