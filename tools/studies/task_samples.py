"""Tasks drawn from a reference file once, into the folder of the runs, which git ignores: the lines are the benchmark's."""

from __future__ import annotations

import random
from pathlib import Path

from mtrag_nb.core.files import read_jsonl, write_jsonl


def sample_file(
    path: Path,  # a reference file
    out: Path,
    n: int,
    seed: int = 0,
) -> Path:
    "A task file of `n` lines drawn at random, in the order of the original; what is there is left as it is."
    if not out.exists():
        found = [o for _, o in read_jsonl(path)]
        write_jsonl(
            out,
            [
                found[i]
                for i in sorted(
                    random.Random(seed).sample(range(len(found)), min(n, len(found)))
                )
            ],
        )
    return out
