"""NCL, NCL without classification, Self-CRAG and the baseline on the same tasks: scores, refusals, costs, and NCL's own machinery.

The classes of real turns: the nodes are run up to the relation; given the call record of a run, what the run asked is not asked
again. The same again: a second run in a folder of its own, one task at a time, must write the same bytes. Refusal without the
leak: answerable questions get the passages of a corpus without the gold ones; there a system should refuse, and on the same
questions with the whole corpus it should not.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

from mtrag_nb.core.files import write_json
from mtrag_nb.core.html import View, html_table, text_table
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import MINILM, Settings, load_settings
from mtrag_nb.core.types import TO_ANSWER, Gold, Task, plain
from mtrag_nb.data.mtrag import read_benchmark
from mtrag_nb.data.official import official_file
from mtrag_nb.evaluation.calibrate import _ways_table
from mtrag_nb.evaluation.items import run_items
from mtrag_nb.evaluation.refusals import refusal_report
from mtrag_nb.models.calls import Models, RecordedChat
from mtrag_nb.models.embed import BertScorer
from mtrag_nb.runs.oracles import leave_gold_out, leave_out_tasks
from mtrag_nb.runs.run import machine, package_versions, run_tasks
from mtrag_nb.search.manifest import Manifest
from mtrag_nb.systems.baselines import NAIVE
from mtrag_nb.systems.ncl import (
    _CLASSES,
    NCL,
    _global_rewrite_node,
    _LocallyRewritten,
    _relation_node,
)
from mtrag_nb.systems.self_crag import SELF_CRAG
from mtrag_nb.systems.stages import Toolbox
from tools.real_data import real_data
from tools.studies.gate_curve import GateCurve, GatePoint, gate_curve
from tools.studies.ncl_decisions import check_decisions, measure_decisions, ncl_tools
from tools.studies.task_samples import sample_file
from tools.study import (
    SCORES,
    Variants,
    compared,
    cost_table,
    kept_in,
    pair_table,
    score_table,
)


def ncl_tables(told: Mapping) -> dict[str, tuple]:  # heading -> header and rows
    "Everything that `measure` found, but for what is counted of NCL alone."
    out: dict[str, tuple] = {}
    for name, part in told["sets"].items():
        out[
            f"{name}: {part['tasks']} tasks of {part['conversations']} conversations, scores"
        ] = score_table(part)
        out[f"{name}: refusals and costs"] = cost_table(part)
        out[f"{name}: pairs"] = pair_table(part)
    rows = [
        [f"{name}: {r['what']}", r["tasks"], r["refused"], r["share"]]
        for name, found in told["with passages"].items()
        for r in found
    ]
    out["refused, of answerable tasks that come with passages"] = (
        ["", "tasks", "refused", "share"],
        rows,
    )
    if "refusal" in told:
        head = ["", *list(told["refusal"]["rows"][0])[1:]]
        rows = [list(r.values()) for r in told["refusal"]["rows"]]
        out[
            "the same questions with the whole corpus and without the gold passages"
        ] = head, rows
    return out


def machinery_words(told: Mapping) -> str:
    "What is counted of NCL alone."
    local = told["local rewrite"]
    first = Counter(c[0] for c in told["classes"]["turns"])
    again = told["same again"]
    return "\n".join(
        (
            f"classes of {sum(first.values())} turns by {told['classes']['way']}: "
            + ", ".join(f"{k}: {first[k]}" for k in _CLASSES),
            f"local rewrites: {local['made']}, with every field {local['whole']}, kept {local['kept']}, "
            f"empty fields {local['empty'] or 'none'}",
            f"run again, {again['tasks']} tasks: {'the same bytes' if again['identical'] else 'DIFFERENT'}",
        )
    )


Classes = tuple[int, ...]  # that were asked for in one turn, nearest exchange first
VARIANTS: Variants = {
    "ncl": (NCL, {}),
    "ncl-no-classification": (NCL, {"ncl.classify": False}),
    "self_crag": (SELF_CRAG, {}),
    "naive": (NAIVE, {}),
}
SYSTEMS = (
    "ncl",
    "self_crag",
    "naive",
)  # the variants that are systems of their own


def run_variants(
    file: Path,  # a reference file
    folder: Path,  # of the run folders
    settings: Settings,
    models: Models,
    variants: Variants = VARIANTS,
    progress: bool = True,
) -> dict[str, Run]:
    "Every variant over the tasks of a file; goes on where it stopped. It begins with the calls of its system: most are the same."
    known = read_benchmark(file, contexts=True)
    runs = {}
    for name, (system, changes) in variants.items():
        calls = folder / system.name / "calls.jsonl"
        if calls.exists() and not (folder / name).exists():
            (folder / name).mkdir()
            shutil.copy(calls, folder / name)
        runs[name] = run_tasks(
            system,
            known.tasks,
            folder / name,
            system.configure(settings, changes),
            setting="reference",
            lines=known.lines,
            models=models,
            progress=progress,
        )
    return runs


def classify_turns(
    tasks: Sequence[Task],  # with history
    tools: Toolbox,  # NCL's
) -> list[Classes]:
    "What the relation control says."
    out = []
    for t in tasks:
        state = {"task": t, **_global_rewrite_node({"task": t}, tools)[0]}
        out.append(tuple(r.category for r in _relation_node(state, tools)[1].relations))
    return out


def local_counts(run: Run) -> dict:
    "How many local rewrites were made, how many had every field, which fields came empty, and how many were kept."
    steps = [s for t in run.trajectories.values() for s in t.of(_LocallyRewritten)]
    empty = Counter(field for s in steps for field in s.local.empty)
    return {
        "made": len(steps),
        "whole": sum(not s.local.empty for s in steps),
        "empty": empty,
        "kept": sum(s.kept for s in steps),
    }


def same_again(
    file: Path,
    run: Run,  # of NCL over the tasks of the file
    folder: Path,  # of the second run
    settings: Settings,
    models: Models,
    n: int,  # only the first so many tasks
    progress: bool = True,
) -> bool:
    "Whether a second run writes the same lines."
    known = read_benchmark(file, contexts=True, limit=n)
    again = run_tasks(
        NCL,
        known.tasks,
        folder,
        replace(settings, batch_size=1),
        setting="reference",
        lines=known.lines,
        models=models,
        progress=progress,
    )

    def written(r):
        return (r.folder / "predictions.jsonl").read_bytes().splitlines()

    return written(again) == written(run)[:n]


def with_passages(runs: Mapping[str, Run], gold: Mapping[str, Gold]) -> list[dict]:
    "Refusals on answerable tasks of the reference setting that came with passages: all of them over-abstention."
    wanted = {i for i, g in gold.items() if g.passages and g.answerability in TO_ANSWER}
    rows = []
    for name, run in runs.items():
        items = [i for i in run_items(run) if i.task_id in wanted]
        row = refusal_report(items, gold, name=name).rows[0]
        rows.append(
            {
                "what": name,
                "tasks": len(items),
                "refused": row.cells.refused_wrongly,
                "share": str(row.wrongly),
            }
        )
    return rows


WithAndWithout = dict[
    str, tuple[Run, Run]
]  # name -> the run over the whole corpus, the run over what is left of it


def refusal_pairs(
    tasks: Sequence[Task],
    gold: Mapping[str, Gold],
    index: Path,
    folder: Path,
    settings: Settings,
    models: Models,
    n: int = 30,  # answerable tasks of the index's domains
    variants: Variants = {name: VARIANTS[name] for name in SYSTEMS},
    progress: bool = True,
) -> WithAndWithout:
    "Every system with and without the gold passages in reach."
    domains = set(Manifest.load(index).domains)
    known = [t for t in leave_out_tasks(tasks, gold) if t.domain in domains]
    some = random.Random(0).sample(known, min(n, len(known)))
    hidden = {t.id: gold[t.id] for t in some}
    out = {}
    for name, (system, changes) in variants.items():
        ours = system.configure(settings, changes)
        out[name] = tuple(
            run_tasks(
                s,
                some,
                folder / f,
                ours,
                index,
                "rag",
                models=models,
                progress=progress,
            )
            for s, f in (
                (system, name),
                (leave_gold_out(system, hidden), f"{name}-without"),
            )
        )
    return out


def refusal_rows(pairs: WithAndWithout, gold: Mapping[str, Gold]) -> list[dict]:
    "The rows of each system's refusal report that leave the gold out, and the baseline's, once."
    reports = [
        refusal_report(run_items(full), gold, run_items(without), name=name)
        for name, (full, without) in pairs.items()
    ]
    rows = [r.rows[2] for r in reports] + [reports[0].rows[3]]
    return [
        {
            "what": r.name,
            **asdict(r.cells),
            "refused of answerable": str(r.wrongly),
            "refused of unanswerable": str(r.rightly),
        }
        for r in rows
    ]


SETS = {  # of MTRAG_DATA -> variants; the other systems on one of them only: each costs half an hour
    "mtragun-human": ("ncl", "ncl-no-classification"),
    "mtrag-human": tuple(VARIANTS),
}


def recorded_classes(
    source: Path,  # a reference file
    first: Path,  # the tasks of a run: theirs come first
    n: int,
    settings: Settings,
    models: Models,
    calls: Path,  # the call record of the run
) -> list[Classes]:
    "The classes of n turns: those of the run's file, replayed from its call record, then others."
    ran = {t.id for t in read_benchmark(first).tasks}
    tasks = sorted(
        (t for t in read_benchmark(source).tasks if t.history),
        key=lambda t: t.id not in ran,
    )[:n]
    recorded = RecordedChat(models.chat, calls)
    try:
        return classify_turns(
            tasks, replace(ncl_tools(settings, models), chat=recorded)
        )
    finally:
        recorded.close()


def refusal_measured(pairs: WithAndWithout, gold: Mapping[str, Gold]) -> dict:
    "Refusals with and without the gold, and the dial of NCL's gate."
    return {
        "rows": refusal_rows(pairs, gold),
        "dial": gate_curve(pairs["ncl"][0], gold, negatives=pairs["ncl"][1]),
    }


def measure_systems(
    data: Path,  # a folder like $MTRAG_DATA
    folder: Path,  # of the runs; goes on where they stopped
    settings: Settings,
    models: Models,
    n: int = 100,  # tasks of each set
    turns: int = 200,  # to classify
    again: int = 10,  # tasks to run a second time
    index: Path
    | None = None,  # of a corpus of mtrag-human; None: refusal with the gold left out is not measured
    pairs: int = 20,  # tasks for that
    progress: bool = True,
) -> dict:  # plain data, but for counters
    "Everything that has to be run."
    told = {
        "machine": machine(),
        "packages": package_versions(),
        "profile": settings.profile,
        "sets": {},
        "with passages": {},
    }
    bert = BertScorer(MINILM, rescale=False)
    again = min(n, again)
    for name, variants in SETS.items():
        source = official_file(data, f"{name}/reference")
        file = sample_file(source, folder / f"{name}-{n}.jsonl", n)
        gold = read_benchmark(source).gold
        runs = run_variants(
            file,
            folder / f"{name}-{n}",
            settings,
            models,
            {v: VARIANTS[v] for v in variants},
            progress,
        )
        told["sets"][name], told["with passages"][name] = (
            compared(runs, gold, bert),
            with_passages(runs, gold),
        )
    # the rest is asked of mtrag-human, the last of the sets
    same = same_again(
        file, runs["ncl"], folder / f"again-{n}", settings, models, again, progress
    )
    classes = recorded_classes(
        source, file, turns, settings, models, runs["ncl"].folder / "calls.jsonl"
    )
    told |= {
        "same again": {"tasks": again, "identical": same},
        "local rewrite": local_counts(runs["ncl"]),
        "classes": {"way": NCL.with_own(settings).own.relation, "turns": classes},
    }
    if index:
        tasks = read_benchmark(source).tasks
        told["refusal"] = refusal_measured(
            refusal_pairs(
                tasks,
                gold,
                index,
                folder / f"refusal-{pairs}",
                settings,
                models,
                pairs,
                progress=progress,
            ),
            gold,
        )
    return told


def ncl_report(told: Mapping) -> str:
    "All of it as text."
    return "\n\n".join(
        [
            *(
                f"{heading}\n{text_table(*table)}"
                for heading, table in ncl_tables(told).items()
            ),
            machinery_words(told),
        ]
    )


def measure_ncl(
    out: str | Path = "data/measured",
    runs: str | Path = "runs/ncl",
    n: int = 100,  # tasks of each set; 0: the decisions only
    asked: tuple[int, int] = (
        20,
        8,
    ),  # tasks for the decisions that ask the model: relation, gate
    index: str
    | Path
    | None = None,  # None: $MTRAG_INDEX; without one, nothing is measured that needs a corpus
) -> None:
    "Measure on real data with the laptop profile, print, and write `ncl_decisions.json` and `ncl.json`."
    data = real_data("mtrag-human/reference.jsonl and mtragun-human/reference.jsonl")
    settings = load_settings()
    index = index or os.environ.get("MTRAG_INDEX")
    models = Models(settings)
    at = Path(index) if index else None
    ways = measure_decisions(settings, models, data, asked=asked, index=at)
    write_json(
        Path(out) / "ncl_decisions.json",
        {"machine": machine(), "packages": package_versions(), "ways": ways},
    )
    print(_ways_table(ways), flush=True)
    if n:
        told = measure_systems(data, Path(runs), settings, models, n, index=at)
        write_json(Path(out) / "ncl.json", told)
        print(ncl_report(plain(told)))


@cache
def kept_ncl() -> dict:
    "What was measured of NCL."
    return kept_in("ncl")


def table_view(heading: str) -> View:
    "A table of the file as a page and as text."
    table = ncl_tables(kept_ncl())[heading]
    page = f"<b>{heading}</b>" + html_table(*table)
    return View(heading, page, f"{heading}\n{text_table(*table)}")


def score_views() -> list[View]:
    "Scores, costs and pairs of both sets."
    headings = list(ncl_tables(kept_ncl()))
    ends = ("scores", "costs", "pairs")
    return [table_view(h) for end in ends for h in headings if h.endswith(end)]


def refusal_views() -> list[View]:
    "Refusals of answerable tasks, and with the gold passages out of reach."
    return [table_view(h) for h in list(ncl_tables(kept_ncl()))[-2:]]


def kept_curve() -> GateCurve:
    "The dial of NCL's gate."
    d = kept_ncl()["refusal"]["dial"]
    points = tuple(GatePoint(**p) for p in d["points"])
    return GateCurve(points, d["way"], d["used"], d["loss"], d["left_out"])


def check_findings() -> None:
    "Assert what the study says of NCL, of the results that are kept."
    ncl_told = kept_ncl()
    assert ncl_told["same again"]["identical"]
    for part in ncl_told["sets"].values():
        pairs = [p for p in part["pairs"] if p["measure"] == SCORES[0]]
        assert all(p["p_holm"] > 0.05 for p in pairs)
        read = {v: r["cost"]["tokens_in"] for v, r in part["rows"].items()}
        # a fifth fewer tokens read
        assert 0.2 < 1 - read["ncl"] / read["ncl-no-classification"] < 0.25
    rows = {r["what"].split(",")[0]: r for r in ncl_told["refusal"]["rows"]}
    wrongly = {n: r["refused"] - r["refused_wrongly"] for n, r in rows.items()}
    assert wrongly["ncl"] == 0
    assert wrongly["self_crag"] <= 2
    share = {
        r["what"]: r["refused"] / r["tasks"]
        for r in ncl_told["with passages"]["mtrag-human"]
    }
    assert share["self_crag"] > share["ncl"] > share["ncl-no-classification"]
    assert share["ncl-no-classification"] > share["naive"] == 0
    for p in kept_curve().points:
        if p.risk is not None and p.coverage > 0.2:
            assert abs(p.risk - 0.5) < 0.1
    check_decisions()
