"""Contradictions planted in self-written answers: how many the verdict sees, and how many right answers it demotes.

  python -m tests.support.planted_facts    prints both, by kind

Each text has a question, a target and two right answers in other words. A script turns one fact of an answer:
a number, date or time into another, a name into another, a bound or direction into its opposite, a sentence
into its denial.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mtrag_nb.evaluation.verdicts import best_by_target

TEXTS = Path(__file__).with_name("planted_facts.jsonl")
NAMES = ("Orla Fenn", "Brask", "Teo Lund", "Vessary")
OPPOSITES = (
    ("before", "after"),
    ("under", "over"),
    ("at least", "at most"),
    ("north", "south"),
    ("rose", "fell"),
    ("more than", "less than"),
    ("opens", "closes"),
    ("first", "last"),
    ("east", "west"),
    ("longer", "shorter"),
)
NUMBER = re.compile(r"(?<![\w.,:-])(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)(?![\w:-]|[.,]\d)")
TIME = re.compile(r"\b(\d\d?)(:\d\d)?( [ap]\.m\.)")
VERB = re.compile(r"\b(is|are|was|were|may|can|must)\b(?! not)")


def texts() -> list[dict]:
    "The texts: question, target, answers, names."
    lines = TEXTS.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _other_number(text: str) -> str:
    "Another number of the same form: 1887 becomes 1894, 4.2 becomes 11.2."
    whole, point, rest = text.replace(",", "").partition(".")
    number = f"{int(whole) + 7}{point}{rest}"
    return f"{int(number):,}" if "," in text else number


def _other_half(match: re.Match) -> str:
    half = " p.m." if match[3] == " a.m." else " a.m."
    return f"{match[1]}{match[2] or ''}{half}"


def _replaced(text: str, match: re.Match, new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


def numbers_turned(answer: str) -> Iterator[str]:
    "The answer with one number or half of the day changed, once for each."
    for match in TIME.finditer(answer):
        yield _replaced(answer, match, _other_half(match))
    for match in NUMBER.finditer(answer):
        yield _replaced(answer, match, _other_number(match[1]))


def names_turned(answer: str, names: list[str]) -> Iterator[str]:
    "The answer with one name changed everywhere."
    for place, name in enumerate(names):
        if name in answer:
            yield answer.replace(name, NAMES[place % len(NAMES)])


def sides_turned(answer: str) -> Iterator[str]:
    "The answer with one bound or direction changed into its opposite."
    for pair in OPPOSITES:
        for word, other in (pair, pair[::-1]):
            for match in re.finditer(rf"\b{word}\b", answer):
                yield _replaced(answer, match, other)


def denials_turned(answer: str) -> Iterator[str]:
    "The answer with one verb denied."
    for match in VERB.finditer(answer):
        yield _replaced(answer, match, f"{match[1]} not")


def planted(row: dict, answer: str) -> Iterator[tuple[str, str]]:
    "Kind and text of each contradiction that is planted in an answer."
    turned = {
        "number": numbers_turned(answer),
        "name": names_turned(answer, row["names"]),
        "side": sides_turned(answer),
        "denial": denials_turned(answer),
    }
    for kind, answers in turned.items():
        for text in answers:
            yield kind, text


def measure() -> dict[str, dict[str, int]]:
    """Kind -> verdict -> answers; "right answers" are the answers as they were written.

    Only answers that are right by words count: what an answer was not right for, a planted fact cannot change.
    """
    counts: dict[str, Counter] = {"right answers": Counter()}
    for row in texts():
        for answer in row["answers"]:
            size = "short" if len(answer.split()) <= 60 else "long"
            said = best_by_target(answer, [row["target"]], row["question"])
            demoted = said.verdict != "right" and bool(said.why)
            counts["right answers"]["demoted" if demoted else said.verdict] += 1
            if said.verdict != "right":
                continue
            for kind, text in planted(row, answer):
                found = best_by_target(text, [row["target"]], row["question"])
                verdict = "flagged" if found.flag else found.verdict
                name = kind if kind == "number" else f"{kind}, {size}"
                counts.setdefault(name, Counter())[verdict] += 1
    return {kind: dict(counter) for kind, counter in counts.items()}


def seen(counter: dict[str, int]) -> float:
    "The share of planted contradictions that are no longer right."
    return 1 - (counter.get("right", 0) + counter.get("flagged", 0)) / sum(
        counter.values()
    )


def main() -> None:
    for kind, counter in measure().items():
        n = sum(counter.values())
        if kind == "right answers":
            share = counter.get("demoted", 0) / n
            print(f"{kind:16} {n:4}  demoted {share:.3f}  {counter}")
        else:
            print(f"{kind:16} {n:4}  seen    {seen(counter):.3f}  {counter}")


if __name__ == "__main__":
    main()
