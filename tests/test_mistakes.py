"""A command that makes no sense ends with one line and exit code 2, and changes no file. The commands are made from the
parsers, so that a new command is tested without being named here. A scripted model stands in for the laptop's."""

import contextlib
import errno
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
import typer

from mtrag_nb.app.cli import COMMANDS, GROUPS, command_line, main
from mtrag_nb.app.data import ingest
from mtrag_nb.app.run import run
from mtrag_nb.app.evaluate import evaluate
from mtrag_nb.app.measure import judge
from mtrag_nb.core import settings as core_settings
from mtrag_nb.core.files import write_jsonl
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import Passage, SettingsError
from mtrag_nb.data.mtrag import sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems import stages
from mtrag_nb.systems.system_yaml import _changes_of, system_yaml_changes
from mtrag_nb.systems.outside import configure
from tests.support.volume import few
from tests.test_attacks import SPANS, mutated

# All paths are relative to the folder that `workplace` makes; what a wrong command writes goes to `odd`.
SAMPLE, INDEX, LIBRARY, DONE = "reference.jsonl", "index", "library", "run"
QRELS = str(sample_dir() / "retrieval_tasks" / "govt" / "qrels" / "dev.tsv")
GOVT = [str(p) for p in sample_corpus() if "govt" in p.name]
INGEST = ["ingest", "--passages", *GOVT, "--index", INDEX]
RUN = [
    "run",
    "--tasks",
    SAMPLE,
    "--domain",
    "govt",
    "--limit",
    "3",
    "--index",
    INDEX,
    "--out",
]
ADD = ["library", "add", "notes.md", "--collection", "own", "--index"]

CONTENTS = {
    "blank.jsonl": b"\n\n",
    "binary.jsonl": bytes(range(256)),
    "torn.jsonl": b'{"task_id": "a',
    "array.jsonl": b"[1, 2]\n",
    "null.jsonl": b"null\n",
    "words.jsonl": b"hello\n",
    "other.jsonl": b'{"a": 1}\n',
    "deep.jsonl": b"[" * 100_000 + b"\n",
    "page.jsonl": b"<html></html>\n",
    "empty.jsonl": b"",
    "half.jsonl.gz": b"\x1f\x8b\x08\x00PK\x03\x04abc",
    "half.zip": b"\x1f\x8b\x08\x00PK\x03\x04abc",
}
TOO_LONG = f"{'a' * 300}/x"
FILES = [f"files/{name}" for name in sorted(CONTENTS)]
NO_FILES = [*FILES, "files", "none.jsonl", f"{SAMPLE}/x.jsonl", TOO_LONG, "/dev/null"]
NO_PLACES = [f"{SAMPLE}/x", TOO_LONG, "/dev/null/x", "locked/x"]


def read_only(folder: Path) -> contextlib.ExitStack:
    "Whatever writes below a folder fails as on a mount that can only be read, also for a user who may write everywhere."

    def inside(path):
        return os.path.abspath(os.fsdecode(path)).startswith(str(folder))

    def refusing(call, writes=lambda args: True):
        def guarded(path, *args, **options):
            if writes(args) and not isinstance(path, int) and inside(path):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return call(path, *args, **options)

        return guarded

    def opens_to_write(args):
        return args[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)

    def mode_writes(args):
        return set("wax+") & set(args[0] if args else "r")

    mocks = contextlib.ExitStack()
    for name in ("mkdir", "rename", "replace", "unlink", "truncate"):
        mocks.enter_context(patch.object(os, name, refusing(getattr(os, name))))
    mocks.enter_context(patch.object(os, "open", refusing(os.open, opens_to_write)))
    mocks.enter_context(patch.object(io, "open", refusing(io.open, mode_writes)))
    return mocks


def outcome(*argv: object) -> tuple[int | str, list[str]]:
    "Exit code of a command and the lines on stderr without progress bars; an exception that gets out is a traceback."
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(a) for a in argv])
        except SystemExit as e:
            code = e.code
        except Exception as e:
            return "TRACEBACK", [f"{type(e).__name__}: {e}"[:200]]
    lines = err.getvalue().splitlines()
    return code, [
        line for line in lines if line and "\r" not in line and "%|" not in line
    ]


ENGINES_OWN = {
    ".lock",
    "segment.json",
    "wal",
}  # written anew whenever an index is opened


def checksums() -> dict[str, str]:
    "Of every file that a wrong command must leave as it is."
    kept = [
        p
        for folder in (INDEX, DONE, "files")
        for p in Path(folder).rglob("*")
        if p.is_file()
    ]
    return {
        str(p): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in (Path(SAMPLE), *kept)
        if not ENGINES_OWN & {p.name, p.parent.name}
    }


@pytest.fixture(scope="module", autouse=True)
def workplace(tmp_path_factory) -> Iterator[None]:
    "A folder with an index, a run with scores, a library and files that are none; no command may have changed them at the end."
    folder = tmp_path_factory.mktemp("mistakes")

    def with_script(self, settings):
        make(
            self, settings, chat=ScriptedChat(first_sentence), embedder=HashEmbedder(64)
        )

    make = Models.__init__
    with pytest.MonkeyPatch.context() as patched, read_only(folder / "locked"):
        patched.chdir(folder)
        patched.setattr(Models, "__init__", with_script)
        # a command looks for systems in all installed packages: here that would be most of its time
        patched.setattr(
            core_settings, "entry_points", cache(core_settings.entry_points)
        )
        shutil.copy(sample_dir() / SAMPLE, SAMPLE)
        Path("notes.md").write_text(
            "# Fares\n\nA ticket for the ferry costs six crowns.\n"
        )
        Path("files").mkdir()
        for name, data in CONTENTS.items():
            (Path("files") / name).write_bytes(data)
        score = ["score", DONE, "--encoder", "none"]
        for argv in (INGEST, [*RUN, DONE], score, [*ADD, LIBRARY]):
            code, lines = outcome(*argv)
            assert code == 0, lines
        before = checksums()
        yield
        assert checksums() == before, (
            "a command changed a file that it was only to read"
        )


def assert_refused(commands: Iterable[list]) -> None:
    "Each ends with exit code 2 and a line that says why. (A file that `check` finds invalid: exit code 1.)"
    wrong, count = [], 0
    for count, argv in enumerate(commands, 1):
        code, lines = outcome(*argv)
        refused = code == 2 and lines and lines[-1].startswith("mtrag")
        if not refused and not (code == 1 and argv[0] == "check"):
            wrong.append((code, [str(a)[:60] for a in argv], lines[-1:]))
        shutil.rmtree("odd", ignore_errors=True)
    assert count and not wrong, wrong


BARE, NONE, LOCKED = "bare.jsonl", ["run", "--limit", "0"], [*RUN, "locked/x"]
SAID = {  # the last line -> the command
    "mtrag: Invalid value for '--limit': expected a whole number of at least 1, not '0'. "
    "`mtrag run --help` lists what it takes": NONE,
    "mtrag: No such option: --sytem (Possible options: --set, --store, --system). "
    "`mtrag run --help` lists what it takes": ["run", "--sytem", "quote"],
    "mtrag: locked/x: cannot be written here. Name a folder that may be written to": LOCKED,
    "mtrag: bare.jsonl:1: neither an answer nor contexts. A prediction has `predictions` (text) or "
    "`contexts` (document_id, score), or both": ["score", BARE, "--encoder", "none"],
}


@pytest.mark.parametrize("said", SAID)
def test_the_line_says_what_is_wanted(said):
    write_jsonl(BARE, [{"task_id": "a<::>1", "answer": 12}])
    code, lines = outcome(*SAID[said])
    assert code == 2 and lines[-1] == said
    assert len(lines) == 1 or "locked" not in said


def disk_that(fails: int) -> patch:
    "Every file that takes the place of another fails with this number."

    def fail(old, new, **options):
        raise OSError(fails, os.strerror(fails), str(new))

    return patch.object(os, "replace", fail)


def test_a_full_disk_is_one_line_and_another_fault_of_it_a_traceback():
    with disk_that(errno.ENOSPC):
        code, lines = outcome(*RUN, "full")
    assert (
        code == 1
        and "the disk is full" in lines[-1]
        and not list(Path("full").glob("*.part"))
    )
    assert not Path("full/manifest.json").exists()
    with disk_that(errno.EIO):
        code, lines = outcome(*RUN, "full")
    assert code == "TRACEBACK" and os.strerror(errno.EIO) in lines[0]


def test_an_interrupt_says_that_what_is_finished_is_kept():
    def interrupted():
        "Stop."
        raise KeyboardInterrupt

    with patch.dict(GROUPS["Data and indexes"], {"doctor": interrupted}):
        code, lines = outcome("doctor")
    assert code == 130 and lines[-1].startswith("mtrag: interrupted; what is finished")


def test_a_reader_that_has_had_enough_ends_a_command_without_a_word():
    doctor = "from mtrag_nb.app.cli import main; raise SystemExit(main(['doctor']))"
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    piped = subprocess.Popen([sys.executable, "-c", doctor], **both)
    piped.stdout.close()
    assert (piped.wait(60), piped.stderr.read()) == (1, "")


# Arguments


ODD_NUMBERS = ("0", "-1", "nan", "-inf", "x", "1e400", "²", "9" * 5000, "0x10", "--")


def parameters_of(command: str) -> list:
    "The parameters of a command as typer has them, without help."
    every = typer.main.get_command(command_line()).commands[command].params
    return [p for p in every if p.name != "help"]


def flag_of(parameter: object) -> str:
    "What is typed for an option; empty for an argument."
    return parameter.opts[0] if parameter.opts[0].startswith("-") else ""


def needed(parameters: list, without: object = None) -> list[str]:
    "The arguments that a command cannot do without."
    out = []
    for parameter in parameters:
        if parameter.required and parameter is not without:
            out += [word for word in (flag_of(parameter), "x") if word]
    return out


def odd_values(parameter: object) -> Iterator[list[str]]:
    "What may not stand behind an option, or that nothing does."
    metavar = parameter.metavar or ""
    if getattr(parameter, "is_flag", False):
        return
    yield []
    yield [""]
    if "|" in metavar and metavar.islower():
        yield from (["X"], ["laptop "], ["0"])
    if metavar in ("N", "M"):
        yield from ([number] for number in ODD_NUMBERS)


def odd_arguments(command: str) -> Iterator[list[str]]:
    "A command with an option too many, without what it needs, and with each option wrong in each way."
    parameters = parameters_of(command)
    yield [command, *needed(parameters), "--colour", "red"]
    if needed(parameters):
        yield [command]
    for parameter in filter(flag_of, parameters):
        rest = [command, *needed(parameters, parameter)]
        if parameter.required:
            yield rest
        for value in odd_values(parameter):
            yield [*rest, flag_of(parameter), *value]


@pytest.mark.parametrize("command", few(COMMANDS, 6))
def test_odd_arguments_are_refused(command):
    assert_refused(odd_arguments(command))


# Settings


ODD_SETTINGS = """seed = =3 seed.x=1 chat=foo stages=x a.b.c=1 stages.grade=loud stages..grade=x .=1 chunks.child_size=0
chunks.child_overlap=400 stages.rewrite= embedder.device=tpu chat.dtype=int3 chat.quantization=q9 reranker.name=x batch_size=0
retrieval.top_k=-1 chat.api_key_env=sk-1234
seed=-1 seed=99999999999999999999 chat.name= stages.max_retries=1000000 stages.refusal_text=""".split()


def numbers_of(settings: object, before: str = "") -> Iterator[tuple[str, object]]:
    "Keys and values of the numbers and switches of settings."
    for f in fields(settings):
        value = getattr(settings, f.name)
        if is_dataclass(value):
            yield from numbers_of(value, f"{before}{f.name}.")
        elif isinstance(value, (bool, int, float)):
            yield before + f.name, value


NO_SWITCHES = ("maybe", "2", "nan")
NO_NUMBERS = ("nan", "inf", "x", "9" * 5000, "1e400", "²")


@pytest.mark.parametrize("key, value", list(numbers_of(load_settings())))
def test_a_setting_of_another_kind_is_refused(key, value):
    odd = NO_SWITCHES if isinstance(value, bool) else NO_NUMBERS
    assert_refused(([*RUN, "odd", "--set", f"{key}={o}"] for o in odd))


def test_keys_and_choices_that_there_are_not_are_refused():
    assert_refused(([*RUN, "odd", "--set", change] for change in ODD_SETTINGS))


# Files and places


SCORE = ["score", DONE, "--encoder", "none", "--reference", SAMPLE, "--qrels", QRELS]
JUDGE = ["judge", DONE, "--way", "choice", "--reference", SAMPLE]
CHECK = [
    "check",
    "--task",
    "C",
    "--input",
    SAMPLE,
    "--predictions",
    f"{DONE}/predictions.jsonl",
]
OUT = [SAMPLE, *NO_PLACES]
EXCHANGED = [  # a command that is right; an option, or the place of an argument; what stands there instead
    ([*INGEST[:-1], "odd"], {"--passages": NO_FILES, "--index": OUT}),
    ([*RUN, "odd"], {"--tasks": NO_FILES, "--index": NO_FILES, "--out": OUT}),
    (CHECK, {"--input": NO_FILES[2:], "--predictions": NO_FILES[4:]}),
    (
        [*SCORE, "--out", "odd"],
        {1: NO_FILES, "--reference": NO_FILES, "--qrels": NO_FILES, "--out": OUT},
    ),
    ([*JUDGE, "--out", "odd"], {1: NO_FILES, "--reference": NO_FILES, "--out": OUT}),
    (["report", DONE, "--out", "page.html"], {1: NO_FILES, "--out": [INDEX, *OUT]}),
    ([*ADD, "odd"], {2: NO_FILES, "--index": OUT}),
    (["library", "list", "--index", LIBRARY], {"--index": [SAMPLE, INDEX, *NO_FILES]}),
    (
        ["library", "remove", "notes.md", "--index", LIBRARY],
        {2: ["x.md", "../notes.md"], "--index": NO_FILES},
    ),
    (["ask", "--index", INDEX], {"--index": NO_FILES}),
    (["demo", "--out", "odd"], {"--out": OUT}),
]


@pytest.mark.parametrize(
    "command, option, values",
    [
        (argv, option, values)
        for argv, odd in EXCHANGED
        for option, values in odd.items()
    ],
    ids=[f"{argv[0]} {option}" for argv, odd in EXCHANGED for option in odd],
)
def test_a_wrong_file_or_place_is_refused(command, option, values):
    at = option if isinstance(option, int) else command.index(option) + 1
    assert_refused(([*command[:at], value, *command[at + 1 :]] for value in values))


# Damaged folders. The torn last line of a log is not wrong, the run resumes: tests/test_fuzz.py.


def damages(data: bytes, as_json: bool) -> Iterator[bytes]:
    "A file's content, damaged: exchanged, cut off, one key of another kind."
    yield from (b"\x00\xff garbage", b"[1]\n", b"7\n", b'{"a": 1}\n', b"null\n")
    if as_json:
        yield from (data[: len(data) * n // 6] for n in range(6))
        whole = json.loads(data)
        for key in (k for k in whole if k not in ("sessions", "corpus", "placed")):
            yield json.dumps(whole | {key: ["x"]}).encode()


def damaged_copies(folder: str, name: str) -> Iterator[str]:
    "Copies of a folder in `damaged`, one after the other, each with its file `name` damaged in another way."
    for content in damages((Path(folder) / name).read_bytes(), name.endswith(".json")):
        shutil.rmtree("damaged", ignore_errors=True)
        shutil.copytree(folder, "damaged")
        (Path("damaged") / name).write_bytes(content)
        yield "damaged"


@pytest.mark.parametrize(
    "name", ["manifest.json", "trajectories.jsonl", "passages.jsonl"]
)
@pytest.mark.parametrize("command", ["score", "report"])
def test_a_damaged_run_is_refused(command, name):
    rest = {
        "score": ["--encoder", "none", "--out", "odd"],
        "report": ["--out", "page.html"],
    }
    assert_refused(
        ([command, run, *rest[command]] for run in damaged_copies(DONE, name))
    )


@pytest.mark.parametrize("name", ["manifest.json", "documents.json"])
def test_a_damaged_index_is_refused(name):
    commands = (
        [*RUN[:8], index, "--out", "odd"] for index in damaged_copies(INDEX, name)
    )
    assert_refused(commands)


# Malformed files: valid ones with bytes exchanged, cut out, doubled, put in, by chance, given to every command that reads files.
# `make test` gives four of each to one command, `make test-all` to all, `make test-attacks` (MTRAG_ATTACKS) a hundred.

EACH = 100 if os.environ.get("MTRAG_ATTACKS") else 4
BAD, ODD = "bad", ["--out", "odd"]  # the malformed file, or a copy of a run with one
ON = ["--index", INDEX, "--limit", "1", *ODD]
GIVEN = {  # a valid file -> commands that read it
    "few.jsonl": [
        [
            "check",
            "--task",
            "C",
            "--input",
            BAD,
            "--predictions",
            f"{DONE}/predictions.jsonl",
        ],
        ["score", DONE, "--encoder", "none", "--reference", BAD, *ODD],
        ["run", "--tasks", BAD, *ON],
        ["live", "--tasks", BAD, *ON],
        ["judge", DONE, "--way", "choice", "--reference", BAD, *ODD],
        ["report", DONE, "--reference", BAD, "--out", "page.html"],
        ["card", DONE, "--reference", BAD],
        ["cases", DONE, "--reference", BAD, "--out", "page.html"],
        ["blame", DONE, "--reference", BAD],
        ["audit", DONE, "--reference", BAD, *ON],
        ["ladder", DONE, "--reference", BAD, *ON],
        ["import", f"{DONE}/predictions.jsonl", "--tasks", BAD, *ODD],
    ],
    f"{DONE}/predictions.jsonl": [
        ["check", "--task", "C", "--input", SAMPLE, "--predictions", BAD],
        ["import", BAD, "--tasks", SAMPLE, *ODD],
        ["score", BAD, "--encoder", "none", "--reference", SAMPLE, *ODD],
    ],
    "spans.jsonl": [["import", BAD, *ODD], ["import", BAD, "--tasks", SAMPLE, *ODD]],
    "qrels.tsv": [
        [
            "score",
            DONE,
            "--encoder",
            "none",
            "--reference",
            SAMPLE,
            "--qrels",
            BAD,
            *ODD,
        ],
        ["coverage", "--index", INDEX, "--qrels", BAD],
    ],
    "corpus.jsonl": [["ingest", "--passages", BAD, "--index", "odd"]],
    "notes.md": [["library", "add", BAD, "--index", "odd"]],
    "kinds.yaml": [["import", "spans.jsonl", "--kinds", BAD, *ODD]],
    "system.yaml": [["run", "--tasks", "few.jsonl", "--config", BAD, *ON]],
    DONE: [
        ["score", BAD, "--encoder", "none", "--reference", SAMPLE, *ODD],
        ["report", BAD, "--out", "page.html"],
        ["export", BAD, "--to", "langfuse", *ODD],
        ["merge", BAD, DONE, *ODD],
        ["card", BAD],
        ["gate", DONE, BAD],
        ["replay", BAD, "--at", "retrieve", "--set", "question=What?", *ON],
        ["judge", BAD, "--way", "choice", "--reference", SAMPLE, *ODD],
    ],
}
IN_RUN = (
    "manifest.json",
    "trajectories.jsonl",
    "passages.jsonl",
    "tasks.jsonl",
    "calls.jsonl",
)


@pytest.fixture(scope="module")
def small_files() -> None:
    "The valid files that are not there yet, of a few lines each."
    asked = {json.loads(x)["task"]["id"] for x in Path(DONE, "tasks.jsonl").open()}
    lines = [x for x in Path(SAMPLE).open() if json.loads(x)["task_id"] in asked]
    Path("few.jsonl").write_text("".join(lines))
    Path("corpus.jsonl").write_text("".join(list(Path(GOVT[0]).open())[:5]))
    Path("qrels.tsv").write_text("".join(list(Path(QRELS).open())[:9]))
    Path("spans.jsonl").write_bytes(SPANS)
    Path("kinds.yaml").write_text("a: generate\nb: retrieve\n")
    Path("system.yaml").write_text(
        "llm:\n  temperature: 0.1\nchunking: {parent_size: 900}\n"
    )


CASES: list[object] = []  # a file, and a command that reads it
for file, commands in GIVEN.items():
    CASES += few([(file, command) for command in commands])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_malformed_file_ends_no_command_in_a_traceback(case, small_files):
    name, command = case
    rng, wrong, refused, bad = (
        random.Random(str(command)),
        [],
        0,
        Path(BAD + Path(name).suffix),
    )
    for n in range(EACH):
        file, odd = (name, bad)
        if name == DONE:
            shutil.rmtree(bad, ignore_errors=True)
            shutil.copytree(DONE, bad)
            file = odd = bad / IN_RUN[n % len(IN_RUN)]
        data = mutated(Path(file).read_bytes(), rng)
        odd.write_bytes(data)
        code, lines = outcome(*(str(bad) if x == BAD else x for x in command))
        refused += code == 2
        if code not in (0, 1, 2) or code == 2 and not lines[-1].startswith("mtrag"):
            wrong.append((code, odd.name, lines[-1:], data[:400]))
        shutil.rmtree("odd", ignore_errors=True)
    shutil.rmtree(bad) if bad.is_dir() else bad.unlink()
    assert not wrong and (refused or EACH < 9 or name == "notes.md")


def test_a_prompt_of_a_stage_that_asks_no_model_is_refused():
    for key in ("grade.system", "check.user", "rewrite.system"):
        asked = {f"prompts.{key}": "Is it of use?", "stages.rewrite": "never"}
        with pytest.raises(
            SettingsError, match=f"{key} is not read: stages.{key.split('.')[0]} is '"
        ):
            configure("self_crag", changes=asked)
    assert configure("self_crag", "t4", {"prompts.grade.system": "Of use?"}).prompts
    by_gate = {"prompts.grade.system": "Of use?", "ncl.gate": "yesno"}
    assert configure("ncl", changes=by_gate).stages.grade == "cosine"


def test_a_configuration_file_with_another_value_than_a_constant_is_refused(tmp_path):
    path = tmp_path / "system.yaml"
    path.write_text(
        "memory:\n  summarize_every: 5\n  max_messages: 12\n", encoding="utf-8"
    )
    problem = "agents.messages is 12: it is 10 and no setting"
    with pytest.raises(SettingsError, match=problem):
        system_yaml_changes(path, configure("agents"))
    path.write_text(
        "memory:\n  summarize_every: 5\n  max_messages: 10\n", encoding="utf-8"
    )
    changes = system_yaml_changes(path, configure("agents"))
    assert configure("agents", changes=changes) == configure("agents")


def test_a_prompt_that_is_edited_changes_no_run_that_has_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "data_dir", lambda part: tmp_path)
    file = tmp_path / "edited_grade.system.md"
    file.write_text("Source: here\nGrade it.\n")
    begun = stages.read_prompts("edited")
    file.write_text("Source: here\nGrade it another way.\n")
    assert stages.read_prompts("edited") == begun == {"grade.system": "Grade it."}


@pytest.mark.parametrize("name", ["self_crag", "ncl", "nexus"])
def test_a_file_for_the_agents_is_refused_by_another_system_in_words(name):
    asked = {"retrieval.relevance_threshold": 7.0}
    with pytest.raises(SettingsError, match="unknown setting 'agents.grade_threshold'"):
        configure(name, changes=_changes_of(asked, configure(name)))


def test_a_limit_that_is_given_as_text_is_named():
    said = "limit is a whole number, not the text '2'"
    with pytest.raises(SettingsError, match=said):
        run(SAMPLE, "odd", limit="2")
    with pytest.raises(SettingsError, match=said):
        judge([DONE], limit="2")
    with pytest.raises(SettingsError, match=said):
        evaluate(str, SAMPLE, limit="2")


@pytest.mark.parametrize(
    "odd", ["corpus.jsonl", Path("corpus.jsonl"), {"a": "b"}, [{"text": "a"}]]
)
def test_what_is_no_passage_is_named_before_an_index_is_begun(odd, tmp_path):
    with pytest.raises(
        SettingsError, match=r"wanted are passages, not [\w ]+: .*read_corpus"
    ):
        build_index(odd, tmp_path / "index", HashEmbedder())
    assert not (tmp_path / "index").exists()


def test_passages_are_no_files_to_ingest(tmp_path):
    with pytest.raises(
        SettingsError, match="ingest takes files, not a Passage; build_index"
    ):
        ingest([Passage("a", "A dog costs four crowns.")], tmp_path / "index")


@pytest.mark.parametrize("place", ["files", "notes.md", DONE])
def test_a_folder_of_other_things_is_no_library_to_come(place):
    for command in (["serve", "--out", "odd", "--library"], ADD):
        code, lines = outcome(*command, place)
        assert code == 2
        assert (
            "a folder that is not there, or is empty" in lines[-1]
            or "this is no index" in lines[-1]
        )
    assert not Path("odd").exists()


def test_a_command_says_in_one_line_whose_threshold_stays():
    words = "run --tasks none.jsonl --out odd --set stages.grade=scale".split()
    command = [
        sys.executable,
        "-c",
        "from mtrag_nb.app.cli import main; main()",
        *words,
    ]
    said = subprocess.run(command, capture_output=True, text=True).stderr.splitlines()
    assert said[0].startswith(
        "mtrag: stages.grade_threshold=0.19 was not chosen for scale: set it"
    )
    assert len(said) == 2
