"""Programs of other frameworks with a fault planted in one stage: is the right stage named from their spans alone?

python -m tests.support.foreign    prints the table, and writes data/measured/outside.json and data/sample/spans
"""

import gzip
import subprocess
import sys
import tempfile
from pathlib import Path

from mtrag_nb.core.files import data_dir, write_json, write_jsonl
from mtrag_nb.core.html import text_table
from mtrag_nb.data.mtrag import read_benchmark, read_corpus, sample_corpus, sample_dir
from mtrag_nb.data.traces import Corpus, import_traces
from mtrag_nb.evaluate.blame import BlameReport, blame
from mtrag_nb.evaluate.scores import Evidence
from mtrag_nb.evaluate.statistics import mean_interval

PROGRAMS = Path(__file__).parents[1] / "foreign"
FAULTS = {  # program -> fault -> the stage that must be named
    "langgraph": {
        "retriever": "retrieve",
        "grader": "grade",
        "generator": "generate",
        "refusal": "gate",
    },
    "llamaindex": {
        "retriever": "retrieve",
        "reranker": "rerank",
        "generator": "generate",
        "refusal": "gate",
    },
    "otel": {
        "retriever": "retrieve",
        "grader": "grade",
        "generator": "generate",
        "refusal": "gate",
    },
}
HEAD = ["program", "fault in the", "stage", "right before", "broken by it", "named", "share"]


def write_sample(folder: Path, only: str = "") -> Path:  # only: one conversation
    "The sample as the programs read it: documents.jsonl (id, title, text), conversations.jsonl (id, turns: question, answer)."
    folder.mkdir(parents=True, exist_ok=True)
    about = ({"id": p.id, "title": p.title, "text": p.text} for p in read_corpus(*sample_corpus()))
    write_jsonl(folder / "documents.jsonl", about)
    file, said = read_benchmark(sample_dir() / "reference.jsonl"), {}
    for t in file.tasks:
        said.setdefault(t.conversation_id, []).append([t.question, file.gold[t.id].targets[0]])
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


def imported(spans: Path, out: Path) -> tuple[Evidence, BlameReport]:
    "A run made from spans and the sample's tasks, as `mtrag import` makes it, and whom it blames."
    file = read_benchmark(sample_dir() / "reference.jsonl", contexts=True)
    gold = [p for g in file.gold.values() for p in g.passages]
    run = import_traces(spans, out, file.tasks, Corpus(gold))
    evidence = Evidence(run, file.gold)
    return evidence, blame(evidence)


def lucky(run: Evidence, task_id: str) -> bool:
    "Whether a turn was answered without a gold passage: what failed first there is not the fault that is planted later."
    t = run.turns[task_id]
    seen = {run.contexts[i].document_id for i in t.contexts}
    return t.answered and not seen & set(run.relevant(task_id))


def blamed(program: str, folder: Path) -> list[dict]:
    "For each fault of a program: which turns it broke, and which stage is named for each."
    run, before = imported(traced(program, folder), folder / program)
    right = [i for i, b in before.turns.items() if b.came == "right" and not lucky(run, i)]
    rows = []
    for fault, stage in FAULTS[program].items():
        _, after = imported(traced(program, folder, fault), folder / f"{program}-{fault}")
        broken = [i for i in right if after.turns[i].came == "failed"]
        named = {i: after.turns[i].stage for i in broken}
        about = {"program": program, "fault": fault, "stage": stage, "right": len(right)}
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
        for program, faults in FAULTS.items():
            spans = traced(program, folder, [*faults][1]).read_bytes()
            (place / f"{program}.jsonl.gz").write_bytes(gzip.compress(spans, mtime=0))


if __name__ == "__main__":
    keep_spans()
    found = measured()
    write_json(data_dir("measured") / "outside.json", found)
    print(text_table(HEAD, table(found)))
