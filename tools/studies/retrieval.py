"""Ways to search, measured on the benchmark's questions: views, fusion, rerankers, human rewrites.

A way ranks passages: of each, its best child counts. Two rankings are scored: that of the five children that a run keeps, which
are often of three passages (`kept`), and that of the first five passages. Time is CPU time without the embedding of texts, which
is the same for all ways that embed as many. The file keeps the scores of every question, domain by domain, in thousandths, one
line a measure. It names the index and the reranker that a way was measured with; with another one it is measured again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import read_json, write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.settings import RetrievalSettings, load_settings
from mtrag_nb.core.types import DataError, Task, Turn, digest
from mtrag_nb.data.mtrag import read_qrels, read_queries, read_tasks
from mtrag_nb.data.official import official_file
from mtrag_nb.evaluation.rankings import retrieval_scores
from mtrag_nb.evaluation.statistics import Interval, difference_interval, mean_interval
from mtrag_nb.models.chat import EmbedderLike
from mtrag_nb.models.embed import Embedder
from mtrag_nb.runs.run import machine, package_versions
from mtrag_nb.search.retrieve import Retriever, _make_reranker
from mtrag_nb.search.store import Index, document_of_node, open_index
from tools.real_data import real_data
from tools.study import kept_in


@dataclass(frozen=True)
class Way:
    "A way to retrieve."

    settings: RetrievalSettings
    rewritten: bool = (
        False  # the query is the human rewrite, not the question as it was asked
    )


PLAIN = "dense, last question, overlap"
HELD = "last + BM25, pool, passage"
MIXED = "mix + BM25, pool, passage"
TALK = "last + what it follows, pool, talk"
BEST = "last + mix + BM25, pool, talk"
REWRITTEN = "dense, human rewrite, overlap"
HUMAN = "human rewrite + BM25, pool, passage"
KINDS = {
    "dense": ("{0}", "rrf", "none"),
    "BM25": ("bm25:{0}", "rrf", "none"),
    "RRF": ("{0}*0.7 bm25:{0}*0.3", "rrf", "none"),
    "pool, overlap": ("{0} bm25:{0}", "pool", "overlap"),
}
QUESTIONS = {
    "last question": "last",
    "what it follows": "follows",
    "all questions": "questions",
    "human rewrite": "query",
}
FOUR = "mix*0.4 last*0.3 bm25:follows*0.15 bm25:last*0.15"
MORE = {  # views, fusion, reranker
    PLAIN: ("last", "rrf", "overlap"),
    REWRITTEN: ("query", "rrf", "overlap"),
    "mix": ("mix", "rrf", "none"),
    "mix, overlap": ("mix", "rrf", "overlap"),
    "four views, RRF": (FOUR, "rrf", "none"),
    "four views, pool, overlap": (FOUR, "pool", "overlap"),
    "mix + BM25, RRF": ("mix*0.7 bm25:last*0.3", "rrf", "none"),
    "mix + BM25, pool, cosine": ("mix bm25:last", "pool", "cosine"),
    "mix + BM25, pool, overlap": ("mix bm25:last", "pool", "overlap"),
}
OF_THIRTY = {  # candidates of each search; above: of twenty
    HUMAN: ("query bm25:query", "pool", "passage"),
    HELD: ("last bm25:last", "pool", "passage"),
    MIXED: ("mix bm25:last", "pool", "passage"),
    "dense, last question, passage": ("last", "rrf", "passage"),
    "dense, last question, talk": ("last", "rrf", "talk"),
    TALK: ("last follows", "pool", "talk"),
    "last + mix, pool, talk": ("last mix", "pool", "talk"),
    "last + what it follows + BM25, pool, talk": (
        "last follows bm25:last",
        "pool",
        "talk",
    ),
    BEST: ("last mix bm25:last", "pool", "talk"),
}


def ways() -> dict[str, Way]:
    "Every way, by name."

    def way(top_k: int, views: str, fusion: str, reranker: str) -> Way:
        settings = RetrievalSettings(
            top_k, views=views, fusion=fusion, reranker=reranker
        )
        return Way(settings, "query" in views)

    grid = {
        f"{kind}, {question}": (views.format(view), *how)
        for kind, (views, *how) in KINDS.items()
        for question, view in QUESTIONS.items()
    }
    twenty = {name: way(20, *how) for name, how in {**grid, **MORE}.items()}
    return {**twenty, **{name: way(30, *how) for name, how in OF_THIRTY.items()}}


def unpacked(line: str) -> np.ndarray:
    "Scores from thousandths in one line."
    return np.array(line.split(), float) / 1000


def half_of(task_id: str) -> str:
    "The half of a conversation, by the id of any of its tasks."
    return ("choosing", "reporting")[int(digest(task_id.split("<::>")[0]), 16) % 2]


@dataclass(frozen=True, repr=False)
class Results:
    "The scores of some questions in several ways."

    tasks: tuple[str, ...]
    ways: Mapping[
        str, Mapping[str, np.ndarray]
    ]  # name -> measure -> score of each question

    def of(self, way: str, measure: str = "ndcg") -> np.ndarray:
        "The score of each question. Raises DataError for a way that some domain lacks."
        if way not in self.ways:
            raise DataError(
                f"{way!r} was not measured", remedy="make study NAME=retrieval"
            )
        return self.ways[way][measure]

    @property
    def conversations(self) -> list[str]:
        return [t.split("<::>")[0] for t in self.tasks]

    def mean(self, way: str, measure: str = "ndcg") -> Interval:
        return mean_interval(self.of(way, measure), self.conversations)

    def gain(self, way: str, baseline: str = PLAIN) -> Interval:
        "The difference of nDCG@5 to another way, paired by question."
        return difference_interval(self.of(way) - self.of(baseline), self.conversations)

    def table(self, names: Sequence[str], baseline: str = PLAIN) -> str:
        "One row a way."
        rows = []
        for n in names:
            kept = self.mean(n, "kept").value if "kept" in self.ways[n] else ""
            gain = "" if n == baseline else str(self.gain(n, baseline))
            rows.append([n, str(self.mean(n)), str(self.mean(n, "recall")), kept, gain])
        heads = [
            "way",
            "nDCG@5",
            "recall@5",
            "of 5 children",
            f"nDCG@5 less {baseline}",
        ]
        return text_table(heads, rows)


def results_of(*files: Mapping, domains: Iterable[str] = (), half: str = "") -> Results:
    "The ways of one file, or of several over the questions of the last. Raises DataError for a question that another file lacks."
    tasks = []
    found = []
    for domain in domains or files[-1]["domains"]:
        wanted = [
            t for t in files[-1]["domains"][domain]["tasks"] if half in ("", half_of(t))
        ]
        tasks = tasks + wanted
        row = {}
        for part in (f["domains"][domain] for f in files):
            place = {t: n for n, t in enumerate(part["tasks"])}
            if lacking := [t for t in wanted if t not in place]:
                raise DataError(
                    f"{domain}: {lacking[0]} was not measured in another file"
                )
            rows = np.array([place[t] for t in wanted], int)
            for name, way in part["ways"].items():
                measures = [m for m in ("ndcg", "recall", "kept") if m in way]
                row[name] = {m: unpacked(way[m])[rows] for m in measures}
        found.append(row)
    names = [n for n in found[0] if all(n in row for row in found)]
    joined = {
        n: {m: np.concatenate([row[n][m] for row in found]) for m in found[0][n]}
        for n in names
    }
    return Results(tuple(tasks), joined)


FOLLOWED = {"last question": PLAIN, "the conversation": BEST, "human rewrite": HUMAN}


def found_gold(recall: Sequence[float], tasks: Sequence[str]) -> tuple[int, int]:
    "How many questions beyond the first of a conversation found gold, and of how many."
    later = [
        r > 0 for r, t in zip(recall, tasks, strict=True) if int(t.split("<::>")[1]) > 1
    ]
    return sum(later), len(later)


class Remembered:
    "An embedder that embeds each text once, and counts the CPU seconds of it."

    def __init__(self, embedder: EmbedderLike):
        self.inner = embedder
        self.known = {}
        self.seconds = 0.0
        self.fingerprint = embedder.fingerprint
        self.dim = embedder.dim

    def encode(self, texts: Sequence[str], query: bool = False) -> np.ndarray:
        "Vectors of questions."
        if new := [t for t in dict.fromkeys(texts) if t not in self.known]:
            started = time.process_time()
            self.known.update(zip(new, self.inner.encode(new, query=query)))
            self.seconds += time.process_time() - started
        return np.array([self.known[t] for t in texts], np.float32).reshape(
            -1, self.dim
        )


@dataclass(frozen=True)
class Query:
    "A question of the benchmark, and its relevant passages."

    task: Task
    rewrite: str  # by a person
    gold: Mapping[str, int]

    @property
    def turns(self) -> tuple[Turn, ...]:
        return (*self.task.history, Turn("user", self.task.question))


@dataclass(frozen=True, repr=False)
class Measured:
    "The scores of each question in one way, in the order of the questions."

    ndcg: tuple[float, ...]  # nDCG@5 of the first five passages
    recall: tuple[float, ...]  # recall@5 of them
    kept: tuple[float, ...]  # nDCG@5 of the passages of the five children that are kept
    ms: float  # CPU time of a question, without embedding


def passage_scores(
    queries: Sequence[Query],
    ranked: Sequence[
        Sequence[str]
    ],  # of each query: passages, best first; a repeat is passed over
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    "nDCG@5 and recall@5 of each query."
    runs = {
        q.task.id: [(p, 1 - n / 1000) for n, p in enumerate(dict.fromkeys(passages))]
        for q, passages in zip(queries, ranked, strict=True)
    }
    scores = retrieval_scores({q.task.id: q.gold for q in queries}, runs).queries
    ndcg, recall = (
        tuple(round(scores[q.task.id][m], 3) for q in queries)
        for m in ("nDCG@5", "recall@5")
    )
    return ndcg, recall


def measure_way(
    way: Way, queries: Sequence[Query], index: Index, embedder: Remembered
) -> Measured:
    "Retrieve for each question, and score the ranking."
    retriever = Retriever(index, embedder, settings=way.settings)
    embedded = embedder.seconds
    started = time.process_time()
    ranked = [
        retriever.rank_candidates(
            q.rewrite if way.rewritten else q.task.question, q.task.domain, q.turns
        )
        for q in queries
    ]
    seconds = time.process_time() - started - (embedder.seconds - embedded)
    passages = [[document_of_node(n) for n in nodes] for nodes in ranked]
    ndcg, recall = passage_scores(queries, passages)
    kept, _ = passage_scores(queries, [p[: way.settings.rerank_k] for p in passages])
    return Measured(ndcg, recall, kept, round(1000 * seconds / len(queries), 1))


def questions_of(
    data: Path, domain: str
) -> list[Query]:  # data: official files, or the sample
    "The benchmark's questions of a domain that have gold passages. Raises DataError if a file is missing."
    place = data / "retrieval_tasks" / domain
    if place.is_dir():
        tasks = data / "reference.jsonl"
        rewrites = place / f"{domain}_rewrite.jsonl"
        qrels = place / "qrels" / "dev.tsv"
    else:
        tasks = official_file(data, "mtrag-human/reference")
        rewrites = official_file(data, "mtrag-human/rewrite", domain)
        qrels = official_file(data, "mtrag-human/qrels", domain)
    rewrite = read_queries(rewrites)
    gold = read_qrels(qrels)
    here = [t for t in read_tasks(tasks, domains=[domain]) if t.id in gold]
    return [Query(t, rewrite[t.id], gold[t.id]) for t in here]


def packed(values: Iterable[float]) -> str:
    "Scores as thousandths in one line."
    return " ".join(str(round(1000 * v)) for v in values)


def provenance(embedder: EmbedderLike) -> dict:
    "What a file says of its making."
    made_with = {"machine": machine(), "packages": package_versions()}
    return {**made_with, "embedder": embedder.fingerprint}


def measure_domain(
    domain: str,
    queries: Sequence[Query],
    index: Index,
    embedder: Remembered,
    path: Path,
) -> None:
    "Measure the ways that are not in the file yet, and write each when it is done."
    file = read_json(path) if path.exists() else {"domains": {}}
    tasks = [q.task.id for q in queries]
    part = file["domains"].get(domain, {})
    if (part.get("index"), part.get("tasks")) != (index.fingerprint, tasks):
        held = index.manifest.domains[domain]["passages"]
        part = {
            "index": index.fingerprint,
            "passages": held,
            "tasks": tasks,
            "ways": {},
        }
        file["domains"][domain] = part
    for name, way in ways().items():
        reranker = _make_reranker(way.settings.reranker, index, embedder).fingerprint
        if part["ways"].get(name, {}).get("reranker") == reranker:
            continue
        m = measure_way(way, queries, index, embedder)
        scores = {
            "ndcg": packed(m.ndcg),
            "recall": packed(m.recall),
            "kept": packed(m.kept),
        }
        part["ways"][name] = {**scores, "ms": m.ms, "reranker": reranker}
        write_json(path, {**file, **provenance(embedder)})
        print(
            f"{domain:8} {name:42} nDCG@5 {np.mean(m.ndcg):.3f} {m.ms:6.1f} ms",
            flush=True,
        )


def measure_retrieval(
    folder: str | Path = "indexes/mtrag",  # of an index built with mtrag ingest
    out: str | Path = "data/measured/retrieval.json",
    domains: Iterable[str] = (),  # none: those of the index
) -> None:
    "Measure every way on mtrag-human. Takes some minutes a domain, and goes on where it was stopped."
    data = real_data("mtrag-human/reference.jsonl and mtrag-human/retrieval_tasks")
    embedder = Remembered(Embedder(load_settings().embedder))
    with open_index(folder, embedder) as index:
        for domain in domains or index.manifest.domains:
            measure_domain(
                domain, questions_of(data, domain), index, embedder, Path(out)
            )


AIMS = {"govt": 0.48, "": 0.35}  # nDCG@5; "": all domains of the pool


@cache
def kept_results(half: str = "", domain: str = "") -> Results:
    "The results that are kept: of one half of the conversations, of one domain, or of all."
    domains = [domain] if domain else ()
    return results_of(kept_in("retrieval"), domains=domains, half=half)


def mean_ndcg(name: str, half: str = "", domain: str = "") -> float:
    "The mean nDCG@5 of a way."
    return kept_results(half, domain).mean(name).value


def shown_ways() -> list[str]:
    "The ways whose scores are printed by half; Qdrant's own RRF was measured with version 0.1.0."
    names = list(dict.fromkeys([PLAIN, REWRITTEN, HUMAN, *MORE, *OF_THIRTY]))
    names.insert(6, "four views, Qdrant's RRF")
    return names


def show_kinds() -> None:
    "Print nDCG@5 of each kind of search with each question."
    for domain, part in kept_in("retrieval")["domains"].items():
        print(
            f"{domain}: {part['passages']:,} passages, {len(part['tasks'])} questions"
        )
    rows = []
    for kind in ("dense", "BM25", "RRF", "Qdrant's RRF", "pool, overlap"):
        rows.append([kind, *(mean_ndcg(f"{kind}, {q}") for q in QUESTIONS)])
    print(text_table(["nDCG@5, both halves", *QUESTIONS], rows))


def show_ways(half: str) -> None:
    "Print the scores of the ways on one half of the conversations."
    print(kept_results(half).table(shown_ways()))


def show_aims() -> None:
    "Print the difference to a human rewrite, what was aimed at, and how many follow-ups find gold."
    beside = kept_results("reporting").gain(BEST, HUMAN)
    print(f"the best way less a human rewrite searched in the same way: {beside}\n")
    rows = []
    for name in (PLAIN, HELD, TALK, BEST):
        govt = mean_ndcg(name, domain="govt")
        whole = mean_ndcg(name)
        rows.append([name, govt, govt - AIMS["govt"], whole, whole - AIMS[""]])
    head = ["way", "govt", "to the aim", "4 domains", "to the aim"]
    print(text_table(head, rows), "\n")
    found = followed_gold()
    rows = [[name, *counts] for name, counts in found.items()]
    print(text_table(["searched with", "found gold", "of"], rows))


def followed_gold() -> dict[str, tuple[int, int]]:
    "How many follow-ups found gold in three ways, and of how many."
    whole = kept_results()
    return {
        name: found_gold(whole.of(way, "recall"), whole.tasks)
        for name, way in FOLLOWED.items()
    }


def check_findings() -> None:
    "Assert what the study says of the ways, of the results that are kept."
    for kind in ("dense", "BM25", "RRF", "Qdrant's RRF", "pool, overlap"):
        last, follows, questions, _ = (mean_ndcg(f"{kind}, {q}") for q in QUESTIONS)
        assert last > follows > questions
    free = [name for name, way in ways().items() if not way.rewritten]
    assert BEST == max(free, key=lambda name: mean_ndcg(name, "choosing"))
    choosing = kept_results("choosing")
    reporting = kept_results("reporting")
    whole = kept_results()
    for name in (HELD, BEST, "last + mix, pool, talk"):
        assert reporting.gain(name).low > 0
        assert choosing.gain(name).low > 0
    means = [round(mean_ndcg(n, "reporting"), 3) for n in (PLAIN, BEST, HUMAN)]
    assert means == [0.335, 0.388, 0.385]
    assert round(mean_ndcg("dense, last question"), 2) == 0.29
    beside = reporting.gain(BEST, HUMAN)
    assert beside.low < 0 < beside.high
    assert whole.gain(BEST, HELD).low > 0
    assert abs(whole.gain(BEST, HUMAN).value) < 0.02
    assert choosing.gain("mix").low > 0 > reporting.gain("mix").value
    assert mean_ndcg(BEST, domain="govt") > AIMS["govt"]
    assert mean_ndcg(BEST) > AIMS[""]
    assert mean_ndcg(BEST, "reporting") > AIMS[""] > mean_ndcg(BEST, "choosing")
    parts = kept_in("retrieval")["domains"].values()
    spent = [part["ways"][BEST]["ms"] for part in parts]
    assert 20 < min(spent) and max(spent) < 26
    best = ways()[BEST].settings
    default = load_settings().retrieval
    assert best.views == "last mix bm25:last"
    views = "query mix bm25:query"
    assert default == replace(best, views=views, rerank_k=default.rerank_k)
    counts = followed_gold()
    assert counts["last question"] < counts["the conversation"]
