"""A LangChain chat model that follows rules, and a retriever over documents.jsonl. It knows nothing of mtrag_nb."""

import os
import re
from typing import Any

from helpdesk import Desk, Page, words
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever

DESK = Desk(os.environ["DESK_DOCUMENTS"])


class Rules(BaseChatModel):
    "Grades by shared words, rewrites by adding what was asked before, answers with sentences of its documents."

    @property
    def _llm_type(self) -> str:
        return "rules"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs) -> ChatResult:
        task, *parts = messages[-1].content.split("\n---\n")
        text = getattr(self, task)(*parts)
        used = {
            "input_tokens": len(words(" ".join(parts))),
            "output_tokens": len(words(text)),
        }
        used["total_tokens"] = sum(used.values())
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage(text, usage_metadata=used))]
        )

    def grade(self, question: str, document: str) -> str:
        asked = set(words(question))
        return (
            "yes"
            if DESK.weight(asked, document) >= 0.4 * DESK.weight(asked, question)
            else "no"
        )

    def rewrite(self, question: str, before: str) -> str:
        return f"{before} {question}".strip()

    def answer(self, question: str, documents: str) -> str:
        return DESK.quote(question, [Page(1, "", documents)])

    def check(self, draft: str, documents: str) -> str:
        told, known = set(words(draft)), set(words(documents))
        return "yes" if len(told & known) >= 0.7 * len(told) else "no"

    def ask(self, *parts: str) -> str:
        return self.invoke("\n---\n".join(parts)).content


class Shelf(BaseRetriever):
    "The pages that fit a query best."

    k: int = 5

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        found = DESK.search(query, self.k)
        return [
            Document(p.body, id=str(p.number), metadata={"title": p.heading})
            for p in found
        ]


def whole(documents: list[Document]) -> str:
    return "\n".join(re.sub(r"\n---\n", "\n", d.page_content) for d in documents)
