"""Check that notebooks, package and README are in step.

Cleans the notebooks, exports them, writes the README, and fails if that left anything to commit, if a module has no
notebook, or if two notebooks write the same module (nbdev would let the second overwrite the first).
"""
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def problems() -> list:
    run("nbdev_clean")
    run("nbdev_export")
    run(sys.executable, "tools/readme.py")
    found, writers = [], defaultdict(list)
    for path in sorted((ROOT / "nbs").glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for name in re.findall(r"^#\|\s*default_exp\s+(\S+)", "".join(cell["source"]), re.M):
                writers[name].append(path.name)
    found += [f"module {m} is written by {' and '.join(w)}" for m, w in writers.items() if len(w) > 1]
    modules = {p.stem for p in (ROOT / "mtrag_nb").glob("*.py")} - {"__init__", "_modidx"}
    found += [f"module {m} has no notebook" for m in sorted(modules - set(writers))]
    found += [f"notebook {writers[m][0]} wrote no module {m}" for m in sorted(set(writers) - modules)]
    left = run("git", "status", "--porcelain", "--", "nbs", "mtrag_nb", "README.md").splitlines()
    found += [f"not in step with its notebook, or not committed: {line[3:]}" for line in left]
    return found


if __name__ == "__main__":
    found = problems()
    print("\n".join(found) if found else "notebooks, package and README are in step")
    sys.exit(bool(found))
