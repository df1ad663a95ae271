"""Say what a release lacks: a line for each thing that it needs, ok or missing with the remedy; exit code 0 if nothing is missing.

  python tools/release.py [FOLDER]     (`make release`; FOLDER: another clone)

Nothing is changed: the last commit is cloned into a temporary folder, brought into step, checked and built there. The tests are not
run here, and nothing is published.
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from install import as_uv_reads
from packaging.version import Version

PLACES = {  # file -> where its version is
    "settings.ini": r"^version = (\S+)",
    "CITATION.cff": r"^version: (\S+)",
    "mtrag_nb/__init__.py": r'^__version__ = "(\S+)"',
    "CHANGELOG.md": r"^## (\S+)",
}
PYTHON = sys.executable


def run(folder: Path, *command: str) -> subprocess.CompletedProcess:
    "A command in a clone, with the clone's own package and tools."
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'tools'}"}
    env["PATH"] = f"{Path(PYTHON).parent}{os.pathsep}{env['PATH']}"
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)


def checks(root: Path, place: Path) -> Iterator[tuple[str, bool, str]]:
    "What a release needs, whether it is there, and the remedy; each as soon as it is known."
    clone, dist = place / "clone", place / "dist"
    changed = run(root, "git", "status", "--porcelain").stdout.splitlines()
    yield (
        "the tree is clean",
        not changed,
        f"commit or remove {len(changed)} files (git status)",
    )
    run(root, "git", "clone", "-q", "--shared", str(root), str(clone))
    text = {name: (clone / name).read_text(encoding="utf-8") for name in PLACES}
    found = {
        n: m[1] if (m := re.search(PLACES[n], text[n], re.M)) else "" for n in PLACES
    }
    version, tags = (
        found["settings.ini"],
        run(root, "git", "tag", "--list", "v*").stdout.split(),
    )
    same = {*found.values()} == {version}
    yield f"version {version} everywhere", same, f"make these alike: {found}"
    above = all(Version(version) > Version(tag) for tag in tags)
    yield (
        "newer than each tag",
        above,
        f"raise the version: there are {', '.join(tags)}",
    )
    section = text["CHANGELOG.md"].partition(f"## {version}\n")[2].partition("\n## ")[0]
    said = len(section.split()) > 20 and "not released" not in text["CHANGELOG.md"]
    write = f"write ## {version}; no changes are 'not released yet'"
    yield "CHANGELOG has its section", said, write
    step = run(clone, PYTHON, "tools/sync.py")
    yield (
        "package, README and table of names in step",
        not step.returncode,
        "make sync, and commit",
    )
    tests = {"links lead to files": "links_of_a_page"}
    tests |= {"kept outputs hold no paths": "path_of_a_machine"}
    tests |= {"actions of workflows are pinned": "pinned"}
    for what, which in tests.items():
        test = ["-m", "pytest", "-q", "tests/test_house.py", "-k", which]
        yield what, not run(clone, PYTHON, *test).returncode, f"python {' '.join(test)}"
    run(clone, PYTHON, "-m", "build", "--no-isolation", "--outdir", str(dist))
    held = [
        n
        for w in dist.glob(f"*-{version}-*.whl")
        for n in zipfile.ZipFile(w).namelist()
    ]
    whole = any(n.endswith("LICENSE") for n in held) and any(
        dist.glob(f"*-{version}.tar.gz")
    )
    yield "wheel and sdist build, with LICENSE", whole, "python -m build --no-isolation"
    listed = run(root, PYTHON, "-m", "pip", "config", "list").stdout
    os.environ |= {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        **as_uv_reads(listed),
        **os.environ,
    }
    uv = [PYTHON, "-m", "uv"]
    twine = run(
        clone,
        *uv,
        "tool",
        "run",
        "twine",
        "check",
        "--strict",
        *map(str, dist.glob("*")),
    )
    yield (
        "twine check",
        whole and not twine.returncode,
        "uvx twine check --strict dist/*",
    )
    pins = ["pyproject.toml", "--extra", "dev", "-c", "constraints.txt"]
    solved = run(clone, *uv, "pip", "compile", "-q", *pins)
    why = " ".join(solved.stderr.split())[:300]
    yield (
        "constraints.txt resolves",
        not solved.returncode,
        f"mend constraints.txt: {why}",
    )


if __name__ == "__main__":
    missing, root = (
        0,
        Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]),
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        for what, fine, remedy in checks(root.resolve(), Path(place)):
            missing += not fine
            print(
                f"ok       {what}" if fine else f"missing  {what}: {remedy}", flush=True
            )
    own = "make test, make test-wheel, make test-site"
    print(f"not run  {own}: their last result counts for nothing")
    ready = "Tag and push the version: the release workflow publishes it"
    print(f"{missing} missing" if missing else ready)
    sys.exit(bool(missing))
