"""Systems with faults planted in their stages, over the sample, by a model that knows the answers: which stage is blamed?

The model gives the target if a gold passage is in its prompt, else it declines; one first draft in three is nonsense, so that
checks have work. Each fault breaks one kind of step, whichever node of a system records it.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mtrag_nb.core.record import Checked, Drafted, Graded, Retrieved, Rewritten
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import TO_ANSWER
from mtrag_nb.data.mtrag import human_rewrites, read_corpus, read_gold, read_tasks, sample_corpus
from mtrag_nb.data.mtrag import sample_dir, with_rewrites
from mtrag_nb.evaluate.blame import ProofReport, blame
from mtrag_nb.evaluate.pairs import prove
from mtrag_nb.evaluate.scores import Evidence
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.runs.forks import Plant, planted
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems.outside import SYSTEMS, configured, system_named
from mtrag_nb.systems.stages import Labelled

NONSENSE = "Zebras graze quietly beneath purple mountains while trumpets sound."
DECLINES = "I don't know: the documents do not say."
CHANGES = {"stages.rewrite": "always", "stages.check_threshold": 0.5}
CHANGES |= {"stages.grade_threshold": 0.12}
NAMES = ["self_crag+graded", *list(SYSTEMS)[1:]]  # hashes never reach the gate of the laptop's own

sample = sample_dir() / "reference.jsonl"
every = read_tasks(sample)
gold = with_rewrites(read_gold(sample), human_rewrites([]))
tasks = every[1::2]  # the rules of blame were written while the other half was looked at


def _pieces(text: str) -> list[str]:
    "Stretches of a passage, by which it is recognised in a prompt."
    return [text[a : a + 60] for a in range(0, max(1, len(text) - 60), 200)]


def _elsewhere(n: int):
    "The next task of another conversation that has an answer."
    for u in every[n:] + every[:n]:
        if u.conversation_id != every[n].conversation_id and gold[u.id].targets:
            if gold[u.id].answerability in TO_ANSWER:
                return u


pieces = {t.id: [x for p in gold[t.id].passages for x in _pieces(p.text)] for t in every}
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


def _inverted(state, step, tools):
    kept = [g.id for g in step.grades if not g.verdict.passed]
    weights = {"weights": dict.fromkeys(kept, 1.0)} if isinstance(step, Labelled) else {}
    return {"kept": kept, **weights}  # one system looks up the weight of each


def _other_answer(state, step, tools):
    return {} if step.declined else {"draft": gold[elsewhere[state["task"].id].id].targets[0]}


def _always_yes(state, step, tools):
    return {"grounded": True}


def _always_no(state, step, tools):
    return {"grounded": False, "unsupported": state["draft"]}


FAULTS = {  # what is broken -> the stage that must be named, and how it is broken
    "another conversation's question": ("rewrite", Plant("rewrite", Rewritten, _asks_elsewhere)),
    "a retriever without gold": ("retrieve", Plant("retrieve", Retrieved, _without_gold)),
    "the grade inverted": ("grade", Plant("grade", Graded, _inverted)),
    "the check always yes": ("check", Plant("yes", Checked, _always_yes)),
    "another generator": ("generate", Plant("generate", Drafted, _other_answer)),
    "refusal always": ("generate", Plant("refuse", Drafted, lambda *_: {"declined": True})),
}
SUBTLE = {  # that a rule which reads the record is known to miss, or was not written for
    "a rewrite of one word": ("rewrite", Plant("one word", Rewritten, _one_word)),
    "the check always no": ("check", Plant("no", Checked, _always_no)),
}
PAIRS = (  # two faults at once, early and late
    ("another conversation's question", "another generator"),
    ("a retriever without gold", "another generator"),
    ("a retriever without gold", "the check always yes"),
    ("the grade inverted", "another generator"),
)


class Bench:
    "Runs of systems over the sample, whole and with faults, in a folder."

    def __init__(self, folder: Path):
        self.folder, self.embedder = folder, HashEmbedder()
        passages, chunks = list(read_corpus(*sample_corpus())), load_settings().chunks
        build_index(passages, folder / "index", self.embedder, chunks, progress=False)

    def models(self, name: str) -> Models:
        settings = configured(name, "laptop", CHANGES)
        return Models(settings, chat=ScriptedChat(knowing), embedder=self.embedder)

    def system(self, name: str, *faults: str):
        plants = [(FAULTS | SUBTLE)[f][1] for f in faults]
        return planted(system_named(name), *plants) if plants else system_named(name)

    def run(self, name: str, *faults: str, some=tasks) -> Evidence:
        "A system over some tasks, whole or with faults."
        models, system = self.models(name), self.system(name, *faults)
        folder = self.folder / "-".join([name, *faults, f"{len(some)}"]).replace(" ", "_")
        how = (models.settings, self.folder / "index")
        return Evidence(run_tasks(system, some, folder, *how, models=models, progress=False), gold)

    def prove(self, name: str, *faults: str, run: Evidence, budget: int = 10) -> ProofReport | None:
        how = {"index": self.folder / "index", "models": self.models(name), "progress": False}
        return prove(run.run, gold, budget, system=self.system(name, *faults), **how)

    def applies(self, fault: str, run: Evidence) -> bool:
        "Whether a run has steps that a fault breaks."
        return any(t.of((FAULTS | SUBTLE)[fault][1].kind) for t in run.turns.values())


class Case(NamedTuple):
    "A turn with a planted fault or two, right without them: what was planted, and what is said of it."

    system: str
    faults: tuple[str, ...]
    task: str
    talk: str
    truth: tuple[str, ...]  # the stages whose fault spoils it; (): it came right all the same
    rule: str  # the stage that the rule blames; "": none
    status: str
    proved: str  # the stage to blame by the proof
    first: str  # the stage of the first repair in the chain that helps
    repairs: int  # how many help
    forks: int


def _truth(faults: Sequence[str], task: str, alone) -> tuple[str, ...]:
    "The stages at fault in a turn that failed: those whose fault spoils it alone, else all."
    guilty = [f for f in faults if task in alone[f]] or list(faults)
    return tuple(dict.fromkeys((FAULTS | SUBTLE)[f][0] for f in guilty))


def cases(bench: Bench, names=NAMES, double: bool = True) -> Iterator[tuple[Case, Evidence]]:
    "The last turn of each conversation that a system gets right when whole, with each fault and, if wanted, with two; and the run of each."
    for name in names:
        whole = bench.run(name)
        right = {b.task_id for b in blame(whole).turns.values() if b.verdict == "right"}
        some = list({t.conversation_id: t for t in tasks if t.id in right}.values())
        single = [(f,) for f in FAULTS | SUBTLE if bench.applies(f, whole)]
        pairs = [p for p in PAIRS if all((f,) in single for f in p)]
        alone: dict[str, set[str]] = {}
        for faults in [*single, *(pairs if double else ())]:
            run = bench.run(name, *faults, some=some)
            blamed = blame(run)
            if len(faults) == 1:
                alone[faults[0]] = {b.task_id for b in blamed.failed}
            proof = bench.prove(name, *faults, run=run)
            for b in blamed.turns.values():
                failed = b.verdict == "failed"
                p = proof.proofs[b.task_id] if failed else None
                first = p.stages[p.repairs[0].split("+")[0]] if p and p.repairs else b.stage
                told = (
                    (p.status, p.stage, first, len(p.repairs), len(p.tried))
                    if p
                    else ("", "", "", 0, 0)
                )
                truth = _truth(faults, b.task_id, alone) if failed else ()
                talk = blamed.talks[b.task_id]
                yield Case(name, faults, b.task_id, talk, truth, b.stage, *told), run
