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
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mtrag_nb.core.files import data_dir, read_json, read_jsonl, write_jsonl
from mtrag_nb.core.html import show, words_table
from mtrag_nb.core.record import Calls, Retrieved, Run
from mtrag_nb.core.settings import Settings
from mtrag_nb.core.types import DataError, Gold, Task, plain, structured
from mtrag_nb.data.mtrag import Benchmark
from mtrag_nb.evaluate.measures import BertScorer
from mtrag_nb.evaluate.scores import ScoreReport, compare_runs, score_run
from mtrag_nb.evaluate.statistics import Interval, holm, mean_interval
from mtrag_nb.models.calls import Models
from mtrag_nb.runs.run import open_web, run_tasks
from mtrag_nb.show.browser import published
from mtrag_nb.show.papers import Block
from mtrag_nb.systems.system import System

SCORES = ("rb_agg_conditioned", "RougeL", "K-precision")
CUTS = (50, 90, 99)


def percentiles(seconds: Sequence[float], cuts: Sequence[int] = CUTS) -> dict[int, float]:
    "The least time within which so many of a hundred are done: an observed value, none in between; {} for no values."
    if not len(seconds):
        return {}
    return {q: float(np.percentile(seconds, q, method="inverted_cdf")) for q in cuts}


def kept_in(name: str) -> dict:
    "A file of data/measured."
    return read_json(data_dir("measured") / f"{name}.json")


def spec_block(system: str, place: str) -> Block:
    "A table of a specification."
    facts = published(system)
    t = facts["tables"][place]
    rows = tuple(tuple("–" if v is None else show(v) for v in r) for r in t["rows"])
    caption = f"{facts['source'].split('. ')[0]}, {place}; {t['title']}"
    return Block(caption, tuple(t["header"]), rows)


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
                for i in sorted(random.Random(seed).sample(range(len(found)), min(n, len(found))))
            ],
        )
    return out


def mean_cost(run: Run) -> dict[str, float]:
    "Model calls, tokens read and written, and seconds of the model: means over turns. A replayed call counts as when it was made."
    total, turns = (
        sum((t.calls for t in run.trajectories.values()), Calls()),
        max(1, len(run.trajectories)),
    )
    counted = {
        "calls": total.n,
        "tokens_in": total.tokens_in,
        "tokens_out": total.tokens_out,
        "seconds": total.seconds,
    }
    return {k: round(v / turns, 2) for k, v in counted.items()}


def compared(
    runs: Mapping[str, Run],  # the first is the one that the others are paired with
    gold: Mapping[str, Gold],
    bert: BertScorer,
    reports: Mapping[str, ScoreReport]
    | None = None,  # their scores, where they are known; None: computed now
) -> dict:  # plain data
    "Means with intervals, outcomes, costs; every run paired with the first, by task, clustered by conversation."
    reports, rows = reports or {name: score_run(r, gold, bert=bert) for name, r in runs.items()}, {}
    for name, r in runs.items():
        turns, intervals = r.trajectories.values(), {m: reports[name].interval(m) for m in SCORES}
        rows[name] = {
            **{
                m: {"mean": i.value, "low": i.low, "high": i.high, "n": i.n}
                for m, i in intervals.items()
            },
            "cost": mean_cost(r),
            "outcomes": Counter(t.outcome.value for t in turns),
            "reasons": Counter(t.reason for t in turns if t.refused),
            "circular": sorted(reports[name].circular),
        }
    first, several = next(iter(runs)), len(runs) > 1
    pairs = [
        {"measure": m, **asdict(p)}
        for m in SCORES
        if several
        for p in compare_runs(list(reports.values()), m, against=first).pairs
    ]
    talks = {t: c for r in reports.values() for t, c in r.talks.items()}
    return {
        "tasks": len(talks),
        "conversations": len(set(talks.values())),
        "bert": bert.fingerprint,
        "rows": rows,
        "pairs": pairs,
    }


Table = tuple[list[str], list[list]]  # header and rows, for text_table and html_table


def _span(value: float | None, low: float | None, high: float | None, sign: str = "") -> str:
    return (
        "–"
        if value is None
        else f"{value:{sign}.3f}"
        + (f" [{low:{sign}.3f}, {high:{sign}.3f}]" if low is not None else "")
    )


def score_table(part: Mapping) -> Table:
    "A line a run: scores with 95 % intervals."

    def inside(r, m):
        return " (circular)" if m in r.get("circular", ()) else ""

    def cell(r, m):
        return _span(r[m]["mean"], r[m]["low"], r[m]["high"]) + inside(r, m)

    return ["", *SCORES], [[v, *(cell(r, m) for m in SCORES)] for v, r in part["rows"].items()]


def cost_table(part: Mapping) -> Table:
    "A line a run: refusals, and the mean cost of a turn."
    head = {
        "calls": "calls a turn",
        "tokens_in": "tokens in",
        "tokens_out": "tokens out",
        "seconds": "seconds",
    }
    rows = [
        [v, r["outcomes"].get("i_dont_know", 0), *(f"{r['cost'][c]:.1f}" for c in head)]
        for v, r in part["rows"].items()
    ]
    return ["", "refused", *head.values()], rows


def pair_table(part: Mapping) -> Table:
    "A line a pair and score: the difference of the means, paired by task."

    def inside(p):
        return [v for v in (p["a"], p["b"]) if p["measure"] in part["rows"][v].get("circular", ())]

    def span(p):
        return _span(p["difference"], p["low"], p["high"], "+")

    known = [p for p in part["pairs"] if p["difference"] is not None]
    tested = [i for i, p in enumerate(known) if p["p"] is not None]
    family = dict(
        zip(tested, holm([known[i]["p"] for i in tested]).tolist())
    )  # one correction for the whole table
    rows = [
        [
            f"{p['a']} – {p['b']}",
            p["measure"] + (" (circular)" if inside(p) else ""),
            span(p),
            show(family.get(i), 4),
            p["n"],
        ]
        for i, p in enumerate(known)
    ]
    return ["pair", "score", "difference", "p (Holm)", "tasks"], rows


@dataclass(frozen=True)
class Requirement:
    "A line of a specification."

    place: str  # its section
    asked: str
    found: Callable[[], str] | None = None  # what is found of it; None: nothing can be shown
    where: str = ""  # it is found: a run, a file, a profile
    why: str = ""  # what is otherwise, or why nothing can be shown


class Requirements:
    "Lines of a specification, each with what was found. Raises DataError for one of which nothing is found."

    HEAD = ("place", "asked", "found", "where", "otherwise, or why not")

    def __init__(self, requirements: Sequence[Requirement]):
        self.rows = tuple(map(self._row, requirements))

    @staticmethod
    def _row(r: Requirement) -> tuple[str, ...]:
        value = r.found() if r.found else ""
        if r.found and not (value and r.where):
            raise DataError(f"nothing is found of {r.asked!r} ({r.place})", r.where or None)
        if not r.found and not r.why:
            raise DataError(f"{r.asked!r} ({r.place}) has neither a proof nor a reason why not")
        return r.place, r.asked, value, r.where, r.why

    @property
    def shown(self) -> int:
        return sum(bool(r[2]) for r in self.rows)

    def __repr__(self) -> str:
        return "\n\n".join(
            f"{place}  {asked}\n"
            + "\n".join(f"    {x}" for x in (f"{found} [{where}]" if found else "", why) if x)
            for place, asked, found, where, why in self.rows
        )

    def _repr_html_(self) -> str:
        return words_table(self.HEAD, self.rows)


def visits(runs: Sequence[Run]) -> Counter:  # node -> visits
    "How often the nodes of recorded turns were visited."
    return Counter(s.node for r in runs for t in r.trajectories.values() for s in t.steps)


def in_words(counts: Mapping) -> str:
    "rewrite_query 30, generate 27"
    return ", ".join(f"{k} {n}" for k, n in counts.items())


SERVICE = """
import httpx, json, sys, tempfile
from pathlib import Path
from mtrag_nb.serve.api import make_app, rules_of, serving
from mtrag_nb.serve.serve import home_page
from mtrag_nb.serve.service import Service
from mtrag_nb.core.settings import load_settings
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder

came, token, question = {}, "k" * 32, {"question": "How much is a dog on the ferry?"}
with tempfile.TemporaryDirectory() as tmp:
    models = Models(load_settings(), chat=ScriptedChat(first_sentence), embedder=HashEmbedder())
    service = Service(Path(tmp) / "library", Path(tmp) / "served", system=sys.argv[1], models=models)
    rules = rules_of(service, token=token, per_minute=12)
    with serving(make_app(service, rules, *home_page())) as url, httpx.Client(base_url=url, timeout=60) as http:
        def ask(verb, path, i="", **more):
            reply = http.request(verb, path.format(i=i), **more)
            came[f"{verb} {path}"] = f"{reply.status_code} {reply.reason_phrase}"
            return reply
        came["no token"] = str(http.get("/api/status").status_code)
        http.headers["authorization"] = f"Bearer {token}"
        files = {"file": ("fares.txt", b"A dog costs four crowns on the ferry. A bicycle costs nine crowns on the ferry.")}
        document = ask("POST", "/api/upload", files=files).json()["id"]
        reply = ask("POST", "/api/query", json=question).json()
        came["citations"] = [c["document"] for c in reply["citations"]]
        came["stream"] = http.post("/api/query", json={**question, "stream": True}).headers["content-type"].partition(";")[0]
        for path in ("/api/documents", "/api/status"): ask("GET", path)
        came["page"] = ask("GET", "/").text.count("<script>")
        ask("DELETE", "/api/documents/{i}", document)
        ask("DELETE", "/api/conversations/{i}", reply["conversation_id"])
        came["too many"] = max(http.get("/api/documents").status_code for _ in range(12))
print(json.dumps({**came, "rate": type(rules)(rules.hosts).per_minute}))
"""


def asked_of_service(system: str) -> dict:  # request -> what came back
    "What the service answers to each kind of request. Some ten seconds. Raises DataError with its own words if it breaks."
    done = subprocess.run([sys.executable, "-c", SERVICE, system], capture_output=True, text=True)
    if done.returncode:
        raise DataError(f"the service broke: {done.stderr[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def at_six(
    ranked: Sequence[str],  # passage ids, best first
    relevant: Mapping[str, int],
) -> tuple[float, float, float]:  # precision and recall at 6, reciprocal rank
    "The specification's three measures of retrieval (8.1): precision divides by what was retrieved, at most six."
    first, wanted = list(dict.fromkeys(ranked)), {p for p, n in relevant.items() if n > 0}
    hits = sum(p in wanted for p in first[:6])
    rank = next((n for n, p in enumerate(first, 1) if p in wanted), 0)
    return hits / max(1, len(first[:6])), hits / max(1, len(wanted)), 1 / rank if rank else 0.0


SIX = ("precision at 6", "recall at 6", "MRR")


def retrieved_at_six(run: Run, gold: Mapping[str, Gold]) -> dict[str, Interval]:
    "The three measures of a turn's first retrieval, over the turns whose question has relevant passages."
    found = {}
    for t in run.trajectories.values():
        relevant = {p.id: 1 for p in gold[t.task_id].passages} if t.task_id in gold else {}
        first = next((s for s in t.steps if isinstance(s, Retrieved)), None)
        if relevant and not t.failed:
            found[t.task_id] = at_six(
                [h.document_id for h in first.hits] if first else [], relevant
            )
    talks = [run.trajectories[i].conversation_id for i in found]
    return {
        name: mean_interval([v[n] for v in found.values()], talks) for n, name in enumerate(SIX)
    }


def at_budget(
    runs: Mapping[str, Run],  # over the same tasks
    scores: Mapping[str, Mapping[str, float | None]],  # name -> task -> score; None: it has none
) -> dict[
    str, dict
]:  # name -> tokens there were, tasks answered of how many with a score, and their mean
    "Scores of the runs as if their tokens had been limited."
    used = {
        name: {i: t.calls.tokens for i, t in r.trajectories.items()} for name, r in runs.items()
    }
    budget, out = min((s for s in (sum(u.values()) for u in used.values()) if s), default=0), {}
    for name, run in runs.items():
        left, done = budget, {}
        for i, t in sorted(
            run.trajectories.items(), key=lambda x: (x[1].conversation_id, x[1].turn)
        ):
            left -= used[name][i]
            if scores[name].get(i) is not None:
                done[t.task_id] = (float(scores[name][i]) if left >= 0 else 0.0, left >= 0)
        found = mean_interval(
            [s for s, _ in done.values()], [run.trajectories[i].conversation_id for i in done]
        )
        out[name] = {
            "budget": budget,
            "answered": sum(in_time for _, in_time in done.values()),
            "score": found,
        }
    return out


Variants = Mapping[
    str, tuple[System, Mapping[str, object]]
]  # name of the run folder -> system, changed settings


def run_all(
    known: Benchmark,
    tasks: Sequence[Task],
    folder: Path,  # of the run folders
    settings: Settings,
    models: Models,
    index: Path,
    variants: Variants,
    web: str = "none",  # what the variant that ends in -web may search
    progress: bool = True,
) -> dict[str, Run]:
    "Every variant over the tasks, with retrieval; the one with a web is left out where none is named."
    runs = {}
    for name, (system, changes) in variants.items():
        searching = name.endswith("-web")
        if searching and web == "none":
            continue
        configured = system.configured(settings, changes)
        runs[name] = run_tasks(
            system,
            tasks,
            folder / name,
            configured,
            index,
            "rag",
            known.lines,
            models,
            progress=progress,
            web=open_web(web, configured, models) if searching else None,
        )
    return runs


def measured(
    runs: Mapping[str, Run], gold: Mapping[str, Gold], bert: BertScorer
) -> dict:  # plain data
    "Scores, pairs and costs of the runs, their percentiles, what they retrieved, and their scores at an equal budget."
    turns = {name: list(r.trajectories.values()) for name, r in runs.items()}
    reports = {name: score_run(r, gold, bert=bert) for name, r in runs.items()}
    return plain(
        {
            **compared(runs, gold, bert, reports),
            "seconds": {
                name: percentiles([t.seconds for t in ts if not t.failed])
                for name, ts in turns.items()
            },
            "six": {name: retrieved_at_six(r, gold) for name, r in runs.items()},
            "budget": at_budget(runs, {name: r.of(SCORES[0]) for name, r in reports.items()}),
        }
    )


def tables(told: Mapping) -> dict[str, tuple]:  # heading -> header and rows
    "All of it."
    seconds = [[name, *cuts.values()] for name, cuts in told["seconds"].items()]
    six = [[name, *map(_told_span, found.values())] for name, found in told["six"].items()]
    budget = [
        [name, f"{b['answered']} of {b['score']['n']}", _told_span(b["score"])]
        for name, b in told["budget"].items()
    ]
    return {
        "scores": score_table(told),
        "costs": cost_table(told),
        "pairs": pair_table(told),
        "the first retrieval": (["", *SIX], six),
        f"with {next(iter(told['budget'].values()))['budget']:,} tokens each": (
            ["", "answered", SCORES[0]],
            budget,
        ),
        "seconds a turn, several in flight": (["", "P50", "P90", "P99"], seconds),
    }


def _told_span(told: Mapping) -> str:
    return str(structured(Interval, told))


LIMIT = 8000  # MB: the description's (its section 5.2)


ORDER = ("started", "first question", "upload", "later question", "replaced")


def footprint_rows(part: Mapping) -> list[list]:
    "Each step over one library, in the order in which it came: step, seconds, processor seconds, MB at most, MB afterwards."
    steps = {k: part[k] for k in part if k in ORDER and k != "replaced"}
    steps |= {f"upload in its place, {n}": x for n, x in enumerate(part["replaced"], 1)}
    return [
        [k, *(x.get(c, "") for c in ("seconds", "cpu_seconds", "peak_mb", "after_mb"))]
        for k, x in steps.items()
    ]


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
    env = {**os.environ, "PART": name}
    return subprocess.run(
        [*command, str(notebooks[name])], cwd=NOTEBOOKS.parents[1], env=env
    ).returncode


if __name__ == "__main__":
    sys.exit(run_study(sys.argv[1] if sys.argv[1:] else ""))
