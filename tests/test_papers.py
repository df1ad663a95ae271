"""What the papers' tables name here is there: the routes of the service, the runs that are kept, the files of `make figures`."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from mtrag_nb.app.cli import Command, Setup, fetch, run
from mtrag_nb.app.evaluate import _POOL, Reproduction, _Command, _commands, _data_at, _OneSet
from mtrag_nb.app.evaluate import _paper_plans, facts, go, judge, recordings, reproduce, runs_table
from mtrag_nb.app.evaluate import tables_of, write
from mtrag_nb.core.record import Run
from mtrag_nb.core.settings import Settings
from mtrag_nb.core.types import DataError, SettingsError
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.show.browser import published
from mtrag_nb.systems.outside import configured

ROOT = Path(__file__).resolve().parents[1]


def test_the_endpoints_of_nexusrag_are_routes_of_the_service():
    source = Path(find_spec("mtrag_nb.serve.api").origin).read_text(encoding="utf-8")
    routes = re.findall(r'@app\.(\w+)\(\s*"([^"]+)"', source)
    printed = [row[:2] for row in published("nexus")["tables"]["Table 4"]["rows"]]
    ours, theirs = (
        {(m.upper(), re.sub(r"\{\w+\}", "{}", path)) for m, path in x} for x in (routes, printed)
    )
    assert theirs <= ours


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
from mtrag_nb.app.evaluate import Reproduction, recordings, tables_of
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
    for name in (name for name in texts if ".svg" in name):
        texts[name] = re.sub(r"-?\d+\.\d+", "#", texts[name])
    return texts


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
            assert changed[x.name].startswith(f"as {variant}" if variant else "")
            assert changed[x.name]
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


# Reproduced on the sample by a scripted model


def scripted(settings: Settings) -> Models:
    "Models that need no weights: the first sentence of the documents answers, and a judge says eight."
    said = "Reasoning: it is.\nHallucination: no\nScore: 8"

    def reply(prompt):
        return said if "Score" in prompt.messages[-1][1] else first_sentence(prompt)

    return Models(settings, chat=ScriptedChat(reply), embedder=HashEmbedder(384))


def made_in(folder: Path, paper: str = "self_crag", limit: int = 4, models=scripted, **known):
    "A reproduction whose models need no fetching; Self-CRAG's without the runs of its other variants."
    known = {"variant": "graded" if paper == "self_crag" else "", "encoder": "none", **known}
    how = {"limit": limit, "where": "sample", "models": models, "progress": False}
    return Reproduction(paper, folder, **known, **how)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("papers") / "undisturbed"
    go(made_in(folder), list)
    return folder


def pages_of(folder: Path) -> dict[str, bytes]:
    "Page, tables and figures."
    places = ("reproduction.html", "tables/*", "figures/*")
    files = [f for p in places for f in sorted(folder.glob(p))]
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in files}


def dying(after: int):
    "Models of which the call with this number is the last of the process."
    calls = []

    def counted(f):
        def call(*how, **named):
            calls.append(1)
            return f(*how, **named) if len(calls) <= after else os._exit(9)

        return call

    def models(settings):
        found = scripted(settings)
        for part, method in ((found.chat, "generate"), (found.embedder, "encode")):
            setattr(part, method, counted(getattr(part, method)))
        return found

    return models


def killed_after(calls: int | None, folder: Path) -> bool:
    "Whether a process of its own ended there at once, with nothing cleaned up; None: while it writes the page."
    if not (pid := os.fork()):
        try:
            if calls is None:
                (folder / "tables").write_text("in the way")
            go(made_in(folder, models=scripted if calls is None else dying(calls)), list)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == (1 if calls is None else 9)


def test_a_reproduction_that_is_killed_anywhere_ends_with_the_same_bytes(undisturbed, tmp_path):
    "In the index, in the first run and in later ones, in the judge, and while the page is written."
    folder = tmp_path / "killed"
    for calls in (0, 2, 9, 9, 9, None):
        assert killed_after(calls, folder), calls
    (folder / "tables").unlink()
    go(made_in(folder), list)
    assert pages_of(folder) == pages_of(undisturbed) and len(pages_of(folder)) > 20


def test_a_turn_that_broke_does_not_end_a_reproduction(undisturbed, tmp_path):
    def brittle(settings):
        "The model breaks at one question."
        found = scripted(settings)

        def reply(prompt, ok=found.chat.replies):
            if "Quill" in prompt.messages[-1][1] and "Documents:" in prompt.messages[-1][1]:
                raise OSError("no space left")
            return ok(prompt)

        found.chat.replies = reply
        return found

    folder, told = tmp_path / "broken", []
    assert not go(made_in(folder, models=brittle), told.append)
    assert (folder / "reproduction.html").exists() and any("not whole" in t for t in told)
    assert go(made_in(folder), list)
    assert pages_of(folder) == pages_of(undisturbed)


def test_more_tasks_are_asked_for_later(undisturbed, tmp_path):
    r, again = made_in(tmp_path / "more"), []
    shutil.copytree(undisturbed, r.folder)
    tables = tables_of(r, recordings(r))
    assert {"self_crag_I", "self_crag_told", "self_crag_V_B"} <= tables.keys()
    assert not any(k.startswith("ncl") for k in tables)
    assert dict(tables["self_crag_told"].own[0].rows)["children indexed"].isdecimal()
    go(made_in(r.folder, limit=5), again.append)
    assert {len(x.turns) for x in recordings(r)} == {5}


def test_as_published_and_another_paper_are_other_rows_of_the_same_plan(tmp_path):
    published_too = made_in(tmp_path / "published", variant="published", limit=2)
    first, second = map(str, _commands(published_too)[:2])
    assert "--cap 25000" in first and "--as published" in second
    left = ["laptop", "published", "permissive", "smaller_model"]
    assert [p.name for p, why in published_too.runs if why] == left
    assert "at most 25,000 of each domain" in dict(facts(published_too))["children indexed"]
    ncl, told = made_in(tmp_path / "ncl", "ncl", limit=3), []
    go(ncl, told.append)
    assert list(tables_of(ncl, recordings(ncl))) == ["ncl_1", "ncl_2"]
    assert not any("ingest" in t for t in told)
    assert sum(t.startswith("mtrag judge") for t in told) == 2


def test_what_is_not_there_has_to_be_fetched(tmp_path):
    sample = _data_at("sample")
    assert sample.lacking(["corpora"]) == [] and sample.tasks("any").is_file()
    assert len(sample.qrels()) == 4 == len(sample.passages())
    empty = _data_at(tmp_path, "t4")
    kinds = ["corpora", "mtrag-human/reference", "mtrag-human/qrels"]
    assert empty.lacking(kinds) == ["corpora", "tasks", "retrieval"]
    (tmp_path / _POOL).touch()
    assert empty.lacking(["corpora"]) == [] and _data_at("sample", "t4").root is None
    assert _data_at("", "t4").root
    with pytest.raises(DataError, match="mtrag fetch data"):
        empty.tasks("mtrag-human/reference")


def test_a_command_prints_itself_as_it_would_be_typed():
    setup = Setup("t4", set=("stages.prompts=strict", "seed=3"))
    known = {"reference": "tasks.jsonl", "limit": None, "settings": setup}
    typed = "mtrag judge runs/a runs/b --reference tasks.jsonl --profile t4 --set stages.prompts=strict --set seed=3"
    assert str(_Command(judge, {"runs": ["runs/a", "runs/b"], **known})) == typed
    models = _Command(fetch, {"what": "models", "settings": Setup(set=())})
    assert str(models) == "mtrag fetch models --profile laptop"
    assert "--as published" in str(_Command(run, {"variant": "published"}))


def test_models_are_loaded_one_set_at_a_time():
    made = []
    one = _OneSet(lambda s: made.append(s.profile) or Models(s, chat=ScriptedChat()))
    first = one.of(configured("self_crag"))
    assert one.of(configured("self_crag", changes={"stages.prompts": "strict"})) is first
    assert one.of(configured("self_crag", "t4")) is not first and made == ["laptop", "t4"]
