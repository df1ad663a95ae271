"""A folder's files over HTTP on this machine, for tests: connections that are lost, parts, wrong bytes."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


@dataclass
class Answer:
    "What a server says."

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class FolderServer:
    "A folder's files over HTTP, on this machine only: `with FolderServer(folder) as server: ... server.url`."

    def __init__(self, folder: str | Path):
        self.folder, self.asked = Path(folder), []  # (method, path, range) of each request
        self.cut: dict[
            str, list[int]
        ] = {}  # path -> after how many bytes to lose the connection: the first time, the second, ...
        self.spoilt: set[str] = set()  # paths that are sent with a wrong byte
        self.parts = True  # False: it knows of no parts, and sends everything

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        "What there is at a path."
        file = self.folder / path.lstrip("/")
        return Answer(200, file.read_bytes()) if file.is_file() else Answer(404)

    def __enter__(self):
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self})
        )
        self._server.daemon_threads, self.open = True, True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *exc) -> None:
        self.open = False  # connections that are kept alive get no more answers
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    "One request to a FolderServer."

    protocol_version = "HTTP/1.1"
    owner: FolderServer

    def do_GET(self):
        if not self.owner.open:
            self.close_connection = True
            return
        path, span = unquote(self.path.partition("?")[0]), self.headers.get("Range")
        self.owner.asked.append((self.command, path, span))
        said = self.owner.answer(path, self.headers)
        body = (
            bytes([*said.body[:-1], said.body[-1] ^ 1])
            if path in self.owner.spoilt and said.status == 200
            else said.body
        )
        wanted = (
            re.fullmatch(r"bytes=(\d+)-", span or "")
            if said.status == 200 and self.owner.parts
            else None
        )
        if wanted:
            said, body = _part(said, body, int(wanted[1]))
        self.send_response(said.status)
        for name, value in ({"Content-Length": str(len(body))} | said.headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        cuts = self.owner.cut.get(path)
        self.wfile.write(body[: cuts.pop(0)] if cuts else body)
        self.close_connection = cuts is not None

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


def _part(said: Answer, body: bytes, start: int) -> tuple[Answer, bytes]:
    "The rest of a body, from a byte on."
    if start >= len(body):
        return Answer(416, b"", {"Content-Range": f"bytes */{len(body)}"}), b""
    return Answer(
        206, b"", said.headers | {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}
    ), body[start:]
