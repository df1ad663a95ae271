"""A stand-in of a Qdrant server: its REST interface over HTTP, as far as an index uses it, with qdrant-client's own local engine behind it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.servers import Asked, serving


class StandInQdrant:
    "What a server does; what was asked of it is in `asked`."

    def __init__(self):
        from qdrant_client import QdrantClient

        self.local, self.asked, self.guard = (
            QdrantClient(":memory:"),
            [],
            threading.Lock(),
        )

    def reply(self, asked: Asked) -> object:
        self.asked.append(f"{asked.method} {asked.path}")
        try:
            with self.guard:
                status, result = 200, self.result(asked.method, asked.path, asked.body)
        except KeyError as e:
            status, result = 404, {"error": str(e)}
        return status, {"result": result, "status": "ok", "time": 0.0}, {}

    def result(self, method: str, path: str, body: dict | None) -> object:
        "What a request gives, as JSON. Raises KeyError for one that an index does not make."
        from qdrant_client import models

        found = re.fullmatch(r"/collections/([^/]+)(/.*)?", path)
        name, what = (found[1], found[2] or "") if found else ("", path)
        done = {"operation_id": 1, "status": "completed"}
        if what == "/exists":
            return {"exists": self.local.collection_exists(name)}
        if (method, what) == ("PUT", ""):
            asked = models.CreateCollection.model_validate(body)
            vectors, sparse = asked.vectors, asked.sparse_vectors
            return self.local.create_collection(name, vectors, sparse)
        if (method, what) == ("PUT", "/index"):
            return done
        if (method, what) == ("PUT", "/points"):
            asked = models.PointsList.model_validate(body)
            self.local.upsert(name, asked.points)
            return done
        if what == "/points/query/batch":
            asked = models.QueryRequestBatch.model_validate(body)
            return [
                _json(r) for r in self.local.query_batch_points(name, asked.searches)
            ]
        if (method, what) == ("POST", "/points"):
            asked = models.PointRequest.model_validate(body)
            how = {
                "with_payload": asked.with_payload,
                "with_vectors": asked.with_vector,
            }
            return [_json(r) for r in self.local.retrieve(name, asked.ids, **how)]
        if what == "/points/count":
            asked = models.CountRequest.model_validate(body)
            return _json(self.local.count(name, asked.filter, exact=True))
        if what == "/points/scroll":
            asked = models.ScrollRequest.model_validate(body)
            how = {
                "limit": asked.limit,
                "offset": asked.offset,
                "with_vectors": asked.with_vector,
            }
            points, after = self.local.scroll(name, **how)
            return {"points": [_json(p) for p in points], "next_page_offset": after}
        raise KeyError(f"{method} {path}")


def _json(x) -> object:
    return x.model_dump(mode="json", exclude_none=True)


@contextmanager
def qdrant() -> Iterator[tuple[StandInQdrant, str]]:
    "A server while the block runs, and its address."
    qdrant = StandInQdrant()
    with serving(qdrant.reply) as server:
        yield qdrant, server.url.removesuffix("/v1")
