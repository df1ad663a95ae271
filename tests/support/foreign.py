"""The sample as the files that the programs of `tests/foreign` read: documents and conversations, without anything of MTRAG's form."""

import json
from pathlib import Path

from mtrag_nb.core.files import write_jsonl
from mtrag_nb.data.mtrag import read_benchmark, read_corpus, sample_corpus, sample_dir


def write_sample(folder: Path) -> Path:
    "documents.jsonl (id, title, text) and conversations.jsonl (id, turns: question, the answer that people wrote)."
    folder.mkdir(parents=True, exist_ok=True)
    passages = read_corpus(*sample_corpus())
    about = ({"id": p.id, "title": p.title, "text": p.text} for p in passages)
    write_jsonl(folder / "documents.jsonl", about)
    file, talks = read_benchmark(sample_dir() / "reference.jsonl"), {}
    for t in file.tasks:
        talks.setdefault(t.conversation_id, []).append([t.question, file.gold[t.id].targets[0]])
    write_jsonl(folder / "conversations.jsonl", ({"id": i, "turns": t} for i, t in talks.items()))
    return folder
