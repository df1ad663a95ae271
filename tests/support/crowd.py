"""Many conversations with a service at once, faults injected: each asks one question after the other, by turns at /api/query, as a
stream, and at /v1/chat/completions; every question carries a word of its own, so that an answer to another would be seen. Some
break: the model raises, or the client hangs up in the middle of the stream. One answer in eight is marked, with its word as the
note. `account` says afterwards whether the record lost, mixed or changed anything."""

import json
import random
import sys
import threading
import time
from pathlib import Path

import httpx

from mtrag_nb.core.run_folder import Run
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.serve.marks import read_marks
from mtrag_nb.serve.record import Conversations

WAYS = ("plain", "stream", "chat")


def about(prompt) -> str:
    "The first sentence of the documents, and the question's own word; a question with BREAK breaks the model."
    text = prompt.messages[-1][1]
    if "BREAK" in text.rpartition("Question:")[2]:
        raise OSError("an injected fault")
    own = (
        f" It is about {text.rpartition('word-')[2].split('?')[0]}."
        if "word-" in text
        else ""
    )
    return first_sentence(prompt) + own


class Unhurried(ScriptedChat):
    "A script that takes so many seconds for a batch that others ask meanwhile."

    def __init__(self, seconds: float = 0.01):
        super().__init__(about)
        self.pause = seconds

    def generate(self, *args, **how):
        time.sleep(self.pause)
        self.asked.clear()
        return super().generate(*args, **how)


class Talker(threading.Thread):
    "A conversation: asks until the time is over or so many questions are asked, and keeps what came."

    def __init__(
        self, url, number: int, until: float, faults: float, most: int, marks: float
    ):
        super().__init__(daemon=True)
        self.url, self.number, self.until, self.most = url, number, until, most
        self.faults, self.marks, self.rng = faults, marks, random.Random(number)
        self.seconds, self.came, self.hung_up, self.odd, self.chat = [], {}, [], [], []
        self.talk, self.marked, self.broken = "", {}, 0

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=120) as http:
            n = 0
            while time.monotonic() < self.until and n < self.most:
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

    def one(
        self, http: httpx.Client, way: str, question: str, word: str, kind: str
    ) -> None:
        "One question, one way; raises if what comes is not what must come."
        if kind == "hang up":
            asked = {"question": question, "stream": True}
            with http.stream("POST", "/api/query", json=asked) as r:
                next(r.iter_lines())
            self.hung_up.append(word)
            return
        r, reply = self.ask(http, way, question)
        if kind == "model":
            said = r.json()["error"] if r.status_code == 500 else reply
            assert (
                said["node"] == "generate"
                and "an injected fault" not in said["message"]
            ), said
            self.broken += 1
            return
        assert r.status_code == 200 and reply["answer"].endswith(
            f"It is about {word}."
        ), r.text
        self.came[word] = reply
        if self.rng.random() < self.marks:
            place = (
                f"/api/conversations/{reply['conversation_id']}/{reply['turn']}/mark"
            )
            said = http.post(
                place, json={"verdict": "right", "note": word}
            ).raise_for_status()
            assert said.json()["came"] == "right", said.text[:300]
            self.marked[reply["trajectory_id"]] = word
        if way != "chat":
            self.talk = reply["conversation_id"]

    def ask(
        self, http: httpx.Client, way: str, question: str
    ) -> tuple[httpx.Response, dict]:
        "The response, and the reply in it."
        if way == "chat":
            self.chat.append({"role": "user", "content": question})
            r = http.post(
                "/v1/chat/completions", json={"model": "naive", "messages": self.chat}
            )
            reply = r.json().get("mtrag")
            said = [{"role": "assistant", "content": reply["answer"]}] if reply else []
            self.chat = [*self.chat, *said] if said else self.chat[:-1]
            self.chat = [] if len(self.chat) > 12 else self.chat
            return r, reply
        asked = {
            "question": question,
            "conversation_id": self.talk,
            "stream": way == "stream",
        }
        r = http.post("/api/query", json=asked)
        return r, r.json() if way == "plain" else json.loads(
            r.text.strip().rpartition("data: ")[2]
        )


def talk_for(
    url: str,
    talks: int,
    seconds: float,
    faults: float,
    first=0,
    most=sys.maxsize,
    marks=1 / 8,
) -> list[Talker]:
    "So many conversations at once, for so long or of so many questions each."
    until = time.monotonic() + seconds
    talkers = [Talker(url, first + n, until, faults, most, marks) for n in range(talks)]
    for t in talkers:
        t.start()
    for t in talkers:
        t.join()
    return talkers


def account(served: Path, talkers: list[Talker]) -> dict[str, bool]:
    "What must hold of the record of a service that is closed, and whether it does."
    runs = {p.name: Run(p) for p in (served / "runs").iterdir()}
    turns = {i: t for r in runs.values() for i, t in r.trajectories.items()}
    talks = Conversations(served / "conversations")
    lines = {
        line["reply"]["trajectory_id"]: line
        for i in talks.known
        for line in talks.lines(i)
    }
    notes = {i: o["marks"]["note"] for i, o in read_marks(served).lines.items()}
    replies = [(w, r) for t in talkers for w, r in t.came.items()]

    def own(r):
        return runs[r["run"]].trajectories[r["trajectory_id"]]

    def mixed(word, r):
        "Whether the history has what is not of this conversation."
        number = word.partition("q")[0]
        history = [u.text for u in runs[r["run"]].tasks[r["trajectory_id"]].history]
        return [
            u
            for u in history
            if f"word-{number}q" not in u and f"about {number}q" not in u
        ]

    broken = [t for t in turns.values() if t.failed]
    said = {t.question for t in turns.values()}
    ids = [r["trajectory_id"] for _, r in replies]
    notes_given = {i: word for t in talkers for i, word in t.marked.items()}
    return {
        "every reply is on record as it was given": all(
            own(r).answer == r["answer"] for _, r in replies
        ),
        "every reply is in its conversation": all(
            lines[r["trajectory_id"]]["reply"] == r for _, r in replies
        ),
        "no turn is in another's conversation": not any(
            mixed(w, r) for w, r in replies
        ),
        "no id was given twice": len(set(ids)) == len(ids),
        "every turn that was begun has an end": all(
            set(r.tasks) == set(r.trajectories) for r in runs.values()
        ),
        "every turn of a run is in a conversation": set(turns) == set(lines),
        "every fault names its node, and was injected": all(
            t.error.node == "generate" and "BREAK" in t.question for t in broken
        ),
        "every fault is on record": len(broken) == sum(t.broken for t in talkers),
        "who hung up is answered on record": all(
            f"What is word-{w}?" in said for t in talkers for w in t.hung_up
        ),
        "every mark is at its turn": notes == notes_given,
        "nothing odd came": not [o for t in talkers for o in t.odd],
    }
