"""Kill runs, judgements and ingestions at random moments, go on with them, and hold what comes of it against an undisturbed one.
Then two processes at once on one run, one folder of judgements, one index: one works, the other says so.

  python tools/kill_test.py [KILLS]     at least so many kills of each kind (default 20); about a minute

The processes that are killed are forks of this one, so that they need not import everything first; the model is scripted and the
embedder hashes, so that a whole run takes a fraction of a second. What is killed is killed by SIGKILL: nothing is cleaned up.
"""
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch  # noqa: F401 (before the forks: a run names the machine, and asks torch for it)

from mtrag_nb.core.record import Run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import Gold, InUse, Passage
from mtrag_nb.evaluate.judging import judge_run
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.search.build import build_index
from mtrag_nb.studies.robustness import cut_run, cut_tasks, doubled, essence


class SlowHash(HashEmbedder):
    "An embedder that takes its time, so that there is a moment to kill it in."

    def encode(self, texts, query=False):
        time.sleep(0.02)
        return super().encode(texts, query)


def judge(run: Path, out: Path, pause: float = 0.005) -> None:
    "Judge a run by a scripted judge."
    def reply(prompt):
        time.sleep(pause)
        return "Reasoning: it is.\nHallucination: no\nScore: 8" if "Score" in prompt.messages[-1][1] else "yes"
    models = Models(load_settings("laptop", {"batch_size": 2}), chat=ScriptedChat(reply), embedder=HashEmbedder())
    gold = {t.id: Gold(t.id, answerability="ANSWERABLE") for t in cut_tasks()}
    judge_run(run, cut_tasks(), gold, models.settings, "text", out=out, models=models, progress=False)


def judgements(folder: Path) -> list[str]:
    "What was judged, without what it cost."
    lines = (folder / "judgements.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted(json.dumps({k: v for k, v in json.loads(line).items() if k != "calls"}, sort_keys=True) for line in lines)


def ingest(folder: Path) -> None:
    "Build an index of 300 passages."
    corpus = [Passage(f"p{i}", f"Passage {i} names the fee of ferry {i}. " * 8, domain="govt") for i in range(300)]
    build_index(corpus, folder, SlowHash(), batch=32, progress=False)


def forked(work: Callable[[], None], seconds: float) -> bool:  # True: it ended by itself
    "Do work in a process of its own, and kill it after so long. Raises RuntimeError if it fails."
    pid = os.fork()
    if not pid:
        try: work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found and os.WEXITSTATUS(status): raise RuntimeError("a process failed that nobody killed")
        if found: return True
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def attack(name: str, work: Callable[[Path], None], check: Callable[[Path], bool], folder: Path, kills: int, longest: float = 0.4) -> None:
    "Kill the work again and again; whenever it has ended all the same, check what there is, and begin anew."
    rng, killed, ended = random.Random(0), 0, 0
    while killed < kills:
        here = folder / f"{name}{ended}"
        while not forked(lambda: work(here), rng.uniform(0.02, longest)):
            killed += 1
            if killed > 10 * kills: raise RuntimeError(f"{name} does not end")
        if not check(here): raise SystemExit(f"{name}: {here} is not what an undisturbed one is")
        ended += 1
    print(f"{name:8} {killed:4} kills, {ended} ended all the same, and as undisturbed")


def started(work: Callable[[], None], gate: int) -> int:
    "A process that waits for the gate to be closed, and then works; its exit code is 3 if somebody else does. Gives its number."
    pid = os.fork()
    if pid: return pid
    os.read(gate, 1)
    try: work()
    except InUse: os._exit(3)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def together(name: str, work: Callable[[Path], None], check: Callable[[Path], bool], folder: Path, times: int) -> None:
    "Two processes begin the same work at the same moment, again and again: one must work, and the other must say so."
    for n in range(times):
        here, (gate, opener) = folder / f"two-{name}{n}", os.pipe()
        pids = [started(lambda: work(here), gate) for _ in range(2)]
        os.close(gate)
        time.sleep(0.05)
        os.write(opener, b"go")
        os.close(opener)
        codes = sorted(os.WEXITSTATUS(os.waitpid(pid, 0)[1]) for pid in pids)
        if codes != [0, 3] or not check(here): raise SystemExit(f"{name}: two processes ended with {codes}, in {here}")
    print(f"{name:8} {times:4} times two processes: one worked, one said so, and as undisturbed")


def main(kills: int = 20) -> None:
    "All of it."
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cut_run(folder / "whole"), judge(folder / "whole", folder / "judged"), ingest(folder / "index")
        run, judged = essence(Run(folder / "whole")), judgements(folder / "judged")
        index = (folder / "index" / "manifest.json").read_bytes()
        works = {"run": (lambda f: cut_run(f, 0.02), lambda f: essence(Run(f)) == run and not doubled(f)),
                 "judge": (lambda f: judge(folder / "whole", f), lambda f: judgements(f) == judged),
                 "ingest": (ingest, lambda f: (f / "manifest.json").read_bytes() == index)}
        for name, (work, check) in works.items(): attack(name, work, check, folder, kills, 1.5 if name == "ingest" else 0.4)
        for name, (work, check) in works.items(): together(name, work, check, folder, kills)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
