"Turns that were made by hand, of the sample's first tasks: answered, refused and broken; and their run."

from mtrag_nb.core.files import write_json, write_jsonl
from mtrag_nb.core.record import Drafted, Fault, Found, Refused, Retrieved
from mtrag_nb.core.run_folder import VERSION, Run
from tests.support.turns import new_turn
import shutil
from dataclasses import replace
from pathlib import Path

from mtrag_nb.core.files import data_dir
from mtrag_nb.core.record import Trajectory
from mtrag_nb.core.record import turn_line
from mtrag_nb.core.types import Outcome, as_context, plain
from mtrag_nb.data.mtrag import read_gold, read_tasks, sample_dir

PATH = sample_dir() / "reference.jsonl"
TASKS, GOLD = read_tasks(PATH, contexts=True)[:8], read_gold(PATH)


def turn_of(n, task):
    "The n-th turn."
    found = tuple(
        Found(p.id, p.id, p.id, 1 / k) for k, p in enumerate(task.contexts, 1)
    )
    invented = "Nobody knows, but the council has 900 members and a dragon."
    said = GOLD[task.id].targets[0] if n % 2 else invented
    end = (
        [Refused(reason="bored", role="declined")]
        if n % 3 == 2
        else [Drafted(text=said)]
    )
    broke = (
        {"error": Fault("generate", "RuntimeError", "out of memory")} if n == 7 else {}
    )
    about = {
        k: getattr(task, k) for k in ("conversation_id", "turn", "domain", "question")
    }
    search = Retrieved(hits=found, contexts=tuple(h.id for h in found))
    return new_turn(search, *(() if broke else end), task_id=task.id, **about, **broke)


def write_run(folder, turns):
    "A run folder that holds these turns."
    identity = {"system": "by hand", "setting": "reference"}
    settings = {"profile": "laptop", "chat": {}}
    entries = {"version": VERSION, "identity": identity, "settings": settings}
    write_json(folder / "manifest.json", entries)
    write_jsonl(folder / "trajectories.jsonl", map(turn_line, turns))
    passages = (plain(as_context(p)) for t in TASKS for p in t.contexts)
    write_jsonl(folder / "passages.jsonl", passages)
    return Run(folder)


def changed_run(folder: Path, turns: list[Trajectory]) -> Run:
    "Write a folder with changed turns of the recorded run `sample_naive`."
    write_jsonl(folder / "trajectories.jsonl", map(turn_line, turns))
    for name in ("manifest.json", "passages.jsonl"):
        shutil.copy(data_dir("recorded") / "sample_naive" / name, folder / name)
    return Run(folder)


def answered_run(folder: Path) -> Run:
    "Write a run: what was retrieved is real; answers are the target, a refusal and an invention, in turn."
    turns = []
    recorded = Run(data_dir("recorded") / "sample_naive")
    for n, turn in enumerate(recorded.trajectories.values()):
        if n % 3 == 0:
            turn = replace(turn, answer=GOLD[turn.task_id].targets[0])
        elif n % 3 == 1:
            refusal = {"reason": "bored", "role": "declined"}
            outcome = Outcome.I_DONT_KNOW
            turn = replace(turn, answer="I don't know.", outcome=outcome, **refusal)
        else:
            invention = "The governor keeps nine dragons at the lighthouse."
            turn = replace(turn, answer=invention)
        turns.append(turn)
    return changed_run(folder, turns)
