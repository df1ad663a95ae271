"""Inputs that people reported for other projects, each with neighbours of its kind: traces and texts that frameworks wrote,
encodings, tasks predicted twice, templates, prompts beyond a window, conversations of several owners."""

import gzip
import json
from pathlib import Path

import httpx
import pytest

from mtrag_nb.core.files import read_json
from mtrag_nb.core.settings import ModelSpec, load_settings
from mtrag_nb.core.types import DataError, SettingsError
from mtrag_nb.data.mtrag import read_qrels
from mtrag_nb.data.predictions import import_predictions, _lines_of
from mtrag_nb.data.literals import read_literal
from mtrag_nb.data.passages import lists_of
from mtrag_nb.data.traces import import_traces
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, chat, first_sentence
from mtrag_nb.models.device import TooLarge
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.models.local import TransformersChat
from mtrag_nb.models.server import ServerChat
from mtrag_nb.serve.api import make_app
from mtrag_nb.serve.guard import check_address, rules_of
from mtrag_nb.serve.service import Service
from tests.support import servers
from tests.support.servers import running
from tests.support.tiny import tiny_llama

QUESTION, ANSWER = "How much is a ticket?", "A ticket costs 12 crowns."
SECOND, REPLY = "And a dog?", "A dog costs 4 crowns."
TEXT = "A ticket costs 12 crowns. Dogs are free."


# Traces


def span(
    name: str, id: str, parent: str = "", begins: int = 1, lasts: int = 1, **about: str
) -> dict:
    "A span of OTLP; in the names of attributes __ is a dot."
    return {
        "traceId": "t",
        "spanId": id,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str((1_700_000_000 + begins) * 10**9),
        "endTimeUnixNano": str((1_700_000_000 + begins + lasts) * 10**9),
        "attributes": [
            {"key": k.replace("__", "."), "value": {"stringValue": v}}
            for k, v in about.items()
        ],
    }


def turn(
    question: str = QUESTION,
    answer: str = ANSWER,
    begins: int = 1,
    parent: str = "",
    asked: str | None = None,  # as the span writes it
    answered: str | None = None,
    found: str = "",  # what the retriever gives, as it writes it; "": a document of OpenInference
) -> list[dict]:
    "The spans of a turn: a chain, a retriever and a model in it."
    root, model = f"r{begins}", {"openinference__span__kind": "LLM"}
    model["llm__output_messages__0__message__role"] = "assistant"
    model["llm__output_messages__0__message__content"] = answer
    document = {"retrieval__documents__0__document__content": TEXT}
    retrieved = {"output__value": found} if found else document
    kind = {"openinference__span__kind": "RETRIEVER", "input__value": question}
    told = {
        "input__value": question if asked is None else asked,
        "output__value": answer if answered is None else answered,
    }
    return [
        span(
            "chain", root, parent, begins, 8, openinference__span__kind="CHAIN", **told
        ),
        span("retrieve", f"s{begins}", root, begins + 1, **kind, **retrieved),
        span("ChatModel", f"m{begins}", root, begins + 3, **model),
    ]


def imported(spans: list[dict] | bytes, folder: Path) -> list[tuple]:
    "Question, answer, kinds of steps and number of passages of each turn."
    data = (
        spans
        if isinstance(spans, bytes)
        else "\n".join(map(json.dumps, spans)).encode()
    )
    (folder / "spans.jsonl").write_bytes(data)
    run = import_traces(folder / "spans.jsonl", folder / "out")
    return [
        (t.question, t.answer, [s.path for s in t.steps], len(t.contexts))
        for t in run.trajectories.values()
    ]


FIRST = (QUESTION, ANSWER, ["retrieved", "drafted"], 1)
LATER = (SECOND, REPLY, ["retrieved", "drafted"], 1)


def said(role: str, text: str) -> str:
    "A message of OpenTelemetry's."
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def endless(spans: list[dict], name: str) -> list[dict]:
    "Spans of which one has no end."
    return [
        {k: v for k, v in s.items() if k != "endTimeUnixNano" or s["name"] != name}
        for s in spans
    ]


OPENTELEMETRY = [
    span("invoke_agent x", "a", lasts=20, gen_ai__operation__name="invoke_agent"),
    turn(parent="a")[1] | {"parentSpanId": "a"},
    span(
        *("chat gpt", "c", "a", 4),
        gen_ai__operation__name="chat",
        gen_ai__input__messages=said("user", QUESTION),
        gen_ai__output__messages=said("assistant", ANSWER),
    ),
]
REQUEST = span("POST /chat", "w", lasts=20)
ANSWERLESS = span("POST /chat", "w", lasts=20, output__value='{"status": "ok"}')
WORKER = [span("worker", "w", lasts=20), span("agent", "a", "w", lasts=19)]
ONE = {  # what a file of one turn is, or stands above the turn
    "nothing": turn(),
    "a request": [REQUEST, *turn(parent="w")],
    "a request with a status": [ANSWERLESS, *turn(parent="w")],
    "a worker and an agent": [*WORKER, *turn(parent="a")],
    "a lost root": turn(parent="gone"),
    "a chain without an output": [REQUEST, *turn(parent="w", answered="")],
    "a chain that gives null": turn(answered="null"),
    "an agent of OpenTelemetry": OPENTELEMETRY,
    "two lost roots": [span("worker", "w", "gone", lasts=20), *turn(parent="w")],
    "a chain without an end": endless(turn(), "chain"),
    "a chain that ends at 0": [turn()[0] | {"endTimeUnixNano": "0"}, *turn()[1:]],
    "a chain that is lost": turn()[1:],
    "a model without an end": endless(turn(), "ChatModel"),
    "spans twice": [*turn(), *turn()],
    "a span that was sent again when it ended": [
        turn()[0] | {"attributes": []},
        *turn(),
    ],
    "children before their chain": turn()[::-1],
}


TURNS = [*turn(parent="s"), *turn(SECOND, REPLY, 11, "s")]
SESSIONS = {
    "a session around": [span("session", "s", lasts=40), *TURNS],
    "a request around": [span("POST /session", "s", lasts=40, session__id="x"), *TURNS],
    "two roots": [*turn(), *turn(SECOND, REPLY, 11)],
    "a lost root": TURNS,
    "in the order of their ends": [*reversed([span("session", "s", lasts=40), *TURNS])],
    "spans twice": [span("session", "s", lasts=40), *TURNS, *TURNS],
    "cut between the turns": [span("session", "s", lasts=9), *TURNS],
    "a session without an end": [*endless([span("session", "s")], "session"), *TURNS],
    "the later turn first": [*TURNS[3:], *TURNS[:3]],
    "turns interleaved": [s for pair in zip(TURNS[:3], TURNS[3:]) for s in pair],
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_in_one_trace_is_its_turns(name, tmp_path):
    assert imported(SESSIONS[name], tmp_path) == [FIRST, LATER]


NO_ANSWER = [turn()[0] | {"attributes": []}, turn()[1]]
LACKS = {  # what is not in the file -> what its turn has
    "the model's span": (turn()[:2], FIRST),
    "the retriever's span": (
        [turn()[0], turn()[2]],
        (QUESTION, ANSWER, ["drafted"], 0),
    ),
    "the answer": (NO_ANSWER, (QUESTION, "", ["retrieved"], 1)),
}


@pytest.mark.parametrize("name", LACKS)
def test_a_trace_that_lacks_a_span_has_what_the_others_say(name, tmp_path):
    spans, wanted = LACKS[name]
    assert imported(spans, tmp_path) == [wanted]


@pytest.mark.parametrize(
    "lost, question, answer",
    [(0, SECOND, REPLY), (3, QUESTION, ANSWER)],
    ids=["the first root", "the last root"],
)
@pytest.mark.parametrize("around", ["session", "POST /session"])
def test_a_turn_that_lost_its_root_lends_no_other_its_words(
    around, lost, question, answer, tmp_path
):
    spans = [span(around, "s", lasts=40), *TURNS[:lost], *TURNS[lost + 1 :]]
    assert imported(spans, tmp_path)[0][:2] == (question, answer)


BOTH = [*turn(parent="q"), *turn(SECOND, REPLY, 11, "q")]
WHOLE = {
    "lasts": 40,
    "input__value": "And both?",
    "output__value": "16.",
}  # a question of two
NODES = [
    s | ({"name": "answer"} if s["name"] == "chain" else {})
    for s in turn(parent="g", begins=11)
]
PARTS = {
    "sub-questions": [
        span("chain", "q", **WHOLE, openinference__span__kind="CHAIN"),
        *BOTH,
    ],
    "nodes of a graph": [span("graph", "g", lasts=40), *turn(parent="g"), *NODES],
    "sub-questions of an agent": [span("agent", "q", **WHOLE), *BOTH],
    "sub-questions below a request": [
        span("POST /chat", "p", lasts=50),
        span("chain", "q", "p", **WHOLE),
        *BOTH,
    ],
    "a second try": [
        span("POST /chat", "p", lasts=50, input__value=QUESTION),
        *turn(parent="p"),
        *turn(begins=11, parent="p"),
    ],
    "a question and its title": [
        span("POST /chat", "p", lasts=50),
        *turn(parent="p"),
        span("title", "t1", "p", 20, input__value=QUESTION, output__value="Tickets"),
    ],
    "sub-questions sent twice": [
        *[span("agent", "q", **WHOLE)] * 2,
        *turn(parent="q") * 2,
        *turn(SECOND, REPLY, 11, "q") * 2,
    ],
    "a retriever that starts a turn of its own": [
        *turn(),
        *turn(SECOND, REPLY, 3, "s1"),
    ],
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_turn_are_no_turns(name, tmp_path):
    assert len(imported(PARTS[name], tmp_path)) == 1


QUOTED = [
    repr(QUESTION),
    json.dumps(QUESTION),
    json.dumps(json.dumps(QUESTION)),
    f"b{QUESTION!r}",
]
PART = [{"type": "text", "text": QUESTION}]
ASKED = {
    **{f"quoted {n}": text for n, text in enumerate(QUOTED)},
    "a tuple": f"({QUESTION!r},)",
    "a list": json.dumps([QUESTION]),
    "a dictionary": str({"question": QUESTION}),
    "within": str({"input": {"question": QUESTION}, "config": None}),
    "parts": str(PART),
    "parts in JSON": json.dumps({"messages": [{"role": "user", "content": PART}]}),
    "LangChain's message": f"HumanMessage(content={QUESTION!r}, additional_kwargs={{}})",
    "LangChain's text": f"content={QUESTION!r} additional_kwargs={{}}",
    "pydantic's text": f"question={QUESTION!r} history=[]",
    "a dataclass": f"Query(text={QUESTION!r}, k=3)",
    "LlamaIndex's": str({"str_or_query_bundle": QUESTION}),
    "arguments": json.dumps({"args": [QUESTION], "kwargs": {}}),
}


ANSWERED = {
    "quoted": repr(ANSWER),
    "pydantic's text": f"answer={ANSWER!r} sources=[]",
    "LangChain's text": f"content={ANSWER!r} additional_kwargs={{}} id='run-1'",
    "LangChain's messages": f"[HumanMessage(content='x'), AIMessage(content={ANSWER!r})]",
    "a constructor": json.dumps(
        {"id": ["langchain", "AIMessage"], "kwargs": {"content": ANSWER}}
    ),
    "generations": json.dumps(
        {"generations": [[{"text": ANSWER, "type": "Generation"}]]}
    ),
    "choices": json.dumps(
        {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]}
    ),
    "LlamaIndex's": f"Response(response={ANSWER!r}, source_nodes=[], metadata=None)",
    "Anthropic's": json.dumps(
        {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}
    ),
    "Haystack's": json.dumps({"llm": {"replies": [ANSWER]}}),
    "DSPy's": f"Prediction(\n    answer={ANSWER!r}\n)",
    "nothing": "None",
}


FOUND = {
    "LangChain, Python": f"[Document(page_content={TEXT!r}, metadata={{'source': 'a.md'}})]",
    "LangChain, scored": f"[(Document(page_content={TEXT!r}, metadata={{}}), 0.4)]",
    "LangChain, JSON": json.dumps(
        {"documents": [{"page_content": TEXT, "metadata": {}}]}
    ),
    "LlamaIndex": json.dumps([{"node": {"id_": "n1", "text": TEXT}, "score": 0.5}]),
    "LlamaIndex, Python": f"[NodeWithScore(node=TextNode(id_='n1', text={TEXT!r}), score=0.5)]",
    "Haystack": json.dumps(
        {"documents": [{"id": "d1", "content": TEXT, "score": 0.4}]}
    ),
    "Qdrant": json.dumps([{"id": 1, "score": 0.5, "payload": {"text": TEXT}}]),
    "Elasticsearch": json.dumps(
        {"hits": {"hits": [{"_id": "d1", "_source": {"text": TEXT}}]}}
    ),
    "Weaviate": json.dumps({"objects": [{"uuid": "u", "properties": {"text": TEXT}}]}),
    "DSPy": json.dumps({"passages": [TEXT]}),
    "texts": json.dumps([TEXT]),
    "texts of Python": repr([TEXT]),
}


ONE |= {f"asked as {name}": turn(asked=text) for name, text in ASKED.items()}
ONE |= {f"answered as {name}": turn(answered=text) for name, text in ANSWERED.items()}
ONE |= {f"found as {name}": turn(found=text) for name, text in FOUND.items()}


@pytest.mark.parametrize("name", ONE)
def test_one_turn_is_read_in_the_form_of_each_framework(name, tmp_path):
    "The answer is that of the highest span that has one."
    assert imported(ONE[name], tmp_path) == [FIRST]


@pytest.mark.parametrize(
    "written, id, source, score",
    [
        ({"hits": {"hits": [{"_id": "a", "_score": 3.5, "_source": {"text": "one"}}]}}, "a", "", 3.5),
        ({"objects": [{"uuid": "a", "properties": {"text": "one"}, "metadata": {"distance": 0.25}}]}, "a", "", -0.25),
        ({"points": [{"id": "a", "score": 0.5, "payload": {"text": "one", "source": "x.pdf"}}]}, "a", "x.pdf", 0.5),
    ],
    ids=["Elasticsearch", "Weaviate", "Qdrant"],
)  # fmt: skip
def test_ids_scores_and_origins_of_stores_are_read(written, id, source, score):
    [[found]] = lists_of(written).values()
    assert (*found.ids[:1], found.source, found.score, found.text) == (
        id,
        source,
        score,
        "one",
    )


AS_THEY_ARE = [
    "it's 'so'",
    "'a' or 'b'",
    '"cat" "dog"',
    "a='b' c",
    "(see 'x')",
    "What is f(x)?",
]


@pytest.mark.parametrize(
    "text", [*AS_THEY_ARE, "[1", "{a}", "'", '"', "b", "None of them"]
)
def test_a_text_that_is_none_of_these_stays(text):
    assert read_literal(text) == text


LINES = "\n".join(map(json.dumps, turn()))


def test_spans_with_half_characters_and_a_mark_are_read(tmp_path):
    odd = LINES.replace("chain", "chain\\ud83d").replace('"r1"', '"r1\\ud83d"')
    assert imported(b"\xef\xbb\xbf" + odd.encode(), tmp_path) == [FIRST]


@pytest.mark.parametrize(
    "name", ["utf-16", "utf-16-be", "utf-16-le", "utf-32", "cp1252"]
)
def test_spans_in_another_encoding_are_refused(name, tmp_path):
    with pytest.raises(DataError, match="UTF-|JSON"):
        imported(
            LINES.replace("ticket", "tickét").replace("\\u00e9", "é").encode(name),
            tmp_path,
        )


@pytest.mark.parametrize("left", [0.3, 0.6, 0.9, 0.999])
def test_a_file_that_was_cut_short_leaves_nothing_behind(left, tmp_path):
    whole = gzip.compress(LINES.encode())
    (tmp_path / "x.jsonl.gz").write_bytes(whole[: int(len(whole) * left)])
    (tmp_path / "x.jsonl").write_text(LINES[: int(len(LINES) * left)], encoding="utf-8")
    for name in ("x.jsonl.gz", "x.jsonl"):
        with pytest.raises(DataError):
            import_traces(tmp_path / name, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.jsonl", "x.jsonl.gz"]


# Files of predictions and judgements


def predictions(*tasks: tuple[str, str]) -> str:
    lines = (
        {"task_id": i, "contexts": [{"document_id": "d"}], "predictions": [{"text": a}]}
        for i, a in tasks
    )
    return "".join(json.dumps(line) + "\n" for line in lines)


TWICE = predictions(("a<::>1", "One."), ("a<::>2", "Two."), ("a<::>1", "Three."))


@pytest.mark.parametrize("which, counts", [("first", "One."), ("last", "Three.")])
def test_of_a_task_that_was_predicted_twice_the_named_one_counts(
    which, counts, tmp_path
):
    (tmp_path / "x.jsonl").write_text(TWICE, encoding="utf-8")
    with pytest.raises(
        DataError, match=r"x.jsonl:3: task 'a<::>1' .* --duplicates first or last"
    ):
        import_predictions(tmp_path / "x.jsonl", None, tmp_path / "none")
    with pytest.raises(SettingsError, match="not 'newest'"):
        import_predictions(
            tmp_path / "x.jsonl", None, tmp_path / "none", duplicates="newest"
        )
    how = {"duplicates": which, "passages": ()}
    run = import_predictions(tmp_path / "x.jsonl", None, tmp_path / "out", **how)
    said = {i: t.answer for i, t in run.trajectories.items()}
    assert said == {"a<::>1": counts, "a<::>2": "Two."}
    assert run.manifest["imported"]["odd"] == {
        f"tasks predicted again: the {which} counts": 1
    }


def first_task(path: Path) -> str:
    return _lines_of(path)[1][0][1]["task_id"]


def judged(path: Path) -> list[str]:
    return [*read_qrels(path)]


MARKED = {
    "predictions": (predictions(("a<::>1", "One.")), first_task, "a<::>1"),
    "a TREC run": ("a Q0 d 1 0.5 x\n", first_task, "a"),
    "judgements": ("a\td\t1\n", judged, ["a"]),
    "judgements with a head": ("query-id\tcorpus-id\tscore\na\td\t1\n", judged, ["a"]),
    "JSON": ('{"a": 1}', read_json, {"a": 1}),
}


@pytest.mark.parametrize("ending", ["", "\r\n"])
@pytest.mark.parametrize("name", MARKED)
def test_a_byte_order_mark_and_line_ends_of_windows_change_nothing(
    name, ending, tmp_path
):
    text, read, wanted = MARKED[name]
    text = text.replace("\n", ending) if ending else text
    path = tmp_path / (
        "x.json" if name == "JSON" else "x.jsonl" if "{" in text else "x.tsv"
    )
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read(path) == wanted


# Templates, windows, addresses


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> TransformersChat:
    "A tiny model that reads 400 tokens."
    folder = tmp_path_factory.mktemp("tiny") / "m"
    tiny_llama(folder, sizes={"max_position_embeddings": 400})
    return TransformersChat(ModelSpec(str(folder)))


EACH = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
FIRST_ONLY = "<user>{{ messages[0].content if messages[0].role == 'user' else messages[1].content }}"
AS_SYSTEM, AS_USER = "<system>Be brief.<user>When?", "<user>Be brief.\n\nWhen?"
TEMPLATES = {
    "a system role": (EACH, AS_SYSTEM),
    "none": (REFUSES + EACH, AS_USER),
    "it drops them": (
        EACH.replace("messages %}", "messages if m.role != 'system' %}"),
        AS_USER,
    ),
    "it keeps the first message": (FIRST_ONLY, AS_USER),
    "it trims": (EACH.replace("m.content", "m.content | trim"), AS_SYSTEM),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_systems_words_are_read_whatever_the_template(name, model, monkeypatch):
    template, wanted = TEMPLATES[name]
    tokenizer = model.load().tokenizer
    monkeypatch.setattr(tokenizer, "chat_template", template)
    assert tokenizer.decode(model.encode(chat("Be brief.", "When?"))) == wanted


@pytest.mark.parametrize("template", [None, ""])
def test_a_model_without_a_template_is_told_once_and_clearly(
    template, model, monkeypatch
):
    monkeypatch.setattr(model.load().tokenizer, "chat_template", template)
    with pytest.raises(SettingsError, match="has no chat template"):
        model.encode(chat("", "When?"))


@pytest.mark.parametrize(
    "words, most, fits",
    [(20, 30, True), (900, 1, False), (20, 399, False), (2, 300, True)],
)
def test_a_prompt_beyond_the_window_is_an_error_before_it_is_asked(
    words, most, fits, model
):
    ask = [chat("", "ferry " * words)]
    if fits:
        assert model.generate(ask, most) and model.score(ask, ["yes"])
        return
    with pytest.raises(TooLarge, match="reads .400."):
        model.generate(ask, most)
    if words > 400:
        with pytest.raises(TooLarge):
            model.score(ask, ["yes"])


@pytest.mark.parametrize(
    "query", ["?api-version=1", "?a=b&c=d", "/?a=b", "?a=", "?key=K%20K#openai", ""]
)
def test_the_query_of_an_address_is_sent_with_each_request(query, capsys):
    with servers.serving(lambda asked: servers.completion("Yes.")) as server:
        spec = ModelSpec("m", url=server.url + query)
        ServerChat(spec).generate([chat("", "?")], 5)
        sent = query.strip("/?").partition("#")[0]
        assert server.asked[0].path == "/v1/chat/completions"
        assert server.asked[0].query == sent.replace("%20", "+")
    assert "K" not in f"{spec.url}{capsys.readouterr()}"


# Owners

TOKENS = ["a" * 20, "b" * 20]


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Service:
    "A service with a document."
    path = tmp_path_factory.mktemp("owned")
    models = Models(load_settings(), ScriptedChat(first_sentence), HashEmbedder())
    made = Service(path / "library", path / "served", system="naive", models=models)
    file = {"file": ("fees.md", b"A dog costs four crowns on the ferry.")}
    with running(make_app(made, rules_of(made))) as url:
        assert httpx.post(f"{url}/api/upload", files=file, timeout=60).is_success
    return Service(path / "library", path / "served", system="naive", models=models)


def test_a_conversation_is_of_the_token_that_began_it(service):
    check_address("0.0.0.0", "\n".join(TOKENS))
    with running(make_app(service, rules_of(service, token="\n".join(TOKENS)))) as url:
        first, other = (
            httpx.Client(
                base_url=url, timeout=60, headers={"authorization": f"Bearer {t}"}
            )
            for t in TOKENS
        )
        question = "How much is a dog?"
        asked = {"question": question}
        chat_of = {
            "model": "naive",
            "messages": [{"role": "user", "content": question}],
        }
        i = first.post("/api/query", json=asked).json()["conversation_id"]
        j = first.post("/v1/chat/completions", json=chat_of).json()["mtrag"][
            "conversation_id"
        ]
        assert {c["id"] for c in first.get("/api/conversations").json()} == {i, j}
        assert other.get("/api/conversations").json() == []
        own = [
            ("GET", f"/api/conversations/{i}", None),
            ("GET", f"/api/conversations/{i}/1/why", None),
            ("GET", f"/api/conversations/{i}/1", None),
            ("POST", f"/api/conversations/{i}/1/mark", {"verdict": "right"}),
            ("POST", "/api/query", {**asked, "conversation_id": i}),
            (
                "POST",
                "/v1/chat/completions",
                {**chat_of, "metadata": {"conversation_id": i}},
            ),
            ("DELETE", f"/api/conversations/{i}", None),
        ]
        for method, path, body in own:
            assert other.request(method, path, json=body).status_code == 404, path
        for method, path, body in own:
            assert first.request(method, path, json=body).is_success, path
            if path.endswith("mark"):
                assert (
                    i in first.get("/api/marks").text
                    and not other.get("/api/marks").text
                )
        stranger = {"authorization": "Bearer " + "c" * 20}
        assert (
            httpx.get(f"{url}/api/conversations", headers=stranger).status_code == 401
        )
        for token, status in zip(
            [*TOKENS, "c" * 20, " ".join(TOKENS)], (204, 204, 401, 401)
        ):
            assert (
                httpx.post(f"{url}/api/token", json={"token": token}).status_code
                == status
            )
