"""Released searches that differ in one part, turn by turn: how many gain a gold passage among the first five, and how many lose one.

The test is the exact sign test over conversations (which way most of a conversation's changed turns went), corrected by Holm over
the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from mtrag_nb.evaluation.statistics import holm
from tools.studies.released_files import (
    DEV,
    _mean,
    _place_of,
    answerable,
    benchmark,
    difference,
    file_at,
    gold_ids,
    official_scores,
    share,
    span,
    table,
    tasks_by_id,
    tops,
)
from tools.study import kept_in

Z = "zvictor12/A_dev_bge-m3-"
P = "pashaabri/A_dev_elser"
S = "sifei/A_dev_"
SEARCHES = {  # name -> file
    "bge-m3, last question": f"{Z}dense_lastturn",
    "bge-m3, human rewrite": f"{Z}dense_gold-rewrite",
    "bge-m3, Qwen rewrite": f"{Z}dense_qwen-rewrite",
    "bge-m3 sparse, Qwen rewrite": f"{Z}sparse_qwen-rewrite",
    "bge-m3 RRF, Qwen rewrite": f"{Z}rrf_qwen-rewrite",
    "bge-m3 RRF + reranker, Qwen rewrite": f"{Z}rrf-rerank_qwen-rewrite",
    "ELSER, last question": f"{P}_lastturn",
    "ELSER, human rewrite": f"{P}_rewrite",
    "ELSER two queries + MonoT5": f"{P}-monot5_lastturn+rewrite",
    "ELSER three queries + MonoT5": f"{P}-monot5_lastturn+questions+rewrite",
    "ELSER three queries, Claude's rewrite + MonoT5": f"{P}-monot5_lastturn+questions+targeted",
    "BM25": f"{S}bm25",
    "bge-base": f"{S}dense-bge-base",
    "bge-small": f"{S}dense-bge-small",
    "BM25 + bge-small RRF, Qwen2.5-3B rewrite": "aynazhamedi/A_dev_bm25-bgesmall-rrf_qwen2.5-3b-rewrite",
}
SCORED = {  # RE-call's searches: scores by task, no passages
    "RE-call bge-small": "dense_only",
    "RE-call SPLADE": "splade_only",
    "RE-call bge-small + BM25": "hybrid_lexical",
    "RE-call bge-small + SPLADE": "hybrid_splade",
    "RE-call bge-small + SPLADE + BM25": "hybrid_both",
    "RE-call bge-small + SPLADE + Voyage reranker": "hybrid_splade_voyage",
}
PAIRS = {  # what changes: from, to
    "rewrite by Qwen3.5-4B": ("bge-m3, last question", "bge-m3, Qwen rewrite"),
    "rewrite by people (bge-m3)": ("bge-m3, last question", "bge-m3, human rewrite"),
    "rewrite by people (ELSER)": ("ELSER, last question", "ELSER, human rewrite"),
    "people's rewrite for Qwen's": ("bge-m3, Qwen rewrite", "bge-m3, human rewrite"),
    "fusion: dense to dense + sparse (bge-m3)": (
        "bge-m3, Qwen rewrite",
        "bge-m3 RRF, Qwen rewrite",
    ),
    "fusion: bge-small to bge-small + SPLADE": (
        "RE-call bge-small",
        "RE-call bge-small + SPLADE",
    ),
    "fusion: SPLADE to bge-small + SPLADE": (
        "RE-call SPLADE",
        "RE-call bge-small + SPLADE",
    ),
    "fusion: bge-small to bge-small + BM25": (
        "RE-call bge-small",
        "RE-call bge-small + BM25",
    ),
    "reranker: bge-reranker-v2-m3": (
        "bge-m3 RRF, Qwen rewrite",
        "bge-m3 RRF + reranker, Qwen rewrite",
    ),
    "reranker: Voyage rerank-2.5": (
        "RE-call bge-small + SPLADE",
        "RE-call bge-small + SPLADE + Voyage reranker",
    ),
    "second query and MonoT5 (ELSER)": (
        "ELSER, human rewrite",
        "ELSER two queries + MonoT5",
    ),
    "Claude's rewrite for people's (ELSER, MonoT5)": (
        "ELSER three queries + MonoT5",
        "ELSER three queries, Claude's rewrite + MonoT5",
    ),
    "encoder: bge-small to bge-base": ("bge-small", "bge-base"),
}


def search_file(name: str) -> Path:
    "The file of a search."
    if name in SCORED:
        return file_at(f"re_call/metrics_A_dev_{SCORED[name]}.json")
    return file_at(f"{SEARCHES[name]}.jsonl")


def searches_at_hand() -> list[str]:
    "The searches whose files are there."
    return [name for name in (*SEARCHES, *SCORED) if search_file(name).is_file()]


@lru_cache
def search_scores(name: str) -> dict[str, dict[str, float]]:
    "Task id -> gold among five, recall at five, and gold among a hundred where a file says so."
    if name in SCORED:
        return {
            i: {
                "hit": float(r["recall@5"] > 0),
                "recall": r["recall@5"],
                "deep": float(r["recall@100"] > 0),
            }
            for i, r in official_scores(search_file(name)).items()
        }
    found = tops(f"{SEARCHES[name]}.jsonl")
    return {
        i: {
            "hit": float(bool(ids & set(found[i]))),
            "recall": len(ids & set(found[i])) / len(ids),
        }
        for i, ids in gold_ids().items()
        if i in found
    }


def sign_test(before: Mapping[str, float], after: Mapping[str, float]) -> dict:
    "Exact sign test over conversations: which way most of the changed turns of each went."
    from scipy.stats import binomtest

    net: Counter = Counter()
    for i in before.keys() & after.keys():
        net[i.split("<::>")[0]] += after[i] - before[i]
    up = sum(v > 0 for v in net.values())
    down = sum(v < 0 for v in net.values())
    p = float(binomtest(up, up + down).pvalue) if up + down else 1.0
    return {"conversations up": up, "conversations down": down, "p": p}


def search_pairs() -> dict:
    "Each pair of searches: gains, losses, differences, and p with Holm over all."
    out = {}
    known = searches_at_hand()
    for what, (a, b) in PAIRS.items():
        if a not in known or b not in known:
            continue
        old = search_scores(a)
        new = search_scores(b)
        both = [i for i in old if i in new]
        before, after = ({i: x[i]["hit"] for i in both} for x in (old, new))
        out[what] = {
            "from": a,
            "to": b,
            "tasks": len(both),
            "gained": sum(after[i] > before[i] for i in both),
            "lost": sum(after[i] < before[i] for i in both),
            "difference": difference(after, before),
            "recall": difference(
                {i: new[i]["recall"] for i in both}, {i: old[i]["recall"] for i in both}
            ),
            **sign_test(before, after),
        }
    for name, p in zip(out, holm([c["p"] for c in out.values()]).tolist()):
        out[name]["p holm"] = p
    return out


def searches() -> dict:
    "Gold among five and recall of each search."
    return {
        name: {
            "tasks": len(some := search_scores(name)),
            "gold among five": share({i: bool(x["hit"]) for i, x in some.items()}),
            "recall": _mean({i: x["recall"] for i, x in some.items()}),
        }
        for name in searches_at_hand()
    }


def hard_core() -> dict:
    "The turns in which no search has a gold passage among its first five, and what they are like."
    tasks = tasks_by_id()
    gold = benchmark(DEV).gold
    every = [search_scores(name) for name in searches_at_hand()]
    ids = [i for i in answerable() if all(i in x for x in every)]
    core = {i: not any(x[i]["hit"] for x in every) for i in ids}
    deep = {i: not any(search_scores(n)[i]["deep"] for n in SCORED) for i in ids}
    groups = {
        "domain": lambda i: [tasks[i].domain],
        "turn": lambda i: [_place_of(tasks[i].turn)],
        "type": lambda i: gold[i].question_type or ["none"],
        "in the conversation": lambda i: [gold[i].multi_turn or "none"],
        "label": lambda i: [gold[i].answerability],
        "length": lambda i: [
            "up to 5 words"
            if len(tasks[i].question.split()) <= 5
            else "6 to 12 words"
            if len(tasks[i].question.split()) <= 12
            else "longer"
        ],
    }
    rows = {}
    for what, of in groups.items():
        for value in sorted({v for i in ids for v in of(i)}):
            rows[f"{what}: {value}"] = share(
                {i: core[i] for i in ids if value in of(i)}
            )
    return {
        "searches": len(every),
        "tasks": len(ids),
        "found by none": share(core),
        "found by all": share({i: all(x[i]["hit"] for x in every) for i in ids}),
        "of RE-call's six, none among a hundred": share(deep),
        "rows": rows,
    }


def show_pairs() -> None:
    "Print the pairs, and the turns in which no search finds gold."
    told_of = kept_in("released")
    rows = [
        [
            what,
            r["gained"],
            r["lost"],
            span(r["difference"], "+"),
            span(r["recall"], "+"),
            f"{r['conversations up']}:{r['conversations down']}",
            f"{r['p holm']:.2g}",
        ]
        for what, r in told_of["pairs"].items()
    ]
    table(
        [
            "what changes",
            "gain",
            "lose",
            "gold among five",
            "recall at five",
            "conversations",
            "p (Holm)",
        ],
        rows,
    )
    print()
    core = told_of["hard core"]
    print(
        f"{core['searches']} searches, {core['tasks']} tasks: found by none {span(core['found by none'])}, by all {span(core['found by all'])}"
    )
    print(
        "no gold among a hundred in any of RE-call's six:",
        span(core["of RE-call's six, none among a hundred"]),
    )
    table(
        ["", "tasks", "found by none"],
        [[g, x["n"], span(x)] for g, x in core["rows"].items()],
    )


def check_findings() -> None:
    "Assert what the study says of searches, of the results that are kept."
    told_of = kept_in("released")
    pairs = told_of["pairs"]
    assert (
        pairs["rewrite by Qwen3.5-4B"]["gained"],
        pairs["rewrite by Qwen3.5-4B"]["lost"],
    ) == (
        109,
        106,
    )
    stands = {what for what, r in pairs.items() if r["p holm"] < 0.05}
    assert stands == {
        "rewrite by people (ELSER)",
        "fusion: bge-small to bge-small + SPLADE",
        "reranker: bge-reranker-v2-m3",
        "reranker: Voyage rerank-2.5",
    }, stands
    core = told_of["hard core"]
    assert round(core["found by none"]["value"] * core["tasks"]) == 51
    first, later = (core["rows"][f"turn: {t}"] for t in ("first", "later"))
    assert first["value"] < later["low"]
