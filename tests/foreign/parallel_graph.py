"""A LangGraph agent that searches for several queries at once (`Send`), reranks what they found, says itself who goes on (`Command`),
answers, and lets a reviewer decide. It knows nothing of mtrag_nb."""

import operator
from typing import Annotated, Literal, TypedDict

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from scripted import DESK, Rules, Shelf, whole, words

model, shelf = Rules(), Shelf(k=4)


class State(TypedDict, total=False):
    query: str
    chat_history: list[BaseMessage]
    queries: list[str]
    documents: Annotated[list[Document], operator.add]
    best: list[Document]
    answer: str
    supported: bool


class Search(TypedDict):
    query: str


def plan(state: State) -> State:
    before = [m.content for m in state["chat_history"] if m.type == "human"]
    return {
        "queries": [state["query"], *(f"{b} {state['query']}" for b in before[-1:])]
    }


def fan_out(state: State) -> list[Send]:
    return [Send("search", {"query": q}) for q in state["queries"]]


def search(state: Search) -> State:
    return {"documents": shelf.invoke(state["query"])}


def rerank(state: State) -> Command[Literal["respond"]]:
    once = {d.id: d for d in state["documents"]}
    asked = set(words(" ".join(state["queries"])))
    ranked = sorted(once.values(), key=lambda d: -DESK.weight(asked, d.page_content))
    return Command(update={"best": ranked[:4]}, goto="respond")


def respond(state: State) -> State:
    return {"answer": model.ask("answer", state["queries"][-1], whole(state["best"]))}


def review(state: State) -> State:
    return {
        "supported": model.ask("check", state["answer"], whole(state["best"])) == "yes"
    }


def apologize(state: State) -> State:
    return {"answer": "I don't know."}


builder = StateGraph(State)
for node in (plan, search, rerank, respond, review, apologize):
    builder.add_node(node.__name__, node)
builder.add_edge(START, "plan")
builder.add_conditional_edges("plan", fan_out, ["search"])
builder.add_edge("search", "rerank")
builder.add_edge("respond", "review")
builder.add_conditional_edges(
    "review", lambda s: END if s["supported"] else "apologize", [END, "apologize"]
)
graph = builder.compile()
