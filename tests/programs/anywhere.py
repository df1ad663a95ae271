"""Run notebooks as a reader meets them: in an empty folder beside an installed wheel, and in a clone whose package is installed by
the notebook's own first cell; both under the IPython and the ipywidgets that Colab has.

  python tests/programs/anywhere.py [--only wheel|clone] [NOTEBOOK ...]

The environments borrow the packages of this one; nothing is fetched but IPython 7.34, ipywidgets 7.7.1 and what they need.
The last line reads `N passed, N failed`.
"""

import argparse
import configparser
import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from wheel import build, copy_tree

os.environ.pop("PYTHONPATH", None)  # nothing of this clone counts there
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from outputs import COLOURS  # noqa: E402

COLAB = ("ipython==7.34.0", "ipywidgets==7.7.1")
SETUPTOOLS = "setuptools==81.0.0"  # a new environment brings an old one, which would need the network in a cell
CHOSEN = [
    f"nbs/{name}.ipynb"
    for name in (
        "tour/00_walkthrough",
        "tour/01_cases",
        "tour/02_your_system",
        "tour/03_your_documents",
        "tour/05_real_systems",
        "tour/06_limits",
        "4_search/00_nodes",
        "5_systems/03_self_crag",
        "7_evaluate/04_scores",
    )
]
VERSIONS = "import IPython, ipywidgets; print(IPython.__version__, ipywidgets.__version__)"
WHERE = "import importlib.util as u; s = u.find_spec('mtrag_nb'); print(s and s.origin)"


def environment(folder: Path) -> Path:
    "A Python with Colab's IPython and ipywidgets, and the packages of this environment, but not this project's."
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    (packages / "rest.pth").write_text(
        site.getsitepackages()[0] + "\n"
    )  # a plain line: its .pth files, and so this clone, do not count
    subprocess.run([str(python), "-m", "pip", "install", "-qq", *COLAB, SETUPTOOLS], check=True)
    told = subprocess.run(
        [str(python), "-c", VERSIONS], capture_output=True, text=True, check=True, cwd=folder
    ).stdout.split()
    assert told == [c.partition("==")[2] for c in COLAB], told
    return python


def installed(python: Path, folder: Path) -> str:
    "Where that Python finds the project, or None."
    return subprocess.run(
        [str(python), "-c", WHERE], capture_output=True, text=True, check=True, cwd=folder
    ).stdout.strip()


def kernel(folder: Path, python: Path) -> dict:
    "A kernel of that Python, and the environment in which it is found."
    spec = folder / "kernels" / "anywhere"
    spec.mkdir(parents=True, exist_ok=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "anywhere", "language": "python"})
    )
    return {
        **os.environ,
        "JUPYTER_PATH": str(folder),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "IPYTHONDIR": str(folder / "ipython"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
    }  # 0: pip reads it as `--no-build-isolation`


def run(path: Path, env: dict) -> str:
    'Run a notebook in its folder, without the cells that ask for time or a GPU; what went wrong, or "".'
    nb = nbformat.read(path, as_version=4)
    nb.cells = [c for c in nb.cells if not c.source.startswith(("#| slow\n", "#| gpu\n"))]
    os.environ["JUPYTER_PATH"] = env["JUPYTER_PATH"]
    client = NotebookClient(
        nb,
        timeout=1800,
        kernel_name="anywhere",
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--log-level=ERROR", "--HistoryManager.enabled=False"],
    )
    try:
        client.execute(env=env)
    except (CellExecutionError, DeadKernelError) as e:
        return COLOURS.sub("", str(e))[-1500:]
    return ""


def from_wheel(tmp: Path, names: list) -> list:
    "Each notebook alone in an empty folder, the wheel installed."
    python, wheel = environment(tmp / "venv_wheel"), build(tmp)
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-deps", str(wheel)], check=True)
    assert "venv_wheel" in installed(python, tmp), installed(python, tmp)
    env, done = kernel(tmp / "jupyter_wheel", python), []
    for n, name in enumerate(names):
        folder = tmp / f"empty{n}"
        folder.mkdir()
        done.append(timed("wheel", name, shutil.copy(ROOT / name, folder), env))
    return done


def from_clone(tmp: Path, names: list) -> list:
    "Each notebook in its place in a clone; the first one's own first cell installs the project, from that clone for its address."
    python, clone = environment(tmp / "venv_clone"), tmp / "clone"
    copy_tree(clone)
    shutil.copytree(
        ROOT / "nbs", clone / "nbs", ignore=shutil.ignore_patterns(".ipynb_checkpoints")
    )
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "The clone"]):
        subprocess.run([*git, *command], cwd=clone, check=True)
    ini = configparser.ConfigParser(delimiters=["="])
    ini.read(ROOT / "settings.ini", encoding="utf-8")
    env = kernel(tmp / "jupyter_clone", python) | {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{clone.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": ini["DEFAULT"]["git_url"],
    }
    assert installed(python, tmp) == "None"
    done = [timed("clone", name, clone / name, env) for name in names]
    assert "venv_clone" in installed(python, tmp), installed(python, tmp)
    return done


def timed(how: str, name: str, path, env: dict) -> bool:
    "Run a notebook and say what came of it."
    start = time.time()
    problem = run(Path(path), env)
    print(
        f"{'FAIL' if problem else 'ok  '} {how} {name:36} {time.time() - start:7.1f} s",
        problem,
        flush=True,
    )
    return not problem


def main() -> int:
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--only", choices=("wheel", "clone"))
    ap.add_argument(
        "names",
        nargs="*",
        help="notebooks (default: the tour but for reproduce, and three rooms that need nothing of tests/)",
    )
    args, done = ap.parse_args(), []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        for how, test in (("wheel", from_wheel), ("clone", from_clone)):
            if args.only in (None, how):
                done += test(Path(tmp), args.names or CHOSEN)
    print(f"{sum(done)} passed, {len(done) - sum(done)} failed")
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
