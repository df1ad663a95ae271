"""The multi-agent system beside others on real tasks with retrieval, its parts, and its targets.

At an equal budget: each system gets as many tokens, read and written, as the cheapest that asks a model at all used for all of the
tasks; what it did not come to counts nothing. Its parts: the same tasks without variations, without memory, without grading, and
with a second index in the place of the web. A web has to hold what the documents do not, so the parts are measured over one half
of the domain's pages (a page lies in one half, by the digest of its address), and the other half is the web.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.record import Retrieved
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import MINILM, Settings, load_settings
from mtrag_nb.core.types import DataError, Gold, Passage, Task, plain, build_object
from mtrag_nb.data.mtrag import Benchmark, read_benchmark, read_corpus
from mtrag_nb.data.official import official_file
from mtrag_nb.evaluation.scores import score_run
from mtrag_nb.evaluation.statistics import Interval, mean_interval
from mtrag_nb.models.calls import Models
from mtrag_nb.models.embed import BertScorer, Embedder
from mtrag_nb.runs.run import machine, open_web, package_versions, run_tasks
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems.agents import AGENTS
from mtrag_nb.systems.baselines import NAIVE, QUOTE
from mtrag_nb.systems.ncl import NCL
from mtrag_nb.systems.self_crag import SELF_CRAG
from tools.real_data import real_data
from tools.studies.service_levels import (
    SIX,
    TARGETS,
    ServiceLevels,
    held_to_targets,
    latencies,
    percentiles,
)
from tools.study import (
    SCORES,
    Variants,
    compared,
    cost_table,
    kept_in,
    pair_table,
    score_table,
)


def tables(told: Mapping) -> dict[str, tuple]:  # heading -> header and rows
    "All of it."
    seconds = [[name, *cuts.values()] for name, cuts in told["seconds"].items()]
    six = [
        [name, *map(_told_span, found.values())] for name, found in told["six"].items()
    ]
    budget = [
        [name, f"{b['answered']} of {b['score']['n']}", _told_span(b["score"])]
        for name, b in told["budget"].items()
    ]
    return {
        "scores": score_table(told),
        "costs": cost_table(told),
        "pairs": pair_table(told),
        "the first retrieval": (["", *SIX], six),
        f"with {next(iter(told['budget'].values()))['budget']:,} tokens each": (
            ["", "answered", SCORES[0]],
            budget,
        ),
        "seconds a turn, several in flight": (["", "P50", "P90", "P99"], seconds),
    }


def _told_span(told: Mapping) -> str:
    "A kept interval as text."
    return str(build_object(Interval, told))


def agents_report(told: Mapping) -> str:
    "All of it as text."
    parts = {"beside": "Beside the other systems", "parts": "Its parts"}
    found = [
        f"{said}: {told[name]['tasks']} tasks of {told[name]['conversations']} conversations\n\n"
        + "\n\n".join(f"{h}\n{text_table(*t)}" for h, t in tables(told[name]).items())
        for name, said in parts.items()
    ]
    return "\n\n".join(
        [
            *found,
            f"Its targets, {told['alone']['n']} turns one at a time\n\n{held_to_targets(told)!r}",
        ]
    )


def at_six(
    ranked: Sequence[str],  # passage ids, best first
    relevant: Mapping[str, int],
) -> tuple[float, float, float]:  # precision and recall at 6, reciprocal rank
    "The specification's three measures of retrieval (8.1): precision divides by what was retrieved, at most six."
    first = list(dict.fromkeys(ranked))
    wanted = {p for p, n in relevant.items() if n > 0}
    hits = sum(p in wanted for p in first[:6])
    rank = next((n for n, p in enumerate(first, 1) if p in wanted), 0)
    return (
        hits / max(1, len(first[:6])),
        hits / max(1, len(wanted)),
        1 / rank if rank else 0.0,
    )


def retrieved_at_six(run: Run, gold: Mapping[str, Gold]) -> dict[str, Interval]:
    "The three measures of a turn's first retrieval, over the turns whose question has relevant passages."
    found = {}
    for t in run.trajectories.values():
        relevant = (
            {p.id: 1 for p in gold[t.task_id].passages} if t.task_id in gold else {}
        )
        first = next((s for s in t.steps if isinstance(s, Retrieved)), None)
        if relevant and not t.failed:
            found[t.task_id] = at_six(
                [h.document_id for h in first.hits] if first else [], relevant
            )
    talks = [run.trajectories[i].conversation_id for i in found]
    return {
        name: mean_interval([v[n] for v in found.values()], talks)
        for n, name in enumerate(SIX)
    }


def at_budget(
    runs: Mapping[str, Run],  # over the same tasks
    scores: Mapping[
        str, Mapping[str, float | None]
    ],  # name -> task -> score; None: it has none
) -> dict[
    str, dict
]:  # name -> tokens there were, tasks answered of how many with a score, and their mean
    "Scores of the runs as if their tokens had been limited."
    used = {
        name: {i: t.calls.tokens for i, t in r.trajectories.items()}
        for name, r in runs.items()
    }
    budget = min((s for s in (sum(u.values()) for u in used.values()) if s), default=0)
    out = {}
    for name, run in runs.items():
        left = budget
        done = {}
        for i, t in sorted(
            run.trajectories.items(), key=lambda x: (x[1].conversation_id, x[1].turn)
        ):
            left -= used[name][i]
            if scores[name].get(i) is not None:
                done[t.task_id] = (
                    float(scores[name][i]) if left >= 0 else 0.0,
                    left >= 0,
                )
        found = mean_interval(
            [s for s, _ in done.values()],
            [run.trajectories[i].conversation_id for i in done],
        )
        out[name] = {
            "budget": budget,
            "answered": sum(in_time for _, in_time in done.values()),
            "score": found,
        }
    return out


def run_all(
    known: Benchmark,
    tasks: Sequence[Task],
    folder: Path,  # of the run folders
    settings: Settings,
    models: Models,
    index: Path,
    variants: Variants,
    web: str = "none",  # what the variant that ends in -web may search
    progress: bool = True,
) -> dict[str, Run]:
    "Every variant over the tasks, with retrieval; the one with a web is left out where none is named."
    runs = {}
    for name, (system, changes) in variants.items():
        searching = name.endswith("-web")
        if searching and web == "none":
            continue
        configured = system.configure(settings, changes)
        runs[name] = run_tasks(
            system,
            tasks,
            folder / name,
            configured,
            index,
            "rag",
            known.lines,
            models,
            progress=progress,
            web=open_web(web, configured, models) if searching else None,
        )
    return runs


def measured(
    runs: Mapping[str, Run], gold: Mapping[str, Gold], bert: BertScorer
) -> dict:  # plain data
    "Scores, pairs and costs of the runs, their percentiles, what they retrieved, and their scores at an equal budget."
    turns = {name: list(r.trajectories.values()) for name, r in runs.items()}
    reports = {name: score_run(r, gold, bert=bert) for name, r in runs.items()}
    return plain(
        {
            **compared(runs, gold, bert, reports),
            "seconds": {
                name: percentiles([t.seconds for t in ts if not t.failed])
                for name, ts in turns.items()
            },
            "six": {name: retrieved_at_six(r, gold) for name, r in runs.items()},
            "budget": at_budget(
                runs, {name: r.of(SCORES[0]) for name, r in reports.items()}
            ),
        }
    )


BESIDE_AGENTS: Variants = {
    "agents": (AGENTS, {}),
    "self_crag": (SELF_CRAG, {}),
    "ncl": (NCL, {}),
    "naive": (NAIVE, {}),
    "quote": (QUOTE, {}),
}
PARTED: Variants = {
    "agents": (AGENTS, {}),
    "agents-no-variations": (AGENTS, {"stages.rewrite": "never"}),
    "agents-no-memory": (AGENTS, {"agents.memory": False}),
    "agents-no-grading": (
        AGENTS,
        {"agents.grade": "cosine", "agents.grade_threshold": -1.0},
    ),
    "agents-web": (AGENTS, {}),
}


def half_of(p: Passage) -> int:
    "0 or 1."
    return int(hashlib.sha256((p.url or p.id).encode()).hexdigest(), 16) % 2


def two_halves(
    passages: str | Path,  # a corpus file
    folder: Path,  # of the two indexes
    models: Models,
    domain: str,
) -> tuple[Path, str]:  # the index that is searched, and the name of the web
    "A corpus as documents and as a web. Goes on where it stopped."
    corpus = list(read_corpus(passages, domains=[domain]))
    places = (folder / "half", folder / "web")
    for n, place in enumerate(places):
        build_index(
            [p for p in corpus if half_of(p) == n],
            place,
            models.embedder,
            models.settings.chunks,
            progress=False,
        )
    return places[0], f"corpus:{places[1]}"


class CountingEmbedder(Embedder):
    "Counts the texts that were asked for, and those that the model read: the rest were remembered."

    asked = read = 0

    def encode(self, texts: Sequence[str], query: bool = False) -> np.ndarray:
        self.asked += len(texts)
        return super().encode(texts, query)

    def _run(self, texts: Sequence[str], query: bool) -> np.ndarray:
        self.read += len(texts)
        return super()._run(texts, query)


def measure_agents(
    out: str | Path = "data/measured",
    runs: str | Path = "runs/agents",
    profile: str = "laptop",
    n: int = 60,  # tasks
    parts: int = 24,  # tasks of these, drawn at random, on which its parts are switched off
    alone: int = 30,  # tasks of these that are run one at a time
    index: str | Path | None = None,  # of the domain's corpus; None: $MTRAG_INDEX
    passages: str
    | Path
    | None = None,  # the corpus, to be halved for the parts; None: $MTRAG_PASSAGES, or the whole and no web
    domain: str = "govt",
) -> None:
    "Run every system and every variant over real tasks with retrieval, print the tables, and write `agents.json`."
    data = real_data("mtrag-human/reference.jsonl")
    runs = Path(runs)
    settings = load_settings(profile)
    if not (index := index or os.environ.get("MTRAG_INDEX")):
        raise DataError("no index: name one, or set MTRAG_INDEX")
    known = read_benchmark(
        official_file(data, "mtrag-human/reference"), domains=[domain]
    )
    models = Models(settings, embedder=CountingEmbedder(settings.embedder))
    passages = passages or os.environ.get("MTRAG_PASSAGES")
    half, web = (
        two_halves(passages, runs, models, domain) if passages else (index, "none")
    )
    bert = BertScorer(MINILM, rescale=False)
    told = {"machine": machine(), "packages": package_versions(), "profile": profile}
    tasks = known.tasks[:n]
    drawn = [
        tasks[i]
        for i in sorted(
            random.Random(0).sample(range(len(tasks)), min(parts, len(tasks)))
        )
    ]
    for name, variants, place, some in (
        ("beside", BESIDE_AGENTS, index, tasks),
        ("parts", PARTED, half, drawn),
    ):
        done = run_all(
            known, some, runs / name, settings, models, Path(place), variants, web
        )
        told[name] = measured(done, known.gold, bert)
    hits = models.embedder.asked - models.embedder.read
    told["cache"] = {"asked": models.embedder.asked, "hits": hits}
    one = run_all(
        known,
        tasks[:alone],
        runs / "alone",
        replace(settings, batch_size=1),
        models,
        Path(index),
        {"agents": (AGENTS, {})},
    )
    levels = ServiceLevels(
        one["agents"].trajectories.values(), "one conversation at a time"
    )
    told["alone"] = {"n": len(levels.turn), **latencies(levels)}
    write_json(Path(out) / "agents.json", plain(told))
    print(agents_report(told))


def check_findings() -> None:
    "Assert what the study says of the multi-agent system, of the results that are kept."
    found = kept_in("agents")
    rows = found["beside"]["rows"]
    average = {name: row[SCORES[0]]["mean"] for name, row in rows.items()}
    writing = [average[n] for n in ("agents", "self_crag", "ncl", "naive")]
    assert max(writing) - min(writing) < 0.025
    assert average["quote"] > max(writing)
    for part in ("beside", "parts"):
        for p in found[part]["pairs"]:
            if p["measure"] == SCORES[0]:
                assert p["p_holm"] is None or p["p_holm"] > 0.05
    cost = {n: row["cost"] for n, row in rows.items()}
    tokens = {n: c["tokens_in"] + c["tokens_out"] for n, c in cost.items()}
    assert 2 < tokens["agents"] / tokens["naive"] < 2.5
    assert cost["agents"]["calls"] > 4 > 3 * cost["naive"]["calls"]
    assert found["beside"]["budget"]["agents"]["answered"] < 30
    limits = {t.name: t.limit for t in TARGETS}
    for six in found["beside"]["six"].values():
        assert all(i["high"] < limits[m] for m, i in six.items())
    came = {row[0]: row[3] for row in held_to_targets(found).rows}
    judged = {t for t, came_of in came.items() if came_of != "not judged"}
    assert not judged
    assert found["alone"]["n"] == 6
    calls = {n: row["cost"]["calls"] for n, row in found["parts"]["rows"].items()}
    assert calls["agents-no-variations"] < 0.3 * calls["agents"]
