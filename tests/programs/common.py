"""What the programs of this folder share: arguments, the count of what held, new environments, a service in a process of its own."""

import argparse
import contextlib
import os
import site
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def arguments(about: str) -> argparse.ArgumentParser:
    "The parser of a program; its docstring is what --help prints."
    whole = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=about, formatter_class=whole)


class Checks:
    "Counts what held and what did not; a failure is printed and does not stop the rest."

    def __init__(self):
        self.passed, self.failed = 0, 0

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        except Exception as e:
            self.failed += 1
            where = "".join(traceback.format_tb(e.__traceback__)[-2:])
            print(
                f"FAIL {name}\n{where}{type(e).__name__}: {str(e)[:3000]}", flush=True
            )
        else:
            self.passed += 1
            print(f"ok   {name}  ({time.perf_counter() - start:.1f} s)", flush=True)

    def ended(self, more: str = "") -> int:  # the exit code
        "Say how it went; without any check it went wrong."
        print(f"{self.passed} passed, {self.failed} failed{more}")
        return 1 if self.failed or not self.passed else 0


def environment(folder: Path, borrow: bool = False) -> Path:
    "A new virtual environment: its folder of commands. With `borrow` it has the packages of this one behind its own."
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    if borrow:
        rest = next(folder.glob("lib/python*/site-packages")) / "rest.pth"
        rest.write_text(
            f"import site; site.addsitedir({site.getsitepackages()[0]!r})\n"
        )
    return folder / "bin"


def started(program: str, *words: object) -> tuple[subprocess.Popen, str]:
    "A service in a process of its own, and its address, which the program prints."
    command = [sys.executable, "-c", program, *map(str, words)]
    env = {**os.environ, **OFFLINE}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    line = process.stdout.readline()
    if not line.startswith("http"):
        raise RuntimeError(f"the service did not start: {line!r}")
    return process, line.split("  ")[0].rstrip("/")
