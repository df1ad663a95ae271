"""The numbers that are printed of released runs, counted again by code that shares nothing with the package: json, csv and regular
expressions over the raw files, pandas, an own bootstrap. What is taken from it: its list of stop words, and the rules that are themselves
what is measured (refusals, contextual support, sentences, features of claims, the rule of unclear questions). Counts agree exactly, means
to 2e-5, the ends of intervals with a percentile bootstrap over conversations as `ends` says, p within the noise of random signs.
`MTRAG_RECOUNT=all` also counts what asks an encoder, in a quarter of an hour on one core; its vectors are kept in `.pytest_cache`.

Not counted again without it: the cosine of answer and target, nearness of drafts, the choice of a combination's parts, the checks by
cosine and the combination for GPT-4.1 (and with it the combination's rows over all systems). Not counted again at all:
- the signals of `gate.json` (they need its index; what is printed of them is), the endings and seeds of `equal.json` and the row of
  copied sentences, which come from runs of this project's own systems;
- ends of intervals of 20 conversations and fewer (among them the noise floor and what style alone does), of shares near 0 or 1, of
  AUROC with fewer than ten of a kind, of rank correlations of 50 answers and fewer (RB_agg: of 100), nor their conversations;
- how large a difference RaguTeam's pairs could show, and with how many tasks more (`raguteam.json`);
- only roughly: signs of surfaces by price and share (to a seventh of the points), systems up or down (to two)."""

import csv
import gzip
import hashlib
import json
import os
import random
import re
from collections import Counter, defaultdict
from functools import lru_cache, partial, wraps
from itertools import combinations, product
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, rankdata, spearmanr
from sklearn.linear_model import LogisticRegression, Ridge

from mtrag_nb.core import refusals
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.claims import (
    _FEATURES,
    _claim_features,
    _draft_features,
    claims_something,
)
from mtrag_nb.core.text import STOPWORDS, sentences
from mtrag_nb.core.types import Turn
from mtrag_nb.evaluation.verdicts import best_by_target
from mtrag_nb.models.weights import find_model
from mtrag_nb.systems.quotes import _quotable
from tests.support.clarity import features, underspecified
from tests.support.claims import Planted, of_sample, planted
from tests.support.company import contextual_support
from words import GROUPS, words

MEASURED = Path(__file__).parents[2] / "data" / "measured"
ROOT = Path(os.environ.get("MTRAG_DATA") or "nowhere")
ALL = os.environ.get("MTRAG_RECOUNT") == "all"  # what asks an encoder, too
asks_encoder = pytest.mark.skipif(not ALL, reason="asks an encoder: MTRAG_RECOUNT=all")
idk_by_rule = lru_cache(None)(refusals.idk_by_rule)
CONTEXTS, PROMPTS = ("gold", "elser", "recall"), ("official", "abstain")
ARMS = [(c, p) for p in PROMPTS for c in CONTEXTS]
UNANSWERED, ANSWERED = ("UNANSWERABLE", "CONVERSATIONAL"), ("ANSWERABLE", "PARTIAL")
LABELS = (*ANSWERED, "UNANSWERABLE")
HALVES = ("choosing", "reporting")
DEV, UN = "mtrag-human", "mtragun-human"
RATED = "mtrag-human/human_evaluations_dev.json"
SYNTHETIC = "mtrag-synthetic/evaluations_synthetic.json.gz"
TEAMS = "mtragun-human/predictions_raguteam"
GATED = "released/iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl.gz"
SIFEI = "released/sifei/A_test_hybrid-rerank_old.jsonl.gz"
SUBMITTED = {
    "gemini-3-pro-preview-high_new_prompt": "Gemini 3 Pro",
    "glm_46_gemini_prompt": "GLM 4.6",
    "haiku45_taskB": "Haiku 4.5",
    "qwen235b_gemini_prompt_no_empty": "Qwen3 235B",
    "llama3_3_70b_gemini_prompt": "Llama 3.3 70B",
    "qwen2_5_32b_taskB": "Qwen2.5 32B",
    "meno_v17_ckp420_taskB": "Meno",
}
MODELS = {
    "gpt-4o-mini": "GPT-4o-mini",
    "mixtral_8x22b_instruct": "Mixtral 8x22B",
    "llama-3.1-405b-instruct": "Llama 3.1 405B",
    "c4ai-command-r-plus": "Command-R+",
    "qwen-2.5-72b-instruct": "Qwen2.5 72B",
}
TOLD = {"official": "the benchmark's prompt", "abstain": "told to abstain"}
MORE = {...: 0}  # in what is counted: of the kept, this is not all


@lru_cache
def kept(name):
    return json.loads((MEASURED / f"{name}.json").read_text("utf-8"))


def files(pattern):
    "Files of the official data; a test that asks for one is skipped where there are none."
    if not (ROOT / "released").is_dir():
        pytest.skip("MTRAG_DATA has no released outputs")
    return sorted(ROOT.glob(pattern))


def read(path):
    "A file of the official data; lines of JSON as a list."
    raw = files(str(path))[0].read_bytes()
    text = (gzip.decompress(raw) if str(path).endswith(".gz") else raw).decode()
    if "jsonl" not in str(path):
        return json.loads(text)
    return [json.loads(x) for x in text.split("\n") if x.strip()]


def by_task(path):
    return {o["task_id"]: o for o in read(path)}


# --- what is kept against what is counted -----------------------------------------------------------------------------------------


def same(kept, own):
    "Fails with the paths where two nested values differ."
    off = [*differences(kept, own)]
    assert not off, "\n".join(off[:20])


def differences(kept, own, at="kept"):
    "A function in `own` is asked for the differences itself; `...` among its keys: of the kept ones these are not all."
    if callable(own):
        yield from own(kept, at)
    elif isinstance(own, dict):
        if own.keys() - {...} - kept.keys() or (
            ... not in own and kept.keys() - own.keys()
        ):
            yield f"{at}: {sorted(kept)} are kept, {sorted(own.keys() - {...})} counted"
        for k in kept.keys() & own.keys():
            yield from differences(kept[k], own[k], f"{at}, {k}")
    elif isinstance(own, (list, tuple)):
        yield from differences(dict(enumerate(kept)), dict(enumerate(own)), at)
    elif isinstance(own, (float, np.floating)):
        yield from within(own)(kept, at)
    elif kept != own:
        yield f"{at}: {kept} is kept, {own} counted"


def counted(check):
    "check(found, at, *own) as a function of what was counted, for `same`."

    @wraps(check)
    def of(*own, **how):
        return lambda found, at: check(found, at, *own, **how)

    return of


@counted
def within(found, at, own, off=2e-5):
    if found is None or not abs(found - own) <= off:
        yield f"{at}: {found} is kept, {own} counted, to {off:.2g}"


def talk(i):
    return i.split("<::>")[0]


def talks(ids):
    return [*map(talk, ids)]


def clusters(ids):
    return len({*talks(ids)})


def drawn(rows, resamples=4000):
    "Sums over conversations drawn again, those with equal sums together; rows: a table, by task id."
    sums = rows.groupby(talks(rows.index)).sum().to_numpy(float)
    kinds, counts = np.unique(sums, axis=0, return_counts=True)
    return draws(counts, resamples) @ kinds


def draws(counts, resamples):
    "How often each kind of conversation is drawn; counts: how many there are of each."
    n = counts.sum()
    return np.random.default_rng(1).multinomial(n, counts / n, resamples)


def percentiles(values, level=0.95):
    return np.quantile(values, ((1 - level) / 2, (1 + level) / 2), axis=0)


def bootstrap(values, resamples=4000):
    "Percentile interval of a mean over conversations; values: by task id."
    total = drawn(pd.DataFrame({"sum": values, "n": 1.0}), resamples)
    return percentiles(total[:, 0] / total[:, 1])


@counted
def ends(found, at, low, high):
    "Of an interval: at most an eighth narrower than by the bootstrap, at most a half wider (few conversations, shares near 0 or 1)."
    span, wider = high - low, (low - found["low"], found["high"] - high)
    if min(wider) <= -0.005 - span / 8 or max(wider) >= 0.01 + span / 2:
        yield f"{at}: {found['low']} to {found['high']} is kept, {low} to {high} counted"


@counted
def mean(found, at, values, last=2e-5):
    "A mean over tasks with its interval; of a share near 0 or 1 a bootstrap knows no ends."
    v, n = pd.Series(values, dtype=float), len(values)
    own = {"value": within(v.mean(), last) if n else None, "n": n}
    own |= {"clusters": clusters(v.index)} if n else {}
    yield from differences(found, own | MORE, at)
    rare = clusters(v[v != 0].index)
    if v.isin([0, 1]).all():
        rare = min(v.sum(), n - v.sum())
    if n and found["low"] is not None and found["clusters"] > 20 and rare >= 5:
        yield from ends(*bootstrap(v))(found, at)


def means(table, names):
    return {m: mean(table[m]) for m in names}


@counted
def statistic(found, at, rows, of):
    "A function of the sums over tasks."
    yield from within(of(rows.sum().to_numpy()))(found["value"], at)
    yield from ends(*percentiles(of(drawn(rows).T)))(found, at)


def less(a, b):
    return (a.astype(float) - b.astype(float)).dropna()


@lru_cache
def some_signs():
    return np.random.default_rng(2).choice([-1.0, 1.0], (20_000, 400))


@counted
def by_flips(found, at, d):
    "p of a mean difference by random signs of conversations, within the noise of the draws."
    over = np.abs(some_signs()[:, : len(d)] @ d) >= abs(d.sum()) - 1e-9
    own = (1 + over.sum()) / (1 + len(over))
    yield from within(own, 6 * np.sqrt(own * (1 - own) / 7_000) + 2e-4)(found, at)


def by_talk(values):
    "Sums of the conversations that differ."
    sums = values.astype(float).groupby(talks(values.index)).sum().to_numpy()
    return sums[sums != 0]


def p_of(values, differ="conversations that differ"):
    "p by random signs, and how many conversations differ; nothing where none does."
    d = by_talk(values)
    return {"p": by_flips(d)} | ({differ: len(d)} if differ else {}) if len(d) else {}


def by_signs(change):
    "How many conversations go up and down, and p of the exact sign test."
    d = by_talk(change)
    up, down = int((d > 0).sum()), int((d < 0).sum())
    p = binomtest(up, up + down).pvalue
    return {
        "conversations up": up,
        "conversations down": down,
        "p": within(p, 1e-4 * p),
    }


def holm(own, rows, name="p holm"):
    "Adds to `own` p by Holm, from the p that are kept, of those rows that could show a difference at all (Tarone 1990)."
    least = {
        k: 2.0 ** (1 - r.get("conversations that differ", 99))
        for k, r in rows.items()
        if "p" in r
    }
    most = (
        k
        for k in range(1, len(least) + 1)
        if sum(x < 0.05 / k for x in least.values()) <= k
    )
    bar, worst = 0.05 / next(most, 1), 0.0
    able = sorted((k for k in least if least[k] < bar), key=lambda k: rows[k]["p"])
    for n, k in enumerate(able):
        worst = max(worst, min(1.0, (len(able) - n) * rows[k]["p"]))
        own.setdefault(k, dict(MORE))[name] = within(worst, 1e-3 * worst)
    return own


def auroc(x, y):
    rank, n = rankdata(x), y.sum()
    return (rank[y].sum() - n * (n + 1) / 2) / (n * (len(y) - n))


@counted
def area(found, at, x, y, ids, minus=None, last=2e-5, every=False):
    "AUROC, or what it is above another's; of conversations drawn again where both kinds are ten and more."
    lots, y = np.array(talks(ids)), np.asarray(y, bool)
    columns = [np.asarray(c, float) for c in (x, minus) if c is not None]
    values = [auroc(c, y) for c in columns]
    clusters = min(
        len({*lots[y]}), len({*lots[~y]})
    )  # that hold one kind, and the other
    own = {"value": within(values[0] - sum(values[1:]), last), "n": len(y)} | MORE
    yield from differences(
        found, own | {"clusters": len({*lots}) if every else clusters}, at
    )
    if found["low"] is None or min(y.sum(), (~y).sum()) < 10 or found["clusters"] <= 20:
        return
    of, shares = pd.get_dummies(lots).to_numpy(float), []
    times = draws(np.ones(of.shape[1], int), 2000)
    ways = (times @ of[y].sum(0)) * (times @ of[~y].sum(0))
    for c in columns:
        over = np.sign(c[y][:, None] - c[~y]) / 2 + 0.5
        won = ((times @ (of[y].T @ over @ of[~y])) * times).sum(1)
        shares.append(won[ways > 0] / ways[ways > 0])
    yield from ends(*percentiles(shares[0] - sum(shares[1:])))(found, at)


@counted
def correlation(found, at, x, y, ids, last=2e-5, least=50):
    "Spearman's, with ends by conversations drawn again."
    x, y = rankdata(x), rankdata(y)
    own = {"value": within(np.corrcoef(x, y)[0, 1], last), "n": len(x)}
    yield from differences(found, own | MORE, at)
    if len(x) > least:
        lots = [*pd.Series(x).groupby(talks(ids)).indices.values()]
        rng, values = np.random.default_rng(6), []
        for _ in range(300):
            picked = np.concatenate(
                [lots[k] for k in rng.integers(0, len(lots), len(lots))]
            )
            values.append(np.corrcoef(rankdata(x[picked]), rankdata(y[picked]))[0, 1])
        yield from ends(*percentiles(values))(found, at)


# --- words, and answers -----------------------------------------------------------------------------------------------------------


@lru_cache(None)
def words_of(text):
    cells = {c for g in GROUPS.findall(text) for c in g.split(" ")}
    return frozenset(words(text)) | cells


def words_in(texts):
    return frozenset().union(*map(words_of, texts))


def content(text):
    return [w for w in words(text) if w not in STOPWORDS]


def held(text, known):
    "The share of the content words of a text that are among some words."
    some = content(text)
    return sum(w in known for w in some) / len(some) if some else 1.0


@lru_cache(None)
def recall_of(answer, target):
    "Target recall: the share of the target's content words in the answer, less where it is over twice as long."
    most = 2 * len(target.split()) / max(1, len(answer.split()))
    return held(target, words_of(answer)) * min(1.0, most)


def verdict(answer, target, of=recall_of, low=0.2, high=0.38):
    score = of(answer, target)
    return "right" if score >= high else "failed" if score < low else "undecided"


def by_facts(answer, target, task):
    "The package's verdict: recall, counted again by `verdict`, and facts, whose rule `test_facts` tests."
    question = task["input"][-1]["text"]
    told = best_by_target(answer, [target], question).verdict
    return "failed" if told == "wrong" else told


@lru_cache(None)
def in_order(answer, target):
    "Longest common subsequence of two texts' words, and how many each has; by the bits of one number (Hyyrö 2004)."
    a, b = (re.findall("[a-z0-9]+", t.lower()) for t in (answer, target))
    at, free = defaultdict(int), (1 << len(b)) - 1
    for j, y in enumerate(b):
        at[y] |= 1 << j
    for x in a:
        both = free & at.get(x, 0)
        free = (free + both) | (free - both)
    return len(b) - (free & ((1 << len(b)) - 1)).bit_count(), len(a), len(b)


def rouge(answer, target):
    both, a, b = in_order(answer, target)
    return 2 * both / (a + b) if both else 0.0


def half(i):
    return HALVES[int(hashlib.sha256(talk(i).encode()).hexdigest(), 16) % 2]


def label(o):
    return (o.get("Answerability") or o["answerability"])[0]


@lru_cache
def tasks_of(name):
    return by_task(f"{name}/reference.jsonl")


def row(model, task, answer, passages, scores):
    "An answer with its task; `no`: refused by the official verdict, where there is none by the rule."
    answer, target, said = (
        answer or "",
        task["targets"][0]["text"],
        scores.get("idk_eval"),
    )
    rule, cannot = idk_by_rule(answer) == 1, label(task) in UNANSWERED
    no = said == 1 if said in (0, 0.5, 1) else rule
    refused, by_words = no or not answer.strip(), by_facts(answer, target, task)
    turn = int(task.get("turn") or 1)
    return scores | {
        "id": task["task_id"],
        "talk": talk(task["task_id"]),
        "model": model,
        "label": label(task),
        "domain": (
            re.search("clapnq|cloud|fiqa|govt", str(task.get("Collection"))) or [""]
        )[0],
        "turn": "first" if turn == 1 else "second to fourth" if turn < 5 else "later",
        "said": [x["text"] for x in task["input"]],
        "task": task,
        "answer": answer,
        "target": target,
        "texts": [c["text"] for c in passages if c["text"].strip()],
        "given": {c["document_id"] for c in passages},
        "rule": rule,
        "no": no,
        "refused": refused,
        "cannot": cannot,
        "by words": by_words,
        "by recall": verdict(answer, target),
        "came": "failed" if refused != cannot else "right" if cannot else by_words,
    }


def frame(rows):
    t = pd.DataFrame(rows).set_index("id", drop=False)
    return t.astype({k: float for k in ("RB_llm", "RL_F") if k in t})


def table(path, of, model):
    "The answers of a file, with tasks of a set."
    rows = []
    for o in read(path):
        m = {
            k: v
            for k, v in (o.get("metrics") or {}).items()
            if isinstance(v, list) and v
        }
        scores = {k: max(v) if k == "BertKPrec" else v[0] for k, v in m.items()}
        answer = o["prediction"] if "prediction" in o else o["predictions"][0]["text"]
        if task := tasks_of(of).get(o["task_id"]):
            given = o.get("contexts", task["contexts"])
            rows.append(row(model, task, answer, given, scores | {"measured": [*m]}))
    return frame(rows)


@lru_cache
def submitted():
    return {f: table(f"{TEAMS}/{f}.jsonl", UN, f) for f in SUBMITTED}


@lru_cache
def evaluations(path):
    "Answers of several models; `conditional_idk` and the label say what the verdict was. marks: of people."
    told, out = read(path), []
    tasks = {t["task_id"]: t for t in told["tasks"]}
    passages = {d["document_id"]: d for d in told["documents"]}
    for e in told["evaluations"]:
        task, by = tasks[e["task_id"]], e["annotations"]
        first = {k: next(iter(v.values()))["value"] for k, v in by.items()}
        no = (first["conditional_idk"] == 1) == (label(task) in UNANSWERED)
        scores = {
            "RB_llm": first.get("rb_llm"),
            "RL_F": first.get("rl_f"),
            "idk_eval": float(no),
        }
        kinds = [k for k in ("faithfulness", "completeness") if k in by]
        scores |= {k: [float(v["value"]) for v in by[k].values()] for k in kinds}
        scores["people"] = min((np.median(scores[k]) for k in kinds), default=np.nan)
        mine = [passages[c["document_id"]] for c in task["contexts"]]
        out.append(row(e["model_id"], task, e["model_response"], mine, scores))
    return frame(out)


def rated(path):
    t = evaluations(path)
    return t[(t.model != "reference") & t.label.isin(UNANSWERED + ANSWERED)]


# --- GPT-4o's six runs -------------------------------------------------------------------------------------------------------------


@lru_cache
def arm(context, prompt):
    task = "B" if context == "gold" else "C"
    path = f"released/re_call/{task}_dev_gpt-4o_{context}_prompt-{prompt}.jsonl.gz"
    return table(path, DEV, f"{context}, {prompt}")


@lru_cache
def relevant():
    "Task -> gold passages, by the qrels of all domains."
    found = defaultdict(set)
    for path in files("mtrag-human/retrieval_tasks/**/qrels/dev.tsv"):
        for row in list(csv.reader(path.open(encoding="utf-8"), delimiter="\t"))[1:]:
            if int(row[2]):
                found[row[0]].add(row[1])
    return dict(found)


CAUSES = ["gold not found", "declined though gold was there", "wrong draft from gold"]


@lru_cache
def turns(context, prompt):
    "The answerable turns of a run, what became of them, and of the same turns with gold passages."
    t = arm(context, prompt).loc[[*relevant()]].copy()
    t["held"] = [
        len(relevant()[i] & given) / len(relevant()[i]) for i, given in t.given.items()
    ]
    t["missed"], t["right"], t["failed"] = (
        t.held == 0,
        t.came == "right",
        t.came == "failed",
    )
    t["refused"], t["wrong answer"] = t.no, t.failed & ~t.no
    t["twin"] = arm("gold", prompt).came[t.index]
    t["cause"] = np.where(
        t.failed, np.select([t.missed, t.no], CAUSES[:2], CAUSES[2]), t.came
    )
    t["ending"] = t.cause.where(
        ~(t.failed & t.missed), t.cause + ": " + t.twin + " with gold"
    )
    return t


def no_answer(a):
    return arm(*a)[arm(*a).label == "UNANSWERABLE"]


def official(a, measure, answered=False):
    "Official scores of the answerable tasks: of answers only, or with a wrong refusal as 0."
    t = turns(*a)
    return (
        t[measure][~t.no] if answered else t[f"{measure}_idk_underspecified"]
    ).dropna()


JUDGED = ("RL_F", "RB_llm", "RB_agg")
RATES = ("right", "failed", "refused", "wrong answer")
LOST = [f"{CAUSES[0]}: {x} with gold" for x in ("right", "undecided", "failed")]
ENDINGS = ["right", "undecided", *LOST, *CAUSES[1:]]
NAMES = {"gold": "gold passages", "elser": "ELSER", "recall": "RE-call"}
STEPS = {
    **{f"ELSER for gold, {p}": (("elser", p), ("gold", p)) for p in PROMPTS},
    **{f"RE-call for gold, {p}": (("recall", p), ("gold", p)) for p in PROMPTS},
    **{f"abstention prompt, {c}": ((c, "abstain"), (c, "official")) for c in CONTEXTS},
}


def test_ladder():
    told, rows, pictures = kept("released"), {}, {}
    for a in ARMS:
        t, un, counts = turns(*a), no_answer(a), Counter(turns(*a).ending)
        rows[", ".join(a)] = means(t, RATES) | {
            "refused, unanswerable": mean(un.no),
            "unanswerable with passages": int(un.given.map(bool).sum()),
            "faithful": mean(official(a, "RL_F", True)),
            **{m: mean(official(a, m)) for m in ("RB_llm", "RB_agg")},
            "endings": dict(counts),
        }
        abstain = ", told to abstain" if a[1] == "abstain" else ""
        pictures[NAMES[a[0]] + abstain] = [counts[x] for x in ENDINGS]
    same(
        told["ladder"],
        {"tasks": len(relevant()), "unanswerable": 55, "rows": rows} | MORE,
    )
    same({k: [*v.values()] for k, v in told["picture"]["counts"].items()}, pictures)


def test_steps_of_the_ladder():
    told, steps, judged = kept("released")["ladder"], {}, {}
    for name, (a, b) in STEPS.items():
        some = {m: less(turns(*a)[m], turns(*b)[m]) for m in RATES}
        scores = [
            official(x, "RB_llm", True).reindex(relevant()).fillna(0.6) for x in (a, b)
        ]
        faithful = (official(x, "RL_F", True) for x in (a, b))
        some["faithful, where both answer"] = less(*faithful)
        some["RB_llm"] = less(official(a, "RB_llm"), official(b, "RB_llm"))
        steps |= {
            (name, m): {"difference": mean(v), **p_of(v, None)} for m, v in some.items()
        }
        judged[name] = {"right": mean(less(*(x >= 0.7 for x in scores)))}
        judged[name]["wrong answer"] = mean(less(*(x < 0.5 for x in scores)))
    flat = {(n, m): row for n, rows in told["steps"].items() for m, row in rows.items()}
    same(flat, holm(steps, flat))
    same(told["by RB_llm"], judged)


def test_by_gold_found():
    own = {}
    for c, p in product(("elser", "recall"), PROMPTS):
        t, gold = turns(c, p), turns("gold", p)
        parts = t.groupby(np.select([t.held == 1, t.held > 0], ["all", "some"], "none"))
        rows = own[f"{c}, {p}"] = {}
        for part, g in parts:
            rows[part] = {"tasks": len(g)} | {
                m: mean(less(g[m], gold[m])) for m in RATES
            }
    same(kept("released")["by gold found"], own)


def test_where_abstention_pays():
    def share(sums):
        loss, won = -sums[0] / sums[1], sums[2] / sums[3]
        return loss / (loss + won)

    for c in CONTEXTS:
        a, b = (c, "abstain"), (c, "official")
        change = pd.DataFrame(
            {"loss": less(turns(*a).right, turns(*b).right), "of": 1.0}
        )
        gain = pd.DataFrame(
            {"gain": less(no_answer(a).no, no_answer(b).no), "of them": 1.0}
        )
        rows = change.join(gain, how="outer").fillna(0)
        same(kept("released")["break even"][c], statistic(rows, share))


# --- blame ---------------------------------------------------------------------------------------------------------------------------


def became(t):
    own = {k: (t.twin == k).sum() for k in ("right", "undecided", "failed")} | {
        "turns": len(t)
    }
    return own | {
        "repaired": mean(t.twin == "right"),
        "fails still": mean(t.twin == "failed"),
    }


def lost(a):
    t = turns(*a)
    return t[t.missed & t.failed].copy()


def test_blame_against_the_same_turns_with_gold():
    own = {}
    for a in product(("elser", "recall"), PROMPTS):
        t, some, rows = turns(*a), lost(a), {"all": became(lost(a))}
        some["ending"] = np.where(some.no, "refused", "answered")
        for k in ("domain", "turn", "label", "ending"):
            rows |= {f"{k}: {v}": became(g) for v, g in some.groupby(k)}
        sums = {
            "there": ~t.missed,
            "failed there": t.failed & ~t.missed,
            "gone": t.missed,
        }
        sums = pd.DataFrame(sums | {"failed of these": t.failed & t.missed}).astype(
            float
        )
        scores = {m: (official(("gold", a[1]), m), official(a, m)) for m in JUDGED}
        own[", ".join(a)] = {
            "missed": int(t.missed.sum()),
            "right all the same": mean(t.right[t.missed]),
            "rows": rows,
            "other causes": {k: became(t[t.cause == k]) for k in CAUSES[1:]},
            "from the run alone": {
                "fails, gold missing": mean(t.failed[t.missed]),
                "fails, gold there": mean(t.failed[~t.missed]),
                "fails no longer": mean(some.twin != "failed"),
                "excess": statistic(sums, lambda s: 1 - s[1] / s[0] / (s[3] / s[2])),
            },
            "official": {
                m: mean(less(*v).filter(some.index)) for m, v in scores.items()
            },
        }
    same(kept("released")["counterfactual"], own)


def test_second_answers_and_the_same_misses():
    own, sets = {}, [{*lost(("elser", p)).index} for p in PROMPTS]
    for p in PROMPTS:
        again, gold = turns("recall", p), turns("gold", p)
        ids = [i for i in lost(("elser", p)).index if again.missed[i]]
        again, gold = again.right[ids], gold.right[ids]
        own[p] = {"turns": len(ids), "difference": mean(less(gold, again))}
        own[p] |= {
            "right again without gold": mean(again),
            "right with gold": mean(gold),
        }
    misses = {
        "official": len(sets[0]),
        "abstain": len(sets[1]),
        "both": len(sets[0] & sets[1]),
    }
    same(kept("released"), {"control": own, "same misses": misses} | MORE)


def laid_to_retrieval(c, p, other):
    "What each of six rules says of the failed turns of a run, and whether gold repairs them."
    t = turns(c, p)
    t = t[t.failed & (t.twin != "undecided")]
    texts = t.texts, arm("gold", p).texts[t.index]
    given, best = (
        np.array([held(a, words_in(b)) for a, b in zip(t.target, x)]) for x in texts
    )
    whole = t.label == "ANSWERABLE"
    laid = (
        t.missed,
        t.missed & whole,
        t.missed & (best - given >= 0.2),
        t.missed & (best >= 0.75),
        whole & (best - given >= 0.05),
        t.missed & (arm("gold", other).came[t.index] != "failed"),
    )
    more = {
        "run": f"{c}, {p}",
        "fine": t.twin == "right",
        "half": [*map(half, t.index)],
    }
    return pd.DataFrame({**dict(enumerate(laid)), **more})


def of_rule(k, t):
    agrees, first = ((t[x] == t.fine).astype(float) for x in (k, 0))
    own = {"agrees": mean(agrees), "over the rule of before": mean(agrees - first)}
    return own | {"laid to retrieval": int(t[k].sum()), "repaired": mean(t.fine[t[k]])}


def test_rules_of_blame():
    told, runs = (
        kept("released")["rules"],
        product((PROMPTS, PROMPTS[::-1]), ("elser", "recall")),
    )
    cases = pd.concat(laid_to_retrieval(c, *p) for p, c in runs)
    names, halves = [*told["halves"]["choosing"]], dict([*cases.groupby("half")])
    right = [(halves["choosing"][k] == halves["choosing"].fine).sum() for k in range(6)]
    runs = halves["reporting"].groupby("run")
    sizes = (
        {"turns": len(t), "conversations": clusters(t.index)} for t in halves.values()
    )
    own = {
        "sizes": dict(zip(halves, sizes)),
        "halves": {
            h: {n: of_rule(k, t) for k, n in enumerate(names)}
            for h, t in halves.items()
        },
        "by run": {
            r: {n: of_rule(names.index(n), t) for n in told["by run"][r]}
            for r, t in runs
        },
        "chosen": names[int(np.argmax(right))],
    }
    same(told, own)


# --- searches --------------------------------------------------------------------------------------------------------------------

Z, E, S = "zvictor12/A_dev_bge-m3-", "pashaabri/A_dev_elser", "sifei/A_dev_"
SEARCHES = {
    "bge-m3, last question": f"{Z}dense_lastturn",
    "bge-m3, human rewrite": f"{Z}dense_gold-rewrite",
    "bge-m3, Qwen rewrite": f"{Z}dense_qwen-rewrite",
    "bge-m3 sparse, Qwen rewrite": f"{Z}sparse_qwen-rewrite",
    "bge-m3 RRF, Qwen rewrite": f"{Z}rrf_qwen-rewrite",
    "bge-m3 RRF + reranker, Qwen rewrite": f"{Z}rrf-rerank_qwen-rewrite",
    "ELSER, last question": f"{E}_lastturn",
    "ELSER, human rewrite": f"{E}_rewrite",
    "ELSER two queries + MonoT5": f"{E}-monot5_lastturn+rewrite",
    "ELSER three queries + MonoT5": f"{E}-monot5_lastturn+questions+rewrite",
    "ELSER three queries, Claude's rewrite + MonoT5": f"{E}-monot5_lastturn+questions+targeted",
    "BM25": f"{S}bm25",
    "bge-base": f"{S}dense-bge-base",
    "bge-small": f"{S}dense-bge-small",
    "BM25 + bge-small RRF, Qwen2.5-3B rewrite": "aynazhamedi/A_dev_bm25-bgesmall-rrf_qwen2.5-3b-rewrite",
    "RE-call bge-small": "dense_only",
    "RE-call SPLADE": "splade_only",
    "RE-call bge-small + BM25": "hybrid_lexical",
    "RE-call bge-small + SPLADE": "hybrid_splade",
    "RE-call bge-small + SPLADE + BM25": "hybrid_both",
    "RE-call bge-small + SPLADE + Voyage reranker": "hybrid_splade_voyage",
}


def scores_of(name, measure):
    "Of a search that is released as scores, without passages."
    by = read(f"released/re_call/metrics_A_dev_{SEARCHES[name]}.json.gz")["scores"][
        "per_query"
    ]
    return pd.Series({i: x[measure] for i, x in by.items()})


@lru_cache
def searched(name):
    "Task with gold -> recall at five."
    if name.startswith("RE-call"):
        return scores_of(name, "Recall@5")
    found = {}
    for i, o in by_task(f"released/{SEARCHES[name]}.jsonl.gz").items():
        if gold := relevant().get(i):
            first = list(dict.fromkeys(c["document_id"] for c in o["contexts"]))[:5]
            found[i] = len(gold & {*first}) / len(gold)
    return pd.Series(found)


def hit(name):
    return searched(name) > 0


def moved(change, up="gained", down="lost"):
    return {up: int((change > 0).sum()), down: int((change < 0).sum())}


def test_searches_and_their_pairs():
    told, pairs, rows = kept("released"), {}, {}
    for n in SEARCHES:
        found = {"gold among five": mean(hit(n)), "recall": mean(searched(n))}
        rows[n] = {"tasks": len(hit(n))} | found
    for what, row in told["pairs"].items():
        a, b = row["from"], row["to"]
        change, recall = less(hit(b), hit(a)), less(searched(b), searched(a))
        own = (
            {"from": a, "to": b, "tasks": len(change)}
            | moved(change)
            | by_signs(change)
        )
        pairs[what] = own | {"difference": mean(change), "recall": mean(recall)}
    same(told, {"searches": rows, "pairs": holm(pairs, told["pairs"])} | MORE)


def test_hard_core():
    every = (
        pd.DataFrame({n: hit(n) for n in SEARCHES})
        .reindex(relevant())
        .dropna()
        .astype(bool)
    )
    deep = pd.DataFrame(
        {n: scores_of(n, "Recall@100") for n in SEARCHES if "RE-call" in n}
    )
    t = turns("gold", "official").loc[every.index]
    t["core"], n, rows = (
        ~every.any(axis=1),
        t.said.map(lambda x: len(x[-1].split())),
        {},
    )
    t["length"] = np.select(
        [n <= 5, n <= 12], ["up to 5 words", "6 to 12 words"], "longer"
    )
    t["type"] = t.task.map(lambda o: o["Question Type"])
    t["in the conversation"] = t.task.map(lambda o: o["Multi-Turn"])
    for k in ("domain", "turn", "label", "length", "type", "in the conversation"):
        rows |= {f"{k}: {v}": mean(g.core) for v, g in t.explode(k).groupby(k)}
    own = {
        "searches": len(SEARCHES),
        "tasks": len(t),
        "found by none": mean(t.core),
        "found by all": mean(every.all(axis=1)),
        "of RE-call's six, none among a hundred": mean(
            ~(deep.loc[t.index] > 0).any(axis=1)
        ),
        "rows": rows,
    }
    same(kept("released")["hard core"], own)


def rewritten(asked, new, by_people, said):
    "Measures of a rewrite against what was asked and said before."
    q, r = {*content(asked)}, {*content(new)}
    return {
        "words of the question lost": 1 - len(q & r) / max(1, len(q)),
        "words that nobody said": 1 - held(new, words_in(said)),
        "longer than the question by": len(r) - len(q),
        "words that the human rewrite lacks": len(r - {*content(by_people)}),
    }


# "corelation os 3 metrics": the package takes the question for another language than
# its rewrite, of whose words it then says nothing.
TAKEN_FOR_FOREIGN = "ddbbbe7ea13560c5768639207e1ca604<::>7"


def test_rewrites():
    people, own = {}, {}
    for path in files("mtrag-human/retrieval_tasks/**/*_rewrite.jsonl"):
        some = read(path.relative_to(ROOT))
        people |= {o["_id"]: o["text"].removeprefix("|user|:").strip() for o in some}
    qwen = read("released/zvictor12/rewrites_dev_qwen3.5-4b.jsonl.gz")
    said, qwen = (
        turns("gold", "official").said,
        {o["task_id"]: o["query"] for o in qwen},
    )
    for name, search, new in (
        ("bge-m3, Qwen3.5-4B", "bge-m3, Qwen rewrite", qwen),
        ("bge-m3, human", "bge-m3, human rewrite", people),
        ("ELSER, human", "ELSER, human rewrite", people),
    ):
        change = less(hit(search), hit(name.split(", ")[0] + ", last question"))
        ids = [
            i
            for i in change.index
            if i in new and new[i].strip() != said[i][-1].strip()
        ]
        t = pd.DataFrame(
            [rewritten(said[i][-1], new[i], people[i], said[i]) for i in ids], ids
        )
        texts = np.array([bool(content(said[i][-1]) and content(new[i])) for i in ids])
        texts &= np.array(
            [(i, new is people) != (TAKEN_FOR_FOREIGN, True) for i in ids]
        )
        change, strayed = (
            change[ids],
            (t.iloc[:, 0] > 0.5) & (t.iloc[:, 1] >= 0.5) & texts,
        )
        own[name] = {
            "rewrites": len(ids),
            "strayed": int(strayed.sum()),
            **moved(change),
        }
        own[name] |= moved(change[strayed], "strayed and gained", "strayed and lost")
        own[name]["auroc"] = areas = defaultdict(dict)
        for m, h in product([*t][: 4 if new is qwen else 3], HALVES):
            at = [i for i in ids if change[i] and half(i) == h]
            areas[m][h] = area(t[m][at], change[at] < 0, at)
    same(kept("released")["rewriting"], own)


# --- Self-CRAG, official scores, the test set -------------------------------------------------------------------------------------


def last_turns():
    "The last task of each conversation, in the order of the benchmark's file of conversations."
    last = {}
    for o in tasks_of(DEV).values():  # the last turn of a conversation comes last
        said = tuple(t["text"].strip() for t in o["input"] if t["speaker"] == "user")
        last[said[:2]] = o["task_id"]
    for o in read("mtrag-human/conversations.json"):
        users = [m["text"].strip() for m in o["messages"] if m["speaker"] == "user"]
        yield last[tuple(users[:2])]


def self_crag(version, place):
    "Its last turns by task: label, whether it was refused, why it ended."
    t = pd.DataFrame(read(f"released/gbgers/C_dev110_self-crag_{version}.jsonl.gz"))
    last = [*last_turns()]
    t.index = [last[k] for k in t.get("original_index", t.conversation_id.map(place))]
    t["label"] = [label(tasks_of(DEV)[i]) for i in t.index]
    t["token"] = t.answer.str.strip() == "I_DONT_KNOW"
    t["no"] = t.token | t.answer.map(lambda x: idk_by_rule(x) == 1)
    t["given"] = t.references.map(lambda x: {p["document_id"] for p in x})
    return t.sort_index()


def test_self_crag_of_its_authors():
    told, v2 = kept("released")["self_crag"], "v2_strict_llama8b"
    place = pd.DataFrame(read(f"released/gbgers/C_dev110_self-crag_{v2}.jsonl.gz"))
    place = place.set_index("conversation_id").original_index  # v1 has no index
    names = "v1_strict_llama8b", v2, "v3_permissive_llama3b", "v4_permissive_llama8b"
    runs, own = {v[:2]: self_crag(v, place) for v in names}, {"rows": {}, "changes": {}}
    for v, t in runs.items():
        can = t[t.label.isin(ANSWERED)]
        own["rows"][v] = {
            "token": int(t.token.sum()),
            "refused, answerable": mean(can.no),
        }
        own["rows"][v]["refused"] = {x: mean(g.no) for x, g in t.groupby("label")}
        if v > "v2":
            again = Counter(t.fallback_reason[t.retry_count > 0])
            own["rows"][v] |= {
                "reasons": Counter(t.fallback_reason),
                "reasons, answerable": Counter(can.fallback_reason),
                "retried": again.total(),
                "retried and answered": again["none"],
                "retried, loop exhausted": again["hallucination_loop_exhausted"],
            }
    for name in told["changes"]:
        a, b = name.split(" to ")
        change = less(runs[b].no[can.index], runs[a].no[can.index])
        row = {"difference": mean(change)} | moved(
            change, "begins to", "stops refusing"
        )
        own["changes"][name] = row | by_signs(change)
    holm(own["changes"], told["changes"])
    given, other = runs["v1"].given, runs["v3"].fallback_reason
    own |= {
        "turns": len(given),
        "answerable": len(can),
        "labels": Counter(t.label),
        "v3 and v4 give the same reason": (other == t.fallback_reason).sum(),
        "the four list the same passages": all(
            (x.given == given).all() for x in runs.values()
        ),
        "a gold passage among them": sum(
            bool(relevant()[i] & given[i]) for i in can.index
        ),
    }
    same(told, own)


@lru_cache
def ragu_files():
    paths = [p.relative_to(ROOT) for p in files("released/raguteam/B_dev96_*.jsonl.gz")]
    return {
        p.name.split(".jsonl")[0]: table(p, DEV, p.name.split(".jsonl")[0])
        for p in paths
    }


def of_official_scores(t):
    "RB_agg against its parts and the judge, of answers that have all."
    t = t[~t.no & t.BertKPrec.notna() & t.RB_llm.notna()]
    least = t.RougeL_stemFalse <= (t[["BertscoreR", "BertKPrec"]].min(axis=1) + 1) / 2
    own = {"answers": len(t), "ROUGE-L is the least": int(least.sum())}
    for name, k in (("ROUGE-L", "RougeL_stemFalse"), ("RB_llm", "RB_llm")):
        own[f"RB_agg and {name}"] = correlation(t.RB_agg, t[k], t.id, least=100)
    return own


def of_the_rule_of_refusals(t):
    counts = {
        "official": t.no.sum(),
        "rule": t.rule.sum(),
        "both": (t.rule & t.no).sum(),
    }
    shares = {
        "agree": t.rule == t.no,
        "precision": t.no[t.rule],
        "recall": t.rule[t.no],
    }
    return means(shares, shares) | {"answers": len(t)} | counts


def test_official_scores():
    runs = {f"GPT-4o: {', '.join(a)}": arm(*a) for a in ARMS}
    runs |= {f"RaguTeam: {n[8:]}": t for n, t in ragu_files().items()}
    order = {}
    for a in ARMS:
        order[", ".join(a)] = {m: mean(official(a, m)) for m in JUDGED}
        order[", ".join(a)]["ROUGE-L"] = mean(
            turns(*a).RougeL_stemFalse.where(~turns(*a).no, 0.0)
        )
    own = {
        "rb_agg": {n: of_official_scores(t) for n, t in runs.items()},
        "refusal rule": {n: of_the_rule_of_refusals(t) for n, t in runs.items()},
        "order": order,
    }
    same(kept("released"), own | MORE)


def test_scores_by_cause():
    every = [turns(c, p) for c, p in ARMS if c != "gold"]
    for a in (a for a in ARMS if a[0] != "gold"):
        t = arm(*a)[arm(*a).cannot & ~arm(*a).id.isin(relevant())]
        every.append(t.assign(cause=np.where(t.no, "right", "answered from nothing")))
    own = {}
    for c, t in pd.concat(every).groupby("cause"):
        own[c] = {m: mean(t[m].dropna()) for m in JUDGED}
        own[c]["turns"] = int(t.RB_agg.notna().sum())
    same(kept("released")["scores by cause"], own)


def test_set_of_the_task():
    un = tasks_of(UN)
    t = table(GATED, UN, "GPT-4.1")
    wanted = {i: o["contexts"] for i, o in un.items() if label(o) in ANSWERED}
    wanted = {i: {c["document_id"] for c in some} for i, some in wanted.items()}
    no, can, nothing = (
        t.rule,
        t.label.isin(ANSWERED),
        (t.label == "UNANSWERABLE") & ~t.rule,
    )
    gold = pd.Series({i: bool(wanted[i] & t.given[i]) for i in t.id[can]})
    failed = can & (no | (t["by words"] == "failed"))
    causes = np.select(
        [~gold.reindex(t.index, fill_value=True), no], CAUSES[:2], CAUSES[2]
    )
    found = {}
    for i, o in by_task(SIFEI).items():
        if i in wanted:
            best = sorted(o["contexts"], key=lambda c: -float(c["score"]))[:5]
            found[i] = bool(wanted[i] & {c["document_id"] for c in best})
    own = {
        "tasks": len(un),
        "gate": Counter(o["answerability"] for o in read(GATED)),
        "refused": {x: mean(no[t.label == x]) for x in {*t.label}},
        "causes": Counter(
            np.where(nothing, "answered from nothing", causes)[failed | nothing]
        ),
        "gold among three": mean(gold),
        "judged": int((t.label != "UNDERSPECIFIED").sum()),
        "Sifei, gold among five": mean(found),
    }
    assert len(t) == len(un)
    same(kept("released")["test set"], own | MORE)


def test_copied_sentences():
    "ROUGE-L of the submissions; the row of copied sentences is that of `quote.json`."
    row = kept("quote")["sets"]["mtragun-human"]["scores"]["ANSWERABLE"]["RougeL"]
    own = {
        "five copied sentences": {
            "value": row["mean"],
            "low": row["low"],
            "n": row["n"],
        }
        | MORE
    }
    for file, t in submitted().items():
        t = t[t.label == "ANSWERABLE"]
        own[file] = mean({i: rouge(a, b) for i, a, b in zip(t.id, t.answer, t.target)})
    same(kept("released")["copied"], own)


def test_files_are_those_that_were_measured():
    own = {}
    for name in kept("released")["files"]:
        path = files(f"released/{name}*")[0]
        raw = path.read_bytes()
        raw = raw if path.name == Path(name).name else gzip.decompress(raw)
        own[name] = hashlib.sha256(raw).hexdigest()
    same(kept("released")["files"], own)


# --- right answers, wrong answers and refusals by price and share -----------------------------------------------------------------

GRID = [(p / 10, s / 100) for p in range(11) for s in (5, 10, 15, 20, 25)]


def points(before, after, level=0.95, grid=GRID, resamples=4000):
    "At each price and share: after less before, with a bootstrap interval; endings: id -> (unanswerable or not, right, wrong)."
    rows = {i: np.zeros(6) for i in before}
    for i, (kind, right, wrong) in after.items():
        rows[i][3 * kind : 3 * kind + 3] = (
            right - before[i][1],
            wrong - before[i][2],
            1.0,
        )
    rows = pd.DataFrame.from_dict(rows, orient="index")
    whole, resampled = rows.sum().to_numpy(), drawn(rows, resamples)
    some = whole[[2, 5]] > 0
    full = (resampled[:, [2, 5]] > 0)[:, some].all(
        1
    )  # a draw may lack one kind of question

    def at(x):
        right, wrong, n = (x[..., [k, k + 3]] for k in range(3))
        n = np.maximum(n, 1)
        return np.array([((right - p * wrong) / n) @ (1 - s, s) for p, s in grid]).T

    return dict(zip(grid, zip(at(whole), *percentiles(at(resampled[full]), level))))


def signs(found):
    return {at: 1 if x[1] > 0 else -1 if x[2] < 0 else 0 for at, x in found.items()}


def ending(label, came, no):
    "Unanswerable or not, how much right, how much wrong; undecided is half of each."
    partly = (came in ("undecided", "")) / 2
    wrong = came in ("failed", "wrong") and not no
    return int(label in UNANSWERED), (came == "right") + partly, wrong + partly


@counted
def in_words(found, at, shown, changed):
    "What is said of a change by price and share; signs to a seventh of the points. shown: (price, share) -> sign."
    if "not testable" in found:
        yield from differences(int(re.findall(r"\d+", found)[0]), changed, at)
        return
    counts = Counter(shown.values())
    for way, s in (("better", 1), ("worse", -1)):
        said = re.search(
            rf"{way} (?:at (\d+) of|at prices? ([\d.]+)(?: to ([\d.]+))?|(t))", found
        )
        told = int(said[1] or len(shown)) if said else 0
        if said and said[2]:  # at these prices whatever the share, at others perhaps
            most = float(said[3] or said[2])
            told = max(counts[s], sum(float(said[2]) <= p <= most for p, _ in shown))
        if abs(told - counts[s]) > len(shown) / 7:
            yield f"{at}: {found} is kept, {counts} counted"


def printed(notebook, head):
    "Rows of the table under a head, as a notebook shows it: name, the rest."
    cells = json.loads((MEASURED.parents[1] / "nbs" / notebook).read_text("utf-8"))[
        "cells"
    ]
    texts = ["".join(o.get("text", "")) for c in cells for o in c.get("outputs", [])]
    rows = next(x for x in texts if re.match(head, x)).splitlines()[1:]
    return {x[: x.index("  ")]: x[x.index("  ") :].strip() for x in rows if x.strip()}


def endings_of(rows):
    "By price and share, of tasks with a label, what became of them, and whether they were refused."
    return {i: ending(e["label"], e["came"], e["refused"]) for i, e in rows.items()}


def of_equal():
    return {n: endings_of(some) for n, some in kept("equal")["endings"].items()}


def test_equal_study():
    "From the endings that are kept: rows of the table, and where a sign is shown."
    told, shares = of_equal(), printed("9_studies/03_correction.ipynb", "system")
    assert shares.keys() == told.keys()
    for name, row in shares.items():
        t = pd.DataFrame(kept("equal")["endings"][name]).T
        can, cannot = t[t.label == "ANSWERABLE"], t[t.label == "UNANSWERABLE"]
        wrong = (can.came == "failed") & (can.refused == 0)
        own = (
            (can.came == "right").mean(),
            wrong.mean(),
            can.refused.mean(),
            cannot.refused.mean(),
        )
        same(
            [*map(float, re.findall(r"(\S+) \[", row))], [within(x, 6e-4) for x in own]
        )
        assert (len(can), len(cannot)) == (60, 60)
    pairs = printed("9_studies/03_correction.ipynb", r"\s+differ")
    assert len(pairs) == 15
    for pair, row in pairs.items():
        a, b = (told[n] for n in pair.split(" less "))
        found = points(b, a, 1 - 0.05 / 15, resamples=20_000)
        differ, *corners, said = re.split(r"\s{2,}", row)
        for at, corner in zip(
            ((0.0, 0.05), (1.0, 0.05), (0.0, 0.25), (1.0, 0.25)), corners
        ):
            value, low, high = map(float, re.findall(r"-?\d\.\d+", corner))
            same(value, within(found[at][0], 6e-4))
            same({"low": low, "high": high}, ends(*found[at][1:]))
        changed = clusters(i for i in a if a[i] != b[i])
        same([int(differ), said], [changed, in_words(signs(found), changed)])
        assert {1, -1} - {*signs(found).values()}, (
            pair
        )  # none is better here and worse there
    first, seeds = (
        kept("equal")["endings"]["self_crag"],
        kept("equal")["seeds"].values(),
    )
    changed = [sum(e["said"] != first[i]["said"] for i, e in x.items()) for x in seeds]
    assert (min(changed), max(changed)) == (15, 21)


def test_blame_of_the_equal_study():
    "From the turns that are kept: they end as in the equal study; what the check and the retry are worth by price and share."
    lines = (MEASURED / "blame_turns.jsonl").read_text("utf-8").splitlines()
    forked, forks = [*map(json.loads, lines)], {}

    def row(o, run):
        return {"came": run[0], "refused": bool(run[1]), "label": o["label"]}

    for name in kept("equal")["endings"]:
        some = {o["task"]: o for o in forked if o["system"] == name}
        own = {i: row(o, o["run"]) | MORE for i, o in some.items()}
        same(kept("equal")["endings"][name], own | MORE)
        forks[name] = sum(len(next(iter(some.values()))[k]) for k in ("off", "known"))
    assert {o["system"] for o in forked} == forks.keys()
    for mechanism in ("check and retry", "retry"):
        some = [(o, o["off"][mechanism]) for o in forked if o["system"] == "self_crag"]
        before = endings_of(
            {o["task"]: row(o, o["run"] if x == "=" else x) for o, x in some}
        )
        found = points(before, of_equal()["self_crag"], 1 - 0.05 / sum(forks.values()))
        dear = [s for (p, _), s in signs(found).items() if p >= 0.4]
        if mechanism == "retry":
            assert dear.count(0) > 31 and 1 not in dear
        else:
            assert {*dear} == {1} and not any(signs(found)[0.0, s] for s in (0.05, 0.1))
            assert abs(found[1.0, 0.05][0] - 0.25) < 0.001


def test_gate_over_the_equal_study():
    "From the kept endings and the kept nearness: what refusing below a threshold gains at price 1, and what it refuses."
    near_, ends_ = kept("gate")["sets"]["equal"], kept("equal")["endings"]
    for column, least in (("together", 0.483), ("sentences", 0.53)):
        low = (float(v) < least for v in near_[column].split())
        low, gains, taken = (
            dict(zip(near_["tasks"].split(), low)),
            defaultdict(list),
            Counter(),
        )
        for name, before in of_equal().items():
            after = {
                i: (e[0], float(e[0]), 0.0) if low[i] else e for i, e in before.items()
            }
            for i, e in ends_[name].items():
                cannot = e["label"] == "UNANSWERABLE"
                taken[name, "none" if cannot else e["came"]] += (
                    low[i] and not e["refused"]
                )
            for s in (0.07, 0.22):
                value, start, _ = points(before, after, grid=[(1.0, s)])[1.0, s]
                gains[s].append(round(value, 2))
                assert start > 0 or (column, s) == ("sentences", 0.07), (
                    name,
                    column,
                    s,
                )
        if column == "together":
            assert [(min(v), max(v)) for v in gains.values()] == [
                (0.08, 0.2),
                (0.18, 0.3),
            ]
            none, right = ([taken[n, k] for n in ends_] for k in ("none", "right"))
            assert (min(none), max(none), max(right)) == (18, 25, 2)


def test_what_the_gate_tells():
    "AUROC of answerable against unanswerable questions, as 04_released prints it."
    some = [kept("gate")["sets"][name] for name in ("mtrag", "mtragun")]
    labels = np.array([x for one in some for x in one["labels"].split()])
    at = np.isin(labels, LABELS)
    for column in ("best", "sentences"):
        x = np.array([float(v) for one in some for v in one[column].split()])
        assert round(auroc(x[at], labels[at] != "UNANSWERABLE"), 2) == 0.67, column


def test_scores_of_released_searches_as_a_gate():
    labels, own = {i: label(o) for i, o in (tasks_of(DEV) | tasks_of(UN)).items()}, {}
    for name, path, key in (
        ("ELSER", "mtrag-human/rag_elser_top5.jsonl", "score"),
        ("SPLADE and Voyage, fused", GATED, "score"),
        ("a cross-encoder, bge-reranker-v2-m3", SIFEI, "rerank_score"),
    ):
        found = {
            i: sorted(-float(c[key]) for c in o["contexts"])
            for i, o in by_task(path).items()
        }
        ids = [i for i in found if found[i][1:] and labels.get(i) in LABELS]
        y, x = np.array([(labels[i] in ANSWERED, found[i][:2]) for i in ids], object).T
        y, x = y.astype(bool), -np.array([*x])
        own[name] = {
            "best": area(x[:, 0], y, ids),
            "margin": area(x[:, 0] - x[:, 1], y, ids),
        }
    same(kept("gate")["released"], own)


# --- checks on the drafts of strong models ------------------------------------------------------------------------------------------


def worth(came, price):
    return came.map({"right": 1.0, "undecided": 0.5 - 0.5 * price, "failed": -price})


def released():
    "Pool, system, its drafts."
    for c, p in product(CONTEXTS, PROMPTS):
        pool = f"GPT-4o, {'gold' if c == 'gold' else 'searches'}"
        yield pool, f"GPT-4o, {c}, {TOLD[p]}", arm(c, p)
    for p in ("official", "evidence"):
        path = f"released/sifei/C_dev100_elser_prompt-{p}.jsonl.gz"
        yield "DeepSeek", f"DeepSeek, ELSER, {p}", table(path, DEV, p)
    yield "RaguTeam", "RaguTeam's seven, dev", pd.concat(ragu_files().values())
    yield "GPT-4.1", GATED_SYSTEM, table(GATED, UN, "GPT-4.1")
    for file, t in submitted().items():
        yield "test", f"{SUBMITTED[file]}, test", t.assign(model=SUBMITTED[file])
    for model, name in MODELS.items():
        t = evaluations(SYNTHETIC)
        yield "MTRAG-S", f"{name}, MTRAG-S", t[t.model == model]


COSINES = (
    "answer near a passage",
    "question near a passage",
    "margin",
    "answer near the question",
)
COSINES += ("clarity (asks back)",)  # of GPT-4.1's drafts
GATED_SYSTEM = "GPT-4.1, IIMAS' search"
CHECKS = {
    "support (K-precision)": lambda d: held(d.answer, d.known),
    "contextual support": lambda d: contextual_support(d.answer, d.texts),
    "weakest sentence": lambda d: min(
        (held(s, d.known) for s in sentences(d.answer)), default=1.0
    ),
    "question in passages": lambda d: held(d.said[-1], d.known),
    "question in answer": lambda d: held(d.said[-1], words_of(d.answer)),
    "shortness (control)": lambda d: -float(len(d.answer.split())),
    "no check: all or none": lambda d: 0.0,
}
SUPPORT, AGREE, NONE = (
    "support (K-precision)",
    "agreement of drafts",
    "no check: all or none",
)


@lru_cache
def read_drafts():
    "System -> its drafts; every other conversation of a pool, in alphabetical order, chooses."
    t = pd.concat([some.assign(pool=p, system=s) for p, s, some in released()])
    search = t.pool.isin(["GPT-4o, searches", "DeepSeek", "GPT-4.1"])
    t = t[t.label.isin(ANSWERED) | (search & t.cannot)].reset_index(drop=True)
    t["choose"] = t.groupby("pool").talk.transform(lambda x: x.isin(sorted({*x})[::2]))
    t["can"], t["known"] = ~t.refused, t.texts.map(words_in)
    return dict([*by_system(t)])


@lru_cache
def drafts():
    "All drafts with their checks."
    t = pd.concat(read_drafts().values())
    for price in (0, 1):
        t[f"worth {price}"] = worth(t.came, price).where(t.can, t.cannot.astype(float))
    for c, check in CHECKS.items():
        t[c] = [check(d) for d in t.itertuples()]
    t[AGREE] = agreement(t)
    t = t.join(by_encoder(GATED_SYSTEM)) if ALL else t
    for system, g in by_system(t):
        if system != GATED_SYSTEM or ALL:
            t.loc[g.index, "combination"] = combination(g)
    return t


def truth(t, key):
    "1 good, 0 poor, nan in between or not told."
    if key == "target":
        return t.came.map({"right": 1.0, "failed": 0.0}).where(~t.refused)
    sure = t[key].notna() & ~((0.6 < t[key]) & (t[key] < 0.8)) & ~t.refused
    return (t[key] >= 0.8).astype(float).where(sure)


def agreement(t):
    "Words shared with the other drafts of a task in the pool, where there are several models."
    t, out = (
        t.assign(words=[frozenset(content(x)) for x in t.answer]),
        pd.Series(np.nan, t.index),
    )
    for _, pool in t.groupby("pool"):
        for _, some in pool.groupby("id") if pool.id.duplicated().any() else ():
            rows = [*zip(some.index, some.words.where(~some.refused, ""))]
            for k, a in zip(some.index, some.words):
                rest = [frozenset(b) for n, b in rows if n != k]
                both = [
                    2 * len(a & b) / (len(a) + len(b)) if a & b else 0.0 for b in rest
                ]
                out[k] = np.mean(both) if both else 0.0
    return out


def checks_of(t):
    "The checks that a system's drafts have."
    names = [*CHECKS, AGREE, *COSINES, "combination"]
    return [c for c in names if c in t and t[c].notna().all()]


def combination(t):
    "Log-odds of a logistic regression, a ridge of 1 on standardized checks, of what chooses."
    y, x = truth(t, "target"), t[checks_of(t)]
    fit = t.choose & y.notna()
    if min((y[fit] == k).sum() for k in (0, 1)) < 10:
        return np.nan
    x = ((x - x[fit].mean()) / (x[fit].std(ddof=0) + 1e-9)).to_numpy()
    fitted = LogisticRegression(solver="newton-cholesky", tol=1e-10).fit(x[fit], y[fit])
    return fitted.decision_function(x)


def by_system(t):
    return t.groupby("system", sort=False)


@lru_cache(None)
def quotes(passage):
    "Sentences of four words and more, each with its vector: counts of words by the checksum of each."
    found = (" ".join(passage[a:b].split()) for a, b in _quotable(passage))
    return [(s, vector(s)) for s in found]


def vector(text):
    by = Counter(
        crc32(w.encode()) % 1024 for w in re.findall(r"\w+", text.lower()) or [""]
    )
    long = np.sqrt(sum(v * v for v in by.values()))
    return {k: v / long for k, v in by.items()}


def cosine(a, b):
    return sum(a.get(k, 0) * x for k, x in b.items())


@lru_cache(None)
def copied(asked, before, texts):
    "The five sentences of the passages that are nearest to the question, alone or behind the one before, in their order."
    sought = [vector(q) for q in ([asked, f"{before} {asked}"] if before else [asked])]
    some = {s: v for text in texts for s, v in quotes(text)}
    closeness = [max(cosine(q, v) for q in sought) for v in some.values()]
    best = sorted(range(len(closeness)), key=lambda k: (-round(closeness[k], 4), k))[:5]
    return " ".join(list(some)[k] for k in sorted(best))


@lru_cache
def copies():
    "What became of five copied sentences in the place of each draft; none where there are no passages."
    out = []
    for d in drafts().itertuples():
        asked = [x["text"] for x in d.task["input"] if x["speaker"] == "user"]
        said = copied(d.said[-1], asked[-2] if asked[1:] else "", tuple(d.texts))
        out.append(
            ("failed" if d.cannot else by_facts(said, d.target, d.task))
            if said
            else None
        )
    return pd.Series(out)


@lru_cache(None)
def gains(way, price, at=None):
    "Of each draft, what its replacement would gain; another model is chosen at one price, and may be counted `at` another."
    t, key = drafts(), f"worth {price if at is None else at}"
    refusing = t.cannot.astype(float)
    if way == "copied sentences":
        new = worth(copies(), int(key[-1])).fillna(refusing)
    else:
        new = refusing.copy()
    for _, g in by_system(t) if way == "another model" else ():
        some = t[t.pool == g.pool.iloc[0]].drop_duplicates(["id", "model"])
        wide = some.pivot(index="id", columns="model", values=f"worth {price}")
        first = wide.loc[g.id[g.choose].unique()]
        if g.model.nunique() == 1:
            first = first.drop(columns=g.model.iloc[0])
        if len(first.columns):
            best = first.mean()[first.count() >= 0.8 * first.count().max()].idxmax()
            by = some[some.model == best].set_index("id")[key]
            new[g.index] = g.id.map(by).fillna(g[key])
    return (new - t[key]).where(t.can, 0.0)


def of_replacing(t, gain, rejected):
    "What replacing some drafts gains."
    own, kinds = (
        (gain[t.index] * rejected).set_axis(t.id),
        t.label.str.lower() + ", " + t.came,
    )
    row = {
        "rejected": int(rejected.sum()),
        "of": int(t.can.sum()),
        "gain": mean(own),
        **p_of(own),
    }
    return row | {"rejected, by what they are": Counter(kinds[rejected])}


def test_drafts_and_the_check_as_it_stands():
    told, systems, rows = kept("checks"), {}, {}
    for name, t in by_system(drafts()):
        systems[name] = Counter(np.where(t.refused, "refused", t.came))
        systems[name] |= {"tasks": len(t), "conversations": t.talk.nunique()}
        for way, price in product(("refusal", "copied sentences"), (0, 1)):
            row = of_replacing(t, gains(way, price), t.can & (t[SUPPORT] < 0.6))
            rows[f"{name}; {way}; {price}"] = row
    own = {"systems": systems, "as it stands": holm(rows, told["as it stands"])}
    same(told, own | MORE)


def uncounted(found, at):
    "What asks an encoder."
    assert not ALL, at
    return ()


def test_what_checks_tell_apart():
    "AUROC of each check, and the share that is wrong of the drafts that a check puts first."
    told, areas, risks = kept("checks"), defaultdict(dict), defaultdict(dict)
    for name, t in by_system(drafts()):
        for kind, row in told["auroc"][name].items():
            y, own = truth(t, kind), {}
            for c in row.keys() - {"right", "wrong"}:
                a, _, b = c.replace("agreement less", f"{AGREE} less").partition(
                    " less "
                )
                g = t[y.notna() & ~(t.choose & ("combination" in c))]
                own[c] = uncounted
                if a in checks_of(t):
                    own[c] = area(
                        g[a], y[g.index] == 1, g.id, g[SUPPORT] if b else None
                    )
            areas[name][kind] = own | {
                "right": int((y == 1).sum()),
                "wrong": int((y == 0).sum()),
            }
        rest = t[t.can & ~t.choose].set_index("id")
        wrong = rest.came.map({"failed": 1.0, "undecided": 0.5, "right": 0.0})
        for c, row in told["risk"][name].items():
            risks[name][c] = dict.fromkeys(row, uncounted)
            if c in checks_of(t):
                order = wrong.iloc[np.argsort(-rest[c].to_numpy(), kind="stable")]
                sizes = {s: max(1, round(float(s) * len(order))) for s in row}
                risks[name][c] = {s: mean(order[:n]) for s, n in sizes.items()}
    same(told, {"auroc": areas, "risk": risks} | MORE)


def cut(x, gain):
    "The threshold below which replacing gains most on what chooses."
    sums = gain.groupby(x).sum().cumsum()
    k, at = sums.argmax(), sums.index
    if sums.iloc[k] <= 1e-9:
        return -np.inf
    return at[k] + 1 if k + 1 == len(at) else (at[k] + at[k + 1]) / 2


def in_prices(t, way, price):
    "What replacing drafts `below` is worth by price and share, in words."
    right, dear = (gains(way, price, p)[t.index] * t.below for p in (0, 1))
    names = t.id + "<::>" + t.index.astype(str)
    before = {i: (int(x), 0.0, 0.0) for i, x in zip(names, t.cannot)}
    after = {i: (int(x), a, a - b) for i, x, a, b in zip(names, t.cannot, right, dear)}
    grid = GRID if t.cannot.any() else [(p / 10, 0.0) for p in range(11)]
    shown = signs(
        points(before, after, grid=grid, resamples=100_000)
    )  # 2.6 % may lie beyond 0
    return in_words(shown, t.talk[(right != 0) | (dear != 0)].nunique())


def replaced(c, way, price):
    "The drafts that may be replaced, which of them by a check's best threshold on what chooses, and whether all would be."
    columns = {c, AGREE, *"id talk system label came can cannot choose".split()}
    t = drafts()[[*columns]].assign(gain=gains(way, price), least=-np.inf, all=False)
    t = t[t[c].notna() & (t[AGREE].notna() | (way != "another model"))]
    for _, g in by_system(t[t.choose & t.can]):
        at = t.system == g.system.iloc[0]
        t.loc[at, "least"] = cut(g[c], g.gain)
        t.loc[at, "all"] = g.gain.sum() > 1e-9
    t["below"] = t.can & (t[c] < t.least)
    return t.assign(moved=t.gain * t.below, blind=t.gain * (t.can & t["all"]))


def test_replacing_by_a_check():
    "Each check over all systems: refusals, copied sentences, another model's drafts; what it adds to replacing all or none; and the best of each system."
    told, by_check, best = kept("checks"), {}, {}
    for way, price in product(("refusal", "copied sentences", "another model"), (0, 1)):
        gained = defaultdict(dict)
        for c in (
            c for c in (*CHECKS, AGREE, *COSINES, "combination") if c in drafts()
        ):
            t = replaced(c, way, price)
            rest, ways = t[~t.choose].set_index("id"), Counter()
            for name, g in by_system(t):
                key, mine = f"{name}; {way}; {price}", g[~g.choose]
                gained[key][c] = g.moved[g.choose].sum()
                low, high = bootstrap(mine.moved.set_axis(mine.id), 2000)
                ways += Counter(up=low > 0, down=high < 0)
                if told["by system"][key]["check"] == c:
                    least = g.least.iloc[0]
                    best[key] = of_replacing(mine, mine.gain, mine.below) | {"check": c}
                    best[key]["threshold"] = None
                    if least > -np.inf:
                        best[key]["threshold"] = within(least, 1e-3 * abs(least) + 1e-4)
                        best[key]["curve"] = in_prices(mine, way, price)
            if c == "combination" and not ALL:
                continue
            over = rest.moved - rest.blind
            by_check[f"{c}; {way}; {price}"] = {
                "rejected": int(rest.below.sum()),
                "drafts": int(rest.can.sum()),
                "gain": mean(rest.moved),
                "over all or none": mean(over),
                "by label": {k: mean(rest.moved[rest.label == k]) for k in LABELS},
                **{f"systems {w}": within(ways[w], 2) for w in ("up", "down")},
                **p_of(over),
            }
        for key, by in gained.items():
            if (c := told["by system"][key]["check"]) in by and (
                ALL or GATED_SYSTEM not in key
            ):
                assert by[c] == max(v for k, v in by.items() if k != NONE), key
    holm(by_check, told["by check"])
    holm(best, told["by system"])
    more = {} if ALL else MORE
    same(told, {"by check": by_check | more, "by system": best | more} | MORE)


def test_choosing_among_drafts():
    told, own = kept("checks")["best of"], defaultdict(dict)
    for pool, price in product(told, (0, 1)):
        t = drafts()[drafts().pool == pool].assign(worth=drafts()[f"worth {price}"])
        t = t[t.groupby("id").model.transform("nunique") == t.model.nunique()]
        single, rest = t[t.choose].groupby("model").worth.mean().idxmax(), t[~t.choose]
        rest = rest.assign(
            **{k: rest[k].where(rest.can, 0.0) for k in ("RB_llm", "RL_F")}
        )
        answers, columns = rest[rest.can], ["worth", "RB_llm", "RL_F"]
        one = rest[rest.model == single].set_index("id")[columns]
        first = answers.groupby("id").worth.first().reindex(one.index).fillna(one.worth)
        for c in (*CHECKS, AGREE):
            best = answers.loc[answers.groupby("id")[c].idxmax()].set_index("id")[
                columns
            ]
            best = pd.concat([best, one[~one.index.isin(best.index)]]).loc[one.index]
            key, over = f"{c}; {price}", best.worth - first
            row = {
                "single": single,
                "tasks": len(one),
                "over the first": mean(over),
                **p_of(over),
            }
            row |= {
                k: mean((best - one)[k]) for k in columns[1:] if k in told[pool][key]
            }
            own[pool][key] = row | {"gain": mean(best.worth - one.worth)}
    for pool in own:
        holm(own[pool], told[pool])
    same(told, own)


# --- the check of claims ------------------------------------------------------------------------------------------------------------


def half_of(ids, reports):
    "Every second conversation in alphabetical order: those that choose, or those that report."
    return {*sorted({*talks(ids)})[reports::2]}


@lru_cache(None)
def marked(reports):
    "Answers with passages, and whether they are faithful to people's median."
    t = evaluations(RATED)
    t = t[(t.model != "reference") & t.texts.astype(bool)]
    t = t[t.talk.isin(half_of(t.id, reports))]
    return t.assign(faithful=t.faithfulness.map(np.median) > 2)


@lru_cache(None)
def synthetic(reports, n=None):
    t = evaluations(SYNTHETIC)
    t = t[
        t.model.isin(MODELS)
        & t.label.isin(ANSWERED)
        & ~t.refused
        & t.texts.astype(bool)
    ]
    t = t[t.talk.isin(half_of(t.id, reports))]
    return t.iloc[random.Random(reports).sample(range(len(t)), n)] if n else t


@lru_cache(None)
def features_of(answer, texts):
    return _draft_features(answer, texts) or {
        f: float(f in ("support", "near")) for f in _FEATURES
    }


def draft_rows(t):
    return [*map(features_of, t.answer, t.texts.map(tuple))]


def claim_rows(claims):
    return [
        {k: v[0] for k, v in _claim_features(c.text, c.passages).items()}
        for c in claims
    ]


def by_weights(which, rows):
    "What the kept weights make of features, less their threshold; it is kept rounded down to a thousandth: and of the next."
    w = dict(kept("claims")["weights"][which])
    least = w.pop("threshold")
    x = (
        np.array([sum(w.get(k, 0) * f[k] for k in _FEATURES) for f in rows])
        + w["intercept"]
    )
    return x, np.log(least / (1 - least)), np.log((least + 0.001) / (0.999 - least))


def of_drafts(t, y):
    "What the kept weights make of the check's features, and words below .6."
    x, least, _ = by_weights("draft", draft_rows(t))
    support = np.array([held(a, words_in(x)) for a, x in zip(t.answer, t.texts)])
    y, shares = np.array(y, bool), {}
    for name, at, low in (
        ("faithful kept", y, False),
        ("unfaithful rejected", ~y, True),
    ):
        own = {
            "claims": within(((x < least)[at] == low).mean(), 1.01 / at.sum())
        }  # kept rounded
        shares[name] = own | {"words": ((support < 0.6)[at] == low).mean()}
    return shares | {
        "faithful": int(y.sum()),
        "unfaithful": int((~y).sum()),
        "claims": area(x, y, t.id, last=4e-5),
        "words": area(support, y, t.id, last=4e-5),
        "difference": area(x, y, t.id, support, last=8e-5),
    }


def test_check_of_claims_on_whole_drafts():
    "Drafts of conversations that chose nothing."
    told, people = kept("claims")["drafts"], marked(1)
    own = {"people, rated answers": of_drafts(people, people.faithful)}
    dev = half_of(tasks_of(DEV), 1) - {*marked(0).talk}
    every = dict([*by_system(drafts()[drafts().talk.isin(dev)])]) | {
        "MTRAG-S": synthetic(1, 800)
    }
    for kind, system in (name.split(", ", 1) for name in told.keys() - own.keys()):
        t = every[system][every[system].texts.astype(bool)]
        y = truth(t, kind.removeprefix("the "))
        own[f"{kind}, {system}"] = of_drafts(t[y.notna()], y.dropna())
    same(told, own)


@lru_cache
def claims_of(reports):
    "Where from -> claims: falsehoods and paraphrases made by rule, and sentences of faithful answers."
    out, rng = (
        {"sample": of_sample(reports), "MTRAG": [], "answers": []},
        random.Random(reports),
    )
    for _, t in synthetic(reports).groupby("domain"):
        texts = sorted({x for some in t.texts for x in some})
        out["MTRAG"] += planted(rng.sample(texts, 60), reports, most=2)
    sample = (
        (MEASURED.parent / "sample" / "reference.jsonl").read_text("utf-8").splitlines()
    )
    sample = {o["task_id"]: o for o in map(json.loads, sample)}
    mine = half_of(sample, reports)
    sample = [o for i, o in sample.items() if talk(i) in mine and o["contexts"]]
    sure, good = marked(reports), synthetic(reports, 800)
    sure, good = sure[sure.faithfulness.map(min) == 4], good[good.RL_F > 0.999][:150]
    true = [("rated answers", a, x) for a, x in zip(sure.answer, sure.texts)]
    true += [("answers of MTRAG-S", a, x) for a, x in zip(good.answer, good.texts)]
    texts = ([c["text"] for c in o["contexts"]] for o in sample)
    true += [
        ("targets of the sample", o["targets"][0]["text"], x)
        for o, x in zip(sample, texts)
    ]
    for kind, answer, passages in true:
        claims = filter(claims_something, sentences(answer))
        out["answers"] += [Planted(kind, x, True, tuple(passages)) for x in claims]
    return out


def test_planted_falsehoods():
    "By kind: what the kept weights reject, and what words below .6 do."
    own = {}
    for where, claims in claims_of(1).items():
        x, least, next_ = by_weights("claim", claim_rows(claims))
        t = pd.DataFrame(
            {"kind": [c.kind for c in claims], "true": [c.true for c in claims]}
        )
        t.index = [f"{c.passages[0]}<::>{k}" for k, c in enumerate(claims)]
        t["words"] = [held(c.text, words_in(c.passages)) < 0.6 for c in claims]
        t["claims"], t["unsure"] = x < least, (x >= least) & (x < next_)
        every = t.assign(kind=np.where(t.true, "all that is true", "all falsehoods"))
        rows = own[where] = {}
        for kind, g in pd.concat([t, every]).groupby("kind"):
            rows[kind] = {"false": not g.true.iloc[0], "words": mean(g.words)}
            rows[kind]["claims"] = mean(g.claims, 2e-5 + g.unsure.mean())
    same(kept("claims")["planted"], own)


def test_weights_of_the_check_of_claims():
    "The kept weights are the least of the penalized loss in which no feature has the wrong sign; and the thresholds are as said."
    claims = [c for some in claims_of(0).values() for c in some]
    n = Counter((c.true, c.kind) for c in claims)
    kinds = Counter(true for true, _ in n)
    each = [len(claims) / 2 / kinds[c.true] / n[c.true, c.kind] for c in claims]
    t, y = synthetic(0, 800), truth(synthetic(0, 800), "RL_F")
    rows = draft_rows(marked(0)) + draft_rows(t[y.notna()])
    faithful = [*marked(0).faithful, *(y.dropna() == 1)]
    sets = {
        "claim": (claim_rows(claims), [c.true for c in claims], each),
        "draft": (rows, faithful, [1.0] * len(rows)),
    }
    for which, (features_, y, each) in sets.items():
        y, each, w = np.array(y), np.array(each), kept("claims")["weights"][which]
        x, least, next_ = by_weights(which, features_)
        z = np.array([[f[k] for k in _FEATURES] + [1.0] for f in features_])
        own = np.array([*(w.get(k, 0.0) for k in _FEATURES), 0.0])
        chance = 1 / (1 + np.exp(-x))
        slope = z.T @ (each * (chance - y)) + own
        bend = ((z.T * (each * chance * (1 - chance))) @ z).sum(
            1
        )  # of weights half a digit off
        for k, v, most in zip(
            [*_FEATURES, "intercept"], slope, 1e-4 * np.abs(bend) + 0.02
        ):
            way = -1 if k in ("support", "near") else 1
            assert abs(v) < most if k in w else way * v < most, (which, k, v, most)
        if which == "claim":  # of what is true a tenth is below
            share = [
                (each * y * (x < t)).sum() / (each * y).sum() for t in (least, next_)
            ]
            assert share[0] <= 0.1 <= share[1] + 1e-3, share
        else:
            bars = np.unique(x.round(2)), (least, next_)
            right = [
                [(x[y] >= t).mean() + (x[~y] < t).mean() for t in some] for some in bars
            ]
            assert max(right[0]) - max(right[1]) < 4e-3


# --- the licence of the yardstick ---------------------------------------------------------------------------------------------------


@lru_cache
def sources():
    "Half, source -> answers: of the conversations that choose, and of those that report."
    people, found = {*rated(RATED).talk}, {}
    runs = pd.concat([arm(*a) for a in ARMS])
    runs = runs[runs.label.isin(UNANSWERED + ANSWERED)]
    for name, t in (("MTRAG-S", rated(SYNTHETIC)), ("GPT-4o", runs)):
        bars = [t.RB_llm >= 0.7, t.RB_llm < 0.5, t.RB_llm.notna()]
        t = t.assign(judge=np.select(bars, ["right", "wrong", "undecided"], ""))
        t["asked"] = t.label.isin(ANSWERED) & ~t.no & ~t.rule
        chooses = (t.talk.map(half) == HALVES[0]) & ~t.talk.isin(people)
        found |= {(HALVES[0], name): t[chooses], (HALVES[1], name): t[~chooses]}
    return found


def reporting():
    return {name: t for (h, name), t in sources().items() if h == HALVES[1]}


def pairs_of(t):
    return zip(t.answer, t.target)


RULE = "target recall, 0.2 and 0.38"
WORDS = {
    "ROUGE-L": rouge,
    "target's words": lambda answer, target: held(target, words_of(answer)),
    "target recall": recall_of,
}


@lru_cache
def rules():
    "Name -> rule: the bars of three are the 5th percentile of the right answers that choose, and the 75th of the wrong ones."

    def both(answer, target):
        found = {verdict(answer, target), as_before(answer, target)}
        return found.pop() if len(found) == 1 else "undecided"

    as_before = partial(verdict, of=rouge, low=0.15, high=0.22)
    out, t = {"ROUGE-L, as before": as_before}, sources()["choosing", "GPT-4o"]
    for name, of in WORDS.items():
        score = {
            k: [of(*x) for x in pairs_of(g)] for k, g in t[t.asked].groupby("judge")
        }
        low, high = np.quantile(score["right"], 0.05), np.quantile(score["wrong"], 0.75)
        out[f"{name}, {low:.3f} and {high:.3f}"] = partial(
            verdict, of=of, low=low, high=high
        )
    return out | {RULE: verdict, "both of these agree": both}


def shares_of(name, answers):
    "What a rule says; one answer lies exactly on a bar of ROUGE-L."
    said = [rules()[name](*x) for x in answers]
    tie = 6e-5 + (1.01 / len(said) if "target" not in name else 0)
    names = {"right": "right", "undecided": "undecided", "wrong": "failed"}
    return {kind: within(said.count(x) / len(said), tie) for kind, x in names.items()}


def endings_by(t, rule):
    "Model -> endings; rule: the judge's, or by words."
    no = t.no if rule == "judge" else t.rule
    came = t.judge if rule == "judge" else [*map(rules()[rule], t.answer, t.target)]
    out = defaultdict(dict)
    for model, i, kind, x, gone in zip(t.model, t.id, t.label, came, no):
        x = (
            ("right" if gone else "wrong")
            if kind in UNANSWERED
            else "refused"
            if gone
            else x
        )
        out[model.replace(", ", "_prompt-")][i] = ending(kind, x, False)
    return out


def of_pair(before, after):
    "Turns, conversations that differ, the corners of the surface, and what it says in words."
    kinds, found = Counter(e[0] for e in after.values()), points(before, after)
    changed, n = clusters(i for i in after if before[i] != after[i]), len(after)
    own = {"turns": [kinds[0], kinds[1]], "changed": changed, "ends": {}}
    for p, s in product((0, 1), (0.05, 0.25)):
        own["ends"][f"{p}, {s}"] = corner(found[p, s], n, clusters(after))
    return own | {"verdict": in_words(signs(found), changed)}, signs(found)


@counted
def corner(found, at, point, n, clusters):
    own = {"value": within(point[0], 1e-4), "n": n, "clusters": clusters}
    yield from differences(found, own | MORE, at)
    yield from ends(*point[1:])(found, at)


def test_signs_of_words_and_judge():
    "Pairs of systems; and at how many points words and judge show the same: to a thirtieth of them, the noise of intervals."
    told, alike = (
        kept("yardsticks"),
        {(w, w): "same sign" for w in (1, -1)} | {(0, 0): "neither"},
    )
    alike |= {(w, 0): "words alone" for w in (1, -1)} | {
        (0, w): "judge alone" for w in (1, -1)
    }
    for source, t in reporting().items():
        by, prices = (
            {r: endings_by(t, r) for r in ("judge", *rules())},
            told["prices"][source],
        )
        own, counts = {"words": {}, "judge": {}}, defaultdict(Counter)
        for pair in prices["judge"]:
            after, before = pair.split(" less ")
            rows = {r: of_pair(x[before], x[after]) for r, x in by.items()}
            for key, rule in (("judge", "judge"), ("words", RULE)):
                said = prices[key][pair]["verdict"]
                shown = {"better throughout": 1, "worse throughout": -1}.get(said, 0)
                own[key][pair] = rows[rule][0] | {"shown": shown}
            for r, (_, shown) in rows.items():
                both = ((shown[g], rows["judge"][1][g]) for g in GRID)
                counts[r].update(alike.get(x, "opposite") for x in both)
        assert len(prices["judge"]) == len([*combinations(by["judge"], 2)])
        assert "opposite" not in counts[RULE]
        n, rows = counts[RULE].total(), told["rule"][source]
        same(prices, own | {"agree": rows[RULE]["signs"]})
        near = {
            r: {k: within(v, n / 30) for k, v in by.items()} | MORE
            for r, by in counts.items()
        }
        for r in rules():
            assert sum(rows[r]["signs"].values()) == n
            same(dict.fromkeys(counts[r], 0) | rows[r]["signs"], near[r])


def test_rule_of_right_and_wrong():
    own = {}
    for source, t in reporting().items():
        some = dict([*t[t.asked].groupby("judge")])
        by, own[source] = (
            {k: [*pairs_of(some[k])] for k in ("right", "undecided", "wrong")},
            {},
        )
        for r in rules():
            own[source][r] = {k: shares_of(r, pairs) for k, pairs in by.items()} | MORE
        at, rows = t[t.asked & t.judge.isin(["right", "wrong"])], {}
        y, sizes = (
            at.judge == "right",
            {"answers": len(at), "wrong": len(some["wrong"])},
        )
        values = {m: [of(*x) for x in pairs_of(at)] for m, of in WORDS.items()}
        for m, x in values.items():
            rows[m] = sizes | {"auroc": area(x, y, at.id, None, 2e-4, True)}
            if m != "ROUGE-L":
                rows[m]["gain"] = area(x, y, at.id, values["ROUGE-L"], 2e-4, True)
        own[source]["measures"] = rows
    same(kept("yardsticks")["rule"], own | MORE)


def test_padded_answers():
    "What the rule makes of answers with their passages behind them."
    t = reporting()["GPT-4o"]
    t = t[(t.model == "elser, official") & t.label.isin(ANSWERED)]
    t = t[~t.rule & t.texts.astype(bool)]
    wrong, own = t[t.judge == "wrong"], {}
    for name, some, of in (
        ("the answers", t, lambda a, x: a),
        ("and their first passage", t, lambda a, x: f"{a} {x[0]}"),
        ("and all their passages", t, lambda a, x: f"{a} {' '.join(x)}"),
        ("the first passage alone", t, lambda a, x: x[0]),
        ("all passages alone", t, lambda a, x: " ".join(x)),
        ("wrong answers", wrong, lambda a, x: a),
        ("and their first passage ", wrong, lambda a, x: f"{a} {x[0]}"),
        ("and all their passages ", wrong, lambda a, x: f"{a} {' '.join(x)}"),
    ):
        answers = [*zip(map(of, some.answer, some.texts), some.target)]
        own[name] = {"n": len(some)} | {r: shares_of(r, answers) for r in rules()}
    same(kept("yardsticks")["rule"]["padded"], own)


def columns_of(t, mix=None):
    "Measure -> of each answer (the cosine if an encoder is asked); the combination by its own weights."
    some, rows = [*pairs_of(t)], [in_order(*x) for x in pairs_of(t)]
    by = {
        "ROUGE-L": [rouge(*x) for x in some],
        "ROUGE-L recall": [both / max(1, b) for both, _, b in rows],
        "ROUGE-L precision": [both / max(1, a) for both, a, _ in rows],
        "K-precision": [held(a, words_in(x)) for a, x in zip(t.answer, t.texts)],
        "target's words": [held(b, words_of(a)) for a, b in some],
        "target recall": [recall_of(*x) for x in some],
        "words": [np.log(1 + len(a.split())) for a, _ in some],
    }
    if ALL:
        v = encoded(x for pair in some for x in pair)
        by["cosine"] = [v[a] @ v[b] if a and b else 0.0 for a, b in some]
    x = pd.DataFrame(by, index=t.id)
    return x.assign(combination=mix(x)) if mix else x


def weighed(x, y):
    "A linear ridge regression of a score on standardized measures, as a function of measures."
    at, scale = x.mean(), x.std(ddof=0)
    fitted = Ridge(1.0).fit((x - at) / scale, y)

    def of(measures):
        return np.clip(fitted.predict((measures[[*x]] - at) / scale), 0, 1)

    return of, {
        "mean": at,
        "scale": scale,
        "weights": [*fitted.coef_, fitted.intercept_],
    }


def weighing():
    "The answers that weigh the parts of the combination: of the half that chooses."
    t = pd.concat([t for (h, _), t in sources().items() if h == HALVES[0]])
    return t[t.label.isin(ANSWERED) & ~t.no & t.RB_llm.notna()]


@lru_cache
def chosen_mix():
    t = weighing()
    return weighed(
        columns_of(t)[kept("yardsticks")["combination"]["parts"]], t.RB_llm.to_numpy()
    )


def test_combination_of_measures():
    t, (_, mix) = weighing(), chosen_mix()
    alike = (
        columns_of(t).drop(columns="words").apply(lambda x: spearmanr(x, t.RB_llm)[0])
    )
    parts = kept("yardsticks")["combination"]["parts"]
    own = {
        "chosen on": {"answers": len(t), "conversations": t.talk.nunique()},
        "best single": alike.idxmax(),
        "combination": {"parts": parts}
        | {k: [within(x, 1e-4) for x in v] for k, v in mix.items()},
    }
    same(kept("yardsticks"), own | MORE)


def tau(x, y):
    "Kendall's, of means without ties: [..., systems]."
    i, j = np.triu_indices(x.shape[-1], 1)
    return np.sign((x[..., i] - x[..., j]) * (y[..., i] - y[..., j])).mean(-1)


def of_systems(t, score):
    "Tasks that all systems have, by (measure, system); a wrong refusal counts 0."
    by = columns_of(t, chosen_mix()[0]).reset_index(drop=True)
    no, cannot, said = (t[k].to_numpy() for k in ("no", "cannot", "rule"))
    refused = pd.Series(said & cannot, dtype=float)
    by = by.mask(pd.Series(said | cannot), refused, axis=0).assign(words=by.words)
    by.insert(0, score, np.where(cannot, no, np.where(no, 0.0, t[score])))
    by = by.assign(id=t.id.to_numpy(), model=t.model.to_numpy())
    return by.pivot(index="id", columns="model").dropna()


def test_order_of_systems():
    "Pairs that RB_llm or RL_F tells apart; those that measures order alike, their tau, how far they set equal systems apart."
    for (source, t), score in product(reporting().items(), ("RB_llm", "RL_F")):
        told, x = kept("yardsticks")["systems"][source][score], of_systems(t, score)
        y, ones = x[score].mean(), pd.Series(1.0, x.index, name=("n", ""))
        lots = drawn(pd.concat([x, ones], axis=1), 1000)
        at = [
            x.columns.get_indexer_for([(m, n) for n in y.index])
            for m in x.columns.levels[0]
        ]
        lots, n = (
            dict(zip(x.columns.levels[0], (lots[:, k] / lots[:, -1:] for k in at))),
            len(y),
        )
        sure, doubtful, equal = [], [], []  # doubtful: 0 lies at an end of the interval
        for i, j in combinations(y.index, 2):
            low, high = bootstrap(x[score][i] - x[score][j])
            out = max(low, -high) / (high - low)
            (sure if out > 0.05 else equal if out < -0.05 else doubtful).append((i, j))
        assert len(doubtful) < 2
        apart = within(len(sure) + len(doubtful) / 2, len(doubtful) / 2)
        own = {
            "tasks": len(x),
            "systems": n,
            "pairs": n * (n - 1) // 2,
            "told apart": apart,
        }
        for m in lots.keys() - {score}:
            v, step = (
                x[m].mean(),
                4 / (n * (n - 1)) + 1e-3,
            )  # one pair the other way round
            alike = [
                sum((v[i] - v[j]) * (y[i] - y[j]) > 0 for i, j in p)
                for p in (sure, doubtful)
            ]
            apart = [
                [abs(v[i] - v[j]) for i, j in p] for p in (equal, equal + doubtful)
            ]
            low, high = percentiles(tau(lots[m], lots[score]))
            row = {"value": within(tau(v.to_numpy(), y.to_numpy()), 1e-4)} | MORE
            most = (max(x, default=0) for x in apart)
            floor = min(most, key=lambda a: abs(a - told[m]["floor"]))
            own[m] = {"alike": within(alike[0] + alike[1] / 2, alike[1] / 2)}
            own[m]["floor"] = within(floor, 2e-4)
            own[m]["tau"] = row | {"low": within(low, step), "high": within(high, step)}
        same(told, own | ({} if ALL else MORE))


def test_what_style_alone_does():
    told, t = kept("noise_floor"), rated(RATED)
    t = t[t.label.isin(ANSWERED)]
    t = t.assign(rouge=[rouge(*x) for x in pairs_of(t)])
    fine = t[t.groupby(level=0).model.transform("size") == 2]
    fine = fine[fine.people.eq(4).groupby(level=0).transform("all")].rouge.groupby(
        level=0
    )
    apart, (a, b) = fine.max() - fine.min(), told["between systems"]["systems"]

    def between_systems(values):
        x = less(values[t.model == a], values[t.model == b])
        return {"value": within(x.mean(), 1e-4), "n": len(x)} | MORE

    both = t.groupby("model").groups
    own = {
        "pairs": len(apart),
        "conversations": clusters(apart.index),
        "floor": within(apart.quantile(0.95), 1e-4),
        "median": within(apart.median(), 1e-4),
        "over_0.16": within((apart > 0.16).mean(), 1e-4),
        "between systems": {
            "systems": [a, b],
            "tasks": len(both[a].intersection(both[b])),
            "RougeL": between_systems(t.rouge),
            "people": between_systems(t.people),
        },
    }
    same(told, own | MORE)
    scores = {
        p: worth(t["by recall"], float(p)).where(~t.rule, 0.0)
        for p in ("0", "0.5", "1")
    }
    same(
        kept("yardsticks")["style"], {p: between_systems(v) for p, v in scores.items()}
    )


def ordered(ids, own, y, last):
    "Of pairs of answers to one question, how many are ordered alike."
    at = pd.Series(y).groupby([*ids]).indices
    pairs = [
        (i, a, b) for i, some in at.items() for a in some for b in some if y[a] > y[b]
    ]
    alike = [np.sign(own[a] - own[b]) / 2 + 0.5 for _, a, b in pairs]
    return mean(
        pd.Series(alike, [i for i, *_ in pairs]), 2e-4 + (2 / len(pairs) if last else 0)
    )


def test_one_answer():
    "Rank correlation with official scores and people, of answers that refuse nothing; and pairs of answers to one question."
    t, own = rated(RATED), {}
    groups = {"rated": t[t.label.isin(ANSWERED)]}
    for source, t in reporting().items():
        groups |= {f"{source}, {k}": t[t.label == k] for k in ANSWERED}
    for name, t in groups.items():
        t, measures = t[~t.no], defaultdict(dict)
        for key in (
            ("RB_llm", "RL_F", "people") if name == "rated" else ("RB_llm", "RL_F")
        ):
            some = t[t[key].notna()]
            y = some[key].to_numpy()
            for m, x in columns_of(some, chosen_mix()[0]).items():
                last = 0 if "recall" in m else 4e-4  # ties that hang on the last digit
                measures[m][key] = correlation(x, y, some.id, 2e-4 + last)
                measures[m][f"{key}, same question"] = ordered(
                    some.id, x.to_numpy(), y, last
                )
        own[name] = {
            "answers": len(t),
            "measures": measures | ({} if ALL else MORE),
        } | MORE
    same(kept("yardsticks")["answers"], own)


def test_models_over_the_synthetic_set():
    own, names = {}, {"right": "right", "wrong": "failed", "refused": "refused"}
    for model, t in rated(SYNTHETIC).groupby("model"):
        can = t[~t.cannot]
        was = can["by words"].where(~can.no, "refused")
        own[model] = {k: mean(was == x) for k, x in names.items()}
        own[model]["refused, unanswerable"] = mean(t.no[t.cannot])
    same(kept("released")["models"]["MTRAG-S"], own)


def team(file):
    return re.split("[_-]", file)[0]


def test_submissions_by_faithfulness():
    "RL_F as the shared task conditions it, of 337 tasks; 75 of one system are missing."
    told, own = kept("raguteam"), {}
    for file, t in submitted().items():
        t = t[(t.label != "UNDERSPECIFIED") & t.measured.map(lambda m: "RL_F" in m)]
        own[team(file)] = pd.Series(
            np.where(t.cannot, t.no, np.where(t.no, 0.0, t.RL_F)), t.id
        )
    every = pd.DataFrame(own).dropna()
    tasks = sum(label(o) != "UNDERSPECIFIED" for o in tasks_of(UN).values())
    systems, pairs = [], {}
    for o in told["systems"]:
        v = own[o["system"]]
        row = {
            "mean": within(v.mean(), 1e-6),
            "common": within(every[o["system"]].mean(), 1e-6),
        }
        systems.append(row | {"n": len(v), "missing": tasks - len(v)} | MORE)
        same(o, ends(*bootstrap(v)))
    for k, o in enumerate(told["pairs"]):
        change = less(own[o["a"]], own[o["b"]])
        row = {"difference": within(change.mean(), 1e-6), "n": len(change)} | MORE
        pairs[k] = row | p_of(change, None)
        same(o, ends(*bootstrap(change)))
    holm(pairs, dict(enumerate(told["pairs"])), "p_holm")
    same(
        told,
        {"shared": len(every), "systems": systems, "pairs": [*pairs.values()]} | MORE,
    )


def test_rule_of_refusals_against_verdicts():
    "Precision and recall of the rule, and what share of systems' answers decide rightly to refuse, by file and half."
    groups, own = {team(f): t for f, t in submitted().items() if "idk_eval" in t}, {}
    groups = {n: t[t.idk_eval.notna()] for n, t in groups.items()}
    groups["submissions"] = pd.concat(groups.values())
    groups |= {"rated answers": evaluations(RATED), "MTRAG-S": evaluations(SYNTHETIC)}
    for (name, t), h in product(groups.items(), HALVES):
        t = t[t.talk.map(half) == h]
        theirs, ours, clear = t.no, t.rule, t.label != "UNDERSPECIFIED"
        official_share, rule = ((x == t.cannot)[clear].mean() for x in (theirs, ours))
        shares = {
            "precision": theirs[ours].mean(),
            "recall": ours[theirs].mean(),
            "accuracy, official": official_share,
            "accuracy, rule": rule,
            "difference": rule - official_share,
        }
        row = {k: within(v, 6e-5) for k, v in shares.items()}
        row |= {"answers": len(t), "refusals": int(theirs.sum())}
        own[f"{name}, {'writing' if h == HALVES[0] else h} half"] = row
    same(kept("declining"), own)


# --- what asks an encoder (MTRAG_RECOUNT=all) -------------------------------------------------------------------------------------


VECTORS = {}  # text -> vector


def encoded(texts):
    "`VECTORS` with those of some texts; what was encoded before lies beside pytest's own cache, by checksum."
    if not (texts := sorted({*texts} - VECTORS.keys(), key=lambda t: (len(t), t))):
        return VECTORS
    path = MEASURED.parents[1] / ".pytest_cache" / "recount.npz"
    known = dict(zip(*np.load(path).values())) if path.exists() else {}
    keys = [hashlib.sha256(t.encode()).hexdigest() for t in texts]
    if new := {k: t for k, t in zip(keys, texts) if k not in known}:
        how = {
            "batch_size": 8,
            "normalize_embeddings": True,
            "show_progress_bar": False,
        }
        known |= zip(new, encoder().encode([*new.values()], **how))
        path.parent.mkdir(exist_ok=True)
        np.savez(path, keys=np.array([*known]), vectors=np.array([*known.values()]))
    VECTORS.update(zip(texts, (known[k] for k in keys)))
    return VECTORS


@lru_cache
def encoder():
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(find_model(load_settings().embedder)), device="cpu")


class _Known:
    "What the package's rule of unclear questions asks of an encoder, from the vectors that are known."

    def encode(self, texts, query=False):
        return np.array([VECTORS[t] for t in texts])


@lru_cache(None)
def by_encoder(system):
    "Checks of a system's drafts with their passages: of 40 drawn conversations, of GPT-4.1 all."
    t, rows = read_drafts()[system], []
    if system != GATED_SYSTEM:
        t = t[t.talk.isin(random.Random(0).sample(sorted({*t.talk}), 40))]
    history = t.task.map(
        lambda o: [Turn(x["speaker"], x["text"]) for x in o["input"][:-1]]
    )
    v = encoded(x for some in (t.said, t.texts, [t.answer]) for y in some for x in y)
    for d, before in zip(t.itertuples(), history):
        asked, answer = v[d.said[-1]], v[d.answer]
        passages = np.array([v[x] for x in d.texts] or [0 * asked])
        closeness = sorted((passages @ asked).tolist(), reverse=True)
        titles = [x.partition("\n")[0] for x in d.texts]
        told = features(
            d.said[-1], before, _Known(), closeness if d.texts else (), titles
        )
        margin = closeness[0] - closeness[1] if closeness[1:] else 0.0
        rows.append([(passages @ answer).max(), closeness[0], margin])
        rows[-1] += [answer @ asked, 1 - underspecified(told)]
    return pd.DataFrame(rows, t.index, COSINES)


@asks_encoder
def test_nearness_of_drafts():
    told, own = kept("checks")["nearness"], defaultdict(dict)
    for system in told:
        t = drafts().loc[by_encoder(system).index]
        columns = by_encoder(system).join(t[[*CHECKS][:2]])
        for kind in told[system]:
            y = truth(t, kind).dropna()
            x, ids = columns.loc[y.index], t.id[y.index]
            own[system][kind] = {c: area(x[c], y == 1, ids, last=2e-4) for c in x}
    same(told, own)


@asks_encoder
def test_parts_of_the_combination():
    "From all measures those are dropped, one by one, without which what other conversations weigh ranks lower by less than .005."
    t = weighing()
    x, y = columns_of(t).drop(columns="target recall"), t.RB_llm.to_numpy()
    x["log words of the target"] = [np.log(1 + len(a.split())) for a in t.target]
    folds = t.talk.map(
        lambda i: int(hashlib.sha256(i.encode()).hexdigest()[:8], 16) % 5
    ).to_numpy()

    def unseen(parts):
        out = np.zeros(len(y))
        for f in range(5):
            there = folds != f
            out[~there] = weighed(x[parts][there], y[there])[0](x[~there])
        return spearmanr(out, y)[0]

    parts = [*x]
    first = unseen(parts)
    while len(parts) > 1:
        tried = {p: unseen([q for q in parts if q != p]) for p in parts}
        worst = max(tried, key=tried.get)
        if tried[worst] < first - 0.005:
            break
        parts.remove(worst)
    assert {*parts} == {*kept("yardsticks")["combination"]["parts"]}
