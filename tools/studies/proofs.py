"""Failed turns run again with stages repaired, and mechanisms switched off: of the 120 turns of `equal`, and of recorded runs.

Two systems copy sentences: their forks take minutes. The other four call a model, once (naive) to several times a turn: their forks
take hours of a core, or a GPU. Their mechanisms were switched off on one (`make study NAME=mechanisms`); `proof.json` holds no
proof of them since the repairs that cannot fail are not tried any more.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from scipy.stats import binomtest
from torch.cuda import is_available

from mtrag_nb.core.files import data_dir, read_json, read_jsonl, write_json, write_jsonl
from mtrag_nb.core.html import text_table
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import plain
from mtrag_nb.data.mtrag import (
    read_benchmark,
    read_corpus,
    sample_corpus,
    sample_dir,
    with_rewrites,
)
from mtrag_nb.data.official import human_rewrites, official_dir
from mtrag_nb.evaluation.cards import mechanism_card
from mtrag_nb.evaluation.proof import prove
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.proof import STATUSES, ProofReport
from mtrag_nb.evaluation.statistics import holm
from mtrag_nb.models.calls import Models
from mtrag_nb.runs.recorded import settings_of_run, system_of_run
from mtrag_nb.runs.run import machine, package_versions
from mtrag_nb.search.ingest import build_index
from tools.studies.attribution import difference_of, span_of
from tools.studies.attribution_cases import make_attribution
from tools.studies.equal import drawn, slice_of_pool
from tools.study import kept_in, run_command

FAST = [
    "--set",
    "batch_size=32",
    "--set",
    "batch_tokens=65536",
]  # nothing but the speed
FAST += (
    ["--set", "chat.device=cuda", "--set", "embedder.device=cuda"]
    if is_available()
    else []
)
RECORDED = ("naive", "quote", "nexus")  # whose forks take minutes on a laptop


def small_slice(folder: Path, each: int = 500) -> tuple[Path, Path]:
    "The 120 turns of above, and an index of fewer passages that holds all of their gold; made where they are not there."
    tasks, passages, index = (
        folder / n for n in ("tasks.jsonl", "passages.jsonl", "index")
    )
    if not tasks.exists():
        rng = random.Random(27)
        lines = drawn(official_dir(), rng)
        gold = {c["document_id"] for line in lines for c in line["contexts"]}
        write_jsonl(passages, slice_of_pool(official_dir(), rng, gold, each))
        write_jsonl(tasks, lines)
    given = ["--passages", str(passages), "--index", str(index), *FAST]
    run_command(["ingest", *given])
    return tasks, index


def proof_row(r: ProofReport) -> dict:
    "A proof in numbers."
    elsewhere = [p for p in r.proofs.values() if p.status == "another stage"]
    return {
        "failed": len(r.proofs),
        "statuses": {s: r.share(s) for s in STATUSES},
        "agreement": r.agreement,
        "tested": len(r.tested_turns),
        "rule": r.rule,
        "constants": {c.stage: c for c in r.constants},
        "placebos": {p.repair: p for p in r.placebos},
        "forks": r.forks / len(r.proofs),
        "seconds": r.seconds / len(r.proofs),
        "several": sum(len(p.repairs) > 1 for p in r.proofs.values()),
        "instead": Counter(p.repairs[0] for p in elsewhere),
        "blamed": {
            s: Counter(p.blame.stage for p in r.proofs.values() if p.status == s)
            for s in STATUSES
        },
    }


PROVED = ("quote", "nexus")  # that copy; the others call a model in most forks
AUDITED = (
    *PROVED,
    "naive",
    "self_crag",
    "ncl",
    "agents",
)  # four write: hours of a core


def run_system(name: str, folder: Path) -> tuple[Path, Path]:
    "Run a system over the 120 turns, into the folder: the run's folder, and the index."
    tasks, index = small_slice(folder)
    run = folder / "runs" / name
    given = ["--tasks", str(tasks), "--index", str(index), "--system", name, *FAST]
    run_command(["run", *given, "--out", str(run)])
    return run, index


def kept_or_measured(
    folder: Path, what: str, names: Sequence[str], measure: Callable[[str, Path], dict]
) -> tuple[dict[str, dict], dict]:
    "What the folder keeps of systems, or is measured now: system -> what was measured, and where the first was."
    rows = {}
    for name in names:
        path = folder / f"{name}-{what}.json"
        if not path.exists():
            made = {"machine": machine(), "packages": package_versions()}
            write_json(path, plain({"made": made, what: measure(name, folder)}))
        rows[name] = read_json(path)
    return {name: row[what] for name, row in rows.items()}, rows[names[0]]["made"]


def prove_one(name: str, folder: Path) -> dict:
    "The failed turns of a system, each again with stages repaired."
    run, index = run_system(name, folder)
    known = read_benchmark(folder / "tasks.jsonl")
    gold = with_rewrites(known.gold, human_rewrites([]))
    models = Models(settings_of_run(Run(run), system_of_run(Run(run))))
    how = {"tasks": known.tasks, "index": index, "models": models, "progress": False}
    return {"turns": len(known.tasks), **proof_row(prove(run, gold, **how))}


def audit_one(name: str, folder: Path) -> dict:
    "The mechanisms of a system, each switched off."
    run, index = run_system(name, folder)
    run_command(["audit", str(run), "--index", str(index)])
    gold = read_benchmark(folder / "tasks.jsonl").gold
    return mechanism_card(Evidence(Run(run), gold)).data


def measure_proof(folder: Path) -> None:
    "The proofs of the systems that copy, into data/measured; those that the folder keeps are read, the cards stay."
    systems, made = kept_or_measured(folder, "proof", PROVED, prove_one)
    known = kept_in("proof")
    gold = with_rewrites(
        read_benchmark(folder / "tasks.jsonl").gold, human_rewrites([])
    )
    measured = {
        "made": made,
        "passages": sum(1 for _ in read_jsonl(folder / "passages.jsonl")),
        "human rewrites": sum(bool(g.rewrite) for g in gold.values()),
        "systems": systems,
        "cards": known["cards"],
        "cards made": known["cards made"],
    }
    write_json(data_dir("measured") / "proof.json", plain(measured))


def measure_mechanisms(folder: Path) -> None:
    "The cards of five systems, into data/measured; those that the folder keeps are read, the proofs stay."
    cards, made = kept_or_measured(folder, "card", AUDITED, audit_one)
    measured = kept_in("proof") | {"cards": cards, "cards made": made}
    write_json(data_dir("measured") / "proof.json", plain(measured))


def proved_runs(folder: Path) -> dict[str, dict]:
    "The recorded runs of the sample, proved by the model that made them."
    settings = load_settings()
    known = read_benchmark(sample_dir() / "reference.jsonl")
    models = Models(settings)
    gold = with_rewrites(known.gold, human_rewrites([]))
    passages = list(read_corpus(*sample_corpus()))
    build_index(
        passages, folder / "index", models.embedder, settings.chunks, progress=False
    )
    out = {}
    for name in RECORDED:
        place = f"sample_{name}"
        if not (folder / place).exists():
            shutil.copytree(data_dir("recorded") / place, folder / place)
        how = {"tasks": known.tasks, "index": folder / "index", "progress": False}
        out[name] = proof_row(prove(folder / place, gold, **how))
    return out


def measure_attribution(folder: Path) -> None:
    "The benchmark of attribution and the scores on it, into data/attribution and data/measured."
    recorded = kept_in("attribution")["recorded"]
    made = {"machine": machine(), "packages": package_versions()}
    measured = {"made": made, **make_attribution(folder), "recorded": recorded}
    write_json(data_dir("measured") / "attribution.json", plain(measured))


def measure_recorded(folder: Path) -> None:
    "The recorded runs of the sample with stages repaired, into data/measured."
    kept = {**kept_in("attribution"), "recorded": proved_runs(folder)}
    write_json(data_dir("measured") / "attribution.json", plain(kept))


def proof_tables(found: Mapping[str, dict]) -> str:
    "Runs and what became of their failed turns."
    shares = []
    costs = []
    for name, r in found.items():
        spans = [span_of(r["statuses"][s]) for s in STATUSES]
        shares.append([name, r["failed"], *spans, span_of(r["agreement"])])
        instead = ", ".join(f"{k} {v}" for k, v in sorted(r["instead"].items()))
        costs.append(
            [name, f"{r['forks']:.1f}", f"{r['seconds']:.1f}", r["several"], instead]
        )
    head = ["run", "forks a turn", "seconds", "several repairs", "another stage's"]
    return (
        text_table(["run", "failed", *STATUSES, "agreement"], shares)
        + "\n\n"
        + text_table(head, costs)
    )


def control_tables(found: Mapping[str, dict]) -> str:
    "Runs and the rule beside constant blames; repairs beside their placebo."
    blames = []
    placebos = []
    for name, r in found.items():
        blames.append([name, "the rule's stage", r["tested"], span_of(r["rule"]), ""])
        for stage, c in r["constants"].items():
            lead = difference_of(c["difference"])
            blames.append(["", f"always {stage}", "", span_of(c["share"]), lead])
        for repair, x in r["placebos"].items():
            parts = []
            for part in (x["blamed"], x["idle"]):
                parts += [part["n"], span_of(part)]
            placebos.append([name, repair, *parts, difference_of(x["excess"])])
    blame_head = ["run", "blamed", "tested", "its repair makes right", "rule less this"]
    head = ["run", "repair", "blamed", "right", "nothing to repair", "right", "excess"]
    return text_table(blame_head, blames) + "\n\n" + text_table(head, placebos)


def machine_in(made: Mapping) -> str:
    "The GPU that something was measured on, or the number of cores."
    known = made["machine"]
    return ", ".join(known["gpu"]) or f"{known['cores']} cores"


def show_recorded() -> None:
    "Print what became of the blames of recorded runs, and what it took."
    print(proof_tables(kept_in("attribution")["recorded"]))


def show_proofs() -> None:
    "Print what became of the blames of the 120 turns, and the stages blamed."
    of_proof = kept_in("proof")
    size = of_proof["passages"]
    rewrites = of_proof["human rewrites"]
    print(f"{size:,} passages; a human rewrite is known of {rewrites} turns")
    print(f"made on {machine_in(of_proof['made'])}\n")
    print(proof_tables(of_proof["systems"]), "\n")
    print(control_tables(of_proof["systems"]), "\n")
    rows = [
        [
            name,
            *(
                ", ".join(f"{k} {v}" for k, v in r["blamed"][s].items()) or "–"
                for s in STATUSES
            ),
        ]
        for name, r in of_proof["systems"].items()
    ]
    print(text_table(["stages blamed", *STATUSES], rows))


def counted(x: Mapping) -> list[int]:
    "How many turns a mechanism fixed, and spoilt."
    return [round(x[k]["value"] * x[k]["n"]) for k in ("fixed", "spoilt")]


@cache
def audited_mechanisms() -> dict[tuple[str, str], dict]:
    "System, mechanism -> what it fixed and spoilt, with p of the sign test and Holm's correction over all."
    rows = {}
    for system, card in kept_in("proof")["cards"].items():
        for mechanism, x in card["audited"].items():
            fixed, spoilt = counted(x)
            p = 1.0
            if fixed + spoilt:
                p = binomtest(fixed, fixed + spoilt).pvalue
            rows[system, mechanism] = {**x, "p": p}
    for x, p in zip(rows.values(), holm([x["p"] for x in rows.values()])):
        x["p holm"] = p
    return rows


def show_mechanisms() -> None:
    "Print what each mechanism fixed and spoilt, and the findings of the cards."
    print(f"made on {machine_in(kept_in('proof')['cards made'])}\n")
    rows = []
    for key, x in audited_mechanisms().items():
        shares = [span_of(x[k]) for k in ("fixed", "spoilt", "gain")]
        rows.append([*key, x["changed"], *shares, x["p"], x["p holm"]])
    head = ["run", "mechanism", "changed", "fixed", "spoilt", "gain", "p", "p (Holm)"]
    print(text_table(head, rows), "\n")
    for name, card in kept_in("proof")["cards"].items():
        for found in card["findings"]:
            print(f"{name}: {found}")


def check_findings() -> None:
    "Assert what the study says of proofs and mechanisms, of the results that are kept."
    attribution = kept_in("attribution")
    of_proof = kept_in("proof")
    audited = audited_mechanisms()
    corrected = {k: x["p holm"] for k, x in audited.items()}
    recorded = attribution["recorded"].values()
    held = {
        s: sum(round(r["failed"] * r["statuses"][s]["value"]) for r in recorded)
        for s in STATUSES
    }
    assert {s: n for s, n in held.items() if n} == {
        "another stage": 3,
        "a pair": 2,
        "nothing tried": 3,
        "by construction": 17,
    }
    others = [r["instead"] for r in recorded if r["instead"]]
    assert others == [{"perfect grade": 1}, {"perfect grade": 2}]
    systems = of_proof["systems"]
    assert {n: (r["turns"], r["failed"], r["tested"]) for n, r in systems.items()} == {
        "quote": (120, 71, 13),
        "nexus": (120, 72, 13),
    }
    by_stage = {s: Counter() for s in STATUSES}
    for r in systems.values():
        for status, stages in r["blamed"].items():
            by_stage[status] += Counter(stages)
    assert {s: dict(n) for s, n in by_stage.items() if n} == {
        "another stage": {"generate": 3},
        "nothing tried": {"retrieve": 6, "grade": 2},
        "by construction": {"grade": 117, "generate": 15},
    }
    for r in systems.values():
        assert r["rule"]["value"] == 0 and round(r["rule"]["high"], 2) == 0.25
        assert r["constants"]["grade"]["share"]["value"] == 1 / 13
        assert all(
            c["difference"]["low"] is None or c["difference"]["high"] > 0
            for c in r["constants"].values()
        )
        gold = r["placebos"]["gold passages"]
        assert [(gold[k]["n"], gold[k]["value"]) for k in ("blamed", "idle")] == [
            (3, 0),
            (4, 0),
        ]
    assert systems["nexus"]["constants"]["rewrite"]["share"]["value"] == 1 / 13
    helps = {
        k: round(x["gain"]["value"], 2)
        for k, x in audited.items()
        if (x["gain"]["low"] or 0) > 0
    }
    assert helps == {("self_crag", "check and retry"): 0.24, ("ncl", "gate"): 0.09}
    assert [k for k, p in corrected.items() if p < 0.05] == [
        ("self_crag", "check and retry")
    ]
    assert len(audited) == 25 and round(corrected["ncl", "gate"], 2) == 0.15
    assert counted(audited["self_crag", "check and retry"]) == [25, 1]
    assert counted(audited["self_crag", "retry"]) == [2, 4]
    assert not any((x["gain"]["high"] or 0) < 0 for x in audited.values())
    copies = [x for (n, _), x in audited.items() if n in ("quote", "nexus")]
    assert (
        max(x["fixed"]["value"] for x in copies) <= 0.02
        and max(x["spoilt"]["value"] for x in copies) < 0.035
    )
    assert of_proof["cards"]["nexus"]["audited"]["reformulation"]["changed"] == 1
