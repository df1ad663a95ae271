"""Existing chat clients talk to the systems; many conversations at once lose and mix nothing; what was asked is a run that can
be reported on. The service is the real one behind a real server, the model is a script. A longer crowd: `make serve-load`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from mtrag_nb.app.cli import main
from mtrag_nb.core.record import Trajectory
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.models.calls import Models
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.serve.api import make_app
from mtrag_nb.serve.guard import rules_of
from mtrag_nb.serve.reply import with_sources, without_sources
from mtrag_nb.serve.serve import home_page, serve
from mtrag_nb.serve.service import Service
from mtrag_nb.show.browser import CaseBrowser
from mtrag_nb.systems.outside import SYSTEMS
from tests.support.crowd import Talker, Unhurried, account, talk_for
from tests.support.servers import running

DOG = "How much is a dog on the ferry?"


@dataclass(frozen=True)
class Started:
    "A service that answers at an address, and a client of it."

    service: Service
    url: str
    http: httpx.Client

    def runs(self) -> list[Run]:
        return [
            Run(folder) for folder in sorted((self.service.folder / "runs").iterdir())
        ]

    def turns(self) -> dict[str, Trajectory]:
        "Every turn on record."
        return {i: t for run in self.runs() for i, t in run.trajectories.items()}


@contextmanager
def started(folder: Path) -> Iterator[Started]:
    "A service over two documents."
    models = Models(load_settings(), Unhurried(), HashEmbedder())
    service = Service(
        folder / "library", folder / "served", system="naive", models=models
    )
    rules = rules_of(service, per_minute=1e9)
    documents = {
        "fees.md": b"# Fees\n\nA dog costs four crowns on the ferry.",
        "hours.md": b"# Hours\n\nThe ferry leaves at seven.",
    }
    with (
        running(make_app(service, rules, *home_page())) as url,
        httpx.Client(base_url=url, timeout=120) as http,
    ):
        for document in documents.items():
            assert http.post("/api/upload", files={"file": document}).status_code == 200
        yield Started(service, url, http)


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Iterator[Started]:
    with started(tmp_path_factory.mktemp("clients")) as found:
        yield found


# OpenAI's client


SAY = [
    {"role": "system", "content": "You are a pirate."},
    {"role": "user", "content": DOG},
]


@pytest.fixture
def openai(here):
    "OpenAI's client."
    package = pytest.importorskip("openai")
    return package.OpenAI(
        base_url=f"{here.url}/v1", api_key="none is needed here", max_retries=0
    )


def test_openai_lists_every_system_as_a_model(openai):
    assert [m.id for m in openai.models.list()] == [
        "naive",
        *(s for s in SYSTEMS if s != "naive"),
    ]
    assert [openai.models.retrieve(s).id for s in SYSTEMS] == list(SYSTEMS)


@pytest.mark.parametrize("system", SYSTEMS)
def test_openai_reads_the_same_answer_whole_and_in_pieces(system, openai):
    create = openai.chat.completions.create
    whole = create(model=system, messages=SAY, temperature=0.7)
    usage = {"include_usage": True}
    pieces = list(create(model=system, messages=SAY, stream=True, stream_options=usage))
    text = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
    assert whole.choices[0].finish_reason == "stop"
    assert whole.mtrag["outcome"]
    assert text == whole.choices[0].message.content
    assert pieces[-1].usage.total_tokens >= 0


@pytest.mark.parametrize("stream", [False, True])
def test_openai_raises_an_error_that_names_the_node_and_not_the_cause(stream, openai):
    from openai import APIError

    breaking = [{"role": "user", "content": "BREAK"}]
    with pytest.raises(APIError) as raised:
        list(
            openai.chat.completions.create(
                model="naive", messages=breaking, stream=stream
            )
        )
    assert "generate" in str(raised.value)
    assert "an injected fault" not in str(raised.value)


def test_openai_asks_once_although_it_may_retry(openai, here):
    from openai import InternalServerError

    breaking = [{"role": "user", "content": "BREAK once"}]
    with pytest.raises(InternalServerError):
        retrying = openai.with_options(max_retries=2)
        retrying.chat.completions.create(model="naive", messages=breaking)
    assert sum("BREAK once" in t.question for t in here.turns().values()) == 1


def test_an_address_that_is_not_there_names_those_that_are(openai):
    from openai import NotFoundError

    with pytest.raises(NotFoundError) as raised:
        openai.embeddings.create(model="naive", input="A dog", encoding_format="float")
    assert "/v1/chat/completions" in raised.value.body["message"]


def test_a_chat_client_reads_which_sentences_no_source_supports():
    no, none = (
        {"supported": False, "problem": "not supported by source 1"},
        {"problem": "no source"},
    )
    claims = [
        {"start": 0, "end": 23, "cites": [1], **no},
        {"start": 24, "end": 45, "cites": [1], "supported": True, "problem": ""},
        {"start": 46, "end": 60, "cites": [], "supported": False, **none},
    ]
    place = {"n": 1, "document": "menu.md", "section": "", "page": None}
    answer = "The soup costs 6 euros. It is served at noon. Cats are free."
    shown = with_sources({"answer": answer, "claims": claims, "citations": [place]})
    said = "The soup costs 6 euros. [not supported by source 1] It is served at noon.[1] Cats are free. [no source]"
    assert shown == f"{said}\n\nSources:\n[1] menu.md"
    assert without_sources(shown) == answer


UNKNOWN, FIVE = {"model": "gpt-4"}, {"model": "naive", "n": 3}


@pytest.mark.parametrize(
    "request_, error", [(UNKNOWN, "NotFoundError"), (FIVE, "UnprocessableEntityError")]
)
def test_openai_raises_its_own_exception_with_a_message(request_, error, openai):
    kind = getattr(pytest.importorskip("openai"), error)
    with pytest.raises(kind) as raised:
        openai.chat.completions.create(messages=SAY, **request_)
    assert raised.value.body["message"]


def test_llama_index_reads_the_same_answer_three_ways(here):
    "It wants another version of OpenAI's client than the rest, so it is an extra of its own (`clients`)."
    like = pytest.importorskip("llama_index.llms.openai_like")
    from llama_index.core.llms import ChatMessage

    address = {"api_base": f"{here.url}/v1", "api_key": "x"}
    llm = like.OpenAILike(model="naive", is_chat_model=True, max_retries=0, **address)
    messages = [ChatMessage(role="user", content=DOG)]
    whole = llm.chat(messages).message.content
    assert "four crowns" in whole
    assert whole == "".join(p.delta or "" for p in llm.stream_chat(messages))
    assert whole == llm.complete(DOG).text


def test_a_draft_is_streamed_while_it_is_written(here):
    "A question that was asked before is replayed from the call record, and then nothing is written: so this one is new."
    question = {"question": "How much is a large dog on the ferry?"}
    events = {"accept": "text/event-stream"}
    with here.http.stream("POST", "/api/query", json=question, headers=events) as reply:
        lines = [line for line in reply.iter_lines() if line]
    kinds = [line.partition(": ")[2] for line in lines if line.startswith("event")]
    assert "writing" in kinds
    assert kinds[-1] == "reply" and kinds.count("reply") == 1
    assert here.http.get("/api/status").json()["progress"]


def test_a_misspelt_library_is_named_with_its_neighbours(tmp_path, capsys):
    class Stop(Exception):
        "The service has started."

    def stop(said: str):
        raise Stop

    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "manifest.json").write_text("{}")
    models = Models(load_settings(), Unhurried(), HashEmbedder())
    with pytest.raises(Stop):
        serve(
            tmp_path / "handbok", tmp_path / "served", port=0, models=models, ready=stop
        )
    said = capsys.readouterr().err
    assert "handbok: no library yet" in said and str(tmp_path / "handbook") in said


def test_no_question_is_drawn_with_two_verbs():
    from mtrag_nb.serve.questions import _fact_of

    assert _fact_of("A hotel night costs up to 120 euros.")[2] == "a hotel night"
    assert _fact_of("A hotel night may cost up to 120 euros.") is None


# A crowd: twelve conversations of ten questions at once, some of them broken


@pytest.fixture(scope="module")
def crowd(tmp_path_factory) -> tuple[Started, list[Talker]]:
    "A service that answered a crowd, now closed, and the crowd."
    with started(tmp_path_factory.mktemp("crowd")) as there:
        assert there.http.post("/api/query", json={"question": DOG}).status_code == 200
        talkers = talk_for(there.url, 12, 600.0, faults=0.1, most=10, marks=0.0)
    return there, talkers


def test_a_crowd_loses_and_mixes_nothing_and_shares_batches(crowd):
    there, talkers = crowd
    held = account(there.service.folder, talkers)
    assert held and not [what for what, right in held.items() if not right]
    each = [(len(t.came), t.broken, len(t.hung_up)) for t in talkers]
    answered, broken, gone = map(sum, zip(*each))
    assert answered + broken + gone == 120 and min(broken, gone) > 2
    assert len(there.turns()) == 121, "none is answered twice"
    assert max(there.service.batches.batches) > 1


# What users asked is a run like any other, without gold: nobody knows what the answers should have been.


@pytest.fixture(scope="module")
def folder(crowd) -> Path:
    "The run of a crowd."
    return max(crowd[0].runs(), key=lambda run: len(run.trajectories)).folder


def test_what_users_asked_is_reported_on(folder, tmp_path):
    assert main(["report", str(folder), "--out", str(tmp_path / "report.html")]) == 0
    assert folder.name in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_what_users_asked_is_browsed(folder, crowd):
    browser = CaseBrowser(folder, labels=crowd[0].service.folder / "labels.jsonl")
    assert len(browser.found) == len(Run(folder).trajectories) > 100
    assert DOG in browser.static_html()


def test_what_users_asked_has_predictions_where_it_was_answered(folder):
    lines = (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == sum(not t.failed for t in Run(folder).trajectories.values())
