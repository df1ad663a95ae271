"""The test set as one team answered it, and other models over the same tasks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from mtrag_nb.core.files import read_jsonl
from mtrag_nb.core.refusals import idk_by_rule
from mtrag_nb.core.types import TO_ANSWER, TO_REFUSE
from mtrag_nb.data.official import official_file
from mtrag_nb.data.ratings import read_ratings
from mtrag_nb.evaluation.verdicts import verdict_of
from tools.studies.released_files import (
    TEST,
    answers,
    benchmark,
    file_at,
    gold_ids,
    has_gold,
    hits,
    released,
    share,
    span,
    table,
)
from tools.study import kept_in


def test_set() -> dict:
    "What the run of the test set refused, why it failed and what it found; {} without the files."
    path = file_at("iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl")
    search = "sifei/A_test_hybrid-rerank_old.jsonl"
    if not path.is_file() or not file_at(search).is_file():
        return {}
    items, report = answers(path, TEST)
    gold = benchmark(TEST).gold
    gate = Counter(o["answerability"] for _, o in read_jsonl(path, nan_is_null=True))
    labels = sorted({gold[i].answerability for i in items})
    return {
        "tasks": len(items),
        "of": 507,
        "gate": gate,
        "refused": {
            x: share(
                {
                    i: idk_by_rule(items[i].answer) == 1
                    for i in items
                    if gold[i].answerability == x
                }
            )
            for x in labels
        },
        "causes": report.counts(),
        "judged": len(report.judged),
        "gold among three": share(
            {i: has_gold(items[i], gold[i]) > 0 for i in gold_ids(TEST)}
        ),
        "Sifei, gold among five": share(hits(search, TEST)),
    }


NINE = ("reference", "reference+RAG", "RAG")


def model_files() -> dict[str, Path]:
    "Answers of several models each, in the form of the benchmark's authors: those at hand."
    own = released().parent / "mtrag-human" / "evaluations"
    places = {n: (own / f"{n}.json", released() / "ibm" / f"{n}.json") for n in NINE}
    found = {n: p for n, some in places.items() for p in some if p.is_file()}
    if lost := [n for n in NINE if n not in found]:
        print("not at hand, of the nine models:", ", ".join(f"{n}.json" for n in lost))
    return {**found, "MTRAG-S": official_file(None, "mtrag-synthetic/ratings")}


def by_model(path: Path) -> dict[str, dict]:
    "Model -> what its answers to questions that have one are, and how often it refuses the others; by the official verdicts on refusals."
    ended: dict[str, dict] = {}
    for a in read_ratings(path):
        label = a.gold.answerability
        target = a.gold.targets[0]
        if a.system == "reference" or label not in (*TO_ANSWER, *TO_REFUSE):
            continue
        refuses = (a.official["conditional_idk"] == 1) == (label in TO_REFUSE)
        came = "refused" if refuses else verdict_of(a.answer, [target], a.task.question)
        ended.setdefault(a.system, {}).setdefault(label in TO_REFUSE, {})[a.task.id] = (
            came
        )
    kinds = ("right", "wrong", "refused")
    return {
        model: {
            **{k: share({i: c == k for i, c in by[False].items()}) for k in kinds},
            "refused, unanswerable": share(
                {i: c == "refused" for i, c in by[True].items()}
            ),
        }
        for model, by in ended.items()
    }


def show_test_set() -> None:
    "Print what the run of the test set refused, why it failed, and what it found."
    told_of = kept_in("released")
    un = told_of["test set"]
    print(
        f"MTRAG-UN, {un['tasks']} of {un['of']} tasks; the gate's label: {un['gate']}"
    )
    table(
        ["refused", "tasks", ""],
        [[label, x["n"], span(x)] for label, x in un["refused"].items()],
    )
    print("failed,", un["judged"], "judged:", un["causes"])
    print(
        "gold among the passages (three):",
        span(un["gold among three"]),
        " Sifei's search, among five:",
        span(un["Sifei, gold among five"]),
    )


def show_models() -> None:
    "Print right, wrong and refused turns of other models."
    told_of = kept_in("released")
    for name, models in told_of["models"].items():
        head = [name, *next(iter(models.values()))]
        table(head, [[m, *map(span, found.values())] for m, found in models.items()])


def check_findings() -> None:
    "Assert what the study says of these runs, of the results that are kept."
    told_of = kept_in("released")
    un = told_of["test set"]
    assert (
        un["gate"] == {"UNANSWERABLE": 399}
        and un["causes"]["answered from nothing"] == 61
    )
    counts = {x["right"]["n"] for x in told_of["models"]["MTRAG-S"].values()}
    assert counts == {1161} and len(told_of["models"]["MTRAG-S"]) == 5
