"""Ways to relate and to gate, measured as `7_evaluation/22_calibrate` measures.

For the relation the truth is a stand-in: a question belongs to the exchange before it, and not to an exchange of another
conversation in its domain. For the gate it is the benchmark's: the passages that came with a task, against those of another
conversation, and against the nearest passages of a corpus that are not gold. Questions are the last turns as they stand, which is
what the guard leaves of most rewrites on a laptop; the gate sees the exchange before, as NCL's does. NCL's own functions decide,
over a toolbox with its settings and prompts. Each way to relate becomes a number, higher meaning related: the two cosines are
judged apart, since each is held against the threshold; a label counts by how far it is from class 4.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from mtrag_nb.core.settings import Settings, load_settings, with_settings
from mtrag_nb.core.replies import Verdict, score_verdict
from mtrag_nb.core.types import DataError, Gold, Passage, Task, Turn
from mtrag_nb.data.mtrag import read_benchmark, read_tasks
from mtrag_nb.data.official import official_file
from mtrag_nb.evaluation.calibrate import (
    Discrimination,
    _discrimination,
    _halves,
    _ways_table,
)
from mtrag_nb.models.calls import Models
from mtrag_nb.search.types import GivenPassages
from mtrag_nb.search.retrieve import Retriever, best_hits
from mtrag_nb.search.store import context_of, open_index
from mtrag_nb.search.manifest import Manifest
from mtrag_nb.systems.ncl import LAPTOP as NCL_LAPTOP
from mtrag_nb.systems.ncl import (
    NCL,
    _answerability,
    _exchanges,
    _relate_by_cosine,
    _relate_by_score,
    _relate_by_words,
    _rerank_node,
)
from mtrag_nb.systems.stages import Toolbox
from mtrag_nb.systems.nodes import retrieve_node
from tools.studies.task_samples import sample_file
from tools.study import kept_in


def other_tasks(
    tasks: Sequence[Task],
    seed: int = 0,
) -> list[Task]:  # one for each, of another conversation in the same domain
    "Partners to swap exchanges or passages with. Raises DataError for a domain of one conversation."
    rng = random.Random(seed)
    out = []
    for t in tasks:
        known = [
            o
            for o in tasks
            if o.domain == t.domain and o.conversation_id != t.conversation_id
        ]
        if not known:
            raise DataError(
                f"task {t.id!r} has no other conversation of {t.domain} to be compared with"
            )
        out.append(rng.choice(known))
    return out


def swapped(tasks: Sequence[Task], seed: int = 0) -> list[Task]:
    "The tasks with the passages of their partners."
    return [
        replace(t, contexts=o.contexts) for t, o in zip(tasks, other_tasks(tasks, seed))
    ]


def nearest_others(
    tasks: Sequence[Task],
    gold: Mapping[str, Gold],
    retriever: Retriever,
) -> list[Task]:
    "The tasks with the nearest passages (to the human rewrite, where there is one) that are not gold: most likely no answer."
    how = retriever.settings
    out = []
    for t in tasks:
        own = {p.id for p in gold[t.id].passages}
        near = retriever.rank_candidates(gold[t.id].rewrite or t.question, t.domain)
        others = [n for n in near if context_of(n).document_id not in own]
        best = best_hits(others, how.rerank_k)
        found = {
            c.document_id: Passage(
                c.document_id, c.text, c.title, c.url, c.source, c.domain
            )
            for c in retriever.as_retrieval(best).contexts
        }
        out.append(replace(t, contexts=tuple(found.values())))
    return out


def ncl_tools(settings: Settings, models: Models) -> Toolbox:
    "A toolbox as NCL's graph has it, without a retriever."
    return NCL.toolbox(Toolbox(settings, models.chat, models.embedder, None))


def relatedness(
    way: str, tools: Toolbox, question: str, exchange: Sequence[Turn]
) -> tuple[float, ...]:
    "How much a question has to do with an exchange, in a way of `ncl.relation`."
    if way == "cosine":
        return _relate_by_cosine(tools.embedder, question, exchange).scores
    by = _relate_by_score if way == "score" else _relate_by_words
    r = by(tools.chat, tools.prompts, question, exchange, tools.stages.turn_chars)
    return (1 - r.scores[3],) if way == "score" else (float(r.category != 4),)


def measure_relation(
    tasks: Sequence[Task],  # with history
    tools: Toolbox,
    ways: Sequence[str] = ("cosine",),  # of ncl.relation
) -> dict[str, Discrimination]:
    "Does a way tell the exchange before a question from one of another conversation?"
    pairs = [(t, o) for t, other in zip(tasks, other_tasks(tasks)) for o in (t, other)]
    found = {}
    for way in ways:
        rows = [
            (score_verdict(s, 0.0, way), o is t, t.conversation_id)
            for t, o in pairs
            for s in relatedness(way, tools, t.question, _exchanges(o.history)[-1])
        ]
        found[way] = _discrimination(*zip(*rows))
    return found


def gate_verdict(task: Task, tools: Toolbox) -> Verdict:
    "The gate's verdict on a task as it stands: its question, the exchange before, the nearest of its passages."
    given = replace(tools, retriever=GivenPassages([task]))
    state = {
        "task": task,
        "query": task.question,
        **retrieve_node({"task": task}, given)[0],
    }
    turns = _exchanges(task.history)[-1] if task.history else ()
    return _answerability(
        given,
        task.question,
        turns,
        given.retriever.contexts(_rerank_node(state, given)[0]["kept"]),
    )


def measure_gate(
    tasks: Sequence[Task],  # with passages that answer
    others: Sequence[Task],  # the same with passages that don't
    tools: Toolbox,
    ways: Sequence[str] = ("cosine",),  # of ncl.gate
) -> dict[str, Discrimination]:
    "Does a way tell passages that answer from passages that don't?"
    both = [*tasks, *others]
    answers = [True] * len(tasks) + [False] * len(others)
    asking = {
        way: replace(tools, settings=with_settings(tools.settings, {"own.gate": way}))
        for way in ways
    }
    return {
        way: _discrimination(
            [gate_verdict(t, asking[way]) for t in both],
            answers,
            [t.conversation_id for t in both],
        )
        for way in ways
    }


def measure_nearest(
    tasks: Sequence[Task],
    gold: Mapping[str, Gold],
    index: Path,  # of a corpus of mtrag-human
    settings: Settings,
    models: Models,
    n: int,  # only the first so many tasks that the index can answer
) -> dict[str, Discrimination]:
    "The gate against the nearest passages that are not gold."
    domains = set(Manifest.load(index).domains)
    reached = [t for t in tasks if t.domain in domains][:n]
    with open_index(index, models.embedder, settings.chunks) as opened:
        others = nearest_others(
            reached, gold, Retriever(opened, models.embedder, None, settings.retrieval)
        )
    return measure_gate(reached, others, ncl_tools(settings, models))


def measure_decisions(
    settings: Settings,
    models: Models,
    data: Path,  # a folder of official files
    n: int = 150,  # tasks for the ways that ask no model
    asked: tuple[int, int] = (
        20,
        8,
    ),  # for those that do: relation, gate (a gate reads five passages)
    index: Path
    | None = None,  # of a corpus of mtrag-human, for the nearest passages that are not gold
) -> dict[str, dict[str, Discrimination]]:
    "Every way to relate and to gate, on tasks of MTRAG."
    known = read_benchmark(official_file(data, "mtrag-human/reference"), contexts=True)
    every = [t for t in known.tasks if t.history and t.contexts]
    tools = ncl_tools(settings, models)
    tasks = random.Random(0).sample(every, n)
    # the index first: one that cannot be opened should say so before the model has worked for minutes
    near = (
        {
            "gate, nearest others": measure_nearest(
                every, known.gold, index, settings, models, n
            )
        }
        if index
        else {}
    )
    found = {
        "relation": measure_relation(tasks, tools),
        "gate": measure_gate(tasks, swapped(tasks), tools),
    }
    relation = tasks[: asked[0]]
    gate = tasks[: asked[1]]
    if relation:
        found["relation"] |= measure_relation(relation, tools, ("score", "words"))
    if gate:
        found["gate"] |= measure_gate(
            gate, swapped(tasks)[: len(gate)], tools, ("yesno",)
        )
    return found | near


def kept_decisions() -> dict[str, dict[str, Discrimination]]:
    "What was measured of each way: decision -> way -> how it tells right from wrong."
    kept = kept_in("ncl_decisions")["ways"]
    return TypeAdapter(dict[str, dict[str, Discrimination]]).validate_python(kept)


def show_decisions() -> None:
    "Print every way to relate and to gate."
    print(_ways_table(kept_decisions()))


def check_decisions() -> None:
    "Assert that the laptop's thresholds are those of the file, and what the study says of them."
    decided = kept_decisions()
    relation = decided["relation"][NCL_LAPTOP["relation"]]
    gate = decided["gate"][NCL_LAPTOP["gate"]]
    assert NCL_LAPTOP["relation_threshold"] == relation.threshold
    assert NCL_LAPTOP["gate_threshold"] == gate.threshold
    assert gate.auroc > 0.95
    assert relation.low > 0.75
    assert decided["gate, nearest others"]["cosine"].auroc < 0.6


def check_again(data: Path) -> None:
    "Assert that the ways that ask no model come out as they are kept, and how many tasks chose a threshold."
    settings = load_settings()
    again = measure_decisions(settings, Models(settings), data, asked=(0, 0))
    decided = kept_decisions()
    assert set(again) == {"relation", "gate"}
    for what, ways in again.items():
        assert abs(ways["cosine"].auroc - decided[what]["cosine"].auroc) < 0.002
    source = official_file(data, "mtrag-human/reference")
    tasks = read_benchmark(source, contexts=True).tasks
    every = [t for t in tasks if t.history and t.contexts]
    drawn = random.Random(0).sample(every, 150)
    chose = _halves(t.conversation_id for t in drawn)[0]
    with tempfile.TemporaryDirectory() as folder:
        shown = read_tasks(sample_file(source, Path(folder) / "shown.jsonl", 100))
    overlap = sum(t.conversation_id in chose for t in shown)
    print(
        f"{overlap} of {len(shown)} tasks lie in conversations that chose a threshold"
    )
    assert overlap == 38
