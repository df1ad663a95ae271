"""The benchmark of attribution as data: recorded turns with planted faults, and which stage is guilty, by running again.

`make study NAME=attribution` writes `data/attribution` anew, byte for byte: turns of six systems over the sample, by a model that
knows the answers (`tests/support/planted.py`). Cases are of the last answerable turn of each conversation that a system gets right,
whole and with one or two faults planted in its stages. A turn that nobody can call right or wrong is no case, nor is one on which
the fault left no trace.

The truth of a failed turn comes from taking each planted fault out again, alone, with all that follows run anew: a stage is guilty
if that makes the turn right. The model is scripted and everything before the fault is the same in both (`require_same_before`), so
that a run without the fault is the turn taken up at that stage. Questions without an answer are no cases: there the label fixes
what a perfect stage would do (`fixes_outcome` of `mtrag_nb.evaluation.proof`).
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mtrag_nb.core.files import data_dir, write_jsonl, write_whole
from mtrag_nb.core.record import (
    Checked,
    Drafted,
    Gated,
    Graded,
    Ranked,
    Refused,
    Retrieved,
    Rewritten,
    Step,
    Trajectory,
    kept_by,
)
from mtrag_nb.core.types import TO_ANSWER, DataError, Task, digest
from mtrag_nb.evaluation.attribution import FAULT_KINDS, RIGHT_KINDS, StageAnswer
from mtrag_nb.evaluation.blame import Blame, blame
from mtrag_nb.evaluation.proof import Proof
from mtrag_nb.evaluation.evidence import Evidence
from tests.support.planted import FAULTS, PAIRS, SUBTLE, Bench, gold, tasks
from tools.studies.attribution import measure_tools, write_answers
from tools.studies.equal import SYSTEMS

Words = tuple[dict[str, object], dict[str, object]]  # what a step saw, and gave
EVERY = FAULTS | SUBTLE
DEV_EACH = 5  # of so many conversations, one is for development
RIGHT_KIND = "right in spite of a fault"


@dataclass(frozen=True)
class Left:
    "What the steps so far have left for the next one."

    query: str
    "What is searched for."
    passages: Sequence[str] = ()
    "Ids of the passages that are left."
    draft: str = ""
    "The last draft."


def _rewritten(step: Rewritten, left: Left) -> Words:
    gave: dict[str, object] = {"query": step.text}
    if "queries" in step.state_update:
        gave["queries"] = list(step.state_update["queries"])
    return {"question": left.query}, gave


def _retrieved(step: Retrieved, left: Left) -> Words:
    return {"query": left.query}, {"passages": list(step.contexts)}


def _ranked(step: Ranked, left: Left) -> Words:
    return {"passages": list(left.passages)}, {"passages": list(kept_by(step))}


def _graded(step: Graded, left: Left) -> Words:
    graded = [grade.id for grade in step.grades]
    return {"passages": graded}, {"passages": list(kept_by(step))}


def _gated(step: Gated, left: Left) -> Words:
    passed = step.state_update.get("answerable", step.verdict.passed)
    return {"passages": list(left.passages)}, {"passed": bool(passed)}


def _drafted(step: Drafted, left: Left) -> Words:
    saw: dict[str, object] = {"passages": list(left.passages)}
    if step.unsupported:
        saw["to leave out"] = step.unsupported
    return saw, {"draft": step.text, "declined": step.declined}


def _checked(step: Checked, left: Left) -> Words:
    saw = {"draft": left.draft, "passages": list(left.passages)}
    return saw, {"passed": step.verdict.passed}


def _refused(step: Refused, left: Left) -> Words:
    return {}, {"refused": step.reason}


# Kind of step -> the stage, and what tells what a step saw and gave.
READ: dict[type[Step], tuple[str, Callable[..., Words]]] = {
    Rewritten: ("rewrite", _rewritten),
    Retrieved: ("retrieve", _retrieved),
    Ranked: ("rerank", _ranked),
    Graded: ("grade", _graded),
    Gated: ("gate", _gated),
    Drafted: ("generate", _drafted),
    Checked: ("check", _checked),
    Refused: ("other", _refused),
}


def step_in_words(step: Step, left: Left) -> dict:
    """A step in plain words: its stage, what it saw and what it gave.

    Scores, notes, times and children are left out: a planted step shows in them.
    """
    for kind, (stage, read) in READ.items():
        if isinstance(step, kind):
            saw, gave = read(step, left)
            return {"stage": stage, "node": step.node, "saw": saw, "gave": gave}
    return {"stage": "other", "node": step.node, "saw": {}, "gave": {}}


def steps_in_words(turn: Trajectory) -> list[dict]:
    "The steps of a turn, each with what it saw and gave."
    left = Left(turn.question)
    words = []
    for step in turn.steps:
        kept = step.state_update.get("kept", left.passages)
        words.append(step_in_words(step, replace(left, passages=kept)))
        gave = words[-1]["gave"]
        left = Left(
            gave.get("query", left.query),
            gave.get("passages", kept),
            gave.get("draft", left.draft),
        )
    return words


def case_line(run: Evidence, task: Task, system: str) -> dict:
    "A recorded turn that needs nothing beside it: what was asked, what each step saw and gave, and what would be right."
    turn = run.turns[task.id]
    steps = steps_in_words(turn)
    seen: dict[str, None] = {}
    for step in steps:
        for part in (step["saw"], step["gave"]):
            seen.update(dict.fromkeys(part.get("passages", ())))
    passages = {}
    for i in seen:
        context = run.contexts[i]
        passages[i] = {
            "document": context.document_id,
            "title": context.title,
            "text": context.text,
        }
    return {
        "system": system,
        "conversation": task.conversation_id,
        "turn": task.turn,
        "history": [{"speaker": t.speaker, "text": t.text} for t in task.history],
        "question": task.question,
        "target": gold[task.id].targets[0],
        "gold": [
            {"document": p.id, "title": p.title, "text": p.text}
            for p in gold[task.id].passages
        ],
        "steps": steps,
        "outcome": "answered" if turn.answered else "refused",
        "answer": turn.answer,
        "passages": passages,
    }


def require_same_before(stage: str, line: Mapping, other: Mapping) -> None:
    "Raises DataError unless two records of a turn are the same up to the first step of a stage."
    parts = []
    for record in (line, other):
        stages = [step["stage"] for step in record["steps"]]
        first = stages.index(stage) if stage in stages else len(stages)
        parts.append(record["steps"][:first])
    if parts[0] != parts[1]:
        raise DataError(f"{line['system']}: the records differ before the {stage}")


@dataclass(frozen=True)
class MadeCase:
    "A case with its truth, and what the rule and the proof say of it."

    line: dict
    "As it stands in cases.jsonl.gz."
    truth: dict
    "As it stands in truth.jsonl."
    blamed: Blame
    proof: Proof | None


def kind_of(faults: Sequence[str], guilty: Sequence[str]) -> str:
    "The kind of a case."
    if not faults:
        return "whole"
    if not guilty:
        return RIGHT_KIND
    if len(faults) == 2:
        return "two faults"
    return "one subtle fault" if faults[0] in SUBTLE else "one fault"


def stage_of(fault: str) -> str:
    "The stage that a fault breaks."
    return EVERY[fault][0]


def guilty_stages(
    faults: Sequence[str], task_id: str, verdicts: Mapping[tuple[str, ...], Mapping]
) -> tuple[list[str], str] | None:
    """The guilty stages of a failed turn, and how: "alone", "each", or "together".

    `verdicts`: faults -> task id -> verdict, of the runs with fewer faults. None: a run with
    fewer faults can be called neither right nor wrong.
    """
    if len(faults) == 1:
        return [stage_of(faults[0])], "alone"
    left = {f: tuple(other for other in faults if other != f) for f in faults}
    verdict = {f: verdicts[rest][task_id] for f, rest in left.items()}
    if not set(verdict.values()) <= {"right", "failed"}:
        return None
    mended = [f for f in faults if verdict[f] == "right"]
    how = "alone"
    if len(mended) != 1:
        how = "each" if mended else "together"
    return list(dict.fromkeys(map(stage_of, mended or faults))), how


def last_right(whole: Evidence) -> list[Task]:
    "The last answerable task of each conversation that a run gets right."
    verdicts = blame(whole).turns
    right = []
    for task in tasks:
        answerable = gold[task.id].answerability in TO_ANSWER
        if answerable and verdicts[task.id].verdict == "right":
            right.append(task)
    return list({task.conversation_id: task for task in right}.values())


def cases_of(bench: Bench, system: str, prove: bool = True) -> Iterator[MadeCase]:
    "The cases of a system: whole, with each fault that it has a stage for, and with pairs of them."
    whole = bench.run(system)
    right = last_right(whole)
    singles = [(f,) for f in EVERY if bench.applies(f, whole)]
    pairs = [p for p in PAIRS if all((f,) in singles for f in p)]
    verdicts: dict[tuple[str, ...], dict[str, str]] = {}
    lines: dict[tuple[str, ...], dict[str, dict]] = {}
    for faults in [(), *singles, *pairs]:
        run = bench.run(system, *faults, some=right) if faults else whole
        blamed = blame(run).turns
        verdicts[faults] = {t.id: blamed[t.id].verdict for t in right}
        lines[faults] = {t.id: case_line(run, t, system) for t in right}
        proved = bench.prove(system, *faults, run=run) if faults and prove else None
        for task in right:
            line = lines[faults][task.id]
            for fault in faults:
                rest = tuple(f for f in faults if f != fault)
                require_same_before(stage_of(fault), line, lines[rest][task.id])
            if faults and line in [lines[f][task.id] for f in verdicts if f != faults]:
                continue  # a fault without a trace
            verdict = verdicts[faults][task.id]
            found = ([], "") if verdict == "right" else None
            if verdict == "failed":
                found = guilty_stages(faults, task.id, verdicts)
            if found is None:
                continue
            guilty, how = found
            key = digest([system, *faults, task.id], 10)
            truth = {
                "case": key,
                "kind": kind_of(faults, guilty),
                "guilty": guilty,
                "how": how,
                "faults": list(faults),
                "system": system,
                "conversation": task.conversation_id,
            }
            proof = proved.proofs.get(task.id) if proved else None
            yield MadeCase({"case": key, **line}, truth, blamed[task.id], proof)


def make_cases(bench: Bench, prove: bool = True) -> list[MadeCase]:
    "All cases in the order of their ids, with the split of each by conversation."
    made = [case for system in SYSTEMS for case in cases_of(bench, system, prove)]
    talks = sorted({case.truth["conversation"] for case in made})
    dev = set(talks[::DEV_EACH])
    for case in made:
        case.truth["split"] = "dev" if case.truth["conversation"] in dev else "test"
    return sorted(made, key=lambda case: case.truth["case"])


def write_cases(made: Sequence[MadeCase], folder: Path) -> None:
    "Write cases.jsonl.gz and truth.jsonl."
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as tmp:
        write_jsonl(Path(tmp) / "cases.jsonl", [case.line for case in made])
        plain = (Path(tmp) / "cases.jsonl").read_bytes()
    write_whole(folder / "cases.jsonl.gz", gzip.compress(plain, mtime=0))
    write_jsonl(folder / "truth.jsonl", [case.truth for case in made])


def write_own_answers(made: Sequence[MadeCase], folder: Path) -> None:
    "Write what the rule and the proof say of the cases."
    rule = {c.truth["case"]: StageAnswer(c.blamed.stage) for c in made}
    proof = {}
    for case in made:
        stage = case.proof.stage if case.proof else case.blamed.stage
        proof[case.truth["case"]] = StageAnswer(stage)
    write_answers(folder / "answers" / "rule.csv", rule)
    write_answers(folder / "answers" / "proof.csv", proof)


def count_statuses(made: Sequence[MadeCase]) -> dict[str, Counter]:
    "What repaired the failed turns, by kind of case."
    statuses: dict[str, Counter] = {}
    for case in made:
        if case.proof:
            statuses.setdefault(case.truth["kind"], Counter())[case.proof.status] += 1
    return statuses


_START, _END = "<!-- counts -->\n", "<!-- /counts -->"


def count_table(truth: Sequence[Mapping]) -> str:
    "The counts of the datasheet as a table of markdown: a line a kind, a column a system."
    systems = list(dict.fromkeys(SYSTEMS))
    lines = [
        ["kind", *systems, "all", "dev", "test"],
        ["---", *["---:"] * (len(systems) + 3)],
    ]
    for kind in (*FAULT_KINDS, *RIGHT_KINDS, "all"):
        rows = [row for row in truth if kind in (row["kind"], "all")]
        by_system = Counter(row["system"] for row in rows)
        by_split = Counter(row["split"] for row in rows)
        counts = [*(by_system[s] for s in systems), len(rows)]
        lines.append([kind, *map(str, [*counts, by_split["dev"], by_split["test"]])])
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    talks = Counter(
        dict(sorted((r["conversation"], r["split"]) for r in truth)).values()
    )
    return (
        f"{table}\nConversations: {talks['dev']} of `dev`, {talks['test']} of `test`.\n"
    )


def write_counts(truth: Sequence[Mapping], path: Path) -> None:
    "Write the counts into the datasheet, between their marks."
    before, _, rest = path.read_text(encoding="utf-8").partition(_START)
    after = rest.partition(_END)[2]
    write_whole(path, f"{before}{_START}{count_table(truth)}{_END}{after}")


def make_attribution(runs: Path, folder: Path | None = None) -> dict:
    """Make the benchmark anew and score the tools; the scores as plain data.

    `runs`: where the runs are kept. `folder`: of the benchmark (None: data/attribution).
    """
    folder = folder or data_dir() / "attribution"
    made = make_cases(Bench(runs))
    write_cases(made, folder)
    write_counts([case.truth for case in made], folder / "README.md")
    write_own_answers(made, folder)
    return measure_tools(folder, count_statuses(made))
