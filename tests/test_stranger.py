"""Opening is only reading: a stranger's run folder, trace, document or table runs nothing, asks nobody, reads no variable."""

import json
import os
import pickle
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from mtrag_nb.app.cli import COMMANDS, command_line, main
from mtrag_nb.core.types import MTRAGError
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.serve.documents import parse_document

SAMPLE = Path(__file__).parents[1] / "data" / "recorded" / "sample_self_crag_laptop"
SECRET = "SECRET_OF_THIS_MACHINE"
CONNECTED: list[object] = []  # addresses that this process connected to


def _hook(event: str, arguments: tuple) -> None:
    if event == "socket.connect":
        CONNECTED.append(arguments[1])


sys.addaudithook(_hook)

EVIL = """
import os, pathlib
pathlib.Path({marker!r}).write_text("ran")
def f(*args, **kw):
    pathlib.Path({marker!r}).write_text("ran")
    return True
class Pickled:
    def __reduce__(self):
        return (os.system, ("touch " + {marker!r},))
"""


class Trap:
    "A folder with evil code in every place, and a server that counts who comes."

    def __init__(self, folder: Path, port: int):
        self.folder, self.port = folder, port
        self.marker = folder / "ran.txt"
        self.calls = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@pytest.fixture
def trap(tmp_path, monkeypatch) -> Iterator[Trap]:
    server = socket.create_server(("127.0.0.1", 0))
    t = Trap(tmp_path, server.getsockname()[1])

    def count() -> None:
        while True:
            try:
                line, _ = server.accept()
            except OSError:
                return
            t.calls += 1
            line.close()

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    run = tmp_path / "theirs"
    shutil.copytree(SAMPLE, run)
    code = EVIL.format(marker=str(t.marker))
    for name in ("evil.py", "sitecustomize.py", "conftest.py", "mtrag_plugin.py"):
        (run / name).write_text(code)
    (run / "weights").mkdir()
    (run / "weights" / "pytorch_model.bin").write_bytes(evil_pickle(t.marker))
    (run / "weights" / "config.json").write_text(
        '{"auto_map": {"AutoModel": "evil.f"}}'
    )
    (run / "weights" / "modeling.py").write_text(code)
    (run / "cache.pkl").write_bytes(evil_pickle(t.marker))
    monkeypatch.chdir(run)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    sys.modules.pop("evil", None)
    CONNECTED.clear()
    yield t
    server.close()
    sys.modules.pop("evil", None)


class _Evil:
    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def evil_pickle(marker: Path) -> bytes:
    return pickle.dumps(_Evil(marker))


def nothing_happened(trap: Trap) -> None:
    assert not trap.marker.exists(), "code of the folder ran"
    assert not trap.calls, "the folder's address was asked"
    assert not CONNECTED, CONNECTED


# What a manifest names: dotted key of the manifest -> value, of a trap.
MODELS_BY_SERVER = {
    "settings.stages.rewrite": lambda t: "always",
    "settings.stages.grade": lambda t: "verdict",
    "settings.stages.check": lambda t: "verdict",
}
HOSTILE: dict[str, dict[str, Callable[[Trap], object]]] = {
    "a system in a file": {"identity.system": lambda t: f"{Path.cwd()}/evil.py:f"},
    "a system in a file beside": {"identity.system": lambda t: "evil.py:f"},
    "a file without a name": {"identity.system": lambda t: "evil.py"},
    "a system in a module": {"identity.system": lambda t: "evil:f"},
    "a system of Python": {"identity.system": lambda t: "os:getcwd"},
    "a system with an oracle": {"identity.system": lambda t: "evil:f+published"},
    "a system at an address": {"identity.system": lambda t: t.url},
    "a grader": {"settings.stages.grade": lambda t: "evil.py:f"},
    "a grader in a module": {"settings.stages.grade": lambda t: "evil:f"},
    "a checker": {"settings.stages.check": lambda t: "evil.py:f"},
    "a retriever": {"settings.retrieval.retriever": lambda t: "evil.py:f"},
    "a retriever in a module": {"settings.retrieval.retriever": lambda t: "evil:f"},
    "a postprocessor": {
        "settings.retrieval.postprocessors": lambda t: "evil.py:f evil:f"
    },
    "a parser": {"settings.chunks.parser": lambda t: "evil.py:f"},
    "an embedder": {"settings.embedder.name": lambda t: "evil.py:f"},
    "an embedder of Python": {"settings.embedder.name": lambda t: "os:getcwd"},
    "an embedder's weights": {
        "settings.embedder.name": lambda t: f"{Path.cwd()}/weights"
    },
    "an embedder's server": {"settings.embedder.url": lambda t: t.url},
    "a chat model's weights": {
        "settings.chat.name": lambda t: "./weights",
        **MODELS_BY_SERVER,
    },
    "a chat server": {
        "settings.chat.url": lambda t: t.url,
        "settings.chat.api_key_env": lambda t: "AWS_SECRET_ACCESS_KEY",
        **MODELS_BY_SERVER,
    },
    "a chat server of another kind": {
        "settings.chat.url": lambda t: f"{t.url}#llama.cpp",
        **MODELS_BY_SERVER,
    },
    "a store": {"settings.qdrant_url": lambda t: t.url},
    "a template in a prompt": {
        "settings.prompts": lambda t: {
            "grade.system": "{__class__.__init__.__globals__}"
        }
    },
}


def plant(trap: Trap, names: dict[str, Callable]) -> Path:
    "The manifest of the run folder with hostile values in it."
    path = Path("manifest.json").resolve()
    manifest = json.loads(path.read_text())
    for key, make in names.items():
        *groups, last = key.split(".")
        place = manifest
        for group in groups:
            place = place[group]
        place[last] = make(trap)
    path.write_text(json.dumps(manifest))
    return path.parent


# How each command that takes a run is called; a new one must be added here.
QUIET = ["--limit", "2"]
CALLS: dict[str, list[list[str]]] = {
    "score": [["RUN"]],
    "judge": [["RUN", "--limit", "1"]],
    "report": [["RUN", "--out", "OUT/page.html"]],
    "cases": [["RUN", "--out", "OUT/cases.html"]],
    "blame": [["RUN"], ["RUN", "--prove", *QUIET]],
    "replay": [
        ["RUN", "--out", "OUT/new", *QUIET],
        ["RUN", "--out", "OUT/fresh", "--fresh", *QUIET],
        ["RUN", "--turn", "TURN", "--fresh"],
        ["RUN", "--turn", "TURN", "--set", "query=dogs"],
    ],
    "audit": [["RUN", "--out", "OUT/audit", *QUIET]],
    "ladder": [["RUN", "--out", "OUT/ladder", *QUIET]],
    "gate": [["RUN", "RUN"], ["RUN", "SAMPLE"]],
    "card": [["RUN"]],
    "export": [["RUN", "--out", "OUT/spans.jsonl"]],
    "calibrate": [],
    "merge": [["RUN", "SAMPLE", "--out", "OUT/merged"]],
}
ONE = json.loads((SAMPLE / "trajectories.jsonl").read_text().splitlines()[0])


def filled(words: list[str], run: Path, out: Path) -> list[str]:
    turn = ONE["task_id"]
    names = {"RUN": str(run), "SAMPLE": str(SAMPLE), "TURN": str(turn)}
    return [names.get(w, w.replace("OUT/", f"{out}/")) for w in words]


def takes_a_run(name: str) -> bool:
    "Whether a command has an argument that is the folder of a run, or of files and runs."
    every = typer.main.get_command(command_line()).commands[name].params
    places = [str(p.metavar) for p in every if not p.opts[0].startswith("-")]
    return any(word in place for place in places for word in ("RUN", "OLD", "NEW"))


def test_every_command_that_takes_a_run_is_tried():
    assert {n for n in COMMANDS if takes_a_run(n)} <= CALLS.keys()


FORKING = ("replay", "blame", "audit", "ladder")  # compute turns of the run anew
AT_ONCE = {
    key: make
    for name, keys in HOSTILE.items()
    for key, make in keys.items()
    if name != "a template in a prompt"
}
CASES = [(c, name, HOSTILE[name]) for c in FORKING for name in HOSTILE]
CASES += [(c, "everything", AT_ONCE) for c in CALLS]


@pytest.mark.parametrize(
    "command, name, names", CASES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_a_strangers_run_is_only_read(
    command, name, names, trap, tmp_path, capsys, monkeypatch
):
    if command == "judge":  # with a model that takes no time to load
        fake = ScriptedChat(first_sentence)
        monkeypatch.setattr("mtrag_nb.models.calls.load_chat", lambda *spec: fake)
    run = plant(trap, names)
    (tmp_path / "out").mkdir()
    for words in CALLS[command]:
        code = main([command, *filled(words, run, tmp_path / "out")])
        output = capsys.readouterr()
        nothing_happened(trap)
        assert SECRET not in output.out + output.err
        assert code in (0, 1, 2)
        assert code != 2 or output.err.count("mtrag:") == 1


def test_code_that_the_caller_names_runs(trap, tmp_path, capsys):
    run = plant(trap, HOSTILE["a grader"])
    words = ["replay", str(run), "--out", str(tmp_path / "out"), *QUIET]
    assert main(words) == 2
    assert "name it yourself, --set stages.grade=evil.py:f" in capsys.readouterr().err
    main([*words, "--set", "stages.grade=evil.py:f"])
    assert trap.marker.exists()


def test_a_system_that_the_caller_names_is_loaded(trap, capsys):
    run = plant(trap, HOSTILE["a system in a file beside"])
    assert main(["audit", str(run)]) == 2
    assert "name it yourself: --system evil.py:f" in capsys.readouterr().err
    nothing_happened(trap)
    main(["audit", str(run), "--system", "evil.py:f"])
    assert trap.marker.exists()


EVIL_LINES = {
    "a trace": (
        "import",
        "trace.json",
        lambda t: json.dumps(
            [
                {
                    "trace_id": "1",
                    "span_id": "2",
                    "name": "evil.py:f",
                    "start_time": 1,
                    "end_time": 2,
                    "attributes": {
                        "openinference.span.kind": "CHAIN",
                        "input.value": t.url,
                        "output.value": "os:getcwd",
                        "url.full": t.url,
                        "llm.model_name": "evil:f",
                    },
                }
            ]
        ),
    ),
    "predictions": (
        "import",
        "predictions.jsonl",
        lambda t: json.dumps(
            {"task_id": "1", "question": t.url, "answer": "evil.py:f"}
        ),
    ),
    "pickled traces": ("import", "trace.pkl", lambda t: evil_pickle(t.marker)),
    "a pickle that calls itself JSON": (
        "import",
        "t.json",
        lambda t: evil_pickle(t.marker),
    ),
    "a table of questions": (
        "run",
        "questions.jsonl",
        lambda t: json.dumps(
            {
                "question": t.url,
                "system": "evil.py:f",
                "answer": "x",
                "passages": [{"url": t.url, "text": "x"}],
            }
        ),
    ),
    "a pickled table": ("run", "questions.jsonl", lambda t: evil_pickle(t.marker)),
}


@pytest.mark.parametrize("kind", EVIL_LINES)
def test_a_strangers_table_or_trace_is_only_read(kind, trap, tmp_path, capsys):
    command, name, make = EVIL_LINES[kind]
    data = make(trap)
    Path(name).write_bytes(data if isinstance(data, bytes) else data.encode())
    words = [name, "--out", str(tmp_path / "out")]
    if command == "run":
        Path("own.py").write_text("def answer(messages):\n    return 'x'\n")
        words = ["--system", "own.py:answer", "--tasks", *words]
    main([command, *words])
    nothing_happened(trap)


DOCUMENTS = {
    "page.html": lambda t: (
        f"<script src={t.url}></script><img src='{t.url}/x.png'><p>It costs 10.</p>"
    ),
    "page.md": lambda t: f"# Fares\n![x]({t.url}/x.png)\nIt costs 10.",
    "external.xml": lambda t: f"<!DOCTYPE a [<!ENTITY x SYSTEM '{t.url}'>]><a>&x;</a>",
    "entity.html": lambda t: f"<!DOCTYPE html SYSTEM '{t.url}'><p>It costs 10.</p>",
    "link.txt": lambda t: f"{t.url} evil.py:f",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_strangers_document_is_only_read(name, trap, tmp_path):
    Path(name).write_text(DOCUMENTS[name](trap))
    try:
        parse_document(name)
    except MTRAGError:
        pass
    nothing_happened(trap)


@pytest.mark.parametrize("place", ["os:getcwd", "json:loads", "math:pi"])
def test_what_is_no_embedder_is_one_error(place, tmp_path, capsys):
    corpus = tmp_path / "c.jsonl"
    corpus.write_text(
        json.dumps({"id": "1", "text": "It costs 10.", "domain": "fares"}) + "\n"
    )
    words = ["ingest", "--passages", str(corpus), "--index", str(tmp_path / "i")]
    assert main([*words, "--set", f"embedder.name={place}"]) == 2
    assert "no embedding model" in capsys.readouterr().err
