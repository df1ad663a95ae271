"""A folder's files over HTTP on this machine, for tests: connections that are lost, parts, wrong bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.servers import Asked, serving


@dataclass
class Answer:
    "What a server says."

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class FolderServer:
    "A folder's files over HTTP, on this machine only: `with FolderServer(folder) as server: ... server.url`."

    def __init__(self, folder: str | Path):
        self.folder, self.asked = (
            Path(folder),
            [],
        )  # (method, path, range) of each request
        # path -> after how many bytes to lose the connection: the first time, the second, ...
        self.cut: dict[str, list[int]] = {}
        self.spoilt: set[str] = set()  # paths that are sent with a wrong byte

    def __enter__(self):
        self._serving = serving(self._reply)
        self.url = self._serving.__enter__().url.removesuffix("/v1")
        return self

    def __exit__(self, *exc) -> None:
        self._serving.__exit__(None, None, None)

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        "What there is at a path."
        file = self.folder / path.lstrip("/")
        return Answer(200, file.read_bytes()) if file.is_file() else Answer(404)

    def _reply(self, asked: Asked) -> tuple[int, bytes, dict[str, str]]:
        path, span = asked.path, asked.headers.get("Range")
        self.asked.append((asked.method, path, span))
        said = self.answer(path, asked.headers)
        status, body, headers = said.status, said.body, dict(said.headers)
        if status == 200 and path in self.spoilt:
            body = bytes([*body[:-1], body[-1] ^ 1])
        if status == 200 and (wanted := re.fullmatch(r"bytes=(\d+)-", span or "")):
            size, start = len(body), int(wanted[1])
            status, body = (206, body[start:]) if start < size else (416, b"")
            part = f"{start}-{size - 1}" if body else "*"
            headers = (headers if body else {}) | {
                "Content-Range": f"bytes {part}/{size}"
            }
        if asked.method != "HEAD" and (cuts := self.cut.get(path)) is not None:
            headers |= {"Connection": "close"}
            if cuts:
                headers = {"Content-Length": str(len(body)), **headers}
                body = body[: cuts.pop(0)]
        return status, body, headers
