"""The benchmark's own files, for studies: where they are, a pool of passages drawn from its corpora, and what `make study NAME=calibrate`
and `make study NAME=licence` do with them."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from mtrag_nb.app.measure import calibrate
from mtrag_nb.core.files import make_folder, write_whole
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import DataError, Passage, digest
from mtrag_nb.data.mtrag import read_corpus, read_qrels
from mtrag_nb.data.official import official_dir, official_files
from mtrag_nb.evaluation.calibrate import Calibration, measure_all, find_rated_file
from mtrag_nb.models.calls import Models, RecordedChat, load_chat


def real_data(wanted: str) -> Path:
    "The folder of the benchmark's own files that MTRAG_DATA names. Raises DataError, with what must lie in it, if it names none."
    if not os.environ.get("MTRAG_DATA"):
        raise DataError(
            "MTRAG_DATA is not set", remedy=f"Set it to a folder with {wanted}"
        )
    return Path(os.environ["MTRAG_DATA"])


POOL = "passages.jsonl.gz"
# of the pool that the studies of retrieval were made with
_POOL_SIZES = {"clapnq": 12647, "cloud": 13408, "fiqa": 15901, "govt": 1649}


def slice_of(
    passages: Iterable[Passage],
    gold: Collection[str],  # ids of passages that have to be in it
    n: int
    | Mapping[
        str, int
    ] = 1649,  # passages of each domain; 1649: the smallest of the pool
    seed: int = 0,
) -> list[Passage]:
    "A corpus that is indexed in minutes: all gold, and others at random, up to so many of each domain."
    rng, found, out = random.Random(seed), {}, []
    for p in passages:
        found.setdefault(p.domain, []).append(p)
    for domain, some in sorted(found.items()):
        known, others = (
            [p for p in some if p.id in gold],
            [p for p in some if p.id not in gold],
        )
        free = (n if isinstance(n, int) else n[domain]) - len(known)
        out += known + rng.sample(others, max(0, min(len(others), free)))
    return out


def make_pool(
    root: str
    | Path
    | None = None,  # of official files and corpora; None: as `official_dir` has it
    sizes: Mapping[str, int] = _POOL_SIZES,
    seed: int = 0,
) -> str:  # checksum of its lines; of the same corpora, sizes and seed always the same
    "Draw a pool from the benchmark's corpora, with the gold of both sets in it, and put it among its files."
    root = Path(root or official_dir("a pool of passages"))
    names = ("mtrag-human", "mtragun-human")
    files = [f for name in names for f in official_files(root, f"{name}/qrels")]
    gold = {p for f in files for of in read_qrels(f).values() for p in of}
    drawn = slice_of(read_corpus(*official_files(root, "corpora")), gold, sizes, seed)
    fields = ("id", "domain", "title", "url", "text")
    lines = [{k: getattr(p, k) for k in fields} for p in drawn]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_whole(root / POOL, gzip.compress(text.encode(), mtime=0))
    return digest(lines)


def pool_file(root: Path) -> Path:
    "The pool among the benchmark's files. Raises DataError if none was made."
    if not (root / POOL).is_file():
        draw = 'python -c "from tools.real_data import make_pool; print(make_pool())"'
        remedy = f"Fetch the corpora (`mtrag fetch data`), and draw one: {draw}"
        raise DataError("there is no pool of passages", root / POOL, remedy=remedy)
    return root / POOL


def calibrate_laptop(
    out: str | Path = "data/measured/calibration.json",
    n: int = 100,  # tasks to draw pairs from, and rated answers for the ways that ask a model
    calls: str
    | Path = "runs/calibration/calls.jsonl",  # the record of the chat model's calls
) -> Calibration:
    "Calibrate the laptop's models on real data, print it, write it down. Two CPU hours; goes on where it stopped."
    real_data(
        "mtrag-human/reference.jsonl, what ELSER retrieved for it, and the rated answers"
    )
    settings, record = (
        load_settings(),
        make_folder(Path(calls).parent) / Path(calls).name,
    )
    models = Models(settings, chat=RecordedChat(load_chat(settings.chat), record))
    return calibrate(out=out, limit=n, settings=settings, models=models)


def license_laptop(profile: str = "laptop", **how) -> None:
    "What `make study NAME=licence` does: measure on real data, print it, write it down."
    data = real_data("mtrag-human and its rated answers")
    print(measure_all(find_rated_file(data), settings=load_settings(profile), **how))
