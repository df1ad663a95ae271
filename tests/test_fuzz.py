"""What comes from outside may be broken: malformed files, odd replies, a run that was cut off. Nothing of it may end
in a traceback, and nothing wrong may be taken for right. A wrong value is tested in every place of a valid file; where a file is cut
and what a text may be, hypothesis draws."""

import copy
import gzip
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtrag_nb.core.files import read_jsonl
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.replies import Label, parse_verdict
from mtrag_nb.core.types import DataError
from mtrag_nb.data.mtrag import read_benchmark, read_corpus
from mtrag_nb.data.submissions import read_predictions
from mtrag_nb.data.mtrag import read_qrels, read_queries
from mtrag_nb.data.ratings import read_ratings
from mtrag_nb.evaluation.judge import (
    _CONTAINS,
    HALLUCINATION,
    _IDK_LABEL,
    SCORE,
    read_judge_reply,
)
from mtrag_nb.systems.ncl import _read_class
from tests.support.cut import CUT_FILES, cut_run, doubled, essence
from tests.support.replies import (
    Reply,
    judge_replies,
    relation_replies,
    verdict_replies,
)

# Malformed files: one small valid file of each kind that the readers know


TURNS = [
    {"speaker": "user", "text": "Who runs it?"},
    {"speaker": "agent", "text": "The council."},
    {"speaker": "user", "text": "Since when?"},
]
PASSAGES = [
    {"document_id": "p1", "text": "The council runs it.", "title": "Council"},
    {"document_id": "p2", "text": "It began in 1960."},
]
TASK = {
    "conversation_id": "c1",
    "task_id": "c1<::>2",
    "turn": "2",
    "Collection": "govt",
    "contexts": PASSAGES,
    "input": TURNS,
    "targets": [{"text": "Since 1960."}],
    "Answerability": ["ANSWERABLE"],
    "Multi-Turn": ["Follow-up"],
    "Question Type": ["Factoid"],
}
PREDICTION = {
    "task_id": "c1<::>2",
    "contexts": [
        {"document_id": "p1", "score": 0.9},
        {"document_id": "p2", "score": 0.5},
    ],
    "predictions": [{"text": "In 1960."}],
}
ANNOTATIONS = {
    "faithfulness": {"ann": {"value": "4"}, "bob": {"value": "3"}},
    "rb_agg": {"scorer": {"value": 0.5}},
}
RATING = {"task_id": "c1<::>2", "model_id": "m", "model_response": "In 1960."}
RATED = {
    "documents": PASSAGES,
    "tasks": [TASK | {"contexts": [{"document_id": "p1"}], "Turn": "2"}],
    "evaluations": [RATING | {"annotations": ANNOTATIONS}],
}
CORPUS = [
    {"_id": "p1", "text": "The council runs it.", "title": "Council", "url": "u"},
    {"_id": "p2", "text": "In 1960."},
]
QUERIES = [
    {"_id": "c1<::>1", "text": "|user|: Who runs it?"},
    {"_id": "c1<::>2", "text": "|user|: Since when?"},
]
VALID = {  # kind -> file name, its objects: lines, or the one value of a JSON file
    "tasks": (
        "tasks.jsonl",
        [TASK, {**TASK, "task_id": "c1<::>1", "turn": 1, "input": TURNS[:1]}],
    ),
    "corpus": ("govt.jsonl", CORPUS),
    "queries": ("queries.jsonl", QUERIES),
    "predictions": (
        "p.jsonl",
        [PREDICTION, {"task_id": "c1<::>1", "prediction": "The council."}],
    ),
    "ratings": ("ratings.json", [RATED]),
}
WHOLE = ("ratings",)  # one JSON value, which has no line numbers


def tasks_and_gold(path: Path) -> tuple:
    found = read_benchmark(path, contexts=True)
    return found.tasks, found.gold


def answers(path: Path) -> list[tuple]:
    return [(p.task_id, p.answer, p.contexts) for p in read_predictions(path).values()]


READERS: dict[str, Callable[[Path], object]] = {
    "tasks": tasks_and_gold,
    "corpus": lambda path: list(read_corpus(path, domain="govt")),
    "queries": read_queries,
    "predictions": answers,
    "ratings": read_ratings,
    "qrels": read_qrels,
}
every_kind = pytest.mark.parametrize("kind", VALID)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def as_bytes(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def valid_bytes(kind: str) -> bytes:
    return as_bytes(map(json.dumps, VALID[kind][1]))


def reading(folder: Path, kind: str, data: bytes, ending: str = "") -> object:
    "What the reader of a kind makes of a file: its content, or an error that names file, place and remedy."
    path = folder / (VALID[kind][0] + ending if kind in VALID else "qrels.tsv")
    path.write_bytes(data)
    try:
        return READERS[kind](path)
    except DataError as e:
        assert str(e.path) == str(path) and e.remedy, e
        assert e.line or ending or kind in WHOLE or not data, e
        return DataError


@every_kind
def test_a_valid_file_is_read_and_an_empty_one_has_nothing_or_is_an_error(kind, folder):
    assert reading(folder, kind, valid_bytes(kind)) not in (DataError, [], {})
    assert reading(folder, kind, b"") in (DataError, [], {}, ((), {}))


# Each value, however deep, is exchanged for values of other kinds, or its key is there twice. What would be another valid value is
# left out: an empty list of contexts is a task without passages. Some values are written as no JSON library would.


RAW = {
    "@nan@": "NaN",
    "@inf@": "-Infinity",
    "@huge@": "9" * 5000,
    "@1e400@": "1e400",
    "@deep@": "[" * 1000 + "]" * 1000,
    "@wide@": "[" * 150 + "]" * 150,
}
HALF = "\ud800 half"  # half a character
FREE = ("Question Type", "title", "url")  # any words will do
MAY_BE_MISSING = ("title", "url", "Answerability", "Multi-Turn", "Question Type")
ODD_BY_KEY: dict[tuple[str, ...], list] = {
    ("document_id", "_id", "task_id", "model_id"): ["", " p", "p\tq", None],
    ("turn", "Turn", "score", "value"): ["", "x", None, [], "²"],
    ("turn", "Turn", "value"): [-99],
    ("Answerability", "Multi-Turn", "speaker"): ["MAYBE", ["MAYBE", "MAYBE"]],
    ("domain", "Collection"): [" any name", ["MAYBE", "MAYBE"]],
}


def places(value: object, before: tuple = ()) -> Iterator[tuple[tuple, object]]:
    "Each value inside a value, behind the path to it."
    inner = enumerate(value) if isinstance(value, list) else ()
    for key, v in value.items() if isinstance(value, dict) else inner:
        yield (*before, key), v
        yield from places(v, (*before, key))


def odd_values(key: object, value: object) -> list:
    "What may not stand in the place of a value."
    odd = [True, *RAW]
    odd += ["x", [1]] if isinstance(value, dict) else [{"x": 1}]
    odd += ["@", [None], [7], [[]]] if isinstance(value, list) else [["x", 3]]
    if isinstance(value, str) and key not in ("turn", "Turn"):
        odd += [7, HALF]
    for keys, more in ODD_BY_KEY.items():
        odd += more if key in keys else []
    if key in FREE:
        return [v for v in odd if v in (*RAW, HALF) or not isinstance(v, (list, str))]
    return odd


def exchanged(value: object, path: tuple, new: object) -> object:
    "A copy with another value at a path; ... takes it out."
    made = copy.deepcopy(value)
    at = made
    for key in path[:-1]:
        at = at[key]
    if new is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return made


def as_line(value: object) -> str:
    "JSON, with what JSON does not know."
    line = json.dumps(value)
    for mark, raw in RAW.items():
        line = line.replace(f'"{mark}"', raw)
    return line


@every_kind
def test_another_value_is_an_error_wherever_it_stands(kind, folder):
    "A label or a text that is not a number is one that is missing: it must read as if it were not there."
    first, *rest = VALID[kind][1]
    right = reading(folder, kind, valid_bytes(kind))
    wrong, rest = [], [json.dumps(o) for o in rest]
    for path, value in places(first):
        for odd in odd_values(path[-1], value):
            expected = [DataError, right]
            if path[-1] in MAY_BE_MISSING and odd in ("@nan@", "@inf@"):
                lines = [json.dumps(exchanged(first, path, ...)), *rest]
                expected.append(reading(folder, kind, as_bytes(lines)))
            lines = [as_line(exchanged(first, path, odd)), *rest]
            if reading(folder, kind, as_bytes(lines)) not in expected:
                wrong.append((path, odd))
    assert not wrong


@every_kind
def test_a_key_that_is_there_twice_is_an_error(kind, folder):
    first, *rest = VALID[kind][1]
    right = reading(folder, kind, valid_bytes(kind))
    for path, value in places(first):
        if isinstance(path[-1], str) and path[-1] not in ("title", "url"):
            again = f"{json.dumps(value)}, {json.dumps(path[-1])}: {json.dumps(value)}"
            twice = json.dumps(exchanged(first, path, "@twice@")).replace(
                '"@twice@"', again
            )
            data = as_bytes([twice, *map(json.dumps, rest)])
            assert reading(folder, kind, data) in (DataError, right), path


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=4,
)


@every_kind
@given(data=st.data())
def test_no_value_ends_in_a_traceback(kind, folder, data):
    first, *rest = VALID[kind][1]
    path = data.draw(st.sampled_from([path for path, _ in places(first)]))
    lines = [exchanged(first, path, data.draw(ANY_JSON)), *rest]
    reading(folder, kind, as_bytes([json.dumps(line) for line in lines]))


# Files that are broken as files


OTHER_LINES = (
    "[1]",
    "7",
    '"x"',
    "null",
    "{",
    "}{",
    "not JSON",
    "{'a': 1}",
    "\x00",
    "<html>",
    "{}",
)


@every_kind
@pytest.mark.parametrize("line", [*OTHER_LINES, '{"a": 1}}', "NaN"])
def test_another_line_is_an_error(kind, line, folder):
    rest = valid_bytes(kind).partition(b"\n")[2]
    assert reading(folder, kind, as_bytes([line]) + rest) is DataError


@every_kind
def test_a_line_twice_and_utf16_are_errors(kind, folder):
    whole = valid_bytes(kind)
    for data in (
        whole + whole.splitlines(True)[0],
        b"\xff\xfe" + whole.decode().encode("utf-16-le"),
    ):
        assert reading(folder, kind, data) is DataError


@every_kind
@given(data=st.data(), byte=st.sampled_from([b"\xff", b"\xe9", b"\xc3"]))
def test_a_torn_line_and_what_is_not_utf8_are_errors(kind, byte, folder, data):
    whole = valid_bytes(kind)
    first, end, rest = whole.partition(b"\n")
    torn = first[: data.draw(st.integers(1, len(first) - 1))]
    assert reading(folder, kind, torn + end + rest) is DataError
    at = data.draw(st.integers(0, len(whole)))
    assert reading(folder, kind, whole[:at] + byte + whole[at:]) is DataError


@every_kind
@pytest.mark.parametrize("blank", [b"\n", b"   \n"])
def test_blank_lines_and_line_ends_of_windows_change_nothing(kind, blank, folder):
    whole = valid_bytes(kind)
    right = reading(folder, kind, whole)
    assert reading(folder, kind, blank + whole + blank) == right
    assert reading(folder, kind, whole.replace(b"\n", b"\r\n")) == right


def zipped(data: bytes, name: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return made.getvalue()


@every_kind
@pytest.mark.parametrize("ending", [".gz", ".zip"])
@given(data=st.data(), cut=st.booleans())
def test_a_damaged_archive_reads_the_same_or_is_an_error(
    kind, ending, folder, data, cut
):
    whole = valid_bytes(kind)
    packed = (
        gzip.compress(whole, mtime=0)
        if ending == ".gz"
        else zipped(whole, VALID[kind][0])
    )
    at = data.draw(st.integers(0, len(packed) - 1))
    rest = b"" if cut else bytes([packed[at] ^ 0xFF]) + packed[at + 1 :]
    right = reading(folder, kind, whole)
    assert reading(folder, kind, packed[:at] + rest, ending) in (DataError, right)


IDS = (b"c1<::>1", b"", b" ", b"\xff", b"c 1 ", b"\xc2\xa0")
GRADES = (b"1", b"", b"x", "²".encode(), b"--5", b"1.5", b"NaN", b"9" * 5000, b"1 ")
ROWS = [row for row in product(IDS, IDS, GRADES) if row != (IDS[0], IDS[0], b"1")]


def test_a_row_of_qrels_that_is_none_is_an_error(folder):
    head = b"query-id\tcorpus-id\tscore\n"
    found = {
        row: reading(folder, "qrels", head + b"\t".join(row) + b"\n") for row in ROWS
    }
    assert not {row: f for row, f in found.items() if f not in (DataError, {})}


# Replies that a model may write (tests/support/replies.py): a reading may be missing, it is never guessed or the opposite


FIELDS = {"Score": [SCORE], "Hallucination": [HALLUCINATION, SCORE]}
FIELDS |= {"Label": [_IDK_LABEL], "Contains the answer": [_CONTAINS]}


def read_verdict(reply: Reply) -> str | None:
    verdict = parse_verdict(reply.text)
    return None if verdict is Label.UNPARSED else verdict.value


def read_field(reply: Reply) -> str | float | None:
    return read_judge_reply(reply.text, FIELDS[reply.field]).values[reply.field]


PARSERS = {
    "verdict": (read_verdict, verdict_replies),
    "judge": (read_field, judge_replies),
    "relation": (lambda reply: _read_class(reply.text), relation_replies),
}
KINDS = [
    (parser, kind)
    for parser, (_, replies) in PARSERS.items()
    for kind in dict.fromkeys(r.kind for r in replies())
]


@pytest.mark.parametrize("parser, kind", KINDS)
def test_a_reply_is_read_as_it_states_or_not_at_all(parser, kind):
    read, replies = PARSERS[parser]
    found = [(read(r), r) for r in replies() if r.kind == kind]
    assert found and not [(got, r) for got, r in found if got not in (None, r.label)]


@pytest.mark.parametrize("parser", PARSERS)
def test_few_replies_that_state_something_are_unread(parser):
    read, replies = PARSERS[parser]
    unread = sum(read(r) is None and r.label is not None for r in replies())
    assert unread < 0.1 * len(replies())


@given(st.text() | st.text("yesno 0123456789:/{}[]\"'.\n", max_size=60))
def test_no_reply_ends_in_a_traceback(text):
    parse_verdict(text)
    _read_class(text)
    for fields in FIELDS.values():
        read_judge_reply(text, fields)


# A run that was cut off in one of its logs, at the end of a line, in the middle, in the middle of a character. Resumed, it is the run
# that it was: nothing lost, nothing twice, nothing changed, and the model asked only for what is not on the record.


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory) -> Run:
    run, asked = cut_run(tmp_path_factory.mktemp("whole"))
    assert asked == 8 == len(run.trajectories) and not doubled(run.folder)
    return run


def edges(data: bytes) -> list[int]:
    "Positions beside the ends of lines and inside of characters."
    return [
        i
        for i in range(len(data))
        if b"\n" in data[max(0, i - 2) : i + 2] or data[i] >= 0x80
    ]


@pytest.mark.parametrize("log", CUT_FILES)
@given(data=st.data())
def test_a_run_that_was_cut_off_resumes_as_it_was(
    log, whole_run, tmp_path_factory, data
):
    content = (whole_run.folder / log).read_bytes()
    at = data.draw(st.integers(0, len(content) - 1) | st.sampled_from(edges(content)))
    folder = tmp_path_factory.mktemp("cut") / "run"
    shutil.copytree(whole_run.folder, folder)
    os.truncate(folder / log, at)
    lost = 8 - len(list(read_jsonl(folder / log, torn_tail=True)))
    run, asked = cut_run(folder)
    assert essence(run) == essence(whole_run)
    assert not doubled(folder)
    assert asked <= (lost if log == "calls.jsonl" else 0)
    shutil.rmtree(folder.parent)
