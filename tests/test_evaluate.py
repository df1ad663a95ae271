"What `7_evaluation` answers where its notebooks do not show it: faults that were found once, and cases by the dozen."

import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest

from mtrag_nb import evaluate
from mtrag_nb.app.cli import main
from mtrag_nb.app.exchange import export_run
from mtrag_nb.core.files import data_dir, make_folder, write_json, write_jsonl
from mtrag_nb.core.record import (
    Drafted,
    Grade,
    Graded,
    Refused,
    Retrieved,
    Rewritten,
    kept_by,
)
from mtrag_nb.core.run_folder import Run
from tests.support.turns import new_turn
from mtrag_nb.core.replies import score_verdict
from mtrag_nb.core.types import DOMAINS, Context, DataError, Gold, Passage, Task
from mtrag_nb.data.mtrag import (
    read_benchmark,
    read_corpus,
    read_qrels,
    sample_corpus,
    sample_dir,
)
from mtrag_nb.data.predictions import import_predictions
from mtrag_nb.data.traces import import_traces
from mtrag_nb.evaluation.blame import blame, blame_turn
from mtrag_nb.evaluation.proof import (
    STATUSES,
    proof_of,
    proof_report,
)
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.scores import score_run
from mtrag_nb.show.browser import CaseBrowser
from mtrag_nb.show.report import write_report
from mtrag_nb.show.turn import outcome_words
from tests.support.planted import Bench, tasks
from tests.test_cases import span
from tools.real_data import (
    calibrate_laptop,
    license_laptop,
    make_pool,
    pool_file,
    slice_of,
)

PLACES = [
    Context("g#0", "g", "The ferry costs 12 crowns."),
    Context("b#0", "b", "Bees sleep."),
]
FOUND = Retrieved(contexts=("g#0", "b#0"), node="retrieve")


def cause_of(*steps, **known):
    "The cause and stage of a turn whose gold passage was found, by steps after the search."
    turn = new_turn(FOUND, *steps, task_id="c1<::>1", conversation_id="c1", **known)
    gold = Gold(
        turn.task_id, "ANSWERABLE", ("It costs 12 crowns.",), (Passage("g", ""),)
    )
    run = Run.of("made", [turn], PLACES)
    found = blame_turn(Evidence(run, {turn.task_id: gold}).rows[turn.task_id])
    return found.cause, found.stage


@pytest.mark.parametrize(
    ("steps", "known", "cause", "stage"),
    [
        ((), {"outcome": "answered", "answer": "Bananas grow on trees."}, "wrong draft from gold", "generate"),
        ((), {"outcome": "answered", "answer": "I'm sorry, I do not know."}, "declined though gold was there", "generate"),
        ((), {"outcome": "asked_back", "answer": "Which ferry do you mean?"}, "asked back though clear", "gate"),
        ((Refused(reason="weak", role="dropped"),), {}, "refused though gold was there", "gate"),
    ],
)  # fmt: skip
def test_a_turn_without_a_draft_on_record(steps, known, cause, stage):
    "Traces without a typed generation, and systems from outside, record no draft: only a refusal is a gate's."
    assert cause_of(*steps, **known) == (cause, stage)


def test_kept_is_what_the_system_kept():
    "A step whose system keeps by another rule than its verdicts says so in `extra`; blame and the record read the same."
    grades = tuple(Grade(c.id, score_verdict(0.1, 0.5, "cosine")) for c in PLACES)
    own = Graded(grades=grades, node="grade", state_update={"kept": ["g#0"]})
    assert own.kept == () and kept_by(own) == ("g#0",)
    assert new_turn(FOUND, own).kept == ("g#0",)
    assert (
        cause_of(own, outcome="answered", answer="Bananas grow.")[0]
        == "wrong draft from gold"
    )


def test_recorded_agents_kept_what_they_answered_from():
    "In 4 of the 16 recorded turns, `kept` did not name the passages that the answer was made from."
    turns = Run(data_dir("recorded") / "sample_agents").trajectories.values()
    assert all(set(t.contexts) <= set(t.kept) for t in turns if t.answered)


def test_a_trec_run_with_a_byte_order_mark_is_the_run_without(tmp_path):
    rows = "c1<::>1 Q0 p1 1 0.9 mine\nc1<::>1 Q0 p2 2 0.5 mine\n"
    qrels, task = {"c1<::>1": {"p1": 1}}, Task("c1<::>1", "c1", 1, "govt", "q")
    for name, encoding in (("plain", "utf-8"), ("marked", "utf-8-sig")):
        (tmp_path / f"{name}.run").write_text(rows, encoding=encoding)
        path, gold = tmp_path / f"{name}.run", {task.id: Gold(task.id)}
        report = score_run(path, gold, [task], qrels, out=tmp_path)
        assert report.retrieval.overall["MRR"] == 1.0


def test_a_pool_is_drawn_from_the_corpora(tmp_path):
    "All gold passages are in it, as many of each domain as asked for, and the same draw gives the same lines."
    corpus = list(read_corpus(*sample_corpus()))
    gold = read_benchmark(sample_dir() / "reference.jsonl").gold
    wanted = {p.id for g in gold.values() for p in g.passages}
    some, every = slice_of(corpus, wanted, 37), {p.id for p in corpus}
    assert wanted <= {p.id for p in some} <= every and len({p.id for p in some}) == len(
        some
    )
    assert slice_of(corpus, wanted, 37) == some
    must = Counter(p.domain for p in corpus if p.id in wanted)
    of, drawn = (Counter(p.domain for p in ps) for ps in (corpus, some))
    assert all(drawn[d] == min(max(37, must[d]), of[d]) for d in of)
    fetched = tmp_path / "fetched"
    places = {"mtrag-human": "retrieval_tasks/{}/qrels/dev.tsv", "mtragun-human": "retrieval_tasks/qrels/{}.tsv"}  # fmt: skip
    for d in DOMAINS:
        for name, place in places.items():
            path = fetched / name / place.format(d)
            make_folder(path.parent)
            shutil.copyfile(sample_dir() / f"retrieval_tasks/{d}/qrels/dev.tsv", path)
        lines = (
            {"id": p.id, "title": p.title, "text": p.text}
            for p in corpus
            if p.domain == d
        )
        folder = make_folder(fetched / "corpora" / "passage_level")
        write_jsonl(folder / f"{d}.jsonl", lines)
    with pytest.raises(DataError, match="there is no pool of passages"):
        pool_file(fetched)
    sizes = dict.fromkeys(DOMAINS, 30)
    sums = [
        make_pool(fetched, sizes),
        make_pool(fetched, sizes),
        make_pool(fetched, sizes, seed=1),
    ]
    pool = list(read_corpus(pool_file(fetched)))
    files = (sample_dir() / f"retrieval_tasks/{d}/qrels/dev.tsv" for d in DOMAINS)
    gold_ids = {p for file in files for of in read_qrels(file).values() for p in of}
    assert sums[0] == sums[1] != sums[2] and gold_ids <= {p.id for p in pool}
    of = Counter(p.domain for p in pool)
    assert (
        of.keys() == {*DOMAINS} and min(of.values()) >= 30 and len(pool) < len(corpus)
    )


def test_real_data_is_named_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("MTRAG_DATA", raising=False)
    for measure in (calibrate_laptop, license_laptop):
        with pytest.raises(DataError, match="MTRAG_DATA is not set"):
            measure(out=tmp_path / "none.json")


# Blame that is proved


def test_a_proof_is_read_for_the_turns_that_were_forked_and_for_no_others(tmp_path):
    run = shutil.copytree(data_dir("recorded") / "sample_naive", tmp_path / "run")
    known = read_benchmark(sample_dir() / "reference.jsonl").gold
    report = blame(Evidence(run, known))
    first, second = report.failed[:2]
    turns = {first.task_id: {"tried": {"gold passages": "right"}, "why": ""}}
    kept = {"run": Run(run).state, "seconds": 1.0, "turns": turns}
    write_json(run / "proof.json", kept)
    rec = Evidence(run, known)
    kept_proof = proof_of(rec, first)
    assert kept_proof.tests and kept_proof.status in STATUSES
    assert proof_of(rec, second) is None
    assert proof_of(rec, replace(first, verdict="right")) is None, (
        "judged anew, it did not fail"
    )
    assert proof_report(rec, report).share(kept_proof.status).value == 1
    write_json(run / "proof.json", kept | {"run": "another state"})
    assert proof_report(Evidence(run, known), report) is None


def test_the_status_of_a_proof_is_shown_with_the_turn(tmp_path):
    "In its first line, in the browser, the report and the exports."
    run = shutil.copytree(data_dir("recorded") / "sample_naive", tmp_path / "run")
    known = read_benchmark(sample_dir() / "reference.jsonl")
    failed = blame(Evidence(run, known.gold)).failed
    first = next(b.task_id for b in failed if b.stage == "generate")
    turns = {first: {"tried": {"gold passages": "right"}, "why": ""}}
    write_json(
        run / "proof.json", {"run": Run(run).state, "seconds": 1.0, "turns": turns}
    )
    rec = Evidence(run, known.gold)
    assert "(repaired by gold passages)" in outcome_words(rec, first)
    browser = CaseBrowser(rec)
    browser.go(first)
    assert "repaired by gold passages" in browser.controls.body.value
    page = write_report([run], tmp_path / "report.html").read_text("utf-8")
    assert "repaired by gold passages" in page
    assert "By construction: its repair cannot fail" in page
    spans = export_run(run, tmp_path / "spans.jsonl").read_text("utf-8")
    assert "repaired by gold passages" in spans


def test_planted_faults_are_repaired_where_the_repair_can_fail(tmp_path):
    bench, both = Bench(tmp_path), ("a retriever without gold", "another generator")
    intact = blame(bench.run("naive"))
    right = [t for t in tasks if intact.turns[t.id].verdict == "right"][:5]
    found = {}
    for faults in ((both[0],), (both[1],), both):
        run = bench.run("naive", *faults, some=right)
        found[faults] = bench.prove("naive", *faults, run=run).proofs.values()
    assert [
        {(p.blame.stage, p.status, p.stage) for p in some} for some in found.values()
    ] == [
        {("retrieve", "blamed stage", "retrieve")},
        {("generate", "by construction", "generate")},
        {
            ("retrieve", "nothing tried", "retrieve")
        },  # gold alone does not help: the draft is broken, too
    ]
    assert all(len(some) >= 3 for some in found.values())


GOLD_TEXT, OTHER_TEXT = (
    "A ticket costs 12 crowns for adults.",
    "The ferry leaves at ten.",
)
REWRITES = [  # question, what was searched for
    ("Was kostet eine Fahrkarte für Erwachsene?", "price of a ticket for adults"),
    ("Combien coûte un billet pour adultes ?", "How much does an adult ticket cost?"),
    ("¿Cuánto cuesta un billete para adultos?", "adult ticket price"),
    ("大人的票多少钱？", "adult ticket price"),
    ("Сколько стоит билет?", "How much is a ticket?"),
    ("What's the fare for grown-ups?", "adult ticket price"),
    ("What does the NHS pay?", "National Health Service payments"),
    ("What's the fare for grown-ups?",
     "A ticket for the harbour museum costs twelve crowns; children under six pay nothing."),
    ("And for them?", "adult ticket crossing crowns"),
]  # fmt: skip


def asked_for(question: str, query: str, found: tuple[str, ...], *steps):
    "A turn that searched for a query and drafted a wrong price."
    places = {"g": GOLD_TEXT, "b": OTHER_TEXT}
    turn = new_turn(
        Rewritten(node="rewrite", text=query),
        Retrieved(node="retrieve", contexts=found),
        *(steps or (Drafted(node="generate", text="It costs 7 crowns."),)),
        question=question,
        task_id="t",
    )
    run = Run.of("made", [turn], [Context(i, i, x) for i, x in places.items()])
    gold = Gold("t", "ANSWERABLE", ("12 crowns",), (Passage("g", ""),))
    blamed = blame_turn(Evidence(run, {"t": gold}).rows["t"])
    return blamed.cause, blamed.stage


@pytest.mark.parametrize("question, query", REWRITES)
def test_a_rewrite_that_found_gold_has_not_strayed(question, query):
    wrong = ("wrong draft from gold", "generate")
    assert asked_for(question, query, ("g", "b")) == wrong
    assert asked_for(question, query, ("b", "g")) == wrong
    declined = Drafted(node="generate", text="I don't know.", declined=True)
    assert asked_for(question, query, ("g", "b"), declined)[1] == "generate"
    no, yes = score_verdict(0.1, 0.5, "cosine"), score_verdict(0.9, 0.5, "cosine")
    grades = Graded(node="grade", grades=(Grade("g", no), Grade("b", yes)))
    draft = Drafted(node="generate", text="It costs 7 crowns.")
    graded = asked_for(question, query, ("g", "b"), grades, draft)
    assert graded == ("gold graded away", "grade")


def test_a_query_strayed_where_its_search_lacks_the_gold():
    question = "What does a ticket cost?"
    strayed = ("query strayed", "rewrite")
    assert asked_for(question, "the weather in Oslo", ("b",)) == strayed
    assert asked_for(question, "Zebras graze quietly", ("b",)) == strayed
    not_found = ("gold not found", "retrieve")
    assert asked_for(question, "price of a ticket", ("b",)) == not_found
    for question, query in REWRITES[:5]:  # of another language words say nothing
        assert asked_for(question, query, ("b",)) == not_found


ODD_PROOFS = [
    {"turns": 5},
    {"turns": []},
    {"turns": {"t": None}},
    {"turns": {"t": {"tried": {}}}},
    {"turns": {"t": {"tried": 3, "why": ""}}},
    {"turns": {"t": {"tried": {"gold passages": 1}, "why": ""}}},
    {"turns": {"t": {"tried": {"gold passages": "perhaps"}, "why": ""}}},
    {"turns": {"t": {"tried": [], "why": None}}},
    {"turns": {}, "seconds": "long"},
    {"turns": {}, "run": 7},
    {},
]


@pytest.fixture
def failing(tmp_path):
    "A copy of a recorded run with failed turns, and its reference."
    folder = tmp_path / "run"
    shutil.copytree(data_dir("recorded") / "sample_naive", folder)
    return folder, read_benchmark(sample_dir() / "reference.jsonl").gold


@pytest.mark.parametrize("odd", ODD_PROOFS)
def test_an_odd_proof_is_a_clear_error(failing, odd, capsys):
    folder, gold = failing
    state = Run(folder).state
    write_json(folder / "proof.json", {"run": state, **odd})
    if odd == {}:
        write_json(folder / "proof.json", {"turns": {}})
    with pytest.raises(DataError, match="proof.json: not what was written.*--prove"):
        proof_report(Evidence(folder, gold), blame(Evidence(folder, gold)))
    for command in ("blame", "report"):
        out = ["--out", str(folder / "page.html")] if command == "report" else []
        assert main([command, str(folder), *out]) == 2
    assert "proof.json" in capsys.readouterr().err


def test_a_proof_names_known_repairs(failing):
    folder, gold = failing
    state = Run(folder).state
    first = blame(Evidence(folder, gold)).failed[0].task_id
    for name in ("magic", "gold passages+magic", "", "+"):
        turns = {first: {"tried": {name: "right"}, "why": ""}}
        write_json(folder / "proof.json", {"run": state, "turns": turns})
        with pytest.raises(DataError, match="unknown repair"):
            proof_report(Evidence(folder, gold), blame(Evidence(folder, gold)))


@pytest.mark.parametrize("name", ["refusals.json", "verdicts.json"])
@pytest.mark.parametrize(
    "odd", [{}, {"phrases": 5, "by": 5}, {"phrases": [1], "by": None}]
)
def test_other_odd_files_of_a_run_folder_are_clear_errors(failing, name, odd):
    folder, gold = failing
    write_json(folder / name, odd)
    with pytest.raises(DataError, match=f"{name}: not what was written"):
        Evidence(folder, gold)


RISING = {  # scores down a ranking whose first passage is the gold one
    "FAISS, L2": (0.21, 0.55, 0.71, 0.83, 1.2),
    "Chroma, cosine distance between 0 and 1": (0.02, 0.13, 0.4, 0.41, 0.99),
    "pgvector, negative inner product": (-0.93, -0.72, -0.5, -0.11, -0.01),
    "ranks": (1, 2, 3, 4, 5),
    "ranks from 0": (0, 1, 2, 3, 4),
    "ties": (0.2, 0.2, 0.4, 0.4, 0.6),
    "large": (120.5, 130.0, 188.2, 200.0, 1e6),
}
IDS = tuple("gabcd")
QRELS = {"g": 1}


def prediction(n: int, scores, answer: bool, ids=IDS) -> dict:
    asked = [{"speaker": "user", "text": f"How much is ticket {n}?"}]
    contexts = [
        {"document_id": i, "score": s, "text": f"Passage {i}."}
        for i, s in zip(ids, scores)
    ]
    about = {"task_id": f"c{n}<::>1", "Collection": "own", "input": asked}
    said = {"predictions": [{"text": "It costs 12 crowns."}]} if answer else {}
    return {**about, "contexts": contexts, **said}


def of_file(folder, rankings, answer: bool, imported: bool = False):
    "The retrieval scores of a file of rankings; imported: as a run."
    path = folder / "pred.jsonl"
    write_jsonl(path, [prediction(n, s, answer) for n, s in enumerate(rankings)])
    source = path
    if imported:
        source = import_predictions(path, None, folder / "imported")
    gold = {f"c{n}<::>1": Gold("", "ANSWERABLE", ("12",)) for n in range(len(rankings))}
    qrels = dict.fromkeys(gold, QRELS)
    return score_run(source, gold, qrels=qrels, out=folder / "scores").retrieval


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.parametrize("name", RISING)
def test_scores_that_rise_are_distances(tmp_path, name, answer, imported):
    found = of_file(tmp_path, [RISING[name]] * 3, answer, imported)
    first = 0.0 if name == "ties" and "a" > "g" else 1.0
    assert found.by_query["nDCG@1"] == first, (
        "of equal scores the larger id comes first"
    )
    assert (found.distances, found.unordered) == (3, 0)
    assert "3 with scores that rise: read as distances or ranks" in found.note


@pytest.mark.parametrize("answer", [False, True])
def test_one_ranking_that_rises_by_chance_is_said(tmp_path, answer):
    falling, rising = (0.9, 0.7, 0.5, 0.3, 0.1), (0.1, 0.2, 0.3, 0.4, 0.5)
    found = of_file(tmp_path, [falling] * 5 + [rising], answer)
    assert (found.distances, found.unordered) == (0, 1)
    assert found.by_query["nDCG@1"] == 5 / 6, "by scores, as the official script"
    assert "1 not in the order of their scores (the scores count)" in found.note
    some = of_file(tmp_path, [rising] * 18 + [falling], answer)
    assert (some.distances, some.unordered) == (18, 0)


@pytest.mark.parametrize(
    "scores, distances, unordered",
    [
        ((0.5, 0.9, 0.1, 0.7, 0.2), 0, 1),  # mixed
        ((0.5,), 0, 0),
        ((0.5, 0.5, 0.5, 0.5, 0.5), 0, 0),
        ((0.9, 0.9, 0.5, 0.5, 0.1), 0, 0),
        ((), 0, 0),
    ],
)
def test_what_is_no_distance(tmp_path, scores, distances, unordered):
    found = of_file(tmp_path, [scores], True)
    assert (found.distances, found.unordered) == (distances, unordered)


def test_half_and_half_is_ambiguous_and_said(tmp_path):
    both = [(0.9, 0.5, 0.1), (0.1, 0.5, 0.9)] * 4
    found = of_file(tmp_path, both, False)
    assert (found.distances, found.unordered) == (0, 4)
    assert found.by_query["nDCG@1"] == 0.5


def asked_of(rankings, folder):
    "The retrieval scores of a function that gives passages with scores, the gold one first."
    turns = iter(enumerate(rankings))

    def system(messages):
        n, scores = next(turns)
        listed = []
        for i, score in zip(IDS, scores):
            listed.append({"id": f"{i}{n}", "text": f"Passage {i} of harbour {n}."})
            if score != "none":
                listed[-1]["score"] = score
        return {"answer": "It costs 12 crowns.", "passages": listed}

    questions = [{"question": f"How much is ticket {n}?"} for n in range(len(rankings))]
    run = evaluate(system, questions, folder, progress=False).run
    gold = {}
    for n, i in enumerate(run.trajectories):
        passages = (Passage(f"g{n}", f"Passage g of harbour {n}."),)
        gold[i] = Gold(i, "ANSWERABLE", ("12 crowns",), passages)
    return Evidence(run, gold).retrieval()


@pytest.mark.parametrize("name", RISING)
def test_the_passages_of_a_function_stand_in_its_order(tmp_path, name):
    found = asked_of([RISING[name]] * 2, tmp_path / "run")
    assert found.by_query["nDCG@1"] == 1.0 and found.distances == 2


def test_a_function_whose_scores_are_mixed_keeps_its_order_and_that_is_said(tmp_path):
    falling, mixed = (0.9, 0.7, 0.5, 0.3, 0.1), (0.4, 0.9, 0.1, 0.2, 0.3)
    rising = (0.1, 0.2, 0.3, 0.4, 0.5)
    found = asked_of([falling, falling, mixed, rising], tmp_path / "run")
    assert found.by_query["nDCG@1"] == 1.0
    assert (found.distances, found.unordered) == (0, 2)
    assert "2 not in the order of their scores (the order counts)" in found.note
    none = asked_of([("none",) * 5, (None,) * 5], tmp_path / "none")
    assert none.by_query["nDCG@1"] == 1.0 and none.unordered == none.distances == 0


def test_distances_in_a_trace_keep_their_order(tmp_path):
    spans = []
    for n in range(3):
        listed = {}
        for k, (i, score) in enumerate(zip(IDS, RISING["FAISS, L2"])):
            place = f"retrieval__documents__{k}__document"
            listed[f"{place}__id"] = f"{i}{n}"
            listed[f"{place}__content"] = f"Passage {i} of harbour {n}."
            listed[f"{place}__score"] = score
        chain = {"openinference__span__kind": "CHAIN", "input__value": f"Ticket {n}?"}
        search = {"openinference__span__kind": "RETRIEVER", "input__value": "ticket"}
        begins = 1 + 10 * n
        spans += [
            span("chain", f"r{n}", "", begins, 8, **chain, output__value="12 crowns."),
            span("retrieve", f"s{n}", f"r{n}", begins + 1, **search, **listed),
        ]
    text = "\n".join(map(json.dumps, spans))
    (tmp_path / "spans.jsonl").write_text(text, encoding="utf-8")
    run = import_traces(tmp_path / "spans.jsonl", tmp_path / "run")
    gold = {}
    for n, i in enumerate(run.trajectories):
        passages = (Passage(f"g{n}", f"Passage g of harbour {n}."),)
        gold[i] = Gold(i, "ANSWERABLE", ("12",), passages)
    found = Evidence(run, gold).retrieval()
    assert found.by_query["nDCG@1"] == 1.0 and found.distances == 3
