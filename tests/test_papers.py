"""What the papers' tables name here is there: the routes of the service, the runs that are kept, the files of `make figures`."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from mtrag_nb.app.reproduce import PAPERS, Reproduction, recordings
from mtrag_nb.core.record import Run
from mtrag_nb.show.browser import published

ROOT = Path(__file__).resolve().parents[1]


def test_the_endpoints_of_nexusrag_are_routes_of_the_service():
    source = Path(find_spec("mtrag_nb.serve.api").origin).read_text(encoding="utf-8")
    routes = {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path))
        for method, path in re.findall(r'@app\.(\w+)\(\s*"([^"]+)"', source)
    }
    printed = published("nexus")["tables"]["Table 4"]["rows"]
    assert {(m, re.sub(r"\{\w+\}", "{}", path)) for m, path, _ in printed} <= routes


@pytest.mark.parametrize("paper", PAPERS)
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
    for paper in PAPERS:
        folder = ROOT / "figures" / paper
        names = {p.stem for p in folder.glob("*.svg")}
        assert {"graph", "graph_dark"} <= names
        assert all(f"{n[:-5]}" in names for n in names if n.endswith("_dark"))
        for p in folder.glob("*.svg"):
            assert not re.search(r"20\d\d-\d\d-\d\d", p.read_text(encoding="utf-8")), p


def test_the_runs_of_ablations_are_whole():
    for folder in (ROOT / "data" / "paper" / "runs").iterdir():
        assert not any(t.outcome == "not_recorded" for t in Run(folder).trajectories.values())
