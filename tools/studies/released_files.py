"""Files that other teams released, as runs: their answers, refusals by the official verdicts, official scores, and which turns have gold.

An answer counts as right or failed by target recall, as everywhere in `7_evaluation/15_blame`; refusals are by the official verdict
that the files carry. Files that are not at hand are fetched where their licence allows it (`tools/study.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from mtrag_nb.core.html import text_table
from mtrag_nb.core.record import Recorded
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import TO_ANSWER, Gold, Task, build_object
from mtrag_nb.data.mtrag import Benchmark, read_benchmark, read_queries
from mtrag_nb.data.official import official_dir, official_file, official_files
from mtrag_nb.data.predictions import import_predictions, read_rewrites
from mtrag_nb.evaluation.blame import BlameReport
from mtrag_nb.evaluation.items import Item, run_items
from mtrag_nb.evaluation.statistics import Interval, difference_interval, mean_interval
from tests.support.attributed import blame_items

CONTEXTS = {  # where the passages of GPT-4o's runs come from
    "gold": "gold passages",
    "elser": "ELSER, 5 passages",
    "recall": "RE-call, 10 passages",
}
PROMPTS = {
    "official": "the benchmark's prompt",
    "abstain": "a prompt that demands abstention",
}
RATES = ("right", "failed", "refused", "wrong answer")


def read_interval(found: Mapping) -> Interval:
    "An interval from plain data."
    return build_object(Interval, found)


def span(found: Mapping, sign: str = "", digits: int = 2) -> str:
    "A kept interval as text."
    i = read_interval(found)
    if i.value is None:
        return "–"
    if i.low is None:
        return f"{i.value:{sign}.{digits}f}"
    ends = f"{i.low:{sign}.{digits}f}, {i.high:{sign}.{digits}f}"
    return f"{i.value:{sign}.{digits}f} [{ends}]"


def table(head: Sequence[str], rows: Iterable[Sequence]) -> None:
    "Print a table."
    print(text_table(head, [[str(c) for c in row] for row in rows]))


DEV = "mtrag-human/reference"
TEST = "mtragun-human/reference"
RUNS = Path(os.environ.get("OUT") or "runs/released")  # where imported files are kept
Arm = tuple[str, str]  # a key of CONTEXTS, a key of PROMPTS


def released() -> Path:
    "The folder of released files. Raises DataError if it is not there."
    return official_dir("the study of released runs", having="released") / "released"


def file_at(name: str) -> Path:
    "A released file, packed or as its repository has it."
    packed = released() / f"{name}.gz"
    return packed if packed.is_file() else released() / name


def arm_file(arm: Arm) -> Path:
    "The file of one of GPT-4o's runs."
    task = "B" if arm[0] == "gold" else "C"
    return file_at(f"re_call/{task}_dev_gpt-4o_{arm[0]}_prompt-{arm[1]}.jsonl")


@lru_cache
def benchmark(which: str) -> Benchmark:
    "A benchmark, read once."
    return read_benchmark(official_file(None, which))


@lru_cache
def imported(path: Path, which: str = DEV) -> Run:
    "A file as a run, as `mtrag import` makes it; one that was imported before is read."
    out = RUNS / path.parent.name / path.name.removesuffix(".gz").rpartition(".json")[0]
    if (out / "manifest.json").is_file():
        return Run(out)
    with TemporaryDirectory() as tmp:
        known = benchmark(which)
        if path.parent.name == "gbgers":  # its lines are numbered by place
            from tests.support.places import with_official_ids

            talks = official_file(None, "mtrag-human/conversations")
            path = with_official_ids(path, talks, known.tasks, Path(tmp))
        return import_predictions(path, known, out)


def written(path: Path, which: str = DEV) -> dict[str, Recorded]:
    "Task id -> what a file says of a turn beside answer and passages: official scores, fields of its own."
    turns = imported(path, which).trajectories.values()
    return {t.task_id: r for t in turns for r in t.of(Recorded)}


@lru_cache
def official_scores(path: Path, which: str = DEV) -> dict[str, dict[str, float]]:
    "Task id -> official measure -> value, as a file carries them."
    return {
        i: {k: v for k, v in r.scores.items() if v is not None}
        for i, r in written(path, which).items()
    }


@lru_cache
def answers(path: Path, which: str = DEV) -> tuple[dict[str, Item], BlameReport]:
    "The answers of a file, refusals by the verdicts that it carries, and what became of them."
    scores = official_scores(path, which)
    items = {
        i.task_id: replace(
            i, outcome=None, verdict=scores.get(i.task_id, {}).get("idk_eval")
        )
        for i in run_items(imported(path, which))
    }
    return items, blame_items(path.name, list(items.values()), benchmark(which).gold)


def share(flags: Mapping[str, bool]) -> Interval:
    "The share of tasks for which something holds."
    return mean_interval(
        [float(v) for v in flags.values()], [i.split("<::>")[0] for i in flags]
    )


def difference(a: Mapping[str, float], b: Mapping[str, float]) -> Interval:
    "The mean of a minus b over the tasks that both have."
    both = [i for i in a if i in b]
    return difference_interval(
        [a[i] - b[i] for i in both], [i.split("<::>")[0] for i in both]
    )


def half(task_id: str) -> str:
    "Which half of the conversations a task belongs to: rules are chosen on one and reported on the other."
    odd = int(hashlib.sha256(task_id.split("<::>")[0].encode()).hexdigest(), 16) % 2
    return "reporting" if odd else "choosing"


def answerable() -> list[str]:
    "Dev tasks with an answer to give and known gold passages."
    gold = benchmark(DEV).gold
    return [i for i, g in gold.items() if g.answerability in TO_ANSWER and g.passages]


def has_gold(item: Item, gold: Gold) -> float:
    "The share of the gold passages that a file names for a turn."
    seen = {*(c.document_id for c in item.contexts), *(i for i, _ in item.ranked)}
    return len(seen & {p.id for p in gold.passages}) / len(gold.passages)


@lru_cache
def tops(path: str, k: int = 5, which: str = DEV) -> dict[str, tuple[str, ...]]:
    "Task id -> the first k passages of a file, in its order, each once."
    run = imported(file_at(path), which)
    return {
        i: tuple(dict.fromkeys(run.passages[c].document_id for c in t.contexts))[:k]
        for i, t in run.trajectories.items()
    }


def tasks_by_id() -> dict[str, Task]:
    "The dev tasks by id."
    return {t.id: t for t in benchmark(DEV).tasks}


def gold_ids(which: str = DEV) -> dict[str, frozenset[str]]:
    "Task id -> the ids of its gold passages; only tasks with an answer to give."
    gold = benchmark(which).gold
    return {
        i: frozenset(p.id for p in g.passages)
        for i, g in gold.items()
        if g.answerability in TO_ANSWER and g.passages
    }


def hits(path: str, which: str = DEV) -> dict[str, bool]:
    "Task id -> whether a gold passage is among the first five; only tasks that have one."
    found = tops(path, which=which)
    return {
        i: bool(ids & set(found[i])) for i, ids in gold_ids(which).items() if i in found
    }


def human_rewrites() -> dict[str, str]:
    "Task id -> a person's rewrite."
    return {
        i: q
        for path in official_files(None, "mtrag-human/rewrite")
        for i, q in read_queries(path).items()
    }


def qwen_rewrites() -> dict[str, str]:
    "Task id -> Qwen3.5-4B's rewrite."
    return dict(read_rewrites(file_at("zvictor12/rewrites_dev_qwen3.5-4b.jsonl")))


def arm_name(arm: Arm) -> str:
    "The name of one of GPT-4o's runs."
    return f"{arm[0]}, {arm[1]}"


ARMS = [(c, p) for p in PROMPTS for c in CONTEXTS]


def _mean(scores: Mapping[str, float]) -> Interval:
    "The mean of scores by task, with its interval over conversations."
    return mean_interval(list(scores.values()), [i.split("<::>")[0] for i in scores])


def rounded(x: object, digits: int = 6) -> object:
    "Plain data with so many digits."
    if isinstance(x, dict):
        return {k: rounded(v, digits) for k, v in x.items()}
    if isinstance(x, list):
        return [rounded(v, digits) for v in x]
    return float(f"{x:.{digits}g}") if isinstance(x, float) else x


def _place_of(turn: int) -> str:
    "Where in its conversation a turn stands, roughly."
    return "first" if turn == 1 else "second to fourth" if turn < 5 else "later"
