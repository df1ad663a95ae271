"""Programs of other frameworks with a fault planted in one stage: is the right stage named?

python -m tests.support.foreign    prints the table, and writes data/measured/outside.json and data/sample/spans
"""

import gzip
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from mtrag_nb.core.files import data_dir, write_json, write_jsonl
from mtrag_nb.core.html import text_table
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.data.mtrag import read_benchmark, read_corpus, sample_corpus, sample_dir
from mtrag_nb.data.imports import KnownPassages
from mtrag_nb.data.traces import import_traces
from mtrag_nb.evaluation.blame import blame
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.statistics import mean_interval
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.systems.outside import outside, find_system
from mtrag_nb.systems.system import System

PROGRAMS = Path(__file__).parents[1] / "foreign"
NAMED = {
    "retriever": "retrieve",
    "grader": "grade",
    "generator": "generate",
    "refusal": "gate",
}
RERANKED = {
    "retriever": "retrieve",
    "reranker": "rerank",
    "generator": "generate",
    "refusal": "gate",
}
# A reply holds an answer and its passages. What was dropped before was never seen, and a refusal is the answerer's.
REPLIED = NAMED | {"grader": "retrieve", "refusal": "generate"}
# program -> fault -> the stage that must be named
FAULTS = {"langgraph": NAMED, "llamaindex": RERANKED, "otel": NAMED, "function": NAMED}
FAULTS["endpoint"] = REPLIED
SPANS = ("langgraph", "llamaindex", "otel")  # the others are run
HEAD = [
    "program",
    "fault in the",
    "stage",
    "right before",
    "broken by it",
    "named",
    "share",
]


def write_sample(folder: Path, only: str = "") -> Path:  # only: one conversation
    "The sample as the programs read it: documents.jsonl (id, title, text), conversations.jsonl (id, turns: question, answer)."
    folder.mkdir(parents=True, exist_ok=True)
    about = (
        {"id": p.id, "title": p.title, "text": p.text}
        for p in read_corpus(*sample_corpus())
    )
    write_jsonl(folder / "documents.jsonl", about)
    file, said = read_benchmark(sample_dir() / "reference.jsonl"), {}
    for t in file.tasks:
        said.setdefault(t.conversation_id, []).append(
            [t.question, file.gold[t.id].targets[0]]
        )
    rows = [{"id": i, "turns": turns} for i, turns in said.items() if only in ("", i)]
    write_jsonl(folder / "conversations.jsonl", rows)
    return folder


def traced(program: str, folder: Path, fault: str = "") -> Path:
    "The spans of a program over a folder, whole or with a fault, made in a process of its own."
    spans = folder / f"{program}-{fault or 'whole'}.jsonl"
    command = [sys.executable, PROGRAMS / f"{program}_program.py", folder, spans]
    command += ["--fault", fault] if fault else []
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return spans


def imported(program: str, folder: Path, fault: str = "") -> Run:
    "A run made from a program's spans and the sample's tasks, as `mtrag import` makes it."
    file = read_benchmark(sample_dir() / "reference.jsonl", contexts=True)
    gold = [p for g in file.gold.values() for p in g.passages]
    spans = traced(program, folder, fault)
    return import_traces(spans, spans.with_suffix(""), file.tasks, KnownPassages(gold))


@contextmanager
def served(documents: Path, *options: str) -> Iterator[str]:
    "The help desk behind an address, in a process of its own."
    command = [sys.executable, PROGRAMS / "helpdesk_server.py", documents, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.terminate()


def asked(system: System, out: Path, limit: int | None = None, **changes) -> Run:
    "A system over the sample's tasks, as `mtrag run` asks it."
    tasks = read_benchmark(sample_dir() / "reference.jsonl", limit=limit).tasks
    settings = system.configure(load_settings(), changes)
    return run_tasks(system, tasks, out, settings, progress=False)


def by_function(folder: Path, fault: str = "") -> Run:
    "The help desk by its glue: a function."
    sys.path[:0] = [] if str(PROGRAMS) in sys.path else [str(PROGRAMS)]
    with mock.patch.dict(
        os.environ, DESK_DOCUMENTS=f"{folder}/documents.jsonl", DESK_FAULT=fault
    ):
        answer = runpy.run_path(str(PROGRAMS / "glue_function.py"))["answer"]
    return asked(outside(answer), folder / f"function-{fault or 'whole'}")


def by_endpoint(folder: Path, fault: str = "") -> Run:
    "The help desk at its address."
    with served(folder / "documents.jsonl", "--fault", fault) as url:
        return asked(find_system(url), folder / f"endpoint-{fault or 'whole'}")


def run_of(program: str, folder: Path, fault: str = "") -> Evidence:
    "A program over the sample, whole or with a fault."
    ways = {"function": by_function, "endpoint": by_endpoint}
    run = (
        ways[program](folder, fault)
        if program in ways
        else imported(program, folder, fault)
    )
    return Evidence(run, read_benchmark(sample_dir() / "reference.jsonl").gold)


def lucky(run: Evidence, task_id: str) -> bool:
    "Whether a turn was answered without a gold passage: what failed first there is not the fault that is planted later."
    t = run.turns[task_id]
    seen = {run.contexts[i].document_id for i in t.contexts}
    return t.answered and not seen & set(run.rows[task_id].relevant)


def blamed(program: str, folder: Path) -> list[dict]:
    "For each fault of a program: which turns it broke, and which stage is named for each."
    whole = run_of(program, folder)
    before = blame(whole)
    right = [
        i
        for i, b in before.turns.items()
        if b.verdict == "right" and not lucky(whole, i)
    ]
    rows = []
    for fault, stage in FAULTS[program].items():
        after = blame(run_of(program, folder, fault))
        broken = [i for i in right if after.turns[i].verdict == "failed"]
        named = {i: after.turns[i].stage for i in broken}
        about = {
            "program": program,
            "fault": fault,
            "stage": stage,
            "right": len(right),
        }
        rows.append({**about, "turns": len(before.turns), "named": named})
    return rows


def table(rows: list[dict]) -> list[list]:
    "Rows under HEAD."
    out = []
    for r in rows:
        hits = [float(s == r["stage"]) for s in r["named"].values()]
        talks = [i.partition("<")[0] for i in r["named"]]
        share = str(mean_interval(hits, talks)) if hits else "-"
        about = [r["program"], r["fault"], r["stage"], r["right"]]
        out.append([*about, len(hits), int(sum(hits)), share])
    return out


def measured() -> list[dict]:
    with tempfile.TemporaryDirectory() as tmp:
        folder = write_sample(Path(tmp))
        return [row for program in FAULTS for row in blamed(program, folder)]


def keep_spans(talk: str = "e4617d4e7156009c65c9c6cc449d3c76") -> None:
    "Keep the spans of one conversation for readers: of each program, with its fault in the middle."
    place = sample_dir() / "spans"
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp:
        folder = write_sample(Path(tmp), talk)
        for program in SPANS:
            faults = FAULTS[program]
            spans = traced(program, folder, [*faults][1]).read_bytes()
            (place / f"{program}.jsonl.gz").write_bytes(gzip.compress(spans, mtime=0))


if __name__ == "__main__":
    keep_spans()
    found = measured()
    write_json(data_dir("measured") / "outside.json", found)
    print(text_table(HEAD, table(found)))
