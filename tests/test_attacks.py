"""Small attacks from outside, each of which once lost, froze or mixed something."""

import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import DataError, MTRAGError
from mtrag_nb.data.predictions import import_predictions
from mtrag_nb.data.traces import import_traces, read_kinds
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.runs.shards import _merged_lines
from mtrag_nb.serve.documents import parse_document
from mtrag_nb.systems.system_yaml import read_system_yaml
from mtrag_nb.systems.foreign import PassageMemory, as_passage
from mtrag_nb.systems.outside import load_outside
from mtrag_nb.systems.citations import read_citation_marks
from tests.support.specimens import docx, pdf, word_paragraph, word_table
from tests.test_cases import TWICE, turn
from tests.test_fuzz import READERS, VALID, valid_bytes


def test_a_snippet_keeps_its_document():
    memory = PassageMemory()
    texts = [
        "The ferry leaves at nine.",
        "Ferry 2 leaves at ten.",
        "The ferry leaves at nine.",
    ]
    given = [as_passage({"id": "doc1", "text": text}) for text in texts]
    first, second, again = (memory.remember([c])[0] for c in given)
    assert first == again == "doc1" != second
    assert [c.document_id for c in memory.contexts([first, second])] == ["doc1", "doc1"]


def test_a_module_beside_the_file_is_part_of_the_system(tmp_path):
    program = "from beside_a import word\n\n\ndef main(m):\n    return word\n"
    (tmp_path / "mine_a.py").write_text(program)
    (tmp_path / "beside_a.py").write_text("word = 'old'\n")
    place = f"{tmp_path / 'mine_a.py'}:main"
    before = load_outside(place).source
    assert load_outside(place).source == before
    (tmp_path / "beside_a.py").write_text("word = 'new'\n")
    assert load_outside(place).source != before


CODE = [
    "Use a[0][1].",
    "dict['a'] = [1, 2]",
    "x[1] = 5",
    "Call f(x)[2] twice",
    "It is x = [1].",
]


@pytest.mark.parametrize("answer", CODE)
def test_code_in_an_answer_is_no_citation(answer):
    assert read_citation_marks(answer) == (answer, [])
    assert (
        read_citation_marks(f"A dog costs 4[1][2]. {answer}")[0]
        == f"A dog costs 4. {answer}"
    )


ODD = {
    "Latin-1": "a: é".encode("latin-1"),
    "NUL": b"a: \0",
    "a list as key": b"[1, 2]: generate\n? [1]\n: {x: 1}",
    "a date": b"chunking:\n  parent_size: 2024-99-99\n",
    "int": b"chunking:\n  parent_size: !!int abc\n",
    "digits": b"chunking:\n  parent_size: " + b"1" * 5000,
    "escape": b'llm:\n  model: "\\U00110000"\n',
    "brackets": b"a: " + b"[" * 2000,
    "UTF-16": "a: b".encode("utf-16"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_yaml_is_a_clear_error(name, tmp_path):
    (tmp_path / "x.yaml").write_bytes(ODD[name])
    for read in (read_system_yaml, read_kinds):
        with pytest.raises(DataError):
            read(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    "line", [{}, {"task": 1}, {"task": {"id": []}}, {"task": {}}], ids=str
)
def test_a_damaged_shard_is_named(line, tmp_path):
    (tmp_path / "tasks.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(DataError, match="tasks.jsonl:1: not a line of tasks"):
        _merged_lines("tasks", [tmp_path], {})


# Malformed inputs: valid ones with bytes exchanged, cut out, doubled, put in, by chance; what reads them reads on, or says why not.
# `make test` takes 2,000, `make test-attacks` (MTRAG_ATTACKS) ten times as many.

EACH = 1_000 if os.environ.get("MTRAG_ATTACKS") else 100
PIECES = [
    *b'{ } [ ] " , : \\'.split(),
    b"\0",
    b"\n",
    *b"null NaN 1e999 -1".split(),
    b"\xff",
]
PIECES += [b"\xef\xbb\xbf", "\u202e".encode()]
PIECES += [*b"\\ud800 true {} [[]] &#0; <a <!-- ]]> stream endobj".split(), b"9" * 400]


def mutated(data: bytes, rng: random.Random) -> bytes:
    "The data with one to four changes."
    for _ in range(rng.randint(1, 4)):
        a = rng.randrange(len(data) + 1)
        b = min(len(data), a + rng.choice((0, 1, 1, 4, 20, 200)))
        new = rng.choice(
            (b"", b"", rng.choice(PIECES), rng.randbytes(2), data[a:b] * 2)
        )
        data = data[:a] + new + data[b:] if rng.random() < 0.9 else data[:a]
    return data


def imported_run(path: Path, out: Path) -> None:
    Evidence(import_traces(path, out))


def imported_predictions(path: Path, out: Path) -> None:
    Evidence(import_predictions(path, None, out, passages=()))


SPANS = "\n".join(map(json.dumps, turn())).encode()
FEES, DOG = word_paragraph("Fees", "Title"), word_paragraph("A dog costs 4.")
HTML = b"<html><head><title>Fees</title></head><body><p hidden>x</p><ol><li>A dog</ol><table><td>4</table></body></html>"
MARKDOWN = b"---\ntitle: Fees\ntags: [a, b]\n---\n# Fees\n\nA dog costs `4`.\n\n```\ncode\n```\n"
WRITTEN = SPANS.replace(b"How much is a ticket?", b"content='a' k=[{'b': 1}]")
QRELS = b"query-id\tcorpus-id\tscore\na\td\t1\nb\td\t0\n"
YAML = b"llm:\n  temperature: 0.1\nchunking: {parent_size: 900}\n"
IMPORTED: dict[str, tuple[str, bytes, Callable]] = {
    "spans": ("x.jsonl", SPANS, imported_run),
    "spans as a list": ("x.json", json.dumps(turn(), indent=1).encode(), imported_run),
    "packed spans": ("x.jsonl.gz", gzip.compress(SPANS), imported_run),
    "written texts": ("x.jsonl", WRITTEN, imported_run),
    "predictions": ("x.jsonl", TWICE.splitlines()[0].encode(), imported_predictions),
    "a TREC run": ("x.tsv", b"a Q0 d 1 0.5 x\nb Q0 d 1 0.5 x\n", imported_predictions),
}
READ: dict[str, tuple[str, bytes, Callable]] = {
    "kinds": ("x.yaml", b"a: generate\nb: retrieve\n", read_kinds),
    "a system's YAML": ("x.yaml", YAML, read_system_yaml),
    "judgements": ("x.tsv", QRELS, READERS["qrels"]),
    **{
        k: (VALID[k][0], valid_bytes(k), READERS[k])
        for k in VALID
        if k != "predictions"
    },
    "a PDF": (
        "x.pdf",
        pdf([(1, "Fees"), ("text", "A dog costs 4.")])[0],
        parse_document,
    ),
    "a DOCX": ("x.docx", docx(FEES, DOG, word_table(["a", "b"])), parse_document),
    "HTML": ("x.html", HTML, parse_document),
    "Markdown": ("x.md", MARKDOWN, parse_document),
}


@pytest.mark.parametrize("kind", [*IMPORTED, *READ])
def test_a_malformed_input_is_read_or_a_clear_error(kind, tmp_path):
    name, valid, read = (IMPORTED | READ)[kind]
    rng, refused, wrong = random.Random(kind), 0, []
    for n in range(EACH):
        data = mutated(valid, rng) if n else valid
        (tmp_path / name).write_bytes(data)
        try:
            read(tmp_path / name, *[tmp_path / f"out{n}"] * (kind in IMPORTED))
        except MTRAGError as e:
            assert n, e
            refused += 1
        except Exception as e:
            wrong.append((f"{type(e).__name__}: {e}"[:200], data[:2000]))
    assert not wrong
    assert 0 < refused < EACH


@pytest.mark.parametrize(
    "name", ["manifest.json", "trajectories.jsonl", "passages.jsonl", "tasks.jsonl"]
)
def test_a_run_with_a_malformed_file_is_read_or_a_clear_error(name, tmp_path):
    (tmp_path / "x.jsonl").write_bytes(SPANS)
    folder = import_traces(tmp_path / "x.jsonl", tmp_path / "run").folder
    rng, wrong = random.Random(name), []
    valid = (folder / name).read_bytes()
    for _ in range(EACH):
        (folder / name).write_bytes(mutated(valid, rng))
        try:
            repr(Evidence(Run(folder)))
        except MTRAGError:
            pass
        except Exception as e:
            wrong.append(
                (f"{type(e).__name__}: {e}"[:200], (folder / name).read_bytes()[:2000])
            )
    assert not wrong
