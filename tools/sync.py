"""Check that notebooks, package and README are in step.

Cleans the notebooks, exports them, writes the README and, from the table in CHANGELOG.md, where names of 1.0.0 are now; fails if that left anything to commit; if a module has no notebook,
or two (nbdev would let the second overwrite the first); or if a notebook is not called as its module is: the room
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
    for path in sorted(p for p in nbs.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts):
        code = [
            "".join(c["source"])
            for c in json.loads(path.read_text(encoding="utf-8"))["cells"]
            if c["cell_type"] == "code"
        ]
        rooms[path.relative_to(nbs).as_posix()] = [
            m for source in code for m in re.findall(r"^#\|\s*default_exp\s+(\S+)", source, re.M)
        ]
    return rooms


def modules(package: Path) -> set:
    "The modules of a package, dotted, without what nbdev writes by itself."
    files = (p.relative_to(package).with_suffix("").parts for p in package.rglob("*.py"))
    return {
        ".".join(parts) for parts in files if parts[-1] not in ("__init__", "_modidx", "_moved")
    }


def plain_name(notebook: str) -> str:
    "A notebook without its numbers, dotted: the name of its module, and of its page in the documentation."
    return ".".join(
        re.sub(r"^\d+[a-z]?_", "", part) for part in notebook.removesuffix(".ipynb").split("/")
    )


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
                found.append(f"{notebook} writes {name}: its name says {plain_name(notebook)}")
    found += [
        f"module {m} is written by {' and '.join(w)}" for m, w in writers.items() if len(w) > 1
    ]
    found += [
        f"{' and '.join(n)} have one name without their numbers: {page}"
        for page, n in pages.items()
        if len(n) > 1
    ]
    found += [f"module {m} has no notebook" for m in sorted(there - set(writers))]
    return found + [
        f"notebook {writers[m][0]} wrote no module {m}" for m in sorted(set(writers) - there)
    ]


def moved(changelog: str) -> dict:
    "The rows of the table of names that moved: command, room or `room.name` of 1.0.0 -> what takes its place."
    found, rows = {}, changelog.partition("| 1.0.0 | 2.0.0 |")[2].partition("\n\n")[0]
    for old, new in re.findall(r"^\| (`.*?) \| (.*?) \|$", rows, re.M):
        first, *more = re.findall(r"`(.+?)`", old)
        room = first.rpartition(".")[0]
        found |= {first: new, **{f"{room}.{name}": new for name in more}}
    return found


def problems() -> list:
    for command in ("clean", "export"):
        run(shutil.which(f"nbdev-{command}") or f"nbdev_{command}")
    run(sys.executable, "tools/readme.py")
    rows = moved((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")).items()
    table = "".join(f"    {json.dumps(old)}: {json.dumps(new)},\n" for old, new in rows)
    text = f'"Where names of 1.0.0 are now. Written by tools/sync.py from CHANGELOG.md."\n\nMOVED = {{\n{table}}}\n'
    (ROOT / "mtrag_nb" / "_moved.py").write_text(text, encoding="utf-8")
    left = run("git", "status", "--porcelain", "--", "nbs", "mtrag_nb", "README.md").splitlines()
    found = misfits(written(ROOT / "nbs"), modules(ROOT / "mtrag_nb"))
    found += [
        f"{path.relative_to(ROOT)} lacks its badge, its first cell or the right address: `make address`"
        for path in anywhere.undressed(ROOT / "nbs")
    ]
    return found + [f"not in step with its notebook, or not committed: {line[3:]}" for line in left]


if __name__ == "__main__":
    found = problems()
    print("\n".join(found) if found else "notebooks, package and README are in step")
    sys.exit(bool(found))
