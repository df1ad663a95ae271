"Run folders of every earlier version: those of version 1 are converted (tests/support has some), those of version 2 are read whole. Names that moved since 1.0.0."

import importlib
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import sync
import upgrade_run

from mtrag_nb._moved import MOVED
from mtrag_nb.app.cli import main
from mtrag_nb.core.files import data_dir, read_json, read_jsonl, write_json, write_jsonl
from mtrag_nb.core.record import VERSION, Run, read_turn, tell, turn_line
from mtrag_nb.core.types import DataError

TESTS = Path(__file__).resolve().parent
KEPT = json.loads((TESTS / "support" / "version_1.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", KEPT)
def test_version_1_becomes_version_2(name):
    before, after = KEPT[name]["manifest"]
    assert upgrade_run.manifest(before) == after
    for before, after in KEPT[name]["turns"]:
        assert upgrade_run.turn(before) == after


@pytest.mark.parametrize("name", KEPT)
def test_a_folder_of_version_1_is_refused_then_upgraded_and_read(name, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    write_json(old / "manifest.json", KEPT[name]["manifest"][0])
    write_jsonl(old / "trajectories.jsonl", [before for before, _ in KEPT[name]["turns"]])
    write_jsonl(old / "passages.jsonl", KEPT[name]["passages"])
    with pytest.raises(DataError, match="upgrade_run"):
        Run(old)
    command = [sys.executable, str(TESTS.parent / "tools" / "upgrade_run.py"), str(old), str(new)]
    subprocess.run(command, check=True)
    run = Run(new)
    assert len(run.trajectories) == len(KEPT[name]["turns"])
    assert all(tell(t, run.passages) for t in run.trajectories.values())
    assert read_json(old / "manifest.json") == KEPT[name]["manifest"][0]


def kept(before, after) -> bool:
    "Whether all that a line of a record has is still there, whatever was added."
    if isinstance(before, dict):
        return before.keys() <= after.keys() and all(kept(v, after[k]) for k, v in before.items())
    if isinstance(before, list):
        return len(before) == len(after) and all(map(kept, before, after))
    return before == after


@pytest.mark.parametrize("folder", sorted(data_dir("recorded").iterdir()), ids=lambda p: p.name)
def test_a_folder_of_version_2_is_read_with_all_that_it_has(folder):
    assert read_json(folder / "manifest.json")["version"] == VERSION == 2
    for _, line in read_jsonl(folder / "trajectories.jsonl"):
        assert kept(line, json.loads(json.dumps(turn_line(read_turn(line)))))


@pytest.mark.parametrize("old", MOVED)
def test_a_row_of_the_table_of_names_is_true(old, capsys):
    for place, name in re.findall(r"`([a-z_]+\.[a-z_]+)(?:\.(\w+))?`", MOVED[old]):
        there = importlib.import_module(f"mtrag_nb.{place}")
        assert there.__file__ and (not name or name in vars(there))
    command, _, rest = old.partition(" ")
    if rest:
        assert command == "mtrag" and main([rest]) == 2
        assert MOVED[old] in capsys.readouterr().err
        return
    room = importlib.import_module("mtrag_nb." + ".".join(old.split(".")[:2]))
    name = old.split(".")[2] if old.count(".") == 2 else "a_name_of_1_0"
    if name in vars(room):  # which imports it from where it is now
        assert vars(room)[name] is getattr(there, name)
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            assert getattr(room, name) is not None
        except ImportError as e:
            assert MOVED[old] in str(e) and not said
        else:
            assert [w.category for w in said] == [DeprecationWarning]


def test_the_table_of_names_is_the_one_of_the_changelog():
    changes = (TESTS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    assert MOVED == sync.moved(changes) and len(MOVED) > 40


def test_a_moved_name_is_the_name_itself_and_one_that_went_says_so_on_import():
    from mtrag_nb.search.ingest import build_index

    with pytest.warns(DeprecationWarning, match="search.ingest.build_index since 2.0"):
        from mtrag_nb.search.index import build_index as before
    assert before is build_index
    with pytest.raises(ImportError, match="systems_of is gone since 2.0. In its place: `systems`"):
        from mtrag_nb.serve.service import systems_of  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from mtrag_nb.serve.service import nothing  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="mtrag_nb.search.nowhere"):
        import mtrag_nb.search.nowhere  # noqa: F401
