"""Which tool names the stage that failed? The benchmark of `data/attribution`, and the tools that were asked.

`make study NAME=attribution` makes the benchmark anew (`tools/studies/attribution_cases.py`), keeps what each tool says of it in
`data/attribution/answers`, one CSV file a tool, and their scores in `data/measured/attribution.json`. It takes some minutes and goes
on in `runs/attribution` where it stopped. A tool is asked where it is installed (`pip install --no-deps ragmortem==0.2.0
contexttrace==1.3.0 failurelab==0.3.0`), else its kept answers stay.

The rule (`mtrag blame`) and the proof (`mtrag blame --prove`) read the run that a case was made of; the other tools read the line of
the case. Where what a tool says may mean several stages, the first that the turn has a step of is taken, without a look at the
truth. What the tools are given:

- ragmortem: question, what was found, what reached the prompt, the answer, the target and the corpus. It knows retrieval, ranking
  (rerank, else grade), generation and abstention (gate, else check, else generator), says how sure it is, and where it names none of them it counts as silent.
- contexttrace: question, what reached the prompt and the answer. It checks the answer's claims against the passages and knows no
  target. Where it wants an abstention, that is read as above.
- failurelab: which passages were found, which reached the prompt, which are gold, and whether the turn failed, which it does not say
  itself: that is this package's verdict by the target, so that its false alarms are none by design. It reads no text.

Also tried: RecallOps 0.2.0 compares two snapshots of an ingestion path and sees no answer; retrieval-lab 0.1.0 names the first
stage of its own retrieval pipeline that lost the evidence; contexteval 0.4.0 calls the system itself and cannot be given a
recorded turn; agent-blame 0.1.2 scores the steps that its own tracer recorded; agentfork-cli 0.4.0 records and replays, and names
no stage; ragfix 0.2.2 pins numpy 1.24.3, which does not go with this package's numpy; aevyra-origin 0.1.0 and ag2tracer 0.1.1 ask
a hosted model for each diagnosis; rag-timetravel 1.2.0 was not installed within four minutes; ragbisect and rag-ci were not on the
package index that was at hand.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from mtrag_nb.core.files import data_dir, read_jsonl, write_whole
from mtrag_nb.core.html import text_table
from mtrag_nb.core.types import build_object
from mtrag_nb.data.mtrag import read_corpus, sample_corpus
from mtrag_nb.evaluation.statistics import Interval
from mtrag_nb.evaluation.attribution import (
    CANNOT_TELL,
    CASE_STAGES,
    FAULT_KINDS,
    RIGHT_KINDS,
    StageAnswer,
    constant_score,
    score_attribution,
)
from mtrag_nb.evaluation.verdicts import verdict_of
from mtrag_nb.evaluation.proof import STATUSES
from tools.study import kept_in

RANKED_OUT = ("rerank", "grade")  # what the tools call ranking
ABSTAIN = ("gate", "check", "generate")  # what could have refused, the likelier first
MEANT = {  # what a tool says -> the stages that it may mean, the likelier first
    "retrieval_miss": ("retrieve",),  # of ragmortem and contexttrace
    "ranking_miss": RANKED_OUT,
    "should_abstain": ABSTAIN,
    "generation_ignored_context": ("generate",),
    "insufficient_context": ("retrieve",),  # of contexttrace
    "corpus_gap": ("retrieve",),
    "should_have_abstained": ABSTAIN,
    "answer_overreach": ("generate",),
    "partial_context_support": ("generate",),
    "conflicting_contexts": ("generate",),  # a claim, and a passage against it
    "retrieval_failure": ("retrieve",),  # of FailureLab
    "ranking_failure": RANKED_OUT,
    "possible_reasoning_failure": ("generate",),
}


def found_in(case: Mapping) -> list[str]:
    "The passages that the searches of a case found."
    searches = [
        s["gave"]["passages"] for s in case["steps"] if s["stage"] == "retrieve"
    ]
    return list(dict.fromkeys(i for passages in searches for i in passages))


def prompted_in(case: Mapping) -> list[str]:
    "The passages that the last draft of a case was written from, or would have been."
    left: list[str] = []
    for step in case["steps"]:
        if step["stage"] == "generate":
            left = step["saw"]["passages"]
        left = step["gave"].get("passages", left)
    return left


def meant_stage(words: str, case: Mapping) -> str:
    "The stage that a tool's words mean: of several the first that the turn has a step of; '' for none."
    stages = {step["stage"] for step in case["steps"]}
    meant = MEANT.get(words, ())
    return next((stage for stage in meant if stage in stages), "".join(meant[:1]))


def contexttrace_says(case: Mapping) -> StageAnswer:
    "What contexttrace makes of question, prompt's passages and answer; it knows no target."
    from contexttrace.diagnose import diagnose_payload

    texts = {i: case["passages"][i]["text"] for i in prompted_in(case)}
    trace = {
        "query": case["question"],
        "answer": case["answer"] or "I don't know.",
        "contexts": [{"id": i, "text": text} for i, text in texts.items()],
    }
    words = diagnose_payload(trace)["summary"]["primary_issue"]
    return StageAnswer(meant_stage(words, case))


def failurelab_says(case: Mapping) -> StageAnswer:
    "What FailureLab makes of a turn's passages, its gold passages, and whether it failed; it reads no text."
    import failurelab

    passages = case["passages"]
    seen = [passages[i]["document"] for i in prompted_in(case)]
    found = [passages[i]["document"] for i in found_in(case)]
    config = failurelab.FailureLabConfig()
    config.evaluation.retrieval_k = max(1, len(set(seen)))
    verdict = verdict_of(case["answer"], (case["target"],), case["question"])
    trace = {
        "trace_id": case["case"],
        "query": case["question"],
        "answer": case["answer"] or "I don't know.",
        "retrieved_sources": [*seen, *found],
        "citations": seen or found,
        "expected_sources": [gold["document"] for gold in case["gold"]],
        "success": case["outcome"] == "answered" and verdict != "wrong",
    }
    causes = failurelab.analyze([trace], config=config).root_cause_hypotheses
    return StageAnswer(meant_stage(causes[0].hypothesis, case) if causes else "")


@cache
def sample_passages() -> tuple:
    "The sample's passages, as ragmortem reads them."
    from ragmortem import Chunk

    passages = read_corpus(*sample_corpus())
    return tuple(Chunk(id=p.id, text=p.text, source=p.title) for p in passages)


class WholeCorpus:
    "The sample's passages, as ragmortem reads a corpus."

    def __init__(self):
        self.chunks = list(sample_passages())

    def retrieve(self, query: str, k: int | None = None):
        "The first k passages."
        return self.chunks[:k], [0.5] * len(self.chunks[:k])


def ragmortem_says(case: Mapping) -> StageAnswer:
    "What ragmortem makes of question, passages, answer, target and the sample's corpus."
    from ragmortem import diagnose

    chunks = {}
    for i, passage in case["passages"].items():
        chunks[i] = {"id": i, "text": passage["text"], "score": 0.5}
    prompted = prompted_in(case)
    diagnosis = diagnose(
        query=case["question"],
        retrieved_chunks=[chunks[i] for i in prompted],
        candidate_chunks=[chunks[i] for i in (*prompted, *found_in(case))],
        answer=case["answer"],
        corpus=WholeCorpus(),
        mode="corpus_aware",
        reference_answer=case["target"],
    )
    stage = meant_stage(diagnosis.canonical_failure_type.value, case)
    return StageAnswer(stage, float(diagnosis.confidence))


TOOLS: dict[str, Callable[[Mapping], StageAnswer]] = {
    "ragmortem": ragmortem_says,
    "contexttrace": contexttrace_says,
    "failurelab": failurelab_says,
}
OURS = ("rule", "proof")


def write_answers(path: Path, answers: Mapping[str, StageAnswer]) -> None:
    "Write what a tool says of cases as a CSV file."
    sure = any(answer.confidence is not None for answer in answers.values())
    rows = [["case", "stage", *(["confidence"] if sure else [])]]
    for case, answer in answers.items():
        stage = answer.stage if answer.stage in CASE_STAGES else CANNOT_TELL
        confidence = [f"{answer.confidence:.2f}"] if sure else []
        rows.append([case, stage, *confidence])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_whole(path, text.getvalue())


def ask_tools(folder: Path) -> dict[str, str]:
    "Ask the tools that are installed about all cases, and keep their answers; tool -> version."
    cases = [case for _, case in read_jsonl(folder / "cases.jsonl.gz")]
    versions = {}
    for name, says in TOOLS.items():
        if find_spec(name):
            answers = {case["case"]: says(case) for case in cases}
            write_answers(folder / "answers" / f"{name}.csv", answers)
            versions[name] = version(name)
    return versions


def kept_answers(folder: Path) -> list[Path]:
    "The kept files of answers, the rule's first."
    paths = [folder / "answers" / f"{name}.csv" for name in (*OURS, *TOOLS)]
    return [path for path in paths if path.is_file()]


def measure_tools(folder: Path, statuses: Mapping[str, Mapping[str, int]]) -> dict:
    "Score the kept answers on both splits; `statuses`: kind of case -> what repaired its turns -> how many."
    versions = ask_tools(folder)
    known = kept_in("attribution").get("tools", {})
    cases = [row for _, row in read_jsonl(folder / "truth.jsonl")]
    sizes: dict[str, Counter] = {}
    for row in cases:
        sizes.setdefault(row["kind"], Counter())[row["split"]] += 1
    splits = {}
    for split in ("test", "dev"):
        splits[split] = score_attribution(kept_answers(folder), split, folder).data
    return {
        "tools": {**known, **versions},
        "cases": sizes,
        "splits": splits,
        "statuses": statuses,
    }


def span_of(found: Mapping) -> str:
    "A kept interval as text."
    return str(build_object(Interval, found))


def difference_of(found: Mapping) -> str:
    "A kept difference as text."
    if found["low"] is None:
        return f"{found['value']:+.3f}"
    return f"{found['value']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"


def kept_tools(split: str = "test") -> Mapping[str, Mapping]:
    "Tool or constant -> its kept scores on a split."
    return kept_in("attribution")["splits"][split]["tools"]


def print_shares(head: str, kinds: Iterable[str], part: str) -> None:
    "Print a table of kept shares: a line a tool or constant, a column a kind of case."
    sizes = kept_in("attribution")["cases"]
    kinds = list(kinds)
    rows = []
    for name, scores in kept_tools().items():
        rows.append([name, *(span_of(scores[part][kind]) for kind in kinds)])
    heads = [f"{kind} ({sizes[kind]['test']})" for kind in kinds]
    print(text_table([head, *heads], rows), end="\n\n")


def show_tools() -> None:
    "Print how often each tool and constant names a guilty stage, and one in a turn that is right."
    attribution = kept_in("attribution")
    versions = (f"{name} {v}" for name, v in attribution["tools"].items())
    print(", ".join(versions), end="\n\n")
    print_shares("a guilty stage is named", FAULT_KINDS, "named")
    print_shares("a stage is named in a right turn", RIGHT_KINDS, "alarms")
    rows = []
    for stage in CASE_STAGES:
        shares = [kept_tools()[name]["stages"][stage] for name in (*OURS, *TOOLS)]
        if shares[0]["n"]:
            rows.append([stage, shares[0]["n"], *map(span_of, shares)])
    print(text_table(["guilty", "turns", *OURS, *TOOLS], rows), end="\n\n")
    rows = []
    for name, less in attribution["splits"]["test"]["less rule"].items():
        parts = [difference_of(less[kind]) for kind in (*FAULT_KINDS, "all failed")]
        rows.append([f"{name} less rule", *parts])
    head = ["differences in pairs", *FAULT_KINDS, "all failed turns"]
    print(text_table(head, rows))
    error = kept_tools()["ragmortem"]["calibration error"]
    print(f"\nexpected calibration error of ragmortem's confidences: {error:.3f}")


def show_statuses() -> None:
    "Print what repaired the failed turns of all conversations, by kind of case."
    statuses = kept_in("attribution")["statuses"]
    rows = []
    for kind in FAULT_KINDS:
        rows.append([kind, *(statuses[kind].get(status, 0) for status in STATUSES)])
    print(text_table(["repaired by, both splits", *STATUSES], rows))


def changed_by_fault(sign: int) -> Counter:
    "Planted faults -> the turns of the test split in which the proof is right and the rule is not (1), or the reverse (-1)."
    answers = data_dir("attribution") / "answers"
    files = [answers / f"{name}.csv" for name in OURS]
    report = score_attribution(files)
    rule, proof = report.scores
    changed: Counter = Counter()
    for case, truth in report.truth.items():
        if truth.guilty and proof.right[case] - rule.right[case] == sign:
            changed["+".join(truth.faults)] += 1
    return changed


def lead_over_generate(name: str) -> Interval:
    "What a tool names more of the failed turns of the test split than always blaming the generator, in pairs."
    path = data_dir("attribution") / "answers" / f"{name}.csv"
    report = score_attribution([path])
    return report.scores[0].less(constant_score("generate", report.truth))


def check_findings() -> None:
    "Assert what the study says of tools, of the results that are kept."
    tools = kept_tools()

    def named(name: str) -> list[float]:
        return [round(tools[name]["named"][kind]["value"], 2) for kind in FAULT_KINDS]

    def alarms(name: str) -> list[float]:
        return [round(tools[name]["alarms"][kind]["value"], 2) for kind in RIGHT_KINDS]

    turns = [tools["rule"]["named"][kind]["n"] for kind in FAULT_KINDS]
    assert turns == [202, 100, 83]
    hits = [round(tools[t]["named"]["one fault"]["value"] * 202) for t in OURS]
    assert hits == [201, 200]
    assert [named(t)[1:] for t in OURS] == [[0.68, 0.98], [0.93, 0.98]]
    assert [round(tools[t]["all failed"]["value"], 2) for t in OURS] == [0.91, 0.97]
    less = kept_in("attribution")["splits"]["test"]["less rule"]["proof"]
    assert less["two faults"]["value"] == 0.0
    for kind, ends in (
        ("one subtle fault", [0.25, 0.2, 0.3]),
        ("all failed", [0.06, 0.05, 0.08]),
    ):
        assert [round(less[kind][k], 2) for k in ("value", "low", "high")] == ends
    assert changed_by_fault(1) == {"a rewrite of one word": 25}
    assert changed_by_fault(-1) == {"the grade inverted": 1}
    assert named("always generate") == [0.48, 0.15, 0.75]
    assert named("failurelab") == [0.75, 0.41, 0.89] and alarms("failurelab") == [0, 0]
    assert named("ragmortem") == [0.6, 0.33, 0.53]
    assert alarms("ragmortem") == [0.14, 0.16]
    assert named("contexttrace") == [0.38, 0.31, 0.52]
    assert min(alarms("contexttrace")) > 0.5
    assert round(tools["ragmortem"]["calibration error"], 2) == 0.36
    everywhere = {name: scores["all failed"]["value"] for name, scores in tools.items()}
    names = (*TOOLS, "always generate")
    assert [round(everywhere[n], 2) for n in names] == [0.52, 0.39, 0.69, 0.45]
    leads = {name: lead_over_generate(name) for name in TOOLS}
    assert leads["failurelab"].low > 0 > leads["contexttrace"].high
    assert leads["ragmortem"].low < 0 < leads["ragmortem"].high
