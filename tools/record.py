"""Record the runs that the notebooks on cases and on the papers show: three conversations of the sample, every system and
some variants, by the embedded models; the runs of the papers' plans that are kept in paper/runs, among them each paper as published;
fourteen questions that somebody typed; the calls of three turns of Self-CRAG as published, which tour/00 replays; and what the laptop's
judge said of the runs.

  python tools/record.py [--minutes N] [--only NAME ...] [FOLDER]

Writes into FOLDER (default data/recorded; the typed questions and the calls into talks, the papers' runs into paper/runs beside it) what is
finished: manifest, trajectories, passages, judgements. The call records
and the predictions are left out; they are large, and the pages need neither. Work in progress lies in runs/recorded; killed
or out of time, the same command goes on there. Some hours on one core, most of them runs as published.
"""

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

from mtrag_nb.app.reproduce import PlannedRun, Reproduction
from mtrag_nb.core.files import read_jsonl, write_json, write_jsonl, write_whole
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import Settings
from mtrag_nb.core.telemetry import telemetry
from mtrag_nb.data.mtrag import (
    read_benchmark,
    read_corpus,
    read_gold,
    read_tasks,
    sample_corpus,
    sample_dir,
)
from mtrag_nb.evaluation.judge import PROTOCOLS
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
    "sample_self_crag_laptop": ("self_crag+laptop", {}),
    "sample_self_crag": ("self_crag", {}),
    "sample_naive": ("naive", {}),
    "sample_quote": ("quote", {}),
    "sample_nexus": ("nexus", {}),
    "sample_agents": ("agents", {}),
    "sample_ncl": ("ncl", {}),
    "sample_ncl_no_classification": ("ncl", {"ncl.classify": False}),
    "sample_self_crag_laptop_no_filter": (
        "self_crag+laptop",
        {"retrieval.domain_filter": False},
    ),
    "sample_self_crag_laptop_flat": ("self_crag+laptop", {"chunks.flat": True}),
    "sample_self_crag_laptop_strict": (
        "self_crag+laptop",
        {"stages.prompts": "strict"},
    ),
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
TALKS = {  # name of the run in data/talks -> changed settings of agents, questions
    "agents": ({}, ASKED),
    "agents_summary": ({"agents.summary": "model"}, ASKED[:8]),
}
WALKED = "Are dogs allowed at Ansel Ridge?"  # the first question of the conversation of tour/00
WORDING = "Does the document answer the question? Reply with one word: yes or no."
JUDGED = {  # name of a run in data/recorded -> what the laptop's judge is asked
    "sample_self_crag_laptop": PROTOCOLS,
    "sample_self_crag": ("refusal", "faithfulness", "correctness"),
    "sample_ncl": PROTOCOLS,
    "sample_ncl_no_classification": PROTOCOLS,
}
PAPER_RUNS = "paper/runs/"  # in data; of the plans, what is kept there


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
    "A conversation of TALKS, as `mtrag ask --system agents --domain clapnq` keeps it; from its beginning, where it stopped."
    if (folder / "trajectories.jsonl").exists():
        return
    changes, questions = TALKS[folder.name]
    asked = work / "ask" / folder.name
    rmtree(asked, ignore_errors=True)
    place = (
        work / "index",
        "agents",
        configure("agents", "laptop", changes),
        models,
        "clapnq",
        "none",
        asked,
    )
    talk = Talk(*place, id="a5c" + 13 * "0")
    try:
        for question in questions:
            print(talk.ask(question).answer, flush=True)
    finally:
        talk.close()
    [kept] = asked.iterdir()
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


def keep_judged(
    run: Run,
    judged: Path,
    models: Models,
    protocols: Sequence[str],
    minutes: float,
) -> bool:
    """Judge a kept run in `judged`, keep judgements and scores in its folder; whether all turns are judged.

    They lie apart from the run: this judge has no licence, and is not to mark faults in the views.
    """
    path = sample_dir() / "reference.jsonl"
    tasks, gold = read_tasks(path), read_gold(path)
    turns = {i: n for n, i in enumerate(run.trajectories)}
    tasks = [task for task in tasks if task.id in turns]
    report = judge_run(
        run,
        tasks,
        gold,
        models.settings,
        protocols=protocols,
        out=judged,
        models=models,
        minutes=minutes,
    )
    if report.pending:
        print(f"{run.folder.name}: {report.pending} turns are not judged yet")
        return False
    place = run.folder / "judged"
    keep(judged, place, ("judge.json", "judgements.jsonl"), turns)
    bert = find_encoder("minilm")
    score_run(Run(run.folder, judged=place), gold, bert=bert, idk="recorded", out=place)
    print(f"{run.folder.name}: {report!r}\n", flush=True)
    return True


def planned_runs(work: Path) -> dict[str, tuple[Reproduction, PlannedRun]]:
    "Name of a run kept in data/paper/runs -> its paper, as the laptop reproduces it over the sample, and its row of the plan."
    runs = {}
    for paper in ("self_crag", "ncl", "agents", "nexus"):
        changes = {"batch_size": "8"}
        r = Reproduction(paper, work / paper, changes=changes, where="sample")
        for planned in r.made:
            if planned.kept.startswith(PAPER_RUNS):
                runs[planned.kept.removeprefix(PAPER_RUNS)] = (r, planned)
    return runs


def main(folder: Path, minutes: float, only: Sequence[str]) -> None:
    end, work = time.monotonic() + 60 * minutes, ROOT / "runs" / "recorded"
    tasks = [
        task
        for task in read_tasks(sample_dir() / "reference.jsonl", contexts=True)
        if task.id.startswith(CONVERSATIONS)
    ]
    tasks.sort(key=lambda t: (t.conversation_id, t.turn))
    order = {t.id: n for n, t in enumerate(tasks)}
    models = Models(configure(changes={"batch_size": 4}))
    corpus = list(read_corpus(*sample_corpus()))
    places = folder.parent / "paper" / "runs"

    def left() -> float:
        return max(0.0, (end - time.monotonic()) / 60)

    def record(
        target: Path, system: str, settings: Settings, index: Path, setting: str
    ) -> bool:
        "Answer the tasks and keep the run; whether it is whole."
        name = target.name
        if setting == "rag":
            build_index(
                corpus,
                index,
                models.embedder,
                settings.chunks,
                sparse=settings.sparse,
                progress=False,
            )
        run = run_tasks(
            find_system(system),
            tasks,
            work / name,
            settings,
            index if setting == "rag" else None,
            setting,
            models=models,
            minutes=left(),
        )
        if len(run.trajectories) < len(tasks):
            done = f"{len(run.trajectories)} of {len(tasks)} turns"
            print(f"{name}: {done}; the same command goes on")
            return False
        keep(run.folder, target, KEPT, order)
        print(f"{name}\n{telemetry(run.trajectories.values())}\n", flush=True)
        return True

    def wanted(names: Iterable[str]) -> list[str]:
        return [name for name in names if not only or name in only]

    for name in wanted(VARIANTS):
        system, changes = VARIANTS[name]
        settings = configure(system, "laptop", {"batch_size": 4, **changes})
        index = work / ("index_flat" if settings.chunks.flat else "index")
        if not record(folder / name, system, settings, index, "rag"):
            return
    planned = planned_runs(work)
    for name in wanted(planned):
        r, row = planned[name]
        system, settings = r.system_of(row), r.settings(row)
        if not record(places / name, system, settings, r.index(row), r.of.setting):
            return
    for name in wanted(TALKS):
        index = work / "index"
        build_index(
            corpus, index, models.embedder, configure("agents").chunks, progress=False
        )
        record_talk(folder.parent / "talks" / name, work, models)
    if not only:
        walked = folder.parent / "talks" / "walkthrough" / "calls.jsonl"
        record_walkthrough(walked, work, models)
    for name in wanted(JUDGED):
        judged = work / f"{name}_judged"
        if not keep_judged(Run(folder / name), judged, models, JUDGED[name], left()):
            return
    for name in wanted(planned):
        r, row = planned[name]
        judged = work / f"{name}_judged"
        run = Run(places / name)
        if row.judged and not keep_judged(run, judged, models, r.of.protocols, left()):
            return


if __name__ == "__main__":
    raw = argparse.RawDescriptionHelpFormatter
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    ap.add_argument(
        "--minutes", type=float, default=1e6, help="start nothing new after so long"
    )
    ap.add_argument(
        "--only", nargs="+", default=(), metavar="NAME", help="these runs alone"
    )
    ap.add_argument("folder", nargs="?", type=Path, default=ROOT / "data" / "recorded")
    args = ap.parse_args()
    main(args.folder, args.minutes, args.only)
