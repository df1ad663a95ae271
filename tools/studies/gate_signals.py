"""A gate before the draft: one threshold on a nearness, or something learned, from this project's own search.

The index holds three domains with all gold passages of both sets and the first five of five released searches, passages that are
near and do not answer. Underspecified questions are left out. The gate's worth is that of the 120 turns of
`9_studies/03_correction`, whose index is searched, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import data_dir, read_json, read_jsonl, write_json
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.text import sentences, support
from mtrag_nb.core.types import (
    TO_ANSWER,
    TO_REFUSE,
    Gold,
    Outcome,
    Passage,
    Task,
    Turn,
    plain,
)
from mtrag_nb.data.mtrag import read_benchmark, read_corpus
from mtrag_nb.evaluation.calibrate import _halves
from mtrag_nb.evaluation.pairs import Pair, Ending
from mtrag_nb.evaluation.statistics import Interval, auroc_interval, mean_interval
from mtrag_nb.runs.run import machine, package_versions
from mtrag_nb.search.ingest import build_index
from mtrag_nb.search.retrieve import Retriever, _query_vectors, _view_terms, best_hits
from mtrag_nb.search.store import open_index
from mtrag_nb.systems.stages import grade_by_cosine
from tests.support.clarity import _ALONE, underspecified
from tests.support.prices import price_curve, read_ending
from tools.real_data import pool_file
from tools.studies.checks import PRICES, best_cut, value
from tools.studies.draft_checks import encoder, fit_logistic
from tools.studies.drafts import data, with_passages
from tools.studies.released_files import DEV, TEST, rounded, span, table
from tools.study import kept_in

WORDS = (
    "words",
    "this",
    "the",
    "unclear",
    "pronoun",
    "no name",
    "first",
    "known",
    "asks",
    "two",
)
NAMES = ("tasks", "talks", "domains", "labels")


@dataclass(frozen=True)
class Turns:
    "Turns with what a gate may look at."

    told: Mapping[str, np.ndarray]  # column -> [turns]

    @classmethod
    def of(cls, *sets: str) -> Turns:
        "Those of some sets that can be answered, or have no answer."
        rows = []
        for name in sets:
            packed = kept_in("gate")["sets"][name]
            columns = {
                k: np.array(v.split(), None if k in NAMES else float)
                for k, v in packed.items()
            }
            columns["set"] = np.full(len(columns["tasks"]), name)
            rows.append(columns)
        joined = {k: np.concatenate([r[k] for r in rows]) for k in rows[0]}
        told = joined | question_words(joined["tasks"])
        keep = np.isin(told["labels"], [*TO_ANSWER, "UNANSWERABLE"])
        return cls({k: v[keep] for k, v in told.items()})

    def x(self, names: Sequence[str]) -> np.ndarray:  # [turns, names]
        return np.array([self.told[k] for k in names]).T

    @property
    def y(self) -> np.ndarray:  # [turns] it can be answered
        return self.told["labels"] != "UNANSWERABLE"

    def area(
        self, score: np.ndarray, at: np.ndarray | None = None, minus: str = ""
    ) -> Interval:
        "AUROC of a score for answerable against unanswerable turns, less that of a column."
        at = np.ones(len(score), bool) if at is None else at
        less = {"minus": self.told[minus][at]} if minus else {}
        return auroc_interval(score[at], self.y[at], self.told["talks"][at], **less)


def question_words(tasks: Sequence[str]) -> dict[str, np.ndarray]:
    "The numbers of the gate that asks back which need no search (`9_studies/00_retrieval`), and what it says with all of its own."
    found = {}
    for packed in kept_in("clarify")["sets"].values():
        columns = {
            k: list(map(float, v.split())) for k, v in packed["features"].items()
        }
        for n, task in enumerate(packed["tasks"].split()):
            found[task] = {k: v[n] for k, v in columns.items()}
    out = {
        k: np.array([found[t][k] for t in tasks])
        for k in (*WORDS, "near the last", "nearest")
    }
    return out | {"clarity": np.array([1 - underspecified(found[t]) for t in tasks])}


def pool_best() -> list[str]:
    "AUROC of the best cosine over the whole pool: all, none for the half, MTRAG, MTRAG-UN."
    score = []
    truth = []
    talks = []
    sets = []
    for name, packed in kept_in("clarify")["sets"].items():
        score += map(float, packed["features"]["best"].split())
        truth += packed["labels"].split()
        talks += packed["talks"].split()
        sets += [name] * (len(score) - len(sets))
    labels = np.array(truth)
    sets = np.array(sets)
    judged = np.isin(labels, [*TO_ANSWER, "UNANSWERABLE"])

    def area(at):
        own = np.array(talks)[judged & at]
        return str(
            auroc_interval(
                np.array(score)[judged & at],
                (labels != "UNANSWERABLE")[judged & at],
                own,
            )
        )

    return [
        area(sets != ""),
        "",
        area(sets == "mtrag-human"),
        area(sets == "mtragun-human"),
    ]


def fitted(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    "Log-odds of being answerable, as a function of the same numbers of other turns."
    mean = x.mean(0)
    spread = x.std(0) + 1e-9
    w = fit_logistic((x - mean) / spread, y, 10.0)
    return lambda z: ((z - mean) / spread) @ w[:-1] + w[-1]


def crossed(t: Turns, names: Sequence[str], groups: np.ndarray) -> np.ndarray:
    "What each group is given by weights from all the others."
    out = np.zeros(len(groups))
    for g in np.unique(groups):
        here = groups == g
        out[here] = fitted(t.x(names)[~here], t.y[~here])(t.x(names)[here])
    return out


SCORES = ("best", "margin", "mean", "mix", "mix, mean", "reranked")
FAMILIES = {
    "retrieval scores": SCORES,
    "and agreement of the views": (*SCORES, "follows", "views agree"),
    "and the conversation": (
        *SCORES,
        *("follows", "views agree", "near the last", "nearest", "answer before"),
    ),
    "and the question's words": (
        *SCORES,
        *("follows", "views agree", "near the last", "nearest", "answer before"),
        *("passages alike", "words in passages", *WORDS),
    ),
}
NUMBERS = (
    "best",
    "alone",
    "together",
    "sentences",
    "mean",
    "mix, mean",
    "margin",
    "views agree",
    "clarity",
)


@cache
def both_sets() -> Turns:
    "The turns of MTRAG and MTRAG-UN."
    return Turns.of("mtrag", "mtragun")


def in_first_half(t: Turns) -> np.ndarray:
    "[turns] True: in the half of the conversations that chooses."
    return np.isin(t.told["talks"], list(_halves(t.told["talks"])[0]))


@cache
def calibrated_threshold() -> float:
    "The threshold that `mtrag calibrate` found for the best cosine."
    kept = read_json(data_dir("measured") / "calibration.json")["calibration"]
    return kept["gate"]["together"]["threshold"]


def show_numbers() -> None:
    "Print how well single numbers tell answerable turns from others."
    both = both_sets()
    un = both.told["set"] == "mtragun"
    parts = (None, ~in_first_half(both), ~un, un)
    rows = []
    for name in NUMBERS:
        score = both.told[name]
        rows.append([name, *(str(both.area(score, at)) for at in parts)])
    rows.append(["best, whole pool, four domains", *pool_best()])
    table(["one number, AUROC", "all", "reporting half", "MTRAG", "MTRAG-UN"], rows)
    print()
    rows = []
    for name, found in kept_in("gate")["released"].items():
        rows.append([name, *(span(i) for i in found.values())])
    table(["released scores, AUROC", "best", "margin"], rows)


@cache
def learned_gates() -> dict[str, dict[str, Interval]]:
    "Family of numbers -> where it is reported -> AUROC less that of the best cosine."
    both = both_sets()
    first_half = in_first_half(both)
    un = both.told["set"] == "mtragun"
    learned = {}
    for name, columns in FAMILIES.items():
        by_half = fitted(both.x(columns)[first_half], both.y[first_half])(
            both.x(columns)
        )
        by_domain = crossed(both, columns, both.told["domains"])
        by_set = crossed(both, columns, un)
        learned[name] = {
            "reporting half": both.area(by_half, ~first_half, "best"),
            "other domains": both.area(by_domain, None, "best"),
            "MTRAG by MTRAG-UN": both.area(by_set, ~un, "best"),
            "MTRAG-UN by MTRAG": both.area(by_set, un, "best"),
        }
    return learned


def least_for(score: np.ndarray, y: np.ndarray, part: float) -> float:
    "The threshold that refuses so many of the answerable turns."
    return float(np.quantile(score[y], part))


def refused_at(
    t: Turns, least: float, at: np.ndarray, gate: str = "together"
) -> list[str]:
    "The share of answerable and of unanswerable turns that score below a threshold; of those answered, the unanswerable share at 7 and 22 %."
    below = t.told[gate] < least
    talks = t.told["talks"]
    can, cannot = (
        mean_interval(below[at & kind].astype(float).tolist(), talks[at & kind])
        for kind in (t.y, ~t.y)
    )
    wrong = [(s * (1 - cannot.value), (1 - s) * (1 - can.value)) for s in (0.07, 0.22)]
    return [str(can), str(cannot), *(f"{w / (w + r):.3f}" for w, r in wrong)]


def show_learned() -> None:
    "Print what learned gates are above the best cosine, and what thresholds refuse."
    both = both_sets()
    first_half = in_first_half(both)
    learned = learned_gates()
    calibrated = calibrated_threshold()
    head = [
        "learned, AUROC less that of the best cosine",
        *next(iter(learned.values())),
    ]
    table(
        head,
        [
            [n, *(span(plain(i), "+", 3) for i in found.values())]
            for n, found in learned.items()
        ],
    )
    print()
    rows = []
    for part in (0.01, 0.05, 0.1, 0.25):
        least = least_for(both.told["together"][first_half], both.y[first_half], part)
        rows.append(
            [
                f"{part:.0%} of the choosing half: {least:.2f}",
                *refused_at(both, least, ~first_half),
            ]
        )
    rows.append(
        [f"mtrag calibrate: {calibrated}", *refused_at(both, calibrated, ~first_half)]
    )
    rows.append(["sentences: 0.53", *refused_at(both, 0.53, ~first_half, "sentences")])
    head = ["answerable refused", "unanswerable refused", "risk at 7 %", "risk at 22 %"]
    table(["together, refuses below", *head], rows)


CORNERS = [(price, part) for part in (0.07, 0.22) for price in PRICES]


@cache
def equal_turns() -> Turns:
    "The 120 turns of `9_studies/03_correction`."
    return Turns.of("equal")


@cache
def equal_endings() -> dict[str, dict[str, Ending]]:
    "System -> how those turns ended."
    kept = kept_in("equal")["endings"]
    return {
        name: {i: read_ending(e) for i, e in some.items()}
        for name, some in kept.items()
    }


@cache
def gate_scores() -> dict[str, np.ndarray]:
    "Gate -> its score of each of the 120 turns."
    both = both_sets()
    equal = equal_turns()
    names = ("best", "together", "sentences", "margin", "clarity")
    gates = {g: equal.told[g] for g in names}
    unseen = ~np.isin(both.told["talks"], equal.told["talks"])
    family = FAMILIES["and agreement of the views"]
    learned = fitted(both.x(family)[unseen], both.y[unseen])
    return gates | {"learned": learned(equal.x(family))}


def refused_ending(e: Ending) -> Ending:
    "The turn, had it been refused."
    came = "right" if e.label in TO_REFUSE else "failed"
    return replace(e, verdict=came, outcome=Outcome.I_DONT_KNOW, refused=True)


KINDS_OF = {
    "right answers": lambda e: e.label in TO_ANSWER and e.verdict == "right",
    "between": lambda e: e.label in TO_ANSWER and e.verdict == "undecided",
    "wrong answers": lambda e: e.label in TO_ANSWER and e.verdict == "failed",
    "answers where there is none": lambda e: e.label in TO_REFUSE,
}


def worth(
    name: str,
    refused: np.ndarray,
    price: float,
    part: float,
    instead: np.ndarray | None = None,
) -> Interval:
    "What refusing some of the 120 turns of `9_studies/03_correction` adds to a system's value; `instead`: less what refusing those adds."
    equal = equal_turns()
    ends = equal_endings()

    def with_(some):
        found = {i: ends[name][i] for i in equal.told["tasks"]}
        return {
            i: refused_ending(e) if r else e for (i, e), r in zip(found.items(), some)
        }

    before = with_(np.zeros(len(refused), bool) if instead is None else instead)
    return price_curve(Pair(name, before, with_(refused)), (price,), (part,)).points[
        price, part
    ]


def by_other_half(
    name: str, score: np.ndarray, price: float, part: float
) -> np.ndarray:
    "What a gate refuses whose threshold is the best of the other half of the conversations."
    equal = equal_turns()
    ends = equal_endings()
    half_of_equal = in_first_half(equal)
    some = [ends[name][i] for i in equal.told["tasks"]]
    weight = np.where(equal.y, (1 - part) / equal.y.sum(), part / (~equal.y).sum())
    gain = weight * np.array(
        [value(refused_ending(e), price) - value(e, price) for e in some]
    )
    out = np.zeros(len(some), bool)
    for here in (half_of_equal, ~half_of_equal):
        out[here] = score[here] < best_cut(score[~here], gain[~here])[0]
    return out


def taken(name: str, kind: Callable[[Ending], bool]) -> str:
    "Of the answers of one kind: how many the gate at its calibrated threshold refuses."
    equal = equal_turns()
    ends = equal_endings()
    fixed = gate_scores()["together"] < calibrated_threshold()
    here = [
        f
        for i, f in zip(equal.told["tasks"], fixed)
        if kind(e := ends[name][i]) and not e.refused
    ]
    return f"{sum(here)} of {len(here)}"


@cache
def fixed_gates() -> dict[str, dict[str, list[Interval]]]:
    "Gate with its threshold -> system -> what it adds to the value at each corner."
    gates = gate_scores()
    thresholds = {"together": calibrated_threshold(), "sentences": 0.53}
    found = {}
    for gate, least in thresholds.items():
        below = gates[gate] < least
        found[f"{gate}, refuses below {least}"] = {
            n: [worth(n, below, *c) for c in CORNERS] for n in equal_endings()
        }
    return found


@cache
def chosen_gates() -> dict[str, list[Interval]]:
    "System and gate -> what a threshold of the other half adds to refusing all or none, at each corner."
    blind = np.zeros(len(equal_turns().y))
    over = {}
    for name in ("naive", "quote"):
        for g, score in gate_scores().items():
            cells = []
            for c in CORNERS:
                refused = by_other_half(name, score, *c)
                none_refused = by_other_half(name, blind, *c)
                cells.append(worth(name, refused, *c, instead=none_refused))
            over[f"{name}: {g}"] = cells
    return over


def show_worth() -> None:
    "Print what gates add to the value of six systems, which answers they refuse, and what a chosen threshold adds."
    head = [f"price {p:g}, {s:.0%}" for p, s in CORNERS]
    for words, found in fixed_gates().items():
        table([words, *head], [[n, *x] for n, x in found.items()])
        print()
    rows = [[n, *(taken(n, k) for k in KINDS_OF.values())] for n in equal_endings()]
    table(["it refuses", *KINDS_OF], rows)
    print()
    rows = [[n, *x] for n, x in chosen_gates().items()]
    table(["threshold of the other half, less refusing all or none", *head], rows)


@cache
def graded_passages() -> dict[str, list]:
    "System -> graded passages of the 120 turns: gold, kept, score, conversation."
    graded: dict[str, list] = defaultdict(list)
    for _, line in read_jsonl(data_dir("measured") / "blame_turns.jsonl"):
        for gate, *_, found in line["gates"]:
            if gate in ("grade_documents", "gate: answerable"):
                graded[line["system"]] += [(*x, line["talk"]) for x in found]
    return graded


def show_grades() -> None:
    "Print what grades of single passages throw away."
    graded = graded_passages()
    rows = []
    for name, found in graded.items():
        gold, rest = ([x for x in found if x[0] is kind] for kind in (True, False))
        lost = mean_interval([float(not x[1]) for x in gold], [x[3] for x in gold])
        spare = sorted(x[2] for x in gold)[
            int(0.01 * len(gold))
        ]  # at it 1 % of the gold is below
        least = np.floor(spare * 100) / 100
        dropped = [sum(x[2] < least for x in some) for some in (gold, rest)]
        left = sum(not x[1] for x in rest)
        rows.append(
            [name, len(gold), lost, f"{left} of {len(rest)}", f"{least:.2f}", *dropped]
        )
    head = ["with gold", "of it dropped", "others dropped", "at most 1 %: threshold"]
    table(["grade, on the laptop", *head, "gold", "others"], rows)


RELEASED = (  # searches whose first five passages are candidates
    "mtrag-human/rag_elser_top5.jsonl",
    "released/iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl.gz",
    "released/sifei/A_test_hybrid-rerank_old.jsonl.gz",
    "released/zvictor12/A_dev_bge-m3-rrf-rerank_qwen-rewrite.jsonl.gz",
    "released/zvictor12/A_dev_bge-m3-dense_lastturn.jsonl.gz",
)
LEFT_OUT = "cloud"


def near_misses() -> list[Passage]:
    "The passages of the gate's index."
    wanted = {
        p.id
        for which in (DEV, TEST)
        for g in with_passages(which).gold.values()
        for p in g.passages
    }
    for name in RELEASED:
        for _, line in read_jsonl(data() / name, nan_is_null=True):
            best = sorted(line["contexts"], key=lambda c: -float(c.get("score") or 0))
            wanted |= {c["document_id"] for c in best[:5]}
    pool_ = read_corpus(pool_file(data()))
    return sorted(
        (p for p in pool_ if p.id in wanted and p.domain != LEFT_OUT),
        key=lambda p: p.id,
    )


def overlap_of(a: set, b: set) -> float:
    "The Jaccard index of two sets."
    return len(a & b) / max(1, len(a | b))


def signals(task: Task, retriever: Retriever) -> dict[str, float]:
    "What the searches for a question and its conversation say of the passages that are kept; nothing of the domain."
    embedder = retriever.embedder
    index = retriever.index
    settings = retriever.settings
    turns = (*task.history, Turn("user", task.question))
    ranked = retriever.rank_candidates(task.question, task.domain, turns)
    hits = best_hits(ranked, settings.rerank_k)
    vectors = index.vectors([h.node.node_id for h in hits])
    views = [_view_terms(v, task.question, turns) for v in ("last", "follows", "mix")]
    last, follows, mix = _query_vectors(views, embedder) @ vectors.T
    asked = _query_vectors([views[0], views[2]], embedder)
    found = [
        *(index.search(vector, 5, task.domain) for vector in asked),
        index.search_words(task.question, 5, task.domain),
    ]
    by_leg = [{h.node.ref_doc_id for h in some} for some in found]
    answers = [t.text for t in task.history if t.speaker != "user"]
    answer = (
        embedder.encode(answers[-1:], query=True)[0] @ vectors.T
        if answers
        else [_ALONE["nearest"]]
    )
    texts = [c.text for c in retriever.as_retrieval(hits).contexts]
    whole = [s for x in texts for s in sentences(x) if len(s.split()) > 3] or texts
    asked_with = {"alone": (texts, ()), "together": (texts, task.history)}
    asked_with["sentences"] = (whole, task.history)
    graded = {
        name: max(
            v.score for v in grade_by_cosine(embedder, task.question, some, history=h)
        )
        for name, (some, h) in asked_with.items()
    }
    second = sorted(last)[-2] if len(last) > 1 else last[0]
    return {
        "best": last.max(),
        "margin": last.max() - second,
        "mean": last.mean(),
        "mix": mix.max(),
        "mix, mean": mix.mean(),
        "reranked": float(np.mean([h.score for h in hits])),
        "follows": follows.max(),
        "views agree": np.mean([overlap_of(a, b) for a, b in combinations(by_leg, 2)]),
        "answer before": max(answer),
        "passages alike": (vectors @ vectors.T).mean(),
        "words in passages": support(task.question, texts),
        **graded,
    }


def columns_of(
    tasks: Iterable[Task], labels: Mapping[str, Gold], retriever: Retriever
) -> dict:
    "The signals of each task, a column a line."
    some = [t for t in tasks if t.domain in retriever.index.manifest.domains]
    rows = [signals(t, retriever) for t in some]
    told = {
        "tasks": [t.id for t in some],
        "talks": [t.conversation_id for t in some],
        "domains": [t.domain for t in some],
        "labels": [labels[t.id].answerability for t in some],
    }
    told |= {k: [f"{r[k]:.3g}" for r in rows] for k in rows[0]}
    return {k: " ".join(v) for k, v in told.items()}


SCORED_SEARCHES = {  # released searches whose scores are on one scale for all questions
    "ELSER": ("mtrag-human/rag_elser_top5.jsonl", "score"),
    "SPLADE and Voyage, fused": (RELEASED[1], "score"),
    "a cross-encoder, bge-reranker-v2-m3": (RELEASED[2], "rerank_score"),
}


def released_areas() -> dict:
    "AUROC of the released searches' own scores: the best, and how far it is ahead of the second."
    labels = {
        i: g.answerability
        for which in (DEV, TEST)
        for i, g in with_passages(which).gold.items()
    }
    out = {}
    for name, (path, key) in SCORED_SEARCHES.items():
        rows = []
        for _, line in read_jsonl(data() / path, nan_is_null=True):
            scores_ = sorted((float(c[key]) for c in line["contexts"]), reverse=True)
            if (
                labels.get(line["task_id"]) in (*TO_ANSWER, "UNANSWERABLE")
                and scores_[1:]
            ):
                rows.append((line["task_id"], scores_[0], scores_[0] - scores_[1]))
        ids, best, margin = zip(*rows)
        truth = np.array([labels[i] in TO_ANSWER for i in ids])
        talks = [i.split("<::>")[0] for i in ids]
        out[name] = {
            k: auroc_interval(np.array(x), truth, talks)
            for k, x in (("best", best), ("margin", margin))
        }
    return out


def measure_gate(
    equal: Path = Path("runs/equal"), folder: Path = Path("runs/checks")
) -> None:
    "The gate's signals, into data/measured/gate.json; `equal`: the folder of `9_studies/03_correction`, whose index is searched, too."
    embedder = encoder()
    build_index(near_misses(), folder / "gate-index", embedder)
    sets = {which.split("-")[0]: with_passages(which) for which in (DEV, TEST)}
    places = {name: folder / "gate-index" for name in sets} | {"equal": equal / "index"}
    sets["equal"] = read_benchmark(equal / "tasks.jsonl")
    told = {}
    passages = {}
    for name, bench in sets.items():
        with open_index(places[name], embedder) as index:
            retriever = Retriever(index, embedder, settings=load_settings().retrieval)
            told[name] = columns_of(bench.tasks, bench.gold, retriever)
            passages[name] = {
                d: n["passages"] for d, n in index.manifest.domains.items()
            }
    made = {"machine": machine(), "packages": package_versions(), "passages": passages}
    made |= {"released": rounded(plain(released_areas()), 5), "sets": told}
    write_json(data_dir("measured") / "gate.json", made)


def check_findings() -> None:
    "Assert what the study says of gates, of the results that are kept."
    learned = learned_gates()
    calibrated_gate, nearest_sentence = fixed_gates().values()
    ends = equal_endings()
    over = chosen_gates()
    graded = graded_passages()
    assert all(i.low <= 0 for name in learned for i in learned[name].values()), (
        "none is shown"
    )
    held = [
        i
        for found in learned.values()
        for k, i in found.items()
        if k != "reporting half"
    ]
    assert (
        round(min(i.value for i in held), 2),
        round(max(i.value for i in held), 2),
    ) == (
        -0.03,
        0.01,
    )
    assert all(x[1].low > 0 and x[3].low > 0 for x in calibrated_gate.values())
    assert {n for n, x in calibrated_gate.items() if x[2].low <= 0} == {
        "quote",
        "nexus",
    }
    lost_ = {
        k: [int(taken(n, of).split()[0]) for n in ends] for k, of in KINDS_OF.items()
    }
    assert max(lost_["right answers"]) == 2
    assert {
        min(lost_["answers where there is none"]),
        max(lost_["answers where there is none"]),
    } == {18, 25}
    assert len(ends) == 6 and all(
        x[k].low > 0 for x in nearest_sentence.values() for k in (1, 2, 3)
    )
    gains_ = [[round(x[k].value, 2) for x in calibrated_gate.values()] for k in (1, 3)]
    assert [(min(g), max(g)) for g in gains_] == [(0.08, 0.2), (0.18, 0.3)]
    shown_ = {
        n: [k for k in range(4) if over[f"{n}: together"][k].low > 0]
        for n in ("quote", "naive")
    }
    assert (
        shown_["quote"][0] == 1 and shown_["naive"] == [2] and 3 not in shown_["quote"]
    )
    golden = {n: [x[1] for x in found if x[0]] for n, found in graded.items()}
    assert (
        all(golden["quote"] + golden["nexus"])
        and len(golden["quote"] + golden["nexus"]) == 208
    )
    assert {round(1 - np.mean(golden[n]), 2) for n in ("self_crag", "agents")} == {0.06}
