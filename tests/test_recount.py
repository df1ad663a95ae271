"""The numbers that are printed of released runs, counted again by code that shares nothing with the package: json, csv and regular
expressions over the raw files, numpy, an own bootstrap. What is taken from it: its list of stop words, and the rules that are themselves
what is measured (refusals, contextual support, sentences, features of claims, the rule of unclear questions). Counts agree exactly, means
to 2e-5, the ends of intervals with a percentile bootstrap over conversations as `near` says, p within the noise of random signs.
`MTRAG_RECOUNT=all` also counts what asks an encoder, in a quarter of an hour on one core; its vectors are kept in `.pytest_cache`.

Not counted again without it: the cosine of answer and target, nearness of drafts, the choice of a combination's parts, the checks by
cosine and the combination for GPT-4.1 (and with it the combination's rows over all systems). Not counted again at all:
- the signals of `gate.json` (they need its index; what is printed of them is), the endings and seeds of `equal.json` and the row of
  copied sentences, which come from runs of this project's own systems;
- ends of intervals of 20 conversations and fewer (among them the noise floor and what style alone does), of shares near 0 or 1, of
  AUROC with fewer than ten of a kind, of rank correlations of 50 answers and fewer (RB_agg: of 100), nor their conversations;
- how large a difference RaguTeam's pairs could show, and with how many tasks more (`raguteam.json`);
- only roughly: signs of surfaces by price and share (to a seventh of the points), systems up or down (to two), ends of the break even."""

import csv
import gzip
import hashlib
import json
import os
import random
import re
from collections import Counter, defaultdict
from functools import lru_cache
from itertools import product
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from scipy.stats import binomtest, rankdata

from mtrag_nb.core import text
from mtrag_nb.core.claims import FEATURES, claim_features, claims_something, draft_features
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.text import STOPWORDS, sentences
from mtrag_nb.core.types import Turn
from mtrag_nb.evaluate.licence import contextual_support
from mtrag_nb.models.local import find_model
from mtrag_nb.systems.baselines import _quotable, features, underspecified
from tests.support.claims import Planted, of_sample, planted

MEASURED = Path(__file__).parents[1] / "data" / "measured"
ROOT = Path(os.environ.get("MTRAG_DATA") or "nowhere")
needs_data = pytest.mark.skipif(
    not (ROOT / "released").is_dir(), reason="MTRAG_DATA has no released outputs"
)
CONTEXTS, PROMPTS = ("gold", "elser", "recall"), ("official", "abstain")
ARMS = [(c, p) for p in PROMPTS for c in CONTEXTS]
ALL = os.environ.get("MTRAG_RECOUNT") == "all"  # what asks an encoder, too
asks_encoder = pytest.mark.skipif(not ALL, reason="asks an encoder: MTRAG_RECOUNT=all")
idk_by_rule = lru_cache(None)(text.idk_by_rule)


@lru_cache
def kept(name):
    return json.loads((MEASURED / f"{name}.json").read_text("utf-8"))


def lines(path):
    path = ROOT / path
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return [json.loads(x) for x in text.split("\n") if x.strip()]


def talk(i):
    return i.split("<::>")[0]


def words(text):
    return re.findall(r"\w[\w'.,:-]*\w|\w", text.lower())


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
    return held(target, {*words(answer)}) * min(1.0, most)


def verdict(answer, target):
    "right, failed or undecided, by target recall."
    score = recall_of(answer, target)
    return "right" if score >= 0.38 else "failed" if score < 0.2 else "undecided"


def bootstrap(values, resamples=4000):
    "Percentile interval of a mean over conversations; values: task id -> number."
    sums, sizes = defaultdict(float), Counter()
    for i, v in values.items():
        sums[talk(i)] += v
        sizes[talk(i)] += 1
    of = np.array([[sums[t], sizes[t]] for t in sums])
    drawn = np.random.default_rng(1).multinomial(len(of), np.full(len(of), 1 / len(of)), resamples)
    total = drawn @ of
    return np.quantile(total[:, 0] / total[:, 1], [0.025, 0.975])


def agrees(found, values, what="", last=2e-5):
    "A kept interval against the values of tasks."
    if not values:
        assert (found["value"], found["n"]) == (None, 0), what
        return
    values = {i: float(v) for i, v in values.items()}
    assert abs(found["value"] - np.mean(list(values.values()))) < last, what
    assert (found["n"], found["clusters"]) == (len(values), len({*map(talk, values)})), what
    if {*values.values()} <= {0.0, 1.0}:  # of a share near 0 or 1 a bootstrap knows no ends
        rare = min(sum(values.values()), len(values) - sum(values.values())) < 5
    else:
        rare = len({talk(i) for i, v in values.items() if v}) < 5
    if found["low"] is not None and found["clusters"] > 20 and not rare:
        near(found, bootstrap(values), what)


def near(found, ends, what=""):
    "Ends of an interval: at most an eighth narrower than by the bootstrap, at most a half wider (few conversations, shares near 0 or 1)."
    wider = np.array([ends[0] - found["low"], found["high"] - ends[1]])
    span = ends[1] - ends[0]
    assert -0.005 - span / 8 < wider.min() and wider.max() < 0.01 + span / 2, (what, found, ends)


def less(a, b):
    return {i: a[i] - b[i] for i in a if i in b}


@lru_cache
def some_signs():
    return np.random.default_rng(2).choice([-1.0, 1.0], (20_000, 400))


def flips(values):
    "p of a mean difference by random signs of conversations."
    sums = defaultdict(float)
    for i, v in values.items():
        sums[talk(i)] += v
    d = np.array([v for v in sums.values() if v])
    found = np.abs(some_signs()[:, : len(d)] @ d) >= abs(d.sum()) - 1e-9
    return (1 + found.sum()) / (1 + len(found))


def told_p(row, values, what=""):
    "A kept p within the noise of the draws, and how many conversations differ."
    sums = defaultdict(float)
    for i, v in values.items():
        sums[talk(i)] += v
    if differ := sum(v != 0 for v in sums.values()):
        assert row.get("conversations that differ", differ) == differ, what
        own = flips(values)
        assert abs(row["p"] - own) < 6 * np.sqrt(own * (1 - own) / 7_000) + 2e-4, (what, own)
    else:
        assert "p" not in row, what


def told_holm(rows):
    "Holm over the rows of a table that so many conversations could show at all (Tarone 1990), from the p that are kept."
    rows = [r for r in rows if "p" in r]
    least = np.array([2.0 ** (1 - r["conversations that differ"]) for r in rows])
    most = (k for k in range(1, len(rows) + 1) if (least < 0.05 / k).sum() <= k)
    able = least < 0.05 / next(most, 1)
    assert able.tolist() == ["p holm" in r for r in rows]
    own = by_holm(np.array([r["p"] for r in rows])[able])
    assert np.allclose([r["p holm"] for r in rows if "p holm" in r], own, rtol=1e-3)


def by_holm(ps):
    order, out, worst = np.argsort(ps), np.zeros(len(ps)), 0.0
    for k, at in enumerate(order):
        worst = max(worst, min(1.0, (len(ps) - k) * ps[at]))
        out[at] = worst
    return out


# --- GPT-4o's six runs -------------------------------------------------------------------------------------------------------------


@lru_cache
def arm(context, prompt):
    task = "B" if context == "gold" else "C"
    name = f"{task}_dev_gpt-4o_{context}_prompt-{prompt}.jsonl.gz"
    return {o["task_id"]: o for o in lines(f"released/re_call/{name}")}


@lru_cache
def relevant():
    "Task -> gold passages, by the qrels of all domains."
    found = defaultdict(set)
    for path in sorted((ROOT / "mtrag-human" / "retrieval_tasks").rglob("qrels/dev.tsv")):
        for row in list(csv.reader(path.open(encoding="utf-8"), delimiter="\t"))[1:]:
            if int(row[2]):
                found[row[0]].add(row[1])
    return dict(found)


def label(o):
    return (o.get("Answerability") or o["answerability"])[0]


def refused(o):
    return o["metrics"]["idk_eval"][0] == 1


def text_of(o):
    return o["predictions"][0]["text"]


@lru_cache
def came(a):
    "Answerable task -> what became of it in a run."
    return {
        i: "failed" if refused(o) else verdict(text_of(o), o["targets"][0]["text"])
        for i, o in arm(*a).items()
        if i in relevant()
    }


def is_(a, what):
    return {i: float(c == what) for i, c in came(a).items()}


def rates(a):
    no = {i: float(refused(arm(*a)[i])) for i in came(a)}
    failed = is_(a, "failed")
    wrong = {i: float(failed[i] and not no[i]) for i in no}
    return {"right": is_(a, "right"), "failed": failed, "refused": no, "wrong answer": wrong}


def official(a, measure, answered=False):
    "Official scores of the answerable tasks: of answers only, or with a wrong refusal as 0."
    key = measure if answered else f"{measure}_idk_underspecified"
    scored = {i: arm(*a)[i]["metrics"].get(key, [None])[0] for i in relevant()}
    return {
        i: v
        for i, v in scored.items()
        if v is not None and not np.isnan(v) and not (answered and refused(arm(*a)[i]))
    }


def nothing(a):
    return {i: o for i, o in arm(*a).items() if label(o) == "UNANSWERABLE"}


def held_gold(a, i):
    return len(relevant()[i] & {c["document_id"] for c in arm(*a)[i]["contexts"]}) / len(
        relevant()[i]
    )


def missed(a):
    return [i for i in relevant() if not held_gold(a, i)]


def blamed(a):
    return [i for i in missed(a) if came(a)[i] == "failed"]


@needs_data
def test_ladder():
    found = kept("released")["ladder"]
    assert (found["tasks"], found["unanswerable"]) == (len(relevant()), 55)
    for a in ARMS:
        row, name = found["rows"][", ".join(a)], str(a)
        for what, values in rates(a).items():
            agrees(row[what], values, f"{name} {what}")
        agrees(row["refused, unanswerable"], {i: refused(o) for i, o in nothing(a).items()}, name)
        assert row["unanswerable with passages"] == sum(
            bool(o["contexts"]) for o in nothing(a).values()
        )
        for what, m, answered in (
            ("faithful", "RL_F", True),
            ("RB_llm", "RB_llm", False),
            ("RB_agg", "RB_agg", False),
        ):
            agrees(row[what], official(a, m, answered), f"{name} {what}")
        twin, counts = came(("gold", a[1])), Counter()
        for i, c in came(a).items():
            gone, no = not held_gold(a, i), refused(arm(*a)[i])
            why = "declined though gold was there" if no else "wrong draft from gold"
            why = f"gold not found: {twin[i]} with gold" if gone else why
            counts[c if c != "failed" else why] += 1
        assert row["endings"] == counts
        assert sorted(filter(None, picture_of(a).values())) == sorted(counts.values())


def picture_of(a):
    names = {"gold": "gold passages", "elser": "ELSER", "recall": "RE-call"}
    told = ", told to abstain" if a[1] == "abstain" else ""
    return kept("released")["picture"]["counts"][names[a[0]] + told]


STEPS = {
    **{f"ELSER for gold, {p}": (("elser", p), ("gold", p)) for p in PROMPTS},
    **{f"RE-call for gold, {p}": (("recall", p), ("gold", p)) for p in PROMPTS},
    **{f"abstention prompt, {c}": ((c, "abstain"), (c, "official")) for c in CONTEXTS},
}


@needs_data
def test_steps_of_the_ladder():
    found, ps, told = kept("released")["ladder"], [], []
    for name, (a, b) in STEPS.items():
        some = {m: less(rates(a)[m], rates(b)[m]) for m in rates(a)}
        some["faithful, where both answer"] = less(*(official(x, "RL_F", True) for x in (a, b)))
        some["RB_llm"] = less(*(official(x, "RB_llm") for x in (a, b)))
        assert found["steps"][name].keys() == some.keys()
        for m, values in some.items():
            agrees(found["steps"][name][m]["difference"], values, f"{name} {m}")
            told_p(found["steps"][name][m], values, f"{name} {m}")
            ps.append(found["steps"][name][m]["p"])
            told.append(found["steps"][name][m]["p holm"])
        judged = [official(x, "RB_llm", True) for x in (a, b)]
        for m, is_it in (("right", lambda v: v >= 0.7), ("wrong answer", lambda v: v < 0.5)):
            both = [{i: float(is_it(o.get(i, 0.6))) for i in relevant()} for o in judged]
            agrees(found["by RB_llm"][name][m], less(*both), f"{name} {m} by RB_llm")
    assert np.allclose(told, by_holm(np.array(ps)), rtol=1e-3)


@needs_data
def test_by_gold_found():
    for c in ("elser", "recall"):
        for p in PROMPTS:
            parts = defaultdict(list)
            for i in relevant():
                x = held_gold((c, p), i)
                parts["all" if x == 1 else "some" if x else "none"].append(i)
            for part, ids in parts.items():
                row = kept("released")["by gold found"][f"{c}, {p}"][part]
                assert row["tasks"] == len(ids)
                for m, values in rates((c, p)).items():
                    change = less({i: values[i] for i in ids}, rates(("gold", p))[m])
                    agrees(row[m], change, f"{c} {p} {part} {m}")


@needs_data
def test_where_abstention_pays():
    for c in CONTEXTS:
        change = less(is_((c, "abstain"), "right"), is_((c, "official"), "right"))
        no = {i: float(refused(o)) for i, o in nothing((c, "abstain")).items()}
        gain = less(no, {i: float(refused(o)) for i, o in nothing((c, "official")).items()})
        talks, rng = sorted({*map(talk, change), *map(talk, gain)}), np.random.default_rng(3)
        table = np.zeros((len(talks), 4))
        for k, some in enumerate((change, gain)):
            for i, v in some.items():
                table[talks.index(talk(i)), 2 * k : 2 * k + 2] += (v, 1)

        def share(t):
            loss, won = -t[..., 0] / t[..., 1], t[..., 2] / t[..., 3]
            return loss / (loss + won)

        found = kept("released")["break even"][c]
        assert abs(found["value"] - share(table.sum(0))) < 2e-5
        drawn = rng.multinomial(len(talks), np.full(len(talks), 1 / len(talks)), 4000) @ table
        ends = np.quantile(share(drawn), [0.025, 0.975])
        assert np.abs(ends - [found["low"], found["high"]]).max() < 0.08  # a ratio: looser


# --- blame ---------------------------------------------------------------------------------------------------------------------------


def became(row, ids, twin, what):
    counts = Counter(twin[i] for i in ids)
    assert row["turns"] == len(ids), what
    assert [row[k] for k in ("right", "undecided", "failed")] == [
        counts[k] for k in ("right", "undecided", "failed")
    ], what
    agrees(row["repaired"], {i: twin[i] == "right" for i in ids}, what)
    agrees(row["fails still"], {i: twin[i] == "failed" for i in ids}, what)


def groups(o):
    turn, domain = int(o["turn"]), re.search("clapnq|cloud|fiqa|govt", o["Collection"])[0]
    place = "first" if turn == 1 else "second to fourth" if turn < 5 else "later"
    told = f"domain: {domain}", f"turn: {place}", f"label: {label(o)}"
    return *told, f"ending: {'refused' if refused(o) else 'answered'}"


@needs_data
def test_blame_against_the_same_turns_with_gold():
    for c in ("elser", "recall"):
        for p in PROMPTS:
            a, part = (c, p), kept("released")["counterfactual"][f"{c}, {p}"]
            here, twin, ids = came(a), came(("gold", p)), blamed(a)
            assert part["missed"] == len(missed(a))
            agrees(part["right all the same"], {i: here[i] == "right" for i in missed(a)})

            rows = defaultdict(list)
            for i in ids:
                for g in ("all", *groups(arm(*a)[i])):
                    rows[g].append(i)
            assert rows.keys() == part["rows"].keys()
            for g, some in rows.items():
                became(part["rows"][g], some, twin, f"{a} {g}")
            there = [i for i, x in here.items() if x == "failed" and held_gold(a, i)]
            for cause, no in (
                ("declined though gold was there", True),
                ("wrong draft from gold", False),
            ):
                some = [i for i in there if refused(arm(*a)[i]) == no]
                became(part["other causes"][cause], some, twin, cause)
            alone, gone = part["from the run alone"], {*missed(a)}
            rate = [{i: here[i] == "failed" for i in here if (i in gone) == x} for x in (1, 0)]
            agrees(alone["fails, gold missing"], rate[0])
            agrees(alone["fails, gold there"], rate[1])
            agrees(alone["fails no longer"], {i: twin[i] != "failed" for i in ids})
            over = 1 - np.mean([*rate[1].values()]) / np.mean([*rate[0].values()])
            assert abs(alone["excess"]["value"] - over) < 2e-5
            near(alone["excess"], ends_of_excess(here, gone), a)
            for m, found in part["official"].items():
                agrees(
                    found,
                    less(
                        *(
                            {i: v for i, v in official(x, m).items() if i in ids}
                            for x in (("gold", p), a)
                        )
                    ),
                )


def ends_of_excess(here, gone):
    talks = sorted({*map(talk, here)})
    table = np.zeros(
        (len(talks), 4)
    )  # turns with gold and their failures, turns without and theirs
    for i, c in here.items():
        k = 2 * (i in gone)
        table[talks.index(talk(i)), k : k + 2] += (1, c == "failed")
    rng = np.random.default_rng(8)
    drawn = rng.multinomial(len(talks), np.full(len(talks), 1 / len(talks)), 4000) @ table
    over = 1 - drawn[:, 1] / drawn[:, 0] / (drawn[:, 3] / drawn[:, 2])
    return np.quantile(over, [0.025, 0.975])


@needs_data
def test_second_answers_and_the_same_misses():
    told = kept("released")
    for p in PROMPTS:
        ids = [i for i in blamed(("elser", p)) if i in {*missed(("recall", p))}]
        again, gold = ({i: is_((c, p), "right")[i] for i in ids} for c in ("recall", "gold"))
        row = told["control"][p]
        assert row["turns"] == len(ids)
        agrees(row["right again without gold"], again)
        agrees(row["right with gold"], gold)
        agrees(row["difference"], less(gold, again))
    sets = [{*blamed(("elser", p))} for p in PROMPTS]
    own = {"official": len(sets[0]), "abstain": len(sets[1]), "both": len(sets[0] & sets[1])}
    assert told["same misses"] == own


def half(i):
    return ("choosing", "reporting")[int(hashlib.sha256(talk(i).encode()).hexdigest(), 16) % 2]


def run_of(name):
    return tuple(name.split(", "))


@needs_data
def test_rules_of_blame():
    cases = []  # id, run, laid to retrieval by each rule, repaired by gold
    for p, other in (PROMPTS, PROMPTS[::-1]):
        for c in ("elser", "recall"):
            for i in relevant():
                twin, o = came(("gold", p))[i], arm(c, p)[i]
                if came((c, p))[i] != "failed" or twin == "undecided":
                    continue
                target, miss, whole = o["targets"][0]["text"], not held_gold((c, p), i), label(o)
                given, best = (
                    held(target, {w for t in x["contexts"] for w in words(t["text"])})
                    for x in (o, arm("gold", p)[i])
                )
                laid = (
                    miss,
                    miss and whole == "ANSWERABLE",
                    miss and best - given >= 0.2,
                    miss and best >= 0.75,
                    whole == "ANSWERABLE" and best - given >= 0.05,
                    miss and came(("gold", other))[i] != "failed",
                )
                cases.append((i, (c, p), laid, twin == "right"))
    told = kept("released")["rules"]
    for h, by in told["halves"].items():
        some = [x for x in cases if half(x[0]) == h]
        sizes = {"turns": len(some), "conversations": len({talk(x[0]) for x in some})}
        assert told["sizes"][h] == sizes
        for k, (name, row) in enumerate(by.items()):
            key = {f"{i}<::>{a}": (laid[k], laid[0], fine) for i, a, laid, fine in some}
            agrees(row["agrees"], {i: x == y for i, (x, _, y) in key.items()}, name)
            over = {i: (x == y) - (z == y) for i, (x, z, y) in key.items()}
            agrees(row["over the rule of before"], over, name)
            mine = {i: y for i, (x, _, y) in key.items() if x}
            assert row["laid to retrieval"] == len(mine)
            agrees(row["repaired"], mine, name)
            for run, rows in told["by run"].items() if h == "reporting" else ():
                if found := rows.get(name):
                    own = {i: x for i, x in key.items() if str(run_of(run)) in i}
                    agrees(found["agrees"], {i: x == y for i, (x, _, y) in own.items()}, run)
                    assert found["laid to retrieval"] == sum(x for x, _, _ in own.values())
                    agrees(found["repaired"], {i: y for i, (x, _, y) in own.items() if x}, run)
                    over = {i: (x == y) - (z == y) for i, (x, z, y) in own.items()}
                    agrees(found["over the rule of before"], over, run)
    best = [np.mean([x[2][k] == x[3] for x in cases if half(x[0]) == "choosing"]) for k in range(6)]
    assert list(told["halves"]["choosing"])[int(np.argmax(best))] == told["chosen"]


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


@lru_cache
def searched(name):
    "Task with gold -> recall at five; of scores without passages also recall at a hundred."
    if name.startswith("RE-call"):
        path = ROOT / f"released/re_call/metrics_A_dev_{SEARCHES[name]}.json.gz"
        by = json.loads(gzip.decompress(path.read_bytes()))["scores"]["per_query"]
        return {i: x["Recall@5"] for i, x in by.items()}, {
            i: x["Recall@100"] for i, x in by.items()
        }
    found = {}
    for o in lines(f"released/{SEARCHES[name]}.jsonl.gz"):
        if gold := relevant().get(o["task_id"]):
            first = list(dict.fromkeys(c["document_id"] for c in o["contexts"]))[:5]
            found[o["task_id"]] = len(gold & {*first}) / len(gold)
    return found, None


def hit(name):
    return {i: float(x > 0) for i, x in searched(name)[0].items()}


def by_conversation(change):
    net = Counter()
    for i, v in change.items():
        net[talk(i)] += v
    return sum(v > 0 for v in net.values()), sum(v < 0 for v in net.values())


@needs_data
def test_searches_and_their_pairs():
    told, ps = kept("released"), []
    assert told["searches"].keys() == SEARCHES.keys()
    for name, row in told["searches"].items():
        assert row["tasks"] == len(hit(name))
        agrees(row["gold among five"], hit(name), name)
        agrees(row["recall"], searched(name)[0], name)
    for what, row in told["pairs"].items():
        a, b = hit(row["from"]), hit(row["to"])
        change = less(b, a)
        gained, lost = (sum(v == s for v in change.values()) for s in (1, -1))
        assert (row["tasks"], row["gained"], row["lost"]) == (len(change), gained, lost), what
        agrees(row["difference"], change, what)
        agrees(row["recall"], less(searched(row["to"])[0], searched(row["from"])[0]), what)
        up, down = by_conversation(change)
        assert (row["conversations up"], row["conversations down"]) == (up, down)
        ps.append(binomtest(up, up + down).pvalue)
        assert abs(row["p"] / ps[-1] - 1) < 1e-4
    own = by_holm(np.array(ps))
    assert np.allclose(own, [row["p holm"] for row in told["pairs"].values()], rtol=1e-4)


@needs_data
def test_hard_core():
    told, every = kept("released")["hard core"], [hit(n) for n in SEARCHES]
    ids = [i for i in relevant() if all(i in x for x in every)]
    core = {i: not any(x[i] for x in every) for i in ids}
    assert (told["searches"], told["tasks"]) == (len(every), len(ids))
    agrees(told["found by none"], core)
    agrees(told["found by all"], {i: all(x[i] for x in every) for i in ids})
    deep = [searched(n)[1] for n in SEARCHES if n.startswith("RE-call")]
    agrees(
        told["of RE-call's six, none among a hundred"],
        {i: not any(x[i] for x in deep) for i in ids},
    )
    rows = defaultdict(dict)
    for i in ids:
        o = arm("gold", "official")[i]
        n = len(o["input"][-1]["text"].split())
        length = "up to 5 words" if n <= 5 else "6 to 12 words" if n <= 12 else "longer"
        for g in (*groups(o)[:3], f"length: {length}"):
            rows[g][i] = core[i]
        for x in o["Question Type"]:
            rows[f"type: {x}"][i] = core[i]
        for x in o["Multi-Turn"]:
            rows[f"in the conversation: {x}"][i] = core[i]
    assert rows.keys() == told["rows"].keys()
    for g, values in rows.items():
        agrees(told["rows"][g], values, g)


def rewritten(asked, new, by_people, history):
    "Measures of a rewrite against what was asked and said before."
    q, r, said = (
        {*content(asked)},
        {*content(new)},
        {w for t in (asked, *history) for w in words(t)},
    )
    return {
        "words of the question lost": 1 - len(q & r) / max(1, len(q)),
        "words that nobody said": 1 - held(new, said),
        "longer than the question by": len(r) - len(q),
        "words that the human rewrite lacks": len(r - {*content(by_people)}),
    }


@needs_data
def test_rewrites():
    people, asked, history = {}, {}, {}
    for path in (ROOT / "mtrag-human/retrieval_tasks").rglob("*_rewrite.jsonl"):
        people |= {o["_id"]: o["text"].removeprefix("|user|:").strip() for o in lines(path)}
    for i, o in arm("gold", "official").items():
        asked[i], history[i] = o["input"][-1]["text"], [t["text"] for t in o["input"][:-1]]
    by_qwen = lines("released/zvictor12/rewrites_dev_qwen3.5-4b.jsonl.gz")
    texts = {True: {o["task_id"]: o["query"] for o in by_qwen}, False: people}
    pairs = {
        "bge-m3, Qwen3.5-4B": ("bge-m3, last question", "bge-m3, Qwen rewrite"),
        "bge-m3, human": ("bge-m3, last question", "bge-m3, human rewrite"),
        "ELSER, human": ("ELSER, last question", "ELSER, human rewrite"),
    }
    for name, (a, b) in pairs.items():
        row, new = kept("released")["rewriting"][name], texts["Qwen" in name]
        change, seen = less(hit(b), hit(a)), Counter()
        ids = [i for i in change if i in new and new[i].strip() != asked[i].strip()]
        for i in ids:
            q, r = {*content(asked[i])}, content(new[i])
            said = {w for t in (asked[i], *history[i]) for w in words(t)}
            if q and r and held(new[i], said) <= 0.5 and len(q & {*r}) / len(q) < 0.5:
                seen[change[i]] += 1
        moved = Counter(change[i] for i in ids)
        assert row["rewrites"] == len(ids), name
        assert (row["gained"], row["lost"]) == (moved[1], moved[-1]), name
        assert row["strayed"] == seen.total(), name
        of = {
            i: (change[i] < 0, rewritten(asked[i], new[i], people[i], history[i]))
            for i in ids
            if change[i]
        }
        for m, by in row["auroc"].items():
            for h, found in by.items():
                mine = [i for i in of if half(i) == h]
                y, x = np.array([(of[i][0], of[i][1][m]) for i in mine]).T
                auroc_agrees(found, x, y == 1, mine, (name, m))
        assert (row["strayed and gained"], row["strayed and lost"]) == (seen[1], seen[-1]), name


# --- Self-CRAG, official scores, the test set -------------------------------------------------------------------------------------


@needs_data
def test_self_crag_of_its_authors():
    told, talks = kept("released")["self_crag"], {}
    for o in lines("mtrag-human/reference.jsonl"):
        said = tuple(t["text"].strip() for t in o["input"] if t["speaker"] == "user")
        talks[said[:2]] = o  # the last turn of a conversation comes last
    books, ends = lines_of_json("mtrag-human/conversations.json"), []
    for book in books:
        users = [m["text"].strip() for m in book["messages"] if m["speaker"] == "user"]
        ends.append(talks[tuple(users[:2])])
    versions = {v: f"{v}_{x}" for v, x in (("v1", "strict_llama8b"), ("v2", "strict_llama8b"))}
    versions |= {"v3": "v3_permissive_llama3b", "v4": "v4_permissive_llama8b"}
    files = {
        v: lines(f"released/gbgers/C_dev110_self-crag_{n}.jsonl.gz") for v, n in versions.items()
    }
    place = {o["conversation_id"]: o["original_index"] for o in files["v2"]}  # v1 has no index
    no = {}
    for v, some in files.items():
        row, no[v], tokens = told["rows"][v], {}, 0
        for o in some:
            end = ends[o.get("original_index", place[o["conversation_id"]])]
            token = o["answer"].strip() == "I_DONT_KNOW"
            tokens += token
            no[v][end["task_id"]] = (label(end), token or idk_by_rule(o["answer"]) == 1, o)
        assert row["token"] == tokens
        for x, found in row["refused"].items():
            agrees(found, {i: r for i, (y, r, _) in no[v].items() if x == y}, v)
        can = {i: r for i, (y, r, _) in no[v].items() if y in ("ANSWERABLE", "PARTIAL")}
        agrees(row["refused, answerable"], can, v)
        if "reasons" in row:
            why = Counter(o["fallback_reason"] for o in some)
            again = Counter(o["fallback_reason"] for o in some if o["retry_count"])
            assert row["reasons"] == why and row["retried"] == again.total()
            assert row["retried and answered"] == again["none"]
            assert row["retried, loop exhausted"] == again["hallucination_loop_exhausted"]
            of_can = Counter(no[v][i][2]["fallback_reason"] for i in can)
            assert row["reasons, answerable"] == of_can
    for name, row in told["changes"].items():
        a, b = name.split(" to ")
        change = {i: no[b][i][1] - no[a][i][1] for i in can}
        down, up = (sum(v == s for v in change.values()) for s in (-1, 1))
        assert (row["stops refusing"], row["begins to"]) == (down, up)
        agrees(row["difference"], change, name)
    assert told["answerable"] == len(can) and told["turns"] == len(no["v4"])
    assert told["labels"] == Counter(x[0] for x in no["v4"].values())
    for name, row in told["changes"].items():
        a, b = name.split(" to ")
        up, down = by_conversation({i: no[b][i][1] - no[a][i][1] for i in can})
        assert (row["conversations up"], row["conversations down"]) == (up, down)
        assert abs(row["p"] / binomtest(up, up + down).pvalue - 1) < 1e-4
    own = by_holm(np.array([row["p"] for row in told["changes"].values()]))
    assert np.allclose([row["p holm"] for row in told["changes"].values()], own, rtol=1e-4)
    same = sum(
        no["v3"][i][2]["fallback_reason"] == no["v4"][i][2]["fallback_reason"] for i in no["v3"]
    )
    assert told["v3 and v4 give the same reason"] == same
    given = {
        v: {i: {x["document_id"] for x in o["references"]} for i, (*_, o) in no[v].items()}
        for v in no
    }
    assert told["the four list the same passages"] is all(x == given["v1"] for x in given.values())
    gold = sum(bool(relevant()[i] & given["v1"][i]) for i in can)
    assert told["a gold passage among them"] == gold


def lines_of_json(path):
    return json.loads((ROOT / path).read_text("utf-8"))


@lru_cache
def ragu_files():
    paths = sorted((ROOT / "released/raguteam").glob("B_dev96_*.jsonl.gz"))
    return {p.name[8:].partition(".jsonl")[0]: lines(p) for p in paths}


@needs_data
def test_official_scores():
    told = kept("released")
    files = {f"GPT-4o: {', '.join(a)}": [*arm(*a).values()] for a in ARMS}
    files |= {f"RaguTeam: {n}": some for n, some in ragu_files().items()}
    assert files.keys() == told["rb_agg"].keys() == told["refusal rule"].keys()
    for name, some in files.items():
        row, rows, ids = told["rb_agg"][name], [], []
        for o in some:
            m = o["metrics"]
            if m["idk_eval"][0] != 1 and m.get("BertKPrec") and m["RB_llm"][0] is not None:
                parts = m["RougeL_stemFalse"][0], (m["BertscoreR"][0] + 1) / 2
                rows.append((*parts, (max(m["BertKPrec"]) + 1) / 2, m["RB_agg"][0], m["RB_llm"][0]))
                ids.append((None, o["task_id"]))
        x = np.array(rows)
        assert row["answers"] == len(x)
        assert row["ROUGE-L is the least"] == int((x[:, 0] <= x[:, 1:3].min(1)).sum())
        rank = np.array([rankdata(c) for c in x.T])
        for other, k in (("ROUGE-L", 0), ("RB_llm", 4)):
            own = np.corrcoef(rank[3], rank[k])[0, 1]
            assert abs(row[f"RB_agg and {other}"]["value"] - own) < 2e-5, name
            if (found := row[f"RB_agg and {other}"])["n"] > 100:
                near(found, resampled(x[:, 3], x[:, k], ids), (name, other))
        pairs = [(idk_by_rule(text_of(o)) == 1, refused(o)) for o in some]
        row, by = told["refusal rule"][name], {o["task_id"]: x for o, x in zip(some, pairs)}
        agrees(row["agree"], {i: a == b for i, (a, b) in by.items()}, name)
        agrees(row["precision"], {i: b for i, (a, b) in by.items() if a}, name)
        agrees(row["recall"], {i: a for i, (a, b) in by.items() if b}, name)
        own = (len(pairs), sum(b for _, b in pairs), sum(a for a, _ in pairs))
        assert (row["answers"], row["official"], row["rule"]) == own
        assert row["both"] == sum(a and b for a, b in pairs)
    for a in ARMS:
        row = told["order"][", ".join(a)]
        rouge = {i: arm(*a)[i]["metrics"]["RougeL_stemFalse"][0] for i in relevant()}
        agrees(row["ROUGE-L"], {i: 0.0 if refused(arm(*a)[i]) else v for i, v in rouge.items()})
        for m in ("RB_agg", "RB_llm", "RL_F"):
            agrees(row[m], official(a, m))


@needs_data
def test_scores_by_cause():
    by = defaultdict(lambda: defaultdict(dict))
    for a in ARMS:
        for i, o in arm(*a).items() if a[0] != "gold" else ():
            if i in relevant():
                c, no = came(a)[i], refused(o)
                why = "declined though gold was there" if no else "wrong draft from gold"
                c = c if c != "failed" else why if held_gold(a, i) else "gold not found"
            elif label(o) in ("UNANSWERABLE", "CONVERSATIONAL"):
                c = "right" if refused(o) else "answered from nothing"
            else:
                continue
            for m in ("RL_F", "RB_llm", "RB_agg"):
                if (v := o["metrics"][m][0]) is not None and not np.isnan(v):
                    by[c][m][f"{i}<::>{a}"] = v
    for c, row in kept("released")["scores by cause"].items():
        assert row["turns"] == len(by[c]["RB_agg"])
        for m, values in by[c].items():
            agrees(row[m], values, (c, m))


@lru_cache
def un_tasks():
    return {o["task_id"]: o for o in lines("mtragun-human/reference.jsonl")}


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
    "ROUGE-L by hand."
    both, a, b = in_order(answer, target)
    return 2 * both / (a + b) if both else 0.0


@needs_data
def test_set_of_the_task():
    told, un = kept("released")["test set"], un_tasks()
    some = lines("released/iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl.gz")
    assert told["tasks"] == len(some) == len(un)
    assert told["gate"] == Counter(o["answerability"] for o in some)
    causes, gold = Counter(), {}
    for x, found in told["refused"].items():
        mine = [o for o in some if label(un[o["task_id"]]) == x]
        agrees(found, {o["task_id"]: idk_by_rule(text_of(o)) == 1 for o in mine}, x)
    for o in some:
        task, no = un[o["task_id"]], idk_by_rule(text_of(o)) == 1
        if label(task) == "UNANSWERABLE" and not no:
            causes["answered from nothing"] += 1
        elif label(task) in ("ANSWERABLE", "PARTIAL"):
            wanted = {c["document_id"] for c in task["contexts"]}
            there = wanted & {c["document_id"] for c in o["contexts"]}
            gold[o["task_id"]] = bool(there)
            if no or verdict(text_of(o), task["targets"][0]["text"]) == "failed":
                why = "declined though gold was there" if no else "wrong draft from gold"
                causes[why if there else "gold not found"] += 1
    assert told["causes"] == causes
    agrees(told["gold among three"], gold)
    assert told["judged"] == sum(label(un[o["task_id"]]) != "UNDERSPECIFIED" for o in some)
    found = {}
    for o in lines("released/sifei/A_test_hybrid-rerank_old.jsonl.gz"):
        if o["task_id"] in gold:
            best = sorted(o["contexts"], key=lambda c: -float(c["score"]))[:5]
            wanted = {c["document_id"] for c in un[o["task_id"]]["contexts"]}
            found[o["task_id"]] = bool(wanted & {c["document_id"] for c in best})
    agrees(told["Sifei, gold among five"], found)
    for path in sorted((ROOT / "mtragun-human/predictions_raguteam").glob("*.jsonl")):
        said = {o["task_id"]: o["prediction"] for o in lines(path)}
        own = {
            i: rouge(said[i], o["targets"][0]["text"])
            for i, o in un.items()
            if label(o) == "ANSWERABLE" and said.get(i) is not None
        }
        agrees(kept("released")["copied"][path.stem], own, path.stem)
    own = kept("quote")["sets"]["mtragun-human"]["scores"]["ANSWERABLE"]["RougeL"]
    row = kept("released")["copied"]["five copied sentences"]
    assert all(
        abs(row[a] - own[b]) < 1e-6 for a, b in (("value", "mean"), ("low", "low"), ("n", "n"))
    )


@needs_data
def test_files_are_those_that_were_measured():
    for name, wanted in kept("released")["files"].items():
        path = ROOT / "released" / name
        raw = (
            path.read_bytes()
            if path.is_file()
            else gzip.decompress(Path(f"{path}.gz").read_bytes())
        )
        assert hashlib.sha256(raw).hexdigest() == wanted, name


# --- right answers, wrong answers and refusals by price and share -----------------------------------------------------------------

GRID = [(p / 10, s / 100) for p in range(11) for s in (5, 10, 15, 20, 25)]


def points(before, after, level, grid, resamples=4000):
    "At each price and share: after less before, with a bootstrap interval; endings: id -> (kind of question, right, wrong)."
    talks, rows = sorted({*map(talk, before)}), defaultdict(lambda: np.zeros(6))
    for i, (kind, right, wrong) in after.items():
        change = right - before[i][1], wrong - before[i][2], 1.0
        rows[talk(i)][3 * kind : 3 * kind + 3] += change
    of = np.array([rows[t] for t in talks])
    drawn = (
        np.random.default_rng(4).multinomial(len(of), np.full(len(of), 1 / len(of)), resamples) @ of
    )
    some = of[:, [2, 5]].sum(0) > 0
    drawn = drawn[(drawn[:, [2, 5]] > 0)[:, some].all(1)]  # a draw may lack one kind of question

    def at(x):
        right, wrong, n = (x[..., [k, k + 3]] for k in range(3))
        n = np.maximum(n, 1)
        return np.array([((right - p * wrong) / n) @ (1 - s, s) for p, s in grid]).T

    ends = np.quantile(at(drawn), ((1 - level) / 2, (1 + level) / 2), axis=0)
    return dict(zip(grid, zip(at(of.sum(0)), *ends)))


def surface(before, after, level):
    return points(before, after, level, GRID)


def sign(point):
    return 1 if point[1] > 0 else -1 if point[2] < 0 else 0


def ending(e):
    "Kind of question, how much right, how much wrong."
    kind, came = int(e["label"] in ("UNANSWERABLE", "CONVERSATIONAL")), e["came"]
    wrong = float(came == "failed" and not e["refused"]) + (came == "undecided") / 2
    return kind, float(came == "right") + (came == "undecided") / 2, wrong


EQUAL = {  # right, wrong, refused of the answerable; refused of the unanswerable: as printed
    "naive": (6, 37, 0, 0),
    "self_crag": (8, 22, 16, 20),
    "quote": (24, 20, 0, 2),
    "nexus": (24, 19, 0, 2),
    "ncl": (9, 27, 8, 7),
    "agents": (5, 34, 1, 3),
}


def printed(notebook, head):
    "Rows of the table under a head, as a notebook shows it: name, the rest."
    cells = json.loads((Path(__file__).parents[1] / "nbs" / notebook).read_text("utf-8"))["cells"]
    texts = ["".join(o.get("text", "")) for c in cells for o in c.get("outputs", [])]
    rows = next(x for x in texts if re.match(head, x)).splitlines()[1:]
    return {x[: x.index("  ")]: x[x.index("  ") :].strip() for x in rows if x.strip()}


def said_of(verdict):
    "What a verdict in words says of a point: a sign, or None where it does not say."
    way = 1 if "better" in verdict else -1
    if "throughout" in verdict or verdict == "not shown":
        return lambda p: way if "throughout" in verdict else 0
    least, most = map(float, re.findall(r"prices (\S+) to (\S+)", verdict)[0])
    return lambda p: way if least <= p <= most else None


def test_equal_study():
    "From the endings that are kept: rows of the table, and where a sign is shown."
    ends = kept("equal")["endings"]
    for name, some in ends.items():
        can = [e for e in some.values() if e["label"] == "ANSWERABLE"]
        cannot = [e for e in some.values() if e["label"] == "UNANSWERABLE"]
        wrong = sum(e["came"] == "failed" and not e["refused"] for e in can)
        own = sum(e["came"] == "right" for e in can), wrong, sum(e["refused"] for e in can)
        assert (len(can), len(cannot)) == (60, 60)
        assert (*own, sum(e["refused"] for e in cannot)) == EQUAL[name], name
    told = {n: {i: ending(e) for i, e in some.items()} for n, some in ends.items()}
    rows = printed("9_studies/11_equal.ipynb", r"\s+differ")
    assert len(rows) == 15
    for pair, row in rows.items():
        a, b = pair.split(" less ")
        found = points(told[b], told[a], 1 - 0.05 / 15, GRID, 20_000)
        differ, *corners, verdict = re.split(r"\s{2,}", row)
        talks = {talk(i) for i, e in told[a].items() if e != told[b][i]}
        assert int(differ) == len(talks), pair
        for at, corner in zip(((0.0, 0.05), (1.0, 0.05), (0.0, 0.25), (1.0, 0.25)), corners):
            value, low, high = map(float, re.findall(r"-?\d\.\d+", corner))
            assert abs(value - found[at][0]) < 6e-4, (pair, at)
            near({"low": low, "high": high}, found[at][1:], (pair, at))
        if "not testable" in verdict:
            continue
        if some := re.findall(r"at (\d+) of 55", verdict):
            shown = [sign(x) for x in found.values()]
            way = 1 if "better" in verdict else -1
            assert abs(shown.count(way) - int(some[0])) < 8 and -way not in shown, (pair, shown)
            continue
        wanted = said_of(verdict)
        off = [g for g, x in found.items() if wanted(g[0]) not in (None, sign(x))]
        assert len(off) < 8 and not any(sign(found[g]) * (wanted(g[0]) or 0) < 0 for g in off), (
            pair,
            off,
        )
    first = ends["self_crag"]
    changed = [
        sum(e["said"] != first[i]["said"] for i, e in x.items())
        for x in kept("equal")["seeds"].values()
    ]
    assert (min(changed), max(changed)) == (15, 21)


def test_blame_of_the_equal_study():
    "From the turns that are kept: they end as in the equal study; what the check and the retry are worth by price and share."
    turns, ends = defaultdict(dict), kept("equal")["endings"]
    for line in (MEASURED / "blame_turns.jsonl").read_text("utf-8").splitlines():
        o = json.loads(line)
        turns[o["system"]][o["task"]] = o
    assert turns.keys() == ends.keys()
    for name, some in turns.items():
        for i, o in some.items():
            e = ends[name][i]
            assert (o["run"][0], bool(o["run"][1]), o["label"]) == (
                e["came"],
                e["refused"],
                e["label"],
            )

    def fork(name, mechanism):
        rows = {i: o["off"][mechanism] for i, o in turns[name].items()}
        rows = {i: turns[name][i]["run"] if r == "=" else r for i, r in rows.items()}
        label_ = {i: turns[name][i]["label"] for i in rows}
        return {
            i: {"came": r[0], "refused": bool(r[1]), "label": label_[i]} for i, r in rows.items()
        }

    forks = [next(iter(x.values()))[k] for x in turns.values() for k in ("off", "known")]
    after = {i: ending(e) for i, e in ends["self_crag"].items()}
    for mechanism, wanted in (("check and retry", 1), ("retry", 0)):
        before = {i: ending(e) for i, e in fork("self_crag", mechanism).items()}
        found = surface(before, after, 1 - 0.05 / sum(map(len, forks)))
        dear = [sign(x) for (p, _), x in found.items() if p >= 0.4]
        assert set(dear) == {1} if wanted else dear.count(0) > 31 and 1 not in dear, mechanism
        if mechanism == "check and retry":
            assert not any(sign(found[0.0, s]) for s in (0.05, 0.1))
            assert abs(found[1.0, 0.05][0] - 0.25) < 0.001


def test_gate_over_the_equal_study():
    "From the kept endings and the kept nearness: what refusing below a threshold gains at price 1, and what it refuses."
    near, ends = kept("gate")["sets"]["equal"], kept("equal")["endings"]
    for column, least, gains in (
        ("together", 0.483, ((0.08, 0.2), (0.18, 0.3))),
        ("sentences", 0.53, None),
    ):
        low = [float(v) < least for v in near[column].split()]
        low = dict(zip(near["tasks"].split(), low))
        found, taken = defaultdict(list), Counter()
        for name, some in ends.items():
            before = {i: ending(e) for i, e in some.items()}
            after = {i: (e[0], float(e[0]), 0.0) if low[i] else e for i, e in before.items()}
            for e in (some[i] for i in some if low[i] and not some[i]["refused"]):
                taken[name, "none" if e["label"] == "UNANSWERABLE" else e["came"]] += 1
            for s in (0.07, 0.22):
                value, start, _ = points(before, after, 0.95, [(1.0, s)])[1.0, s]
                found[s].append(round(value, 2))
                assert start > 0 or (column, s) == ("sentences", 0.07), (name, column, s)
        if gains:
            assert gains == tuple((min(v), max(v)) for v in found.values())
            assert max(taken[n, "right"] for n in ends) == 2
            none = [taken[n, "none"] for n in ends]
            assert (min(none), max(none)) == (18, 25)


def test_what_the_gate_tells():
    "AUROC of answerable against unanswerable questions, as 10_checks prints it."
    some = [kept("gate")["sets"][name] for name in ("mtrag", "mtragun")]
    labels = np.array([x for one in some for x in one["labels"].split()])
    at = np.isin(labels, [*ANSWERED, "UNANSWERABLE"])
    for column in ("best", "sentences"):
        x = np.array([float(v) for one in some for v in one[column].split()])
        assert round(auroc(x[at], labels[at] != "UNANSWERABLE"), 2) == 0.67, column


@needs_data
def test_scores_of_released_searches_as_a_gate():
    labels = {i: label(o) for some in (dev_tasks(), un_tasks()) for i, o in some.items()}
    files = {
        "ELSER": ("mtrag-human/rag_elser_top5.jsonl", "score"),
        "SPLADE and Voyage, fused": (
            "released/iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl.gz",
            "score",
        ),
        "a cross-encoder, bge-reranker-v2-m3": (
            "released/sifei/A_test_hybrid-rerank_old.jsonl.gz",
            "rerank_score",
        ),
    }
    for name, (path, key) in files.items():
        found = {
            o["task_id"]: sorted((float(c[key]) for c in o["contexts"]), reverse=True)
            for o in lines(path)
        }
        ids = [
            i for i, x in found.items() if x[1:] and labels.get(i) in (*ANSWERED, "UNANSWERABLE")
        ]
        y, x = np.array([labels[i] in ANSWERED for i in ids]), np.array([found[i][:2] for i in ids])
        row = kept("gate")["released"][name]
        auroc_agrees(row["best"], x[:, 0], y, ids, name)
        auroc_agrees(row["margin"], x[:, 0] - x[:, 1], y, ids, name)


# --- checks on the drafts of strong models ------------------------------------------------------------------------------------------

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


class Draft:
    def __init__(self, model, i, task, answer, texts, idk, scores):
        self.model, self.id, self.answer, self.scores = model, i, answer or "", scores
        self.label, self.asked = label(task), task["input"][-1]["text"]
        self.domain = (re.search("clapnq|cloud|fiqa|govt", str(task.get("Collection"))) or [""])[0]
        users = [x["text"] for x in task["input"][:-1] if x["speaker"] == "user"]
        self.before = users[-1] if users else ""
        said = idk if idk in (0, 0.5, 1) else idk_by_rule(self.answer)
        self.refused = said == 1 or not self.answer.strip()
        if self.label in ("UNANSWERABLE", "CONVERSATIONAL"):
            self.came = "right" if self.refused else "failed"
        else:
            by_target = verdict(self.answer, task["targets"][0]["text"])
            self.came = "failed" if self.refused else by_target
        self.target = task["targets"][0]["text"]
        self.known = {w for t in texts for w in words(t)}
        self.texts, self.support = texts, held(self.answer, self.known)
        self.history = [Turn(x["speaker"], x["text"]) for x in task["input"][:-1]]
        self.words = frozenset(content(self.answer))

    def worth(self, price, refuse=False):
        if refuse or self.refused:
            return float(self.label in ("UNANSWERABLE", "CONVERSATIONAL"))
        return worth(self.came, price)


def worth(came, price):
    return {"right": 1.0, "undecided": 0.5 - 0.5 * price, "failed": -price}[came]


@lru_cache(None)
def quotes(passage):
    "Sentences of four words and more, each with its vector: counts of words by the checksum of each."
    found = (" ".join(passage[a:b].split()) for a, b in _quotable(passage))
    return [(s, vector(s)) for s in found]


def vector(text):
    by = Counter(crc32(w.encode()) % 1024 for w in re.findall(r"\w+", text.lower()) or [""])
    long = np.sqrt(sum(v * v for v in by.values()))
    return {k: v / long for k, v in by.items()}


@lru_cache(None)
def copied(asked, before, texts):
    "The five sentences of the passages that are nearest to the question, alone or behind the one before, in their order."
    sought = [vector(q) for q in ([asked, f"{before} {asked}"] if before else [asked])]
    some = {s: v for text in texts for s, v in quotes(text)}
    near = [max(sum(q.get(k, 0) * x for k, x in v.items()) for q in sought) for v in some.values()]
    best = sorted(range(len(near)), key=lambda k: (-round(near[k], 4), k))[:5]
    return " ".join(list(some)[k] for k in sorted(best))


@lru_cache(None)
def changes(name, way, price, at=None):
    "Draft by draft, what its replacement would gain; another model is chosen at one price, and may be counted `at` another."
    pool, some = drafts()[name]
    if way == "another model":
        by, own, scores = together()[pool], {d.model for d in some}, defaultdict(list)
        for i in dict.fromkeys(d.id for d in some if talk(d.id) in chooses(pool)):
            for m, o in by[i].items():
                if own != {m}:
                    scores[m].append(o.worth(price))
        most = max(map(len, scores.values()))
        means = {m: np.mean(v) for m, v in scores.items() if len(v) >= 0.8 * most}
        best = max(means, key=means.get)
    price = price if at is None else at

    def instead(d):
        if d.refused or way == "refusal":
            return d.worth(price, True)
        if way == "another model":
            return by[d.id].get(best, d).worth(price)
        said, cannot = copied(d.asked, d.before, tuple(d.texts)), d.label in UNANSWERED
        if not said:
            return float(cannot)
        return worth("failed" if cannot else verdict(said, d.target), price)

    return np.array([instead(d) - d.worth(price) for d in some])


@lru_cache
def together():
    "Pool -> task -> model -> draft."
    found = defaultdict(lambda: defaultdict(dict))
    for pool, some in drafts().values():
        for d in some:
            found[pool][d.id][d.model] = d
    return found


@lru_cache
def dev_tasks():
    return {o["task_id"]: o for o in lines("mtrag-human/reference.jsonl")}


def drafts_of(some, tasks, model):
    for o in some:
        if task := tasks.get(o["task_id"]):
            m = {k: v[0] for k, v in (o.get("metrics") or {}).items() if isinstance(v, list) and v}
            answer = o["prediction"] if "prediction" in o else text_of(o)
            passages = o["contexts"] if "contexts" in o else task["contexts"]
            texts = [c["text"] for c in passages if c["text"].strip()]
            yield Draft(model, o["task_id"], task, answer, texts, m.get("idk_eval"), m)


@lru_cache
def synthetic_drafts():
    "Drafts of MTRAG-S; `conditional_idk` and the label say what the verdict was."
    path = ROOT / "mtrag-synthetic/evaluations_synthetic.json.gz"
    synthetic = json.loads(gzip.decompress(path.read_bytes()))
    tasks = {t["task_id"]: t for t in synthetic["tasks"]}
    texts, out = {d["document_id"]: d["text"] for d in synthetic["documents"]}, []
    for e in synthetic["evaluations"]:
        if e["model_id"] in MODELS:
            task = tasks[e["task_id"]]
            o = {
                k: v["composite"]["value"] for k, v in e["annotations"].items() if "composite" in v
            }
            refuse = label(task) in ("UNANSWERABLE", "CONVERSATIONAL")
            idk = float((o["conditional_idk"] == 1) == refuse)
            mine = [texts[c["document_id"]] for c in task["contexts"]]
            scores = {"RB_llm": o["rb_llm"], "RL_F": o["rl_f"]}
            told = (task, e["model_response"], mine, idk, scores)
            out.append(Draft(e["model_id"], e["task_id"], *told))
    return out


@lru_cache
def drafts():
    "System -> pool, drafts."
    found = {}
    for c in CONTEXTS:
        for p in PROMPTS:
            name, pool = f"GPT-4o, {c}, {TOLD[p]}", "gold" if c == "gold" else "searches"
            some = drafts_of(arm(c, p).values(), dev_tasks(), f"{c}, {p}")
            found[name] = (f"GPT-4o, {pool}", some)
    for p in ("official", "evidence"):
        some = lines(f"released/sifei/C_dev100_elser_prompt-{p}.jsonl.gz")
        found[f"DeepSeek, ELSER, {p}"] = ("DeepSeek", drafts_of(some, dev_tasks(), p))
    seven = (d for n, some in ragu_files().items() for d in drafts_of(some, dev_tasks(), n))
    found["RaguTeam's seven, dev"] = ("RaguTeam", seven)
    some = lines("released/iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl.gz")
    found["GPT-4.1, IIMAS' search"] = ("GPT-4.1", drafts_of(some, un_tasks(), "GPT-4.1"))
    for file, name in SUBMITTED.items():
        some = lines(f"mtragun-human/predictions_raguteam/{file}.jsonl")
        found[f"{name}, test"] = ("test", drafts_of(some, un_tasks(), name))
    for m, n in MODELS.items():
        found[f"{n}, MTRAG-S"] = ("MTRAG-S", [d for d in synthetic_drafts() if d.model == m])
    out = {}
    for name, (pool, some) in found.items():
        searched_ = pool in ("GPT-4o, searches", "DeepSeek", "GPT-4.1")
        labels = {"ANSWERABLE", "PARTIAL"} | (
            {"UNANSWERABLE", "CONVERSATIONAL"} if searched_ else set()
        )
        out[name] = pool, [d for d in some if d.label in labels]
    return out


@lru_cache
def chooses(pool):
    "Every other conversation of a pool, in alphabetical order."
    return {*sorted({talk(d.id) for p, some in drafts().values() if p == pool for d in some})[::2]}


@needs_data
def test_drafts_and_the_check_as_it_stands():
    told = kept("checks")
    assert told["systems"].keys() == drafts().keys()
    for name, (_, some) in drafts().items():
        own = Counter("refused" if d.refused else d.came for d in some)
        row = told["systems"][name]
        assert row["tasks"] == len(some) and {k: row[k] for k in own} == own, name
        for way, price in product(("refusal", "copied sentences"), (0, 1)):
            row = told["as it stands"][f"{name}; {way}; {price}"]
            below = [not d.refused and d.support < 0.6 for d in some]
            assert row["rejected"] == sum(below), name
            assert row["of"] == sum(not d.refused for d in some), name
            kinds = Counter(f"{d.label.lower()}, {d.came}" for d, b in zip(some, below) if b)
            assert row["rejected, by what they are"] == kinds
            gain = below * changes(name, way, price)
            gain = {f"{d.id}<::>{d.model}": g for d, g in zip(some, gain)}
            agrees(row["gain"], gain, name)
            told_p(row, gain, name)
    told_holm(told["as it stands"].values())


@needs_data
def test_what_checks_tell_apart():
    "AUROC of each check, and the share that is wrong of the drafts that a check puts first."
    told = kept("checks")
    for name, (pool, some) in drafts().items():
        ids, columns = [d.id for d in some], columns_at(name)
        choose = np.array([talk(i) in chooses(pool) for i in ids])
        assert told["systems"][name]["conversations"] == len({*map(talk, ids)})
        for kind, row in told["auroc"][name].items():
            y = np.array([truth(d, kind) for d in some], float)
            at, rest = ~np.isnan(y), ~np.isnan(y) & ~choose
            assert (row["right"], row["wrong"]) == ((y[at] == 1).sum(), (y[at] == 0).sum()), name
            for c in row.keys() - {"right", "wrong"}:
                a, _, b = c.partition(" less ")
                a = next((k for k in columns if k.startswith(a)), None)
                here = rest if a == "combination" else at
                if a:
                    minus = columns["support (K-precision)"][here] if b else None
                    of = [i for i, h in zip(ids, here) if h]
                    what = (name, kind, c)
                    auroc_agrees(row[c], columns[a][here], y[here] == 1, of, what, minus)
        can = np.flatnonzero([not d.refused and not c for d, c in zip(some, choose)])
        wrong = [{"failed": 1.0, "undecided": 0.5}.get(some[k].came, 0.0) for k in can]
        for c, row in told["risk"][name].items():
            order = np.argsort(-columns[c][can], kind="stable") if c in columns else []
            for share, found in row.items() if c in columns else ():
                first = order[: max(1, round(float(share) * len(order)))]
                own = {f"{ids[can[k]]}<::>{some[can[k]].model}": wrong[k] for k in first}
                agrees(found, own, (name, c, share))


def half_of(talks, reports):
    "Every second conversation in alphabetical order: those that choose, or those that report."
    return {*sorted({*talks})[reports::2]}


@lru_cache
def rated_drafts():
    "Answers that people rated, with passages: conversation, answer, passages, median and least faithfulness."
    told = lines_of_json("mtrag-human/human_evaluations_dev.json")
    tasks = {o["task_id"]: o for o in told["tasks"]}
    texts, out = {d["document_id"]: d["text"] for d in told["documents"]}, []
    for e in told["evaluations"]:
        passages = tuple(texts[c["document_id"]] for c in tasks[e["task_id"]]["contexts"])
        marks = [float(v["value"]) for v in e["annotations"]["faithfulness"].values()]
        if e["model_id"] != "reference" and passages:
            out.append(
                (talk(e["task_id"]), e["model_response"], passages, np.median(marks), min(marks))
            )
    return out


def drawn_synthetic(reports):
    some = [d for d in synthetic_drafts() if d.label in ANSWERED and not d.refused and d.texts]
    mine = half_of((talk(d.id) for d in some), reports)
    return random.Random(reports).sample([d for d in some if talk(d.id) in mine], 800)


def features_of(answer, texts):
    none = {f: float(f in ("support", "near")) for f in FEATURES}
    return draft_features(answer, texts) or none


def by_weights(which, rows):
    "What the kept weights make of features, less their threshold; it is kept rounded down to a thousandth: and of the next."
    w = dict(kept("claims")["weights"][which])
    least = w.pop("threshold")
    x = np.array([sum(w.get(k, 0) * f[k] for k in FEATURES) for f in rows]) + w["intercept"]
    return x, np.log(least / (1 - least)), np.log((least + 0.001) / (0.999 - least))


@needs_data
def test_check_of_claims_on_whole_drafts():
    "Drafts of conversations that chose nothing: what the kept weights make of the check's features, and words below .6."
    told, found = kept("claims"), {}
    people = half_of((r[0] for r in rated_drafts()), 1)
    rows = [(i, a, p, m > 2) for i, a, p, m, _ in rated_drafts() if i in people]
    found["people, rated answers"] = rows
    dev = half_of(map(talk, dev_tasks()), 1) - half_of((r[0] for r in rated_drafts()), 0)
    every = {n: some for n, (_, some) in drafts().items()} | {"MTRAG-S": drawn_synthetic(1)}
    for kind, system in (n.split(", ", 1) for n in told["drafts"] if "people" not in n):
        by, mine = {"the target": "target"}.get(kind, kind), every[system]
        mine = [d for d in mine if d.texts and (system == "MTRAG-S" or talk(d.id) in dev)]
        mine = [(d.id, d.answer, d.texts, truth(d, by)) for d in mine]
        found[f"{kind}, {system}"] = [x for x in mine if not np.isnan(x[3])]
    for name, rows in found.items():
        ids, y = [x[0] for x in rows], np.array([x[3] == 1 for x in rows])
        x, least, _ = by_weights("draft", [features_of(*r[1:3]) for r in rows])
        words_ = np.array([held(r[1], {w for t in r[2] for w in words(t)}) for r in rows])
        row = told["drafts"][name]
        assert (row["faithful"], row["unfaithful"]) == (y.sum(), (~y).sum())
        for check, v, at in (("claims", x, least), ("words", words_, 0.6)):
            last = 1.01 / y.sum() if check == "claims" else 2e-5  # the threshold is kept rounded
            assert abs(row["faithful kept"][check] - (v[y] >= at).mean()) < last, name
            last = 1.01 / (~y).sum() if check == "claims" else 2e-5
            assert abs(row["unfaithful rejected"][check] - (v[~y] < at).mean()) < last, name
            auroc_agrees(row[check], v, y, ids, (name, check), last=4e-5)
        auroc_agrees(row["difference"], x, y, ids, name, words_, last=8e-5)


@lru_cache
def claims_of(reports):
    "Where from -> claims: falsehoods and paraphrases made by rule, and sentences of faithful answers."
    out = {"sample": of_sample(reports), "MTRAG": [], "answers": []}
    some = [d for d in synthetic_drafts() if d.label in ANSWERED and not d.refused and d.texts]
    mine, texts = half_of((talk(d.id) for d in some), reports), defaultdict(set)
    for d in some:
        texts[d.domain] |= {*d.texts} if talk(d.id) in mine else set()
    rng = random.Random(reports)
    for domain in sorted(texts):
        out["MTRAG"] += planted(rng.sample(sorted(texts[domain]), 60), reports, most=2)
    people = half_of((r[0] for r in rated_drafts()), reports)
    true = [("rated answers", a, p) for i, a, p, _, m in rated_drafts() if i in people and m == 4]
    good = [d for d in drawn_synthetic(reports) if d.scores["RL_F"] > 0.999][:150]
    true += [("answers of MTRAG-S", d.answer, tuple(d.texts)) for d in good]
    sample = MEASURED.parent / "sample" / "reference.jsonl"
    sample = [json.loads(x) for x in sample.read_text("utf-8").splitlines()]
    mine = half_of((talk(o["task_id"]) for o in sample), reports)
    for o in sample:
        if talk(o["task_id"]) in mine and o["contexts"]:
            passages = tuple(c["text"] for c in o["contexts"])
            true.append(("targets of the sample", o["targets"][0]["text"], passages))
    for kind, answer, passages in true:
        claims = filter(claims_something, sentences(answer))
        out["answers"] += [Planted(kind, x, True, passages) for x in claims]
    return out


def claim_rows(claims):
    return [{k: v[0] for k, v in claim_features(c.text, c.passages).items()} for c in claims]


@needs_data
def test_planted_falsehoods():
    "By kind: what the kept weights reject, and what words below .6 do."
    for where, claims in claims_of(1).items():
        x, least, next_ = by_weights("claim", claim_rows(claims))
        low = np.array(
            [held(c.text, {w for t in c.passages for w in words(t)}) < 0.6 for c in claims]
        )
        groups = defaultdict(list)
        for k, c in enumerate(claims):
            groups["all that is true" if c.true else "all falsehoods"].append(k)
            groups[c.kind].append(k)
        told = kept("claims")["planted"][where]
        assert told.keys() == groups.keys()
        for name, at in groups.items():
            row, ids = told[name], {k: f"{claims[k].passages[0]}<::>{k}" for k in at}
            assert row["false"] is not claims[at[0]].true
            agrees(row["words"], {i: low[k] for k, i in ids.items()}, (where, name))
            unsure = ((x[at] >= least) & (x[at] < next_)).sum() / len(at)
            rejected = {i: x[k] < least for k, i in ids.items()}
            agrees(row["claims"], rejected, (where, name), 2e-5 + unsure)


@needs_data
def test_weights_of_the_check_of_claims():
    "The kept weights are the least of the penalized loss in which no feature has the wrong sign; and the thresholds are as said."
    claims = [c for some in claims_of(0).values() for c in some]
    n = Counter((c.true, c.kind) for c in claims)
    kinds = Counter(true for true, _ in n)
    each = [len(claims) / 2 / kinds[c.true] / n[c.true, c.kind] for c in claims]
    people = half_of((r[0] for r in rated_drafts()), 0)
    rows = [(a, p, m > 2) for i, a, p, m, _ in rated_drafts() if i in people]
    rows += [
        (d.answer, d.texts, truth(d, "RL_F") == 1)
        for d in drawn_synthetic(0)
        if truth(d, "RL_F") in (0, 1)
    ]
    sets = {
        "claim": (claim_rows(claims), [c.true for c in claims], each),
        "draft": ([features_of(*r[:2]) for r in rows], [r[2] for r in rows], [1.0] * len(rows)),
    }
    for which, (features_, y, each) in sets.items():
        y, each, w = np.array(y), np.array(each), kept("claims")["weights"][which]
        x, least, next_ = by_weights(which, features_)
        z = np.array([[f[k] for k in FEATURES] + [1.0] for f in features_])
        own = np.array([*(w.get(k, 0.0) for k in FEATURES), 0.0])
        chance = 1 / (1 + np.exp(-x))
        slope = z.T @ (each * (chance - y)) + own
        bend = ((z.T * (each * chance * (1 - chance))) @ z).sum(1)  # of weights half a digit off
        for k, v, most in zip([*FEATURES, "intercept"], slope, 1e-4 * np.abs(bend) + 0.02):
            way = -1 if k in ("support", "near") else 1
            assert abs(v) < most if k in w else way * v < most, (which, k, v, most)
        if which == "claim":  # of what is true a tenth is below
            share = [(each * y * (x < t)).sum() / (each * y).sum() for t in (least, next_)]
            assert share[0] <= 0.1 <= share[1] + 1e-3, share
        else:
            right = [((x[y] >= t).mean() + (x[~y] < t).mean()) / 2 for t in np.unique(x.round(2))]
            here = [((x[y] >= t).mean() + (x[~y] < t).mean()) / 2 for t in (least, next_)]
            assert max(right) - max(here) < 2e-3


def truth(d, kind):
    "1 good, 0 poor, nan in between or not told."
    if d.refused:
        return np.nan
    if kind == "target":
        return {"right": 1, "failed": 0}.get(d.came, np.nan)
    v = d.scores.get(kind)
    return np.nan if v is None or 0.6 < v < 0.8 else float(v >= 0.8)


def auroc(x, y):
    rank, n = rankdata(x), y.sum()
    return (rank[y].sum() - n * (n + 1) / 2) / (n * (len(y) - n))


def auroc_agrees(found, x, y, ids, what="", minus=None, last=2e-5, every=False):
    "A kept AUROC, or what it is above another's; of conversations drawn again where both kinds are ten and more."
    columns = [x] if minus is None else [x, minus]
    values = [auroc(c, y) for c in columns]
    assert abs(found["value"] - values[0] + sum(values[1:])) < last, what
    talks = np.array([*map(talk, ids)])
    clusters = min(len({*talks[y]}), len({*talks[~y]}))  # that hold one kind, and the other
    clusters = len({*talks}) if every else clusters
    assert (found["n"], found["clusters"]) == (len(x), clusters), what
    if found["low"] is None or min(y.sum(), (~y).sum()) < 10 or found["clusters"] <= 20:
        return
    names = sorted({*talks})
    of = np.eye(len(names))[[names.index(t) for t in talks]]
    drawn = np.random.default_rng(7).multinomial(
        len(names), np.full(len(names), 1 / len(names)), 2000
    )
    ways = (drawn @ of[y].sum(0)) * (drawn @ of[~y].sum(0))
    shares = []
    for c in columns:
        over = np.sign(c[y][:, None] - c[~y]) / 2 + 0.5
        shares.append(
            ((drawn @ (of[y].T @ over @ of[~y])) * drawn).sum(1)[ways > 0] / ways[ways > 0]
        )
    near(found, np.quantile(shares[0] - sum(shares[1:]), [0.025, 0.975]), what)


@lru_cache
def agreement():
    "Draft -> words shared with the other drafts of its task in the pool, where there are several models."
    out = {}
    for by in together().values():
        for some in by.values() if any(len(some) > 1 for some in by.values()) else ():
            for d in some.values():
                rest = [o for o in some.values() if o is not d]
                both = [0.0 if o.refused else shared(d.words, o.words) for o in rest]
                out[d] = np.mean(both) if both else 0.0
    return out


def shared(a, b):
    return 2 * len(a & b) / (len(a) + len(b)) if a & b else 0.0


def cut(x, gain):
    "The threshold below which replacing gains most on what chooses."
    best, at, total = 1e-9, -np.inf, 0.0
    order = np.argsort(x, kind="stable")
    for k, i in enumerate(order):
        total += gain[i]
        last = k + 1 == len(order)
        if (last or x[order[k + 1]] > x[i]) and total > best:
            best, at = total, x[i] + 1 if last else (x[i] + x[order[k + 1]]) / 2
    return at


def weighed(x, y, choose):
    "Log-odds of a logistic regression, a ridge of 1 on standardized columns, by Newton's steps."
    fit = choose & ~np.isnan(y)
    z = np.c_[(x - x[fit].mean(0)) / (x[fit].std(0) + 1e-9), np.ones(len(x))]
    w, ridge = np.zeros(z.shape[1]), np.diag([1.0] * x.shape[1] + [0.0])
    for _ in range(50):
        p = 1 / (1 + np.exp(-z[fit] @ w))
        slope = z[fit].T @ (p - y[fit]) + ridge @ w
        w -= np.linalg.solve((z[fit] * (p * (1 - p))[:, None]).T @ z[fit] + ridge, slope)
    return z @ w


CHECKS = {
    "support (K-precision)": lambda d: d.support,
    "contextual support": lambda d: contextual_support(d.answer, d.texts),
    "weakest sentence": lambda d: min((held(s, d.known) for s in sentences(d.answer)), default=1.0),
    "question in passages": lambda d: held(d.asked, d.known),
    "question in answer": lambda d: held(d.asked, {*words(d.answer)}),
    "shortness (control)": lambda d: -float(len(d.answer.split())),
    "agreement of drafts": lambda d: agreement()[d],
}


@lru_cache(None)
def column(name, c):
    return np.array([CHECKS[c](d) for d in drafts()[name][1]])


@lru_cache
def scored():
    "Check -> draft -> its score."
    out = defaultdict(dict)
    for name, (_, some) in drafts().items():
        for c in CHECKS:
            if "agree" not in c or some[0] in agreement():
                out[c] |= zip(some, column(name, c))
    return {c: by.get for c, by in out.items()}


NONE = "no check: all or none"


@lru_cache(None)
def columns_at(name):
    "Check -> scores of a system's drafts; the combination of all is fitted again."
    pool, some = drafts()[name]
    out = {c: column(name, c) for c in CHECKS if "agree" not in c or some[0] in agreement()}
    if pool == "GPT-4.1" and ALL:
        out |= by_encoder(name)
    choose = np.array([talk(d.id) in chooses(pool) for d in some])
    y = np.array([truth(d, "target") for d in some], float)
    enough = min((y[choose] == 1).sum(), (y[choose] == 0).sum()) >= 10
    if enough and (pool != "GPT-4.1" or ALL):
        out["combination"] = weighed(np.array([*out.values()]).T, y, choose)
    return out | {NONE: np.zeros(len(some))}


def curve_agrees(found, ids, kinds, right, wrong):
    "At how many points of price and share a change is shown, in words; to a seventh of the points."
    changed = {talk(i) for i, r, w in zip(ids, right, wrong) if r or w}
    if "not testable" in found:
        assert int(re.findall(r"\d+", found)[0]) == len(changed)
        return
    grid = GRID if any(kinds) else [(p / 10, 0.0) for p in range(11)]
    rows = zip(ids, kinds, right, wrong)
    before = {i: (k, 0.0, 0.0) for i, k in zip(ids, kinds)}
    shown = points(before, {i: x for i, *x in rows}, 0.95, grid)
    shown = Counter(sign(x) for x in shown.values())
    for way, s in (("better", 1), ("worse", -1)):
        said = re.search(rf"{way} (?:at (\d+) of|at prices? ([\d.]+)(?: to ([\d.]+))?|(t))", found)
        if said and said[2]:  # at these prices whatever the share, at others perhaps
            most = float(said[3] or said[2])
            assert shown[s] >= sum(float(said[2]) <= p <= most for p, _ in grid) - len(grid) / 7
            continue
        told = int(said[1] or len(grid)) if said else 0
        assert abs(told - shown[s]) <= len(grid) / 7, (found, shown)


@needs_data
def test_replacing_by_a_check():
    "Each check over all systems: refusals, copied sentences, another model's drafts; what it adds to replacing all or none; and the best of each system."
    told, every = kept("checks"), drafts().items()
    for way, price in product(("refusal", "copied sentences", "another model"), (0, 1)):
        moved, blind, out = defaultdict(dict), defaultdict(dict), Counter()
        label_, answered, ways = {}, Counter(), defaultdict(Counter)
        for name, (pool, some) in every:
            if way == "another model" and some[0] not in agreement():
                continue
            choose = np.array([talk(d.id) in chooses(pool) for d in some])
            can, gain = np.array([not d.refused for d in some]), changes(name, way, price)
            ids = [f"{d.id}<::>{name}{d.model}" for d in some]
            label_ |= {i: d.label for i, d in zip(ids, some)}
            best, all_ = (
                told["by system"][f"{name}; {way}; {price}"],
                gain[choose & can].sum() > 1e-9,
            )
            gained = {}
            for c, x in columns_at(name).items():
                least = cut(x[choose & can], gain[choose & can])
                below = can & (x < least)
                gained[c] = gain[below & choose].sum()
                own = {i: v for i, v, first in zip(ids, gain * below, choose) if not first}
                moved[c] |= own
                blind[c] |= {i: v * all_ for i, v, b in zip(ids, gain * can, choose) if not b}
                out[c] += (below & ~choose).sum()
                answered[c] += (can & ~choose).sum()
                low, high = bootstrap(own, 2000)
                ways[c] += Counter({"up": low > 0, "down": high < 0})
                if best["check"] == c:
                    what, rest = (name, way, price), below & ~choose
                    numbers = best["rejected"], best["of"]
                    assert numbers == (rest.sum(), (can & ~choose).sum()), what
                    own_kinds = (f"{d.label.lower()}, {d.came}" for d, b in zip(some, rest) if b)
                    assert best["rejected, by what they are"] == Counter(own_kinds)
                    agrees(best["gain"], own, what)
                    told_p(best, own, what)
                    if best["threshold"] is None:
                        assert least == -np.inf
                        continue
                    assert np.isclose(least, best["threshold"], rtol=1e-3, atol=1e-4), what
                    at = [changes(name, way, price, p) * below for p in (0, 1)]
                    kinds = [int(d.label in UNANSWERED) for d in some]
                    told_of = zip(ids, kinds, at[0], at[0] - at[1], choose)
                    rows = zip(*(x[:4] for x in told_of if not x[4]))
                    curve_agrees(best["curve"], *rows)
            if pool != "GPT-4.1" or ALL:
                assert max(gained.keys() - {NONE}, key=gained.get) == best["check"] or (
                    gained[best["check"]] == max(gained[c] for c in gained if c != NONE)
                )
        for c in moved:
            if c == "combination" and not ALL:
                continue
            row = told["by check"][f"{c}; {way}; {price}"]
            assert (row["rejected"], row["drafts"]) == (out[c], answered[c]), (c, way, price)
            for kind, found in row["by label"].items():
                own = {i: v for i, v in moved[c].items() if label_[i] == kind}
                agrees(found, own, (c, way, price, kind))
            agrees(row["gain"], moved[c], (c, way, price))
            agrees(row["over all or none"], less(moved[c], blind[c]), (c, way, price))
            told_p(row, less(moved[c], blind[c]), (c, way, price))
            off = [abs(row[f"systems {w}"] - ways[c][w]) for w in ("up", "down")]
            assert max(off) < 3, (c, way, price, off)
    told_holm(told["by check"].values())
    told_holm(told["by system"].values())


@needs_data
def test_choosing_among_drafts():
    told = kept("checks")["best of"]
    every = {**scored(), NONE: lambda d: 0.0}
    for pool, price, (c, of) in product(told, (0, 1), every.items()):
        by = together()[pool]
        models = dict.fromkeys(m for some in by.values() for m in some)
        whole = {i: some for i, some in by.items() if len(some) == len(models)}
        rest, gain, over = [i for i in whole if talk(i) not in chooses(pool)], {}, {}
        choose = [some for i, some in whole.items() if talk(i) in chooses(pool)]
        means = {m: np.mean([some[m].worth(price) for some in choose]) for m in models}
        single, official_ = max(means, key=means.get), defaultdict(dict)
        for i in rest:
            answers, one = [d for d in whole[i].values() if not d.refused], whole[i][single]
            best = max(answers, key=of, default=one)
            first = answers[0] if answers else one
            gain[i] = best.worth(price) - one.worth(price)
            over[i] = best.worth(price) - first.worth(price)
            for k in ("RB_llm", "RL_F"):
                a, b = (0.0 if d.refused else d.scores.get(k) for d in (best, one))
                official_[k][i] = np.nan if None in (a, b) else a - b
        row = told[pool][f"{c}; {price}"]
        assert row["single"].endswith(single) and row["tasks"] == len(rest)
        agrees(row["gain"], gain, (pool, c))
        agrees(row["over the first"], over, (pool, c))
        told_p(row, over, (pool, c))
        for k in official_.keys() & row.keys():
            agrees(row[k], official_[k], (pool, c, k))
    for rows in told.values():
        told_holm(rows.values())


# --- the licence of the yardstick ---------------------------------------------------------------------------------------------------


def rated(path, every=False):
    "Answers of models: model, task, label, answer, target, official refusal, RB_llm, RL_F, passages, people's lower median."
    raw = (ROOT / path).read_bytes()
    told = json.loads(gzip.decompress(raw) if path.endswith(".gz") else raw)
    tasks = {o["task_id"]: o for o in told["tasks"]}
    texts = {d["document_id"]: d["text"] for d in told["documents"]}
    for e in told["evaluations"]:
        task, by = tasks[e["task_id"]], e["annotations"]
        scores = {k: next(iter(v.values()))["value"] for k, v in by.items()}
        kind = label(task)
        no = (scores["conditional_idk"] == 1) == (kind in UNANSWERED)
        if every or e["model_id"] != "reference" and kind in (*UNANSWERED, *ANSWERED):
            about = e["model_id"], e["task_id"], kind, e["model_response"]
            passages = tuple(texts[c["document_id"]] for c in task["contexts"])
            marks = [
                np.median([float(v["value"]) for v in by[k].values()])
                for k in ("faithfulness", "completeness")
                if k in by
            ]
            official_ = scores.get("rb_llm"), scores.get("rl_f")
            least = min(marks, default=None)
            yield *about, task["targets"][0]["text"], no, *official_, passages, least


UNANSWERED, ANSWERED = ("UNANSWERABLE", "CONVERSATIONAL"), ("ANSWERABLE", "PARTIAL")


@lru_cache
def sources():
    "Of the conversations that choose, and of those that report: source -> answers."
    people = {talk(x[1]) for x in rated("mtrag-human/human_evaluations_dev.json")}
    some = {"MTRAG-S": [*rated("mtrag-synthetic/evaluations_synthetic.json.gz")], "GPT-4o": []}
    for a in ARMS:
        for i, o in arm(*a).items():
            if label(o) in (*UNANSWERED, *ANSWERED):
                about = text_of(o), o["targets"][0]["text"], refused(o)
                scores = (o["metrics"][k][0] for k in ("RB_llm", "RL_F"))
                scores = (None if v is None or np.isnan(v) else v for v in scores)
                passages = tuple(c["text"] for c in o["contexts"])
                some["GPT-4o"].append((", ".join(a), i, label(o), *about, *scores, passages, None))
    found = {"choosing": {}, "reporting": {}}
    for name, answers in some.items():
        for x in answers:
            chooses = half(x[1]) == "choosing" and talk(x[1]) not in people
            found["choosing" if chooses else "reporting"].setdefault(name, []).append(x)
    return found


def judged(llm):
    return "" if llm is None else "right" if llm >= 0.7 else "wrong" if llm < 0.5 else "undecided"


def in_question(x):
    return x[2] in ANSWERED and not x[5] and idk_by_rule(x[3]) != 1


MEASURES = {
    "ROUGE-L": lambda answer, target: rouge(answer, target),
    "target's words": lambda answer, target: held(target, words_of(answer)),
    "target recall": recall_of,
}


@lru_cache
def rules():
    "Name -> rule: the bars of three are the 5th percentile of the right answers that choose, and the 75th of the wrong ones."
    out = {"ROUGE-L, as before": as_before}
    some = [x for x in sources()["choosing"]["GPT-4o"] if in_question(x)]
    for name, of in MEASURES.items():
        score = {k: [of(x[3], x[4]) for x in some if judged(x[6]) == k] for k in ("right", "wrong")}
        low, high = np.quantile(score["right"], 0.05), np.quantile(score["wrong"], 0.75)

        def rule(answer, target, of=of, low=low, high=high):
            v = of(answer, target)
            return "right" if v >= high else "failed" if v < low else "undecided"

        out[f"{name}, {low:.3f} and {high:.3f}"] = lru_cache(None)(rule)

    def both(answer, target):
        found = {verdict(answer, target), as_before(answer, target)}
        return found.pop() if len(found) == 1 else "undecided"

    return out | {"target recall, 0.2 and 0.38": verdict, "both of these agree": both}


def shares_agree(row, said, tie=0, what=""):
    for kind, own in (("right", "right"), ("undecided", "undecided"), ("wrong", "failed")):
        assert abs(row[kind] - said.count(own) / len(said)) < 6e-5 + tie, (what, kind)


@needs_data
def test_rule_of_right_and_wrong():
    told = kept("yardsticks")["rule"]
    for source, answers in sources()["reporting"].items():
        some = [x for x in answers if in_question(x)]
        assert told[source].keys() == {*rules(), "measures"}
        for name, rule in rules().items():
            for kind in ("right", "undecided", "wrong"):
                own = [rule(x[3], x[4]) for x in some if judged(x[6]) == kind]
                tie = "target" not in name and 1.01 / len(own)  # one answer lies exactly on a bar
                shares_agree(told[source][name][kind], own, tie, (source, name, kind))
        at = [x for x in some if judged(x[6]) in ("right", "wrong")]
        good, ids = np.array([judged(x[6]) == "right" for x in at]), [x[1] for x in at]
        values = {m: np.array([of(x[3], x[4]) for x in at]) for m, of in MEASURES.items()}
        for m, row in told[source]["measures"].items():
            assert (row["answers"], row["wrong"]) == (len(at), (~good).sum())
            less_ = {"auroc": None} | ({"gain": values["ROUGE-L"]} if "gain" in row else {})
            for k, minus in less_.items():
                auroc_agrees(row[k], values[m], good, ids, (source, m, k), minus, 2e-4, True)


def ending_by(x, rule):
    "Kind of question, how much right, how much wrong; rule: the judge's, or by words."
    no = x[5] if rule == "judge" else idk_by_rule(x[3]) == 1
    if x[2] in UNANSWERED:
        return 1, float(no), float(not no)
    came = judged(x[6]) if rule == "judge" else rule(x[3], x[4])
    between = came in ("undecided", "") and not no
    right = came == "right" and not no
    return 0, right + between / 2, (came in ("wrong", "failed") and not no) + between / 2


@needs_data
def test_signs_of_words_and_judge():
    "At how many points they show the same: to a thirtieth of them, the noise of intervals; opposite signs exactly."
    for source, answers in sources()["reporting"].items():
        ends = defaultdict(lambda: defaultdict(dict))
        for x in answers:
            for rule in ("judge", *rules().values()):
                ends[rule][x[0]][x[1]] = ending_by(x, rule)
        names, signs = [*ends["judge"]], {rule: Counter() for rule in rules().values()}
        prices = kept("yardsticks")["prices"][source]
        for n, a in enumerate(names):
            for b in names[n + 1 :]:
                judge = surface(ends["judge"][a], ends["judge"][b], 0.95)
                pair = next(
                    k
                    for k in prices["judge"]
                    if len({*k.split(" less ")} & {file_of(a), file_of(b)}) == 2
                )
                for rule, count in signs.items():
                    found = surface(ends[rule][a], ends[rule][b], 0.95)
                    for w, j in ((sign(found[g]), sign(judge[g])) for g in GRID):
                        if w == j:
                            count["same sign" if w else "neither"] += 1
                        else:
                            count["opposite" if w * j else "words" if w else "judge"] += 1
                    if rule is verdict:
                        way = 1 if pair.startswith(file_of(b)) else -1
                        pair_agrees(prices["words"][pair], ends[rule][a], ends[rule][b], found, way)
                pair_agrees(prices["judge"][pair], ends["judge"][a], ends["judge"][b], judge, way)
        told = kept("yardsticks")["rule"][source]
        for name, rule in rules().items():
            row = {k.removesuffix(" alone"): v for k, v in told[name]["signs"].items()}
            off = {k: v - row.get(k, 0) for k, v in signs[rule].items()}
            assert signs[rule].total() == sum(row.values())
            assert max(map(abs, off.values())) <= sum(row.values()) / 30, (source, name, off)
            assert rule is not verdict or "opposite" not in signs[rule]
        assert (
            kept("yardsticks")["prices"][source]["agree"]
            == told["target recall, 0.2 and 0.38"]["signs"]
        )


def file_of(run):
    return run.replace(", ", "_prompt-")


def pair_agrees(row, a, b, found, way):
    "A pair of systems: turns, conversations that differ, the corners of the surface and what it says in words; way -1: the other way round."
    kinds = Counter(e[0] for e in a.values())
    assert row["turns"] == [kinds[0], kinds[1]]
    moved = {i: tuple(way * (y - x) for x, y in zip(a[i][1:], b[i][1:])) for i in a}
    assert row["changed"] == len({talk(i) for i, m in moved.items() if any(m)})
    for corner, end in row["ends"].items():
        value, *ends = (way * v for v in found[tuple(map(float, corner.split(", ")))])
        assert abs(end["value"] - value) < 1e-4 and end["n"] == len(a)
        assert end["clusters"] == len({*map(talk, a)})
        near(end, sorted(ends))
    kinds = [a[i][0] for i in moved]
    curve_agrees(row["verdict"], [*moved], kinds, *zip(*moved.values()))
    wanted = {"better throughout": 1, "worse throughout": -1}.get(row["verdict"], 0)
    assert row["shown"] == wanted


@lru_cache(None)
def as_before(answer, target):
    score = rouge(answer, target)
    return "right" if score >= 0.22 else "failed" if score < 0.15 else "undecided"


@needs_data
def test_padded_answers():
    "What the rule makes of answers with their passages behind them."
    told, rows = kept("yardsticks")["rule"]["padded"], defaultdict(list)
    for x in sources()["reporting"]["GPT-4o"]:
        if x[0] == "elser, official" and x[2] in ANSWERED and idk_by_rule(x[3]) != 1 and x[8]:
            first, whole = x[8][0], " ".join(x[8])
            rows["the answers"].append((x[3], x[4]))
            rows["and their first passage"].append((f"{x[3]} {first}", x[4]))
            rows["and all their passages"].append((f"{x[3]} {whole}", x[4]))
            rows["the first passage alone"].append((first, x[4]))
            rows["all passages alone"].append((whole, x[4]))
            if judged(x[6]) == "wrong":
                rows["wrong answers"].append((x[3], x[4]))
                rows["and their first passage "].append((f"{x[3]} {first}", x[4]))
                rows["and all their passages "].append((f"{x[3]} {whole}", x[4]))
    assert rows.keys() == told.keys()
    for name, some in rows.items():
        assert told[name]["n"] == len(some)
        for rule, of in rules().items():
            tie = "target" not in rule and 1.01 / len(some)
            shares_agree(told[name][rule], [of(*x) for x in some], tie, (name, rule))


@lru_cache(None)
def words_of(text):
    return frozenset(words(text))


def columns_of(some, mix=None):
    "Measure -> of each answer (the cosine if an encoder is asked); the combination by its own weights."
    by = defaultdict(list)
    for x in some:
        both, a, b = in_order(x[3], x[4])
        by["ROUGE-L"].append(rouge(x[3], x[4]))
        by["ROUGE-L recall"].append(both / max(1, b))
        by["ROUGE-L precision"].append(both / max(1, a))
        by["K-precision"].append(held(x[3], frozenset().union(*map(words_of, x[8]))))
        by["target's words"].append(held(x[4], words_of(x[3])))
        by["target recall"].append(recall_of(x[3], x[4]))
        by["words"].append(np.log(1 + len(x[3].split())))
    if ALL:
        v = encoded(t for x in some for t in x[3:5])
        by["cosine"] = [v[x[3]] @ v[x[4]] if x[3] and x[4] else 0.0 for x in some]
    by = {k: np.array(v, float) for k, v in by.items()}
    return by | ({"combination": combined(by, *mix)} if mix else {})


def combined(by, parts, mean, scale, w):
    x = (np.array([by[k] for k in parts]).T - mean) / scale
    return np.clip(x @ w[:-1] + w[-1], 0, 1)


@lru_cache
def chosen_mix():
    "The linear ridge regression of RB_llm on the parts that were chosen, over the half that chooses."
    some = [x for by in sources()["choosing"].values() for x in by]
    some = [x for x in some if x[2] in ANSWERED and not x[5] and x[6] is not None]
    told, y, by = kept("yardsticks"), np.array([x[6] for x in some]), columns_of(some)
    sizes = {"answers": len(some), "conversations": len({talk(x[1]) for x in some})}
    assert told["chosen on"] == sizes
    alike = {m: spearman(by[m], y) for m in by if m != "words"}
    assert max(alike, key=alike.get) == told["best single"]
    parts, mix = tuple(told["combination"]["parts"]), told["combination"]
    mean, scale, w = ridge(np.array([by[k] for k in parts]).T, y)
    for own, kept_ in ((mean, mix["mean"]), (scale, mix["scale"]), (w, mix["weights"])):
        assert np.allclose(own, kept_, atol=1e-4)
    return parts, mean, scale, w


def ridge(x, y):
    mean, scale = x.mean(0), x.std(0)
    z = np.c_[(x - mean) / scale, np.ones(len(y))]
    return mean, scale, np.linalg.solve(z.T @ z + np.diag([1.0] * x.shape[1] + [0.0]), z.T @ y)


def spearman(x, y):
    return np.corrcoef(rankdata(x), rankdata(y))[0, 1]


def tau(x, y):
    "Kendall's, of means without ties: [..., systems]."
    i, j = np.triu_indices(x.shape[-1], 1)
    return np.sign((x[..., i] - x[..., j]) * (y[..., i] - y[..., j])).mean(-1)


@needs_data
def test_order_of_systems():
    "Pairs that RB_llm or RL_F tells apart; those that measures order alike, their tau, how far they set equal systems apart."
    for (source, answers), k in ((x, k) for x in sources()["reporting"].items() for k in (6, 7)):
        told = kept("yardsticks")["systems"][source][("RB_llm", "RL_F")[k - 6]]
        by, table = columns_of(answers, chosen_mix()), defaultdict(dict)
        for n, x in enumerate(answers):
            said, no = idk_by_rule(x[3]) == 1, x[2] in UNANSWERED
            row = [float(x[5]) if no else 0.0 if x[5] else x[k]]
            for m in by:
                row.append(
                    by[m][n] if m == "words" else float(said and no) if said or no else by[m][n]
                )
            table[x[1]][x[0]] = row
        names = [*dict.fromkeys(x[0] for x in answers)]
        full = {i: by for i, by in table.items() if len(by) == len(names)}
        full = {i: by for i, by in full.items() if None not in [r[0] for r in by.values()]}
        x = np.array([[some[n] for n in names] for some in full.values()])
        means, lot = x.mean(0), {t: n for n, t in enumerate(dict.fromkeys(map(talk, full)))}
        sums, sizes = np.zeros((len(lot), *means.shape)), np.zeros(len(lot))
        for i, row in zip(full, x):
            sums[lot[talk(i)]] += row
            sizes[lot[talk(i)]] += 1
        rng = np.random.default_rng(5)
        drawn = rng.multinomial(len(lot), np.full(len(lot), 1 / len(lot)), 1000)
        drawn = np.tensordot(drawn, sums, 1) / (drawn @ sizes)[:, None, None]
        sure, doubtful, equal = [], [], []  # doubtful: 0 lies at an end of the interval
        for i, j in zip(*np.triu_indices(len(names), 1)):
            d = dict(zip(full, x[:, i, 0] - x[:, j, 0]))
            low, high = bootstrap(d)
            out = max(low, -high) / (high - low)
            (sure if out > 0.05 else equal if out < -0.05 else doubtful).append((i, j))
        assert (len(full), len(names)) == (told["tasks"], told["systems"]) and len(doubtful) < 2
        assert len(sure) <= told["told apart"] <= len(sure) + len(doubtful)
        for m, at in zip(by, range(1, x.shape[2])):
            row, v, y = told[m], means[:, at], means[:, 0]
            alike = [sum((v[i] - v[j]) * (y[i] - y[j]) > 0 for i, j in p) for p in (sure, doubtful)]
            assert alike[0] <= row["alike"] <= sum(alike), (source, m)
            apart = [
                max([abs(v[i] - v[j]) for i, j in p], default=0) for p in (equal, equal + doubtful)
            ]
            assert min(abs(row["floor"] - a) for a in apart) < 2e-4, (source, m, row, apart)
            assert abs(row["tau"]["value"] - tau(v, y)) < 1e-4, (source, m)
            ends = np.quantile(tau(drawn[:, :, at], drawn[:, :, 0]), [0.025, 0.975])
            step = 2 / (len(names) * (len(names) - 1) / 2)  # one pair the other way round
            assert np.abs(ends - [row["tau"]["low"], row["tau"]["high"]]).max() < step + 1e-3, (
                source,
                m,
            )


@needs_data
def test_what_style_alone_does():
    told, some = kept("noise_floor"), defaultdict(dict)
    for x in rated("mtrag-human/human_evaluations_dev.json"):
        if x[2] in ANSWERED:
            some[x[1]][x[0]] = (*x[3:5], x[9], x[9] == 4)
    apart = {
        i: abs(rouge(*a[:2]) - rouge(*b[:2]))
        for i, (a, b) in ((i, by.values()) for i, by in some.items() if len(by) == 2)
        if a[3] and b[3]
    }
    assert (told["pairs"], told["conversations"]) == (len(apart), len({*map(talk, apart)}))
    assert abs(told["floor"] - np.quantile([*apart.values()], 0.95)) < 1e-4
    assert abs(told["median"] - np.median([*apart.values()])) < 1e-4
    over = np.mean([v > 0.16 for v in apart.values()])
    assert abs(told["over_0.16"] - over) < 1e-4
    a, b = told["between systems"]["systems"]
    both = [(by[a], by[b]) for by in some.values() if a in by and b in by]
    assert told["between systems"]["tasks"] == len(both)
    for what, of in (("RougeL", lambda x: rouge(*x[:2])), ("people", lambda x: x[2])):
        mean = np.mean([of(x) - of(y) for x, y in both])
        assert abs(told["between systems"][what]["value"] - mean) < 1e-4
    for price, row in kept("yardsticks")["style"].items():
        ends = [[priced(x, float(price)) for x in pair] for pair in both]
        assert abs(row["value"] - np.mean([x - y for x, y in ends])) < 1e-4 and row["n"] == len(
            both
        )


def priced(x, price):
    if idk_by_rule(x[0]) == 1:
        return 0.0
    return {"right": 1.0, "undecided": 0.5 - price / 2, "failed": -price}[verdict(*x[:2])]


@needs_data
def test_one_answer():
    "Rank correlation with official scores and people, of answers that refuse nothing; and pairs of answers to one question that are ordered alike."
    people = [*rated("mtrag-human/human_evaluations_dev.json")]
    groups = {"rated": [x for x in people if x[2] in ANSWERED]}
    for source, answers in sources()["reporting"].items():
        groups |= {f"{source}, {kind}": [x for x in answers if x[2] == kind] for kind in ANSWERED}
    assert groups.keys() == kept("yardsticks")["answers"].keys()
    for name, group in groups.items():
        group, told = [x for x in group if not x[5]], kept("yardsticks")["answers"][name]
        assert told["answers"] == len(group)
        for truth_, k in (("RB_llm", 6), ("RL_F", 7), ("people", 9))[: 3 if name == "rated" else 2]:
            some, tasks = [x for x in group if x[k] is not None], defaultdict(list)
            by, y = columns_of(some, chosen_mix()), np.array([x[k] for x in some])
            for n, x in enumerate(some):
                tasks[x[1]].append(n)
            i, j = np.array(
                [(i, j) for at in tasks.values() for i in at for j in at if y[i] > y[j]]
            ).T
            for m, own in by.items():
                row = told["measures"][m][truth_]
                assert row["n"] == len(some)
                last = 0 if "recall" in m else 4e-4  # ties that hang on the last digit
                assert abs(row["value"] - spearman(own, y)) < 2e-4 + last, (name, truth_, m)
                if 50 < len(some):  # of 29, by Student, they go beyond 1
                    near(row, resampled(own, y, some), (name, truth_, m))
                row, alike = (
                    told["measures"][m][f"{truth_}, same question"],
                    np.sign(own[i] - own[j]),
                )
                ties = 0 if "recall" in m else 2 / len(i)
                alike = {f"{some[a][1]}<::>{a}<::>{b}": x / 2 + 0.5 for a, b, x in zip(i, j, alike)}
                agrees(row, alike, (name, truth_, m), 2e-4 + ties)


def resampled(own, y, some, n=300):
    "Ends of a rank correlation, by conversations drawn again."
    lots, rng = defaultdict(list), np.random.default_rng(6)
    for k, x in enumerate(some):
        lots[talk(x[1])].append(k)
    lots = [*map(np.array, lots.values())]
    draws = (
        np.concatenate([lots[k] for k in rng.integers(0, len(lots), len(lots))]) for _ in range(n)
    )
    return np.quantile([spearman(own[at], y[at]) for at in draws], [0.025, 0.975])


@needs_data
def test_models_over_the_synthetic_set():
    by = defaultdict(lambda: defaultdict(dict))
    for model, i, kind, answer, target, no, *_ in rated(
        "mtrag-synthetic/evaluations_synthetic.json.gz"
    ):
        by[model][kind in UNANSWERED][i] = "refused" if no else verdict(answer, target)
    told = kept("released")["models"]["MTRAG-S"]
    assert told.keys() == by.keys()
    for model, row in told.items():
        for what, was in (("right", "right"), ("wrong", "failed"), ("refused", "refused")):
            agrees(row[what], {i: c == was for i, c in by[model][False].items()}, model)
        agrees(
            row["refused, unanswerable"], {i: c == "refused" for i, c in by[model][True].items()}
        )


@needs_data
def test_submissions_by_faithfulness():
    "RL_F as the shared task conditions it, of 337 tasks; 75 of one system are missing."
    un = {i: o for i, o in un_tasks().items() if label(o) != "UNDERSPECIFIED"}
    own = {}
    for file, _name in SUBMITTED.items():
        some = {o["task_id"]: o for o in lines(f"mtragun-human/predictions_raguteam/{file}.jsonl")}
        by = own[re.split("[_-]", file)[0]] = {}
        for i in un:
            o = some.get(i)
            if o is None or not o["metrics"].get("RL_F"):
                continue
            m = o["metrics"]
            no = m["idk_eval"][0] == 1 if "idk_eval" in m else idk_by_rule(o["prediction"]) == 1
            cannot = label(un[i]) == "UNANSWERABLE"
            by[i] = float(no) if cannot else 0.0 if no else m["RL_F"][0]
    told = kept("raguteam")
    shared_by_all = [i for i in un if all(i in by for by in own.values())]
    assert told["shared"] == len(shared_by_all)
    for row in told["systems"]:
        values = own[row["system"]]
        common = np.mean([values[i] for i in shared_by_all])
        assert abs(row["common"] - common) < 1e-6 and row["missing"] == len(un) - len(values)
        assert row["n"] == len(values)
        assert abs(row["mean"] - np.mean([*values.values()])) < 1e-6, row["system"]
        near(row, bootstrap(values), row["system"])
    for row in told["pairs"]:
        change = less(own[row["a"]], own[row["b"]])
        assert (
            row["n"] == len(change) and abs(row["difference"] - np.mean([*change.values()])) < 1e-6
        )
        near(row, bootstrap(change), row)
        told_p(row, change, row)
    ps = np.array([row["p"] for row in told["pairs"]])
    assert np.allclose([row["p_holm"] for row in told["pairs"]], by_holm(ps), rtol=1e-3)


@needs_data
def test_rule_of_refusals_against_verdicts():
    "Precision and recall of the rule, and what share of systems' answers decide rightly to refuse, by file and half."
    un, files, teams = un_tasks(), defaultdict(list), "mtragun-human/predictions_raguteam"
    for file in SUBMITTED:
        some = [o for o in lines(f"{teams}/{file}.jsonl") if "idk_eval" in o["metrics"]]
        for o in some:
            row = (
                o["task_id"],
                label(un[o["task_id"]]),
                o["prediction"],
                o["metrics"]["idk_eval"][0],
            )
            files[re.split("[_-]", file)[0]].append(row)
            files["submissions"].append(row)
    for name, path in (
        ("rated answers", "mtrag-human/human_evaluations_dev.json"),
        ("MTRAG-S", "mtrag-synthetic/evaluations_synthetic.json.gz"),
    ):
        files[name] = [(x[1], x[2], x[3], float(x[5])) for x in rated(path, every=True)]
    told = {}
    for name, some in files.items():
        for h, word in (("choosing", "writing"), ("reporting", "reporting")):
            mine = [x for x in some if half(x[0]) == h]
            ours = np.array([idk_by_rule(x[2]) == 1 for x in mine])
            theirs = np.array([x[3] == 1 for x in mine])
            asks = np.array([x[1] == "UNDERSPECIFIED" for x in mine])
            wanted = np.array([x[1] in UNANSWERED for x in mine])
            official_, own = ((v == wanted)[~asks].mean() for v in (theirs, ours))
            told[f"{name}, {word} half"] = {
                "answers": len(mine),
                "refusals": theirs.sum(),
                "precision": (ours & theirs).sum() / ours.sum(),
                "recall": (ours & theirs).sum() / theirs.sum(),
                "accuracy, official": official_,
                "accuracy, rule": own,
                "difference": own - official_,
            }
    assert told.keys() == kept("declining").keys()
    for name, row in told.items():
        assert kept("declining")[name] == pytest.approx(row, abs=6e-5), name


# --- what asks an encoder (MTRAG_RECOUNT=all) -------------------------------------------------------------------------------------


@lru_cache
def read_by_encoder():
    "System -> its drafts that are read with their passages: of 40 drawn conversations, of GPT-4.1 all."
    out = {}
    for name, (pool, some) in drafts().items():
        if "elser" in name or pool == "GPT-4.1":
            talks = sorted({talk(d.id) for d in some})
            drawn = {*talks} if pool == "GPT-4.1" else {*random.Random(0).sample(talks, 40)}
            out[name] = [d for d in some if talk(d.id) in drawn]
    return out


VECTORS = {}  # text -> vector


def encoded(texts):
    "`VECTORS` with those of some texts; what was encoded before lies beside pytest's own cache, by checksum."
    if not (texts := sorted({*texts} - VECTORS.keys(), key=lambda t: (len(t), t))):
        return VECTORS
    path = MEASURED.parents[1] / ".pytest_cache" / "recount.npz"
    known = dict(zip(*np.load(path).values())) if path.exists() else {}
    keys = [hashlib.sha256(t.encode()).hexdigest() for t in texts]
    if new := {k: t for k, t in zip(keys, texts) if k not in known}:
        how = {"batch_size": 8, "normalize_embeddings": True, "show_progress_bar": False}
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
def by_encoder(name):
    "Check -> of each draft of a system that is read."
    rows, some = [], read_by_encoder()[name]
    v = encoded(
        t for d in some for t in (d.asked, d.answer, *d.texts, *(x.text for x in d.history))
    )
    for d in some:
        asked, answer = v[d.asked], v[d.answer]
        passages = np.array([v[t] for t in d.texts] or [0 * asked])
        near_ = sorted((passages @ asked).tolist(), reverse=True)
        titles = [t.partition("\n")[0] for t in d.texts]
        told = features(d.asked, d.history, _Known(), near_ if d.texts else (), titles)
        rows.append(
            {
                "answer near a passage": (passages @ answer).max(),
                "question near a passage": near_[0],
                "margin": near_[0] - near_[1] if near_[1:] else 0.0,
                "answer near the question": answer @ asked,
                "clarity (asks back)": 1 - underspecified(told),
            }
        )
    return {c: np.array([r[c] for r in rows]) for c in rows[0]}


@needs_data
@asks_encoder
def test_nearness_of_drafts():
    for name, by in kept("checks")["nearness"].items():
        some = read_by_encoder()[name]
        columns = by_encoder(name) | {
            c: np.array([CHECKS[c](d) for d in some]) for c in [*CHECKS][:2]
        }
        for kind, row in by.items():
            y = np.array([truth(d, kind) for d in some], float)
            at = ~np.isnan(y)
            assert row.keys() == columns.keys()
            for c, found in row.items():
                ids = [d.id for d, a in zip(some, at) if a]
                auroc_agrees(found, columns[c][at], y[at] == 1, ids, (name, kind, c), last=2e-4)


@needs_data
@asks_encoder
def test_parts_of_the_combination():
    "From all measures those are dropped, one by one, without which what other conversations weigh ranks lower by less than .005."
    some = [x for by in sources()["choosing"].values() for x in by]
    some = [x for x in some if x[2] in ANSWERED and not x[5] and x[6] is not None]
    y, by = np.array([x[6] for x in some]), columns_of(some)
    by = {"log words of the target" if k == "target recall" else k: v for k, v in by.items()}
    by["log words of the target"] = np.array([np.log(1 + len(x[4].split())) for x in some])
    folds = [int(hashlib.sha256(talk(x[1]).encode()).hexdigest()[:8], 16) % 5 for x in some]
    folds = np.array(folds)

    def unseen(parts):
        out = np.zeros(len(y))
        for f in range(5):
            x = np.array([by[k] for k in parts]).T
            there, here = folds != f, folds == f
            out[here] = combined({k: by[k][here] for k in parts}, parts, *ridge(x[there], y[there]))
        return spearman(out, y)

    parts = tuple(by)
    first = unseen(parts)
    while len(parts) > 1:
        tried = {p: unseen(tuple(q for q in parts if q != p)) for p in parts}
        worst = max(tried, key=tried.get)
        if tried[worst] < first - 0.005:
            break
        parts = tuple(q for q in parts if q != worst)
    assert {*parts} == {*kept("yardsticks")["combination"]["parts"]}
