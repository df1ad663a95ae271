"""A small RAG workflow in LlamaIndex that knows nothing of mtrag_nb: condense, retrieve, rerank, answer, or say no.

python llamaindex_program.py FOLDER SPANS [--fault retriever|reranker|generator|refusal]

FOLDER holds documents.jsonl (title, text) and conversations.jsonl (id, turns of user and agent). Its only instrumentation is
`openinference-instrumentation-llama-index`; spans go to SPANS, one JSON object of `ReadableSpan.to_json` a line. The node ids are
those that LlamaIndex draws. --fault breaks one stage.
"""

import asyncio
import re
from collections import Counter
from math import log
from typing import Any

from asked import FAULT, lines, traced, words
from llama_index.core.base.llms.types import (
    ChatMessage,
    CompletionResponse,
    LLMMetadata,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from openinference.instrumentation import using_session
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor


class Bm25(BaseRetriever):
    def __init__(self, nodes: list[TextNode], k: int = 8):
        super().__init__()
        self.nodes, self.k = nodes, k
        self.counts = [Counter(words(n.get_content())) for n in nodes]
        self.mean = sum(map(Counter.total, self.counts)) / len(nodes)
        self.df = Counter(w for c in self.counts for w in c)

    def score(self, counts: Counter, query: str) -> float:
        n, norm = len(self.nodes), 0.25 + 0.75 * counts.total() / self.mean
        idf = {
            w: log(1 + (n - self.df[w] + 0.5) / (self.df[w] + 0.5))
            for w in set(words(query))
        }
        return sum(
            f * counts[w] * 2.2 / (counts[w] + 1.2 * norm) for w, f in idf.items()
        )

    def _retrieve(self, bundle: QueryBundle) -> list[NodeWithScore]:
        scores = [self.score(c, bundle.query_str) for c in self.counts]
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        best = order[-self.k :] if FAULT == "retriever" else order[: self.k]
        return [NodeWithScore(node=self.nodes[i], score=scores[i]) for i in best]


class OverlapRerank(BaseNodePostprocessor):
    "Keeps the three nodes that share most words with the question."

    def _postprocess_nodes(self, nodes, query_bundle=None) -> list[NodeWithScore]:
        asked = set(words(query_bundle.query_str))
        share = [
            len(asked & set(words(n.node.get_content()))) / len(asked) for n in nodes
        ]
        ranked = sorted(zip(share, nodes), key=lambda pair: -pair[0])
        ranked = ranked[-2:] if FAULT == "reranker" else ranked[:3]
        return [NodeWithScore(node=n.node, score=s) for s, n in ranked]


class Extractive(CustomLLM):
    "Copies the sentences of the context that share most words with the question; condenses by joining the questions."

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="extractive")

    def answer(self, prompt: str) -> str:
        if prompt.startswith("Rewrite"):
            return " ".join(re.findall(r"(?:user|Question): (.*)", prompt)[-2:])
        if FAULT == "generator":
            return (
                "Purple zebras graze quietly beyond seven frozen lighthouses tonight."
            )
        context, _, question = prompt.rpartition("Question: ")
        asked = set(words(question))
        found = re.split(r"(?<=[.!?])\s+", context.partition("Context:\n")[2].strip())
        best = max(range(len(found)), key=lambda i: len(asked & set(words(found[i]))))
        return " ".join(found[best : best + 2])

    @llm_completion_callback()
    def complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        return CompletionResponse(text=self.answer(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any):
        yield CompletionResponse(text=self.answer(prompt))


class Condensed(Event):
    query: str


class Found(Event):
    query: str
    nodes: list[NodeWithScore]


class Ranked(Event):
    query: str
    nodes: list[NodeWithScore]


CONDENSE = PromptTemplate(
    "Rewrite the last question so that it stands alone.\n{chat}\nQuestion: {question}"
)
ANSWER = PromptTemplate(
    "Answer from the context.\nContext:\n{context_str}\nQuestion: {query_str}"
)
LEAST = 0.34 if FAULT != "refusal" else 7.0


class HelpDesk(Workflow):
    def __init__(self, retriever: BaseRetriever, llm: CustomLLM, **kwargs):
        super().__init__(**kwargs)
        self.retriever, self.llm, self.reranker = retriever, llm, OverlapRerank()
        self.synthesizer = get_response_synthesizer(llm=llm, text_qa_template=ANSWER)

    @step
    async def condense(self, ev: StartEvent) -> Condensed:
        if not ev.chat_history:
            return Condensed(query=ev.message)
        chat = "\n".join(f"{m.role.value}: {m.content}" for m in ev.chat_history)
        text = await self.llm.apredict(CONDENSE, chat=chat, question=ev.message)
        return Condensed(query=text)

    @step
    async def search(self, ev: Condensed) -> Found:
        return Found(query=ev.query, nodes=await self.retriever.aretrieve(ev.query))

    @step
    async def rerank(self, ev: Found) -> Ranked:
        nodes = self.reranker.postprocess_nodes(ev.nodes, query_str=ev.query)
        return Ranked(query=ev.query, nodes=nodes)

    @step
    async def answer(self, ev: Ranked) -> StopEvent:
        if max(n.score for n in ev.nodes) < LEAST:
            return StopEvent(result="I don't know: the documents do not say.")
        response = await self.synthesizer.asynthesize(ev.query, ev.nodes)
        return StopEvent(result=str(response))


async def talk(desk: HelpDesk) -> None:
    for said in lines("conversations.jsonl"):
        history: list[ChatMessage] = []
        with using_session(said["id"]):
            for user, agent in said["turns"]:
                await desk.run(message=user, chat_history=list(history))
                history += [ChatMessage(role="user", content=user)]
                history += [ChatMessage(role="assistant", content=agent)]


nodes = [
    TextNode(
        text=d["text"],
        metadata={"title": d["title"]},
        excluded_llm_metadata_keys=["title"],
    )
    for d in lines("documents.jsonl")
]
with traced(LlamaIndexInstrumentor()):
    asyncio.run(talk(HelpDesk(Bm25(nodes), Extractive(), timeout=60)))
