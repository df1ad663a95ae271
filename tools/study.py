"""Measure a study again, and what several studies share.

  python tools/study.py NAME     measure NAME with its module of tools/studies, into data/measured
  python tools/study.py          the names

The notebooks of nbs/9_studies show what was kept; `make notebooks NB=...` then renews their tables. FOLDER=FOLDER names another
place for the runs that `equal` makes and the studies of these runs read.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from mtrag_nb import __version__
from mtrag_nb.app.cli import main as command
from mtrag_nb.core.files import data_dir, read_json, write_whole
from mtrag_nb.core.html import show
from mtrag_nb.core.record import Calls
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import DataError, Gold
from mtrag_nb.data.official import FETCHED, fetch_data, fetch_file, official_dir
from mtrag_nb.evaluation.scores import ScoreReport, compare_runs, score_run
from mtrag_nb.evaluation.statistics import holm
from mtrag_nb.models.embed import BertScorer
from mtrag_nb.systems.system import System

SCORES = ("rb_agg_conditioned", "RougeL", "K-precision")


def kept_in(name: str) -> dict:
    "A file of data/measured."
    return read_json(data_dir("measured") / f"{name}.json")


def mean_cost(run: Run) -> dict[str, float]:
    "Model calls, tokens read and written, and seconds of the model: means over turns. A replayed call counts as when it was made."
    calls = [t.calls for t in run.trajectories.values()]
    total = sum(calls, Calls())
    n = max(1, len(calls))
    cost = {
        "calls": total.n,
        "tokens_in": total.tokens_in,
        "tokens_out": total.tokens_out,
    }
    return {k: round(v / n, 2) for k, v in {**cost, "seconds": total.seconds}.items()}


def compared(
    runs: Mapping[str, Run],  # the first is the one that the others are paired with
    gold: Mapping[str, Gold],
    bert: BertScorer,
    reports: Mapping[str, ScoreReport]
    | None = None,  # where they are known; None: computed now
) -> dict:  # plain data
    "Means with intervals, outcomes, costs; every run paired with the first, by task, clustered by conversation."
    reports = reports or {
        name: score_run(r, gold, bert=bert) for name, r in runs.items()
    }
    rows = {}
    for name, r in runs.items():
        turns = r.trajectories.values()
        intervals = {m: reports[name].interval(m) for m in SCORES}
        rows[name] = {
            **{
                m: dict(mean=i.value, low=i.low, high=i.high, n=i.n)
                for m, i in intervals.items()
            },
            "cost": mean_cost(r),
            "outcomes": Counter(t.outcome.value for t in turns),
            "reasons": Counter(t.reason for t in turns if t.refused),
            "circular": sorted(reports[name].circular),
        }
    first = next(iter(runs))
    several = len(runs) > 1
    scored = list(reports.values())
    found = {m: compare_runs(scored, m, against=first).pairs for m in SCORES if several}
    pairs = [{"measure": m, **asdict(p)} for m, some in found.items() for p in some]
    talks = {t: c for r in reports.values() for t, c in r.talks.items()}
    about = {"tasks": len(talks), "conversations": len(set(talks.values()))}
    return {**about, "bert": bert.fingerprint, "rows": rows, "pairs": pairs}


Table = tuple[list[str], list[list]]  # header and rows, for text_table and html_table


def _span(
    value: float | None, low: float | None, high: float | None, sign: str = ""
) -> str:
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

    return ["", *SCORES], [
        [v, *(cell(r, m) for m in SCORES)] for v, r in part["rows"].items()
    ]


def cost_table(part: Mapping) -> Table:
    "A line a run: refusals, and the mean cost of a turn."
    head = {
        "calls": "calls a turn",
        "tokens_in": "tokens in",
        "tokens_out": "tokens out",
    }
    head |= {"seconds": "seconds"}
    rows = []
    for v, r in part["rows"].items():
        costs = (f"{r['cost'][c]:.1f}" for c in head)
        rows.append([v, r["outcomes"].get("i_dont_know", 0), *costs])
    return ["", "refused", *head.values()], rows


def pair_table(part: Mapping) -> Table:
    "A line a pair and score: the difference of the means, paired by task."

    def inside(p):
        return [
            v
            for v in (p["a"], p["b"])
            if p["measure"] in part["rows"][v].get("circular", ())
        ]

    def span(p):
        return _span(p["difference"], p["low"], p["high"], "+")

    known = [p for p in part["pairs"] if p["difference"] is not None]
    tested = [i for i, p in enumerate(known) if p["p"] is not None]
    # one correction for the whole table
    family = dict(zip(tested, holm([known[i]["p"] for i in tested]).tolist()))
    rows = []
    for i, p in enumerate(known):
        score = p["measure"] + (" (circular)" if inside(p) else "")
        rows.append(
            [f"{p['a']} – {p['b']}", score, span(p), show(family.get(i), 4), p["n"]]
        )
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
    kept = [
        p["replaced"][-1]["after_mb"] - p["later question"]["after_mb"] for p in parts
    ]
    return {
        "peak_mb": peak,
        "share": peak / LIMIT,
        "kept_mb": max(kept),
        "first": told["large"]["first question"]["cpu_seconds"],
        "later": told["large"]["later question"]["cpu_seconds"],
        "upload": told["alone"]["upload"]["cpu_seconds"],
    }


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
                raise DataError(
                    f"could not be fetched ({e})", place, remedy=remedy
                ) from None
            seen(f"{f['file']} is left out: {e}")
    return fetched


def released_data() -> Path:
    "The folder of the official files, with those of the study of released runs."
    root = Path(official_dir() or FETCHED)
    fetch_data(root, ("tasks", "retrieval"))
    fetch_released(root)
    return root.resolve()


@dataclass(frozen=True)
class Study:
    "What measures a study."

    function: str
    "The function that measures, as `module:function`."
    folders: tuple[str, ...] = ()
    "The folders of its runs, in the order of the function's parameters."
    after_equal: bool = False
    "Whether the runs that `equal` makes come before it, in its first folder."


EQUAL = "runs/equal"  # FOLDER names another one
STUDIES = {
    "retrieval": Study("tools.studies.retrieval:measure_retrieval"),
    "signals": Study("tools.studies.signals:measure_signals"),
    "bench": Study("tools.studies.bench:measure_bench"),
    "store": Study("tools.studies.store:measure_store"),
    "server": Study("tools.studies.server:measure_server"),
    "footprint": Study("tools.studies.footprint:measure_footprint"),
    "platforms": Study("tools.studies.platforms:measure_platforms"),
    "ncl": Study("tools.studies.ncl:measure_ncl"),
    "quote": Study("tools.studies.quote:measure_quote"),
    "agents": Study("tools.studies.agents:measure_agents"),
    "nexus": Study("tools.studies.nexus:measure_nexus"),
    "citing": Study("tools.studies.nexus:measure_citing"),
    "licences": Study("tools.studies.yardsticks:measure_licences"),
    "yardsticks": Study("tools.studies.noise_floor:measure_yardsticks"),
    "verdicts": Study("tools.studies.short_targets:measure_verdicts"),
    "intervals": Study("tools.studies.intervals:simulate"),
    "submissions": Study("tools.studies.submissions:measure_submissions"),
    "equal": Study("tools.studies.equal:run_equal", (EQUAL,)),
    "blame": Study("tools.studies.blame_forks:measure_blame", (EQUAL,), True),
    "mended": Study("tools.studies.mended:run_mended", (EQUAL, "runs/mended"), True),
    "attribution": Study(
        "tools.studies.proofs:measure_attribution", ("runs/attribution",)
    ),
    "recorded": Study("tools.studies.proofs:measure_recorded", ("runs/recorded",)),
    "proof": Study("tools.studies.proofs:measure_proof", ("runs/proof",)),
    "mechanisms": Study("tools.studies.proofs:measure_mechanisms", ("runs/proof",)),
    "power": Study(
        "tools.studies.power:measure_power", ("runs/power", "runs/released")
    ),
    "released": Study("tools.studies.released:measure_released"),
    "board": Study("tools.studies.board:measure_board"),
    "guilty": Study("tools.studies.guilty:measure_guilty"),
    "asking": Study("tools.studies.asking_rule:measure_asking"),
    "checks": Study("tools.studies.checks:measure_checks"),
    "gate": Study("tools.studies.gate_signals:measure_gate", (EQUAL,), True),
    "claims": Study("tools.studies.claims_check:claims_study"),
    "calibrate": Study("tools.real_data:calibrate_laptop"),
    "licence": Study("tools.real_data:license_laptop"),
}
ROOT = Path(__file__).resolve().parents[1]


def run_command(words: Sequence[str]) -> None:
    "Run a command of `mtrag`. Raises DataError if it fails."
    code = command(list(words))
    if code != 0:
        raise DataError(f"`mtrag {' '.join(words)}` ended with exit code {code}")


def function_of(study: Study) -> Callable[..., object]:
    "The function that measures a study; its module is imported."
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    module, function = study.function.split(":")
    return getattr(importlib.import_module(module), function)


def folders_of(study: Study) -> list[Path]:
    "The folders of a study's runs."
    equal = os.environ.get("FOLDER", EQUAL)
    return [Path(equal if f == EQUAL else f) for f in study.folders]


MEASURED = ROOT / "data" / "measured"


def kept_files() -> dict[str, int]:
    "When each file of data/measured was written, in nanoseconds, but for the list of origins."
    paths = (p for p in MEASURED.iterdir() if p.name != "provenance.json")
    return {p.name: p.stat().st_mtime_ns for p in paths}


def origin_in(content: bytes, file: str) -> tuple[str, str]:
    "The version of the package and the machine that a kept file names; '' and 'none named' where it names none."
    text = content.decode()
    kept = json.loads(text.splitlines()[0] if file.endswith(".jsonl") else text)
    made = kept.get("made", kept) if isinstance(kept, dict) else {}
    version = made.get("packages", {}).get("mtrag_nb", "")
    machine = made.get("machine")
    if not machine:
        return version, "none named"
    return version, "".join(machine["gpu"]) or f"{machine['cores']} cores"


def record_origins(name: str, before: Mapping[str, int]) -> None:
    "Write into data/measured/provenance.json that a study made the files written since; `before`: of `kept_files`."
    path = MEASURED / "provenance.json"
    origins = read_json(path)
    for file, written in kept_files().items():
        if written == before.get(file):
            continue
        version, machine = origin_in((MEASURED / file).read_bytes(), file)
        module = STUDIES[name].function.split(":")[0]
        known = origins.get(file, {})
        origins[file] = {
            "study": name,
            "module": module,
            "version": version or __version__,
            "version_from": "file" if version else "study",
            "machine": machine,
            "recounted": known.get("recounted", ""),
            "note": known.get("note", ""),
        }
    rows = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(origins.items())]
    write_whole(path, "{\n" + ",\n".join(rows) + "\n}\n")


def run_study(name: str) -> int:
    "Measure a study in this clone, where the kept results lie; an exit code."
    if name not in STUDIES:
        print("make study NAME=" + "|".join(STUDIES))
        return 2
    os.chdir(ROOT)
    study = STUDIES[name]
    folders = folders_of(study)
    if study.after_equal and not (folders[0] / "tasks.jsonl").is_file():
        print(
            f"{folders[0]} holds no runs: make study NAME=equal comes before NAME={name}"
        )
        return 2
    if name in ("released", "board"):
        os.environ["MTRAG_DATA"] = str(released_data())
    before = kept_files()
    function_of(study)(*folders)
    record_origins(name, before)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="", help="of the study")
    sys.exit(run_study(parser.parse_args().name))
