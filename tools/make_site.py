"""Build the site into _docs: the notebooks as they are kept, the API from the source, a search, llms.txt. Nothing is run or imported.

  python tools/make_site.py [OUT]     (`make site` has what it needs: Sphinx, in an environment of its own)

What Sphinx reads is laid out in OUT/../_site as in the repository, so that the links between files hold. docs/conf.py is Sphinx's
configuration; the pages of docs/ are those that are no notebooks.
"""

import ast
import json
import re
import shutil
import sys
from pathlib import Path

import anywhere
import sync
from outputs import directives
from readme import FOLDERS, ROOT, head

TITLES = {
    "tour": "Tour",
    **{f: f.partition("_")[2] or f for f in FOLDERS if f != "tour"},
}
COPIED = ".github docs figures mtrag_nb settings.ini README.md CONTRIBUTING.md CHANGELOG.md CITATION.cff".split()
PREFACE = "\n\n```{{autolink-preface}}\n:level: file\n\n{imports}\n```\n"
TREE = "\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"
# Plots are drawn on white: turned dark, with their hues kept. Nesting, so that it stands once for both ways to a dark page.
INVERTED = ".cell_output img{filter:invert(.93) hue-rotate(180deg)}"
DARK = f"{{{INVERTED} [src*=page-]{{filter:brightness(.8)}}}}"
# Names, punctuation and blanks have the colour of all code: their marks are a fifth of a page.
PLAIN = re.compile(r'<span class="[npw]">([^<]*)</span>')
MENDED = {  # what axe-core finds in the theme's pages -> without it
    '<aside class="sidebar-drawer"': '<aside aria-label="Pages" class="sidebar-drawer"',
    '<aside class="toc-drawer"': '<aside aria-label="On this page" class="toc-drawer"',
    ' role="switch"': "",
    ' role="heading"': ' role="heading" aria-level="2"',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
    "<th></th>": "<td></td>",
    '<th scope="col" style="text-align:left;padding:.15em .6em"></th>': "<td></td>",  # core.html's
    '<div class="output text_html">': '<div tabindex="0" class="output text_html">',
    "</head>": "<style>.text_html{overflow-x:auto}table.docutils{margin-left:0}"
    f"body[data-theme=dark] {DARK} @media(prefers-color-scheme:dark){{body[data-theme=auto] {DARK}}}"
    "</style></head>",
    '<div id="search-results">': '<h1>Search</h1>\n<div id="search-results">',
}


def linked(text: str) -> str:
    "A text with Colab's badge, which is a picture from elsewhere, as a link, with links to pages, and with pictures that follow the page's theme."
    both = (
        r'<img class="only-light" loading="lazy"\2 src="\3"\4>'
        r'<img class="only-dark" loading="lazy"\2 src="\1"\4>'
    )
    picture = (
        r'<picture><source .*?srcset="(.*?)"><img([^>]*?) src="(.*?)"(.*?)></picture>'
    )
    text = re.sub(picture, both, text).replace("<img src=", '<img loading="lazy" src=')
    text = re.sub(r'(<a href="nbs/[^"]+)\.ipynb"', r'\1.html"', text)
    return re.sub(r"\[!\[Open In Colab\].*?\]\(", "[Open in Colab](", text)


def imports_most(source: str) -> bool:
    "Whether most lines of a cell are imports: the site folds it."
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic
        return False
    found = [s for s in body if isinstance(s, (ast.Import, ast.ImportFrom))]
    return 2 * sum(s.end_lineno - s.lineno + 1 for s in found) > source.count("\n")


def shown(cell: dict) -> list[dict]:
    "A cell as the site shows it, in a list that is empty where it shows none: hidden cells, and what only nbdev reads, are left out."
    source = "".join(cell["source"])
    marks = directives(source)
    if marks.keys() & {"hide", "default_exp"}:
        return []
    tags = ["remove-input"] if marks.get("echo") == "false" else []
    if cell["cell_type"] == "code":
        source = re.sub(r"\A(#\|.*\n?|\s*\n)+", "", source)
        tags += ["hide-input"] if imports_most(source) else []
        data = (o.get("data", {}) for o in cell["outputs"])
        for html in (d["text/html"] for d in data if "text/html" in d):
            html[:] = [
                re.sub(r' href="#[^"]*"', "", line) for line in html
            ]  # excerpts of pages
    return [
        {
            **cell,
            "source": linked(source),
            "metadata": {**cell["metadata"], "tags": tags},
        }
    ]


def imports(nb: dict, modules: list[str]) -> str:
    "What the cells of a notebook import from the package, and what its module defines: so the names in it become links."
    code = "\n".join(
        "".join(c["source"]) for c in nb["cells"] if c["cell_type"] == "code"
    )
    found = set(
        re.findall(r"^from mtrag_nb\.[\w.]+ import (?:\([^)]*\)|.+)", code, re.M)
    )
    for name in modules:
        text = (ROOT / "mtrag_nb" / f"{name.replace('.', '/')}.py").read_text(
            encoding="utf-8"
        )
        if names := re.search(r"^__all__ = \[(.*?)\]", text, re.S | re.M):
            found.add(
                f"from mtrag_nb.{name} import {', '.join(ast.literal_eval(f'[{names[1]}]'))}"
            )
    return "\n".join(sorted(found))


def recorded_runs() -> str:
    "The recorded runs as a table: model, turns, seconds."
    rows = ["| run | model | turns | seconds |", "|---|---|---|---|"]
    for path in sorted((ROOT / "data" / "recorded").glob("*/manifest.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        turns, seconds = (
            sum(s[k] for s in run["sessions"]) for k in ("turns", "seconds")
        )
        cells = (
            path.parent.name,
            run["settings"]["chat"]["name"],
            str(turns),
            f"{seconds:.0f}",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def cards() -> str:
    "The run cards of data/cards as tables, one for each set of tasks."
    files, groups, tables = sorted(ROOT.glob("data/cards/*.json")), {}, []
    kept = [card for p in files for card in json.loads(p.read_text(encoding="utf-8"))]
    for card in sorted(kept, key=lambda c: -c["turns"]):
        groups.setdefault(card["tasks"], []).append(card)
    for tasks, group in groups.items():
        first = group[0]
        tables.append(
            f"\n## {first['turns']} turns of {first['conversations']} conversations\n\nTasks `{tasks}`.\n\n"
            "| run | right | undecided | failed | failed first at | K-precision | target recall |\n"
            "|---|---|---|---|---|---|---|"
        )
        tables += map(row, group)
    return "\n".join(tables)


def row(card: dict) -> str:
    "A run card as a row of its table."
    name = card["identity"]["system"]
    name = f"{card['run']} ({name})" if card["run"].startswith("sample") else name
    ends = (str(card["outcomes"].get(k, 0)) for k in ("right", "undecided", "failed"))
    stages = ", ".join(f"{k} {n}" for k, n in card["failed first at"].items())
    found = {m["name"]: m for m in card["measures"]}
    values = (shown_value(found.get(m)) for m in ("K-precision", "target recall"))
    return f"| {' | '.join([name, *ends, stages, *values])} |"


def shown_value(m: dict | None) -> str:
    if not m or m["value"] is None:
        return ""
    between = f" [{m['low']:.3f}, {m['high']:.3f}]" if m["low"] is not None else ""
    return f"{m['value']:.3f}{between}{', decides in it' if m['circular'] else ''}"


def _skill() -> str:
    "The ten tasks, as a section of llms.txt: without the lines at the head that agents' own tools read."
    text = (
        (ROOT / "docs" / "SKILL.md").read_text(encoding="utf-8").split("\n---\n", 1)[1]
    )
    place = f"]({anywhere.ADDRESS}/blob/{anywhere.CFG['branch']}"
    return re.sub(r"^#", "##", text, flags=re.M).replace("](..", place)


def lay_out(folder: Path) -> None:
    "Everything that Sphinx reads, and llms.txt."
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    caches = shutil.ignore_patterns(".pytest_cache", "__pycache__")
    for name in COPIED:
        how = {"ignore": caches} if (ROOT / name).is_dir() else {}
        (shutil.copytree if how else shutil.copy)(ROOT / name, folder / name, **how)
    (folder / "docs" / "conf.py").rename(folder / "conf.py")
    shutil.copytree(ROOT / "figures", folder / "extra" / "figures")  # for <picture>
    (folder / "README.md").write_text(
        linked((ROOT / "README.md").read_text(encoding="utf-8"))
    )
    index = ["```{include} README.md\n```\n"]
    llms = [f"# mtrag_nb\n\n> {anywhere.CFG['description']}\n", _skill()]
    written = sync.written(ROOT / "nbs")
    for name, title in TITLES.items():
        pages = [page for page in written if page.startswith(f"{name}/")]
        paths = "\n".join(f"nbs/{p}" for p in pages)
        index.append(TREE.format(title=title.capitalize(), pages=paths))
        llms.append(f"\n## {title.capitalize()}: {FOLDERS[name]}\n")
        for page in pages:
            nb = json.loads((ROOT / "nbs" / page).read_text(encoding="utf-8"))
            preface = PREFACE.format(imports=imports(nb, written[page]))
            nb["cells"] = [s for cell in nb["cells"] for s in shown(cell)]
            nb["cells"][0]["source"] += preface
            nb["metadata"].setdefault(
                "kernelspec", {"name": "python3", "display_name": "python3"}
            )
            (folder / "nbs" / page).parent.mkdir(parents=True, exist_ok=True)
            (folder / "nbs" / page).write_text(json.dumps(nb), encoding="utf-8")
            url = f"{anywhere.SITE}nbs/{page.removesuffix('.ipynb')}.html"
            called, purpose = head(ROOT / "nbs" / page)
            llms.append(f"- [{called}]({url}): {purpose}")
    own = sorted((folder / "docs").glob("*.md"))
    for page in own:
        text = page.read_text(encoding="utf-8").replace("{{ runs }}", recorded_runs())
        text = text.replace("](../README.md)", "](../index.md)")  # which holds it
        page.write_text(text.replace("{{ cards }}", cards()), encoding="utf-8")
    names = [p.relative_to(folder).as_posix() for p in own]
    llms.append("\n## Reference\n")
    for name in [*names, "CHANGELOG.md"]:
        title = re.search(
            r"^# (.+)", (folder / name).read_text(encoding="utf-8"), re.M
        )[1]
        llms.append(f"- [{title}]({anywhere.SITE}{name.removesuffix('.md')}.html)")
    pages = [
        "api/mtrag_nb/index",
        *names,
        "CONTRIBUTING",
        "CHANGELOG",
        "genindex",
    ]
    index.append(TREE.format(title="Reference", pages="\n".join(pages)))
    (folder / "index.md").write_text("".join(index), encoding="utf-8")
    (folder / "extra" / "llms.txt").write_text("\n".join(llms) + "\n", encoding="utf-8")
    rooms = {
        f"mtrag_nb.{m}": f"nbs/{page}"
        for page, modules in written.items()
        for m in modules
    }
    (folder / "rooms.json").write_text(json.dumps(rooms), encoding="utf-8")


def main() -> int:
    from sphinx.cmd.build import main as sphinx

    # codeautolink would import what it can find of the package, without what that needs
    sys.path[:] = [p for p in sys.path if Path(p).resolve() != ROOT]
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "_docs").resolve()
    lay_out(out.parent / "_site")
    status = sphinx(
        ["-q", "-j", "auto", "-b", "html", str(out.parent / "_site"), str(out)]
    )
    for path in out.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        for found, right in MENDED.items():
            page = page.replace(found, right)
        path.write_text(PLAIN.sub(r"\1", page), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
