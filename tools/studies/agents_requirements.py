"""What shows the requirements of the multi-agent specification, and the fourteen turns that somebody typed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from statistics import median

import numpy as np

from mtrag_nb.core.files import data_dir
from mtrag_nb.core.html import text_table
from mtrag_nb.core.record import Graded, Trajectory
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import MINILM, load_settings
from mtrag_nb.core.text import clip_text
from mtrag_nb.core.types import Turn
from mtrag_nb.models.embed import Embedder
from mtrag_nb.search.vector_store import HNSW
from mtrag_nb.systems.agents import (
    AGENTS,
    Remembered,
    _estimate,
    _folded,
    _recent,
    _summary_of,
    _Varied,
    tokens_used,
)
from mtrag_nb.systems.system_yaml import read_system_yaml
from tools.studies.evidence import (
    RRF_K,
    Evidence,
    asked_of_service,
    distinct_queries,
    in_words,
    moves,
    steps_of,
    visits,
)
from tools.study import footprint_rows, kept_in

PLAN = {
    "system": 500,
    "history": 2000,
    "context": 3000,
    "question": 100,
    "answer": 2048,
}  # (2.3)
EDGES = {
    ("START", "summarize_history"),
    ("summarize_history", "rewrite_query"),
    ("rewrite_query", "retrieve_documents"),
    ("retrieve_documents", "grade_documents"),
    ("grade_documents", "generate"),
    ("grade_documents", "web_search"),
    ("web_search", "generate"),
    ("generate", "END"),
}  # the eight of section 5.2
BOTH_AT = "recorded/sample_agents, talks/agents"


@cache
def recorded_runs() -> list[Run]:
    "The recorded run of the sample, and the fourteen turns."
    return [
        Run(data_dir("recorded") / "sample_agents"),
        Run(data_dir("talks") / "agents"),
    ]


def recorded_turns() -> list[Trajectory]:
    "The turns of both."
    return [t for r in recorded_runs() for t in r.trajectories.values()]


def typed_turns() -> list[Trajectory]:
    "The fourteen turns in their order."
    return sorted(recorded_runs()[1].trajectories.values(), key=lambda t: t.turn)


def last_memory() -> Remembered:
    "The memory at the last typed question."
    return steps_of(recorded_runs(), Remembered)[-1]


def specified() -> str:
    "The specification's own file, read."
    found = read_system_yaml(data_dir("paper") / "system.yaml")
    return f"{len(found)} keys of the file as printed are read"


def folded_away() -> str:
    "The memory of the last typed question."
    last_talk = typed_turns()[-1]
    own = AGENTS.configure("agents").own
    recent = 2 * (last_talk.turn - 1) - last_memory().folded
    return f"turn {last_talk.turn}: {last_memory().folded} messages folded, {recent} shown word for word, of at most {own.messages}"


def architecture() -> dict[str, Evidence]:
    "What shows the requirements of the architecture (sections 1 to 3)."
    both = recorded_runs()
    both_at = BOTH_AT
    local = AGENTS.configure("agents")
    own = local.own
    served = AGENTS.configure("agents-server")
    turns = recorded_turns()
    minilm = Embedder(MINILM)
    return {
        "nodes": Evidence(both_at, in_words(visits(both))),
        "transitions": Evidence(
            both_at,
            (
                f"{len(EDGES & moves(both))} of 8 were taken; at most "
                f"{max(s.round for s in steps_of(both, _Varied))} rounds in a turn, {own.rounds} allowed"
            ),
        ),
        "embedder": Evidence(
            "profiles agents-server, agents",
            f"served: {served.embedder.name}, local: {local.embedder.name}",
        ),
        "unit length": Evidence(
            "all-MiniLM-L6-v2, asked now",
            (f"length {float(np.linalg.norm(minilm.encode(['a ferry'])[0])):.2f}"),
        ),
        "bm25": Evidence(
            "profile agents",
            f"k1 {local.sparse.k1}, b {local.sparse.b}",
        ),
        "chunks": Evidence(
            "profile agents",
            (
                f"{local.chunks.parent_size}/{local.chunks.parent_overlap}, "
                f"{local.chunks.child_size}/{local.chunks.child_overlap}"
            ),
        ),
        "budget": Evidence(
            both_at,
            ", ".join(
                f"{part} {round(median(u[part] for u in map(tokens_used, turns) if part in u))} of {planned:,}"
                for part, planned in PLAN.items()
            ),
        ),
        "memory": Evidence("talks/agents", folded_away()),
        "sampling": Evidence(
            "profile agents",
            f"{own.temperature}, {own.top_p}, {own.top_k}, {own.repeat_penalty}, {local.stages.max_new_tokens}",
        ),
        "model": Evidence(
            "profiles agents, agents-server",
            f"{local.chat.name} {local.chat.quantization}; served: {served.chat.name}",
        ),
    }


def retrieval() -> dict[str, Evidence]:
    "What shows the requirements of retrieval (sections 4, 5, 7 and 9)."
    both = recorded_runs()
    both_at = BOTH_AT
    local = AGENTS.configure("agents")
    own = local.own
    kept = {name: kept_in(name) for name in ("agents", "bench", "footprint")}
    upload = kept["footprint"]["alone"]["document"]
    memory = last_memory()
    grades = [g.verdict for s in steps_of(both, Graded) for g in s.grades]
    return {
        "hnsw": Evidence(
            "search.vector_store.HNSW", ", ".join(map(str, HNSW.values()))
        ),
        "collection": Evidence("profile agents", local.store.collection),
        "fusion": Evidence(
            "profile agents",
            (
                f"{local.retrieval.views}, {local.retrieval.top_k} each, {local.retrieval.fusion} with k "
                f"{RRF_K}, top {own.keep}"
            ),
        ),
        "summary": Evidence(
            "talks/agents",
            f"{_estimate(memory.summary)} tokens, by {memory.way}",
        ),
        "wordings": Evidence(
            both_at,
            "; ".join(
                f"{name}: {c[1]} of {c.total()} rounds search one query, {c[3]} three"
                for name, c in ((r.name, distinct_queries([r])) for r in both)
            ),
        ),
        "grades": Evidence(
            f"profile agents; {both_at}",
            (
                f"{own.grade} at {own.grade_threshold:g}; recorded: "
                f"{sum(v.passed for v in grades)} of {len(grades)} kept, by {grades[0].how}"
            ),
        ),
        "web": Evidence(
            "profile agents",
            f"below {own.enough}, for the {own.web_query}, top {own.web_results}",
        ),
        "upload": Evidence(
            "measured/footprint",
            (
                f"{upload['pages']} pages: {upload['chunks']} passages, "
                f"{upload['children']:,} children; batches of {inspect.signature(Embedder).parameters['batch_size'].default}"
            ),
        ),
        "cache": Evidence(
            "measured/agents",
            f"{kept['agents']['cache']['hits']:,} of {kept['agents']['cache']['asked']:,} were hits",
        ),
        "batches": Evidence(
            "measured/bench",
            (
                "{self_crag_per_minute} turns a minute batched, {batch_of_1_per_minute} alone".format(
                    **kept["bench"]["turns"]
                )
            ),
        ),
    }


def serving(came: Mapping) -> dict[str, Evidence]:
    """What shows the requirements of the service (sections 6 and 8 to 12); `came`: what the service
    answered."""
    both_at = BOTH_AT
    own = AGENTS.configure("agents").own
    kept = {name: kept_in(name) for name in ("agents", "footprint")}
    turns = recorded_turns()
    return {
        "retrieval targets": Evidence(
            "measured/agents",
            in_words(
                {
                    m: round(i["value"], 2)
                    for m, i in kept["agents"]["beside"]["six"]["agents"].items()
                }
            ),
        ),
        "latency": Evidence(
            "measured/agents",
            in_words(
                {
                    k: round(v, 2)
                    for k, v in kept["agents"]["alone"].items()
                    if k.startswith("P50")
                }
            ),
        ),
        "timeout": Evidence("profile agents", f"{own.deadline:g} s"),
        "cost": Evidence(
            both_at,
            (
                f"{1000 * sum(t.calls.tokens_in for t in turns) / len(turns):,.0f} tokens read, "
                f"{1000 * sum(t.calls.tokens_out for t in turns) / len(turns):,.0f} written"
            ),
        ),
        "8 GB": Evidence(
            "measured/footprint",
            f"{max(r[3] for r in footprint_rows(kept['footprint']['large']) if r[3]):,} MB at most",
        ),
        "access": Evidence(
            "the service, asked now",
            (
                f"without the token {came['no token']}; DELETE of a conversation: "
                f"{came['DELETE /api/conversations/{i}']}, of a document: {came['DELETE /api/documents/{i}']}"
            ),
        ),
        "rate": Evidence(
            "the service, asked now",
            f"{came['rate']:g} a minute of an address by default; one too many: {came['too many']}",
        ),
        "keys": Evidence("profile server", load_settings("server").chat.api_key_env),
        "system.yaml": Evidence("data/paper/system.yaml", specified()),
    }


def agents_evidence() -> dict[str, Evidence]:
    "What shows each requirement, by the name that its row has; the service is asked now."
    came = asked_of_service("agents")
    assert came["too many"] == 429
    assert came["no token"] == "401"
    assert came["rate"] == 100
    assert came["DELETE /api/conversations/{i}"] == "200 OK"
    return {**architecture(), **retrieval(), **serving(came)}


def show_talk() -> None:
    "Print the fourteen turns, the summary at the last question, and the wordings of its query."
    turns = typed_turns()
    memories = {t.turn: s for t in turns for s in t.of(Remembered)}
    rows = []
    for t in turns:
        m = memories.get(t.turn)
        folded = m.folded if m else 0
        words = len(m.summary.split()) if m else 0
        question = clip_text(t.question, 44)
        answer = clip_text(t.answer, 50)
        rows.append([t.turn, question, folded, words, t.outcome.value, answer])
    head = ["turn", "question", "folded", "words", "outcome", "answer"]
    print(text_table(head, rows), "\n")
    print(memories[14].summary, "\n")
    print(f"and {len(_recent(typed_history()))} messages as they are\n")
    for v in turns[-1].of(_Varied)[0].variations:
        print(f"{v.kind:14} {'kept' if v.kept else 'taken back':11} {v.text}")


def typed_history() -> list[Turn]:
    "The messages before the last typed question."
    history = []
    for t in typed_turns()[:-1]:
        history += [Turn("user", t.question), Turn("agent", t.answer)]
    return history


def check_talk() -> None:
    "Assert what the study says of the fourteen turns."
    turns = typed_turns()
    assert len(turns) == 14
    assert not any(t.failed for t in turns)
    memories = {t.turn: s for t in turns for s in t.of(Remembered)}
    assert min(memories) == 7
    assert [m.folded for m in memories.values()][:2] == [5, 5]
    sample_run, talk = recorded_runs()
    counted = {r.name: distinct_queries([r]) for r in (sample_run, talk)}
    assert counted["sample_agents"][1] / counted["sample_agents"].total() > 0.75
    assert counted["agents"][3] < counted["agents"][1]
    history = typed_history()
    last = memories[14]
    assert _folded(history) == last.folded == 20
    assert _summary_of(None, {}, history, "extract") == last.summary
    assert len(_recent(history)) == 6
    wording = turns[-1].of(_Varied)[0]
    assert [v.kept for v in wording.variations] == [False, False, True]
    assert "ferry point" in "".join(talk.passages[i].text for i in turns[-1].kept)
    assert "ferry" not in turns[-1].answer.lower()
