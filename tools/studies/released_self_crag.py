"""Self-CRAG as its authors ran it: refusals, reasons and retries of four versions on the last turns of the 110 dev conversations.

Their ids are places in the benchmark's `conversations.json` (`original_index`; v1 has the order by domain only), by which
`mtrag import` joins all 110.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from mtrag_nb.core.refusals import idk_by_rule
from mtrag_nb.core.types import TO_ANSWER
from mtrag_nb.evaluation.statistics import holm
from tools.studies.released_files import (
    DEV,
    benchmark,
    difference,
    file_at,
    gold_ids,
    imported,
    share,
    span,
    table,
    written,
)
from tools.studies.search_pairs import sign_test
from tools.study import kept_in

VERSIONS = {
    "v1": "v1_strict_llama8b",
    "v2": "v2_strict_llama8b",
    "v3": "v3_permissive_llama3b",
    "v4": "v4_permissive_llama8b",
}


def self_crag_file(version: str) -> Path:
    "The file of a version of the authors' Self-CRAG."
    return file_at(f"gbgers/C_dev110_self-crag_{VERSIONS[version]}.jsonl")


def version_row(version: str, labels: Mapping[str, str], can: Sequence[str]) -> dict:
    "Refusals of a version; with reasons and retries where it records them."
    turns = imported(self_crag_file(version)).trajectories
    refused = refusals_of(version)
    row = {
        "token": sum(t.answer.strip() == "I_DONT_KNOW" for t in turns.values()),
        "refused": {
            label: share({i: refused[i] for i in turns if labels[i] == label})
            for label in sorted(set(labels.values()))
        },
        "refused, answerable": share({i: refused[i] for i in can}),
    }
    said = fields_of(version)
    if not any("fallback_reason" in f for f in said.values()):
        return row
    retried = Counter(f["fallback_reason"] for f in said.values() if f["retry_count"])
    return row | {
        "reasons": Counter(f["fallback_reason"] for f in said.values()),
        "reasons, answerable": Counter(said[i]["fallback_reason"] for i in can),
        "retried": sum(retried.values()),
        "retried and answered": retried["none"],
        "retried, loop exhausted": retried["hallucination_loop_exhausted"],
    }


def refusals_of(version: str) -> dict[str, bool]:
    "Task id -> whether a version refuses: its token, or words that decline."
    turns = imported(self_crag_file(version)).trajectories
    return {
        i: t.answer.strip() == "I_DONT_KNOW" or idk_by_rule(t.answer) == 1
        for i, t in turns.items()
    }


def fields_of(version: str) -> dict[str, Mapping]:
    "Task id -> the fields that a version records of its own."
    return {i: r.fields for i, r in written(self_crag_file(version)).items()}


def self_crag() -> dict:
    "Refusals, reasons and retries of the four versions, and what changed between them."
    runs = {v: imported(self_crag_file(v)).trajectories for v in VERSIONS}
    gold = benchmark(DEV).gold
    labels = {i: gold[i].answerability for i in runs["v4"]}
    can = [i for i, label in labels.items() if label in TO_ANSWER]
    changes = {}
    for a, b in (("v1", "v2"), ("v2", "v4"), ("v3", "v4")):
        was, now = ({i: float(refusals_of(v)[i]) for i in can} for v in (a, b))
        changes[f"{a} to {b}"] = {
            "stops refusing": sum(was[i] > now[i] for i in can),
            "begins to": sum(was[i] < now[i] for i in can),
            "difference": difference(now, was),
            **sign_test(was, now),
        }
    for name, p in zip(changes, holm([c["p"] for c in changes.values()]).tolist()):
        changes[name]["p holm"] = p
    reasons = [
        {i: f["fallback_reason"] for i, f in fields_of(v).items()} for v in ("v3", "v4")
    ]
    listed = [
        {
            i: {imported(self_crag_file(v)).passages[c].document_id for c in t.contexts}
            for i, t in some.items()
        }
        for v, some in runs.items()
    ]
    return {
        "turns": len(labels),
        "answerable": len(can),
        "labels": Counter(labels.values()),
        "rows": {v: version_row(v, labels, can) for v in VERSIONS},
        "changes": changes,
        "v3 and v4 give the same reason": sum(
            reasons[0][i] == reasons[1][i] for i in labels
        ),
        "the four list the same passages": all(x == listed[0] for x in listed),
        "a gold passage among them": sum(
            bool(gold_ids()[i] & listed[0][i]) for i in can
        ),
    }


def show_versions() -> None:
    """Print refusals, reasons and retries of the versions, and what changed between
    them."""
    told_of = kept_in("released")
    crag = told_of["self_crag"]
    rows = []
    for v, r in crag["rows"].items():
        reasons = r.get("reasons, answerable", {})
        rows.append(
            [
                v,
                r["token"],
                span(r["refused, answerable"]),
                *(
                    reasons.get(k, "")
                    for k in (
                        "irrelevant_docs",
                        "hallucination_loop_exhausted",
                        "llm_refusal",
                    )
                ),
                r.get("retried", ""),
                r.get("retried and answered", ""),
            ]
        )
    print(f"{crag['turns']} turns; of the {crag['answerable']} answerable ones:")
    table(
        [
            "",
            "tokens of all",
            "refused",
            "irrelevant documents",
            "loop exhausted",
            "model declined",
            "retried of all",
            "of these answered",
        ],
        rows,
    )
    print()
    rows = [
        [
            k,
            c["stops refusing"],
            c["begins to"],
            span(c["difference"], "+"),
            f"{c['p holm']:.2g}",
        ]
        for k, c in crag["changes"].items()
    ]
    table(
        [
            "answerable",
            "stop being refused",
            "begin to be",
            "difference",
            "p (sign test, Holm)",
        ],
        rows,
    )
    print(
        "v3 and v4 record the same reason in",
        crag["v3 and v4 give the same reason"],
        "of 110 turns",
    )


def check_findings() -> None:
    "Assert what the study says of the versions, of the results that are kept."
    told_of = kept_in("released")
    crag = told_of["self_crag"]
    assert (
        crag["changes"]["v2 to v4"]["stops refusing"] == 50
        and crag["changes"]["v2 to v4"]["begins to"] == 0
    )
    assert [crag["rows"][v]["retried"] for v in ("v3", "v4")] == [9, 13]
    assert [crag["rows"][v]["retried and answered"] for v in ("v3", "v4")] == [0, 1]
    assert (
        crag["the four list the same passages"]
        and crag["a gold passage among them"] == 4
    )
