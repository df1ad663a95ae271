"""`mtrag serve` under load: many conversations at once, faults injected, everything accounted for at the end (tests/support/crowd.py).

  python tests/programs/serve_load.py [--talks 50] [--seconds 180] [--faults 0.1] [--levels 1 4 16]

The service runs in a process of its own, with a scripted chat model that takes a moment (--think seconds a batch), the hash
embedder, and a library of --documents documents. Afterwards the record is read: no turn and no mark is lost, none is in another
conversation, each reply is the one that was recorded, each answer is about its own question, each fault names its node. The
last line reads `N passed, N failed`. Latencies are those of a scripted model: what the service adds, not what a model takes.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
from common import Checks, arguments, started

from tests.support.crowd import account, talk_for

PROGRAM = """
import sys
from mtrag_nb.serve.serve import serve
from mtrag_nb.core.settings import load_settings
from mtrag_nb.models.calls import Models
from mtrag_nb.models.embed import HashEmbedder
from tests.support.crowd import Unhurried
models = Models(load_settings(), Unhurried(float(sys.argv[2])), HashEmbedder())
serve(sys.argv[1] + "/library", sys.argv[1] + "/served", port=0, system="naive", ready=lambda said: print(said, flush=True),
      models=models, rate=10**9, waiting=10**6)
"""


def memory(http: httpx.Client) -> int:
    return http.get("/api/status").json()["memory"]["now_mb"]


def percentiles(seconds: list[float]) -> str:
    s = sorted(seconds)

    def at(p):
        return s[min(len(s) - 1, int(p * len(s)))]

    if not s:
        return "none"
    shares = ", ".join(f"{round(100 * p)} % {at(p):.2f} s" for p in (0.5, 0.9, 0.99))
    return f"{len(s)} answers: {shares}, longest {s[-1]:.2f} s"


def ask_all(url: str, args) -> list:
    "The documents put in, the crowds one after the other; who asked."
    with httpx.Client(base_url=url, timeout=120) as http:
        for n in range(args.documents):
            said = "What is said in document {}, sentence {}: a word of the harbour."
            text = " ".join(said.format(n, k) for k in range(30))
            file = f"d{n}.md", f"# Words\n\n{text}\n".encode()
            http.post("/api/upload", files={"file": file}).raise_for_status()
        begun = time.monotonic()
        http.post(
            "/api/query", json={"question": "What is word-first?"}
        ).raise_for_status()
        print(
            f"the first question, which loads what is needed: {time.monotonic() - begun:.1f} s"
        )
        everyone = []
        for level in args.levels:
            some = talk_for(url, level, min(30.0, args.seconds / 6), 0.0, 1000 * level)
            everyone += some
            seconds = percentiles([s for t in some for s in t.seconds])
            print(f"{level:3} at once: {seconds}", flush=True)
        before, watched, done = memory(http), [], threading.Event()

        def watch():
            while not done.wait(args.seconds / 12):
                watched.append(memory(http))

        watcher = threading.Thread(target=watch)
        watcher.start()
        crowd = talk_for(url, args.talks, args.seconds, args.faults)
        done.set()
        watcher.join()
        seconds = percentiles([s for t in crowd for s in t.seconds])
        print(f"{args.talks:3} at once, faults: {seconds}")
        print(
            f"memory: {before} MB before, {watched} MB while asked, {memory(http)} MB after"
        )
        while http.get("/api/status").json()["asking"]:
            time.sleep(0.1)
    return [*everyone, *crowd]


def main(argv=None) -> int:
    ap, checks = arguments(__doc__), Checks()
    ap.add_argument("--talks", type=int, default=50)
    ap.add_argument("--seconds", type=float, default=180.0)
    ap.add_argument("--faults", type=float, default=0.1)
    at_once = "conversations at once, for the latencies"
    ap.add_argument("--levels", type=int, nargs="*", default=[1, 4, 16], help=at_once)
    ap.add_argument(
        "--think", type=float, default=0.05, help="the model's seconds for a batch"
    )
    ap.add_argument("--documents", type=int, default=20)
    args = ap.parse_args(argv)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process, url = started(PROGRAM, folder, args.think)
        try:
            everyone = ask_all(url, args)
        finally:
            process.terminate()
            code = process.wait(120)
        for o in [o for t in everyone for o in t.odd][:5]:
            print("odd:", o)
        held = account(Path(folder) / "served", everyone) | {
            "stopped in good order": code == 0
        }
    for what, right in held.items():
        with checks(what):
            assert right
    counts = [
        (len(t.came), len(t.marked), len(t.hung_up), len(t.odd)) for t in everyone
    ]
    print("{} answers, {} marks, {} hung up on, {} odd".format(*map(sum, zip(*counts))))
    return checks.ended()


if __name__ == "__main__":
    sys.exit(main())
