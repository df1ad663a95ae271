"""What the programs of this folder are asked on the command line, the files of its folder, and words. It knows nothing of mtrag_nb."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helpdesk import words
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

__all__ = ["ASKED", "FAULT", "lines", "traced", "words"]

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("spans")
parser.add_argument("--fault", default="")
ASKED = parser.parse_args()
FAULT = ASKED.fault


def lines(name: str) -> list[dict]:
    return [
        json.loads(line)
        for line in (ASKED.folder / name).read_text("utf-8").splitlines()
    ]


@contextmanager
def traced(instrumentor: Any) -> Iterator[None]:
    "The spans of the block go to the file, one JSON object a line."
    with open(ASKED.spans, "w", encoding="utf-8") as out:
        provider = TracerProvider()
        exporter = ConsoleSpanExporter(
            out=out, formatter=lambda span: span.to_json(indent=None) + "\n"
        )
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        instrumentor.instrument(tracer_provider=provider)
        yield
        provider.shutdown()
