"""A LangGraph agent on messages whose research is a graph of its own: two searches side by side, and a filter. It knows nothing of
mtrag_nb."""

import operator
from typing import Annotated

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from scripted import Rules, Shelf, whole

model, shelf = Rules(), Shelf(k=4)


class Research(MessagesState):
    found: Annotated[list[Document], operator.add]
    documents: list[Document]


class State(MessagesState):
    documents: list[Document]
    is_grounded: bool


def asked(state: MessagesState) -> list[str]:
    return [m.content for m in state["messages"] if m.type == "human"]


def search_last(state: Research) -> dict:
    return {"found": shelf.invoke(asked(state)[-1])}


def search_talk(state: Research) -> dict:
    return {"found": shelf.invoke(" ".join(asked(state)[-2:]))}


def filter_found(state: Research) -> dict:
    once = {d.id: d for d in state["found"]}.values()
    question = " ".join(asked(state)[-2:])
    kept = [d for d in once if model.ask("grade", question, d.page_content) == "yes"]
    return {"documents": kept or list(once)[:1]}


def respond(state: State) -> dict:
    text = model.ask("answer", " ".join(asked(state)[-2:]), whole(state["documents"]))
    return {"messages": [AIMessage(text)]}


def verify(state: State) -> dict:
    said = state["messages"][-1].content
    return {"is_grounded": model.ask("check", said, whole(state["documents"])) == "yes"}


def decline(state: State) -> dict:
    return {"messages": [AIMessage("I don't know.")]}


inner = StateGraph(Research)
for node in (search_last, search_talk, filter_found):
    inner.add_node(node.__name__, node)
inner.add_edge(START, "search_last")
inner.add_edge(START, "search_talk")
inner.add_edge(["search_last", "search_talk"], "filter_found")

builder = StateGraph(State)
builder.add_node("research", inner.compile())
for node in (respond, verify, decline):
    builder.add_node(node.__name__, node)
builder.add_edge(START, "research")
builder.add_edge("research", "respond")
builder.add_edge("respond", "verify")
builder.add_conditional_edges(
    "verify", lambda s: END if s["is_grounded"] else "decline", [END, "decline"]
)
graph = builder.compile()
