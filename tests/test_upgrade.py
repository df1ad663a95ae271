"Run folders of every earlier version: those of version 1 are converted, those of 1.0.0 are read whole, reported and replayed (tests/support has some of both). Names that moved since 1.0.0."

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
KEPT, FIRST = (
    json.loads((TESTS / "support" / f"version_{n}.json").read_text(encoding="utf-8"))
    for n in (1, 2)
)


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
    used(new, tmp_path)


def used(folder: Path, out: Path) -> None:
    "What is done with a run: each of these ends with 0."
    assert main(["blame", str(folder)]) == main(["card", str(folder)]) == 0
    assert main(["score", str(folder), "--out", str(out / "scores")]) == 0
    assert main(["report", str(folder), "--out", str(out / "page.html")]) == 0


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


@pytest.mark.parametrize("name", FIRST["runs"])
def test_a_folder_of_1_0_0_is_read_reported_and_replayed(name, tmp_path, capsys):
    kept_run, folder = FIRST["runs"][name], tmp_path / "run"
    write_json(folder / "manifest.json", kept_run["manifest"])
    write_jsonl(folder / "trajectories.jsonl", kept_run["turns"])
    write_jsonl(folder / "passages.jsonl", kept_run["passages"])
    run = Run(folder)
    for line, t in zip(kept_run["turns"], run.trajectories.values(), strict=True):
        assert kept(line, json.loads(json.dumps(turn_line(t)))) and tell(t, run.passages)
    used(folder, tmp_path)
    for task_id in run.trajectories:
        capsys.readouterr()
        assert main(["replay", str(folder), "--turn", task_id]) == 0
        shown = capsys.readouterr().out
        assert "nothing changed; 0 of" in shown and " 0 model calls made" in shown
    command = [sys.executable, "tools/upgrade_run.py", str(folder), str(tmp_path / "new")]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True)
    assert done.returncode == 1 and "has version 2: nothing to do" in done.stderr


def test_a_turn_of_version_1_is_replayed_where_its_states_were_recorded(tmp_path, capsys):
    for name, code in (("sample_self_crag", 0), ("sample_ncl", 2)):
        folder, turns = tmp_path / name, [after for _, after in KEPT[name]["turns"]]
        write_json(folder / "manifest.json", KEPT[name]["manifest"][1])
        write_jsonl(folder / "trajectories.jsonl", turns)
        write_jsonl(folder / "passages.jsonl", KEPT[name]["passages"])
        assert main(["replay", str(folder), "--turn", turns[-1]["task_id"]]) == code
    assert "recorded before states were. Run it again" in capsys.readouterr().err


def test_an_index_of_1_0_0_is_refused_in_one_line(tmp_path, capsys):
    write_json(tmp_path / "manifest.json", FIRST["index"])
    assert main(["library", "list", "--index", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "holds an index of format 1" in told and "Build it again" in told
    assert told.count("\n") == 1


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
