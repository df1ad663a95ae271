"""What `mtrag serve` holds in memory and how long it takes, over an empty library and over a large one.

The service runs in a process of its own with the laptop's settings and its real embedder. Another process makes the large library
beforehand, of the sample's sentences in random order; its vectors are random, since nothing here depends on what they say. The
documents that are uploaded are PDFs of the sample's prose. Memory is that of the service and of the process in which it reads
documents, looked at from outside twenty times a second; processor seconds are of both, too.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from mtrag_nb.core.files import write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.data.mtrag import read_corpus, sample_corpus
from mtrag_nb.runs.run import machine, package_versions
from tests.support.specimens import pdf
from tools.study import footprint_rows, footprint_words, kept_in


def footprint_table(part: Mapping) -> str:
    "Each step over one library, as a table."
    return text_table(
        ["", "s", "CPU s", "MB at most", "MB afterwards"], footprint_rows(part)
    )


SERVE = (
    "import sys; from mtrag_nb.serve.serve import serve; serve(sys.argv[1] + '/library', sys.argv[1] + '/served', port=0, "
    "ready=lambda said: print(said, flush=True), rate=10**6)"
)
FILL = """
import sys
from pathlib import Path
import numpy as np
from mtrag_nb.core.settings import load_settings
from mtrag_nb.models.calls import _load_embedder
from mtrag_nb.serve.library import Library

settings = load_settings()
real = _load_embedder(settings.embedder)

class Chance:
    "Vectors of chance under the name of the laptop's embedder."
    fingerprint, dim, rng = real.fingerprint, real.dim, np.random.default_rng(0)
    def encode(self, texts, query=False):
        v = self.rng.normal(size=(len(texts), self.dim)).astype(np.float32)
        return v / np.linalg.norm(v, axis=1, keepdims=True)

Library(sys.argv[1]).add(sys.argv[2], "filler", Chance(), settings.chunks)
"""
ASKED_OF_SERVICE = [
    "Which clubs founded the Torvan Inland League?",
    "When was it suspended?",
    "What does a permit cost?",
    "How is a claim for a refund made?",
    "Who may apply for the grant?",
    "Where are the records kept?",
]


def sentences() -> list[str]:
    "The sample's sentences, in letters that the PDF's font has."
    text = " ".join(p.text for f in sample_corpus() for p in read_corpus(f))
    return [
        s
        for s in re.split(
            r"(?<=[.!?])\s+", text.encode("latin-1", "ignore").decode("latin-1")
        )
        if 20 < len(s) < 400
    ]


def prose(rng: random.Random, said: list[str], characters: int) -> str:
    "Sentences in random order."
    out = ""
    while len(out) < characters:
        out += rng.choice(said) + " "
    return out.rstrip()


def report_pdf(rng: random.Random, said: list[str], pages: int) -> bytes:
    "A PDF of so many pages, each with a heading and three paragraphs."
    blocks = [("title", "A report")]
    for n in range(pages):
        blocks += (
            [("page", "")] * (n > 0)
            + [(1, f"Part {n + 1}")]
            + [("text", prose(rng, said, 900)) for _ in range(3)]
        )
    return pdf(blocks)[0]


def fill_library(
    folder: Path, children: int, rng: random.Random, said: list[str]
) -> None:
    "A library of at least so many children, made in a process of its own."
    texts = folder / "texts"
    texts.mkdir()
    for n in range(
        -(-children * 310 // 200_000)
    ):  # a child takes about 310 characters of such text
        (texts / f"{n:03}.txt").write_text(prose(rng, said, 200_000))
    subprocess.run(
        [sys.executable, "-c", FILL, str(folder / "library"), str(texts)], check=True
    )


class Watch(threading.Thread):
    "Looks at a process and those that it started."

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self.pid = pid
        self.peak = 0.0
        self.over = threading.Event()
        self.start()

    def pids(self) -> list[int]:
        found = [self.pid]
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
        return found

    def stat(self) -> list[list[str]]:
        "What the system says of each; one that has just ended is left out."
        out = []
        for pid in self.pids():
            try:
                out.append(
                    Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                )
            except (FileNotFoundError, ProcessLookupError):
                pass
        return out

    def now(self) -> float:
        "MB."
        return sum(int(s[21]) for s in self.stat()) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu(self) -> float:
        "Seconds; of children that have ended, too."
        first, *rest = self.stat()
        return (
            sum(map(int, first[11:15])) + sum(int(x) for s in rest for x in s[11:13])
        ) / os.sysconf("SC_CLK_TCK")

    def run(self) -> None:
        while not self.over.wait(0.05):
            try:
                self.peak = max(self.peak, self.now())
            except (FileNotFoundError, ProcessLookupError):
                return

    def measured(self, do) -> tuple[dict, dict]:  # numbers, and what was answered
        "What something takes."
        self.peak = self.now()
        start = time.perf_counter()
        cpu = self.cpu()
        answer = do()
        seconds = time.perf_counter() - start
        cpu = self.cpu() - cpu
        time.sleep(1.0)
        told = {
            "seconds": round(seconds, 2),
            "cpu_seconds": round(cpu, 2),
            "peak_mb": round(self.peak),
            "after_mb": round(self.now()),
        }
        return told, answer


@contextmanager
def watched_service(folder: Path) -> Iterator[tuple[httpx.Client, Watch]]:
    "The service: a client of it, and its watch."
    env = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )
    line = process.stdout.readline()
    if not line.startswith("http"):
        raise RuntimeError(f"the service did not start: {line!r}")
    watch = Watch(process.pid)
    try:
        with httpx.Client(base_url=line.split("  ")[0], timeout=3600) as client:
            yield client, watch
    finally:
        watch.over.set()
        process.terminate()
        process.wait(60)


def replied(response: httpx.Response) -> dict:
    "The JSON of a response. Raises HTTPStatusError for a refusal."
    response.raise_for_status()
    return response.json()


def visit_service(folder: Path, documents: list[bytes], first: str) -> dict:
    "Everything that is measured over one library. `first`: what comes first, a question or an upload."

    def upload(data):
        return replied(
            client.post(
                "/api/upload",
                files={"file": ("report.pdf", data)},
                data={"collection": "reports"},
            )
        )

    def ask(q, talk=""):
        return replied(
            client.post(
                "/api/query",
                json={"question": q, **({"conversation_id": talk} if talk else {})},
            )
        )

    with watched_service(folder) as (client, watch):
        out = {"started": {"after_mb": round(watch.now())}}
        if first == "question":
            out["first question"], talk = watch.measured(
                lambda: ask(ASKED_OF_SERVICE[0])
            )
        out["upload"], said = watch.measured(lambda: upload(documents[0]))
        out["document"] = {
            k: said[k] for k in ("pages", "characters", "chunks", "children")
        }
        if first == "upload":
            out["first question"], talk = watch.measured(
                lambda: ask(ASKED_OF_SERVICE[0])
            )
        later = [
            watch.measured(lambda: ask(q, talk["conversation_id"]))[0]
            for q in ASKED_OF_SERVICE[1:]
        ]
        out["later question"] = {
            k: sorted(x[k] for x in later)[len(later) // 2] for k in later[0]
        }
        out["replaced"] = [
            watch.measured(lambda: upload(data))[0] for data in documents[1:]
        ]
        out["held"] = replied(client.get("/api/status"))["index"]
        return out


def measure_footprint(
    out: str | Path = "data/measured/footprint.json",
    children: int = 50_000,  # of the large library
    pages: int = 100,
    uploads: int = 4,  # documents that come one after the other, each in the place of the last
) -> None:
    "The service over an empty library and over one of so many children. Half an hour; Linux."
    rng = random.Random(0)
    said = sentences()
    documents = [report_pdf(rng, said, pages) for _ in range(uploads)]
    told = {"machine": machine(), "packages": package_versions(), "pages": pages}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        told["alone"] = visit_service(Path(folder), documents, "upload")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        fill_library(Path(folder), children, rng, said)
        told["large"] = visit_service(Path(folder), documents, "question")
    told["load"] = [round(x, 1) for x in os.getloadavg()]
    write_json(out, told)
    print(footprint_table(told["large"]))


def show_footprint() -> None:
    "Print each step over both libraries, and what it comes to."
    told = kept_in("footprint")
    for name in ("alone", "large"):
        part = told[name]
        print(
            f"{part['held']['documents']} documents, {part['held']['children']:,} children at the end\n{footprint_table(part)}\n"
        )
    w = footprint_words(told)
    large = told["large"]
    print(
        f"At most {w['peak_mb']:,} MB, {w['share']:.0%} of the limit, with {large['held']['children']:,} children and both models loaded.\n"
        f"An upload of 100 pages takes {w['upload']:.0f} s of a core, a first question {w['first']:.1f} s with loading, "
        f"a later one {w['later']:.1f} s.\n"
        f"After two more uploads it holds {w['kept_mb']:+} MB beside what it held before them."
    )


def check_findings() -> None:
    "Assert what the study says of memory, of the results that are kept."
    told = kept_in("footprint")
    alone = told["alone"]
    large = told["large"]
    assert large["held"]["children"] > 50_000
    assert alone["held"]["documents"] == 1
    pages = {part["document"]["pages"] for part in (alone, large)}
    assert pages == {told["pages"]} == {100}
    words = footprint_words(told)
    assert words["share"] < 1 / 3
    # memory goes back after uploads
    assert words["kept_mb"] < 50
    assert words["later"] < 5
