"""What shows that a requirement is met: counts over recorded runs, and what the service answers.

The service is started in a process of its own, with a scripted model over one small document, and asked by requests.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import DataError
from mtrag_nb.search.types import rrf
from mtrag_nb.systems.agents import _Varied


@dataclass(frozen=True)
class Evidence:
    "What shows a requirement. Raises DataError for nothing."

    where: str
    "A run, a file, a profile."
    found: str

    def __post_init__(self) -> None:
        if not self.found:
            raise DataError("nothing is found", self.where)

    def __str__(self) -> str:
        return f"{self.found} [{self.where}]"


def visits(runs: Sequence[Run]) -> Counter:  # node -> visits
    "How often the nodes of recorded turns were visited."
    return Counter(
        s.node for r in runs for t in r.trajectories.values() for s in t.steps
    )


def in_words(counts: Mapping) -> str:
    "rewrite_query 30, generate 27"
    return ", ".join(f"{k} {n}" for k, n in counts.items())


SERVICE = """
import httpx, json, sys, tempfile
from pathlib import Path
from mtrag_nb.serve.api import make_app
from mtrag_nb.serve.guard import rules_of
from mtrag_nb.serve.serve import home_page
from tests.support.servers import running
from mtrag_nb.serve.service import Service
from mtrag_nb.core.settings import load_settings
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder

came, token, question = {}, "k" * 32, {"question": "How much is a dog on the ferry?"}
with tempfile.TemporaryDirectory() as tmp:
    models = Models(load_settings(), chat=ScriptedChat(first_sentence), embedder=HashEmbedder())
    service = Service(Path(tmp) / "library", Path(tmp) / "served", system=sys.argv[1], models=models)
    rules = rules_of(service, token=token, per_minute=12)
    with running(make_app(service, rules, *home_page())) as url, httpx.Client(base_url=url, timeout=60) as http:
        def ask(verb, path, i="", **more):
            reply = http.request(verb, path.format(i=i), **more)
            came[f"{verb} {path}"] = f"{reply.status_code} {reply.reason_phrase}"
            return reply
        came["no token"] = str(http.get("/api/status").status_code)
        http.headers["authorization"] = f"Bearer {token}"
        files = {"file": ("fares.txt", b"A dog costs four crowns on the ferry. A bicycle costs nine crowns on the ferry.")}
        document = ask("POST", "/api/upload", files=files).json()["id"]
        reply = ask("POST", "/api/query", json=question).json()
        came["citations"] = [c["document"] for c in reply["citations"]]
        came["stream"] = http.post("/api/query", json={**question, "stream": True}).headers["content-type"].partition(";")[0]
        for path in ("/api/documents", "/api/status"): ask("GET", path)
        came["page"] = ask("GET", "/").text.count("<script>")
        ask("DELETE", "/api/documents/{i}", document)
        ask("DELETE", "/api/conversations/{i}", reply["conversation_id"])
        came["too many"] = max(http.get("/api/documents").status_code for _ in range(12))
print(json.dumps({**came, "rate": type(rules)(rules.hosts).per_minute}))
"""


def asked_of_service(system: str) -> dict:  # request -> what came back
    "What the service answers to each kind of request. Some ten seconds. Raises DataError with its own words if it breaks."
    done = subprocess.run(
        [sys.executable, "-c", SERVICE, system], capture_output=True, text=True
    )
    if done.returncode:
        raise DataError(f"the service broke: {done.stderr[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def moves(
    runs: Sequence[Run],
) -> set[tuple[str, str]]:  # from, to; START and END are ends
    "The transitions that recorded turns took."
    paths = [
        ["START", *(s.node for s in t.steps), "END"]
        for r in runs
        for t in r.trajectories.values()
    ]
    return {pair for path in paths for pair in zip(path, path[1:])}


def distinct_queries(runs: Sequence[Run]) -> Counter:  # queries -> rounds
    "How many different queries the rounds of recorded turns searched for; capitals and marks make no difference."

    def words(text):
        return " ".join(re.findall(r"\w+", text.casefold()))

    return Counter(
        len({words(v.text) for v in s.variations})
        for r in runs
        for t in r.trajectories.values()
        for s in t.of(_Varied)
    )


def steps_of(runs: Sequence[Run], kind: type) -> list:
    "The steps of one kind in recorded turns."
    return [s for r in runs for t in r.trajectories.values() for s in t.of(kind)]


RRF_K = round(1 / rrf([["a"]], [1.0])[0][1] - 1)  # a first rank counts 1 / (k + 1)
