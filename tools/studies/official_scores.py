"""What official scores can tell: RB_agg beside its parts, scores by what became of a turn, refusals by rule, copied sentences."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import read_jsonl
from mtrag_nb.core.refusals import idk_by_rule
from mtrag_nb.data.official import official_dir
from mtrag_nb.evaluation.measures import rouge_l
from mtrag_nb.evaluation.statistics import Interval, mean_interval, spearman
from tests.support.intervals import statistic_interval
from tools.studies.ladder import official_of
from tools.studies.released_files import (
    ARMS,
    TEST,
    _mean,
    answerable,
    answers,
    arm_file,
    arm_name,
    benchmark,
    official_scores,
    read_interval,
    released,
    share,
    span,
    table,
)
from tools.study import kept_in


def scored_files() -> dict[str, Path]:
    "The files with official scores, by name."
    teams = sorted((released() / "raguteam").glob("B_dev96_*.jsonl*"))
    return {
        **{f"GPT-4o: {arm_name(a)}": arm_file(a) for a in ARMS},
        **{f"RaguTeam: {p.name[8:].partition('.jsonl')[0]}": p for p in teams},
    }


def parts_of_rb_agg(path: Path) -> dict:
    "RB_agg beside ROUGE-L on the answers of a file (refusals left out)."
    scores = official_scores(path)
    lines = [o for _, o in read_jsonl(path, nan_is_null=True)]
    least = 0
    rows = []
    for o in lines:
        m = scores[o["task_id"]]
        kprec = o["metrics"].get("BertKPrec") or []
        if (
            m.get("idk_eval") == 1
            or not kprec
            or "RB_agg" not in m
            or "RB_llm" not in m
        ):
            continue
        others = (m["BertscoreR"] + 1) / 2, (max(kprec) + 1) / 2
        least += m["RougeL_stemFalse"] <= min(others)
        rows.append((o["task_id"], m["RB_agg"], m["RougeL_stemFalse"], m["RB_llm"]))
    talks = [r[0].split("<::>")[0] for r in rows]
    columns = [np.array([r[k] for r in rows]) for k in (1, 2, 3)]

    def correlation(a, b):
        x = columns[a]
        y = columns[b]
        return statistic_interval(
            lambda at: spearman(x[at], y[at]), talks, 500, within=(-1.0, 1.0)
        )

    return {
        "answers": len(rows),
        "ROUGE-L is the least": least,
        "RB_agg and ROUGE-L": correlation(0, 1),
        "RB_agg and RB_llm": correlation(0, 2),
    }


def refusal_rule() -> dict:
    "The rule that reads refusals against the official verdict."
    out = {}
    for name, path in scored_files().items():
        items = answers(path)[0]
        scores = official_scores(path)
        pairs = {
            i: (idk_by_rule(x.answer) == 1, scores[i]["idk_eval"] == 1)
            for i, x in items.items()
            if "idk_eval" in scores[i]
        }
        out[name] = {
            "answers": len(pairs),
            "official": sum(b for _, b in pairs.values()),
            "rule": sum(a for a, _ in pairs.values()),
            "both": sum(a and b for a, b in pairs.values()),
            "precision": share({i: b for i, (a, b) in pairs.items() if a}),
            "recall": share({i: a for i, (a, b) in pairs.items() if b}),
            "agree": share({i: a == b for i, (a, b) in pairs.items()}),
        }
    return out


def scores_by_cause() -> dict:
    "Mean official scores of the turns of each ending, over the four runs with retrieval."
    found: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    for arm in ARMS:
        if arm[0] == "gold":
            continue
        _, report = answers(arm_file(arm))
        scores = official_scores(arm_file(arm))
        for i, b in report.turns.items():
            for m in ("RL_F", "RB_llm", "RB_agg"):
                if m in scores[i]:
                    found[b.cause or b.verdict][m].append((i, scores[i][m]))
    return {
        cause: {
            "turns": len(by["RB_agg"]),
            **{
                m: mean_interval(
                    [v for _, v in some], [i.split("<::>")[0] for i, _ in some]
                )
                for m, some in by.items()
            },
        }
        for cause, by in sorted(found.items())
    }


def measure_order() -> dict:
    "The six runs by RB_agg, by ROUGE-L, by RB_llm and by right turns: mean over the answerable tasks, a wrong refusal counts 0."
    ids = answerable()
    out = {}
    for arm in ARMS:
        items = answers(arm_file(arm))[0]
        rouge = {
            i: 0.0
            if items[i].verdict == 1
            else official_scores(arm_file(arm))[i]["RougeL_stemFalse"]
            for i in ids
        }
        out[arm_name(arm)] = {
            "ROUGE-L": _mean(rouge),
            **{
                m: _mean(official_of(arm, m, ids, answered=False))
                for m in ("RB_agg", "RB_llm", "RL_F")
            },
        }
    return out


def copied_beside() -> dict[str, Interval]:
    "ROUGE-L of submissions and of copied sentences, answerable questions of the test set."
    gold = {
        i: g for i, g in benchmark(TEST).gold.items() if g.answerability == "ANSWERABLE"
    }
    folder = official_dir(having="mtragun-human/predictions_raguteam") / "mtragun-human"
    out = {}
    for path in sorted((folder / "predictions_raguteam").glob("*.jsonl")):
        lines = {
            o["task_id"]: o["prediction"] for _, o in read_jsonl(path, nan_is_null=True)
        }
        scores = {
            i: rouge_l(lines[i], g.targets[0]) for i, g in gold.items() if i in lines
        }
        out[path.stem] = _mean(scores)
    kept = kept_in("quote")["sets"]["mtragun-human"]
    copied_rouge = kept["scores"]["ANSWERABLE"]["RougeL"]
    return {
        "five copied sentences": Interval(
            copied_rouge["mean"],
            copied_rouge["low"],
            copied_rouge["high"],
            copied_rouge["n"],
            copied_rouge["n"],
        )
    } | out


def show_scores() -> None:
    """Print what RB_agg orders by, the order of the six runs, and the scores of each
    ending."""
    told_of = kept_in("released")
    rows = [
        [
            name,
            r["answers"],
            f"{r['ROUGE-L is the least'] / r['answers']:.3f}",
            span(r["RB_agg and ROUGE-L"]),
            span(r["RB_agg and RB_llm"]),
        ]
        for name, r in told_of["rb_agg"].items()
    ]
    table(
        [
            "answers with passages, not refused",
            "n",
            "ROUGE-L is the least",
            "RB_agg ~ ROUGE-L",
            "RB_agg ~ RB_llm",
        ],
        rows,
    )
    n, least = (
        sum(r[k] for r in told_of["rb_agg"].values())
        for k in ("answers", "ROUGE-L is the least")
    )
    print(f"together: {least} of {n} ({least / n:.3f})")
    print()
    rows = [
        [name, *(span(v) for v in r.values())] for name, r in told_of["order"].items()
    ]
    table(
        [
            "777 answerable tasks, a refusal is 0",
            *next(iter(told_of["order"].values())),
        ],
        rows,
    )
    print()
    rows = [
        [cause, x["turns"], *(span(x[m]) for m in ("RL_F", "RB_llm", "RB_agg"))]
        for cause, x in told_of["scores by cause"].items()
    ]
    table(
        [
            "the four runs with retrieval, scores not conditioned",
            "turns",
            "RL_F",
            "RB_llm",
            "RB_agg",
        ],
        rows,
    )


def show_refusals() -> None:
    "Print the rule that reads refusals against the official verdict."
    told_of = kept_in("released")
    rows = [
        [name, r["official"], r["rule"], r["both"], span(r["agree"])]
        for name, r in told_of["refusal rule"].items()
    ]
    table(["refusals", "official", "by the rule", "both", "agree"], rows)
    of, ours, both = (
        sum(r[k] for name, r in told_of["refusal rule"].items() if "GPT" in name)
        for k in ("official", "rule", "both")
    )
    print(
        f"GPT-4o: precision {both / ours:.3f} ({both} of {ours}), recall {both / of:.3f} ({both} of {of})"
    )


def show_copied() -> None:
    "Print ROUGE-L of copied sentences beside seven submissions."
    told_of = kept_in("released")
    copied_rouge = {name: read_interval(x) for name, x in told_of["copied"].items()}
    table(
        ["ROUGE-L, answerable, MTRAG-UN (399 of 507 tasks)", "tasks", ""],
        [
            [name, x.n, span(told_of["copied"][name])]
            for name, x in copied_rouge.items()
        ],
    )


def check_findings() -> None:
    "Assert what the study says of official scores, of the results that are kept."
    told_of = kept_in("released")
    n, least = (
        sum(r[k] for r in told_of["rb_agg"].values())
        for k in ("answers", "ROUGE-L is the least")
    )
    assert (
        min(r["RB_agg and ROUGE-L"]["value"] for r in told_of["rb_agg"].values()) > 0.99
        and 0.98 < least / n < 0.99
    )
    invented = told_of["scores by cause"]["answered from nothing"]
    assert invented["RL_F"]["value"] > 0.7 and invented["RB_llm"]["value"] > 0.75
    of, ours, both = (
        sum(r[k] for name, r in told_of["refusal rule"].items() if "GPT" in name)
        for k in ("official", "rule", "both")
    )
    assert (of, ours, both) == (799, 768, 748)
    gaps = [
        (r["official"] - r["rule"]) / r["answers"]
        for name, r in told_of["refusal rule"].items()
        if "GPT" in name
    ]
    assert min(gaps) > 0 and max(gaps) < 0.014, gaps
    copied_rouge = {name: read_interval(x) for name, x in told_of["copied"].items()}
    row, *seven = copied_rouge.values()
    assert len(seven) == 7 and row.value < min(x.value for x in seven)
    assert sum(x.low > row.high for x in seven) == 6
