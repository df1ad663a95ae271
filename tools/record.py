"""Record the runs that the notebooks on cases and on the papers show: three conversations of the sample, every system and
some variants, by the embedded models; fourteen questions that somebody typed; the calls of three turns of Self-CRAG as published,
which tour/00 replays; and what the laptop's judge said of the runs.

  python tools/record.py [--minutes N] [FOLDER]

Writes into FOLDER (default data/recorded; the typed questions and the calls into talks, the ablations into paper/runs beside it) what is finished: manifest,
trajectories, passages, judgements. The call records
and the predictions are left out; they are large, and the pages need neither. Work in progress lies in runs/recorded; killed
or out of time, the same command goes on there. About an hour on one core, most of it judging.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

from mtrag_nb.core.files import read_jsonl, write_json, write_jsonl, write_whole
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.telemetry import telemetry
from mtrag_nb.data.mtrag import (
    read_benchmark,
    read_corpus,
    read_gold,
    read_tasks,
    sample_corpus,
    sample_dir,
)
from mtrag_nb.evaluation.judged_runs import judge_run
from mtrag_nb.evaluation.scores import score_run
from mtrag_nb.models.calls import Models, RecordedChat
from mtrag_nb.models.embed import find_encoder
from mtrag_nb.runs.run import Dialogue, load_toolbox, run_tasks
from mtrag_nb.search.ingest import build_index
from mtrag_nb.serve.serve import Talk
from mtrag_nb.systems.outside import configure, find_system

ROOT = Path(__file__).resolve().parents[1]
# an upgrade, two observatories, a football league
CONVERSATIONS = ("a647d2ed", "a6e3eb1d", "ee5c26c9")
KEPT = ("manifest.json", "trajectories.jsonl", "passages.jsonl")
VARIANTS = {  # name of the run -> system, changed settings
    "sample_self_crag": ("self_crag+laptop", {}),
    "sample_self_crag_graded": ("self_crag+graded", {}),
    "sample_naive": ("naive", {}),
    "sample_quote": ("quote", {}),
    "sample_nexus": ("nexus", {}),
    "sample_agents": ("agents", {}),
    "sample_ncl": ("ncl", {}),
    "sample_ncl_no_classification": ("ncl", {"ncl.classify": False}),
    "sample_self_crag_no_filter": (
        "self_crag+laptop",
        {"retrieval.domain_filter": False},
    ),
    "sample_self_crag_flat": ("self_crag+laptop", {"chunks.flat": True}),
    "sample_self_crag_strict": ("self_crag+laptop", {"stages.prompts": "strict"}),
}
ABLATIONS = {  # of the papers' tables, in data/paper/runs: where the changed setting is felt
    "graded_no_filter": ("self_crag+graded", {"retrieval.domain_filter": False}),
    "graded_flat": ("self_crag+graded", {"chunks.flat": True}),
    "published": ("self_crag+published", {}),
    "published_strict": ("self_crag+published", {"stages.prompts": "published-strict"}),
}
ASKED = (  # of agents, by `mtrag ask`: long enough that most of it lies in the summary
    "who won the coast league in 2021",
    "And the year after?",
    "And the top scorer that season?",
    "ferry point",
    "Does the inland league have it too?",
    "How much prize money does the champion get?",
    "Can I look through the telescope at the observatory?",
    "Mount Ilver",
    "and for students?",
    "My daughter is 10. Could she come along, or is the other one better for her?",
    "Which has the bigger telescope?",
    "How do I get to Little Quill Island?",
    "And with a dog?",
    "Back to football: how was that bonus point called again?",
)
WALKED = "Are dogs allowed at Ansel Ridge?"  # the first question of the conversation of tour/00
WORDING = "Does the document answer the question? Reply with one word: yes or no."
JUDGED = ("sample_self_crag", "sample_ncl", "sample_ncl_no_classification")


def keep(source: Path, target: Path, names, order) -> None:
    "Copy files: lines of tasks in the order of the tasks (turns finish in the order of the machine), the manifest without the dates."
    for name in names:
        text = (source / name).read_text(encoding="utf-8")
        text = text.replace(f"{ROOT}/", "")  # of the trace of a fault
        if name in ("trajectories.jsonl", "judgements.jsonl"):
            lines = text.splitlines(keepends=True)
            lines.sort(key=lambda line: order[json.loads(line)["task_id"]])
            write_whole(target / name, lines)
        elif name == "manifest.json":
            manifest = json.loads(text)
            for session in manifest["sessions"]:
                session.pop("started", None)
            write_json(target / name, manifest)
        else:
            write_whole(target / name, text)


def record_talk(folder: Path, work: Path, models: Models) -> None:
    "The conversation of ASKED, as `mtrag ask --system agents --domain clapnq` keeps it; from its beginning, where it stopped."
    if (folder / "trajectories.jsonl").exists():
        return
    rmtree(work / "ask", ignore_errors=True)
    place = (
        work / "index",
        "agents",
        configure("agents"),
        models,
        "clapnq",
        "none",
        work / "ask",
    )
    talk = Talk(*place, id="a5c" + 13 * "0")
    try:
        for question in ASKED:
            print(talk.ask(question).answer, flush=True)
    finally:
        talk.close()
    [kept] = (work / "ask").iterdir()
    turns = {i: t.turn for i, t in Run(kept).trajectories.items()}
    keep(kept, folder, (*KEPT, "tasks.jsonl"), turns)


def record_walkthrough(path: Path, work: Path, models: Models) -> None:
    "The model's calls in the turns of tour/00 that are answered as published, and of one under another grader prompt."
    if path.exists():
        return
    system, index = find_system("self_crag+published"), work / "index_govt"
    passages = list(read_corpus(*sample_corpus(), domains=["govt"]))
    build_index(passages, index, models.embedder, configure().chunks, progress=False)
    talks = read_benchmark(sample_dir() / "reference.jsonl").conversations.values()
    asked = next(tasks for tasks in talks if tasks[0].question == WALKED)
    part = work / "walkthrough.jsonl"
    recorded = RecordedChat(models.chat, part)
    reworded = {"prompts.grade.system": WORDING}
    for changes, tasks in (({}, (*asked[:2], asked[-1])), (reworded, asked[:1])):
        tools = load_toolbox(
            system.configure("laptop", changes), models, index, (), "rag"
        )
        talk = Dialogue(system, replace(tools, chat=recorded), domain="govt")
        for task in tasks:
            print(talk.ask(task.question).outcome, flush=True)
    recorded.close()
    # A reply that cannot be used is revoked in a run's record, to be asked for anew. Here it stays: it is what is shown.
    kept = [line for _, line in read_jsonl(part) if line["value"]]
    write_jsonl(path, ({**x, "value": {**x["value"], "seconds": 0.0}} for x in kept))


def main(folder: Path, minutes: float) -> None:
    end, work = time.monotonic() + 60 * minutes, ROOT / "runs" / "recorded"
    path = sample_dir() / "reference.jsonl"
    tasks = [t for t in read_tasks(path) if t.id.startswith(CONVERSATIONS)]
    tasks.sort(key=lambda t: (t.conversation_id, t.turn))
    order = {t.id: n for n, t in enumerate(tasks)}
    gold, models = read_gold(path), Models(configure(changes={"batch_size": 4}))

    def left() -> float:
        return max(0.0, (end - time.monotonic()) / 60)

    for name, (system, changes) in {**VARIANTS, **ABLATIONS}.items():
        place = folder if name in VARIANTS else folder.parent / "paper" / "runs"
        # As published a turn asks the small model a dozen times, to little avail: one conversation.
        some = [
            t
            for t in tasks
            if "published" not in name or t.id.startswith(CONVERSATIONS[0])
        ]
        settings = configure(system, "laptop", {"batch_size": 4, **changes})
        index = work / ("index_flat" if settings.chunks.flat else "index")
        corpus = list(read_corpus(*sample_corpus()))
        build_index(corpus, index, models.embedder, settings.chunks, progress=False)
        how = {"models": models, "minutes": left()}
        run = run_tasks(find_system(system), some, work / name, settings, index, **how)
        if len(run.trajectories) < len(some):
            done = f"{len(run.trajectories)} of {len(some)} turns"
            return print(f"{name}: {done}; the same command goes on")
        keep(run.folder, place / name, KEPT, order)
        print(f"{name}\n{telemetry(run.trajectories.values())}\n", flush=True)
    record_talk(folder.parent / "talks" / "agents", work, models)
    walked = folder.parent / "talks" / "walkthrough" / "calls.jsonl"
    record_walkthrough(walked, work, models)
    for name in JUDGED:
        judged = work / f"{name}_judged"
        how = {"out": judged, "models": models, "minutes": left()}
        report = judge_run(Run(folder / name), tasks, gold, models.settings, **how)
        if report.pending:
            pending = f"{report.pending} turns are not judged yet"
            return print(f"{name}: {pending}; the same command goes on")
        # Apart from the run: this judge has no licence, and is not to mark faults in the views.
        keep(
            judged, folder / name / "judged", ("judge.json", "judgements.jsonl"), order
        )
        run = Run(folder / name, judged=folder / name / "judged")
        bert = find_encoder("minilm")
        score_run(run, gold, bert=bert, idk="recorded", out=folder / name / "judged")
        print(f"{report!r}\n", flush=True)


if __name__ == "__main__":
    raw = argparse.RawDescriptionHelpFormatter
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    ap.add_argument(
        "--minutes", type=float, default=1e6, help="start nothing new after so long"
    )
    ap.add_argument("folder", nargs="?", type=Path, default=ROOT / "data" / "recorded")
    args = ap.parse_args()
    main(args.folder, args.minutes)
