"Judges: replies read field by field, judgements that are torn, moved or judged again, files of predictions that are odd."

import io
import random
import time
import timeit
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mtrag_nb.core.files import read_jsonl, write_json, write_jsonl
from mtrag_nb.core.record import Calls
from mtrag_nb.core.run_folder import Judged, Run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.replies import read_field
from mtrag_nb.core.types import DataError, RunMismatch, expect, plain
from mtrag_nb.evaluation.items import (
    asked_digest,
    check_reference,
    judge_of,
    prediction_items,
)
from mtrag_nb.evaluation.items import run_items
from mtrag_nb.evaluation.judge import (
    _CONTAINS,
    HALLUCINATION,
    _IDK_LABEL,
    SCORE,
    _ask_judge,
)
from mtrag_nb.evaluation.judge import (
    _before_stop,
    _flagged,
    judge_item,
    _judge_prompt,
    JUDGE_PROMPTS,
)
from mtrag_nb.evaluation.judge import _judge_rating, _settle
from mtrag_nb.evaluation.judged_runs import _judged_on, _keep_judge
from mtrag_nb.evaluation.judge import _covers, _judge_correctness, _split_by_judge
from mtrag_nb.evaluation.judged_runs import _with_judgements, judge_report, judge_run
from mtrag_nb.evaluation.judge import judge_statements, read_judge_reply
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
    return {
        t: (j.of, j.judgements)
        for t, j in _with_judgements(run, folder).judge_lines.items()
    }


def judging(run, judge, batch=2, gold=gold, tasks=tasks, **kw):
    "A run, judged by text."
    settings = load_settings("laptop", {"batch_size": batch})
    models = Models(settings, chat=judge, embedder=double)
    how = {"models": models, "progress": False, "way": "text"}
    return judge_run(Run(run.folder), tasks, gold, settings, **how | kw)


def test_a_value_is_one_of_the_fields_or_none():
    assert _before_stop("Score: 7<|im_end|>\n<|im_start|>user\nScore: 2") == "Score: 7"
    assert _before_stop("Score: 7") == "Score: 7"
    scores = {
        " 7": 7,
        "8/10": 8,
        "8.5 out of 10": 8.5,
        "(10)": 10,
        "7, since": 7,
        '"6"': 6,
    }
    none = "0 11 -3 7/5 80% 80/100 7-8 nine high 1,000 7? 1e1".split()
    none += [
        "7 or 8",
        "1 to 10",
        "",
        "2 of 5",
        "7 (or 8)",
        "5 (out of 20)",
        "4 on a scale of 5",
    ]
    none += ["7, 8", "3 → 5", "1/10 for tone, 9/10 for facts"]
    words = {" NO.": "no", "True": "yes", "no, since it is there": "no", "“no”": "no"}
    words |= {"yes (document 2)": "yes", "Yes, the document is here.": "yes"}
    unread = [
        "YES or NO",
        "yes/no",
        "partial",
        "none",
        "no evidence for it",
        "no, or yes",
    ]
    unread += [
        "yes, partly",
        "no, but the date is invented",
        "No. But the last is invented.",
        "7",
    ]
    for field, read in (
        (SCORE, scores | dict.fromkeys(none)),
        (HALLUCINATION, words | dict.fromkeys(unread)),
    ):
        for head in ("", f"{field.name}: "):
            got = {t: read_field(head + t, field) for t in read}
            assert got == read, (head, {t: v for t, v in got.items() if v != read[t]})


STATED = [  # field, what is stated (None: nothing that may be read), the replies that state it
    (SCORE, 2, '{"criteria": {"score": 9}, "score": 2}'),
    (SCORE, 6, '{"score": 6,}', '```json\n{"score": 6}\n```'),
    (SCORE, 7, '{"score": 7, "hallu', '{"score": 7}', "{'score': '7'}",
     '```json\n{"rating": 7}\n```', "the score is 7", '{"score": 7} {7}',
     '{"score": 7, "reasons": {"accuracy": {"score": 2}}}', "Rating (1-10) = 7", "Score: 7", "7",
     '{"score": "7", "reasoning": "score: 2 would be too low"}', "score = 7.", "**Score:** 7",
     "## Score\n7", "7/10.", "Score (1-10): 7", "Score: [[7]]", "[[7]]", "7/10", "7 out of 10.",
     "Score: 7\nScore: 7", "Score:\n7"),
    (SCORE, 7.5, "Score: 7.5"),
    (SCORE, 8, "Score: <8>", "Score\uff1a8", '<think>score: 3</think>{"score": 8}',
     '{"reasoning": "uses {x}", "score": 8}', "Score: 8<|im_end|><|im_start|>user Score: 2"),
    (SCORE, 9, '{"score": 9, "criteria": [{"name": "tone", "score": 2}]}'),
    # of a field within another, of two, of another scale
    (SCORE, None, '{"evaluation": {"score": 7}}',
     '{"evaluation": {"score": 7}, "confidence": {"score": 3}}', '{"score": {"value": 7}}',
     '{"Score": 3, "score": 9}', '{"score": 3, "score": 9}', '{"score": 7} {"score": 3}',
     "Score: 7, and [[8]]", "Score: 3 → 5", "Score: 8 -> 6", "Score: 8 ⇒ 6", "Score: 8\nScore: 3",
     "[[9]] or rather [[3]]", "Score: 9\nOn reflection, Score: 4",
     "Score: 1/10 for tone, 9/10 for facts", "The scores are 7 and 8",
     "9 out of 10 for style, 3 out of 10 for the facts",
     "I would say 9 out of 10. Without the reference 3 out of 10.", "Score (1-5): 4",
     '{"score": 4, "scale": "1-5"}', '{"score": 4, "max": 5}', "7 of 9", "Score: 4/5",
     "Score: 85%"),
    # that is no score, cut off, of another word or language
    (SCORE, None, "Score: < 5", "Score: >7", "0", "11", "Score: -5", "nine", "a nine",
     "Score: nine", '{"score": "high"}', '{"score": null}', "   \n", "Reasoning: it is",
     '{"reasoning": "fine", "sco', '{"score": 7', "underscore: 7", "No score: 7",
     "Puntuación: 8/10", "Note : 6 sur 10", "评分：9", "Оценка: 5", "スコアは8です",
     "The passage says 12 crowns in document 2."),
    (HALLUCINATION, "yes", "so: {'Hallucination_Flag': True} and {\"score\": 7}"),
    (HALLUCINATION, "no", '{"hallucination": "no", "why": {"hallucination": "yes"}}',
     "Hallucination: “no”", "Hallucination: no\u200b", "Hallucination: no\nHallucination: no"),
    (HALLUCINATION, None, "No hallucination: true", '{"no_hallucination": true}',
     "Hallucination: no-one said so", "Hallucination: No. But the last sentence is invented.",
     "Hallucination: no (except the price, which is invented)", "Hallucination: no → yes",
     '{"hallucination": false, "hallucination": true}',
     "Hallucination: no, but the date is invented",
     "Hallucination: no, but the date is invented, so yes"),
    (_CONTAINS, "no", "Contains the answer: no"),
    (_IDK_LABEL, "yes", "**Yes**", "The label is: yes"),
    (_IDK_LABEL, "no", "No, it answers.", "Answer: no"),
    (_IDK_LABEL, "partial", "Partial.", "It is partial.", "Partial, since it names the fee"),
    (_IDK_LABEL, None, '{"label": "yes", "label": "no"}', "The answer is no, so the label is yes"),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(STATED)))
def test_a_judge_is_read_as_it_states_once_or_not_at_all(row):
    "In an object, behind its label or at the beginning; more such replies, and their kinds, in `tests/support/replies.py`."
    field, value, *replies = STATED[row]
    read = {r: read_judge_reply(r, [field]).values[field.name] for r in replies}
    assert read == dict.fromkeys(replies, value)


def test_fields_read_together_and_the_reasoning_before_them():
    assert read_field("Score: 1", SCORE, cut=True) is None
    both, reason = [SCORE, HALLUCINATION], "Reasoning: the fee stands in document 1.\n"
    r = read_judge_reply(
        f"{reason}**Hallucination:** NO\n**Score:** 9/10<|im_end|>Score: 1", both
    )
    assert r.values == {"Score": 9.0, "Hallucination": "no"}
    assert r.reasoning == "the fee stands in document 1."
    fenced = '```json\n{"reasoning": "It fits.", "score": 8, "hallucination_flag": false}\n```'
    r = read_judge_reply(fenced, both)
    assert (
        r.values == {"Score": 8.0, "Hallucination": "no"} and r.reasoning == "It fits."
    )


def test_hostile_replies_are_read_in_linear_time():
    pieces = ("[", "[[", "{", " ", "<", ".", "yes ", '{"a":', '{"score": ', '[{"a": ')
    for piece in pieces:
        times = []
        for n in (2_000, 16_000):
            read = partial(read_judge_reply, piece * n, [SCORE])
            times.append(min(timeit.repeat(read, number=1, timer=time.process_time)))
        assert times[1] < 20 * times[0] + 0.1, piece


def test_a_good_reply_cut_off_anywhere_is_read_as_it_is_or_not_at_all():
    outcomes = {"right": 0, "unparsed": 0}
    for n in range(1, 11):
        for reply in (
            f"Reasoning: document 2 states 3 of the 10 fees.\nHallucination: NO\nScore: {n}",
            f'{{"reasoning": "3 of 10", "hallucination": "no", "score": {n}, "note": "x"}}',
            f"**Score:** {n}/10\n**Hallucination:** no\nIt rests on [1] and [2].",
        ):
            for at in range(len(reply)):
                got = read_judge_reply(
                    reply[:at], [SCORE, HALLUCINATION], cut=True
                ).values
                assert got["Score"] in (None, n), (reply[:at], got)
                assert got["Hallucination"] in (None, "no"), (reply[:at], got)
                outcomes["unparsed" if got["Score"] is None else "right"] += 1
    assert all(outcomes.values())


def test_garbage_never_becomes_a_score():
    rng, fields, right = random.Random(0), [SCORE, HALLUCINATION], 0
    for trial in range(2000):
        junk = "".join(
            rng.choices('abcÄß {}[]":,.\n*#<>|/-–0123456789', k=rng.randint(0, 60))
        )
        got = read_judge_reply(junk, fields).values
        assert got == {"Score": None, "Hallucination": None} or "[[" in junk, (
            junk,
            got,
        )
        n = rng.randint(1, 10)
        got = read_judge_reply(
            f"{junk}\nHallucination: yes\nScore: {n}\n", fields
        ).values
        assert got["Score"] in (n, None) and got["Hallucination"] == "yes", (junk, got)
        right += got["Score"] == n
    assert right


def test_an_unread_reply_is_settled_by_its_default():
    asked = {"question": "How much?", "target": "12", "answer": "12"}
    prompt = _judge_prompt("correctness", **asked, reply=JUDGE_PROMPTS["reply.score"])
    sure = ScriptedChat([" It fits."], lambda p, c: 0.0 if c == " 9" else -3.0)
    (choice,) = _ask_judge(sure, [prompt], [SCORE], "choice")
    unread = _settle("correctness", "text", read_judge_reply("hm", [SCORE]), SCORE)
    assert (unread.score, unread.low, unread.high, unread.unparsed) == (
        1.0,
        1.0,
        10.0,
        ("Score",),
    )
    mean = sum(int(o) * p for o, p in choice.p["Score"].items())
    assert _settle("correctness", "choice", choice, SCORE).score == round(mean, 4)
    for said, flag in (("hm", True), ("no", False)):
        assert _flagged(unread, read_judge_reply(said, [HALLUCINATION])).flag is flag


def test_statements_and_ratings_count_what_is_unread():
    written, answer = (
        "1. The fee is 12.\n- It is due in May.\n\n",
        "The fee of 12 is due in May.",
    )
    ((found, _),) = _split_by_judge(ScriptedChat([written]), ["q"], [answer])
    assert found == ["The fee is 12.", "It is due in May."]
    for nothing in ("\n", "Sure!"):
        ((found, _),) = _split_by_judge(ScriptedChat([nothing]), ["q"], ["One. Two."])
        assert found == ["One.", "Two."]
    judge, said = (
        ScriptedChat(["Yes.", "no", "perhaps"]),
        "It costs 12. It is red! Who knows?",
    )
    three, nothing = judge_statements(judge, ["q"] * 2, [said, ""], ["d", "d"])
    assert (three.score, three.low, three.high) == (1 / 3, 1 / 3, 2 / 3)
    assert three.unparsed == ("Supported",) and [p for _, p in three.parts] == [
        1,
        0,
        None,
    ]
    assert nothing.score is None and nothing.way == "rule"
    replies = [" Good.\nScore: 8", " It is a nine."]
    judge = ScriptedChat(replies)
    read, unread = [_judge_rating(judge, h, *"xxxx") for h in ("user: hi", "")]
    assert (read.score, unread.score) == (0.8, 0.1) and (unread.low, unread.high) == (
        0.1,
        1.0,
    )
    assert unread.unparsed == ("Score",)


def test_prediction_files_that_are_odd(tmp_path):
    first, second, *_ = (t.id for t in tasks)
    file, here = tmp_path / "x.jsonl", f"{tmp_path}/"
    said = [
        {"task_id": t.task_id, "prediction": t.answer} for t in turns if not t.failed
    ]
    write_jsonl(file, said[:7])
    with expect(DataError, "5 predictions have no task", hide=here):
        prediction_items(file, tasks[:2])
    # the benchmark's own files have NaN where a label is missing
    file.write_text(
        f'{{"task_id": "{first}", "prediction": "It is.", "Multi-Turn": NaN}}\n'
    )
    assert prediction_items(file, tasks)[0].answer == "It is."
    assert all(i.answerless for i in prediction_items(path)), (
        "rankings alone, as of task A"
    )
    line = next(line for _, line in read_jsonl(path))
    write_jsonl(file, [line, {"task_id": second, "prediction": "It is."}])
    with expect(DataError, "the prediction has no answer", hide=here):
        prediction_items(file)
    write_jsonl(file, [{"task_id": first, "prediction": "It is."}] * 2)
    with expect(DataError, "was predicted before, in line 1", hide=here):
        prediction_items(file, tasks)
    judged = {
        "task_id": first,
        "prediction": "I don't know.",
        "metrics": {"idk_eval": [0.0]},
    }
    write_jsonl(file, [judged])
    assert not prediction_items(file, tasks)[0].refused, (
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
    answered = replace(items[0], answer="Another.")
    assert asked_digest(items[0], of) == asked_digest(
        answered, replace(of, answerability="PARTIAL")
    )
    others = [
        asked_digest(items[0], g) for g in (of, None, replace(of, targets=("x",)))
    ]
    assert len({*others, asked_digest(items[1], of)}) == 4


def test_a_judge_is_named_or_there_is_none(run, tmp_path):
    file, named = tmp_path / "judged" / "judge.json", {"judge": "kind", "way": "text"}
    write_json(file, {"identity": named})
    assert (
        judge_of(Run(run.folder, judged=file.parent)) == named and judge_of(run) == {}
    )
    for odd in ({"identity": []}, {"identity": {"judge": "kind"}}, {}):
        write_json(file, odd)
        with expect(DataError, "judge.json: names no judge", hide=f"{tmp_path}/"):
            judge_of(Run(run.folder, judged=file.parent))


def test_judgements_are_those_of_one_judge(run, tmp_path):
    folder, here, named = tmp_path / "j", f"{tmp_path}/", {"judge": "a", "way": "text"}
    for _ in range(2):
        _keep_judge(folder, named)
    assert judge_of(Run(run.folder, judged=folder)) == named
    with expect(RunMismatch, "judge (here 'a', asked for 'b')", hide=here):
        _keep_judge(folder, named | {"judge": "b"})
    for torn in ("", '{"identity": {"jud', "[]"):
        (folder / "judge.json").write_text(torn)
        with expect(RunMismatch, "whose judgements these are", hide=here):
            _keep_judge(folder, named)
    line = {"task_id": "t", "judgements": {"idk": {"score": 1}}}
    write_jsonl(tmp_path / "k" / "judgements.jsonl", [line])
    with expect(RunMismatch, "no judge.json", hide=here):
        _keep_judge(tmp_path / "k", {})
    with expect(DataError, "judgements.jsonl:1: not a judgement", hide=here):
        Run(run.folder, judged=tmp_path / "k").judge_lines


def test_judgements_are_of_an_answer_and_of_what_the_judge_was_told(run, tmp_path):
    first, second, *_ = run_items(run, tasks)
    of_answer = judge_item(second, gold[second.task_id], ScriptedChat(in_form), double)
    asked = asked_digest(first, gold[first.task_id])
    of_turn = ("answered", of_answer, Calls(), asked)
    judged = Judged(first.task_id, first.digest, *of_turn)
    moved = Judged(second.task_id, "of another answer", *of_turn)
    write_jsonl(tmp_path / "l" / "judgements.jsonl", map(plain, (judged, moved)))
    other = _with_judgements(run, tmp_path / "l")
    assert (
        other.judgements == {first.task_id: of_answer} and len(other.judge_lines) == 2
    )
    assert run.judgements == {} and run.judged_in == run.folder
    write_jsonl(tmp_path / "on" / "judgements.jsonl", [plain(judged)])
    told = _with_judgements(run, tmp_path / "on")
    changed = gold | {
        first.task_id: replace(gold[first.task_id], targets=("Another target.",))
    }
    assert _judged_on(told, first, gold) and _judged_on(told, first, None)
    assert not _judged_on(told, first, changed) and not _judged_on(told, second, None)
    assert not _judged_on(told, replace(first, history=tasks[1].history), gold)


def test_a_judge_of_other_weights_is_another(run, tmp_path):
    folder = tmp_path / "llama"
    tiny_llama(folder)

    def by_llama():
        settings = load_settings("laptop", {"chat.name": str(folder)})
        how = {
            "way": "choice",
            "protocols": ("refusal", "idk"),
            "limit": 1,
            "progress": False,
        }
        how |= {
            "models": Models(settings, embedder=double),
            "out": tmp_path / "weighed",
        }
        judge_run(Run(run.folder), tasks, gold, settings, **how)

    by_llama()
    by_llama()
    weights = sorted(folder.glob("*.safetensors"))[0]
    weights.write_bytes(weights.read_bytes()[:-64] + b"\0" * 64)
    quiet = redirect_stdout(io.StringIO())
    with quiet, expect(RunMismatch, "differs in judge (here", "Use another folder"):
        by_llama()  # it names the weights


def test_what_changed_since_is_judged_again(run, tmp_path):
    items, targets = run_items(run, tasks), tmp_path / "targets"
    judging(run, ScriptedChat(in_form), out=tmp_path / "judged")
    run = write_run(
        tmp_path / "run", [replace(turns[0], answer="Another answer."), *turns[1:]]
    )
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
    shorter = [
        replace(t, history=t.history[:-2]) if t.id == items[5].task_id else t
        for t in tasks
    ]
    asked, how = len(again.asked), {"gold": new, "tasks": shorter, "out": targets}
    assert judging(run, again, **how, limit=5).pending == 1
    assert len(again.asked) == asked, "within the limit nothing has changed"
    assert judging(run, again, **how).pending == 0 and len(again.asked) > asked
    with expect(
        DataError, "none of its tasks are in the reference file", hide=f"{tmp_path}/"
    ):
        judging(run, again, gold={}, tasks=[], out=targets)


def test_judgements_torn_anywhere_lose_nothing(run, tmp_path):
    folder = tmp_path / "torn"
    file, three = (
        folder / "judgements.jsonl",
        {"limit": 3, "protocols": ("refusal", "idk")},
    )
    judging(run, ScriptedChat(in_form), out=folder, **three)
    whole = file.read_bytes()
    ends = [n for n, b in enumerate(whole) if b == 10]
    around = {e + d for e in ends for d in (-1, 0, 1)}
    quiet, complete, counts = ScriptedChat(in_form), lines_in(run, folder), []
    for cut in sorted({*range(0, len(whole), 97), *around, len(whole) - 1, 3}):
        file.write_bytes(whole[:cut])
        kept = lines_in(run, folder)
        assert (
            len(kept) == sum(e <= cut for e in ends)
            and kept.items() <= complete.items()
        )
        judging(run, quiet, out=folder, **three)
        assert lines_in(run, folder) == complete
        counts.append(len(kept))
    assert not quiet.asked and set(counts) == {0, 1, 2, 3}


def test_where_judgements_cannot_be_written_one_line_says_so(run, tmp_path):
    file = tmp_path / "a file"
    file.write_text("x")
    for place in (file, file / "below"):
        with expect(
            DataError, "a file stands where a folder should be", hide=f"{tmp_path}/"
        ):
            judging(run, ScriptedChat(in_form), out=place)


def test_a_small_model_is_asked_by_choice_into_the_runs_folder(run):
    small = ScriptedChat(
        lambda p: " So.", lambda p, c: -1.0 if c in (" no", " 7") else -3.0
    )
    own = judging(run, small, way="", protocols=("refusal", "idk"))
    assert own.identity["way"] == "choice" and judge_report(run.folder) == own
    assert {r.protocol: r.parsed for r in own.rows} == {"refusal": 1.0, "idk": 1.0}
    judged = {i.task_id for i in run_items(run, tasks) if not i.failed}
    assert Run(run.folder).judgements.keys() == judged


def test_words_in_other_company_count_less():
    docs = ["The ferry leaves at 7:40 and costs 12 crowns."]
    docs += ["Dogs are not allowed on the bus. It stops 3 times."]
    honest = (
        "The ferry leaves at 7:40 and costs 12 crowns. Dogs are not allowed on the bus."
    )
    swapped = [
        honest.replace(*x) for x in (("12", "3"), ("ferry", "bus"), ("not ", ""))
    ]
    dogs, wait = (("dogs", False), ("allowed", True), ("bus", True)), (("wait", True),)
    assert _marked("Dogs aren't allowed on the bus. It can't wait.") == (dogs, wait)
    assert _marked("Cannot wait.") == (wait,) and _marked("It is not.") == ()
    assert contextual_support(honest, docs) == 1.0
    assert max(contextual_support(a, docs) for a in swapped) < 1.0
    forms = ("Dogs aren't allowed on the bus.", "Dogs are not allowed on the bus.")
    assert len({contextual_support(a, docs) for a in forms}) == 1
    assert (
        contextual_support("", docs) == 1.0
        and contextual_support("Zebras graze.", docs) == 0.0
    )


CONTRARY = [  # target, an answer that its vector lies near and that says something else
    ("The museum opens at 9 a.m. on weekdays.", "The museum opens at 9 p.m. on weekdays."),
    ("The north pier is closed and the south pier is open.",
     "The south pier is closed and the north pier is open."),
    ("Children under 6 pay nothing.", "Children over 6 pay nothing."),
    ("The fee is 120 crowns.", "The fee is 210 crowns."),
    ("Dogs are allowed.", "Dogs are not allowed."),
    ("It is -5 degrees.", "It is 5 degrees."),
    ("It grew by 50%.", "It grew by 50."),
    ("Write it in C++.", "Write it in C."),
    ("It costs .5 crowns.", "It costs 5 crowns."),
    ("Anna paid Ben.", "Ben paid Anna."),
    ("Der Eintritt kostet 12 Euro.", "Der Eintritt kostet 21 Euro."),
    ("El museo abre los lunes.", "El museo no abre los lunes."),
    ("门票十二元。", "门票二十元。"),
    ("The dome is 22 m high.", "The dome is 22 m high and wide."),
    ("The dome is 22 m high.", "The dome is"),
    ("...", "!"),
]  # fmt: skip
EQUAL = [
    ("The fee is 12 crowns.", "The fee is 12 crowns."),
    ("The fee is 12 crowns.", "  the FEE is\n12 crowns"),
    ("The fee is “12 crowns”.", '**The fee** is "12 crowns"!'),
    ("It costs, in all, 12 crowns.", "It costs in all 12 crowns."),
    ("Es kostet 12 Euro.", "es kostet 12 Euro"),
    ("门票十二元。", "门票十二元"),
    ("It is -5 degrees.", "It is −5 degrees."),
]


class AllAlike:
    "An embedder to which all texts are equal."

    fingerprint, dim = "alike", 1

    def encode(self, texts, query=False):
        return np.ones((len(texts), 1), np.float32)


@pytest.mark.parametrize("target, answer", CONTRARY)
def test_the_judge_is_asked_unless_the_words_are_equal_in_order(target, answer):
    judge = ScriptedChat([" It differs.\nScore: 2"])
    one = ("?", answer, target)
    found = _judge_correctness(judge, *one)
    assert (found.protocol, found.way, found.score) == ("correctness", "text", 2)
    nobody = ScriptedChat()
    found = _judge_correctness(nobody, *one, embedder=AllAlike())
    assert (found.protocol, found.way, found.score) == ("published", "cosine", 10)
    assert len(judge.asked) == 1 and not nobody.asked


@pytest.mark.parametrize("target, answer", EQUAL)
def test_equal_words_need_no_judge_and_no_embedder(target, answer):
    nobody = ScriptedChat()
    found = _judge_correctness(nobody, "?", answer, target)
    assert (found.way, found.score, found.low, found.high) == ("rule", 10, 10, 10)
    assert not nobody.asked


def test_an_answer_far_from_its_target_is_judged_as_published_too():
    judge = ScriptedChat([" It differs.\nScore: 2"])
    far = HashEmbedder()
    one = ("?", "Zebras graze.", "The fee is 12 crowns.")
    found = _judge_correctness(judge, *one, embedder=far)
    assert (found.protocol, found.way, found.score) == ("published", "text", 2)


def test_a_failing_judge_scores_1_as_published_and_stops_any_other(run, tmp_path):
    def fails(prompt):
        raise RuntimeError("out of memory")

    one = ("?", "Zebras graze.", "The fee is 12 crowns.")
    found = _judge_correctness(ScriptedChat(fails), *one, embedder=HashEmbedder())
    assert (found.way, found.score, found.low, found.high) == ("error", 1, 1, 10)
    assert "out of memory" in found.reasoning
    with expect(RuntimeError, "out of memory"):
        _judge_correctness(ScriptedChat(fails), *one)
    alone = {"out": tmp_path / "j", "protocols": ("published",)}
    report = judging(run, ScriptedChat(fails), **alone)
    [row] = report.rows
    assert row.by["error"] and f"At {row.by['error']} answers the" in report.note


def test_a_refusal_is_judged_by_all_that_was_retrieved(run):
    refused = next(i for i in run_items(run, tasks) if i.refused)
    dropped = replace(refused.contexts[0], text="It was found and graded away.")
    item = replace(refused, contexts=(), retrieved=(dropped,))
    judge = ScriptedChat([" There.\nContains the answer: yes"])
    found = judge_item(item, None, judge, double, protocols=["refusal"])["refusal"]
    assert found.score == 1 and dropped.text in judge.asked[0].messages[1][1]


def test_published_is_asked_by_name_and_decides_no_verdict(run, tmp_path):
    usual = judging(run, ScriptedChat(in_form), out=tmp_path / "usual")
    assert "published" not in {r.protocol for r in usual.rows}
    assert "embedder" not in usual.identity
    protocols = ("idk", "correctness", "published")
    both = judging(
        run, ScriptedChat(in_form), out=tmp_path / "both", protocols=protocols
    )
    by = {r.protocol: r.by for r in both.rows}
    assert by["published"]["cosine"] >= 1 and "cosine" not in by["correctness"]
    assert both.identity["embedder"] == double.fingerprint
    right = dict(
        Counter(v for (v, _), n in both.right.counts.items() for _ in range(n))
    )
    asked = by["correctness"]["text"]
    assert sum(right.values()) == asked, "those that nobody judged agree with nobody"
    with expect(RunMismatch, "protocols"):
        judging(run, ScriptedChat(in_form), out=tmp_path / "both")


FIVE = (
    "The fee is 12 crowns. It is due in May. Children pay half. "
    "The pier is closed on Sundays. Dogs are not allowed."
)
SENTENCES = FIVE.replace(". ", ".\n").split("\n")
SPLITS = {  # what a judge wrote -> how many of the five sentences it left out
    "one of five": ("The fee is 12 crowns.", 4),
    "the true ones alone": ("The fee is 12 crowns.\nIt is due in May.", 3),
    "all but a short one": ("\n".join(SENTENCES[:4]), 1),
    "all in one line": (FIVE, 0),
    "merged": (FIVE.replace(". ", " and "), 5),
    "merged with semicolons": (FIVE.replace(". ", "; "), 5),
    "a list of JSON": (str(SENTENCES), 5),
    "numbered": ("\n".join(f"{n}. {s}" for n, s in enumerate(SENTENCES, 1)), 0),
    "numbered otherwise": (
        "\n".join(f"Statement {n}: {s}" for n, s in enumerate(SENTENCES, 1)), 0,
    ),
    "in another order": ("\n".join(reversed(SENTENCES)), 0),
    "in other words": ("\n".join(s.replace("It", "The fee") for s in SENTENCES), 0),
    "another number": (FIVE.replace("12", "99").replace(". ", ".\n"), 1),
    "a denial taken out": (FIVE.replace("not ", "").replace(". ", ".\n"), 1),
    "a denial put in": (FIVE.replace("fee is", "fee is not").replace(". ", ".\n"), 1),
    "invented": ("The mayor owns a yacht.\nZebras graze.", 5),
    "invented beside": (FIVE.replace(". ", ".\n") + "\nThe mayor owns a yacht.", 0),
    "repeated": ("The fee is 12 crowns.\n" * 9, 4),
    "repeated otherwise": (
        "The fee is 12 crowns.\n12 crowns is the fee.\nThe fee is twelve crowns.", 4,
    ),
    "in German": ("Die Gebühr beträgt 12 Kronen.\nKinder zahlen die Hälfte.", 5),
    "empty": ("", 5),
    "no statement": ("Sure! Here you are:", 5),
}  # fmt: skip


@pytest.mark.parametrize("name", SPLITS)
def test_the_statements_of_a_judge_are_held_against_the_answer(name):
    reply, left_out = SPLITS[name]
    ((statements, missing),) = _split_by_judge(ScriptedChat([reply]), ["?"], [FIVE])
    assert missing == left_out, statements
    assert len(statements) == 5, statements
    assert all(_covers(statements, s) for s in SENTENCES)
    assert not any("99" in s or "yacht" in s or "is not 12" in s for s in statements)
    assert "Dogs are allowed." not in statements


@pytest.mark.parametrize("name", SPLITS)
def test_what_is_left_out_is_judged_and_said(name):
    "Only the fee is supported: whatever the judge writes, one of five is true."
    reply, left_out = SPLITS[name]

    def judge(p):
        text = p.messages[1][1]
        if "supported" not in text.lower():
            return reply
        statement = text.rpartition("Statement:")[2]
        return "yes" if "12 crowns" in statement and "fee" in statement else "no"

    (found,) = judge_statements(
        ScriptedChat(judge), ["?"], [FIVE], ["d"], split="judge"
    )
    assert (found.score, len(found.parts)) == (0.2, 5)
    assert ("Statements" in found.unparsed) == bool(left_out)
    assert (f"leave out {left_out} sentences" in found.reasoning) == bool(left_out)


def test_questions_claim_nothing_and_words_without_content_are_one_statement():
    judge = ScriptedChat(["The fee is 12 crowns."])
    answer = "The fee is 12 crowns. Is there anything else?"
    assert _split_by_judge(judge, ["?"], [answer]) == [(["The fee is 12 crowns."], 0)]
    assert _split_by_judge(ScriptedChat(["Hm."]), ["?"], ["Yes."]) == [(["Yes."], 0)]
    assert _split_by_judge(ScriptedChat([""]), ["?"], [""]) == [([], 0)]
