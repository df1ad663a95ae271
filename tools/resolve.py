"""What installing this package would add and change on Colab, on Kaggle, and beside a bare torch on each Python.

  python tools/resolve.py [--out data/measured/platforms.json] [NAME ...]

pip resolves without installing (`--dry-run --report`), in an environment that claims the packages of the platform: folders
with a name and a version each, as pip sees an installed package. The lists are in tools/platforms, with where they come from.
Nothing large is fetched: pip reads metadata, and torch is always there already.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.programs.wheel import build

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "gpu,eval"  # what the notebooks' first cell asks for
TORCH = {"torch": "2.11.0"}
TARGETS = {  # name -> Python, list of what is there
    "Colab": ("3.13", "colab"),
    "Kaggle": ("3.12", "kaggle"),
    **{f"Python {v}": (v, "") for v in ("3.10", "3.11", "3.12", "3.13", "3.14")},
}
KEPT = (
    "torch",
    "numpy",
    "ipython",
    "ipykernel",
)  # a notebook that has imported these must not get others


def plain(name: str) -> str:
    "A package's name as pip compares it."
    return name.lower().replace("_", "-").replace(".", "-")


def claimed(name: str) -> dict:
    "The packages of a platform: name -> version."
    if not name:
        return TORCH
    lines = (ROOT / "tools" / "platforms" / f"{name}.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def interpreter(version: str) -> str:
    'A Python of that version, or "".'
    pyenv = sorted(
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(
            f"versions/{version}.*/bin/python"
        )
    )
    return str(pyenv[-1]) if pyenv else shutil.which(f"python{version}") or ""


def environment(folder: Path, python: str, packages: dict) -> Path:
    "An environment that claims the packages: its Python."
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    for name, version in packages.items():
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "INSTALLER").write_text("pip\n")
        (info / "RECORD").write_text("")
    return folder / "bin" / "python"


def sdist_wheels(folder: Path) -> Path:
    "Wheels of what has none on the index (rouge-score is pure Python): pip resolves for another Python from wheels alone."
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-qq",
            "--no-deps",
            "-w",
            str(folder),
            "rouge-score",
        ],
        check=True,
    )
    return folder


def claimed_wheel(folder: Path, packages: dict) -> None:
    "Wheels with nothing in them but a name and a version: for a Python that is not here, pip looks at no environment."
    for name, version in packages.items():
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as z:
            z.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
            z.writestr(
                f"{info}/WHEEL",
                "Wheel-Version: 1.0\nGenerator: resolve\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            z.writestr(f"{info}/RECORD", "")


def resolve(wheel: Path, version: str, packages: dict, folder: Path, wheels: Path) -> dict:
    "What pip would do. Raises CalledProcessError if it finds no solution."
    python, how = interpreter(version), []
    if not python:
        python, how = (
            sys.executable,
            [
                "--python-version",
                version,
                "--only-binary=:all:",
                "--target",
                str(folder / "target"),
            ],
        )
        claimed_wheel(wheels, packages)
        how += [f"{name}=={version}" for name, version in packages.items()]
    env = environment(folder, python, packages)
    report = folder / "report.json"
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(env),
        "install",
        "-qq",
        "--dry-run",
        "--report",
        str(report),
        "--find-links",
        str(wheels),
        *how,
        f"mtrag_nb[{EXTRAS}] @ {wheel.as_uri()}",
    ]
    subprocess.run(command, check=True)
    there = {plain(k): v for k, v in packages.items()}
    found = {
        plain(i["metadata"]["name"]): i["metadata"]["version"]
        for i in json.loads(report.read_text())["install"]
    }
    found = {n: v for n, v in found.items() if n != "mtrag-nb" and there.get(n) != v}
    return {
        "python": version,
        "interpreter": "its own" if not how else "foreign: markers are this Python's",
        "there": len(packages),
        "added": {n: v for n, v in sorted(found.items()) if n not in there},
        "changed": {n: [there[n], v] for n, v in sorted(found.items()) if n in there},
    }


def main() -> int:
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--out", type=Path, default=ROOT / "data" / "measured" / "platforms.json")
    ap.add_argument("names", nargs="*", help=f"of {', '.join(TARGETS)} (default: all)")
    args, failed = ap.parse_args(), []
    found = json.loads(args.out.read_text()) if args.out.exists() else {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        tmp = Path(tmp)
        wheel, wheels = build(tmp), sdist_wheels(tmp / "wheels")
        for n, name in enumerate(args.names or TARGETS):
            version, listed = TARGETS[name]
            packages = claimed(listed)
            try:
                found[name] = resolve(wheel, version, packages, tmp / f"env{n}", wheels)
            except subprocess.CalledProcessError:
                failed.append(name)
                continue
            said = found[name]
            args.out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
            broken = sorted(set(KEPT) & set(said["changed"]))
            failed += [f"{name} changes {', '.join(broken)}"] * bool(broken)
            print(
                f"{name}: {said['there']} packages there, {len(said['added'])} added, {len(said['changed'])} changed "
                + ", ".join(f"{k} {a} -> {b}" for k, (a, b) in said["changed"].items()),
                flush=True,
            )
    print(
        "\n".join(
            [
                *(f"FAIL {f}" for f in failed),
                f"{len(args.names or TARGETS) - len(failed)} passed, {len(failed)} failed",
            ]
        )
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
