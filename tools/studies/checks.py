"""What checks would have gained: drafts below a threshold replaced by a refusal, by copied sentences, or by another model's draft.

Value, by `7_evaluation/17_pairs`: a right answer 1, a refusal of an answerable question 0, a wrong answer minus its price; one
between right and wrong counts half as each. Where there is no answer, a refusal 1, an answer minus the price. It is linear in the
price, so the two ends, 0 and 1, say all. A threshold, a check, another model are chosen on one half of the conversations
(`calibrate._halves`) and reported on the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache

import numpy as np

from mtrag_nb.core.files import data_dir, write_json
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import TO_ANSWER, Context, Task, plain
from mtrag_nb.evaluation.pairs import right_and_wrong
from mtrag_nb.evaluation.pairs import Pair, Ending
from mtrag_nb.evaluation.statistics import (
    Interval,
    _sign_flip_tests,
    difference_interval,
)
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.systems.stages import list_wordings
from mtrag_nb.systems.quotes import nearest
from tests.support.prices import price_curve
from tools.studies.draft_checks import (
    AGREEMENT,
    COMBINED,
    NONE,
    SUPPORT,
    choosing,
    chosen_half,
    nearness,
    risk,
    scores,
    told_apart,
)
from tools.studies.drafts import Draft, Drafts, ending_of, others, pool, systems
from tools.studies.released_files import read_interval, rounded, span, table
from tools.study import kept_in

REPLACEMENTS = ("refusal", "copied sentences", "another model")
PRICES = (0.0, 1.0)
POOLS = {
    "test": "seven models, test",
    "MTRAG-S": "five models, MTRAG-S",
    "RaguTeam": "RaguTeam's seven, dev",
    "GPT-4o, searches": "GPT-4o, two prompts and two searches",
}


def starred(row: Mapping) -> str:
    "A gain; * if p < .05 after Holm."
    if not row["rejected"]:
        return "0"
    return span(row["gain"], "+", 3) + "*" * (row.get("p holm", 1) < 0.05)


GROUPS = {  # of systems: whether a name belongs to it
    "GPT-4o, gold": lambda n: n.startswith("GPT-4o, gold"),
    "GPT-4o, searches": lambda n: n.startswith(("GPT-4o, elser", "GPT-4o, recall")),
    "GPT-4.1": lambda n: n.startswith("GPT-4.1"),
    "seven, test": lambda n: n.endswith(", test"),
    "seven, dev": lambda n: n.startswith("RaguTeam"),
    "DeepSeek": lambda n: n.startswith("DeepSeek"),
    "five, MTRAG-S": lambda n: n.endswith("MTRAG-S"),
}
SOME = 2_000  # resamples, where a table has hundreds of intervals


@lru_cache(None)
def copied(task: Task, contexts: tuple[Context, ...]) -> str:
    "What the quoting baseline would copy, by words."
    by_id = {c.id: c for c in contexts}
    found = nearest(
        HashEmbedder(1024), list_wordings(task.question, task.history), contexts, 5
    )
    return " ".join(
        " ".join(by_id[q.context].text[q.start : q.end].split()) for q in found
    )


def value(e: Ending, price: float) -> float:
    "What an ending is worth at a price of a wrong answer."
    right, wrong = right_and_wrong(e)
    return right - price * wrong


def best_model(s: Drafts, price: float) -> str:
    "The model of the pool with the best mean value on the choosing half's tasks, other than the system's own (of several: any)."
    own = {d.model for d in s.drafts}
    tasks = {d.task.id for d, first in zip(s.drafts, chosen_half(s)) if first}
    found: dict[str, list[float]] = defaultdict(list)
    for i in tasks:
        for m, d in pool(s.pool).get(i, {}).items():
            if own != {m}:
                found[m].append(value(d.ending, price))
    most = max(map(len, found.values()), default=0)
    full = {m: np.mean(v) for m, v in found.items() if len(v) >= 0.8 * most}
    return max(full, key=full.get) if full else ""


@lru_cache(None)
def replaced(name: str, way: str, price: float) -> tuple[Ending, ...]:
    "The ending of each draft of a system, were it replaced."
    s = systems()[name]
    other = best_model(s, price) if way == "another model" else ""

    def instead(d: Draft) -> Ending:
        if d.refused:
            return d.ending
        if way == "refusal":
            return ending_of(d.task, d.gold, "", True)
        if way == "copied sentences":
            text = copied(d.task, d.contexts)
            return ending_of(d.task, d.gold, text, not text)
        o = pool(s.pool).get(d.task.id, {}).get(other)
        return o.ending if o else d.ending

    return tuple(map(instead, s.drafts))


@lru_cache(None)
def gains(name: str, way: str, price: float) -> np.ndarray:
    "[drafts] what replacing each would gain."
    after = replaced(name, way, price)
    before = [d.ending for d in systems()[name].drafts]
    return np.array([value(b, price) - value(a, price) for a, b in zip(before, after)])


def best_cut(x: np.ndarray, gain: np.ndarray) -> tuple[float, float]:
    "The threshold below which replacing gains most, and the gain summed; -inf, 0: replace nothing."
    order = np.argsort(x, kind="stable")
    sums = np.cumsum(gain[order])
    sorted_ = x[order]
    ends = np.flatnonzero(np.r_[sorted_[1:] > sorted_[:-1], True])
    at = ends[sums[ends].argmax()]
    if sums[at] <= 1e-9:
        return -np.inf, 0.0
    after = sorted_[at + 1] if at + 1 < len(sorted_) else sorted_[at] + 1.0
    return float((sorted_[at] + after) / 2), float(sums[at])


def chosen_gain(name: str, check: str, way: str, price: float) -> float:
    "What a check with its best threshold gains on the choosing half, summed."
    s = systems()[name]
    gain = gains(name, way, price)
    some = chosen_half(s) & np.array([not d.refused for d in s.drafts])
    return best_cut(scores(name)[check][some], gain[some])[1]


def applied(name: str, check: str, way: str, price: float) -> dict:
    "A check with its threshold from the choosing half, on the other half."
    s = systems()[name]
    x = scores(name)[check]
    gain = gains(name, way, price)
    first = chosen_half(s)
    drafts = np.array([not d.refused for d in s.drafts])
    cut = best_cut(x[first & drafts], gain[first & drafts])[0]
    below = drafts & (x < cut)
    moved = np.where(below, gain, 0.0)[~first]
    talks = [d.talk for d, f in zip(s.drafts, first) if not f]
    rest = [d for d, f, b in zip(s.drafts, first, below) if b and not f]
    return {
        "threshold": None if cut == -np.inf else cut,
        "rejected": int((below & ~first).sum()),
        "of": int((drafts & ~first).sum()),
        "rejected, by what they are": dict(Counter(kind_of(d) for d in rest)),
        "gain": difference_interval(moved.tolist(), talks),
        "sums": sums_of(moved, talks),
    }


def kind_of(d: Draft) -> str:
    "Label and verdict of a draft, in words."
    return f"{d.gold.answerability.lower()}, {d.ending.verdict}"


def sums_of(values: Sequence[float], talks: Sequence[str]) -> list[float]:
    "By conversation: what a sign-flip test flips."
    out: dict[str, float] = defaultdict(float)
    for v, t in zip(values, talks):
        out[t] += float(v)
    return list(out.values())


def with_holm(rows: dict[str, dict]) -> dict[str, dict]:
    "p by sign flips over conversations, Holm over the rows that so many conversations could show; the sums go."
    keys = [k for k, r in rows.items() if any(r["sums"])]
    tests, adjusted, _ = _sign_flip_tests([rows[k]["sums"] for k in keys])
    for k, t, h in zip(keys, tests, adjusted):
        rows[k] |= {
            "p": t.p,
            "conversations that differ": int(np.count_nonzero(rows[k]["sums"])),
        }
        if h == h:
            rows[k]["p holm"] = float(h)
    for r in rows.values():
        del r["sums"]
    return rows


def curve(name: str, check: str, way: str, price: float, cut: float) -> str:
    "What the change is over all prices and shares of unanswerable questions, in words."
    s = systems()[name]
    x = scores(name)[check]
    after = replaced(name, way, price)
    rest = ~chosen_half(s)
    before = {f"{d.task.id}|{d.model}": d.ending for d, r in zip(s.drafts, rest) if r}
    with_ = {
        f"{d.task.id}|{d.model}": a if not d.refused and v < cut else d.ending
        for d, a, v, r in zip(s.drafts, after, x, rest)
        if r
    }
    return price_curve(Pair(name, before, with_)).verdict


def by_system() -> dict[str, dict]:
    "For each system, replacement and price: the check and threshold with the best value on the choosing half, on the other half."
    rows = {}
    for name, s in systems().items():
        for way in REPLACEMENTS:
            if way == "another model" and not others(s.pool):
                continue
            for price in PRICES:
                tried = [c for c in scores(name) if c != NONE]
                best = max(tried, key=lambda c: chosen_gain(name, c, way, price))
                row = applied(name, best, way, price) | {"check": best}
                if row["threshold"] is not None:
                    row["curve"] = curve(name, best, way, price, row["threshold"])
                rows[f"{name}; {way}; {price:g}"] = row
    return with_holm(rows)


def pooled() -> dict[str, dict]:
    "For each check, replacement and price: thresholds chosen for each system, the mean gain over the reporting drafts of all; p of what it adds to replacing all or none."
    rows = {}
    checks = list(dict.fromkeys(c for name in systems() for c in scores(name)))
    for check in checks:
        for way in REPLACEMENTS:
            for price in PRICES:
                rows[f"{check}; {way}; {price:g}"] = over_systems(check, way, price)
    return with_holm(rows)


def over_systems(check: str, way: str, price: float) -> dict:
    "A check over the reporting halves of all systems that have it."
    moved = []
    blind = []
    talks = []
    labels = []
    rejected = 0
    drafts = 0
    up = 0
    down = 0
    for name, s in systems().items():
        if check not in scores(name) or (way == "another model" and not others(s.pool)):
            continue
        x = scores(name)[check]
        gain = gains(name, way, price)
        first = chosen_half(s)
        can = np.array([not d.refused for d in s.drafts])
        at = best_cut(x[first & can], gain[first & can])[0]
        own = np.where(can & (x < at), gain, 0.0)[~first]
        moved.extend(own)
        all_ = can & (gain[first & can].sum() > 1e-9)
        blind.extend(np.where(all_, gain, 0.0)[~first])
        talks.extend(d.talk for d, f in zip(s.drafts, first) if not f)
        labels.extend(d.gold.answerability for d, f in zip(s.drafts, first) if not f)
        rejected += int((can & (x < at) & ~first).sum())
        drafts += int((can & ~first).sum())
        i = difference_interval(own.tolist(), talks[-len(own) :], SOME)
        up += i.low is not None and i.low > 0
        down += i.high is not None and i.high < 0
    by_label = {}
    for label in (*TO_ANSWER, "UNANSWERABLE"):
        some = [k for k, x in enumerate(labels) if x == label]
        by_label[label] = difference_interval(
            [float(moved[k]) for k in some], [talks[k] for k in some], SOME
        )
    return {
        "rejected": rejected,
        "drafts": drafts,
        "systems up": int(up),
        "systems down": int(down),
        "gain": difference_interval(list(map(float, moved)), talks),
        "over all or none": difference_interval(
            [float(a - b) for a, b in zip(moved, blind)], talks
        ),
        "by label": by_label,
        "sums": sums_of([a - b for a, b in zip(moved, blind)], talks),
    }


def as_it_stands() -> dict[str, dict]:
    "The check of the laptop profile, support of .6, nothing chosen: on all drafts of each system."
    rows = {}
    for name, s in systems().items():
        x = scores(name)[SUPPORT]
        for way in REPLACEMENTS[:2]:
            for price in PRICES:
                below = np.array(
                    [not d.refused and v < LAPTOP for d, v in zip(s.drafts, x)]
                )
                moved = np.where(below, gains(name, way, price), 0.0)
                talks = [d.talk for d in s.drafts]
                some = Counter(kind_of(d) for d, b in zip(s.drafts, below) if b)
                rows[f"{name}; {way}; {price:g}"] = {
                    "rejected": int(below.sum()),
                    "of": sum(not d.refused for d in s.drafts),
                    "rejected, by what they are": dict(some),
                    "gain": difference_interval(moved.tolist(), talks),
                    "sums": sums_of(moved, talks),
                }
    return with_holm(rows)


LAPTOP = load_settings("laptop").stages.check_threshold


@lru_cache(None)
def scores_of(pool_name: str) -> dict[tuple[str, str], dict[str, float]]:
    "Task id, model -> check -> score."
    return {
        (d.task.id, d.model): {c: float(x[k]) for c, x in scores(s.name).items()}
        for s in systems().values()
        if s.pool == pool_name
        for k, d in enumerate(s.drafts)
    }


def first_by(check: str, pool_name: str, task_id: str, otherwise: str) -> Draft:
    "The draft of a task that a check puts first, of equal ones the first; where all refuse, a model's own."
    some = pool(pool_name)[task_id]
    told = scores_of(pool_name)
    answers = [d for d in some.values() if not d.refused]
    return max(
        answers, key=lambda d: told[task_id, d.model][check], default=some[otherwise]
    )


def official_change(
    pairs: Sequence[tuple[Draft, Draft]], measure: str
) -> Interval | None:
    "An official score of the first of each pair less the second; a refusal has 0. None unless all are scored."
    worth = [
        [0.0 if d.refused else d.official.get(measure) for d in pair] for pair in pairs
    ]
    if any(None in pair for pair in worth):
        return None
    return difference_interval([a - b for a, b in worth], [a.talk for a, _ in pairs])


def best_of(pool_name: str) -> dict[str, dict]:
    "For each check: the draft of a task that it puts first, less that of the best single model of the choosing half, and less the first that answers (p is of this); reporting half."
    of_task = pool(pool_name)
    rows = {}
    models = list(dict.fromkeys(m for some in of_task.values() for m in some))
    whole = {i: some for i, some in of_task.items() if len(some) == len(models)}
    talk_of = {i: next(iter(some.values())).talk for i, some in whole.items()}
    rest = [i for i in whole if talk_of[i] not in choosing(pool_name)]
    talks = [talk_of[i] for i in rest]
    checks = list(dict.fromkeys(c for x in scores_of(pool_name).values() for c in x))
    for price in PRICES:
        worth = {
            m: np.mean(
                [
                    value(some[m].ending, price)
                    for i, some in whole.items()
                    if i not in rest
                ]
            )
            for m in models
        }
        single = max(worth, key=worth.get)
        for check in checks:
            if check == COMBINED:  # its weights are each system's own
                continue
            picked = [first_by(check, pool_name, i, single) for i in rest]
            anyone = [first_by(NONE, pool_name, i, single) for i in rest]
            pairs = [(d, whole[i][single]) for d, i in zip(picked, rest)]
            moved = [value(a.ending, price) - value(b.ending, price) for a, b in pairs]
            over = [
                value(a.ending, price) - value(b.ending, price)
                for a, b in zip(picked, anyone)
            ]
            rows[f"{check}; {price:g}"] = {
                "single": single,
                "tasks": len(rest),
                "gain": difference_interval(moved, talks),
                "over the first": difference_interval(over, talks),
                "sums": sums_of(over, talks),
            } | {k: x for k in ("RB_llm", "RL_F") if (x := official_change(pairs, k))}
    return rows


def counted(s: Drafts) -> dict:
    "What the drafts of a system are."
    said = Counter("refused" if d.refused else d.ending.verdict for d in s.drafts)
    return {
        "tasks": len(s.drafts),
        "conversations": len({d.talk for d in s.drafts}),
        **said,
    }


def measure_checks() -> None:
    "Everything, into data/measured/checks.json."
    shown = (SUPPORT, "contextual support", AGREEMENT, COMBINED)
    found = {
        "systems": {name: counted(s) for name, s in systems().items()},
        "auroc": {name: told_apart(s) for name, s in systems().items()},
        "nearness": {n: nearness(s) for n, s in systems().items() if "elser" in n},
        "risk": {
            name: {c: risk(s, c) for c in shown if c in scores(name)}
            for name, s in systems().items()
        },
        "as it stands": as_it_stands(),
        "by check": pooled(),
        "by system": by_system(),
        "best of": {name: with_holm(best_of(name)) for name in POOLS},
    }
    write_json(data_dir("measured") / "checks.json", rounded(plain(found), 5))


@cache
def kept_checks() -> dict:
    "What was measured of checks."
    return kept_in("checks")


@cache
def kept_names() -> list[str]:
    "The checks of the tables."
    return list(dict.fromkeys(k.split("; ")[0] for k in kept_checks()["by check"]))


def auroc_cell(yardstick: str, check: str, group: Callable[[str], bool]) -> str:
    "The mean over systems, and in how many the interval lies above and below .5."
    of_checks = kept_checks()
    found = [
        read_interval(by[yardstick][check])
        for name, by in of_checks["auroc"].items()
        if group(name) and check in by.get(yardstick, {})
    ]
    if not found:
        return ""
    middle = 0.0 if " less " in check else 0.5
    above = sum(i.low is not None and i.low > middle for i in found)
    below = sum(i.high is not None and i.high < middle for i in found)
    mean = np.mean([i.value for i in found])
    return f"{mean:.2f} {'+' * above}{'-' * below}".strip()


def show_systems() -> None:
    "Print what the drafts of each system are."
    of_checks = kept_checks()
    rows = [
        [
            name,
            *(
                x.get(k, 0)
                for k in ("tasks", "right", "undecided", "failed", "refused")
            ),
        ]
        for name, x in of_checks["systems"].items()
    ]
    table(["", "tasks", "right", "between", "wrong", "refused"], rows)


def show_areas() -> None:
    "Print how well each check tells good drafts from poor ones."
    of_checks = kept_checks()
    for yardstick, words in (
        ("target", "right against wrong by the target"),
        ("RB_llm", "good against poor by RB_llm"),
        ("RL_F", "good against poor by RL_F"),
    ):
        groups = {
            g: of
            for g, of in GROUPS.items()
            if any(of(n) and yardstick in by for n, by in of_checks["auroc"].items())
        }
        extra = ("agreement less support", "combination less support")
        names = [c for c in (*kept_names(), *extra) if c != NONE]
        rows = [
            [c, *(auroc_cell(yardstick, c, of) for of in groups.values())]
            for c in names
        ]
        table([f"AUROC, {words}", *groups], [r for r in rows if any(r[1:])])
        print()
    print(
        "means over systems; a + or - for each system whose 95 % interval excludes .5, or 0 of a difference"
    )
    for name, by in of_checks["nearness"].items():
        rows = [
            [check, *(span(by[y][check]) for y in by)]
            for check in next(iter(by.values()))
        ]
        print()
        table([f"{name}, 40 conversations", *by], rows)


def show_as_it_stands() -> None:
    "Print what the laptop's check would have gained, nothing chosen."
    of_checks = kept_checks()
    rows = []
    for name in of_checks["systems"]:
        by = {
            (way, price): of_checks["as it stands"][f"{name}; {way}; {price}"]
            for way in ("refusal", "copied sentences")
            for price in (0, 1)
        }
        one = by["refusal", 0]
        kinds = Counter()
        for kind, n in one["rejected, by what they are"].items():
            kinds[kind.split(", ")[1]] += n
        rows.append(
            [
                name,
                f"{one['rejected']} of {one['of']}",
                *(kinds[k] for k in ("right", "undecided", "failed")),
                *(starred(r) for r in by.values()),
            ]
        )
    head = ["support below .6", "rejected", "right", "between", "wrong"]
    table([*head, "refused, price 0", "price 1", "copied, price 0", "price 1"], rows)


def show_chosen() -> None:
    """Print each check with thresholds from the choosing half, and the best check of
    each system."""
    of_checks = kept_checks()
    for price in (0, 1):
        rows = []
        for check in kept_names():
            by = [of_checks["by check"][f"{check}; {w}; {price}"] for w in REPLACEMENTS]
            cells = [check]
            for r in by:
                star = "*" * (r.get("p holm", 1) < 0.05)
                cells += [
                    span(r["gain"], "+", 3),
                    span(r["over all or none"], "+", 3) + star,
                ]
            rows.append(cells)
        head = [x for w in REPLACEMENTS for x in (w, "over none")]
        table([f"a wrong answer costs {price}", *head], rows)
        print()
    print(
        "mean gain a task over the reporting halves of all systems that have the check;"
    )
    print(
        "over none: what the check adds to replacing all drafts or none; * p < .05, Holm over both tables"
    )
    rows = [
        [
            check,
            *(
                span(x, "+", 3)
                for x in of_checks["by check"][f"{check}; refusal; 1"][
                    "by label"
                ].values()
            ),
        ]
        for check in (SUPPORT, "contextual support", AGREEMENT, COMBINED)
    ]
    print()
    table(["refused, price 1, by label", *TO_ANSWER, "UNANSWERABLE"], rows)
    rows = []
    for name in of_checks["systems"]:
        cells = []
        for w in REPLACEMENTS:
            r = of_checks["by system"].get(f"{name}; {w}; 1")
            words = f"{starred(r)} {r['check'] if r['rejected'] else ''}" if r else "–"
            cells.append(words.strip())
        rows.append([name, *cells])
    table(["a wrong answer costs 1; check chosen", *REPLACEMENTS], rows)
    print()
    rows = [
        [
            *key.split("; "),
            r["check"],
            f"{r['rejected']} of {r['of']}",
            starred(r),
            r["curve"],
        ]
        for key, r in of_checks["by system"].items()
        if r["rejected"] and r.get("p", 1) < 0.05
    ]
    head = ["p < .05 before Holm", "replaced by", "price", "check", "rejected", "gain"]
    table([*head, "prices 0 to 1, shares 5 to 25 %"], rows)
    print(
        "* p < .05, Holm over the",
        len(of_checks["by system"]),
        "rows in which anything is replaced",
    )


def show_best_of() -> None:
    "Print the best of several drafts by each check, and risk against coverage."
    of_checks = kept_checks()
    for name, by in of_checks["best of"].items():
        if not by:
            continue
        one = next(iter(by.values()))
        print(f"{POOLS[name]}: {one['tasks']} tasks of the reporting half")
        checks = list(dict.fromkeys(k.split("; ")[0] for k in by))
        official = [k for k in ("RB_llm", "RL_F") if k in one]

        def cells(r):
            star = "*" * (r.get("p holm", 1) < 0.05)
            return [span(r["gain"], "+", 3), span(r["over the first"], "+", 3) + star]

        rows = [
            [c, *(x for p in (0, 1) for x in cells(by[f"{c}; {p}"]))]
            + [span(by[f"{c}; 0"][k], "+", 3) for k in official]
            for c in checks
        ]
        singles = [by[f"{checks[0]}; {p}"]["single"] for p in (0, 1)]
        print("best single model:", " / ".join(dict.fromkeys(singles)))
        first = "over the first"
        table(["", "price 0", first, "price 1", first, *official], rows)
        print()
    some = (
        "GPT-4o, elser, the benchmark's prompt",
        "GPT-4o, elser, told to abstain",
        "GPT-4.1, IIMAS' search",
    )
    rows = [
        [f"{name}: {check}", *(span(r[c]) for c in ("1", "0.9", "0.8", "0.5"))]
        for name in some
        for check, r in of_checks["risk"][name].items()
    ]
    table(["share wrong among the drafts kept", "all", "90 %", "80 %", "50 %"], rows)


def check_findings() -> None:
    "Assert what the study says of checks, of the results that are kept."
    of_checks = kept_checks()
    stands = of_checks["as it stands"]

    def below(way: str, price: int, sign: int) -> list[str]:
        "The systems whose interval lies on one side of 0."
        rows = {
            n: read_interval(stands[f"{n}; {way}; {price}"]["gain"])
            for n in of_checks["systems"]
        }
        return [
            n
            for n, i in rows.items()
            if i.low is not None and (i.high < 0 if sign < 0 else i.low > 0)
        ]

    assert (len(below("refusal", 0, -1)), len(below("refusal", 1, -1))) == (19, 8)
    assert below("refusal", 1, 1) and all(
        n.startswith(("GPT-4o, elser", "GPT-4o, recall", "GPT-4.1"))
        for n in below("refusal", 1, 1)
    )
    assert [below("copied sentences", price, 1) for price in (0, 1)] == [
        ["GLM 4.6, test"]
    ] * 2
    of_s = Counter()
    for n in of_checks["systems"]:
        if n.endswith("MTRAG-S"):
            for kind, k in stands[f"{n}; refusal; 0"][
                "rejected, by what they are"
            ].items():
                of_s[kind.split(", ")[1]] += k
    assert (of_s.total(), of_s["right"], of_s["failed"]) == (1241, 1076, 12)
    sure = [k for k, r in of_checks["by check"].items() if r.get("p holm", 1) < 0.05]
    assert sure == ["combination; refusal; 1"]
    more = of_checks["by check"][sure[0]]["over all or none"]
    assert [round(more[k], 3) for k in ("value", "low", "high")] == [0.05, 0.032, 0.068]
    gained = [
        read_interval(by["RB_llm"]["agreement less support"]).low > 0
        for by in of_checks["auroc"].values()
        if "agreement less support" in by.get("RB_llm", {})
    ]
    assert (sum(gained), len(gained)) == (11, 12)
    chosen = [
        r["over the first"]["value"]
        for by in of_checks["best of"].values()
        for r in by.values()
        if r.get("p holm", 1) < 0.05
    ]
    assert chosen and max(chosen) < 0, "what is shown is a loss"
    agreeing = (
        of_checks["best of"]["GPT-4o, searches"][f"{AGREEMENT}; {p}"] for p in (0, 1)
    )
    assert [round(x["over the first"]["value"], 3) for x in agreeing] == [0.007, 0.014]
