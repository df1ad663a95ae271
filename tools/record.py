"""Record the runs that the notebooks on cases and on the papers show: three conversations of the sample, every system and
some variants, by the embedded models; and what the laptop's judge said of them.

  python tools/record.py [--minutes N] [FOLDER]

Writes into FOLDER (default data/recorded) what is finished: manifest, trajectories, passages, judgements. The call records
and the predictions are left out; they are large, and the pages need neither. Work in progress lies in runs/recorded; killed
or out of time, the same command goes on there. About an hour on one core, most of it judging.
"""
import argparse
import json
import time
from pathlib import Path

from mtrag_nb.calls import Models
from mtrag_nb.core import load_settings, with_settings
from mtrag_nb.data import read_corpus, read_gold, read_tasks, sample_corpus, sample_dir
from mtrag_nb.graph import NAIVE, SELF_CRAG
from mtrag_nb.index import build_index
from mtrag_nb.judge import judge_run
from mtrag_nb.ncl import NCL
from mtrag_nb.runs import Run, run_tasks, telemetry

ROOT = Path(__file__).resolve().parents[1]
CONVERSATIONS = ("a647d2ed", "a6e3eb1d", "ee5c26c9")  # an upgrade, two observatories, a football league
KEPT = ("manifest.json", "trajectories.jsonl", "passages.jsonl")
VARIANTS = {  # name of the run -> system, changed settings
    "sample_self_crag": (SELF_CRAG, {}), "sample_naive": (NAIVE, {}), "sample_ncl": (NCL, {}), "sample_ncl_no_classification": (NCL, {"ncl.classify": False}),
    "sample_self_crag_no_filter": (SELF_CRAG, {"retrieval.domain_filter": False}), "sample_self_crag_flat": (SELF_CRAG, {"chunks.flat": True}),
    "sample_self_crag_strict": (SELF_CRAG, {"stages.prompts": "strict"})}
JUDGED = ("sample_self_crag", "sample_ncl", "sample_ncl_no_classification")


def keep(source: Path, target: Path, names, order) -> None:
    "Copy files: the lines that belong to a task in the order of the tasks (turns finish in the order of the machine), the manifest without the dates."
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        text = (source / name).read_text(encoding="utf-8")
        if name in ("trajectories.jsonl", "judgements.jsonl"):
            text = "".join(sorted(text.splitlines(keepends=True), key=lambda line: order[json.loads(line)["task_id"]]))
        if name == "manifest.json":
            told = json.loads(text)
            for session in told["sessions"]:
                session.pop("started", None)
            text = json.dumps(told, indent=1) + "\n"
        (target / name).write_text(text, encoding="utf-8")


def main(folder: Path, minutes: float) -> None:
    end, work, settings = time.monotonic() + 60 * minutes, ROOT / "runs" / "recorded", load_settings("laptop", {"batch_size": 4})
    left = lambda: max(0.0, (end - time.monotonic()) / 60)
    path = sample_dir() / "reference.jsonl"
    tasks, gold, models = sorted((t for t in read_tasks(path) if t.id.startswith(CONVERSATIONS)), key=lambda t: (t.conversation_id, t.turn)), read_gold(path), Models(settings)
    order = {t.id: n for n, t in enumerate(tasks)}
    for name, (system, changes) in VARIANTS.items():
        own = with_settings(settings, changes)
        index = work / ("index_flat" if own.chunks.flat else "index")
        build_index(list(read_corpus(*sample_corpus())), index, models.embedder, own.chunks, progress=False)
        run = run_tasks(system, tasks, work / name, own, index, models=models, minutes=left())
        if len(run.trajectories) < len(tasks): return print(f"{name}: {len(run.trajectories)} of {len(tasks)} turns; the same command goes on")
        keep(run.folder, folder / name, KEPT, order)
        print(f"{name}\n{telemetry(run.trajectories.values())}\n", flush=True)
    for name in JUDGED:
        report = judge_run(Run(folder / name), tasks, gold, settings, out=work / f"{name}_judged", models=models, minutes=left())
        if report.pending: return print(f"{name}: {report.pending} turns are not judged yet; the same command goes on")
        keep(work / f"{name}_judged", folder / name / "judged", ("judge.json", "judgements.jsonl"), order)  # apart: this judge has no licence, and is not to mark faults in the views
        print(f"{report!r}\n", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--minutes", type=float, default=1e6, help="start nothing new after so long")
    ap.add_argument("folder", nargs="?", type=Path, default=ROOT / "data" / "recorded")
    args = ap.parse_args()
    main(args.folder, args.minutes)
