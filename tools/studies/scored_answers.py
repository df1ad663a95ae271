"""Released answers with official scores or ratings of people, and what measures that ask no large model make of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import read_jsonl
from mtrag_nb.core.refusals import idk_by_rule
from mtrag_nb.core.text import support
from mtrag_nb.core.types import TO_ANSWER, TO_REFUSE
from mtrag_nb.data.official import official_file
from mtrag_nb.data.ratings import RatedAnswer, read_ratings
from mtrag_nb.evaluation.measures import target_recall
from mtrag_nb.models.chat import EmbedderLike
from tools.studies.refusal_rule import Official

FULL = (
    "faithfulness",
    "completeness",
)  # both 4 of 4: neither answer is better than the other


@dataclass(frozen=True)
class Scored:
    "An answer of a system, and what those say of it who know better than a count of words."

    source: str
    system: str
    task: str
    label: str  # answerability
    answer: str
    target: str
    passages: tuple[str, ...]
    truth: Mapping[
        str, float
    ]  # RB_llm and RL_F in [0, 1]; refuses: 1, .5, 0; people: 1 to 4

    @property
    def talk(self) -> str:
        return self.task.split("<::>")[0]

    @property
    def refuses(self) -> bool:
        "By the rule."
        return idk_by_rule(self.answer) == 1


def known(score: float | None) -> float:
    "A score; NaN where the judge left none."
    return np.nan if score is None else float(score)


def of_ratings(source: str, answers: Iterable[RatedAnswer]) -> list[Scored]:
    "Rated answers, or those of MTRAG-S; the reference is no system."
    found = []
    for a in answers:
        label = a.gold.answerability
        o = a.official
        truth = {"refuses": float((o["conditional_idk"] == 1) == (label in TO_REFUSE))}
        truth |= {"RB_llm": known(o.get("rb_llm")), "RL_F": known(o.get("rl_f"))}
        if all(k in a.ratings for k in FULL):
            truth["people"] = min(float(np.median(a.ratings[k])) for k in FULL)
        texts = tuple(p.text for p in a.task.contexts)
        if a.system != "reference":
            about = (
                source,
                a.system,
                a.task.id,
                label,
                a.answer,
                a.gold.targets[0],
                texts,
            )
            found.append(Scored(*about, truth))
    return found


def of_gpt(path: Path) -> list[Scored]:
    "A run of GPT-4o with the official scores of each answer."
    name = path.name.removeprefix("B_dev_").removeprefix("C_dev_").split(".")[0]
    found = []
    for _, o in read_jsonl(path, nan_is_null=True):
        m = o["metrics"]
        label = o["Answerability"][0]
        scores = {k: known(m[k][0]) for k in ("RB_llm", "RL_F")}
        truth = {"refuses": m["idk_eval"][0], **scores}
        said = o["predictions"][0]["text"]
        target = o["targets"][0]["text"]
        texts = tuple(c["text"] for c in o["contexts"])
        about = (
            "GPT-4o",
            name.removeprefix("gpt-4o_"),
            o["task_id"],
            label,
            said,
            target,
            texts,
        )
        found.append(Scored(*about, truth))
    return found


def scored_answers(data: Path) -> list[Scored]:
    "All answers with official scores or ratings; labels that ask for neither an answer nor a refusal are left out."
    rated = read_ratings(official_file(data, "mtrag-human/ratings"))
    synthetic = read_ratings(official_file(data, "mtrag-synthetic/ratings"))
    files = sorted((data / "released" / "re_call").glob("[BC]_dev_gpt-4o_*.jsonl.gz"))
    some = of_ratings("rated", rated) + of_ratings("MTRAG-S", synthetic)
    some += [a for f in files for a in of_gpt(f)]
    return [a for a in some if a.label in (*TO_ANSWER, *TO_REFUSE)]


def choosing(answers: Sequence[Scored]) -> np.ndarray:  # [answers] bool
    "Whose conversations choose: one half, without those that people rated."
    rated = {a.talk for a in answers if a.source == "rated"}
    half = [Official(a.task, "", 0.0, "").half == "writing" for a in answers]
    return np.array([h and a.talk not in rated for a, h in zip(answers, half)])


SINGLE = (
    "ROUGE-L",
    "ROUGE-L recall",
    "ROUGE-L precision",
    "K-precision",
    "target's words",
    "cosine",
)
PARTS = (*SINGLE, "log words", "log words of the target")  # of a combination
TRIED = (*SINGLE, "target recall")


def vectors_of(
    texts: Iterable[str], embedder: EmbedderLike, cache: Path | None
) -> dict:
    "Text -> vector; those that were computed before lie in a file, by checksum."
    keys = {
        t: hashlib.sha256(t.encode()).hexdigest() for t in sorted(set(texts), key=len)
    }
    known = {}
    if cache and cache.exists():
        with np.load(cache) as held:
            known = dict(zip(held["keys"].tolist(), held["v"]))
    new = [t for t, k in keys.items() if k not in known]
    for at in range(0, len(new), 64):
        found = np.asarray(embedder.encode(new[at : at + 64]), np.float16)
        known |= {keys[t]: v for t, v in zip(new[at : at + 64], found)}
    if cache and new:
        np.savez(cache, keys=np.array(list(known)), v=np.array(list(known.values())))
    return {t: known[k].astype(np.float32) for t, k in keys.items()}


def measured(
    answers: Sequence[Scored], embedder: EmbedderLike, cache: Path | None = None
) -> dict[str, np.ndarray]:  # PARTS and "target recall" -> [answers]
    "What each measure makes of each answer."
    from rouge_score.rouge_scorer import RougeScorer

    rouge = RougeScorer(["rougeL"], use_stemmer=False)
    v = vectors_of(
        (t for a in answers for t in (a.answer, a.target) if t), embedder, cache
    )
    rows = []
    for a in answers:
        r = rouge.score(a.target, a.answer)["rougeL"]
        cosine = float(v[a.answer] @ v[a.target]) if a.answer and a.target else 0.0
        shares = support(a.answer, a.passages), support(a.target, [a.answer])
        words = (np.log(1 + len(t.split())) for t in (a.answer, a.target))
        recalled = target_recall(a.answer, a.target)
        rows.append(
            (r.fmeasure, r.recall, r.precision, *shares, cosine, *words, recalled)
        )
    return dict(zip((*PARTS, "target recall"), np.array(rows).T))
