"""Check that notebooks, package and README are in step.

Cleans the notebooks, exports them and writes the README; fails if that left anything to commit; if a module has no
notebook, or two (nbdev would let the second overwrite the first); or if a notebook is not called as its module is: the room
`nbs/5_systems/00_stages.ipynb` writes `mtrag_nb/systems/stages.py`.
"""

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import anywhere

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def written(nbs: Path) -> dict:
    "Notebook (its path below `nbs`) -> the modules that it writes, dotted."
    rooms = {}
    for path in sorted(
        p for p in nbs.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts
    ):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = "\n".join(
            "".join(c["source"]) for c in cells if c["cell_type"] == "code"
        )
        named = re.findall(r"^#\|\s*default_exp\s+(\S+)", code, re.M)
        rooms[path.relative_to(nbs).as_posix()] = named
    return rooms


def modules(package: Path) -> set:
    "The modules of a package, dotted, without what nbdev writes by itself."
    files = (
        p.relative_to(package).with_suffix("").parts for p in package.rglob("*.py")
    )
    own = ("__init__", "_modidx")
    return {".".join(parts) for parts in files if parts[-1] not in own}


def plain_name(notebook: str) -> str:
    "A notebook without its numbers, dotted: the name of its module, and of its page in the documentation."
    parts = notebook.removesuffix(".ipynb").split("/")
    return ".".join(re.sub(r"^\d+[a-z]?_", "", part) for part in parts)


def misfits(
    rooms: dict,  # notebook -> the modules that it writes
    there: set,  # the modules of the package
) -> list:
    "What does not fit, in words."
    writers, pages, found = defaultdict(list), defaultdict(list), []
    for notebook, names in rooms.items():
        pages[plain_name(notebook)].append(notebook)
        for name in names:
            writers[name].append(notebook)
            if name != plain_name(notebook):
                found.append(
                    f"{notebook} writes {name}: its name says {plain_name(notebook)}"
                )
    several = [(m, " and ".join(w)) for m, w in writers.items() if len(w) > 1]
    found += [f"module {m} is written by {w}" for m, w in several]
    several = [(page, " and ".join(n)) for page, n in pages.items() if len(n) > 1]
    found += [f"{n} have one name without their numbers: {page}" for page, n in several]
    found += [f"module {m} has no notebook" for m in sorted(there - set(writers))]
    lost = sorted(set(writers) - there)
    return found + [f"notebook {writers[m][0]} wrote no module {m}" for m in lost]


def problems() -> list:
    for command in ("clean", "export"):
        run(shutil.which(f"nbdev-{command}") or f"nbdev_{command}")
    run(sys.executable, "tools/readme.py")
    kept = ("nbs", "mtrag_nb", "README.md")
    left = run("git", "status", "--porcelain", "--", *kept).splitlines()
    found = misfits(written(ROOT / "nbs"), modules(ROOT / "mtrag_nb"))
    lacks = "lacks its badge, its first cell or the right address: `make address`"
    found += [
        f"{p.relative_to(ROOT)} {lacks}" for p in anywhere.undressed(ROOT / "nbs")
    ]
    return found + [
        f"not in step with its notebook, or not committed: {line[3:]}" for line in left
    ]


if __name__ == "__main__":
    found = problems()
    print("\n".join(found) if found else "notebooks, package and README are in step")
    sys.exit(bool(found))
