"""Documents made for a purpose: DOCX and PDF files whose headings and pages are known because they were put there."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from html import escape


def numbered_sentences(n: int, about: str = "The ferry", first: int = 1) -> str:
    "So many sentences, each with its number."
    said = "number {} leaves the harbour at seven and is back before night comes."
    return " ".join(f"{about} {said.format(i)}" for i in range(first, first + n))


def zip_of(
    files: Mapping[str, str | bytes],
) -> bytes:  # name inside the archive -> content
    "A ZIP archive."
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in files.items():
            z.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


_SCHEMAS = "http://schemas.openxmlformats.org"
_W = f"{_SCHEMAS}/wordprocessingml/2006/main"
_PACKAGE, _OFFICE = (
    f"{_SCHEMAS}/package/2006",
    f"{_SCHEMAS}/officeDocument/2006/relationships",
)
_LEVELS = {f"berschrift{n}": f"heading {n}" for n in (1, 2)}
WORD_STYLES = {"Title": "Title", **_LEVELS, "Heading3": "heading 3"}  # id -> name


def word_paragraph(
    text: str,
    style: str = "",  # an id of WORD_STYLES
    xml: str = "",  # runs after the text
) -> str:
    "A paragraph of a DOCX."
    look = f"<w:pPr><w:pStyle w:val='{style}'/></w:pPr>" if style else ""
    return f"<w:p>{look}<w:r><w:t xml:space='preserve'>{escape(text)}</w:t></w:r>{xml}</w:p>"


def word_table(*rows: Iterable[str]) -> str:
    "A table of a DOCX."
    cells = ("".join(f"<w:tc>{word_paragraph(c)}</w:tc>" for c in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def relationships(
    *links: tuple[str, str, str],
) -> str:  # id, kind, target; absolute: outside
    "The file of a DOCX that says what belongs to what."

    def outside(target):
        return " TargetMode='External'" if ":" in target else ""

    links = "".join(
        f"<Relationship Id='{i}' Type='{_OFFICE}/{kind}' Target='{target}'{outside(target)}/>"
        for i, kind, target in links
    )
    return f"<Relationships xmlns='{_PACKAGE}/relationships'>{links}</Relationships>"


def word_xml(root: str, *body: str) -> str:
    "An XML file of a DOCX."
    return f"<w:{root} xmlns:w='{_W}' xmlns:r='{_OFFICE}'>{''.join(body)}</w:{root}>"


def docx(
    *body: str,  # paragraphs and tables
    title: str = "",  # in the file's properties
    files: Mapping[
        str, str | bytes
    ] = {},  # added to those of a DOCX, or in their place
) -> bytes:
    "A DOCX file."
    styles = (
        f"<w:style w:type='paragraph' w:styleId='{i}'><w:name w:val='{name}'/></w:style>"
        for i, name in WORD_STYLES.items()
    )
    properties = f"xmlns:cp='{_PACKAGE}/metadata/core-properties' xmlns:dc='http://purl.org/dc/elements/1.1/'"
    parts = relationships(
        ("r1", "styles", "styles.xml"), ("r2", "footnotes", "footnotes.xml")
    )
    types = "<Default Extension='xml' ContentType='application/xml'/>"
    whole = {
        "[Content_Types].xml": f"<Types xmlns='{_PACKAGE}/content-types'>{types}</Types>",
        "_rels/.rels": relationships(("r1", "officeDocument", "word/document.xml")),
        "word/_rels/document.xml.rels": parts,
        "word/styles.xml": word_xml("styles", *styles),
        "word/document.xml": word_xml("document", "<w:body>", *body, "</w:body>"),
        "docProps/core.xml": f"<cp:coreProperties {properties}><dc:title>{escape(title)}</dc:title></cp:coreProperties>",
    }
    return zip_of({**whole, **files})


def pdf(
    blocks: Iterable[
        tuple[object, str]
    ],  # "title", "text", "page" or a heading's level; its text
    head: str = "",  # a line at the top of each page
    numbers: bool = False,  # page numbers at the bottom
    outline: bool = True,
) -> tuple[
    bytes, list[tuple[int, str, int]]
]:  # the file; level, title and page of each heading
    "A PDF file."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fpdf import FPDF
    made, truth = FPDF(), []
    made.set_creation_date(datetime(2000, 1, 1, tzinfo=timezone.utc))

    def write(text, size=10, style="", gap=4):
        made.set_font("Times", style, size)
        made.multi_cell(0, size / 2, text, new_x="LMARGIN", new_y="NEXT")
        made.ln(gap)

    def foot():
        made.set_y(-15)
        made.cell(0, 5, str(made.page_no()), align="C")

    if head:
        made.header = lambda: write(head, 9)
    if numbers:
        made.footer = foot
    made.set_margin(25)
    made.add_page()
    for kind, text in blocks:
        if kind == "page":
            made.add_page()
        elif kind in ("title", "text"):
            write(text, *((24, "B") if kind == "title" else ()))
        else:
            if outline:
                made.start_section(text, kind - 1)
            write(text, 16 - 2 * kind, "B")
            truth.append((kind, text, made.page_no()))
    return bytes(made.output()), truth


def handbook(outline: bool = True, head: str = "Holm Ferry Handbook"):
    "A PDF of six pages: a title, chapters, sections, running heads, page numbers; as `pdf`."
    blocks = [
        ("title", "The Handbook of the Holm Ferry"),
        ("text", "Anna Holm, harbour office"),
    ]
    for c, chapter in enumerate(["Tickets", "Timetable", "Winter"], 1):
        blocks += [("page", "")] if c > 1 else []
        blocks += [(1, f"{c} {chapter}"), ("text", numbered_sentences(12, chapter))]
        for s, section in enumerate(["Rules", "Exceptions"], 1):
            texts = (
                numbered_sentences(25, section),
                numbered_sentences(15, f"Moreover {section}"),
            )
            blocks.append((2, f"{c}.{s} {section} for the {chapter.lower()}"))
            blocks += [("text", text) for text in texts]
    return pdf(blocks, head, True, outline)
