"""Uploads and requests that mean no good, against the service behind a real server: each is refused with a status below 500
and a reason, nothing of it is kept or written elsewhere, and the service answers the next question as before."""

import io
import json
import os
import random
import re
import shutil
import socket
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest.mock import patch
from urllib.parse import quote

import httpx
import pytest

from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import DataError, DiskFull, MTRAGError
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.search.vector_store import copy_sparse
from mtrag_nb.serve import questions, service
from mtrag_nb.serve.api import make_app
from mtrag_nb.serve.deletion import to_delete
from mtrag_nb.serve.guard import rules_of
from mtrag_nb.serve.library import Library
from mtrag_nb.serve.marks import read_marks
from mtrag_nb.serve.serve import home_page
from mtrag_nb.serve.service import Service
from mtrag_nb.serve.uploads import Denied, Limits, as_denied
from tests.support.servers import running
from tests.support.specimens import (
    docx,
    handbook,
    pdf,
    word_paragraph,
    word_xml,
    zip_of,
)
from tests.support.volume import few, pairs
from tests.test_attacks import mutated

ALL = bool(os.environ.get("MTRAG_ATTACKS"))
TOKEN = "t" * 32
ASKED = {"question": "How much is a dog?"}
SCRIPT = "<script>window.owned=1</script><img src=x onerror=alert(1)>"


def scripted() -> Models:
    return Models(load_settings(), ScriptedChat(first_sentence), HashEmbedder())


@contextmanager
def served(
    folder: Path, system: str = "naive", token: str = "", **limits
) -> Iterator[httpx.Client]:
    "A client of a service, whose library has one document."
    how = {"system": system, "models": scripted(), "limits": Limits(**limits)}
    service = Service(folder / "library", folder / "served", **how)
    rules = rules_of(service, token=token, per_minute=1e9, tries=1e9)
    headers = {"authorization": f"Bearer {token}"}
    with (
        running(make_app(service, rules, *home_page())) as url,
        httpx.Client(
            base_url=url, timeout=120, headers=headers if token else {}
        ) as client,
    ):
        upload(client, "fees.md", b"# Fees\n\nA dog costs four crowns on the ferry.\n")
        yield client


def upload(http: httpx.Client, name: str, data: bytes) -> dict:
    "Add a document that is taken."
    reply = http.post("/api/upload", files={"file": (name, data)})
    assert reply.status_code == 200 and reply.json()["status"] == "added", reply.text
    return reply.json()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    "The service's folder; the process works in it, too, so that a stray file would be found."
    path = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(path)
        yield path


@pytest.fixture(scope="module")
def http(folder) -> Iterator[httpx.Client]:
    "A client of the service; at the end the service answers as at the beginning."
    with served(folder, token=TOKEN, upload_bytes=2_000_000, pages=20) as client:
        yield client
        assert "four crowns" in client.post("/api/query", json=ASKED).json()["answer"]


@pytest.fixture(scope="module")
def talk(http) -> str:
    "A conversation of one turn."
    reply = http.post("/api/query", json=ASKED)
    return f"/api/conversations/{reply.json()['conversation_id']}/1"


def kept(http: httpx.Client, folder: Path) -> list:
    "The files of the service without its logs, locks and index, and what it says that it holds."

    def counts(p):
        return (
            p.is_file() and p.suffix not in (".jsonl", ".crc") and ".lock" not in p.name
        )

    files = (p for p in folder.rglob("*") if not {"qdrant", "runs"} & set(p.parts))
    said = [
        http.get(f"/api/{what}").text for what in ("documents", "marks", "questions")
    ]
    return [set(filter(counts, files)), *said]


@pytest.fixture
def refused(http, folder, talk) -> Iterator[Callable]:
    "Sends a request that must be refused; afterwards everything must be as it was."
    before = kept(http, folder)

    def send(method: str = "POST", path: str = "/api/upload", **request) -> None:
        if "content" in request:  # without it, whatever is sent is refused unread
            request["headers"] = {"content-type": "application/json"} | request.get(
                "headers", {}
            )
        about = path, {k: str(v)[:200] for k, v in request.items()}
        reply = http.request(method, path.replace("TALK", talk), **request)
        assert 400 <= reply.status_code < 500, (reply.status_code, about)
        assert reply.json()["error"]["message"], about

    yield send
    assert kept(http, folder) == before
    assert not list((folder / "served" / "uploads").iterdir())
    assert not [*folder.rglob("*evil*"), *folder.parent.glob("*evil*")]
    assert not Path("/etc/cron.d/evil.txt").exists()


REFUSED: dict[
    str, Callable[[], Iterable[dict]]
] = {}  # what it is -> requests, made when they are sent


def posted(path: str, bodies: Iterable[object]) -> Callable[[], list[dict]]:
    "Requests with these bodies, each as JSON if it is no bytes."
    made = [b if isinstance(b, bytes) else json.dumps(b) for b in bodies]
    return lambda: [{"path": path, "content": content} for content in made]


# Files that are none


@cache
def whole_pdf() -> bytes:
    "A PDF of six pages."
    return handbook()[0]


@cache
def whole_docx() -> bytes:
    "A DOCX of one paragraph."
    return docx(word_paragraph("Fine."))


def noise(size: int) -> bytes:
    return random.Random(0).randbytes(size)


def bomb(size: int = 6 * 10**7) -> bytes:
    "A small archive with a file that is larger than a reader unpacks, called a DOCX."
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        z.writestr("[Content_Types].xml", "<Types/>")
        z.writestr("word/document.xml", b"\0" * size)
    return made.getvalue()


def with_document(xml: str) -> bytes:
    "A DOCX with this in the place of its text."
    return docx(files={"word/document.xml": xml})


def multiplying_entities() -> bytes:
    "A DOCX whose text unfolds to gigabytes."
    many = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10))
    return with_document(
        f"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a0 'ha'>{many}]><x>&a9;</x>"
    )


def outside_entity() -> bytes:
    "A DOCX whose text is a file of this machine."
    head = "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY f SYSTEM 'file:///etc/passwd'>]>"
    return with_document(head + word_xml("document", "<w:body>", "&f;", "</w:body>"))


def nested(depth: int) -> bytes:
    "A DOCX of paragraphs inside each other."
    inner = "<w:p>" * depth + "</w:p>" * depth
    return with_document(word_xml("document", "<w:body>", inner, "</w:body>"))


LOOP = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[2 0 R]/Count 1>>endobj\n"
    b"trailer<</Root 1 0 R>>"
)
FILES: dict[str, bytes | Callable[[], bytes]] = {
    "bomb.docx": bomb,
    "laughs.docx": multiplying_entities,
    "passwd.docx": outside_entity,
    "empty.zip.docx": lambda: zip_of({}),
    "many.docx": lambda: zip_of({f"word/{n}.xml": "x" for n in range(20_000)}),
    "climb.docx": lambda: zip_of({"../../../x": "x"}),
    "deep.docx": lambda: nested(9000),
    "bomb.pdf": b"%PDF-1.7\n" + b"1 0 obj<</Type/Catalog/Pages 1 0 R>>endobj\n" * 5,
    "cut.pdf": lambda: whole_pdf()[: len(whole_pdf()) // 3],
    "head.pdf": b"%PDF-1.4",
    "noise.pdf": b"%PDF-1.4\n" + noise(5000),
    "text.pdf": b"only a text",
    "page.pdf": b"<html><body>404</body></html>",
    "loop.pdf": LOOP,
    "long.pdf": lambda: pdf([(1, "Long"), *[("page", "")] * 30, ("text", "The end.")])[
        0
    ],
    "long.txt": b"A sentence of some words. " * 4000,
    "empty.txt": b"",
    "blank.txt": b" \n\t\n",
    "marks.txt": b"!!! ... ---",
    "program.txt": b"\x7fELF" + bytes(range(256)) * 20,
    "picture.txt": b"\x89PNG\r\n\x1a\n" + noise(500),
    "archive.txt": whole_docx,
    "old.docx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + noise(900),
    "gzip.html": b"\x1f\x8b\x08\x00" + noise(500),
    "pdf.html": whole_pdf,
    "rtf.docx": b"{\\rtf1 hello}",
    "zero.docx": b"\0" * 1000,
    "huge.txt": b"x" * 2_100_000,
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_none_or_too_much_is_refused(name, refused):
    data = FILES[name]
    refused(files={"file": (name, data() if callable(data) else data)})


def cut_files() -> Iterator[dict]:
    for size in range(200, 1000, 40):
        yield {"files": {"file": ("cut.pdf", whole_pdf()[:size])}}
    for twelfths in range(1, 11):
        data = whole_docx()[: len(whole_docx()) * twelfths // 12]
        yield {"files": {"file": ("cut.docx", data)}}


# Names that lead elsewhere, or are odd


EVIL = b"# Evil\n\nThis must never be found by anybody.\n"
NAMES = (
    *("../evil.md", "../../etc/passwd.txt", "..\\..\\evil.md", "/etc/cron.d/evil.txt"),
    *(
        "a/../../evil.md",
        "./evil.md",
        ".hidden.md",
        ".",
        "..",
        "evil",
        "evil.exe",
        "evil.md.sh",
    ),
    *(
        "evil.svg",
        "evil.js",
        "evil.zip",
        "evil.md\0.pdf",
        "ev\x1bil.md",
        "evil\u202edm.txt",
    ),
    *("x" * 250 + ".md", "evil.md/", "evil.md ../x", "%2e%2e%2fevil.py", "a//b.md"),
    *("~/.ssh/x.md", " .md"),
)
ODD = ("x" * 100, "a\0b", "a\u202eb", "a\nb")
REFUSED |= {
    "a file that is cut": cut_files,
    "a name": lambda: [{"files": {"file": (name, EVIL)}} for name in NAMES],
    "a name of a collection": lambda: [
        {"files": {"file": ("evil.md", EVIL)}, "data": {"collection": name}}
        for name in ODD
    ],
}


# Requests that are none


def chat_of(*messages: object, **more) -> dict:
    "A request of the chat interface."
    return {"model": "naive", "messages": list(messages), **more}


QUESTIONS = (
    *({}, [], None, 7, "x"),
    *({"question": odd} for odd in (7, None, ["x"], "", " \n", "x" * 9000)),
    ASKED | {"topk": 3},
    *(ASKED | {"top_k": odd} for odd in (-1, 5)),
    *(ASKED | {"system": odd} for odd in ("../naive", "x" * 5000, ["naive"])),
    ASKED | {"collection": "' or 1=1 --"},
    *(ASKED | {"conversation_id": odd} for odd in ("../../x", "0" * 16, "A" * 16, 7)),
    ASKED | {"stream": "perhaps"},
    ASKED | {"__proto__": {"a": 1}},
)
BODIES = (  # no JSON, too deep, too long
    *(b"", b"{", b"{'a': 1}", b"\xff\xfe", b"[" * 100_000, b'{"question":' * 20_000),
    b'{"question": "' + b"x" * 1_100_000 + b'"}',
    *(
        b"NaN",
        b"\0" * 100,
        b'{"question": NaN}',
        b'{"a":1e999}',
        b'"' + b"\\u0000" * 1000 + b'"',
    ),
)
USER = {"role": "user", "content": "x"}
PICTURE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}
CHATS = (
    *({}, chat_of(), chat_of(7, 7, 7)),
    *(
        chat_of({"role": role, "content": "x"})
        for role in ("system", "assistant", "root")
    ),
    *(chat_of({"role": "user"}), chat_of({"content": "x"})),
    *(chat_of({"role": "user", "content": odd}) for odd in ([PICTURE], "x" * 9000)),
    *(
        chat_of(USER, **odd)
        for odd in ({"n": 5}, {"model": "gpt-4"}, {"stream": "perhaps"})
    ),
)
NOWHERE_AT_ALL = "0" * 16 + "#0-1"
MARKS = (
    *({"verdict": odd} for odd in ("good", ["right"], "<script>alert(1)</script>")),
    *(
        {"note": "x" * 2_001},
        {"answer": "x" * 8_001},
        {"answer": 7},
        {"note": "\ud800"},
    ),
    *(
        {"passage": odd}
        for odd in (NOWHERE_AT_ALL, "../../etc/passwd", "' or 1=1 --", "x\0y")
    ),
    *({"passage": "x" * 100_000}, {"thumb": "up"}),
)
DRAWN = (
    {},
    {"task_id": "../x"},
    {"task_id": "x", "seed": -1},
    {"task_id": "x", "keep": False},
    [1],
)
SEARCHES = ("", "q=", f"q={'x' * 9_000}", "q=a&collection=../x", "q=%20")
REFUSED |= {
    "a question": posted("/api/query", QUESTIONS),
    "JSON": posted("/api/query", BODIES),
    "a chat": posted("/v1/chat/completions", CHATS),
    "a mark": posted("TALK/mark", MARKS),
    "a question that was not drawn": posted("/api/questions", DRAWN),
    "a search": lambda: [
        {"method": "GET", "path": f"/api/search?{query}"} for query in SEARCHES
    ],
}


# Addresses and senders


TALK = f"/api/conversations/{'0' * 16}"
NOWHERE = (
    *("/api/conversations/../../etc/passwd", "/api/conversations/%2e%2e%2fx"),
    *(TALK, f"{TALK}/1", f"{TALK}/x", "/api/search"),
    *(f"{TALK}/1/why", f"{TALK}/-1/why", f"{TALK}/x/why", f"{TALK}/export"),
    *(
        "/static/../settings.ini",
        "/..%2f..%2fetc/passwd",
        "/api/documents/../../x",
        "/index.html",
    ),
    *(
        "/api/questions?form=../x",
        "/api/questions/drawn?seed=-1",
        "/api/questions/drawn?seed=x",
    ),
    *("/.git/config", "/v1/models/gpt-4", "/redoc", "/api/nothing"),
    *("/api/documents/%2e%2e", "/api/documents/' or 1=1", f"/api/documents/{'0' * 16}"),
    *("/api/documents/%00", "/api/documents/%23", f"/api/documents/{'x' * 9_000}"),
)
NOTHING_TO_DELETE = (
    *("/api/documents/../x", "/api/documents/%2e%2e", "/api/documents/' or 1=1"),
    *(
        f"/api/documents/{'0' * 16}",
        "/api/documents/",
        TALK,
        "/api/conversations/%00",
        "/",
    ),
)
GUARDED = (
    "/api/query",
    "/api/upload",
    "/v1/chat/completions",
    f"{TALK}/1/mark",
    "/api/questions",
)
NO_TOKENS = (
    "",
    "Bearer",
    "Bearer x",
    f"Bearer {TOKEN}x",
    f"Basic {TOKEN}",
    f"Bearer {TOKEN[:-1]}",
)
ORIGINS = """http://evil.example https://127.0.0.1 null http://127.0.0.1:1 file:// http://localhost.evil.example
chrome-extension://x""".split()
HOSTS = "evil.example 127.0.0.1.evil.example 169.254.169.254 evil.example:80 [ 0.0.0.0".split()
OTHERS = [  # another page, or another name
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    *({"origin": o} for o in ORIGINS),
    *({"host": h} for h in HOSTS),
]
REFUSED |= {
    "an address": lambda: [{"method": "GET", "path": path} for path in NOWHERE],
    "a deletion": lambda: [
        {"method": "DELETE", "path": path} for path in NOTHING_TO_DELETE
    ],
    "a method": lambda: [
        {"method": m, "path": "/api/query"}
        for m in ("PUT", "PATCH", "TRACE", "OPTIONS", "CONNECT")
    ],
    "no token": lambda: [
        {"path": path, "headers": {"authorization": token}, "content": b"{}"}
        for path in GUARDED
        for token in (*NO_TOKENS, TOKEN)
    ],
    "another page": lambda: [
        {"path": "/api/query", "headers": h, "content": json.dumps(ASKED)}
        for h in OTHERS
    ],
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_means_no_good_is_refused(kind, refused):
    for request in REFUSED[kind]():
        refused(**request)


# Systems that a client may not name


LEFT = "import pathlib\npathlib.Path({!r}).touch()\n\n\ndef main(messages):\n    return 'evil'\n"
ELSEWHERE = {  # ADDRESS: a server; FOLDER: of the service
    "an address": "ADDRESS/v1",
    "an address with a password": "http://me:secret@127.0.0.1/v1",
    "an address with a query": "ADDRESS/v1?api_key=K",
    "an address that climbs": "ADDRESS/../../../../outside/v1",
    "https": "https://127.0.0.1/v1",
    "a file": "FOLDER/main.py:main",
    "a file by a relative path": "main.py:main",
    "a file without a name": "main.py",
    "a file that climbs": "../NAME/main.py:main",
    "a file called as a system": "naive.py",
    "a module": "json:dumps",
    "a module of the package": "mtrag_nb.systems.baselines:NAIVE",
    "a module below the folder": "main:main",
    "a variant that is a file": "naive+FOLDER/main.py:main",
    "an oracle": "naive+gold:retrieve",
    "a variant": "ncl+published",
    "an empty variant": "naive+",
    "another case": "NAIVE",
    "with a blank": " naive",
    "a path": "../../naive",
    "a zero byte": "naive\0",
    "long": "http://" + "x" * 9000,
}


@pytest.fixture(scope="module")
def elsewhere(folder) -> Iterator[dict[str, str]]:
    "Systems that are elsewhere, by kind; at the end none was opened: no address was asked, no file run, no folder made."
    listening = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    ran = folder / "ran"
    for name in ("main.py", "naive.py"):
        (folder / name).write_text(LEFT.format(str(ran)))
    places = {"ADDRESS": f"http://{address}", "127.0.0.1/": f"{address}/"}
    places |= {"FOLDER": str(folder), "NAME": folder.name}
    kinds = dict(ELSEWHERE)
    for mark, place in places.items():
        kinds = {kind: name.replace(mark, place) for kind, name in kinds.items()}
    yield kinds
    listening.settimeout(0.1)
    with pytest.raises(TimeoutError):
        listening.accept()
    listening.close()
    assert not ran.exists() and not [
        *folder.rglob("*outside*"),
        *folder.parent.glob("*outside*"),
    ]


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_a_client_names_only_systems_of_the_service(kind, elsewhere, folder, refused):
    name, before = elsewhere[kind], sorted((folder / "served" / "runs").iterdir())
    for stream in ({}, {"stream": True}):
        asked = ASKED | {"system": name} | stream
        refused(path="/api/query", content=json.dumps(asked))
        asked = chat_of(USER, model=name, **stream)
        refused(path="/v1/chat/completions", content=json.dumps(asked))
    refused("GET", f"/v1/models/{quote(name, safe='')}")
    assert sorted((folder / "served" / "runs").iterdir()) == before


@pytest.fixture
def own_system(tmp_path) -> Iterator[tuple[httpx.Client, Path]]:
    "A client of a service that was started with a file of somebody's own as its system, and the folder."
    (tmp_path / "Mine 1.py").write_text(
        "def main(messages):\n    return 'my own answer'\n"
    )
    (tmp_path / "other.py").write_text(LEFT.format(str(tmp_path / "ran")))
    with served(tmp_path, f"{tmp_path / 'Mine 1.py'}:main") as client:
        yield client, tmp_path


def test_the_one_place_is_the_one_that_the_service_was_started_with(own_system):
    http, folder = own_system
    reply = http.post("/api/query", json=ASKED).json()
    mine = reply["system"]
    assert reply["answer"] == "my own answer" and mine == "Mine 1.py:main", (
        "without its folder"
    )
    assert http.get("/api/status").json()["system"] == mine
    assert mine in [m["id"] for m in http.get("/v1/models").json()["data"]]
    assert mine in http.get("/api/status").json()["systems"]
    chat = http.post("/v1/chat/completions", json=chat_of(USER, model=mine)).json()
    assert chat["choices"][0]["message"]["content"] == "my own answer"
    talk = f"/api/conversations/{reply['conversation_id']}/1"
    more = ASKED | {"system": "naive", "conversation_id": reply["conversation_id"]}
    assert http.post("/api/query", json=more).status_code == 200
    assert http.get(f"{talk}/why").status_code == 200
    for name in (
        f"{folder / 'Mine 1.py'}:main",
        f"{folder / 'other.py'}:main",
        "other.py:main",
    ):
        assert http.post("/api/query", json=ASKED | {"system": name}).status_code == 404
    runs = [p.name for p in (folder / "served" / "runs").iterdir()]
    assert len(runs) == 2 and all(re.fullmatch(r"[a-z0-9+_-]+", name) for name in runs)
    assert str(folder) not in http.get("/api/status").text + json.dumps([reply, chat])
    assert http.delete(talk.removesuffix("/1")).json()["turns"] == 2


def test_a_record_opens_no_place_that_the_service_was_not_started_with(own_system):
    "A turn of a record that another version wrote for a client's place: it is shown."
    http, folder = own_system
    reply = http.post("/api/query", json=ASKED | {"system": "naive"}).json()
    talk, place = (
        f"/api/conversations/{reply['conversation_id']}",
        f"{folder / 'other.py'}:main",
    )
    manifest = folder / "served" / "runs" / reply["run"] / "manifest.json"
    lines = folder / "served" / "conversations" / f"{reply['conversation_id']}.jsonl"
    for path in (manifest, lines):
        path.write_text(path.read_text().replace('"naive"', json.dumps(place)))
    assert (
        http.get(talk).status_code == 200
        and http.get(f"{talk}/1/why").status_code == 200
    )
    assert not (folder / "ran").exists()


# Valid requests with bytes exchanged, cut out, doubled, put in, by chance: `make test-attacks` sends five hundred


SENT = {
    "/api/query": ASKED,
    "/v1/chat/completions": chat_of(USER),
    "/mark": {"verdict": "right", "note": "Fine.", "answer": "Four crowns."},
    "/api/questions": {"task_id": "0123456789abcdef<::>1", "seed": 0},
}


@pytest.mark.parametrize("path", SENT)
def test_a_malformed_request_is_answered_or_refused_with_a_reason(path, http, talk):
    where = path if "i/" in path or "v1" in path else talk + path
    rng, refused = random.Random(path), 0
    for _ in range(100 if ALL else 10):
        data = mutated(json.dumps(SENT[path]).encode(), rng)
        reply = http.post(
            where, content=data, headers={"content-type": "application/json"}
        )
        assert reply.status_code < 500, (data, reply.text)
        if reply.status_code >= 400:
            refused += bool(reply.json()["error"]["message"])
    assert refused


# What only looks bad is text, in every reply and on every page


def test_a_drawn_question_of_script_stays_text_and_goes_with_its_document(http, folder):
    text = f"# {SCRIPT}\n\nThe okapi is a giraffe of the {SCRIPT} forest. An okapi costs nine crowns.\n"
    file = {"file": ("okapi.md", text.encode())}
    document = http.post("/api/upload", files=file).json()["id"]
    mine = [
        x
        for x in http.get("/api/questions/drawn").json()
        if "okapi" in x["drawn"]["answer"]
    ]
    for line in mine:
        reply = http.post("/api/questions", json={"task_id": line["task_id"]})
        assert reply.status_code == 204
    assert len(mine) == http.get("/api/questions").text.count("\n") > 0
    http.delete(f"/api/documents/{document}")
    assert "okapi" not in http.get("/api/questions").text
    assert b"okapi" not in (folder / "served" / "questions.jsonl").read_bytes()


def test_a_mark_of_script_stays_text_and_goes_with_its_conversation(http, folder):
    talk = http.post("/api/query", json=ASKED).json()["conversation_id"]
    path = f"/api/conversations/{talk}/1"
    said = {"verdict": "wrong", "answer": f"{SCRIPT} zebra", "note": SCRIPT}
    with ThreadPoolExecutor(
        4
    ) as pool:  # four windows at once: none takes back what another said
        each = [{key: value} for key, value in said.items()]
        each.append({"passage": http.get("/api/search?q=dog").json()[0]["passage"]})
        list(pool.map(lambda one: http.post(f"{path}/mark", json=one), each))
    marks = http.get(path).json()["marks"]
    assert {k: marks[k] for k in said} == said and len(marks["passages"]) == 1
    page = http.get(f"{path}/why")
    assert "<img src" not in page.text and SCRIPT not in page.text
    assert "sandbox" in page.headers["content-security-policy"]
    assert "zebra" in http.get("/api/marks").text
    http.delete(f"/api/conversations/{talk}")
    assert "zebra" not in http.get("/api/marks").text
    assert not any(b"zebra" in p.read_bytes() for p in folder.rglob("*") if p.is_file())


def test_a_script_in_a_document_its_name_and_a_question_stays_text(http):
    text = f"A parrot costs one crown. {SCRIPT} Says the captain."
    upload(http, "<script>alert(1)<%2fscript>&quot;'.txt", text.encode())
    question = {"question": f"How much is a parrot? {SCRIPT}"}
    talk = f"/api/conversations/{http.post('/api/query', json=question).json()['conversation_id']}"
    why = http.get(f"{talk}/1/why")
    assert "<script>" not in why.text and "<img" not in why.text
    assert (
        "&lt;script&gt;" in why.text
        and "&lt;img src=x onerror=alert(1)&gt;" in why.text
    )
    policy = why.headers["content-security-policy"]
    assert "script-src" not in policy and "default-src 'none'" in policy
    for path in ("/api/documents", talk):
        headers = http.get(path).headers
        assert not headers["content-type"].startswith("text/html")
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["C:\\Windows\\fees.txt", "\\\\server\\fees.txt"])
def test_of_a_path_as_old_browsers_send_it_the_last_part_is_the_name(name, http):
    data = b"A cat is free."
    assert (
        http.post("/api/upload", files={"file": (name, data)}).json()["name"]
        == "fees.txt"
    )


def test_a_page_of_200_000_open_tags_is_read(http):
    upload(http, "deep.html", b"<div>" * 200_000 + b"A goat is free.")


# Those who are slow, and those who hang up


def half_request(http: httpx.Client, head: str, body: bytes = b"") -> socket.socket:
    "A connection on which a request was begun."
    connection = socket.create_connection((http.base_url.host, http.base_url.port))
    connection.sendall(head.replace("\n", "\r\n").encode() + body)
    return connection


def test_connections_that_hang_hold_nobody_up_and_leave_nothing_behind(http, refused):
    head = f"POST /api/upload HTTP/1.1\nHost: {http.base_url.netloc.decode()}\nAuthorization: Bearer {TOKEN}\n"
    form = "Content-Type: multipart/form-data; boundary=x\nContent-Length: {}\n\n"
    begun = b"--x\r\nContent-Disposition: form-data; name=file; filename=evil.md\r\n\r\nhalf"
    hanging = [
        half_request(http, head + form.format(100_000), begun) for _ in range(30)
    ]
    hanging.append(half_request(http, head + form.format(99_999_999_999)))
    assert b" 413 " in hanging[-1].recv(4000).split(b"\r\n")[0]
    hanging += [half_request(http, "GET / HTTP/1.1\nHost: ") for _ in range(30)]
    start = time.monotonic()
    assert "four crowns" in http.post("/api/query", json=ASKED).json()["answer"]
    assert time.monotonic() - start < 30
    for connection in hanging:
        connection.close()
    time.sleep(
        0.2
    )  # the service sees that they hung up; `refused` looks at what they left


# The service's own record, damaged, and a disk without room


@pytest.fixture(scope="module")
def made_record(tmp_path_factory) -> Path:
    "A folder with a library of two documents and a record: a marked turn, one that is not, a question of a test set."
    tmp_path = tmp_path_factory.mktemp("record")
    with Service(
        tmp_path / "library", tmp_path / "served", system="naive", models=scripted()
    ) as s:
        for name, animal in (("fees", "dog"), ("tolls", "cat")):
            (tmp_path / name).write_text(
                f"# {name}\n\nA {animal} costs four crowns on the ferry.\n"
            )
            s.documents.put(tmp_path / name, f"{name}.md", "ferries")
        reply = service.ask_service(s, ASKED["question"])
        service.mark(s, reply["conversation_id"], 1, verdict="right")
        questions.accept(s, questions.draw_questions(s)[0]["task_id"])
        service.ask_service(s, "How much is a cat?")
    return tmp_path


@pytest.fixture
def record(made_record, tmp_path) -> Path:
    "A copy of that record."
    shutil.copytree(made_record, tmp_path / "here")
    return tmp_path / "here" / "served"


def opened(record: Path) -> Service:
    "The service over a record."
    return Service(record.parent / "library", record, system="naive", models=scripted())


def two(s: Service) -> list[str]:
    "The conversations, that of the marked turn first."
    return sorted(s.talks.known, key=lambda i: "dog" not in s.talks.known[i]["title"])


LINES = {  # no line of any log, and lines of another
    "garbage": b"garbage\n",
    "binary": b"\xff\xfe\x00\n",
    "a list": b"[1]\n",
    "empty": b"{}\n",
    "of lists": b'{"document": ["x"], "id": [], "time": 7, "task_id": [], "drawn": [], "key": {}}\n',
    "null": b'{"document": null, "conversation": null, "marks": null, "contexts": null, "id": null}\n',
    "deep": b'{"document": ' + b"[" * 50_000 + b"\n",
}
OWN = ("deleting", "reference", "questions", "runs/*/passages", "runs/*/calls")


@pytest.mark.parametrize("name, line", pairs(OWN, LINES))
def test_a_bad_line_of_its_own_record_is_set_aside_and_all_goes_on(
    name, line, record, caplog
):
    (record / "deleting.jsonl").touch()
    paths = list(record.glob(f"{name}.jsonl"))
    for path in paths:
        before = path.read_bytes()
        path.write_bytes(LINES[line] + before)
    with opened(record) as s:
        first, _ = two(s)
        assert len(s.documents.all()) == 2
        assert service.ask_service(s, "How much is a goat?")["outcome"] == "answered"
        assert service.turns_of(s, first)[0]["about"]["marks"]["verdict"] == "right"
        assert len(questions.accepted_questions(s)) == 1
        assert service.about_turn(s, first, 1)["passages"]
        told = [*s.aside, *(r.getMessage() for r in caplog.records)]
        assert any(paths[0].name in x and "line 1" in x for x in told)
        assert (
            before in paths[0].read_bytes()
            or name == "deleting"
            or name.startswith("runs")
        )
        assert service.delete_conversation(s, first)["turns"] == 1
    with opened(record) as s:
        assert not s.aside and not s.undeleted and len(s.talks.known) == 2


RUN_FILES = [
    ("tasks", b""),
    ("tasks", None),
    ("manifest", None),
    ("predictions", b"\xff\xfe\n"),
]
RUN_FILES += [("predictions", "a folder")]


@pytest.mark.parametrize("name, data", RUN_FILES, ids=str)
def test_a_run_with_a_damaged_file_stops_neither_questions_nor_deletions(
    name, data, record
):
    [path] = record.glob("runs/*/manifest.json")
    path = path if name == "manifest" else path.with_name(f"{name}.jsonl")
    path.unlink() if data in (None, "a folder") else path.write_bytes(data)
    if data == "a folder":
        path.mkdir()
    with opened(record) as s:
        first, _ = two(s)
        assert service.ask_service(s, "How much is a goat?")["outcome"] == "answered"
        assert service.turns_of(s, first)
        assert service.delete_conversation(s, first)["removed"] == first
    with opened(record) as s:
        assert len(s.talks.known) == 2


SERVED = (
    "questions",
    "reference",
    "conversations/*",
    "runs/*/tasks",
    "runs/*/trajectories",
)
SERVED += ("runs/*/passages", "runs/*/calls")


CHANGES = ["a letter", "emptied", "no checksums", "a folder"]


@pytest.mark.parametrize("name, change", pairs(SERVED, CHANGES))
def test_a_changed_letter_in_a_log_and_an_emptied_log_are_told_once(
    name, change, record
):
    path = next(record.glob(f"{name}.jsonl"))
    data, sums = path.read_bytes(), path.with_name(f"{path.name}.crc")
    if change == "a folder":
        path.unlink()
        path.mkdir()
    elif change == "no checksums":  # a record of an earlier version
        sums.unlink()
    else:
        path.write_bytes(data.replace(b"o", b"0", 1) if change == "a letter" else b"")
    with opened(record) as s:
        if change != "a folder":
            told = [f"{path.name}, line 1" in x for x in s.aside]
            assert told == [True] * (change != "no checksums")
        assert service.ask_service(s, "How much is a goat?")["outcome"] == "answered"
    with opened(record) as s:
        assert not s.aside and (change != "no checksums" or sums.exists())


def test_a_test_set_that_was_cut_is_told(record):
    "It is written whole, so that no kill leaves half a line."
    path = record / "questions.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with opened(record) as s:
        assert "questions.jsonl, line 1" in s.aside[
            0
        ] and not questions.accepted_questions(s)


def test_a_library_without_its_manifest_is_not_empty(record):
    (record.parent / "library" / "manifest.json").unlink()
    with pytest.raises(
        DataError, match="manifest.json: no such file .* Restore it from a copy"
    ):
        opened(record)


@pytest.mark.parametrize("content", [b'{"a": 1}', b"{}", b"[1, 2, 3]" * 50])
def test_texts_that_the_engine_lost_are_told_with_the_folder(content, record):
    "In a library of an earlier version, which has no checksums."
    [path] = (record.parent / "library").rglob("payload_storage/tracker.dat")
    [sums] = (record.parent / "library").rglob("checksums.json")
    sums.unlink()
    path.write_bytes(content)
    with pytest.raises(
        DataError, match=r"generation-\d+/qdrant: .* damaged. Build it again"
    ):
        with opened(record) as s:
            questions.draw_questions(s)


def test_a_library_that_lost_its_manifest_or_has_that_of_another_state_loses_no_document(
    record,
):
    "A manifest is lost, restored from an old copy, or one of its bits is turned: then nothing is swept away."
    library = record.parent / "library"
    manifest, files = library / "manifest.json", sorted(library.rglob("*"))
    whole = manifest.read_bytes()
    for damaged in (
        None,
        whole.replace(b'"generation": 2', b'"generation": 3'),
        b'{"a": 1}',
    ):
        manifest.unlink() if damaged is None else manifest.write_bytes(damaged)
        for read in (lambda: Library(library).documents(), lambda: opened(record)):
            with pytest.raises(MTRAGError, match="(?i)restore|build it again"):
                read()
        manifest.write_bytes(whole)
        assert sorted(library.rglob("*")) == files
    assert len(Library(library).documents()) == 2


# Each file of what is served, damaged in turn: the service answers as before, or names the file. `make test` takes some files of
# each damage, `make test-attacks` (MTRAG_ATTACKS) all.


def flipped(data: bytes) -> bytes:
    "One bit of a byte in the middle of what is not zero."
    used = [i for i in range(0, len(data), 512) if data[i : i + 512].strip(b"\0")] or [
        0
    ]
    at = used[len(used) // 2]
    at += next((i for i, byte in enumerate(data[at : at + 512]) if byte), 0)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if data else b"\1"


DAMAGE = {
    "another format": lambda data: b"\x89PNG\r\n\x1a\n" + noise(500),
    "JSON": lambda data: b'{"a": 1}',
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "a byte": flipped,
    "a folder": None,
}


def said_by(s: Service) -> list:
    "What a service says of all that it holds, and that it deletes a conversation and a document."
    said = [
        service.ask_service(s, q)["answer"]
        for q in ("How much is a goat?", "A cat on the ferry?")
    ]
    said += [
        [x["input"][-1]["text"] for x in questions.draw_questions(s)],
        len(questions.accepted_questions(s)),
    ]
    said += [p["text"] for p in service.search(s, "dog ferry")]
    old = two(s)[0]
    [turn] = service.turns_of(s, old)
    said += [turn["reply"]["answer"], turn["about"]["marks"]["verdict"]]
    said += [turn["about"]["passages"][0]["text"]]
    for d in s.documents.all():
        said += [p["text"] for p in service.document_text(s, d["id"])["parts"]]
    gone = s.documents.all()[0]
    said += [gone["name"], service.delete_conversation(s, old)["turns"]]
    said += [service.delete_document(s, gone["id"])["name"], len(s.documents.all())]
    return [*said, service.ask_service(s, ASKED["question"])["answer"]]


def in_a_copy(made: Path, here: Path, name: Path | None = None, kind: str = "") -> list:
    "What is said by a service over a copy, one of whose files is damaged; or in which words it refuses to."
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(made, here, copy_function=copy_sparse)
    if name and DAMAGE[kind]:
        (here / name).write_bytes(DAMAGE[kind]((here / name).read_bytes()))
    elif name:
        (here / name).unlink()
        (here / name).mkdir()
    try:
        listed = [(e.name, e.passages) for e in Library(here / "library").documents()]
        with opened(here / "served") as s:
            aside = [*s.aside, *s.undeleted]
            return [*listed, *said_by(s)] if not aside else aside
    except MTRAGError as e:
        return [str(e)]


@pytest.mark.parametrize("kind", few(DAMAGE, 2))
def test_a_service_over_a_damaged_file_answers_as_before_or_names_it(
    kind, made_record, tmp_path
):
    files = [
        p.relative_to(made_record) for p in made_record.rglob("*.*") if p.is_file()
    ]
    files = sorted(f for f in files if f.name != ".lock")
    whole = in_a_copy(made_record, tmp_path / "here")
    assert len(whole) > 15
    for name in files if ALL else random.Random(kind).sample(files, 4):
        said = in_a_copy(made_record, tmp_path / "here", name, kind)
        places = (name.name, name.parent.name)  # a run is set aside as a whole
        told = (
            said != whole and any(p in said[0] for p in places) and "\n" not in said[0]
        )
        assert said == whole or told, f"{name}: {said}"


def test_what_was_set_aside_of_a_deleted_conversation_goes_too(record):
    with opened(record) as s:
        first, _ = two(s)
    with (record / "reference.jsonl").open("a") as f:
        f.write(f"half a line of {first} with a secret\n")
    with opened(record) as s:
        assert "reference.jsonl, line 2" in s.aside[0]
        service.delete_conversation(s, first)
    assert not any(
        first.encode() in p.read_bytes() for p in record.rglob("*") if p.is_file()
    )


FULL = DiskFull(
    "the disk is full", remedy="Make room and start again: nothing has changed"
)


def fill(disk: Path, free: int) -> Path:
    "Fill a disk up to some bytes; the file that does."
    with (
        pytest.raises(OSError, match="No space"),
        (disk / "full").open("wb", buffering=0) as f,
    ):
        while f.write(bytes(2**16)):
            pass
    os.truncate(disk / "full", (disk / "full").stat().st_size // 4096 * 4096 - free)
    return disk / "full"


def held(s: Service) -> tuple:
    "What a service holds: conversations, marks, a test set, documents."
    marks = [
        (line["task_id"], line["marks"]["note"])
        for line in read_marks(s.folder).lines.values()
    ]
    names = [d["name"] for d in s.documents.all()]
    return len(s.talks.known), marks, len(questions.accepted_questions(s)), names


ACTS = {
    "ask": lambda s: service.ask_service(s, "How much is a goat?"),
    "mark": lambda s: service.mark(s, two(s)[0], 1, note="x" * 9000),
    "accept": lambda s: questions.accept(s, questions.draw_questions(s)[1]["task_id"]),
    "upload": lambda s: s.documents.put(
        s.folder.parent / "fees", "goats.md", "ferries"
    ),
    "delete a conversation": lambda s: service.delete_conversation(s, two(s)[0]),
    "delete a document": lambda s: service.delete_document(
        s, s.documents.all()[0]["id"]
    ),
}


@pytest.mark.parametrize("act", few(ACTS, 2))
def test_on_a_full_disk_an_act_is_done_or_refused_and_nothing_is_lost(
    act, made_record, tmp_path
):
    "On a file system of its own in memory, which only a superuser can make; `make test-attacks` fills it a hundred times."
    (disk := tmp_path / "disk").mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400m", "none", disk]
    ).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        done, times = None, 0
        for free in (None, *range(0, 72 if ALL else 8, 4)):
            shutil.copytree(made_record, disk / "r", copy_function=copy_sparse)
            with opened(disk / "r" / "served") as s:
                service.ask_service(s, "How much is a cat?", two(s)[1])
                before, refused = held(s), False
                full = fill(disk, 1024 * free) if done else disk / "none"
                try:
                    ACTS[act](s)
                except (DiskFull, Denied) as e:
                    refused = as_denied(e).status == 507
                    assert done and refused, e
                finally:
                    full.unlink(missing_ok=True)
            with opened(disk / "r" / "served") as s:
                after, done = held(s), done or held(s)
                assert after == done or refused and after == before
                times += refused
                assert not s.aside and not s.undeleted
                assert service.ask_service(s, "And a goat?")["outcome"] == "answered"
            shutil.rmtree(disk / "r")
        assert times, "no act was refused"
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_deletion_that_was_refused_is_not_carried_out_later(record):
    with opened(record) as s:
        first, second = two(s)
        gone, stays = (d["id"] for d in s.documents.all())
        with patch.object(s.documents.library, "remove", side_effect=FULL):
            with pytest.raises(DiskFull, match="nothing has changed"):
                service.delete_document(s, gone)
            assert service.delete_conversation(s, first)["turns"] == 1, (
                "whoever else deletes"
            )
        assert {d["id"] for d in s.documents.all()} == {gone, stays}
        assert service.delete_conversation(s, second)["turns"] == 1
    with opened(record) as s:
        assert {d["id"] for d in s.documents.all()} == {gone, stays} and not s.undeleted
        assert service.delete_document(s, gone)["removed"] == gone
    with opened(record) as s:
        assert [d["id"] for d in s.documents.all()] == [stays]


def test_what_cannot_be_deleted_at_the_start_is_told_and_the_rest_is_done(record):
    "A deletion of a document, killed before it was done; the library has no room when the service starts."
    with opened(record) as s:
        first, second = two(s)
        gone, stays = (d["id"] for d in s.documents.all())
    to_delete(record, document=gone)
    to_delete(record, conversation=first)
    with (
        patch("mtrag_nb.serve.library.Library.remove", side_effect=FULL),
        opened(record) as s,
    ):
        assert (
            len(s.undeleted) == 1
            and gone in s.undeleted[0]
            and "no room" not in s.undeleted
        )
        assert list(s.talks.known) == [second] and len(s.documents.all()) == 2
        assert service.delete_conversation(s, second)["turns"] == 1
    with opened(record) as s:
        assert not s.undeleted and [d["id"] for d in s.documents.all()] == [stays]
