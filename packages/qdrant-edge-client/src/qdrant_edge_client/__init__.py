"""Qdrant's embedded engine behind `QdrantClient`'s interface, as LlamaIndex's store calls it: no server."""

# Written by tools/sync.py from nbs/4_search/01_edge.ipynb.

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import portalocker
import qdrant_edge as edge
from pydantic import BaseModel
from qdrant_client import models as qm

__all__ = ["EdgeError", "EdgeLocked", "EdgeClient"]

_NAMES = {"Range": "RangeFloat", "IdfCorpusParams": "IdfParams"}  # the engine's names


def _as_edge(value: object) -> object:
    "A value of `qdrant_client.models` as the engine takes it."
    if isinstance(value, dict):
        return {k: _as_edge(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_edge(v) for v in value]
    if isinstance(value, qm.IsEmptyCondition):
        return edge.IsEmptyCondition(value.is_empty.key)
    if isinstance(value, qm.HasIdCondition):
        return edge.HasIdCondition({str(i) for i in value.has_id})
    if not isinstance(value, BaseModel):
        return value
    name = type(value).__name__
    fields = {k: _as_edge(v) for k, v in value if v is not None}
    return getattr(edge, _NAMES.get(name, name))(**fields)


def _query_request(r: qm.QueryRequest) -> edge.QueryRequest:
    "A query of qdrant-client as one of the engine."
    how = {"params": _as_edge(r.params), "with_payload": True, "with_vector": bool(r.with_vector)}
    nearest = edge.Query.Nearest(_as_edge(r.query), using=r.using or None)
    return edge.QueryRequest(limit=r.limit, query=nearest, filter=_as_edge(r.filter), **how)


class EdgeError(RuntimeError):
    "The engine cannot use its files."


class EdgeLocked(RuntimeError):
    "Another process, or another client of this one, uses the folder: a writer wants it for itself."


class EdgeClient:
    "Collections in a folder, by Qdrant's engine in this process: many readers, or one writer. Thread-safe."

    def __init__(self, path: str | Path, write: bool = False):  # a writer makes the folder
        self.path, self.write = Path(path), write
        self._shards: dict[str, edge.EdgeShard] = {}
        self._guard = threading.RLock()
        if write:
            self.path.mkdir(parents=True, exist_ok=True)
        self._lock_file = open(self.path / ".lock", "a")
        kind = portalocker.LockFlags.EXCLUSIVE if write else portalocker.LockFlags.SHARED
        try:
            portalocker.lock(self._lock_file, kind | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.LockException:
            self._lock_file.close()
            uses = "reads or writes" if write else "writes"
            raise EdgeLocked(f"another process {uses} it") from None

    def _do(self, collection_name: str, method: str, *args):
        "Call a method of the engine, one caller at a time. Raises EdgeError."
        with self._guard:
            if self._lock_file.closed:
                raise EdgeError("the client is closed")
            try:
                if collection_name not in self._shards:
                    folder = str(self.path / collection_name)
                    self._shards[collection_name] = edge.EdgeShard.load(folder)
                return getattr(self._shards[collection_name], method)(*args)
            except BaseException as e:  # the engine raises Exception itself, and panics
                if type(e) is not Exception and type(e).__name__ != "PanicException":
                    raise
                raise EdgeError(str(e).replace(str(self.path), "").split("\n")[0][:200]) from None

    def _update(self, collection_name: str, operation: str, *args) -> None:
        if not self.write:
            raise EdgeError("the client was opened for reading")
        self._do(collection_name, "update", getattr(edge.UpdateOperation, operation)(*args))

    def collection_exists(self, collection_name: str) -> bool:
        return (self.path / collection_name / "edge_config.json").exists()

    def create_collection(
        self,
        collection_name: str,
        vectors_config: dict[str, qm.VectorParams],
        sparse_vectors_config: dict[str, qm.SparseVectorParams] | None = None,
        **_,  # settings of a cluster
    ) -> None:
        "An empty collection with named vectors; if the process is killed, all of it is there or nothing."
        dense = {
            name: edge.EdgeVectorParams(size=v.size, distance=getattr(edge.Distance, v.distance))
            for name, v in vectors_config.items()
        }
        sparse = {
            name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf if v.modifier else None)
            for name, v in (sparse_vectors_config or {}).items()
        }
        how = {"vacuum_min_vector_number": 1, "indexing_threshold": 10**9}
        tidy = edge.EdgeOptimizersConfig(deleted_threshold=0.0, **how)
        new = self.path / f"{collection_name}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        vectors = {"vectors": dense, "sparse_vectors": sparse}
        config = edge.EdgeConfig(**vectors, optimizers=tidy, wal_enabled=False)
        try:
            edge.EdgeShard.create(str(new), config).close()
        except Exception as e:
            raise EdgeError(str(e).split("\n")[0][:200]) from None
        new.rename(self.path / collection_name)

    def create_payload_index(
        self,
        collection_name: str,
        field_name: str,
        field_schema: qm.PayloadSchemaType = qm.PayloadSchemaType.KEYWORD,
        **_,
    ) -> None:
        kind = getattr(edge.PayloadSchemaType, field_schema.value.title())
        self._update(collection_name, "create_field_index", field_name, kind)

    def get_collection(self, collection_name: str) -> SimpleNamespace:
        "What the store asks of a collection: the names of its vectors, and how many points it has."
        path = self.path / collection_name / "edge_config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        sparse = config.get("sparse_vectors")
        params = SimpleNamespace(vectors=config["vectors"], sparse_vectors=sparse)
        counted = self.count(collection_name).count
        return SimpleNamespace(config=SimpleNamespace(params=params), points_count=counted)

    def upload_points(
        self, collection_name: str, points: Iterable[qm.PointStruct], batch_size: int = 256, **_
    ) -> None:
        "Insert points, or replace those of the same ids; on the disk when it returns."
        rows = (edge.Point(str(p.id), _as_edge(p.vector), p.payload) for p in points)
        while batch := list(islice(rows, batch_size)):
            self._update(collection_name, "upsert_points", batch)
        self._do(collection_name, "flush")

    def query_batch_points(
        self, collection_name: str, requests: Sequence[qm.QueryRequest], **_
    ) -> list[SimpleNamespace]:
        "The nearest points of each query, best first."
        batch = edge.QueryBatchRequest([_query_request(r) for r in requests])
        found = self._do(collection_name, "query_batch", batch)
        return [SimpleNamespace(points=points) for points in found]

    def query_points(
        self,
        collection_name: str,
        query: object,
        using: str | None = None,
        limit: int = 10,
        query_filter: qm.Filter | None = None,
        search_params: qm.SearchParams | None = None,
        **_,
    ) -> SimpleNamespace:
        how = {"filter": query_filter, "params": search_params}
        request = qm.QueryRequest(query=query, using=using, limit=limit, **how)
        return self.query_batch_points(collection_name, [request])[0]

    def scroll(
        self,
        collection_name: str,
        scroll_filter: qm.Filter | None = None,
        limit: int = 10,
        offset: object = None,
        with_payload: bool = True,
        with_vectors: bool | Sequence[str] = False,
        **_,
    ) -> tuple[list, object]:
        "A page of points, and where the next begins; None at the end."
        what = {"with_payload": with_payload, "with_vector": with_vectors}
        only = _as_edge(scroll_filter)
        request = edge.ScrollRequest(offset=offset, limit=limit, filter=only, **what)
        return self._do(collection_name, "scroll", request)

    def retrieve(
        self,
        collection_name: str,
        ids: Sequence[str],
        with_payload: bool = True,
        with_vectors: bool | Sequence[str] = False,
        **_,
    ) -> list:
        "The points of these ids, as far as they exist."
        return self._do(collection_name, "retrieve", list(ids), with_payload, with_vectors)

    def count(
        self, collection_name: str, count_filter: qm.Filter | None = None, exact: bool = True, **_
    ) -> SimpleNamespace:
        request = edge.CountRequest(exact=exact, filter=_as_edge(count_filter))
        return SimpleNamespace(count=self._do(collection_name, "count", request))

    def delete(self, collection_name: str, points_selector: qm.Filter | Sequence[str], **_) -> None:
        "Delete points; their text is in the files until `optimize`."
        if isinstance(points_selector, qm.Filter):
            self._update(collection_name, "delete_points_by_filter", _as_edge(points_selector))
        else:
            self._update(collection_name, "delete_points", list(points_selector))
        self._do(collection_name, "flush")

    def optimize(self, collection_name: str) -> None:
        "Rewrite what held deleted points: nothing of them stays on the disk."
        self._do(collection_name, "optimize")
        self._do(collection_name, "flush")

    def delete_collection(self, collection_name: str) -> None:
        with self._guard:
            self._shards.pop(collection_name, None)
            shutil.rmtree(self.path / collection_name, ignore_errors=True)

    def close(self) -> None:
        "Let go of the files and of the lock."
        with self._guard:
            for shard in self._shards.values():
                shard.close()
            self._shards = {}
            self._lock_file.close()
