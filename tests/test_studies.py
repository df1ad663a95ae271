"""Every study can be measured again: its module imports, and its function takes what `make study NAME=...` gives it."""

import inspect
import json
from pathlib import Path

import pytest

from mtrag_nb import __version__
from mtrag_nb.core.files import read_json, write_json
from tools import study

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "data" / "measured"
ORIGINS = json.loads((MEASURED / "provenance.json").read_text("utf-8"))


@pytest.mark.parametrize("name", study.STUDIES)
def test_a_study_has_a_function_that_takes_its_folders(name: str):
    measured = study.STUDIES[name]
    signature = inspect.signature(study.function_of(measured))
    signature.bind(*study.folders_of(measured))


def test_an_unknown_name_prints_those_that_there_are(capsys: pytest.CaptureFixture):
    assert study.run_study("retrievel") == 2
    assert "retrieval|signals" in capsys.readouterr().out


def test_studies_of_runs_come_after_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert study.run_study("blame") == 2
    assert "make study NAME=equal comes before NAME=blame" in capsys.readouterr().out


def test_a_command_that_fails_stops_the_study():
    with pytest.raises(study.DataError, match="ended with exit code"):
        study.run_command(["score", "no such run"])


def test_every_module_of_the_studies_says_what_it_is_for():
    folder = Path(study.__file__).parent / "studies"
    for path in folder.glob("*.py"):
        assert path.read_text(encoding="utf-8").startswith('"""'), path.name


def test_each_kept_file_says_where_it_is_from():
    files = {p.name for p in MEASURED.iterdir()} - {"provenance.json"}
    assert files == ORIGINS.keys()


@pytest.mark.parametrize("file", ORIGINS)
def test_where_a_kept_file_is_from(file):
    "Study, module and the test that counts it again exist; what the file itself says of version and machine is repeated."
    origin = ORIGINS[file]
    assert origin["study"] in {*study.STUDIES, ""}
    module = ROOT / (origin["module"].replace(".", "/") + ".py")
    assert module.is_file() or origin["module"] == "" != origin["note"]
    if origin["recounted"]:
        text = (ROOT / origin["recounted"]).read_text("utf-8")
        assert f'"{Path(file).stem}' in text
    version, machine = study.origin_in((MEASURED / file).read_bytes(), file)
    assert origin["version_from"] in ("file", "study", "history")
    assert (origin["version_from"] == "file") == bool(version)
    assert origin["version"] == (version or origin["version"])
    assert origin["machine"] == machine


def test_a_study_says_of_what_it_writes_where_it_is_from(tmp_path, monkeypatch):
    "Files that it changed or made name it, and the version; the others stay as they were."
    monkeypatch.setattr(study, "MEASURED", tmp_path)
    told = {"version": "0.1.0", "study": "", "recounted": "a test", "note": ""}
    write_json(tmp_path / "provenance.json", {"old.json": told, "signals.json": told})
    for file in ("old.json", "signals.json"):
        write_json(tmp_path / file, {"n": 1})
    before = study.kept_files()
    machine = {"gpu": [], "cores": 2}
    made = {"machine": machine, "packages": {"mtrag_nb": "9.0"}}
    write_json(tmp_path / "signals.json", {"n": 2})
    write_json(tmp_path / "new.json", {"made": made})
    study.record_origins("signals", before)
    origins = read_json(tmp_path / "provenance.json")
    assert origins["old.json"] == told
    changed = origins["signals.json"]
    assert changed["version"] == __version__ and changed["version_from"] == "study"
    assert changed["study"] == "signals" and changed["recounted"] == "a test"
    assert origins["new.json"]["version"] == "9.0"
    assert origins["new.json"]["machine"] == "2 cores"
