"""Measure a study again, and what several studies share.

  python tools/study.py NAME     run the notebook of nbs/9_studies that measures NAME, into data/measured
  python tools/study.py          the names

The notebook's other cells read what was kept; `make notebooks NB=...` then renews what they show.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

from mtrag_nb.core.files import data_dir, read_json
from mtrag_nb.core.html import show
from mtrag_nb.core.record import Calls, Run
from mtrag_nb.core.types import DataError, Gold
from mtrag_nb.data.mtrag import FETCHED, fetch_data, fetch_file, official_dir
from mtrag_nb.evaluate.scores import ScoreReport, compare_runs, score_run
from mtrag_nb.evaluate.statistics import holm
from mtrag_nb.models.embed import BertScorer
from mtrag_nb.systems.system import System

SCORES = ("rb_agg_conditioned", "RougeL", "K-precision")


def kept_in(name: str) -> dict:
    "A file of data/measured."
    return read_json(data_dir("measured") / f"{name}.json")


def mean_cost(run: Run) -> dict[str, float]:
    "Model calls, tokens read and written, and seconds of the model: means over turns. A replayed call counts as when it was made."
    calls = [t.calls for t in run.trajectories.values()]
    total, n = sum(calls, Calls()), max(1, len(calls))
    cost = {"calls": total.n, "tokens_in": total.tokens_in, "tokens_out": total.tokens_out}
    return {k: round(v / n, 2) for k, v in {**cost, "seconds": total.seconds}.items()}


def compared(
    runs: Mapping[str, Run],  # the first is the one that the others are paired with
    gold: Mapping[str, Gold],
    bert: BertScorer,
    reports: Mapping[str, ScoreReport] | None = None,  # where they are known; None: computed now
) -> dict:  # plain data
    "Means with intervals, outcomes, costs; every run paired with the first, by task, clustered by conversation."
    reports, rows = reports or {name: score_run(r, gold, bert=bert) for name, r in runs.items()}, {}
    for name, r in runs.items():
        turns, intervals = r.trajectories.values(), {m: reports[name].interval(m) for m in SCORES}
        rows[name] = {
            **{m: dict(mean=i.value, low=i.low, high=i.high, n=i.n) for m, i in intervals.items()},
            "cost": mean_cost(r),
            "outcomes": Counter(t.outcome.value for t in turns),
            "reasons": Counter(t.reason for t in turns if t.refused),
            "circular": sorted(reports[name].circular),
        }
    first, several = next(iter(runs)), len(runs) > 1
    scored = list(reports.values())
    found = {m: compare_runs(scored, m, against=first).pairs for m in SCORES if several}
    pairs = [{"measure": m, **asdict(p)} for m, some in found.items() for p in some]
    talks = {t: c for r in reports.values() for t, c in r.talks.items()}
    about = {"tasks": len(talks), "conversations": len(set(talks.values()))}
    return {**about, "bert": bert.fingerprint, "rows": rows, "pairs": pairs}


Table = tuple[list[str], list[list]]  # header and rows, for text_table and html_table


def _span(value: float | None, low: float | None, high: float | None, sign: str = "") -> str:
    if value is None:
        return "–"
    ends = f" [{low:{sign}.3f}, {high:{sign}.3f}]" if low is not None else ""
    return f"{value:{sign}.3f}{ends}"


def score_table(part: Mapping) -> Table:
    "A line a run: scores with 95 % intervals."

    def inside(r, m):
        return " (circular)" if m in r.get("circular", ()) else ""

    def cell(r, m):
        return _span(r[m]["mean"], r[m]["low"], r[m]["high"]) + inside(r, m)

    return ["", *SCORES], [[v, *(cell(r, m) for m in SCORES)] for v, r in part["rows"].items()]


def cost_table(part: Mapping) -> Table:
    "A line a run: refusals, and the mean cost of a turn."
    head = {"calls": "calls a turn", "tokens_in": "tokens in", "tokens_out": "tokens out"}
    head |= {"seconds": "seconds"}
    rows = []
    for v, r in part["rows"].items():
        costs = (f"{r['cost'][c]:.1f}" for c in head)
        rows.append([v, r["outcomes"].get("i_dont_know", 0), *costs])
    return ["", "refused", *head.values()], rows


def pair_table(part: Mapping) -> Table:
    "A line a pair and score: the difference of the means, paired by task."

    def inside(p):
        return [v for v in (p["a"], p["b"]) if p["measure"] in part["rows"][v].get("circular", ())]

    def span(p):
        return _span(p["difference"], p["low"], p["high"], "+")

    known = [p for p in part["pairs"] if p["difference"] is not None]
    tested = [i for i, p in enumerate(known) if p["p"] is not None]
    # one correction for the whole table
    family = dict(zip(tested, holm([known[i]["p"] for i in tested]).tolist()))
    rows = []
    for i, p in enumerate(known):
        score = p["measure"] + (" (circular)" if inside(p) else "")
        rows.append([f"{p['a']} – {p['b']}", score, span(p), show(family.get(i), 4), p["n"]])
    return ["pair", "score", "difference", "p (Holm)", "tasks"], rows


# name of the run folder -> system, changed settings
Variants = Mapping[str, tuple[System, Mapping[str, object]]]
LIMIT = 8000  # MB: the description's (its section 5.2)
ORDER = ("started", "first question", "upload", "later question", "replaced")


def footprint_rows(part: Mapping) -> list[list]:
    "Each step over one library, in the order in which it came: step, seconds, processor seconds, MB at most, MB afterwards."
    steps = {k: part[k] for k in part if k in ORDER and k != "replaced"}
    steps |= {f"upload in its place, {n}": x for n, x in enumerate(part["replaced"], 1)}
    columns = ("seconds", "cpu_seconds", "peak_mb", "after_mb")
    return [[k, *(x.get(c, "") for c in columns)] for k, x in steps.items()]


def footprint_words(told: Mapping) -> dict[str, float]:
    "What it comes to: the most memory, its share of the limit, what an upload leaves behind, seconds of the processor."
    parts = [told["alone"], told["large"]]
    peak = max(row[3] for p in parts for row in footprint_rows(p) if row[3] != "")
    kept = [p["replaced"][-1]["after_mb"] - p["later question"]["after_mb"] for p in parts]
    return {
        "peak_mb": peak,
        "share": peak / LIMIT,
        "kept_mb": max(kept),
        "first": told["large"]["first question"]["cpu_seconds"],
        "later": told["large"]["later question"]["cpu_seconds"],
        "upload": told["alone"]["upload"]["cpu_seconds"],
    }


PACKAGED = {  # measured by functions
    "calibrate": "tools.real_data:calibrate_laptop",
    "licence": "tools.real_data:license_laptop",
}
NOTEBOOKS = Path(__file__).resolve().parents[1] / "nbs" / "9_studies"


def measure(**parts: Callable[[], object]) -> None:
    "Run the part that $PART names, in the clone, where the kept results lie. Stands in a cell marked `#| measure`."
    os.chdir(NOTEBOOKS.parents[1])
    parts[os.environ["PART"]]()


def measured_in() -> dict[str, Path]:
    "Name of a study -> the notebook with its `#| measure` cell."
    found = {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if source.startswith("#| measure"):
                calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)]
                call = next(c for c in calls if ast.unparse(c.func) == "measure")
                found |= dict.fromkeys((k.arg for k in call.keywords), path)
    return found


def fetch_released(
    root: str | Path,  # of the official files
    url: str = "https://raw.githubusercontent.com",
    seen: Callable[[str], object] = print,  # told of each file
) -> list[Path]:
    """Fetch the runs of real systems that are not there, as far as their licence allows it, at a pinned commit and against their
    checksums; returned are the files. Raises DataError."""
    fetched = []
    for f in read_json(data_dir("paper") / "released.json", kind=list):
        target = Path(root) / "released" / f["file"]
        if target.exists() or target.with_name(target.name + ".gz").exists():
            continue
        place = f"{url}/{f['repository']}/{f['commit']}/{quote(f['path'])}"
        seen(f"{f['file']}: {f['repository']}, {f['licence']}")
        try:
            fetched.append(fetch_file(place, target, f["git"]))
        except DataError as e:
            if not f.get("optional"):
                remedy = f"Check the network, or put the file by hand where {target} is"
                raise DataError(f"could not be fetched ({e})", place, remedy=remedy) from None
            seen(f"{f['file']} is left out: {e}")
    return fetched


def released_data() -> Path:
    "The folder of the official files, with those of the study of released runs."
    root = Path(official_dir() or FETCHED)
    fetch_data(root, ("tasks", "retrieval"))
    fetch_released(root)
    return root.resolve()


AFTER_EQUAL = ("blame", "gate", "mended")  # studies of the runs that `make study NAME=equal` makes


def run_study(name: str) -> int:
    if name in PACKAGED:
        sys.path.insert(0, str(NOTEBOOKS.parents[1]))
        module, function = PACKAGED[name].split(":")
        getattr(importlib.import_module(module), function)()
        return 0
    notebooks = measured_in()
    if name not in notebooks:
        print("make study NAME=" + "|".join([*notebooks, *PACKAGED]))
        return 2
    equal = Path("runs/equal" if name == "gate" else os.environ.get("FOLDER", "runs/equal"))
    if name in AFTER_EQUAL and not (NOTEBOOKS.parents[1] / equal / "tasks.jsonl").is_file():
        print(f"{equal} holds no runs: make study NAME=equal comes before NAME={name}")
        return 2
    command = [sys.executable, "tools/run_notebooks.py", "--no-compare", "measure"]
    # Without assertions: those of the story hold for what was measured before.
    env = {**os.environ, "PART": name, "PYTHONOPTIMIZE": "1"}
    if name == "released":
        env["MTRAG_DATA"] = str(released_data())
    command.append(str(notebooks[name]))
    return subprocess.run(command, cwd=NOTEBOOKS.parents[1], env=env).returncode


if __name__ == "__main__":
    sys.exit(run_study(sys.argv[1] if sys.argv[1:] else ""))
