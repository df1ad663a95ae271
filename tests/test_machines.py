"""More than one machine: many turns in flight to a server that is full, slows down, drops connections or starts again, and shards on a
Ray cluster of two nodes of which a worker is killed. Nothing is lost, and nothing that was answered is asked again."""

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zlib import crc32

import pytest

from mtrag_nb.app.run import run
from mtrag_nb.core.files import read_json, read_jsonl, write_jsonl
from mtrag_nb.core.settings import ModelSpec, load_settings
from mtrag_nb.core.types import Passage, Task
from mtrag_nb.models.calls import Models
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.models.server import Abilities, ServerChat
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.systems.baselines import NAIVE

TURNS = 32


class Handler(BaseHTTPRequestHandler):
    "Answers so many prompts at a time and no more, each in its own words; counts what it answered, by the prompt."

    protocol_version = "HTTP/1.1"
    most, seconds, drops = 99, 0.01, 0  # at a time; of a reply; every n-th connection is lost
    guard, now, seen = threading.Lock(), 0, 0
    answered: Counter = Counter()

    def do_GET(self):
        self.send(200, {"data": [{"id": "any"}]})

    def do_POST(self):
        cls, body = type(self), json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = "\n".join(m["content"] for m in body["messages"])
        with cls.guard:
            cls.seen += 1
            lost = cls.drops and cls.seen % cls.drops == 0
            full = cls.now >= cls.most
            cls.now += not full
        if full:
            return self.send(429, {"error": "full"})
        time.sleep(self.seconds)
        with cls.guard:
            cls.now -= 1
            cls.answered[text] += not lost
        if lost:
            self.close_connection = True
            return self.connection.shutdown(2)
        said = f"It costs {crc32(text.encode())} crowns."
        choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 5}
        self.send(200, {"choices": [choice], "usage": usage})

    def send(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128

    def handle_error(self, *args):
        "A client that is gone is no error of the server."


@contextmanager
def serving(port: int = 0, **how) -> Iterator[tuple[type[Handler], int]]:
    "A server while the block runs: its handler, and its port."
    kind = type("Own", (Handler,), {"guard": threading.Lock(), "answered": Counter(), **how})
    with Server(("127.0.0.1", port), kind) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield kind, server.server_port
        server.shutdown()


def tasks(n: int = TURNS) -> list[Task]:
    def fare(i):
        return (Passage(f"p{i}", f"Ferry {i} to the island costs {i} crowns.", domain="govt"),)

    return [
        Task(f"c{i}<::>1", f"c{i}", 1, "govt", f"What does ferry {i} cost?", contexts=fare(i))
        for i in range(n)
    ]


def over(port: int, **how) -> Models:
    "The models of a run over the server."
    spec = ModelSpec("any", url=f"http://127.0.0.1:{port}/v1")
    settings = load_settings("laptop", {"batch_size": TURNS})
    chat = ServerChat(spec, TURNS, pause=0.01, abilities=Abilities(), **how)
    return Models(settings, chat, HashEmbedder())


def answers(folder: Path, models: Models) -> list[str]:
    "All turns in flight together; the predictions, in the order of the tasks."
    how = {"setting": "reference", "models": models, "progress": False}
    came = run_tasks(NAIVE, tasks(), folder, models.settings, **how)
    assert not [t for t in came.trajectories.values() if t.failed]
    return [line["predictions"][0]["text"] for _, line in read_jsonl(folder / "predictions.jsonl")]


@pytest.fixture(scope="module")
def right(tmp_path_factory) -> list[str]:
    with serving() as (_, port):
        return answers(tmp_path_factory.mktemp("right"), over(port))


TROUBLES: dict[str, dict] = {
    "takes four at a time": {"most": 4},
    "takes one at a time": {"most": 1},
    "loses every fifth connection": {"drops": 5},
    "takes four and loses connections": {"most": 4, "drops": 7},
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_server_in_trouble_answers_every_turn_once(trouble, right, tmp_path):
    with serving(**TROUBLES[trouble]) as (handler, port):
        models = over(port)
        assert answers(tmp_path, models) == right
    assert len(handler.answered) == TURNS and set(handler.answered.values()) == {1}
    assert models.chat.connection.flow.width < TURNS


def test_a_server_that_slows_down_gets_less_at_a_time(right, tmp_path):
    with serving(seconds=0.3) as (handler, port):
        models = over(port, timeout=0.5)
        assert answers(tmp_path, models) == right
    assert set(handler.answered.values()) == {1} and models.chat.connection.flow.width < TURNS


def test_a_server_that_starts_again_is_waited_for(right, tmp_path):
    "It is gone for half a second, after it has served some; another one at the same port serves the rest."
    came: list = []
    with serving(most=2, seconds=0.05) as (first, port):
        models = over(port)
        work = threading.Thread(target=lambda: came.append(answers(tmp_path, models)))
        work.start()
        while sum(first.answered.values()) < 8:
            time.sleep(0.01)
    time.sleep(0.5)
    with serving(port) as (second, _):
        work.join(60)
    assert came == [right]
    recorded = len(list(read_jsonl(tmp_path / "calls.jsonl")))
    assert recorded == TURNS and not work.is_alive()
    lost = sum((first.answered + second.answered).values()) - TURNS
    assert 0 <= lost <= 2, "no more than what was under way when it went"
