"""The studies of papers and specifications on tiny inputs: what measures them works from end to end."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mtrag_nb.core.files import data_dir, read_json, read_jsonl, write_jsonl
from mtrag_nb.core.record import Calls, Drafted, Fault, Gated, Refused, Retrieved
from mtrag_nb.core.run_folder import Run
from tests.support.turns import new_turn
from mtrag_nb.core.settings import MINILM, load_settings
from mtrag_nb.core.replies import Label, Verdict, score_verdict
from mtrag_nb.core.types import (
    TO_ANSWER,
    TO_ASK,
    DataError,
    Gold,
    Passage,
    SettingsError,
    Task,
    as_context,
    expect,
    plain,
)
from mtrag_nb.data.mtrag import (
    read_benchmark,
    read_corpus,
    read_gold,
    read_tasks,
    sample_corpus,
    sample_dir,
)
from mtrag_nb.data.ratings import RatedAnswer
from mtrag_nb.evaluation.blame import costs
from mtrag_nb.evaluation.measures import harmonic_mean
from mtrag_nb.evaluation.scores import score_run
from mtrag_nb.evaluation.statistics import Interval
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import BertScorer, HashEmbedder
from mtrag_nb.search.ingest import build_index
from mtrag_nb.search.retrieve import Retriever
from mtrag_nb.search.store import open_index
from mtrag_nb.systems.agents import Variation, _Varied
from mtrag_nb.systems.baselines import NAIVE, QUOTE
from mtrag_nb.systems.citations import claims_of
from mtrag_nb.systems.ncl import MAX_NEW_TOKENS, NCL
from mtrag_nb.systems.nexus import LAPTOP, NexusSettings, _chance, _stated_confidence
from tools.studies.agents import (
    BESIDE_AGENTS,
    PARTED,
    CountingEmbedder,
    at_budget,
    at_six,
    half_of,
    measured,
    run_all,
    two_halves,
)
from tools.studies.evidence import Evidence, distinct_queries
from tools.studies.gate_curve import (
    GatePoint,
    GateRow,
    _gate_point,
    _gate_score,
    gate_curve,
    operating_point,
)
from tools.studies.ncl import (
    SETS,
    VARIANTS,
    classify_turns,
    kept_ncl,
    local_counts,
    measure_ncl,
    measure_systems,
    ncl_report,
    refusal_pairs,
    refusal_rows,
    run_variants,
    same_again,
    with_passages,
)
from tools.studies.ncl_decisions import (
    measure_gate,
    measure_relation,
    ncl_tools,
    nearest_others,
    other_tasks,
    swapped,
)
from tools.studies.nexus import (
    BESIDE_NEXUS,
    MEASURES,
    _share,
    citation_scores,
    cited_rows,
    cited_table,
    hypothesis,
    licensed,
    nexus_report,
    raw_confidence,
)
from tools.studies.quote import (
    beside_rows,
    beside_submissions,
    in_span,
    measure_set,
    quote_minus,
    quoted,
    run_quote,
    score_rows,
    score_spans,
    team_rows,
    tune,
    whole_set,
    with_an_answer,
)
from tools.studies.requirements import Requirement, Requirements
from tools.studies.service_levels import (
    SIX,
    TARGETS,
    ServiceLevels,
    Target,
    Targets,
    held_to_targets,
    latencies,
    least_turns,
    percentiles,
    seconds_by_node,
    standing,
)
from tools.studies.task_samples import sample_file
from tools.study import SCORES, compared, cost_table, pair_table, score_table


class Words:
    "Words in the place of vectors: nothing here depends on the encoder."

    fingerprint = "words"

    def score(
        self, responses: Sequence[str], texts: Sequence[str]
    ) -> list[tuple[float, float] | None]:
        "Shares of words that are in the other text."

        def share(a: Sequence[str], b: Sequence[str]) -> float:
            return sum(w in b for w in a) / len(a)

        words = [
            (r.lower().split(), t.lower().split())
            for r, t in zip(responses, texts, strict=True)
        ]
        return [(share(r, t), share(t, r)) if r and t else None for r, t in words]


def test_settings_of_ncl_are_those_of_the_paper() -> None:
    "The paper's means are harmonic, and its settings those of the profile."
    printed = read_json(data_dir("paper") / "ncl.json")["tables"]
    results = printed["Table 2"]["rows"]
    for _, _, *parts, whole, _ in results:
        assert abs(harmonic_mean(*parts) - whole) < 1e-4
    paper = dict(printed["Table 1"]["rows"])
    ours = NCL.configure("ncl")
    assert (
        paper["Max tokens"],
        paper["Top passages k"],
        paper["History depth cap"][0],
    ) == (
        MAX_NEW_TOKENS,
        ours.own.top_k,
        str(ours.own.user_turns),
    )
    assert (
        ours.chat.name.endswith(paper["Generator"]) and ours.chat.quantization == "nf4"
    )


def test_a_gate_is_moved_over_recorded_scores() -> None:
    "Counts and risks at each threshold; a gate of words has no curve."

    def gate(s):
        return Gated(verdict=score_verdict(s, 0.3, "cosine"))

    ROWS = [
        (0.9, "", "ANSWERABLE"),
        (0.8, "", "PARTIAL"),
        (0.6, "exhausted", "ANSWERABLE"),
        (0.5, "", "UNANSWERABLE"),
        (0.4, "", "ANSWERABLE"),
        (0.2, "dropped", "ANSWERABLE"),
        (0.1, "dropped", "UNANSWERABLE"),
        (None, "dropped", "UNANSWERABLE"),
        (0.7, "", "UNDERSPECIFIED"),
    ]

    def gated_turn(i, score, role):
        "A turn with a gate's score; an answer, or a refusal with this role."
        end = Refused(reason=role, role=role) if role else Drafted(text="x")
        return new_turn(
            *([gate(score)] if score is not None else []),
            end,
            task_id=f"t{i}",
            conversation_id=f"c{i}",
        )

    written = Run.of(
        "written", [gated_turn(i, s, role) for i, (s, role, _) in enumerate(ROWS)]
    )
    labels = {f"t{i}": Gold(f"t{i}", label) for i, (*_, label) in enumerate(ROWS)}
    gates_ = gate_curve(written, labels)
    here = gates_.here
    assert (
        here.threshold,
        here.answered,
        here.wrong,
        here.refused,
        here.lost,
        here.unseen,
    ) == (
        0.4,
        3,
        1,
        2,
        2,
        0,
    ) and gates_.left_out == 1
    assert (
        gates_.points[0].unseen == 2
        and gates_.points[-1].coverage == 0
        and gates_.points[-1].risk is None
    )
    assert operating_point(gates_, 0.25) == max(
        (p for p in gates_.points if p.risk is not None and p.risk <= 0.25),
        key=lambda p: p.coverage,
    )
    assert operating_point(gates_, 0.0).threshold == 0.6
    assert (
        GatePoint(0.1, 2, 1, 0, 0, 1, 1 / 3).coverage == 1.0
        and GatePoint(1, 0, 0, 0, 0, 0, None).coverage == 0
    )
    let_in = GateRow(new_turn(gate(0.5), Drafted(text="x")), 0.5, True)
    kept_out = GateRow(
        new_turn(gate(0.2), Refused(reason="no", role="dropped")), 0.2, False
    )
    assert (
        not let_in.shut
        and kept_out.shut
        and let_in.passes(0.5)
        and not let_in.passes(0.6)
        and kept_out.passes(0.1)
    )
    assert (
        let_in.loss(None),
        kept_out.loss(None),
        let_in.loss({"c1<::>1": 0.75}),
        let_in.loss({}),
    ) == (0.0, 1.0, 0.25, None)
    words = new_turn(Gated(verdict=Verdict(Label.YES, "verdict", raw="yes")))
    with expect(DataError, "a verdict in words"):
        _gate_score(words)
    both = _gate_point(0.1, [let_in, kept_out], None)
    assert (
        both
        == GatePoint(0.1, answered=1, wrong=1, refused=0, lost=0, unseen=1, risk=0.5)
        and both.coverage == 1.0
    )
    assert _gate_point(0.6, [let_in, kept_out], None) == GatePoint(
        0.6, answered=0, wrong=0, refused=1, lost=1, unseen=0, risk=None
    )
    two = gate_curve(
        Run.of(
            "two",
            [replace(let_in.turn, task_id="a"), replace(kept_out.turn, task_id="b")],
        ),
        {"a": Gold("a", "ANSWERABLE"), "b": Gold("b", "UNANSWERABLE")},
    )
    assert [p.threshold for p in two.points] == [
        0.2,
        0.5,
        0.51,
    ] and two.here.threshold == 0.5
    assert (two.here.answered, two.here.refused) == (1, 1)
    rated = gate_curve(written, labels, {"t0": 1.0, "t1": 0.5, "t4": 0.9})
    assert rated.loss == "score" and math.isclose(
        rated.here.risk, (0 + 0.5 + 1 + 0.1) / 4
    )
    assert (
        operating_point(rated, 0.1).threshold == 0.9
        and operating_point(rated, -1) is None
    )
    assert math.isclose(rated.points[0].risk, (0 + 0.5 + 1 + 0.1 + 1) / 5), (
        "of the two unseen answers, the one that should not be has a say"
    )
    left_out = gate_curve(written, labels, negatives=written)
    assert (
        left_out.here.wrong == gates_.here.wrong + 5
        and left_out.here.answered == gates_.here.answered
    )
    assert left_out.points[-1].refused == gates_.points[-1].refused + 9
    with expect(DataError, "kept no score"):
        gate_curve(Run.of("words", [replace(words, task_id="t0")]), labels)
    with expect(DataError, "no turn of this run came to a gate"):
        gate_curve(Run.of("none", [gated_turn(7, None, "dropped")]), labels)


def test_ways_to_decide_are_measured(tmp_path: Path) -> None:
    """Partners are of other conversations; nearest others hold no gold; each way is
    measured."""
    tmp = tmp_path
    sample = sample_dir() / "reference.jsonl"
    tasks = read_tasks(sample, contexts=True)
    gold = read_gold(sample)
    recorded = Run(data_dir("recorded") / "sample_ncl")
    real = gate_curve(recorded, gold)
    assert sum(
        (real.here.answered, real.here.wrong, real.here.refused, real.here.lost)
    ) + real.left_out == len(recorded.trajectories)
    assert real.here.answered + real.here.wrong == sum(
        t.answered and gold[i].answerability not in TO_ASK
        for i, t in recorded.trajectories.items()
    )
    assert (
        real.way == "cosine"
        and real.used == recorded.manifest["settings"]["own"]["gate_threshold"]
    )
    some = [
        t
        for t in tasks
        if t.contexts and t.history and gold[t.id].answerability in TO_ANSWER
    ]
    for t, o, s in zip(some, other_tasks(some), swapped(some)):
        assert (
            o.conversation_id != t.conversation_id
            and o.domain == t.domain
            and s.contexts == o.contexts
            and s.id == t.id
        )
    with expect(DataError, "no other conversation of clapnq", hide=some[0].id):
        other_tasks(some[:1])
    models = Models(load_settings(), chat=ScriptedChat(lambda p: "It is so."))
    build_index(
        list(read_corpus(*[p for p in sample_corpus() if "govt" in p.name])),
        tmp / "index",
        models.embedder,
        progress=False,
    )
    index = open_index(tmp / "index", models.embedder)
    govt = [t for t in some if t.domain == "govt"]
    near = nearest_others(govt, gold, Retriever(index, models.embedder))
    assert all(
        t.contexts
        and not {p.id for p in t.contexts} & {p.id for p in gold[t.id].passages}
        for t in near
    )
    tools = ncl_tools(load_settings(), models)
    first = ScriptedChat(
        lambda p: "1",
        lambda p, text: -float(text in ("2", "3", "4", "No")),
        name="first",
    )
    few = list({t.conversation_id: t for t in some}.values())[:6]
    labels = ncl_tools(
        load_settings(), Models(load_settings(), chat=first, embedder=models.embedder)
    )
    found = {
        "relation": measure_relation(some, tools)
        | measure_relation(few, labels, ("score", "words")),
        "gate": measure_gate(some, swapped(some), tools)
        | measure_gate(few, swapped(few), labels, ("yesno",)),
        "gate, nearest others": measure_gate(govt, near, tools),
    }
    assert (
        found["gate"]["cosine"].auroc > found["gate, nearest others"]["cosine"].auroc
        and found["relation"]["cosine"].auroc > 0.6
    )
    assert (
        found["relation"]["score"].auroc
        == found["relation"]["words"].auroc
        == found["gate"]["yesno"].auroc
        == 0.5
    )
    index.close()


def test_ncl_is_measured_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    "Variants, classes, a run again, refusals without gold, and the whole of it."
    tmp = tmp_path
    sample = sample_dir() / "reference.jsonl"
    ncl_told = kept_ncl()
    tasks = read_tasks(sample, contexts=True)
    gold = read_gold(sample)
    answerable = [t for t in tasks if gold[t.id].answerability in TO_ANSWER]
    govt = [t for t in answerable if t.contexts and t.history and t.domain == "govt"]
    models = Models(load_settings(), chat=ScriptedChat(lambda p: "It is so."))
    build_index(
        list(read_corpus(*[p for p in sample_corpus() if "govt" in p.name])),
        tmp / "index",
        models.embedder,
        progress=False,
    )
    three = tmp / "three.jsonl"
    write_jsonl(
        three,
        [o for _, o in read_jsonl(sample)][:2]
        + [next(o for _, o in read_jsonl(sample) if not o["contexts"])],
    )
    runs = run_variants(
        three,
        tmp / "runs",
        load_settings(),
        models,
        {v: VARIANTS[v] for v in ("ncl", "ncl-no-classification", "naive")},
        progress=False,
    )
    drawn_ids = [t.id for t in read_tasks(sample_file(sample, tmp / "two.jsonl", 2))]
    assert (
        drawn_ids
        == [t.id for t in read_tasks(sample_file(sample, tmp / "two.jsonl", 9))]
        and len(drawn_ids) == 2
    )
    assert {v: len(r.trajectories) for v, r in runs.items()} == {
        "ncl": 3,
        "ncl-no-classification": 3,
        "naive": 3,
    }
    cached = {
        v: sum(t.calls.cached for t in r.trajectories.values()) for v, r in runs.items()
    }
    assert (
        cached["ncl-no-classification"] > 0 == cached["ncl"]
        and runs["ncl"].trajectories.keys() == runs["naive"].trajectories.keys()
    )
    never = ncl_tools(load_settings("laptop", {"stages.rewrite": "never"}), models)
    classes = classify_turns([t for t in tasks if t.history][:24], never)
    assert len(classes) == 24 and all(
        c[:-1] == (1,) * (len(c) - 1) and len(c) <= 3 for c in classes
    )
    assert same_again(
        three, runs["ncl"], tmp / "again", load_settings(), models, 2, progress=False
    )
    other = Models(
        load_settings(),
        chat=ScriptedChat(lambda p: "It is otherwise.", name="other"),
        embedder=models.embedder,
    )
    assert not same_again(
        three, runs["ncl"], tmp / "other", load_settings(), other, 2, progress=False
    )
    over = with_passages(runs, gold)
    assert (
        over[-1] | {"share": ""}
        == {"what": "naive", "tasks": 2, "refused": 0, "share": ""}
        and len(over) == 3
    )
    closed = {"ncl": (NCL, {"ncl.gate_threshold": 2.0}), "naive": (NAIVE, {})}
    unwritten = load_settings("laptop", {"stages.rewrite": "never"})
    pairs = refusal_pairs(
        govt,
        gold,
        tmp / "index",
        tmp / "refusal",
        unwritten,
        models,
        1,
        closed,
        progress=False,
    )
    rows = refusal_rows(pairs, gold)
    dial = gate_curve(pairs["ncl"][0], gold, negatives=pairs["ncl"][1])
    assert [r["what"] for r in rows] == [
        "ncl, gold left out",
        "naive, gold left out",
        "empty contexts, gold left out",
    ]
    assert (
        rows[1]["refused"] == 0 == rows[0]["answered"]
        and dial.points[-1].refused == dial.points[-1].lost == 1
    )
    whole, without = pairs["naive"]
    found = {
        i: {without.passages[c].document_id for c in t.contexts}
        for i, t in without.trajectories.items()
    }
    assert found and not any(
        ids & {p.id for p in gold[i].passages} for i, ids in found.items()
    )
    # The whole of it, on a folder made of the sample: what is written has the shape of the file.
    for name in SETS:
        (tmp / "data" / name).mkdir(parents=True)
        shutil.copy(sample, tmp / "data" / name)
    again = measure_systems(
        tmp / "data",
        tmp / "all",
        unwritten,
        models,
        2,
        3,
        1,
        tmp / "index",
        1,
        progress=False,
    )
    told = json.loads(json.dumps(plain(again)))
    assert (
        told["same again"] == {"tasks": 1, "identical": True}
        and len(told["classes"]["turns"]) == 3
        and ncl_report(told)
    )
    assert told.keys() == ncl_told.keys() and [
        set(r) for r in told["refusal"]["rows"]
    ] == [set(r) for r in ncl_told["refusal"]["rows"]]
    assert {s: set(p["rows"]) for s, p in told["sets"].items()} == {
        s: set(p["rows"]) for s, p in ncl_told["sets"].items()
    }
    monkeypatch.delenv("MTRAG_DATA", raising=False)
    with expect(DataError, "MTRAG_DATA is not set"):
        measure_ncl(tmp / "none")


def test_runs_of_ncl_are_compared(tmp_path: Path) -> None:
    "Recorded runs side by side: costs, circular scores, local rewrites."
    gold = read_gold(sample_dir() / "reference.jsonl")
    recorded = {}
    for name in ("ncl", "naive", "self_crag"):
        kept = data_dir("recorded") / f"sample_{name.replace('+', '_')}"
        shutil.copytree(kept, tmp_path / name)
        recorded[name] = Run(tmp_path / name)
    toy = json.loads(
        json.dumps(plain(compared(recorded, gold, BertScorer(MINILM, rescale=False))))
    )
    assert (
        set(toy["rows"]) == set(recorded)
        and len(toy["pairs"]) == 2 * len(SCORES)
        and (toy["tasks"], toy["conversations"]) == (16, 3)
    )
    assert (
        toy["rows"]["ncl"]["cost"]["calls"] > toy["rows"]["naive"]["cost"]["calls"] == 1
    )
    for name, r in recorded.items():
        tokens = costs(r.trajectories.values())
        cost = toy["rows"][name]["cost"]
        assert (
            abs(
                sum(tokens.values()) / len(tokens)
                - cost["tokens_in"]
                - cost["tokens_out"]
            )
            < 0.011
        )
    assert [r[0] for r in score_table(toy)[1]] == list(recorded) == [
        r[0] for r in cost_table(toy)[1]
    ] and len(pair_table(toy)[1]) == 6
    assert [r[3].endswith("(circular)") for r in score_table(toy)[1]] == [
        False,
        False,
        True,
    ]
    assert [r[1] for r in pair_table(toy)[1] if "circular" in r[1]] == [
        "K-precision (circular)"
    ]
    counts = local_counts(recorded["ncl"])
    assert (
        counts["made"] >= counts["whole"] >= 1
        and local_counts(recorded["naive"])["made"] == 0
    )


def test_copying_is_measured_from_end_to_end(tmp_path: Path) -> None:
    "Tuning, scores by label, submissions, and a set with the laptop's systems."
    tmp = tmp_path
    small = read_benchmark(sample_dir() / "reference.jsonl", contexts=True, limit=24)
    laptop = load_settings()
    copying = Models(laptop, chat=ScriptedChat([]), embedder=HashEmbedder())
    bert = Words()
    answered = [t for t in small.tasks if small.gold[t.id].answerability in TO_ANSWER][
        :5
    ]
    tuned = tune(
        answered,
        small.gold,
        copying.embedder,
        bert,
        [(1, "both"), (4, "both"), (4, "the question")],
    )
    assert [(r["sentences"], r["tasks"]) for r in tuned] == [
        (1, 5),
        (4, 5),
        (4, 5),
    ] and tuned[0]["words"] < tuned[1]["words"]
    assert quoted(copying.embedder, answered[0], 1) in " ".join(
        quoted(copying.embedder, answered[0], 99).split()
    )
    laptop_quote = QUOTE.configure(laptop)
    small_run = run_quote(small, tmp / "quote", laptop_quote, copying, progress=False)
    small_report = score_run(small_run, small.gold, bert=bert)
    small_told = whole_set(small, small_report)
    assert small_told["tasks"] == len(small.tasks) == 24 and small_told["failed"] == 0
    assert small_told["scores"]["all"]["K-precision"]["mean"] == 1.0, (
        "what is copied is supported, always: the measure says nothing of this system"
    )
    targets = [
        {"task_id": t.id, "prediction": small.gold[t.id].targets[0]}
        for t in small.tasks
    ]  # as good as it gets
    write_jsonl(tmp / "target_itself.jsonl", targets)
    wanted = {t.id for t in small.tasks[:12]}
    beside_target = beside_submissions(
        small_report.scores, [tmp / "target_itself.jsonl"], small, wanted, bert
    )
    assert (
        list(beside_target["rows"]) == ["quote", "target"]
        and beside_target["rows"]["target"]["with an answer"]["RougeL"]["mean"] == 1.0
    )
    (pair,) = beside_target["pairs"]
    assert {pair["a"], pair["b"]} == {"quote", "target"} and pair["n"] > 5
    ncl_rows = {
        "rows": {
            "naive": {
                m: {"mean": 0.5, "low": None, "high": None, "n": 10} for m in SCORES
            }
        }
    }
    part = measure_set(
        sample_dir() / "reference.jsonl",
        small,
        tmp / "set",
        laptop_quote,
        copying,
        bert,
        10,
        ncl_rows,
    )
    assert (
        part["tasks"] == len(small.tasks)
        and len(part["_drawn"]) == 10
        and part["beside"]["tasks"] <= 10
    )
    assert list(part["beside"]["rows"]) == ["quote", "naive"]
    assert (
        score_rows({"sample": part})[1][0][:2] == ["sample", "all"]
        and beside_rows(part["beside"])[1][1][0] == "naive"
    )
    assert (
        team_rows(beside_target)[1][0][-1] == ""
        and team_rows(beside_target)[1][1][0] == "target"
    )


def test_means_without_what_counts_one_for_a_refusal() -> None:
    "Means by label, and differences of the baseline from either side."
    fake = {"a": {"RougeL": 0.25}, "b": {"RougeL": 0.75}, "c": {"RougeL": None}}
    by = score_spans(
        fake,
        {"a": "1", "b": "2", "c": "3"},
        {"a": "ANSWERABLE", "b": "PARTIAL", "c": "UNANSWERABLE"},
    )
    assert by["all"]["RougeL"]["mean"] == 0.5 and by["PARTIAL"]["RougeL"] == {
        "mean": 0.75,
        "low": None,
        "high": None,
        "n": 1,
    }
    assert (
        in_span(by["UNANSWERABLE"]["RougeL"]) == "–"
        and in_span(by["PARTIAL"]["RougeL"]) == "0.750 (1)"
    )

    def half(mean, n):
        return {SCORES[0]: {"mean": mean, "n": n}}

    small_told = {
        "all": half(0.6, 9),
        "ANSWERABLE": half(0.5, 3),
        "PARTIAL": half(0.1, 1),
        "UNANSWERABLE": half(1.0, 4),
        "UNDERSPECIFIED": half(None, 0),
    }
    score, n, refused = with_an_answer(small_told)
    assert (round(score, 9), n, refused) == (0.4, 4, 4)
    assert with_an_answer({**small_told, "UNANSWERABLE": half(0.0, 4)})[2] == 0, (
        "where passages were found nothing is refused"
    )
    two = [
        {"a": "x", "b": "quote", "difference": 0.1, "low": 0.05, "high": 0.2},
        {"a": "quote", "b": "y", "difference": 0.1, "low": None},
    ]
    two[1]["high"] = None
    assert [quote_minus(two, n) for n in ("x", "y", "quote")] == [
        "-0.100 [-0.200, -0.050]",
        "+0.100",
        "",
    ]


def test_a_requirement_without_evidence_fails() -> None:
    "Evidence shows something and belongs to a row; a row's evidence is computed."
    with expect(DataError, "a run: nothing is found"):
        Evidence("a run", "")
    row = Requirement("agents", "9.2", "a cache", "as stated", (), "", "cache")
    shown = {"agents": {"cache": Evidence("a file", "3 hits")}}
    assert Requirements([row], shown).found(row) == "3 hits [a file]"
    assert Requirements([row], shown).counts()[-1] == ("all", 1, 1, 0, 0)
    with expect(DataError, "'cache' of agents has no evidence"):
        Requirements([row], {})
    with expect(DataError, "'cache' of agents has no row"):
        Requirements([], shown)


def test_the_queries_of_a_round_are_counted_by_their_words() -> None:
    "Capitals make no difference."
    toy = [
        _Varied(
            text="Fares?",
            variations=(
                Variation("synonyms", "Fares?"),
                Variation("context", "fares"),
                Variation("decomposition", other),
            ),
        )
        for other in ("FARES", "Price")
    ]
    assert distinct_queries(
        [Run.of("toy", [new_turn(s, turn=n) for n, s in enumerate(toy)])]
    ) == {
        1: 1,
        2: 1,
    }


def test_targets_are_met_only_by_whole_intervals() -> None:
    "Percentiles, targets, and what cannot be judged."

    def slow(n, *seconds):
        return new_turn(
            *(
                Drafted(text="x", node=f"n{i}", seconds=s)
                for i, s in enumerate(seconds)
            ),
            turn=n,
            seconds=sum(seconds),
        )

    turns = [slow(n, n / 100, 0.01) for n in range(1, 101)]
    late = new_turn(
        turn=101, seconds=31.0, error=Fault("generate", "TurnTooLong", "31 s")
    )
    levels = ServiceLevels(
        [*turns, late, new_turn(turn=102, error=Fault("generate", "OSError", "gone"))],
        "one at a time",
    )
    assert (
        percentiles([3, 1, 2]) == {50: 2, 90: 3, 99: 3}
        and percentiles([]) == {}
        and percentiles(range(1, 101)) == {50: 50, 90: 90, 99: 99}
    )
    assert (levels.failed, levels.late) == (2, 1) and [
        round(x, 2) for x in percentiles(levels.turn).values()
    ] == [0.51, 0.91, 1.0]
    twice = new_turn(
        Retrieved(node="retrieve", seconds=1.0), Retrieved(node="retrieve", seconds=2.0)
    )
    assert seconds_by_node([twice]) == {"retrieve": [3.0]}, (
        "a node that was visited twice is waited for twice"
    )
    fast = Target("P50", 4.0, False, "8.2")
    good = Target("MRR", 0.7, True, "8.1")
    kind = Target("faithfulness", 8.0, True, "8.1")

    def made_up(low, value, high):
        return Interval(value, low, high, 60, 20)

    assert [
        standing(good, made_up(*x))
        for x in ((0.71, 0.8, 0.9), (0.6, 0.8, 0.9), (0.5, 0.6, 0.7))
    ] == [
        "met",
        "open",
        "not met",
    ]
    assert [standing(fast, x) for x in (3.9, 4.0, None)] == [
        "met",
        "not met",
        "not judged",
    ]
    assert standing(good, Interval(0.9, None, None, 3, 1)) == "open", (
        "one conversation shows nothing"
    )
    table = Targets(
        [fast, good, kind],
        {"P50": 2.1, "MRR": made_up(0.6, 0.75, 0.9)},
        {"faithfulness": "no judge with a licence"},
    )
    assert [r[3] for r in table.rows] == ["met", "open", "not judged"]
    with expect(SettingsError, "nothing was promised of 'P95'"):
        Targets([fast], {"P95": 1.0})
    nodes = ("retrieve_documents", "grade_documents", "generate")
    turns = [
        new_turn(
            *(
                Drafted(text="x", node=n, seconds=s)
                for n, s in zip(nodes, (0.1, 0.9, 1 + k / 10))
            ),
            turn=k,
            seconds=2 + k / 10,
        )
        for k in range(1, 31)
    ]
    found = latencies(ServiceLevels(turns, "made up"))
    table = Targets(
        TARGETS,
        {**found, "MRR": Interval(0.75, 0.6, 0.9, 60, 20)},
        {"faithfulness, of 10": "no judge with a licence"},
    )
    assert set(found) <= {t.name for t in TARGETS} and [
        r[3] for r in table.rows[:6]
    ] == [
        "met",
        "met",
        "met",
        "met",
        "not met",
        "not met",
    ]
    assert at_six(["a", "b", "c"], {"b": 1, "z": 1, "y": 0}) == (
        1 / 3,
        1 / 2,
        1 / 2,
    ) and at_six([], {"a": 1}) == (0.0, 0.0, 0.0)
    assert at_six(list("abcdefg"), {"g": 1}) == (0.0, 0.0, 1 / 7)
    six = {m: Interval(0.75, 0.6, 0.9, 60, 20) for m in SIX}

    def made_of(profile, n):
        return plain(
            {
                "profile": profile,
                "beside": {"six": {"agents": six}},
                "cache": {"asked": 10, "hits": 4},
                "alone": {"n": n, **found},
            }
        )

    def judged(profile, n):
        return [row[3] for row in held_to_targets(made_of(profile, n)).rows]

    assert judged("agents", 100) == ["met"] * 4 + ["not met"] * 2 + [
        "open",
        "open",
        "open",
        "not judged",
        "not judged",
        "met",
    ]
    assert judged("agents", 30) == [
        "met",
        "met",
        "not judged",
        *judged("agents", 100)[3:],
    ]
    assert [least_turns(q) for q in (50, 90, 99)] == [2, 10, 100]
    assert judged("agents", 6)[:6] == ["met", *["not judged"] * 5], (
        "the slowest of six turns is no percentile"
    )
    assert judged("laptop", 100) == ["not judged"] * 11 + ["met"], (
        "the laptop's stages are stand-ins"
    )
    assert held_to_targets(made_of("laptop", 100)).rows[4][2:5] == (
        "0.900",
        "not judged",
        "a cosine grades: nothing is asked",
    )
    assert held_to_targets(made_of("agents", 100)).rows[-1][2] == "0.400"
    pages = [
        Passage(f"{n}-0-9", "x", "", f"https://example.org/{n // 2}") for n in range(40)
    ]
    counts = [sum(half_of(p) == h for p in pages) for h in (0, 1)]
    assert (
        all(half_of(a) == half_of(b) for a, b in zip(pages[::2], pages[1::2]))
        and min(counts) > 10
    ), "a page is not cut in two"


def test_scores_at_an_equal_budget() -> None:
    "Twice as good and twice as dear comes to the same."

    def spent(tokens):
        return Drafted(
            text="x", node="generate", calls=Calls(generate=1, tokens_in=tokens)
        )

    def turn(k, tokens):
        return new_turn(spent(tokens), task_id=f"c<::>{k}", conversation_id="c", turn=k)

    def Told(turns):
        return SimpleNamespace(trajectories=turns)

    dear, cheap = ({f"c<::>{k}": turn(k, n) for k in (1, 2)} for n in (100, 50))
    at_equal = at_budget(
        {"dear": Told(dear), "cheap": Told(cheap)},
        {"dear": dict.fromkeys(dear, 1.0), "cheap": dict.fromkeys(cheap, 0.5)},
    )
    assert [
        (v["budget"], v["answered"], v["score"].value) for v in at_equal.values()
    ] == [
        (100, 1, 0.5),
        (100, 2, 0.5),
    ], "twice as good, twice as dear"


def test_variants_of_the_agents_run_and_go_on(tmp_path: Path) -> None:
    "Every variant runs with a scripted model, and nothing is asked twice."
    specs = tmp_path
    # The whole of it with a scripted model: every variant runs, and goes on where it stopped.
    counting = CountingEmbedder(load_settings().embedder)
    counting.encode(["a ferry", "a dog"]), counting.encode(["a dog"], query=True)
    again = counting.encode(["a dog", "a ferry"])
    assert (counting.asked, counting.read) == (5, 3) and again.shape == (
        2,
        counting.dim,
    )
    known = read_benchmark(sample_dir() / "reference.jsonl")
    models = Models(
        load_settings(), chat=ScriptedChat(first_sentence), embedder=HashEmbedder()
    )
    build_index(
        list(read_corpus(*[p for p in sample_corpus() if "govt" in p.name])),
        specs / "index",
        models.embedder,
        progress=False,
    )
    half, web = two_halves(
        next(p for p in sample_corpus() if "govt" in p.name), specs, models, "govt"
    )
    tasks = [t for t in known.tasks if t.domain == "govt"][:4]

    def go():
        return run_all(
            known,
            tasks,
            specs / "runs",
            load_settings(),
            models,
            specs / "index",
            {**BESIDE_AGENTS, **PARTED},
            web,
            False,
        )

    runs = go()
    asked = len(models.chat.asked)
    assert all(
        len(r.trajectories) == 4 and not any(t.failed for t in r.trajectories.values())
        for r in runs.values()
    )
    assert (
        go().keys() == runs.keys() == {**BESIDE_AGENTS, **PARTED}.keys()
        and len(models.chat.asked) == asked
    ), "nothing is asked twice"


def test_a_confidence_is_licensed_by_ratings() -> None:
    "A number that separates faithful answers gets a licence, another none."

    def rated(n: int, answer: str, mark: float) -> RatedAnswer:
        "A toy's answer, rated by three people."
        t = Task(
            f"c{n % 20}<::>{n}",
            f"c{n % 20}",
            n,
            "govt",
            "What do bees collect?",
            contexts=(Passage("p1", "Bees collect pollen by day."),),
        )
        return RatedAnswer(
            t, Gold(t.id), "toy", answer, {"faithfulness": (mark, mark, 4.0)}, {}
        )

    own = NexusSettings(**LAPTOP)
    hashes = HashEmbedder()
    raws = [
        raw_confidence(rated(1, text, 4.0), hashes, own)
        for text in (
            "Bees collect pollen.",
            "Wasps sell honey abroad.",
            "I don't know.",
        )
    ]
    assert raws[0] > raws[1] == 0 and raws[2] is None
    assert (
        raw_confidence(
            rated(1, "Bees collect pollen.", 4.0),
            hashes,
            NexusSettings(correct=2.0, ambiguous=2.0),
        )
        is None
    )

    def said(known):
        return "Bees collect pollen." if known else "Wasps sell honey abroad."

    toys = [
        rated(n, said(n % 3), 4.0 if bool(n % 3) != (n % 10 == 7) else 1.0)
        for n in range(60)
    ]  # one of ten is rated otherwise
    toy, others = licensed(toys, hashes, own)
    assert (toy["answers"], toy["conversations"]) == (60, 20) and others == {}
    assert 0.5 < toy["auroc"][1] and 0.8 < toy["auroc"][0] < 1
    assert _chance(toy, raws[0]) > 0.8 > 0.3 > _chance(toy, 0.0)
    assert sum(b["n"] for b in toy["bins"]) == 60
    noise, _ = licensed(
        [rated(n, said(n % 2), 4.0 if n % 4 < 2 else 1.0) for n in range(60)],
        hashes,
        own,
    )
    answer = _stated_confidence(noise, raws[0], "attached", own.least, "toy")
    assert answer[0] is None, "a number that separates nothing gets no licence"


def test_citations_are_scored() -> None:
    "Shares of supported claims, cited gold, and both hypotheses."

    class Made:
        "A run, made by hand."

        passages = {
            "p1": as_context(Passage("p1", "The ferry to Oland costs 12 crowns.")),
            "p2": as_context(Passage("p2", "Bees sleep.")),
        }
        trajectories = {
            "a": new_turn(
                Drafted(text="The ferry costs 12 crowns. Dragons rule the sea."),
                task_id="a",
                contexts=("p1", "p2"),
            ),
            "b": new_turn(Refused(reason="r", role="dropped"), task_id="b"),
            "c": new_turn(Drafted(text="Yes."), task_id="c", contexts=("p2",)),
        }

    known = {i: Gold(i, passages=(Passage("p1", ""), Passage("p9", ""))) for i in "abc"}
    scores = citation_scores(Made, known)
    assert scores == {
        "a": {
            "supported": 0.5,
            "all supported": 0.0,
            "in company": 0.5,
            "precision": 1.0,
            "recall": 0.5,
        },
        "c": {"recall": 0.0},
    }
    assert set(scores["a"]) == set(MEASURES)
    told = cited_rows({"one": Made, "two": Made}, known)
    assert (
        told["rows"]["one"]["supported"]
        == {"mean": 0.5, "low": None, "high": None, "n": 1}
        and told["answered"]["two"] == 2
    )
    assert _share({"mean": 0.9, "low": -0.1, "high": 1.1, "n": 2}) == {
        "mean": 0.9,
        "low": 0.0,
        "high": 1.0,
        "n": 2,
    }
    assert told["minus"]["two"]["recall"]["mean"] == 0.0 and list(told["minus"]) == [
        "two"
    ]

    def row(value, low, high):
        return {"in company": {"mean": value, "low": low, "high": high, "n": 9}}

    made = {
        "rows": {
            "a": row(0.9, 0.8, 0.95),
            "b": row(1.0, None, None),
            "c": row(0.9, None, None),
        },
        "minus": {
            "a": row(0.2, 0.1, 0.3),
            "b": row(0.2, -0.1, 0.3),
            "c": row(-0.2, -0.3, -0.1),
        },
    }
    said = {name: hypothesis(made, name) for name in "abc"}
    assert [(e.split(":")[0], r.split(":")[0]) for e, r in said.values()] == [
        ("refuted", "shown"),
        ("not refuted", "open"),
        ("open", "the contrary is shown"),
    ]


def test_nexus_is_measured_from_end_to_end(tmp_path: Path) -> None:
    "Five systems over four tasks with a scripted model."
    specs = tmp_path
    hashes = HashEmbedder()
    # The whole of it with a scripted model on four tasks of the sample.
    whole_sample = read_benchmark(sample_dir() / "reference.jsonl")
    scripted = Models(
        load_settings(), chat=ScriptedChat(first_sentence), embedder=hashes
    )
    build_index(
        list(read_corpus(*[p for p in sample_corpus() if "govt" in p.name])),
        specs / "govt",
        hashes,
        progress=False,
    )
    some = [t for t in whole_sample.tasks if t.domain == "govt"][:4]
    done = run_all(
        whole_sample,
        some,
        specs / "runs",
        load_settings(),
        scripted,
        specs / "govt",
        BESIDE_NEXUS,
        progress=False,
    )
    assert all(
        len(r.trajectories) == 4 and not any(t.failed for t in r.trajectories.values())
        for r in done.values()
    )
    cited = cited_rows(done, whole_sample.gold)
    assert cited_table(cited)[1]
    assert cited["rows"]["nexus"]["supported"]["mean"] == 1 and set(cited["minus"]) == {
        "quote",
        "self_crag",
        "nexus",
        "nexus-written",
    }
    ways = {
        claims_of(t, done["nexus-written"].passages).way
        for t in done["nexus-written"].trajectories.values()
        if t.answered
    }
    assert ways == {"attached"}, "the laptop's model is not asked to cite"
    whole = nexus_report(
        {"beside": measured(done, whole_sample.gold, Words()), "cited": cited}
    )
    assert list(whole)[:2] == ["claims and sources", "the hypotheses"] and {
        "scores",
        "costs",
        "pairs",
    } < set(whole)
    assert all(len(rows) for _, rows in whole.values())
