"""Verdicts by target recall and by the kind of target, on answers that were written with their truth."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scipy.stats import binomtest

from mtrag_nb.core.files import data_dir, read_json, read_jsonl, write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.evaluation.measures import target_recall
from mtrag_nb.evaluation.verdicts import RIGHT, WRONG, best_by_target
from tools.studies.yardsticks import rounded
from tools.study import kept_in


def by_recall(case: Mapping) -> str:
    "The verdict of target recall, whatever the target."
    score = target_recall(case["answer"], case["targets"][0])
    return "right" if score >= RIGHT else "wrong" if score < WRONG else "undecided"


def by_kind(case: Mapping) -> str:
    "The verdict by the kind of target."
    return best_by_target(case["answer"], case["targets"], case["question"]).verdict


def agreement_with_truth(
    cases: Sequence[Mapping], rule: Callable[[Mapping], str]
) -> dict:
    "How many verdicts of a rule agree with a constructed truth, are against it, and are undecided."
    truth = ["right" if c["right"] else "wrong" for c in cases]
    said = [rule(c) for c in cases]
    same = sum(a == b for a, b in zip(said, truth))
    ends = binomtest(same, len(cases)).proportion_ci(method="wilson")
    undecided = said.count("undecided")
    against = len(cases) - same - undecided
    value = same / len(cases)
    told = {
        "value": value,
        "low": float(ends.low),
        "high": float(ends.high),
        "n": len(cases),
    }
    return {"agreement": told, "against": against, "undecided": undecided}


def measure_verdicts(out: str | Path = "data/measured") -> None:
    "Verdicts against the truth of written answers, by kind of target, into verdicts.json."
    cases = [c for _, c in read_jsonl(data_dir("licence") / "short.jsonl")]
    parts = {
        k: [c for c in cases if c["kind"] == k]
        for k in dict.fromkeys(c["kind"] for c in cases)
    }
    rules = {"target recall": by_recall, "kind of target": by_kind}
    found = {
        kind: {name: agreement_with_truth(some, rule) for name, rule in rules.items()}
        for kind, some in {**parts, "all": cases}.items()
    }
    write_json(Path(out) / "verdicts.json", rounded(found))


def agreement_cells(found: Mapping) -> list:
    "Agreement with its interval, verdicts against the truth, and undecided ones, as cells."
    share = found["agreement"]
    span = f"{share['value']:.2f} [{share['low']:.2f}, {share['high']:.2f}]"
    return [span, found["against"], found["undecided"]]


def show_agreement() -> None:
    "Print how many verdicts agree with the truth, by kind of target."
    told = kept_in("verdicts")
    rows = [
        [
            kind,
            by["kind of target"]["agreement"]["n"],
            *(x for r in by.values() for x in agreement_cells(r)),
        ]
        for kind, by in told.items()
    ]
    head = ["target", "answers", "by target recall", "against", "undecided"]
    print(text_table([*head, "by its kind", *head[3:]], rows))


def check_findings() -> None:
    "Measure again, compare with the results that are kept, and assert what the study says of them."
    told = kept_in("verdicts")
    with tempfile.TemporaryDirectory() as folder:
        measure_verdicts(folder)
        assert read_json(Path(folder) / "verdicts.json") == told
    assert all(by["kind of target"]["against"] == 0 for by in told.values())
