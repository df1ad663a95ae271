"""Small attacks from outside, each of which once lost, froze or mixed something."""

import json
import selectors
import socket
import threading
import time

import httpx
import pytest

from mtrag_nb.core.types import DataError
from mtrag_nb.data.traces import read_kinds
from mtrag_nb.runs.run import _merged_lines
from mtrag_nb.serve.api import make_app, rules_of, serving
from mtrag_nb.serve.service import Service
from mtrag_nb.systems.outside import _Memory, as_passage, load_outside
from mtrag_nb.systems.registry import read_system_yaml


def test_a_snippet_keeps_its_document():
    memory = _Memory()
    texts = ["The ferry leaves at nine.", "Ferry 2 leaves at ten.", "The ferry leaves at nine."]
    given = [as_passage({"id": "doc1", "text": text}) for text in texts]
    first, second, again = (memory.remember([c])[0] for c in given)
    assert first == again == "doc1" != second
    assert [c.document_id for c in memory.contexts([first, second])] == ["doc1", "doc1"]


def test_a_module_beside_the_file_is_part_of_the_system(tmp_path):
    (tmp_path / "mine_a.py").write_text(
        "from beside_a import word\n\n\ndef main(m):\n    return word\n"
    )
    (tmp_path / "beside_a.py").write_text("word = 'old'\n")
    place = f"{tmp_path / 'mine_a.py'}:main"
    before = load_outside(place).identity(None)
    assert load_outside(place).identity(None) == before
    (tmp_path / "beside_a.py").write_text("word = 'new'\n")
    assert load_outside(place).identity(None) != before


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


@pytest.mark.parametrize("line", [{}, {"task": 1}, {"task": {"id": []}}, {"task": {}}], ids=str)
def test_a_damaged_shard_is_named(line, tmp_path):
    (tmp_path / "tasks.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(DataError, match="tasks.jsonl:1: not a line of tasks"):
        _merged_lines("tasks", [tmp_path], {})


def flood(port: int, sources: list[str], each: int, over: threading.Event) -> None:
    "Hold silent connections from some addresses, and open each again that is closed."
    held = selectors.DefaultSelector()

    def begin(source: str) -> None:
        s = socket.socket()
        s.setblocking(False)
        s.bind((source, 0))
        s.connect_ex(("127.0.0.1", port))
        held.register(s, selectors.EVENT_READ, source)

    for source in sources:
        for _ in range(each):
            begin(source)
    while not over.is_set():
        for key, _ in held.select(0.05):
            held.unregister(key.fileobj)
            key.fileobj.close()
            begin(key.data)
    for key in [*held.get_map().values()]:
        key.fileobj.close()


@pytest.mark.parametrize(
    "sources, each", [(["127.0.0.2"], 600), ([f"127.0.0.{n}" for n in range(2, 8)], 99)]
)
def test_silent_connections_of_some_addresses_keep_nobody_out(sources, each, tmp_path):
    service, over = Service(tmp_path / "library", tmp_path / "served"), threading.Event()
    with serving(make_app(service, rules_of(service, per_minute=1e9))) as url:
        port = int(url.rpartition(":")[2])
        thread = threading.Thread(target=flood, args=(port, sources, each, over))
        thread.start()
        time.sleep(1)
        try:
            got = [httpx.get(f"{url}/", timeout=20).status_code for _ in range(20)]
        finally:
            over.set()
            thread.join()
    assert got == [200] * 20
