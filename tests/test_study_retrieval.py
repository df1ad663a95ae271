"""The studies of retrieval, speed and memory on tiny inputs: what measures them works from end to end."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mtrag_nb.core.files import read_json, write_json
from mtrag_nb.core.settings import RetrievalSettings, load_settings, with_settings
from mtrag_nb.core.types import DataError, Passage, ServerError, Task, Turn, expect
from mtrag_nb.data.mtrag import read_corpus, sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.search.types import GivenPassages
from mtrag_nb.models.chat import ScriptedChat, chat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.search.ingest import build_index
from mtrag_nb.search.retrieve import _SIGNALS, WEIGHTS, Retriever
from mtrag_nb.search.store import document_of_node, open_index
from mtrag_nb.systems.outside import configure
from mtrag_nb.systems.stages import Toolbox
from tools.studies.bench import (
    JSON_GRADE,
    bench_turns,
    in_turn,
    measure_bench,
    sequential_grade,
    sequential_settings,
    spread,
)
from tools.studies.clarify import best_point, gain
from tools.studies.footprint import Watch, report_pdf
from tools.studies.negation import PLANTED, margins
from tools.studies.platforms import claimed_environment, disturbed, pip_name
from tools.studies.retrieval import (
    BEST,
    HELD,
    PLAIN,
    TALK,
    Query,
    Remembered,
    Way,
    measure_domain,
    measure_retrieval,
    measure_way,
    packed,
    passage_scores,
    questions_of,
    results_of,
    unpacked,
    ways,
)
from tools.studies.server import (
    GREEDY,
    answered,
    as_folder,
    over,
    process_cpu_seconds,
    served,
    timed,
    wait_for,
)
from tools.studies.signals import (
    EXPANSIONS,
    WIDER,
    Candidates,
    candidates_of,
    expand,
    expansion_words,
    learn_on,
    learn_weights,
    leave_one_out,
    rank_by,
    signals_of,
)
from tools.studies.store import STORE_WAYS, bench_store, store_table


def test_ways_are_measured_once_and_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    "Each way is measured once; scores are joined by question; errors name the remedy."
    scratch = tmp_path
    every = ways()
    assert every[PLAIN] == Way(RetrievalSettings(views="last", reranker="overlap"))
    assert every["pool, overlap, human rewrite"] == Way(
        RetrievalSettings(views="query bm25:query", fusion="pool", reranker="overlap"),
        True,
    )
    with expect(DataError, "this official file is not there", hide=f"{scratch}/"):
        questions_of(scratch, "fiqa")
    double = HashEmbedder()
    remembering = Remembered(double)
    assert np.allclose(
        remembering.encode(["a", "b", "a"]), double.encode(["a", "b", "a"])
    )
    assert (
        remembering.encode([]).shape == (0, double.dim) and len(remembering.known) == 2
    )
    queries = questions_of(sample_dir(), "govt")
    passages = {p.id: p for p in read_corpus(*sample_corpus(), domains=["govt"])}
    build_index(passages.values(), scratch / "govt", double, progress=False)
    sample = open_index(scratch / "govt", double)
    toy = {
        name: measure_way(way, queries, sample, remembering)
        for name, way in every.items()
    }
    assert all(
        len(m.ndcg) == len(m.recall) == len(m.kept) == len(queries)
        for m in toy.values()
    )
    knowing = [
        replace(q, rewrite=passages[next(iter(q.gold))].text[:900]) for q in queries
    ]
    known = measure_way(every["dense, human rewrite"], knowing, sample, remembering)
    assert (
        sum(known.ndcg) > 1.2 * sum(toy["dense, human rewrite"].ndcg)
        and max(known.ndcg) == 1
    )
    few = queries[:4]
    with redirect_stdout(io.StringIO()) as lines:
        for _ in range(2):  # the second finds each way in the file
            measure_domain("govt", few, sample, remembering, scratch / "few.json")
    assert len(lines.getvalue().splitlines()) == len(every), "each way once"
    few_file = read_json(scratch / "few.json")
    small = results_of(few_file)
    assert set(small.ways) == set(every) and small.tasks == tuple(
        q.task.id for q in few
    )
    assert small.gain(PLAIN).value == 0 and few_file["domains"]["govt"][
        "passages"
    ] == len(passages)
    assert np.allclose(small.of(BEST), toy[BEST].ndcg[:4])
    assert (
        sum(len(results_of(few_file, half=h).tasks) for h in ("choosing", "reporting"))
        == 4
    )
    assert unpacked(packed([0.0, 0.431, 1.0])).tolist() == [0, 0.431, 1]
    with expect(DataError, "was not measured", "make study NAME=retrieval"):
        small.gain("Qdrant's RRF, last question")
    with expect(DataError, "was not measured in another file"):
        results_of(
            few_file, {"domains": {"govt": {"tasks": ["none<::>1"], "ways": {}}}}
        )
    monkeypatch.delenv("MTRAG_DATA", raising=False)
    with expect(DataError, "MTRAG_DATA is not set", "retrieval_tasks"):
        measure_retrieval(scratch / "govt")
    sample.close()


def invented(rng: np.random.Generator, signal: str) -> Candidates:
    "A question whose gold candidates are those with the most of one signal."
    x = rng.uniform(-0.5, 0.5, (12, len(_SIGNALS)))
    best = np.argsort(-x[:, _SIGNALS.index(signal)])[:2]
    task = Task("c1<::>1", "c1", 1, "govt", "What does the ferry cost?")
    question = Query(task, "", {f"p{b}": 1 for b in best})
    return Candidates(question, tuple(f"p{i}" for i in range(12)), x)


def test_weights_find_the_signal_of_the_gold_passages() -> None:
    "Learned weights put gold first, also on a domain that was left out."
    rng = np.random.default_rng(0)
    made = [invented(rng, "answer") for _ in range(40)]
    weights, [probe] = learn_weights(made[:30]), made[30:31]
    assert _SIGNALS[np.argmax(weights)] == "answer" and weights.max() > 5 * np.median(
        abs(weights)
    )
    learned, equal = (
        passage_scores([probe.query], rank_by(w, [probe]))[0][0]
        for w in (weights, np.full(8, 0.1))
    )
    assert learned == 1 > equal
    with expect(ValueError, "no question has gold candidates"):
        learn_weights([])
    elsewhere = leave_one_out(
        {"a": made[:20], "b": [invented(rng, "words") for _ in range(20)]}
    )
    assert {d: _SIGNALS[np.argmax(w)] for d, w in elsewhere.items()} == {
        "a": "words",
        "b": "answer",
    }


def test_signals_are_measured_over_two_domains(tmp_path: Path) -> None:
    """The candidates of the search are those that it ranks; expansions keep what was
    found."""
    scratch = tmp_path
    double = HashEmbedder()
    remembering = Remembered(double)
    queries = questions_of(sample_dir(), "govt")
    few = queries[:4]
    build_index(
        read_corpus(*sample_corpus(), domains=["govt"]),
        scratch / "govt",
        double,
        progress=False,
    )
    sample = open_index(scratch / "govt", double)
    pool = candidates_of(queries, sample, remembering)
    assert all(c.signals.shape == (len(c.passages), len(_SIGNALS)) for c in pool)
    query = queries[1]
    by_hand = Retriever(sample, double, settings=ways()[TALK].settings).rank_candidates(
        query.task.question, "govt", query.turns
    )
    order = np.argsort(-(pool[1].signals @ WEIGHTS), kind="stable")
    assert [pool[1].passages[n] for n in order[:3]] == [
        document_of_node(n) for n in by_hand[:3]
    ]
    assert not np.array_equal(
        learn_on("choosing", {"govt": pool}), learn_on("reporting", {"govt": pool})
    )
    pages = ["ferry harbour tax", "tax on the harbour", "income tax"]
    assert expansion_words("ferry", pages, sample).split()[0] == "harbour"
    plain = Retriever(sample, double, settings=ways()[HELD].settings)
    for q in few:
        before = [
            document_of_node(n)
            for n in plain.rank_candidates(q.task.question, "govt", q.turns)
        ]
        same = expand(q, sample, remembering, 0.0, False, False)
        assert list(dict.fromkeys(same))[:3] == list(dict.fromkeys(before))[:3], (
            "nothing added"
        )
        assert set(before) <= set(expand(q, sample, remembering, 0.5, True, False))
    sample.close()
    two = [p for p in read_corpus(*sample_corpus()) if p.domain in ("govt", "fiqa")]
    build_index(two, scratch / "two", double, progress=False)
    with open_index(scratch / "two", double) as index:
        found = signals_of(index, sample_dir(), remembering, ["govt", "fiqa"])
    both = results_of(found)
    assert set(both.ways) == {*WIDER, *EXPANSIONS} and set(found["weights"]) == {
        *WIDER,
        "choosing half",
    }
    assert len(both.tasks) == sum(
        len(questions_of(sample_dir(), d)) for d in ("govt", "fiqa")
    )


def test_turns_are_timed_way_by_way(tmp_path: Path) -> None:
    """The sequential system asks one prompt at a time; ways take turns; times are
    written beside what the file holds."""
    tmp = tmp_path
    passages = (
        Passage("p1", "The ferry costs 12 crowns."),
        Passage("p2", "Bees sleep at night."),
        Passage("p3", "It leaves at eight."),
    )
    task = Task(
        "c1<::>1", "c1", 1, "govt", "What does the ferry cost?", contexts=passages
    )
    replies = ScriptedChat(["{'score': '1'}", '{"score": "no"}', "Hm."])
    tools = Toolbox(
        sequential_settings(load_settings()),
        replies,
        HashEmbedder(),
        GivenPassages([task]),
    )
    update, step = sequential_grade(
        {"task": task, "query": task.question, "found": ["p1", "p2", "p3"]}, tools
    )
    assert (
        update == {"kept": ["p1", "p3"]}
        and [g.verdict.defaulted for g in step.grades] == [False, False, True]
        and len(replies.asked) == 3
    )
    assert (tools.stages.check, tools.settings.batch_size) == ("verdict", 1)
    assert in_turn(["a", "b", "c"], 4) == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]
    assert spread("speed", [3.0, 1.0, 2.0]) == {
        "speed": 2.0,
        "speed_least": 1.0,
        "speed_most": 3.0,
    }

    def echo(prompt):
        "A JSON grade where one is asked for, else an answer."
        return (
            '{"score": "yes"}'
            if prompt.messages[0][1] == JSON_GRADE
            else "The league was won by Marrow Quay."
        )

    toy = with_settings(
        load_settings(), {"stages.max_retries": 0, "retrieval.rerank_k": 1}
    )
    models = Models(toy, chat=ScriptedChat(echo), embedder=HashEmbedder())
    turns = bench_turns(2, toy, models, rounds=2)
    graded = [p for p in models.chat.asked if p.messages[0][1] == JSON_GRADE]
    assert (
        turns["same_answers_at_batch_1"] == 1
        and turns["sequential_per_minute"] > 0
        and turns["tasks"] == 2
        and len(graded) == 4
    )
    assert (
        turns["self_crag_over_batch_of_1_least"]
        <= turns["self_crag_over_batch_of_1"]
        <= turns["self_crag_over_batch_of_1_most"]
    )
    write_json(tmp / "bench.json", {"words": {"n": 7.0}, "rows": {"words": {}}})
    with redirect_stdout(io.StringIO()):  # times
        written = measure_bench(tmp / "bench.json", lambda: turns)
    assert written == read_json(tmp / "bench.json")
    assert written["turns"] == turns and written["words"] == {"n": 7.0}
    assert set(written["rows"]) == {"turns", "words"}
    assert written["rows"]["turns"]["machine"]["cores"] >= 1


def test_a_store_is_built_opened_and_asked(tmp_path: Path) -> None:
    "An index of a few children is measured as a large one."
    tmp = tmp_path
    tiny = bench_store(partial(read_corpus, *sample_corpus()), 400, tmp / "store")
    assert tiny["children"] > 200 and set(STORE_WAYS) < set(tiny)
    assert store_table([tiny]).count("\n") >= 1


@pytest.mark.slow  # a server is started that loads a model of its own
def test_a_system_answers_alike_over_a_real_server(tmp_path: Path) -> None:
    "Two turns of the laptop's model, in this process and over `transformers serve`."
    tmp = tmp_path
    ferry = Passage(
        "p1",
        "A return ticket for the ferry to Little Quill Island costs 12 crowns. Dogs travel free.",
        "Ferries",
        domain="govt",
    )
    asked = "How much is a return ticket for the ferry to Little Quill Island?"
    first = Task("c1<::>1", "c1", 1, "govt", asked, contexts=(ferry,))
    then = Task(
        "c1<::>2",
        "c1",
        2,
        "govt",
        "What does a ticket for the ferry cost?",
        (Turn("user", asked), Turn("agent", "12 crowns.")),
        contexts=(ferry,),
    )
    tasks = [first, then]
    here = Models(
        configure("self_crag", "laptop", {**GREEDY, "stages.max_new_tokens": 24})
    )
    in_process = answered(tasks, tmp / "here", here)
    assert in_process[0][0] == "answered" and "12 crowns" in in_process[0][1]
    folder = as_folder(tmp / "smollm2")
    with served(folder) as (spec, process):
        server = over(spec, {"stages.max_new_tokens": 24})
        over_http = answered(tasks, tmp / "server", server)
        with expect(ServerError, "stages.grade=verdict", hide=spec.url):
            server.chat.score([chat("", "Noon?")], ["Yes"])
        manifest = read_json(tmp / "server" / "manifest.json")
    assert (
        process.returncode is not None and "score=none" in manifest["identity"]["chat"]
    )
    assert over_http == in_process
    assert {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "generation_config.json",
    } <= {p.name for p in folder.iterdir()}
    ends = subprocess.Popen([sys.executable, "-c", "raise SystemExit('no such model')"])
    log = tmp / "log"
    log.write_text("no such model")
    with expect(ServerError, "the server did not start: no such model"):
        wait_for("http://127.0.0.1:9/health", ends, log, 60)
    assert (process_cpu_seconds(os.getpid()) > 1) is (sys.platform == "linux")
    assert process_cpu_seconds(10**9) == 0
    again, took = timed(
        tasks, tmp / "here", here, None, [os.getpid()]
    )  # from the record
    assert again == in_process and took["calls"] >= 2


def test_a_footprint_is_watched_in_this_process() -> None:
    "A process is looked at from outside; reports have the pages that are asked for."
    watch = Watch(os.getpid())
    told, answer = watch.measured(lambda: sum(range(100_000)))
    watch.over.set()
    assert answer == sum(range(100_000))
    assert told["peak_mb"] > 1
    assert (
        report_pdf(random.Random(0), ["The ferry costs 12 crowns."], 2)[:4] == b"%PDF"
    )


def test_a_platform_is_claimed_by_names_and_versions(tmp_path: Path) -> None:
    "Packages are compared as pip compares them; an environment claims what it is told."
    assert pip_name("Llama_Index.core") == "llama-index-core"
    python = claimed_environment(tmp_path / "env", sys.executable, {"numpy": "1.0"})
    assert [p.name for p in python.parents[1].rglob("*.dist-info")] == [
        "numpy-1.0.dist-info"
    ]
    changed = {"Colab": {"changed": {"numpy": ["1", "2"]}}}
    assert disturbed(changed) == ["Colab: numpy"]


def test_the_gate_that_asks_back_is_chosen_where_it_gains() -> None:
    "The threshold lies where what is caught outweighs what is spoilt."
    p = np.array([0.9, 0.8, 0.6, 0.4, 0.1])
    vague = np.array([True, True, False, True, False])
    assert best_point(p, vague) == 0.25
    assert best_point(p, vague, price=2) == 0.7
    assert gain(p, vague, 0.25) == 50


def test_a_ranker_that_knows_the_difference_is_right_on_all_planted_pairs() -> None:
    "Margins are those of the passage that answers."
    right = {p: q for kind in PLANTED for q, p in pairs_of(kind)}
    gaps = [
        g
        for k in PLANTED
        for g in margins(lambda q, ts: [float(right[t] == q) for t in ts], k)
    ]
    assert gaps == [1.0] * 24


def pairs_of(kind: str) -> list[tuple[str, str]]:
    "Question and the passage that answers it."
    found = []
    for line in PLANTED[kind].strip().splitlines():
        question, passage, other_question, other = line.split("|")
        found += [(question, passage), (other_question, other)]
    return found
