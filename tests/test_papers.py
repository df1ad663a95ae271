"""What the papers' tables name here is there: the routes of the service, the runs that are kept, the files of `make figures`."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from mtrag_nb.app.cli import Command
from mtrag_nb.app.evaluate import judge
from mtrag_nb.app.reproduce import Reproduction, facts, _paper_plans, recordings
from mtrag_nb.app.reproduce import reproduce, runs_table, write
from mtrag_nb.core.record import Run
from mtrag_nb.core.types import SettingsError
from mtrag_nb.show.browser import published
from mtrag_nb.systems.outside import configured

ROOT = Path(__file__).resolve().parents[1]


def test_the_endpoints_of_nexusrag_are_routes_of_the_service():
    source = Path(find_spec("mtrag_nb.serve.api").origin).read_text(encoding="utf-8")
    routes = {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path))
        for method, path in re.findall(r'@app\.(\w+)\(\s*"([^"]+)"', source)
    }
    printed = published("nexus")["tables"]["Table 4"]["rows"]
    assert {(m, re.sub(r"\{\w+\}", "{}", path)) for m, path, _ in printed} <= routes


def test_the_figures_of_the_specification_add_up():
    tables = {place: t["rows"] for place, t in published("agents")["tables"].items()}

    def numbers(place, column):
        found = [r[column] for r in tables[place]]
        return [x for x in found if isinstance(x, (int, float))]

    *parts, total = numbers("6.1", 1)
    assert sum(parts) == total and sum(numbers("6.1", 2)) == 200, "of 100 %, and their total"
    for column in (1, 2):
        *parts, total = numbers("6.2", column)
        assert sum(parts) == total
    sizes = [v.split() for k, v in tables["4.1"] if k not in ("child chunks", "total")]
    kb = sum(float(n) * {"KB": 1, "MB": 1000}[unit] for n, unit in sizes)
    assert kb == 2350, "of the 2.55 MB that it prints"


@pytest.mark.parametrize("paper", _paper_plans())
def test_the_kept_runs_are_of_the_paper_and_of_the_setting_that_is_named(paper):
    r = Reproduction(paper, "none", where="sample", recorded=True)
    made = {p.name: p for p in r.made}
    kept = {x.name: x for x in recordings(r)}
    assert set(kept) == {name for name, p in made.items() if p.kept} and kept
    for name, x in kept.items():
        planned, settings = made[name], x.manifest["settings"]
        assert x.system.split("+")[0] == r.of.system
        assert x.system.endswith(planned.variant), name
        for key, value in planned.changes.items():
            group, _, field = key.partition(".")
            there = settings["own" if group == r.of.system else group][field]
            wanted = f"published-{value}" if planned.variant == "published" else value
            assert there == wanted, (name, key, there)


def test_the_kept_figures_are_those_of_make_figures():
    for paper in _paper_plans():
        folder = ROOT / "figures" / paper
        names = {p.stem for p in folder.glob("*.svg")}
        assert {"graph", "graph_dark"} <= names
        assert all(f"{n[:-5]}" in names for n in names if n.endswith("_dark"))
        for p in folder.glob("*.svg"):
            assert not re.search(r"20\d\d-\d\d-\d\d", p.read_text(encoding="utf-8")), p


def test_the_runs_of_ablations_are_whole():
    for folder in (ROOT / "data" / "paper" / "runs").iterdir():
        assert not any(t.outcome == "not_recorded" for t in Run(folder).trajectories.values())


CSV = """
from mtrag_nb.app.reproduce import Reproduction, recordings, tables_of
r = Reproduction("self_crag", "none", where="sample", recorded=True)
print(*(t.csv() for t in tables_of(r, recordings(r)).values()))
"""


def test_tables_do_not_hang_on_the_order_of_sets():
    def csv(seed: str) -> str:
        how = {"env": {**os.environ, "PYTHONHASHSEED": seed}, "capture_output": True, "text": True}
        return subprocess.run([sys.executable, "-c", CSV], check=True, cwd=ROOT, **how).stdout

    assert csv("1") == csv("3") != ""


def kept_of(folder: Path) -> dict[str, str]:
    "The tables of a folder; with the matplotlib of constraints.txt its figures too, coordinates and generated ids aside."
    pinned = re.search(r"^matplotlib==(\S+)", (ROOT / "constraints.txt").read_text(), re.M)[1]
    kinds = ["*.csv", "*.svg"] if version("matplotlib") == pinned else ["*.csv"]
    files = [p for kind in kinds for p in folder.rglob(kind)]
    texts = {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in files}
    return {name: re.sub(r"-?\d+\.\d+", "#", t) for name, t in texts.items() if ".svg" in name} | {
        name: t for name, t in texts.items() if ".csv" in name
    }


def test_the_page_of_kept_runs_says_what_they_hold(tmp_path):
    told = []
    for paper in _paper_plans():
        r = Reproduction(paper, tmp_path / paper, where="sample", recorded=True)
        runs, known = recordings(r), dict(facts(r, recordings(r)))
        turns = {i for x in runs for i in x.turns}
        talks = {c for x in runs for c in x.talks.values()}
        assert known["tasks"] == f"{len(turns)} turns of {len(talks)} conversations"
        assert ("judge" in known) == any(x.judged for x in runs)
        assert "children indexed" not in known
        changed = {row[0]: row[2] for row in runs_table(r, runs)[1]}
        for x in runs:
            plain, _, variant = x.system.partition("+")
            if configured(x.system, "laptop") == configured(plain, "laptop"):
                variant = ""  # another name of the plain system
            assert (
                changed[x.name].startswith(f"as {variant}" if variant else "") and changed[x.name]
            )
        write(r, told.append)
        drawn = {p.stem.removesuffix("_dark") for p in (tmp_path / paper).glob("*.svg")}
        assert told[-1].endswith(f" tables and {len(drawn)} figures")
        for name, text in kept_of(ROOT / "figures" / paper).items():
            assert text == kept_of(tmp_path / paper)[name], f"{paper}/{name}: `make figures` again"
    assert "nexus.verify=support" in dict(r[::2] for r in runs_table(r, runs)[1])["nexus"]


def test_reproduce_offers_what_it_takes_and_refuses_what_a_kept_run_cannot_have(tmp_path):
    command = Command(reproduce)
    with pytest.raises(SystemExit):
        command.read("ncl", "--chat", "x/y")
    typed = command.read("ncl", "--profile", "t4", "--set", "seed=3", "--limit", "2")
    assert (typed.profile, typed.set, typed.limit) == ("t4", ["seed=3"], 2)
    for more in (["--limit", "2"], ["--profile", "t4"], ["--data", "x"], ["--encoder", "none"]):
        with pytest.raises(SettingsError, match="--recorded takes --out alone"):
            command.do(command.read("ncl", "--recorded", *more))
    out = str(tmp_path / "nexus")
    assert command.do(command.read("nexus", "--recorded", "--out", out))


def test_turns_that_asked_back_are_judged_turns():
    class Report:
        answered, refused, asked_back, pending, turns = 3, 1, 2, 0, 6

    assert judge.done([Report], ["run"])
    Report.pending, Report.turns = 1, 7
    assert not judge.done([Report], ["run"]) and judge.done([Report], ["run"], 6)
