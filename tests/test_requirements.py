"""`data/paper/requirements.json` has every requirement once, and each place that it names is there."""

import ast
import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import flatten_keys, plain

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "data/paper/requirements.json").read_text(encoding="utf-8")
ROWS = json.loads(TEXT)
COUNTS = {"card": 30, "self_crag": 47, "ncl": 29, "agents": 48, "nexus": 36}
STATES = ("as stated", "differs", "missing")
OWN = ("ncl", "agents", "nexus")  # systems with settings of their own
Body = list[ast.stmt]


def name_of(row: dict) -> str:
    return f"{row['source']} {row['section']}: {row['asks']}"


@cache
def body_of(path: Path) -> Body:
    return ast.parse(path.read_text(encoding="utf-8")).body


def named_in(body: Body) -> dict[str, ast.stmt]:
    "The names that statements define, each with its statement."
    names: dict[str, ast.stmt] = {}
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            names[statement.name] = statement
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        names |= {t.id: statement for t in targets if isinstance(t, ast.Name)}
    return names


def settings_of(system: str) -> set[str]:
    "The settings that are a system's own: fields of its class of settings, its constants left out."
    body = body_of(ROOT / f"mtrag_nb/systems/{system}.py")
    fields = named_in(named_in(body)[f"{system.title()}Settings"].body)
    return {
        f"{system}.{name}"
        for name, field in fields.items()
        if isinstance(field, ast.AnnAssign)
        and not ast.unparse(field.annotation).startswith("ClassVar")
    }


@cache
def settings_keys() -> set[str]:
    "All keys of the defaults; the profile `t4` has a reranker."
    keys = set(flatten_keys(plain(load_settings("t4"))))
    return keys.union(*map(settings_of, OWN))


def is_there(place: str) -> bool:
    "Whether a place leads somewhere: a setting, a test, a name of a module, a file."
    if place.startswith("settings key "):
        return place.removeprefix("settings key ") in settings_keys()
    if "::" in place:
        file, name = place.split("::")
        path = ROOT / file
        return path.is_file() and name in named_in(body_of(path))
    if not place.startswith("mtrag_nb."):
        return (ROOT / place).is_file()
    module, _, names = place.partition(":")
    path = ROOT / f"{module.replace('.', '/')}.py"
    if not path.is_file():
        return False
    body = body_of(path)
    for name in names.split("."):
        if name not in named_in(body):
            return False
        body = getattr(named_in(body)[name], "body", [])
    return True


def test_a_place_that_is_missing_is_seen():
    "One of each kind that is there, and one that is not."
    there = "mtrag_nb.core.settings:ChunkSettings.flat", "settings key ncl.gate"
    there += ("README.md", f"tests/{Path(__file__).name}::name_of")
    assert all(map(is_there, there))
    gone = "mtrag_nb.core.settings:ChunkSettings.flatter", "settings key ncl.top_k"
    gone += ("mtrag_nb.core.nothing:x", "nbs/none.ipynb", "tests/test_house.py::x")
    assert not any(map(is_there, gone))


def test_every_requirement_is_listed_once():
    assert Counter(row["source"] for row in ROWS) == COUNTS
    twice = [name for name, n in Counter(map(name_of, ROWS)).items() if n > 1]
    assert not twice


def test_the_study_states_how_many_rows_have_each_state():
    states = Counter(row["state"] for row in ROWS)
    notebook = json.loads(
        (ROOT / "nbs/9_studies/01_specifications.ipynb").read_text(encoding="utf-8")
    )
    findings = "".join(notebook["cells"][1]["source"])
    built, differ, missing = (states[state] for state in STATES)
    stated = f"Of {len(ROWS)} requirements {built} are built as stated*, {differ} differ and {missing} are missing"
    assert built + differ + missing == 190
    assert stated in findings, (
        f"the findings of 9_studies/01_specifications do not say: {stated}"
    )


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_requirement_has_a_state_a_reason_and_places_that_exist(row):
    needed = {"source", "section", "asks", "state", "places", "reason"}
    assert needed <= row.keys() <= needed | {"evidence"}, name_of(row)
    assert row["state"] in STATES, f"{name_of(row)}: no state {row['state']!r}"
    has_reason = bool(row["reason"])
    assert has_reason == (row["state"] != "as stated"), (
        f"{name_of(row)}: a reason stands where the state is not 'as stated'"
    )
    assert row["section"] and row["asks"] and row["places"], name_of(row)
    gone = [place for place in row["places"] if not is_there(place)]
    assert not gone, f"{name_of(row)}: there is no {', '.join(gone)}"
