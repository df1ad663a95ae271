"""More than one machine: many turns in flight to a server that is full, slows down, drops connections or starts again, and shards on a
Ray cluster of two nodes of which a worker is killed. Nothing is lost, and nothing that was answered is asked again."""

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
from pathlib import Path
from zlib import crc32

import pytest

from mtrag_nb.app.data import ingest
from mtrag_nb.app.run import live, run
from mtrag_nb.app.measure import judge
from mtrag_nb.core.files import read_json, read_jsonl, write_jsonl
from mtrag_nb.core.shards import Shard
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import ModelSpec, load_settings
from mtrag_nb.core.types import Passage, Task
from mtrag_nb.data.mtrag import sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.models.server import ServerChat
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.runs.shards import merge_runs
from mtrag_nb.search.ingest import Corpus, build_index, merge_indexes
from mtrag_nb.search.store import child_name, open_index
from mtrag_nb.systems.baselines import NAIVE
from tests.support import servers
from tests.support.qdrant import qdrant
from tests.support.servers import Asked, completion
from tests.support.volume import few

TURNS = 32


class Ferries:
    "Answers so many prompts at a time and no more, each in its own words; counts what it answered, by the prompt."

    def __init__(
        self, most: int = 99, seconds: float = 0.01, drops: int = 0, seen: int = 0
    ):
        self.most, self.seconds = most, seconds  # at a time; of a reply
        self.drops, self.seen = drops, seen  # every n-th connection is lost
        self.guard, self.now, self.answered = threading.Lock(), 0, Counter()

    def reply(self, asked: Asked) -> object:
        if asked.method == "GET":
            return {"data": [{"id": "any"}]}
        text = "\n".join(m["content"] for m in asked.body["messages"])
        with self.guard:
            self.seen += 1
            lost = self.drops and self.seen % self.drops == 0
            full = self.now >= self.most
            self.now += not full
        if full:
            return 429, {"error": "full"}, {}
        time.sleep(self.seconds)
        with self.guard:
            self.now -= 1
            self.answered[text] += not lost
        return None if lost else completion(f"It costs {crc32(text.encode())} crowns.")


@contextmanager
def serving(port: int = 0, **how) -> Iterator[tuple[Ferries, int]]:
    "A server while the block runs: what answers, and its port."
    ferries = Ferries(**how)
    with servers.serving(ferries.reply, port) as server:
        yield ferries, server.port


def tasks(n: int = TURNS) -> list[Task]:
    def fare(i):
        return (
            Passage(
                f"p{i}", f"Ferry {i} to the island costs {i} crowns.", domain="govt"
            ),
        )

    return [
        Task(
            f"c{i}<::>1",
            f"c{i}",
            1,
            "govt",
            f"What does ferry {i} cost?",
            contexts=fare(i),
        )
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
    return [
        line["predictions"][0]["text"]
        for _, line in read_jsonl(folder / "predictions.jsonl")
    ]


HASH, CHUNKS = HashEmbedder(), load_settings().chunks
FARE = "What does ferry 7 to the island cost?"


def hits(
    folder: Path, url: str = "", question=FARE, k=5, embedder=HASH, domain="govt"
) -> list:
    "What an index finds by the vector of a question, and by its words."
    vector = embedder.encode([question], query=True)[0]
    with open_index(folder, embedder, CHUNKS, url) as index:
        found = index.search(vector, k, domain), index.search_words(question, k, domain)
        return [[(child_name(h), round(h.score, 5)) for h in some] for some in found]


def indexed(folder: Path, shard: Shard | None = None, url: str = "") -> Path:
    "An index of nine passages, or a shard of it."
    corpus = Corpus(lambda: [p for t in tasks(9) for p in t.contexts])
    build_index(corpus, folder, HASH, CHUNKS, url, shard=shard, progress=False)
    return folder


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
    with serving(drops=1) as (
        handler,
        port,
    ):  # and of one that loses all it is said at once
        how["models"] = over(port)
        came = run_tasks(
            NAIVE, tasks(1), tmp_path / "lost", how["models"].settings, **how
        )
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
            files = (
                [f.readlink() for f in (path / "fd").iterdir()]
                if parent in raylets
                else ()
            )
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

    small = {
        "num_cpus": 1,
        "object_store_memory": 80 * 2**20,
        "include_dashboard": False,
    }
    made = Cluster(initialize_head=True, head_node_args=small)
    made.add_node(**{k: v for k, v in small.items() if k != "include_dashboard"})
    yield made
    made.shutdown()


def test_a_worker_that_is_killed_loses_nothing(cluster, tmp_path, monkeypatch):
    "Two nodes, four shards; one worker is killed within a shard. The merged run is the one of this process."
    monkeypatch.chdir(tmp_path)
    lines = []
    for t in tasks(16):
        about = {"conversation_id": t.conversation_id, "task_id": t.id, "turn": "1"}
        about |= {
            "Collection": "govt",
            "input": [{"speaker": "user", "text": t.question}],
        }
        contexts = [{"document_id": p.id, "text": p.text} for p in t.contexts]
        lines.append({**about, "contexts": contexts})
    write_jsonl(tmp_path / "tasks.jsonl", lines)
    with serving(seconds=0.6) as (handler, port):
        settings = over(port).settings
        spec = ModelSpec("any", url=f"http://127.0.0.1:{port}/v1")
        settings = replace(settings, batch_size=1, chat=spec)
        how = {"setting": "reference", "settings": settings, "progress": False}
        whole = run("tasks.jsonl", "whole", "naive", **how)
        asked = Counter({k: n for k, n in handler.answered.items() if "ferry" in k})
        assert set(asked.values()) == {1} and len(asked) == 16
        handler.answered.clear()
        raylets = [
            p.process.pid
            for node in cluster.list_all_nodes()
            for p in node.all_processes["raylet"]
        ]
        killed, came = [], []

        def go():
            place = {"on": f"ray:{cluster.address}", "shard": "4"}
            came.append(run("tasks.jsonl", "spread", "naive", **place, **how))

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
    parts = {
        read_json(p)["identity"]["shard"]
        for p in Path("spread").glob("shards/*/shard.json")
    }
    assert parts == {"1/4", "2/4", "3/4", "4/4"}


def timeless(x: object) -> object:
    "The same without seconds, and digests of what holds some."
    if isinstance(x, dict):
        return {
            k: timeless(v) for k, v in x.items() if k not in ("seconds", "of", "state")
        }
    return [timeless(v) for v in x] if isinstance(x, list) else x


@pytest.mark.parametrize("command", ["judge", "live", "ingest"])
def test_the_rest_over_a_cluster_is_what_one_process_does(
    command, cluster, tmp_path, monkeypatch
):
    "Judgements, live conversations and an index in three shards on two nodes: the same files, the same hits."
    monkeypatch.chdir(tmp_path)
    place, reference = f"ray:{cluster.address}", sample_dir() / "reference.jsonl"
    with serving() as (_, port):
        spec = ModelSpec("any", url=f"http://127.0.0.1:{port}/v1")
        changes = {"stages.rewrite": "never", "stages.grade_threshold": -1}
        settings = replace(load_settings("laptop", changes), chat=spec)
        how = {"progress": False, "settings": settings}
        if command == "ingest":
            ingest(sample_corpus(), "whole", ["clapnq"], **how)
            ingest(sample_corpus(), "spread", ["clapnq"], on=place, shard="3", **how)
            asked = {"question": "What is the fee of the ferry?", "k": 10, "domain": ""}
            asked["embedder"] = Models(settings).embedder
            whole, spread = (hits(folder, **asked) for folder in ("whole", "spread"))
            assert whole == spread and len(whole[0]) == 10
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


def merge_killed_at(file: int, parts: list[Path], out: Path) -> int:
    "The exit code of a process that merges, and is killed at the file with this number that it puts into place."
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    left, replace = [file], os.replace

    def put(*places: object, **how: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*places, **how)

    os.replace = Path.replace = put
    try:
        merge_runs(parts, out)
        os._exit(0)
    finally:
        os._exit(1)


def test_a_merge_that_is_killed_anywhere_is_run_again(tmp_path):
    "It is killed at each of the files that it puts into place; the next one makes the whole of it."
    with serving() as (_, port):
        models = over(port)
        how = {"setting": "reference", "models": models, "progress": False}
        whole = run_tasks(NAIVE, tasks(6), tmp_path / "whole", models.settings, **how)
        parts = [tmp_path / f"part-{i}" for i in (1, 2)]
        for i, folder in enumerate(parts, 1):
            run_tasks(
                NAIVE, tasks(6), folder, models.settings, shard=Shard(i, 2), **how
            )
    before = {p: p.read_bytes() for f in parts for p in f.rglob("*") if p.is_file()}
    names, ended = ("predictions.jsonl", "trajectories.jsonl"), []
    for n in range(1, 12):
        out = tmp_path / f"out-{n}"
        ended.append(merge_killed_at(n, parts, out))
        if ended[-1] == 0:
            break
        assert ended[-1] == -signal.SIGKILL
        merge_runs(parts, out)
        assert (out / names[0]).read_bytes() == (
            tmp_path / "whole" / names[0]
        ).read_bytes()
        assert Run(out).trajectories.keys() == whole.trajectories.keys()
    assert ended[-1] == 0 and len(ended) > 4, "it was killed at each file"
    assert all(p.read_bytes() == was for p, was in before.items()), (
        "the parts are as they were"
    )


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


@pytest.mark.parametrize("step", few((2, 1, 3, 4)))
def test_a_merge_of_indexes_that_is_killed_is_gone_on_with(step, tmp_path):
    "Before the first part, between two, and before it is finished: afterwards it has the hits of the whole."
    whole = indexed(tmp_path / "whole")
    parts = [indexed(tmp_path / f"part-{i}", Shard(i, 3)) for i in (1, 2, 3)]
    out = tmp_path / "out"
    words = [sys.executable, "-c", KILLED_INDEX, step, out, *parts]
    done = subprocess.run([str(word) for word in words], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    merge_indexes(parts, out)
    assert hits(out) == hits(whole)


# A Qdrant server: none can be had here, so its interface is one of its client's own engine over HTTP


def test_an_index_on_a_server_has_the_hits_of_the_one_in_a_folder(tmp_path):
    "Built there, brought there from two shards, and opened by another process's client: by vectors, by words and in one domain."
    here = indexed(tmp_path / "here")
    parts = [indexed(tmp_path / f"part-{i}", Shard(i, 2)) for i in (1, 2)]

    def loosely(*place):
        return [
            {(name, round(score, 3)) for name, score in some} for some in hits(*place)
        ]

    with qdrant() as (server, url):
        there = indexed(tmp_path / "there", url=url)
        assert loosely(there, url) == loosely(here)
        assert not (there / "qdrant").exists()
    with qdrant() as (server, url):
        merge_indexes(parts, tmp_path / "merged", url)
        assert loosely(tmp_path / "merged", url) == loosely(here)
        assert any("query/batch" in line for line in server.asked)
