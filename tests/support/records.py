"""Runs of a service over passages of the benchmark's sample, for what reads, repairs and deletes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mtrag_nb.data.mtrag import read_benchmark, sample_dir
from mtrag_nb.models.calls import BatchingChat
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.runs.run import identity
from mtrag_nb.search.types import GivenPassages
from mtrag_nb.serve.record import ServedRun
from mtrag_nb.systems.outside import find_system
from mtrag_nb.systems.stages import Toolbox

SAMPLE = read_benchmark(sample_dir() / "reference.jsonl", contexts=True).tasks
FIRST_TALK = "aa" + "0" * 14
TWO = [
    replace(task, id=f"{FIRST_TALK}<::>{n}", conversation_id=FIRST_TALK, turn=n)
    for n, task in enumerate(SAMPLE[:2], 1)
]
OTHER = replace(
    next(t for t in SAMPLE if t.conversation_id != SAMPLE[0].conversation_id),
    id="cc" * 8 + "<::>1",
    conversation_id="cc" * 8,
    turn=1,
)


def sample_run(folder: Path, model: ScriptedChat) -> ServedRun:
    "A run of the system `naive` over the passages that came with three tasks."
    naive = find_system("naive")
    passages = GivenPassages([*TWO, OTHER])
    tools = Toolbox(naive.configure(), BatchingChat(model, 4), HashEmbedder(), passages)
    entries = {
        "identity": identity(naive, "reference", tools),
        "about": naive.about,
        "settings": tools.settings,
        "sessions": [{"started": "now"}],
    }
    return ServedRun(folder, naive, tools, entries)
