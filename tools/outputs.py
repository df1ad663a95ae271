"""What the cells of a notebook show, and whether what is kept in the file is still so.

Compared is text: stdout, the text of results and errors, HTML without its tags (what a reader of the page sees; its text twin
is often only the name of a class). Pictures are not, tests assert what they plot. Two texts are the same if they differ in
nothing but the width of columns and the last printed digit of a decimal fraction; whole numbers and words must be equal.

  python tools/outputs.py NOTEBOOK ...     takes the state of widgets out of notebooks that JupyterLab saved

`tools/run_notebooks.py --save` keeps no such state. JupyterLab, asked to save, keeps a reference to a widget that dies with
the kernel, and would later show *model not found* in the place of the page.
"""

import difflib
import itertools
import json
import os
import re
import sys
from html import unescape
from pathlib import Path

CLONE = f"{Path(__file__).resolve().parents[1]}/"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
# A decimal fraction; versions (1.2.3) and names (v1.5) are words.
NUMBER = re.compile(
    r"(?<![\w.])[-+−]?(?:\d[\d,]*(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)|\.\d+)(?!\d|\.\d)"
)
COLUMNS = re.compile(
    r"[ \t]+|(?<=[-=─])[-=─]{2,}"
)  # what grows with the numbers in a table
ADDRESS = re.compile(r"( object)? at 0x[0-9a-fA-F]+")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_BLOCKS = "p|div|tr|table|details|summary|h[1-4]|li|ul|ol|pre|br|section|figure|figcaption|blockquote"
BLOCKS = re.compile(rf"</?(?:{_BLOCKS})\b[^>]*>")


def directives(source: str) -> dict:
    "The directives at the head of a cell: `#| slow_because: many turns` gives {'slow_because': 'many turns'}."
    lines = source.splitlines()
    head = itertools.takewhile(
        lambda line: line.startswith("#|") or not line.strip(), lines
    )
    return {
        m[1]: m[2].strip()
        for line in head
        if (m := re.match(r"#\|\s*(\w+)\s*:?(.*)", line))
    }


def worth_keeping(outputs: list) -> list:
    "The outputs that a page keeps: no warnings (they carry paths), no progress bars, no widget state, no counts; stdout in one piece, paths from the clone on."
    kept = []
    for o in outputs:
        if o["output_type"] == "stream" and o["name"] == "stderr":
            continue
        if o["output_type"] == "stream":
            o["text"] = o["text"].replace(CLONE, "")
        if (
            o["output_type"] == "stream"
            and kept
            and kept[-1]["output_type"] == "stream"
        ):
            kept[-1]["text"] += o["text"]
            continue
        if "execution_count" in o:
            o["execution_count"] = None
        if WIDGET_VIEW in o.get("data", {}):
            if "text/html" not in o["data"]:
                continue  # a progress bar
            del o["data"][WIDGET_VIEW]
        kept.append(o)
    return kept


def html_text(html: str) -> str:
    "The words of a page, a line for each block."
    html = re.sub(r"<(style|script)\b.*?</\1>", "", " ".join(html.split()), flags=re.S)
    # a block that fills a cell (it keeps the text on the left on GitHub) starts no line
    html = re.sub(r"(<t[dh]\b[^>]*>)(?:<div\b[^>]*>)+", r"\1", html)
    html = BLOCKS.sub("\n", re.sub(r"(?:</div>)+(?=</t[dh]>)", "", html))
    text = unescape(re.sub(r"<[^<>]*>", "", re.sub(r"<t[dh]\b[^>]*>", " ", html)))
    return "\n".join(
        " ".join(line.split()) for line in text.split("\n") if line.strip()
    )


def shown(outputs: list) -> list:
    "The lines of text in a cell's outputs; addresses of objects are left out."
    texts = []
    for o in outputs:
        if o["output_type"] == "error":
            texts.append(f"{o['ename']}: {o['evalue']}")
        data = o.get("data", {})
        texts += [
            o.get("text", ""),
            data.get("text/plain", ""),
            data.get("text/markdown", ""),
        ]
        texts.append(html_text("".join(data.get("text/html", ""))))
    plain = (COLOURS.sub("", ADDRESS.sub("", "".join(text))) for text in texts)
    return [
        line.rstrip() for text in plain for line in text.splitlines() if line.strip()
    ]


def _close(a: str, b: str) -> bool:
    "Two printed numbers: no further apart than one unit of the last digit, or (where many digits are printed) a millionth."

    def value(text):
        return float(text.replace(",", "").replace("−", "-"))

    def unit(text):
        mantissa, _, power = text.partition("e")
        return 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))

    x, y = value(a), value(b)
    return abs(x - y) <= max(1.0001 * max(unit(a), unit(b)), 1e-6 * max(abs(x), abs(y)))


def same(kept: str, fresh: str) -> bool:
    "Whether two lines say the same."
    if kept == fresh:
        return True
    words = [
        [COLUMNS.sub(" ", w).strip() for w in NUMBER.split(line)]
        for line in (kept, fresh)
    ]
    numbers = NUMBER.findall(kept), NUMBER.findall(fresh)
    return words[0] == words[1] and all(map(_close, *numbers))


def difference(kept: list, fresh: list, most: int = 12, width: int = 400) -> str:
    'A short diff of what is kept and what came now, both lines of text, long ones from shortly before they differ; "" if they say the same.'
    if len(kept) == len(fresh):
        fresh = [k if same(k, f) else f for k, f in zip(kept, fresh)]
    begins = {}  # line -> where it is shown from
    for pair in zip(kept, fresh):
        begins |= dict.fromkeys(
            pair, max(0, len(os.path.commonprefix(pair)) - width // 2)
        )
    diff = [*difflib.unified_diff(kept, fresh, lineterm="", n=0)][
        2:
    ]  # without names of files
    lines = [line for line in diff if not line.startswith("@@")]
    rest = [f"  ... {len(lines) - most} more lines"] if len(lines) > most else []
    shown = [(x[0], x[1:][begins.get(x[1:], 0) :]) for x in lines[:most]]
    return "\n".join([*(f"{sign} {text[:width]}" for sign, text in shown), *rest])


def stale(cells: list, kept: list, ran, real: bool) -> list:
    """The cells whose kept outputs are not what they show now, each told in some lines.

    `cells` hold the fresh outputs, `kept` the old ones of each; `ran(directives)` says whether a cell ran, `real` whether the
    official data were there. A cell marked `#| varies` must only show something if something is kept, and the reverse.
    """
    found = []
    for n, (cell, before) in enumerate(zip(cells, kept)):
        if cell["cell_type"] != "code":
            continue
        marks = directives(cell["source"])
        if not ran(marks) or "real" in marks and not real:
            continue
        old, new = shown(worth_keeping(before)), shown(worth_keeping(cell["outputs"]))
        if "varies" in marks and bool(old) == bool(new):
            continue
        if told := difference(old, new):
            code = re.sub(r"(?m)^#\|.*\n|^\s+", "", cell["source"])
            found.append(f"cell {n} ({code.partition(chr(10))[0][:70]}):\n{told}")
    return found


def strip_widgets(path: Path) -> int:
    "Take widget state out of a notebook, and widget references out of outputs that have an HTML twin; how many there were."
    nb = json.loads(path.read_text(encoding="utf-8"))
    changed = int(nb["metadata"].pop("widgets", None) is not None)
    for output in (o for cell in nb["cells"] for o in cell.get("outputs", [])):
        if "text/html" in output.get("data", {}):
            changed += output["data"].pop(WIDGET_VIEW, None) is not None
    if changed:
        path.write_text(
            json.dumps(nb, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return changed


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {strip_widgets(Path(name))} changed")
