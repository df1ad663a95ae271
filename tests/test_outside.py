"""Systems from outside, each unaware of this project: three programs that are known by their spans, a function, an address."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from mtrag_nb.app.bench import evaluate
from mtrag_nb.core.files import data_dir
from mtrag_nb.core.record import Run
from mtrag_nb.data.mtrag import sample_dir
from mtrag_nb.evaluate.statistics import mean_interval
from mtrag_nb.systems.registry import system_named
from tests.conftest import ROOT
from tests.support.foreign import (
    FAULTS,
    HEAD,
    PROGRAMS,
    asked,
    blamed,
    served,
    table,
    write_sample,
)

SAMPLE = sample_dir() / "reference.jsonl"
MTRAG = Path(sys.executable).with_name("mtrag")

# From spans alone, as a function, at an address


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[dict]:
    pytest.importorskip("openinference.instrumentation.llama_index")
    pytest.importorskip("openinference.instrumentation.langchain")
    folder = write_sample(tmp_path_factory.mktemp("foreign"))
    return [row for program in FAULTS for row in blamed(program, folder)]


def named_at_home() -> tuple[int, int]:
    "How often the stage with the planted fault is named in the systems of this package, as `7_evaluate/05_blame` measures it."
    book = json.loads((ROOT / "nbs/7_evaluate/05_blame.ipynb").read_text("utf-8"))
    shown = "".join("".join(o.get("text", ())) for c in book["cells"] for o in c.get("outputs", ()))
    named, broken = re.search(r"together: (\d+) of (\d+)", shown).groups()
    return int(named), int(broken)


def test_the_stage_is_named_as_often_as_at_home(found):
    for row in [HEAD, *table(found)]:
        print(*row, sep="\t")
    for r in found:
        right = sum(s == r["stage"] for s in r["named"].values())
        assert len(r["named"]) >= 8, r
        assert right >= 0.95 * len(r["named"]), r
    hits = [float(s == r["stage"]) for r in found for s in r["named"].values()]
    talks = [i.partition("<")[0] for r in found for i in r["named"]]
    share, (named, broken) = mean_interval(hits, talks), named_at_home()
    print(f"together {share}; at home {named} of {broken}")
    assert share.value >= named / broken or share.low <= named / broken <= share.high


def test_the_table_that_is_kept_is_the_one_that_is_measured(found):
    kept = json.loads((data_dir("measured") / "outside.json").read_text("utf-8"))
    assert table(kept) == table(found)


def test_programs_know_nothing_of_this_project():
    for path in {*PROGRAMS.glob("*.py")} - {PROGRAMS / "glue_function.py"}:
        code = re.sub(r'^""".*?"""', "", path.read_text("utf-8"), flags=re.S)
        assert "mtrag" not in code.lower(), path


# A function and an address: glue, resuming, live conversations, a server in trouble


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> Path:
    return write_sample(tmp_path_factory.mktemp("desk")) / "documents.jsonl"


def answers(run: Run) -> dict[str, str]:
    return {i: t.answer for i, t in run.trajectories.items()}


def count(url: str) -> dict[str, int]:
    "How many requests the server has had, and how many at a time."
    return httpx.get(url).json()


@pytest.fixture(scope="module")
def whole(documents, tmp_path_factory) -> dict[str, str]:
    "What the help desk answers when nothing is in its way."
    with served(documents) as url:
        run = asked(system_named(url), tmp_path_factory.mktemp("whole") / "run")
        assert count(url)["all"] == 81 and count(url)["most"] > 1, "several turns in flight"
    return answers(run)


def test_the_glue_has_ten_lines_at_most():
    lines = (PROGRAMS / "glue_function.py").read_text("utf-8").splitlines()
    assert len([x for x in lines if x.strip()]) <= 10


def mtrag(*args: object) -> subprocess.CompletedProcess:
    command = [MTRAG, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_a_function_from_command_to_report(documents, tmp_path, monkeypatch):
    monkeypatch.setenv("DESK_DOCUMENTS", str(documents))
    system, out = f"{PROGRAMS}/glue_function.py:answer", tmp_path / "mine"
    made = evaluate(system, SAMPLE, out, limit=12, progress=False)
    again = evaluate(system, SAMPLE, out, limit=24, in_flight=4, progress=False)
    assert len(made.run.trajectories) == 12 and len(again.run.trajectories) == 24
    assert answers(made.run).items() <= answers(again.run).items()
    stages = set(again.blame.counts("stage"))
    assert {"retrieve", "generate"} <= stages and again.scores.of("RougeL")
    assert "glue_function.py:answer" in again.page.read_text("utf-8")
    live = evaluate(system, SAMPLE, tmp_path / "live", live=True, limit=12, progress=False)
    assert len(live.run.trajectories) == 12
    turns = [t for t in live.run.trajectories.values() if t.turn > 1]
    own = [live.run.tasks[t.task_id].history[-1].text for t in turns]
    first = [live.run.trajectories[f"{t.conversation_id}<::>{t.turn - 1}"].answer for t in turns]
    assert turns and own == first, "its own earlier answers are the history"


def test_an_address_from_command_to_report(documents, whole, tmp_path):
    with served(documents) as url:
        made = evaluate(url, SAMPLE, tmp_path / "run", limit=12, in_flight=4, progress=False)
        live = evaluate(url, SAMPLE, tmp_path / "live", live=True, limit=12, progress=False)
    assert answers(made.run).items() <= whole.items() and len(made.run.trajectories) == 12
    assert {"retrieve", "generate"} <= set(made.blame.counts("stage"))
    assert made.scores.of("RougeL") and url in made.page.read_text("utf-8")
    assert len(live.run.trajectories) == 12 and live.blame.judged


@pytest.mark.parametrize("field", ["documents", "sources", "context", "annotations"])
def test_passages_in_the_fields_of_other_servers(field, documents, whole, tmp_path):
    with served(documents, "--field", field) as url:
        run = asked(system_named(url), tmp_path / "run")
    assert answers(run) == whole
    texts = {c.text for c in run.passages.values()}
    known = {json.loads(line)["text"] for line in documents.read_text("utf-8").splitlines()}
    assert texts and texts <= known


@pytest.mark.parametrize("trouble", ["busy", "broken", "drop", "slow"])
def test_a_server_in_trouble_is_asked_again(trouble, documents, whole, tmp_path):
    changes = {"outside.timeout": 0.8, "outside.patience": 60.0}
    with served(documents, "--trouble", trouble) as url:
        run = asked(system_named(url), tmp_path / "run", 24, **changes)
        assert count(url)["all"] == 24 + 8, "each third question twice, none more often"
    assert len(run.trajectories) == 24 and answers(run).items() <= whole.items()


def test_a_server_that_fails_is_asked_three_times(documents, tmp_path):
    with served(documents, "--trouble", "dead") as url:
        run = asked(system_named(url), tmp_path / "run", 8)
        assert count(url)["all"] == 3 * 8
    assert all(t.failed and "500" in t.error.message for t in run.trajectories.values())


def test_a_server_that_is_gone_is_no_refusal(documents, tmp_path):
    with served(documents) as url:
        address = url
    changes = {"outside.timeout": 0.5, "outside.patience": 0.5}
    gone = asked(system_named(address), tmp_path / "gone", 8, **changes)
    assert len(gone.trajectories) == 8
    assert all(t.failed and not t.refused for t in gone.trajectories.values())
    said = next(iter(gone.trajectories.values())).error
    assert said.type == "Unreachable" and "Traceback" not in said.message


def test_a_run_that_is_killed_goes_on_and_asks_nothing_twice(documents, whole, tmp_path):
    out = tmp_path / "run"
    with served(documents, "--trouble", "slow") as url:
        command = ["run", "--system", url, "--tasks", SAMPLE, "--out", out]
        with subprocess.Popen(
            [MTRAG, *map(str, command)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as first:
            until = time.monotonic() + 120
            while time.monotonic() < until and (
                not (out / "trajectories.jsonl").exists()
                or (out / "trajectories.jsonl").read_bytes().count(b"\n") < 20
            ):
                time.sleep(0.05)
            first.send_signal(signal.SIGKILL)
        done = (out / "trajectories.jsonl").read_bytes().count(b"\n")
        assert 20 <= done < 81
        second = mtrag(*command)
        assert second.returncode == 0, second.stderr
        assert count(url)["all"] <= 81 + 8, "at most what was in flight is asked again"
    assert answers(Run(out)) == whole
