"""The four systems as graphs for LangGraph Studio, over the sample and the laptop's models.

  pip install "langgraph-cli[inmem]"
  langgraph dev          # in a clone; reads langgraph.json, then type a question

The index of the sample is built once, into runs/studio.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import get_type_hints

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import Task, Turn
from mtrag_nb.data.mtrag import read_corpus, sample_corpus
from mtrag_nb.models.calls import Models
from mtrag_nb.runs.run import load_toolbox
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems.outside import find_system
from mtrag_nb.systems.stages import Toolbox

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "runs" / "studio" / "index"


class Asked(TypedDict, total=False):
    "What is typed in Studio."

    question: str
    domain: str
    "Search only here: clapnq, cloud, fiqa or govt; without it, everywhere."
    history: list[str]
    "Earlier questions and answers, in turn."


@cache
def models() -> Models:
    "The laptop's models, loaded when the first turn asks for them."
    return Models(load_settings())


@cache
def toolbox(name: str) -> Toolbox:
    "What the nodes of a system work with."
    system = find_system(name)
    settings = system.configure("laptop")
    passages = list(read_corpus(*sample_corpus()))
    build_index(passages, INDEX, models().embedder, settings.chunks, progress=False)
    return load_toolbox(settings, models(), INDEX, (), "rag", system)


def as_task(asked: Asked) -> dict[str, Task]:
    "What was typed as the task of a turn."
    speakers = ("user", "agent")
    history = tuple(
        Turn(speakers[n % 2], text) for n, text in enumerate(asked.get("history", ()))
    )
    turn = len(history) // 2 + 1
    where = asked.get("domain", "")
    return {"task": Task("studio", "studio", turn, where, asked["question"], history)}


def opened(name: str):
    "A system's graph, behind a node that turns what was typed into a task."
    inner = find_system(name).graph(toolbox(name))

    keys = get_type_hints(inner.builder.state_schema, include_extras=True)
    typed = get_type_hints(Asked)
    state = TypedDict("State", {**keys, **typed}, total=False)
    graph = StateGraph(state, input_schema=Asked)
    graph.add_node("ask", as_task)
    graph.add_node(name, inner)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", name)
    graph.add_edge(name, END)
    return graph.compile()


def self_crag():
    "Self-CRAG."
    return opened("self_crag")


def ncl():
    "NCL."
    return opened("ncl")


def agents():
    "The multi-agent specification."
    return opened("agents")


def nexus():
    "NexusRAG."
    return opened("nexus")
