"""What real servers send and refuse: odd ends and counts, content in parts, thoughts in the text, parameters and roles that are not
taken, quotas, redirects. Each was reported for other clients; a good reply is an answer, and what is none says why. What was right
beside a wrong reply is recorded."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from mtrag_nb.core.settings import SERVERS, ModelSpec
from mtrag_nb.core.plain_answer import thought_in, without_thinking
from mtrag_nb.core.types import ReplyError, ServerError, SettingsError
from mtrag_nb.models.calls import RecordedChat
from mtrag_nb.models.chat import Prompt, Sampling, chat, choose
from mtrag_nb.models.server import ServerChat
from tests.support.servers import COUNTED, DONE, Asked, completion, piece, serving
from tests.support.servers import llama_cpp, ollama, openai, vllm
from tests.support.volume import few

A = "A ticket costs 12 crowns."
ASKED = chat("Be brief.", "What does a ticket cost?")


def over(url: str, **how) -> ServerChat:
    "A client of a server; what is asked before a fingerprint is not."
    spec = ModelSpec("m", url=f"{url}#{how.pop('server', 'vllm')}")
    return ServerChat(
        spec, pause=0.01, **{"check": False, "patience": 5.0, "timeout": 5.0, **how}
    )


def reply_to(answer, prompt: Prompt = ASKED, stream: bool = False, **how):
    "The completion of one prompt by a server, and the server's log."
    heard: list[str] = []
    with serving(answer if callable(answer) else lambda asked: answer) as server:
        on_text = (lambda row, text: heard.append(text)) if stream else None
        (found,) = over(server.url, **how).generate([prompt], 20, on_text=on_text)
    return found, server.bodies


# Replies that are answers

USAGES = [
    None,
    [],
    {},
    {"prompt_tokens": None, "completion_tokens": None},
    {"total_tokens": 3.0},
]
FLOATS = {"prompt_tokens": 9.0, "completion_tokens": 5.0}
ENDS = [
    "",
    "null",
    "None",
    "STOP",
    "Stop",
    "eos",
    "end_turn",
    "stop_sequence",
    "load",
    "COMPLETE",
]
ENDS += [None, "unknown", "finished"]
CONTENTS = {
    "a text": A,
    "a part": [{"type": "text", "text": A}],
    "two parts": [{"type": "text", "text": A[:9]}, {"type": "text", "text": A[9:]}],
    "a text in a list": [A],
    "OpenAI's": [{"type": "output_text", "text": A}],
    "a special token": A + "<|im_end|>",
    "two special tokens": A + "<|eot_id|><|end_of_text|>",
    "a token on its own line": A + "\n</s>",
    "a beginning": "<s>" + A,
}
THOUGHTS = {
    "in a part": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": A},
    ],
    "as text in a part": [
        {"type": "reasoning", "text": "Hm."},
        {"type": "text", "text": A},
    ],
    "tags": f"<think>Hm.</think>\n\n{A}",
    "capitals": f"<THINK>Hm.</THINK>{A}",
    "thinking": f"<thinking>\nHm.\n</thinking>\n{A}",
    "thought": f"<thought>Hm.</thought>{A}",
    "reasoning": f"<reasoning>Hm.</reasoning>{A}",
    "Seed": f"<seed:think>Hm.</seed:think>{A}",
    "Magistral": f"[THINK]Hm.[/THINK]{A}",
    "Kimi": f"◁think▷Hm.◁/think▷{A}",
    "Sky": f"<|begin_of_thought|>Hm.<|end_of_thought|>{A}",
    "opened by the template": f"Hm.\n</think>\n\n{A}",
    "without a line's end": f"Hm.</think>{A}",
    "gpt-oss": f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{A}",
    "gpt-oss without its tokens": f"analysisHm.assistantfinal{A}",
    "gpt-oss to its end": f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{A}<|return|>",
}
NAMED = [  # answers that speak of the marks
    "Write `<think>` before the reasoning. The fee is 12 crowns.",
    "The fee is 12 crowns. End the reasoning with `</think>` and then answer.",
    "The fee is 12 crowns. End the reasoning with </think> and then answer.",
    "Qwen puts its reasoning between <think> and </think>; the fee is 12 crowns.",
    'The tag is called "</think>". It costs 12 crowns.',
    "It costs 12 crowns. The tags [THINK] and [/THINK] are Magistral's.",
    "An analysis by the assistant: 12 crowns.",
    "Use <reasoning>why</reasoning> in XML; it costs 12 crowns.",
]


@pytest.mark.parametrize("usage", [*USAGES, FLOATS], ids=str)
def test_counts_that_are_missing_are_zero_and_may_be_floats(usage):
    found, _ = reply_to(completion(A, usage=usage))
    counts = (9, 5) if usage is FLOATS else (0, 0)
    assert (found.text, found.tokens_in, found.tokens_out) == (A, *counts)
    assert type(found.tokens_in) is int


@pytest.mark.parametrize("ended", ENDS, ids=repr)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "in pieces"])
def test_a_reply_may_end_by_many_names(ended, stream):
    begun = piece("A ticket ", ended if ended in ("", "null") else None)
    pieces = [begun, piece(A[9:]), piece(None, ended)]
    found, _ = reply_to(
        [*pieces, DONE] if stream else completion(A, ended), stream=stream
    )
    assert found.text == A and found.stop == (
        "string" if ended == "stop_sequence" else "end"
    )


@pytest.mark.parametrize("ended", ["length", "LENGTH", "max_tokens", "model_length"])
def test_a_reply_that_was_cut_off_says_so(ended):
    assert reply_to(completion(A, ended))[0].stop == "length"


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_content_may_be_parts_and_have_special_tokens_at_its_ends(content):
    found, _ = reply_to(completion(content))
    assert (found.text, found.thought) == (A, "")


@pytest.mark.parametrize("content", THOUGHTS.values(), ids=THOUGHTS)
def test_a_thought_before_the_answer_is_parted(content):
    found, _ = reply_to(completion(content))
    assert (found.text.strip(), found.thought) == (A, "Hm.")


@pytest.mark.parametrize("text", NAMED)
def test_an_answer_that_names_the_marks_stays_whole(text):
    assert (without_thinking(text), thought_in(text)) == (text, "")
    found, _ = reply_to(completion(text))
    assert (found.text, found.thought) == (text, "")


def test_a_thought_is_only_at_the_beginning_and_an_empty_one_no_part_of_the_answer():
    found, _ = reply_to(completion(f"<think>a</think>{A}<think>b</think> It is open."))
    assert (found.text, found.thought) == (f"{A}<think>b</think> It is open.", "a")
    assert reply_to(completion(f"<think>\n\n</think>\n\n{A}"))[0].text == A


@pytest.mark.parametrize(
    "text", ["<think>Hm.", "<think>Hm.</think>", "<|channel|>analysis<|message|>Hm."]
)
def test_a_thought_without_an_answer_is_none(text):
    with pytest.raises(ReplyError, match="chat.think"):
        reply_to(completion(text))


HM = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]
FIELDS = [piece(None, reasoning_content="H"), piece(None, reasoning_content="m.")]
OTHER = {"choices": [{"index": 1, "delta": {"content": "No."}}]}
STREAMS = {
    "parts": [piece([{"type": "text", "text": A}]), piece(None, "stop"), DONE],
    "a thought in fields": [*FIELDS, piece(A, "stop"), DONE],
    "a thought in parts": [piece(HM), piece(A, "stop"), DONE],
    "another reply beside it": [piece(A[:9]), OTHER, piece(A[9:], "stop"), DONE],
    "an end that is empty again": [
        piece(A),
        piece(None, "stop"),
        piece(None, ""),
        DONE,
    ],
    "no end but that of the stream": [piece(A), DONE],
    "no end of the stream": [piece(A), piece(None, "stop")],
    "nothing after the end": [piece(A, "stop"), DONE, piece(" More")],
    "comments": [
        ": hello\n\nevent: message\nid: 1\n",
        piece(A, "stop"),
        ": ping\n\n",
        DONE,
    ],
    "a mark of the byte order": ["\ufeff", piece(A, "stop"), DONE],
    "choices that are null": [{"choices": None}, piece(A, "stop"), {"id": "x"}, DONE],
    "a delta that is null": [{"choices": [{"delta": None}]}, piece(A, "stop"), DONE],
    "a message": [
        {"choices": [{"message": {"content": A}, "finish_reason": "stop"}]},
        DONE,
    ],
    "a line separator in the text": [
        piece("A\u2028ticket\x85"),
        piece(None, "stop"),
        DONE,
    ],
}


@pytest.mark.parametrize("events", STREAMS.values(), ids=STREAMS)
def test_a_stream_is_put_together(events):
    found, bodies = reply_to(events, stream=True)
    assert found.text in (A, "A\u2028ticket\x85") and found.stop == "end"
    assert bodies[0]["stream"] and bodies[0]["stream_options"] == {
        "include_usage": True
    }
    thinks = "thinking" in str(events) or "reasoning" in str(events)
    assert found.thought == ("Hm." if thinks else "")


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"], ids=repr)
def test_lines_of_a_stream_end_in_three_ways(end):
    said = '{"choices": [{"delta": {"content": "Ok"}}]}'
    lines = f"data: {said}{end}data: [DONE]{end}"
    assert reply_to(lambda asked: [lines], stream=True)[0].text == "Ok"


def test_a_reply_that_was_not_asked_for_in_pieces_may_come_so_and_the_other_way_round():
    assert reply_to([piece(A[:9]), piece(A[9:], "stop"), DONE])[0].text == A
    assert reply_to(completion(A), stream=True)[0].text == A


@pytest.mark.parametrize(
    "data",
    [b"\xef\xbb\xbf%s", b" %s\n\n", b'{"timings": NaN, "choices": [%s]}'],
    ids=repr,
)
def test_bodies_with_marks_and_numbers_that_are_none(data):
    inner = b'{"message": {"content": "Ok"}, "finish_reason": "stop"}'
    inner = inner if b"choices" in data else b'{"choices": [' + inner + b"]}"
    assert reply_to((200, data % inner, {}))[0].text == "Ok"


@pytest.mark.parametrize(
    "events",
    [
        [piece("A ticket ")],
        [piece("A "), {"error": {"message": "overloaded"}}],
        [piece(A), "data: {"],
    ],
)
def test_a_stream_that_breaks_off_is_no_answer(events):
    with pytest.raises(ServerError):
        reply_to(events, stream=True)


# Replies that are none. A reply is as `serving` takes it, or a function that gives it. Others are below, under faults that pass.


def with_logprobs(logprobs: object) -> dict:
    "A reply with log-probabilities of a prompt."
    return {**completion("RIGHT"), "prompt_logprobs": logprobs}


def slow() -> None:
    time.sleep(0.6)


def drip() -> Iterator[bytes]:
    for _ in range(20):
        yield b" "
        time.sleep(0.05)


CALL = {"tool_calls": [{"function": {"name": "search", "arguments": "{}"}}]}
NAN_TOKENS = (
    b'{"choices": [{"message": {"content": "RIGHT"}}], "usage": {"prompt_tokens": NaN}}'
)
NAN_LOGPROB = b'{"choices": [], "prompt_logprobs": [null, {"1": {"logprob": NaN}}]}'
LOGPROBS = [
    None,
    {"1": {"logprob": -1.0}},
    {"2": {"logprob": -0.5}},
    {"3": {"logprob": -0.25}},
]
KEY = "sk-12345678-abcdefgh"
WRONG_REPLIES: dict[str, object] = {
    "content null": completion(None),
    "content empty": completion(""),
    "content blank": completion(" \n"),
    "content a list of nothing": completion([]),
    "content a picture": completion(
        [{"type": "image_url", "image_url": {"url": "data:"}}]
    ),
    "content a number": completion(7),
    "content an object": completion({}),
    "content filtered": completion("", "content_filter"),
    "half of it filtered": completion("RIG", "content_filter"),
    "filtered in capitals": completion(A, "CONTENT_FILTER"),
    "only a special token": completion("<|im_end|>"),
    "tool call": completion(None, "tool_calls", **CALL),
    "tool call and text": completion("RIGHT", "stop", **CALL),
    "old function call": completion(None, "function_call"),
    "thought only": completion(None, "length", reasoning_content="Let me see"),
    "thought, then nothing": completion("", "stop", reasoning="Let me see"),
    "cut off at once": completion("", "length"),
    "refusal": completion(None, refusal="I will not."),
    "ended by error": completion("RIG", "error"),
    "aborted": completion(A, "abort"),
    "ended by a list": completion("RIGHT", []),
    "usage a half": completion(usage={"prompt_tokens": 2.5}),
    "usage text": completion(usage={"prompt_tokens": "3"}),
    "usage negative": completion(usage={"completion_tokens": -1}),
    "usage a list": completion(usage=[1]),
    "choices an object": {"choices": {}},
    "choice a text": {"choices": ["RIGHT"]},
    "message missing": {"choices": [{"text": "RIGHT"}]},
    "a list": (200, [1], {}),
    "a text": (200, b'"RIGHT"', {}),
    "null": (200, b"null", {}),
    "two bodies": (200, b'{"a": 1}\n{"b": 2}', {}),
    "not UTF-8": (200, b'{"choices": "\xff"}', {}),
    "NaN": (200, NAN_TOKENS, {}),
    "deep": (200, b"[" * 5000, {}),
    "401 with the key": (401, f"unknown key: {KEY}".encode(), {}),
    "closed connection": lambda: None,
    "slow drip": drip,
}
SAID = {  # what the error says
    **dict.fromkeys(("ended by error", "aborted"), "broke off"),
    **dict.fromkeys(("half of it filtered", "filtered in capitals"), "filtered"),
    **dict.fromkeys(
        ("content a list of nothing", "only a special token"), "replied nothing"
    ),
    "tool call": "called a tool",
    "content a picture": "an object instead of text",
    "usage a half": "2.5 as prompt_tokens",
    "two bodies": "not JSON",
}
WRONG_SCORES: dict[str, object] = {
    "none": completion("RIGHT"),
    "logprobs null": with_logprobs(None),
    "logprobs empty": with_logprobs([]),
    "one too few": with_logprobs(LOGPROBS[:3]),
    "only the prompt's": with_logprobs(LOGPROBS[:2]),
    "one too many": with_logprobs([*LOGPROBS, LOGPROBS[3]]),
    "a token null": with_logprobs([*LOGPROBS[:3], None]),
    "a token empty": with_logprobs([*LOGPROBS[:3], {}]),
    "logprob null": with_logprobs([*LOGPROBS[:3], {"3": {"logprob": None}}]),
    "logprob text": with_logprobs([*LOGPROBS[:3], {"3": {"logprob": "-1"}}]),
    "logprob above 0": with_logprobs([*LOGPROBS[:3], {"3": {"logprob": 2.0}}]),
    "another token": with_logprobs([*LOGPROBS[:3], {"9": {"logprob": -1.0}}]),
    "not finite": (200, NAN_LOGPROB, {}),
}
ONCE_WRONG: dict[str, object] = {  # the next try is answered rightly
    "429 with Retry-After": (429, b"slow down", {"Retry-After": "0"}),
    "503": (503, b"warming up", {}),
    "too slow": slow,
}


class Odd:
    "A server that replies to every prompt with an odd word as it is told, and to all others rightly; four prompts to it."

    def __init__(self, reply: object, once: bool = False):
        self.reply, self.seen = reply, []
        self.once = once  # whether only the first try of a prompt is replied to so
        self.prompts = [
            chat("", word) for word in ("odd one", "two", "odd three", "four")
        ]

    def __call__(self, asked: Asked) -> object:
        if asked.path == "/tokenize":
            tokens = [0, 1, 2, 3] if len(asked.body["messages"]) > 1 else [0, 1]
            return {"count": len(tokens), "tokens": tokens}
        word = asked.body["messages"][0]["content"]
        if word == "Be brief.":  # the client's own question, before a fingerprint
            return completion("RIGHT")
        again = word in self.seen
        self.seen.append(word)
        if self.reply is None or not word.startswith("odd") or self.once and again:
            return with_logprobs(LOGPROBS)
        return self.reply() if callable(self.reply) else self.reply

    def is_right(self, model: RecordedChat, method: str = "generate") -> bool:
        "Whether all four are answered, and as they should be."
        if method == "generate":
            return all(r.text == "RIGHT" for r in model.generate(self.prompts, 5))
        found = model.score(self.prompts, ["yes"] * 4)
        return all(s.logprob == -0.75 and s.tokens == 2 for s in found)


@contextmanager
def recorded(odd: Odd, folder: Path, patience: float) -> Iterator[RecordedChat]:
    "A client of the server, on record; the key stands in no record."
    path = folder / "calls.jsonl"
    with serving(odd) as server, patch.dict(os.environ, HOSTILE_KEY=f"{KEY}\n"):
        spec = ModelSpec("any", url=server.url, api_key_env="HOSTILE_KEY")
        client = ServerChat(spec, timeout=0.4, patience=patience, pause=0.01)
        model = RecordedChat(client, path)
        yield model
        model.close()
    assert KEY not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "method, name",
    [*(("generate", n) for n in WRONG_REPLIES), *(("score", n) for n in WRONG_SCORES)],
)
def test_a_wrong_reply_is_an_error_and_what_was_right_is_recorded(
    method, name, tmp_path
):
    "The server mended, the same record is completed with the requests that were missing, and with no others."
    odd = Odd((WRONG_REPLIES | WRONG_SCORES)[name])
    with recorded(odd, tmp_path, patience=0.1) as model:
        with pytest.raises((ServerError, ReplyError), match=SAID.get(name)) as raised:
            odd.is_right(model, method)
        assert "12345678" not in str(raised.value)
        assert len(model) == 2
        odd.reply, odd.seen = None, []
        assert odd.is_right(model, method)
        assert sorted(odd.seen) == ["odd one", "odd three"]


@pytest.mark.parametrize("name", ONCE_WRONG)
def test_a_server_that_is_busy_once_is_asked_again(name, tmp_path):
    odd = Odd(ONCE_WRONG[name], once=True)
    with recorded(odd, tmp_path, patience=2.0) as model:
        assert odd.is_right(model) and len(model) == 4
        odd.seen = []
        assert odd.is_right(model) and not odd.seen


# Requests that are refused


def refusing(
    says: dict[str, str], status: int = 400, taken=lambda body, key: key not in body
):
    "A server that refuses parameters, one at a time, in the words that are given."

    def answer(asked):
        for key, said in says.items():
            if not taken(asked.body, key):
                return status, {"error": {"message": said}}, {}
        return completion(A)

    return answer


UNSUPPORTED = "Unsupported parameter: '{}' is not supported with this model."
OLD_NAME = UNSUPPORTED.format("max_tokens") + " Use 'max_completion_tokens' instead."
REFUSALS = {
    "max_tokens": OLD_NAME,
    "temperature": UNSUPPORTED.format("temperature"),
    "seed": "extra fields not permitted: seed",
}


@pytest.mark.parametrize("key", REFUSALS)
@pytest.mark.parametrize("status", [400, 422])
def test_a_parameter_that_is_refused_is_left_out_and_told_once(key, status, capsys):
    with serving(refusing({key: REFUSALS[key]}, status)) as server:
        model = over(server.url)
        found = model.generate([ASKED, ASKED], 20)
        again = model.generate([ASKED], 20)
    assert {c.text for c in [*found, *again]} == {A}
    assert key not in server.bodies[-1] and len(server.bodies) <= 3 + 2 * 2
    assert ("max_completion_tokens" in server.bodies[-1]) == (key == "max_tokens")
    told = capsys.readouterr().err.splitlines()
    assert told and len(told) == len(set(told)) and any(key in line for line in told)


def fault(said: str, **more) -> dict:
    return {"error": {"message": said, "type": "invalid_request_error", **more}}


def forbidden(key: str) -> dict:
    "In the words of pydantic."
    about = {"type": "extra_forbidden", "loc": ["body", key]}
    about |= {"msg": "Extra inputs are not permitted"}
    return {"object": "error", "message": {"detail": [about]}}


WORDS = {  # a kind of server and the parameter that it refuses -> its reply
    ("Azure", "stream_options"): fault(
        "Unrecognized request argument supplied: stream_options"
    ),
    ("Azure", "max_tokens"): fault(
        OLD_NAME, param="max_tokens", code="unsupported_parameter"
    ),
    ("OpenAI", "top_p"): fault(UNSUPPORTED.format("top_p"), param="top_p"),
    ("OpenAI", "stop"): fault(UNSUPPORTED.format("stop"), param="stop"),
    ("OpenAI", "top_k"): fault("Unrecognized request argument supplied: top_k"),
    ("Mistral", "seed"): forbidden("seed"),
    ("Mistral", "stream_options"): forbidden("stream_options"),
    ("Gemini", "seed"): [
        fault('Invalid JSON payload received. Unknown name "seed": Cannot find field.')
    ],
    ("Groq", "top_k"): fault("property 'top_k' is unsupported"),
    ("xAI", "stop"): {
        "code": "400",
        "error": "Argument not supported on this model: stop",
    },
    ("Bedrock", "seed"): {
        "message": "Malformed input request: #: extraneous key [seed] is not permitted"
    },
    (
        "in Rust",
        "top_k",
    ): "Failed to deserialize the JSON body into the target type: top_k: unknown "
    "field `top_k`, expected one of `model`, `messages`, `max_tokens`, `temperature`, `seed`, `stop`",
    ("in Go", "seed"): {"error": 'json: unknown field "seed"'},
}


@pytest.mark.parametrize("server, key", WORDS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "in pieces"])
def test_only_the_parameter_that_a_kind_of_server_refuses_is_left_out(
    server, key, stream, capsys
):
    def answer(asked):
        if key in asked.body:
            return 400, WORDS[server, key], {}
        pieces = [piece(A), piece(None, "stop"), DONE]
        return pieces if asked.body.get("stream") else completion(A)

    with serving(answer) as s:
        heard = (lambda row, text: None) if stream else None
        how = {"temperature": Sampling(0.7, 0.9, 40), "stop": ["END"], "on_text": heard}
        [found] = over(s.url).generate([ASKED], 20, **how)
    gone = {*s.bodies[0]} - {*s.bodies[-1]}
    assert found.text == A and gone == ({key} & {*s.bodies[0]})
    assert len(capsys.readouterr().err.splitlines()) == len(gone)


NO_LOGPROBS = {
    "OpenAI": (403, fault("You are not allowed to request logprobs from this model")),
    "OpenAI's later models": (
        400,
        fault(UNSUPPORTED.format("logprobs"), param="logprobs"),
    ),
    "Groq": (400, fault("property 'logprobs' is unsupported")),
    "Mistral": (422, forbidden("logprobs")),
    "fewer": (
        400,
        fault("Invalid value for 'top_logprobs': must be less than or equal to 5."),
    ),
    "Gemini": (400, [fault("Logprobs is not enabled for models/gemini-2.5-pro")]),
}


@pytest.mark.parametrize("name", NO_LOGPROBS)
def test_a_refusal_of_log_probabilities_says_what_to_do(name):
    status, said = NO_LOGPROBS[name]
    with serving(lambda asked: (status, said, {})) as server:
        with pytest.raises(ServerError, match="stages.grade=verdict"):
            over(server.url, server="openai").score([ASKED], ["Yes"])


def test_several_parameters_are_refused_one_after_the_other():
    with serving(refusing(REFUSALS)) as server:
        model = over(server.url, check=True)
        assert (
            "without=max_tokens,own temperature,seed,temperature" in model.fingerprint
        )
        before = len(server.bodies)
        assert model.generate([ASKED], 20)[0].text == A
        assert len(server.bodies) == before + 1, "it is known by then"


def test_a_temperature_may_have_to_be_one():
    said = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
    wants = refusing({"temperature": said}, taken=lambda body, key: body.get(key) == 1)
    assert reply_to(wants)[1][-1]["temperature"] == 1


def test_a_refusal_for_another_reason_is_an_error_at_once():
    said = "'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens."
    with serving(lambda asked: (400, {"message": said}, {})) as server:
        with pytest.raises(ServerError, match="too large"):
            over(server.url).generate([ASKED], 5000)
    assert len(server.bodies) <= 2


@pytest.mark.parametrize(
    "said",
    [
        "System role not supported",
        "Only user and assistant roles are supported!",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "This model does not support system messages.",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_template_without_a_system_role_gets_its_words_from_the_user(
    said, status, capsys
):
    def gemma(asked):
        roles = [m["role"] for m in asked.body["messages"]]
        alternate = all(r == ("user", "assistant")[n % 2] for n, r in enumerate(roles))
        return completion(A) if alternate else (status, {"message": said}, {})

    twice = Prompt(
        (("system", "Be brief."), ("user", "Documents: ..."), ("user", "What?"))
    )
    with serving(gemma) as server:
        model = over(server.url)
        assert [c.text for c in model.generate([ASKED, twice], 20)] == [A, A]
    assert server.bodies[-1]["messages"][0]["content"].startswith("Be brief.\n\n")
    assert "system role" in capsys.readouterr().err


# Waiting, quotas, redirects

SPENT = [
    (
        429,
        {
            "error": {
                "code": "insufficient_quota",
                "message": "You exceeded your current quota",
            }
        },
    ),
    (429, {"error": {"type": "insufficient_quota"}}),
    (
        429,
        {
            "error": {
                "message": "You exceeded your current quota, please check your plan."
            }
        },
    ),
    (429, {"message": "Insufficient balance"}),
    (402, {"error": {"message": "Insufficient Balance"}}),
]


@pytest.mark.parametrize("status, body", SPENT, ids=str)
def test_a_quota_that_is_used_up_ends_at_once(status, body):
    with serving(lambda asked: (status, body, {})) as server:
        with pytest.raises(
            ServerError, match="quota is used up .waiting does not help"
        ):
            over(server.url, patience=60.0).generate([ASKED], 5)
        with pytest.raises(ServerError, match="quota is used up"):
            str(over(server.url, check=True).fingerprint)  # before a run begins
    assert len(server.bodies) == 2


def test_a_rate_limit_is_waited_for_and_told_at_once(capsys):
    "The wait is told before it begins, not at its end."

    def limited(asked):
        return (
            completion(A)
            if asked.n
            else (429, {"message": "slow down"}, {"Retry-After": "1"})
        )

    with serving(limited) as server:
        start, model = time.monotonic(), over(server.url)
        assert model.generate([ASKED], 5)[0].text == A
        assert time.monotonic() - start >= 1
    told = capsys.readouterr().err
    assert told.startswith("waiting") and "429" in told and len(told.splitlines()) == 1


@pytest.mark.parametrize(
    "after", ["0", "0.2", "soon", "-1", "Wed, 21 Oct 2015 07:28:00 GMT", ""]
)
def test_what_a_server_says_of_waiting_may_be_odd(after):
    def limited(asked):
        return completion(A) if asked.n else (503, {}, {"Retry-After": after})

    assert reply_to(limited)[0].text == A


def test_a_wait_that_is_longer_than_the_patience_is_an_error_at_once():
    limited = (429, {"message": "tomorrow"}, {"Retry-After": "86400"})
    with serving(lambda asked: limited) as server:
        with pytest.raises(ServerError, match="tomorrow"):
            over(server.url, patience=20.0).generate([ASKED], 5)
    assert len(server.bodies) == 1


def test_a_redirect_is_followed_and_one_in_a_circle_names_its_end():
    def moved(asked):
        end = asked.path.endswith("/")
        return completion(A) if end else (307, "", {"Location": asked.path + "/"})

    assert reply_to(moved)[0].text == A
    with pytest.raises(ServerError, match="redirected to http.*/elsewhere"):
        reply_to((307, "", {"Location": "/elsewhere"}))


def test_a_key_is_shown_nowhere(monkeypatch, capsys):
    key = "sk-12345678-abcdefgh"
    monkeypatch.setenv("A_KEY", f" {key}\n")

    def leaks(asked):
        assert asked.headers["Authorization"] == f"Bearer {key}"
        if not asked.n:
            return 503, f"busy, {key}", {"Retry-After": "0"}
        return 401, f"unknown key {key[:12]}", {}

    with serving(leaks) as server:
        spec = ModelSpec("m", url=server.url, api_key_env="A_KEY")
        with pytest.raises(ServerError, match="answered 401") as raised:
            ServerChat(spec, check=False, pause=0.01).generate([ASKED], 5)
    assert "12345678" not in str(raised.value) + capsys.readouterr().err


def test_a_password_in_the_address_is_sent_and_shown_nowhere(capsys):
    with serving(
        lambda asked: (401, f"who is {asked.headers['Authorization']}?", {})
    ) as server:
        model = over(server.url.replace("//", "//ann:pass12345678@"))
        with pytest.raises(ServerError, match="answered 401: who is Basic"):
            model.generate([ASKED], 5)
    assert server.asked[0].headers["Authorization"].startswith("Basic ")
    assert "12345678" not in model.fingerprint + model.url + capsys.readouterr().err


# Kinds of servers

KINDS = {"vllm": vllm, "llama.cpp": llama_cpp, "ollama": ollama, "openai": openai}


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_goes_on_after_its_beginning(kind):
    begun = chat("", "Count to eight.", prefill="One, two,")
    found, _ = reply_to(KINDS[kind], begun, server=kind)
    assert found.text == COUNTED[len("One, two,") :]


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "ollama"])
def test_choices_are_scored(kind):
    with serving(KINDS[kind]) as server:
        asked = [chat("", "Is it noon?", prefill="Answer:")] * 3
        found = choose(over(server.url, server=kind), asked, [("Yes", "No")] * 3)
    for shares, total in found:
        assert abs(sum(shares.values()) - 1) < 1e-9 and 0 < total <= 1


@pytest.mark.parametrize(
    "kind, other", [("vllm", "ollama"), ("llama.cpp", "ollama"), ("vllm", "openai")]
)
def test_a_server_without_log_probabilities_says_what_to_do(kind, other):
    with serving(KINDS[other]) as server:
        with pytest.raises(ServerError, match="stages.grade=verdict"):
            over(server.url, server=kind).score([ASKED], ["Yes"])


def test_a_kind_is_named_behind_the_address():
    with pytest.raises(
        SettingsError, match="in http://127.0.0.1:1/v1#tgi: it is vllm, llama.cpp"
    ):
        ModelSpec("m", url="http://127.0.0.1:1/v1#tgi")
    marks = {over("http://127.0.0.1:1/v1", server=kind).fingerprint for kind in SERVERS}
    assert "server:m@http://127.0.0.1:1/v1" in marks and len(marks) == 5


@pytest.mark.parametrize("temperature", [0.7, Sampling(0.7, 0.9, 40)])
def test_each_prompt_has_its_seed_whatever_goes_out_beside_it(temperature):
    seeds = random.Random(0).sample(range(1000), 12)
    with serving(vllm) as server:
        model = over(server.url, batch_size=4)
        found = model.generate([ASKED] * 12, 8, temperature, seeds)
        alone = [model.generate([ASKED], 8, temperature, s)[0] for s in seeds]
    assert (
        [c.text for c in found]
        == [f"Swan {s}" for s in seeds]
        == [c.text for c in alone]
    )


# Errors with status 200, and faults that pass

OVERLOADED = {"code": 502, "message": "Provider disconnected"}
PASSING: dict[str, object] = {
    "rate limit in 200": {"error": {"message": "Rate limit exceeded", "code": 429}},
    "upstream in 200": {"error": {"message": "Provider returned error", "code": 502}},
    "code as text": {"error": {"message": "x", "code": "503"}},
    "error a text": {"error": "model is loading", "estimated_time": 20.0},
    "error unknown": {"error": "x"},
    "error beside choices": {**completion(A), "error": OVERLOADED},
    "errors a list": {"errors": [{"message": "overloaded"}]},
    "in the choice": {"choices": [{"error": OVERLOADED, "message": {"content": ""}}]},
    "partial": {"choices": [{"error": OVERLOADED, "message": {"content": "A tick"}}]},
    "in the message": {"choices": [{"message": {"content": "A", "error": OVERLOADED}}]},
    "ended by error": completion("A tick", "error"),
    "aborted": completion("A tick", "abort"),
    "detail": {"detail": "Too many requests"},
    "object": {"object": "error", "message": "The server is overloaded", "code": 503},
    "type": {"type": "error", "error": {"type": "overloaded_error"}},
    "message": {"message": "Service temporarily unavailable"},
    "no choices": {"choices": []},
    "choices null": {"choices": None},
    "empty object": {},
    "HTML": (200, b"<html>502 Bad Gateway</html>", {"Content-Type": "text/html"}),
    "HTML as JSON": (200, b"<html>502</html>", {"Content-Type": "application/json"}),
    "text": (200, b"upstream connect error", {"Content-Type": "text/plain"}),
    "empty body": (200, b"", {}),
    "half": (200, b'{"choices": [{"mess', {}),
    "event": (200, b'data: {"error": {"code": 429, "message": "slow down"}}\n\n', {}),
    **{
        f"status {n}": (n, b'{"error": "x"}', {})
        for n in (408, 409, 425, 429, 499, 500, 502, 503, 504, *range(520, 530))
    },
    "403 of a rate limit": (403, b'{"error": {"message": "rate limit exceeded"}}', {}),
    "403 of a quota a minute": (403, b"Quota: 10 requests per minute", {}),
}
LASTING: dict[str, object] = {
    "wrong key in 200": {"error": {"message": "Incorrect API key", "code": 401}},
    "wrong key in words": {"error": "Invalid api key provided"},
    "unknown model": {"error": {"message": "The model `x` does not exist"}},
    "too long": {"error": {"message": "maximum context length is 4096 tokens"}},
    "too long by code": {"object": "error", "code": 400, "message": "too long"},
    "quota": {"error": {"message": "insufficient_quota", "code": 429}},
    "detail": {"detail": "Unauthorized"},
    "login page": (200, b"<html>Unauthorized: sign in</html>", {}),
    "500 of a wrong key": (500, b'{"error": "AuthenticationError: invalid key"}', {}),
    "401": (401, b"no", {}),
    "403": (403, b"forbidden", {}),
    "404": (404, b"no such model", {}),
    "413": (413, b"too long", {}),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_passes_is_asked_again(name, stream):
    replies = [PASSING[name], completion(A)]
    found, bodies = reply_to(lambda asked: replies.pop(0), stream=stream)
    assert found.text == A
    assert len(bodies) == 2


@pytest.mark.parametrize("name", few(PASSING, 9))
def test_a_fault_that_stays_is_an_error_and_no_answer(name):
    with serving(lambda asked: PASSING[name]) as server:
        with pytest.raises(ServerError, match=server.url):
            over(server.url, patience=1.0).generate([ASKED], 20)
        assert 1 < len(server.bodies) < 30


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_that_stays_by_its_kind_is_an_error_at_once(name):
    with serving(lambda asked: LASTING[name]) as server:
        with pytest.raises(ServerError):
            over(server.url).generate([ASKED], 20)
        assert len(server.bodies) == 1


# Spellings of tokens in log-probabilities


def first_tokens(*tokens: tuple[object, float]) -> dict:
    "A reply whose likeliest first tokens are these; a token is a text or its entry."
    entries = []
    for token, logprob in tokens:
        entry = token if isinstance(token, dict) else {"token": token}
        entries.append({**entry, "logprob": logprob})
    content = [{**entries[0], "top_logprobs": entries}]
    reply = completion("yes")
    reply["choices"][0]["logprobs"] = {"content": content}
    return reply


def chosen(reply: dict, *labels: str) -> tuple[dict[str, float], float]:
    "How a server of the kind `openai` distributes its choice."
    with serving(lambda asked: reply) as server:
        model = over(server.url, server="openai")
        ((shares, mass),) = choose(model, [ASKED], [labels or ("yes", "no")])
        assert len(server.bodies) == 1
    return shares, mass


SPELLINGS = [
    "Yes",
    " yes",
    "YES",
    "\u2581yes",
    "\u0120yes",
    "\u0120Yes",
    "\nyes",
    "\u010ayes",
    "yes.",
    '"yes',
    "'Yes'",
    "**Yes**",
    "\u201eyes\u201c",
    "<0x79>es",
    "\\x20yes",
    {"token": "?", "bytes": list(b" yes")},
    {"token": "yes", "bytes": None},
]


@pytest.mark.parametrize("token", SPELLINGS, ids=repr)
def test_every_spelling_of_a_label_counts_for_it(token):
    shares, mass = chosen(first_tokens((token, -0.1), (" no", -3.0), ("y", -4.0)))
    assert shares["yes"] > 0.94
    assert mass == pytest.approx(0.905 + 0.050, abs=0.002)


def test_the_spellings_of_a_label_are_summed():
    tokens = [("No", -1.2), (" no", -1.3), ("NO", -2.5), ("Yes", -1.1)]
    shares, mass = chosen(first_tokens(*tokens))
    assert shares["no"] > 0.6
    assert mass == pytest.approx(0.989, abs=0.002)


def test_a_label_that_is_not_listed_has_at_most_what_is_left():
    shares, mass = chosen(first_tokens((" yes", -0.01), (" Yes", -5.0)))
    assert shares["yes"] > 0.99
    assert 0.99 < mass <= 1.0
    shares, mass = chosen(first_tokens((" yes", -2.0), ("The", -0.3), ("It", -3.0)))
    assert shares["yes"] > 0.7
    assert mass < 0.2


def test_a_label_without_any_share_is_no_fault():
    shares, _ = chosen(first_tokens((" yes", -0.1), (" no", -9999.0)))
    assert shares["yes"] > 0.99


def test_labels_of_which_none_is_listed_are_no_choice():
    with pytest.raises(ServerError, match="likeliest"):
        chosen(first_tokens(("The", -0.1), ("It", -3.0)))


def test_letters_and_digits_are_labels_too():
    shares, _ = chosen(first_tokens(("(A", -0.2), (" b", -2.0), ("C", -4.0)), "A", "B")
    assert shares["A"] > 0.8
    shares, _ = chosen(first_tokens((" 4", -0.2), ("3.", -2.0)), "3", "4", "5")
    assert shares["4"] > 0.7
