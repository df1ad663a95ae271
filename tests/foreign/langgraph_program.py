"""A small RAG program in LangGraph that knows nothing of mtrag_nb: retrieve, grade, generate, or fall back.

python langgraph_program.py FOLDER SPANS [FAULT]   FOLDER holds documents.jsonl and conversations.jsonl; spans go to SPANS

Its only instrumentation is `openinference-instrumentation-langchain`; spans are written as the SDK's ConsoleSpanExporter
formats them, one JSON object a line. FAULT breaks one stage: retriever, grader, generator or refusal.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langgraph.graph import END, START, StateGraph
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

FOLDER, SPANS, FAULT = Path(sys.argv[1]), sys.argv[2], (sys.argv[3:] or [""])[0]


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]{3,}", text.lower()))


def lines(name: str) -> list[dict]:
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]


class Retriever(BaseRetriever):
    documents: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        asked = words(query)
        ranked = sorted(self.documents, key=lambda d: -len(asked & words(d.page_content)))
        return ranked[-5:] if FAULT == "retriever" else ranked[:5]


class Scripted(BaseChatModel):
    "Stands in for a model: it knows the answer to a question if the passage that holds it is in the prompt."

    script: list[dict]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs) -> ChatResult:
        prompt, question = messages[0].content, messages[-1].content
        known = [s for s in self.script if s["question"] == question]
        text = next((s["answer"] for s in known if any(p in prompt for p in s["support"])), "")
        text = text or "I don't know: the documents do not say."
        if FAULT == "generator" and not text.startswith("I don't know"):
            text = "Purple zebras graze quietly beyond seven frozen lighthouses tonight."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


class State(TypedDict, total=False):
    question: str
    history: list
    documents: list
    generation: str


retriever = Retriever(documents=[Document(d["text"], id=d["id"]) for d in lines("documents.jsonl")])
model = Scripted(script=lines("script.jsonl"))


def retrieve(state: State) -> State:
    query = " ".join([*(m.content for m in state["history"][-2:]), state["question"]])
    return {"documents": retriever.invoke(query)}


def grade_documents(state: State) -> State:
    asked = words(" ".join([*(m.content for m in state["history"]), state["question"]]))
    share = [len(asked & words(d.page_content)) for d in state["documents"]]
    if FAULT == "grader":
        return {"documents": [d for d, n in zip(state["documents"], share) if n < 1]}
    return {"documents": [d for d, n in zip(state["documents"], share) if n > 1]}


def generate(state: State) -> State:
    context = "\n\n".join(d.page_content for d in state["documents"])
    messages = [SystemMessage(f"Answer from these documents:\n\n{context}"), *state["history"]]
    return {"generation": model.invoke([*messages, HumanMessage(state["question"])]).content}


def fallback(state: State) -> State:
    return {"generation": "I don't know."}


def enough(state: State) -> str:
    least = 99 if FAULT == "refusal" else 1
    return "generate" if len(state["documents"]) >= least else "fallback"


graph = StateGraph(State)
for node in (retrieve, grade_documents, generate, fallback):
    graph.add_node(node.__name__, node)
graph.add_edge(START, "retrieve")
graph.add_edge("retrieve", "grade_documents")
graph.add_conditional_edges("grade_documents", enough, ["generate", "fallback"])
graph.add_edge("generate", END)
graph.add_edge("fallback", END)
app = graph.compile()

with open(SPANS, "w", encoding="utf-8") as out:
    provider = TracerProvider()
    exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + "\n")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    for talk in lines("conversations.jsonl"):
        history: list = []
        for user, agent in talk["turns"]:
            config = {"configurable": {"thread_id": talk["id"]}}
            app.invoke({"question": user, "history": list(history)}, config)
            history += [HumanMessage(user), AIMessage(agent)]
    provider.shutdown()
