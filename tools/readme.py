"""Write README.md from nbs/index.ipynb (nbdev's own way needs Quarto, which pip cannot install).

  python tools/readme.py
"""
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def markdown(nb: dict) -> str:
    "The notebook as GitHub markdown: hidden cells dropped, code fenced (left out with `#| echo: false`), text outputs below it."
    out = ["<!-- Written by tools/readme.py from nbs/index.ipynb: edit that notebook. -->"]
    for cell in nb["cells"]:
        source = "".join(cell["source"])
        flags = set(re.findall(r"^#\|\s*(\w+)", source, re.M))
        if flags & {"hide", "default_exp", "export"}:
            continue
        if cell["cell_type"] == "markdown":
            out.append(source.replace("](../", "]("))  # links and paths of the notebook start in nbs/, those of the README at the top
            continue
        if not re.search(r"^#\|\s*echo:\s*false", source, re.M):
            code = re.sub(r"^#\|.*\n?", "", source, flags=re.M).strip()
            out.append("```python\n" + code.replace('"../', '"') + "\n```")
        for o in cell["outputs"]:
            text = "".join(o.get("text", o.get("data", {}).get("text/plain", "")))
            if text:
                out.append("```\n" + text.rstrip() + "\n```")
    return "\n\n".join(out) + "\n"


if __name__ == "__main__":
    text = markdown(json.loads((ROOT / "nbs" / "index.ipynb").read_text(encoding="utf-8")))
    (ROOT / "README.md").write_text(text, encoding="utf-8")
