"""The rule that reads refusals, held against the official verdicts on released answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtrag_nb.core.files import read_jsonl
from mtrag_nb.core.html import text_table
from mtrag_nb.core.refusals import _LONGEST_REFUSAL, Stance, idk_by_rule, stance
from mtrag_nb.core.types import TO_ASK, TO_REFUSE
from mtrag_nb.data.mtrag import read_benchmark
from mtrag_nb.data.official import official_file
from mtrag_nb.data.ratings import RatedAnswer, read_ratings
from mtrag_nb.evaluation.items import file_verdicts
from tools.study import kept_in


@dataclass(frozen=True)
class Official:
    "An answer with the official verdict on it."

    task_id: str
    label: str  # answerability
    verdict: float  # 1, 0.5 or 0: does it say that there is not enough to answer?
    answer: str

    @property
    def half(self) -> str:
        "Which half of the conversations it belongs to: the rule was written on one, and is reported on the other."
        odd = (
            int(hashlib.sha256(self.task_id.split("<::>")[0].encode()).hexdigest(), 16)
            % 2
        )
        return "reporting" if odd else "writing"


def submitted(path: str | Path, labels: Mapping[str, str]) -> list[Official]:
    "The answers of a submission that carries verdicts."
    said = {
        o["task_id"]: o["prediction"] for _, o in read_jsonl(path, nan_is_null=True)
    }
    return [Official(t, labels[t], v, said[t]) for t, v in file_verdicts(path).items()]


def from_ratings(answers: Iterable[RatedAnswer]) -> list[Official]:
    "Rated answers, with the verdict that `conditional_idk` implies."

    def right(a):
        return a.official["conditional_idk"] == 1

    return [
        Official(
            a.task.id,
            a.gold.answerability,
            float(right(a) == (a.gold.answerability in TO_REFUSE)),
            a.answer,
        )
        for a in answers
    ]


Reads = Callable[[str], float]  # an answer -> 1, 0.5 or 0


def accuracy(
    answers: Sequence[Official], worth: Callable[[Official], float]
) -> float | None:
    "Share of right decisions to refuse; None without a question that says which is right."
    known = [
        (worth(a) == 1) == (a.label in TO_REFUSE)
        for a in answers
        if a.label not in TO_ASK
    ]
    return sum(known) / len(known) if known else None


def held_against(
    answers: Sequence[Official], rule: Reads = idk_by_rule
) -> dict[str, float | int | None]:
    "What the rule is worth on some answers."
    ours, theirs = (
        [worth(a) == 1 for a in answers]
        for worth in (lambda a: rule(a.answer), lambda a: a.verdict)
    )
    both = sum(o and t for o, t in zip(ours, theirs))

    def share(k: int, n: int) -> float | None:
        return round(k / n, 4) if n else None

    official = accuracy(answers, lambda a: a.verdict)
    own = accuracy(answers, lambda a: rule(a.answer))
    return {
        "answers": len(answers),
        "refusals": sum(theirs),
        "precision": share(both, sum(ours)),
        "recall": share(both, sum(theirs)),
        "accuracy, official": official,
        "accuracy, rule": own,
        "difference": None if own is None else own - official,
    }


SUBMISSIONS = (
    "gemini-3-pro-preview-high_new_prompt",
    "glm_46_gemini_prompt",
    "haiku45_taskB",
    "qwen2_5_32b_taskB",
)  # with verdicts


def sources(data: Path) -> dict[str, list[Official]]:  # data: like MTRAG_DATA
    "Every answer that was released with a verdict."
    labels = {
        i: g.answerability
        for i, g in read_benchmark(
            official_file(data, "mtragun-human/reference")
        ).gold.items()
    }
    teams = data / "mtragun-human" / "predictions_raguteam"
    own = {
        name.split("_")[0].split("-")[0]: submitted(teams / f"{name}.jsonl", labels)
        for name in SUBMISSIONS
    }
    rated = {
        "rated answers": "mtrag-human/ratings",
        "MTRAG-S": "mtrag-synthetic/ratings",
    }
    return {
        **own,
        **{
            name: from_ratings(read_ratings(official_file(data, kind)))
            for name, kind in rated.items()
        },
    }


def rule_by_file(
    found: Mapping[str, Sequence[Official]], rule: Reads = idk_by_rule
) -> dict[str, dict]:
    "What the rule is worth by file and half; the submissions together, too."
    every = {
        "submissions": [
            a
            for name, answers in found.items()
            if name not in ("rated answers", "MTRAG-S")
            for a in answers
        ],
        **found,
    }
    return {
        f"{name}, {half} half": held_against(
            [a for a in answers if a.half == half], rule
        )
        for name, answers in every.items()
        for half in ("writing", "reporting")
    }


def errors_by_length(
    answers: Iterable[Official],
    lengths: Sequence[int] = (25, 30, 35, 40, 50, 1000),  # words
) -> dict[int, int]:  # length -> answers on which rule and verdict differ
    "How often the rule is wrong if only refusals up to a length count as whole."
    read = [
        (stance(a.answer) is Stance.DECLINES, len(a.answer.split()), a.verdict == 1)
        for a in answers
    ]
    return {
        most: sum((whole and n <= most) != official for whole, n, official in read)
        for most in lengths
    }


MODELS = ("gemini", "glm", "haiku45", "qwen2")
BARE = "The documents do not provide information about"


def show_files() -> None:
    "Print what the rule is worth by file and half, and its recall by model."
    by_file = kept_in("declining")
    by_file = by_file
    head = list(next(iter(by_file.values())))
    rows = [[name, *(m[k] for k in head)] for name, m in by_file.items()]
    print(text_table(["", *head], rows, 3))

    for name in ("gemini", "glm", "qwen2"):
        assert abs(by_file[f"{name}, reporting half"]["difference"]) < 0.01
    models = {n: by_file[f"{n}, reporting half"] for n in MODELS}
    print(
        "recall by model:",
        ", ".join(
            f"{n} {m['recall']:.2f} of {m['refusals']}" for n, m in models.items()
        ),
    )


def show_lengths(data: Path) -> None:
    "Print on how many answers rule and verdict differ by the length of a refusal, and how often a declining answer has a verdict of 0.5."
    released = sources(data)
    answers = [a for found in released.values() for a in found if a.half == "writing"]
    writing = errors_by_length(answers)
    print("words, wrong on the writing half:", writing)
    assert min(writing, key=writing.get) == _LONGEST_REFUSAL
    half_marks: dict[str, list[bool]] = {"longer": [], "shorter": []}
    for name in MODELS:
        for a in released[name]:
            if a.half == "writing" and stance(a.answer) is Stance.DECLINES:
                longer = len(a.answer.split()) > _LONGEST_REFUSAL
                half_marks["longer" if longer else "shorter"].append(a.verdict == 0.5)
    print(
        "declining answers with a verdict of 0.5:",
        ", ".join(f"{k}: {sum(v)} of {len(v)}" for k, v in half_marks.items()),
    )
    # as 1_core/08_text says
    counts = [(sum(v), len(v)) for v in half_marks.values()]
    assert counts == [(12, 19), (6, 143)]


def show_same_words(data: Path) -> None:
    "Print two answers that decline in the same words, one called a refusal and one a partial refusal."
    bare = []
    for a in sources(data)["haiku45"]:
        short = a.answer.startswith(BARE) and len(a.answer.split()) < 25
        if a.half == "writing" and short:
            bare.append(a)
    for verdict in (1.0, 0.5):
        print(verdict, next(a.answer for a in bare if a.verdict == verdict))
    assert {a.verdict for a in bare} == {1.0, 0.5}


def check_findings() -> None:
    "Assert what the study says of the rule, of the results that are kept."
    by_file = kept_in("declining")
    own = by_file["submissions, reporting half"]
    assert own["precision"] > 0.95
    assert own["recall"] > 0.88
    for name in ("gemini", "glm", "qwen2"):
        assert abs(by_file[f"{name}, reporting half"]["difference"]) < 0.01
    assert round(by_file["haiku45, reporting half"]["difference"], 3) == -0.012
    models = {n: by_file[f"{n}, reporting half"] for n in MODELS}
    assert models["qwen2"]["refusals"] == 15
    assert round(15 * models["qwen2"]["recall"]) == 7
    recalls = [m["recall"] for m in models.values()]
    assert [round(f(recalls), 2) for f in (min, max)] == [0.47, 0.98]
    set_phrases = models["gemini"]["refusals"] + models["glm"]["refusals"]
    assert (set_phrases, own["refusals"]) == (115, 177)
