"""Self-CRAG improved by what the forks said, on conversations that chose nothing: gates, repairs, and the runs afterwards.

The choosing set: every conversation with an unanswerable question that the 120 turns have not taken, as many with an answerable
one, half of them of each benchmark, and some that say too little. A gate refuses where something is not near enough to the
question (alone, or behind the one before it; the nearer one counts): the best document, the nearest sentence of all documents, or
the best score of the search. The baseline's drafts of the same turns are what Self-CRAG would write without a rewrite and behind a
gate that keeps all passages or none. So every variant follows from two runs: a gate, a check of the draft (the share of its words
from .6, its claims from .8), and what becomes of a rejected one: refused; trimmed to the sentences whose claims are supported,
copied where none is left; or copied.
"""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import data_dir, read_jsonl, write_json, write_jsonl
from mtrag_nb.core.html import text_table
from mtrag_nb.core.record import Checked, Drafted, Trajectory
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.claims import check_claims, claims_something, draft_score
from mtrag_nb.core.text import support
from mtrag_nb.core.types import TO_REFUSE, Outcome, plain
from mtrag_nb.data.mtrag import read_benchmark, read_corpus, sample_corpus, sample_dir
from mtrag_nb.data.official import official_dir
from mtrag_nb.evaluation.pairs import right_and_wrong
from mtrag_nb.evaluation.blame import blame
from mtrag_nb.evaluation.pairs import Ending, endings, pair_endings
from mtrag_nb.evaluation.proof import right_by_target
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.statistics import (
    _sign_flip_tests,
    auroc_interval,
    mean_interval,
)
from mtrag_nb.runs.audits import audit_run
from mtrag_nb.runs.oracles import run_ladder, find_rungs
from mtrag_nb.runs.run import machine, package_versions
from tests.support.prices import PriceCurve, price_curve, read_ending
from tools.studies.equal import (
    SEEDS,
    is_refused,
    label_of,
    read_endings,
    share_of_endings,
    slice_of_pool,
)
from tools.study import kept_in, run_command

MENDED = (
    "naive",
    "self_crag",
    "quote",
    "nexus",
    "selective",
    "self_crag+laptop",
)
OLDER, REWRITING = "mended, rewriting", {"stages.rewrite": "guarded"}  # as it was first
FORKED_TURNS = 40  # turns
MORE = (
    150  # answerable turns, of those of other conversations, that every system answers
)
FORKS = {  # mechanisms and rungs for which no model is asked
    "self_crag+laptop": (
        ("check and retry", "retry"),
        ("perfect refusal", "perfect check", "reference answer"),
    ),
    "selective": (("gate",), ("gold passages", "perfect refusal", "reference answer")),
}
BOTH = ("ANSWERABLE", "UNANSWERABLE")
TWO_SHARES = (0.07, 0.22)
TWO_PRICES = (0.0, 1.0)
FOUR = [(p, s) for s in TWO_SHARES for p in TWO_PRICES]
HEAD = [f"price {p:g}, {s:.0%}" for p, s in FOUR]


def refusing(e: Ending) -> Ending:
    "The turn, had it been refused."
    came = "right" if e.label in TO_REFUSE else "failed"
    return replace(e, verdict=came, refused=True, outcome=Outcome.I_DONT_KNOW)


def share_of(ends: dict, kind: str, rule: Callable[[Ending], bool]) -> float:
    "The share of the turns of a label for which a rule holds."
    some = [rule(e) for e in ends.values() if e.label == kind]
    return sum(some) / len(some)


def at_corners(before: dict, after: dict, n: int = 1) -> PriceCurve:
    "A difference at the corners, its intervals for n differences in one table (Bonferroni)."
    return price_curve(
        pair_endings("", before, after), TWO_PRICES, TWO_SHARES, 1 - 0.05 / n
    )


TRIED = {
    "document": (0.38, 0.45, 0.53),
    "sentence": (0.5, 0.53, 0.6),
    "search": (0.38, 0.45, 0.53),
}
COMPARED = [
    (a, b)
    for a in ("self_crag+laptop", "chosen", OLDER)
    for b in ("naive", "self_crag")
]
COMPARED += [("best draft", "self_crag")]
COMPARED += [("selective", n) for n in MENDED if n != "selective"]
WIDER = [("self_crag+laptop", "naive"), ("self_crag+laptop", "self_crag")]
WIDER += [("selective", n) for n in ("naive", "self_crag", "quote", "self_crag+laptop")]


def labelled(name: str) -> dict[str, Ending]:
    "The turns of a system on the choosing set that have an answer or none."
    kept = read_endings(kept_in("mended")["choosing"][name])
    return {i: e for i, e in kept.items() if e.label in BOTH}


def nearness_of_turns() -> dict[str, dict[str, float]]:
    "How near the passages of each turn of the choosing set were."
    return kept_in("mended")["choosing"]["near"]


def gated(what: str, least: float) -> dict[str, Ending]:
    "The copying system behind a gate."
    near = nearness_of_turns()
    copied = labelled("quote").items()
    return {i: e if near[i][what] >= least else refusing(e) for i, e in copied}


@cache
def tried_gates() -> dict[tuple[str, float], dict[str, Ending]]:
    "What is held near, at least -> the copying system's turns behind that gate."
    return {(w, x): gated(w, x) for w, some in TRIED.items() for x in some}


@cache
def gate_curves() -> dict[tuple[str, float], PriceCurve]:
    "Each gate less no gate at the corners, intervals for nine differences."
    gates = tried_gates()
    copied = labelled("quote")
    return {k: at_corners(copied, g, len(gates)) for k, g in gates.items()}


def show_gates() -> None:
    "Print what each gate would have done to the answers of the system that copies, on the choosing set."
    worth = gate_curves()
    rows = []
    for (what, least), ends in tried_gates().items():
        both = [f"{share_of(ends, k, is_refused):.2f}" for k in BOTH]
        points = [str(worth[what, least].points[x]) for x in FOUR]
        rows.append([what, least, *both, *points])
    print(text_table(["gate", "at least", "refused", "unanswerable", *HEAD], rows))
    copied = labelled("quote")
    near = nearness_of_turns()
    kinds = [e.label == BOTH[0] for e in copied.values()]
    talks = [e.talk for e in copied.values()]
    for what in TRIED:
        values = [near[i][what] for i in copied]
        print(what, "AUROC", auroc_interval(values, kinds, talks))


LEAST = {"words": 0.6, "claims": 0.8}


def variant(
    naive: dict, quote: dict, parts: dict, least: float, check: str, how: str
) -> dict:
    "The turns of the baseline behind a gate, their drafts checked and repaired."
    rests = parts["trimmed"] if how == "trimmed" else {}
    out = {}
    for i, e in naive.items():
        if parts["near"][i]["sentence"] < least:
            out[i] = refusing(quote[i])
        elif e.refused or parts["scores"][i][check] >= LEAST[check]:
            out[i] = e
        elif how == "refused":
            out[i] = refusing(e)
        else:
            other = read_ending(rests[i]) if i in rests else quote[i]
            out[i] = replace(other, cost=e.cost)
    return out


VARIANTS = [
    (least, check, how)
    for least in (0.0, 0.45, 0.5, 0.53, 0.55, 0.6)
    for check in LEAST
    for how in ("refused", "trimmed", "copied")
]


@cache
def tried_repairs() -> dict[tuple, dict[str, Ending]]:
    "Gate, check, repair -> the turns of the choosing set."
    asked = kept_in("mended")["choosing"]
    naive = labelled("naive")
    copied = labelled("quote")
    return {k: variant(naive, copied, asked, *k) for k in VARIANTS}


@cache
def repair_curves() -> dict[tuple, PriceCurve]:
    "Each variant less the baseline at the corners."
    naive = labelled("naive")
    return {k: at_corners(naive, ends) for k, ends in tried_repairs().items()}


def mean_gain(key: tuple) -> float:
    "The mean difference of a variant from the baseline over the four corners."
    return float(np.mean([repair_curves()[key].points[x].value for x in FOUR]))


@cache
def chosen_variant() -> tuple[float, str, str]:
    "Of all that refuse at most 8 % of what can be answered, the variant with the highest mean gain."
    repairs = tried_repairs()
    allowed = [k for k in VARIANTS if share_of(repairs[k], BOTH[0], is_refused) <= 0.08]
    return max(allowed, key=mean_gain)


@cache
def chosen_less_self_crag() -> PriceCurve:
    "The chosen variant less Self-CRAG as it was, on the choosing set."
    return at_corners(labelled("self_crag"), tried_repairs()[chosen_variant()])


def show_repairs() -> None:
    "Print the variants without a gate and behind the chosen one, the mean gains of copying, and the choice."
    chosen = chosen_variant()
    was = labelled("self_crag")
    listed = {k: x for k, x in tried_repairs().items() if k[0] in (0.0, chosen[0])}
    listed["Self-CRAG", "", ""] = was
    curves = repair_curves() | {
        ("Self-CRAG", "", ""): at_corners(labelled("naive"), was)
    }
    rows = []
    for k, ends in listed.items():
        both = [f"{share_of(ends, kind, is_refused):.2f}" for kind in BOTH]
        rows.append([*map(str, k), *both, *(str(curves[k].points[x]) for x in FOUR)])
    head = ["gate", "check", "rejected", "refused", "unanswerable"]
    print(text_table([*head, *HEAD], rows))
    rows = [[*k[:2], f"{mean_gain(k):.2f}"] for k in VARIANTS if k[2] == "copied"]
    print(text_table(["copied: gate", "check", "mean"], rows))
    print("chosen:", *chosen)
    less = chosen_less_self_crag()
    print("less Self-CRAG:", *(f"{x}: {less.points[c]};" for x, c in zip(HEAD, FOUR)))


@cache
def reported_endings() -> dict[str, dict[str, Ending]]:
    "System -> its turns of the reporting set; among them what the rule chose."
    kept = kept_in("mended")
    reported = {n: read_endings(some) for n, some in kept["reporting"].items()}
    reported["chosen"] = variant(
        reported["naive"],
        reported["quote"],
        kept["reporting parts"],
        *chosen_variant(),
    )
    return reported


@cache
def more_endings() -> dict[str, dict[str, Ending]]:
    "System -> its answerable turns of other conversations."
    return {n: read_endings(some) for n, some in kept_in("mended")["more"].items()}


@cache
def wider_endings() -> dict[str, dict[str, Ending]]:
    "System -> the turns of the reporting set and of other conversations."
    reported = reported_endings()
    return {n: some | reported[n] for n, some in more_endings().items()}


def ending_rows(some: dict[str, dict]) -> list[list[str]]:
    "A row a system: shares with intervals, calls and tokens of a turn."
    rows = []
    for name, ends in some.items():
        can, cannot = ([e for e in ends.values() if e.label == k] for k in BOTH)
        right, wrong = (
            share_of_endings(can, lambda e, c=c: e.verdict == c and not e.refused)
            for c in ("right", "failed")
        )
        cost = [
            sum(e.cost[by] for e in ends.values()) / len(ends)
            for by in ("calls", "tokens")
        ]
        shares = [
            right,
            wrong,
            share_of_endings(can, is_refused),
            *([share_of_endings(cannot, is_refused)] if cannot else ()),
        ]
        rows.append([name, *map(str, shares), *(f"{x:.1f}" for x in cost)])
    return rows


HOW = [
    "system",
    "right",
    "wrong",
    "refused",
    "refused, unanswerable",
    "calls",
    "tokens",
]


def weighed(
    before: dict, after: dict, price: float, unanswerable: float
) -> list[float]:
    "What each conversation gives to a difference."
    ends = [(e, after[i]) for i, e in before.items()]
    n = [sum(e.label == k for e, _ in ends) for k in BOTH]
    weight = {BOTH[0]: (1 - unanswerable) / n[0], BOTH[1]: unanswerable / n[1]}
    out = defaultdict(float)
    for e, x in ends:
        right, wrong = np.subtract(right_and_wrong(x), right_and_wrong(e))
        out[e.talk] += weight[e.label] * (right - price * wrong)
    return list(out.values())


def tried_on(
    some: dict[str, dict], compared: Sequence[tuple[str, str]]
) -> dict[tuple, list[float]]:
    "Pair of systems and corner -> what each conversation gives to the difference."
    return {
        (a, b, *x): weighed(some[b], some[a], *x) for a, b in compared for x in FOUR
    }


def differences(
    some: dict[str, dict],
    compared: Sequence[tuple[str, str]],
    beside: Iterable[list[float]] = (),
) -> tuple[dict, dict]:
    "Curves with intervals of one difference, and p of each corner after Holm over all of them and those beside."
    tried = tried_on(some, compared)
    _, holm, _ = _sign_flip_tests([*tried.values(), *beside])
    return {(a, b): at_corners(some[b], some[a]) for a, b in compared}, dict(
        zip(tried, holm)
    )


def show_differences(name: str, curves: dict, holm: dict) -> None:
    "Print curves at the corners; * marks p < .05 after Holm."
    rows = [
        [f"{a} less {b}", c.changed]
        + [f"{c.points[x]}{'*' if holm[a, b, *x] < 0.05 else ''}" for x in FOUR]
        for (a, b), c in curves.items()
    ]
    print(text_table([name, "differ", *HEAD], rows), "\n")


@cache
def reported_differences() -> dict[str, tuple[dict, dict]]:
    "Part of the reporting set -> curves, and p of each corner after Holm."
    reported = reported_endings()
    every = set(reported["naive"])
    mtrag = set(kept_in("mended")["mtrag"])
    found = {}
    for name, ids in {"both": every, "MTRAG": mtrag, "MTRAG-UN": every - mtrag}.items():
        some = {
            n: {i: e for i, e in ends.items() if i in ids}
            for n, ends in reported.items()
        }
        found[name] = differences(some, COMPARED)
    return found


@cache
def wider_differences() -> tuple[dict, dict]:
    "Curves over the wider set, and p of each corner after Holm over these and the reporting set's."
    beside = tried_on(reported_endings(), COMPARED).values()
    return differences(wider_endings(), WIDER, beside)


def show_reported() -> None:
    "Print the systems on the reporting set, and their differences, on all of it and by benchmark."
    print(text_table(HOW, ending_rows(reported_endings())), "\n")
    every = len(reported_endings()["naive"])
    mtrag = len(kept_in("mended")["mtrag"])
    sizes = {"both": every, "MTRAG": mtrag, "MTRAG-UN": every - mtrag}
    for name, (curves, corrected) in reported_differences().items():
        n = sum(not np.isnan(p) for p in corrected.values())
        print(
            f"{sizes[name]} turns. *: p < .05 after Holm over {n} testable comparisons"
        )
        show_differences(name, curves, corrected)


def show_wider() -> None:
    "Print the systems on answerable turns of other conversations, and on both together."
    head = [c for c in HOW if c != "refused, unanswerable"]
    print(text_table(head, ending_rows(more_endings())), "\n")
    wider = wider_endings()
    print(
        len(wider["naive"]),
        "turns. *: as above, over these comparisons and those of the reporting set",
    )
    show_differences("both", *wider_differences())
    print(text_table(HOW, ending_rows(wider)))


def show_gate_elsewhere() -> None:
    "Print what the gate turns away in other sets."
    of_mended = kept_in("mended")
    lower = (0.45, 0.53)
    rows = []
    for name, some in of_mended["gate elsewhere"].items():
        for kind in BOTH:
            if near_there := [(talk, x) for talk, label, x in some if label == kind]:
                talks = [talk for talk, _ in near_there]
                below = [
                    mean_interval([float(x < c) for _, x in near_there], talks)
                    for c in lower
                ]
                rows.append([name, kind.lower(), *map(str, below), len(talks)])
    print(text_table(["", "", *(f"below {c}" for c in lower), "turns"], rows))


@cache
def fork_gains() -> dict[tuple[str, str], PriceCurve]:
    "System, fork -> what its mechanism is worth, or what a perfect stage would add."
    gains = {}
    for name, forks in kept_in("mended")["forks"].items():
        for what, ends in forks.items():
            other = read_endings(ends)
            run = {i: reported_endings()[name][i] for i in other}
            pair = (other, run) if what.startswith("no ") else (run, other)
            gains[name, what] = at_corners(*pair, len(forks))
    return gains


def show_forks() -> None:
    "Print the stage at which failed turns fail first, and what mechanisms and perfect stages are worth."
    blamed = kept_in("mended")["blame"]
    stages = sorted({k for counts in blamed.values() for k in counts})
    rows = [[n, *(counts.get(k, 0) for k in stages)] for n, counts in blamed.items()]
    print(text_table(["system", *(k or "none named" for k in stages)], rows))
    for name, forks in kept_in("mended")["forks"].items():
        rows = []
        for what, ends in forks.items():
            c = fork_gains()[name, what]
            points = [str(c.points[x]) for x in FOUR]
            rows.append([what.removeprefix("no "), c.changed, *points])
        print(text_table([f"{name}, {len(ends)} turns", "differ", *HEAD], rows), "\n")


def check_findings() -> None:
    "Assert what the study says of the improved variant, of the results that are kept."
    of_mended = kept_in("mended")
    copied = labelled("quote")
    reported = reported_endings()
    more = more_endings()
    wider = wider_endings()
    worth = gate_curves()
    paid = repair_curves()
    repairs = tried_repairs()
    chosen = chosen_variant()
    less = chosen_less_self_crag()
    gain = {k: mean_gain(k) for k in VARIANTS}
    gains = fork_gains()
    after = {**reported_differences(), "wider": wider_differences()}

    def pays(c: PriceCurve) -> bool:
        return all(c.points[x].low is not None and c.points[x].low > 0 for x in FOUR)

    def signs(of: str, a: str, b: str) -> list[bool]:
        "Whether a difference holds after Holm, at each corner."
        return [bool(after[of][1][a, b, *x] < 0.05) for x in FOUR]

    assert len(copied) == 104 and len({e.talk for e in copied.values()}) == 104
    assert not {e.talk for e in copied.values()} & {
        e.talk for e in reported["naive"].values()
    }
    assert all(len(ends) == 120 for ends in reported.values())
    assert not any(
        e.outcome is Outcome.ERROR for ends in reported.values() for e in ends.values()
    )
    assert {k for k, c in worth.items() if pays(c)} == {
        ("document", 0.38),
        ("sentence", 0.5),
        ("sentence", 0.53),
    }
    assert [
        round(share_of(tried_gates()["sentence", 0.53], k, is_refused), 2) for k in BOTH
    ] == [0.02, 0.46]
    assert (
        round(share_of(tried_gates()["document", 0.53], BOTH[0], is_refused), 2) == 0.23
    )
    for least, check, _ in VARIANTS:
        by_how = [gain[least, check, how] for how in ("trimmed", "refused", "copied")]
        assert by_how[2] == max(by_how), (
            "copying is the best repair behind every gate and check"
        )
    assert (
        chosen == (0.53, "claims", "copied")
        and min(less.points[x].low for x in FOUR) > 0
    )
    assert [
        round(share_of(repairs[k, "claims", "copied"], BOTH[0], is_refused), 2)
        for k in (0.55, 0.6)
    ] == [
        0.1,
        0.21,
    ]
    ranges = [
        [
            round(f(paid[0.53, "words", how].points[x].value for x in FOUR), 2)
            for f in (min, max)
        ]
        for how in ("copied", "trimmed", "refused")
    ]
    assert ranges == [[0.13, 0.37], [0.07, 0.27], [-0.01, 0.37]], ranges
    shares = {
        n: [round(share_of(reported[n], k, is_refused), 2) for k in BOTH]
        for n in reported
    }
    assert shares["self_crag"] == [0.27, 0.33], shares
    assert shares["self_crag+laptop"] == shares["selective"] == [0.13, 0.37], shares
    wide = {
        n: [round(share_of(wider[n], k, is_refused), 2) for k in BOTH] for n in more
    }
    assert wide["self_crag+laptop"] == wide["selective"] == [0.07, 0.37], wide
    assert wide["self_crag"] == [0.22, 0.33] and len(more["naive"]) == 150
    assert round(share_of(more["self_crag+laptop"], BOTH[0], is_refused), 2) == 0.05
    known_talks = {
        e.talk for some in (copied, reported["naive"]) for e in some.values()
    }
    assert not known_talks & {e.talk for e in more["naive"].values()}
    calls = {
        n: sum(e.cost["calls"] for e in reported[n].values()) / 120 for n in reported
    }
    asks = ("self_crag", "self_crag+laptop", OLDER, "selective")
    assert [round(calls[n], 1) for n in asks] == [2.5, 0.8, 1.7, 0.0]
    both = after["both"][0]
    mended = both["self_crag+laptop", "naive"]
    assert pays(mended) and all(signs("both", "self_crag+laptop", "naive"))
    values = [mended.points[x].value for x in FOUR]
    assert round(min(values), 3) == 0.095 and round(max(values), 2) == 0.38, values
    assert signs("MTRAG", "self_crag+laptop", "naive") == [False, False, False, True]
    assert all(signs("MTRAG-UN", "self_crag+laptop", "naive"))
    assert not any(signs("both", "self_crag+laptop", "self_crag"))
    assert not any(signs("both", "best draft", "self_crag"))
    found = [both["best draft", "self_crag"].points[x].value for x in FOUR]
    assert [round(x, 2) for x in found] == [0.02, -0.06, 0.0, -0.09]
    for other in ("naive", "self_crag+laptop"):
        assert all(signs("both", "selective", other))
    assert signs("both", "selective", "self_crag") == [True, False, True, False]
    for other, listed in (("quote", True), ("nexus", False)):
        c = both["selective", other]
        assert signs("both", "selective", other) == [False, False, False, listed]
        assert -0.02 < c.points[0.0, 0.07].value < 0
    wide_curves = after["wider"][0]
    assert pays(wide_curves["self_crag+laptop", "naive"])
    gained = {
        k: [round(c.points[x].value, 2) for x in FOUR] for k, c in wide_curves.items()
    }
    assert gained["self_crag+laptop", "naive"] == [0.1, 0.27, 0.14, 0.34], gained
    assert gained["self_crag+laptop", "self_crag"] == [0.11, 0.09, 0.1, 0.09], gained
    assert gained["selective", "quote"] == [0.0, 0.06, 0.05, 0.16], gained
    calls = {n: sum(e.cost["calls"] for e in wider[n].values()) / 270 for n in more}
    assert (
        round(calls["self_crag"], 1) == 2.4
        and round(calls["self_crag+laptop"], 1) == 0.9
    )
    gate = {
        n: [x for _, label, x in some if label == BOTH[0]]
        for n, some in of_mended["gate elsewhere"].items()
    }
    assert round(float(np.mean(np.less(gate["gold left out"], 0.53))), 2) == 0.23
    assert [
        round(float(np.mean(np.less(gate["the sample"], c))), 2) for c in (0.53, 0.45)
    ] == [
        0.24,
        0.08,
    ]
    assert all(signs("wider", "self_crag+laptop", "naive"))
    assert signs("wider", "self_crag+laptop", "self_crag") == [
        True,
        False,
        True,
        False,
    ]
    for other in ("naive", "self_crag", "self_crag+laptop"):
        assert all(signs("wider", "selective", other))
    assert signs("wider", "selective", "quote") == [False, True, False, True]
    rungs = {k: [c.points[x] for x in FOUR] for k, c in gains.items()}
    written = [rungs[name, "reference answer"] for name in of_mended["forks"]]
    assert all(p.low > 0 for some in written for p in some)
    found = [
        [round(f(p.value for p in some), 2) for f in (min, max)] for some in written
    ]
    assert found == [[0.31, 0.92], [0.38, 0.88]], found
    assert all(p.low < 0 for p in rungs["selective", "gold passages"])
    assert all(
        p.low > 0
        for (_, k), x in rungs.items()
        if k in FORKS["selective"][1][1:]
        for p in x[2:]
    )
    assert all(p.low > 0 for p in rungs["self_crag+laptop", "perfect check"][2:])


def choosing(data: Path, taken: set[str], rng: random.Random) -> list[dict]:
    "Lines of the reference files, each of a conversation that is not taken."
    files = [data / f"{s}-human" / "reference.jsonl" for s in ("mtrag", "mtragun")]
    mtrag, mtragun = (
        [x for _, x in read_jsonl(path, nan_is_null=True)] for path in files
    )
    plan = [(mtrag, "UNANSWERABLE", 99), (mtragun, "UNANSWERABLE", 99)]
    plan += [
        (mtrag, "ANSWERABLE", 26),
        (mtragun, "ANSWERABLE", 26),
        (mtragun, "UNDERSPECIFIED", 16),
    ]
    taken = set(taken)
    found = []
    for lines, label, n in plan:
        talks = defaultdict(list)
        for line in lines:
            if label_of(line) == label and line["conversation_id"] not in taken:
                talks[line["conversation_id"]].append(line)
        names = sorted(talks)
        rng.shuffle(names)
        taken |= set(names[:n])
        found += [rng.choice(talks[name]) for name in names[:n]]
    rng.shuffle(found)
    return found


def nearness(t: Trajectory) -> dict[str, float]:
    "How near a turn's passages were: the best document, the nearest sentence, the best score of the search."
    sentences = [q.score for d in t.drafts for q in getattr(d, "quotes", ())]
    found = {
        "document": [g.verdict.score for g in t.grades],
        "sentence": sentences,
        "search": [h.ranked_by for s in t.retrievals for h in s.hits],
    }
    return {k: round(max(v, default=0.0), 4) for k, v in found.items()}


def kept(ends: dict[str, Ending]) -> dict[str, dict]:
    "How turns ended, as it is kept: four decimals, and without what is empty."
    shares = {
        i: {**plain(e), "value": e.value and round(e.value, 4)} for i, e in ends.items()
    }
    for e in shares.values():
        e["cost"] = {k: round(v, 4) for k, v in e["cost"].items()}
    return {
        i: {k: v for k, v in e.items() if v not in ("", False) or k == "value"}
        for i, e in shares.items()
    }


def saying(e: Evidence, answers: dict[str, str]) -> dict[str, Ending]:
    "How turns would have ended with other answers."
    turns = [
        replace(e.turns[i], answer=a, outcome=Outcome.ANSWERED)
        for i, a in answers.items()
    ]
    return endings(Evidence(Run.of("other", turns, e.contexts.values()), e.gold))


def answerable_elsewhere(data: Path, folder: Path, taken: set[str]) -> None:
    "Answerable turns of conversations that neither set has; the choosing set's passages, and the gold of all turns that are not taken."
    lines = []
    some = data / "passages.jsonl.gz"
    for path in (data / f"{s}-human" / "reference.jsonl" for s in ("mtrag", "mtragun")):
        every = [x for _, x in read_jsonl(path, nan_is_null=True)]
        lines += [
            x
            for x in every
            if label_of(x) == BOTH[0] and x["conversation_id"] not in taken
        ]
    gold = {c["document_id"] for x in lines for c in x["contexts"]}
    drawn = {
        x["conversation_id"]
        for _, x in read_jsonl(folder / "tasks.jsonl", nan_is_null=True)
    }
    passages = {x["id"]: x for _, x in read_jsonl(folder / "passages.jsonl")}
    passages |= {
        x["id"]: x for _, x in read_jsonl(some) if x["id"] in gold - set(passages)
    }
    lines = [x for x in lines if x["conversation_id"] not in drawn]
    random.Random(29).shuffle(lines)
    write_jsonl(folder / "more" / "passages.jsonl", passages.values())
    write_jsonl(folder / "more" / "tasks.jsonl", lines)


def parts_of(quote: Evidence, naive: Evidence) -> dict:
    "Of each turn: how near its passages were, what the checks say of its draft, and how it would have ended without what is not supported."
    near = {i: nearness(t) for i, t in quote.turns.items()}
    scores = {}
    rests = {}
    for i, t in naive.turns.items():
        texts = [naive.contexts[c].text for c in t.kept]
        draft = t.drafts[0].text
        found = check_claims(draft, texts)
        rest = [c.text for c in found if c.supported and claims_something(c.text)]
        scores[i] = {
            "words": support(draft, texts),
            "claims": draft_score(draft, texts),
        }
        rests |= {i: " ".join(rest)} if rest else {}
    return {"near": near, "scores": scores, "trimmed": kept(saying(naive, rests))}


def best_drafts(runs: list[Evidence]) -> dict[str, Ending]:
    "Self-CRAG, had each retry's draft of all seeds been compared, and the one been kept that the check likes best."
    ends = endings(runs[0])
    better = {}
    for i, t in runs[0].turns.items():
        steps = [(e.turns[i].of(Checked), e.turns[i].of(Drafted)) for e in runs]
        scored = [(c.verdict, d.text) for cs, ds in steps for c, d in zip(cs, ds)]
        verdict, text = max(scored, key=lambda x: x[0].score, default=(None, ""))
        if len(t.of(Checked)) > 1 and verdict.passed:
            better[i] = text
    return ends | saying(runs[0], better)


def run_mended(
    equal: Path, folder: Path
) -> None:  # equal: the folder of the study of equal shares
    "Draw, index and run the choosing set; run the new systems on the reporting set; keep how each turn ended."

    def run(of: Path, system: str, name: str = "", only=(), **how) -> Evidence:
        out = of / "runs" / (name or system)
        asked = of / "runs" / (f"naive_{MORE}" if only else "naive") / "calls.jsonl"
        if (
            system == "self_crag+laptop" and not out.exists()
        ):  # what the baseline was asked need not be asked again
            out.mkdir()
            shutil.copy(asked, out)
        line = ["run", "--tasks", str(of / "tasks.jsonl"), "--index", str(of / "index")]
        line += ["--system", system, "--out", str(out), *only]
        run_command([*line, *(f"--set={k}={v}" for k, v in how.items())])
        return Evidence(Run(out), read_benchmark(of / "tasks.jsonl").gold)

    def forked(name: str, e: Evidence) -> dict:
        "A run without mechanisms, and with perfect stages."
        how = {
            "tasks": read_benchmark(equal / "tasks.jsonl").tasks,
            "index": equal / "index",
        }
        how |= {"limit": FORKED_TURNS, "progress": False}
        questions = {i: t.question for i, t in e.turns.items()}
        at = equal / "forks" / name
        known = right_by_target(e.gold, questions)
        without, perfect = FORKS[name]
        found = {
            f"no {k}": x
            for k, x in audit_run(e.run, at / "audit", without, **how).items()
        }
        for rung in find_rungs(perfect):  # one by one, not up to it
            found |= run_ladder(e.run, at / "ladder", e.gold, known, (rung,), **how)
        return {k: kept(endings(Evidence(x, e.gold))) for k, x in found.items()}

    more = folder / "more"
    sample = folder / "sample"
    known = read_jsonl(equal / "tasks.jsonl", nan_is_null=True)
    for at in (more, sample):
        at.mkdir(parents=True, exist_ok=True)
    tasks = folder / "tasks.jsonl"
    passages = folder / "passages.jsonl"
    taken = {line["conversation_id"] for _, line in known}
    if not tasks.exists():
        rng = random.Random(28)
        lines = choosing(official_dir(), taken, rng)
        gold = {c["document_id"] for line in lines for c in line["contexts"]}
        write_jsonl(passages, slice_of_pool(official_dir(), rng, gold, each=1000))
        write_jsonl(tasks, lines)
    if not (more / "tasks.jsonl").exists():
        answerable_elsewhere(official_dir(), folder, taken)
    if not (sample / "tasks.jsonl").exists():
        write_jsonl(
            sample / "passages.jsonl", map(plain, read_corpus(*sample_corpus()))
        )
        shutil.copy(sample_dir() / "reference.jsonl", sample / "tasks.jsonl")
    for at in (folder, more, sample):
        index = [
            "ingest",
            "--passages",
            str(at / "passages.jsonl"),
            "--index",
            str(at / "index"),
        ]
        run_command(index)
    path = official_dir() / "mtrag-human" / "reference.jsonl"
    first = {line["task_id"] for _, line in read_jsonl(path, nan_is_null=True)}
    quote = run(folder, "quote")
    naive = run(folder, "naive")
    found = {s: run(equal, s) for s in MENDED}
    few = ["--limit", str(MORE)]
    elsewhere = {
        "other conversations": run(more, "quote"),
        "gold left out": run(
            more, "quote", name="quote_no_gold", only=["--without-gold"]
        ),
        "the sample": run(sample, "quote"),
    }
    others = {
        s: run(more, s, name=f"{s}_{MORE}", only=few) for s in MENDED if s != "nexus"
    }
    found[OLDER] = run(equal, "self_crag+laptop", "self_crag_older", **REWRITING)
    graded = "self_crag"
    seeds = [run(equal, graded, f"{graded}_{n}", seed=n) for n in SEEDS]
    ends = {n: kept(endings(e)) for n, e in found.items()}
    ends["best draft"] = kept(best_drafts([found[graded], *seeds]))
    forks = {name: forked(name, found[name]) for name in FORKS}
    made = {
        "machine": machine(),
        "packages": package_versions(),
        "choosing": {
            "quote": kept(endings(quote)),
            "naive": kept(endings(naive)),
            graded: kept(endings(run(folder, graded))),
            **parts_of(quote, naive),
        },
        "reporting": ends,
        "reporting parts": parts_of(found["quote"], found["naive"]),
        "more": {n: kept(endings(e)) for n, e in others.items()},
        "gate elsewhere": {
            n: [
                (t.conversation_id, e.gold[i].answerability, nearness(t)["sentence"])
                for i, t in e.turns.items()
            ]
            for n, e in elsewhere.items()
        },
        "forks": forks,
        "blame": {n: blame(e).counts("stage") for n, e in found.items()},
        "mtrag": sorted(first & set(found["naive"].turns)),
    }
    write_json(data_dir("measured") / "mended.json", made)
