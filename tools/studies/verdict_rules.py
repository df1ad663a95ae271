"""Rules that call an answer right or wrong without a large model, held against the official scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from mtrag_nb.core.html import text_table
from mtrag_nb.core.text import support
from mtrag_nb.core.types import TO_ANSWER, TO_REFUSE, Outcome
from mtrag_nb.evaluation.measures import rouge_l, target_recall
from mtrag_nb.evaluation.verdicts import RIGHT, WRONG
from mtrag_nb.evaluation.pairs import Ending, pair_endings
from mtrag_nb.evaluation.statistics import Interval, auroc
from tests.support.intervals import statistic_interval
from tests.support.prices import PriceCurve, price_curve
from tools.studies.scored_answers import Scored
from tools.study import kept_in

JUDGE_RIGHT, JUDGE_WRONG = (
    0.7,
    0.5,
)  # RB_llm; its judge calls 7 and more of 10 the same as the target


def targets_words(answer: str, target: str) -> float:
    "The share of the target's words that the answer has."
    return support(target, [answer])


def between(score: float, wrong: float, right: float) -> str:
    "The verdict of a score between two thresholds."
    return "right" if score >= right else "wrong" if score < wrong else "undecided"


Rule = Callable[[str, str], str]  # answer, target -> right, wrong, undecided


def words(answer: str, target: str) -> str:
    "The first half of the rule of `7_evaluation/04_measures` for long targets: target recall, without facts."
    return between(target_recall(answer, target), WRONG, RIGHT)


def as_before(answer: str, target: str) -> str:
    "The rule that this project had: ROUGE-L with thresholds from rated answers."
    return between(rouge_l(answer, target), 0.15, 0.22)


def both(answer: str, target: str) -> str:
    "The verdict where target recall and ROUGE-L agree, else undecided."
    found = {words(answer, target), as_before(answer, target)}
    return found.pop() if len(found) == 1 else "undecided"


def by_judge(a: Scored) -> str:
    'The verdict by RB_llm; "not judged" without one.'
    llm = a.truth["RB_llm"]
    return "not judged" if np.isnan(llm) else between(llm, JUDGE_WRONG, JUDGE_RIGHT)


def thresholds(
    measure: Callable[[str, str], float], answers: Sequence[Scored]
) -> tuple[
    float, float
]:  # the 5th percentile of the right answers, the 75th of the wrong ones
    "The thresholds of a measure: the 5th percentile of the right answers, the 75th of the wrong ones."
    found: dict[str, list[float]] = {}
    for a in answers:
        found.setdefault(by_judge(a), []).append(measure(a.answer, a.target))
    return float(np.quantile(found["right"], 0.05)), float(
        np.quantile(found["wrong"], 0.75)
    )


def ended(a: Scored, by: str | Rule) -> Ending:  # by: "judge", or a rule
    "An answer as an ending."
    refuses = a.truth["refuses"] == 1 if by == "judge" else a.refuses
    came = by_judge(a) if by == "judge" else by(a.answer, a.target)
    if a.label in TO_REFUSE:
        came = "right" if refuses else "failed"
    elif refuses or came == "wrong":
        came = "failed"
    outcome = Outcome.I_DONT_KNOW if refuses else Outcome.ANSWERED
    return Ending(a.talk, 1, came, None, outcome, a.answer, {}, "", refuses, a.label)


def curves(answers: Sequence[Scored], by: str | Rule) -> dict[str, PriceCurve]:
    "Each pair of systems of a source."
    ends: dict[str, dict[str, Ending]] = {}
    for a in answers:
        ends.setdefault(a.system, {})[a.task] = ended(a, by)
    names = [f"{b} less {a}" for a, b in combinations(ends, 2)]
    pairs = [
        pair_endings(n, ends[a], ends[b])
        for n, (a, b) in zip(names, combinations(ends, 2))
    ]
    return {p.name: price_curve(p) for p in pairs}


def signs(found: Mapping[str, PriceCurve]) -> dict[str, dict]:
    "What curves come to, as it is written down."
    return {
        n: {
            "verdict": c.verdict,
            "shown": c.shown,
            "turns": c.turns,
            "changed": c.changed,
            "ends": {
                f"{p:g}, {s:g}": c.points[p, s]
                for p in (0.0, 1.0)
                for s in (0.05, 0.25)
            },
        }
        for n, c in found.items()
    }


def agree(
    words: Mapping[str, PriceCurve], judge: Mapping[str, PriceCurve]
) -> dict[str, int]:
    "At how many points of the surfaces words and judge show the same sign, opposite ones, or one of the two none."
    count = Counter()
    for n, c in words.items():
        for x in c.points:
            a = c.sign(*x)
            b = judge[n].sign(*x)
            kind = "same sign" if a == b != 0 else "neither" if a == b else "opposite"
            if a * b == 0 and a != b:
                kind = "words alone" if a else "judge alone"
            count[kind] += 1
    return dict(count)


MEASURED_BY = {
    "ROUGE-L": rouge_l,
    "target's words": targets_words,
    "target recall": target_recall,
}


def rules(answers: Sequence[Scored]) -> dict[str, Rule]:  # answers: what chooses
    "Every rule that is tried."
    chosen = {name: thresholds(f, answers) for name, f in MEASURED_BY.items()}

    def rule(name):
        return lambda answer, target: between(
            MEASURED_BY[name](answer, target), *chosen[name]
        )

    tried = {f"{n}, {a:.3f} and {b:.3f}": rule(n) for n, (a, b) in chosen.items()}
    here = f"target recall, {WRONG} and {RIGHT}"
    return {
        "ROUGE-L, as before": as_before,
        **tried,
        here: words,
        "both of these agree": both,
    }


def shares_of(verdicts: Sequence[str]) -> dict[str, float]:
    "The share of each verdict."
    return {
        v: verdicts.count(v) / max(1, len(verdicts))
        for v in ("right", "undecided", "wrong")
    }


def applies(a: Scored) -> bool:
    "Whether right or wrong is in question: an answer, neither officially nor by our rule a refusal, to a question that has one."
    return a.label in TO_ANSWER and a.truth["refuses"] != 1 and not a.refuses


def licence_of_rule(rule: Rule, answers: Sequence[Scored]) -> dict:
    "What a rule says of answers that the judge calls right and wrong, and of pairs of systems."
    some = [a for a in answers if applies(a)]
    told = {
        kind: shares_of([rule(a.answer, a.target) for a in some if by_judge(a) == kind])
        for kind in ("right", "undecided", "wrong")
    }
    return told | {"signs": agree(curves(answers, rule), curves(answers, "judge"))}


def auroc_of(name: str, answers: Sequence[Scored]) -> dict[str, Interval | int]:
    "AUROC of a measure for right against wrong, and what it is above ROUGE-L's."
    some = [a for a in answers if applies(a) and by_judge(a) in ("right", "wrong")]
    right = np.array([by_judge(a) == "right" for a in some])
    talks = [a.talk for a in some]
    own, other = (
        np.array([f(a.answer, a.target) for a in some])
        for f in (MEASURED_BY[name], rouge_l)
    )

    def over(at):
        return auroc(own[at], right[at]) - auroc(other[at], right[at])

    found = {"auroc": statistic_interval(lambda at: auroc(own[at], right[at]), talks)}
    gain = {} if name == "ROUGE-L" else {"gain": statistic_interval(over, talks)}
    return {**found, **gain, "answers": len(some), "wrong": int((~right).sum())}


def padded(answers: Sequence[Scored]) -> dict[str, list[tuple[str, str]]]:
    "What a rule should not reward: row -> (text, target) of answers to questions that have one."
    some = [a for a in answers if a.label in TO_ANSWER and not a.refuses and a.passages]
    wrong = [a for a in some if by_judge(a) == "wrong"]

    def whole(a):
        return " ".join(a.passages)

    def first(a):
        return a.passages[0]

    return {
        "the answers": [(a.answer, a.target) for a in some],
        "and their first passage": [(f"{a.answer} {first(a)}", a.target) for a in some],
        "and all their passages": [(f"{a.answer} {whole(a)}", a.target) for a in some],
        "the first passage alone": [(first(a), a.target) for a in some],
        "all passages alone": [(whole(a), a.target) for a in some],
        "wrong answers": [(a.answer, a.target) for a in wrong],
        "and their first passage ": [
            (f"{a.answer} {first(a)}", a.target) for a in wrong
        ],
        "and all their passages ": [
            (f"{a.answer} {whole(a)}", a.target) for a in wrong
        ],
    }


def licence_of_rules(answers: Sequence[Scored], chose: np.ndarray) -> dict:
    "Each rule by source, on the half that did not choose; and its verdicts on padded answers."
    fit = [
        a for a, c in zip(answers, chose) if c and a.source == "GPT-4o" and applies(a)
    ]
    tried = rules(fit)
    told: dict[str, dict] = {}
    for source in ("MTRAG-S", "GPT-4o"):
        here = [a for a, c in zip(answers, chose) if a.source == source and not c]
        told[source] = {
            name: licence_of_rule(rule, here) for name, rule in tried.items()
        }
        told[source]["measures"] = {name: auroc_of(name, here) for name in MEASURED_BY}
    texts = padded([a for a in here if a.system == "elser_prompt-official"])
    told["padded"] = {
        row: {
            "n": len(some),
            **{n: shares_of([r(*x) for x in some]) for n, r in tried.items()},
        }
        for row, some in texts.items()
    }
    return told


def show_rules() -> None:
    """Print what each rule calls right and wrong answers, and where it shows a sign
    between two systems."""
    licences = kept_in("yardsticks")
    ruled = licences["rule"]
    verdicts = ("right", "wrong")
    kinds = ("same sign", "words alone", "judge alone", "opposite", "neither")
    for source in ("MTRAG-S", "GPT-4o"):
        measures = ruled[source].pop("measures")
        print(f"\n{source}; AUROC of right against wrong, and above ROUGE-L:")
        for m, x in measures.items():
            spans = (str(Interval(**x[k])) for k in ("auroc", "gain") if k in x)
            print(
                f"  {m.ljust(15)}",
                *spans,
                f"{x['answers']} answers, {x['wrong']} wrong",
            )
        rows = [
            [
                name,
                *(r[t][v] for t in verdicts for v in verdicts),
                *(r["signs"].get(k, 0) for k in kinds),
            ]
            for name, r in ruled[source].items()
        ]
        head = [f"{t}: called {v}" for t in verdicts for v in verdicts]
        print(text_table(["", *head, *kinds], rows, 2))


def show_padding() -> None:
    "Print what each rule calls answers with passages behind them."
    ruled = kept_in("yardsticks")["rule"]
    names = [n for n in ruled["padded"]["the answers"] if n != "n"]
    rows = [
        [row, x["n"], *(f"{x[n]['right']:.2f} / {x[n]['wrong']:.2f}" for n in names)]
        for row, x in ruled["padded"].items()
    ]
    print(text_table(["right / wrong", "n", *names], rows))
