"""Run notebooks, each in a fresh process, and count the outcomes.

  python tools/run_notebooks.py [--save] [--jobs N] [FLAG ...] [NOTEBOOK ...]

A cell flagged `#| slow` or `#| gpu` (the flags of settings.ini) runs only if its flag is named. `--save` writes the
outputs back, without anything that changes from run to run. The last line reads `N passed, N failed`.
"""
import argparse
import configparser
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
TEST = re.compile(r"^\s*assert\b|\bassert_\w+\(|^\s*with expect_error\(", re.M)


def flags_of(source: str) -> set:
    "The nbdev directives of a cell: `#| slow` gives {'slow'}."
    return set(re.findall(r"^#\|\s*(\w+)", source, re.M))


def kept_outputs(outputs: list) -> list:
    "Outputs worth saving: no warnings (they carry paths), no progress bars, no widget state, no counts; stdout in one piece."
    kept = []
    for o in outputs:
        if o.output_type == "stream" and o.name == "stderr":
            continue
        if o.output_type == "stream" and kept and kept[-1].output_type == "stream":
            kept[-1].text += o.text
            continue
        if "execution_count" in o:
            o.execution_count = None
        if WIDGET_VIEW in o.get("data", {}):
            if "text/html" not in o.data:  # a progress bar
                continue
            del o.data[WIDGET_VIEW]
        kept.append(o)
    return kept


class Client(NotebookClient):
    "Runs the cells that are not flagged away, and stops at the first that fails."

    def __init__(self, nb, skip, **kw):
        super().__init__(nb, **kw)
        self.skip = skip

    async def async_execute_cell(self, cell, cell_index, **kw):
        if cell.cell_type == "code" and flags_of(cell.source) & self.skip:
            return cell
        return await super().async_execute_cell(cell, cell_index, **kw)


def run_one(path: Path, skip: set, save: bool):
    "Run one notebook in its own kernel: (name, passed, test cells, seconds, what went wrong)."
    nb, start = nbformat.read(path, as_version=4), time.time()
    client = Client(nb, skip, timeout=3600, kernel_name="python3", extra_arguments=["--log-level=ERROR"], resources={"metadata": {"path": str(path.parent)}})
    try:
        client.execute()
        problem = ""
    except CellExecutionError as e:
        problem = str(e)
    code = [c for c in nb.cells if c.cell_type == "code" and not flags_of(c.source) & skip]
    if save and not problem:
        for cell in nb.cells:
            if cell.cell_type != "code":
                continue
            cell.execution_count = None
            cell.metadata = {}
            cell.outputs = kept_outputs(cell.outputs)
        nb.metadata = {k: v for k, v in nb.metadata.items() if k in ("kernelspec", "accelerator", "colab")}
        nb.metadata["kernelspec"] = {"display_name": "python3", "language": "python", "name": "python3"}
        nbformat.write(nb, path)
    return path.name, not problem, sum(bool(TEST.search(c.source)) for c in code), time.time() - start, problem


def main(argv=None) -> int:
    ini = configparser.ConfigParser(delimiters=["="])
    ini.read(ROOT / "settings.ini")
    known = set(ini["DEFAULT"]["tst_flags"].split())
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--save", action="store_true", help="write outputs back into the notebooks")
    ap.add_argument("--jobs", type=int, default=1, help="notebooks at a time (default 1)")
    ap.add_argument("what", nargs="*", help=f"flags ({', '.join(sorted(known))}) and notebooks (default: all)")
    args = ap.parse_args(argv)
    skip = known - set(args.what)
    files = [Path(w).resolve() for w in args.what if w not in known] or sorted((ROOT / "nbs").glob("*.ipynb"))
    failed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        begun = files[::-1] if args.jobs > 1 else files  # the last chapters take longest: begun last, one of them would run alone
        for done in as_completed([pool.submit(run_one, f, skip, args.save) for f in begun]):
            name, ok, tests, seconds, problem = done.result()
            failed += not ok
            print(f"{'ok  ' if ok else 'FAIL'} {name:28} {tests:4} test cells {seconds:7.1f} s", flush=True)
            if problem:
                print(problem, file=sys.stderr, flush=True)
    print(f"{len(files) - failed} passed, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
