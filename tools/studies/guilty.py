"""Is there one guilty stage? What repairs the failed turns of GPT-4o's released runs, beside placebo, repeat and constant blames.

RE-call's authors had one model answer MTRAG's tasks over ELSER's passages, over those of their own search, and over the gold
passages, with two prompts each. From a failed turn of a run with retrieval, the other runs stand for repairs: gold passages, the
other prompt, the other search, and two pairs of them. Every count is made with three definitions of right, since none is sure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from matplotlib.figure import Figure

from mtrag_nb.core.files import data_dir, write_json
from mtrag_nb.core.refusals import declines
from mtrag_nb.core.types import TO_ANSWER, TO_REFUSE, plain
from mtrag_nb.data.official import official_file
from mtrag_nb.data.ratings import read_ratings
from mtrag_nb.evaluation.verdicts import best_by_target
from mtrag_nb.evaluation.measures import rouge_l
from mtrag_nb.evaluation.statistics import Interval, unpaired_difference
from mtrag_nb.show.figures import house_style, note_origin
from tools.studies.released_files import (
    DEV,
    PROMPTS,
    Arm,
    answerable,
    answers,
    arm_file,
    arm_name,
    benchmark,
    difference,
    half,
    has_gold,
    official_scores,
    rounded,
    share,
    span,
    table,
)
from tools.study import kept_in

STARTS = [(context, prompt) for prompt in PROMPTS for context in ("elser", "recall")]
SINGLE = ("gold passages", "other prompt", "other search")
PAIRS = ("gold passages, other prompt", "other search, other prompt")
CLASSES = ("exactly one", "several, each alone", "only a pair", "nothing tried")
# Definition of right -> a score below which an answer failed, and from which it is right.
SCORED = {"RB_llm": (0.5, 0.7), "ROUGE-L": (0.15, 0.22)}
DEFINITIONS = ("words", *SCORED)
COLOURS = ("#2b6cb0", "#90cdf4", "#ed8936", "#cbd5e0")


def talk_of(task_id: str) -> str:
    "The conversation of a task."
    return task_id.split("<::>")[0]


def by_scores(scores: Mapping[str, float], definition: str) -> dict[str, str]:
    "Task id -> right, failed or undecided, by a score of the answer."
    failed_below, right_from = SCORED[definition]
    verdicts = {}
    for task_id, score in scores.items():
        verdicts[task_id] = "undecided"
        if score < failed_below:
            verdicts[task_id] = "failed"
        elif score >= right_from:
            verdicts[task_id] = "right"
    return verdicts


@cache
def verdicts_of(arm: Arm, definition: str) -> dict[str, str]:
    "Task id -> right, failed or undecided, of one of GPT-4o's runs; a refused answerable question failed."
    path = arm_file(arm)
    items, report = answers(path)
    if definition == "words":
        return {i: blamed.verdict for i, blamed in report.turns.items()}
    gold = benchmark(DEV).gold
    scores = {}
    for i, item in items.items():
        refuses = gold[i].answerability in TO_REFUSE
        if refuses or item.verdict == 1:
            scores[i] = float(refuses and item.verdict == 1)
        elif definition == "RB_llm":
            scores[i] = official_scores(path)[i].get("RB_llm_idk_underspecified", 0.0)
        else:
            scores[i] = rouge_l(item.answer, gold[i].targets[0])
    return by_scores(scores, definition)


def repairs_of(start: Arm) -> dict[str, Arm]:
    "Repair -> the run that stands for it."
    context, prompt = start
    [other_prompt] = [p for p in PROMPTS if p != prompt]
    other_search = {"elser": "recall", "recall": "elser"}[context]
    return {
        "gold passages": ("gold", prompt),
        "other prompt": (context, other_prompt),
        "other search": (other_search, prompt),
        "gold passages, other prompt": ("gold", other_prompt),
        "other search, other prompt": (other_search, other_prompt),
    }


def repaired_by(start: Arm, task_id: str, definition: str) -> list[str]:
    "The repairs that make a turn right."
    return [
        repair
        for repair, arm in repairs_of(start).items()
        if verdicts_of(arm, definition)[task_id] == "right"
    ]


def class_of(repairs: Sequence[str]) -> str:
    "How many stages a turn takes to come right, by the repairs that do it: one of CLASSES."
    singles = [r for r in repairs if r in SINGLE]
    if len(singles) == 1:
        return "exactly one"
    if singles:
        return "several, each alone"
    return "only a pair" if repairs else "nothing tried"


def failed_turns(start: Arm, definition: str) -> list[str]:
    "The answerable turns of a run that failed."
    verdicts = verdicts_of(start, definition)
    return [i for i in answerable() if verdicts[i] == "failed"]


def guilty(start: Arm, definition: str) -> dict:
    "How many stages the failed answerable turns of a run take to come right."
    repairs = {
        i: repaired_by(start, i, definition) for i in failed_turns(start, definition)
    }
    classes = {i: class_of(found) for i, found in repairs.items()}
    only = {}
    for repair in SINGLE:
        flags = {
            i: [r for r in found if r in SINGLE] == [repair]
            for i, found in repairs.items()
        }
        only[repair] = share(flags)
    counts = {c: share({i: c == k for i, k in classes.items()}) for c in CLASSES}
    return {"turns": len(repairs), **counts, "only": only}


# The placebo


def found_of(start: Arm) -> dict[str, float]:
    "Answerable task -> the share of its gold passages among those that the model was given."
    items, _ = answers(arm_file(start))
    gold = benchmark(DEV).gold
    return {i: has_gold(items[i], gold[i]) for i in answerable()}


def placebo(starts: Sequence[Arm], definition: str) -> dict:
    "What gold passages repair, by how much of the gold had been found; the turns of several runs together."
    groups: dict[str, dict[str, bool]] = {"none": {}, "some": {}, "all": {}}
    for start in starts:
        found = found_of(start)
        repaired = verdicts_of(("gold", start[1]), definition)
        for i in failed_turns(start, definition):
            name = {0.0: "none", 1.0: "all"}.get(found[i], "some")
            # A turn of another run is another turn of the same conversation.
            groups[name][f"{i}<::>{arm_name(start)}"] = repaired[i] == "right"
    talks = {i: talk_of(i) for group in groups.values() for i in group}
    none = {i: float(flag) for i, flag in groups["none"].items()}
    every = {i: float(flag) for i, flag in groups["all"].items()}
    return {
        **{name: share(flags) for name, flags in groups.items()},
        "excess": unpaired_difference(none, every, talks),
    }


# A second draw


def repeats() -> dict:
    """The gold run's verdicts beside IBM's answers of the same model over the same passages.

    Only the tasks that IBM had rated; right and failed by words.
    """
    first = verdicts_of(("gold", "official"), "words")
    missed = set(failed_turns(("elser", "official"), "words"))
    found = found_of(("elser", "official"))
    second = {}
    for rated in read_ratings(official_file(None, "mtrag-human/ratings")):
        task_id = rated.task.id
        if rated.system != "gpt-4o" or task_id not in first or task_id not in found:
            continue
        targets = benchmark(DEV).gold[task_id].targets
        told = best_by_target(rated.answer, targets, rated.task.question)
        failed = told.verdict == "wrong" or declines(rated.answer)
        second[task_id] = "failed" if failed else told.verdict
    both = sorted(second)
    alone = [i for i in both if i in missed and found[i] == 0]
    return {
        "tasks": len(both),
        "same verdict": share({i: first[i] == second[i] for i in both}),
        "right in the first, failed in the second": sum(
            first[i] == "right" and second[i] == "failed" for i in both
        ),
        "failed in the first, right in the second": sum(
            first[i] == "failed" and second[i] == "right" for i in both
        ),
        "missed by ELSER and failed": {
            "turns": len(alone),
            "right in the first gold run": sum(first[i] == "right" for i in alone),
            "right in the second": sum(second[i] == "right" for i in alone),
            "right in both": sum(first[i] == second[i] == "right" for i in alone),
        },
    }


# Rules beside constants


@dataclass(frozen=True)
class Failure:
    "A failed turn, with what a rule may look at and what repaired it."

    task_id: str
    found: float | None
    "The share of the gold passages that was given; None: the question has no answer."
    refused: bool
    repairs: tuple[str, ...]


def no_gold_found(turn: Failure) -> str:
    "The rule of 2.0: the search if none of the gold was found, else the generator."
    return "retrieve" if turn.found == 0 else "generate"


def gold_missing(turn: Failure) -> str:
    "The search unless all gold was found."
    return "retrieve" if turn.found is not None and turn.found < 1 else "generate"


def half_missing(turn: Failure) -> str:
    "The search if less than half of the gold was found."
    return "retrieve" if turn.found is not None and turn.found < 0.5 else "generate"


def missing_or_refused(turn: Failure) -> str:
    "The search if none of the gold was found, or a part was missing and the model declined."
    if turn.found is None or turn.found == 1:
        return "generate"
    return "retrieve" if turn.found == 0 or turn.refused else "generate"


def missing_or_answered(turn: Failure) -> str:
    "The search if none of the gold was found, or a part was missing and the model answered."
    if turn.found is None or turn.found == 1:
        return "generate"
    return "retrieve" if turn.found == 0 or not turn.refused else "generate"


def always_search(turn: Failure) -> str:
    "The constant: the search, or the generator where there is nothing to find."
    return "generate" if turn.found is None else "retrieve"


def always_generator(turn: Failure) -> str:
    "The other constant."
    return "generate"


RULES: dict[str, Callable[[Failure], str]] = {
    "none of the gold found": no_gold_found,
    "a part of the gold missing": gold_missing,
    "less than half of the gold found": half_missing,
    "none found, or a part missing and refused": missing_or_refused,
    "none found, or a part missing and answered": missing_or_answered,
}
CONSTANTS = {
    "always the search": always_search,
    "always the generator": always_generator,
}
REPAIR_OF = {"retrieve": "gold passages", "generate": "other prompt"}


def failures(start: Arm, definition: str = "words") -> list[Failure]:
    "All failed turns of a run, those without an answer, too."
    items, _ = answers(arm_file(start))
    gold = benchmark(DEV).gold
    found = found_of(start)
    turns = []
    for i, verdict in verdicts_of(start, definition).items():
        if verdict != "failed":
            continue
        if gold[i].answerability in TO_REFUSE or i in found:
            repairs = tuple(repaired_by(start, i, definition))
            refused = items[i].verdict == 1
            turns.append(Failure(i, found.get(i), refused, repairs))
    return turns


def hits(rule: Callable[[Failure], str], turns: Sequence[Failure]) -> dict[str, float]:
    "Task id -> whether the repair of the stage that a rule blames makes the turn right."
    return {t.task_id: float(REPAIR_OF[rule(t)] in t.repairs) for t in turns}


def score(rules: Mapping, turns: Sequence[Failure]) -> dict[str, Interval]:
    "Rule -> the share of turns that the repair of its stage makes right."
    shares = {}
    for name, rule in rules.items():
        found = hits(rule, turns)
        shares[name] = share({i: bool(x) for i, x in found.items()})
    return shares


def rules() -> dict:
    """Candidates and constants: chosen on one half of the conversations, reported on the other.

    The split is by a checksum of the conversation's id (`half`), fixed before any rule was tried.
    """
    turns = {start: failures(start) for start in STARTS}
    pooled = [
        t for some in turns.values() for t in some if half(t.task_id) == "choosing"
    ]
    chosen_by = {}
    for name, rule in RULES.items():
        flags = [float(REPAIR_OF[rule(t)] in t.repairs) for t in pooled]
        chosen_by[name] = sum(flags) / len(flags)
    chosen = max(chosen_by, key=chosen_by.get)
    reported = {}
    for start, some in turns.items():
        held_out = [t for t in some if half(t.task_id) == "reporting"]
        own = hits(RULES[chosen], held_out)
        reported[arm_name(start)] = {
            "turns": len(held_out),
            "shares": score({**RULES, **CONSTANTS}, held_out),
            "chosen less": {
                name: difference(own, hits(rule, held_out))
                for name, rule in {**RULES, **CONSTANTS}.items()
                if name != chosen
            },
        }
    return {
        "chosen on": {"turns": len(pooled), "shares": chosen_by},
        "chosen": chosen,
        "reported": reported,
    }


# What a prompt that asks for refusals prevents


def prevented() -> dict:
    "Questions without an answer that were answered, by passages and prompt; and the answerable ones answered wrongly."
    gold = benchmark(DEV).gold
    counts = {}
    for context in ("gold", "elser", "recall"):
        counts[context] = {}
        for prompt in PROMPTS:
            items, report = answers(arm_file((context, prompt)))
            failed = [i for i, b in report.turns.items() if b.verdict == "failed"]
            answered = [i for i in failed if items[i].verdict != 1]
            labels = [gold[i].answerability for i in answered]
            counts[context][prompt] = {
                "without an answer": labels.count("UNANSWERABLE"),
                "answerable": sum(label in TO_ANSWER for label in labels),
            }
    return counts


# All of it


@house_style
def picture(kept: Mapping) -> Figure:
    "How many stages a failed turn takes, by run and definition of right: stacked shares."
    figure = Figure(figsize=(9, 2.8))
    axes = figure.subplots(1, len(DEFINITIONS), sharey=True)
    names = list(kept["guilty"])
    for ax, definition in zip(axes, DEFINITIONS):
        left = [0.0] * len(names)
        for colour, name in zip(COLOURS, CLASSES):
            values = [kept["guilty"][n][definition][name]["value"] for n in names]
            ax.barh(names, values, left=left, color=colour, label=name)
            left = [a + b for a, b in zip(left, values)]
        ax.set_title(f"right by {definition}")
        ax.set_xlim(0, 1)
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(CLASSES))
    figure.supxlabel("share of the failed answerable turns", y=0.12)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    return figure


def drawn_as_kept() -> Figure:
    "The picture of what is kept."
    return note_origin(picture(kept_in("guilty")), "guilty.json")


def measure_guilty(out: str | Path = "") -> None:
    "Count everything, and keep it in data/measured/guilty.json."
    found = {
        "guilty": {
            arm_name(start): {d: guilty(start, d) for d in DEFINITIONS}
            for start in STARTS
        },
        "placebo": {
            **{
                arm_name(start): {d: placebo([start], d) for d in DEFINITIONS}
                for start in STARTS
            },
            "all four": {d: placebo(STARTS, d) for d in DEFINITIONS},
        },
        "repeats": repeats(),
        "prevented": prevented(),
        "rules": rules(),
    }
    path = Path(out or data_dir("measured")) / "guilty.json"
    write_json(path, rounded(plain(found)))


def show_guilty() -> None:
    "Print how many stages a failed turn takes to come right."
    rows = []
    for name, by_definition in kept_in("guilty")["guilty"].items():
        for definition, row in by_definition.items():
            shares = [span(row[c]) for c in CLASSES]
            rows.append([name, definition, row["turns"], *shares])
    table(["passages, prompt", "right by", "failed", *CLASSES], rows)


def show_placebo() -> None:
    "Print what gold passages repair, by how much of the gold had been found."
    rows = []
    for name, by_definition in kept_in("guilty")["placebo"].items():
        for definition, row in by_definition.items():
            cells = [f"{span(row[k])} ({row[k]['n']})" for k in ("none", "some", "all")]
            rows.append([name, definition, *cells, span(row["excess"], "+")])
    head = ["passages, prompt", "right by", "no gold found", "a part", "all: placebo"]
    table([*head, "none less all"], rows)


def show_repeats() -> None:
    "Print what a second draw of the gold run says."
    kept = kept_in("guilty")["repeats"]
    missed = kept["missed by ELSER and failed"]
    print(f"{kept['tasks']} tasks; the same verdict in {span(kept['same verdict'])}")
    for name in kept:
        if " in the " in name:
            print(f"{name}: {kept[name]}")
    print(
        "missed by ELSER and failed:", ", ".join(f"{k} {v}" for k, v in missed.items())
    )


def show_rules() -> None:
    "Print the rules beside constant blames: what chose, and what is reported on the other half."
    kept = kept_in("guilty")["rules"]
    chosen_on = kept["chosen on"]
    print(
        f"chosen on {chosen_on['turns']} failed turns of one half of the conversations:"
    )
    table(["rule", "its repair makes right"], list(chosen_on["shares"].items()))
    print(f"\nchosen: {kept['chosen']}; on the other half:")
    names = [*RULES, *CONSTANTS]
    rows = []
    for name in names:
        row = [name]
        for run in kept["reported"].values():
            row.append(span(run["shares"][name]))
        rows.append(row)
    table(["blamed", *kept["reported"]], rows)
    print()
    rows = []
    for name in names:
        if name == kept["chosen"]:
            continue
        cells = [span(r["chosen less"][name], "+") for r in kept["reported"].values()]
        rows.append([name, *cells])
    table(["the chosen rule less", *kept["reported"]], rows)


def show_prevented() -> None:
    "Print how many wrong answers a prompt that demands abstention leaves."
    rows = []
    for context, by_prompt in kept_in("guilty")["prevented"].items():
        for kind in ("without an answer", "answerable"):
            counts = [by_prompt[prompt][kind] for prompt in PROMPTS]
            rows.append([context, kind, *counts])
    table(["passages", "wrong answers to questions", *PROMPTS], rows)


def check_findings() -> None:
    "Assert what the study says, of the results that are kept."
    kept = kept_in("guilty")
    starts = list(kept["guilty"])
    one = []
    pairs = {"official": [], "abstain": []}
    nothing = []
    for name in starts:
        for row in kept["guilty"][name].values():
            one.append(round(row["exactly one"]["value"], 2))
            pairs[name.split(", ")[1]].append(round(row["only a pair"]["value"], 2))
            nothing.append(round(row["nothing tried"]["value"], 2))
    assert (min(one), max(one)) == (0.18, 0.38)
    assert (min(pairs["official"]), max(pairs["official"])) == (0.02, 0.05)
    assert (min(pairs["abstain"]), max(pairs["abstain"])) == (0.15, 0.23)
    assert (min(nothing), max(nothing)) == (0.23, 0.56)
    excesses = [row["excess"] for row in kept["placebo"]["all four"].values()]
    assert all(0.2 < e["low"] and e["high"] < 0.41 for e in excesses)
    elser = kept["placebo"]["elser, official"]["words"]
    assert span(elser["excess"], "+") == "+0.32 [+0.17, +0.47]"
    assert (elser["none"]["n"], elser["all"]["n"]) == (100, 25)
    pooled = kept["placebo"]["all four"]["words"]
    shares = [span(pooled[k]) for k in ("none", "all")]
    assert shares == ["0.38 [0.32, 0.44]", "0.10 [0.05, 0.18]"]
    points = {d: row["excess"] for d, row in kept["placebo"]["all four"].items()}
    assert span(points["words"], "+") == "+0.28 [+0.21, +0.35]"
    others = [round(points[d]["value"], 2) for d in ("RB_llm", "ROUGE-L")]
    assert others == [0.30, 0.31]
    for by_definition in kept["placebo"].values():
        assert all(row["excess"]["low"] > 0 for row in by_definition.values())
    draws = kept["repeats"]
    assert draws["tasks"] == 78 and round(draws["same verdict"]["value"], 2) == 0.77
    assert draws["right in the first, failed in the second"] == 0
    assert draws["failed in the first, right in the second"] == 0
    missed = draws["missed by ELSER and failed"]
    assert list(missed.values())[:3] == [10, 2, 3]
    rules_kept = kept["rules"]
    assert rules_kept["chosen"] == "a part of the gold missing"
    leads = {n: r["chosen less"] for n, r in rules_kept["reported"].items()}
    constant = [leads[n]["always the search"]["value"] for n in starts]
    assert [x > 0.01 for x in constant] == [False, False, True, True]
    before = [leads[n]["none of the gold found"]["value"] for n in starts]
    assert [x > 0 for x in before] == [True, False, False, False]
    gained = leads[starts[0]]["none of the gold found"]
    assert span(gained, "+") == "+0.05 [+0.01, +0.10]"
    prevented_kept = kept["prevented"]
    answered = {
        c: [by[p]["without an answer"] for p in PROMPTS]
        for c, by in prevented_kept.items()
    }
    assert answered == {"gold": [37, 1], "elser": [37, 24], "recall": [39, 28]}
    wrong = {
        c: [by[p]["answerable"] for p in PROMPTS] for c, by in prevented_kept.items()
    }
    assert wrong == {"gold": [27, 49], "elser": [98, 87], "recall": [95, 101]}
