"Run folders of every earlier version: those of version 1 are converted (tests/support has some), those of version 2 are read whole."

import json
import subprocess
import sys
from pathlib import Path

import pytest
import upgrade_run

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
