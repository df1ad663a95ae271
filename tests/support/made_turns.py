"Turns that were made by hand, of the sample's first tasks: answered, refused and broken; and their run."

from mtrag_nb.core.files import write_json, write_jsonl
from mtrag_nb.core.record import VERSION, Drafted, Fault, Found, Refused, Retrieved, Run, new_turn
from mtrag_nb.core.record import turn_line
from mtrag_nb.core.types import as_context, plain
from mtrag_nb.data.mtrag import read_gold, read_tasks, sample_dir

PATH = sample_dir() / "reference.jsonl"
TASKS, GOLD = read_tasks(PATH, contexts=True)[:8], read_gold(PATH)


def turn_of(n, task):
    "The n-th turn."
    found = tuple(Found(p.id, p.id, p.id, 1 / k) for k, p in enumerate(task.contexts, 1))
    invented = "Nobody knows, but the council has 900 members and a dragon."
    said = GOLD[task.id].targets[0] if n % 2 else invented
    end = [Refused(reason="bored", role="declined")] if n % 3 == 2 else [Drafted(text=said)]
    broke = {"error": Fault("generate", "RuntimeError", "out of memory")} if n == 7 else {}
    about = {k: getattr(task, k) for k in ("conversation_id", "turn", "domain", "question")}
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
