"""What `mtrag gate` says of comparisons that users make, of a system against itself, and of losses of known size.

A draw takes conversations with their turns, as often as asked for, with replacement. The top-k run is the copying system over the
120 turns of `equal`, with an index of 500 passages of each domain that holds their gold.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from mtrag_nb.core.files import data_dir, write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import plain
from mtrag_nb.data.mtrag import read_benchmark
from mtrag_nb.data.official import official_file
from mtrag_nb.evaluation.pairs import right_and_wrong
from mtrag_nb.evaluation.cards import mechanism_card
from mtrag_nb.evaluation.gate import _measure_loss, gate_runs
from mtrag_nb.evaluation.pairs import Ending
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.statistics import Interval
from tools.studies.equal import endings_by_seed
from tools.studies.proofs import small_slice
from tools.study import kept_in, run_command

SIZES = (20, 50, 100, 200, 400)  # conversations


def row_of(c: dict) -> list:
    "What the gate says of a comparison, as cells of a table."
    i = Interval(**c["interval"])
    return [c["code"], str(i), i.n, i.clusters, c["changed"], c["needed"] or "–"]


def rate(found: Mapping[str, int], code: str, digits: int = 3) -> str:
    "The share of the draws that end with an exit code."
    return f"{found[code] / sum(found.values()):.{digits}f}"


def show_comparisons() -> None:
    "Print what the gate says of comparisons that users make."
    of_gate = kept_in("power")
    head = [
        "what is new",
        "exit code",
        "difference",
        "turns",
        "conversations",
        "differ",
        "needed",
    ]
    print(
        text_table(head, [[n, *row_of(c)] for n, c in of_gate["comparisons"].items()])
    )


def show_alarms() -> None:
    "Print how often a version that is no worse is stopped."
    of_gate = kept_in("power")
    aa = of_gate["repeats"]
    print(
        f"seeds: of {sum(aa.values())} pairs {aa['1']} are stopped, {aa['0']} pass, {aa['2']} cannot be told\n"
    )
    head = ["false alarms, of changes by", *(f"{n} conversations" for n in SIZES)]
    rows = [
        [n, *(rate(x["0.0"], "1") for x in by.values())]
        for n, by in of_gate["power"].items()
    ]
    lean = [
        [f"{n}, leaning", *(rate(x, "1") for x in by.values())]
        for n, by in of_gate["leaning"].items()
    ]
    print(text_table(head, rows + lean))
    without_loss = [x["0.0"] for by in of_gate["power"].values() for x in by.values()]
    alarms = sum(x["1"] for x in without_loss)
    n = sum(sum(x.values()) for x in without_loss)
    for what, k, of in (
        ("draws", alarms, n),
        ("pairs of seeds", aa["1"], sum(aa.values())),
    ):
        low, high = binomtest(k, of).proportion_ci()
        print(
            f"\nfalse alarms in {k} of {of:,} {what}: {k / of:.3f} [{low:.3f}, {high:.3f}]",
            end="",
        )


def show_power() -> None:
    "Print the exit codes of versions that lose what is known."
    of_gate = kept_in("power")
    for name in ("another seed", "another prompt"):
        by = of_gate["power"][name]
        rows = [
            [n, *(" ".join(rate(found, c, 2) for c in "012") for found in x.values())]
            for n, x in by.items()
        ]
        print(
            text_table(
                [f"{name}, conversations", *(f"loss {x}" for x in by["20"])], rows
            ),
            "\n",
        )


def check_findings() -> None:
    "Assert what the study says of the gate, of the results that are kept."
    of_gate = kept_in("power")
    aa = of_gate["repeats"]

    def shares(
        loss: str, code: str, names: Sequence[str] = tuple(of_gate["power"])
    ) -> list[float]:
        "Of each size of each comparison."
        by = [x for n in names for x in of_gate["power"][n].values()]
        return [found[loss][code] / sum(found[loss].values()) for found in by]

    alarms = shares("0.0", "1")
    passes = shares("0.03", "0", ("another seed", "another prompt"))
    assert max(alarms) == 0.035 and round(sum(alarms) * 200) == 94
    assert max(passes) == 0.04 and round(sum(passes) * 200) == 31
    assert aa == {"0": 0, "1": 0, "2": 20}
    power = of_gate["power"]
    assert not any(
        power[n][k]["0.1"]["0"]
        for n in power
        if "0.1" in power[n]["50"]
        for k in power[n]
    )
    shown = [
        power[n]["100"][x]["1"] / 200
        for n, x in (("another seed", "0.1"), ("another prompt", "0.06"))
    ]
    assert (
        shown == [0.7, 0.925]
        and power["another seed"]["400"]["0.06"]["1"] / 200 == 0.935
    )
    passing = [
        power[n]["100"]["0.0"]["0"] / 200 for n in ("another prompt", "another seed")
    ]
    assert (
        passing == [0.445, 0.155]
        and of_gate["leaning"]["another seed"]["20"]["1"] / 200 == 0.255
    )
    assert [c["code"] for c in of_gate["comparisons"].values()] == [1, 2, 2, 2]
    assert (
        round(of_gate["comparisons"]["another prompt"]["interval"]["value"], 3)
        == -0.075
    )


LOSSES = (0.0, 0.03, 0.06, 0.1)  # of a turn, on average
Changes = Mapping[str, list[float]]  # conversation -> the changes of its turns
WHOLE = ("another seed", "another prompt")  # comparisons whose losses are tried
DRAWS = 200


def codes(
    changes: Changes, size: int, loss: float = 0.0, swapped: bool = True
) -> dict[str, int]:
    "Exit codes of so many draws of conversations, old and new swapped at random; of the turns that did not get worse some lose a right answer."
    rng = random.Random(1 if swapped else 2)
    names = list(changes)
    found = Counter()
    for _ in range(DRAWS):
        change = {}
        talks = {}
        for n, name in enumerate(rng.choices(names, k=size)):
            sign = rng.choice((1, -1)) if swapped else 1
            for k, x in enumerate(changes[name]):
                change[f"{n}<::>{k}"], talks[f"{n}<::>{k}"] = sign * x, str(n)
        kept = [i for i, x in change.items() if x >= 0] if loss else []
        for i in kept:
            change[i] -= rng.random() < loss * len(change) / len(kept)
        found[str(_measure_loss(change, talks, 0.03).code)] += 1
    return {c: found[c] for c in "012"}


def by_talk(changes: Mapping[str, float], talks: Mapping[str, str]) -> Changes:
    "The changes of each conversation."
    found = defaultdict(list)
    for i, x in changes.items():
        found[talks[i]].append(x)
    return found


def centred(changes: Changes) -> Changes:
    "The changes less their mean."
    mean = np.mean([x for some in changes.values() for x in some])
    return {name: [x - mean for x in some] for name, some in changes.items()}


def right_of(some: Mapping[str, Ending]) -> dict[str, float]:
    "Task id -> whether its turn is right, from 0 to 1."
    return {i: right_and_wrong(e)[0] for i, e in some.items()}


def seeds_apart() -> list[tuple[dict[str, float], dict[str, str]]]:
    "The changes between each two of the five runs, with the conversation of each task."
    by_seed = endings_by_seed()
    first = by_seed["0"]
    rights = [right_of(some) for some in by_seed.values()]
    talks = {i: e.talk for i, e in first.items()}
    return [({i: b[i] - a[i] for i in a}, talks) for a, b in permutations(rights, 2)]


GATED = {  # what is new -> files of the old version and the new one
    "another prompt": "re_call/C_dev_gpt-4o_elser_prompt-official re_call/C_dev_gpt-4o_elser_prompt-abstain",
    "another search": "re_call/C_dev_gpt-4o_elser_prompt-official re_call/C_dev_gpt-4o_recall_prompt-official",
    "another model": "raguteam/B_dev96_qwen3-30b-a3b_coreference raguteam/B_dev96_qwen2.5-7b",
}
CARDS = {"IIMAS, GPT-4.1": "iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate"}
CARDS["Self-CRAG v4 of its authors"] = "gbgers/C_dev110_self-crag_v4_permissive_llama8b"


def released_run(name: str, which: str, folder: Path) -> Evidence:
    "A released file as a run, as `make study NAME=released` imports it. Raises DataError if it did not."
    known = read_benchmark(official_file(None, f"{which}-human/reference"))
    return Evidence(Run(folder / name), known.gold)


def with_top_k(folder: Path, k: int) -> Evidence:
    "A run of the copying system that keeps k passages."
    tasks, index = small_slice(folder)
    out = folder / f"quote_{k}"
    line = ["run", "--tasks", str(tasks), "--index", str(index), "--system", "quote"]
    run_command([*line, "--set", f"retrieval.rerank_k={k}", "--out", str(out)])
    return Evidence(Run(out), read_benchmark(tasks).gold)


def measure_power(folder: Path, released: Path) -> None:
    "What the gate says of comparisons, of a system against itself, and of losses of known size."
    reports = {
        name: gate_runs(
            *(released_run(f, "mtrag", released) for f in files.split()), shared=True
        )
        for name, files in GATED.items()
    }
    reports["another top-k (5, then 1)"] = gate_runs(
        with_top_k(folder, 5), with_top_k(folder, 1)
    )
    changes = {n: by_talk(r.changes, r.new.talks) for n, r in reports.items()}
    apart = seeds_apart()
    changes["another seed"] = by_talk(*apart[0])
    repeats = Counter({"0": 0, "1": 0, "2": 0})
    repeats.update(str(_measure_loss(*found, 0.03).code) for found in apart)
    losses = {n: r.loss for n, r in reports.items()}
    made = {
        "comparisons": {
            n: plain(x) | {"code": x.code, "needed": x.conversations_needed}
            for n, x in losses.items()
        },
        "repeats": repeats,
        "power": {
            n: {
                size: {
                    loss: codes(x, size, loss)
                    for loss in (LOSSES if n in WHOLE else (0.0,))
                }
                for size in SIZES
            }
            for n, x in changes.items()
        },
        "leaning": {
            n: {size: codes(centred(changes[n]), size, swapped=False) for size in SIZES}
            for n in WHOLE
        },
        "cards": {
            n: mechanism_card(
                released_run(f, "mtragun" if "test" in f else "mtrag", released)
            ).data
            for n, f in CARDS.items()
        },
    }
    write_json(data_dir("measured") / "power.json", plain(made))
