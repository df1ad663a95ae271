"""What chat programs send to the service: fields that are null, parts that are no text, tools. A port that is shown under another
name. Two tokens, each with documents and a test set of its own."""

import inspect
import threading
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mtrag_nb.core.settings import load_settings
from mtrag_nb.models.calls import Models
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.serve.api import make_app
from mtrag_nb.serve.guard import ServiceRules, refuse_foreign, rules_of
from mtrag_nb.serve.serve import home_page, serve
from mtrag_nb.serve.service import Service, _service_settings
from tests.support.crowd import Unhurried
from tests.support.servers import running

DOG = "How much is a dog on the ferry?"
FEES = ("fees.md", b"# Fees\n\nA dog costs four crowns on the ferry.")
HOURS = ("hours.md", b"# Hours\n\nThe ferry leaves at seven.")
ANNA, BEN = "anna-anna-anna-anna", "ben-ben-ben-ben-ben"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


@contextmanager
def served(folder: Path, token: str = "", names: tuple[str, ...] = ()) -> Iterator[str]:
    "The address of a service."
    models = Models(load_settings(), Unhurried(), HashEmbedder())
    library, record = folder / "library", folder / "served"
    service = Service(library, record, system="naive", models=models)
    rules = rules_of(service, token=token, names=names, per_minute=1e9)
    with running(make_app(service, rules, *home_page())) as url:
        yield url


@pytest.fixture(scope="module")
def http(tmp_path_factory) -> Iterator[httpx.Client]:
    with served(tmp_path_factory.mktemp("service")) as url:
        with httpx.Client(base_url=url, timeout=120) as client:
            assert client.post("/api/upload", files={"file": FEES}).status_code == 200
            yield client


def chat(http: httpx.Client, messages: object, **fields: object) -> httpx.Response:
    body = {"model": "naive", "messages": messages, **fields}
    return http.post("/v1/chat/completions", json=body)


OPTIONAL = [
    "stream",
    "stream_options",
    "metadata",
    "user",
    "temperature",
    "n",
    "tools",
    "max_tokens",
    "stop",
    "seed",
    "response_format",
]


@pytest.mark.parametrize("field", OPTIONAL)
def test_a_field_that_is_null_is_left_out(field, http):
    reply = chat(http, [{"role": "user", "content": DOG}], **{field: None})
    assert reply.status_code == 200, reply.text
    assert reply.json()["choices"][0]["message"]["content"]


def test_all_fields_may_be_null_at_once_and_the_conversation_too(http):
    nothing = dict.fromkeys(OPTIONAL)
    message = {"role": "user", "content": DOG, "name": None, "tool_calls": None}
    assert chat(http, [message], **nothing).status_code == 200
    metadata = {"conversation_id": None}
    assert chat(http, [message], metadata=metadata).status_code == 200
    query = {"question": DOG, "conversation_id": None, "stream": None, "system": None}
    assert http.post("/api/query", json=query).status_code == 200


ASK = {"role": "user", "content": DOG}
YES = {"role": "assistant", "content": "Yes."}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
CHATS = {
    "an image beside the question": [
        {"role": "user", "content": [{"type": "text", "text": DOG}, IMAGE]}
    ],
    "an image before": [{"role": "user", "content": [IMAGE]}, YES, ASK],
    "sound": [
        {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {}}, DOG],
        }
    ],
    "a file": [
        {"role": "user", "content": [{"type": "file", "file": {}}]},
        YES,
        ASK,
    ],
    "text of responses": [
        {"role": "user", "content": [{"type": "input_text", "text": DOG}]}
    ],
    "a part alone": [{"role": "user", "content": {"type": "text", "text": DOG}}],
    "output text": [
        ASK,
        {"role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
        ASK,
    ],
    "a refusal": [
        ASK,
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        ASK,
    ],
    "a tool": [ASK, CALL, {"role": "tool", "content": "4", "tool_call_id": "1"}, YES]
    + [ASK],
    "a tool last but one": [CALL, {"role": "tool", "content": [{"type": "text"}]}, ASK],
    "a function": [ASK, {"role": "function", "name": "f", "content": "4"}, YES, ASK],
    "a developer": [{"role": "developer", "content": [{"type": "text", "text": "x"}]}]
    + [ASK],
    "a system": [{"role": "system", "content": "x"}, ASK],
    "other names": [{"role": "human", "content": DOG}, {"role": "ai", "content": "A"}]
    + [ASK],
    "no content": [ASK, {"role": "assistant"}, ASK],
}


@pytest.mark.parametrize("name", CHATS)
def test_a_chat_is_read_whatever_it_once_held(name, http):
    reply = chat(http, CHATS[name])
    assert reply.status_code == 200, reply.text
    notes = reply.json()["mtrag"].get("notes", [])
    unread = any(kind in str(CHATS[name]) for kind in ("image_url", "audio", "'file'"))
    assert bool(notes) == unread
    asked = reply.json()["mtrag"]["conversation_id"]
    turns = http.get(f"/api/conversations/{asked}").json()["turns"]
    assert DOG in str(turns[-1])


REFUSED = {
    "only an image": ([{"role": "user", "content": [IMAGE]}], {}, "no text"),
    "an unknown role": ([{"role": "boss", "content": "x"}], {}, "no role 'boss'"),
    "no role": ([{"content": "x"}], {}, "messages.0.role is missing"),
    "no messages": (None, {}, "messages is missing"),
    "messages a text": ("Hello", {}, "messages must be a list"),
    "a message a text": (["Hello"], {}, "messages.0 must be an object"),
    "stream a text": ([ASK], {"stream": "often"}, "stream must be true or false"),
    "several": ([ASK], {"n": 3}, "n must be 1"),
    "metadata a text": ([ASK], {"metadata": "x"}, "metadata must be an object"),
    "user a number": ([ASK], {"user": 5}, "user must be a text"),
    "the assistant last": ([ASK, YES], {}, "the last message must be the user's"),
    "nobody": ([], {}, "the last message must be the user's"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_chat_that_cannot_be_read_is_refused_in_our_words(name, http):
    messages, fields, words = REFUSED[name]
    reply = chat(http, messages, **fields)
    assert reply.status_code == 422
    message = reply.json()["error"]["message"]
    assert words in message
    assert "Input should" not in message and "_Part" not in message


# A port forward

FORWARDED = [
    "abc-8000.app.github.dev",
    "8000-m-s-xyz.prod.colab.dev",
    "mybox:8000",
    "hub.example.org",
    "abc123-8000.euw.devtunnels.ms",
    "xyz.ngrok-free.app",
]


@pytest.mark.parametrize("host", FORWARDED)
def test_another_name_is_refused_with_the_way_out(host, http):
    reply = http.get("/", headers={"Host": host})
    assert reply.status_code == 421
    assert f"--name {host.partition(':')[0]}" in reply.json()["error"]["message"]


@pytest.mark.parametrize("host", FORWARDED)
@pytest.mark.parametrize("form", ["{}", "https://{}/", "{}:443", "HTTPS://{}"])
def test_a_name_that_was_given_is_let_through_with_its_own_page(host, form, tmp_path):
    name = host.partition(":")[0]
    service = type("S", (), {"limits": type("L", (), {"upload_bytes": 1})()})()
    rules = rules_of(service, names=(form.format(name),))

    def answer(**headers: str) -> object:
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        return refuse_foreign(given, rules.hosts, rules.names)

    assert answer(host=host) is None
    assert answer(host=host, origin=f"https://{host}") is None
    assert answer(host="localhost:8000", origin=f"https://{name}") is None
    assert answer(host=host, origin="https://evil.example")[0] == 403
    assert answer(host=host, origin=f"https://evil.{name}")[0] == 403
    assert answer(host="localhost:8000", origin="http://localhost:3000")[0] == 403
    assert answer(host=host, origin="null")[0] == 403
    assert answer(host="evil.example")[0] == 421


def test_the_page_asks_at_addresses_below_its_own(http):
    page = http.get("/").text
    assert "api/query" in page
    for quote in "\"'`":
        assert f"{quote}/api/" not in page
        assert f"{quote}/openapi.json" not in page


# Two tokens


@pytest.fixture
def two(tmp_path) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    with served(tmp_path, token=f"{ANNA}\n{BEN}") as url:
        clients = [
            httpx.Client(
                base_url=url, timeout=120, headers={"Authorization": f"Bearer {token}"}
            )
            for token in (ANNA, BEN)
        ]
        yield clients[0], clients[1]
        for client in clients:
            client.close()


def test_a_document_of_another_is_read_but_not_deleted_or_replaced(two):
    anna, ben = two
    put = anna.post("/api/upload", files={"file": FEES}).json()
    there = f"/api/documents/{put['id']}"
    assert ben.get(there).status_code == 200
    assert ben.delete(there).status_code == 403
    changed = ben.post("/api/upload", files={"file": (FEES[0], b"# Fees\n\nFree.")})
    assert changed.status_code == 403
    assert ben.post("/api/upload", files={"file": FEES}).status_code == 403
    own = ben.post("/api/upload", files={"file": HOURS}).json()
    assert anna.delete(f"/api/documents/{own['id']}").status_code == 403
    assert [d["name"] for d in anna.get("/api/documents").json()] == [FEES[0], HOURS[0]]
    assert ben.delete(f"/api/documents/{own['id']}").status_code == 200
    assert anna.delete(there).status_code == 200
    assert anna.get("/api/documents").json() == []


def test_of_two_uploads_of_one_name_at_once_the_first_is_kept(two):
    start = threading.Barrier(2)

    def upload(client: httpx.Client, text: bytes) -> httpx.Response:
        start.wait()
        return client.post("/api/upload", files={"file": ("race.md", text)})

    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(upload, two, (b"This is Anna's.", b"This is Ben's.")))
    assert sorted(reply.status_code for reply in replies) == [200, 403]
    winner, loser = two if replies[0].is_success else reversed(two)
    [kept] = winner.get("/api/documents").json()
    there = f"/api/documents/{kept['id']}"
    assert loser.delete(there).status_code == 403
    assert winner.delete(there).status_code == 200


def test_a_name_is_the_same_however_its_accents_are_written(two):
    anna, ben = two
    text = b"# Fees\n\nA dog costs four crowns."
    for client, form, status in ((anna, "NFC", 200), (ben, "NFD", 403)):
        name = unicodedata.normalize(form, "geb\u00fchren.md")
        reply = client.post("/api/upload", files={"file": (name, text + form.encode())})
        assert reply.status_code == status


def test_each_token_has_a_test_set_of_its_own(two):
    anna, ben = two
    anna.post("/api/upload", files={"file": FEES})
    anna.post("/api/upload", files={"file": HOURS})
    line = anna.get("/api/questions/drawn").json()[0]
    keep = {"task_id": line["task_id"], "keep": True}
    drop = {"task_id": line["task_id"], "keep": False}
    assert anna.post("/api/questions", json=keep).status_code == 204
    assert ben.get("/api/questions").text == ""
    assert ben.post("/api/questions", json=drop).status_code == 404
    assert line["task_id"] in anna.get("/api/questions").text
    assert ben.post("/api/questions", json=keep).status_code == 204
    assert line["task_id"] in ben.get("/api/questions").text
    assert anna.post("/api/questions", json=drop).status_code == 204
    assert anna.get("/api/questions").text == ""
    assert line["task_id"] in ben.get("/api/questions").text
    assert ben.post("/api/questions", json=drop).status_code == 204
    assert ben.get("/api/questions").text == ""


def test_the_default_rate_is_a_hundred_requests_a_minute():
    "Of one address, by the command and in the rules alike."
    option = inspect.signature(serve).parameters["rate"].default
    assert option == ServiceRules.per_minute == 100


def test_nexus_is_served_with_the_search_of_its_description():
    "On the laptop, too (3.1), unless a setting is changed; other systems keep the laptop's."
    search = _service_settings("nexus", "laptop").retrieval
    shown = (search.views, search.fusion, search.reranker)
    assert shown == ("query*0.7 bm25:query*0.3", "rrf", "none")
    changes = {"retrieval.views": "last"}
    assert _service_settings("nexus", "laptop", changes).retrieval.views == "last"
    usual = load_settings().retrieval
    assert _service_settings("naive", "laptop").retrieval.views == usual.views
