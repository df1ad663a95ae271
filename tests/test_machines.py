"""More than one machine: many turns in flight to a server that is full, slows down, drops connections or starts again, and shards on a
Ray cluster of two nodes of which a worker is killed. Nothing is lost, and nothing that was answered is asked again."""

import json
import os
import signal
import subprocess
import sys
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

from mtrag_nb.app.cli import run
from mtrag_nb.core.files import Shard, read_json, read_jsonl, write_jsonl
from mtrag_nb.core.record import Run
from mtrag_nb.core.settings import ModelSpec, load_settings
from mtrag_nb.core.types import Passage, Task
from mtrag_nb.models.calls import Models
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.models.server import ServerChat
from mtrag_nb.runs.run import merge_runs, run_tasks
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
        try:
            yield kind, server.server_port
        finally:
            server.shutdown()


def tasks(n: int = TURNS) -> list[Task]:
    def fare(i):
        return (Passage(f"p{i}", f"Ferry {i} to the island costs {i} crowns.", domain="govt"),)

    return [
        Task(f"c{i}<::>1", f"c{i}", 1, "govt", f"What does ferry {i} cost?", contexts=fare(i))
        for i in range(n)
    ]


def over(port: int, most: int = TURNS, **how) -> Models:
    "The models of a run over the server, which gets so many requests at a time."
    spec = ModelSpec("any", url=f"http://127.0.0.1:{port}/v1")
    settings = load_settings("laptop", {"batch_size": TURNS})
    chat = ServerChat(spec, most, pause=0.01, check=False, **how)
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


def test_a_server_that_loses_its_first_connection_is_asked_once_more(right, tmp_path):
    with serving(drops=99, seen=98) as (handler, port):
        how = {"setting": "reference", "models": over(port), "progress": False}
        came = run_tasks(NAIVE, tasks(1), tmp_path, how["models"].settings, **how)
    assert not came.trajectories["c0<::>1"].failed and handler.seen == 100
    with serving(drops=1) as (handler, port):  # and of one that loses all it is said at once
        how["models"] = over(port)
        came = run_tasks(NAIVE, tasks(1), tmp_path / "lost", how["models"].settings, **how)
    assert came.trajectories["c0<::>1"].failed and handler.seen == 2


def test_a_server_gets_no_more_requests_at_a_time_than_the_batch_size(right, tmp_path):
    with serving(most=5, seconds=0.05) as (handler, port):
        assert answers(tmp_path, over(port, most=5)) == right
        assert handler.seen == TURNS, "none was refused"


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


# Shards on a Ray cluster


def at_work(raylets: list[int]) -> dict[int, Path]:
    "The workers among the children of these processes that are within a shard, and the shard's folder."
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            files = [f.readlink() for f in (path / "fd").iterdir()] if parent in raylets else ()
        except OSError:
            continue  # it has ended meanwhile
        found |= {int(path.name): f.parent for f in files if f.name == "calls.jsonl"}
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    "Two nodes on this machine. Their workers are as nice as everybody else: on a busy machine they would never come to work."
    pytest.importorskip("ray")
    os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=small)
    made.add_node(**{k: v for k, v in small.items() if k != "include_dashboard"})
    yield made
    made.shutdown()


def test_a_worker_that_is_killed_loses_nothing(cluster, tmp_path, monkeypatch):
    "Two nodes, four shards; one worker is killed within a shard. The merged run is the one of this process."
    monkeypatch.chdir(tmp_path)
    lines = [
        {
            "conversation_id": t.conversation_id,
            "task_id": t.id,
            "turn": "1",
            "Collection": "govt",
            "input": [{"speaker": "user", "text": t.question}],
            "contexts": [{"document_id": p.id, "text": p.text} for p in t.contexts],
        }
        for t in tasks(16)
    ]
    write_jsonl(tmp_path / "tasks.jsonl", lines)
    with serving(seconds=0.6) as (handler, port):
        settings = over(port).settings
        settings = replace(
            settings, batch_size=1, chat=ModelSpec("any", url=f"http://127.0.0.1:{port}/v1")
        )
        how = {"setting": "reference", "settings": settings, "progress": False}
        whole = run("tasks.jsonl", "whole", "naive", **how)
        asked = Counter({k: n for k, n in handler.answered.items() if "ferry" in k})
        assert set(asked.values()) == {1} and len(asked) == 16
        handler.answered.clear()
        raylets = [
            p.process.pid for node in cluster.list_all_nodes() for p in node.all_processes["raylet"]
        ]
        killed, came = [], []

        def go():
            came.append(
                run("tasks.jsonl", "spread", "naive", on=f"ray:{cluster.address}", shard="4", **how)
            )

        work = threading.Thread(target=go)
        work.start()
        while work.is_alive() and not killed:
            time.sleep(0.05)
            for pid, shard in at_work(raylets).items():
                if (shard / "trajectories.jsonl").read_text().count("\n") == 2:
                    killed.append(shard.name)
                    os.kill(pid, signal.SIGKILL)
                    break
        work.join(600)
    assert came and killed, "a worker was killed on the way"
    name = "predictions.jsonl"
    assert Path("spread", name).read_bytes() == Path("whole", name).read_bytes()
    assert came[0].manifest["identity"] == whole.manifest["identity"]
    again = {k: n for k, n in handler.answered.items() if "ferry" in k}
    twice = sum(again.values()) - 16
    assert len(again) == 16 and 0 <= twice <= 1, "at most the turn that was under way"
    recorded = list(read_jsonl(Path("spread", "trajectories.jsonl")))
    assert len(recorded) == len({line["task_id"] for _, line in recorded}) == 16
    parts = {read_json(p)["identity"]["shard"] for p in Path("spread").glob("shards/*/shard.json")}
    assert parts == {"1/4", "2/4", "3/4", "4/4"}


def timeless(x: object) -> object:
    "The same without seconds, and digests of what holds some."
    if isinstance(x, dict):
        return {k: timeless(v) for k, v in x.items() if k not in ("seconds", "of", "state")}
    return [timeless(v) for v in x] if isinstance(x, list) else x


@pytest.mark.parametrize("command", ["judge", "live", "ingest"])
def test_what_else_goes_over_a_cluster_is_what_one_process_does(
    command, cluster, tmp_path, monkeypatch
):
    "Judgements, live conversations and an index in three shards on two nodes: the same files, the same hits."
    from mtrag_nb.app.evaluate import judge
    from mtrag_nb.app.cli import ingest, live
    from mtrag_nb.data.mtrag import sample_corpus, sample_dir
    from mtrag_nb.search.store import child_name, open_index

    monkeypatch.chdir(tmp_path)
    place, reference = f"ray:{cluster.address}", sample_dir() / "reference.jsonl"
    with serving() as (_, port):
        spec = ModelSpec("any", url=f"http://127.0.0.1:{port}/v1")
        settings = load_settings(
            "laptop", {"stages.rewrite": "never", "stages.grade_threshold": -1}
        )
        settings, how = replace(settings, chat=spec), {"progress": False}
        how["settings"] = settings
        if command == "ingest":
            ingest(sample_corpus(), "whole", ["clapnq"], **how)
            ingest(sample_corpus(), "spread", ["clapnq"], on=place, shard="3", **how)
            found = []
            for folder in ("whole", "spread"):
                embedder = Models(settings).embedder
                index = open_index(folder, embedder, settings.chunks)
                vector = embedder.encode(["What is the fee of the ferry?"], query=True)[0]
                found.append([(child_name(h), round(h.score, 5)) for h in index.search(vector, 10)])
                index.close()
            assert found[0] == found[1] and len(found[0]) == 10
            return
        given = {"setting": "reference", "limit": 12, **how}
        if command == "live":
            live(reference, "whole", "naive", **given)
            live(reference, "spread", "naive", on=place, shard="3", **given)
            names = ["predictions.jsonl"]
        else:
            run(reference, "whole", "naive", **given)
            run(reference, "spread", "naive", **given)
            asked = {"protocols": ["faithfulness"], "way": "text", **how}
            judge(["whole"], **asked)
            judge(["spread"], on=place, shard="3", **asked)
            names = ["judgements.jsonl"]
    for name in names:
        files = (read_jsonl(Path(folder, name)) for folder in ("whole", "spread"))
        both = [sorted((x for _, x in f), key=lambda x: x["task_id"]) for f in files]
        for one, other in zip(*both):
            assert timeless(one) == timeless(other)
        assert len(both[0]) == 12


# A merge that is killed


KILLED = """
import os, signal, sys
from pathlib import Path
from mtrag_nb.core import files
from mtrag_nb.runs.run import merge_runs
left = [int(sys.argv[1])]
replace = os.replace
def last(*a, **how):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(*a, **how)
os.replace = Path.replace = last
merge_runs(sys.argv[3:], sys.argv[2])
"""


def test_a_merge_that_is_killed_anywhere_is_run_again(tmp_path):
    "It is killed at each of the files that it puts into place; the next one makes the whole of it."
    with serving() as (_, port):
        models = over(port)
        how = {"setting": "reference", "models": models, "progress": False}
        whole = run_tasks(NAIVE, tasks(6), tmp_path / "whole", models.settings, **how)
        parts = [tmp_path / f"part-{i}" for i in (1, 2)]
        for i, folder in enumerate(parts, 1):
            run_tasks(NAIVE, tasks(6), folder, models.settings, shard=Shard(i, 2), **how)
    before = {p: p.read_bytes() for f in parts for p in f.rglob("*") if p.is_file()}
    names, ended = ("predictions.jsonl", "trajectories.jsonl"), []
    for n in range(1, 12):
        out = tmp_path / f"out-{n}"
        command = [sys.executable, "-c", KILLED, str(n), str(out), *map(str, parts)]
        ended.append(subprocess.run(command, capture_output=True, text=True).returncode)
        if ended[-1] == 0:
            break
        assert ended[-1] == -signal.SIGKILL
        merge_runs(parts, out)
        assert (out / names[0]).read_bytes() == (tmp_path / "whole" / names[0]).read_bytes()
        assert Run(out).trajectories.keys() == whole.trajectories.keys()
    assert ended[-1] == 0 and len(ended) > 4, "it was killed at each file"
    assert all(p.read_bytes() == was for p, was in before.items()), "the parts are as they were"


KILLED_INDEX = """
import os, signal, sys
from mtrag_nb.search import ingest
left = [int(sys.argv[1])]
def until(work):
    def step(*a, **how):
        left[0] -= 1
        return work(*a, **how) if left[0] else os.kill(os.getpid(), signal.SIGKILL)
    return step
ingest._add_index, ingest.finish = until(ingest._add_index), until(ingest.finish)
ingest.merge_indexes(sys.argv[3:], sys.argv[2])
"""


def test_a_merge_of_indexes_that_is_killed_is_gone_on_with(tmp_path):
    "Before the first part, between two, and before it is finished: afterwards it has the hits of the whole."
    from mtrag_nb.search.ingest import Corpus, build_index, merge_indexes
    from mtrag_nb.search.store import child_name, open_index

    passages = [p for t in tasks(9) for p in t.contexts]
    embedder, how = HashEmbedder(), {"progress": False}
    chunks = load_settings().chunks
    parts = [tmp_path / f"part-{i}" for i in (1, 2, 3)]
    build_index(Corpus(lambda: passages), tmp_path / "whole", embedder, chunks, **how)
    for i, part in enumerate(parts, 1):
        corpus = Corpus(lambda: passages)
        build_index(corpus, part, embedder, chunks, shard=Shard(i, 3), **how)

    def hits(folder):
        vector = embedder.encode(["What does ferry 7 cost?"], query=True)[0]
        with open_index(folder, embedder, chunks) as index:
            return [(child_name(h), round(h.score, 5)) for h in index.search(vector, 5)]

    for n in (1, 2, 3, 4):
        out = tmp_path / f"out-{n}"
        command = [sys.executable, "-c", KILLED_INDEX, str(n), str(out), *map(str, parts)]
        assert subprocess.run(command, capture_output=True).returncode == -signal.SIGKILL
        merge_indexes(parts, out)
        assert hits(out) == hits(tmp_path / "whole"), n


# A Qdrant server: none can be had here, so its interface is one of its client's own engine over HTTP


def test_an_index_on_a_server_has_the_hits_of_the_one_in_a_folder(tmp_path):
    "Built there, brought there from two shards, and opened by another process's client: by vectors, by words and in one domain."
    from mtrag_nb.search.ingest import Corpus, build_index, merge_indexes
    from mtrag_nb.search.store import child_name, open_index
    from tests.support.qdrant import qdrant

    passages = [p for t in tasks(9) for p in t.contexts]
    embedder, chunks = HashEmbedder(), load_settings().chunks
    question = "What does ferry 7 to the island cost?"

    def corpus():
        return Corpus(lambda: passages)

    def hits(folder, url=""):
        vector = embedder.encode([question], query=True)[0]
        with open_index(folder, embedder, chunks, url) as index:
            found = index.search(vector, 5, "govt"), index.search_words(question, 5, "govt")
            return [{(child_name(h), round(h.score, 3)) for h in hs} for hs in found]

    build_index(corpus(), tmp_path / "here", embedder, chunks, progress=False)
    for i in (1, 2):
        part = tmp_path / f"part-{i}"
        build_index(corpus(), part, embedder, chunks, shard=Shard(i, 2), progress=False)
    parts = [tmp_path / "part-1", tmp_path / "part-2"]
    with qdrant() as (server, url):
        build_index(corpus(), tmp_path / "there", embedder, chunks, url, progress=False)
        assert hits(tmp_path / "there", url) == hits(tmp_path / "here")
        assert not (tmp_path / "there" / "qdrant").exists()
    with qdrant() as (server, url):
        merge_indexes(parts, tmp_path / "merged", url)
        assert hits(tmp_path / "merged", url) == hits(tmp_path / "here")
        assert any("query/batch" in line for line in server.asked)
