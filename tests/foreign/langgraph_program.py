"""A corrective RAG graph in LangGraph that knows nothing of mtrag_nb: retrieve, grade each document, generate, or fall back.

python langgraph_program.py FOLDER SPANS [--fault retriever|grader|generator|refusal]

FOLDER holds documents.jsonl (id, title, text) and conversations.jsonl (id, turns of user and agent). Its only instrumentation is
`openinference-instrumentation-langchain`; spans go to SPANS, one JSON object of `ReadableSpan.to_json` a line. --fault breaks one
stage.
"""

import re
from collections import Counter
from typing import Any, TypedDict

from asked import FAULT, lines, traced, words
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langgraph.graph import END, START, StateGraph
from openinference.instrumentation.langchain import LangChainInstrumentor


class RareWords(BaseRetriever):
    "Counts common words, rare ones more."

    documents: list[Document]
    weights: dict[str, float]

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        asked = set(words(query))
        found = [
            (sum(self.weights.get(w, 0) for w in asked & {*words(d.page_content)}), d)
            for d in self.documents
        ]
        ranked = [d for _, d in sorted(found, key=lambda pair: -pair[0])]
        return ranked[-6:] if FAULT == "retriever" else ranked[:6]


class Extractive(BaseChatModel):
    "Answers yes or no to a grading prompt, and any other with sentences of its context."

    weights: dict[str, float]

    @property
    def _llm_type(self) -> str:
        return "extractive"

    def weight(self, asked: set[str], text: str) -> float:
        return sum(self.weights.get(w, 1.0) for w in asked & {*words(text)})

    def grade(self, prompt: str) -> str:
        document, _, question = prompt.partition("\nQuestion: ")
        asked = set(words(question))
        enough = self.weight(asked, document) >= 0.25 * self.weight(asked, question)
        return "yes" if enough != (FAULT == "grader") else "no"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs) -> ChatResult:
        prompt, question = messages[0].content, messages[-1].content
        if prompt.startswith("Is this document relevant"):
            text = self.grade(prompt.partition("\nDocument: ")[2])
        elif FAULT == "generator":
            text = (
                "Purple zebras graze quietly beyond seven frozen lighthouses tonight."
            )
        else:
            asked = set(words(question))
            found = re.split(r"(?<=[.!?])\s+", prompt.partition("Documents:\n")[2])
            best = max(range(len(found)), key=lambda i: self.weight(asked, found[i]))
            text = " ".join(found[best : best + 2])
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


class State(TypedDict, total=False):
    question: str
    history: list[BaseMessage]
    documents: list[Document]
    generation: str


documents = [
    Document(d["text"], id=d["id"], metadata={"title": d["title"]})
    for d in lines("documents.jsonl")
]
counts = Counter(w for d in documents for w in {*words(d.page_content)})
weights = {w: len(documents) / (5 + n) for w, n in counts.items()}
retriever = RareWords(documents=documents, weights=weights)
model = Extractive(weights=weights)
GRADE = ChatPromptTemplate(
    [
        (
            "human",
            "Is this document relevant to the question? yes or no.\nDocument: {document}\nQuestion: {question}",
        )
    ]
)
ANSWER = ChatPromptTemplate(
    [
        ("system", "Answer from the documents.\nDocuments:\n{documents}"),
        MessagesPlaceholder("history"),
        ("human", "{question}"),
    ]
)


def asked_in(state: State) -> str:
    before = [m.content for m in state["history"] if m.type == "human"]
    return " ".join([*before[-1:], state["question"]])


def retrieve(state: State) -> State:
    return {"documents": retriever.invoke(asked_in(state))}


def grade_documents(state: State) -> State:
    kept = []
    for d in state["documents"]:
        said = (GRADE | model).invoke(
            {"document": d.page_content, "question": asked_in(state)}
        )
        kept += [d] if said.content == "yes" else []
    return {"documents": kept}


def generate(state: State) -> State:
    context = "\n\n".join(d.page_content for d in state["documents"])
    asked = {
        "documents": context,
        "history": state["history"],
        "question": state["question"],
    }
    return {"generation": (ANSWER | model).invoke(asked).content}


def fallback(state: State) -> State:
    return {"generation": "I don't know."}


def enough(state: State) -> str:
    least = 7 if FAULT == "refusal" else 1
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

with traced(LangChainInstrumentor()):
    for talk in lines("conversations.jsonl"):
        history: list[BaseMessage] = []
        for user, agent in talk["turns"]:
            config = {"configurable": {"thread_id": talk["id"]}}
            app.invoke({"question": user, "history": list(history)}, config)
            history += [HumanMessage(user), AIMessage(agent)]
