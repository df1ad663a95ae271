"""What version 0.1.0 measured of searches: rewrites and likelihoods by a small model, two ablations, rerankers.

The code is in version 1.0.0 of the notebook; the results are kept in `asked.json`, `ablations.json` and `rerankers.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from mtrag_nb.core.html import text_table
from mtrag_nb.evaluation.statistics import Interval, difference_interval, mean_interval
from mtrag_nb.search.retrieve import _OverlapReranker
from tools.studies.retrieval import (
    BEST,
    HELD,
    HUMAN,
    PLAIN,
    Results,
    results_of,
    unpacked,
)
from tools.study import kept_in


@cache
def ablation_differences() -> dict[str, dict[str, Interval]]:
    "Of each ablation of the seed paper: measure -> difference of its two ways, paired by question."
    found = {}
    for name, a in kept_in("ablations").items():
        if name.startswith(("domain filter", "chunks")):
            talks = a["talks"].split()
            found[name] = {
                m: difference_interval(unpacked(x) - unpacked(y), talks)
                for m, (x, y) in a["values"].items()
            }
    return found


def gold_text_read() -> list[float]:
    "The share of the gold passages' text that is read, by parent-child chunks and by flat ones."
    *_, chunks = [a for n, a in kept_in("ablations").items() if n.startswith("chunks")]
    return [unpacked(x).mean() for x in chunks["values"]["gold text that is read"]]


def model_results() -> tuple[Results, list[str]]:
    "The ways that ask the laptop's chat model beside those of `retrieval`, and their names."
    model = kept_in("asked")
    results = results_of(kept_in("retrieval"), model)
    return results, list(model["domains"]["govt"]["ways"])


def show_model() -> None:
    "Print what rewrites and likelihoods by the laptop's chat model add to a search."
    results, by_model = model_results()
    talks = len(set(results.conversations))
    print(f"{len(results.tasks)} questions of {talks} conversations")
    print(results.table([PLAIN, HELD, HUMAN, *by_model, BEST], HELD))


def show_ablations() -> None:
    "Print the domain filter and the chunks of the seed paper, with and without."
    for name, differences in ablation_differences().items():
        a = kept_in("ablations")[name]
        talks = a["talks"].split()
        rows = []
        for m, both in a["values"].items():
            means = [str(mean_interval(unpacked(x), talks)) for x in both]
            rows.append([m, *means, str(differences[m])])
        print(f"{name}: {len(talks)} questions")
        print(text_table(["measure", *a["names"], "difference"], rows), "\n")
    read = gold_text_read()
    *filters, _ = ablation_differences().values()
    plain, best = (-of["from other domains"].value for of in filters)
    print(
        f"gold text read: {read[0] / read[1]:.1f} times; from other domains: {plain:.3f}, {best:.3f}"
    )


def span(w: Mapping) -> str:
    "A difference with its interval, where there are conversations enough for one."
    ends = "" if w["low"] is None else f" [{w['low']:+.3f}, {w['high']:+.3f}]"
    return f"{w['difference']:+.3f}{ends}"


def overlap_way(weight: float | None = None) -> str:
    "The name of the reranker by overlap; None: with the default weight."
    if weight is None:
        weight = _OverlapReranker.model_fields["weight"].default
    return f"child's cosine + {weight} x overlap"


def ranked_ways() -> dict[str, dict[str, dict]]:
    "Domain -> reranker -> its scores and its difference to the dense order."
    domains = kept_in("rerankers")["domains"]
    return {d: part["ways"] for d, part in domains.items()}


def domain_gains() -> dict[str, dict]:
    "Domain -> the default weight of overlap against the dense order; * marks what was measured earlier."
    tasks = {d: p["tasks"] for d, p in kept_in("retrieval")["domains"].items()}
    rows = {}
    for domain, of in ranked_ways().items():
        dense = next(iter(of.values()))["ndcg_5"]
        with_overlap = of[overlap_way()]
        scores = {"dense": dense, "overlap": with_overlap["ndcg_5"]}
        rows[domain] = {"questions": len(tasks[domain]), **with_overlap, **scores}
    earlier = kept_in("rerankers")["earlier"]
    return rows | {f"{d} *": w for d, w in earlier.items()}


def show_rerankers() -> None:
    "Print the rerankers that a laptop can use, then the default weight of overlap in every domain."
    for domain, of in ranked_ways().items():
        part = kept_in("rerankers")["domains"][domain]
        rows = []
        for name, w in of.items():
            difference = span(w) if w["difference"] else ""
            rows.append([name, w["recall_5"], w["ndcg_5"], difference])
        print(
            f"{domain}: {part['questions']} questions of {part['conversations']} conversations"
        )
        print(text_table(["reranker", "recall@5", "nDCG@5", "difference"], rows), "\n")
    rows = []
    for domain, w in sorted(domain_gains().items()):
        rows.append([domain, w["questions"], w["dense"], w["overlap"], span(w)])
    heads = ["domain", "questions", "nDCG@5, dense order", "with overlap", "difference"]
    print(text_table(heads, rows))


def check_findings() -> None:
    "Assert what the study says of these searches, of the results that are kept."
    results, by_model = model_results()
    assert kept_in("asked")["packages"]["mtrag_nb"] == "0.1.0"
    gain_of = {name: results.gain(name, HELD) for name in by_model}
    own = gain_of["own rewrite"]
    assert own.high < 0
    assert own.value < gain_of["own rewrite, guarded"].value
    # none is shown to be better
    assert all(gain.low < 0 for gain in gain_of.values())
    likely = gain_of["likelihood of the first ten"]
    beside = gain_of["siblings and likelihood"]
    assert likely.value < beside.value < 0.01

    *filters, chunks = ablation_differences().values()
    assert all(of["nDCG@5"].low > 0 > of["from other domains"].high for of in filters)
    assert abs(chunks["nDCG@5"].value) < 0.01
    assert chunks["gold text that is read"].low > 0.1
    assert chunks["of what is read, gold"].value < 0
    read = gold_text_read()
    plain, best = (-of["from other domains"].value for of in filters)
    assert 2.5 < read[0] / read[1] < 3
    assert 0.11 < plain < 0.14
    assert best < 0.55 * plain

    overlap = overlap_way()
    ranked = ranked_ways()
    govt, clapnq = (
        {name: w["ndcg_5"] for name, w in ranked[d].items()} for d in ("govt", "clapnq")
    )
    assert max(govt, key=govt.get) == overlap
    assert ranked["govt"][overlap]["low"] > 0
    assert ranked["govt"]["cosine of the whole parent"]["high"] < 0
    order = [overlap_way(0.5), "the mean of both", overlap, next(iter(clapnq))]
    scores = [clapnq[name] for name in order]
    assert scores == sorted(scores, reverse=True)
    gained = {d.split()[0]: w["difference"] for d, w in domain_gains().items()}
    assert all(gained[d] > 0.01 for d in ("govt", "cloud", "clapnq"))
    assert -0.02 < gained["fiqa"] < 0
