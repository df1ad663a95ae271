"""Checks of a draft that ask no language model, and how well they tell right drafts from wrong ones.

Words: those of the answer in the passages (what `stages.check_by_support` and K-precision count), the same in company
(`tests/support/company`), the weakest sentence, and how far question, answer and passages share words. By MiniLM: cosines between
question, passages and answer, how far the best passage is ahead of the second, and the gate that asks back. With other drafts at
hand: how many words they share with this one. Length is a control. Last a combination, logistic, fitted for each system on the
choosing half. Where a file carries official scores, truth is also by RB_llm and RL_F: from .8 on good, up to .6 poor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from sklearn.linear_model import LogisticRegression

from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.text import content_words, sentences, support
from mtrag_nb.evaluation.pairs import right_and_wrong
from mtrag_nb.evaluation.calibrate import _halves

from mtrag_nb.evaluation.statistics import auroc_interval, mean_interval
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import EmbedderLike
from tests.support.clarity import features, underspecified
from tests.support.company import contextual_support
from tools.studies.drafts import Draft, Drafts, others, pool, systems

SUPPORT = "support (K-precision)"
AGREEMENT = "agreement of drafts"
COMBINED = "combination"
NONE = "no check: all or none"  # a control: every draft is replaced, or none


def weakest(d: Draft) -> float:
    "The support of the sentence that the passages support least."
    return min((support(s, d.texts) for s in sentences(d.answer)), default=1.0)


def f1(a: frozenset, b: frozenset) -> float:
    "The F1 of two sets of words; 0 without a common one."
    both = len(a & b)
    return 2 * both / (len(a) + len(b)) if both else 0.0


@lru_cache(None)
def words_in(text: str) -> frozenset[str]:
    "The content words of a text."
    return frozenset(content_words(text))


def agreement(d: Draft, of: str) -> float:
    "Words shared with the other drafts of the pool, on average; a refusal shares none."
    others = [o for m, o in pool(of).get(d.task.id, {}).items() if m != d.model]
    shared = [
        0.0 if o.refused else f1(words_in(d.answer), words_in(o.answer)) for o in others
    ]
    return float(np.mean(shared)) if shared else 0.0


BY_WORDS: dict[str, Callable[[Draft], float]] = {
    SUPPORT: lambda d: support(d.answer, d.texts),
    "contextual support": lambda d: contextual_support(d.answer, d.texts),
    "weakest sentence": weakest,
    "question in passages": lambda d: support(d.task.question, d.texts),
    "question in answer": lambda d: support(d.task.question, [d.answer]),
    "shortness (control)": lambda d: -float(len(d.answer.split())),
}


def by_cosine(d: Draft, embedder: EmbedderLike) -> dict[str, float]:
    "What an encoder says of a draft; zeros without passages."
    question = embedder.encode([d.task.question], query=True)[0]
    answer = embedder.encode([d.answer])[0]
    passages = embedder.encode(d.texts) if d.texts else np.zeros((1, len(answer)))
    near = sorted((float(x) for x in passages @ question), reverse=True)
    titles = [t.partition("\n")[0] for t in d.texts]
    told = features(
        d.task.question, d.task.history, embedder, near if d.texts else (), titles
    )
    return {
        "answer near a passage": float((passages @ answer).max()),
        "question near a passage": near[0],
        "margin": near[0] - near[1] if len(near) > 1 else 0.0,
        "answer near the question": float(answer @ question),
        "clarity (asks back)": 1 - underspecified(told),
    }


@lru_cache(1)
def encoder() -> EmbedderLike:
    "The laptop's embedder."
    return Models(load_settings()).embedder


@lru_cache(None)
def scores(name: str) -> dict[str, np.ndarray]:
    "Check -> [drafts of a system] its scores; of refusals too, which no check is asked about."
    s = systems()[name]
    found = {check: [of(d) for d in s.drafts] for check, of in BY_WORDS.items()}
    if s.pool == "GPT-4.1":
        near = [by_cosine(d, encoder()) for d in s.drafts]
        found |= {check: [x[check] for x in near] for check in near[0]}
    if others(s.pool):
        found[AGREEMENT] = [agreement(d, s.pool) for d in s.drafts]
    columns = {check: np.array(values, float) for check, values in found.items()}
    if (own := combination(s, columns)) is not None:
        columns[COMBINED] = own
    return columns | {NONE: np.zeros(len(s.drafts))}


@lru_cache(None)
def choosing(pool_name: str) -> set[str]:
    "The conversations of a pool that choose."
    return _halves(
        d.talk for s in systems().values() if s.pool == pool_name for d in s.drafts
    )[0]


def chosen_half(s: Drafts) -> np.ndarray:
    "[drafts] True: in the half of the conversations that chooses."
    return np.array([d.talk in choosing(s.pool) for d in s.drafts])


def decided(s: Drafts) -> np.ndarray:
    "[drafts] 1 right, 0 wrong, NaN: a refusal, or between the two."
    told = {"right": 1.0, "failed": 0.0}
    return np.array(
        [np.nan if d.refused else told.get(d.ending.verdict, np.nan) for d in s.drafts],
        float,
    )


RIDGE = 1.0  # strength of the penalty: with a few features and hundreds of drafts it hardly matters


def fit_logistic(x: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    "Weights of a ridge-penalized logistic regression, then its intercept, which is free."
    model = LogisticRegression(C=1 / strength, tol=1e-8, max_iter=10_000).fit(x, y)
    return np.r_[model.coef_[0], model.intercept_]


def combination(s: Drafts, columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
    "Log-odds of being right by all checks together, weights from the choosing half; None with fewer than 10 wrong or right there."
    y = decided(s)
    x = np.array(list(columns.values())).T
    fit = chosen_half(s) & ~np.isnan(y)
    if min((y[fit] == 1).sum(), (y[fit] == 0).sum()) < 10:
        return None
    z = (x - x[fit].mean(0)) / (x[fit].std(0) + 1e-9)
    w = fit_logistic(z[fit], y[fit] == 1, RIDGE)
    return z @ w[:-1] + w[-1]


GOOD, POOR = 0.8, 0.6  # RB_llm and RL_F: good from the one on, poor up to the other


def truths(s: Drafts) -> dict[str, np.ndarray]:
    "Yardstick -> [drafts] 1 good, 0 poor, NaN not told or a refusal."

    def official(d, k):
        v = None if d.refused else d.official.get(k)
        return np.nan if v is None or POOR < v < GOOD else float(v >= GOOD)

    own = {"target": decided(s)}
    for k in ("RB_llm", "RL_F"):
        own[k] = np.array([official(d, k) for d in s.drafts])
    return {k: y for k, y in own.items() if min((y == 1).sum(), (y == 0).sum()) >= 5}


def told_apart(s: Drafts) -> dict:
    "Yardstick -> check -> AUROC over all conversations; of the combination, and of support beside it, over the reporting half."
    talks = np.array([d.talk for d in s.drafts])
    first = chosen_half(s)
    out = {}
    for yardstick, y in truths(s).items():
        some = ~np.isnan(y)
        rest = ~np.isnan(y) & ~first
        rows = {
            check: auroc_interval(x[some], y[some] == 1, talks[some])
            for check, x in scores(s.name).items()
            if check not in (COMBINED, NONE)
        }
        if AGREEMENT in rows:
            of = (y[some] == 1, talks[some])
            both = [scores(s.name)[c][some] for c in (AGREEMENT, SUPPORT)]
            rows["agreement less support"] = auroc_interval(both[0], *of, minus=both[1])
        if (own := scores(s.name).get(COMBINED)) is not None and 0 < y[
            rest
        ].sum() < rest.sum():
            base = scores(s.name)[SUPPORT]
            of_rest = (y[rest] == 1, talks[rest])
            rows[COMBINED] = auroc_interval(own[rest], *of_rest)
            rows["combination less support"] = auroc_interval(
                own[rest], *of_rest, minus=base[rest]
            )
        out[yardstick] = {
            "right": int(y[some].sum()),
            "wrong": int((1 - y[some]).sum()),
            **rows,
        }
    return out


NEAR = 40  # conversations of which the encoder reads ELSER's passages; all of GPT-4.1


def nearness(s: Drafts) -> dict:
    "AUROC of the encoder's checks, and of support beside them, over a drawn sample of conversations."
    talks = sorted({d.talk for d in s.drafts})
    some = set(random.Random(0).sample(talks, NEAR))
    at = [k for k, d in enumerate(s.drafts) if d.talk in some]
    near = [by_cosine(s.drafts[k], encoder()) for k in at]
    base = scores(s.name)
    columns = {c: np.array([x[c] for x in near]) for c in near[0]}
    columns |= {c: base[c][at] for c in (SUPPORT, "contextual support")}
    own = [s.drafts[k].talk for k in at]
    out = {}
    for yardstick, y in truths(s).items():
        told = np.flatnonzero(~np.isnan(y[at]))
        labels = y[at][told] == 1
        of = [own[k] for k in told]
        out[yardstick] = {
            c: auroc_interval(x[told], labels, of) for c, x in columns.items()
        }
    return out


def risk(
    s: Drafts, check: str, coverages: Sequence[float] = (1.0, 0.9, 0.8, 0.5)
) -> dict:
    "Of the drafts of the reporting half that a check puts first: the share that is wrong (between right and wrong: half)."
    at = np.array([not d.refused for d in s.drafts]) & ~chosen_half(s)
    drafts = [d for d, x in zip(s.drafts, at) if x]
    wrong = np.array([right_and_wrong(d.ending)[1] for d in drafts])
    order = np.argsort(-scores(s.name)[check][at], kind="stable")
    out = {}
    for c in coverages:
        first = order[: max(1, round(c * len(order)))]
        out[f"{c:g}"] = mean_interval(
            wrong[first].tolist(), [drafts[i].talk for i in first]
        )
    return out
