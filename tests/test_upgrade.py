"""Run folders of earlier versions: recorded turns of version 1, and the same turns as version 2 holds them (tests/support)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import upgrade_run

from mtrag_nb.core.files import read_json, write_json, write_jsonl
from mtrag_nb.core.record import Run, tell
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
