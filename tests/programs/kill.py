"""Kill runs, judgements and ingestions at random moments, go on with them, and hold what comes of it against an undisturbed one.
Likewise changes of a library: after each kill it must be what it was before the change or what it is after it, and no byte of its
folder may tell what a removed document said. A server is killed while two tabs mark the same turns: every mark that it took must be
there when it is started again; and killed while it deletes a conversation with its marks. Then two processes at once on one run, one folder of judgements, one index, one library:
one works, the other says so.

  python tests/programs/kill.py [KILLS [ROUNDS]]     at least so many kills of each kind (default 20), and so many rounds of adding, replacing
                                                 and removing a document (default 10); some three minutes

The processes that are killed are forks of this one, so that they need not import everything first; the model is scripted and the
embedder hashes, so that a whole run takes a fraction of a second. What is killed is killed by SIGKILL: nothing is cleaned up.
"""

import json
import os
import random
import signal
import string
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import torch  # noqa: F401 (before the forks: a run names the machine, and asks torch for it)

from mtrag_nb.core.files import read_json, read_jsonl
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import Gold, InUse, Passage
from mtrag_nb.evaluation.judged_runs import judge_run
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.search.ingest import build_index
from mtrag_nb.search.generations import data_folder
from mtrag_nb.search.manifest import Manifest
from mtrag_nb.search.store import open_index
from mtrag_nb.serve.api import make_app
from mtrag_nb.serve.guard import rules_of
from mtrag_nb.serve.library import Library
from mtrag_nb.serve.serve import home_page
from mtrag_nb.serve.service import Service
from tests.support.cut import cut_run, cut_tasks, doubled, essence
from tests.support.servers import running
from tests.support.traces import traces


Work, Check = Callable[[Path], None], Callable[[Path], bool]


class SlowHash(HashEmbedder):
    "An embedder that takes its time, so that there is a moment to kill it in."

    def encode(self, texts, query=False):
        time.sleep(0.02)
        return super().encode(texts, query)


def judge(run: Path, out: Path, pause: float = 0.005) -> None:
    "Judge a run by a scripted judge."

    def reply(prompt):
        time.sleep(pause)
        scored = "Score" in prompt.messages[-1][1]
        return "Reasoning: it is.\nHallucination: no\nScore: 8" if scored else "yes"

    settings, tasks = load_settings("laptop", {"batch_size": 2}), cut_tasks()
    models = Models(settings, chat=ScriptedChat(reply), embedder=HashEmbedder())
    gold = {t.id: Gold(t.id, answerability="ANSWERABLE") for t in tasks}
    judge_run(
        run, tasks, gold, settings, "text", out=out, models=models, progress=False
    )


def judgements(folder: Path) -> list[str]:
    "What was judged, without what it cost."
    lines = (o for _, o in read_jsonl(folder / "judgements.jsonl"))
    return sorted(json.dumps(o | {"calls": None}, sort_keys=True) for o in lines)


def ingest(folder: Path) -> None:
    "Build an index of 300 passages."
    text = "Passage {0} names the fee of ferry {0}. " * 8
    corpus = [Passage(f"p{i}", text.format(i), domain="govt") for i in range(300)]
    build_index(corpus, folder, SlowHash(), batch=32, progress=False)


def child(work: Callable[[], None]) -> int:
    "A process of its own that works: its number. Its exit code is 3 if somebody else is at work there."
    if pid := os.fork():
        return pid
    try:
        work()
    except InUse:
        os._exit(3)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def forked(work: Callable[[], None], seconds: float, sign: Path | None = None) -> bool:
    "Work in a process of its own, killed after so long or when a file is there; whether it ended by itself. Raises RuntimeError if it fails."
    pid = child(work)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (sign and sign.exists()):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found and os.WEXITSTATUS(status):
            raise RuntimeError("a process failed that nobody killed")
        if found:
            return True
        time.sleep(0.0002 if sign else 0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def attack(
    name: str, work: Work, check: Check, folder: Path, kills: int, longest: float = 0.4
):
    "Kill the work again and again; whenever it has ended all the same, check what there is, and begin anew."
    rng, killed, ended = random.Random(0), 0, 0
    while killed < kills:
        here, row = folder / f"{name}{ended}", 0
        while not forked(
            lambda: work(here), rng.uniform(0.02, longest) * (1 + row // 10)
        ):
            killed += 1
            row += 1
            if row > 200:
                raise RuntimeError(f"{name} does not end")
        if not check(here):
            raise SystemExit(f"{name}: {here} is not what an undisturbed one is")
        ended += 1
    print(f"{name:8} {killed:4} kills, {ended} ended all the same, and as undisturbed")


def strangers(folder: Path) -> list[str]:
    "What lies in a library's folder beside its manifest and the state that this names."
    own = data_folder(folder, Manifest.load(folder)).name
    return sorted({p.name for p in folder.iterdir()} - {".lock", "manifest.json", own})


class Shelf:
    "A library, and what should be in it."

    def __init__(self, folder: Path):
        self.folder, self.rng, self.told = folder, random.Random(0), Counter()
        # name of a document -> a word that only it has; all such words there ever were
        self.holds, self.words = {}, set()

    def write(self, name: str) -> str:
        "Write a document, or another of that name; its word."
        word = "".join(self.rng.choices(string.ascii_lowercase, k=24))
        text = (
            f"The ferry carries {word} and is back before night. "
            * self.rng.randint(1, 60)
        )
        self.path(name).parent.mkdir(exist_ok=True)
        self.path(name).write_text(f"# About {name}\n\n{text}")
        self.words.add(word)
        return word

    def path(self, name: str) -> Path:
        return self.folder.with_name("documents") / name

    def next(self) -> Path:
        "The folder of the state that a change makes."
        return self.folder / f"generation-{Manifest.load(self.folder).generation + 1}"

    def look(self, answer: Path) -> None:
        "Open the library as it was left, and write down what it is."
        names = [e.name for e in Library(self.folder).documents()]
        with open_index(self.folder, HashEmbedder()) as index:
            found = index.search(HashEmbedder().encode(["x"])[0], 10**5)
            sound = len(found) == index.manifest.total("children")
        left = strangers(self.folder)
        answer.write_text(
            json.dumps([names, sorted(traces(self.folder, self.words)), sound, left])
        )

    def change(
        self, work: Callable[[], object], after: dict[str, str], longest: float
    ) -> None:
        "Make a change, killed until it is there; after each kill the library must be as before or as after, sound, and tell nothing more."
        states = [
            [sorted(s), sorted(s.values()), True, []] for s in (self.holds, after)
        ]
        for n in range(100):
            sign, seconds = None, self.rng.uniform(0, longest) * (1 + n // 4)
            if self.rng.random() < 0.3:
                sign, seconds = self.next() / "manifest.json", 600
            ended, answer = (
                forked(work, seconds, sign),
                self.folder.with_name("answer.json"),
            )
            at = "made" if strangers(self.folder) else "elsewhere"
            self.told["ended" if ended else at] += 1
            if not forked(lambda: self.look(answer), 600):
                raise SystemExit(f"library: {self.folder} cannot be read")
            found = json.loads(answer.read_text())
            if found not in states:
                raise SystemExit(
                    f"library: {found} is neither {states[0]} nor {states[1]}"
                )
            self.told["made all the same"] += not ended and found == states[1]
            if found == states[1]:
                break
        else:
            raise SystemExit("library: a change does not end")
        self.holds = after


def add(folder: Path, source: Path) -> object:
    return Library(folder).add(source, "own", HashEmbedder())


def attack_library(folder: Path, rounds: int) -> None:
    "Add, replace and remove documents, each change killed until it is made; in the end hold the library against one made at once."
    shelf, library = Shelf(folder / "library"), Library(folder / "library")
    for name in ("a.md", "b.md", "c.md"):
        shelf.holds[name], began = shelf.write(name), time.monotonic()
        if not forked(lambda: add(library.folder, shelf.path(name)), 600):
            raise SystemExit("library: it takes too long")
    longest = time.monotonic() - began
    for n in range(rounds):
        name = f"{n}.md"
        for _ in range(2):
            holds = {**shelf.holds, name: shelf.write(name)}
            shelf.change(lambda: add(library.folder, shelf.path(name)), holds, longest)
        name = shelf.rng.choice(sorted(shelf.holds))
        holds = {k: w for k, w in shelf.holds.items() if k != name}
        shelf.change(lambda: library.remove([name]), holds, longest / 2)
        shelf.path(name).unlink()
    if not forked(lambda: add(folder / "at-once", folder / "documents"), 600):
        raise SystemExit("library: it takes too long")
    made = [
        read_json(f / "manifest.json") for f in (folder / "at-once", library.folder)
    ]
    if made[0] | {"generation": 0} != made[1] | {"generation": 0}:
        raise SystemExit("library: it is not what one made at once is")
    killed = shelf.told["made"] + shelf.told["elsewhere"]
    print(f"library  {killed:4} kills in {3 * rounds} changes", end=" ")
    print(f"({shelf.told['made']} with two generations in the folder),", end=" ")
    print(
        f"{shelf.told['made all the same']} of them too late; always as before or after",
        end="",
    )
    print(", and no trace of what was removed")


@contextmanager
def server(folder: Path) -> Iterator[httpx.Client]:
    "A server in a process of its own, with scripted models, killed at the end of the block."
    here, there = os.pipe()

    def work():
        chat = ScriptedChat(lambda prompt: "A dog travels for four crowns.")
        models = Models(load_settings("laptop"), chat=chat, embedder=HashEmbedder())
        how = {"system": "naive", "models": models}
        with Service(folder / "library", folder / "served", **how) as service:
            rules = rules_of(service, "127.0.0.1", "", per_minute=10**9)
            with running(make_app(service, rules, *home_page())) as url:
                os.write(there, url.encode())
                time.sleep(600)

    pid = os.fork()
    if not pid:
        with suppress(BaseException):
            work()
        os._exit(1)
    try:
        with httpx.Client(base_url=os.read(here, 200).decode(), timeout=60) as http:
            yield http
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(here), os.close(there)


class Tab(threading.Thread):
    "A tab of the page: marks one turn after the other until the server is gone, in a field of its own."

    def __init__(
        self, http: httpx.Client, field: str, turns: list[str], taken: dict, first: int
    ):
        super().__init__()
        self.http, self.field, self.turns, self.n = http, field, turns, first
        self.taken, self.sent = (
            taken,
            {},
        )  # turn -> the last mark that was taken; that was sent

    def run(self) -> None:
        with (
            suppress(httpx.HTTPError),
            httpx.Client(base_url=self.http.base_url) as http,
        ):
            while True:
                self.n += 1
                turn, text = (
                    self.turns[self.n % len(self.turns)],
                    f"{self.field} {self.n}",
                )
                self.sent[turn] = text
                http.post(f"{turn}/mark", json={self.field: text}).raise_for_status()
                self.taken[turn] = text


def marks_of(http: httpx.Client) -> dict[str, dict]:
    "Address of a turn -> what is marked of it; each line of the file is whole."
    lines = [json.loads(line) for line in http.get("/api/marks").text.splitlines()]
    places = (f"/api/conversations/{o['conversation_id']}/{o['turn']}" for o in lines)
    return dict(zip(places, (o["marks"] for o in lines)))


def attack_marks(folder: Path, kills: int) -> None:
    "Kill a server while two tabs mark the same turns, and while it deletes a conversation; each time look what is there after."
    rng, turns, taken = random.Random(0), [], {"note": {}, "answer": {}}
    with server(folder) as http:
        text = b"# Fees\n\nA dog travels for four crowns, and a cat for two.\n"
        http.post("/api/upload", files={"file": ("fees.md", text)}).raise_for_status()
        for n in range(8):
            talk = turns[-1].split("/")[3] if n % 2 else ""
            asked = {"question": f"What is fee {n}?", "conversation_id": talk}
            reply = http.post("/api/query", json=asked).json()
            turns.append(
                f"/api/conversations/{reply['conversation_id']}/{reply['turn']}"
            )
    sent, count, many = {}, 0, 0
    for _ in range(kills):
        with server(folder) as http:
            there = marks_of(http)
            for field, last in taken.items():
                for turn, text in last.items():
                    if there.get(turn, {}).get(field) not in (
                        text,
                        sent[field].get(turn),
                    ):
                        raise SystemExit(
                            f"marks: {turn} lost {text!r}: {there.get(turn)}"
                        )
                    last[turn] = there[turn][field]
            tabs = [
                Tab(http, field, turns, last, count) for field, last in taken.items()
            ]
            for tab in tabs:
                tab.start()
            time.sleep(rng.uniform(0.02, 0.3))
        for tab in tabs:
            tab.join()
        sent = {tab.field: tab.sent for tab in tabs}
        many += sum(tab.n - count for tab in tabs)
        count = max(tab.n for tab in tabs)
    deleted = 0
    for talk in {turn.split("/")[3] for turn in turns}:
        for n in range(20):
            with server(folder) as http:
                there = [turn for turn in marks_of(http) if talk in turn]
                gone = http.get(f"/api/conversations/{talk}").status_code == 404
                if gone and (there or traces(folder, {talk})):
                    raise SystemExit(
                        f"marks: conversation {talk} is gone, and left {there}"
                    )
                known = {t for last in taken.values() for t in last if talk in t}
                if not gone and not known <= set(there):
                    raise SystemExit(
                        f"marks: conversation {talk} is there, with marks of {there}"
                    )
                if gone:
                    break
                late = threading.Thread(target=delete, args=(str(http.base_url), talk))
                late.start()
                time.sleep(rng.uniform(0, 0.03 * (1 + n)))
            late.join()
            deleted += 1
        else:
            raise SystemExit("marks: a deletion does not end")
    print(f"marks    {kills:4} kills while {many} marks came from two tabs,", end=" ")
    print(
        f"{deleted} in deletions of conversations; each mark that was taken is there",
        end="",
    )
    print(", none of what was deleted")


def delete(url: str, talk: str) -> None:
    with suppress(httpx.HTTPError):
        httpx.delete(f"{url}/api/conversations/{talk}", timeout=60)


def together(name: str, work: Work, check: Check, folder: Path, times: int) -> None:
    "Two processes begin the same work at the same moment, again and again: one must work, and the other must say so."
    for n in range(times):
        here, (gate, opener) = folder / f"two-{name}{n}", os.pipe()
        pids = [child(lambda: (os.read(gate, 1), work(here))) for _ in range(2)]
        os.close(gate)
        time.sleep(0.05)
        os.write(opener, b"go")
        os.close(opener)
        codes = sorted(os.WEXITSTATUS(os.waitpid(pid, 0)[1]) for pid in pids)
        if codes != [0, 3] or not check(here):
            raise SystemExit(f"{name}: two processes ended with {codes}, in {here}")
    print(
        f"{name:8} {times:4} times two processes: one worked, one said so, and as undisturbed"
    )


def library_is_whole(folder: Path, names: list[str]) -> bool:
    "Whether a library holds these documents, and nothing is left of the change that put them there."
    return [e.name for e in Library(folder).documents()] == names and not strangers(
        folder
    )


def main(kills: int = 20, rounds: int = 10) -> None:
    "All of it."
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cut_run(folder / "whole")
        judge(folder / "whole", folder / "judged")
        ingest(folder / "index")
        run, judged = essence(Run(folder / "whole")), judgements(folder / "judged")
        index = (folder / "index" / "manifest.json").read_bytes()
        works = {
            "run": (
                lambda f: cut_run(f, 0.02),
                lambda f: essence(Run(f)) == run and not doubled(f),
            ),
            "judge": (
                lambda f: judge(folder / "whole", f),
                lambda f: judgements(f) == judged,
            ),
            "ingest": (ingest, lambda f: (f / "manifest.json").read_bytes() == index),
        }
        for name, (work, check) in works.items():
            attack(name, work, check, folder, kills, 1.5 if name == "ingest" else 0.4)
        attack_library(folder, rounds)
        attack_marks(folder / "service", kills)
        names = sorted(p.name for p in (folder / "documents").iterdir())
        documents = folder / "documents"
        works["library"] = (
            lambda f: add(f, documents),
            lambda f: library_is_whole(f, names),
        )
        for name, (work, check) in works.items():
            together(name, work, check, folder, kills)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
