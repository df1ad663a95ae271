"The same calls to the embedded engine and to qdrant-client's local mode, on random points; the lock; what is deleted."

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as qm

from mtrag_nb.search.edge import EdgeClient, EdgeError, EdgeLocked

ROOT = Path(__file__).resolve().parents[1]
FIRST = f"{0:032x}"


def points() -> list[qm.PointStruct]:
    rng, found = np.random.default_rng(0), []
    for n in range(300):
        words = sorted(set(rng.integers(0, 40, 8).tolist()))
        vector = {
            "dense": rng.normal(size=16).tolist(),
            "words": qm.SparseVector(indices=words, values=[1.0] * len(words)),
        }
        payload = {
            "domain": ("a", "b", "c")[n % 3],
            "year": 2000 + n % 7,
            "text": f"point {n}",
        }
        found.append(qm.PointStruct(id=f"{n:032x}", vector=vector, payload=payload))
    for point in found[::9]:
        del point.payload["year"]
    return found


POINTS = points()


def filled(client):
    dense = {"dense": qm.VectorParams(size=16, distance=qm.Distance.COSINE)}
    sparse = {"words": qm.SparseVectorParams(modifier=qm.Modifier.IDF)}
    client.create_collection("demo", vectors_config=dense, sparse_vectors_config=sparse)
    client.upload_points("demo", POINTS, wait=True)
    return client


@pytest.fixture
def edge(tmp_path):
    client = filled(EdgeClient(tmp_path / "store", write=True))
    yield client
    client.close()


@pytest.fixture(scope="module")
def local():
    return filled(QdrantClient(":memory:"))


def match(key, value):
    return qm.FieldCondition(key=key, match=qm.MatchValue(value=value))


FILTERS = {
    "none": None,
    "a value": qm.Filter(must=[match("domain", "b")]),
    "any of some": qm.Filter(
        must=[qm.FieldCondition(key="domain", match=qm.MatchAny(any=["a", "c"]))]
    ),
    "a range": qm.Filter(
        must=[qm.FieldCondition(key="year", range=qm.Range(gte=2003, lt=2005))]
    ),
    "not": qm.Filter(must_not=[match("domain", "a")], should=[match("year", 2001)]),
    "empty": qm.Filter(
        must=[qm.IsEmptyCondition(is_empty=qm.PayloadField(key="year"))]
    ),
    "ids": qm.Filter(must=[qm.HasIdCondition(has_id=[FIRST, f"{9:032x}"])]),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("using", ["dense", "words"])
def test_hits_are_those_of_local_mode(edge, local, using, name):
    words = qm.SparseVector(indices=[1, 2, 3], values=[1.0, 1.0, 1.0])
    query = POINTS[7].vector["dense"] if using == "dense" else words
    how = {"using": using, "limit": 300, "query_filter": FILTERS[name]}
    ours, theirs = (c.query_points("demo", query, **how).points for c in (edge, local))
    scores = [
        {str(p.id).replace("-", ""): p.score for p in found} for found in (ours, theirs)
    ]
    assert scores[0] and scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert (
        edge.count("demo", FILTERS[name])
        and edge.count("demo", FILTERS[name]).count
        == local.count("demo", FILTERS[name]).count
    )


def test_pages_and_points_by_id(edge):
    seen, offset = [], None
    while True:
        page, offset = edge.scroll("demo", limit=70, offset=offset)
        seen += page
        if offset is None:
            break
    assert len({p.id for p in seen}) == len(seen) == 300
    (found,) = edge.retrieve("demo", [FIRST, f"{999:032x}"])
    assert found.payload["text"] == "point 0"
    described = edge.get_collection("demo")
    assert described.points_count == 300 and set(described.config.params.vectors) == {
        "dense"
    }


def test_what_is_deleted_is_in_no_file(edge):
    secret = POINTS[0].model_copy(deep=True)
    secret.id, secret.payload["text"] = f"{999:032x}", "the password is heron"
    edge.upload_points("demo", [secret])

    def in_files():
        files = [p for p in edge.path.rglob("*") if p.is_file()]
        return [p.name for p in files if b"heron" in p.read_bytes()]

    assert in_files()
    edge.delete("demo", [secret.id])
    edge.optimize("demo")
    assert edge.count("demo").count == 300 and in_files() == []
    edge.delete("demo", FILTERS["a value"])
    assert edge.count("demo").count == 200


def test_one_writer_or_many_readers(edge):
    program = (
        f"from mtrag_nb.search.edge import EdgeClient; EdgeClient({str(edge.path)!r})"
    )
    command, env = [sys.executable, "-c", program], {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert "EdgeLocked: another process writes it" in done.stderr
    edge.close()
    readers = [EdgeClient(edge.path) for _ in range(2)]
    assert [r.count("demo").count for r in readers] == [300, 300]
    with pytest.raises(EdgeLocked, match="another process reads or writes it"):
        EdgeClient(edge.path, write=True)
    with pytest.raises(EdgeError, match="opened for reading"):
        readers[0].delete("demo", [FIRST])
    with pytest.raises(EdgeError):
        readers[0].count("nothing")
    for reader in readers:
        reader.close()
    with pytest.raises(EdgeError, match="the client is closed"):
        readers[0].count("demo")


def test_it_imports_nothing_of_the_package():
    "So that the module can be lifted out by whoever wants it."
    source = (ROOT / "mtrag_nb" / "search" / "edge.py").read_text(encoding="utf-8")
    modules = [
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
    ]
    assert modules and not [m for m in modules if m.startswith((".", "mtrag_nb"))]
