"""Answers of strong models as drafts, with what a check may look at and what decides whether they are right.

Right, wrong: by target recall; an answer where there is none is wrong, underspecified questions are left out. With gold passages
in hand, unanswerable tasks come without passages, which gives the refusal away: there only answerable tasks count. Systems that
answered the same tasks under the same terms are one pool: its drafts can take each other's place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from mtrag_nb.core.files import read_jsonl
from mtrag_nb.core.refusals import idk_by_rule
from mtrag_nb.core.types import TO_ANSWER, TO_REFUSE, Context, Gold, Outcome, Task
from mtrag_nb.data.mtrag import Benchmark, read_benchmark
from mtrag_nb.data.official import official_dir, official_file
from mtrag_nb.data.ratings import read_ratings
from mtrag_nb.data.submissions import prediction_of_line
from mtrag_nb.evaluation.verdicts import verdict_of
from mtrag_nb.evaluation.pairs import Ending
from tools.studies.released_files import DEV, TEST


@dataclass(frozen=True)
class Draft:
    "An answer of a model, with what a check may look at, and what decides whether it is right."

    task: Task
    gold: Gold
    model: str
    answer: str
    contexts: tuple[Context, ...]  # what it was made from
    verdict: float | None  # 1: the official judge calls it a refusal; None: not judged
    official: Mapping[str, float]  # RB_llm, RL_F, where the file has them

    @property
    def talk(self) -> str:
        return self.task.conversation_id

    @property
    def texts(self) -> list[str]:
        return [c.text for c in self.contexts]

    @cached_property
    def refused(self) -> bool:
        said = idk_by_rule(self.answer) if self.verdict is None else self.verdict
        return said == 1 or not self.answer.strip()

    @cached_property
    def ending(self) -> Ending:
        return ending_of(self.task, self.gold, self.answer, self.refused)


def ending_of(task: Task, gold: Gold, answer: str, refused: bool) -> Ending:
    "How a turn ends with an answer, as `blame_items` judges it."
    label = gold.answerability
    if label in TO_REFUSE:
        came = "right" if refused else "failed"
    elif label in TO_ANSWER:
        by_target = (
            "wrong" if refused else verdict_of(answer, gold.targets, task.question)
        )
        came = {"wrong": "failed"}.get(by_target, by_target)
    else:
        came = "not judged"
    outcome = Outcome.I_DONT_KNOW if refused else Outcome.ANSWERED
    return Ending(
        task.conversation_id,
        task.turn,
        came,
        None,
        outcome,
        "",
        {},
        refused=refused,
        label=label,
    )


def data() -> Path:
    "The folder of the official files, with the released ones. Raises DataError if they are not there."
    return official_dir("the study of checks", having="released")


@lru_cache
def with_passages(which: str) -> Benchmark:
    "A benchmark with the passages that come with its tasks."
    return read_benchmark(official_file(None, which), contexts=True)


def contexts_of(passages: Iterable) -> tuple[Context, ...]:
    "Passages with a text, as contexts."
    return tuple(
        Context(p.id, p.id, p.text, p.title) for p in passages if p.text.strip()
    )


def line_drafts(path: Path, which: str, model: str) -> Iterable[Draft]:
    "The answers of a file of predictions; tasks without gold are left out."
    bench = with_passages(which)
    tasks = {t.id: t for t in bench.tasks}
    for n, line in read_jsonl(path, nan_is_null=True):
        if line["task_id"] not in bench.gold:
            continue
        task = tasks[line["task_id"]]
        metrics = line.get("metrics") or {}
        p = prediction_of_line(
            {**line, "prediction": line.get("prediction") or ""}, path, n
        )
        scores = {k: v[0] for k, v in metrics.items() if isinstance(v, list) and v}
        own = [Context(i, i, c["text"], "") for i, c in (p.texts or {}).items()]
        yield Draft(
            task,
            bench.gold[task.id],
            model,
            p.answer or "",
            tuple(own) if p.texts is not None else contexts_of(task.contexts),
            scores.get("idk_eval") if scores.get("idk_eval") in (0, 0.5, 1) else None,
            {
                k: scores[k]
                for k in ("RB_llm", "RL_F")
                if isinstance(scores.get(k), float)
            },
        )


def synthetic_drafts() -> Iterable[Draft]:
    "MTRAG-S: `conditional_idk` and the label say what the verdict was."
    for r in read_ratings(official_file(None, "mtrag-synthetic/ratings")):
        if r.system != "reference":
            right = r.official["conditional_idk"] == 1
            refuse = r.gold.answerability in TO_REFUSE
            scores = {"RB_llm": r.official["rb_llm"], "RL_F": r.official["rl_f"]}
            yield Draft(
                r.task,
                r.gold,
                r.system,
                r.answer,
                contexts_of(r.task.contexts),
                float(right == refuse),
                scores,
            )


SUBMISSIONS = {  # RaguTeam's answers on the test set
    "gemini-3-pro-preview-high_new_prompt": "Gemini 3 Pro",
    "glm_46_gemini_prompt": "GLM 4.6",
    "haiku45_taskB": "Haiku 4.5",
    "qwen235b_gemini_prompt_no_empty": "Qwen3 235B",
    "llama3_3_70b_gemini_prompt": "Llama 3.3 70B",
    "qwen2_5_32b_taskB": "Qwen2.5 32B",
    "meno_v17_ckp420_taskB": "Meno",
}
PROMPTED = {"official": "the benchmark's prompt", "abstain": "told to abstain"}
MODEL_NAMES = {
    "gpt-4o-mini": "GPT-4o-mini",
    "llama-3.1-405b-instruct": "Llama 3.1 405B",
    "mixtral_8x22b_instruct": "Mixtral 8x22B",
    "c4ai-command-r-plus": "Command-R+",
    "qwen-2.5-72b-instruct": "Qwen2.5 72B",
}


@dataclass(frozen=True)
class Drafts:
    "The drafts of a model; several models' where each has few."

    name: str
    pool: str  # whose drafts answer the same tasks
    gold_given: bool
    drafts: tuple[Draft, ...]


def kept(drafts: Iterable[Draft], gold_given: bool) -> tuple[Draft, ...]:
    "The drafts that count: with gold in hand those of answerable tasks alone."
    labels = TO_ANSWER if gold_given else (*TO_ANSWER, *TO_REFUSE)
    return tuple(d for d in drafts if d.gold.answerability in labels)


@lru_cache
def systems() -> dict[str, Drafts]:
    "Every system, by name."
    root = data()
    found = []

    def add(name, pool, gold_given, drafts):
        found.append(Drafts(name, pool, gold_given, kept(drafts, gold_given)))

    for context in ("gold", "elser", "recall"):
        for prompt, words in PROMPTED.items():
            task = "B" if context == "gold" else "C"
            path = (
                root
                / "released/re_call"
                / f"{task}_dev_gpt-4o_{context}_prompt-{prompt}.jsonl.gz"
            )
            name = f"GPT-4o, {context}, {words}"
            group = "GPT-4o, gold" if context == "gold" else "GPT-4o, searches"
            add(
                name,
                group,
                context == "gold",
                line_drafts(path, DEV, f"{context}, {prompt}"),
            )
    for prompt in ("official", "evidence"):
        path = root / "released/sifei" / f"C_dev100_elser_prompt-{prompt}.jsonl.gz"
        add(
            f"DeepSeek, ELSER, {prompt}",
            "DeepSeek",
            False,
            line_drafts(path, DEV, prompt),
        )
    paths = sorted((root / "released/raguteam").glob("B_dev96*.gz"))
    small = [d for p in paths for d in line_drafts(p, DEV, p.name.split(".json")[0])]
    add("RaguTeam's seven, dev", "RaguTeam", True, small)
    path = root / "released/iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl.gz"
    add("GPT-4.1, IIMAS' search", "GPT-4.1", False, line_drafts(path, TEST, "GPT-4.1"))
    for file, name in SUBMISSIONS.items():
        path = root / "mtragun-human/predictions_raguteam" / f"{file}.jsonl"
        add(f"{name}, test", "test", True, line_drafts(path, TEST, name))
    by_model = defaultdict(list)
    for d in synthetic_drafts():
        by_model[d.model].append(d)
    for model, drafts in by_model.items():
        add(f"{MODEL_NAMES[model]}, MTRAG-S", "MTRAG-S", True, drafts)
    return {s.name: s for s in found}


@lru_cache
def pool(name: str) -> dict[str, dict[str, Draft]]:
    "Task id -> model -> draft, of all systems of a pool."
    out: dict[str, dict[str, Draft]] = defaultdict(dict)
    for s in systems().values():
        if s.pool == name:
            for d in s.drafts:
                out[d.task.id][d.model] = d
    return out


def others(name: str) -> bool:
    "Whether a pool holds several models' drafts of a task."
    return any(len(some) > 1 for some in pool(name).values())
