"The commands that evaluate: mistakes leave results as they are, and what could not be computed is counted."

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mtrag_nb.app.run import run
from mtrag_nb.app.exchange import import_run
from mtrag_nb.app.forks import audit, ladder
from mtrag_nb.app.measure import calibrate, judge, score
from mtrag_nb.core.files import read_json, read_jsonl, write_jsonl
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import DEFAULT, load_settings
from mtrag_nb.core.types import DataError, SettingsError
from mtrag_nb.data.mtrag import read_benchmark, read_corpus, sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.runs.recorded import NotLoaded
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems.outside import configure, find_system

SAMPLE = sample_dir() / "reference.jsonl"
QRELS = sample_dir() / "retrieval_tasks" / "govt" / "qrels" / "dev.tsv"
LOUD = configure(
    f"{DEFAULT}+laptop",
    "laptop",
    {"stages.rewrite": "always", "stages.check_threshold": 0.9},
)


def double(chat: ScriptedChat | None = None) -> dict:
    "Models that need no weights."
    chat = chat or ScriptedChat(first_sentence)
    return {"models": Models(LOUD, chat, HashEmbedder()), "progress": False}


class Down(ScriptedChat):
    def generate(self, *args, **how):
        raise RuntimeError("the server is down")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    "A folder with an index of the sample, and a run of six tasks."
    folder = tmp_path_factory.mktemp("commands")
    passages = list(read_corpus(*sample_corpus()))
    build_index(passages, folder / "index", HashEmbedder(), LOUD.chunks, progress=False)
    six, system = read_benchmark(SAMPLE).tasks[:6], find_system(f"{DEFAULT}+laptop")
    run_tasks(system, six, folder / "six", LOUD, folder / "index", **double())
    return folder


def test_mistakes_leave_the_scores_of_a_run_as_they_are(place):
    predicted = place / "six" / "predictions.jsonl"
    rankings, other = place / "rankings.jsonl", place / "other.jsonl"
    lines = [o for _, o in read_jsonl(predicted)]
    write_jsonl(
        rankings, [{k: v for k, v in o.items() if k != "predictions"} for o in lines]
    )
    wrong = [
        {**o, "task_id": f"other<::>{n}"}
        for n, (_, o) in enumerate(read_jsonl(SAMPLE), 1)
    ]
    write_jsonl(other, wrong)
    (place / "empty.tsv").write_text("query-id\tcorpus-id\tscore\n")
    score([place / "six"], encoder="none")
    good = (place / "six" / "scores.jsonl").read_bytes()
    mistakes = {
        "none of its tasks are in the reference file": ([place / "six"], other),
        "holds rankings and no answers": ([rankings],),
        "would both leave their scores": (
            [predicted, place / "b" / "predictions.jsonl"],
            SAMPLE,
        ),
        "holds no judgement": ([place / "six"], None, [place / "empty.tsv"]),
        "no such file": ([place / "nowhere.jsonl"], SAMPLE),
    }
    for why, arguments in mistakes.items():
        with pytest.raises(DataError, match=why):
            score(*arguments, encoder="none")
    with pytest.raises(SettingsError, match="minilm"):
        score([place / "six"], encoder="tiny")
    with pytest.raises(DataError, match="none of its tasks are in the reference file"):
        judge([place / "six"], other, **double())
    assert (place / "six" / "scores.jsonl").read_bytes() == good


def test_rankings_alone_are_scored_by_what_they_retrieved(place, capsys):
    rankings = place / "alone.jsonl"
    lines = [o for _, o in read_jsonl(place / "six" / "predictions.jsonl")]
    write_jsonl(
        rankings, [{k: v for k, v in o.items() if k != "predictions"} for o in lines]
    )
    qrels = sorted((sample_dir() / "retrieval_tasks").glob("*/qrels/dev.tsv"))
    score([rankings], qrels=qrels, out=place / "ranked")
    shown = capsys.readouterr().out
    assert "nDCG@5" in shown and "RougeL" not in shown


def test_an_audit_says_what_it_could_not_compute(place, capsys):
    _, left = audit([place / "six"], out=place / "blind", **double())
    shown = capsys.readouterr().out
    assert "not audited in full: six: views" in shown and "name the index" in left[0], (
        left
    )
    with pytest.raises(DataError, match="no mechanism 'luck'"):
        audit([place / "six"], only=["luck"], **double())
    with pytest.raises(NotLoaded, match="no index here"):
        audit([place / "six"], place / "nope", out=place / "none", **double())
    assert not (place / "none").exists(), "before the first fork"


def test_turns_that_break_in_an_audit_or_a_ladder_are_counted(place, capsys):
    down = double(Down(name="scripted"))
    result = audit([place / "six"], place / "index", out=place / "d", **down)
    shown = capsys.readouterr().out
    assert "turns broke and are left out: RuntimeError: the server is down" in shown
    assert shown.count("not audited in full") == len(result[1]) > 0 and not audit.done(
        result
    )
    how = {"rungs": ["human rewrite"], "out": place / "down", **down}
    assert not ladder.done(ladder([place / "six"], place / "index", **how))


def test_a_calibration_is_measured_on_files_of_ones_own(tmp_path):
    lines = [
        {**o, "rewritten_query": o["input"][-1]["text"]}
        for _, o in read_jsonl(SAMPLE)
        if o.get("contexts")
    ]
    every = [c for o in lines for c in o["contexts"]]

    def others(o):
        own = {c["document_id"] for c in o["contexts"]}
        return [c for c in every if c["document_id"] not in own][:3]

    def task(n):
        return {
            "task_id": f"c{n}<::>1",
            "input": [{"speaker": "user", "text": "What do bees collect?"}],
            "Collection": "govt",
            "contexts": [{"document_id": "p1"}],
            "targets": [{"text": "Pollen."}],
            "Answerability": ["ANSWERABLE"],
        }

    def answer(n):
        return {
            "task_id": f"c{n}<::>1",
            "model_id": "toy",
            "model_response": ["Bees collect pollen.", "Wasps sell honey."][n % 4 > 1],
            "annotations": {"faithfulness": {"ada": {"value": 4 if n % 4 < 2 else 1}}},
        }

    files = [
        tmp_path / name for name in ("reference.jsonl", "retrieved.jsonl", "rated.json")
    ]
    write_jsonl(files[0], lines)
    found = [
        {"task_id": o["task_id"], "contexts": [*o["contexts"], *others(o)]}
        for o in lines
    ]
    write_jsonl(files[1], found)
    rated = {"documents": [{"document_id": "p1", "text": "Bees collect pollen."}]}
    rated["tasks"], rated["evaluations"] = map(task, range(16)), map(answer, range(16))
    files[2].write_text(json.dumps({k: list(v) for k, v in rated.items()}))
    small = Models(load_settings(), chat=ScriptedChat(), embedder=HashEmbedder())
    calibrate(*files, tmp_path / "mine.json", limit=12, ways=("cosine",), models=small)
    assert read_json(tmp_path / "mine.json")["calibration"]["profile"] == "laptop"
    with pytest.raises(SettingsError, match="always measured"):
        calibrate(*files, ways=("yesno",))
    with pytest.raises(DataError, match="nowhere.jsonl: no such file"):
        calibrate(tmp_path / "nowhere.jsonl", *files[1:], tmp_path / "x.json")
    with pytest.raises(DataError, match="wanted are 500"):
        calibrate(*files, tmp_path / "x.json", 500, models=small)
    assert not (tmp_path / "x.json").exists()


def test_a_file_of_predictions_has_what_was_answered_and_nothing_dropped(
    tmp_path, capsys
):
    known = read_benchmark(SAMPLE, contexts=True)
    task = known.tasks[0]
    shown = [{"document_id": p.id} for p in known.gold[task.id].passages]
    line = {
        "task_id": task.id,
        "contexts": shown,
        "predictions": [{"text": "I don't know."}],
    }
    write_jsonl(tmp_path / "predictions.jsonl", [line])
    import_run(tmp_path / "predictions.jsonl", tmp_path / "run", SAMPLE)
    turn = Run(tmp_path / "run").trajectories[task.id]
    assert turn.refused and len(turn.found) == len(shown)
    assert "tasks found" in capsys.readouterr().out


def test_a_system_runs_over_a_file_of_ones_own_without_a_part_of_it(tmp_path):
    small = configure(
        "ncl", changes={"ncl.classify": False, "stages.max_new_tokens": 8}
    )
    how = {"setting": "reference", "limit": 1, "settings": small, **double()}
    plain = run(SAMPLE, tmp_path / "plain", "ncl", **how)
    assert (
        not plain.manifest["settings"]["own"]["classify"]
        and len(plain.trajectories) == 1
    )


LOADED = """
import contextlib, io, sys
from mtrag_nb.app.cli import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main(["--help"])
print(*sorted(sys.modules))
"""


def test_help_loads_neither_models_nor_systems():
    "Help is to be there within one CPU-second: no model, graph or index is imported for it."
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True
    )
    loaded = done.stdout.split()
    assert "mtrag_nb.app.cli" in loaded
    heavy = {"torch", "langgraph", "transformers", "qdrant_client", "llama_index"}
    assert not heavy & {*loaded}
