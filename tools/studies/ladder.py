"""Six runs of GPT-4o over the same tasks, paired by task: what retrieval and a prompt that demands abstention cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.figure import Figure

from mtrag_nb.evaluation.statistics import Interval, compare_all
from mtrag_nb.show.figures import note_origin, shares_figure
from tests.support.intervals import statistic_interval
from tools.studies.released_files import (
    ARMS,
    CONTEXTS,
    DEV,
    PROMPTS,
    RATES,
    Arm,
    _mean,
    answerable,
    answers,
    arm_file,
    arm_name,
    benchmark,
    difference,
    has_gold,
    official_scores,
    share,
    span,
    table,
)
from tools.study import kept_in


def rates(arm: Arm, ids: Iterable[str]) -> dict[str, dict[str, float]]:
    "Rate -> task id -> 0 or 1: of an answerable question."
    items, report = answers(arm_file(arm))
    refused = {i: float(items[i].verdict == 1) for i in ids}
    came = {i: report.turns[i].verdict for i in refused}
    return {
        "right": {i: float(c == "right") for i, c in came.items()},
        "failed": {i: float(c == "failed") for i, c in came.items()},
        "refused": refused,
        "wrong answer": {
            i: float(c == "failed" and not refused[i]) for i, c in came.items()
        },
    }


def official_of(
    arm: Arm, measure: str, ids: Iterable[str], answered: bool
) -> dict[str, float]:
    "An official score of some tasks; of answers only, or with a wrong refusal as 0."
    scores = official_scores(arm_file(arm))
    items = answers(arm_file(arm))[0]
    key = measure if answered else f"{measure}_idk_underspecified"
    return {
        i: scores[i][key]
        for i in ids
        if key in scores[i] and not (answered and items[i].verdict == 1)
    }


def judged_rates(arm: Arm, ids: Sequence[str]) -> dict[str, dict[str, float]]:
    "Right (RB_llm of .7 or more) and wrong answers (below .5) by the official scores, as `rates`; a refusal is neither."
    found = official_of(arm, "RB_llm", ids, answered=True)
    return {
        "right": {i: float(found.get(i, 0.6) >= 0.7) for i in ids},
        "wrong answer": {i: float(found.get(i, 0.6) < 0.5) for i in ids},
    }


STEPS = {  # what is compared: with and without
    **{f"ELSER for gold, {p}": (("elser", p), ("gold", p)) for p in PROMPTS},
    **{f"RE-call for gold, {p}": (("recall", p), ("gold", p)) for p in PROMPTS},
    **{f"abstention prompt, {c}": ((c, "abstain"), (c, "official")) for c in CONTEXTS},
}


def ladder() -> dict:
    "Rates and official scores of the six runs, and the steps between them under one correction."
    ids = answerable()
    gold = benchmark(DEV).gold
    nothing = [i for i, g in gold.items() if g.answerability == "UNANSWERABLE"]
    rows = {}
    for arm in ARMS:
        found = rates(arm, ids)
        items = answers(arm_file(arm))[0]
        rows[arm_name(arm)] = {
            **{k: share({i: bool(x) for i, x in v.items()}) for k, v in found.items()},
            "refused, unanswerable": share({i: items[i].verdict == 1 for i in nothing}),
            "unanswerable with passages": sum(bool(items[i].contexts) for i in nothing),
            "endings": endings(arm, ids),
            "faithful": _mean(official_of(arm, "RL_F", ids, answered=True)),
            "RB_llm": _mean(official_of(arm, "RB_llm", ids, answered=False)),
            "RB_agg": _mean(official_of(arm, "RB_agg", ids, answered=False)),
        }
    judged = {
        name: {
            m: difference(judged_rates(a, ids)[m], judged_rates(b, ids)[m])
            for m in RATES[::3]
        }
        for name, (a, b) in STEPS.items()
    }
    sizes = {"tasks": len(ids), "unanswerable": len(nothing)}
    return {**sizes, "rows": rows, "steps": steps(ids), "by RB_llm": judged}


def endings(arm: Arm, ids: Sequence[str]) -> dict[str, int]:
    "What became of the answerable turns of a run; those laid to retrieval by what they are with gold in hand."
    report = answers(arm_file(arm))[1]
    twin = answers(arm_file(("gold", arm[1])))[1]
    found: Counter = Counter()
    for i in ids:
        b = report.turns[i]
        missed = b.cause == "gold not found"
        found[
            f"{b.cause}: {twin.turns[i].verdict} with gold"
            if missed
            else b.cause or b.verdict
        ] += 1
    return dict(found)


def steps(ids: Sequence[str]) -> dict:
    "Each step with its differences; p by sign flips over conversations, Holm over all of them."
    out = {}
    tests = {}
    for name, (a, b) in STEPS.items():
        some = {m: (rates(a, ids)[m], rates(b, ids)[m]) for m in RATES}
        some["faithful, where both answer"] = (
            official_of(a, "RL_F", ids, answered=True),
            official_of(b, "RL_F", ids, answered=True),
        )
        some["RB_llm"] = tuple(
            official_of(x, "RB_llm", ids, answered=False) for x in (a, b)
        )
        out[name] = {m: {"difference": difference(*pair)} for m, pair in some.items()}
        for m, (x, y) in some.items():
            both = [i for i in x if i in y]
            tests[f"{name}; {m}"] = {
                "with": {i: x[i] for i in both},
                "without": {i: y[i] for i in both},
            }
    talks = {i: i.split("<::>")[0] for i in ids}
    for c in compare_all(tests, talks):
        name, m = c.measure.split("; ")
        out[name][m] |= {"p": c.pairs[0].p, "p holm": c.pairs[0].p_holm}
    return out


def by_gold_found() -> dict:
    "What ELSER's passages cost where they hold all, some and none of the gold."
    gold = benchmark(DEV).gold
    out = {}
    for context in ("elser", "recall"):
        for prompt in PROMPTS:
            items = answers(arm_file((context, prompt)))[0]
            parts = {"all": [], "some": [], "none": []}
            for i in answerable():
                x = has_gold(items[i], gold[i])
                parts["all" if x == 1 else "some" if x else "none"].append(i)
            out[f"{context}, {prompt}"] = {
                part: {
                    "tasks": len(ids),
                    **{
                        m: difference(
                            rates((context, prompt), ids)[m],
                            rates(("gold", prompt), ids)[m],
                        )
                        for m in RATES
                    },
                }
                for part, ids in parts.items()
            }
    return out


def break_even(context: str) -> Interval:
    "The share of unanswerable questions from which on the abstention prompt gives more right turns than the other."
    ids = answerable()
    gold = benchmark(DEV).gold
    nothing = [i for i, g in gold.items() if g.answerability == "UNANSWERABLE"]
    right = [answers(arm_file((context, p)))[1].turns for p in ("official", "abstain")]
    change = {
        i: (right[1][i].verdict == "right") - (right[0][i].verdict == "right")
        for i in (*ids, *nothing)
    }
    names = list(change)
    is_nothing = np.array([i in set(nothing) for i in change])
    values = np.array([change[i] for i in names], float)

    def share_at(at):
        some = values[at][~is_nothing[at]]
        none = values[at][is_nothing[at]]
        if not len(some) or not len(none):
            return None
        loss = -some.mean()
        gain = none.mean()
        return loss / (loss + gain) if loss + gain > 0 else None

    return statistic_interval(share_at, [i.split("<::>")[0] for i in names])


ENDINGS = {  # in drawing order: colour, and the words of the picture
    "right": ("#009E73", "right"),
    "undecided": ("#c9c9c9", "undecided"),
    "gold not found: right with gold": (
        "#0072B2",
        "gold missing; right once it is given",
    ),
    "gold not found: undecided with gold": (
        "#56B4E9",
        "gold missing; undecided once given",
    ),
    "gold not found: failed with gold": (
        "#E69F00",
        "gold missing; fails with gold, too",
    ),
    "declined though gold was there": ("#CC79A7", "refused with gold in hand"),
    "wrong draft from gold": ("#D55E00", "wrong answer with gold in hand"),
}
SHORT = {"gold": "gold passages", "elser": "ELSER", "recall": "RE-call"}


def picture() -> dict:
    "What became of the answerable turns of the six runs, in the picture's words and colours."
    counts = {}
    for context, prompt in ARMS:
        found = endings((context, prompt), answerable())
        name = SHORT[context] + ", told to abstain" * (prompt == "abstain")
        counts[name] = {words: found.get(k, 0) for k, (_, words) in ENDINGS.items()}
    return {
        "counts": counts,
        "colours": {words: colour for colour, words in ENDINGS.values()},
    }


def ending_figure() -> Figure:
    "What became of the answerable turns of the six runs."
    picture = kept_in("released")["picture"]
    what = "share of the answerable turns, GPT-4o"
    figure = shares_figure(picture["counts"], picture["colours"], what)
    return note_origin(figure, "released.json")


def show_ladder() -> None:
    "Print rates and official scores of the six runs, and the steps between them."
    told_of = kept_in("released")
    steps_of = told_of["ladder"]
    rows = [
        [
            name,
            *(
                span(r[k])
                for k in (
                    *RATES,
                    "refused, unanswerable",
                    "faithful",
                    "RB_llm",
                    "RB_agg",
                )
            ),
        ]
        for name, r in steps_of["rows"].items()
    ]
    print(
        f"{steps_of['tasks']} answerable tasks, {steps_of['unanswerable']} unanswerable, 110 conversations"
    )
    table(
        [
            "passages, prompt",
            *RATES,
            "refused, of unanswerable",
            "RL_F of answers",
            "RB_llm",
            "RB_agg",
        ],
        rows,
    )
    print()
    rows = [
        [
            name,
            *(
                span(x["difference"], "+") + ("*" if x["p holm"] < 0.05 else "")
                for x in some.values()
            ),
        ]
        for name, some in steps_of["steps"].items()
    ]
    table(["step", *next(iter(steps_of["steps"].values()))], rows)
    print("* p < .05 by sign flips over conversations, Holm over all of this table")
    print()
    rows = [
        [f"{name}: {part} of the gold", x["tasks"], *(span(x[m], "+") for m in RATES)]
        for name, parts in told_of["by gold found"].items()
        for part, x in parts.items()
    ]
    table(["retrieved for gold, where it holds", "tasks", *RATES], rows)
    print()
    table(
        ["by RB_llm (.7 and more right, below .5 wrong)", "right", "wrong answer"],
        [
            [n, *(span(x, "+") for x in s.values())]
            for n, s in steps_of["by RB_llm"].items()
        ],
    )
    print()
    for c, x in told_of["break even"].items():
        print(
            f"share of unanswerable questions from which the abstention prompt is right more often, {c}: {span(x)}"
        )


def check_findings() -> None:
    "Assert what the study says of the ladder, of the results that are kept."
    told_of = kept_in("released")
    steps_of = told_of["ladder"]
    ladder_rows = steps_of["rows"]
    ladder_steps = steps_of["steps"]

    def ladder_step(name: str, what: str) -> float:
        return round(ladder_steps[name][what]["difference"]["value"], 2)

    assert [
        ladder_step(f"{c} for gold, {p}", "right")
        for p in PROMPTS
        for c in ("ELSER", "RE-call")
    ] == [-0.19, -0.2, -0.14, -0.13]
    assert all(
        ladder_steps[f"{c} for gold, {p}"]["right"]["p holm"] < 0.05
        for c in ("ELSER", "RE-call")
        for p in PROMPTS
    )
    held = told_of["by gold found"]
    loss = {
        p: {k: x["tasks"] * x["right"]["value"] for k, x in held[f"elser, {p}"].items()}
        for p in PROMPTS
    }
    shares = {
        p: {k: round(v / sum(x.values()), 2) for k, v in x.items()}
        for p, x in loss.items()
    }
    assert shares["official"] == {"all": 0.1, "some": 0.35, "none": 0.55}, shares
    assert ladder_rows["gold, abstain"]["unanswerable with passages"] == 0
    assert ladder_rows["elser, abstain"]["unanswerable with passages"] == 55
    assert ladder_step("abstention prompt, gold", "refused") == 0.13
    assert ladder_step("abstention prompt, gold", "wrong answer") == 0.03
    prompts = {n: s for n, s in steps_of["by RB_llm"].items() if "prompt" in n}
    assert [round(x["right"]["value"], 2) for x in prompts.values()] == [
        -0.2,
        -0.12,
        -0.1,
    ]
    assert all(
        x["wrong answer"]["low"] < 0 < x["wrong answer"]["high"]
        for x in prompts.values()
    )
    judged_alike = ladder_steps["RE-call for gold, abstain"]["RB_llm"]["difference"]
    assert judged_alike["low"] < 0 < judged_alike["high"]
