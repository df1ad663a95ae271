"""The rule that reads asking back, held against people, official verdicts and answers read by hand.

A reply asks back if it asks the user what was meant, or for what is missing; an offer to say more does not. The rule was written on
the answers of MTRAG-UN, MTRAG-S, GPT-4o and a model without passages; not on the drafts that models wrote for MTRAG's annotators,
and not on what these people wrote in their place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from mtrag_nb.core.files import read_json, read_jsonl, write_json
from mtrag_nb.core.refusals import asks_back
from mtrag_nb.core.types import TO_ASK
from mtrag_nb.data.official import official_dir, official_file
from mtrag_nb.data.ratings import read_ratings
from mtrag_nb.data.submissions import read_predictions
from mtrag_nb.evaluation.statistics import mean_interval
from tools.study import MEASURED, kept_in
from tools.studies.released_files import (
    ARMS,
    DEV,
    TEST,
    answers,
    arm_file,
    benchmark,
    file_at,
    official_scores,
    rounded,
    span,
    table,
)


@dataclass(frozen=True)
class Reply:
    "A reply that the rule reads."

    conversation: str
    text: str
    asks: bool | None = None
    "By the label that its writer was given, or the official verdict; None: read by hand."


# Read by hand, of each set without verdicts: the replies that the rule called, how many of them ask, and how many ask of
# those with a question, a "clarify" or a "more context" in their last two sentences that it did not call.
READ = {
    "drafts": (5, 5, 2),
    "MTRAG-UN": (11, 11, 1),
    "MTRAG-S": (0, 0, 2),
    "closed book": (18, 18, 5),
}
ABOUT = {
    "drafts": "models' drafts for MTRAG: not written on",
    "people, vague": "people's replies to UNDERSPECIFIED questions: not written on",
    "people, clear": "people's replies to all other questions: not written on",
    "GPT-4o": "GPT-4o's six runs, official verdicts of a judge",
    "MTRAG-UN": "eight systems on MTRAG-UN",
    "MTRAG-S": "five models on MTRAG-S",
    "closed book": "Llama-3.1-8B without passages",
}


def drafts() -> Iterable[Reply]:
    "What models wrote for MTRAG's annotators, before these changed it."
    talks = read_json(official_file(None, "mtrag-human/conversations"), kind=list)
    for number, talk in enumerate(talks):
        for message in talk["messages"]:
            if message["speaker"] == "agent" and message.get("original_text"):
                yield Reply(str(number), message["original_text"])


def peoples_replies(vague: bool) -> Iterable[Reply]:
    "The targets of both benchmarks, of UNDERSPECIFIED questions or of all others."
    for which in (DEV, TEST):
        known = benchmark(which)
        for task in known.tasks:
            gold = known.gold[task.id]
            if (gold.answerability in TO_ASK) == vague:
                for target in gold.targets:
                    yield Reply(task.conversation_id, target, vague)


def gpt_4o() -> Iterable[Reply]:
    "GPT-4o's six runs, with the official verdict on asking back."
    for arm in ARMS:
        scores = official_scores(arm_file(arm))
        for item in answers(arm_file(arm))[0].values():
            asked = scores[item.task_id].get("underspecified_eval") == 1
            yield Reply(item.conversation_id, item.answer, asked)


def test_set() -> Iterable[Reply]:
    "The answers of eight systems to MTRAG-UN."
    teams = official_dir() / "mtragun-human" / "predictions_raguteam"
    gate = file_at("iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl")
    for path in (*sorted(teams.glob("*.jsonl")), gate):
        for i, prediction in read_predictions(path, answers=True).items():
            yield Reply(i.split("<::>")[0], prediction.answer or "")


def synthetic() -> Iterable[Reply]:
    "The answers of five models to MTRAG-S."
    for rated in read_ratings(official_file(None, "mtrag-synthetic/ratings")):
        if rated.system != "reference":
            yield Reply(rated.task.conversation_id, rated.answer)


def closed_book() -> Iterable[Reply]:
    "The answers of a model that was given no passages."
    for line, reply in read_jsonl(file_at("gbgers/B_dev110_llama8b_closed-book.jsonl")):
        yield Reply(str(line), reply["answer"])


def held_against(replies: Iterable[Reply], name: str) -> dict[str, object]:
    """What the rule is worth on some replies: how many it calls, of these how many ask, and how many that ask it misses.

    Raises AssertionError where it calls other replies than those that were read by hand.
    """
    known = list(replies)
    called = [r for r in known if asks_back(r.text)]
    if name in READ:
        read, asks, missed = READ[name]
        assert len(called) == read, f"{name}: {len(called)} called: read them again"
    else:
        asks = sum(bool(r.asks) for r in called)
        missed = sum(bool(r.asks) for r in known) - asks
    hits = [float(n < asks) for n in range(len(called))]
    precision = mean_interval(hits, [r.conversation for r in called])
    return {
        "answers": len(known),
        "called": len(called),
        "asks": asks,
        "missed": missed,
        "precision": asdict(precision),
        "recall": asks / (asks + missed) if asks + missed else None,
    }


def measure_asking() -> None:
    "Hold the rule against every set of replies, into data/measured/asking.json: counts alone."
    sets = {
        "drafts": drafts(),
        "people, vague": peoples_replies(vague=True),
        "people, clear": peoples_replies(vague=False),
        "GPT-4o": gpt_4o(),
        "MTRAG-UN": test_set(),
        "MTRAG-S": synthetic(),
        "closed book": closed_book(),
    }
    found = {name: held_against(replies, name) for name, replies in sets.items()}
    write_json(MEASURED / "asking.json", rounded(found))


def show_asking() -> None:
    "Print what the rule is worth on each set of replies."
    rows = []
    for name, m in kept_in("asking").items():
        recall = "–" if m["recall"] is None else f"{m['recall']:.2f}"
        numbers = [m["answers"], m["called"], m["asks"], m["missed"]]
        rows.append([ABOUT[name], *numbers, span(m["precision"]), recall])
    head = ["", "answers", "called", "ask", "missed", "precision", "recall"]
    table(head, rows)


def check_findings() -> None:
    "Assert what the page says of the rule."
    found = kept_in("asking")
    assert found["people, vague"]["recall"] == 1
    assert found["people, clear"]["called"] == 1
    assert found["GPT-4o"]["called"] == found["GPT-4o"]["asks"]
    assert found["GPT-4o"]["recall"] < 0.7
