"""Weights of a conversation's signals, learned on some domains and tested on others, and expansion by what was found first.

The candidates of a question come from several searches at once, pooled; for each, the eight signals of `_TalkReranker`. The
weights should put children of gold passages first. Each question is one choice among its candidates: the loss is the surprise at
the gold ones under a softmax of the weighted signals (ListNet with sets of relevant ones; Cao et al. 2007). Signals lie between
-1 and 1, so their sum is stretched before the softmax; a small ridge keeps weights finite. A question whose candidates are all
gold, or none, teaches nothing.

Expansion: what was found first has words and vectors that the question lacks (Rocchio 1971; relevance models, Lavrenko and Croft
2001). The first three children of a way are added to the question, by vector or by words, the index is searched again, and all
that was found is ranked by the question as it is (new candidates only) or by the expanded one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from mtrag_nb.core.files import write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.settings import RetrievalSettings, load_settings
from mtrag_nb.models.chat import EmbedderLike
from mtrag_nb.models.embed import Embedder
from mtrag_nb.search.retrieve import (
    _SIGNALS,
    WEIGHTS,
    Question,
    Retriever,
    _PassageReranker,
    _TalkReranker,
)
from mtrag_nb.search.store import Index, document_of_node, open_index
from mtrag_nb.search.sparse import words
from tools.real_data import real_data
from tools.studies.retrieval import (
    BEST,
    HELD,
    PLAIN,
    REWRITTEN,
    TALK,
    Query,
    Remembered,
    Results,
    half_of,
    packed,
    passage_scores,
    provenance,
    questions_of,
    results_of,
    ways,
)
from tools.study import kept_in

EXPANSIONS = {  # share of the mean vector in the new query, search by words too, rank by the new query
    "expanded by vectors, new candidates": (0.5, False, False),
    "expanded by words, new candidates": (0.0, True, False),
    "expanded by vectors, ranked by them": (0.3, False, True),
    "expanded by both, ranked by them": (0.5, True, True),
}
WIDER = {
    f"{name}, learned on other domains": ways()[name].settings.views
    for name in (BEST, TALK)
}


@dataclass(frozen=True, repr=False)
class Candidates:
    "The candidates of a question, in the order of the pool."

    query: Query
    passages: tuple[str, ...]  # of each candidate
    signals: np.ndarray  # [candidates, _SIGNALS]

    @property
    def gold(self) -> np.ndarray:
        return np.array([p in self.query.gold for p in self.passages], bool)


def candidates_of(
    queries: Sequence[Query],
    index: Index,
    embedder: EmbedderLike,
    views: str = ways()[TALK].settings.views,
) -> list[Candidates]:
    "The pooled candidates of questions."
    settings = RetrievalSettings(30, views=views, fusion="pool", reranker="none")
    retriever = Retriever(index, embedder, settings=settings)
    reranker = _TalkReranker(index, embedder)
    out = []
    for q in queries:
        nodes = retriever.rank_candidates(q.task.question, q.task.domain, q.turns)
        signals = reranker.signals(nodes, Question(q.task.question, turns=q.turns))
        out.append(Candidates(q, tuple(map(document_of_node, nodes)), signals))
    return out


STRETCH = 20.0
RIDGE = 0.003


def learn_weights(pool: Iterable[Candidates]) -> np.ndarray:  # [SIGNALS]
    "Weights that put gold first. Raises ValueError if no question can teach any."
    sets = [
        (STRETCH * c.signals, c.gold) for c in pool if c.gold.any() and not c.gold.all()
    ]
    if not sets:
        raise ValueError("no question has gold candidates and others")

    def loss(w):
        value = RIDGE * w @ w
        slope = 2 * RIDGE * w
        for x, gold in sets:
            scores = x @ w
            e = np.exp(scores - scores.max())
            value = value + (np.log(e.sum()) - np.log(e[gold].sum())) / len(sets)
            slope = slope + x.T @ (e / e.sum() - e * gold / e[gold].sum()) / len(sets)
        return value, slope

    return minimize(loss, np.full(len(_SIGNALS), 0.3), jac=True, method="L-BFGS-B").x


def rank_by(weights: np.ndarray, pool: Iterable[Candidates]) -> list[list[str]]:
    "The passages of each question in the order of its weighted signals."
    orders = [
        (c, np.argsort(-np.round(c.signals @ weights, 6), kind="stable")) for c in pool
    ]
    return [[c.passages[n] for n in order] for c, order in orders]


def leave_one_out(domains: Mapping[str, Sequence[Candidates]]) -> dict[str, np.ndarray]:
    "For each domain the weights learned on all the others."
    return {
        d: learn_weights(
            [c for other, pool in domains.items() if other != d for c in pool]
        )
        for d in domains
    }


def learn_on(half: str, domains: Mapping[str, Sequence[Candidates]]) -> np.ndarray:
    "Weights learned on one half of the conversations of all domains, to two decimals."
    pool = [c for candidates in domains.values() for c in candidates]
    return learn_weights([c for c in pool if half_of(c.query.task.id) == half]).round(2)


FIRST, ADDED = (
    3,
    8,
)  # children that the question is expanded by; words that are taken from them


def expansion_words(question: str, texts: Sequence[str], index: Index) -> str:
    "The words of texts that are not in the question: first those in many of them and rare elsewhere."
    held = Counter(w for text in texts for w in set(words(text)) - set(words(question)))
    common = index.frequency(held)
    total = index.manifest.total("children")
    weight = {w: round(n * np.log(total / (1 + common[w])), 6) for w, n in held.items()}
    return " ".join(sorted(held, key=lambda w: (-weight[w], w))[:ADDED])


def expand(
    q: Query,
    index: Index,
    embedder: EmbedderLike,
    share: float,
    by_words: bool,
    rescore: bool,
) -> list[str]:  # passages, best first
    "Search again with what was found first."
    text = q.task.question
    domain = q.task.domain
    nodes = Retriever(index, embedder, settings=ways()[HELD].settings).rank_candidates(
        text, domain, q.turns
    )
    [plain], first = embedder.encode([text], query=True), nodes[:FIRST]
    vector = plain
    if first:
        vector = plain + share * index.vectors([n.node.node_id for n in first]).mean(
            axis=0
        )
    vector = vector / np.linalg.norm(vector)
    more = index.search(vector, 30, domain)
    if by_words:
        added = expansion_words(text, [n.text for n in first], index)
        more += index.search_words(f"{text} {added}", 30, domain)
    nodes = list({n.node.node_id: n for n in [*nodes, *more]}.values())
    cosines = index.vectors([n.node.node_id for n in nodes]) @ (
        vector if rescore else plain
    )
    for n, cosine in zip(nodes, cosines):
        n.node.metadata["cosine"] = float(cosine)
    ranked = _PassageReranker(index).postprocess_nodes(
        nodes, query_bundle=Question(text)
    )
    return [document_of_node(n) for n in ranked]


def signals_of(
    index: Index, data: Path, embedder: Remembered, domains: Iterable[str]
) -> dict:
    "All that goes into the file."
    queries = {d: questions_of(data, d) for d in domains}
    ranked: dict[str, dict[str, list]] = {
        d: {} for d in queries
    }  # domain -> way -> rankings
    weights = {}
    pools = {}
    for name, how in EXPANSIONS.items():
        for d, qs in queries.items():
            ranked[d][name] = [expand(q, index, embedder, *how) for q in qs]
    for name, views in WIDER.items():
        pools[name] = {
            d: candidates_of(qs, index, embedder, views) for d, qs in queries.items()
        }
        weights[name] = leave_one_out(pools[name])
        for d, w in weights[name].items():
            ranked[d][name] = rank_by(w, pools[name][d])
    weights["choosing half"] = {"all": learn_on("choosing", next(iter(pools.values())))}
    named = {
        n: {d: dict(zip(_SIGNALS, w.round(2).tolist())) for d, w in ws.items()}
        for n, ws in weights.items()
    }
    parts = {}
    for d, qs in queries.items():
        scores = {n: passage_scores(qs, rankings) for n, rankings in ranked[d].items()}
        rows = {
            n: {"ndcg": packed(a), "recall": packed(b)} for n, (a, b) in scores.items()
        }
        tasks = [q.task.id for q in qs]
        parts[d] = {"index": index.fingerprint, "tasks": tasks, "ways": rows}
    return {"domains": parts, "weights": named}


def measure_signals(
    folder: str | Path = "indexes/mtrag", out: str | Path = "data/measured/signals.json"
) -> None:
    "Learn, measure and write the file. Some minutes."
    data = real_data("mtrag-human/reference.jsonl and mtrag-human/retrieval_tasks")
    embedder = Remembered(Embedder(load_settings().embedder))
    with open_index(folder, embedder) as index:
        found = signals_of(index, data, embedder, index.manifest.domains)
    write_json(out, {**provenance(embedder), **found})
    print(found["weights"]["choosing half"]["all"])


def joined_results(domain: str = "") -> Results:
    "The learned and expanded ways beside those of `retrieval`, of one domain or of all."
    domains = [domain] if domain else ()
    return results_of(kept_in("retrieval"), kept_in("signals"), domains=domains)


def show_learned() -> None:
    "Print learned weights and expansions beside the pool with siblings, then by domain."
    results = joined_results()
    domains = list(kept_in("signals")["domains"])
    print(f"{len(results.tasks)} questions of {', '.join(domains)}")
    names = [PLAIN, REWRITTEN, HELD, *EXPANSIONS, *WIDER, TALK, BEST]
    print(results.table(names, HELD), "\n")
    parts = [joined_results(d) for d in domains]
    rows = []
    for name in (PLAIN, HELD, *WIDER, TALK, BEST):
        rows.append([name, *(part.mean(name).value for part in parts)])
    print(text_table(["nDCG@5", *domains], rows))


def show_weights() -> None:
    "Print the weights learned on the choosing half, and with each domain left out."
    weights = kept_in("signals")["weights"]
    rows = [["choosing half", *weights["choosing half"]["all"].values()]]
    for domain, learned in weights[next(iter(WIDER))].items():
        rows.append([f"without {domain}", *learned.values()])
    print(text_table(["learned on", *_SIGNALS], rows, digits=2))


def check_findings() -> None:
    "Assert what the study says of signals, of the results that are kept."
    results = joined_results()
    first = next(iter(WIDER))
    assert all(results.gain(name).low > 0 for name in WIDER)
    assert results.gain(first, HELD).low > 0
    # no gain of an expansion is shown
    assert all(results.gain(name, HELD).low <= 0 for name in EXPANSIONS)
    weights = kept_in("signals")["weights"]
    assert tuple(weights["choosing half"]["all"].values()) == WEIGHTS
    for w in weights[first].values():
        assert w["before"] < 0 < min(w["answer"], w["last"], w["follows"])
