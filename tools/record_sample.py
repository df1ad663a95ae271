"""Record the runs that the notebooks on cases show: three conversations of the sample, two systems, real models.

  python tools/record_sample.py [FOLDER]

Writes FOLDER/sample_self_crag and FOLDER/sample_naive (default data/recorded): manifest, trajectories and passages.
The call record and the predictions are left out; they are large, and the pages need neither. About five minutes on
one core.
"""
import sys
import tempfile
from pathlib import Path

from mtrag_nb.calls import Models
from mtrag_nb.core import load_settings
from mtrag_nb.data import read_corpus, read_tasks, sample_corpus, sample_dir
from mtrag_nb.graph import NAIVE, SELF_CRAG
from mtrag_nb.index import build_index
from mtrag_nb.runs import run_tasks, telemetry

ROOT = Path(__file__).resolve().parents[1]
CONVERSATIONS = ("a647d2ed", "a6e3eb1d", "ee5c26c9")  # an upgrade, two observatories, a football league
KEPT = ("manifest.json", "trajectories.jsonl", "passages.jsonl")


def main(folder: Path) -> None:
    settings = load_settings("laptop", {"batch_size": 4})
    models = Models(settings)
    tasks = sorted((t for t in read_tasks(sample_dir() / "reference.jsonl") if t.id.startswith(CONVERSATIONS)), key=lambda t: (t.conversation_id, t.turn))
    with tempfile.TemporaryDirectory() as scratch:
        build_index(list(read_corpus(*sample_corpus())), f"{scratch}/index", models.embedder, settings.chunks, progress=False)
        for system in (SELF_CRAG, NAIVE):
            run = run_tasks(system, tasks, Path(scratch) / system.name, settings, f"{scratch}/index", models=models)
            turns = run.trajectories
            target = folder / f"sample_{system.name}"
            target.mkdir(parents=True, exist_ok=True)
            for name in KEPT: (target / name).write_bytes((run.folder / name).read_bytes())
            order = {t.id: n for n, t in enumerate(tasks)}  # turns finish in the order of the machine; the file has that of the tasks
            lines = (target / "trajectories.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
            lines.sort(key=lambda line: next(n for i, n in order.items() if f'"task_id": "{i}"' in line))
            (target / "trajectories.jsonl").write_text("".join(lines), encoding="utf-8")
            size = sum((target / name).stat().st_size for name in KEPT)
            print(f"{target}: {len(turns)} turns, {size // 1000} kB\n{telemetry(turns.values())}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "data" / "recorded")
