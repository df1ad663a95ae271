"""A check of claims: its weights fitted on one half of conversations and documents, reported on the other.

Claims: planted falsehoods of eight kinds and true paraphrases of nine, made by rule (`tests/support/claims.py`) from sentences of
the project's sample and of MTRAG-S' passages, each with two other passages beside its own; and, on the true side, sentences of real
answers: those that every rater found faithful, MTRAG-S answers with RL_F 1, the sample's targets. Each kind counts alike. The
threshold rejects a tenth of the true ones. Drafts: MTRAG-S by RL_F (good from .8, poor up to .6) and rated answers by people
(faithful: median above 2), over the mean of the features of a draft's claims. No weight may have the wrong sign.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize

from mtrag_nb.core.files import data_dir, write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.claims import (
    _FEATURES,
    _claim_features,
    _draft_features,
    claims_something,
)
from mtrag_nb.core.text import sentences, support
from mtrag_nb.core.types import TO_ANSWER, plain
from mtrag_nb.data.mtrag import read_benchmark, sample_dir
from mtrag_nb.data.ratings import read_ratings
from mtrag_nb.evaluation.calibrate import _balanced_accuracy, _halves, find_rated_file
from mtrag_nb.evaluation.statistics import auroc_interval, mean_interval
from tests.support.claims import Planted, of_sample, planted
from tools.studies.checks import SOME
from tools.studies.draft_checks import GOOD, POOR, RIDGE
from tools.studies.drafts import PROMPTED, Draft, data, line_drafts, synthetic_drafts
from tools.studies.released_files import DEV, read_interval, rounded, span, table
from tools.study import kept_in

HALF = 800  # MTRAG-S answers of each half
PASSAGES, ANSWERS = (
    60,
    150,
)  # of each half: passages of a domain, faithful answers of MTRAG-S
Rated = tuple[
    str, str, str, tuple[str, ...], bool
]  # talk, system, answer, passages, faithful


def signed_logistic(x: np.ndarray, y: np.ndarray, each: np.ndarray) -> np.ndarray:
    "Logistic regression on _FEATURES, ridge-penalized, no weight of the wrong sign; the intercept is last."
    z = np.c_[x, np.ones(len(x))]
    sign = 2.0 * y - 1

    def loss(w):
        margin = sign * (z @ w)
        free = np.r_[w[:-1], 0.0]
        slope = (
            -z.T @ (each * sign / (1 + np.exp(np.clip(margin, -50, 50)))) + RIDGE * free
        )
        return (each * np.logaddexp(0, -margin)).sum() + RIDGE / 2 * free @ free, slope

    signs = [(0, None) if f in ("support", "near") else (None, 0) for f in _FEATURES]
    start = np.zeros(z.shape[1])
    return minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[*signs, (None, None)]
    ).x


def as_weights(w: np.ndarray, threshold: float) -> dict[str, float]:
    "Weights by feature with intercept and threshold (a probability), as they are kept."
    own = {f: v for f, v in zip(_FEATURES, w) if abs(v) > 1e-6}
    chance = np.floor(1_000 / (1 + np.exp(-threshold))) / 1_000  # equal scores pass
    told = own | {"intercept": w[-1], "threshold": chance}
    return {k: round(float(v), 4) for k, v in told.items()}


def as_kept(weights: Mapping[str, float]) -> tuple[np.ndarray, float]:
    "Weights that were kept, and the log-odds of their threshold."
    least = weights["threshold"]
    own = [weights.get(f, 0.0) for f in (*_FEATURES, "intercept")]
    return np.array(own), float(np.log(least / (1 - least)))


@lru_cache
def rated_answers() -> list[Rated]:
    "People's rated answers, with the passages that they came from."
    some = read_ratings(find_rated_file(data()))
    return [
        (
            a.task.conversation_id,
            a.system,
            a.answer,
            tuple(p.text for p in a.task.contexts),
            float(np.median(a.ratings["faithfulness"])) > 2,
        )
        for a in some
        if a.system != "reference" and a.task.contexts
    ]


@lru_cache
def synthetic() -> list[Draft]:
    "MTRAG-S answers of answerable tasks."
    some = (d for d in synthetic_drafts() if d.gold.answerability in TO_ANSWER)
    return [d for d in some if not d.refused and d.texts]


def sentences_of(kind: str, answer: str, passages: Sequence[str]) -> list[Planted]:
    "The sentences of an answer that claim something, as true claims."
    claims = filter(claims_something, sentences(answer))
    return [Planted(kind, s, True, tuple(passages)) for s in claims]


def drawn(half: int) -> list[Draft]:
    "MTRAG-S answers of a half."
    mine = _halves(d.talk for d in synthetic())[half]
    return random.Random(half).sample([d for d in synthetic() if d.talk in mine], HALF)


def real_sentences(half: int) -> list[Planted]:
    "Sentences of answers that are faithful by people or by RL_F, and of the sample's targets."
    mine = _halves(r[0] for r in rated_answers())[half]
    out = []
    unanimous = {
        (a.task.conversation_id, a.answer)
        for a in read_ratings(find_rated_file(data()))
        if min(a.ratings["faithfulness"]) == 4
    }
    for talk, _, answer, passages, _ in rated_answers():
        if talk in mine and (talk, answer) in unanimous:
            out += sentences_of("rated answers", answer, passages)
    good = [d for d in drawn(half) if d.official["RL_F"] > 0.999]
    for d in good[:ANSWERS]:
        out += sentences_of("answers of MTRAG-S", d.answer, d.texts)
    known = read_benchmark(sample_dir() / "reference.jsonl", contexts=True)
    mine = _halves(t.conversation_id for t in known.tasks)[half]
    for t in known.tasks:
        if t.conversation_id in mine and t.contexts:
            texts = [p.text for p in t.contexts]
            out += sentences_of(
                "targets of the sample", known.gold[t.id].targets[0], texts
            )
    return out


def claims_of_half(half: int) -> dict[str, list[Planted]]:
    "Where they come from -> claims."
    mine = _halves(d.talk for d in synthetic())[half]
    texts = defaultdict(set)
    for d in synthetic():
        if d.talk in mine:
            texts[d.task.domain] |= set(d.texts)
    rng = random.Random(half)
    made = []
    for domain in sorted(texts):
        made += planted(rng.sample(sorted(texts[domain]), PASSAGES), half, most=2)
    return {"sample": of_sample(half), "MTRAG": made, "answers": real_sentences(half)}


def matrix(claims: Sequence[Planted]) -> np.ndarray:
    "[claims, _FEATURES]."
    found = (_claim_features(c.text, c.passages) for c in claims)
    return np.array([[f[k][0] for k in _FEATURES] for f in found])


def draft_matrix(rows: Sequence[tuple[str, Sequence[str]]]) -> np.ndarray:
    "[drafts, _FEATURES]; a draft that claims nothing has what speaks for it."
    none = {f: float(f in ("support", "near")) for f in _FEATURES}
    found = (_draft_features(answer, texts) or none for answer, texts in rows)
    return np.array([[f[k] for k in _FEATURES] for f in found])


def alike(claims: Sequence[Planted]) -> np.ndarray:
    "A weight for each claim: both sides alike, and the kinds of a side."
    n = Counter((c.true, c.kind) for c in claims)
    kinds = Counter(true for true, _ in n)
    return np.array(
        [len(claims) / 2 / kinds[c.true] / n[c.true, c.kind] for c in claims]
    )


def fitted_claims() -> tuple[np.ndarray, float]:
    "Weights and threshold (log-odds) from the choosing half."
    claims = [c for some in claims_of_half(0).values() for c in some]
    x = matrix(claims)
    y = np.array([c.true for c in claims])
    each = alike(claims)
    w = signed_logistic(x, y, each)
    order = np.argsort(logit := (x @ w[:-1] + w[-1])[y])
    below = np.cumsum(each[y][order]) / each[y].sum()
    return w, float(logit[order][np.searchsorted(below, 0.1)])


def official_truth(d: Draft) -> bool | None:
    "Whether a draft is faithful by RL_F; None in between or without a score."
    v = d.official.get("RL_F")
    return None if v is None or POOR < v < GOOD else v >= GOOD


def fitted_drafts() -> tuple[np.ndarray, float]:
    "Weights and the threshold with the best balanced accuracy, from the choosing half."
    mine = _halves(r[0] for r in rated_answers())[0]
    rows = [(r[2], r[3], r[4]) for r in rated_answers() if r[0] in mine]
    rows += [
        (d.answer, d.texts, t) for d in drawn(0) if (t := official_truth(d)) is not None
    ]
    x = draft_matrix([r[:2] for r in rows])
    y = np.array([r[2] for r in rows])
    w = signed_logistic(x, y, np.ones(len(y)))
    logit = x @ w[:-1] + w[-1]
    return w, max(
        np.unique(logit.round(2)), key=lambda t: _balanced_accuracy(logit >= t, y)
    )


def rejected_by_kind(w: np.ndarray, least: float) -> dict[str, dict]:
    "Where from -> kind -> share that the check rejects, and what the share of words below .6 does; passages are the clusters."
    out = {}
    for where, claims in claims_of_half(1).items():
        found = matrix(claims) @ w[:-1] + w[-1] < least
        words = np.array([support(c.text, c.passages) < 0.6 for c in claims])
        groups = {
            "all falsehoods": lambda c: not c.true,
            "all that is true": lambda c: c.true,
        }
        groups |= {
            k: lambda c, k=k: c.kind == k for k in dict.fromkeys(c.kind for c in claims)
        }
        out[where] = {}
        for name, belongs in groups.items():
            if not (at := [i for i, c in enumerate(claims) if belongs(c)]):
                continue
            own = [claims[i].passages[0] for i in at]
            rows = {"claims": found, "words": words}
            told = {
                k: mean_interval(v[at].astype(float), own, SOME)
                for k, v in rows.items()
            }
            out[where][name] = {"false": not claims[at[0]].true, **told}
    return out


def licensed(rows: Sequence[Rated], w: np.ndarray, least: float) -> dict:
    "How the draft's score and the share of words tell faithful from unfaithful drafts; conversations are the clusters."
    talks = [r[0] for r in rows]
    y = np.array([r[4] for r in rows])
    own = draft_matrix([(r[2], r[3]) for r in rows]) @ w[:-1] + w[-1]
    words = np.array([support(r[2], r[3]) for r in rows])
    kept = {"claims": own >= least, "words": words >= 0.6}
    return {
        "faithful": int(y.sum()),
        "unfaithful": int((~y).sum()),
        "claims": auroc_interval(own, y, talks),
        "words": auroc_interval(words, y, talks),
        "difference": auroc_interval(own, y, talks, minus=words),
        "faithful kept": {k: float(v[y].mean()) for k, v in kept.items()},
        "unfaithful rejected": {k: float((~v[~y]).mean()) for k, v in kept.items()},
    }


def drafts_to_license() -> dict[str, list[Rated]]:
    "Drafts of conversations that chose nothing."
    mine = _halves(r[0] for r in rated_answers())[1]
    out = {"people, rated answers": [r for r in rated_answers() if r[0] in mine]}

    def official(drafts):
        told = ((d, official_truth(d)) for d in drafts if not d.refused and d.texts)
        return [
            (d.talk, d.model, d.answer, tuple(d.texts), t)
            for d, t in told
            if t is not None
        ]

    out["RL_F, MTRAG-S"] = official(drawn(1))
    chose = _halves(r[0] for r in rated_answers())[0]
    of_target = {}
    for context in ("gold", "elser", "recall"):
        for prompt, words in PROMPTED.items():
            file = f"{'B' if context == 'gold' else 'C'}_dev_gpt-4o_{context}_prompt-{prompt}.jsonl.gz"
            drafts = list(line_drafts(data() / "released/re_call" / file, DEV, words))
            reports = _halves(d.talk for d in drafts)[1] - chose
            some = [d for d in drafts if d.talk in reports]
            out[f"RL_F, GPT-4o, {context}, {words}"] = official(some)
            if prompt == "official" and context != "gold":
                told = {"right": True, "failed": False}
                of_target[f"the target, GPT-4o, {context}, {words}"] = [
                    (d.talk, d.model, d.answer, tuple(d.texts), told[d.ending.verdict])
                    for d in some
                    if not d.refused and d.texts and d.ending.verdict in told
                ]
    return out | of_target


def claims_study() -> None:
    "Weights, thresholds and what they are worth, into data/measured/claims.json."
    weights = {
        "claim": as_weights(*fitted_claims()),
        "draft": as_weights(*fitted_drafts()),
    }
    claim, draft = map(as_kept, weights.values())  # rounded, as they are used
    found = {
        "weights": weights,
        "planted": rejected_by_kind(*claim),
        "drafts": {
            name: licensed(r, *draft) for name, r in drafts_to_license().items()
        },
    }
    write_json(data_dir("measured") / "claims.json", rounded(plain(found), 5))


def show_claims() -> None:
    """Print what the check rejects of planted and true claims, its weights, and how it
    tells drafts apart."""
    claims_told = kept_in("claims")
    rows = [
        [
            where,
            "false" if r["false"] else "true",
            kind,
            r["claims"]["n"],
            span(r["claims"]),
            span(r["words"]),
        ]
        for where, by in claims_told["planted"].items()
        for kind, r in sorted(by.items(), key=lambda kr: not kr[1]["false"])
    ]
    table(["from", "", "kind", "n", "rejected by claims", "words below .6"], rows)
    print()
    print(
        text_table(
            ["weights", *_FEATURES, "intercept", "threshold"],
            [
                [
                    name,
                    *(
                        f"{w[k]:.2f}" if k in w else ""
                        for k in (*_FEATURES, "intercept", "threshold")
                    ),
                ]
                for name, w in claims_told["weights"].items()
            ],
        )
    )
    print()
    rows = [
        [
            name,
            r["faithful"],
            r["unfaithful"],
            *(span(r[k]) for k in ("claims", "words")),
            span(r["difference"], "+"),
            *(
                f"{r[k][w]:.2f}"
                for w in ("claims", "words")
                for k in ("faithful kept", "unfaithful rejected")
            ),
        ]
        for name, r in claims_told["drafts"].items()
    ]
    table(
        [
            "AUROC",
            "good",
            "poor",
            "claims",
            "words",
            "difference",
            "claims: good kept",
            "poor rejected",
            "words: good kept",
            "poor rejected",
        ],
        rows,
    )


def check_findings() -> None:
    "Assert what the study says of the check of claims, of the results that are kept."
    claims_told = kept_in("claims")
    of_planted = claims_told["planted"]
    for where in ("sample", "MTRAG"):
        assert of_planted[where]["all falsehoods"]["claims"]["value"] >= 0.85
        assert of_planted[where]["all that is true"]["claims"]["value"] <= 0.10
        assert of_planted[where]["all falsehoods"]["words"]["value"] < 0.3

    def in_percent(where: str, kind: str, check: str = "claims") -> int:
        return round(100 * of_planted[where][kind][check]["value"])

    assert [
        in_percent(w, "all falsehoods", c)
        for c in ("claims", "words")
        for w in ("sample", "MTRAG")
    ] == [91, 89, 13, 16]
    assert [
        in_percent(w, "all that is true") for w in ("sample", "MTRAG", "answers")
    ] == [
        1,
        1,
        24,
    ]
    assert in_percent("answers", "all that is true", "words") == 16
    assert [in_percent("MTRAG", k) for k in ("name", "clause")] == [81, 83]
    assert in_percent("answers", "targets of the sample") == 36
    for r in claims_told["drafts"].values():
        moved = read_interval(r["difference"])
        assert moved.low is None or moved.low < 0 < moved.high
