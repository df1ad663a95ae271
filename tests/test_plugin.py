"""A system or a retriever of another installed package is found by its entry point, and treated as one of the house."""

import os
import subprocess
import sys

import pytest

from mtrag_nb.core.files import data_dir
from mtrag_nb.core.types import Passage, SettingsError, Task
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.search.index import build_index
from mtrag_nb.systems.baselines import NAIVE

MAIN = "from mtrag_nb.app.cli import main; raise SystemExit(main())"
MODULE = '''
"""Answers with the sentence of the first passage that shares most words with the question."""

from mtrag_nb.core.text import known_words, sentences, share_known
from mtrag_nb.core.types import Outcome, Reason
from mtrag_nb.core.record import Drafted, Step
from mtrag_nb.systems.system import END, START, System, TurnState, answered, as_node, grade_node, new_graph, retrieve_node, rewrite_node

NOTHING = Reason("nothing_to_quote", "dropped", "no passage was kept")


def point(state, tools):
    contexts = tools.contexts(state["kept"])
    known = known_words([state["task"].question])
    found = [s for c in contexts for s in sentences(c.text)]
    if not found:
        end = {"outcome": Outcome.I_DONT_KNOW, "reason": NOTHING, "answer": tools.stages.refusal_text}
        return end, Drafted(text="")
    best = max(found, key=lambda s: share_known(s, known))
    return answered(best, contexts), Drafted(text=best)


def build(tools):
    graph = new_graph(TurnState)
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
'''


ENTRY_POINTS = """
[mtrag_nb.systems]
pointer = pointer:POINTER
[mtrag_nb.views]
Length = pointer:lengths
"""


@pytest.fixture(scope="module")
def mtrag(tmp_path_factory):
    "The command, in a folder where a package `pointer` is installed; returns its output."
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "pointer.py").write_text(MODULE)
    info = folder / "pointer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pointer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}

    def run(*words: str) -> str:
        command = [sys.executable, "-c", MAIN, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env)
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
        return done.stdout

    tasks = data_dir("sample") / "reference.jsonl"
    run(
        "run",
        "--system",
        "pointer",
        "--setting",
        "reference",
        "--tasks",
        tasks,
        "--limit",
        "6",
        "--out",
        "runs/p",
    )
    run.folder = folder
    return run


def test_it_is_run(mtrag):
    lines = (mtrag.folder / "runs/p/trajectories.jsonl").read_text().splitlines()
    assert (
        len(lines) == 6
        and '"system": "pointer"' in (mtrag.folder / "runs/p/manifest.json").read_text()
    )


def test_it_is_audited_and_laddered(mtrag):
    assert "grade" in mtrag("audit", "runs/p", "--limit", "3")
    assert "grade" in mtrag("ladder", "runs/p", "--limit", "3")


def test_it_is_replayed(mtrag):
    mtrag("replay", "runs/p", "--at", "grade", "--limit", "2", "--out", "runs/again")
    assert len((mtrag.folder / "runs/again/trajectories.jsonl").read_text().splitlines()) == 2


def test_it_is_reported(mtrag):
    mtrag("report", "runs/p", "--out", "page.html")
    page = (mtrag.folder / "page.html").read_text()
    assert "quotes one sentence" in page
    assert '<section id="view_length">' in page and "&lt;characters&gt;" in page


RETRIEVER = """
from mtrag_nb.search.retrieve import Retriever


class Shortest(Retriever):
    "Of the candidates, the shortest children first."

    def __init__(self, *args):
        super().__init__(*args)
        self.fingerprint += " shortest"

    def ranked_many(self, *args):
        return [sorted(hits, key=lambda h: len(h.text)) for hits in super().ranked_many(*args)]
"""


def test_a_retriever_of_another_package_searches_a_run(tmp_path, monkeypatch):
    (tmp_path / "shortest.py").write_text(RETRIEVER)
    info = tmp_path / "shortest-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shortest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mtrag_nb.retrievers]\nshortest = shortest:Shortest\n")
    monkeypatch.syspath_prepend(tmp_path)
    corpus = [Passage(f"p{n}", f"The ferry costs {'four ' * n}crowns.") for n in range(1, 9)]
    build_index(corpus, tmp_path / "index", HashEmbedder(), progress=False)
    settings = NAIVE.configured(changes={"retrieval.retriever": "shortest"})
    models = Models(settings, ScriptedChat("Four crowns."), HashEmbedder())
    asked = [Task("c<::>1", "c", 1, "", "What does the ferry cost?")]
    run = run_tasks(
        NAIVE, asked, tmp_path / "run", settings, tmp_path / "index", models=models, progress=False
    )
    [turn] = run.trajectories.values()
    [first, *_] = [h.document_id for step in turn.retrievals for h in step.hits]
    assert first == "p1" and run.manifest["identity"]["retriever"].endswith(" shortest")
    with pytest.raises(SettingsError, match="unknown retriever 'longest': there are index, short"):
        other = NAIVE.configured(changes={"retrieval.retriever": "longest"})
        run_tasks(NAIVE, asked, tmp_path / "x", other, tmp_path / "index", models=models)
