"What `7_evaluate` answers where its notebooks do not show it: faults that were found once, and cases by the dozen."

import shutil
from collections import Counter
from dataclasses import replace

import pytest

from mtrag_nb.app.evaluate import export_run
from mtrag_nb.core.files import data_dir, make_folder, write_json, write_jsonl
from mtrag_nb.core.record import Grade, Graded, Refused, Retrieved, Run, kept_by, new_turn
from mtrag_nb.core.text import scored
from mtrag_nb.core.types import DOMAINS, Context, DataError, Gold, Passage, Task
from mtrag_nb.data.mtrag import read_benchmark, read_corpus, read_qrels, sample_corpus, sample_dir
from mtrag_nb.evaluate.blame import blame, blame_turn, proof_of, proof_report
from mtrag_nb.evaluate.scores import Evidence, score_run
from mtrag_nb.show.browser import CaseBrowser
from mtrag_nb.show.report import report as write_report
from mtrag_nb.show.turn import outcome_words
from tests.support.planted import Bench, tasks
from tools.real_data import calibrate_laptop, license_laptop, make_pool, pool_file, slice_of

PLACES = [Context("g#0", "g", "The ferry costs 12 crowns."), Context("b#0", "b", "Bees sleep.")]
FOUND = Retrieved(contexts=("g#0", "b#0"), node="retrieve")


def cause_of(*steps, **known):
    "The cause and stage of a turn whose gold passage was found, by steps after the search."
    turn = new_turn(FOUND, *steps, task_id="c1<::>1", conversation_id="c1", **known)
    gold = Gold(turn.task_id, "ANSWERABLE", ("It costs 12 crowns.",), (Passage("g", ""),))
    run = Run.of("made", [turn], PLACES)
    found = blame_turn(Evidence(run, {turn.task_id: gold}), turn.task_id)
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
    grades = tuple(Grade(c.id, scored(0.1, 0.5, "cosine")) for c in PLACES)
    own = Graded(grades=grades, node="grade", extra={"kept": ["g#0"]})
    assert own.kept == () and kept_by(own) == ("g#0",)
    assert new_turn(FOUND, own).kept == ("g#0",)
    assert cause_of(own, outcome="answered", answer="Bananas grow.")[0] == "wrong draft from gold"


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
    assert wanted <= {p.id for p in some} <= every and len({p.id for p in some}) == len(some)
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
        lines = ({"id": p.id, "title": p.title, "text": p.text} for p in corpus if p.domain == d)
        folder = make_folder(fetched / "corpora" / "passage_level")
        write_jsonl(folder / f"{d}.jsonl", lines)
    with pytest.raises(DataError, match="there is no pool of passages"):
        pool_file(fetched)
    sizes = dict.fromkeys(DOMAINS, 30)
    sums = [make_pool(fetched, sizes), make_pool(fetched, sizes), make_pool(fetched, sizes, seed=1)]
    pool = list(read_corpus(pool_file(fetched)))
    files = (sample_dir() / f"retrieval_tasks/{d}/qrels/dev.tsv" for d in DOMAINS)
    gold_ids = {p for file in files for of in read_qrels(file).values() for p in of}
    assert sums[0] == sums[1] != sums[2] and gold_ids <= {p.id for p in pool}
    of = Counter(p.domain for p in pool)
    assert of.keys() == {*DOMAINS} and min(of.values()) >= 30 and len(pool) < len(corpus)


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
    turns = {first.task_id: {"tried": {"reference answer": "right"}, "why": ""}}
    kept = {"run": Run(run).state, "seconds": 1.0, "turns": turns}
    write_json(run / "proof.json", kept)
    rec = Evidence(run, known)
    assert proof_of(rec, first).status == "verified" and proof_of(rec, second) is None
    assert proof_of(rec, replace(first, verdict="right")) is None, "judged anew, it did not fail"
    assert proof_report(rec, report).share("verified").n == 1
    write_json(run / "proof.json", kept | {"run": "another state"})
    assert proof_report(Evidence(run, known), report) is None


def test_the_status_of_a_proof_is_shown_with_the_turn(tmp_path):
    "In its first line, in the browser, the report and the exports."
    run = shutil.copytree(data_dir("recorded") / "sample_naive", tmp_path / "run")
    known = read_benchmark(sample_dir() / "reference.jsonl")
    first = blame(Evidence(run, known.gold)).failed[0].task_id
    turns = {first: {"tried": {"reference answer": "right"}, "why": ""}}
    write_json(run / "proof.json", {"run": Run(run).state, "seconds": 1.0, "turns": turns})
    rec = Evidence(run, known.gold)
    assert "(verified by repair)" in outcome_words(rec, first)
    browser = CaseBrowser(rec)
    browser.go(first)
    assert "verified by repair" in browser.controls.body.value
    page = write_report([run], tmp_path / "report.html").read_text("utf-8")
    assert page.count("verified by repair") >= 1 and "Verified: that repair alone" in page
    assert "verified by repair" in export_run(run, tmp_path / "spans.jsonl").read_text("utf-8")


def test_planted_faults_are_proved_and_a_wrong_blame_is_refuted(tmp_path):
    bench, both = Bench(tmp_path), ("a retriever without gold", "another generator")
    intact = blame(bench.run("naive"))
    right = [t for t in tasks if intact.turns[t.id].verdict == "right"][:5]
    found = {}
    for faults in ((both[0],), (both[1],), both):
        run = bench.run("naive", *faults, some=right)
        found[faults] = bench.prove("naive", *faults, run=run).proofs.values()
    assert [{(p.blame.stage, p.status, p.stage) for p in some} for some in found.values()] == [
        {("retrieve", "verified", "retrieve")},
        {("generate", "verified", "generate")},
        {("retrieve", "refuted", "generate")},  # gold alone does not help: the draft is broken, too
    ]
    assert all(len(some) >= 3 for some in found.values())
