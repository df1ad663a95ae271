"""`mtrag serve` under load: many conversations at once, faults injected, everything accounted for at the end.

  python tests/programs/serve_load.py [--talks 50] [--seconds 180] [--faults 0.1] [--levels 1 4 16]

The service runs in a process of its own, with a scripted chat model that takes a moment (--think seconds a batch), the hash
embedder, and a library of --documents documents. Each conversation asks one question after the other, by turns at /api/query,
as a stream, and at /v1/chat/completions; every question carries a word of its own. One in ten breaks: the model raises, or
the client hangs up in the middle of the stream. One answer in eight is marked, with its word as the note. Afterwards the record
is read: no turn and no mark is lost, none is in another conversation, each reply is the one that was recorded, each answer is about its own question, each fault names its node. The
last line reads `N passed, N failed`. Latencies are those of a scripted model: what the service adds, not what a model takes.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx

PROGRAM = """
import sys, time
from mtrag_nb.serve.serve import serve
from mtrag_nb.core.settings import load_settings
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder

class Thinking(ScriptedChat):
    "A script that takes a moment for a batch, says the question's own word, and raises where it is asked to."
    def generate(self, prompts, *rest, **how):
        time.sleep(float(sys.argv[2]))
        self.asked.clear()
        return super().generate(prompts, *rest, **how)

def reply(prompt):
    text = prompt.messages[-1][1]
    if "BREAK" in text.rpartition("Question:")[2]: raise OSError("an injected fault")
    return "The word is " + text.rpartition("word-")[2].split("?")[0].split()[0] + "."
serve(sys.argv[1] + "/library", sys.argv[1] + "/served", port=0, system="naive", ready=lambda said: print(said, flush=True),
      models=Models(load_settings(), Thinking(reply), HashEmbedder()), rate=10**9, waiting=10**6)
"""
WAYS = ("plain", "stream", "chat")


def started(program: str, *arguments: object) -> tuple[subprocess.Popen, str]:
    "A service in a process of its own, and its address, which the program prints."
    offline = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **offline}
    )
    line = process.stdout.readline()
    if not line.startswith("http"):
        raise RuntimeError(f"the service did not start: {line!r}")
    return process, line.split("  ")[0].rstrip("/")


class Talker(threading.Thread):
    "A conversation: asks until the time is over, and keeps what came."

    def __init__(self, url: str, number: int, until: float, faults: float):
        super().__init__(daemon=True)
        self.url, self.number, self.until, self.faults, self.rng = (
            url,
            number,
            until,
            faults,
            random.Random(number),
        )
        self.seconds, self.came, self.hung_up, self.odd, self.chat = [], {}, [], [], []
        self.talk, self.marked = "", {}

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=120) as http:
            n = 0
            while time.monotonic() < self.until:
                n += 1
                way, broken = WAYS[n % 3], self.rng.random() < self.faults
                kind = self.rng.choice(["model", "hang up"]) if broken else ""
                word = f"t{self.number}q{n}"
                question = f"What is word-{word}?" + " BREAK" * (kind == "model")
                start = time.monotonic()
                try:
                    self.one(http, way, question, word, kind)
                except Exception as e:
                    self.odd.append(f"{word} {way} {kind}: {type(e).__name__}: {e}")
                else:
                    if not broken:
                        self.seconds.append(time.monotonic() - start)

    def one(self, http: httpx.Client, way: str, question: str, word: str, kind: str) -> None:
        "One question, one way; raises if what comes is not what must come."
        if kind == "hang up":
            with http.stream(
                "POST", "/api/query", json={"question": question, "stream": True}
            ) as r:
                next(r.iter_lines())
            self.hung_up.append(word)
            return
        if way == "chat":
            self.chat.append({"role": "user", "content": question})
            r = http.post("/v1/chat/completions", json={"model": "naive", "messages": self.chat})
            reply = r.json().get("mtrag")
            self.chat = (
                self.chat + [{"role": "assistant", "content": reply["answer"]}]
                if reply
                else self.chat[:-1]
            )
            if len(self.chat) > 12:
                self.chat = []
        else:
            r = http.post(
                "/api/query",
                json={
                    "question": question,
                    "conversation_id": self.talk,
                    "stream": way == "stream",
                },
            )
            reply = (
                r.json() if way == "plain" else json.loads(r.text.strip().rpartition("data: ")[2])
            )
            reply = None if "error" in reply and way == "plain" and r.status_code == 500 else reply
        if kind == "model":
            said = r.json()["error"] if r.status_code == 500 else reply
            assert said["node"] == "generate" and "an injected fault" not in said["message"], said
            return
        assert r.status_code == 200 and reply["answer"] == f"The word is {word}.", (
            r.status_code,
            r.text[:300],
        )
        self.came[word] = reply
        if self.rng.random() < 1 / 8:
            place = f"/api/conversations/{reply['conversation_id']}/{reply['turn']}/mark"
            said = http.post(place, json={"verdict": "right", "note": word}).raise_for_status()
            assert said.json()["came"] == "right", said.text[:300]
            self.marked[reply["trajectory_id"]] = word
        if way != "chat":
            self.talk = reply["conversation_id"]


def memory(http: httpx.Client) -> int:
    return http.get("/api/status").json()["memory"]["now_mb"]


def talk_for(url: str, talks: int, seconds: float, faults: float, first: int = 0) -> list[Talker]:
    "So many conversations at once, for so long."
    until = time.monotonic() + seconds
    talkers = [Talker(url, first + n, until, faults) for n in range(talks)]
    for t in talkers:
        t.start()
    for t in talkers:
        t.join()
    return talkers


def percentiles(seconds: list[float]) -> str:
    s = sorted(seconds)

    def at(p):
        return s[min(len(s) - 1, int(p * len(s)))]

    return (
        f"{len(s)} answers, median {at(0.5):.2f} s, 90 % {at(0.9):.2f} s, 99 % {at(0.99):.2f} s, longest {s[-1]:.2f} s"
        if s
        else "none"
    )


def account(folder: Path, talkers: list[Talker]) -> list[tuple[str, bool]]:
    "What must hold of the record, and whether it does."
    from mtrag_nb.core.record import Run
    from mtrag_nb.serve.reply import Conversations, marked

    runs = {p.name: Run(p) for p in (folder / "served" / "runs").iterdir()}
    turns = {i: t for r in runs.values() for i, t in r.trajectories.items()}
    talks = Conversations(folder / "served" / "conversations")
    lines = {line["reply"]["trajectory_id"]: line for i in talks.known for line in talks.lines(i)}
    notes = {i: o["marks"]["note"] for i, o in marked(folder / "served").lines.items()}
    replies = [(w, r) for t in talkers for w, r in t.came.items()]

    def own(r):
        return runs[r["run"]].trajectories[r["trajectory_id"]]

    def history(r):
        return [u.text for u in runs[r["run"]].tasks[r["trajectory_id"]].history]

    def number(word):
        return word.partition("q")[0]

    mixed = [
        w
        for w, r in replies
        for u in history(r)
        if f"word-{number(w)}q" not in u and f"is {number(w)}q" not in u
    ]
    broken = [t for t in turns.values() if t.failed]
    hung = [w for t in talkers for w in t.hung_up]
    said = {t.question for t in turns.values()}
    return [
        (
            "every reply is on record as it was given",
            all(own(r).answer == r["answer"] for _, r in replies),
        ),
        (
            "every reply is in its conversation",
            all(lines[r["trajectory_id"]]["reply"] == r for _, r in replies),
        ),
        ("no turn is in another's conversation", not mixed),
        ("no id was given twice", len({r["trajectory_id"] for _, r in replies}) == len(replies)),
        (
            "every turn that was begun has an end",
            all(set(r.tasks) == set(r.trajectories) for r in runs.values()),
        ),
        ("every turn of a run is in a conversation", set(turns) == set(lines)),
        ("every fault names its node", all(t.error.node == "generate" for t in broken)),
        ("who hung up is answered on record", all(f"What is word-{w}?" in said for w in hung)),
        (
            "every mark is at its turn",
            notes == {i: word for t in talkers for i, word in t.marked.items()},
        ),
        ("nothing odd came", not [o for t in talkers for o in t.odd]),
    ]


def main(argv=None) -> int:
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--talks", type=int, default=50)
    ap.add_argument("--seconds", type=float, default=180.0)
    ap.add_argument("--faults", type=float, default=0.1)
    ap.add_argument(
        "--levels",
        type=int,
        nargs="*",
        default=[1, 4, 16],
        help="conversations at once, for the latencies",
    )
    ap.add_argument(
        "--think", type=float, default=0.05, help="seconds that the model takes for a batch"
    )
    ap.add_argument("--documents", type=int, default=20)
    args = ap.parse_args(argv)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = Path(folder)
        process, url = started(PROGRAM, folder, args.think)
        try:
            with httpx.Client(base_url=url, timeout=120) as http:
                for n in range(args.documents):
                    text = " ".join(
                        f"What is said in document {n}, sentence {k}: a word of the harbour."
                        for k in range(30)
                    )
                    http.post(
                        "/api/upload", files={"file": (f"d{n}.md", f"# Words\n\n{text}\n".encode())}
                    ).raise_for_status()
                begun = time.monotonic()
                http.post("/api/query", json={"question": "What is word-first?"}).raise_for_status()
                print(
                    f"the first question, which loads what is needed: {time.monotonic() - begun:.1f} s"
                )
                everyone = []
                for level in args.levels:
                    some = talk_for(url, level, min(30.0, args.seconds / 6), 0.0, 1000 * level)
                    everyone += some
                    print(
                        f"{level:3} at once: {percentiles([s for t in some for s in t.seconds])}",
                        flush=True,
                    )
                before, watched, done = memory(http), [], threading.Event()

                def watch():
                    while not done.wait(args.seconds / 12):
                        watched.append(memory(http))

                watcher = threading.Thread(target=watch)
                watcher.start()
                crowd = talk_for(url, args.talks, args.seconds, args.faults)
                done.set()
                watcher.join()
                everyone += crowd
                print(
                    f"{args.talks:3} at once, faults: {percentiles([s for t in crowd for s in t.seconds])}"
                )
                print(
                    f"memory: {before} MB before, {watched} MB while asked, {memory(http)} MB after"
                )
                while http.get("/api/status").json()["asking"]:
                    time.sleep(0.1)
        finally:
            process.terminate()
            code = process.wait(120)
        for o in [o for t in everyone for o in t.odd][:5]:
            print("odd:", o)
        checks = [*account(folder, everyone), ("stopped in good order", code == 0)]
        broken = (
            sum(len(t.hung_up) for t in everyone),
            Counter(o for t in everyone for o in t.odd).total(),
        )
    for what, held in checks:
        print("ok  " if held else "FAIL", what)
    many = sum(len(t.marked) for t in everyone)
    print(
        f"{sum(len(t.came) for t in everyone)} answers, {many} marks, {broken[0]} hung up on, {broken[1]} odd"
    )
    print(f"{sum(h for _, h in checks)} passed, {sum(not h for _, h in checks)} failed")
    return 0 if all(h for _, h in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
