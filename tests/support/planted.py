"""Systems with faults planted in their stages, over the sample, by a model that knows the answers: which stage is blamed?

The model gives the target if a gold passage is in its prompt, else it declines; one first draft in three is nonsense, so that
checks have work. Each fault breaks one kind of step, whichever node of a system records it.
"""

import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from mtrag_nb.core.record import (
    Checked,
    Drafted,
    Gated,
    Graded,
    Ranked,
    Retrieved,
    Rewritten,
)
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import TO_ANSWER
from mtrag_nb.data.mtrag import (
    read_corpus,
    read_gold,
    read_tasks,
    sample_corpus,
    sample_dir,
    with_rewrites,
)
from mtrag_nb.data.official import human_rewrites
from mtrag_nb.evaluation.proof import ProofReport
from mtrag_nb.evaluation.proof import prove
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder
from tests.support.planting import Plant, planted
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems.outside import SYSTEMS, configure, find_system
from mtrag_nb.systems.stages import Labelled

NONSENSE = "Zebras graze quietly beneath purple mountains while trumpets sound."
DECLINES = "I don't know: the documents do not say."
CHANGES = {"stages.rewrite": "always", "stages.check_threshold": 0.5}
CHANGES |= {"stages.grade_threshold": 0.12}
NAMES = [
    "self_crag",
    *list(SYSTEMS)[1:],
]  # hashes never reach the gate of the laptop's own

sample = sample_dir() / "reference.jsonl"
every = read_tasks(sample)
gold = with_rewrites(read_gold(sample), human_rewrites([]))
tasks = every[
    1::2
]  # the rules of blame were written while the other half was looked at


def _pieces(text: str) -> list[str]:
    "Stretches of a passage, by which it is recognised in a prompt."
    return [text[a : a + 60] for a in range(0, max(1, len(text) - 60), 200)]


def _elsewhere(n: int):
    "The next task of another conversation that has an answer."
    for u in every[n:] + every[:n]:
        if u.conversation_id != every[n].conversation_id and gold[u.id].targets:
            if gold[u.id].answerability in TO_ANSWER:
                return u


pieces = {
    t.id: [x for p in gold[t.id].passages for x in _pieces(p.text)] for t in every
}
elsewhere = {t.id: _elsewhere(n) for n, t in enumerate(every)}


def asked(task, said: str) -> bool:
    "Whether a prompt asks the question of a task, or people's rewrite of it."
    return any(q and q in said for q in (task.question, gold[task.id].rewrite))


def knowing(prompt) -> str:
    "The target, where gold lies before it; else a refusal."
    said = "\n".join(text for _, text in prompt.messages)
    if "Documents:" not in said and "Document 1" not in said:
        return first_sentence(prompt)
    here = [t for t in every if asked(t, said) and any(x in said for x in pieces[t.id])]
    if not here:
        return DECLINES
    t = max(here, key=lambda t: len(t.question))
    nonsense = zlib.crc32(t.id.encode()) % 3 == 0 and "Zebras" not in said
    return NONSENSE if nonsense else gold[t.id].targets[0]


def _asks_elsewhere(state, step, tools):
    return {"query": elsewhere[state["task"].id].question}


def _one_word(state, step, tools):
    "The longest word of the question is all that is searched for."
    return {"query": max(re.findall(r"\w+", state["task"].question), key=len)}


def _without_gold(state, step, tools):
    hidden = {p.id for p in gold[state["task"].id].passages}
    found = tools.retriever.contexts(state["found"])
    return {"found": [c.id for c in found if c.document_id not in hidden]}


def _elsewhere_without_gold(state, step, tools):
    "The search for another conversation's question lacks the gold of this one, in whatever index."
    asks_elsewhere = state.get("query") == elsewhere[state["task"].id].question
    return _without_gold(state, step, tools) if asks_elsewhere else {}


def _inverted(state, step, tools):
    kept = [g.id for g in step.grades if not g.verdict.passed]
    weights = (
        {"weights": dict.fromkeys(kept, 1.0)} if isinstance(step, Labelled) else {}
    )
    return {"kept": kept, **weights}  # one system looks up the weight of each


def _other_answer(state, step, tools):
    return (
        {}
        if step.declined
        else {"draft": gold[elsewhere[state["task"].id].id].targets[0]}
    )


def _always_yes(state, step, tools):
    return {"grounded": True}


def _always_no(state, step, tools):
    return {"grounded": False, "unsupported": state["draft"]}


def _kept(ids: Sequence[str], step) -> dict[str, object]:
    "What a grade or rerank that keeps these passages leaves in the state."
    if isinstance(step, Labelled):  # one system looks up the weight of each
        return {"kept": list(ids), "weights": dict.fromkeys(ids, 1.0)}
    return {"kept": list(ids)}


def _best_lost(state, step, tools):
    return {"found": list(state["found"])[1:]}


def _reversed(state, step, tools):
    return {"found": list(reversed(state["found"]))}


def _two_others(state, step, tools):
    "The first two passages that are not gold."
    return _kept(_without_gold(state, step, tools)["found"][:2], step)


def _only_the_last(state, step, tools):
    return _kept(list(state["kept"])[-1:], step)


def _all_kept(state, step, tools):
    return _kept([grade.id for grade in step.grades], step)


def _closed(state, step, tools):
    return {"answerable": False}  # the key of the one system that has a gate


def _other_number(state, step, tools):
    "Each number of the draft is one larger; a draft without numbers stays."
    draft = re.sub(r"\d+", lambda found: str(int(found[0]) + 1), state["draft"])
    return {} if step.declined or draft == state["draft"] else {"draft": draft}


FAULTS = {  # what is broken -> the stage that must be named, and how it is broken
    "another conversation's question": (
        "rewrite",
        Plant("rewrite", Rewritten, _asks_elsewhere),
        Plant("search elsewhere", Retrieved, _elsewhere_without_gold),
    ),
    "a retriever without gold": (
        "retrieve",
        Plant("retrieve", Retrieved, _without_gold),
    ),
    "the grade inverted": ("grade", Plant("grade", Graded, _inverted)),
    "the check always yes": ("check", Plant("yes", Checked, _always_yes)),
    "another generator": ("generate", Plant("generate", Drafted, _other_answer)),
    "refusal always": (
        "generate",
        Plant("refuse", Drafted, lambda *_: {"declined": True}),
    ),
}
SUBTLE = {  # that a rule which reads the record is known to miss, or was not written for
    "a rewrite of one word": ("rewrite", Plant("one word", Rewritten, _one_word)),
    "the best passage lost": ("retrieve", Plant("best lost", Retrieved, _best_lost)),
    "the passages reversed": ("retrieve", Plant("reversed", Retrieved, _reversed)),
    "a rerank of two without gold": ("rerank", Plant("two", Ranked, _two_others)),
    "a grade that keeps the last": ("grade", Plant("last", Graded, _only_the_last)),
    "a grade that keeps all": ("grade", Plant("all", Graded, _all_kept)),
    "the gate always closed": ("gate", Plant("closed", Gated, _closed)),
    "a number changed": ("generate", Plant("number", Drafted, _other_number)),
    "the check always no": ("check", Plant("no", Checked, _always_no)),
}
PAIRS = (  # two faults at once, early and late
    ("another conversation's question", "another generator"),
    ("a retriever without gold", "another generator"),
    ("a retriever without gold", "the check always yes"),
    ("the grade inverted", "another generator"),
    ("a rewrite of one word", "a number changed"),
    ("the best passage lost", "another generator"),
    ("the best passage lost", "a grade that keeps the last"),
    ("a grade that keeps the last", "a number changed"),
    ("a rerank of two without gold", "another generator"),
    ("a number changed", "the check always yes"),
    ("another generator", "the check always no"),
)


class Bench:
    "Runs of systems over the sample, whole and with faults, in a folder."

    def __init__(self, folder: Path):
        self.folder, self.embedder = folder, HashEmbedder()
        passages, chunks = list(read_corpus(*sample_corpus())), load_settings().chunks
        build_index(passages, folder / "index", self.embedder, chunks, progress=False)

    def models(self, name: str) -> Models:
        settings = configure(name, "laptop", CHANGES)
        return Models(settings, chat=ScriptedChat(knowing), embedder=self.embedder)

    def system(self, name: str, *faults: str):
        plants = [plant for f in faults for plant in (FAULTS | SUBTLE)[f][1:]]
        return planted(find_system(name), *plants) if plants else find_system(name)

    def run(self, name: str, *faults: str, some=tasks) -> Evidence:
        "A system over some tasks, whole or with faults."
        models, system = self.models(name), self.system(name, *faults)
        folder = self.folder / "-".join([name, *faults, f"{len(some)}"]).replace(
            " ", "_"
        )
        how = (models.settings, self.folder / "index")
        return Evidence(
            run_tasks(system, some, folder, *how, models=models, progress=False), gold
        )

    def prove(
        self,
        name: str,
        *faults: str,
        run: Evidence,
        budget: int = 10,
        repeats: int = 0,
    ) -> ProofReport | None:
        return prove(
            run.run,
            gold,
            budget,
            index=self.folder / "index",
            models=self.models(name),
            system=self.system(name, *faults),
            progress=False,
            repeats=repeats,
        )

    def applies(self, fault: str, run: Evidence) -> bool:
        "Whether a run has steps that a fault breaks."
        return any(t.of((FAULTS | SUBTLE)[fault][1].kind) for t in run.turns.values())
