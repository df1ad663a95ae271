"""How far two answers to one question differ that people find equally right, and two systems between which people see no difference."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from io import StringIO
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import read_json, write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.types import TO_ANSWER
from mtrag_nb.data.official import official_dir, official_file
from mtrag_nb.data.ratings import RatedAnswer, read_ratings
from mtrag_nb.evaluation.blame import _MINIMAL_CHANGE
from mtrag_nb.evaluation.measures import rouge_l
from mtrag_nb.evaluation.statistics import difference_interval
from tools.studies.refusal_rule import rule_by_file, sources
from tools.studies.scored_answers import FULL
from tools.study import kept_in


def equals(answers: Iterable[RatedAnswer]) -> list[tuple[RatedAnswer, RatedAnswer]]:
    "Pairs of answers to one answerable question with full marks, by different models; the target itself is no model's."
    good: dict[str, list[RatedAnswer]] = {}
    for a in answers:
        full = all(k in a.ratings and np.median(a.ratings[k]) == 4 for k in FULL)
        if a.system != "reference" and full and a.gold.answerability in TO_ANSWER:
            good.setdefault(a.task.id, []).append(a)
    return [
        (a, b)
        for some in good.values()
        for n, a in enumerate(some)
        for b in some[n + 1 :]
    ]


def apart(pairs: Sequence[tuple[RatedAnswer, RatedAnswer]]) -> list[float]:
    "The difference of ROUGE-L of each pair."

    def worth(a):
        return rouge_l(a.answer, a.gold.targets[0])

    return [abs(worth(a) - worth(b)) for a, b in pairs]


def percentile_interval(
    values: Sequence[float],
    conversations: Sequence[str],
    share: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[float, float, float]:  # the percentile, and its 95 % interval
    "A percentile with its bootstrap interval over conversations."
    x = np.asarray(values)
    names = sorted(set(conversations))
    rng = np.random.default_rng(seed)
    of = {c: x[[k for k, d in enumerate(conversations) if d == c]] for c in names}
    draws = [
        np.quantile(
            np.concatenate([of[c] for c in rng.choice(names, len(names))]), share
        )
        for _ in range(resamples)
    ]
    return tuple(
        float(v) for v in (np.quantile(x, share), *np.quantile(draws, [0.025, 0.975]))
    )


def noise_floor(answers: Iterable[RatedAnswer]) -> dict[str, float | int | str]:
    "How much ROUGE-L moves between two answers that people find equally right, as it is written down."
    pairs = equals(answers)
    values = apart(pairs)
    talks = [a.task.conversation_id for a, _ in pairs]
    value, low, high = (round(v, 4) for v in percentile_interval(values, talks))
    return {
        "measure": "RougeL",
        "percentile": 95,
        "floor": value,
        "low": low,
        "high": high,
        "pairs": len(pairs),
        "conversations": len(set(talks)),
        "median": round(float(np.median(values)), 4),
        "over_0.16": round(float(np.mean(np.asarray(values) > 0.16)), 4),
    }


def between_systems(
    answers: Iterable[RatedAnswer],
    a: str = "llama-3.1-405b-instruct",
    b: str = "gpt-4o",
) -> (
    dict
):  # the differences of the first to the second: by ROUGE-L, by people; plain data
    "How far ROUGE-L sets two systems apart on tasks that have an answer, beside what people say of them."
    by_task: dict[str, dict[str, RatedAnswer]] = {}
    for x in answers:
        if x.gold.answerability in TO_ANSWER:
            by_task.setdefault(x.task.id, {})[x.system] = x
    both = [(by[a], by[b]) for by in by_task.values() if a in by and b in by]
    talks = [x.task.conversation_id for x, _ in both]

    def people(x):
        return min(
            float(np.median(x.ratings[k])) for k in ("faithfulness", "completeness")
        )

    def words(x):
        return rouge_l(x.answer, x.gold.targets[0])

    def difference(of):
        return difference_interval([of(x) - of(y) for x, y in both], talks)

    def rounded(i):
        return {
            k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(i).items()
        }

    return {
        "systems": [a, b],
        "tasks": len(both),
        "RougeL": rounded(difference(words)),
        "people": rounded(difference(people)),
    }


def measure_yardsticks(out: str | Path = "data/measured") -> None:
    "Measure both yardsticks on $MTRAG_DATA, print them, write them down. Takes seconds."
    data = official_dir("this study", "mtragun-human/predictions_raguteam")
    rule = rule_by_file(sources(data))
    rated = read_ratings(official_file(data, "mtrag-human/ratings"))
    floor = {**noise_floor(rated), "between systems": between_systems(rated)}
    write_json(Path(out) / "declining.json", rule)
    write_json(Path(out) / "noise_floor.json", floor)
    head = list(next(iter(rule.values())))
    print(
        text_table(
            ["", *head], [[name, *(m[k] for k in head)] for name, m in rule.items()], 3
        )
    )
    print(floor)


def show_floor() -> None:
    "Print the floor, and the difference of two systems by ROUGE-L and by people."
    floor = kept_in("noise_floor")
    print({k: v for k, v in floor.items() if k != "between systems"})
    style = floor["between systems"]
    print(
        f"{' less '.join(style['systems'])}, {style['tasks']} tasks:",
        *(
            f"by {by} {style[of]['value']:+.3f} [{style[of]['low']:.3f}, {style[of]['high']:.3f}]"
            for by, of in (("ROUGE-L", "RougeL"), ("people", "people"))
        ),
    )


def show_same_figures() -> None:
    "Measure both yardsticks again on $MTRAG_DATA and compare with the results that are kept."
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        measure_yardsticks(folder)
        for name in ("declining", "noise_floor"):
            assert read_json(Path(folder) / f"{name}.json") == kept_in(name)
    print("the same figures")


def check_findings() -> None:
    "Assert what the study says of the floor, of the results that are kept."
    floor = kept_in("noise_floor")
    assert round(floor["floor"], 2) == _MINIMAL_CHANGE
    style = floor["between systems"]
    assert round(style["RougeL"]["value"], 3) == 0.041
    assert abs(style["people"]["value"]) < 0.05
