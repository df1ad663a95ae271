"""Six systems over 120 turns of 120 conversations, half of them unanswerable: the draw, the runs, and how each turn ends.

One turn of a conversation, and no conversation twice: thirty of each kind from each of the two sets. The six systems answer all of
it once, `self_crag` four times more with other seeds: its first drafts are greedy, so that only its retries are asked anew.
A run that was interrupted goes on; on one core the six take an hour and a quarter, the seeds half an hour.
"""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

from mtrag_nb.core.files import data_dir, read_jsonl, write_json, write_jsonl
from mtrag_nb.core.html import text_table
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import Outcome, plain
from mtrag_nb.data.mtrag import read_benchmark
from mtrag_nb.data.official import official_dir
from mtrag_nb.evaluation.pairs import Ending, endings, pair_endings
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.statistics import Interval, mean_interval
from mtrag_nb.runs.run import machine, package_versions
from tests.support.prices import PRICES, SHARES, PriceCurve, price_curve, read_ending
from tools.study import kept_in, run_command

KINDS = {"answerable": "ANSWERABLE", "unanswerable": "UNANSWERABLE"}
SYSTEMS = ("naive", "self_crag", "quote", "nexus", "ncl", "agents")
SEEDS = range(1, 5)  # beside 0, of Self-CRAG's retries
Endings = Mapping[str, Ending]  # task id -> how its turn ended


def read_endings(kept: Mapping[str, dict]) -> dict[str, Ending]:
    "Endings from plain data."
    return {i: read_ending(e) for i, e in kept.items()}


@cache
def kept_endings() -> dict[str, dict[str, Ending]]:
    "System -> how its 120 turns ended."
    kept = kept_in("equal")["endings"]
    return {name: read_endings(some) for name, some in kept.items()}


def share_of_endings(
    some: Sequence[Ending], rule: Callable[[Ending], bool]
) -> Interval:
    "The share of turns for which a rule holds, with its interval over conversations."
    return mean_interval([float(rule(e)) for e in some], [e.talk for e in some])


def of_kind(name: str, kind: str) -> list[Ending]:
    "The answerable or the unanswerable turns of a system."
    return [e for e in kept_endings()[name].values() if e.label == KINDS[kind]]


def is_wrong(e: Ending) -> bool:
    "Whether a turn ended in a wrong answer."
    return e.verdict == "failed" and not e.refused


def is_refused(e: Ending) -> bool:
    "Whether a turn was refused."
    return e.refused


CORNERS = [(p, s) for s in (SHARES[0], SHARES[-1]) for p in (PRICES[0], PRICES[-1])]
CURVE_HEAD = ["differ", *(f"price {p:g}, {s:.0%}" for p, s in CORNERS), "shown"]


@cache
def system_curves() -> dict[str, PriceCurve]:
    "Each pair of systems over prices and shares, with intervals for all pairs (Bonferroni)."
    ends = kept_endings()
    pairs = {
        f"{b} less {a}": pair_endings("", ends[a], ends[b])
        for a, b in combinations(ends, 2)
    }
    level = 1 - 0.05 / len(pairs)
    return {n: price_curve(p, level=level) for n, p in pairs.items()}


def curve_cells(c: PriceCurve) -> list:
    "A curve at its corners, as cells of a table."
    return [c.changed, *(str(c.points[x]) for x in CORNERS), c.verdict]


@cache
def endings_by_seed() -> dict[str, dict[str, Ending]]:
    "Seed -> how the turns of Self-CRAG ended."
    first = kept_endings()["self_crag"]
    seeds = [("0", {}), *kept_in("equal")["seeds"].items()]
    return {s: first | read_endings(some) for s, some in seeds}


@cache
def seed_curves() -> dict[str, PriceCurve]:
    "Seed -> Self-CRAG less the baseline."
    naive = kept_endings()["naive"]
    by_seed = endings_by_seed()
    return {
        s: price_curve(pair_endings("", naive, some)) for s, some in by_seed.items()
    }


def other_answers() -> dict[str, int]:
    "Seed -> answers that are not those of seed 0."
    by_seed = endings_by_seed()
    first = by_seed["0"]
    return {
        s: sum(e.answer_digest != first[i].answer_digest for i, e in some.items())
        for s, some in by_seed.items()
    }


def show_endings() -> None:
    "Print the shares of right, wrong and refused turns of each system."
    rows = []
    for name in kept_endings():
        can = of_kind(name, "answerable")
        cannot = of_kind(name, "unanswerable")
        found = [share_of_endings(can, lambda e: e.verdict == "right")]
        found.append(share_of_endings(can, is_wrong))
        found += [share_of_endings(some, is_refused) for some in (can, cannot)]
        rows.append([name, len(can), len(cannot), *map(str, found)])
    head = ["system", "answerable", "unanswerable", "right", "wrong", "refused"]
    print(text_table([*head, "refused, unanswerable"], rows))


def show_pairs() -> None:
    "Print each pair of systems over prices and shares."
    rows = [[n, *curve_cells(c)] for n, c in system_curves().items()]
    print(text_table(["", *CURVE_HEAD], rows))


def show_seeds() -> None:
    "Print Self-CRAG with five seeds less the baseline; intervals of one comparison."
    changed = other_answers()
    rows = [[s, changed[s], *curve_cells(c)[1:]] for s, c in seed_curves().items()]
    print(text_table(["seed", "other answers", *CURVE_HEAD[1:]], rows))


def better_from(c: PriceCurve) -> float:
    "The lowest price from which on a difference is shown at every share; 2 where there is none."
    shown = [
        p
        for p in PRICES
        if all(c.sign(q, s) == 1 for q in PRICES if q >= p for s in SHARES)
    ]
    return min(shown, default=2)


def check_findings() -> None:
    "Assert what the study says of the six systems, of the results that are kept."
    ends = kept_endings()
    by_seed = endings_by_seed()
    curves = system_curves()
    changed = other_answers()
    seeds = seed_curves()

    def curve(a: str, b: str) -> PriceCurve:
        return curves[f"{a} less {b}"]

    assert set(ends) == {*SYSTEMS} and [*by_seed] == ["0", *map(str, SEEDS)]
    assert len({e.talk for e in ends["naive"].values()}) == 120
    assert all(set(some) == set(ends["naive"]) for some in ends.values())
    assert all(len(of_kind(n, k)) == 60 for n in ends for k in KINDS)
    assert not any(
        e.outcome is Outcome.ERROR for some in ends.values() for e in some.values()
    )
    for n in ("quote", "nexus"):
        assert curve(n, "naive").shown == 1 and curve(n, "self_crag").shown == 0
        won = [
            x
            for x in curve(n, "self_crag").points
            if curve(n, "self_crag").sign(*x) == 1
        ]
        assert max(p for p, _ in won) <= 0.5 and max(s for _, s in won) <= 0.2
    both = curve("self_crag", "naive")
    assert [both.sign(0.0, s) for s in SHARES] == [0, 0, 0, 0, 1] and better_from(
        both
    ) == 0.4
    assert [round(both.points[1.0, s].value, 2) for s in (SHARES[0], SHARES[-1])] == [
        0.3,
        0.38,
    ]
    assert (
        better_from(curve("ncl", "naive")) == 0.6
        and curve("agents", "naive").verdict == "not shown"
    )
    assert [sum(e.refused for e in of_kind("agents", k)) for k in KINDS] == [1, 3]
    can = {n: of_kind(n, "answerable") for n in ends}
    assert [
        sum(e.verdict == "right" for e in can[n]) for n in ("quote", "nexus", "naive")
    ] == [
        24,
        24,
        6,
    ]
    assert [sum(map(is_wrong, can[n])) for n in ("nexus", "quote", "naive")] == [
        19,
        20,
        37,
    ]
    assert [min([*changed.values()][1:]), max([*changed.values()][1:])] == [15, 21]
    assert len({c.verdict for c in seeds.values()}) == 1


def drawn(data: Path, rng: random.Random, n: int = 30) -> list[dict]:
    "Lines of the reference files: of each set n answerable and n unanswerable tasks, each of a conversation of its own."
    used = set()
    found = []
    files = [data / f"{s}-human" / "reference.jsonl" for s in ("mtrag", "mtragun")]
    lines = [[line for _, line in read_jsonl(path, nan_is_null=True)] for path in files]
    for kind in ("UNANSWERABLE", "ANSWERABLE"):
        for some in lines:
            talks = defaultdict(list)
            for line in some:
                if label_of(line) == kind:
                    talks[line["conversation_id"]].append(line)
            names = sorted(talks)
            rng.shuffle(names)
            fresh = [name for name in names if name not in used][:n]
            used |= set(fresh)
            found += [rng.choice(talks[name]) for name in fresh]
    rng.shuffle(found)
    return found


def label_of(line: dict) -> str:
    "The answerability of a line of a reference file."
    return (line.get("Answerability") or line["answerability"])[0]


def slice_of_pool(
    data: Path, rng: random.Random, gold: set[str], each: int = 1649
) -> list[dict]:
    "Lines of the pool: all gold, and others at random, up to so many of each domain."
    domains = defaultdict(list)
    for _, line in read_jsonl(data / "passages.jsonl.gz"):
        domains[line["domain"]].append(line)
    out = []
    for _, some in sorted(domains.items()):
        known = [p for p in some if p["id"] in gold]
        others = [p for p in some if p["id"] not in gold]
        out += known + rng.sample(others, min(len(others), each - len(known)))
    return out


def run_equal(folder: Path) -> None:
    "Draw, index, run, and keep how each turn ended."
    tasks = folder / "tasks.jsonl"
    passages = folder / "passages.jsonl"
    if not tasks.exists():
        rng = random.Random(27)
        lines = drawn(official_dir(), rng)
        gold = {c["document_id"] for line in lines for c in line["contexts"]}
        write_jsonl(passages, slice_of_pool(official_dir(), rng, gold))
        write_jsonl(tasks, lines)
    index = folder / "index"
    run_command(["ingest", "--passages", str(passages), "--index", str(index)])
    known = read_benchmark(tasks)

    def ended(name: str, seed: int = 0) -> dict[str, Ending]:
        "A system's run with a seed, as endings."
        out = folder / "runs" / (f"{name}_{seed}" if seed else name)
        if seed and not out.exists():
            out.mkdir()
            shutil.copy(folder / "runs" / name / "calls.jsonl", out)
        line = ["run", "--tasks", str(tasks), "--index", str(index), "--system", name]
        run_command([*line, "--set", f"seed={seed}", "--out", str(out)])
        return endings(Evidence(Run(out), known.gold))

    kept = {name: ended(name) for name in SYSTEMS}
    first = kept["self_crag"]
    others = {
        str(seed): {i: e for i, e in ended("self_crag", seed).items() if e != first[i]}
        for seed in SEEDS
    }
    made = {
        "machine": machine(),
        "packages": package_versions(),
        "endings": plain(kept),
        "seeds": plain(others),  # what ended otherwise than with seed 0
    }
    write_json(data_dir("measured") / "equal.json", made)
