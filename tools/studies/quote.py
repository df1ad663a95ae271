"""What copying scores: the baseline that copies the sentences nearest to the question, and asks no model.

How much to copy is the one thing to choose: tried on tasks of mtrag-human that have an answer, by RB_agg. Scores are by
answerability: a mean over everything mixes what was answered with what was rightly refused. The laptop's systems were run once,
and of those runs the means are kept, so nothing can be paired with them; the seven submissions have all their answers, so they are
scored here with the same encoder on the same tasks, and the differences are paired. Seconds are of one thread, retrieval and grade
included, without anything that was embedded before.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from mtrag_nb.core.files import data_dir, read_json, write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import MINILM, Settings, load_settings
from mtrag_nb.core.types import TO_ANSWER, TO_REFUSE, Gold, Task, as_context, plain
from mtrag_nb.data.mtrag import Benchmark, read_benchmark
from mtrag_nb.data.official import official_dir, official_file
from mtrag_nb.evaluation.items import prediction_items
from mtrag_nb.evaluation.measures import agg_parts
from mtrag_nb.evaluation.scores import ScoreReport, score_items, score_run
from mtrag_nb.evaluation.statistics import compare, mean_interval
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import EmbedderLike
from mtrag_nb.models.embed import BertScorer
from mtrag_nb.runs.run import load_toolbox, machine, package_versions, run_tasks
from mtrag_nb.systems.baselines import QUOTE, QuoteSettings
from mtrag_nb.systems.stages import Toolbox, list_wordings
from mtrag_nb.systems.quotes import nearest
from mtrag_nb.systems.system import take_turn
from tools.studies.task_samples import sample_file
from tools.study import SCORES, kept_in


def in_span(s: Mapping, sign: str = "", counted: bool = True) -> str:
    "A mean with its interval, and of how many tasks, as a cell."
    if s["mean"] is None:
        return "–"
    ends = "" if s["low"] is None else f" [{s['low']:{sign}.3f}, {s['high']:{sign}.3f}]"
    return f"{s['mean']:{sign}.3f}{ends}" + (f" ({s['n']})" if counted else "")


def score_rows(told: Mapping) -> tuple[list[str], list[list]]:
    "The baseline's scores by set and label, as header and rows."
    rows = [
        [name, label, *(in_span(s[m]) for m in SCORES)]
        for name, part in told.items()
        for label, s in part["scores"].items()
    ]
    return ["set", "label", *SCORES], rows


def beside_rows(part: Mapping) -> tuple[list[str], list[list]]:
    "The baseline and others on the same tasks."
    return ["", *SCORES], [
        [name, *(in_span(s[m]) for m in SCORES)] for name, s in part["rows"].items()
    ]


def quote_minus(pairs: Sequence[Mapping], other: str) -> str:
    "The paired difference of the baseline to another, with its interval; '' for the baseline itself."
    p = next((p for p in pairs if {p["a"], p["b"]} == {"quote", other}), None)
    if p is None:
        return ""
    found = {"mean": p["difference"], "low": p["low"], "high": p["high"]}
    if p["b"] == "quote":  # the better one comes first
        ends = (None if x is None else -x for x in (p["high"], p["low"]))
        found = {"mean": -p["difference"], **dict(zip(("low", "high"), ends))}
    return in_span(found, "+", counted=False)


def team_rows(part: Mapping) -> tuple[list[str], list[list]]:
    "The baseline and the submissions on tasks that have an answer, with the paired difference."
    rows = [
        [
            n,
            *(in_span(r["with an answer"][m]) for m in SCORES[:2]),
            quote_minus(part["pairs"], n),
        ]
        for n, r in part["rows"].items()
    ]
    return ["", *SCORES[:2], "quote minus it"], rows


def with_an_answer(
    scores: Mapping[
        str, Mapping[str, Mapping]
    ],  # by label, as `score_spans` gives them
    measure: str = SCORES[0],
) -> tuple[
    float, int, int
]:  # mean, tasks that have an answer; tasks that have none and score 1
    "A mean without what counts 1.000 for a refusal: tasks without an answer bring no passages, and whoever sees none refuses."
    kept = [
        s[measure]
        for label, s in scores.items()
        if label in TO_ANSWER and s[measure]["n"]
    ]
    n = sum(s["n"] for s in kept)
    return (
        sum(s["mean"] * s["n"] for s in kept) / n,
        n,
        sum(
            s[measure]["n"]
            for label, s in scores.items()
            if label in TO_REFUSE and s[measure]["mean"] == 1.0
        ),
    )


WORDINGS = {
    "both": slice(None),
    "the question": slice(0, 1),
    "with the one before": slice(-1, None),
}  # of `quote.list_wordings`


def quoted(
    embedder: EmbedderLike, task: Task, sentences: int, wording: str = "both"
) -> str:
    "What the baseline would say from all passages of a task."
    contexts = {p.id: as_context(p) for p in task.contexts or ()}
    found = nearest(
        embedder,
        list_wordings(task.question, task.history)[WORDINGS[wording]],
        list(contexts.values()),
        sentences,
    )
    return " ".join(
        " ".join(contexts[q.context].text[q.start : q.end].split()) for q in found
    )


def tune(
    tasks: Sequence[Task],  # with contexts, and an answer
    gold: Mapping[str, Gold],
    embedder: EmbedderLike,
    bert: BertScorer,
    tried: Sequence[tuple[int, str]],  # sentences, wording
) -> list[dict]:
    "RB_agg, ROUGE-L and length of each choice; one call of the scorer, which embeds each text once."
    answers = [[quoted(embedder, t, *how) for t in tasks] for how in tried]
    targets = [gold[t.id].targets[0] for t in tasks]
    passages = [[p.text for p in t.contexts] for t in tasks]
    parts = agg_parts(
        bert, sum(answers, []), targets * len(tried), passages * len(tried)
    )
    rows = []

    def mean(values: Sequence[float]) -> float:
        return round(sum(values) / len(values), 4)

    for k, (n, wording) in enumerate(tried):
        own = parts[k * len(tasks) : (k + 1) * len(tasks)]
        rows.append(
            {
                "sentences": n,
                "wording": wording,
                "rb_agg": mean([p.rb_agg for p in own]),
                "RougeL": mean([p.rouge_l for p in own]),
                "words": mean([len(a.split()) for a in answers[k]]),
                "tasks": len(tasks),
            }
        )
    return rows


LABELS = ("ANSWERABLE", "PARTIAL", "UNANSWERABLE", "CONVERSATIONAL", "UNDERSPECIFIED")


def score_spans(
    scores: Mapping[str, Mapping[str, float | None]],  # task id -> measure -> score
    talks: Mapping[str, str],  # task id -> conversation
    labels: Mapping[str, str] = {},  # task id -> answerability; {}: all in one
) -> dict[str, dict[str, dict]]:  # label -> measure -> mean, low, high, n
    "Means with intervals, by label."

    def span(m, wanted):
        found = {
            t: s[m]
            for t, s in scores.items()
            if s.get(m) is not None and (not wanted or labels.get(t) == wanted)
        }
        i = mean_interval(list(found.values()), [talks[t] for t in found])
        return {"mean": i.value, "low": i.low, "high": i.high, "n": i.n}

    kinds = ["all", *(k for k in LABELS if k in set(labels.values()))]
    return {k: {m: span(m, "" if k == "all" else k) for m in SCORES} for k in kinds}


def run_quote(
    known: Benchmark,
    folder: Path,
    settings: Settings,
    models: Models,
    index: Path | None = None,
    progress: bool = True,
) -> Run:
    "The baseline over the tasks of a file: with the passages that come with them or, with an index, with what it finds."
    return run_tasks(
        QUOTE,
        known.tasks,
        folder,
        settings,
        index,
        "rag" if index else "reference",
        known.lines,
        models,
        progress=progress,
    )


def whole_set(known: Benchmark, report: ScoreReport) -> dict:
    "What is told of a set: sizes, scores by answerability, refusals."
    labels = {t.id: known.gold[t.id].answerability for t in known.tasks}
    row = report.refusal.rows[0]
    return {
        "tasks": len(report.scores),
        "conversations": len(set(report.talks.values())),
        "scores": score_spans(report.scores, report.talks, labels),
        "refused of answerable": str(row.wrongly),
        "refused of unanswerable": str(row.rightly),
        "failed": report.failed,
    }


def beside_submissions(
    quotes: Mapping[str, Mapping[str, float | None]],  # the baseline's scores by task
    files: Sequence[Path],  # prediction files over the tasks of `known`
    known: Benchmark,  # with contexts
    wanted: set[str],  # ids of the tasks to score
    bert: BertScorer,
) -> dict:
    "Released submissions on some tasks: means, and the paired difference of the baseline to each over those that have an answer."
    talks = {t.id: t.conversation_id for t in known.tasks}
    scores = {"quote": {i: quotes[i] for i in wanted if i in quotes}}
    for f in files:
        items = [i for i in prediction_items(f, known.tasks) if i.task_id in wanted]
        scores[f.stem.split("_")[0].split("-")[0]] = score_items(
            items, known.gold, bert
        )
    answerable = {
        n: {t: s for t, s in own.items() if known.gold[t].answerability in TO_ANSWER}
        for n, own in scores.items()
    }
    rows = {
        n: {
            "all": score_spans(own, talks)["all"],
            "with an answer": score_spans(answerable[n], talks)["all"],
        }
        for n, own in scores.items()
    }
    by_task = {
        n: {t: s["rb_agg_conditioned"] for t, s in own.items()}
        for n, own in answerable.items()
    }
    pairs = compare(by_task, talks, "rb_agg_conditioned", against="quote").pairs
    return {"tasks": len(wanted), "rows": rows, "pairs": [plain(p) for p in pairs]}


def seconds_a_turn(
    tasks: Sequence[Task],  # of several conversations
    tools: Toolbox,
) -> float:
    "Mean seconds of processor time of a turn, one after the other, the first left out (it loads the model)."
    graph = QUOTE.graph(tools)
    spent = []
    for t in tasks:
        start = time.process_time()
        take_turn(graph, t)
        spent.append(time.process_time() - start)
    return round(sum(spent[1:]) / max(1, len(spent) - 1), 3)


TRIED = (
    *((n, "both") for n in (2, 3, 4, 5, 6, 8, 10)),
    *((5, w) for w in WORDINGS if w != "both"),
)
BOTH_SETS = ("mtragun-human", "mtrag-human")


def measure_set(
    source: Path,  # a reference file
    known: Benchmark,  # the same, read with contexts
    folder: Path,  # of the run
    settings: Settings,
    models: Models,
    bert: BertScorer,
    n: int,  # tasks that the laptop's systems were run on
    ncl: Mapping,  # what `measure_ncl` found of them
) -> dict:
    "A set with the passages that come with its tasks: all of it, and the tasks that the laptop's systems were run on."
    report = score_run(
        run_quote(known, folder / "run", settings, models), known.gold, bert=bert
    )
    drawn = read_benchmark(sample_file(source, folder / f"{n}.jsonl", n)).gold
    own = {t: s for t, s in report.scores.items() if t in drawn}
    beside = {
        "quote": score_spans(own, report.talks)["all"],
        **{name: {m: row[m] for m in SCORES} for name, row in ncl["rows"].items()},
    }
    return {
        **whole_set(known, report),
        "beside": {"tasks": len(own), "rows": beside},
        "_scores": report.scores,
        "_drawn": set(drawn),
    }


def measure_retrieval(
    known: Benchmark,
    folder: Path,
    settings: Settings,
    models: Models,
    bert: BertScorer,
    index: Path,
) -> dict:
    "A set whose passages have to be found."
    return whole_set(
        known,
        score_run(
            run_quote(known, folder, settings, models, index), known.gold, bert=bert
        ),
    )


def measure_quote(
    out: str | Path = "data/measured/quote.json",
    runs: str | Path = "runs/quote",
    tuned: int = 100,  # tasks of mtrag-human to choose on
    n: int = 100,  # tasks of each set that the laptop's systems were run on
    index: str
    | Path
    | None = None,  # of the govt passages; None: $MTRAG_INDEX; without one, retrieval is left out
    models: Models | None = None,
) -> dict:
    "Measure the baseline on $MTRAG_DATA, print it, write it down. An hour on one thread; goes on where it stopped."
    data = official_dir("this study", "mtragun-human/predictions_raguteam")
    settings = QUOTE.configure(load_settings())
    models = models or Models(settings)
    bert = BertScorer(MINILM, rescale=False)
    runs = Path(runs)
    ncl = read_json(data_dir("measured") / "ncl.json")["sets"]
    index = index or os.environ.get("MTRAG_INDEX")
    files = {name: official_file(data, f"{name}/reference") for name in BOTH_SETS}
    known = {name: read_benchmark(path, contexts=True) for name, path in files.items()}
    human = known["mtrag-human"]
    un = known["mtragun-human"]
    answerable = [t for t in human.tasks if human.gold[t.id].answerability in TO_ANSWER]
    some = random.Random(1).sample(answerable, tuned)
    told = {
        "machine": machine(),
        "packages": package_versions(),
        "bert": bert.fingerprint,
        "sentences": settings.own.sentences,
        "tuning": tune(some, human.gold, models.embedder, bert, TRIED),
        "sets": {},
    }
    for name in BOTH_SETS:
        told["sets"][name] = measure_set(
            files[name], known[name], runs / name, settings, models, bert, n, ncl[name]
        )
    teams = sorted((data / "mtragun-human" / "predictions_raguteam").glob("*.jsonl"))
    own = told["sets"]["mtragun-human"]
    told["teams"] = beside_submissions(own["_scores"], teams, un, own["_drawn"], bert)
    if index:
        govt = read_benchmark(files["mtrag-human"], domains=["govt"])
        told["retrieval"] = measure_retrieval(
            govt, runs / "govt", settings, models, bert, Path(index)
        )
    told["seconds a turn"] = seconds_a_turn(
        human.tasks[::40],
        load_toolbox(settings, Models(settings), None, human.tasks, "reference"),
    )
    told["sets"] = {
        k: {x: v for x, v in part.items() if not x.startswith("_")}
        for k, part in told["sets"].items()
    }
    write_json(out, told)
    for header, rows in (score_rows(told["sets"]), team_rows(told["teams"])):
        print(text_table(header, rows))
    return told


@cache
def kept_quote() -> dict:
    "What was measured of copying."
    return kept_in("quote")


def close_teams() -> list[str]:
    "The submissions that are not told apart from copying."
    told = kept_quote()["teams"]
    found = []
    for name in told["rows"]:
        for p in told["pairs"]:
            if {p["a"], p["b"]} == {"quote", name} and p["low"] < 0 < p["high"]:
                found.append(name)
    return found


def largest_lead() -> float:
    "The largest difference of a submission to copying."
    return max(p["difference"] for p in kept_quote()["teams"]["pairs"])


def show_beside() -> None:
    "Print copying beside the laptop's systems, and beside the seven submissions."
    for name, part in kept_quote()["sets"].items():
        print(f"{name}, {part['beside']['tasks']} tasks")
        print(text_table(*beside_rows(part["beside"])), "\n")
    print(text_table(*team_rows(kept_quote()["teams"])))
    print(
        f"not told apart from copying: {', '.join(close_teams())}; "
        f"the largest lead of a submission: {largest_lead():.3f}"
    )


def fair_means() -> dict[str, tuple[float, int, int]]:
    "Set -> RB_agg of the tasks with an answer, how many they are, and refusals at 1.000."
    sets = kept_quote()["sets"]
    return {n: with_an_answer(part["scores"]) for n, part in sets.items()}


def show_scores() -> None:
    "Print the scores of copying by answerability, with given passages and with passages that have to be found."
    told = kept_quote()
    print(text_table(*score_rows(told["sets"])))
    for n, (score, tasks, refused) in fair_means().items():
        print(
            f"{n}: RB_agg {score:.3f} on the {tasks} tasks with an answer; "
            f"{refused} of the {tasks + refused} that have a score are refusals at 1.000"
        )
    print(text_table(*score_rows({"govt, retrieved": told["retrieval"]})))
    print(f"refused of unanswerable: {told['retrieval']['refused of unanswerable']}")


def show_tuning() -> None:
    "Print how many sentences were tried, and what a turn takes."
    told = kept_quote()
    rows = [list(r.values()) for r in told["tuning"]]
    print(text_table(list(told["tuning"][0]), rows))
    print(
        f"{told['seconds a turn']} s of one thread a turn, with the passages that come with a task; nothing generated"
    )


def check_findings() -> None:
    "Assert what the study says of copying, of the results that are kept."
    told = kept_quote()
    rows = told["sets"]["mtrag-human"]["beside"]["rows"]
    for other in ("naive", "self_crag", "ncl", "ncl-no-classification"):
        for m in SCORES[:2]:
            assert rows["quote"][m]["low"] > rows[other][m]["high"], (other, m)
    un = told["sets"]["mtragun-human"]["beside"]["rows"]
    assert un["quote"]["RougeL"]["low"] > un["ncl"]["RougeL"]["high"]
    quote, ncl = (un[n]["rb_agg_conditioned"] for n in ("quote", "ncl"))
    assert quote["low"] <= ncl["high"]
    assert quote["mean"] > ncl["mean"]
    assert close_teams() == ["glm", "llama3", "meno", "qwen235b"]
    assert largest_lead() < 0.1
    assert all(p["b"] == "quote" for p in told["teams"]["pairs"])
    fair = {n: (round(m, 3), *rest) for n, (m, *rest) in fair_means().items()}
    assert fair["mtragun-human"] == (0.512, 262, 75)
    assert fair["mtrag-human"] == (0.505, 777, 65)
    sizes = {n: p["tasks"] for n, p in told["sets"].items()}
    assert sizes == {"mtragun-human": 399, "mtrag-human": 842}
    for p in told["sets"].values():
        assert p["scores"]["UNANSWERABLE"]["rb_agg_conditioned"]["mean"] == 1.0
        assert p["failed"] == 0
    found = told["retrieval"]
    assert found["tasks"] == 214
    assert found["scores"]["UNANSWERABLE"]["rb_agg_conditioned"]["mean"] == 0
    best = max(told["tuning"], key=lambda r: r["rb_agg"])
    assert (best["sentences"], best["wording"]) == (5, "both")
    assert told["sentences"] == QuoteSettings().sentences == 5
    near = {r["sentences"]: r for r in told["tuning"] if r["wording"] == "both"}
    assert best["rb_agg"] - min(near[n]["rb_agg"] for n in (4, 6)) < 0.013
    assert told["seconds a turn"] < 1.5
