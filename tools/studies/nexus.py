"""NexusRAG beside others: claims and their sources, the hypothesis that hallucination is eliminated, and the stated confidence.

For any run of any system: the share of an answer's claims with a citation that supports it, by words, as `claims_of` makes or reads
it; the same by words in their company (`contextual support`), over all passages that the generator read, a measure that no system
here decides by; how many of the cited passages are the benchmark's gold, and how many of these are cited. The raw confidence is
held against people's ratings with the conversations left out one by one: their answers get citations as the system attaches them,
passages are graded as on the laptop; an answer that declines, or whose passages would all have been thrown out, has no confidence
and is left out.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

from mtrag_nb.core.files import data_dir, write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.record import Grade
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import MINILM, load_settings
from mtrag_nb.core.refusals import declines
from mtrag_nb.core.types import DataError, Gold, as_context, plain
from mtrag_nb.data.mtrag import read_benchmark, read_corpus, sample_corpus, sample_dir
from mtrag_nb.data.official import official_file
from mtrag_nb.data.ratings import RatedAnswer, read_ratings
from mtrag_nb.evaluation.calibrate import _read_calibration, find_rated_file
from mtrag_nb.evaluation.statistics import (
    Interval,
    auroc_interval,
    difference_interval,
    mean_interval,
)
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import EmbedderLike
from mtrag_nb.models.embed import BertScorer
from mtrag_nb.runs.run import machine, package_versions
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems.baselines import NAIVE, QUOTE
from mtrag_nb.systems.citations import attached_claims, claims_of
from mtrag_nb.systems.nexus import (
    LAPTOP,
    NEXUS,
    NexusSettings,
    _chance,
    _holds,
    _measured_licence,
    citation_coverage,
    label_by_cosine,
    weigh_grades,
)
from mtrag_nb.systems.self_crag import SELF_CRAG
from mtrag_nb.systems.citations import Cited, Claim
from mtrag_nb.systems.stages import list_wordings
from tests.support.company import contextual_support
from tools.real_data import real_data
from tools.studies.agents import measured, run_all, tables
from tools.studies.planted_claims import LEAST_COMPANY
from tools.studies.quote import in_span
from tools.study import SCORES, Variants, kept_in

MEASURES = ("supported", "in company", "all supported", "precision", "recall")


def hypothesis(
    told: Mapping, name: str, measure: str = "in company"
) -> tuple[str, str]:  # of "eliminates", and of "reduces"
    "What a run says of both claims."
    share = told["rows"][name][measure]
    gain = told["minus"][name][measure]
    eliminated = "not refuted"
    reduced = "open"
    if share["mean"] != 1:
        high = share["high"]
        eliminated = (
            "open" if high is None else "refuted" if high < 1 else "not refuted"
        )
    if gain["low"] is not None and not gain["low"] <= 0 <= gain["high"]:
        reduced = "shown" if gain["low"] > 0 else "the contrary is shown"
    return (
        f"{eliminated}: {in_span(share)} of its claims are supported",
        f"{reduced}: {in_span(gain, '+')} to the first",
    )


def cited_table(told: Mapping) -> tuple[list[str], list[list]]:
    "One line a run."
    rows = [
        [
            name,
            told["answered"][name],
            *(in_span(r[m], counted=False) for m in MEASURES),
        ]
        for name, r in told["rows"].items()
    ]
    return ["", "answers", *MEASURES], rows


def nexus_report(told: Mapping) -> dict[str, tuple]:  # heading -> header and rows
    "All of what was measured."
    cited = told["cited"]
    claims = [[name, *hypothesis(cited, name)] for name in cited["minus"]]
    return {
        "claims and sources": cited_table(cited),
        "the hypotheses": (["", "eliminates hallucination", "reduces it"], claims),
        **tables(told["beside"]),
    }


def raw_confidence(
    a: RatedAnswer,
    embedder: EmbedderLike,
    own: NexusSettings,
) -> float | None:  # None: the system would not have answered so
    "What the system would have computed for an answer that somebody rated."
    contexts = [as_context(p) for p in a.task.contexts]
    verdicts = label_by_cosine(
        embedder,
        list_wordings(a.task.question, a.task.history),
        [c.text for c in contexts],
        own.correct,
        own.ambiguous,
    )
    weights = weigh_grades(Grade(c.id, v) for c, v in zip(contexts, verdicts))
    kept = [c for i in weights for c in contexts if c.id == i]
    return (
        citation_coverage(attached_claims(a.answer, kept, own.least), weights)
        if kept and not declines(a.answer)
        else None
    )


BIN_EDGES = (0.0, 0.8, 0.9, 1.0)  # of the bins
FAITHFUL = 2  # median rating above it, as in `evaluate.licence`


def bins_of(
    stated: np.ndarray,
    faithful: np.ndarray,
    talks: np.ndarray,
    edges: Sequence[float] = BIN_EDGES,
) -> list[dict]:
    "Stated against observed."
    out = []
    for low, high in zip(edges, edges[1:]):
        at = (stated >= low) & ((stated < high) | (high == edges[-1]))
        if at.any():
            i = mean_interval(faithful[at].astype(float), talks[at])
            means = {"stated": stated, "observed": faithful}
            row = {"low": low, "high": high, "n": int(at.sum())}
            row |= {k: round(float(v[at].mean()), 4) for k, v in means.items()}
            out.append(
                row | dict(zip(("observed_low", "observed_high"), _rounded(i)[1:]))
            )
    return out


def _rounded(i: Interval) -> tuple[float | None, ...]:
    "Value and ends of an interval to four decimals."
    return tuple(None if v is None else round(v, 4) for v in (i.value, i.low, i.high))


STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # of the ridge penalty


def ridge(strength: float) -> LogisticRegression:
    "A logistic regression; its intercept is free."
    return LogisticRegression(C=1 / strength, tol=1e-8, max_iter=10_000)


def best_strength(x: np.ndarray, y: np.ndarray, talks: np.ndarray) -> float:
    "The penalty with the least log loss over conversations left out."

    def loss(strength):
        how = {"groups": talks, "cv": LeaveOneGroupOut(), "method": "predict_proba"}
        return log_loss(y, cross_val_predict(ridge(strength), x, y, **how)[:, 1])

    return min(STRENGTHS, key=loss)


def left_out(x: np.ndarray, y: np.ndarray, talks: np.ndarray) -> np.ndarray:
    "The probability of each item, by weights and a penalty from the other conversations."
    p = np.zeros(len(y))
    for rest, here in LeaveOneGroupOut().split(x, y, talks):
        model = ridge(best_strength(x[rest], y[rest], talks[rest])).fit(
            x[rest], y[rest]
        )
        p[here] = model.predict_proba(x[here])[:, 1]
    return p


def licensed(
    rated: Sequence[RatedAnswer],
    embedder: EmbedderLike,
    own: NexusSettings,
) -> tuple[
    dict, dict[str, tuple]
]:  # and AUROCs of the raw number for other ratings being the best
    "The raw number held against people."
    found = [
        (a, raw)
        for a in rated
        if a.system != "reference"
        and (raw := raw_confidence(a, embedder, own)) is not None
    ]
    x = np.array([[raw] for _, raw in found])
    talks = np.array([a.task.conversation_id for a, _ in found])

    def of(what, most):
        return np.array([median(a.ratings[what]) > most for a, _ in found])

    y = of("faithfulness", FAITHFUL)
    stated = [min(0.99, max(0.01, round(p, 2))) for p in left_out(x, y, talks)]
    curve = ridge(best_strength(x, y, talks)).fit(x, y)
    slope, intercept = (
        round(float(w[0]), 4) for w in (curve.coef_[0], curve.intercept_)
    )
    others = {
        what: _rounded(auroc_interval(x[:, 0], of(what, 3.5), talks))
        for what in ("completeness", "appropriateness", "naturalness")
        if what in found[0][0].ratings
    }
    systems = tuple(sorted({a.system for a, _ in found}))
    counts = {
        "answers": len(y),
        "faithful": int(y.sum()),
        "conversations": len(set(talks)),
    }
    licence = {
        "way": "attached",
        "least": own.least,
        "slope": slope,
        "intercept": intercept,
    }
    licence |= {
        **counts,
        "systems": systems,
        "auroc": _rounded(auroc_interval(x[:, 0], y, talks)),
    }
    return {**licence, "bins": bins_of(np.array(stated), y, talks)}, others


def measure_confidence(
    out: str | Path = "data/measured/confidence.json",
    embedder: EmbedderLike | None = None,  # None: the laptop's
) -> dict:
    "Hold the confidence against the rated answers of $MTRAG_DATA, print it, write it down. Seconds."
    data = real_data("the rated answers")
    found, others = licensed(
        read_ratings(find_rated_file(data)),
        embedder or Models(load_settings()).embedder,
        NexusSettings(**LAPTOP),
    )
    print(repr(found), f"AUROC for another rating being the best: {others}", sep="\n")
    write_json(
        out,
        {
            "machine": machine(),
            "packages": package_versions(),
            "licence": found,
            "others": others,
        },
    )
    return found


def citation_scores(
    run: Run, gold: Mapping[str, Gold]
) -> dict[str, dict[str, float]]:  # task id -> measure -> value, where it has one
    "What the citations of each answer are worth."
    out = {}
    for i, t in run.trajectories.items():
        cited = claims_of(t, run.passages)
        if cited is None:
            continue
        texts = [run.passages[c].text for c in t.contexts]
        wanted = {p.id for p in gold[i].passages}
        named = {
            run.passages[x.context].document_id
            for c in cited.claims
            for x in c.citations
            if x.supports
        }
        out[i] = {
            **_shares(cited.claims, texts),
            **(
                {"precision": len(named & wanted) / len(named)}
                if named and wanted
                else {}
            ),
            **({"recall": len(named & wanted) / len(wanted)} if wanted else {}),
        }
    return out


def _shares(claims: Sequence[Claim], texts: Sequence[str]) -> dict[str, float]:
    "Shares of claims; nothing for an answer without."
    if not claims:
        return {}
    good = [float(c.supported) for c in claims]
    return {
        "supported": mean(good),
        "all supported": float(all(good)),
        "in company": mean(
            float(contextual_support(c.text, texts) >= LEAST_COMPANY) for c in claims
        ),
    }


def _share(told: dict) -> dict:
    "A share's interval ends at 0 and at 1."

    def bound(x):
        return None if x is None else min(1.0, max(0.0, x))

    return {**told, "low": bound(told["low"]), "high": bound(told["high"])}


def cited_rows(
    runs: Mapping[str, Run],  # the first is the one that the others are compared with
    gold: Mapping[str, Gold],
) -> dict:  # plain data
    "Means with intervals, and each run minus the first over the turns that both answered."
    scores = {name: citation_scores(r, gold) for name, r in runs.items()}
    talks = {
        i: t.conversation_id for r in runs.values() for i, t in r.trajectories.items()
    }

    def span(make, xs):
        return {
            **dict(
                zip(
                    ("mean", "low", "high"),
                    _rounded(make(list(xs.values()), [talks[i] for i in xs])),
                )
            ),
            "n": len(xs),
        }

    def have(name, m):
        return {i: s[m] for i, s in scores[name].items() if m in s}

    rows = {
        name: {m: _share(span(mean_interval, have(name, m))) for m in MEASURES}
        for name in runs
    }
    first = next(iter(runs))

    def both(name, m):
        return {
            i: x - have(first, m)[i]
            for i, x in have(name, m).items()
            if i in have(first, m)
        }

    return {
        "answered": {name: len(s) for name, s in scores.items()},
        "rows": rows,
        "minus": {
            name: {m: span(difference_interval, both(name, m)) for m in MEASURES}
            for name in list(runs)[1:]
        },
    }


BESIDE_NEXUS: Variants = {
    "naive": (NAIVE, {}),
    "quote": (QUOTE, {}),
    "self_crag": (SELF_CRAG, {}),
    "nexus": (NEXUS, {}),
    "nexus-written": (NEXUS, {"nexus.generator": "write"}),
}


def measure_nexus(
    out: str | Path = "data/measured",
    runs: str | Path = "runs/nexus",
    profile: str = "laptop",
    n: int = 60,  # tasks, drawn at random
    index: str | Path | None = None,  # of the domain's corpus; None: $MTRAG_INDEX
    domain: str = "govt",
) -> None:
    "Hold the confidence against ratings, run five systems over real tasks, print the tables, write `confidence.json` and `nexus.json`."
    data = real_data("mtrag-human/reference.jsonl")
    settings = load_settings(profile)
    if not (index := index or os.environ.get("MTRAG_INDEX")):
        raise DataError("no index: name one, or set MTRAG_INDEX")
    models = Models(settings)
    bert = BertScorer(MINILM, rescale=False)
    measure_confidence(Path(out) / "confidence.json", models.embedder)
    known = read_benchmark(
        official_file(data, "mtrag-human/reference"), domains=[domain]
    )
    drawn = sorted(
        random.Random(0).sample(range(len(known.tasks)), min(n, len(known.tasks)))
    )
    done = run_all(
        known,
        [known.tasks[i] for i in drawn],
        Path(runs),
        settings,
        models,
        Path(index),
        BESIDE_NEXUS,
    )
    told = {
        "machine": machine(),
        "packages": package_versions(),
        "profile": profile,
        "domain": domain,
        "beside": measured(done, known.gold, bert),
        "cited": cited_rows(done, known.gold),
    }
    write_json(Path(out) / "nexus.json", plain(told))
    for heading, table in nexus_report(told).items():
        print(f"{heading}\n{text_table(*table)}\n", flush=True)


def measure_citing(
    out: str | Path = "data/measured",
    runs: str | Path = "runs/citing",
    profile: str = "laptop",
) -> None:
    "Let a profile's model write answers to the sample and cite as it is asked to (4.2); count what it cited, write `citing.json`."
    known = read_benchmark(sample_dir() / "reference.jsonl")
    settings = load_settings(profile)
    models = Models(settings)
    index = Path(runs) / "index"
    corpus = list(read_corpus(*sample_corpus()))
    build_index(corpus, index, models.embedder, settings.chunks)
    asked = {"citing": (NEXUS, {"nexus.generator": "write", "nexus.cite": "model"})}
    run = run_all(known, known.tasks, Path(runs), settings, models, index, asked)[
        "citing"
    ]
    cited = [t.of(Cited)[-1] for t in run.trajectories.values() if t.of(Cited)]
    claims = [c for s in cited for c in s.claims]
    told = {
        "machine": machine(),
        "packages": package_versions(),
        "profile": profile,
        "answers": len(cited),
        "written": sum(
            s.way == "written" for s in cited
        ),  # with a number of a source in it
        "claims": len(claims),
        "attached": sum(
            bool(c.citations) for s in cited if s.way == "attached" for c in s.claims
        ),
        "supported": sum(any(x.supports for x in c.citations) for c in claims),
    }
    write_json(Path(out) / "citing.json", plain(told))
    print(
        {k: told[k] for k in ("answers", "written", "claims", "attached", "supported")}
    )


def show_nexus() -> None:
    "Print claims and sources, the hypotheses, and the systems side by side."
    for heading, table in nexus_report(kept_in("nexus")).items():
        print(f"{heading}\n{text_table(*table)}\n")


def show_confidence() -> None:
    "Print the licence of the stated confidence, its bins, and its AUROC for other ratings."
    licence = _measured_licence()
    print(
        f"of {licence['answers']} rated answers of {' and '.join(licence['systems'])} "
        f"in {licence['conversations']} conversations "
        f"{licence['faithful']} were faithful, AUROC {licence['auroc'][0]:.2f}"
    )
    rows = []
    for b in licence["bins"]:
        ends = f"[{b['observed_low']:.2f}, {b['observed_high']:.2f}]"
        confidence = f"{b['low']:.2f} to {b['high']:.2f}"
        observed = f"{b['observed']:.2f} {ends}"
        rows.append((confidence, b["n"], f"{b['stated']:.2f}", observed))
    print(text_table(["confidence", "answers", "stated", "observed"], rows))
    print({raw: _chance(licence, raw) for raw in (0.0, 0.25, 0.5, 0.75, 1.0)})
    others = kept_in("confidence")["others"]
    rows = [[k, *v] for k, v in others.items()]
    print(text_table(["rating", "AUROC", "from", "to"], rows))


def check_findings() -> None:
    "Assert what the study says of NexusRAG, of the results that are kept."
    found = kept_in("nexus")
    rows = found["cited"]["rows"]
    minus = found["cited"]["minus"]
    beside = found["beside"]
    assert (
        hypothesis(found["cited"], "nexus-written")[0].startswith("refuted")
        and rows["nexus"]["all supported"]["mean"] == 1
    )
    assert hypothesis(found["cited"], "nexus-written")[1].startswith(
        "open"
    ) and hypothesis(found["cited"], "nexus")[1].startswith("shown")
    assert (
        hypothesis(found["cited"], "self_crag")[1].startswith("shown")
        and 0.4 < rows["nexus-written"]["in company"]["mean"] < 0.6
    )
    assert (
        minus["nexus"]["precision"]["low"] < 0 < minus["nexus"]["precision"]["high"]
        and minus["nexus"]["recall"]["low"] > 0
    )
    pairs = {(p["a"], p["b"]): p for p in beside["pairs"] if p["measure"] == SCORES[0]}
    assert pairs["nexus", "naive"]["low"] < 0 < pairs["nexus", "naive"]["difference"]
    tokens_of = {
        n: beside["rows"][n]["cost"]["tokens_in"]
        + beside["rows"][n]["cost"]["tokens_out"]
        for n in ("nexus", "naive")
    }
    assert 0.2 < tokens_of["nexus"] / tokens_of["naive"] < 0.3
    assert not any(
        beside["rows"][n]["outcomes"].get("i_dont_know")
        for n in ("nexus", "nexus-written")
    )
    licence = _measured_licence()
    assert licence["auroc"][1] > 0.7
    assert all(map(_holds, licence["bins"]))
    assert licence["way"] == "attached"
    assert _chance(licence, 0.0) > 0.5
    assert (licence["answers"], licence["conversations"]) == (152, 10)
    own = NexusSettings(**LAPTOP)
    calibration = _read_calibration(data_dir("measured") / "calibration.json")
    easy = calibration.random["cosine"]
    hard = calibration.retrieved["cosine"]
    assert easy.tied[0] <= own.ambiguous <= easy.tied[1]
    assert abs(own.correct - hard.threshold) < 0.01
    assert (own.least, calibration.check["support"].threshold) == (0.6, 0.617)


def check_confidence_again(data: Path) -> None:
    "Assert that the confidence comes out as it is kept, and that four of the questions have no answer."
    licence = _measured_licence()
    rated = read_ratings(find_rated_file(data))
    embedder = Models(load_settings()).embedder
    again, _ = licensed(rated, embedder, NexusSettings(**LAPTOP))
    assert again["answers"] == licence["answers"]
    assert abs(again["auroc"][0] - licence["auroc"][0]) < 0.01
    assert abs(again["slope"] - licence["slope"]) < 0.5
    reference = official_file(data, "mtrag-human/reference")
    govt = read_benchmark(reference, domains=["govt"])
    size = kept_in("nexus")["beside"]["tasks"]
    drawn = random.Random(0).sample(range(len(govt.tasks)), size)
    labels = [govt.gold[govt.tasks[i].id].answerability for i in drawn]
    assert labels.count("UNANSWERABLE") == 4
