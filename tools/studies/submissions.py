"""Released prediction files compared by the scores that they carry."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from mtrag_nb.core.files import read_jsonl, write_json
from mtrag_nb.core.refusals import idk_by_rule
from mtrag_nb.core.types import DataError, Gold, build_object
from mtrag_nb.data.mtrag import Benchmark, read_benchmark
from mtrag_nb.data.official import official_file
from mtrag_nb.data.submissions import read_predictions
from mtrag_nb.evaluation.items import file_verdicts
from mtrag_nb.evaluation.measures import condition
from mtrag_nb.evaluation.statistics import Comparison, compare
from tools.real_data import real_data
from tools.study import kept_in


def conditioned_file(
    path: Path,  # a prediction file with metrics
    gold: dict[str, Gold],
    measure: str = "RL_F",  # not conditioned
) -> tuple[
    dict[str, float | None], bool
]:  # by task; whether a refusal was taken by the rule
    "The conditioned scores of a released file."
    answers = read_predictions(path, answers=True)
    verdicts = file_verdicts(path)
    scores = {}
    ruled = False
    for n, o in read_jsonl(path, nan_is_null=True):
        try:
            phi = o["metrics"][measure][0]
            label = gold[o["task_id"]].answerability
        except (KeyError, TypeError, IndexError):
            raise DataError(
                f"the line has no {measure}, or its task no gold", path, n
            ) from None
        toy_known = o["task_id"] in verdicts
        idk = (
            verdicts[o["task_id"]]
            if toy_known
            else idk_by_rule(answers[o["task_id"]].answer)
        )
        scores[o["task_id"]], ruled = condition(phi, label, idk), ruled or not toy_known
    return scores, ruled


def compare_submissions(
    files: Iterable[str | Path],  # prediction files with metrics
    toy_known: Benchmark,  # the tasks with their gold
    measure: str = "RL_F",
    **how,  # as for `compare`
) -> Comparison:
    "Compare submissions by a score that they carry, conditioned on refusals; a system is called as its file, up to the first _ or -."
    scores: dict[str, dict[str, float | None]] = {}
    ruled = set()  # systems whose files have no verdicts on refusals
    for path in sorted(map(Path, files)):
        name = re.split(r"[_-]", path.stem)[0]
        found, by_rule = conditioned_file(path, toy_known.gold, measure)
        scores.setdefault(name, {}).update(found)
        ruled |= {name} if by_rule else set()
    by_rule = f"; refusals of {', '.join(sorted(ruled))} by the rule" if ruled else ""
    talks = {t.id: t.conversation_id for t in toy_known.tasks}
    return compare(scores, talks, f"{measure}, conditioned{by_rule}", **how)


def measure_submissions(out: str | Path = "data/measured/raguteam.json") -> Comparison:
    "Compare the seven submissions of $MTRAG_DATA, print it, write it down. Takes seconds."
    data = real_data("mtragun-human/predictions_raguteam")
    toy_known = read_benchmark(official_file(data, "mtragun-human/reference"))
    files = (data / "mtragun-human" / "predictions_raguteam").glob("*.jsonl")
    found = compare_submissions(files, toy_known)
    write_json(out, found)
    print(found)
    return found


def kept_comparison() -> Comparison:
    "The comparison of the seven submissions that is kept."
    teams = build_object(Comparison, kept_in("raguteam"))
    assert len(teams.systems) == 7
    assert len(teams.pairs) == 21
    return teams
