"""Corrective RAG in LangGraph, after the framework's tutorial: retrieve, grade each document, rewrite and search again where none is
left, answer, check, and fall back. It knows nothing of mtrag_nb."""

from typing import TypedDict

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langgraph.graph import END, START, StateGraph
from scripted import Rules, Shelf, whole

model, shelf = Rules(), Shelf()


class State(TypedDict, total=False):
    question: str
    history: list[BaseMessage]
    documents: list[Document]
    generation: str
    grounded: str
    rewrites: int


def retrieve(state: State) -> State:
    return {"documents": shelf.invoke(state["question"])}


def grade_documents(state: State) -> State:
    kept = [
        d
        for d in state["documents"]
        if model.ask("grade", state["question"], d.page_content) == "yes"
    ]
    return {"documents": kept}


def transform_query(state: State) -> State:
    before = " ".join(m.content for m in state["history"] if m.type == "human")
    question = model.ask("rewrite", state["question"], before)
    return {"question": question, "rewrites": state.get("rewrites", 0) + 1}


def generate(state: State) -> State:
    return {
        "generation": model.ask("answer", state["question"], whole(state["documents"]))
    }


def check_answer(state: State) -> State:
    return {
        "grounded": model.ask("check", state["generation"], whole(state["documents"]))
    }


def fallback(state: State) -> State:
    return {"generation": "I don't know."}


def enough(state: State) -> str:
    if state["documents"]:
        return "generate"
    return "fallback" if state.get("rewrites", 0) else "transform_query"


def is_grounded(state: State) -> str:
    return END if state["grounded"] == "yes" else "fallback"


builder = StateGraph(State)
for node in (
    retrieve,
    grade_documents,
    transform_query,
    generate,
    check_answer,
    fallback,
):
    builder.add_node(node.__name__, node)
builder.add_edge(START, "retrieve")
builder.add_edge("retrieve", "grade_documents")
builder.add_conditional_edges(
    "grade_documents", enough, ["generate", "transform_query", "fallback"]
)
builder.add_edge("transform_query", "retrieve")
builder.add_edge("generate", "check_answer")
builder.add_conditional_edges("check_answer", is_grounded, [END, "fallback"])
builder.add_edge("fallback", END)
graph = builder.compile()
