"""What the papers' tables name here is there: the routes of the service, the runs that are kept, the files of `make figures`."""

import os
import re
import shutil
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from mtrag_nb.app.measure import judge
from mtrag_nb.app.options import call_typed
from mtrag_nb.app.reproduce import (
    _POOL,
    Reproduction,
    _data_at,
    _OneSet,
    _paper_plans,
    facts,
    go,
    recordings,
    reproduce,
    runs_table,
    tables_of,
    write,
)
from mtrag_nb.core.files import read_json
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import DataError, SettingsError
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.show.cases import read_published
from mtrag_nb.show.paper_table import VALUE_COLUMNS
from mtrag_nb.show.specification import measured_file, specification_tables
from mtrag_nb.systems.outside import configure
from tests.support.papers import made_in, scripted
from tests.support.volume import few

ROOT = Path(__file__).resolve().parents[1]


def test_the_endpoints_of_nexusrag_are_routes_of_the_service():
    source = Path(find_spec("mtrag_nb.serve.api").origin).read_text(encoding="utf-8")
    routes = re.findall(r'@app\.(\w+)\(\s*"([^"]+)"', source)
    printed = [row[:2] for row in read_published("nexus")["tables"]["Table 4"]["rows"]]
    ours, theirs = (
        {(m.upper(), re.sub(r"\{\w+\}", "{}", path)) for m, path in x}
        for x in (routes, printed)
    )
    assert theirs <= ours


def test_the_figures_of_the_specification_add_up():
    tables = {
        place: t["rows"] for place, t in read_published("agents")["tables"].items()
    }

    def numbers(place, column):
        found = [r[column] for r in tables[place]]
        return [x for x in found if isinstance(x, (int, float))]

    *parts, total = numbers("6.1", 1)
    assert sum(parts) == total and sum(numbers("6.1", 2)) == 200, (
        "of 100 %, and their total"
    )
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


PRINTED = {  # what the sources number, read from their text: tables, figures, and the specification's sections with numbers
    "self_crag": "Table I,Table II,Table III,Table IV,IV.A,V.A,V.B,V.C,V.D",
    "draft": "",  # of the Self-CRAG paper: it numbers no table and no figure
    "ncl": "Figure 1,Table 1,Table 2,section 5",
    "agents": "1.1,2.1,2.2,2.3,2.4,3.1,3.2,4.1,4.2,5.1,5.2,6.1,6.2,6.3,7.1,7.2,8.1,8.2,8.3,9.1,9.2",
    "nexus": "Table 1,Table 2,Table 3,Table 4",
}
MADE_AS = {  # numbered otherwise than the file that holds it
    "Figure 1": "graph",
    "5.2": "graph",
    "V.D": "self_crag_told",
    **dict.fromkeys(("2.1", "2.2"), "agents_2"),
}


@pytest.mark.parametrize("source", PRINTED)
def test_each_numbered_table_and_figure_is_made_or_has_its_reason(source):
    items = read_json(ROOT / "data/paper/not_made.json")["items"]
    assert {item["source"] for item in items} <= PRINTED.keys()
    reasons = {
        item["number"]: item["why"] for item in items if item["source"] == source
    }
    assert all(reasons.values())
    folder = ROOT / "figures" / source
    made = {p.stem for p in (*folder.glob("*.svg"), *folder.glob("tables/*.csv"))}
    numbers = [number for number in PRINTED[source].split(",") if number]
    for number in numbers:
        place = re.sub(r"^(Table|section) ", "", number).replace(".", "_")
        names = {f"{source}_{place}", f"diagram_{place}", MADE_AS.get(number)}
        assert names & made or number in reasons, f"{source}, {number}"
    for number in reasons:
        assert number in numbers or " to " in number or number == "all", number


def kept_tables(ending: str) -> list[Path]:
    "The files of all tables that are kept, by their ending."
    return sorted((ROOT / "figures").glob(f"*/tables/*.{ending}"))


@pytest.mark.parametrize("path", kept_tables("csv"), ids=lambda p: p.stem)
def test_pandas_reads_each_table_with_numeric_columns(path):
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(path)
    assert tuple(table.columns) == VALUE_COLUMNS and len(table)
    for column in ("value", "low", "high", "n"):
        assert pandas.api.types.is_numeric_dtype(table[column]), column
    numbers = table[["value", "low", "high"]].notna().any(axis=1)
    assert (numbers | table.text.notna() | table.note.notna()).all(), "no empty line"
    assert not (numbers & table.text.notna()).any(), "a number or words"
    assert set(table.source) == {"published", "recorded"}
    has_interval = table.value.notna() & table.low.notna()
    within = table[has_interval]
    assert ((within.low <= within.value) & (within.value <= within.high)).all()
    recorded = table[(table.source == "recorded") & ~numbers & table.text.isna()]
    assert recorded.note.notna().all(), "why there is nothing"
    if path.stem not in ("self_crag_III", "nexus_1", "nexus_4"):  # words alone
        assert numbers.any()


def test_the_targets_that_are_not_judged_have_the_reasons_of_the_study():
    pytest.importorskip("tools")
    from tools.studies.service_levels import TARGETS, unjudged

    n = measured_file("agents")["alone"]["n"]
    tables = specification_tables([])
    found = {}
    for place in ("8_1", "8_2"):
        for name, value, reason in tables[place].own[0].rows:
            assert value.note == reason
            found[name] = reason.removeprefix("not judged: ")
    wanted = {
        t.name: unjudged(t.name, "laptop", n) for t in TARGETS if t.place != "9.2"
    }
    assert found == wanted


def test_a_table_comes_back_in_its_shape():
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(ROOT / "figures/ncl/tables/ncl_2.csv")
    printed = table[table.source == "published"]
    whole = printed.pivot(index="row", columns="column", values="value")
    assert whole.loc["Proposed method, Reference", "HM"] == 0.4992
    assert set(printed[printed.column == "HM"].n) == {507, 842}


@pytest.mark.parametrize("path", kept_tables("tex"), ids=lambda p: p.stem)
def test_the_latex_of_each_table_is_whole(path):
    text = path.read_text(encoding="utf-8")
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    for table in text.split(r"\begin{table}")[1:]:
        assert table.count(r"\caption{") == table.count(r"\label{tab:") == 1
    bare = re.sub(r"\\[\\{}$&#%_]", "", text)
    assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
    assert not re.search(r"[#_^~]", re.sub(r"\\label\{[^}]*\}", "", bare))
    assert bare.count("%") == 1, "the first line's comment"
    for body in re.findall(r"\\toprule(.*?)\\bottomrule", text, re.S):
        rows = [line for line in body.splitlines() if line.endswith(r" \\")]
        assert len({len(re.findall(r"(?<!\\)&", row)) for row in rows}) == 1
    labels = re.findall(r"\\label\{([^}]*)\}", text)
    assert labels[0] == f"tab:{path.stem}" and len(set(labels)) == len(labels)


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no LaTeX here")
def test_the_latex_of_all_tables_compiles(tmp_path):
    paths = kept_tables("tex")
    inputs = "\n".join(f"\\input{{{p.as_posix()}}}\\clearpage" for p in paths)
    head = r"\documentclass{article}\usepackage{array,booktabs}"
    document = f"{head}\\begin{{document}}{inputs}\\end{{document}}"
    (tmp_path / "all.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    log = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, log[-2000:]
    assert (tmp_path / "all.pdf").exists() and "Float too large" not in log
    widths = re.findall(r"Overfull \\hbox \(([\d.]+)pt", log)
    assert all(float(points) < 5 for points in widths), "nothing runs over the margin"


@pytest.mark.parametrize("path", kept_tables("md"), ids=lambda p: p.stem)
def test_the_markdown_of_each_table_is_rectangular(path):
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    tables = [block.splitlines() for block in blocks if block.startswith("| ")]
    assert tables
    for lines in tables:
        assert re.fullmatch(r"\|( ---:? \|)+", lines[1])
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_each_figure_has_its_caption_and_its_letters_in_the_file():
    paths = sorted((ROOT / "figures").glob("*/*.svg"))
    assert paths
    for path in paths:
        svg = path.read_text(encoding="utf-8")
        title = re.search(r"<title>(.+?)</title>", svg)[1]
        about = re.search(r"<desc>(.+?)</desc>", svg, re.S)[1]
        assert about.startswith(title)
        assert "interval" in about and ("n: " in about or "no n" in about), path
        assert "<text" not in svg and "font-family" not in svg, "letters are outlines"


def test_the_runs_of_ablations_are_whole():
    for folder in (ROOT / "data" / "paper" / "runs").iterdir():
        assert not any(
            t.outcome == "not_recorded" for t in Run(folder).trajectories.values()
        )


def kept_of(folder: Path) -> dict[str, str]:
    "The tables of a folder; with the matplotlib of constraints.txt its figures too, coordinates and generated ids aside."
    pinned = re.search(
        r"^matplotlib==(\S+)", (ROOT / "constraints.txt").read_text(), re.M
    )[1]
    kinds = ["*.csv", "*.md", "*.tex"]
    if version("matplotlib") == pinned:
        kinds.append("*.svg")
    files = [p for kind in kinds for p in folder.rglob(kind)]
    texts = {
        p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in files
    }
    for name in (name for name in texts if ".svg" in name):
        texts[name] = re.sub(r"-?\d+\.\d+", "#", texts[name])
    return texts


def test_the_page_of_kept_runs_says_what_they_hold(tmp_path):
    "Nor do its tables depend on the order of sets, which is another in each process."
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
            if configure(x.system, "laptop") == configure(plain, "laptop"):
                variant = ""  # another name of the plain system
            assert changed[x.name].startswith(f"as {variant}" if variant else "")
            assert changed[x.name]
        write(r, told.append)
        drawn = {p.stem.removesuffix("_dark") for p in (tmp_path / paper).glob("*.svg")}
        assert told[-1].endswith(f" tables and {len(drawn)} figures")
        for name, text in kept_of(ROOT / "figures" / paper).items():
            assert text == kept_of(tmp_path / paper)[name], (
                f"{paper}/{name}: `make figures` again"
            )
    assert (
        "nexus.verify=support" in dict(r[::2] for r in runs_table(r, runs)[1])["nexus"]
    )


def test_reproduce_offers_what_it_takes_and_refuses_what_a_kept_run_cannot_have(
    tmp_path,
):
    with pytest.raises(typer.BadParameter.__base__, match="--chat"):
        call_typed(reproduce, "ncl", "--chat", "x/y")
    for more in (
        ["--limit", "2"],
        ["--profile", "t4"],
        ["--data", "x"],
        ["--encoder", "none"],
    ):
        with pytest.raises(SettingsError, match="--recorded takes --out alone"):
            call_typed(reproduce, "ncl", "--recorded", *more)
    out = str(tmp_path / "nexus")
    assert call_typed(reproduce, "nexus", "--recorded", "--out", out) == 0


def test_turns_that_asked_back_are_judged_turns():
    class Report:
        answered, refused, asked_back, pending, turns = 3, 1, 2, 0, 6

    assert judge.done([Report], ["run"])
    Report.pending, Report.turns = 1, 7
    assert not judge.done([Report], ["run"]) and judge.done([Report], ["run"], 6)


# Reproduced on the sample by a scripted model


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
            go(
                made_in(folder, models=scripted if calls is None else dying(calls)),
                list,
            )
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == (
        1 if calls is None else 9
    )


@pytest.mark.parametrize("places", few([(2, 9, None), (0, 2, 9, 9, 9, None)]), ids=len)
def test_a_reproduction_that_is_killed_anywhere_ends_with_the_same_bytes(
    undisturbed, tmp_path, places
):
    "In the index, in the first run and in later ones, in the judge, and while the page is written."
    folder = tmp_path / "killed"
    for calls in places:
        assert killed_after(calls, folder), calls
    (folder / "tables").unlink()
    go(made_in(folder), list)
    assert pages_of(folder) == pages_of(undisturbed) and len(pages_of(folder)) > 20


@pytest.mark.parametrize("paper", ["self_crag", "ncl", "agents", "nexus"])
def test_a_paper_is_reproduced_as_published(paper: str, tmp_path: Path):
    "From ingestion to the page; a scripted model answers."
    folder = tmp_path / paper
    assert go(made_in(folder, paper, limit=2, variant="published"), list)
    assert (folder / "reproduction.html").is_file()
    run = Run(next(folder.glob("*/trajectories.jsonl")).parent)
    assert run.system == f"{paper}+published" and len(run.trajectories) == 2


def test_a_turn_that_broke_does_not_end_a_reproduction(undisturbed, tmp_path):
    def brittle(settings):
        "The model breaks at one question."
        found = scripted(settings)

        def reply(prompt, ok=found.chat.replies):
            if (
                "Quill" in prompt.messages[-1][1]
                and "Documents:" in prompt.messages[-1][1]
            ):
                raise OSError("no space left")
            return ok(prompt)

        found.chat.replies = reply
        return found

    folder, told = tmp_path / "broken", []
    assert not go(made_in(folder, models=brittle), told.append)
    assert (folder / "reproduction.html").exists() and any(
        "not whole" in t for t in told
    )
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
    assert published_too.most == 25_000
    assert {published_too.system_of(p) for p in published_too.made} == {
        "self_crag+published"
    }
    left = ["laptop", "published", "permissive", "smaller_model"]
    assert [p.name for p, why in published_too.runs if why] == left
    assert (
        "at most 25,000 of each domain"
        in dict(facts(published_too))["children indexed"]
    )
    ncl, told = made_in(tmp_path / "ncl", "ncl", limit=3), []
    go(ncl, told.append)
    assert list(tables_of(ncl, recordings(ncl))) == ["ncl_1", "ncl_2", "ncl_5"]
    assert not any("ingest" in t for t in told)
    assert sum(t.startswith("judge ") for t in told) == 3


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


def test_models_are_loaded_one_set_at_a_time():
    made = []
    one = _OneSet(lambda s: made.append(s.profile) or Models(s, chat=ScriptedChat()))
    first = one.of(configure("self_crag"))
    assert one.of(configure("self_crag", changes={"stages.prompts": "strict"})) is first
    assert one.of(configure("self_crag", "t4")) is not first and made == [
        "laptop",
        "t4",
    ]
