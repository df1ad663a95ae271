"""Write README.md from nbs/index.ipynb (nbdev's own way needs Quarto, which pip cannot install).

  python tools/readme.py

The table of rooms is written anew into that notebook first, from the titles and purposes of all others.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "1_core": "what all share; no model, no graph, no store",
    "2_data": "formats in and out",
    "3_models": "anything with weights",
    "4_search": "from text to ranked contexts",
    "5_systems": "ways to answer",
    "6_runs": "making records",
    "7_evaluate": "numbers from records",
    "8_show": "pages and figures, computing nothing",
    "9_studies": "measured once, by a `make` target each",
    "app": "what a user starts",
    "tour": "to read; exports nothing",
}
PLACE = re.compile(r"(<!-- rooms[^>]*-->).*?(<!-- end of rooms -->)", re.S)


def head(path: Path) -> tuple:
    "Title and purpose of a notebook, from its first cell: a heading and a quotation."
    cell = json.loads(path.read_text(encoding="utf-8"))["cells"][0]
    found = re.match(r"# (.+?)\s*\n\s*> (.+?)\s*(\n|$)", "".join(cell["source"]))
    if not found:
        raise SystemExit(
            f"{path.relative_to(ROOT)}: its first cell is not a title and a quoted purpose"
        )
    return found[1], found[2]


def rooms(nbs: Path) -> str:
    "All notebooks in folders as a table: a bold line a folder, a line a room."
    lines = ["| room | what it is for |", "|---|---|"]
    folders = {p.parent.name for p in nbs.glob("*/*.ipynb")} - {".ipynb_checkpoints"}
    if unknown := folders - FOLDERS.keys():
        raise SystemExit(f"tools/readme.py has no word for {', '.join(sorted(unknown))}")
    for folder in (f for f in FOLDERS if f in folders):
        lines.append(f"| **{folder}** | *{FOLDERS[folder]}* |")
        for path in sorted((nbs / folder).glob("*.ipynb")):
            title, purpose = (text.replace("|", "\\|") for text in head(path))
            lines.append(f"| [{title}](../nbs/{folder}/{path.name}) | {purpose} |")
    return "\n".join(lines)


def with_rooms(nb: dict, table: str) -> dict:
    "The notebook, the table between its two marks."
    places = [
        c
        for c in nb["cells"]
        if c["cell_type"] == "markdown" and PLACE.search("".join(c["source"]))
    ]
    if len(places) != 1:
        raise SystemExit(
            f"nbs/index.ipynb has {len(places)} cells with the marks of the table of rooms, not one"
        )
    places[0]["source"] = PLACE.sub(
        lambda m: f"{m[1]}\n\n{table}\n\n{m[2]}", "".join(places[0]["source"])
    ).splitlines(keepends=True)
    return nb


def markdown(nb: dict) -> str:
    "The notebook as GitHub markdown: hidden cells dropped, code fenced (left out with `#| echo: false`), text outputs below it."
    out = ["<!-- Written by tools/readme.py from nbs/index.ipynb: edit that notebook. -->"]
    for cell in nb["cells"]:
        source = "".join(cell["source"])
        flags = set(re.findall(r"^#\|\s*(\w+)", source, re.M))
        if flags & {"hide", "default_exp", "export"}:
            continue
        if cell["cell_type"] == "markdown":
            out.append(
                re.sub(r'(\]\(|=")\.\./', r"\1", source)
            )  # links of the notebook start in nbs/, those of the README at the top
            continue
        if not re.search(r"^#\|\s*echo:\s*false", source, re.M):
            code = re.sub(r"^#\|.*\n?", "", source, flags=re.M).strip()
            out.append(f"```python\n{code}\n```")
        for o in cell["outputs"]:
            text = "".join(o.get("text", o.get("data", {}).get("text/plain", "")))
            if text:
                out.append("```\n" + text.rstrip() + "\n```")
    return "\n\n".join(out) + "\n"


def main() -> None:
    path = ROOT / "nbs" / "index.ipynb"
    nb = with_rooms(json.loads(path.read_text(encoding="utf-8")), rooms(ROOT / "nbs"))
    path.write_text(
        json.dumps(nb, sort_keys=True, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )  # as nbdev writes it
    (ROOT / "README.md").write_text(markdown(nb), encoding="utf-8")


if __name__ == "__main__":
    main()
