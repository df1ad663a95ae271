"""Released outputs of real systems, read by `mtrag import` and counted again: run where MTRAG_DATA has the folder `released`. How many
tasks join, and nDCG@5, stand in that folder's README. The other figures are those of a first count, made without this package's
importer, over the same files; of it, the ten CONVERSATIONAL tasks were left out."""

import math
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from mtrag_nb.core.plain_answer import plain_answer
from mtrag_nb.core.record import is_web
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import TO_ANSWER
from mtrag_nb.data.mtrag import Benchmark, read_benchmark
from mtrag_nb.data.official import official_file, official_files
from mtrag_nb.data.mtrag import read_corpus, read_qrels
from mtrag_nb.data.predictions import _POOL, import_predictions
from mtrag_nb.evaluation.blame import blame
from mtrag_nb.data.submissions import separate_scores
from mtrag_nb.evaluation.items import Item, run_items
from mtrag_nb.evaluation.rankings import retrieval_scores
from mtrag_nb.evaluation.evidence import Evidence
from tests.support.places import with_official_ids
from test_recount import recall_of

ROOT = Path(os.environ.get("MTRAG_DATA") or "nowhere")
RELEASED = ROOT / "released"
pytestmark = pytest.mark.skipif(
    not RELEASED.is_dir(), reason="MTRAG_DATA has no released outputs"
)


class Row(NamedTuple):
    "What the README says of a file."

    path: str
    task: str
    test: bool  # of MTRAG-UN
    n: int
    joins: str  # tasks / of these with qrels
    ndcg: str  # "-": nothing to measure


def ranking(item: Item) -> list[tuple[str, float]]:
    "What an item retrieved, as the benchmark counts it: those of a file by score."
    passages = [row for row in item.ranked if not is_web(row[0])]
    if item.by_score:
        passages.sort(key=lambda row: -row[1])
    ids = [passage for passage, _ in passages]
    return list(zip(ids, separate_scores(score for _, score in passages)))


def rows() -> list[Row]:
    out, folder = [], ""
    text = (RELEASED / "README.md").read_text("utf-8") if RELEASED.is_dir() else ""
    for line in text.splitlines():
        if head := re.fullmatch(r"## (\w+)", line):
            folder = head[1]
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.startswith("| `") and folder:
            path, (task, split, n, joins) = f"{folder}/{cells[0][1:-1]}", cells[1:5]
            out.append(
                Row(path, task, "test" in split, int(n.split()[0]), joins, cells[11])
            )
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
    return pytest.mark.parametrize(
        "row", rows, ids=[r.path.split(".json")[0] for r in rows]
    )


@of_rows(ROWS)
def test_all_lines_join(row, run_of, sets):
    run, (known, qrels) = run_of(row.path), sets[row.test]
    told = run.manifest["imported"]
    ids = {t.id for t in known.tasks}
    assert len(run.trajectories) == row.n and run.trajectories.keys() <= ids
    assert (
        sum(told["joined"].values()) == row.n
        and "none of the tasks" not in told["joined"]
    )
    if row.joins not in ("-", ""):
        judged = sum(i in qrels for i in run.trajectories)
        assert f"{row.n}/{judged}" == row.joins
    assert told["notes"]


def own_ndcg(wanted: dict[str, int], ranked: list[tuple[str, float]]) -> float:
    "nDCG@5 with binary relevance, written anew."
    gains = [wanted.get(i, 0) > 0 for i, _ in ranked[:5]]
    best = [1] * min(5, sum(n > 0 for n in wanted.values()))
    dcg, ideal = (
        sum(g / math.log2(k + 2) for k, g in enumerate(x)) for x in (gains, best)
    )
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
    assert all(abs(deep[i] - own[i]) < 1e-6 for i in deep) and (
        deep or "C_test" in row.path
    )


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
    hits = [
        any(qrels[i.task_id].get(p, 0) > 0 for p, _ in ranking(i)[:5]) for i in items
    ]
    assert abs(sum(hits) / len(hits) - HITS[path]) <= 0.0005001


CAUSES = ("gold not found", "declined though gold was there", "wrong draft from gold")
CAUSES += ("answered from nothing",)
# What gates and checks that answered all the same let through.
PASSED = ("bad draft let through", "evidence that does not answer let pass")
# Turns whose recall lies beside the threshold: the package reads numbers in every form, this count words.
READ_AS_FACTS = {
    "iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl.gz": {
        "54a38e9ec473b239641abdc43066a2db<::>2"
    },
    "re_call/B_dev_gpt-4o_gold_prompt-abstain.jsonl.gz": {
        "3f5fa378239f7475baac89fa40288aaa<::>2"
    },
    "sifei/C_dev100_elser_prompt-evidence.jsonl.gz": {
        "dd6b6ffd177f2b311abe676261279d2f<::>5"
    },
}
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


def own_causes(run: Run, known: Benchmark) -> dict[str, str]:
    """Failed turn -> cause, counted anew: whether gold was among the passages, whether the answer was refused, and target
    recall; without answered turns whose target is short, which has a rule of its own (tests/test_verdicts.py)."""
    causes = {}
    for i, t in run.trajectories.items():
        gold = known.gold[i]
        if gold.answerability == "UNANSWERABLE":
            if not t.refused:
                causes[i] = CAUSES[3]
        elif gold.answerability in TO_ANSWER and gold.passages:
            given = {run.passages[c].document_id for c in t.contexts}
            if not t.refused and short(gold.targets[0]):
                continue
            there = given & {p.id for p in gold.passages}
            answer = plain_answer(t.answer)
            if t.refused or recall_of(answer, gold.targets[0]) < 0.2:
                causes[i] = CAUSES[(1 if t.refused else 2) if there else 0]
    return causes


def judged(run: Run, known: Benchmark) -> tuple[int, dict[str, str]]:
    "Answerable turns that were refused; failed turn -> cause, without CONVERSATIONAL tasks."
    refused = 0
    causes = {}
    by_facts = 0  # failed though the words agree: all facts of the target are replaced
    failed = {b.task_id: b.cause for b in blame(Evidence(run, known.gold)).failed}
    for i, t in run.trajectories.items():
        gold = known.gold[i]
        asked = gold.answerability in TO_ANSWER
        refused += t.refused and asked
        left = gold.answerability == "CONVERSATIONAL"
        left |= asked and not t.refused and short(gold.targets[0])
        if i not in failed or left:
            continue
        answer = plain_answer(t.answer)
        if asked and not t.refused and recall_of(answer, gold.targets[0]) >= 0.2:
            by_facts += 1
            continue
        causes[i] = failed[i]
    assert by_facts <= 0.05 * len(failed), run.name
    return refused, causes


@pytest.fixture(scope="module")
def judged_of(run_of, sets):
    "What becomes of a file's turns, once; they are those of an own count."

    @cache
    def of(path: str) -> tuple[int, Counter]:
        run, known = run_of(path), sets["_test" in path][0]
        refused, causes = judged(run, known)
        if path.startswith("gbgers"):  # a gate or check on record that answered, too
            for i, cause in causes.items():
                if cause in PASSED:
                    causes[i] = CAUSES[3]
        counted = own_causes(run, known)
        apart = {i for i in causes | counted if causes.get(i) != counted.get(i)}
        assert apart == READ_AS_FACTS.get(path, set()), path
        return refused, Counter(causes.values())

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
    run = import_predictions(
        by_id(path, known, tmp_path), known, tmp_path / "run", used=False
    )
    same, causes = judged(run, known)
    assert (
        same == refused == GBGERS[version] and "gold not found" not in causes.values()
    )
