"""What an index of so many children costs to build, to open and to ask.

Milliseconds of CPU are those of one question in one domain, from the question's vectors to the passages; `numpy` is the bare
product over the block of the largest domain, without filter, words, texts or files. Vectors are random: the searches are exact,
so their time does not depend on what the vectors are. The passages are the pool's, repeated as often as needed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.settings import RetrievalSettings, load_settings
from mtrag_nb.core.types import Passage
from mtrag_nb.data.mtrag import read_corpus
from mtrag_nb.runs.run import machine, package_versions
from mtrag_nb.search.ingest import build_index
from mtrag_nb.search.retrieve import Retriever
from mtrag_nb.search.store import open_index
from mtrag_nb.search.vector_store import disk_size
from tools.real_data import POOL, pool_file, real_data

STORE_WAYS = {
    "dense": RetrievalSettings(20, 5, reranker="none"),
    "words": RetrievalSettings(20, 5, views="bm25:query", reranker="none"),
    "dense and words": RetrievalSettings(
        20, 5, views="query bm25:query", reranker="none"
    ),
    "laptop's default": load_settings().retrieval,
}


def store_table(rows: Sequence[Mapping[str, float]]) -> str:
    "A line a size of the index."
    columns = ["children", "build_cpu_s", "open_cpu_s", "disk_mb", *STORE_WAYS, "numpy"]
    return text_table(
        [c.replace("_", " ") for c in columns], [[r[c] for c in columns] for r in rows]
    )


class RandomVectors:
    "An embedder's double: random vectors of 384 numbers, as MiniLM's."

    fingerprint = "random"
    dim = 384
    device = "cpu"

    def encode(self, texts: Sequence[str], query: bool = False) -> np.ndarray:
        drawn = np.random.default_rng(len(texts)).standard_normal(
            (len(texts), self.dim)
        )
        return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


ASKED_OF_STORE = [
    "what is the fee of a ferry ticket in the harbour",
    "interest on a savings account",
    "how do I restore a database backup",
]


def repeated(
    passages: Callable[[], Iterator[Passage]], children: int
) -> Iterator[Passage]:
    "Passages, again and again under other ids, until they have about so many children."
    have = 0
    for turn in count():
        for p in passages():
            yield replace(p, id=f"{turn}:{p.id}")
            have += max(1, len(p.text) // 245)
            if have >= children:
                return


def median_ms(work: Callable[[int], object], times: int = 25) -> float:
    "CPU milliseconds of a piece of work, the median of several."
    work(0)
    taken = []
    for n in range(times):
        begun = time.process_time()
        work(n)
        taken.append(1000 * (time.process_time() - begun))
    return round(float(np.median(taken)), 1)


def bench_store(
    passages: Callable[[], Iterator[Passage]], children: int, folder: Path
) -> dict[str, float]:
    "Build, open and ask an index of about so many children; seconds and milliseconds of CPU."
    embedder = RandomVectors()
    begun = time.process_time()
    manifest = build_index(
        repeated(passages, children), folder, embedder, progress=False
    )
    built = time.process_time() - begun
    begun = time.process_time()
    with open_index(folder, embedder) as index:
        row = {"children": manifest.total("children"), "build_cpu_s": round(built, 1)}
        row |= {"open_cpu_s": round(time.process_time() - begun, 2)}
        row |= {"disk_mb": round(disk_size(folder) / 1e6)}
        domains = list(manifest.domains)
        for name, settings in STORE_WAYS.items():
            ask = Retriever(index, embedder, settings=settings).retrieve
            row[name] = median_ms(
                lambda n: ask(ASKED_OF_STORE[n % 3], domains[n % len(domains)])
            )
    block = max(d["children"] for d in manifest.domains.values())
    vectors = np.random.default_rng(0).standard_normal((block, 384), np.float32)
    row["numpy"] = median_ms(
        lambda n: np.argpartition(-(vectors @ vectors[n % block]), 19)
    )
    return row


def measure_store(out: str | Path = "data/measured/store.json") -> None:
    "Measure 5,000, 50,000 and 366,000 children. Raises DataError without the benchmark's pool."
    found = {"machine": machine(), "packages": package_versions(), "rows": []}
    for children in (5_000, 50_000, 366_000):
        with tempfile.TemporaryDirectory() as folder:
            read = partial(read_corpus, pool_file(real_data(POOL)))
            found["rows"].append(bench_store(read, children, Path(folder) / "index"))
        write_json(out, found)
