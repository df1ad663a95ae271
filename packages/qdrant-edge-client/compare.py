"""Hold EdgeClient against `QdrantClient(path=...)` on the same 50,000 points, and write the table of README.md.

  python compare.py [POINTS]

Each runs in a process of its own: build, open again, 20 searches for the best 10 of a quarter of the points, by a filter.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from qdrant_client import QdrantClient
from qdrant_client import models as qm

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "src"))
DIMENSIONS, SEARCHES = 384, 20
QUARTER = qm.Filter(must=[qm.FieldCondition(key="part", match=qm.MatchValue(value="a"))])
MEMORY = (
    "/dev/shm" if Path("/dev/shm").is_dir() else None
)  # local mode commits each point to its disk
CLIENTS = {"QdrantClient(path=...)": "local", "EdgeClient": "edge"}


def opened(kind: str, folder: str, write: bool):
    from qdrant_edge_client import EdgeClient

    return EdgeClient(folder, write=write) if kind == "edge" else QdrantClient(path=folder)


def build(kind: str, folder: str, count: int) -> dict:
    rng, client, start = np.random.default_rng(0), opened(kind, folder, True), time.process_time()
    size = qm.VectorParams(size=DIMENSIONS, distance=qm.Distance.COSINE)
    client.create_collection("demo", vectors_config={"dense": size})
    if kind == "edge":  # local mode has no indexes of the payload
        client.create_payload_index("demo", "part")
    for first in range(0, count, 1000):
        vectors = rng.normal(size=(min(1000, count - first), DIMENSIONS)).tolist()
        points = [
            qm.PointStruct(
                id=f"{first + n:032x}", vector={"dense": v}, payload={"part": "abcd"[n % 4]}
            )
            for n, v in enumerate(vectors)
        ]
        client.upload_points("demo", points, wait=True)
    client.close()
    return {"build": time.process_time() - start}


def search(kind: str, folder: str, count: int) -> dict:
    rng, start = np.random.default_rng(1), time.process_time()
    client = opened(kind, folder, False)
    client.count("demo")
    found, seconds = {"open": time.process_time() - start, "hits": []}, []
    for query in rng.normal(size=(SEARCHES, DIMENSIONS)).tolist():
        start = time.process_time()
        hits = client.query_points("demo", query, using="dense", limit=10, query_filter=QUARTER)
        seconds.append(time.process_time() - start)
        found["hits"].append([str(p.id).replace("-", "") for p in hits.points])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**found, "search": median(seconds), "memory": memory}


def alone(*arguments: str) -> dict:
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=-1, text=True, check=True)
    return json.loads(done.stdout)


def main(count: str) -> None:
    rows, hits = [], []
    for name, kind in CLIENTS.items():
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            found = alone("build", kind, folder, count) | alone("search", kind, folder, count)
        hits.append(found["hits"])
        ms = 1000 * found["search"]
        rows.append(
            f"| `{name}` | {ms:.1f} | {found['memory']:.0f} | {found['open']:.2f} | {found['build']:.1f} |"
        )
    same = sum(a == b for a, b in zip(*hits, strict=True))
    table = [
        f"{int(count):,} points of {DIMENSIONS} dimensions, the best 10 of a quarter of them by a filter: "
        f"the same hits in the same order in {same} of {SEARCHES} searches. CPU time on one core; memory is the process's peak.",
        "",
        "| | ms a search (median) | MB | s to open | s to build |",
        "|---|---|---|---|---|",
        *rows,
    ]
    path = HERE / "README.md"
    before, mark, rest = path.read_text(encoding="utf-8").partition("<!-- compare.py -->\n")
    after = rest.partition("<!-- end -->")[2]
    path.write_text(f"{before}{mark}{chr(10).join(table)}\n<!-- end -->{after}", encoding="utf-8")
    print("\n".join(table))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        step, kind, folder, count = sys.argv[1:]
        print(json.dumps({"build": build, "search": search}[step](kind, folder, int(count))))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "50000")
