"""Released outputs of real systems, read by `mtrag import`: run where MTRAG_DATA has the folder `released`. All of its files are read,
and what they come to is counted again, by `make recount`."""

import os
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from mtrag_nb.core.record import Recorded
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import DataError
from mtrag_nb.data.mtrag import Benchmark, read_benchmark, read_corpus
from mtrag_nb.data.official import official_file
from mtrag_nb.data.predictions import _POOL, import_predictions, read_rewrites
from mtrag_nb.evaluation.items import run_items
from mtrag_nb.evaluation.evidence import Evidence
from tests.support.places import with_official_ids

ROOT = Path(os.environ.get("MTRAG_DATA") or "nowhere")
RELEASED = ROOT / "released"
pytestmark = pytest.mark.skipif(
    not RELEASED.is_dir(), reason="MTRAG_DATA has no released outputs"
)


@cache
def tasks(test: bool) -> Benchmark:
    "The tasks with gold, of dev or test."
    name = "mtragun-human" if test else "mtrag-human"
    return read_benchmark(ROOT / name / "reference.jsonl")


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory):
    "A file as a run."
    pool = list(read_corpus(ROOT / _POOL))

    def read(path: str) -> Run:
        folder = tmp_path_factory.mktemp("runs")
        known = tasks("_test_" in path)
        file = RELEASED / path
        if path.startswith("gbgers"):  # a team that numbered conversations itself
            conversations = official_file(ROOT, "mtrag-human/conversations")
            file = with_official_ids(file, conversations, known.tasks, folder)
        return import_predictions(file, known, folder / "run", passages=pool)

    return read


def test_teams_ids_are_places(run_of):
    "The last turn of each conversation, by its index or by domain and order: both are the same."
    name = "gbgers/C_dev110_self-crag_{}_strict_llama8b.jsonl.gz"
    by_index, by_order = run_of(name.format("v2")), run_of(name.format("v1"))
    assert by_index.manifest["imported"]["joined"] == {"by task id": 110}
    assert list(by_index.tasks) == list(by_order.tasks)
    assert all(t.question for t in by_index.trajectories.values())


def test_decisions_of_the_authors_are_steps(run_of):
    run = run_of("gbgers/C_dev110_self-crag_v4_permissive_llama8b.jsonl.gz")
    ends = Counter(t.end for t in run.trajectories.values())
    assert ends["irrelevant_docs"] == 16 and ends["hallucination_loop_exhausted"] == 12
    gates = Counter(t.gates[0].verdict.passed for t in run.trajectories.values())
    assert gates == {True: 94, False: 16}
    assert (
        sum(
            not t.checks[0].verdict.passed
            for t in run.trajectories.values()
            if t.checks
        )
        == 12
    )
    assert sum(bool(t.step("retry")) for t in run.trajectories.values()) == 13


def test_a_gate_that_decides_nothing_is_none(run_of):
    run = run_of("iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl.gz")
    assert not any(t.gates for t in run.trajectories.values())
    assert any(
        "399 turns" in n and "no gate" in n for n in run.manifest["imported"]["notes"]
    )


def test_scores_and_rewrites_are_read(run_of):
    run = run_of("re_call/metrics_A_dev_hybrid_splade_voyage.json.gz")
    scores = Evidence(run, tasks(False).gold).of("nDCG@5")
    assert len(scores) == 777 and abs(sum(scores.values()) / 777 - 0.434) < 0.0005
    run = run_of("re_call/B_dev_gpt-4o_gold_prompt-official.jsonl.gz")
    assert all("RL_F" in t.of(Recorded)[0].scores for t in run.trajectories.values())
    run = run_of("zvictor12/rewrites_dev_qwen3.5-4b.jsonl.gz")
    path = RELEASED / "zvictor12/rewrites_dev_qwen3.5-4b.jsonl.gz"
    found = {i: q.strip() for i, q in read_rewrites(path).items()}
    assert {i: t.query for i, t in run.trajectories.items()} == found


@pytest.mark.parametrize(
    "reference, answers, model, n",
    [
        ("mtrag-human/reference.jsonl", "mtrag-human/human_evaluations_dev.json", "gpt-4o", 82),
        ("mtrag-synthetic/synthetic.jsonl.gz", "mtrag-synthetic/evaluations_synthetic.json.gz", "mixtral_8x22b_instruct", 1181),
    ],
)  # fmt: skip
def test_answers_of_several_models(tmp_path, reference, answers, model, n):
    "The form of the benchmark's nine models: a model is named, and read with its passages and official scores."
    known = read_benchmark(ROOT / reference)
    with pytest.raises(DataError, match="Name one of them"):
        import_predictions(ROOT / answers, known, tmp_path / "none")
    run = import_predictions(ROOT / answers, known, tmp_path / "run", name=model)
    found = Evidence(run, known.gold)
    assert len(run.trajectories) == n
    official = {"RougeL", "rb_llm", "rl_f", "rb_agg", "conditional_idk"}
    assert official <= set(found.scores[next(iter(run.trajectories))])
    assert any(i.texts for i in run_items(run))
