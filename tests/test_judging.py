"Judges: replies read field by field, judgements that are torn, moved or judged again, files of predictions that are odd."

import io
import random
import time
from contextlib import redirect_stdout
from dataclasses import replace

import pytest

from mtrag_nb.core.files import read_jsonl, write_json, write_jsonl
from mtrag_nb.core.record import Judged
from mtrag_nb.core.record import Run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.text import read_field
from mtrag_nb.core.types import DataError, RunMismatch, SettingsError, expect
from mtrag_nb.core.types import plain
from mtrag_nb.evaluate.measures import asked_digest, check_reference, judge_of, prediction_items
from mtrag_nb.evaluate.measures import run_items
from mtrag_nb.evaluate.judge import _CONTAINS, HALLUCINATION, _IDK_LABEL, SCORE, _ask_judge
from mtrag_nb.evaluate.judge import _before_stop, _flagged, _judge_item, _judge_prompt, _PROMPTS
from mtrag_nb.evaluate.judge import _judge_ratings, _judged_on, _keep_judge, _settle
from mtrag_nb.evaluate.judge import _split_statements, _with_judgements, judge_report, judge_run
from mtrag_nb.evaluate.judge import judge_statements, read_judge_reply
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from tests.support.made_turns import GOLD, PATH, TASKS, turn_of, write_run
from tests.support.company import _marked, contextual_support
from tests.support.tiny import tiny_llama

path, tasks, gold = PATH, TASKS, GOLD
double = HashEmbedder()


def in_form(p):
    "A reply that keeps the form."
    said = " As it says.\nHallucination: NO\nContains the answer: no\nScore: 7"
    return said if p.prefill else "no"


turns = [turn_of(n, t) for n, t in enumerate(tasks)]


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", turns)


def lines_in(run, folder):
    return {t: (j.of, j.judgements) for t, j in _with_judgements(run, folder).judge_lines.items()}


def judging(run, judge, batch=2, gold=gold, tasks=tasks, **kw):
    "A run, judged by text."
    settings = load_settings("laptop", {"batch_size": batch})
    models = Models(settings, chat=judge, embedder=double)
    how = {"models": models, "progress": False, "way": "text"}
    return judge_run(Run(run.folder), tasks, gold, settings, **how | kw)


def test_a_value_is_one_of_the_fields_or_none():
    assert _before_stop("Score: 7<|im_end|>\n<|im_start|>user\nScore: 2") == "Score: 7"
    assert _before_stop("Score: 7") == "Score: 7"
    scores = {" 7": 7, "8/10": 8, "8.5 out of 10": 8.5, "(10)": 10, "7, since": 7, '"6"': 6}
    none = "0 11 -3 7/5 80% 80/100 7-8 nine high 1,000 7? 1e1".split()
    none += ["7 or 8", "1 to 10", "", "2 of 5", "7 (or 8)", "5 (out of 20)", "4 on a scale of 5"]
    none += ["7, 8", "3 → 5", "1/10 for tone, 9/10 for facts"]
    words = {" NO.": "no", "True": "yes", "no, since it is there": "no", "“no”": "no"}
    words |= {"yes (document 2)": "yes", "Yes, the document is here.": "yes"}
    unread = ["YES or NO", "yes/no", "partial", "none", "no evidence for it", "no, or yes"]
    unread += ["yes, partly", "no, but the date is invented", "No. But the last is invented.", "7"]
    for field, read in (
        (SCORE, scores | dict.fromkeys(none)),
        (HALLUCINATION, words | dict.fromkeys(unread)),
    ):
        for head in ("", f"{field.name}: "):
            got = {t: read_field(head + t, field) for t in read}
            assert got == read, (head, {t: v for t, v in got.items() if v != read[t]})


@pytest.mark.parametrize(
    "reply, field, value",
    [
        ("so: {'Hallucination_Flag': True} and {\"score\": 7}", HALLUCINATION, "yes"),
        ('{"score": 7} {7}', SCORE, 7),  # a broken object: read as text
        ('{"score": 7, "reasons": {"accuracy": {"score": 2}}}', SCORE, 7),
        ('{"Score": 3, "score": 9}', SCORE, None),
        ("Rating (1-10) = 7", SCORE, 7),
        ("the score is 7", SCORE, 7),
        ("underscore: 7", SCORE, None),
        ("No score: 7", SCORE, None),
        ("Score: 7, and [[8]]", SCORE, None),
        ("Score (1-5): 4", SCORE, None),
        ('{"score": 4, "scale": "1-5"}', SCORE, None),
        ("No hallucination: true", HALLUCINATION, None),
        ('{"no_hallucination": true}', HALLUCINATION, None),
        ("7/10.", SCORE, 7),
        ("7 of 9", SCORE, None),
        ("It is partial.", _IDK_LABEL, "partial"),
        ("Partial, since it names the fee", _IDK_LABEL, "partial"),
        ("not partial", _IDK_LABEL, None),
        ("No information on the price is given.", _IDK_LABEL, None),
    ],
)
def test_a_field_stands_in_an_object_behind_its_label_or_at_the_beginning(reply, field, value):
    assert read_field(reply, field) == value


def test_fields_read_together_and_the_reasoning_before_them():
    assert read_field("Score: 1", SCORE, cut=True) is None
    r = read_judge_reply(
        "Reasoning: the fee stands in document 1.\n**Hallucination:** NO\n**Score:** 9/10<|im_end|>Score: 1",
        [SCORE, HALLUCINATION],
    )
    assert (
        r.values == {"Score": 9.0, "Hallucination": "no"}
        and r.reasoning == "the fee stands in document 1."
    )
    fenced = read_judge_reply(
        '```json\n{"reasoning": "It fits.", "score": 8, "hallucination_flag": false}\n```',
        [SCORE, HALLUCINATION],
    )
    assert fenced.values == {"Score": 8.0, "Hallucination": "no"} and fenced.reasoning == "It fits."
    inferred = read_judge_reply("Reasoning: the text is not relevant, so no.", [_CONTAINS])
    assert inferred.values == {"Contains the answer": None}, "a verdict is stated, not inferred"
    labels = {
        "Partial.": "partial",
        "**Yes**": "yes",
        "The label is: yes": "yes",
        "Answer: no": "no",
        "no or yes?": None,
        "": None,
    }
    assert {t: read_judge_reply(t, [_IDK_LABEL]).values["Label"] for t in labels} == labels


def test_odd_replies_are_scored_or_unparsed():
    UGLY = {  # reply -> score, or None: unparsed
        "": None,
        "   \n": None,
        "The answer is good.": None,
        "Reasoning: it is": None,
        '{"reasoning": "fine", "sco': None,
        '{"score": 7': None,
        '{"score": 7, "hallu': 7,
        '{"score": 7}': 7,
        "{'score': '7'}": 7,
        '```json\n{"rating": 7}\n```': 7,
        '{"score": 7} {"score": 3}': None,
        '{"score": {"value": 7}}': None,
        '{"score": null}': None,
        '{"score": "high"}': None,
        "Score: 7": 7,
        "score = 7.": 7,
        "**Score:** 7": 7,
        "## Score\n7": 7,
        "Score (1-10): 7": 7,
        "Score: [[7]]": 7,
        "[[7]]": 7,
        "7": 7,
        "7/10": 7,
        "7 out of 10.": 7,
        "Score: 7.5": 7.5,
        "Score: 7\nScore: 7": 7,
        "Score: 9\nOn reflection, Score: 4": None,
        "Score: 7-8": None,
        "Score: 7 or 8": None,
        "[[9]] or rather [[3]]": None,
        "9 out of 10 for style, 3 out of 10 for the facts": None,
        "I would say 9 out of 10. Without the reference 3 out of 10.": None,
        "Score: 0": None,
        "Score: 11": None,
        "Score: -5": None,
        "Score: 100": None,
        "Score: 85%": None,
        "Score: 4/5": None,
        "0": None,
        "11": None,
        "Score: nine": None,
        "a nine": None,
        "nine": None,
        "Score: a number from 1 to 10": None,
        "Score: 1 to 10": None,
        "Score: <1-10>": None,
        "Score: N/A": None,
        "Score:": None,
        "Score:\n7": 7,
        "Bewertung: 7": None,
        "Puntuación: 8/10": None,
        "Note : 6 sur 10": None,
        "评分：9": None,
        "Оценка: 5": None,
        "スコアは8です": None,
        "The passage says 12 crowns in document 2.": None,
        "Score: 8<|im_end|><|im_start|>user Score: 2": 8,
        "Underscore: 7": None,
        "The scores are 7 and 8": None,
    }
    read = {t: read_judge_reply(t, [SCORE]).values["Score"] for t in UGLY}
    assert read == UGLY, {t: (v, UGLY[t]) for t, v in read.items() if v != UGLY[t]}
    for odd, f in {
        "Hallucination: no, but the date is invented, so yes": HALLUCINATION,
        "Score: < 5": SCORE,
        "Score: >7": SCORE,
    }.items():
        assert read_judge_reply(odd, [f]).values == {f.name: None}, odd
    assert read_judge_reply("Score: <8>", [SCORE]).values == {"Score": 8.0}


def test_hostile_replies_are_read_in_linear_time():
    for piece in ("[", "[[", "{", " ", "<", ".", "yes "):
        times = []
        for n in (2_000, 16_000):
            begun = time.process_time()
            read_judge_reply(piece * n, [SCORE])
            times.append(time.process_time() - begun)
        assert times[1] < 20 * times[0] + 0.1, (
            f"{piece!r}: 8 times the size takes {times[1] / times[0]:.0f} times the time"
        )


def test_a_good_reply_cut_off_anywhere_is_read_as_it_is_or_not_at_all():
    outcomes = {"right": 0, "unparsed": 0}
    for n in range(1, 11):
        for reply in (
            f"Reasoning: document 2 states 3 of the 10 fees.\nHallucination: NO\nScore: {n}",
            f'{{"reasoning": "3 of 10", "hallucination": "no", "score": {n}, "note": "x"}}',
            f"**Score:** {n}/10\n**Hallucination:** no\nIt rests on [1] and [2].",
        ):
            for at in range(len(reply)):
                got = read_judge_reply(reply[:at], [SCORE, HALLUCINATION], cut=True).values
                assert got["Score"] in (None, n) and got["Hallucination"] in (None, "no"), (
                    reply[:at],
                    got,
                )
                outcomes["unparsed" if got["Score"] is None else "right"] += 1
    assert all(outcomes.values())


def test_garbage_never_becomes_a_score():
    rng = random.Random(0)
    alone, before = {"unparsed": 0, "a rating in [[ ]]": 0}, {"right": 0, "unparsed": 0}
    for trial in range(2000):
        junk = "".join(
            rng.choice('abcÄß {}[]":,.\n*#<>|/-–0123456789') for _ in range(rng.randint(0, 60))
        )
        got = read_judge_reply(junk, [SCORE, HALLUCINATION]).values
        assert got == {"Score": None, "Hallucination": None} or "[[" in junk, (junk, got)
        alone["unparsed" if got["Score"] is None else "a rating in [[ ]]"] += 1
        n = rng.randint(1, 10)
        got = read_judge_reply(
            f"{junk}\nHallucination: yes\nScore: {n}\n", [SCORE, HALLUCINATION]
        ).values
        assert got["Score"] in (n, None) and got["Hallucination"] == "yes", (junk, got)
        before["unparsed" if got["Score"] is None else "right"] += 1
    assert before["right"] and alone["unparsed"]


def test_an_unread_reply_is_settled_by_its_default():
    prompt = _judge_prompt(
        "correctness",
        question="How much?",
        target="12",
        answer="12",
        reply=_PROMPTS["reply.score"],
    )
    sure = ScriptedChat([" It fits."], lambda p, c: 0.0 if c == " 9" else -3.0)
    (choice,) = _ask_judge(sure, [prompt], [SCORE], "choice")
    unread = _settle("correctness", "text", read_judge_reply("hm", [SCORE]), SCORE)
    assert (unread.score, unread.low, unread.high, unread.unparsed) == (1.0, 1.0, 10.0, ("Score",))
    assert _settle("correctness", "choice", choice, SCORE).score == round(
        sum(int(o) * p for o, p in choice.p["Score"].items()), 4
    )
    assert (
        _flagged(unread, read_judge_reply("hm", [HALLUCINATION])).flag
        and not _flagged(unread, read_judge_reply("no", [HALLUCINATION])).flag
    )


def test_statements_and_ratings_count_what_is_unread():
    assert _split_statements(ScriptedChat(), [], ["One. Two."]) == [["One.", "Two."]]
    written = _split_statements(
        ScriptedChat(["1. The fee is 12.\n- It is due in May.\n\n"]),
        ["q"],
        ["The fee of 12 is due in May."],
        "judge",
    )
    assert written == [["The fee is 12.", "It is due in May."]]
    assert _split_statements(ScriptedChat(["\n"]), ["q"], ["One. Two."], "judge") == [
        ["One.", "Two."]
    ]
    with expect(SettingsError, "'comma'"):
        _split_statements(ScriptedChat(), [], [], "comma")
    judge = ScriptedChat(["Yes.", "no", "perhaps"])
    three, nothing = judge_statements(
        judge, ["q"] * 2, ["It costs 12. It is red! Who knows?", ""], ["d", "d"]
    )
    assert (
        three.score == three.low == 1 / 3
        and three.high == 2 / 3
        and three.unparsed == ("Supported",)
    )
    assert (
        [p for _, p in three.parts] == [1, 0, None]
        and nothing.score is None
        and nothing.way == "rule"
    )
    replies = [" Good.\nScore: 8", " It is a nine."]
    read, unread = _judge_ratings(ScriptedChat(replies), [["user: hi", ""], *[["x"] * 2] * 4])
    assert (read.score, unread.score) == (0.8, 0.1) and (unread.low, unread.high) == (0.1, 1.0)
    assert unread.unparsed == ("Score",)


def test_prediction_files_that_are_odd(tmp_path):
    tmp = tmp_path
    write_jsonl(
        tmp / "bare.jsonl",
        [{"task_id": t.task_id, "prediction": t.answer} for t in turns if not t.failed][:7],
    )
    with expect(DataError, "5 predictions have no task", hide=f"{tmp}/"):
        prediction_items(tmp / "bare.jsonl", tasks[:2])
    (tmp / "nan.jsonl").write_text(
        f'{{"task_id": "{tasks[0].id}", "prediction": "It is.", "Multi-Turn": NaN}}\n'
    )
    assert prediction_items(tmp / "nan.jsonl", tasks)[0].answer == "It is.", (
        "the benchmark's own files have NaN where a label is missing"
    )
    assert all(i.answerless for i in prediction_items(path)), "rankings alone, as of task A"
    line = next(line for _, line in read_jsonl(path))
    write_jsonl(tmp / "half.jsonl", [line, {"task_id": tasks[1].id, "prediction": "It is."}])
    with expect(DataError, "the prediction has no answer", hide=f"{tmp}/"):
        prediction_items(tmp / "half.jsonl")
    write_jsonl(tmp / "twice.jsonl", [{"task_id": tasks[0].id, "prediction": "It is."}] * 2)
    with expect(DataError, "was predicted before, in line 1", hide=f"{tmp}/"):
        prediction_items(tmp / "twice.jsonl", tasks)
    write_jsonl(
        tmp / "judged.jsonl",
        [{"task_id": tasks[0].id, "prediction": "I don't know.", "metrics": {"idk_eval": [0.0]}}],
    )
    assert not prediction_items(tmp / "judged.jsonl", tasks)[0].refused, (
        "the file's verdict goes before the rule"
    )


def test_a_reference_file_has_the_tasks_and_asks_what_was_asked(run):
    items = run_items(run, tasks)
    check_reference(items, gold, tasks, "run")
    with expect(DataError, "none of its tasks"):
        check_reference(items, {}, (), "run")
    with expect(DataError, "there is no answer in it"):
        check_reference([], gold, tasks, "run")
    with expect(DataError, "was another question there"):
        check_reference(items, gold, [replace(tasks[0], question="?")], "run")
    of = gold[items[0].task_id]
    assert asked_digest(items[0], of) == asked_digest(
        replace(items[0], answer="Another."), replace(of, answerability="PARTIAL")
    )
    assert (
        len(
            {
                asked_digest(i, g)
                for i, g in (
                    (items[0], of),
                    (items[0], None),
                    (items[0], replace(of, targets=("x",))),
                    (items[1], of),
                )
            }
        )
        == 4
    )


def test_a_judge_is_named_or_there_is_none(run, tmp_path):
    tmp, folder = tmp_path, run.folder
    write_json(tmp / "judged" / "judge.json", {"identity": {"judge": "kind", "way": "text"}})
    assert (
        judge_of(Run(folder, judged=tmp / "judged")) == {"judge": "kind", "way": "text"}
        and judge_of(run) == {}
    )
    for odd in ({"identity": []}, {"identity": {"judge": "kind"}}, {}):
        write_json(tmp / "judged" / "judge.json", odd)
        with expect(DataError, "judge.json: names no judge", hide=f"{tmp}/"):
            judge_of(Run(folder, judged=tmp / "judged"))


def test_judgements_are_those_of_one_judge_on_what_it_was_told(run, tmp_path):
    tmp, here, items = tmp_path, f"{tmp_path}/", run_items(run, tasks)
    of_answer = _judge_item(items[1], gold[items[1].task_id], ScriptedChat(in_form), double)
    _keep_judge(tmp / "j", {"judge": "a", "way": "text"})
    _keep_judge(tmp / "j", {"judge": "a", "way": "text"})
    assert judge_of(Run(run.folder, judged=tmp / "j")) == {"judge": "a", "way": "text"}
    with expect(RunMismatch, "judge (here 'a', asked for 'b')", hide=here):
        _keep_judge(tmp / "j", {"judge": "b", "way": "text"})
    for torn in ("", '{"identity": {"jud', "[]"):
        (tmp / "j" / "judge.json").write_text(torn)
        with expect(RunMismatch, "whose judgements these are", hide=here):
            _keep_judge(tmp / "j", {"judge": "a", "way": "text"})
    write_jsonl(
        tmp / "k" / "judgements.jsonl", [{"task_id": "t", "judgements": {"idk": {"score": 1}}}]
    )
    with expect(RunMismatch, "no judge.json", hide=here):
        _keep_judge(tmp / "k", {})
    with expect(DataError, "judgements.jsonl:1: not a judgement", hide=here):
        Run(run.folder, judged=tmp / "k").judge_lines
    write_jsonl(
        tmp / "l" / "judgements.jsonl",
        [
            plain(Judged(items[0].task_id, items[0].digest, "answered", of_answer)),
            plain(Judged(items[1].task_id, "of another answer", "answered", of_answer)),
        ],
    )
    other = _with_judgements(run, tmp / "l")
    assert (
        other.judgements == {items[0].task_id: of_answer}
        and len(other.judge_lines) == 2
        and run.judgements == {}
    )
    assert run.judged_in == run.folder
    on = replace(
        Judged(items[0].task_id, items[0].digest, "answered", of_answer),
        asked=asked_digest(items[0], gold[items[0].task_id]),
    )
    write_jsonl(tmp / "on" / "judgements.jsonl", [plain(on)])
    told = _with_judgements(run, tmp / "on")
    changed = {
        **gold,
        items[0].task_id: replace(gold[items[0].task_id], targets=("Another target.",)),
    }
    assert (
        _judged_on(told, items[0], gold)
        and _judged_on(told, items[0], None)
        and not _judged_on(told, items[0], changed)
    )
    assert not _judged_on(
        told, replace(items[0], history=tasks[1].history), gold
    ) and not _judged_on(told, items[1], None)
    assert _judged_on(other, items[0], changed)


def test_a_judge_of_other_weights_is_another(run, tmp_path):
    tmp = tmp_path
    tiny_llama(tmp / "llama")

    def by_llama():
        return judge_run(
            Run(run.folder),
            tasks,
            gold,
            settings := load_settings("laptop", {"chat.name": str(tmp / "llama")}),
            models=Models(settings, embedder=double),
            out=tmp / "weighed",
            limit=1,
            way="choice",
            protocols=("refusal", "idk"),
            progress=False,
        )

    by_llama()
    by_llama()
    weights = sorted((tmp / "llama").glob("*.safetensors"))[0]
    weights.write_bytes(weights.read_bytes()[:-64] + b"\0" * 64)
    with (
        redirect_stdout(io.StringIO()),
        expect(RunMismatch, "differs in judge (here", "Use another folder"),
    ):
        by_llama()  # it names the weights


def test_what_changed_since_is_judged_again(run, tmp_path):
    items, targets = run_items(run, tasks), tmp_path / "targets"
    judging(run, ScriptedChat(in_form), out=tmp_path / "judged")
    run = write_run(tmp_path / "run", [replace(turns[0], answer="Another answer."), *turns[1:]])
    assert judge_report(run, tmp_path / "judged").pending == 1
    assert judging(run, ScriptedChat(in_form), out=tmp_path / "judged").pending == 0
    before, again = ScriptedChat(in_form), ScriptedChat(in_form)
    judging(run, before, out=targets)
    judging(run, again, out=targets)
    assert before.asked and not again.asked, "the same targets cause no calls"
    moved = next(i for i in items if not i.failed and not i.refused).task_id
    new = {**gold, moved: replace(gold[moved], targets=("A target that nobody gave.",))}
    assert judge_report(run, targets, tasks, new).pending == 1
    assert judge_report(run, targets, tasks, gold).pending == 0
    assert judging(run, again, gold=new, out=targets).pending == 0 and again.asked
    assert all("A target that nobody gave." in p.messages[1][1] for p in again.asked)
    shorter = [replace(t, history=t.history[:-2]) if t.id == items[5].task_id else t for t in tasks]
    asked, how = len(again.asked), {"gold": new, "tasks": shorter, "out": targets}
    assert judging(run, again, **how, limit=5).pending == 1
    assert len(again.asked) == asked, "within the limit nothing has changed"
    assert judging(run, again, **how).pending == 0 and len(again.asked) > asked
    with expect(DataError, "none of its tasks are in the reference file", hide=f"{tmp_path}/"):
        judging(run, again, gold={}, tasks=[], out=targets)


def test_judgements_torn_anywhere_lose_nothing(run, tmp_path):
    tmp = tmp_path
    three = dict(out=tmp / "torn", limit=3, protocols=("refusal", "idk"))
    judging(run, ScriptedChat(in_form), **three)
    whole = (tmp / "torn" / "judgements.jsonl").read_bytes()
    ends = [n for n, b in enumerate(whole) if b == 10]
    cuts = sorted(
        {*range(0, len(whole), 97), *(e + d for e in ends for d in (-1, 0, 1)), len(whole) - 1, 3}
    )
    quiet, complete, counts = ScriptedChat(in_form), lines_in(run, tmp / "torn"), []
    for cut in cuts:
        (tmp / "torn" / "judgements.jsonl").write_bytes(whole[:cut])
        kept = lines_in(run, tmp / "torn")
        assert len(kept) == sum(e <= cut for e in ends) and kept.items() <= complete.items()
        judging(run, quiet, **three)
        assert lines_in(run, tmp / "torn") == complete
        counts.append(len(kept))
    assert not quiet.asked and set(counts) == {0, 1, 2, 3}


def test_where_judgements_cannot_be_written_one_line_says_so(run, tmp_path):
    tmp, here = tmp_path, f"{tmp_path}/"
    (tmp / "a file").write_text("x")
    for place in (tmp / "a file", tmp / "a file" / "below"):
        with expect(DataError, "a file stands where a folder should be", hide=here):
            judging(run, ScriptedChat(in_form), out=place)


def test_a_small_model_is_asked_by_choice_into_the_runs_folder(run):
    items = run_items(run, tasks)
    small = ScriptedChat(lambda p: " So.", lambda p, c: -1.0 if c in (" no", " 7") else -3.0)
    own = judging(run, small, way="", protocols=("refusal", "idk"))
    assert own.identity["way"] == "choice" and {r.protocol: r.parsed for r in own.rows} == {
        "refusal": 1.0,
        "idk": 1.0,
    }
    assert (
        Run(run.folder).judgements.keys() == {i.task_id for i in items if not i.failed}
        and judge_report(run.folder) == own
    )


def test_words_in_other_company_count_less():
    docs = [
        "The ferry leaves at 7:40 and costs 12 crowns.",
        "Dogs are not allowed on the bus. It stops 3 times.",
    ]
    honest = "The ferry leaves at 7:40 and costs 12 crowns. Dogs are not allowed on the bus."
    swapped = [honest.replace(*x) for x in (("12", "3"), ("ferry", "bus"), ("not ", ""))]
    assert _marked("Dogs aren't allowed on the bus. It can't wait.") == (
        (("dogs", False), ("allowed", True), ("bus", True)),
        (("wait", True),),
    )
    assert _marked("Cannot wait.") == ((("wait", True),),) and _marked("It is not.") == ()
    assert (
        contextual_support(honest, docs) == 1.0 > max(contextual_support(a, docs) for a in swapped)
    )
    forms = ("Dogs aren't allowed on the bus.", "Dogs are not allowed on the bus.")
    assert len({contextual_support(a, docs) for a in forms}) == 1
    assert contextual_support("", docs) == 1.0 and contextual_support("Zebras graze.", docs) == 0.0
