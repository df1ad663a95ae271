"""The studies of measures and of correction on tiny inputs: what measures them works from end to end."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from mtrag_nb.core.files import read_json, write_json, write_jsonl
from mtrag_nb.core.record import Calls, Drafted, Refused
from mtrag_nb.core.run_folder import Run
from tests.support.turns import new_turn
from mtrag_nb.core.types import DataError, Gold, Task, expect, build_object
from mtrag_nb.data.mtrag import Benchmark
from mtrag_nb.data.ratings import RatedAnswer
from mtrag_nb.evaluation.measures import rouge_l
from mtrag_nb.evaluation.verdicts import RIGHT, WRONG
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.statistics import LEAST, Comparison, auroc, spearman
from tools.studies.blame_forks import as_line, from_line, turned
from tools.studies.intervals import (
    CASES,
    ICC,
    TALKS,
    _skewed,
    a_difference,
    a_mean,
    a_mixed_mean,
    a_share,
    a_skewed_mean,
    a_sparse_difference,
    an_auroc,
    conversations,
    coverage,
    latent,
    read_coverage,
    separation,
    simulate,
    two_aurocs,
    two_shares,
)
from tools.studies.noise_floor import (
    apart,
    between_systems,
    equals,
    percentile_interval,
)
from tools.studies.power import codes
from tools.studies.refusal_rule import (
    Official,
    accuracy,
    errors_by_length,
    from_ratings,
    held_against,
)
from tools.studies.scored_answers import PARTS, TRIED, Scored, measured
from tools.studies.submissions import compare_submissions, conditioned_file
from tools.studies.verdict_rules import (
    agree,
    as_before,
    auroc_of,
    both,
    curves,
    ended,
    licence_of_rule,
    padded,
    rules,
    thresholds,
    words,
)
from tools.studies.yardsticks import (
    answering,
    best_combination,
    conditioned,
    licence_of_systems,
    ordered_alike,
    rank_correlation,
)


def test_the_rule_is_held_against_verdicts() -> None:
    "Precision, recall and accuracy of the rule, and the floor of equally good answers."
    task = Task("c1<::>1", "c1", 1, "govt", "How much is it?")

    def rated(label, right, said="It is 12 crowns."):
        return RatedAnswer(
            task,
            Gold(task.id, label, ("It costs 12 crowns.",)),
            "a model",
            said,
            {},
            {"conditional_idk": right},
        )

    found = from_ratings(
        [
            rated("ANSWERABLE", 1),
            rated("ANSWERABLE", 0),
            rated("UNANSWERABLE", 1),
            rated("UNANSWERABLE", 0),
        ]
    )
    assert [a.verdict for a in found] == [0, 1, 1, 0] and {a.half for a in found} <= {
        "writing",
        "reporting",
    }
    four = [
        Official("t", "UNANSWERABLE", 1.0, "I don't know."),
        Official("t", "UNANSWERABLE", 0.5, "I don't know."),
        Official("t", "ANSWERABLE", 0.0, "It is 12 crowns."),
        Official("t", "UNANSWERABLE", 1.0, "Dragons, maybe."),
    ]
    of_four = held_against(four)
    assert (of_four["precision"], of_four["recall"], of_four["refusals"]) == (
        0.5,
        0.5,
        2,
    )
    assert (
        of_four["accuracy, official"] == of_four["accuracy, rule"] == 0.75
        and accuracy(four[:0], lambda a: 1) is None
    )
    assert errors_by_length(four, (1, 5)) == {1: 2, 5: 2}
    full = {"faithfulness": (4, 4, 3), "completeness": (4, 4)}
    one, two, worse = (
        RatedAnswer(
            task,
            Gold(task.id, "ANSWERABLE", ("It costs 12 crowns.",)),
            who,
            said,
            marks,
            {},
        )
        for who, said, marks in [
            ("a", "It costs 12 crowns.", full),
            ("b", "12 crowns.", full),
            ("c", "It costs 12 crowns.", {**full, "completeness": (2, 4)}),
        ]
    )
    assert equals([one, two, worse]) == [(one, two)] and apart([(one, two)]) == [
        1 - rouge_l("12 crowns.", "It costs 12 crowns.")
    ]
    assert percentile_interval([1.0] * 5, list("aabbc"), resamples=50) == (
        1.0,
        1.0,
        1.0,
    )
    assert median(percentile_interval([0.1, 0.2, 0.9], list("abc"), 0.5, 200)) == 0.2
    asked = [Task(f"{n}<::>1", str(n), 1, "govt", "?") for n in range(8)]
    longer = [
        RatedAnswer(
            t, Gold(t.id, "ANSWERABLE", ("It costs 12 crowns.",)), who, said, full, {}
        )
        for t in asked
        for who, said in (("a", "It costs 12 crowns."), ("b", "12 crowns."))
    ]
    found = between_systems(longer, "a", "b")
    assert (
        found["people"]["value"]
        == 0
        < found["RougeL"]["value"]
        == round(1 - rouge_l("12 crowns.", "It costs 12 crowns."), 4)
    )
    assert (
        found["tasks"] == 8
        and between_systems(longer, "b", "a")["RougeL"]["value"]
        == -found["RougeL"]["value"]
    )


class Letters:
    "An encoder for the tests: counts of letters."

    dim = 26

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        "Unit vectors of counts."
        rows = [[t.lower().count(chr(97 + k)) for k in range(26)] for t in texts]
        counts = np.array(rows, float)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def made(
    n: int,
    answer: str,
    llm: float,
    source: str = "MTRAG-S",
    system: str = "a",
    label: str = "ANSWERABLE",
    refuses: float = 0.0,
) -> Scored:
    "An answer with official scores."
    truth = {"RB_llm": llm, "RL_F": llm, "refuses": refuses}
    target = "It costs 12 crowns."
    return Scored(source, system, f"{n}<::>1", label, answer, target, (target,), truth)


def test_measures_are_held_against_official_scores() -> None:
    """Measures, combinations, orders of systems and rules for right and wrong of made
    answers."""
    pair_of = [made(1, "It costs 12 crowns.", 1.0), made(2, "Zebras graze.", 0.1)]
    columns = measured(pair_of, Letters())
    assert columns["ROUGE-L"].tolist() == [1.0, 0.0] and columns[
        "target's words"
    ].tolist() == [
        1.0,
        0.0,
    ]
    assert columns["cosine"][0] > 0.99 > columns["cosine"][1] and set(columns) == {
        *PARTS,
        *TRIED,
    }
    eight = [made(n, "x", n / 8, system=s) for n in range(8) for s in "ab"]
    ranks = np.array([a.truth["RB_llm"] + (a.system == "b") / 100 for a in eight])
    assert (
        rank_correlation(ranks, np.arange(16.0), [a.talk for a in eight]).value > 0.99
    )
    two_systems = [
        made(n, "x", 0.9 if s == "a" else 0.2, system=s) for n in range(8) for s in "ab"
    ]
    llm = np.array([a.truth["RB_llm"] for a in two_systems])
    assert ordered_alike(llm, llm, two_systems).value == 1.0
    assert ordered_alike(-llm, llm, two_systems).value == 0.0
    assert ordered_alike(0 * llm, llm, two_systems).value == 0.5
    assert answering([made(1, "x", 1.0, refuses=1.0), made(1, "x", 1.0)]).tolist() == [
        False,
        True,
    ]
    rng = np.random.default_rng(0)
    toy = {
        "a": rng.normal(size=200),
        "b": rng.normal(size=200),
        "noise": rng.normal(size=200),
    }
    aim = np.clip(0.5 + 0.1 * toy["a"] + 0.05 * toy["b"], 0, 1)
    found = best_combination(toy, aim, [str(n) for n in range(200)])
    assert found.parts == ("a", "b") and spearman(found.of(toy), aim) > 0.99
    many = [
        made(n, "It costs 12 crowns." if s == "a" and n % 4 else "Zebras.", v, system=s)
        for n in range(20)
        for s, v in (("a", 0.9 - n / 100), ("b", 0.2), ("c", 0.1))
    ]
    by_words = measured(many, Letters())
    order = licence_of_systems(many, {"ROUGE-L": by_words["ROUGE-L"]}, "RB_llm")
    assert (order["systems"], order["pairs"], order["told apart"]) == (3, 3, 2)
    assert order["ROUGE-L"]["alike"] == 2 and order["ROUGE-L"]["floor"] == 0.0
    quiet = [
        made(1, "", 0.5),
        made(2, "x", 0.5),
        made(1, "x", 0.5, label="UNANSWERABLE"),
    ]
    assert conditioned(np.ones(3), quiet, np.array([True, False, False])).tolist() == [
        0.0,
        1.0,
        0.0,
    ]
    assert [ended(a, "judge").verdict for a in many[:3]] == [
        "right",
        "failed",
        "failed",
    ]
    assert ended(quiet[2], words).verdict == "failed"
    assert [
        f("12 crowns.", "It costs 12 crowns.") for f in (words, as_before, both)
    ] == ["right"] * 3
    assert thresholds(rouge_l, many)[0] == 0.0
    surface = curves(many, words)
    assert (
        list(surface) == ["b less a", "c less a", "c less b"]
        and surface["b less a"].shown == -1
    )
    assert (
        agree(surface, surface)["same sign"] == 22
        and agree(surface, surface)["neither"] == 11
    )
    few = [a for a in many if a.system != "c"]
    assert list(rules(few))[-2:] == [
        f"target recall, {WRONG} and {RIGHT}",
        "both of these agree",
    ]
    assert licence_of_rule(words, few)["right"] == {
        "right": 0.75,
        "undecided": 0.0,
        "wrong": 0.25,
    }
    assert licence_of_rule(words, few)["wrong"]["wrong"] == 1.0
    assert auroc_of("target recall", few)["auroc"].value == 0.875
    assert {len(x) for x in padded(few).values()} == {40, 20}


def test_simulated_benchmarks_have_their_variance(tmp_path: Path) -> None:
    """Simulated numbers have the moments that they should, and intervals hold the true
    value."""
    tmp = tmp_path
    rng = np.random.default_rng(0)
    talks = conversations(rng, 4000)
    z = latent(rng, talks)
    sizes = np.bincount(talks)
    means = np.bincount(talks, z) / np.bincount(talks)
    assert set(sizes) == set(range(4, 11)) and abs(z.var() - 1) < 0.03
    assert abs(means.var() - (ICC + (1 - ICC) * (1 / sizes).mean())) < 0.02, (
        "the variance of a conversation's mean"
    )
    rng = np.random.default_rng(2)
    u = rng.random(200_000)
    assert abs(_skewed(u).mean() - 0.2) < 0.002 and np.mean((_skewed(u) - 0.2) ** 3) > 0
    for case in (
        a_skewed_mean,
        a_mixed_mean,
        a_sparse_difference,
        partial(a_sparse_difference, one=True),
    ):
        found = case(rng, 60)
        assert found.low < found.value < found.high and 0 < found.value < 0.4
    rng = np.random.default_rng(1)
    for case in (
        a_mean,
        partial(a_share, true=0.2),
        a_difference,
        two_shares,
        partial(an_auroc, true=0.85, positives=0.3),
        partial(two_aurocs, true=0.85, other=0.75, positives=0.3),
    ):
        i = case(rng, 12)
        assert i.low < i.value < i.high and 6 <= i.clusters <= 12
    big = conversations(rng, 3000)
    assert (
        abs(
            auroc(
                separation(0.85) * (y := latent(rng, big) < -0.5244) + latent(rng, big),
                y,
            )
            - 0.85
        )
        < 0.01
        and abs(y.mean() - 0.3) < 0.02
    )
    four = coverage("mean", 4, 20)
    ten = coverage("mean", 10, 300)
    assert (
        (four.printed, four.held) == (0.0, None)
        and ten.printed == 1.0
        and 0.91 < ten.held < 0.99
        and ten == coverage("mean", 10, 300)
    )
    few_runs = simulate(tmp / "intervals.json", runs=60)
    assert read_coverage(tmp / "intervals.json") == few_runs and len(few_runs) == len(
        CASES
    ) * len(TALKS)
    assert all(c.printed == 0 for c in few_runs if c.conversations < LEAST)
    assert all(c.held > 0.8 for c in few_runs if c.held is not None and c.printed > 0.5)


def test_submissions_are_compared_by_their_own_scores(tmp_path: Path) -> None:
    "Released scores are conditioned by the files' own verdicts, or by the rule."
    tmp = tmp_path
    rng = random.Random(0)
    toy = [Task(f"t{i}", f"c{i}", 1, "govt", "Why?") for i in range(40)]
    toy_known = Benchmark(
        toy, {t.id: Gold(t.id, "ANSWERABLE") for t in toy}, {t.id: {} for t in toy}
    )
    for team, gain in (("ours_v1", 0.2), ("theirs-b", 0.0)):
        lines = [
            {
                "task_id": t.id,
                "predictions": [{"text": "It is so."}],
                "metrics": {"RL_F": [0.5 + gain + 0.1 * rng.random()]},
            }
            for t in toy
        ]
        write_jsonl(tmp / "submitted" / f"{team}.jsonl", lines)
    found = compare_submissions(
        (tmp / "submitted").glob("*.jsonl"), toy_known, resamples=500
    )
    assert (
        [r.system for r in found.systems] == ["ours", "theirs"]
        and found.pairs[0].low > 0.15
        and found.pairs[0].n == 40
    )
    assert (
        build_object(Comparison, read_json(write_json(tmp / "found.json", found)))
        == found
        and "refusals of ours, theirs by the rule" in found.measure
    )
    labels = ("ANSWERABLE", "UNANSWERABLE", "UNDERSPECIFIED")
    refused = {
        "prediction": "I don't know.",
        "metrics": {"RL_F": [0.2], "idk_eval": [1.0]},
    }
    write_jsonl(tmp / "own.jsonl", [{"task_id": label, **refused} for label in labels])
    of_label = {label: Gold(label, label) for label in labels}
    assert conditioned_file(tmp / "own.jsonl", of_label) == (
        dict(zip(labels, (0.0, 1.0, None))),
        False,
    )
    write_jsonl(
        tmp / "submitted" / "third.jsonl",
        [{"task_id": "t1", "predictions": [{"text": "So."}]}],
    )
    with expect(DataError, "the line has no RL_F", hide=f"{tmp}/"):
        compare_submissions([tmp / "submitted" / "third.jsonl"], toy_known)


def test_turns_are_kept_without_text() -> None:
    "A turn and its forks go into a line and come back."
    TARGET = "A licence costs 30 dollars a year."
    ODD = "Zebras graze quietly."
    gold = {
        f"c{n}<::>1": Gold("", "UNANSWERABLE" if n == 4 else "ANSWERABLE", (TARGET,))
        for n in range(1, 5)
    }
    refuse = Refused(node="fallback", reason="dropped", role="dropped")

    def run_of(*ends: str, tokens: int = 100) -> Evidence:
        "Turns that end in these answers; '' is a refusal."
        turns = [
            new_turn(
                Drafted(
                    node="generate", text=a, calls=Calls(generate=1, tokens_in=tokens)
                ),
                *([] if a else [refuse]),
                conversation_id=f"c{n}",
            )
            for n, a in enumerate(ends, 1)
        ]
        return Evidence(Run.of("r", turns), gold, histories={})

    run = run_of(TARGET, ODD, "", "")
    off = run_of(TARGET, TARGET, "", "")
    top = run_of(*[TARGET] * 3, "", tokens=50)
    toy = turned(run, {"off": {"check": off}, "known": {"gold passages": top}})
    lines = [as_line(t) for t in toy]
    assert [as_line(from_line(json.loads(json.dumps(x)))) for x in lines] == lines
    assert [t.run.verdict for t in toy] == ["right", "failed", "failed", "right"]
    assert lines[0]["off"] == {"check": "="} and lines[1]["off"]["check"][0] == "right"
    assert not any(TARGET in json.dumps(x) or ODD in json.dumps(x) for x in lines), (
        "no texts"
    )
    with expect(DataError, "lacks the turn"):
        turned(run, {"off": {"check": run_of(TARGET)}})


def test_losses_of_known_size_are_drawn_alike() -> None:
    "Without a loss a draw of many conversations passes; with a large one it is stopped."
    changes = {f"c{n}": [0.0] * 4 for n in range(40)}
    assert codes(changes, 20)["1"] == 0
    assert codes(changes, 40, 0.5)["1"] > 150
