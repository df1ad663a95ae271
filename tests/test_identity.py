"""A changed system is another one, and one that only looks changed is the same: in one process and across several."""

import functools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mtrag_nb import evaluate
from mtrag_nb.core.identity import identify_program, keep_identity_of
from mtrag_nb.core.settings import load_place
from mtrag_nb.core.types import SettingsError
from mtrag_nb.systems.outside import outside

# Each row: a program as text, and the same with a change in it. `answer` is the system.
HEAD = "import functools, logging\nlogger = logging.getLogger('x')\n"
NUMBER = "PRICE = 10\ndef answer(messages):\n    return f'It costs {PRICE}.'\n"
NESTED = "K = 1\ndef inner():\n    return K\ndef answer(messages):\n    return str(inner())\n"
CLASS = """
class Rag:
    unit = "crowns"
    def __init__(self, k):
        self.k = k
        self.calls = 0
        self.log = []
    def price(self):
        return self.k
    def __call__(self, messages):
        self.calls += 1
        self.log.append(len(messages))
        return f"{self.price()} {self.unit}"
    def ask(self, messages):
        return f"{self.price()} {self.unit}"
answer = Rag(10)
"""
SLOTS = """
class Rag:
    __slots__ = ("k",)
    def __init__(self, k):
        self.k = k
    def __call__(self, messages):
        return str(self.k)
answer = Rag(10)
"""
DATA = """
from dataclasses import dataclass, field
@dataclass(frozen=True)
class Config:
    k: int = 10
    words: tuple = ("a", "b")
@dataclass
class Rag:
    config: Config = field(default_factory=Config)
    def __call__(self, messages):
        return str(self.config.k)
answer = Rag()
"""
PYDANTIC = """
from pydantic import BaseModel, PrivateAttr
class Rag(BaseModel):
    k: int = 10
    _hidden: int = PrivateAttr(default=1)
    def __call__(self, messages):
        return str(self.k + self._hidden)
answer = Rag()
"""
DECORATED = """
def times(n):
    def wrap(function):
        @functools.wraps(function)
        def inner(messages):
            return function(messages) * n
        return inner
    return wrap
@times(2)
def answer(messages):
    return "x"
"""
CLOSURE = """
def make(k, words=("a",)):
    def answer(messages):
        return f"{k} {words}"
    return answer
answer = make(10)
"""
PARTIAL = """
def costs(messages, price, unit="crowns"):
    return f"{price} {unit}"
answer = functools.partial(costs, price=10)
"""
DICTS = """
PROMPTS = {"system": "Say it.", "shots": [{"q": "a", "a": "b"}], "stop": {"x", "y"}}
def answer(messages):
    return PROMPTS["system"]
"""
ARRAY = """
import numpy as np
WEIGHTS = np.array([1.0, 2.0])
def answer(messages):
    return str(WEIGHTS.sum())
"""
GRAPH = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
class State(TypedDict, total=False):
    question: str
    documents: list
    answer: str
def make(k):
    def generate(state):
        return {"answer": f"It costs {k}."}
    def route(state):
        return "generate"
    graph = StateGraph(State)
    graph.add_node("retrieve", lambda state: {"documents": ["It costs 10."]})
    graph.add_node("generate", generate)
    graph.add_edge(START, "retrieve")
    graph.add_conditional_edges("retrieve", route, ["generate", END])
    graph.add_edge("generate", END)
    return graph.compile()
answer = make(10)
"""
ENGINE = """
from llama_index.core import Document, MockEmbedding, PromptTemplate, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
index = VectorStoreIndex.from_documents(
    [Document(text="It costs 10."), Document(text="Dogs are free.")],
    embed_model=MockEmbedding(8),
)
answer = index.as_query_engine(
    similarity_top_k=2,
    llm=MockLLM(max_tokens=5),
    node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.0)],
    text_qa_template=PromptTemplate("Answer: {context_str} {query_str}"),
)
"""
FLOW = """
from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent
class Flow(Workflow):
    top_k = 3
    def __init__(self, prompt="Say it.", **how):
        super().__init__(**how)
        self.prompt = prompt
    @step
    async def work(self, event: StartEvent) -> StopEvent:
        return StopEvent(result=self.prompt)
answer = Flow(timeout=20)
"""
CHANGES = {  # name -> program, what is replaced, and by what
    "a number of the module": (NUMBER, "10", "12"),
    "a number behind a helper": (NESTED, "K = 1", "K = 2"),
    "the source": (NUMBER, "It costs", "The price is"),
    "a closure": (CLOSURE, "make(10)", "make(12)"),
    "a default of the maker": (CLOSURE, '("a",)', '("b",)'),
    "a default": (NUMBER, "answer(messages)", "answer(messages, k=2)"),
    "an argument of a partial": (PARTIAL, "price=10", "price=12"),
    "a default below a partial": (PARTIAL, '"crowns"', '"euros"'),
    "an attribute": (CLASS, "Rag(10)", "Rag(12)"),
    "an attribute of the class": (CLASS, '"crowns"', '"euros"'),
    "another method": (CLASS, "return self.k", "return self.k + 1"),
    "an attribute of a bound method": (CLASS, "Rag(10)", "Rag(12).ask"),
    "a slot": (SLOTS, "Rag(10)", "Rag(12)"),
    "a nested dataclass": (DATA, "k: int = 10", "k: int = 12"),
    "a tuple in a dataclass": (DATA, '"b")', '"c")'),
    "a field of pydantic": (PYDANTIC, "k: int = 10", "k: int = 12"),
    "a private field of pydantic": (PYDANTIC, "default=1", "default=2"),
    "an argument of a decorator": (DECORATED, "@times(2)", "@times(3)"),
    "the code of a decorator": (DECORATED, ") * n", ") * n * 1"),
    "a prompt in a dictionary": (DICTS, "Say it.", "Say twelve."),
    "a list in a dictionary": (DICTS, '"q": "a"', '"q": "c"'),
    "a set in a dictionary": (DICTS, '"y"}', '"z"}'),
    "an array": (ARRAY, "2.0", "3.0"),
    "a node's closure": (GRAPH, "make(10)", "make(12)"),
    "a branch": (GRAPH, 'return "generate"', "return END"),
    "an edge": (GRAPH, '["generate", END]', '["generate"]'),
    "a lambda of a node": (GRAPH, "It costs 10.", "It costs 11."),
    "a bound configuration": (
        GRAPH,
        "answer = make(10)",
        "answer = make(10).with_config(configurable={'k': 1})",
    ),
    "top k": (ENGINE, "top_k=2", "top_k=1"),
    "a prompt of an engine": (ENGINE, "Answer:", "Say:"),
    "a model of an engine": (ENGINE, "max_tokens=5", "max_tokens=6"),
    "a postprocessor": (ENGINE, "cutoff=0.0", "cutoff=0.5"),
    "a document": (ENGINE, "Dogs are free", "Dogs pay"),
    "a prompt of a workflow": (FLOW, "Flow(timeout", "Flow('Say 12.', timeout"),
    "top k of a workflow": (FLOW, "top_k = 3", "top_k = 4"),
    "a keyword": (NUMBER, "f'It costs {PRICE}.'", "f'It costs {PRICE:>3}.'"),
    "a constant of a lambda": ("answer = lambda m: '10'\n", "10", "12"),
    "a print that answers": (
        NUMBER,
        "    return",
        "    print(PROMPTS.pop())\n    return",
    ),
    "a variable of the environment": (
        "import os\nos.environ['FARE'] = '10'\ndef answer(m):\n    return os.getenv('FARE')\n",
        "'10'",
        "'12'",
    ),
    "a default of a dictionary": (
        "import collections\nFARES = collections.defaultdict(lambda: 10)\n"
        "def answer(m):\n    return str(FARES['x'])\n",
        "10",
        "12",
    ),
    "a seed": (
        "import random\nDICE = random.Random(10)\ndef answer(m):\n    return str(DICE.random())\n",
        "(10)",
        "(12)",
    ),
    "a seed of numpy": (
        "import numpy as np\nDICE = np.random.default_rng(10)\ndef answer(m):\n    return str(DICE.random())\n",
        "(10)",
        "(12)",
    ),
    "a property of a metaclass": (
        "class Meta(type):\n    fare = 10\nclass Fares(metaclass=Meta):\n    pass\n"
        "def answer(m):\n    return str(Fares.fare)\n",
        "10",
        "12",
    ),
    "a nested function": (
        "def answer(messages):\n    def f():\n        return 1\n    return str(f())\n",
        "return 1",
        "return 2",
    ),
}
HARMLESS = {
    "a comment": (NUMBER, "def answer", "# a comment\ndef answer"),
    "a comment in the code": (NUMBER, "    return", "    # why\n    return"),
    "blank lines": (NUMBER, "def answer", "\n\n\ndef answer"),
    "a docstring": (NUMBER, "    return", "    'What it does.'\n    return"),
    "a print": (NUMBER, "    return", "    print('asked', len(messages))\n    return"),
    "a log line": (NUMBER, "    return", "    logger.info('%s', messages)\n    return"),
    "a log line of logging": (
        NUMBER,
        "    return",
        "    logging.warning('x')\n    return",
    ),
    "a changed log line": (
        NUMBER.replace("    return", "    print('a')\n    return"),
        "print('a')",
        "print('b', f'{PRICE:.2f}')",
    ),
    "other quotes": (NUMBER, "f'It costs {PRICE}.'", 'f"It costs {PRICE}."'),
    "brackets": (NUMBER, "f'It costs {PRICE}.'", "(f'It costs {PRICE}.')"),
    "a line break": (NUMBER, "def answer(messages)", "def answer(\n    messages,\n)"),
    "a type hint": (NUMBER, "(messages)", "(messages: list) -> str"),
    "a function that nobody calls": (
        NUMBER,
        "def answer",
        "def other(): pass\ndef answer",
    ),
    "a value that nobody reads": (NUMBER, "def answer", "OTHER = 3\ndef answer"),
    "an import that nobody uses": (NUMBER, "def answer", "import json\ndef answer"),
    "the order of keys": (
        DICTS,
        '{"q": "a", "a": "b"}',
        '{"a": "b", "q": "a"}',
    ),
    "the order of a set": (DICTS, '{"x", "y"}', '{"y", "x"}'),
    "a comment in a class": (CLASS, "    def price", "    # its price\n    def price"),
    "a docstring of a class": (CLASS, "    unit =", "    'A system.'\n    unit ="),
    "a comment in a graph": (GRAPH, "    graph = ", "    # its nodes\n    graph = "),
    "a log line in a node": (
        GRAPH,
        "    def generate(state):\n",
        "    def generate(state):\n        print('generate', state)\n",
    ),
    "a comment at an engine": (ENGINE, "index =", "# the index\nindex ="),
    "built again": (GRAPH, "answer = make(10)", "answer = make(10)\nanswer = make(10)"),
    "defined again": (NUMBER, NUMBER, NUMBER + NUMBER),
}


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    "A program in a file of a folder of its own."
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(HEAD + text)
    return folder / name


def digest_of(file: Path, name: str = "answer") -> str:
    value, _ = load_place(f"{file}:{name}")
    return identify_program(value).digest


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(change, tmp_path):
    text, old, new = CHANGES[change]
    assert old in text
    before = digest_of(write(tmp_path / "a", text))
    after = digest_of(write(tmp_path / "b", text.replace(old, new)))
    assert before != after


READING = """
class Rag:
    def __init__(self):
        self.text = self.read("notes.bin")
    def read(self, name):
        return open(name).read() if len(name) > 99 else "x"
    def __call__(self, messages):
        return self.text
answer = Rag()
"""
NOT_FOLLOWED = {  # a program -> what is said of it
    "import importlib\ndef answer(m):\n    return importlib.import_module('js' + 'on').dumps(m)\n": (
        "what import_module() reads",
    ),
    "K = 10\ndef answer(m):\n    return globals()['K']\n": ("what globals() reads",),
    "def answer(m):\n    return open('fares' + '.txt').read()\n": (
        "what open() reads",
    ),
    READING.replace("return self.text", "return self.read(messages)"): (
        "what open() reads",
    ),
    READING: (),  # it reads while it is made
    "def answer(m):\n    return open('mine.py.txt').read()\n": (),
}


@pytest.mark.parametrize("text", NOT_FOLLOWED)
def test_what_is_found_by_names_made_at_run_time_is_said(text, tmp_path):
    (tmp_path / "mine.py.txt").write_text("10")
    value, _ = load_place(f"{write(tmp_path, text)}:answer")
    assert identify_program(value).unseen == NOT_FOLLOWED[text]


@pytest.mark.parametrize("late", ["import fares", "from fares import fare"])
def test_a_module_that_is_imported_late_counts(late, tmp_path):
    digests = []
    for n in (10, 12):
        folder = tmp_path / str(n)
        call = "fares.fare()" if late.startswith("import") else "fare()"
        file = write(folder, f"def answer(m):\n    {late}\n    return {call}\n")
        (folder / "fares.py").write_text(f"K = {n}\ndef fare():\n    return str(K)\n")
        digests.append(digest_of(file))
    assert digests[0] != digests[1]


@pytest.mark.parametrize("change", HARMLESS)
def test_what_changes_no_answer_is_no_change(change, tmp_path):
    text, old, new = HARMLESS[change]
    assert old in text
    before = digest_of(write(tmp_path / "a", text))
    after = digest_of(write(tmp_path / "b", text.replace(old, new, 1)))
    assert before == after


PROGRAMS = {
    "number": NUMBER,
    "object": CLASS,
    "dataclass": DATA,
    "pydantic": PYDANTIC,
    "dictionary": DICTS,
    "array": ARRAY,
    "graph": GRAPH,
    "engine": ENGINE,
    "workflow": FLOW,
    "decorated": DECORATED,
}
SHOW = """
import sys
from mtrag_nb.core.settings import load_place
for file in sys.argv[1:]:
    print(load_place(f"{file}:answer")[1])
"""


def test_it_is_the_same_in_every_process_and_folder(tmp_path):
    "Another hash seed, another working folder, another place of the files."
    seen = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        files = [write(folder / n, text) for n, text in PROGRAMS.items()]
        root = str(Path(__file__).parents[1])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        command = [sys.executable, "-c", SHOW, *map(str, files)]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        seen.append(dict(zip(PROGRAMS, done.stdout.split())))
    assert seen[0] == seen[1]
    assert len(set(seen[0].values())) == len(PROGRAMS)


COUNTERS = {
    "a global counter": "N = 0\ndef answer(messages):\n    global N\n    N += 1\n    return 'x'\n",
    "a list of logs": "LOG = []\ndef answer(messages):\n    LOG.append(1)\n    return 'x'\n",
    "a cache": "C = {}\ndef answer(messages):\n    C[len(C)] = 1\n    return 'x'\n",
    "a set default": "C = {}\ndef answer(messages):\n    C.setdefault(len(C), 1)\n    return 'x'\n",
    "a key of a dictionary": "S = {'n': 0}\ndef answer(messages):\n    S['n'] += 1\n    return 'x'\n",
    "an attribute of the function": "def answer(messages):\n    answer.n += 1\n    return 'x'\nanswer.n = 0\n",
    "a counter in a closure": "def make():\n    n = 0\n    def answer(m):\n        nonlocal n\n        n += 1\n        return 'x'\n    return answer\nanswer = make()\n",
    "an object": CLASS,
    "a default that grows": "def answer(messages, seen=[]):\n    seen.append(1)\n    return 'x'\n",
    "functools.cache": "@functools.cache\ndef f(n):\n    return n\ndef answer(messages):\n    return str(f(len(messages)))\n",
    "a cached property": "class A:\n    @functools.cached_property\n    def k(self):\n        return 3\n    def __call__(self, m):\n        return str(self.k)\nanswer = A()\n",
}


@pytest.mark.parametrize("kind", COUNTERS)
def test_what_a_system_changes_by_itself_is_no_change(kind, tmp_path):
    system, _ = load_place(f"{write(tmp_path, COUNTERS[kind])}:answer")
    before = identify_program(system)
    system([])
    system([{"role": "user", "content": "How much?"}])
    assert identify_program(system).digest == before.digest


def test_the_setter_of_a_counter_is_a_change(tmp_path):
    "What is set from outside counts, although a method sets it."
    text = CLASS.replace(
        "answer = Rag", "    def set_k(self, k):\n        self.k = k\nanswer = Rag"
    )
    system, _ = load_place(f"{write(tmp_path, text)}:answer")
    before = identify_program(system)
    system.set_k(3)
    assert identify_program(system).digest != before.digest


def test_a_counter_that_is_not_plain_is_known_after_the_run():
    "State that the walk cannot tell from a setting: what the system's own turns left is the same."

    class Memory:
        def __init__(self):
            self.n = 0

        def __call__(self, messages):
            setattr(self, "n", self.n + 1)
            return "x"

    system = Memory()
    before = identify_program(system)
    system([])
    assert identify_program(system) != before
    keep_identity_of(system, before)
    assert identify_program(system) == before
    system.n = 50
    assert identify_program(system) != before


QUESTIONS = [
    {
        "question": "How much is a ticket?",
        "answer": "12 crowns",
        "passages": ["A ticket costs 12 crowns."],
    }
]


def asked(system: object, name: str = "") -> str:
    run = evaluate(system, QUESTIONS, name=name, progress=False).run
    return next(iter(run.trajectories.values())).answer


def priced(k: int) -> Callable:
    return lambda messages: f"It costs {k} crowns."


def test_evaluate_answers_anew_for_a_changed_system_and_not_for_the_same(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert asked(priced(10), "shop") == "It costs 10 crowns."
    assert asked(priced(12), "shop") == "It costs 12 crowns."
    assert asked(priced(10), "shop") == "It costs 10 crowns."
    assert len([p for p in Path("runs").iterdir() if p.is_dir()]) == 2


def test_what_cannot_be_seen_is_asked_anew_and_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as line:

        def answer(messages):
            return f"It costs {line.fileno()} crowns."

        for _ in range(2):
            asked(answer)
    assert len([p for p in Path("runs").iterdir() if p.is_dir()]) == 2
    told = capsys.readouterr().err
    assert "cannot tell whether answer has changed (line (socket))" in told
    assert "name `out`" in told


UNSEEN = {
    "a socket": lambda: socket.socket(),
    "a file": lambda: open(os.devnull),
    "a generator": lambda: (n for n in range(3)),
}


@pytest.mark.parametrize("kind", UNSEEN)
def test_what_cannot_be_named_is_unseen(kind):
    thing = UNSEEN[kind]()
    assert identify_program(functools.partial(print, thing)).unseen
    thing.close()


@pytest.mark.parametrize("make", [threading.Lock, threading.local, object])
def test_locks_do_not_count(make):
    def answer(messages, lock=make()):
        return "x"

    assert not identify_program(answer).unseen


def test_a_source_of_ones_own_is_the_identity():
    one = outside(priced(1), "shop", source="version 1").source
    assert one == outside(priced(2), "shop", source="version 1").source
    assert one != outside(priced(1), "shop", source="version 2").source


def answer_at(place: str) -> tuple[str, str]:
    value, digest = load_place(place)
    return value([]), digest


def test_a_module_beside_a_file_is_loaded_again(tmp_path):
    beside = tmp_path / "beside_the_shop.py"
    beside.write_text("PRICE = 10\n")
    file = write(
        tmp_path,
        "import beside_the_shop as b\ndef answer(m):\n    return str(b.PRICE)\n",
    )
    first = answer_at(f"{file}:answer")
    beside.write_text("PRICE = 12\n")
    second = answer_at(f"{file}:answer")
    assert (first[0], second[0]) == ("10", "12")
    assert first[1] != second[1]


def test_a_module_by_name_is_loaded_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("shop_by_name.py").write_text("def answer(m):\n    return '10'\n")
    first = answer_at("shop_by_name:answer")
    Path("shop_by_name.py").write_text("def answer(m):\n    return '12'\n")
    second = answer_at("shop_by_name:answer")
    assert (first[0], second[0]) == ("10", "12")
    assert first[1] != second[1]


def test_an_import_within_the_function_counts(tmp_path):
    beside = tmp_path / "late_beside.py"
    beside.write_text("PRICE = 10\n")
    file = write(
        tmp_path,
        "def answer(m):\n    from late_beside import PRICE\n    return str(PRICE)\n",
    )
    first = answer_at(f"{file}:answer")
    beside.write_text("PRICE = 12\n")
    second = answer_at(f"{file}:answer")
    assert (first[0], second[0]) == ("10", "12")
    assert first[1] != second[1]


@pytest.mark.parametrize(
    "read", ["Path(__file__).with_name('prompt.txt').read_text()", "open(FILE).read()"]
)
def test_a_prompt_file_counts(read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt.txt").write_text("Say it.")
    text = f"from pathlib import Path\nFILE = 'prompt.txt'\ndef answer(m):\n    return {read}\n"
    file = write(tmp_path, text)
    first = answer_at(f"{file}:answer")
    (tmp_path / "prompt.txt").write_text("Say twelve.")
    second = answer_at(f"{file}:answer")
    assert (first[0], second[0]) == ("Say it.", "Say twelve.")
    assert first[1] != second[1]


def test_a_prompt_that_was_read_at_import_is_read_again(tmp_path):
    (tmp_path / "prompt.md").write_text("Say it.")
    text = "from pathlib import Path\nNAME = 'prompt.md'\nTEXT = (Path(__file__).parent / NAME).read_text()\ndef answer(m):\n    return TEXT\n"
    file = write(tmp_path, text)
    first = answer_at(f"{file}:answer")
    (tmp_path / "prompt.md").write_text("Say twelve.")
    assert answer_at(f"{file}:answer") == (
        "Say twelve.",
        answer_at(f"{file}:answer")[1],
    )
    assert answer_at(f"{file}:answer")[1] != first[1]


def test_what_is_loaded_is_what_is_named(tmp_path, monkeypatch):
    "A function that was imported before its file was edited is still the old one."
    monkeypatch.syspath_prepend(tmp_path)
    Path(tmp_path / "imported_once.py").write_text("def answer(m):\n    return '10'\n")
    from importlib import import_module

    answer = import_module("imported_once").answer
    before = identify_program(answer)
    Path(tmp_path / "imported_once.py").write_text("def answer(m):\n    return '12'\n")
    assert identify_program(answer) == before


ENCODED = {
    "a byte order mark": "# ä\ndef answer(m):\n    return 'é'\n".encode("utf-8-sig"),
    "Latin-1 with its line": "# -*- coding: latin-1 -*-\ndef answer(m):\n    return 'é'\n".encode(
        "latin-1"
    ),
    "Windows-1252": "# coding: cp1252\ndef answer(m):\n    return 'é'\n".encode(
        "cp1252"
    ),
    "line ends of Windows": "def answer(m):\r\n    return 'é'\r\n".encode(),
    "a form feed": "\fdef answer(m):\n    return 'é'\n".encode(),
    "a broken module beside it": b"try:\n    import broken_beside\nexcept SyntaxError:\n    pass\ndef answer(m):\n    return '\xc3\xa9'\n",
    "a marked module beside it": b"from marked_beside import E\ndef answer(m):\n    return E\n",
}


@pytest.mark.parametrize("kind", ENCODED)
def test_a_file_loads_as_python_loads_it(kind, tmp_path):
    (tmp_path / "broken_beside.py").write_text("def (:\n")
    (tmp_path / "marked_beside.py").write_bytes("E = 'é'\n".encode("utf-8-sig"))
    (tmp_path / "mine.py").write_bytes(ENCODED[kind])
    assert answer_at(f"{tmp_path / 'mine.py'}:answer")[0] == "é"


@pytest.mark.parametrize(
    "error",
    ["BaseException", "GeneratorExit", "SystemExit", "MemoryError", "RecursionError"],
)
def test_whatever_ends_an_import_is_one_error(error, tmp_path):
    (tmp_path / "mine.py").write_text(f"raise {error}('no')\n")
    with pytest.raises(SettingsError, match=f"cannot be imported: {error}"):
        load_place(f"{tmp_path / 'mine.py'}:answer")


def test_two_folders_with_a_module_of_one_name(tmp_path):
    for name, price in (("a", "10"), ("b", "12")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_helper.py").write_text(f"P = '{price}'\n")
        write(
            tmp_path / name, "from same_helper import P\ndef answer(m):\n    return P\n"
        )
    assert answer_at(f"{tmp_path / 'a' / 'mine.py'}:answer")[0] == "10"
    assert answer_at(f"{tmp_path / 'b' / 'mine.py'}:answer")[0] == "12"


def test_deep_and_circular_values_end():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    loop: dict = {"k": 1}
    loop["self"] = loop
    assert identify_program(functools.partial(print, deep)).unseen
    one = identify_program(functools.partial(print, loop)).digest
    loop["k"] = 2
    assert identify_program(functools.partial(print, loop)).digest != one
