"""What reads outside text takes time in step with its length: the functions that read it, over units that are repeated. What
backtracks holds every thread of a service."""

import ast
import gc
import importlib
import json
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mtrag_nb.core.claims import check_claims
from mtrag_nb.core.files import parse_json
from mtrag_nb.core.refusals import declines
from mtrag_nb.core.replies import parse_verdict
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.text import content_words, sentences, is_title, escape_marks
from mtrag_nb.core.types import DataError, redact
from mtrag_nb.data.literals import read_literal
from mtrag_nb.data.messages import messages_of
from mtrag_nb.data.passages import read_document
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.serve.documents import parse_document
from mtrag_nb.serve.reply import without_sources
from mtrag_nb.serve.service import Service, mark
from mtrag_nb.serve.service import ask_service
from mtrag_nb.serve.uploads import Limits
from tests.support import volume
from tests.test_cases import imported, turn

UNITS = (
    "?key", "?key=", "&token=x", "do ", "can't ", "is not found ", "do you ", "-1 ", "1.", "[", "[1]",
    " ", "\n", "a ", "a", "a b ", "a-", "1", "_ ", "( ", "{'", "<", "</think>", "<think>", "no ", "yes or ",
    "answer ", "answer (", "which is ", "I  ", "the documents do not ", "data, ", '"', "' ", "\\", "//", "@",
    "bearer ", "://a", "not ", "however, but ", "score: ", "it is ", "[[", "](", "![", "| ", "#", "- ", "=", "é ",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    "Or the time is that of looking through what all tests before left in memory."
    gc.freeze()
    yield
    gc.unfreeze()


def slow(do, end: str) -> list[tuple[str, float]]:
    "The units over which a function takes more than .2 s of this processor for 12 kB; it is stopped as soon as that is clear."
    out = []
    for unit in UNITS if volume.is_whole else UNITS[::3]:
        for size in (750, 1500, 3000, 6000, 12_000):
            text = (unit * (size // len(unit) + 1))[:size] + end
            begun = time.thread_time()
            do(text)
            if (took := time.thread_time() - begun) > 0.2:
                out.append((unit, took))
                break
    return out


# Every expression of the package, asked as the package asks it: a module's patterns by the methods that are called on their names,
# and those that stand in a call. `make test` takes a part of the units, `make test-all` all; `make test-attacks` (MTRAG_ATTACKS) up to 100 kB.

ALL = bool(os.environ.get("MTRAG_ATTACKS"))
ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "mtrag_nb").glob("*/*.py"))
ROOMS = {p.relative_to(ROOT): ast.parse(p.read_text("utf-8")) for p in FILES}
METHODS = ("search", "match", "fullmatch", "findall", "finditer", "sub", "split")
BOUNDED = {  # part of a pattern -> why it is not given a long text
    r"[\W_]*\d+$": "keys of under 40 characters",
    r"[A-Z][^.]+ .*\.$": "sentences of a passage",
    r"(\w+): +(\d+) kB": "the machine's own account of its memory",
    r"[^\W\d_]+-$": "lines that are known to end so",
    r"[-–—|\[( ]*(?:page": "lines without two blanks together",
    r"[.;!](?:\s|$)|,?\s*": "two hundred characters",
}


def flags_of(call: ast.Call) -> int:
    "The flags that a call of `re` names."
    names = (
        n.attr
        for n in ast.walk(call)
        if isinstance(n, ast.Attribute) and n.attr in "AIMSX"
    )
    return sum(getattr(re, name) for name in set(names))


def patterns_in(value: object, depth: int = 0) -> Iterator[re.Pattern]:
    "The patterns in a value and in what it holds."
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 3 and isinstance(value, (list, tuple, set, frozenset, dict)):
        inner = [*value.items()] if isinstance(value, dict) else value
        for x in inner:
            yield from patterns_in(x, depth + 1)


def expressions() -> Iterator[tuple[str, re.Pattern, str]]:
    "Place, pattern and method of every expression of the package."
    for path, tree in ROOMS.items():
        called = defaultdict(set)
        for n in ast.walk(tree):
            if isinstance(n, ast.Attribute) and n.attr in METHODS:
                either = isinstance(n.value, ast.IfExp)
                for name in [n.value.body, n.value.orelse] if either else [n.value]:
                    called[getattr(name, "id", "")].add(n.attr)
        for n in ast.walk(tree):
            written = (
                isinstance(n, ast.Call)
                and ast.unparse(n.func).startswith("re.")
                and n.args
            )
            if (
                written
                and isinstance(n.args[0], ast.Constant)
                and n.func.attr in METHODS
            ):
                yield (
                    f"{path}:{n.lineno}",
                    re.compile(n.args[0].value, flags_of(n)),
                    n.func.attr,
                )
        module = importlib.import_module(".".join(path.with_suffix("").parts))
        for name, value in vars(module).items():
            for p in patterns_in(value):
                for method in called.get(name, ("search",)):
                    yield f"{path}: {name}", p, method


def ask(p: re.Pattern, method: str, text: str) -> None:
    "All matches of a pattern by one of its methods."
    if method == "sub":
        p.sub("", text)
    elif method == "finditer":
        sum(1 for _ in p.finditer(text))
    else:
        getattr(p, method)(text)


def test_every_expression_is_linear():
    slow_ones, asked = [], {}
    for place, p, method in expressions():
        if not any(b in str(p.pattern) for b in BOUNDED) and isinstance(p.pattern, str):
            asked[p, method] = place
    assert len(asked) > 150
    for (p, method), place in asked.items():
        for unit in UNITS if ALL else UNITS[::7]:
            for size in (1500, 6000, 25_000, *([100_000] if ALL else [])):
                text = (unit * (size // len(unit) + 1))[:size]
                begun = time.thread_time()
                ask(p, method, text)
                if time.thread_time() - begun > max(0.1, size / 100_000):
                    slow_ones.append((place, p.pattern, method, unit, size))
                    break
    assert not slow_ones


PASSAGES = ["A dog costs 1 crown on the ferry, and 2 on deck. " * 40]
READERS = {
    "redacted": redact,
    "declines": declines,
    "parse_verdict": parse_verdict,
    "a verdict's key": lambda x: parse_verdict(json.dumps({x: "yes"})),
    "sentences": sentences,
    "titled": is_title,
    "unmarked": escape_marks,
    "without_sources": without_sources,
    "content_words": content_words,
    "read_literal": read_literal,
    "an object in a span": lambda x: read_literal("A(b='" + x),
    "a field in a span": lambda x: read_literal(f"content='a' b={x}"),
    "read_document": read_document,
    "messages_of": lambda x: messages_of([{"role": "user", "content": "[{" + x}]),
}


@pytest.mark.parametrize("name", READERS)
def test_what_reads_outside_text_is_linear(name):
    assert not slow(READERS[name], "")


@pytest.mark.parametrize("name", ["x.txt", "x.md", "x.html"])
def test_a_document_of_100_kb_is_read_within_a_second(name, tmp_path):
    beyond = []
    for unit in UNITS if ALL else UNITS[::7]:
        (tmp_path / name).write_text(
            f"A dog. {unit * (100_000 // len(unit))}", encoding="utf-8"
        )
        begun = time.thread_time()
        with suppress(DataError):  # too many headings
            parse_document(tmp_path / name)
        beyond += [unit] * (time.thread_time() - begun > 1)
    assert not beyond


@pytest.fixture(scope="module")
def hostile_service(tmp_path_factory) -> Iterator[tuple[Service, list[str]]]:
    "A service with a document, and the reply that its model gives next."
    path, reply = tmp_path_factory.mktemp("served"), [""]
    models = Models(
        load_settings(), ScriptedChat(lambda prompt: reply[0]), HashEmbedder()
    )
    how = {"models": models, "limits": Limits(question_chars=200_000)}
    with Service(path / "library", path / "served", system="naive", **how) as service:
        (path / "fees").write_text("# Fees\n\nA dog costs four crowns on the ferry.\n")
        service.documents.put(path / "fees", "fees.md", "ferries")
        yield service, reply


@pytest.mark.parametrize("place", ["question", "document", "mark", "reply", "span"])
def test_100_kb_in_a_place_take_less_than_a_second(place, hostile_service, tmp_path):
    service, reply = hostile_service

    def seconds(unit: str) -> float:
        text = unit * (100_000 // len(unit))
        reply[0] = text if place == "reply" else "A dog costs four crowns."
        if place == "document":
            (tmp_path / "x").write_text(f"# Dogs\n\n{text}", encoding="utf-8")
            with suppress(DataError):  # too many headings, or nothing to read
                service.documents.put(tmp_path / "x", "x.md", "ferries")
        asked = (
            f"How much is a dog? {text}"
            if place == "question"
            else "How much is a dog?"
        )
        talk = ask_service(service, "How much is a cat?")["conversation_id"]
        begun = time.process_time()
        if place == "mark":
            mark(service, talk, 1, verdict="wrong", answer=text, note=text)
        if place == "span":
            imported(turn(asked=text, answered=text, found=text), tmp_path)
            shutil.rmtree(tmp_path / "out")
        ask_service(service, asked, conversation=talk)
        return time.process_time() - begun

    # All threads of the process count, those that other tests left, too: who is slow once is timed again.
    units = UNITS if ALL else UNITS[::20]
    assert not [unit for unit in units if seconds(unit) > 1 and seconds(unit) > 1]


def test_claims_are_checked_in_step_with_their_length():
    "Of a sentence a thousand tokens are looked at; what it is held against is bounded by the passages."
    begun = time.thread_time()
    for unit in ("-1 ", "dog 1 ", "Dog, no more "):
        check_claims(unit * 4000, [*PASSAGES, unit * 1000])
    assert time.thread_time() - begun < 10


def test_a_key_twice_among_very_many_is_found_at_once():
    keys = ", ".join(f'"{n}": 1' for n in (*range(100_000), 99_999))
    begun = time.thread_time()
    with pytest.raises(ValueError, match="'99999' appears twice"):
        parse_json(f"{{{keys}}}")
    assert time.thread_time() - begun < 3


QUERIES = "http://h/v1?api_key=K&b=1|?a=b?key=K|x?key?y=K z|&sig=K|a key=K ?x|?KEY=K#f|?q='&mytoken=K'|?a&b=c&auth=K|?key="


@pytest.mark.parametrize("text", QUERIES.split("|"))
def test_a_secret_in_a_query_is_hidden_as_the_slow_pattern_hid_it(text):
    name = r"[^=&\s\"']*"
    slowly = rf"([?&]{name}(?:key|token|secret|passw|pwd|auth|sig){name}=)[^&\s\"'#]+"
    assert redact(text) == re.sub(slowly, r"\1***", text, flags=re.IGNORECASE)
