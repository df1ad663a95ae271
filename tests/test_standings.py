"""The board of released runs: bands, boards over shared tasks, and a run of one's own among the released."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from mtrag_nb.app.cli import main
from mtrag_nb.app.measure import score
from mtrag_nb.core.files import data_dir, read_jsonl, write_json, write_jsonl
from mtrag_nb.core.types import DataError, expect, plain
from mtrag_nb.data.mtrag import read_gold, sample_dir
from mtrag_nb.evaluation import standings as room
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.standings import (
    Entrant,
    ReleasedRun,
    ReleasedRuns,
    board_files,
    entrant_of,
    paired_bootstrap,
    place_run,
    rank_bands,
    read_released_runs,
    standings,
)

GOLD = read_gold(sample_dir() / "reference.jsonl")
RUN = data_dir("recorded") / "sample_self_crag_laptop"


def released(n: int, shares: dict[str, tuple[int, float]]) -> ReleasedRuns:
    "Runs over n tasks of n / 4 conversations; name -> how many of the tasks, share of right turns."
    rng = np.random.default_rng(3)
    luck = rng.random(n)
    runs = []
    for name, (size, share) in shares.items():
        verdicts = "".join("r" if x < share else "f" for x in luck[:size])
        failed = [at for at, v in enumerate(verdicts) if v == "f"]
        about = {k: "" for k in ("repository", "commit", "file", "licence")}
        run = ReleasedRun(
            name=name,
            setting="C",
            team="a team",
            verdicts=verdicts + "." * (n - size),
            values=[float(v == "r") for v in verdicts] + [None] * (n - size),
            blame={"generate": failed},
            **about,
        )
        runs.append(run)
    ids = [f"{at // 4}<::>{at % 4}" for at in range(n)]
    return ReleasedRuns("toy", {}, ids, [at // 4 for at in range(n)], runs)


def test_bands_of_runs_that_differ_and_of_equal_ones():
    talks = [str(n // 4) for n in range(400)]
    rng = np.random.default_rng(0)
    luck = rng.random((400, 1))
    scores = (luck < [0.9, 0.6, 0.59, 0.2]).astype(float)
    assert rank_bands(paired_bootstrap(scores, talks)) == [
        (1, 1),
        (2, 3),
        (2, 3),
        (4, 4),
    ]
    assert rank_bands(paired_bootstrap(np.ones((400, 2)), talks)) == [(1, 2), (1, 2)]


def test_p_is_that_of_a_test_by_conversation():
    "With equally large conversations about that of Student's t over their mean differences."
    rng = np.random.default_rng(5)
    talks = [str(n // 4) for n in range(480)]
    for shift in (0.0, 0.03, 0.05, 0.08):
        scores = rng.random((480, 2)) + [shift, 0.0]
        differences = (scores[:, 0] - scores[:, 1]).reshape(-1, 4).mean(1)
        expected = ttest_1samp(differences, 0).pvalue
        assert abs(paired_bootstrap(scores, talks)[0, 1] - expected) < 0.02


def test_a_board_for_each_set_of_tasks():
    "Runs over all tasks stand also on the board of those over a part; there, over that part alone."
    known = released(400, {"a": (400, 0.8), "b": (400, 0.4), "part": (100, 0.6)})
    whole, part = standings(known, "C")
    assert [e.name for e in whole.entrants] == ["a", "b"]
    assert [e.name for e in part.entrants] == ["a", "part", "b"]
    assert (len(whole.tasks), len(part.tasks)) == (400, 100)
    assert whole.bands == ((1, 1), (2, 2))
    assert "Neighbours told apart: 1 of 1; without the correction 1." in whole.note
    assert standings(known, "A") == []


def test_a_run_of_ones_own_is_placed_over_the_tasks_that_it_has():
    known = released(400, {"a": (400, 0.8), "b": (400, 0.4)})
    scores = {i: 1.0 for i in known.tasks[:200]}
    (board,) = standings(known, "C", [Entrant("mine", scores, {})])
    assert [e.name for e in board.entrants] == ["mine", "a", "b"]
    assert board.bands[0] == (1, 1) and len(board.tasks) == 200
    assert "> mine" in repr(board)
    few = {i: 1.0 for i in known.tasks[:12]}
    (board,) = standings(known, "C", [Entrant("mine", few, {})])
    assert board.bands == () and "fewer than 6 conversations" in board.note


def test_who_asks_back_is_counted_apart_from_the_ranking():
    "Where a task wants a question back, and elsewhere; without such a task there is no such column."
    known = released(400, {"a": (400, 0.8), "b": (400, 0.4)})
    assert "asked back" not in repr(standings(known, "C")[0])
    verdicts = "-" * 10 + known.runs[0].verdicts[10:]
    asking = replace(known.runs[0], verdicts=verdicts, asked=[*range(5), 50])
    runs = [asking, known.runs[1]]
    (board,) = standings(replace(known, runs=runs, underspecified=[*range(10)]), "C")
    head, rows = board.tables()[0]
    cells = dict(zip(head, rows[0]))
    assert cells["run"] == "a" and len(board.tasks) == 390
    assert cells["asked back"].startswith("0.500") and cells["elsewhere"] == 1


def test_a_run_without_a_licence_is_named_and_not_ranked():
    known = released(400, {"a": (400, 0.8), "b": (400, 0.4), "closed": (400, 0.9)})
    means = {"right": 0.9, "low": 0.8, "high": 0.95, "tasks": 400.0}
    closed = replace(
        known.runs[2], licence="none", verdicts="", values=[], blame={}, means=means
    )
    (board,) = standings(replace(known, runs=[*known.runs[:2], closed]), "C")
    assert "closed" not in [e.name for e in board.entrants]
    assert "no licence: closed" in board.note


def test_an_entrant_has_the_verdicts_and_stages_of_blame():
    own = entrant_of(Evidence(RUN, GOLD))
    assert own.scores.keys() >= own.failures.keys()
    assert {own.scores[i] for i in own.failures} == {0.0}
    with expect(DataError, "no turn can be judged"):
        entrant_of(Evidence(RUN))


def test_the_command_prints_the_board(tmp_path: Path, monkeypatch, capsys):
    "A file of predictions over the tasks of a board stands in its table; one over other tasks is refused."
    ids = [i for i in GOLD if GOLD[i].answerability in ("ANSWERABLE", "UNANSWERABLE")]
    talks = {}
    numbers = [talks.setdefault(i.split("<::>")[0], len(talks)) for i in ids]
    known = released(len(ids), {"a": (len(ids), 0.5), "b": (len(ids), 0.2)})
    known = replace(known, tasks=ids, conversations=numbers)
    lines = [{"task_id": i, "predictions": [{"text": GOLD[i].targets[0]}]} for i in ids]
    write_jsonl(tmp_path / "mine.jsonl", lines)
    path = write_json(tmp_path / "toy.json", plain(known))
    monkeypatch.setattr(room, "board_files", lambda: [path])
    (board,) = score([tmp_path / "mine.jsonl"], board=True)
    assert board.entrants[0].name == "mine" and board.bands[0][0] == 1
    printed = capsys.readouterr().out
    assert "> mine" in printed and "yours" in printed
    assert main(["score", str(tmp_path / "mine.jsonl"), "--board", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["tables"][0][0]["run"] == "> mine"
    monkeypatch.undo()
    with expect(DataError, "no released run has its tasks"):
        score([tmp_path / "mine.jsonl"], board=True)


@pytest.mark.parametrize("path", board_files(), ids=lambda path: path.stem)
def test_the_files_of_the_board_fit_together(path: Path):
    "Each list is as long as the tasks, failed turns have one stage, and no text of a file is there."
    known = read_released_runs(path)
    assert len(known.tasks) == len(known.conversations) == len(set(known.tasks))
    assert path.stat().st_size < 1_000_000
    for run in known.runs:
        if run.licence == "none":
            assert run.means and not (run.values or run.verdicts or run.blame)
            continue
        assert len(run.values) == len(known.tasks), run.name
        assert len(run.verdicts) == (0 if run.setting == "A" else len(known.tasks))
        failed = sorted(n for places in run.blame.values() for n in places)
        assert failed == [n for n, v in enumerate(run.verdicts) if v == "f"]
        assert run.repository and run.licence and run.file, run.name


def test_the_page_has_the_numbers_of_the_files():
    "RaguTeam's scores as filed and by the labels, in docs/official_scores.md."
    page = (Path(__file__).parents[1] / "docs" / "official_scores.md").read_text(
        "utf-8"
    )
    for run in read_released_runs(data_dir("board") / "mtragun.json").runs:
        if "RL_F" in run.filed:
            filed, labelled = (
                f"{m['RL_F']:.3f}"[1:] for m in (run.filed, run.official)
            )
            assert f"| {run.name} | {filed} | {labelled} |" in page


def test_place_run_names_the_tasks_that_there_are():
    with expect(DataError, "no released run has its tasks", "mtrag"):
        place_run(Evidence(RUN, GOLD))
    assert [len([*read_jsonl(RUN / "trajectories.jsonl")])] == [16]
