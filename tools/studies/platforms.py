"""What installing this project adds and changes on Colab, on Kaggle and for each Python, as pip resolves it.

pip resolves without installing (`--dry-run --report`) in an environment that claims a platform by folders with a name and a
version each, as pip sees an installed package. The claimed packages have no requirements of their own, so that what they would
like to have is not asked. Each Python is asked through an interpreter of its own, but for one that is not here: it is resolved
from wheels alone, with the markers of the Python that asks. Nothing large is fetched: pip reads metadata, and torch is always
there already. The lists are in `tools/platforms`, with where they come from.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from mtrag_nb.core.files import write_json
from mtrag_nb.core.html import text_table
from tools.study import kept_in

KEPT = (
    "torch",
    "numpy",
    "ipython",
    "ipykernel",
)  # what a running notebook has imported already


def platform_table(
    platforms: Mapping[str, Mapping],  # place -> python, there, added, changed
) -> str:
    "What pip would do at each place."
    rows = [
        (name, f["python"], f["there"], len(f["added"]), len(f["changed"]))
        for name, f in sorted(platforms.items())
    ]
    return text_table(["", "Python", "packages there", "added", "changed"], rows)


def disturbed(platforms: Mapping[str, Mapping]) -> list[str]:
    "The places where something is changed that a running notebook has imported."
    return [
        f"{name}: {k}"
        for name, f in platforms.items()
        for k in KEPT
        if k in f["changed"]
    ]


EXTRAS = "gpu,eval"  # what the notebooks' first cell asks for
TORCH = {"torch": "2.11.0"}
TARGETS = {  # name -> Python, list of what is there
    "Colab": ("3.13", "colab"),
    "Kaggle": ("3.12", "kaggle"),
    **{f"Python {v}": (v, "") for v in ("3.11", "3.12", "3.13", "3.14")},
}


def pip_name(name: str) -> str:
    "A package's name as pip compares it."
    return name.lower().replace("_", "-").replace(".", "-")


def claimed(name: str) -> dict:
    "The packages of a platform: name -> version."
    if not name:
        return TORCH
    lines = Path(f"tools/platforms/{name}.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def interpreter(version: str) -> str:
    'A Python of that version, or "".'
    pyenv = sorted(
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(
            f"versions/{version}.*/bin/python"
        )
    )
    return str(pyenv[-1]) if pyenv else shutil.which(f"python{version}") or ""


def claimed_environment(folder: Path, python: str, packages: dict) -> Path:
    "An environment that claims the packages: its Python."
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    for name, version in packages.items():
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        (info / "INSTALLER").write_text("pip\n")
        (info / "RECORD").write_text("")
    return folder / "bin" / "python"


def sdist_wheels(folder: Path) -> Path:
    "Wheels of what has none on the index (rouge-score is pure Python): pip resolves for another Python from wheels alone."
    pip = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "-w", str(folder)]
    subprocess.run([*pip, "rouge-score"], check=True)
    return folder


def claimed_wheel(folder: Path, packages: dict) -> None:
    "Wheels with nothing in them but a name and a version: for a Python that is not here, pip looks at no environment."
    for name, version in packages.items():
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as z:
            z.writestr(
                f"{info}/METADATA",
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            )
            z.writestr(
                f"{info}/WHEEL",
                "Wheel-Version: 1.0\nGenerator: resolve\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            z.writestr(f"{info}/RECORD", "")


def resolve(
    wheel: Path, version: str, packages: dict, folder: Path, wheels: Path
) -> dict:
    "What pip would do. Raises CalledProcessError if it finds no solution."
    python = interpreter(version)
    how = []
    if not python:
        python = sys.executable
        target = str(folder / "target")
        claimed_wheel(wheels, packages)
        how = ["--python-version", version, "--only-binary=:all:", "--target", target]
        how += [f"{name}=={version}" for name, version in packages.items()]
    env = claimed_environment(folder, python, packages)
    report = folder / "report.json"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(env),
        "install",
        "-qq",
        "--dry-run",
    ]
    how += ["--report", str(report), "--find-links", str(wheels)]
    subprocess.run([*pip, *how, f"mtrag_nb[{EXTRAS}] @ {wheel.as_uri()}"], check=True)
    there = {pip_name(k): v for k, v in packages.items()}
    found = {
        pip_name(i["metadata"]["name"]): i["metadata"]["version"]
        for i in json.loads(report.read_text())["install"]
    }
    found = {n: v for n, v in found.items() if n != "mtrag-nb" and there.get(n) != v}
    return {
        "python": version,
        "interpreter": "its own"
        if interpreter(version)
        else "foreign: markers are this Python's",
        "there": len(packages),
        "added": {n: v for n, v in sorted(found.items()) if n not in there},
        "changed": {n: [there[n], v] for n, v in sorted(found.items()) if n in there},
    }


def measure_platforms(out: str | Path = "data/measured/platforms.json") -> None:
    "What pip would do at every place, online. Raises CalledProcessError where it finds no solution."
    from tests.programs.wheel import build

    found = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        wheel = build(Path(tmp))
        wheels = sdist_wheels(Path(tmp) / "wheels")
        for n, (name, (version, listed)) in enumerate(TARGETS.items()):
            found[name] = resolve(
                wheel, version, claimed(listed), Path(tmp) / f"env{n}", wheels
            )
            write_json(out, found)
    print(platform_table(found), *disturbed(found), sep="\n")


def show_platforms() -> None:
    "Print what is there, added and changed at each place, and the changes on the two platforms."
    platforms = kept_in("platforms")
    print(platform_table(platforms))
    for name in ("Colab", "Kaggle"):
        changed = platforms[name]["changed"].items()
        moves = [f"{k} {old} -> {new}" for k, (old, new) in changed]
        print(f"{name}: {', '.join(moves)}")


def check_findings() -> None:
    "Assert what the study says of platforms, of the results that are kept."
    platforms = kept_in("platforms")
    assert not disturbed(platforms)
    assert {f["python"] for f in platforms.values()} == {
        f"3.{n}" for n in range(11, 15)
    }
    assert (platforms["Colab"]["there"], platforms["Kaggle"]["there"]) == (703, 727)
    assert "torch" not in {name for f in platforms.values() for name in f["added"]}
    assert set(platforms["Colab"]["changed"]) == {"nltk", "setuptools"}
    assert "transformers" in platforms["Kaggle"]["changed"]
    added = set(platforms["Colab"]["added"])
    assert {"qdrant-client", "llama-index-core", "bitsandbytes"} <= added
