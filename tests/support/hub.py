"""A stand-in of the Hugging Face hub on this machine, for tests: models by name, files in parts, gates and lost connections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from mtrag_nb.core.download import checksum
from mtrag_nb.core.types import digest
from tests.support.web import Answer, FolderServer


# kept as large files, with a SHA-256
LARGE = (".safetensors", ".bin", ".pth", ".pt", ".onnx", ".gguf", ".jpg")


def _refusal(status: int, code: str, message: str) -> Answer:
    "A refusal as the hub words it: the code is what its client looks at."
    return Answer(
        status, message.encode(), {"X-Error-Code": code, "X-Error-Message": message}
    )


def _facts(root: Path, path: Path) -> dict:
    "What the hub tells of a file."
    name, size = path.relative_to(root).as_posix(), path.stat().st_size
    facts = {
        "type": "file",
        "path": name,
        "size": size,
        "oid": checksum(path, "0" * 40),
    }
    if path.suffix in LARGE:
        facts["lfs"] = {
            "oid": checksum(path, "0" * 64),
            "size": size,
            "pointerSize": 134,
        }
    return facts


class StandInHub(FolderServer):
    "A hub of the models in a folder: `with StandInHub(folder, gated=[...], tokens=[...]) as hub: ... hub.url`."

    def __init__(
        self,
        folder: str | Path,
        gated: Iterable[str] = (),  # names of models behind a gate
        tokens: Iterable[str] = (),  # tokens of people who may pass it
    ):
        super().__init__(folder)
        self.gated, self.tokens = set(gated), set(tokens)
        self.facts = cache(self._files)

    def _files(self, name: str) -> list[dict]:
        root = self.folder / name
        return [_facts(root, p) for p in sorted(root.rglob("*")) if p.is_file()]

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        "What the hub says of a path."
        asked = re.fullmatch(
            r"/api/models/([^/]+/[^/]+)(?:/(tree|revision|auth-check))?(?:/[^/]+)?"
            r"|/([^/]+/[^/]+)/resolve/[^/]+/(.+)",
            path,
        )
        if not asked:
            return Answer(404)
        name, what, file = asked[1] or asked[3], asked[2], asked[4]
        if not (self.folder / name).is_dir():
            return _refusal(401, "RepoNotFound", f"Repository {name} not found")
        if file or what == "auth-check":
            return self._gate(name, headers) or (
                self._file(name, file) if file else Answer(200)
            )
        said = self.facts(name) if what == "tree" else self._about(name)
        return Answer(
            200, json.dumps(said).encode(), {"Content-Type": "application/json"}
        )

    def commit(self, name: str) -> str:
        "The state of a repository: here, which files it has."
        return digest([name, *(f["path"] for f in self.facts(name))], 40)

    def _about(self, name: str) -> dict:
        "A repository: its commit, whether it has a gate, its files."
        gated = "manual" if name in self.gated else False
        about = {
            "_id": digest(name),
            "id": name,
            "modelId": name,
            "sha": self.commit(name),
        }
        about |= {
            "private": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "gated": gated,
        }
        return about | {
            "siblings": [{"rfilename": f["path"]} for f in self.facts(name)]
        }

    def _gate(self, name: str, headers: Mapping[str, str]) -> Answer | None:
        "The refusal, if these headers do not pass the gate."
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if name not in self.gated or token in self.tokens:
            return None
        status = 403 if token else 401
        return _refusal(status, "GatedRepo", f"Access to model {name} is restricted.")

    def _file(self, name: str, file: str) -> Answer:
        "A file of a repository."
        facts = next((f for f in self.facts(name) if f["path"] == file), None)
        if facts is None:
            return _refusal(404, "EntryNotFound", f"{file} is not in {name}")
        etag = facts["lfs"]["oid"] if "lfs" in facts else facts["oid"]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": self.commit(name)}
        return Answer(200, (self.folder / name / file).read_bytes(), headers)


def hub_environment(
    url: str,  # of a stand-in
    home: str | Path,  # a folder for the cache and what else the client keeps
    token: str = "",
) -> dict[str, str]:
    "The environment in which huggingface_hub talks to a stand-in and to nobody else."
    quiet = dict.fromkeys(("XET", "TELEMETRY", "PROGRESS_BARS"), "1")
    places = {"HF_HOME": str(home), "HF_HUB_CACHE": str(Path(home) / "hub")}
    about = {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0", "HF_TOKEN": token}
    return (
        about
        | places
        | {f"HF_HUB_DISABLE_{name}": value for name, value in quiet.items()}
    )
