"""Reproduce a paper by real models, killed at six places on the way, and hold the page against that of an undisturbed start.

  python tests/programs/reproduce.py [laptop|t4] [LIMIT]     default: both, with 4 tasks; some minutes each

`t4` runs the profiles t4 and judge on tiny random models of the real architectures under the same quantization: they lie in a
hub cache of their own under the real names. Each kill is a SIGKILL at a random moment of a step: nothing is cleaned up. The
processes that are killed are forks of one that has imported everything, so that a start takes no time.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import OFFLINE

# the steps in which it is killed, as they are printed
STEPS = (
    "ingest index\n",
    "run self_crag ",
    "run strict ",
    "ingest index_flat\n",
    "judge ",
    "score ",
)
# in four bits the last digits of a reply depend on what shares its batch, so nothing does
ALONE = ("batch_size=1",)


def argv(profile: str, limit: int, out: Path) -> list[str]:
    "The command line of a reproduction on the sample."
    changed = [] if profile == "laptop" else ["stages.max_new_tokens=24", *ALONE]
    changes = [word for c in changed for word in ("--set", c)]
    words = ["reproduce", "self_crag", "--profile", profile, "--limit", str(limit)]
    return [*words, "--data", "sample", "--out", str(out), *changes]


def started(args: list[str], folder: Path) -> tuple[int, int]:
    "A process of its own that carries out a command: its id, and where its output comes."
    from mtrag_nb.app.cli import main

    out, into = os.pipe()
    if pid := os.fork():
        os.close(into)
        return pid, out
    os.dup2(into, 1)
    os.dup2(os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    os._exit(main(args))


def whole(args: list[str], folder: Path) -> tuple[float, str]:
    """Seconds and output of a start that nobody kills. Raises RuntimeError if it fails.

    Exit code 1, a part, is right where turns broke: a small model that says nothing now and then has not answered, which the page tells.
    """
    start = time.monotonic()
    pid, out = started(args, folder)
    with os.fdopen(out) as f:
        said = f.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != (1 if " broke" in said else 0):
        told = (folder / "stderr").read_text()[-3000:]
        raise RuntimeError(f"exit code {code}\n{said[-3000:]}\n{told}")
    return time.monotonic() - start, said


def killed(args: list[str], folder: Path, step: str, rng: random.Random) -> None:
    "Kill a start soon after a step began. Raises RuntimeError if it never began that step."
    (pid, out), said = started(args, folder), ""
    with os.fdopen(out) as f:
        for line in f:
            said += line
            if line.startswith(step):
                break
        else:
            told = said[-2000:] + (folder / "stderr").read_text()[-3000:]
            raise RuntimeError(f"it never came to {step!r}: {told}")
        time.sleep(
            rng.uniform(0, 1 if step in ("ingest index_flat\n", "score ") else 5)
        )
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def check(profile: str, limit: int, folder: Path) -> None:
    "One profile: undisturbed, then killed at every place."
    import torch  # noqa: F401 (before the forks, as everything that takes long to import)
    import transformers  # noqa: F401

    from mtrag_nb.core.types import quiet

    quiet()
    from mtrag_nb.app import reproduce  # noqa: F401

    rng = random.Random(0)
    once, again = (argv(profile, limit, folder / name) for name in ("whole", "killed"))
    seconds, said = whole(once, folder)
    print(said, f"{profile}: undisturbed, {seconds:.0f} s", sep="\n", flush=True)
    for step in STEPS:
        killed(again, folder, step, rng)
        print(f"killed in {step!r}", flush=True)
    seconds, _ = whole(again, folder)
    made = [
        p
        for x in ("*.html", "tables/*", "figures/*")
        for p in (folder / "whole").glob(x)
    ]
    for name in (p.relative_to(folder / "whole") for p in made):
        a, b = ((folder / which / name).read_bytes() for which in ("whole", "killed"))
        if a != b:
            raise RuntimeError(f"{profile}: {name} differs after the kills")
    print(
        f"{profile}: {len(STEPS)} kills, the last start took {seconds:.0f} s, the same page and"
    )
    print(f"{len(made) - 1} files of tables and figures, byte for byte", flush=True)


def main(profiles: list[str], limit: int) -> int:
    "Each profile in a process of its own: where the hub's cache lies is read when the hub's library is imported."
    codes = []
    with tempfile.TemporaryDirectory() as tmp:
        for profile in profiles:
            folder = Path(tmp) / profile
            folder.mkdir()
            env = {k: v for k, v in os.environ.items() if k != "MTRAG_DATA"} | OFFLINE
            if profile != "laptop":
                env["HF_HUB_CACHE"] = str(folder / "cache")
                tiny = "import sys; from tests.support.tiny import tiny_cache; tiny_cache(*sys.argv[1:])"
                command = [
                    sys.executable,
                    "-c",
                    tiny,
                    str(folder / "tiny"),
                    env["HF_HUB_CACHE"],
                ]
                subprocess.run(command, env=env, check=True)
            command = [
                sys.executable,
                __file__,
                "--in",
                str(folder),
                profile,
                str(limit),
            ]
            codes.append(subprocess.run(command, env=env).returncode)
    return max(codes)


if __name__ == "__main__":
    asked = sys.argv[1:]
    n = next((int(a) for a in asked if a.isdecimal()), 4)
    if asked[:1] == ["--in"]:
        check(asked[2], n, Path(asked[1]))
    else:
        sys.exit(main([a for a in asked if not a.isdecimal()] or ["laptop", "t4"], n))
