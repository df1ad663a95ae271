"""A help desk in plain Python that knows nothing of mtrag_nb: it searches, grades, decides whether to answer, and quotes.

python otel_program.py FOLDER SPANS [--fault retriever|grader|generator|refusal]

FOLDER holds documents.jsonl (id, title, text) and conversations.jsonl (id, turns of user and agent). Its spans are written by
hand after OpenTelemetry's conventions for generative AI (`invoke_agent`, `retrieval`, `execute_tool`, `chat`; documents have id
and score, no text), and go to SPANS as OTLP JSON, one line a batch, as the Collector's file exporter has it. --fault breaks one
stage.
"""

import json
import re
from collections import Counter
from math import log

from asked import ASKED, FAULT, lines, words
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.trace import SpanKind

NO = "Sorry, I can't find that in our documents."


class OtlpJson(SpanExporter):
    "Spans as OTLP JSON: ids in hexadecimal, 64-bit numbers as texts, attributes as keys with typed values."

    def __init__(self, path: str):
        self.out = open(path, "w", encoding="utf-8")  # noqa: SIM115

    def value(self, v) -> dict:
        if isinstance(v, (list, tuple)):
            return {"arrayValue": {"values": [self.value(x) for x in v]}}
        names = {
            bool: "boolValue",
            int: "intValue",
            float: "doubleValue",
            str: "stringValue",
        }
        return {names[type(v)]: str(v) if type(v) is int else v}

    def span(self, s) -> dict:
        return {
            "traceId": f"{s.context.trace_id:032x}",
            "spanId": f"{s.context.span_id:016x}",
            "parentSpanId": f"{s.parent.span_id:016x}" if s.parent else "",
            "name": s.name,
            "kind": s.kind.value + 1,
            "startTimeUnixNano": str(s.start_time),
            "endTimeUnixNano": str(s.end_time),
            "attributes": [
                {"key": k, "value": self.value(v)} for k, v in s.attributes.items()
            ],
            "status": {},
        }

    def export(self, spans) -> SpanExportResult:
        scope = {"scope": {"name": "helpdesk"}, "spans": [self.span(s) for s in spans]}
        self.out.write(json.dumps({"resourceSpans": [{"scopeSpans": [scope]}]}) + "\n")
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.out.close()


provider = TracerProvider(resource=Resource.create({"service.name": "helpdesk"}))
provider.add_span_processor(BatchSpanProcessor(OtlpJson(ASKED.spans)))
tracer = provider.get_tracer("helpdesk")

DOCUMENTS = lines("documents.jsonl")
COUNTS = [Counter(words(f"{d['title']} {d['text']}")) for d in DOCUMENTS]
FREQUENCY = Counter(w for c in COUNTS for w in c)


def idf(word: str) -> float:
    return log(1 + len(COUNTS) / (0.5 + FREQUENCY[word]))


def message(role: str, text: str) -> dict:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def retrieve(query: str, k: int = 6) -> list[dict]:
    with tracer.start_as_current_span(
        "retrieval handbook", kind=SpanKind.CLIENT
    ) as span:
        scores = [
            sum(idf(w) * c[w] / (c[w] + 1 + c.total() / 200) for w in set(words(query)))
            for c in COUNTS
        ]
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        best = order[-k:] if FAULT == "retriever" else order[:k]
        found = [{"id": DOCUMENTS[i]["id"], "score": round(scores[i], 4)} for i in best]
        span.set_attribute("gen_ai.operation.name", "retrieval")
        span.set_attribute("gen_ai.data_source.id", "handbook")
        span.set_attribute("gen_ai.retrieval.query.text", query)
        span.set_attribute("gen_ai.retrieval.documents", json.dumps(found))
        return [DOCUMENTS[i] for i in best]


def tool(name: str, arguments: dict, work) -> dict:
    with tracer.start_as_current_span(f"execute_tool {name}") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", name)
        span.set_attribute("gen_ai.tool.type", "function")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps(arguments))
        result = work(**arguments)
        span.set_attribute("gen_ai.tool.call.result", json.dumps(result))
        return result


def relevance_filter(query: str, documents: list[dict]) -> dict:
    "Keeps the documents that hold at least half of the weight of the query's words that the best one holds."
    asked = set(words(query))
    weights = [sum(idf(w) for w in asked & set(words(d["text"]))) for d in documents]
    keep = [w >= 0.6 * max(weights) for w in weights]
    return {
        "documents": [d for d, k in zip(documents, keep) if k != (FAULT == "grader")]
    }


def can_answer(query: str, documents: list[dict]) -> dict:
    here = set(words(" ".join(d["text"] for d in documents)))
    asked = set(words(query))
    share = sum(idf(w) for w in asked & here) / sum(map(idf, asked)) if asked else 0
    return {
        "share": round(share, 3),
        "answerable": share >= (2 if FAULT == "refusal" else 0.45),
    }


def chat(system: str, messages: list[dict], documents: list[dict]) -> str:
    "Quotes the two neighbouring sentences with most of the weight of the question's words."
    with tracer.start_as_current_span("chat quote-1", kind=SpanKind.CLIENT) as span:
        asked = set(words(messages[-1]["parts"][0]["content"]))
        sentences = [
            s for d in documents for s in re.split(r"(?<=[.!?])\s+", d["text"])
        ]
        weights = [sum(idf(w) for w in asked & set(words(s))) for s in sentences]
        best = max(range(len(sentences)), key=weights.__getitem__)
        text = " ".join(sentences[best : best + 2])
        if FAULT == "generator":
            text = (
                "Purple zebras graze quietly beyond seven frozen lighthouses tonight."
            )
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.provider.name", "helpdesk")
        span.set_attribute("gen_ai.request.model", "quote-1")
        parts = [{"type": "text", "content": system}]
        span.set_attribute("gen_ai.system_instructions", json.dumps(parts))
        span.set_attribute("gen_ai.input.messages", json.dumps(messages))
        reply = message("assistant", text) | {"finish_reason": "stop"}
        span.set_attribute("gen_ai.output.messages", json.dumps([reply]))
        span.set_attribute("gen_ai.usage.input_tokens", len(system.split()))
        span.set_attribute("gen_ai.usage.output_tokens", len(text.split()))
        return text


def answer(conversation: str, messages: list[dict]) -> str:
    with tracer.start_as_current_span("invoke_agent helpdesk") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
        span.set_attribute("gen_ai.agent.name", "helpdesk")
        span.set_attribute("gen_ai.conversation.id", conversation)
        span.set_attribute("gen_ai.input.messages", json.dumps(messages))
        said = [m["parts"][0]["content"] for m in messages if m["role"] == "user"]
        query = " ".join(said[-2:])
        documents = retrieve(query)
        documents = tool(
            "relevance_filter",
            {"query": query, "documents": documents},
            relevance_filter,
        )
        documents = documents["documents"]
        if tool("can_answer", {"query": said[-1], "documents": documents}, can_answer)[
            "answerable"
        ]:
            context = "\n\n".join(f"[{d['id']}] {d['text']}" for d in documents)
            text = chat(
                f"Quote from these documents.\n\n{context}", messages, documents
            )
        else:
            text = NO
        span.set_attribute(
            "gen_ai.output.messages", json.dumps([message("assistant", text)])
        )
        return text


for talk in lines("conversations.jsonl"):
    messages: list[dict] = []
    for user, agent in talk["turns"]:
        messages = [*messages, message("user", user)]
        answer(talk["id"], messages)
        messages = [*messages, message("assistant", agent)]
provider.shutdown()
