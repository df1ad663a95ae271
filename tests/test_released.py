"""Released outputs of real systems, read by `mtrag import`: run where MTRAG_DATA has the folder `released`. How many tasks join,
and nDCG@5, stand in that folder's README. The other figures are those of a first count, made without this package's importer,
over the same files; of it, the ten CONVERSATIONAL tasks were left out."""

import math
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from mtrag_nb.core.record import Recorded, Run
from mtrag_nb.core.types import TO_ANSWER, DataError
from mtrag_nb.data.mtrag import Benchmark, official_file, official_files, read_benchmark
from mtrag_nb.data.mtrag import read_corpus, read_qrels
from mtrag_nb.data.predictions import _POOL, import_predictions, read_rewrites
from mtrag_nb.evaluate.blame import blame
from mtrag_nb.evaluate.measures import retrieval_scores, run_items
from mtrag_nb.evaluate.scores import Evidence, ranking
from tests.support.places import with_official_ids
from tests.test_recount import recall_of

ROOT = Path(os.environ.get("MTRAG_DATA") or "nowhere")
RELEASED = ROOT / "released"
pytestmark = pytest.mark.skipif(not RELEASED.is_dir(), reason="MTRAG_DATA has no released outputs")


class Row(NamedTuple):
    "What the README says of a file."

    path: str
    task: str
    test: bool  # of MTRAG-UN
    n: int
    joins: str  # tasks / of these with qrels
    ndcg: str  # "-": nothing to measure


def rows() -> list[Row]:
    out, folder = [], ""
    text = (RELEASED / "README.md").read_text("utf-8") if RELEASED.is_dir() else ""
    for line in text.splitlines():
        if head := re.fullmatch(r"## (\w+)", line):
            folder = head[1]
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.startswith("| `") and folder:
            path, (task, split, n, joins) = f"{folder}/{cells[0][1:-1]}", cells[1:5]
            out.append(Row(path, task, "test" in split, int(n.split()[0]), joins, cells[11]))
    return out


ROWS = rows()


@pytest.fixture(scope="module")
def sets() -> dict[bool, tuple[Benchmark, dict]]:
    "Tasks with gold, and qrels, of dev and test."
    out = {}
    for test, name in ((False, "mtrag-human"), (True, "mtragun-human")):
        known = read_benchmark(ROOT / name / "reference.jsonl")
        out[test] = known, read_qrels(*official_files(ROOT, f"{name}/qrels"))
    return out


@pytest.fixture(scope="module")
def run_of(sets, tmp_path_factory):
    "A file as a run, read once."
    pool, made = list(read_corpus(ROOT / _POOL)), {}

    def read(path: str) -> Run:
        if path not in made:
            test = next(r.test for r in ROWS if r.path == path)
            out = tmp_path_factory.mktemp("runs") / "run"
            file = by_id(path, sets[test][0], out.parent)
            made[path] = import_predictions(file, sets[test][0], out, passages=pool)
        return made[path]

    return read


def by_id(path: str, known: Benchmark, folder: Path) -> Path:
    "A released file; those of the team that numbered conversations itself with the benchmark's ids."
    if not path.startswith("gbgers"):
        return RELEASED / path
    talks = official_file(ROOT, "mtrag-human/conversations")
    return with_official_ids(RELEASED / path, talks, known.tasks, folder)


def test_every_file_is_in_the_readme():
    found = {str(p.relative_to(RELEASED)) for p in RELEASED.glob("*/*.gz")}
    assert found == {r.path for r in ROWS} and len(found) > 40


def of_rows(rows):
    return pytest.mark.parametrize("row", rows, ids=[r.path.split(".json")[0] for r in rows])


@of_rows(ROWS)
def test_all_lines_join(row, run_of, sets):
    run, (known, qrels) = run_of(row.path), sets[row.test]
    told = run.manifest["imported"]
    ids = {t.id for t in known.tasks}
    assert len(run.trajectories) == row.n and run.trajectories.keys() <= ids
    assert sum(told["joined"].values()) == row.n and "none of the tasks" not in told["joined"]
    if row.joins not in ("-", ""):
        judged = sum(i in qrels for i in run.trajectories)
        assert f"{row.n}/{judged}" == row.joins
    assert told["notes"]


def test_teams_ids_are_places(run_of):
    "The last turn of each conversation, by its index or by domain and order: both are the same."
    name = "gbgers/C_dev110_self-crag_{}_strict_llama8b.jsonl.gz"
    by_index, by_order = run_of(name.format("v2")), run_of(name.format("v1"))
    assert by_index.manifest["imported"]["joined"] == {"by task id": 110}
    assert list(by_index.tasks) == list(by_order.tasks)
    assert all(t.question for t in by_index.trajectories.values())


def own_ndcg(wanted: dict[str, int], ranked: list[tuple[str, float]]) -> float:
    "nDCG@5 with binary relevance, written anew."
    gains = [wanted.get(i, 0) > 0 for i, _ in ranked[:5]]
    best = [1] * min(5, sum(n > 0 for n in wanted.values()))
    dcg, ideal = (sum(g / math.log2(k + 2) for k, g in enumerate(x)) for x in (gains, best))
    return dcg / ideal


@of_rows([r for r in ROWS if r.ndcg != "-"])
def test_ndcg_is_that_of_the_readme(row, run_of, sets):
    qrels = sets[row.test][1]
    items = [i for i in run_items(run_of(row.path)) if i.task_id in qrels]
    rankings = {i.task_id: ranking(i) for i in items}
    own = {i: own_ndcg(qrels[i], r) for i, r in rankings.items()}
    assert abs(sum(own.values()) / len(own) - float(row.ndcg)) <= 0.0005001
    found = retrieval_scores({i: qrels[i] for i in rankings}, rankings).queries
    deep = {i: s["nDCG@5"] for i, s in found.items() if "nDCG@5" in s}
    assert all(abs(deep[i] - own[i]) < 1e-6 for i in deep) and (deep or "C_test" in row.path)


HITS = {  # any gold in the top five
    "sifei/A_test_hybrid-rerank_old": 0.790,
    "iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate": 0.729,
    "pashaabri/A_dev_elser-monot5_lastturn+questions+targeted": 0.753,
    "pashaabri/A_dev_elser_lastturn": 0.651,
    "pashaabri/A_dev_elser_rewrite": 0.723,
    "re_call/C_dev_gpt-4o_recall_prompt-official": 0.664,
    "zvictor12/A_dev_bge-m3-dense_lastturn": 0.582,
    "zvictor12/A_dev_bge-m3-dense_qwen-rewrite": 0.586,
    "zvictor12/A_dev_bge-m3-dense_gold-rewrite": 0.633,
    "zvictor12/A_dev_bge-m3-sparse_qwen-rewrite": 0.472,
    "zvictor12/A_dev_bge-m3-rrf_qwen-rewrite": 0.542,
    "zvictor12/A_dev_bge-m3-rrf-rerank_qwen-rewrite": 0.624,
    "gbgers/A_dev110_bge-m3_rerank_lastturn": 0.041,
}


@pytest.mark.parametrize("path", HITS)
def test_any_gold_in_the_top_five(path, run_of, sets):
    qrels = sets["_test" in path][1]
    items = [i for i in run_items(run_of(f"{path}.jsonl.gz")) if i.task_id in qrels]
    hits = [any(qrels[i.task_id].get(p, 0) > 0 for p, _ in ranking(i)[:5]) for i in items]
    assert abs(sum(hits) / len(hits) - HITS[path]) <= 0.0005001


CAUSES = ("gold not found", "declined though gold was there", "wrong draft from gold")
CAUSES += ("answered from nothing",)
FAILED = {  # answerable turns refused; of them with gold; unanswerable ones answered; all without CONVERSATIONAL tasks
    "iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate": (2, 0, 61),
    "re_call/B_dev_gpt-4o_gold_prompt-official": (45, 45, 38),
    "re_call/B_dev_gpt-4o_gold_prompt-abstain": (147, 147, 1),
    "re_call/C_dev_gpt-4o_elser_prompt-official": (75, 26, 38),
    "re_call/C_dev_gpt-4o_elser_prompt-abstain": (164, 72, 25),
    "re_call/C_dev_gpt-4o_recall_prompt-official": (67, 18, 38),
    "re_call/C_dev_gpt-4o_recall_prompt-abstain": (136, 44, 27),
    "sifei/C_dev100_elser_prompt-official": (10, 2, 0),
    "sifei/C_dev100_elser_prompt-evidence": (9, 1, 0),
}


def short(target: str) -> bool:
    "Whether the rule for long targets does not fit."
    return len(target.split()) < 7


def own_causes(run: Run, known: Benchmark) -> Counter:
    """Causes of failed turns, counted anew: whether gold was among the passages, whether the answer was refused, and target
    recall; without answered turns whose target is short, which has a rule of its own (tests/test_verdicts.py)."""
    out: Counter = Counter()
    for i, t in run.trajectories.items():
        gold = known.gold[i]
        if gold.answerability == "UNANSWERABLE":
            out[CAUSES[3]] += not t.refused
        elif gold.answerability in TO_ANSWER and gold.passages:
            given = {run.passages[c].document_id for c in t.contexts}
            if not t.refused and short(gold.targets[0]):
                continue
            there = given & {p.id for p in gold.passages}
            why = CAUSES[(1 if t.refused else 2) if there else 0]
            out[why] += t.refused or recall_of(t.answer, gold.targets[0]) < 0.2
    return +out


def judged(run: Run, known: Benchmark) -> tuple[int, Counter]:
    "Answerable turns that were refused, and causes, without CONVERSATIONAL tasks."
    refused, causes = 0, Counter()
    failed = {b.task_id: b.cause for b in blame(Evidence(run, known.gold)).failed}
    for i, t in run.trajectories.items():
        gold = known.gold[i]
        asked = gold.answerability in TO_ANSWER
        refused += t.refused and asked
        left = gold.answerability == "CONVERSATIONAL"
        left |= asked and not t.refused and short(gold.targets[0])
        if i in failed and not left:
            causes[failed[i]] += 1
    return refused, causes


@pytest.fixture(scope="module")
def judged_of(run_of, sets):
    "What becomes of a file's turns, once; they are those of an own count."

    @cache
    def of(path: str) -> tuple[int, Counter]:
        run, known = run_of(path), sets["_test" in path][0]
        refused, causes = judged(run, known)
        if path.startswith("gbgers"):  # a gate or check on record that answered, too
            for passed in ("bad draft let through", "evidence that does not answer let pass"):
                causes[CAUSES[3]] += causes.pop(passed, 0)
        assert causes == own_causes(run, known), path
        return refused, causes

    return of


@pytest.mark.parametrize("path", FAILED)
def test_refusals_and_stages_to_blame(path, judged_of):
    refused, causes = judged_of(f"{path}.jsonl.gz")
    assert (refused, causes[CAUSES[1]], causes[CAUSES[3]]) == FAILED[path]


def test_given_passages_are_recognised(run_of, judged_of):
    for row in (r for r in ROWS if r.task == "B" and "closed-book" not in r.path):
        assert run_of(row.path).manifest["identity"]["setting"] == "reference", row.path
        refused, causes = judged_of(row.path)
        assert not causes["gold not found"]
        assert refused <= 6 or not row.path.startswith("raguteam")


# refused of 98 answerable
GBGERS = {"v1_strict_llama8b": 81, "v2_strict_llama8b": 82}
GBGERS |= {"v3_permissive_llama3b": 36, "v4_permissive_llama8b": 32}


@pytest.mark.parametrize("version", GBGERS)
def test_passages_that_were_not_used_are_not_blamed(version, judged_of, sets, tmp_path):
    path, known = f"gbgers/C_dev110_self-crag_{version}.jsonl.gz", sets[False][0]
    refused, _ = judged_of(path)
    run = import_predictions(by_id(path, known, tmp_path), known, tmp_path / "run", used=False)
    same, causes = judged(run, known)
    assert same == refused == GBGERS[version] and not causes["gold not found"]


def test_decisions_of_the_authors_are_steps(run_of):
    run = run_of("gbgers/C_dev110_self-crag_v4_permissive_llama8b.jsonl.gz")
    ends = Counter(t.end for t in run.trajectories.values())
    assert ends["irrelevant_docs"] == 16 and ends["hallucination_loop_exhausted"] == 12
    gates = Counter(t.gates[0].verdict.passed for t in run.trajectories.values())
    assert gates == {True: 94, False: 16}
    assert sum(not t.checks[0].verdict.passed for t in run.trajectories.values() if t.checks) == 12
    assert sum(bool(t.step("retry")) for t in run.trajectories.values()) == 13


def test_a_gate_that_decides_nothing_is_none(run_of):
    run = run_of("iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl.gz")
    assert not any(t.gates for t in run.trajectories.values())
    assert any("399 turns" in n and "no gate" in n for n in run.manifest["imported"]["notes"])


def test_scores_and_rewrites_are_read(run_of, sets):
    run = run_of("re_call/metrics_A_dev_hybrid_splade_voyage.json.gz")
    scores = Evidence(run, sets[False][0].gold).of("nDCG@5")
    assert len(scores) == 777 and abs(sum(scores.values()) / 777 - 0.434) < 0.0005
    run = run_of("re_call/B_dev_gpt-4o_gold_prompt-official.jsonl.gz")
    assert all("RL_F" in t.of(Recorded)[0].scores for t in run.trajectories.values())
    run = run_of("zvictor12/rewrites_dev_qwen3.5-4b.jsonl.gz")
    path = RELEASED / "zvictor12/rewrites_dev_qwen3.5-4b.jsonl.gz"
    found = {i: q.strip() for i, q in read_rewrites(path).items()}
    assert {i: t.query for i, t in run.trajectories.items()} == found


@pytest.mark.parametrize(
    "tasks, answers, model, n",
    [
        ("mtrag-human/reference.jsonl", "mtrag-human/human_evaluations_dev.json", "gpt-4o", 82),
        ("mtrag-synthetic/synthetic.jsonl.gz", "mtrag-synthetic/evaluations_synthetic.json.gz", "mixtral_8x22b_instruct", 1181),
    ],
)  # fmt: skip
def test_answers_of_several_models(tmp_path, tasks, answers, model, n):
    "The form of the benchmark's nine models: a model is named, and read with its passages and official scores."
    known = read_benchmark(ROOT / tasks)
    with pytest.raises(DataError, match="Name one of them"):
        import_predictions(ROOT / answers, known, tmp_path / "none")
    run = import_predictions(ROOT / answers, known, tmp_path / "run", name=model)
    found = Evidence(run, known.gold)
    assert len(run.trajectories) == n
    official = {"RougeL", "rb_llm", "rl_f", "rb_agg", "conditional_idk"}
    assert official <= set(found.scores[next(iter(run.trajectories))])
    assert any(i.texts for i in run_items(run))
