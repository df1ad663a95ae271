"""Write README.md from nbs/index.ipynb (nbdev's own way needs Quarto, which pip cannot install).

python tools/readme.py
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
    "7_evaluation": "numbers from records",
    "8_show": "pages and figures, computing nothing",
    "app": "what a user starts",
    "serve": "documents of one's own, and the service over them",
    "9_studies": "measured once, by a `make` target each",
    "tour": "to read; exports nothing",
}


def head(path: Path) -> tuple:
    "Title and purpose of a notebook, from its first cell: a heading and a quotation."
    cell = json.loads(path.read_text(encoding="utf-8"))["cells"][0]
    found = re.match(r"# (.+?)\s*\n\s*> (.+?)\s*(\n|$)", "".join(cell["source"]))
    if not found:
        name = path.relative_to(ROOT)
        raise SystemExit(f"{name}: its first cell is not a title and a quoted purpose")
    return found[1], found[2]


def markdown(nb: dict) -> str:
    "The notebook as GitHub markdown: hidden cells dropped, code fenced (left out with `#| echo: false`), text outputs below it (as Markdown with `#| output: asis`)."
    out = [
        "<!-- Written by tools/readme.py from nbs/index.ipynb: edit that notebook. -->"
    ]
    for cell in nb["cells"]:
        source = "".join(cell["source"])
        flags = set(re.findall(r"^#\|\s*(\w+)", source, re.M))
        if flags & {"hide", "default_exp", "export"}:
            continue
        if cell["cell_type"] == "markdown":
            # links of the notebook start in nbs/, those of the README at the top
            out.append(re.sub(r'(\]\(|=")\.\./', r"\1", source))
            continue
        if not re.search(r"^#\|\s*echo:\s*false", source, re.M):
            code = re.sub(r"^#\|.*\n?", "", source, flags=re.M).strip()
            out.append(f"```python\n{code}\n```")
        for o in cell["outputs"]:
            text = "".join(o.get("text", o.get("data", {}).get("text/plain", "")))
            if text and "output" in flags:  # `#| output: asis`
                out.append(text.rstrip())
            elif text:
                out.append("```\n" + text.rstrip() + "\n```")
    return "\n\n".join(out) + "\n"


def main() -> None:
    nb = json.loads((ROOT / "nbs" / "index.ipynb").read_text(encoding="utf-8"))
    (ROOT / "README.md").write_text(markdown(nb), encoding="utf-8")


if __name__ == "__main__":
    main()
