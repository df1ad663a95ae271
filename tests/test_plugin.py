"""What another installed package brings (a system, retriever, measure, view) is found by its entry points and treated as one
of this house; what is wrong with it is an error that names the package."""

import io
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest

from mtrag_nb.app.cli import main
from mtrag_nb.core.files import data_dir
from mtrag_nb.core.record import Checked, Graded
from mtrag_nb.core.types import Passage, RunMismatch, SettingsError, Task
from mtrag_nb.data.mtrag import sample_dir
from mtrag_nb.evaluation.items import Item
from mtrag_nb.evaluation.scores import score_items
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.search.ingest import build_index
from mtrag_nb.search.retrieve import open_retriever
from mtrag_nb.show.sections import sections
from mtrag_nb.systems.baselines import NAIVE
from mtrag_nb.systems.outside import configure, find_system, system_names

MODULE = '''
"""Answers with the sentence of the first passage that shares most words with the question."""

from mtrag_nb.core.text import known_words, sentences, share_known
from mtrag_nb.core.types import Outcome, Reason
from mtrag_nb.core.record import Drafted, Step
from mtrag_nb.search.retrieve import Retriever
from mtrag_nb.systems.nodes import end_with_answer, grade_node, retrieve_node, rewrite_node
from mtrag_nb.systems.state import TurnState
from mtrag_nb.systems.system import END, START, System, as_node

NOTHING = Reason("nothing_to_quote", "dropped", "no passage was kept")


def point(state, tools):
    contexts = tools.contexts(state["kept"])
    known = known_words([state["task"].question])
    found = [s for c in contexts for s in sentences(c.text)]
    if not found:
        end = {"outcome": Outcome.I_DONT_KNOW, "reason": NOTHING, "answer": tools.stages.refusal_text}
        return end, Drafted(text="")
    best = max(found, key=lambda s: share_known(s, known))
    return end_with_answer(best, contexts), Drafted(text=best)


def build(tools):
    from langgraph.graph import StateGraph

    graph = StateGraph(TurnState)
    graph.add_node("rewrite", as_node("rewrite", rewrite_node, tools))
    graph.add_node("retrieve", as_node("retrieve", retrieve_node, tools))
    graph.add_node("grade", as_node("grade", grade_node, tools))
    graph.add_node("point", as_node("point", point, tools))
    graph.add_edge(START, "rewrite")
    graph.add_edge("rewrite", "retrieve")
    graph.add_edge("retrieve", "grade")
    graph.add_edge("grade", "point")
    graph.add_edge("point", END)
    return graph.compile()


POINTER = System("pointer", build, "quotes one sentence", (NOTHING,), retries=lambda settings: 0)


def lengths(run):
    return f"longest answer: {max(len(t.answer) for t in run.turns.values())} <characters>"


def brevity(item, gold):
    return 1 / len(item.answer.split())


class Shortest(Retriever):
    "Of the candidates, the shortest children first."

    def __init__(self, *args):
        super().__init__(*args)
        self.fingerprint += " shortest"

    def rank_candidates(self, *args, **how):
        return sorted(super().rank_candidates(*args, **how), key=lambda n: len(n.text))
'''

POINTS = """[mtrag_nb.systems]
pointer = pointer:POINTER
[mtrag_nb.retrievers]
shortest = pointer:Shortest
[mtrag_nb.measures]
brevity = pointer:brevity
[mtrag_nb.views]
Length = pointer:lengths
"""
TASKS = data_dir("sample") / "reference.jsonl"


def add_package(folder: Path, name: str, source: str, points: str) -> None:
    "Put a package of one module and its entry points into a folder, as pip leaves it there."
    module = name.partition("-")[0]
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    (info / "METADATA").write_text(about)
    (info / "entry_points.txt").write_text(points)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    "The folder in which the package `pointer` is installed."
    folder = tmp_path_factory.mktemp("site")
    add_package(folder, "pointer", MODULE, POINTS)
    return folder


@pytest.fixture(scope="module")
def mtrag(installed, tmp_path_factory):
    "The command where `pointer` is installed; returns its output. A run of six turns lies in runs/p."

    def typed(words: str) -> str:
        with redirect_stdout(io.StringIO()) as printed:
            assert main(words.split()) == 0, words
        return printed.getvalue()

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("work"))
        patched.syspath_prepend(installed)
        asked = "run --system pointer --setting reference --limit 6 --out runs/p"
        typed(f"{asked} --tasks {TASKS}")
        yield typed


def test_it_is_run(mtrag):
    assert len(Path("runs/p/trajectories.jsonl").read_text().splitlines()) == 6
    assert '"system": "pointer"' in Path("runs/p/manifest.json").read_text()


def test_it_is_audited_and_laddered(mtrag):
    assert "grade" in mtrag("audit runs/p --limit 3")
    assert "grade" in mtrag("ladder runs/p --limit 3")


def test_it_is_replayed(mtrag):
    mtrag("replay runs/p --at grade --limit 2 --out runs/again")
    assert len(Path("runs/again/trajectories.jsonl").read_text().splitlines()) == 2


def test_its_measure_has_a_column_and_its_view_a_section(mtrag):
    assert "brevity" in mtrag(f"score runs/p --reference {TASKS} --encoder none")
    assert '"brevity": ' in Path("runs/p/scores.jsonl").read_text()
    mtrag("report runs/p --out page.html")
    page = Path("page.html").read_text()
    assert "quotes one sentence" in page and "brevity" in page
    assert '<section id="view_length">' in page and "&lt;characters&gt;" in page


def test_its_retriever_searches_a_run(installed, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(installed)
    corpus = [
        Passage(f"p{n}", f"The ferry costs {'four ' * n}crowns.") for n in range(1, 9)
    ]
    build_index(corpus, tmp_path / "index", HashEmbedder(), progress=False)
    settings = NAIVE.configure(changes={"retrieval.retriever": "shortest"})
    models = Models(settings, ScriptedChat("Four crowns."), HashEmbedder())
    asked = [Task("c<::>1", "c", 1, "", "What does the ferry cost?")]
    run = run_tasks(
        NAIVE,
        asked,
        tmp_path / "run",
        settings,
        tmp_path / "index",
        models=models,
        progress=False,
    )
    [turn] = run.trajectories.values()
    [first, *_] = [h.document_id for step in turn.retrievals for h in step.hits]
    assert first == "p1" and run.manifest["identity"]["retriever"].endswith(" shortest")
    with pytest.raises(
        SettingsError, match="unknown retriever 'longest': there are index, short"
    ):
        other = NAIVE.configure(changes={"retrieval.retriever": "longest"})
        run_tasks(
            NAIVE, asked, tmp_path / "x", other, tmp_path / "index", models=models
        )


BROKEN = """
def odd(item, gold):
    return {value}


def view(run):
    raise KeyError("no such thing")


raise_on_import = {on_import}
"""
ITEM = Item("c<::>1", "c", 1, "", "What?", "That.", ())


def broken(folder: Path, points: str, value: str = "0", on_import: str = "None"):
    "A package `odd` with these entry points, in a folder."
    source = BROKEN.format(value=value, on_import=on_import)
    add_package(folder, "odd-one", source, points)


@pytest.mark.parametrize(
    ("points", "value", "on_import", "said"),
    [
        (
            "odd = odd:odd",
            "float('nan')",
            "None",
            "odd-one gave nan for c<::>1: a score is a fin",
        ),
        ("odd = odd:odd", "'high'", "None", "odd-one gave 'high' for c<::>1"),
        ("odd = odd:odd", "1 / 0", "None", "odd-one failed: ZeroDivisionError"),
        (
            "odd = odd:nothing",
            "0",
            "None",
            "odd-one cannot be imported: AttributeError",
        ),
        (
            "odd = odd:odd",
            "0",
            "1 / 0",
            "odd-one cannot be imported: ZeroDivisionError",
        ),
        (
            "RougeL = odd:odd",
            "0",
            "None",
            "'RougeL' of the package odd-one: mtrag_nb has one",
        ),
        (
            "nDCG@5 = odd:odd",
            "0",
            "None",
            "'nDCG@5' of the package odd-one: mtrag_nb has one",
        ),
    ],
)
def test_a_broken_measure_is_an_error_that_names_its_package(
    tmp_path, monkeypatch, points, value, on_import, said
):
    broken(tmp_path, f"[mtrag_nb.measures]\n{points}\n", value, on_import)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd", raising=False)
    with pytest.raises(SettingsError, match=said):
        score_items([ITEM], {})


def test_broken_systems_retrievers_and_views_are_errors_that_name_their_package(
    tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    points = [
        "systems]\nlost = absent:LOST",
        "systems]\nodd = odd:odd",
        "views]\nV = odd:view",
    ]
    broken(tmp_path, "".join(f"[mtrag_nb.{p}\n" for p in [points[0], points[2]]))
    with pytest.raises(
        SettingsError, match="'lost' of the package odd-one cannot be imported"
    ):
        find_system("lost")
    [view] = [s for s in sections() if s.title == "V"]
    with pytest.raises(
        SettingsError, match="'V' of the package odd-one failed: KeyError"
    ):
        view.make(SimpleNamespace(runs=[SimpleNamespace(name="run")]))
    shutil.rmtree(tmp_path / "odd_one-1.0.dist-info")
    broken(tmp_path, f"[mtrag_nb.{points[1]}\n[mtrag_nb.retrievers]\nindex = odd:odd\n")
    with pytest.raises(
        SettingsError, match="'odd' of the package odd-one is a function, not a Sy"
    ):
        find_system("odd")
    with pytest.raises(
        SettingsError, match="retriever 'index' of the package odd-one: mtrag_nb"
    ):
        open_retriever(None, None, None, NAIVE.configure().retrieval)
    shutil.rmtree(tmp_path / "odd_one-1.0.dist-info")
    broken(tmp_path, "[mtrag_nb.systems]\nnaive = odd:odd\n")
    with pytest.raises(
        SettingsError, match="system 'naive' of the package odd-one: mtrag_nb has"
    ):
        system_names()


def test_a_grader_and_a_check_of_a_file_of_ones_own(tmp_path, monkeypatch):
    "One file, no line elsewhere: true or false, or a number that the threshold cuts; an edited one is another run."
    from mtrag_nb.app.run import run

    mine = tmp_path / "mine.py"
    mine.write_text(
        "def shared(g):\n    asked = set(g.question.lower().split())\n"
        "    return [len(asked & set(d.lower().split())) for d in g.documents]\n\n\n"
        "def short(c):\n    return len(c.answer) < 9999\n\n\ndef none(g):\n    return []\n"
    )
    ways = {"stages.grade": f"{mine}:shared", "stages.grade_threshold": 2}
    ways |= {"stages.check": f"{mine}:short", "stages.rewrite": "never"}

    def made(name, **more):
        settings = configure("self_crag", changes={**ways, **more})
        models = Models(
            settings, chat=ScriptedChat(first_sentence), embedder=HashEmbedder()
        )
        tasks = sample_dir() / "reference.jsonl"
        how = {"settings": settings, "models": models, "progress": False, "limit": 2}
        return run(tasks, tmp_path / name, "self_crag", setting="reference", **how)

    first = made("one")
    turn = next(iter(first.trajectories.values()))
    (graded,), (checked,) = turn.of(Graded), turn.of(Checked)
    assert {g.verdict.how for g in graded.grades} == {
        "shared"
    } and checked.verdict.how == "short"
    assert all(g.verdict.passed == (g.verdict.score >= 2) for g in graded.grades)
    crag = find_system("self_crag")
    said = crag.model_use(configure("self_crag", changes=ways))
    assert f"grade: {mine}:shared" in said and f"check: {mine}:short" in said
    mine.write_text(mine.read_text().replace("9999", "9998"))
    with pytest.raises(RunMismatch, match="ways"):
        made("one")
    broken = made("none", **{"stages.grade": f"{mine}:none"})
    assert all(
        "gave 0 verdicts" in t.error.message for t in broken.trajectories.values()
    )
    with pytest.raises(SettingsError, match="has no 'shard'"):
        made("two", **{"stages.grade": f"{mine}:shard"})


def test_the_name_of_a_file_is_no_prompt(tmp_path):
    wording = tmp_path / "grade.md"
    wording.write_text("Is it of use?")
    with pytest.raises(SettingsError, match="give its text"):
        find_system("self_crag").configure(
            "laptop", {"prompts.grade.system": str(wording)}
        )


def test_a_view_may_return_what_has_no_truth_value(tmp_path):
    import numpy as np

    from mtrag_nb.core.run_folder import Run
    from mtrag_nb.show.report import write_report
    from mtrag_nb.show.sections import VIEWS

    class Table(np.ndarray):  # as a DataFrame: comparing it with a text gives an array
        def _repr_html_(self):
            return "<table><tr><td>kept as it is</td></tr></table>"

    VIEWS["A table"] = lambda run: np.zeros(2).view(Table)
    try:
        page = write_report(
            [Run(data_dir("recorded") / "sample_naive")], out=tmp_path / "r.html"
        )
    finally:
        del VIEWS["A table"]
    assert "<td>kept as it is</td>" in (tmp_path / "r.html").read_text(), page
