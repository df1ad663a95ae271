"""A system of another installed package is found by its entry point, and the command treats it as its own."""

import os
import subprocess
import sys

import pytest

from mtrag_nb.core.files import data_dir

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
