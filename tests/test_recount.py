"""The numbers that are printed of released runs, counted again by code that shares nothing with the package: json, csv and regular
expressions over the raw files, numpy, an own bootstrap. What is taken from it: its list of stop words, and the rules that are themselves
what is measured (refusals, contextual support, sentences). Counts agree exactly, means to 2e-5, the ends of intervals with a percentile
bootstrap over conversations as `near` says (not of 20 conversations and fewer, nor of shares near 0 or 1), p on which side of .05.

Not counted again:
- what asks an encoder: cosines, `nearness`, the choice of a combination's parts, the combination for GPT-4.1, the signals of `gate.json`;
- of the learned check of claims: its weights, planted falsehoods, rated answers, MTRAG-S, ends of intervals (drafts of GPT-4o are);
- of the checks: the combination with other replacements than refusal, shares by coverage, how many systems go up or down,
  thresholds and curves of `by system`, and p;
- of the yardsticks: ends of intervals of AUROC and of pairs of answers, surfaces pair by pair (their signs are, summed), rules whose
  thresholds were fitted;
- of `released.json`: ends of rank correlations, of AUROC and of scores by cause, the row of copied sentences (`quote.json`), Sifei's
  search on the test set, and which passages the four Self-CRAGs list."""

import csv
import gzip
import hashlib
import json
import os
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
from mtrag_nb.core.claims import draft_features
from mtrag_nb.core.text import STOPWORDS, sentences
from mtrag_nb.evaluate.licence import contextual_support
from mtrag_nb.systems.baselines import _quotable

MEASURED = Path(__file__).parents[1] / "data" / "measured"
ROOT = Path(os.environ.get("MTRAG_DATA") or "nowhere")
needs_data = pytest.mark.skipif(
    not (ROOT / "released").is_dir(), reason="MTRAG_DATA has no released outputs"
)
CONTEXTS, PROMPTS = ("gold", "elser", "recall"), ("official", "abstain")
ARMS = [(c, p) for p in PROMPTS for c in CONTEXTS]
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


def agrees(found, values, what=""):
    "A kept interval against the values of tasks."
    if not values:
        assert (found["value"], found["n"]) == (None, 0), what
        return
    values = {i: float(v) for i, v in values.items()}
    assert abs(found["value"] - np.mean(list(values.values()))) < 2e-5, what
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


def flips(values, n=20_000):
    "p of a mean difference by random signs of conversations."
    sums = defaultdict(float)
    for i, v in values.items():
        sums[talk(i)] += v
    d = np.array([v for v in sums.values() if v])
    signs = np.random.default_rng(2).choice([-1.0, 1.0], (n, len(d)))
    return (1 + (np.abs(signs @ d) >= abs(d.sum()) - 1e-9).sum()) / (1 + n)


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
            ps.append(flips(values))
            told.append(found["steps"][name][m]["p holm"])
        judged = [official(x, "RB_llm", True) for x in (a, b)]
        for m, is_it in (("right", lambda v: v >= 0.7), ("wrong answer", lambda v: v < 0.5)):
            both = [{i: float(is_it(o.get(i, 0.6))) for i in relevant()} for o in judged]
            agrees(found["by RB_llm"][name][m], less(*both), f"{name} {m} by RB_llm")
    assert [p < 0.05 for p in told] == (by_holm(np.array(ps)) < 0.05).tolist()


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
                    own = {i: (x == y) for i, (x, _, y) in key.items() if str(run_of(run)) in i}
                    agrees(found["agrees"], own, run)
                    assert found["laid to retrieval"] == sum(str(run_of(run)) in i for i in mine)
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
                y, x = np.array([(y, x[m]) for i, (y, x) in of.items() if half(i) == h]).T
                assert found["n"] == len(y) and abs(found["value"] - auroc(x, y == 1)) < 2e-5, (
                    name,
                    m,
                )
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
    same = sum(
        no["v3"][i][2]["fallback_reason"] == no["v4"][i][2]["fallback_reason"] for i in no["v3"]
    )
    assert told["v3 and v4 give the same reason"] == same


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
        row, rows = told["rb_agg"][name], []
        for o in some:
            m = o["metrics"]
            if m["idk_eval"][0] != 1 and m.get("BertKPrec") and m["RB_llm"][0] is not None:
                parts = m["RougeL_stemFalse"][0], (m["BertscoreR"][0] + 1) / 2
                rows.append((*parts, (max(m["BertKPrec"]) + 1) / 2, m["RB_agg"][0], m["RB_llm"][0]))
        x = np.array(rows)
        assert row["answers"] == len(x)
        assert row["ROUGE-L is the least"] == int((x[:, 0] <= x[:, 1:3].min(1)).sum())
        rank = np.array([rankdata(c) for c in x.T])
        for other, k in (("ROUGE-L", 0), ("RB_llm", 4)):
            own = np.corrcoef(rank[3], rank[k])[0, 1]
            assert abs(row[f"RB_agg and {other}"]["value"] - own) < 2e-5, name
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
    by = defaultdict(lambda: defaultdict(list))
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
                    by[c][m].append(v)
    for c, row in kept("released")["scores by cause"].items():
        assert row["turns"] == len(by[c]["RB_agg"])
        for m, values in by[c].items():
            assert abs(row[m]["value"] - np.mean(values)) < 2e-5, (c, m)
            assert row[m]["n"] == len(values)


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
    for path in sorted((ROOT / "mtragun-human/predictions_raguteam").glob("*.jsonl")):
        said = {o["task_id"]: o["prediction"] for o in lines(path)}
        own = {
            i: rouge(said[i], o["targets"][0]["text"])
            for i, o in un.items()
            if label(o) == "ANSWERABLE" and said.get(i) is not None
        }
        agrees(kept("released")["copied"][path.stem], own, path.stem)


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
    drawn = drawn[(drawn[:, 2] > 0) & (drawn[:, 5] > 0)]  # a draw may lack one kind of question

    def at(x):
        right, wrong, n = (x[..., [k, k + 3]] for k in range(3))
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


def changes(name, way, price):
    "Draft by draft, what its replacement would gain."
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
    "Model -> drafts of MTRAG-S; `conditional_idk` and the label say what the verdict was."
    path = ROOT / "mtrag-synthetic/evaluations_synthetic.json.gz"
    synthetic = json.loads(gzip.decompress(path.read_bytes()))
    tasks = {t["task_id"]: t for t in synthetic["tasks"]}
    texts, by = {d["document_id"]: d["text"] for d in synthetic["documents"]}, defaultdict(list)
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
            by[e["model_id"]].append(Draft(e["model_id"], e["task_id"], *told))
    return by


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
    by = synthetic_drafts()
    found |= {f"{n}, MTRAG-S": ("MTRAG-S", by[m]) for m, n in MODELS.items()}
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
            agrees(row["gain"], {f"{d.id}<::>{d.model}": g for d, g in zip(some, gain)}, name)
        for kind, row in told["auroc"][name].items():
            y = np.array([truth(d, kind) for d in some], float)
            at = ~np.isnan(y)
            assert (row["right"], row["wrong"]) == ((y[at] == 1).sum(), (y[at] == 0).sum()), name
            for c in CHECKS.keys() & row.keys():
                own = auroc(column(name, c)[at], y[at] == 1)
                assert abs(row[c]["value"] - own) < 2e-5, (name, kind, c)


@needs_data
def test_check_of_claims_on_whole_drafts():
    "Drafts of conversations that chose nothing: what the kept weights make of the check's features, and words below .6."
    told, w = kept("claims"), dict(kept("claims")["weights"]["draft"])
    least = np.log(w["threshold"] / (1 - w.pop("threshold"))) - w.pop("intercept")
    rated_ = sorted({talk(x[1]) for x in rated("mtrag-human/human_evaluations_dev.json")})[::2]
    dev = {*sorted({*map(talk, dev_tasks())})[1::2]} - {*rated_}
    rows = [(n, *n.split(", ", 1)) for n in told["drafts"]]
    for name, kind, system in (x for x in rows if x[2] in drafts()):
        by, row = {"the target": "target"}.get(kind, kind), told["drafts"][name]
        some = [d for d in drafts()[system][1] if talk(d.id) in dev and d.texts]
        some = [d for d in some if not np.isnan(truth(d, by))]
        y, found = np.array([truth(d, by) == 1 for d in some]), {}
        features = [draft_features(d.answer, d.texts) or {"support": 1, "near": 1} for d in some]
        found["claims"] = np.array([sum(w[k] * f.get(k, 0) for k in w) for f in features]), least
        found["words"] = np.array([d.support for d in some]), 0.6
        assert (row["faithful"], row["unfaithful"]) == (y.sum(), (~y).sum())
        for check, (x, at) in found.items():
            last = 1.01 / y.sum() if check == "claims" else 2e-5  # the threshold is kept rounded
            assert abs(row[check]["value"] - auroc(x, y)) < 2e-5, name
            assert abs(row["faithful kept"][check] - (x[y] >= at).mean()) < last, name
            assert abs(row["unfaithful rejected"][check] - (x[~y] < at).mean()) < 2e-5, name
        difference = auroc(found["claims"][0], y) - auroc(found["words"][0], y)
        assert abs(row["difference"]["value"] - difference) < 4e-5, name


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


WHOLE = "GPT-4o, elser, the benchmark's prompt", "DeepSeek, ELSER, evidence"


@needs_data
def test_refusing_by_a_combination():
    "Of some systems by weights that are fitted again; the sum over all with the kept rows of the others."
    blind, told, total = {}, kept("checks"), {}
    for name, (pool, some) in drafts().items():
        choose = np.array([talk(d.id) in chooses(pool) for d in some])
        y = np.array([truth(d, "target") for d in some], float)
        row = told["by system"][f"{name}; refusal; 1"]
        can, known = ~np.array([d.refused for d in some]), row["check"] == "combination"
        if min((y[choose] == 1).sum(), (y[choose] == 0).sum()) < 10:
            continue
        total[name], gain = row["gain"]["value"] * row["gain"]["n"], changes(name, "refusal", 1)
        blind[name] = (can * gain * (gain[choose & can].sum() > 1e-9))[~choose]
        if name in WHOLE or not known:
            tried = [c for c in CHECKS if "agree" not in c or some[0] in agreement()]
            x = weighed(np.array([column(name, c) for c in tried]).T, y, choose)
            below = can & (x < cut(x[choose & can], gain[choose & can]))
            total[name], at = (gain * below)[~choose].sum(), ~np.isnan(y) & ~choose
            found = told["auroc"][name]["target"]["combination"]["value"]
            assert abs(found - auroc(x[at], y[at] == 1)) < 2e-5, name
            if known:
                assert row["rejected"] == (below & ~choose).sum(), name
                ids = [f"{d.id}<::>{d.model}" for d in some]
                agrees(
                    row["gain"], {i: v for i, v, c in zip(ids, gain * below, choose) if not c}, name
                )
    row, n = told["by check"]["combination; refusal; 1"], sum(map(len, blind.values()))
    gain = sum(total.values()), sum(total.values()) - sum(map(sum, blind.values()))
    assert row["gain"]["n"] == n and abs(row["gain"]["value"] - gain[0] / n) < 2e-5
    assert abs(row["over all or none"]["value"] - gain[1] / n) < 2e-5


@needs_data
def test_replacing_by_a_check():
    "Each check over all systems: refusals, copied sentences, another model's drafts; what it adds to replacing all or none."
    told = kept("checks")
    for way, price in product(("refusal", "copied sentences", "another model"), (0, 1)):
        moved, blind, out = defaultdict(dict), defaultdict(dict), Counter()
        label_, answered = {}, Counter()
        for name, (pool, some) in drafts().items():
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
            for c in CHECKS:
                if "agree" in c and some[0] not in agreement():
                    continue
                x = column(name, c)
                below = can & (x < cut(x[choose & can], gain[choose & can]))
                own = {i: v for i, v, first in zip(ids, gain * below, choose) if not first}
                moved[c] |= own
                blind[c] |= {i: v * all_ for i, v, b in zip(ids, gain * can, choose) if not b}
                out[c] += (below & ~choose).sum()
                answered[c] += (can & ~choose).sum()
                if best["check"] == c:
                    assert best["rejected"] == (below & ~choose).sum(), (name, way, price)
                    agrees(best["gain"], own, (name, way, price))
        for c in CHECKS:
            row = told["by check"][f"{c}; {way}; {price}"]
            assert (row["rejected"], row["drafts"]) == (out[c], answered[c]), (c, way, price)
            for kind, found in row["by label"].items():
                own = {i: v for i, v in moved[c].items() if label_[i] == kind}
                agrees(found, own, (c, way, price, kind))
            agrees(row["gain"], moved[c], (c, way, price))
            agrees(row["over all or none"], less(moved[c], blind[c]), (c, way, price))


@needs_data
def test_choosing_among_drafts():
    told = kept("checks")["best of"]
    for pool, price, (c, of) in product(told, (0, 1), scored().items()):
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
        for k in official_.keys() & row.keys():
            agrees(row[k], official_[k], (pool, c, k))


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


@needs_data
def test_rule_of_right_and_wrong():
    told, fit = (
        kept("yardsticks")["rule"],
        [
            (recall_of(x[3], x[4]), judged(x[6]))
            for x in sources()["choosing"]["GPT-4o"]
            if in_question(x)
        ],
    )
    chosen = [
        np.quantile([v for v, k in fit if k == kind], q)
        for kind, q in (("wrong", 0.75), ("right", 0.05))
    ]
    assert f"target recall, {min(chosen):.3f} and {max(chosen):.3f}" in told["GPT-4o"]
    for source, answers in sources()["reporting"].items():
        some = [x for x in answers if in_question(x)]
        score = {"target recall": [recall_of(x[3], x[4]) for x in some]}
        score["ROUGE-L"] = [rouge(x[3], x[4]) for x in some]
        bars = {"target recall, 0.2 and 0.38": (0.2, 0.38), "ROUGE-L, as before": (0.15, 0.22)}
        for name, (low, high) in bars.items():
            values = score[name.split(", ")[0]]
            for kind in ("right", "undecided", "wrong"):
                own = [v for v, x in zip(values, some) if judged(x[6]) == kind]
                row, tie = told[source][name][kind], 6e-5
                if "ROUGE" in name:  # one answer lies exactly on a bar
                    tie += 1 / len(own)
                assert abs(row["right"] - np.mean([v >= high for v in own])) < tie, (source, name)
                assert abs(row["wrong"] - np.mean([v < low for v in own])) < tie, (source, name)
        at = [k for k, x in enumerate(some) if judged(x[6]) in ("right", "wrong")]
        good = np.array([judged(some[k][6]) == "right" for k in at])
        for name, values in score.items():
            row, rank = told[source]["measures"][name], rankdata([values[k] for k in at])
            n, wrong = len(at), int((~good).sum())
            auroc = (rank[good].sum() - (n - wrong) * (n - wrong + 1) / 2) / (wrong * (n - wrong))
            assert (row["answers"], row["wrong"]) == (n, wrong)
            assert abs(row["auroc"]["value"] - auroc) < 2e-4, (source, name)


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
            for rule in ("judge", verdict, as_before):
                ends[rule][x[0]][x[1]] = ending_by(x, rule)
        names, signs = [*ends["judge"]], {verdict: Counter(), as_before: Counter()}
        for n, a in enumerate(names):
            for b in names[n + 1 :]:
                judge = surface(ends["judge"][a], ends["judge"][b], 0.95)
                for rule, count in signs.items():
                    found = surface(ends[rule][a], ends[rule][b], 0.95)
                    for w, j in ((sign(found[g]), sign(judge[g])) for g in GRID):
                        if w == j:
                            count["same sign" if w else "neither"] += 1
                        else:
                            count["opposite" if w * j else "words" if w else "judge"] += 1
        told = kept("yardsticks")["rule"][source]
        for rule, name in (
            (verdict, "target recall, 0.2 and 0.38"),
            (as_before, "ROUGE-L, as before"),
        ):
            row = {k.removesuffix(" alone"): v for k, v in told[name]["signs"].items()}
            off = {k: v - row.get(k, 0) for k, v in signs[rule].items()}
            assert signs[rule].total() == sum(row.values())
            assert max(map(abs, off.values())) <= sum(row.values()) / 30, (source, off)
            assert rule is as_before or "opposite" not in signs[rule]
        assert (
            kept("yardsticks")["prices"][source]["agree"]
            == told["target recall, 0.2 and 0.38"]["signs"]
        )


def as_before(answer, target):
    score = rouge(answer, target)
    return "right" if score >= 0.22 else "failed" if score < 0.15 else "undecided"


@needs_data
def test_padded_answers():
    "What the rule makes of answers with their passages behind them."
    told, ids = (
        kept("yardsticks")["rule"]["padded"],
        {x[1] for x in sources()["reporting"]["GPT-4o"]},
    )
    rows = defaultdict(list)
    for i in ids:
        o = arm("elser", "official")[i]
        texts, target = [c["text"] for c in o["contexts"]], o["targets"][0]["text"]
        if label(o) in ANSWERED and idk_by_rule(text_of(o)) != 1 and texts:
            rows["the answers"].append(verdict(text_of(o), target))
            rows["and all their passages"].append(verdict(" ".join((text_of(o), *texts)), target))
            rows["all passages alone"].append(verdict(" ".join(texts), target))
    for name, some in rows.items():
        row = told[name]["target recall, 0.2 and 0.38"]
        assert told[name]["n"] == len(some)
        for kind, own in (("right", "right"), ("wrong", "failed")):
            assert abs(row[kind] - some.count(own) / len(some)) < 6e-5, (name, kind)


@lru_cache(None)
def words_of(text):
    return frozenset(words(text))


def columns_of(some, mix=None):
    "Measure -> of each answer; all but the cosine, the combination by its own weights."
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
    by = {k: np.array(v) for k, v in by.items()}
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
    x = np.array([by[k] for k in parts]).T
    mean, scale = x.mean(0), x.std(0)
    z = np.c_[(x - mean) / scale, np.ones(len(y))]
    w = np.linalg.solve(z.T @ z + np.diag([1.0] * len(parts) + [0.0]), z.T @ y)
    for own, kept_ in ((mean, mix["mean"]), (scale, mix["scale"]), (w, mix["weights"])):
        assert np.allclose(own, kept_, atol=1e-4)
    return parts, mean, scale, w


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
                if 50 < len(some) < 1000:  # of 29, by Student, they go beyond 1
                    near(row, resampled(own, y, some), (name, truth_, m))
                row, alike = (
                    told["measures"][m][f"{truth_}, same question"],
                    np.sign(own[i] - own[j]),
                )
                assert row["n"] == len(i)
                ties = 0 if "recall" in m else 2 / len(i)
                assert abs(row["value"] - (alike / 2 + 0.5).mean()) < 2e-4 + ties, (name, truth_, m)


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
    for row in kept("raguteam")["systems"]:
        values = own[row["system"]]
        assert row["n"] == len(values)
        assert abs(row["mean"] - np.mean([*values.values()])) < 1e-6, row["system"]
        near(row, bootstrap(values), row["system"])
    for row in kept("raguteam")["pairs"]:
        change = less(own[row["a"]], own[row["b"]])
        assert (
            row["n"] == len(change) and abs(row["difference"] - np.mean([*change.values()])) < 1e-6
        )
        near(row, bootstrap(change), row)


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
