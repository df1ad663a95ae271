"""The benchmark of attribution: the folder holds what its datasheet says, and any tool's answers are scored."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mtrag_nb.app.cli import main
from mtrag_nb.core.files import data_dir, read_jsonl
from mtrag_nb.core.types import TO_ANSWER, DataError
from mtrag_nb.data.mtrag import read_gold, read_tasks, sample_dir
from mtrag_nb.evaluation.attribution import (
    CANNOT_TELL,
    CASE_STAGES,
    FAULT_KINDS,
    RIGHT_KINDS,
    AttributionScore,
    CaseTruth,
    StageAnswer,
    calibration_error,
    read_answers,
    read_truth,
    score_attribution,
)
from mtrag_nb.evaluation.proof import REPAIRS, fixes_outcome
from mtrag_nb.evaluation.statistics import LEAST
from tests.support.planted import FAULTS, SUBTLE, Bench
from tools.studies.attribution_cases import cases_of, count_table, guilty_stages

FOLDER = data_dir("attribution")
CASES = [case for _, case in read_jsonl(FOLDER / "cases.jsonl.gz")]
TRUTH = read_truth(split="all")
README = (FOLDER / "README.md").read_text(encoding="utf-8")
SCRIPT = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]


def test_each_case_has_a_truth_in_the_same_order():
    assert [case["case"] for case in CASES] == [*TRUTH]
    assert len(TRUTH) == len(CASES) > 400
    for case in CASES:
        truth = TRUTH[case["case"]]
        assert (case["system"], case["conversation"]) == (
            truth.system,
            truth.conversation,
        )


def test_the_datasheet_counts_what_is_there():
    rows = [row for _, row in read_jsonl(FOLDER / "truth.jsonl")]
    assert count_table(rows) in README
    assert {row["kind"] for row in rows} == {*FAULT_KINDS, *RIGHT_KINDS}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*")) < 8_000_000
    for fault in FAULTS | SUBTLE:
        assert any(fault in row["faults"] for row in rows), fault


def test_splits_share_no_conversation():
    talks = {
        split: {t.conversation for t in read_truth(split=split).values()}
        for split in ("dev", "test")
    }
    assert not talks["dev"] & talks["test"]
    assert len(talks["test"]) >= LEAST
    for kind in (*FAULT_KINDS, *RIGHT_KINDS):
        assert any(t.kind == kind for t in read_truth(split="dev").values()), kind


def test_the_kind_follows_from_faults_and_guilt():
    for truth in TRUTH.values():
        assert {*truth.guilty} <= {*CASE_STAGES}
        assert bool(truth.guilty) == (truth.kind in FAULT_KINDS) == bool(truth.how)
        assert (truth.kind == "whole") == (not truth.faults)
        assert (truth.how in ("each", "together")) <= (truth.kind == "two faults")
        planted = {(FAULTS | SUBTLE)[fault][0] for fault in truth.faults}
        assert {*truth.guilty} <= planted


def test_no_case_is_fixed_by_its_label():
    reference = sample_dir() / "reference.jsonl"
    gold = read_gold(reference)
    labels = {}
    for task in read_tasks(reference):
        labels[task.conversation_id, task.turn] = gold[task.id].answerability
    repair_of = {stage: repair for repair, stage in REPAIRS.items()}
    for case in CASES:
        label = labels[case["conversation"], case["turn"]]
        assert label in TO_ANSWER
        for stage in {*TRUTH[case["case"]].guilty} - {
            "generate"
        }:  # put back, not given
            assert not fixes_outcome(repair_of[stage], label)


def test_a_case_stands_alone_and_does_not_say_what_was_planted():
    keys = {frozenset(case) for case in CASES}
    assert len(keys) == 1
    for case in CASES:
        for step in case["steps"]:
            assert {*step} == {"stage", "node", "saw", "gave"}
            assert step["stage"] in (*CASE_STAGES, "other")
            for part in (step["saw"], step["gave"]):
                assert {*part.get("passages", ())} <= case["passages"].keys()
        assert case["target"] and case["gold"] and case["answer"]
        steps = json.dumps(case["steps"])
        for word in ("by hand", "planted", "guilty"):
            assert word not in steps


def test_a_systems_cases_are_made_anew_byte_for_byte(tmp_path):
    made = {
        case.truth["case"]: case for case in cases_of(Bench(tmp_path), "naive", False)
    }
    kept = [case for case in CASES if case["system"] == "naive"]
    assert {*made} == {case["case"] for case in kept}
    for case in kept:
        assert json.dumps(made[case["case"]].line) == json.dumps(case)
    for row in (row for _, row in read_jsonl(FOLDER / "truth.jsonl")):
        if row["system"] == "naive":
            assert {**made[row["case"]].truth, "split": row["split"]} == row


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("right", "failed", (["generate"], "alone")),
        ("failed", "right", (["retrieve"], "alone")),
        ("right", "right", (["retrieve", "generate"], "each")),
        ("failed", "failed", (["retrieve", "generate"], "together")),
        ("failed", "undecided", None),
    ],
)
def test_of_two_faults_those_are_guilty_whose_repair_helps(first, second, expected):
    faults = ("a retriever without gold", "another generator")
    verdicts = {(faults[0],): {"t": first}, (faults[1],): {"t": second}}
    assert guilty_stages(faults, "t", verdicts) == expected


def test_a_tool_that_knows_nothing_is_scored_by_the_words_of_the_datasheet(
    tmp_path, capsys
):
    (tmp_path / "always_retrieve.py").write_text(SCRIPT, encoding="utf-8")
    assert len(SCRIPT.splitlines()) <= 20
    words = [
        sys.executable,
        "always_retrieve.py",
        str(FOLDER / "cases.jsonl.gz"),
        "always.csv",
    ]
    subprocess.run(words, cwd=tmp_path, check=True)
    assert main(["attribution", str(tmp_path / "always.csv"), "--json"]) == 0
    tools = json.loads(capsys.readouterr().out)["tools"]
    assert tools["always"] == tools["always retrieve"]
    assert tools["always"]["alarms"]["whole"]["value"] == 1.0
    assert tools["never a stage"]["all failed"]["value"] == 0.0


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "answers").glob("*.csv")), ids=lambda p: p.stem
)
def test_kept_answers_are_of_all_cases(path: Path):
    assert {*read_answers(path, TRUTH)} == {*TRUTH}


FIRST, SECOND = list(TRUTH)[:2]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("case,stage\nnone,grade", ":2: unknown case 'none'. The ids stand in"),
        (f"case,stage\n{FIRST[:-1]}x,grade", f"did you mean {FIRST}?"),
        (f"case,stage\n{FIRST},grading", ":2: unknown stage 'grading'. Write rewrite,"),
        (f"case,stage\n{FIRST},", ":2: the stage is empty. Write"),
        (f"case\n{FIRST}", ":2: the stage is empty. Write"),
        (f"case,stage\n{FIRST},grade\n{FIRST},check", ":3: case"),
        (f"case,stage,confidence\n{FIRST},grade,sure", ":2: the confidence is 'sure'"),
        (f"case,stage,confidence\n{FIRST},grade,1.1", ":2: the confidence is '1.1'"),
        (f"case,stage,confidence\n{FIRST},grade,nan", ":2: the confidence is 'nan'"),
        ("id,stage\nx,grade", ":2: has no cell in a column `case`. Wanted"),
        ("case,stage", "has no row for any of the"),
    ],
)
def test_a_wrong_row_is_an_error_with_its_line(tmp_path, capsys, rows, words):
    path = tmp_path / "mine.csv"
    path.write_text(rows + "\n", encoding="utf-8")
    assert main(["attribution", str(path), "--split", "all"]) == 2
    error = capsys.readouterr().err
    assert words in error and "mine.csv" in error


def test_other_files_and_splits_are_errors(tmp_path, capsys):
    (tmp_path / "mine.json").write_text("{}")
    assert main(["attribution", str(tmp_path / "mine.json")]) == 2
    assert "mine.json: is no .csv or .tsv file" in capsys.readouterr().err
    assert main(["attribution", str(tmp_path / "none.csv")]) == 2
    assert "none.csv" in capsys.readouterr().err
    assert main(["attribution", "x.csv", "--split", "tset"]) == 2
    assert "test" in capsys.readouterr().err
    (tmp_path / "truth.jsonl").write_text('{"case": "a"}\n')
    with pytest.raises(DataError, match="truth.jsonl:1: not a case"):
        read_truth(tmp_path)


def made_truth() -> dict[str, CaseTruth]:
    "Eight conversations with four cases each."
    kinds = {
        "one": ("one fault", ("retrieve",), "alone"),
        "two": ("two faults", ("retrieve", "generate"), "together"),
        "whole": ("whole", (), ""),
        "spite": ("right in spite of a fault", (), ""),
    }
    truth = {}
    for n in range(8):
        for name, (kind, guilty, how) in kinds.items():
            case = f"{name}{n}"
            truth[case] = CaseTruth(case, kind, guilty, how, (), "s", f"c{n}", "test")
    return truth


def test_the_score_counts_guilty_stages_and_false_alarms():
    truth = made_truth()
    answers = {
        i: StageAnswer("generate", 1.0) for i in truth if not i.startswith("spite")
    }
    score = AttributionScore("t", answers, truth)
    assert score.accuracy("one fault").value == 0.0
    assert score.accuracy("two faults").value == 1.0
    assert score.accuracy().value == 0.5 and score.accuracy().n == 16
    assert score.accuracy_of("retrieve").value == 0.5
    assert score.alarms("whole").value == 1.0
    assert score.alarms("right in spite of a fault").value == 0.0
    assert score.left_out == 8
    assert score.calibration == pytest.approx(1 - 8 / 24)
    silent = AttributionScore(
        "s", dict.fromkeys(truth, StageAnswer(CANNOT_TELL)), truth
    )
    assert score.less(silent).value == 0.5
    assert silent.silent.value == 1.0 and silent.calibration is None


def test_calibration_error_weighs_bins_by_their_answers():
    assert calibration_error(
        [0.95] * 3 + [0.05], [True, True, True, False]
    ) == pytest.approx(0.05)
    assert calibration_error([1.0] * 4, [True, True, False, False]) == 0.5


def test_several_tools_are_compared_in_pairs():
    files = [FOLDER / "answers" / f"{name}.csv" for name in ("rule", "proof")]
    report = score_attribution(files, "test")
    assert [score.name for score in report.scores] == ["rule", "proof"]
    assert "proof less rule" in repr(report)
    counts = Counter(case.kind for case in read_truth().values())
    assert report.scores[0].accuracy("one fault").n == counts["one fault"]
