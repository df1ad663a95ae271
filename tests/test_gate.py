"`mtrag gate` and `mtrag card`: exit codes, what they install, repeated runs of one system, the workflow that a user copies."

import json
import random
import re
import subprocess
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import yaml

import anywhere
from mtrag_nb.app.cli import main
from mtrag_nb.core.files import data_dir, read_json, read_jsonl, write_json, write_jsonl
from mtrag_nb.core.record import (
    Calls,
    Checked,
    Drafted,
    Fault,
    Found,
    Gated,
    Rank,
    Ranked,
    Retrieved,
)
from mtrag_nb.core.run_folder import VERSION, Run
from mtrag_nb.core.record import turn_line
from tests.support.turns import new_turn
from mtrag_nb.core.replies import Label, Verdict, score_verdict
from mtrag_nb.core.types import (
    Context,
    DataError,
    DiskFull,
    Gold,
    Outcome,
    SettingsError,
    expect,
    plain,
)
from mtrag_nb.data.mtrag import read_gold, sample_dir
from mtrag_nb.evaluation.gate import LossTest, _in_markdown, _measure_loss
from mtrag_nb.evaluation.pairs import Ending
from mtrag_nb.evaluation.cards import mechanism_card
from mtrag_nb.evaluation.gate import gate_runs
from mtrag_nb.evaluation.pairs import pair_endings, right_and_wrong
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.statistics import mean_interval
from mtrag_nb.search.types import WebSearched
from mtrag_nb.show.report import write_report
from tests.support.intervals import statistic_interval, sum_intervals
from tests.support.prices import price_curve, read_ending
from tests.support.volume import few, pairs
from tests.test_house import run_light

ROOT = Path(__file__).resolve().parents[1]
RIGHT, WRONG = "A dog costs four crowns a crossing.", "It was free in 1912."
RUNS = data_dir("recorded")


def written(folder: Path, name: str, wrong: int, talks: int = 40) -> Path:
    "A file of predictions of the first conversations of forty, wrong in the last so many of them; and the reference beside it."
    lines = []
    for n in range(40):
        about = {
            "conversation_id": f"c{n}",
            "task_id": f"c{n}<::>1",
            "turn": 1,
            "contexts": [],
        }
        asked = [{"speaker": "user", "text": f"What does a dog cost on ferry {n}?"}]
        known = {
            "targets": [{"speaker": "agent", "text": RIGHT}],
            "Answerability": ["ANSWERABLE"],
        }
        lines.append({**about, "Collection": "ferries", "input": asked, **known})
    write_jsonl(folder / "reference.jsonl", lines)
    first, path = lines[:talks], folder / f"{name}.jsonl"
    texts = [WRONG if talks - n <= wrong else RIGHT for n in range(talks)]
    write_jsonl(
        path, [{**x, "predictions": [{"text": t}]} for x, t in zip(first, texts)]
    )
    return path


def gate(folder: Path, *options: str) -> int:
    paths = [str(folder / f"{n}.jsonl") for n in ("base", "new")]
    return main(
        ["gate", *paths, "--reference", str(folder / "reference.jsonl"), *options]
    )


@pytest.mark.parametrize(
    "wrong, talks, code, said",
    [
        ((3, 3), (40, 40), 0, "every answer is the same"),
        ((0, 12), (40, 40), 1, "worse"),
        ((12, 0), (40, 40), 0, "not worse"),
        ((0, 2), (40, 40), 2, "cannot tell from 40 conversations, about"),
        (
            (0, 2),
            (40, 40),
            2,
            "needed to exclude a loss of 0.03, more than MTRAG's 110: allow a",
        ),
        ((0, 5), (12, 12), 2, "; the interval shows one, the test does not (p 0.06)"),
        ((0, 1), (5, 5), 2, "cannot tell from 5 conversations, about"),
        ((0, 0), (40, 30), 2, "lacks 10 turns of base"),
    ],
)
def test_exit_codes(tmp_path, capsys, wrong, talks, code, said):
    for name, n, some in zip(("base", "new"), wrong, talks):
        written(tmp_path, name, n, some)
    assert gate(tmp_path) == code
    told = capsys.readouterr()
    assert said in (told.err if code == 2 else told.out)


def test_the_comment_and_the_json_name_the_turns_that_were_spoilt(tmp_path, capsys):
    written(tmp_path, "base", 0), written(tmp_path, "new", 12)
    assert gate(tmp_path, "--json", "--comment", str(tmp_path / "gate.md")) == 1
    found, comment = (
        json.loads(capsys.readouterr().out),
        (tmp_path / "gate.md").read_text(),
    )
    assert found["code"] == 1 and len(found["spoilt"]) == 12
    assert found["interval"]["high"] < 0 and found["needed"] > 40
    assert (
        comment.startswith("### mtrag gate: worse")
        and "Spoilt: 10 of 12 turns" in comment
    )
    assert f"| {RIGHT} | {WRONG} |" in comment


def _no_constant(name):
    raise ValueError(f"{name} is no JSON")


@pytest.mark.parametrize(
    "words, key",
    [
        ("score {run} {run2} --encoder none --out {out}", "measures"),
        ("blame {run} {run2}", "blame"),
        ("card {run}", "mechanisms"),
        ("gate {run} {run2}", "verdict"),
        ("gate {run} {run}", "verdict"),
        ("gate {base} {new} --reference {reference}", "spoilt"),
        ("doctor", "problems"),
        ("doctor --profile t4", "problems"),
    ],
)
def test_a_table_is_printed_as_json_with_the_same_exit_code(
    tmp_path, capsys, words, key
):
    files = {n: written(tmp_path, n, k) for n, k in (("base", 0), ("new", 12))}
    files |= {
        "run": RUNS / "sample_ncl",
        "run2": RUNS / "sample_naive",
        "out": tmp_path / "out",
    }
    argv = words.format(**files, reference=tmp_path / "reference.jsonl").split()
    plainly, text = main(argv), capsys.readouterr()
    assert main([*argv, "--json"]) == plainly
    printed = capsys.readouterr()
    found = json.loads(printed.out, parse_constant=_no_constant)
    assert all(key in x for x in (found if isinstance(found, list) else [found]))
    assert text.out.splitlines()[-1] in printed.err, "the table goes to stderr"


def test_json_of_what_cannot_be_read_is_an_error_and_nothing_else(tmp_path, capsys):
    assert main(["card", str(tmp_path / "none"), "--json"]) == 2
    printed = capsys.readouterr()
    assert not printed.out and "none" in printed.err


def test_a_loss_that_does_not_matter_is_let_pass(tmp_path, capsys):
    written(tmp_path, "base", 0), written(tmp_path, "new", 12)
    assert gate(tmp_path, "--min-loss", "0.6") == 0
    assert "a smaller loss is shown" in capsys.readouterr().out
    assert [gate(tmp_path, "--min-loss", x) for x in ("0", "nan", "-1")] == [2, 2, 2]


READING = """
from mtrag_nb.app.cli import main
assert main(["gate", {base!r}, {new!r}, "--reference", {reference!r}]) == 1
assert main(["card", {run!r}]) == 0
"""


def test_both_work_in_the_light_install(tmp_path):
    files = {
        name: str(written(tmp_path, name, n)) for name, n in (("base", 0), ("new", 12))
    }
    files |= {
        "reference": str(tmp_path / "reference.jsonl"),
        "run": str(RUNS / "sample_ncl"),
    }
    run_light(READING.format(**files))


def repeats() -> list[dict[str, float]]:
    "Five runs of one system with other seeds over 120 conversations: task id -> right answers less half of the wrong ones."
    told = read_json(data_dir("measured") / "equal.json")
    first = told["endings"]["self_crag"]
    some = [first, *(first | other for other in told["seeds"].values())]
    ends = [{i: right_and_wrong(read_ending(e)) for i, e in x.items()} for x in some]
    return [{i: right - wrong / 2 for i, (right, wrong) in x.items()} for x in ends]


def test_a_system_is_not_worse_than_itself():
    codes = []
    for old, new in permutations(repeats(), 2):
        talks = {i: i.partition("<::>")[0] for i in old}
        codes.append(_measure_loss({i: new[i] - old[i] for i in old}, talks, 0.03).code)
    assert len(codes) == 20 and 1 not in codes


def test_a_loss_that_few_conversations_would_not_show_is_not_let_pass():
    "Twenty turns without a difference may hide a loss of .03; of five hundred one would have been seen."
    for n, code in ((20, 2), (500, 0)):
        talks = {f"c{k}<::>1": f"c{k}" for k in range(n)}
        found = _measure_loss(dict.fromkeys(talks, 0.0), talks, 0.03)
        assert found.code == code and 90 < found.conversations_needed < 130


def turns_lost(lose: int, gain: int, of: int = 60) -> LossTest:
    "Conversations of one turn each, of which some lose it and some gain it."
    changes = [-1.0] * lose + [1.0] * gain + [0.0] * (of - lose - gain)
    ids = [f"c{n}<::>1" for n in range(of)]
    return _measure_loss(dict(zip(ids, changes)), dict(zip(ids, ids)), least=0.05)


def test_losses_shown_by_one_test_alone_losses_in_every_turn_and_small_ones():
    assert turns_lost(4, 0).interval.high < 0 and turns_lost(4, 0).p == 0.125
    alike = {f"c{n}": -1.0 for n in range(8)}
    assert (
        _measure_loss(alike, dict(zip(alike, alike)), 0.05).code == 1
    )  # nothing varies
    smaller = turns_lost(30, 4, 3000)
    assert (
        smaller.code == 0
        and smaller.interval.high < 0
        and "smaller loss" in smaller.verdict
    )
    enough = turns_lost(3, 3, turns_lost(3, 3).conversations_needed)
    assert enough.detectable < 0.05 and turns_lost(60, 0, 60).interval.low is None


def version(name: str, answer, talks: int = 40) -> Evidence:
    "A run of two turns a conversation; an answer that is None broke."
    turns, gold = [], {}
    for n in range(talks):
        for turn in (1, 2):
            said = answer(n)
            error = Fault("generate", "OSError", "gone") if said is None else None
            steps = () if error else (Drafted(node="generate", text=said),)
            turns.append(
                new_turn(*steps, conversation_id=f"k{n}", turn=turn, error=error)
            )
            gold[turns[-1].task_id] = Gold("", "ANSWERABLE", (RIGHT,))
    return Evidence(Run.of(name, turns), gold)


BASE = version("main", lambda n: WRONG if n % 5 == 0 else RIGHT)
BRANCH = version("branch", lambda n: WRONG if n % 5 == 0 or n % 4 == 1 else RIGHT)
SHORT, NOTHING = version("short", lambda n: RIGHT, 30), version("x", lambda n: RIGHT, 0)
NO_GOLD = Evidence(BASE.run)
OTHER_TURNS = [replace(t, question="And a cat?") for t in BASE.turns.values()]
ASKING = Evidence(Run.of("asking", OTHER_TURNS), BASE.gold)


def test_runs_in_memory_held_against_each_other():
    worse = gate_runs(BASE, BRANCH)
    assert worse.loss.code == 1 and len(worse.spoilt) == 16 and worse.mended == 0
    assert (
        gate_runs(BASE, BASE).loss.code == 0 and gate_runs(BASE, BASE).loss.changed == 0
    )
    assert gate_runs(BASE, SHORT, shared=True).left_out["no score in short"] == 20
    assert gate_runs(BASE, BRANCH, "RougeL").loss.code == 1


def test_a_price_tells_wrong_answers_from_refusals():
    refusing = version("refusing", lambda n: "I don't know." if n % 5 == 0 else RIGHT)
    assert gate_runs(BASE, refusing).loss.changed == 0
    assert gate_runs(BASE, refusing, price=1).loss.code == 0
    assert gate_runs(refusing, BASE, price=1).loss.code == 1


@pytest.mark.parametrize(
    "error, words, given",
    [
        (DataError, "lacks 80 turns", (BASE, NOTHING)),
        (DataError, "no turn has a score", (BASE, NOTHING, "right", 0.0, 0.03, True)),
        (DataError, "asks something else", (BASE, ASKING)),
        (DataError, "no measure 'nDCG'", (BASE, BASE, "nDCG")),
        (SettingsError, "price", (BASE, BASE, "RougeL", 0.5)),
        (SettingsError, "above 0", (BASE, BASE, "right", 0.0, 0.0)),
        (DataError, "--reference", (NO_GOLD, NO_GOLD)),
    ],
)
def test_runs_that_cannot_be_compared(error, words, given):
    with pytest.raises(error, match=words):
        gate_runs(*given)


def test_texts_in_a_comment_are_nothing_that_a_forge_reads():
    odd = _in_markdown(["text"], [["a|b <i> @me #1 _x_\nhttps://y"]]).splitlines()[-1]
    assert (
        odd
        == "| a&#124;b &#60;i&#62; &#64;me &#35;1 &#95;x&#95; https&#58;&#47;&#47;y |"
    )


@pytest.mark.slow
@pytest.mark.parametrize("loss, wanted", [(0.0, range(0, 11)), (0.5, range(190, 201))])
def test_false_alarms_and_losses_seen_of_200(loss, wanted):
    "Turns of 60 conversations that change by chance, and that lose half a turn on average beside it."
    rng, stopped = random.Random(3), 0
    for _ in range(200):
        ids = {f"c{n}<::>1": f"c{n}" for n in range(60)}
        chance = {i: rng.choice((-1.0, 0.0, 0.0, 1.0)) for i in ids}
        found = _measure_loss(
            {i: x - (rng.random() < loss) for i, x in chance.items()}, ids, 0.03
        )
        stopped += found.code == 1
    assert stopped in wanted


def test_a_card_counts_what_fired_and_what_it_cost(capsys):
    assert main(["card", str(RUNS / "sample_agents"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {(r["mechanism"], r["kind"]): r for r in found["mechanisms"]}
    again = rows["reformulate", "rewrite"]
    assert (again["visits"], again["fired"]) == (6, 0) and again["calls"] == 18
    assert sum(r["tokens"] for r in rows.values()) <= found["tokens"]
    assert found["audited"] == {} and any("never fires" in x for x in found["findings"])


def searched(*web: str) -> WebSearched:
    return WebSearched(
        node="web", contexts=web, query="q", provider="recorded", time="2026-01-01"
    )


def test_a_card_holds_mechanisms_against_gold_and_names_the_idle_ones():
    known = read_gold(sample_dir() / "reference.jsonl")
    card = mechanism_card(Evidence(Run(RUNS / "sample_self_crag_laptop"), known))
    rows = {r["kind"]: r for r in card.data["mechanisms"]}
    counts = (rows["retry"]["turns"], rows["refusal"]["turns"], rows["check"]["visits"])
    assert counts == (1, 5, 12) and rows["grade"]["good rejected"] == (3, 17)
    gate = [
        Gated(node="gate", verdict=score_verdict(0.4 + n / 100, 0.2, "cosine"))
        for n in range(8)
    ]
    check = Checked(
        node="check", verdict=Verdict(Label.YES, "verdict"), calls=Calls(1, 0, 90, 10)
    )
    steps = [(g, Drafted(node="generate", text=RIGHT), check) for g in gate]
    turns = [new_turn(*s, conversation_id=f"k{n}") for n, s in enumerate(steps)]
    idle = mechanism_card(Evidence(Run.of("idle", turns)))
    found = idle.data["mechanisms"]
    assert [r["mechanism"] for r in found] == ["gate", "generate", "check"]
    assert [r["tokens"] for r in found] == [0, 0, 800]
    assert len(idle.statements) == 3 and "threshold" in idle.statements[0]


# another order, and something was found; the last one left out, the order kept, and nothing found
@pytest.mark.parametrize(
    "order, web, fired", [("bac", ("web:1",), (1, 1)), ("ab", (), (0, 0))]
)
def test_rerankers_and_searches_of_the_web_are_counted(order, web, fired):
    ranked = Ranked(node="rerank", ranks=tuple(Rank(i, 0.5) for i in order))
    found = Retrieved(node="retrieve", contexts=("a", "b", "c"))
    turn = new_turn(found, ranked, searched(*web), conversation_id="c1")
    card = mechanism_card(Evidence(Run.of("r", [turn]), {}))
    rows = {r["kind"]: r for r in card.data["mechanisms"]}
    assert (rows["rerank"]["fired"], rows["web"]["fired"]) == fired
    idle = {x for x in card.statements if x.endswith("never fires, in 1 visits")}
    assert len(idle) == 2 - sum(fired)


def test_the_card_stands_in_the_report(tmp_path):
    page = write_report([RUNS / "sample_ncl"], tmp_path / "report.html").read_text(
        "utf-8"
    )
    card = page.partition("What each mechanism did")[2]
    assert "quality (check): never fires, in 14 visits" in card


WORKFLOW = ROOT / ".github" / "workflows" / "gate.yml"
CALLED, CALLER = (
    yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in (WORKFLOW, ROOT / ".github" / "gate.example.yml")
)  # PyYAML reads the key `on` as True


def test_the_workflow_that_a_user_copies_calls_the_gate_of_this_version():
    job, inputs = CALLER["jobs"]["gate"], CALLED[True]["workflow_call"]["inputs"]
    version = anywhere.CFG["version"]
    address = anywhere.ADDRESS.removeprefix("https://github.com/")
    assert job["uses"] == f"{address}/.github/workflows/gate.yml@v{version}"
    assert (
        inputs["package"]["default"] == f"mtrag_nb @ git+{anywhere.ADDRESS}@v{version}"
    )
    required = {n for n, i in inputs.items() if i.get("required")}
    assert required <= job["with"].keys() <= inputs.keys()
    assert job["permissions"] == CALLED["jobs"]["gate"]["permissions"]
    assert CALLER["permissions"] == CALLED["permissions"] == {}
    runs = [s["run"] for s in CALLED["jobs"]["gate"]["steps"] if "run" in s]
    assert len(runs) == 4 and not any("${{" in text for text in runs)


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


STEPS = [  # wrong turns, conversations, what is undecided; whether the workflow fails
    (12, 40, "pass", 1),
    (0, 30, "pass", 1),  # turns are missing: nothing can be compared, nothing passes
    (0, 40, "stop", 0),
    (2, 40, "stop", 1),
    (2, 40, "pass", 0),
]


@pytest.mark.parametrize("case", few(STEPS, 2), ids=str)
def test_the_steps_of_the_gate(tmp_path, case):
    wrong, talks, undecided, code = case
    rag, programs = tmp_path / "tests" / "rag", tmp_path / "bin"
    rag.mkdir(parents=True), programs.mkdir()
    written(rag, "base", 0), written(rag, "ready", wrong, talks)
    call = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from mtrag_nb.app.cli import main; sys.exit(main())"
    program(programs, "mtrag", f'exec {sys.executable} -c "{call}" "$@"')
    for name in ("pip", "gh"):
        program(programs, name, f'echo {name} "$@" >> {tmp_path}/calls')
    given = {
        n: i.get("default", "")
        for n, i in CALLED[True]["workflow_call"]["inputs"].items()
    }
    given |= CALLER["jobs"]["gate"]["with"] | {"undecided": undecided}
    given |= {
        "answer": "cp tests/rag/ready.jsonl new.jsonl",
        "install": "pip install own",
    }
    base = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "sum"),
    }
    base |= {"GITHUB_REPOSITORY": "me/mine"}
    failed = False
    for step in CALLED["jobs"]["gate"]["steps"]:
        comments = "if" in step and (tmp_path / "gate.md").exists()
        if "run" not in step or (not comments if "if" in step else failed):
            continue
        env = {
            name: re.sub(
                r"\$\{\{ (\w+)\.([\w.]+) }}", lambda m: str(given.get(m[2], "7")), text
            )
            for name, text in step["env"].items()
        }
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=base | env
        )
        failed = failed or done.returncode != 0
    assert failed == bool(code)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert (
        calls[0].startswith("pip install mtrag_nb @ git+")
        and calls[1] == "pip install own"
    )
    commented = "gh pr comment 7 --repo me/mine --body-file gate.md --edit-last --create-if-none"
    assert calls[2:] == ([commented] if talks == 40 else [])
    assert talks < 40 or "### mtrag gate" in (tmp_path / "sum").read_text()


def endings_of(answer) -> dict[str, Ending]:
    "Forty conversations of an answerable and an unanswerable question; how each ends: right, wrong or refused."
    found = {}
    for n in range(40):
        for turn, label in ((1, "ANSWERABLE"), (2, "UNANSWERABLE")):
            said = answer(n) if turn == 1 or answer(n) == "wrong" else "refused"
            right = said == ("right" if turn == 1 else "refused")
            told = ("right" if right else "failed", None, Outcome.ANSWERED, said, {})
            ended = Ending(f"k{n}", turn, *told, refused=said == "refused", label=label)
            found[f"k{n}/{turn}"] = ended
    return found


def test_who_guesses_gains_while_wrong_answers_are_cheap():
    careful = endings_of(lambda n: "right" if n % 2 else "refused")
    guessing = endings_of(lambda n: "right" if n % 4 else "wrong")
    best = endings_of(lambda n: "right")
    c = price_curve(pair_endings("guessing less careful", careful, guessing))
    assert c.turns == (40, 40) and c.changed == 20 and not c.shown
    by_hand = {
        (x, s): (1 - s) * (0.25 - 0.25 * x) - s * 0.25 * (1 + x) for x, s in c.points
    }
    assert all(abs(i.value - by_hand[x]) < 1e-12 for x, i in c.points.items())
    assert c.sign(0.0, 0.05) == 1 and c.sign(1.0, 0.25) == 0
    same = price_curve(pair_endings("same", careful, careful))
    assert same.verdict == "not testable: 0 conversations differ" and not same.shown
    better = price_curve(pair_endings("all right", careful, best))
    assert better.shown == 1 and better.verdict == "better throughout"
    assert price_curve(pair_endings("x", best, careful)).shown == -1
    unjudged = {i: replace(e, verdict="not judged") for i, e in careful.items()}
    assert price_curve(pair_endings("none", unjudged, unjudged)) is None


def test_a_sum_of_means_has_the_interval_of_a_mean():
    half = np.array([[1.0, np.nan], [0.0, np.nan], [np.nan, 4.0]] * 20)
    by_talk = np.repeat(np.arange(20), 3)
    mixed = sum_intervals(half, by_talk, np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]))
    assert [i.value for i in mixed] == [0.5, 2.25, 4.0] and mixed[2].low is None, (
        "nothing varies"
    )
    rng = np.random.default_rng(3)
    for k in (20, 80):  # one column: as the mean itself
        talks, x = np.arange(k).repeat(2), rng.normal(size=2 * k)
        (one,), mean = (
            sum_intervals(x[:, None], talks, np.ones((1, 1))),
            mean_interval(x, talks),
        )
        assert abs(one.low - mean.low) < 1e-9 and abs(one.high - mean.high) < 1e-9
    with pytest.raises(DataError, match="no value"):
        sum_intervals(np.full((3, 1), np.nan), [1, 2, 3], np.ones((1, 1)))


def ends(interval) -> tuple:
    return interval.value, interval.low, interval.high


def test_any_statistic_has_the_interval_of_a_mean():
    rng = np.random.default_rng(3)
    value, code = rng.normal(size=360), np.repeat(np.arange(60), 6)

    def mean_of(v):
        return lambda at: v[at].mean()

    for n in (
        72,
        360,
    ):  # 12 of equal size: the jackknife is the clustered error; 60: the same draws
        ours = mean_interval(value[:n], code[:n], 400)
        general = statistic_interval(mean_of(value[:n]), code[:n], 400)
        assert np.allclose(ends(ours), ends(general))
    assert statistic_interval(lambda at: None, code).value is None
    assert statistic_interval(mean_of(value), []).clusters == 0
    assert statistic_interval(mean_of(value), code[:12]).low is None
    few = statistic_interval(mean_of(value[:72]), code[:72])
    cut = statistic_interval(
        mean_of(value[:72]), code[:72], within=(few.low, few.value)
    )
    assert ends(cut) == (few.value, few.low, few.value), (
        "the ends are cut, not the value"
    )


GUARD_IDS = ("gold", "other")
PLACES = [Context(i, i, f"What {i} says.") for i in GUARD_IDS]


def guarded(
    folder: Path,
    name: str,
    best: str,
    answer: str | None = RIGHT,
    talks: int = 60,
    phrase: str = "",
) -> Path:
    "A run folder of one turn a conversation: the passage ranked first, and the answer (None: none on record)."
    turns = []
    for n in range(talks):
        order = (best, *(i for i in GUARD_IDS if i != best))
        hits = tuple(Found(i, i, i, 1.0 / k) for k, i in enumerate(order, 1))
        search = Retrieved(node="retrieve", hits=hits, contexts=order)
        about = {"conversation_id": f"c{n}", "task_id": f"c{n}<::>1"}
        about["question"] = f"What does a dog cost on ferry {n}?"
        if answer is None:
            turn = new_turn(search, outcome=Outcome.NOT_RECORDED, **about)
        else:
            turn = new_turn(search, Drafted(node="generate", text=answer), **about)
        turns.append(turn)
    path = folder / name
    settings = {"profile": "laptop", "chat": {}}
    entries = {"identity": {"system": name, "setting": "rag"}, "settings": settings}
    write_json(path / "manifest.json", {"version": VERSION, **entries})
    write_jsonl(path / "trajectories.jsonl", map(turn_line, turns))
    write_jsonl(path / "passages.jsonl", map(plain, PLACES))
    return path


def reference(folder: Path, target: str = RIGHT, gold: str = "gold") -> Path:
    "The reference of sixty conversations, each with one gold passage."
    lines = [
        {
            "question": f"What does a dog cost on ferry {n}?",
            "answer": target,
            "passages": [{"id": gold}] if gold else [],
            "id": f"c{n}<::>1",
            "conversation": f"c{n}",
            "turn": 1,
        }
        for n in range(60)
    ]
    path = folder / f"reference-{gold}-{len(target)}.jsonl"
    write_jsonl(path, lines)
    return path


def gated(*words: object) -> int:
    return main(["gate", *map(str, words)])


MEASURES = ["nDCG@1", "recall@1", "MRR"]


@pytest.mark.parametrize("measure, answer", pairs(MEASURES, [RIGHT, WRONG, None]))
def test_a_ranking_that_collapsed_is_a_loss_whatever_the_answers_are(
    tmp_path, capsys, measure, answer
):
    base, new = (
        guarded(tmp_path, n, best, answer)
        for n, best in (("base", "gold"), ("new", "other"))
    )
    known = ("--reference", reference(tmp_path))
    assert gated(base, new, "--measure", measure, *known) == 1
    assert gated(new, base, "--measure", measure, *known) == 0, "it got better"
    rankings = answer is None
    assert gated(base, new, *known) == (2 if rankings else 0)
    told = capsys.readouterr()
    assert ("no answer is on record" in told.err) == rankings


def test_k_precision_that_collapsed_under_the_same_answers(tmp_path):
    base, new = (guarded(tmp_path, n, "gold") for n in ("base", "new"))
    write_jsonl(
        base / "passages.jsonl", [plain(replace(c, text=RIGHT)) for c in PLACES]
    )
    known = ("--reference", reference(tmp_path))
    assert gated(base, new, "--measure", "K-precision", *known) == 1
    assert gated(base, base, "--measure", "K-precision", *known) == 2, "60 show no 0.03"
    assert gated(base, new, *known) == 0, "every answer is as right as before"


@pytest.mark.parametrize("form", ["task A", "task C", "trec", "no order"])
def test_files_of_rankings_are_gated(tmp_path, capsys, form):
    def line(n, best):
        scores = {best: 0.9, next(i for i in GUARD_IDS if i != best): 0.5}
        listed = sorted(scores, reverse=n % 2) if form == "no order" else scores
        asked = [{"speaker": "user", "text": f"What does a dog cost on ferry {n}?"}]
        contexts = [{"document_id": i, "score": scores[i]} for i in listed]
        about = {"task_id": f"c{n}<::>1", "Collection": "ferries", "input": asked}
        answer = {"predictions": [{"text": RIGHT}]} if form == "task C" else {}
        return {**about, "contexts": contexts, **answer}

    paths = []
    for name, best in (("base", "gold"), ("new", "other")):
        path = tmp_path / f"{name}.{'run' if form == 'trec' else 'jsonl'}"
        if form == "trec":
            worse = next(i for i in GUARD_IDS if i != best)
            rows = [
                f"c{n}<::>1 Q0 {i} {k} {1 / k} x\n"
                for n in range(60)
                for k, i in enumerate((best, worse), 1)
            ]
            path.write_text("".join(rows))
        else:
            write_jsonl(path, [line(n, best) for n in range(60)])
        paths.append(path)
    known = ("--reference", reference(tmp_path))
    assert gated(*paths, "--measure", "nDCG@1", *known) == 1, capsys.readouterr().err
    assert gated(*reversed(paths), "--measure", "nDCG@1", *known) == 0
    by_qrels = tmp_path / "qrels.tsv"
    rows = [f"c{n}<::>1\tother\t1\n" for n in range(60)]
    by_qrels.write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    turned = (*known, "--qrels", by_qrels)
    assert gated(*paths, "--measure", "nDCG@1", *turned) == 0, "the qrels count"


def test_distances_are_read_as_such_and_the_gate_says_so(tmp_path, capsys):
    paths = []
    for name, best, scale in (("base", "gold", 1), ("new", "gold", 2)):
        worse = next(i for i in GUARD_IDS if i != best)
        contexts = [
            {"document_id": best, "score": 0.1 * scale},
            {"document_id": worse, "score": 0.7 * scale},
        ]
        lines = []
        for n in range(60):
            asked = [{"speaker": "user", "text": f"What does a dog cost on ferry {n}?"}]
            about = {"task_id": f"c{n}<::>1", "Collection": "ferries", "input": asked}
            lines.append({**about, "contexts": contexts})
        paths.append(tmp_path / f"{name}.jsonl")
        write_jsonl(paths[-1], lines)
    known = ("--reference", reference(tmp_path), "--min-loss", "0.1")
    assert gated(*paths, "--measure", "nDCG@1", *known, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["means"] == [1.0, 1.0]
    assert found["readings"]["scores of base rise: read as distances or ranks"] == 60


def test_a_ranking_that_became_shorter_or_empty_is_measured_as_deep_as_before(tmp_path):
    base, new = (guarded(tmp_path, n, "gold") for n in ("base", "new"))
    lines = [line for _, line in read_jsonl(new / "trajectories.jsonl")]
    for line in lines:
        for step in line["steps"]:
            if "hits" in step:
                step |= {"hits": [], "contexts": []}
        line["contexts"] = []
    write_jsonl(new / "trajectories.jsonl", lines)
    known = ("--reference", reference(tmp_path))
    assert gated(base, new, "--measure", "recall@1", *known) == 1


def test_nothing_to_test_is_no_verdict(tmp_path, capsys):
    base = guarded(tmp_path, "base", "gold")
    empty = guarded(tmp_path, "empty", "gold", talks=0)
    bare = reference(tmp_path, gold="")
    known = ("--reference", reference(tmp_path))
    assert gated(base, empty, *known, "--shared") == 2
    assert gated(empty, empty, *known) == 2
    assert gated(base, base, "--measure", "nDCG@1", "--reference", bare) == 2
    assert gated(base, base, "--measure", "nDCG@10", *known) == 2, "two are ranked"
    assert gated(base, base, "--measure", "rb_agg", *known) == 2
    assert gated(base, base, "--measure", "no such", *known) == 2
    assert not re.search("not worse", capsys.readouterr().out)


@pytest.mark.parametrize("answers", [("", ""), (" ", " "), ("", RIGHT)])
def test_answers_that_are_not_there_decide_nothing(answers):
    both = [version(n, lambda n, text=t: text, 20) for n, t in zip("ab", answers)]
    assert not gate_runs(*both).loss.same


def test_equal_answers_decide_for_right_by_the_rule_alone():
    assert gate_runs(BASE, BASE).loss.same
    assert not gate_runs(BASE, BASE, "RougeL").loss.same
    judged = Evidence(BASE.run, BASE.gold, verdicts="judge")
    with pytest.raises(DataError, match="verdicts"):
        gate_runs(BASE, judged)
    refused = [replace(t, outcome=Outcome.I_DONT_KNOW) for t in BASE.turns.values()]
    other = Evidence(Run.of("refusals", refused), BASE.gold)
    assert not gate_runs(BASE, other).loss.same, "the same words, another outcome"


ODD = ["nan", "inf", "-inf", "1e308", "1e400", "-1", "1e7"]


@pytest.mark.parametrize("option, value", pairs(["--wrong-penalty", "--min-loss"], ODD))
def test_numbers_that_cannot_be_are_no_verdict(tmp_path, capsys, option, value):
    written(tmp_path, "base", 0), written(tmp_path, "new", 12)
    assert gate(tmp_path, f"{option}={value}") == 2
    assert "Traceback" not in capsys.readouterr().err
    assert gate(tmp_path, "--min-loss", "1e-300") == 2


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_a_kept_score_that_is_no_number_is_an_error(odd):
    kept = {i: {"rb_agg": odd} for i in BASE.turns}
    held = {"scores": kept}
    run = Run.of("odd", BASE.turns.values(), **held)
    with pytest.raises(DataError, match="rb_agg"):
        gate_runs(Evidence(run, BASE.gold), Evidence(run, BASE.gold), "rb_agg")


def as_program(*words: object, patch: str = "") -> subprocess.CompletedProcess:
    "What a process of its own does, in the light of another module's main; patch: code before it."
    command = [sys.executable, "-m", "mtrag_nb.app.cli"]
    if patch:
        code = (
            f"import sys\n{patch}\nfrom mtrag_nb.app.cli import main\nsys.exit(main())"
        )
        command = [sys.executable, "-c", code]
    return subprocess.run(
        [*command, *map(str, words)], capture_output=True, text=True, cwd=ROOT
    )


def test_the_module_is_the_program(tmp_path):
    base, new = written(tmp_path, "base", 0), written(tmp_path, "new", 12)
    known = ("--reference", tmp_path / "reference.jsonl")
    worse = as_program("gate", base, new, *known)
    assert worse.returncode == 1 and "worse (exit code 1)" in worse.stdout
    assert as_program("rnu").returncode == 2


FAULTS = [
    "import mtrag_nb.evaluation.gate as m\nm.gate_runs = lambda *a: 1 / 0",
    "import mtrag_nb.evaluation.gate as m\nm._measure_loss = None",
    "import mtrag_nb.evaluation.evidence as m\nm.Evidence = None",
    "import mtrag_nb.app.measure as m\nm.write_whole = None",
    "import mtrag_nb.evaluation.gate as m\ndef f(*a):\n    raise MemoryError\nm.gate_runs = f",
]


@pytest.mark.parametrize("fault", few(FAULTS))
def test_a_fault_of_the_program_has_no_code_of_a_verdict(tmp_path, fault):
    base, new = written(tmp_path, "base", 0), written(tmp_path, "new", 12)
    known = (
        "--reference",
        tmp_path / "reference.jsonl",
        "--comment",
        tmp_path / "c.md",
    )
    done = as_program("gate", base, new, *known, patch=fault)
    assert done.returncode == 70 and "Traceback" in done.stderr
    assert "no result" in done.stderr


def test_a_full_disk_under_the_comment_is_no_verdict(tmp_path, monkeypatch):
    def full(*a, **k):
        raise DiskFull("the disk is full", tmp_path)

    monkeypatch.setattr("mtrag_nb.app.measure.write_whole", full)
    written(tmp_path, "base", 0), written(tmp_path, "new", 12)
    assert gate(tmp_path, "--comment", str(tmp_path / "c.md")) == 2


@pytest.mark.parametrize(
    "name", ["old @everyone", "![x](http:x)", "<img src=x>", "a|b", "#1 _x_", "`y`"]
)
def test_names_of_runs_in_a_comment_are_escaped(name):
    breaking = version(name, lambda n: None if n == 1 else RIGHT)
    circular = Evidence(breaking.run, breaking.gold)
    circular.circular = frozenset({"RougeL"})
    mark = re.search(r"[^\w\s]", name)[0]
    for report in (gate_runs(breaking, BRANCH), gate_runs(circular, BRANCH, "RougeL")):
        assert name in report.note or name in report.measure
        assert name not in report.markdown and f"&#{ord(mark)};" in report.markdown


def test_two_runs_of_one_name_are_told_apart():
    breaking = version("run", lambda n: None if n == 1 else RIGHT)
    other = version("run", lambda n: RIGHT)
    left = gate_runs(breaking, other).left_out
    assert left["broke in the old run"] == 2 and left["no score in the new run"] == 0


def scored_by(folder: Path, known: Path, *more: object) -> None:
    words = ["score", folder, "--reference", known, "--encoder", "none", *more]
    assert main(list(map(str, words))) == 0


def with_answers(folder: Path, answer: str) -> None:
    "Change all answers of a run, as one that is gone on with does."
    path = folder / "trajectories.jsonl"
    lines = [line for _, line in read_jsonl(path)]
    for line in lines:
        line["answer"] = answer
    write_jsonl(path, lines)


def kept(folder: Path, **scores: float) -> None:
    "Add scores to those that are kept in a folder, as `mtrag score` with an encoder does."
    path = folder / "scores.jsonl"
    lines = [line for _, line in read_jsonl(path)]
    for line in lines:
        line["scores"] |= scores
    write_jsonl(path, lines)


def test_scores_kept_for_another_reference_do_not_count(tmp_path, capsys):
    first, second = reference(tmp_path), reference(tmp_path, WRONG)
    base = guarded(tmp_path, "base", "gold")
    new = guarded(tmp_path, "new", "gold", WRONG)
    for folder in (base, new):
        scored_by(folder, second)
    words = (base, new, "--measure", "RougeL", "--reference")
    assert gated(*words, first) == 1 and gated(*words, second) == 0
    for folder, x in ((base, 0.9), (new, 0.1)):
        kept(folder, rb_agg=x)
    capsys.readouterr()
    agg = (base, new, "--measure", "rb_agg", "--reference")
    assert gated(*agg, first) == 2
    assert "made of other answers or by another reference" in capsys.readouterr().err
    assert gated(*agg, second) == 1


def test_scores_kept_of_older_answers_do_not_count(tmp_path, capsys):
    known = reference(tmp_path)
    base, new = (guarded(tmp_path, n, "gold") for n in ("base", "new"))
    for folder in (base, new):
        scored_by(folder, known)
        kept(folder, rb_agg=0.9)
    agg = (base, new, "--measure", "rb_agg", "--reference", known)
    assert gated(*agg) == 2, "60 conversations exclude no loss of 0.03"
    with_answers(new, WRONG)
    capsys.readouterr()
    assert gated(*agg) == 2 and "again" in capsys.readouterr().err
    assert gated(base, new, "--measure", "RougeL", "--reference", known) == 1
    evidence = Evidence(new, read_gold(known))
    assert not evidence.run.scores and len(evidence.stale) == 60
    assert evidence.scores["c1<::>1"]["RougeL"] < 0.5
    assert "60 turns left out" in evidence.how["kept scores"]
    assert not evidence.rows["c1<::>1"].measures.scores


@pytest.mark.parametrize("change", ["outcome", "contexts", "ranking"])
def test_scores_of_what_has_changed_since_do_not_count(tmp_path, change):
    known = reference(tmp_path)
    run = guarded(tmp_path, "run", "gold")
    scored_by(run, known)
    assert len(Run(run).scores) == 60
    path = run / "trajectories.jsonl"
    lines = [line for _, line in read_jsonl(path)]
    for line in lines[:7]:
        if change == "outcome":
            line["outcome"] = "i_dont_know"
        elif change == "contexts":
            line["contexts"] = ["other"]
        else:
            line["steps"][0]["hits"][0]["score"] = 0.123
    write_jsonl(path, lines)
    assert len(Run(run).scores) == 53


def test_scores_without_their_digests_are_refused(tmp_path):
    run = guarded(tmp_path, "run", "gold")
    scored_by(run, reference(tmp_path))
    path = run / "scores.jsonl"
    lines = [line for _, line in read_jsonl(path)]
    del lines[6]["of"]
    write_jsonl(path, lines)
    with expect(DataError, "scores.jsonl:7", "lacks the field 'of'", "mtrag score"):
        Run(run).scores


def test_kept_rankings_by_other_qrels_are_refused(tmp_path, capsys):
    bare = reference(tmp_path, gold="")
    base = guarded(tmp_path, "base", "gold")
    new = guarded(tmp_path, "new", "other")
    qrels = {}
    for name in GUARD_IDS:
        qrels[name] = tmp_path / f"{name}.tsv"
        rows = [f"c{n}<::>1\t{name}\t1\n" for n in range(60)]
        qrels[name].write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    scored_by(base, bare, "--qrels", qrels["gold"])
    scored_by(new, bare, "--qrels", qrels["other"])
    words = (base, new, "--measure", "nDCG@1", "--reference", bare)
    assert gated(*words) == 2 and "other qrels" in capsys.readouterr().err
    scored_by(new, bare, "--qrels", qrels["gold"])
    assert gated(*words) == 1, "both by the same qrels, kept in the folders"
    assert gated(*words, "--qrels", qrels["other"]) == 0, "measured here"


def test_report_and_frame_show_no_scores_of_older_answers(tmp_path):
    known = reference(tmp_path)
    run = guarded(tmp_path, "run", "gold")
    scored_by(run, known)
    kept(run, rb_agg=0.98765)
    assert Run(run).to_pandas()["rb_agg"].iloc[0] == 0.98765
    words = ["report", run, "--out", tmp_path / "page.html", "--reference", known]
    assert main(list(map(str, words))) == 0
    assert "0.988" in (tmp_path / "page.html").read_text("utf-8")
    with_answers(run, WRONG)
    assert "rb_agg" not in Run(run).to_pandas()
    assert main(list(map(str, words))) == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "0.988" not in page and "rb_agg" not in page
