"""How many turns a minute 1, 2 and 4 processes answer on this machine, each a shard of the same run with the laptop's model, and whether
the merged predictions are the same: `python -m tests.programs.shards [TURNS]`. A process's start, in which it loads the model, counts."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mtrag_nb.data.mtrag import sample_dir
from mtrag_nb.runs.shards import merge_runs

RUN = "import sys; from mtrag_nb.app.cli import main; sys.exit(main(sys.argv[1:]))"
HOW = "--system naive --setting reference --set stages.max_new_tokens=24".split()


def spread(n: int, turns: int, place: Path) -> tuple[float, bytes]:
    "The seconds of n processes, and the predictions."
    parts = [place / f"{i}-of-{n}" for i in range(1, n + 1)]
    tasks = str(sample_dir() / "reference.jsonl")
    start = time.monotonic()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, "run", "--tasks", tasks, "--out", str(part)]
            + [*HOW, "--limit", str(turns), "--shard", f"{i}/{n}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for i, part in enumerate(parts, 1)
    ]
    if any([p.wait() for p in running]):
        sys.exit("a process failed")
    seconds = time.monotonic() - start
    return seconds, (
        merge_runs(parts, place / f"merged-{n}") / "predictions.jsonl"
    ).read_bytes()


def main() -> None:
    turns = int(sys.argv[1]) if sys.argv[1:] else 16
    with tempfile.TemporaryDirectory() as folder:
        first = b""
        for n in (1, 2, 4):
            seconds, predictions = spread(n, turns, Path(folder))
            first = predictions if n == 1 else first
            same = "byte-equal" if predictions == first else "DIFFERENT"
            print(
                f"{n} processes: {60 * turns / seconds:.1f} turns a minute, {same}",
                flush=True,
            )


if __name__ == "__main__":
    main()
