"""Take the state of widgets out of notebooks that JupyterLab saved; the static pages beside it stay.

  python tools/strip_widgets.py NOTEBOOK ...

`tools/run_notebooks.py --save` keeps no such state. JupyterLab, asked to save, keeps a reference to a widget that dies with
the kernel, and would later show *model not found* in the place of the page.
"""

import json
import sys
from pathlib import Path

from outputs import WIDGET_VIEW


def strip_widgets(path: Path) -> int:
    "Take widget state out of a notebook, and widget references out of outputs that have an HTML twin; how many there were."
    nb = json.loads(path.read_text(encoding="utf-8"))
    changed = int(nb["metadata"].pop("widgets", None) is not None)
    for output in (o for cell in nb["cells"] for o in cell.get("outputs", [])):
        if "text/html" in output.get("data", {}):
            changed += output["data"].pop(WIDGET_VIEW, None) is not None
    if changed:
        path.write_text(json.dumps(nb, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return changed


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        print(f"{name}: {strip_widgets(Path(name))} changed")
