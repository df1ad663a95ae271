"""The one HTTP server of the tests, and chat servers that stand in for real ones: they take what those take and reply in the same
shapes, as their documentation has them. The model behind them counts."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COUNTED = "One, two, three, four, five, six, seven, eight,"


@dataclass
class Asked:
    "A request."

    path: str  # without its query
    body: Any  # a JSON value
    headers: Mapping[str, str]  # in any case
    n: int = 0  # how many came before it
    method: str = "POST"
    query: str = ""  # as it was sent

    @property
    def last(self) -> dict:
        return self.body["messages"][-1]

    @property
    def words(self) -> list[str]:
        return [w for m in self.body["messages"] for w in m["content"].split()]


@dataclass
class Serving:
    "A server on this machine, and what it was asked."

    url: str  # of a chat server: it ends in /v1
    asked: list[Asked] = field(default_factory=list)
    open: bool = True  # at the end connections that are kept alive get no more answers

    @property
    def bodies(self) -> list[dict]:
        return [a.body for a in self.asked]

    @property
    def port(self) -> int:
        return urlsplit(self.url).port


# A JSON value; events as a list; status, body and headers; an iterator of bytes, of a body whose length is not said;
# or None, and the connection is lost
Answering = Callable[[Asked], object]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    reply: Answering
    serving: Serving

    def answer(self) -> None:
        if not self.serving.open:
            self.close_connection = True
            return
        body = json.loads(
            self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null"
        )
        path, _, query = self.path.partition("?")
        n = len(self.serving.asked)
        asked = Asked(unquote(path), body, self.headers, n, self.command, query)
        self.serving.asked.append(asked)
        said = type(self).reply(asked)
        if said is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif isinstance(said, Iterator):
            self.send(200, said, {"Connection": "close"})
        elif isinstance(said, list):
            data = "".join(
                s if isinstance(s, str) else f"data: {json.dumps(s)}\n\n" for s in said
            )
            self.send(200, data, {"Content-Type": "text/event-stream"})
        else:
            status, body, headers = said if isinstance(said, tuple) else (200, said, {})
            self.send(status, body, {"Content-Type": "application/json", **headers})

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

    def send(self, status: int, body: object, headers: dict[str, str]) -> None:
        if not isinstance(body, Iterator):
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
            data = (
                body
                if isinstance(body, bytes)
                else body.encode("utf-8", "surrogatepass")
            )
            body, headers = [data], {"Content-Length": str(len(data)), **headers}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        for data in body if self.command != "HEAD" else ():
            self.wfile.write(data)

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True  # the client is gone

    def log_message(self, *args):
        pass


class _Server(ThreadingHTTPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128


@contextmanager
def serving(reply: Answering, port: int = 0) -> Iterator[Serving]:
    "A server while the block runs."
    kind = type("Handler", (_Handler,), {"reply": staticmethod(reply)})
    with _Server(("127.0.0.1", port), kind) as server:
        kind.serving = Serving(f"http://127.0.0.1:{server.server_port}/v1")
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield kind.serving
        finally:  # also where the block raises: a server that is closed and not stopped spins
            kind.serving.open = False
            server.shutdown()


@contextmanager
def running(app, host: str = "127.0.0.1", **how) -> Iterator[str]:
    """The service's application at a free port, in a thread, and its address; `how` as `server_of` takes it. At the end the
    service is closed."""
    from mtrag_nb.serve.api import server_of

    server, listening = server_of(app, host, 0, **how)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://{host}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def completion(
    content: object = "At noon.", ended: object = "stop", usage=..., **message
) -> dict:
    "A reply as the interface has it; choice: more of the choice."
    choice = message.pop("choice", {})
    counts = {"prompt_tokens": 9, "completion_tokens": 3} if usage is ... else usage
    message = {"role": "assistant", "content": content, **message}
    return {
        "choices": [{"message": message, "finish_reason": ended, **choice}],
        "usage": counts,
    }


def piece(text: object = None, ended: object = None, **delta) -> dict:
    "A piece of a reply that is streamed."
    return {
        "choices": [
            {"index": 0, "delta": {"content": text, **delta}, "finish_reason": ended}
        ]
    }


DONE = "data: [DONE]\n\n"


def _counting(asked: Asked, goes_on: bool) -> str:
    "What the model writes: it counts, from where it is told to go on; sampled, it names a ship."
    if asked.body.get("temperature"):
        return f"Swan {asked.body.get('seed')}"
    begun = (
        asked.last["content"] if goes_on and asked.last["role"] == "assistant" else ""
    )
    return COUNTED[len(begun) :] if COUNTED.startswith(begun) else " I lost count."


def _likeliest(*probable: tuple[str, float]) -> dict:
    top = [{"token": token, "logprob": x} for token, x in probable]
    return {"logprobs": {"content": [{"top_logprobs": top}]}}


_TOP = _likeliest(("Yes", -0.1), (" Yes", -3.0), ("No", -2.5))


def vllm(asked: Asked) -> object:
    "Goes on with a message that is marked so; log-probabilities of the prompt; a tokenizer."
    if asked.path == "/tokenize":
        return {"count": len(asked.words), "tokens": list(range(len(asked.words)))}
    text = _counting(asked, bool(asked.body.get("continue_final_message")))
    by_token = [
        None,
        *({str(i): {"logprob": -0.5}} for i in range(1, len(asked.words))),
    ]
    scored = {"prompt_logprobs": by_token} if "prompt_logprobs" in asked.body else {}
    return completion(text, "length", reasoning=None, tool_calls=[]) | scored


def llama_cpp(asked: Asked) -> object:
    "Goes on with a last message of the assistant; log-probabilities of the reply."
    choice = _TOP if asked.body.get("logprobs") else {}
    return completion(_counting(asked, True), "length", choice=choice)


def ollama(asked: Asked) -> object:
    "As llama.cpp, without log-probabilities; what it does not know it drops without a word."
    return completion(_counting(asked, True), "stop")


def openai(asked: Asked) -> object:
    "Refuses what it does not know, and what its newer models do not take; begins each reply anew."
    known = {"model", "messages", "seed", "stop", "stream", "stream_options"}
    known |= {"max_completion_tokens", "logprobs", "top_logprobs", "temperature"}
    if odd := sorted(asked.body.keys() - known):
        error = {
            "message": f"Unsupported parameter: '{odd[0]}'",
            "code": "unsupported_parameter",
        }
        return 400, {"error": error | {"param": odd[0]}}, {}
    if asked.body.get("temperature", 1) != 1:
        said = "Unsupported value: 'temperature' does not support 0 with this model."
        return 400, {"error": {"message": said, "code": "unsupported_value"}}, {}
    begun = asked.last["content"].partition("exactly these words: ")[2]
    choice = _TOP if asked.body.get("logprobs") else {}
    return completion(
        COUNTED if begun else _counting(asked, False), "length", choice=choice
    )
