"""Turns a minute: batches of prompts beside one task at a time and one prompt at a time.

Published implementations of Self-CRAG ask one prompt at a time and let the model write its grade as JSON (seed paper, II.D; the
LangGraph CRAG tutorials). Here that is a system on the same stages: the same graph, with a grade and a check that do it so. A
machine is faster in one minute than in the next. So the ways take turns: every round runs all of them, each round begins with
another one, and each run begins with unloaded models and empty caches. What is printed is the median of the rounds, with the
least and the most; a ratio is taken within a round.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import read_json, write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.record import Grade, Graded
from mtrag_nb.core.settings import Settings, load_settings, with_settings
from mtrag_nb.core.replies import read_verdict
from mtrag_nb.core.types import Task
from mtrag_nb.data.mtrag import read_corpus, read_tasks, sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import chat
from mtrag_nb.runs.run import machine, package_versions, run_tasks
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems.self_crag import SELF_CRAG
from mtrag_nb.systems.stages import Toolbox
from mtrag_nb.systems.state import TurnState
from mtrag_nb.systems.system import System, replace_nodes
from tools.study import kept_in


def turn_table(t: Mapping[str, float]) -> str:
    "Turns a minute of this project's ways beside the plain ones, and how many times as fast they are."
    ways = (
        ("profile laptop", "self_crag", "one task at a time", "batch_of_1"),
        ("verdicts written", "batched_verdicts", "one prompt at a time", "sequential"),
    )
    rows = []
    for what, ours, plain, theirs in ways:
        here, there = (t[f"{name}_per_minute"] for name in (ours, theirs))
        rows.append(
            (f"turns a minute, {what}", here, plain, there, f"{here / there:.1f}")
        )
    return text_table(["", "here", "the plain way", "there", "times"], rows, 2)


JSON_GRADE = (
    "You are a grader assessing the relevance of a retrieved document to a question. Give a binary score 'yes' or 'no' to say "
    "whether the document is relevant. Reply with a JSON object with the single key 'score' and nothing else."
)
JSON_TOKENS = 32  # room for a JSON object


def sequential_grade(state: TurnState, tools: Toolbox) -> tuple[dict, Graded]:
    "One generated JSON grade after another; what cannot be read keeps the document, as the published code does."
    contexts = tools.retriever.contexts(state["found"])
    grades = []
    for c in contexts:
        (reply,) = tools.chat.generate(
            [chat(JSON_GRADE, f"Document:\n{c.text}\n\nQuestion: {state['query']}")],
            JSON_TOKENS,
        )
        grades.append(Grade(c.id, read_verdict(reply.text, "yes")))
    step = Graded(grades=tuple(grades))
    return {"kept": list(step.kept)}, step


SEQUENTIAL = replace(
    SELF_CRAG.with_around(
        "sequential", replace_nodes({"grade_documents": sequential_grade})
    ),
    name="sequential",
    about="Self-CRAG with one prompt at a time and free-text JSON verdicts",
)


def sequential_settings(settings: Settings) -> Settings:
    "One task at a time, and a check that the model writes."
    return with_settings(settings, {"batch_size": 1, "stages.check": "verdict"})


def timed_run(
    system: System,
    settings: Settings,
    tasks: Sequence[Task],
    folder: Path,  # of the run
    index: Path,
    models: Models,
) -> tuple[float, dict[str, str]]:  # turns a minute; task id -> answer
    "A run by the clock, begun with nothing but the weights in memory."
    models.unload()
    models.chat.generate([chat("", "warm up")], 4)
    models.embedder.encode(["warm up"])
    start = time.perf_counter()
    run = run_tasks(
        system, tasks, folder, settings, index, models=models, progress=False
    )
    return 60 * len(tasks) / (time.perf_counter() - start), {
        i: t.answer for i, t in run.trajectories.items()
    }


def in_turn(
    ways: Sequence[str],
    rounds: int,
) -> list[list[str]]:  # for each round the ways, each round beginning with another one
    "An order in which no way always has the same neighbours in time."

    def at(r):
        return r % len(ways)

    return [[*ways[at(r) :], *ways[: at(r)]] for r in range(rounds)]


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    "Median, least and most of some rounds."
    found = {"": np.median(values), "_least": min(values), "_most": max(values)}
    return {f"{name}{end}": round(float(v), 2) for end, v in found.items()}


def turn_ways(settings: Settings) -> dict[str, tuple[System, Settings]]:
    "The ways to run a turn that are held against each other."
    written = with_settings(
        settings, {"stages.grade": "verdict", "stages.check": "verdict"}
    )
    return {
        "self_crag": (SELF_CRAG, settings),
        "batch_of_1": (SELF_CRAG, replace(settings, batch_size=1)),
        "batched_verdicts": (SELF_CRAG, written),
        "sequential": (SEQUENTIAL, sequential_settings(settings)),
    }


def bench_turns(
    n: int = 20,  # tasks of the sample
    settings: Settings | None = None,  # None: profile laptop
    models: Models | None = None,
    rounds: int = 3,
) -> dict[str, float]:
    "Turns a minute of each way, over several rounds, the ratios of some, and whether the batch size changes an answer."
    settings = settings or load_settings()
    models = models or Models(settings)
    tasks = read_tasks(sample_dir() / "reference.jsonl")[::4][:n]
    ways = turn_ways(settings)
    speed = []
    same = []
    with tempfile.TemporaryDirectory() as tmp:
        index = Path(tmp) / "index"
        passages = list(read_corpus(*sample_corpus()))
        build_index(passages, index, models.embedder, settings.chunks, progress=False)
        for r, order in enumerate(in_turn(list(ways), rounds)):
            runs = {
                name: timed_run(
                    *ways[name], tasks, Path(tmp) / f"{name}_{r}", index, models
                )
                for name in order
            }
            speed.append({name: s for name, (s, _) in runs.items()})
            same.append(runs["self_crag"][1] == runs["batch_of_1"][1])
    out = {"tasks": len(tasks), "rounds": rounds}
    for name in ways:
        out |= spread(f"{name}_per_minute", [s[name] for s in speed])
    for a, b in (
        ("self_crag", "sequential"),
        ("batched_verdicts", "sequential"),
        ("self_crag", "batch_of_1"),
    ):
        out |= spread(f"{a}_over_{b}", [s[a] / s[b] for s in speed])
    return out | {"same_answers_at_batch_1": float(all(same))}


def measure_bench(
    out: str | Path = "data/measured/bench.json",
    bench: Callable[[], dict[str, float]] = bench_turns,
) -> dict:
    "Measure the turns, print, and write them with the machine beside what else the file holds. About two hours on two cores."
    out = Path(out)
    where = {"machine": machine(), "packages": package_versions()}
    kept = read_json(out) if out.exists() else where
    kept |= {"turns": bench(), "rows": {**kept.get("rows", {}), "turns": where}}
    write_json(out, kept)
    print(turn_table(kept["turns"]))
    return kept


def check_findings() -> None:
    "Assert what the study says of speed, of the results that are kept."
    told = kept_in("bench")["turns"]
    assert told["same_answers_at_batch_1"] == 1
    batched = told["batched_verdicts_over_sequential"]
    assert told["self_crag_over_sequential"] > batched > 2
    assert round(told["self_crag_over_sequential"]) == 5
