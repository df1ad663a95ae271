"""Blame on retrieval, checked by the same turns with gold passages in hand.

RE-call's authors had one model answer the same tasks three times: over ELSER's passages, over those of their own search, and over
the gold passages. `guilty` has the other repairs, and the placebo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from mtrag_nb.evaluation.blame import BlameReport
from mtrag_nb.evaluation.items import Item
from mtrag_nb.evaluation.statistics import Interval
from tests.support.intervals import statistic_interval
from tools.studies.released_files import (
    DEV,
    PROMPTS,
    Arm,
    _place_of,
    answerable,
    answers,
    arm_file,
    benchmark,
    difference,
    has_gold,
    official_scores,
    share,
    span,
    table,
)
from tools.study import kept_in


def became(report: BlameReport, twin: BlameReport, ids: Sequence[str]) -> dict:
    "What became of some turns in a second run."
    came = Counter(twin.turns[i].verdict for i in ids)
    return {
        "turns": len(ids),
        **{k: came[k] for k in ("right", "undecided", "failed")},
        "repaired": share({i: twin.turns[i].verdict == "right" for i in ids}),
        "fails still": share({i: twin.turns[i].verdict == "failed" for i in ids}),
    }


def counterfactual(arm: Arm) -> dict:
    "The turns laid to retrieval, with gold in hand."
    items, report = answers(arm_file(arm))
    twin = answers(arm_file(("gold", arm[1])))[1]
    gold = benchmark(DEV).gold
    blamed = [b.task_id for b in report.failed if b.cause == "gold not found"]
    groups = {
        "all": lambda i: "all",
        "domain": lambda i: items[i].domain,
        "turn": lambda i: _place_of(items[i].turn),
        "label": lambda i: gold[i].answerability,
        "ending": lambda i: "refused" if items[i].verdict == 1 else "answered",
    }
    rows = {}
    for what, of in groups.items():
        for value in sorted({of(i) for i in blamed}):
            some = [i for i in blamed if of(i) == value]
            rows[value if what == "all" else f"{what}: {value}"] = became(
                report, twin, some
            )
    missed = [i for i in answerable() if not has_gold(items[i], gold[i])]
    return {
        "rows": rows,
        "missed": len(missed),
        "right all the same": share(
            {i: report.turns[i].verdict == "right" for i in missed}
        ),
        "other causes": {
            cause: became(
                report, twin, [b.task_id for b in report.failed if b.cause == cause]
            )
            for cause in ("wrong draft from gold", "declined though gold was there")
        },
        "from the run alone": excess(items, report, twin, missed),
        "official": gain_with_gold(arm, blamed),
    }


def excess(
    items: Mapping[str, Item],
    report: BlameReport,
    twin: BlameReport,
    missed: Sequence[str],
) -> dict:
    "The share of the failures of misses above the rate of turns with gold, and what gold did to them in fact."
    ids = answerable()
    gone = set(missed)
    failed = np.array([report.turns[i].verdict == "failed" for i in ids])
    miss = np.array([i in gone for i in ids])

    def attributable(at):
        with_ = failed[at][~miss[at]]
        without = failed[at][miss[at]]
        return None if not without.any() else 1 - with_.mean() / without.mean()

    blamed = [i for i in missed if report.turns[i].verdict == "failed"]
    return {
        "fails, gold missing": share(
            {i: report.turns[i].verdict == "failed" for i in missed}
        ),
        "fails, gold there": share(
            {i: report.turns[i].verdict == "failed" for i in ids if i not in gone}
        ),
        "excess": statistic_interval(attributable, [i.split("<::>")[0] for i in ids]),
        "fails no longer": share(
            {i: twin.turns[i].verdict != "failed" for i in blamed}
        ),
    }


def gain_with_gold(arm: Arm, ids: Sequence[str]) -> dict[str, Interval]:
    "Official scores of some turns with gold in hand, less those without; a wrong refusal is 0 in both."
    names = {m: f"{m}_idk_underspecified" for m in ("RL_F", "RB_llm", "RB_agg")}
    before = official_scores(arm_file(arm))
    after = official_scores(arm_file(("gold", arm[1])))
    return {
        m: difference(
            {i: after[i][key] for i in ids if key in after[i]},
            {i: before[i][key] for i in ids if key in before[i]},
        )
        for m, key in names.items()
    }


def control(prompt: str) -> dict:
    "Turns that ELSER missed and that failed: answered again without gold (where RE-call's search missed it, too), and with it."
    report = answers(arm_file(("elser", prompt)))[1]
    others, second = answers(arm_file(("recall", prompt)))
    third = answers(arm_file(("gold", prompt)))[1]
    gold = benchmark(DEV).gold
    ids = [
        b.task_id
        for b in report.failed
        if b.cause == "gold not found"
        and not has_gold(others[b.task_id], gold[b.task_id])
    ]
    right = [
        {i: float(r.turns[i].verdict == "right") for i in ids} for r in (second, third)
    ]
    return {
        "turns": len(ids),
        "right again without gold": share({i: bool(v) for i, v in right[0].items()}),
        "right with gold": share({i: bool(v) for i, v in right[1].items()}),
        "difference": difference(right[1], right[0]),
    }


def same_misses() -> dict:
    "The turns whose gold ELSER missed: how many each prompt has blamed on retrieval, and both."
    found = {p: answers(arm_file(("elser", p)))[1] for p in PROMPTS}
    sets = {
        p: {b.task_id for b in r.failed if b.cause == "gold not found"}
        for p, r in found.items()
    }
    return {
        **{p: len(s) for p, s in sets.items()},
        "both": len(set.intersection(*sets.values())),
    }


def show_repairs() -> None:
    "Print what gold passages repair, by run and by group."
    told_of = kept_in("released")
    twins = told_of["counterfactual"]
    rows = [
        [
            name,
            r["turns"],
            r["right"],
            r["undecided"],
            r["failed"],
            span(r["repaired"]),
            span(r["fails still"]),
        ]
        for name, part in twins.items()
        for r in [part["rows"]["all"]]
    ]
    table(
        [
            "passages, prompt",
            "gold not found",
            "right",
            "undecided",
            "failed",
            "repaired",
            "fails still",
        ],
        rows,
    )
    print()
    head = [
        "",
        *(
            f"{what}, {p}"
            for p in PROMPTS
            for what in ("turns", "repaired", "fails still")
        ),
    ]
    groups = list(
        dict.fromkeys(g for p in PROMPTS for g in twins[f"elser, {p}"]["rows"])
    )
    rows = []
    for g in groups:
        cells = []
        for p in PROMPTS:
            r = twins[f"elser, {p}"]["rows"].get(g)
            cells += (
                [r["turns"], span(r["repaired"]), span(r["fails still"])]
                if r
                else ["", "", ""]
            )
        rows.append([g, *cells])
    table(head, rows)


def show_beside() -> None:
    """Print what a run says without a twin, official scores of the blamed turns, and
    the control."""
    told_of = kept_in("released")
    twins = told_of["counterfactual"]
    rows = []
    for name, part in twins.items():
        x = part["from the run alone"]
        rows.append(
            [
                name,
                *(
                    span(x[k])
                    for k in (
                        "fails, gold missing",
                        "fails, gold there",
                        "excess",
                        "fails no longer",
                    )
                ),
            ]
        )
    table(
        [
            "passages, prompt",
            "fails, gold missing",
            "fails, gold there",
            "excess",
            "in fact fails no longer",
        ],
        rows,
    )
    print()
    rows = [
        [name, *(span(part["official"][m], "+") for m in ("RB_agg", "RB_llm", "RL_F"))]
        for name, part in twins.items()
    ]
    table(["the blamed turns, gold given less not", "RB_agg", "RB_llm", "RL_F"], rows)
    print()
    rows = [
        [
            p,
            c["turns"],
            *(
                span(c[k])
                for k in ("right again without gold", "right with gold", "difference")
            ),
        ]
        for p, c in told_of["control"].items()
    ]
    table(
        [
            "missed by both searches",
            "turns",
            "right, RE-call's passages",
            "right, gold",
            "difference",
        ],
        rows,
    )
    print()
    print(
        f"ELSER missed {twins['elser, official']['missed']} turns; blamed on retrieval:",
        told_of["same misses"],
    )
    print(
        "right all the same:",
        *(f"{n} {span(p['right all the same'])}" for n, p in twins.items()),
        sep="\n  ",
    )


def check_findings() -> None:
    """Assert what the study says of blame and gold passages, of the results that are
    kept."""
    told_of = kept_in("released")
    twins = told_of["counterfactual"]
    repaired = {
        name: part["rows"]["all"]["repaired"]["value"] for name, part in twins.items()
    }
    still = {
        name: part["rows"]["all"]["fails still"]["value"]
        for name, part in twins.items()
    }
    assert (
        round(min(repaired.values()), 2) == 0.29
        and round(max(repaired.values()), 2) == 0.48
    )
    assert {round(still[f"{c}, official"], 2) for c in ("elser", "recall")} == {0.24}
    assert {round(still[f"{c}, abstain"], 2) for c in ("elser", "recall")} == {
        0.49,
        0.52,
    }
    partly = twins["elser, abstain"]["rows"]["label: PARTIAL"]
    assert partly["turns"] == 22 and partly["failed"] == 17
    assert told_of["same misses"] == {"official": 100, "abstain": 131, "both": 95}
    assert [c["difference"]["low"] > 0 for c in told_of["control"].values()] == [
        True,
        False,
    ]
