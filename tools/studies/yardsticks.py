"""Measures that ask no large model, held against official scores and people: of answers, of systems, of prices."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from mtrag_nb.core.files import write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import TO_ANSWER, TO_REFUSE, plain
from mtrag_nb.data.official import official_dir
from mtrag_nb.evaluation.verdicts import RIGHT, WRONG
from mtrag_nb.evaluation.pairs import Ending, pair_endings
from mtrag_nb.evaluation.statistics import (
    Interval,
    difference_interval,
    mean_interval,
    spearman,
)
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import EmbedderLike
from tests.support.intervals import statistic_interval
from tests.support.prices import price_curve
from tools.studies.scored_answers import (
    PARTS,
    TRIED,
    Scored,
    choosing,
    measured,
    scored_answers,
)
from tools.studies.verdict_rules import (
    agree,
    curves,
    ended,
    licence_of_rules,
    signs,
    words,
)
from tools.study import kept_in


def answering(
    answers: Sequence[Scored], labels: Sequence[str] = TO_ANSWER
) -> np.ndarray:
    "Answers, officially no refusals, to questions with these labels: [answers] bool."
    return np.array([a.label in labels and a.truth["refuses"] != 1 for a in answers])


def rank_correlation(x: np.ndarray, y: np.ndarray, talks: Sequence[str]) -> Interval:
    "Spearman's correlation with its interval over conversations."
    return statistic_interval(
        lambda at: spearman(x[at], y[at]), talks, 500, within=(-1.0, 1.0)
    )


def ordered_alike(x: np.ndarray, y: np.ndarray, answers: Sequence[Scored]) -> Interval:
    "Of pairs of answers to the same question whose truth `y` differs: the share that `x` orders alike."
    by_task: dict[str, list[int]] = {}
    for n, a in enumerate(answers):
        by_task.setdefault(f"{a.source} {a.task}", []).append(n)
    pairs = [
        p for at in by_task.values() for p in combinations(at, 2) if y[p[0]] != y[p[1]]
    ]
    alike = [0.5 + 0.5 * np.sign((x[i] - x[j]) * (y[i] - y[j])) for i, j in pairs]
    return mean_interval(alike, [answers[i].talk for i, _ in pairs])


def licence_of_answers(
    answers: Sequence[Scored], columns: Mapping[str, np.ndarray], where: np.ndarray
) -> dict[str, dict]:  # source and label -> measure -> truth -> intervals
    "How measures agree with official scores and people, of the answers in `where`."
    out = {}
    groups = {"rated": ("rated", TO_ANSWER)}
    for source in ("MTRAG-S", "GPT-4o"):
        groups |= {
            f"{source}, {label}": (source, (label,)) for label in TO_ANSWER if label
        }
    for name, (source, labels) in groups.items():
        some = (
            where
            & answering(answers, labels)
            & np.array([a.source == source for a in answers])
        )
        at = np.flatnonzero(some)
        if not len(at):
            continue
        here = [answers[i] for i in at]
        talks = [answers[i].talk for i in at]
        truths = ("RB_llm", "RL_F", *(["people"] if source == "rated" else []))
        out[name] = {
            "answers": len(at),
            "conversations": len(set(talks)),
            "measures": {},
        }
        for m, x in columns.items():
            told = {}
            for kind in truths:
                y = np.array([a.truth[kind] for a in here])
                k = np.flatnonzero(~np.isnan(y))  # the judge left a few without a score
                told[kind] = rank_correlation(x[at][k], y[k], [talks[n] for n in k])
                told[f"{kind}, same question"] = ordered_alike(
                    x[at][k], y[k], [here[n] for n in k]
                )
            out[name]["measures"][m] = told
    return out


@dataclass(frozen=True)
class Weighed:
    "A combination of measures."

    parts: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]  # last the intercept

    def of(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        "Its value of each answer, in [0, 1]."
        x = (np.array([columns[p] for p in self.parts]).T - self.mean) / self.scale
        return np.clip(x @ self.weights[:-1] + self.weights[-1], 0.0, 1.0)


def weigh(
    columns: Mapping[str, np.ndarray], parts: Sequence[str], y: np.ndarray
) -> Weighed:
    "Fit RB_llm."
    raw = np.array([columns[p] for p in parts]).T
    mean = raw.mean(0)
    scale = raw.std(0) + 1e-9
    x = np.c_[(raw - mean) / scale, np.ones(len(y))]
    ridge = np.diag([1.0] * len(parts) + [0.0])
    w = np.linalg.solve(x.T @ x + ridge, x.T @ y)
    return Weighed(tuple(parts), *(tuple(v.tolist()) for v in (mean, scale, w)))


def unseen(
    columns: Mapping[str, np.ndarray],
    parts: Sequence[str],
    y: np.ndarray,
    folds: np.ndarray,
) -> float:
    "Rank correlation with `y` where each fold is weighed by the others."
    out = np.zeros(len(y))
    for f in np.unique(folds):
        here = folds == f
        w = weigh({p: columns[p][~here] for p in parts}, parts, y[~here])
        out[here] = w.of({p: columns[p][here] for p in parts})
    return spearman(out, y) or 0.0


def best_combination(
    columns: Mapping[str, np.ndarray],
    y: np.ndarray,
    talks: Sequence[str],
    least: float = 0.005,
) -> Weighed:
    "Parts are dropped one by one while that costs less than `least`, on conversations that were left out."
    folds = np.array(
        [int(hashlib.sha256(t.encode()).hexdigest()[:8], 16) % 5 for t in talks]
    )
    chosen = list(columns)
    best = unseen(columns, chosen, y, folds)
    while len(chosen) > 1:
        tried = {
            p: unseen(columns, [q for q in chosen if q != p], y, folds) for p in chosen
        }
        worst = max(tried, key=tried.get)
        if tried[worst] < best - least:
            break
        chosen.remove(worst)
    return weigh(columns, chosen, y)


def conditioned(
    x: np.ndarray, answers: Sequence[Scored], refuses: np.ndarray
) -> np.ndarray:
    "A measure of turns: as it is for an answer, 0 for a refusal; where there is no answer 1 and 0."
    refuse = np.array([a.label in TO_REFUSE for a in answers])
    return np.where(refuse, refuses.astype(float), np.where(refuses, 0.0, x))


def table_of(
    x: np.ndarray, answers: Sequence[Scored]
) -> tuple[list[str], np.ndarray, list[str]]:
    "Systems, [tasks, systems], and the conversation of each task; of the tasks that all systems have."
    names = list(dict.fromkeys(a.system for a in answers))
    by_task = {}
    for a, v in zip(answers, x):
        by_task.setdefault(a.task, {})[a.system] = v
    full = {t: by for t, by in by_task.items() if len(by) == len(names)}
    full = {t: by for t, by in full.items() if not np.isnan(list(by.values())).any()}
    values = np.array([[by[s] for s in names] for by in full.values()])
    return names, values, [t.split("<::>")[0] for t in full]


def licence_of_systems(
    answers: Sequence[Scored], columns: Mapping[str, np.ndarray], truth: str
) -> dict:  # of one source: plain numbers and intervals
    "How the means of measures order systems, beside the order of the truth."
    official = np.array([a.truth["refuses"] == 1 for a in answers])
    own = np.array([a.refuses for a in answers])
    y = conditioned(np.array([a.truth[truth] for a in answers]), answers, official)
    lost = {a.task for a, v in zip(answers, y) if np.isnan(v)}
    at = [n for n, a in enumerate(answers) if a.task not in lost]
    answers = [answers[n] for n in at]
    own = own[at]
    names, wanted, talks = table_of(y[at], answers)
    pairs = list(combinations(range(len(names)), 2))
    apart_by = {
        (i, j): difference_interval(wanted[:, i] - wanted[:, j], talks)
        for i, j in pairs
    }
    sure = [p for p, d in apart_by.items() if d.low is not None and d.low * d.high > 0]
    out = {
        "systems": len(names),
        "tasks": len(talks),
        "pairs": len(pairs),
        "told apart": len(sure),
    }
    for m, x in columns.items():
        x = conditioned(x[at], answers, own) if m != "words" else x[at]
        _, values, _ = table_of(x, answers)

        def tau(some, v=values):
            return kendalltau(v[some].mean(0), wanted[some].mean(0)).statistic

        means = values.mean(0)
        alike = sum((means[i] - means[j]) * apart_by[i, j].value > 0 for i, j in sure)
        equal = [abs(means[i] - means[j]) for i, j in pairs if (i, j) not in sure]
        found = statistic_interval(tau, talks, resamples=500, within=(-1.0, 1.0))
        out[m] = {
            "tau": found,
            "alike": alike,
            "floor": float(max(equal)) if equal else None,
        }
    return out


def laptop_embedder() -> EmbedderLike:
    "The laptop's embedder."
    return Models(load_settings()).embedder


def rounded(x: object) -> object:
    "Plain data, floats to four places."
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [rounded(v) for v in x]
    x = x.item() if isinstance(x, np.generic) else x
    return round(x, 4) if isinstance(x, float) else x


def priced_style(answers: Sequence[Scored]) -> dict[str, Interval]:
    "What style alone does: the two rated models, whom people rate alike, by right answers less wrong ones, price by price."
    a = "gpt-4o"
    b = "llama-3.1-405b-instruct"
    ends: dict[str, dict[str, Ending]] = {a: {}, b: {}}
    for x in answers:
        if x.source == "rated" and x.label in TO_ANSWER:
            ends[x.system][x.task] = ended(x, words)
    c = price_curve(pair_endings("style", ends[a], ends[b]))
    return {f"{p:g}": i for (p, _), i in c.points.items() if p in (0.0, 0.5, 1.0)}


def measure_licences(
    out: str | Path = "data/measured",
    embedder: EmbedderLike | None = None,
    cache: str = "",
) -> None:
    "Hold measures against official scores and people. The encoder takes a quarter of an hour; `cache`: a file for its vectors."
    data = official_dir("this study", "mtragun-human/predictions_raguteam")
    answers = scored_answers(data)
    columns = measured(
        answers, embedder or laptop_embedder(), Path(cache) if cache else None
    )
    chose = choosing(answers)
    fit = chose & answering(answers) & ~np.isnan([a.truth["RB_llm"] for a in answers])
    y, talks = (
        np.array([f(a) for a in answers])
        for f in (lambda a: a.truth["RB_llm"], lambda a: a.talk)
    )
    own = {p: x[fit] for p, x in columns.items()}
    mix = best_combination({p: own[p] for p in PARTS}, y[fit], talks[fit].tolist())
    singles = {m: spearman(own[m], y[fit]) for m in TRIED}
    best = max(singles, key=singles.get)
    tried = {m: columns[m] for m in TRIED} | {
        "words": columns["log words"],
        "combination": mix.of(columns),
    }
    told = {
        "chosen on": {"answers": int(fit.sum()), "conversations": len(set(talks[fit]))},
        "best single": best,
        "combination": mix,
        "answers": licence_of_answers(answers, tried, ~chose),
        "systems": {},
        "prices": {},
    }
    for source in ("MTRAG-S", "GPT-4o"):
        at = np.flatnonzero(~chose & np.array([a.source == source for a in answers]))
        here = [answers[i] for i in at]
        own = {m: x[at] for m, x in tried.items()}
        told["systems"][source] = {
            t: licence_of_systems(here, own, t) for t in ("RB_llm", "RL_F")
        }
        by = {"words": curves(here, words), "judge": curves(here, "judge")}
        told["prices"][source] = {k: signs(c) for k, c in by.items()} | {
            "agree": agree(**by)
        }
    told["style"], told["rule"] = (
        priced_style(answers),
        licence_of_rules(answers, chose),
    )
    write_json(Path(out) / "yardsticks.json", rounded(plain(told)))
    print(len(answers), "answers;", best, singles[best], mix.parts)


def span(i: Mapping) -> str:
    "A kept interval as text."
    return "–" if i["value"] is None else str(Interval(**i))


def show_answers() -> None:
    "Print how measures of an answer agree with official scores and people."
    licences = kept_in("yardsticks")
    print("chosen on", licences["chosen on"], "best single:", licences["best single"])
    print("combination:", ", ".join(licences["combination"]["parts"]))
    for name, group in licences["answers"].items():
        truths = list(next(iter(group["measures"].values())))
        rows = [
            [m, *(span(told[t]) for t in truths)]
            for m, told in group["measures"].items()
        ]
        print(
            f"\n{name}: {group['answers']} answers of {group['conversations']} conversations"
        )
        print(text_table(["", *truths], rows))


def show_systems() -> None:
    "Print how measures order systems, beside the official scores."
    licences = kept_in("yardsticks")
    for source, by_truth in licences["systems"].items():
        for truth, told in by_truth.items():
            count = {k: told[k] for k in ("systems", "tasks", "pairs", "told apart")}
            rows = [
                [
                    m,
                    span(x["tau"]),
                    f"{x['alike']} of {count['told apart']}",
                    x["floor"],
                ]
                for m, x in told.items()
                if isinstance(x, dict)
            ]
            print(f"\n{source}, by {truth}:", *(f"{n} {k}" for k, n in count.items()))
            print(text_table(["", "tau", "ordered alike", "floor"], rows))


def show_prices() -> None:
    """Print the verdicts on pairs of systems over prices and shares, by words and by
    the judge."""
    licences = kept_in("yardsticks")
    for source, told in licences["prices"].items():
        rows = [
            [n, c["changed"], c["verdict"], told["judge"][n]["verdict"]]
            for n, c in told["words"].items()
        ]
        print(f"\n{source}; of all points: {told['agree']}")
        print(text_table(["", "conversations", "by words", "by the judge"], rows))
    print("\nstyle alone:", {p: span(i) for p, i in licences["style"].items()})


def check_findings() -> None:
    "Assert what the study says of measures, of the results that are kept."
    licences = kept_in("yardsticks")
    ruled = licences["rule"]
    names = [n for n in ruled["padded"]["the answers"] if n != "n"]
    style = [abs(licences["style"][p]["value"]) for p in "01"]
    assert [round(x, 3) for x in style] == [0.019, 0.026]
    by_llm = {s: told["RB_llm"] for s, told in licences["systems"].items()}
    alike = {
        m: tuple(by_llm[s][m]["alike"] for s in by_llm)
        for m in ("ROUGE-L", "target's words", "cosine", "target recall")
    }
    assert alike["ROUGE-L"] == (4, 6) and {
        x for m, x in alike.items() if m != "ROUGE-L"
    } == {(6, 11)}
    assert [by_llm[s]["told apart"] for s in by_llm] == [8, 11]
    assert [round(by_llm[s]["ROUGE-L"]["floor"], 3) for s in by_llm] == [0.022, 0.091]

    def found_of(m, truth):
        groups = (licences["answers"][f"{s}, ANSWERABLE"]["measures"] for s in by_llm)
        return [round(g[m][truth]["value"], 2) for g in groups]

    assert found_of("ROUGE-L", "RB_llm") == [0.54, 0.47]
    assert found_of("ROUGE-L recall", "RB_llm") == [0.6, 0.55]
    assert found_of("target's words", "RB_llm") == [0.61, 0.55]
    assert found_of("target recall", "RB_llm") == [0.6, 0.54]
    pairs = "RB_llm, same question"
    assert [found_of(m, pairs) for m in ("ROUGE-L", "target's words", "words")] == [
        [0.57, 0.64],
        [0.65, 0.72],
        [0.61, 0.66],
    ]
    assert found_of("K-precision", "RL_F") == [0.4, 0.41]
    points = [told["agree"] for told in licences["prices"].values()]
    assert points[0] == {"judge alone": 196, "same sign": 72, "neither": 282}
    assert points[1] == {
        "same sign": 496,
        "words alone": 29,
        "judge alone": 47,
        "neither": 253,
    }
    before = ruled["GPT-4o"]["ROUGE-L, as before"]["signs"]
    assert (before["same sign"], before["words alone"], before["opposite"]) == (
        410,
        109,
        15,
    )
    assert ruled["MTRAG-S"]["ROUGE-L, as before"]["signs"] == {
        "judge alone": 268,
        "neither": 282,
    }
    chosen = next(
        n
        for n in names
        if n.startswith("target recall") and not n.endswith(f"and {RIGHT}")
    )
    exact = [float(x) for x in chosen.split(", ")[1].split(" and ")]
    assert np.allclose(exact, [WRONG, RIGHT], atol=0.006)
