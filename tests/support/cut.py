"""Runs cut at any place, for the tests that kill."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from mtrag_nb.core.files import read_jsonl
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import Passage, Task
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.systems.baselines import NAIVE

CUT_FILES = ("trajectories.jsonl", "calls.jsonl", "passages.jsonl", "tasks.jsonl")


def cut_tasks(n: int = 8) -> list[Task]:
    "Tasks with their passages, not all of them in ASCII."

    def pieces(i):
        return (
            Passage(
                f"p{i}",
                f"The ferry no. {i} to Öland costs {i} crowns.",
                "Fähre",
                domain="govt",
            ),
        )

    return [
        Task(
            f"c{i}<::>1",
            f"c{i}",
            1,
            "govt",
            f"What does ferry {i} cost?",
            contexts=pieces(i),
        )
        for i in range(n)
    ]


def cut_run(
    folder: Path, pause: float = 0.0, n: int = 8
) -> tuple[Run, int]:  # the run, and how often the model was asked
    "The run, from its beginning or from where it stopped."

    def reply(prompt):
        time.sleep(pause)
        return f"The ferry costs {prompt.messages[-1][1].split('costs ')[1].split()[0]} crowns, sagt Åsa."

    model, settings = ScriptedChat(reply), load_settings("laptop", {"batch_size": 2})
    models = Models(settings, chat=model, embedder=HashEmbedder())
    run = run_tasks(
        NAIVE,
        cut_tasks(n),
        folder,
        settings,
        setting="reference",
        models=models,
        progress=False,
    )
    return run, len(model.asked)


def essence(run: Run) -> dict:
    "What of a run may not change."
    ends = {
        i: (str(t.outcome), t.answer, t.cited, t.contexts, [s.path for s in t.steps])
        for i, t in sorted(run.trajectories.items())
    }
    return {
        "turns": ends,
        "passages": {i: c.text for i, c in sorted(run.passages.items())},
        "tasks": sorted(run.tasks),
        "predictions": sorted(
            (run.folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
        ),
    }


def doubled(folder: Path) -> list[str]:
    "Names that stand twice in a log."
    name = {
        "trajectories.jsonl": lambda o: o["task_id"],
        "calls.jsonl": lambda o: o["key"],
        "passages.jsonl": lambda o: o["id"],
        "tasks.jsonl": lambda o: o["task"]["id"],
    }
    counts = {
        f: Counter(name[f](o) for _, o in read_jsonl(folder / f)) for f in CUT_FILES
    }
    return [f"{f}: {k}" for f, c in counts.items() for k, n in c.items() if n > 1]
