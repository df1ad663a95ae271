"""Files of predictions whose lines are numbered by place: a team that numbered the conversations itself means the last turn of
each, by its place in `conversations.json` (`original_index`) or by its domain and the place therein (`govt_0`)."""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from mtrag_nb.core.files import read_json, read_jsonl, write_jsonl
from mtrag_nb.core.types import Task, Turn
from mtrag_nb.data.tasks import short_domain


def with_official_ids(
    path: Path,  # a file of predictions
    conversations: Path,  # conversations.json
    tasks: Iterable[Task],
    folder: Path,  # where the file is written
) -> Path:
    "The file with the benchmark's ids of tasks; a conversation is known by its users' texts."
    users = {
        tuple(
            t.text.strip()
            for t in (*x.history, Turn("user", x.question))
            if t.speaker == "user"
        ): x.id
        for x in tasks
    }
    ids, of_domain = [], defaultdict(list)
    for c in read_json(conversations, list):
        said = tuple(m["text"].strip() for m in c["messages"] if m["speaker"] == "user")
        ids.append(users[said])
        of_domain[short_domain(c["domain"])].append(users[said])
    lines = []
    for _, line in read_jsonl(path, nan_is_null=True):
        domain, place = re.fullmatch(
            r"([a-z]+)_(\d+)", line["conversation_id"]
        ).groups()
        place = line.get("original_index", place)
        known = ids if "original_index" in line else of_domain[domain]
        lines.append({**line, "task_id": known[int(place)]})
    out = folder / path.name.removesuffix(".gz")
    write_jsonl(out, lines)
    return out
