"What is left of a page without styles, as GitHub shows it: for the tests of views."

import re
from html.parser import HTMLParser


def unstyled(page: str) -> str:
    "What GitHub leaves of a page's styles: nothing."
    page = re.sub(r"<style\b.*?</style>", "", page, flags=re.S)
    return re.sub(r"\s(?:style|class)=(?:'[^']*'|\"[^\"]*\")", "", page)


_WITHIN = "span b i code bdi a small sup mark ins del".split()  # elements within a line


class _Tables(HTMLParser):
    "The cells of tables, each with the heads of its row and its column."

    def __init__(self, page: str):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.handle_data("" if tag in _WITHIN else " ")
        if tag == "table":
            self.open.append({"columns": [], "row": "", "words": []})
        if tag == "tr" and self.open:
            self.open[-1].update(row="", at=-1)
        if tag in ("th", "td") and self.open:
            at, scope = self.open[-1]["at"] + 1, dict(attrs).get("scope")
            self.open[-1].update(words=[], at=at, scope=scope)

    def handle_endtag(self, tag):
        self.handle_data("" if tag in _WITHIN else " ")
        if tag == "table":
            self.open.pop()
        if tag not in ("th", "td") or not self.open:
            return
        t, words = self.open[-1], " ".join("".join(self.open[-1]["words"]).split())
        columns = dict(t["columns"])
        if tag == "td":
            self.cells.append((t["row"], columns.get(t["at"], ""), words))
        elif t["scope"] == "row":
            t["row"] = words
        elif t["scope"] == "col":
            t["columns"].append((t["at"], words))

    def handle_data(self, data):
        for t in self.open:
            t["words"].append(data)


def labelled(
    page: str,
) -> list[tuple[str, str, str]]:  # head of its row, head of its column, words
    "Every cell of the tables of a page, the inner tables first; a head counts if it says by `scope` what it heads."
    return _Tables(page).cells


def run_together(page: str) -> list[str]:  # the places, with what stands around them
    "Where two texts that only a style would keep apart run into each other: a word, inline tags, a word."
    inline_tags = rf"(?:</?(?:{'|'.join(_WITHIN[:8])})\b[^>]*>)+"
    page = re.sub(r"</?(?:mark|ins|del)\b[^>]*>", "", page)
    near = re.finditer(rf"([^<>\s]+)({inline_tags})([^<>\s]+)", page)

    def meets(a, b):
        return (a[-1].isalnum() or a[-1] in ".,;:!?") and (
            b[0].isalnum() or b[0] in "✓▲✗◆●◐○▶"
        )

    def ends(a):
        return re.sub(r"&[#\w]+;$", "'", a)  # an entity is punctuation

    return [f"{m[1]}|{m[3]}" for m in near if meets(ends(m[1]), m[3])]
