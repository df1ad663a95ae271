"""Documents of one element each: what a reader of the document sees is read, or a note counts what was left out; what nobody
sees is not read. `python -m tests.test_documents` prints the table."""

import re
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from mtrag_nb.core.html import text_table
from mtrag_nb.core.settings import ChunkSettings
from mtrag_nb.core.types import Context, DataError, as_context
from mtrag_nb.data.mtrag import sample_dir
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.search.store import open_index
from mtrag_nb.serve.documents import parse_document
from mtrag_nb.serve.library import (
    Library,
    document_parser,
    passages_of,
    section_passages,
)
from mtrag_nb.serve.reader import Reader, iter_documents
from mtrag_nb.serve.reply import page_words, place_of
from mtrag_nb.systems.quotes import nearest
from tests.support.specimens import docx, pdf, word_paragraph, word_table, word_xml
from tests.support.volume import pairs

BEFORE, AFTER = "The text before.", "The text after."


class Element(NamedTuple):
    "A document with one element between two texts."

    name: str  # of the file
    data: bytes
    shown: str = ""  # what a reader sees, to be read
    noted: str = ""  # a pattern of the note, for what is left out
    absent: str = ""  # what may not stand in the text
    doubt: str = ""  # a pattern of the note, where `shown` is not read


ELEMENTS: dict[str, Element] = {}


def add(kind: str, name: str, rows: Mapping[str, tuple]) -> None:
    "Documents of a kind: what it is -> what it holds, and what is to become of that (see Element)."
    ELEMENTS.update({f"{kind}, {k}": Element(name, *row) for k, row in rows.items()})


# DOCX

SPACES = " ".join(
    f"xmlns:{short}='http://schemas.{place}'"
    for short, place in {
        "m": "openxmlformats.org/officeDocument/2006/math",
        "mc": "openxmlformats.org/markup-compatibility/2006",
        "wp": "openxmlformats.org/drawingml/2006/wordprocessingDrawing",
        "a": "openxmlformats.org/drawingml/2006/main",
        "pic": "openxmlformats.org/drawingml/2006/picture",
        "c": "openxmlformats.org/drawingml/2006/chart",
        "wps": "microsoft.com/office/word/2010/wordprocessingShape",
        "w14": "microsoft.com/office/word/2010/wordml",
    }.items()
)


def run(text: str, look: str = "") -> str:
    return f"<w:r><w:rPr>{look}</w:rPr><w:t xml:space='preserve'>{text}</w:t></w:r>"


def word(xml: str, files: Mapping[str, str] = {}) -> bytes:
    "A DOCX with a paragraph, or more, of this XML."
    blocks = ("<w:p>", "<w:tbl>", "<w:alt", "<w:sdt>")
    middle = xml if xml.startswith(blocks) else f"<w:p>{xml}</w:p>"
    body = word_paragraph(BEFORE), middle, word_paragraph(AFTER)
    whole = word_xml("document", "<w:body>", *body, "</w:body>")
    whole = whole.replace("<w:document ", f"<w:document {SPACES} ")
    return docx(files={"word/document.xml": whole, **files})


def within(xml: str, before: str = "Dogs are ", after: str = "allowed.") -> str:
    return run(before) + xml + run(after)


def field(code: str, shown: str) -> str:
    "A complex field."
    begin, middle, end = (
        f"<w:r><w:fldChar w:fldCharType='{t}'/></w:r>"
        for t in ("begin", "separate", "end")
    )
    return (
        f"{begin}<w:r><w:instrText>{code}</w:instrText></w:r>{middle}{run(shown)}{end}"
    )


def simple(code: str, shown: str) -> str:
    return f"<w:fldSimple w:instr='{code}'>{run(shown)}</w:fldSimple>"


def box(text: str) -> str:
    return f"<w:txbxContent><w:p>{run(text)}</w:p></w:txbxContent>"


def drawing(inside: str, about: str = "") -> str:
    about = f"<wp:docPr id='1' name='x' descr='{about}'/>"
    graphic = f"<a:graphic><a:graphicData>{inside}</a:graphicData></a:graphic>"
    return f"<w:r><w:drawing><wp:inline>{about}{graphic}</wp:inline></w:drawing></w:r>"


def cell(inside: str) -> str:
    return f"<w:tbl><w:tr><w:tc>{inside}</w:tc></w:tr></w:tbl>"


def styled(mark: str) -> dict[str, str]:
    "A style of characters with this mark."
    style = f"<w:style w:type='character' w:styleId='Own'><w:name w:val='Own'/><w:rPr>{mark}</w:rPr></w:style>"
    return {"word/styles.xml": word_xml("styles", style)}


FEE = "The fee is 12 crowns."
SHAPE = f"<wps:wsp><wps:txbx>{box(FEE)}</wps:txbx></wps:wsp>"
VML_SPACE = "xmlns:v='urn:schemas-microsoft-com:vml'"
VML = (
    f"<w:pict><v:shape {VML_SPACE}><v:textbox>{box(FEE)}</v:textbox></v:shape></w:pict>"
)
EITHER = f"<mc:Choice Requires='wps'>{drawing(SHAPE)[5:-6]}</mc:Choice><mc:Fallback>{VML}</mc:Fallback>"
TICKED = (
    "<w:sdt><w:sdtPr><w14:checkbox><w14:checked w14:val='1'/></w14:checkbox></w:sdtPr>"
    "<w:sdtContent><w:r><w:t>☒</w:t></w:r></w:sdtContent></w:sdt>"
)
FRACTION = "<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
FORM = (
    "<w:r><w:fldChar w:fldCharType='begin'><w:ffData><w:checkBox><w:checked/></w:checkBox></w:ffData>"
    "</w:fldChar></w:r><w:r><w:instrText> FORMCHECKBOX </w:instrText></w:r>"
    "<w:r><w:fldChar w:fldCharType='end'/></w:r>"
)
RUBY = f"<w:ruby><w:rubyPr/><w:rt>{run('とうきょう')}</w:rt><w:rubyBase>{run('東京')}</w:rubyBase></w:ruby>"
OLE = "<o:OLEObject xmlns:o='urn:schemas-microsoft-com:office:office' r:id='rId9'/>"
NUMBERED = "<w:pPr><w:numPr><w:ilvl w:val='0'/><w:numId w:val='1'/></w:numPr></w:pPr>"
OWN = run("not ", "<w:rStyle w:val='Own'/>")
OWN_PARAGRAPH = f"<w:p><w:pPr><w:pStyle w:val='Own'/></w:pPr>{run(FEE)}</w:p>"
USUAL = (  # a paragraph that names no style is hidden
    "<w:style w:type='paragraph' w:default='1' w:styleId='Usual'><w:rPr><w:vanish/></w:rPr></w:style>"
    "<w:style w:type='paragraph' w:styleId='Own'><w:name w:val='Own'/></w:style>"
)
PARTS = {  # what else is in the file: root, name -> XML
    (
        "footnotes",
        "footnotes",
    ): f"<w:footnote w:id='2'><w:p>{run('Dogs are free.')}</w:p></w:footnote>",
    (
        "comments",
        "comments",
    ): f"<w:comment w:id='0'><w:p>{run('Is it?')}</w:p></w:comment>",
    ("hdr", "header1"): f"<w:p>{run('Draft')}</w:p>",
    (
        "numbering",
        "numbering",
    ): "<w:abstractNum w:abstractNumId='0'><w:lvl w:ilvl='0'><w:start w:val='1'/>"
    "<w:numFmt w:val='decimal'/></w:lvl></w:abstractNum><w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num>",
}
NOTES, COMMENTS, HEAD, NUMBERS = (
    {f"word/{name}.xml": word_xml(root, xml)} for (root, name), xml in PARTS.items()
)
WORD = {
    "caption": (
        run("Table ") + simple("SEQ Table", "3") + run(": fees"),
        "Table 3: fees",
    ),
    "cross-reference": (
        within(simple("REF x", "section 4.2"), "See ", "."),
        "See section 4.2.",
    ),
    "merge field": (run("Dear ") + simple("MERGEFIELD n", "Ms Ilvra"), "Dear Ms Ilvra"),
    "property": (within(simple("DOCPROPERTY f", "12"), "The fee is ", " crowns."), FEE),
    "sum": (within(field(" =SUM(ABOVE) ", "12"), "The fee is ", " crowns."), FEE),
    "date": (field(" DATE ", "12 May 2031"), "12 May 2031"),
    "inserted": (
        run("The fee is ") + f"<w:ins w:id='1'>{run('12 crowns.')}</w:ins>",
        FEE,
    ),
    "moved here": (
        run("The fee is ") + f"<w:moveTo w:id='1'>{run('12 crowns.')}</w:moveTo>",
        FEE,
    ),
    "content control": (
        f"<w:sdt><w:sdtPr/><w:sdtContent>{run(FEE)}</w:sdtContent></w:sdt>",
        FEE,
    ),
    "block control": (
        f"<w:sdt><w:sdtContent><w:p>{run(FEE)}</w:p></w:sdtContent></w:sdt>",
        FEE,
    ),
    "smart tag": (f"<w:smartTag w:element='x'>{run(FEE)}</w:smartTag>", FEE),
    "right to left": (f"<w:bdo w:val='rtl'>{run('שלום 12')}</w:bdo>", "שלום 12"),
    "direction": (f"<w:dir w:val='rtl'>{run('שלום 12')}</w:dir>", "שלום 12"),
    "box with fallback": (
        f"<w:r><mc:AlternateContent>{EITHER}</mc:AlternateContent></w:r>",
        FEE,
    ),
    "old text box": (f"<w:r>{VML}</w:r>", FEE),
    "line end": ("<w:r><w:t>Fee</w:t><w:cr/><w:t>12</w:t></w:r>", "Fee\n12"),
    "placed tab": ("<w:r><w:t>Fee</w:t><w:ptab/><w:t>12</w:t></w:r>", "Fee 12"),
    "page break": (
        "<w:r><w:t>Fee</w:t><w:br w:type='page'/><w:t>12</w:t></w:r>",
        "Fee\n12",
    ),
    "kept hyphen": (
        "<w:r><w:t>Fee</w:t><w:noBreakHyphen/><w:t>12</w:t></w:r>",
        "Fee\u201112",
    ),
    "raised price": (
        run("Only $12") + run("99", "<w:vertAlign w:val='superscript'/>"),
        "$12^99",
    ),
    "lowered digit": (run("x1") + run("2", "<w:vertAlign w:val='subscript'/>"), "x1_2"),
    "table in a table": (cell(cell(f"<w:p>{run(FEE)}</w:p>") + "<w:p/>"), FEE),
    "link": (f"<w:hyperlink w:anchor='x'>{run(FEE)}</w:hyperlink>", FEE),
    "ticked control": (TICKED + run(" Dogs"), "☒ Dogs"),
    "moved away": (
        within(f"<w:moveFrom w:id='1'>{run('not ')}</w:moveFrom>"),
        "Dogs are allowed.",
        "",
        "not",
    ),
    "ruby": (f"<w:r>{RUBY}</w:r>" + run("12"), "東京12", "above others", "とう"),
    "formula": (run("It is ") + f"<m:oMath>{FRACTION}</m:oMath>", "It is", "oMath"),
    "text box": (drawing(SHAPE), FEE),
    "box with an empty fallback": (
        f"<w:r><mc:AlternateContent>{EITHER.partition('<mc:Fallback>')[0]}"
        "<mc:Fallback><w:drawing/></mc:Fallback></mc:AlternateContent></w:r>",
        FEE,
    ),
    "other document": ("<w:altChunk r:id='rId9'/>", "", "altChunk"),
    "picture": (drawing("<pic:pic/>", "A map of the harbour"), "", "picture"),
    "chart": (drawing("<c:chart r:id='rId9'/>"), "", "picture|chart"),
    "old picture": (
        f"<w:r><w:pict><v:shape {VML_SPACE}><v:imagedata r:id='rId9'/></v:shape></w:pict></w:r>",
        "",
        "picture",
    ),
    "other program's object": (f"<w:r><w:object>{OLE}</w:object></w:r>", "", "object"),
    "symbol": (
        run("Dogs ") + "<w:r><w:sym w:font='Odd' w:char='F0FC'/></w:r>",
        "",
        "sym",
    ),
    "form field": (FORM + run(" Dogs"), "Dogs"),
}
add("DOCX", "x.docx", {k: (word(xml), *row) for k, (xml, *row) in WORD.items()})
DELETED = "<w:del w:id='1'><w:r><w:delText>not </w:delText></w:r></w:del>"
SUPPRESSED = {  # what nobody reads, and is counted
    "struck out": (word(within(run("not ", "<w:strike/>"))), "struck out"),
    "struck twice": (word(within(run("not ", "<w:dstrike/>"))), "struck out"),
    "hidden": (word(within(run("not ", "<w:vanish/>"))), "hidden"),
    "always hidden": (word(within(run("not ", "<w:specVanish/>"))), "hidden"),
    "hidden by style": (word(within(OWN), styled("<w:vanish/>")), "hidden"),
    "struck by style": (word(within(OWN), styled("<w:strike/>")), "struck"),
    "deleted": (word(within(DELETED)), "deleted"),
}
add(
    "DOCX",
    "x.docx",
    {k: (x, "Dogs are allowed.", note, "not") for k, (x, note) in SUPPRESSED.items()},
)
NOTED = within(
    "<w:r><w:footnoteReference w:id='2'/></w:r>", "The fee is 12", " crowns."
)
ASKED = run(FEE) + "<w:r><w:commentReference w:id='0'/></w:r>"
WITH_PARTS = {
    "hidden by the usual style": (
        word(
            f"<w:p>{run('Dogs are free.')}</w:p>{OWN_PARAGRAPH}",
            {"word/styles.xml": word_xml("styles", USUAL)},
        ),
        "",
        "hidden",
        "Dogs",
    ),
    "footnote": (word(NOTED, NOTES), "Dogs are free.", "", "121"),
    "comment": (word(ASKED, COMMENTS), FEE, "comments"),
    "head": (word(run(FEE), HEAD), FEE, "heads"),
    "numbered list": (
        word(f"<w:p>{NUMBERED}{run('Open the valve.')}</w:p>", NUMBERS),
        "Open the valve.",
    ),
}
add("DOCX", "x.docx", WITH_PARTS)

# HTML


def page(inside: str) -> bytes:
    return f"<html><body><p>{BEFORE}</p>{inside}<p>{AFTER}</p></body></html>".encode()


PADDING, STRUCK = "/*" + 2000 * "x" + "*/", "text-decoration:"
HALF = "<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math>"
SCRIPT = "<script>write('12 crowns')</script>"
MARKUP = {  # the last: the pattern of the note
    "raised note": ("<p>It is 12<sup>1</sup> crowns.</p>", "12^1 crowns"),
    "raised link": (
        "<p>It is 12<sup><a href='#1'>1</a></sup> crowns.</p>",
        "12^1 crowns",
    ),
    "raised in brackets": ("<p>It is 12<sup>[1]</sup> crowns.</p>", "12[1] crowns"),
    "lowered digit": ("<p>x1<sub>2</sub></p>", "x1_2"),
    "digit before": ("<p><sup>1</sup>12 crowns.</p>", "1 12 crowns"),
    "inserted": ("<p>The fee is <ins>12</ins> crowns.</p>", FEE),
    "closed details": (f"<details><summary>Fees</summary>{FEE}</details>", FEE),
    "list": (
        "<ol start=3><li>Open the valve.</ol>",
        "Open the valve.",
        "1 number of a list",
    ),
    "numbers in cells": ("<table><tr><td>12</td><td>7</td></tr></table>", "12 | 7"),
    "line end": ("<p>Fee<br>12</p>", "Fee\n12"),
    "figure": (
        "<figure><img src=x><figcaption>The harbour</figcaption></figure>",
        "The harbour",
    ),
    "button": ("<button>Book for 12 crowns</button>", "", "1 <button>"),
    "menu": ("<nav>Home and fees</nav>", "", "1 <nav>"),
    "choice": ("<select><option>Adult<option>Child</select>", "", "1 <select>"),
    "filled field": ("<input value='12 crowns'>", "", "1 <input>"),
    "text field": ("<textarea>12 crowns</textarea>", "", "1 <textarea>"),
    "formula": (f"<p>It is {HALF}.</p>", "", "1 <math>"),
    "drawing": ("<svg><text>12 crowns</text></svg>", "", "1 <svg>"),
    "picture": ("<img src=x alt='A map of the harbour'>", "", "1 <img>"),
    "frame": ("<iframe srcdoc='12 crowns'></iframe>", "", "1 <iframe>"),
    "script": (f"{SCRIPT}<noscript>12 crowns</noscript>", "", "1 <noscript>"),
    "template": ("<template>12 crowns</template>", "", "1 <template>"),
    "no display": ("<p style='display: none'>12 crowns</p>", "", "1 hidden"),
    "comment in a style": ("<p style='display:/**/none'>12 crowns</p>", "", "1 hidden"),
    "invisible": ("<p style='visibility:hidden'>12 crowns</p>", "", "1 hidden"),
    "hidden": ("<p hidden>12 crowns</p>", "", "1 hidden"),
    "for the eye alone": ("<p aria-hidden='true'>12 crowns</p>", "", "1 hidden"),
    "of no size": ("<p style='font-size:0'>12 crowns</p>", "", "1 hidden"),
    "important style": (
        "<p style='font-size:0 !important'>12 crowns</p>",
        "",
        "1 hidden",
    ),
    "struck out": (
        "<p>Dogs are <s>not</s> allowed.</p>",
        "Dogs are allowed.",
        "1 struck out",
    ),
    "deleted": (
        "<p>It is <del>10</del><ins>12</ins> crowns.</p>",
        "It is 12 crowns.",
        "1 struck out",
    ),
    "struck end of a line": (
        f"<p>Fee<br style='{STRUCK} line-through'>12</p><p title='{STRUCK}line-through'>crowns</p>",
        "Fee\n12\n\ncrowns",
    ),
    "ruby": (
        "<p><ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>12</p>",
        "東京",
    ),
}
STYLED = {
    "struck by style": ("text-decoration: line-through", "1 struck out"),
    "padded style": (f"{PADDING}display:none", "1 hidden"),
    "padded struck style": (
        f"{PADDING}{STRUCK}{PADDING}underline line-through",
        "1 struck out",
    ),
}
add("HTML", "x.html", {k: (page(x), *row) for k, (x, *row) in MARKUP.items()})
SPAN = "<p>Dogs are <span style='{}'>not</span> allowed.</p>"
STYLED = {
    k: (page(SPAN.format(s)), "Dogs are allowed.", note)
    for k, (s, note) in STYLED.items()
}
add("HTML", "x.html", STYLED)

# Markdown and text

PLAIN = {
    "begins with a rule": ("x.md", f"---\n\n{FEE}\n\n---\n\nIt is open.\n", FEE),
    "begins with dots": ("x.md", f"---\n{FEE}\n...\nIt is open.\n", FEE),
    "front matter": (
        "x.md",
        f"---\ntitle: >-\n  Ferries\n---\n{FEE}\n",
        FEE,
        "front matter",
    ),
    "front matter that is a list": ("x.md", f"---\n- {FEE}\n---\nIt is open.\n", FEE),
    "TOML": ("x.md", f"+++\ntitle = 'x'\n+++\n{FEE}\n", FEE),
    "front matter with a tab": (
        "x.md",
        f"---\nfee:\t{FEE}\n\tx: [\n---\nIt is open.\n",
        FEE,
    ),
    "comment": ("x.md", f"<!-- {FEE} -->\nIt is open.\n", "It is open."),
    "code": ("x.md", f"```\n{FEE}\n```\n", FEE),
    "struck out": ("x.md", "Dogs are ~~not~~ allowed.\n", "~~not~~"),
    "table": ("x.md", "| Fee |\n|---|\n| 12 |\n", "Fee\n\n12"),
    "carriage returns": ("x.txt", f"It is open.\r{FEE}\r", FEE),
    "unseen characters": (
        "x.txt",
        "The fee is\u2066 12\u2069 crowns.\n",
        FEE,
        "2 hidden",
    ),
    "blank of no width": ("x.txt", "The fee is 1\u200b2 crowns.\n", FEE, "1 hidden"),
}
for k, (name, text, *row) in PLAIN.items():
    add("Text", name, {k: (text.encode(), *row)})

# PDF


def form(dictionary: str, stream: str = "") -> bytes:
    "An object of a PDF."
    if not stream:
        return f"<<{dictionary}>>".encode("latin-1")
    whole = f"<<{dictionary}/Length {len(stream)}>>stream\n{stream}\nendstream"
    return whole.encode("latin-1")


HELVETICA = form("/Type/Font/Subtype/Type1/BaseFont/Helvetica")


def paper(
    *pages: str,
    font: bytes = HELVETICA,
    catalog: str = "",
    more: Mapping[int, bytes] = {},
    page="",
) -> bytes:
    "A PDF with these streams; objects from 50 on are free."
    numbers = [10 + 2 * n for n in range(len(pages))]
    kids = " ".join(f"{n} 0 R" for n in numbers)
    objects = {
        1: form(f"/Type/Catalog/Pages 2 0 R{catalog}"),
        2: form(f"/Type/Pages/Kids[{kids}]/Count {len(pages)}"),
        3: font,
    }
    resources = "" if "/Resources" in page else "/Resources<</Font<</F1 3 0 R>>>>"
    for n, stream in zip(numbers, pages):
        about = f"/MediaBox[0 0 600 800]/Contents {n + 1} 0 R{resources}{page}"
        objects[n] = form(f"/Type/Page/Parent 2 0 R{about}")
        objects[n + 1] = form("", stream)
    out, places = bytearray(b"%PDF-1.7\n"), {}
    for n, body in {**objects, **more}.items():
        places[n] = len(out)
        out += b"%d 0 obj\n%b\nendobj\n" % (n, body)
    begins = len(out)
    out += b"xref\n0 1\n0000000000 65535 f \n"
    for n, at in places.items():
        out += b"%d 1\n%010d 00000 n \n" % (n, at)
    return bytes(
        out + b"trailer<</Size 100/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % begins
    )


def lines(*texts: str, top: int = 700) -> str:
    "A stream with these lines."
    rows = enumerate(texts)
    return "".join(
        f"BT /F1 10 Tf 50 {top - 14 * n} Td ({text}) Tj ET\n" for n, text in rows
    )


BODY = ["The room lies above the harbour.", "Breakfast is served from seven."]
BODY += ["Guests bring their own towels."]


def with_note(kind: str, inside: str) -> bytes:
    "A PDF of one page with an annotation."
    note = f"<</Type/Annot/Subtype/{kind}/Rect[0 0 90 20]{inside}>>"
    return paper(lines(BEFORE), page=f"/Annots[{note}]")


TICK = "/AP<</N<</Yes 51 0 R/Off 51 0 R>>>>"


def with_form(field: str) -> bytes:
    "A PDF of one page with a form of one field."
    widget = form(f"/Type/Annot/Subtype/Widget/Rect[0 0 90 20]{field}")
    look = form("/Type/XObject/Subtype/Form/BBox[0 0 9 9]", "0 0 9 9 re")
    return paper(
        lines(BEFORE),
        catalog="/AcroForm<</Fields[50 0 R]>>",
        page="/Annots[50 0 R]",
        more={50: widget, 51: look},
    )


def hand(edge: str, top: bool = True) -> bytes:
    "Four pages, each with this line (# is the page) at an edge, at the distance of lines."
    own = [edge.replace("#", str(n)) for n in range(1, 5)]
    return paper(*(lines(*[x, *BODY] if top else [*BODY, x]) for x in own))


# a page as a font without a Unicode table gives it: each letter is another, the same one throughout
PROSE = "The fee is twelve crowns for adults and seven for students who show a card at the gate."


def shifted(by: int, text: str = PROSE) -> str:
    "A text whose letters are moved along the codes, as subsets number their glyphs."
    moved = (chr(ord(c) + by) if c.isalpha() else c for c in text)
    return "".join("\\" + c if c in "()\\" else c for c in moved)


def codes(by: int) -> str:
    return lines(shifted(by), shifted(by))


FONT = "/Resources<</Font<</F1 3 0 R>>"
ONE_X, TWO_FONTS = (
    f"{FONT}/XObject<</X1 50 0 R>>>>",
    "/Resources<</Font<</F1 {} 0 R/F2 51 0 R>>>>",
)
TYPE1 = "/Type/Font/Subtype/Type1/BaseFont/"
NO_LETTERS = TYPE1 + "Own/Encoding<</Type/Encoding/Differences[65 /g84 /g104 /g101]>>"
DRAWN = (
    "/Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[.1 0 0 .1 0 0]/CharProcs<<>>/FirstChar 65"
    "/LastChar 67/Widths[9 9 9]/Encoding<</Differences[65 {}]>>"
)
INNER = form(
    f"/Type/XObject/Subtype/Form/BBox[0 0 600 800]{FONT}>>", lines(FEE, top=500)
)
IMAGE = form(
    "/Type/XObject/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray",
    "x",
)
ATTACHED = {
    50: form("/Type/Filespec/F(fees.txt)/EF<</F 51 0 R>>"),
    51: form("/Type/EmbeddedFile", FEE),
}
LISTED = "/Names<</EmbeddedFiles<</Names[(fees.txt) 50 0 R]>>>>"
LETTERS = {
    50: form(DRAWN.format("/A /B /C")),
    51: form(DRAWN.format("/g84 /g104 /g101")),
}
ROOM = "Price of room"
BEGUN = "BT /F1 10 Tf 50 700 Td"
PAPER = {
    "text": (paper(lines(FEE)), FEE),
    "typed field": (
        with_note("Widget", "/FT/Tx/T(Fee)/V(12 crowns)"),
        "",
        "form fields",
    ),
    "ticked box": (
        with_note("Widget", "/FT/Btn/T(Dogs)/V/Yes/AS/Yes"),
        "",
        "form fields",
    ),
    "choice": (
        with_note("Widget", "/FT/Ch/T(Who)/V[(Adult)(Child)]"),
        "",
        "form fields",
    ),
    "free text": (with_note("FreeText", f"/Contents({FEE})"), FEE),
    "sticky note": (with_note("Text", f"/Contents({FEE})"), FEE),
    "stamp": (with_note("Stamp", f"/Contents({FEE})"), FEE),
    "field of a form": (with_form("/FT/Tx/T(Fee)/V(12 crowns)"), "Fee: 12 crowns"),
    "ticked box of a form": (
        with_form(f"/FT/Btn/T(Dogs)/V/Yes/AS/Yes{TICK}"),
        "Dogs: ☒",
    ),
    "empty box of a form": (
        with_form(f"/FT/Btn/T(Dogs)/V/Off/AS/Off{TICK}"),
        "Dogs: ☐",
    ),
    "choice of a form": (
        with_form("/FT/Ch/T(Who)/Opt[(Adult)(Child)]/V(Child)"),
        "Who: Child",
    ),
    "named field of a form": (
        with_form("/FT/Tx/T(f1)/TU(Fee for dogs)/V(12 crowns)"),
        "Fee for dogs: 12 crowns",
    ),
    "form within a page": (
        paper(lines(BEFORE) + "/X1 Do", page=ONE_X, more={50: INNER}),
        FEE,
    ),
    "picture": (
        paper(lines(BEFORE) + "/X1 Do", page=ONE_X, more={50: IMAGE}),
        BEFORE,
        "1 pictures",
    ),
    "picture in a stream": (
        paper(lines(BEFORE) + "BI /W 1 /H 1 /BPC 8 /CS /G ID x EI"),
        BEFORE,
    ),
    "attached file": (
        paper(lines(BEFORE), catalog=LISTED, more=ATTACHED),
        BEFORE,
        "attached",
    ),
    "attached to a page": (
        with_note("FileAttachment", "/FS 50 0 R/Contents(fees.txt)"),
        "",
        "1 attached",
    ),
    "prices at the top": (hand("Room 10#: 1# crowns"), "Room 104: 14 crowns"),
    "prices at the foot": (
        hand(f"{ROOM} 10#: 1# crowns", False),
        f"{ROOM} 104: 14 crowns",
    ),
    "totals": (hand("Visitors in 201#: 1200", False), "Visitors in 2014: 1200"),
    "steps": (hand("Step #"), "Step 4"),
    "notice on each page": (
        hand("No refunds after 30 days", False),
        "No refunds after 30 days",
    ),
    "page numbers": (
        paper(*(lines(*BODY) + lines(str(n), top=30) for n in range(1, 5))),
        BODY[0],
        "running heads and page numbers left out",
    ),
    "running head": (
        paper(*(lines("The Holm Ferry", top=780) + lines(*BODY) for _ in range(4))),
        BODY[0],
        "running heads",
    ),
    "one line a page": (
        paper(*(lines(f"Fee {n} crowns") for n in (12, 7, 5, 3))),
        "Fee 12 crowns",
    ),
    "page without text": (
        paper(lines(FEE), "0 0 9 9 re f"),
        FEE,
        "1 of 2 pages hold no text",
    ),
    "names of glyphs": (
        paper(lines("ABC"), font=form(NO_LETTERS)),
        "",
        "do not say which letters",
    ),
    "one font of two without letters": (
        paper(
            lines("AB") + "BT /F2 10 Tf 50 600 Td (ABC) Tj ET",
            page=TWO_FONTS.format(50),
            more=LETTERS,
        ),
        "AB",
        "1 fonts do not say which letters",
    ),
    "codes of its own": (paper(codes(-29)), "7KH IHH", "words without vowels"),
    "codes moved by two": (paper(codes(2)), "Vjg hgg", "words without vowels"),
    "codes moved back by five": (paper(codes(-5)), "", "words without vowels"),
    "codes over two pages": (
        paper(lines(shifted(-29)), lines(shifted(-29))),
        "7KH IHH",
        "words without vowels",
    ),
    "one font of two with codes of its own": (
        paper(
            lines(PROSE, PROSE) + f"BT /F2 10 Tf 50 600 Td ({shifted(-29) * 2}) Tj ET",
            page=TWO_FONTS.format(3),
            more={51: form(f"{TYPE1}Own")},
        ),
        PROSE,
        r"\b17\d characters in words without vowels",
    ),
    "raised price": (
        paper(f"{BEGUN} (Only $12) Tj /F1 6 Tf 4 Ts (99) Tj 0 Ts ET"),
        "$12^99",
        "",
        "",
        "1 times characters are raised",
    ),
    "raised then text": (
        paper(f"{BEGUN} (It is 12) Tj /F1 6 Tf 4 Ts (1) Tj /F1 10 Tf 0 Ts (0) Tj ET"),
        "It is 12^1 0",
        "",
        "",
        "raised or lowered",
    ),
    "raised by a line": (
        paper(f"{BEGUN} (Only $12) Tj ET BT /F1 6 Tf 92 704 Td (99) Tj ET"),
        "$12 99",
    ),
    "unseen letters": (
        paper(lines(BEFORE) + "BT 3 Tr /F1 10 Tf 50 600 Td (12 crowns) Tj ET"),
        "12 crowns",
    ),
    "turned text": (
        paper(lines(BEFORE) + f"BT /F1 10 Tf 0 1 -1 0 300 300 Tm ({FEE}) Tj ET"),
        FEE,
    ),
    "hyphen at the end": (
        paper(
            lines(
                "The fee is twelve cro-",
                "wns for each of the adults who come on board.",
            )
        ),
        "twelve crowns",
    ),
    "columns": (paper(f"{BEGUN} (Adults) Tj 200 0 Td (12) Tj ET"), "Adults 12"),
}
add("PDF", "x.pdf", PAPER)


def only_signs(text: str) -> str:
    return "".join(c for c in text if c.isalnum())


def outcome(e: Element, folder: Path) -> str:
    """What became of an element: right, noted (left out, or doubtful, and said so), lost in silence,
    wrong (its words or numbers run together), or hidden (read although nobody sees it)."""
    (folder / e.name).write_bytes(e.data)
    d = parse_document(folder / e.name)
    notes = "\n".join(d.notes)
    if e.absent and e.absent in d.text:
        return "hidden"
    if any(t.encode() in e.data and t not in d.text for t in (BEFORE, AFTER)):
        return "lost"
    if e.noted and not re.search(e.noted, notes):
        return "lost"
    if e.shown and e.shown in d.text:
        return "right"
    if e.doubt and re.search(e.doubt, notes) or e.noted and not e.shown:
        return "noted"
    if e.shown and only_signs(e.shown) in only_signs(d.text):
        return "wrong"
    return "lost"


@pytest.mark.parametrize("name", ELEMENTS)
def test_an_element_is_read_or_counted(name, tmp_path):
    assert outcome(ELEMENTS[name], tmp_path) in ("right", "noted")


def test_a_sentence_has_the_page_on_which_it_stands_whatever_it_is_cut_with(tmp_path):
    night, key = "A night costs 120 euros.", "A lost key costs 180 euros."
    blocks = [(1, "Hotels"), ("text", night), ("page", ""), (1, "Keys"), ("text", key)]
    (tmp_path / "travel.pdf").write_bytes(pdf(blocks)[0])
    document = parse_document(tmp_path / "travel.pdf")
    [passage] = section_passages(document, "travel")
    places = [(at := passage.text.index(s), at + len(s)) for s in (night, key)]
    found = [
        page_words(place_of(as_context(passage), some))
        for some in ([p] for p in places)
    ]
    assert found == ["page 1", "page 2"]
    assert page_words(place_of(as_context(passage), places)) == "pages 1-2"


TABLES = {
    "menu.md": b"# Menu\n\n| Dish | Price |\n| --- | --- |\n| Soup | 2.80 |\n| Vegan dish | 6.40 |\n",
    "menu.html": b"<h1>Menu</h1><table><tr><th>Dish<th>Price<tr><td>Soup<td>2.80<tr><td>Vegan dish<td>6.40</table>",
    "menu.docx": docx(
        word_table(("Dish", "Price"), ("Soup", "2.80"), ("Vegan dish", "6.40"))
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_row_of_a_table_is_a_statement_that_can_be_copied(
    name, tmp_path, monkeypatch
):
    monkeypatch.setattr("mtrag_nb.systems.quotes._LEAST_WORDS", 2)
    (tmp_path / name).write_bytes(TABLES[name])
    text = parse_document(tmp_path / name).text
    quotes = nearest(
        HashEmbedder(), ["vegan dish"], [Context("m", "m", text)], 1, near=0.5
    )
    [said] = [text[q.start : q.end] for q in quotes]
    assert "|" not in text and text.count("Vegan dish") == 1
    assert said == "Dish: Vegan dish; Price: 6.40."


def test_letters_that_a_font_of_tex_shows_by_its_own_codes_are_not_doubted(tmp_path):
    "TeX's fonts have neither an encoding nor a table of letters, and are read all the same."
    data = paper(
        f"BT /F2 10 Tf 50 700 Td ({PROSE * 3}) Tj ET",
        page=TWO_FONTS.format(3),
        more={51: form(f"{TYPE1}ABCDEF+CMR10")},
    )
    (tmp_path / "paper.pdf").write_bytes(data)
    document = parse_document(tmp_path / "paper.pdf")
    assert PROSE in document.text and document.notes == ()


# Tables: what each states, and what none of them does

AREAS = ["Area: North; Pass: Day; Price: 12", "Area: North; Pass: Week; Price: 40"]
AREAS += ["Area: South; Pass: Day; Price: 9"]
FEES = ["Summer: 12; ", "Winter: 12", "Week; Summer: 40; Winter: 30"]


def table(*rows: str) -> str:
    "An HTML table of rows, whose cells begin with `<`."
    return f"<table>{''.join(f'<tr>{row}' for row in rows)}</table>"


def plain_row(tag: str, *texts: str) -> str:
    return "".join(f"<{tag}>{text}" for text in texts)


AREA_HEADS = plain_row("th", "Area", "Pass", "Price")
NORTH = [f"{plain_row('td rowspan=2', 'North')}{plain_row('td', 'Day', '12')}"]
NORTH += [plain_row("td", "Week", "40"), plain_row("td", "South", "Day", "9")]
TWO_LEVELS = [f"<th rowspan=2>Pass{plain_row('th colspan=2', 'Price')}"]
TWO_LEVELS += [plain_row("th", "Summer", "Winter")]
TWO_LEVELS += [f"{plain_row('td', 'Day')}<td colspan=2>12"]
TWO_LEVELS += [plain_row("td", "Week", "40", "30")]
PRICES = ["Pass: Day; Price, Summer: 12; Price, Winter: 12"]
PRICES += ["Pass: Week; Price, Summer: 40; Price, Winter: 30"]
SEASONS = plain_row("th", "Pass", "Summer", "Winter")
MERGED = {  # HTML -> what it states; what it does not
    "rows": (table(AREA_HEADS, *NORTH), AREAS, ["Area: Week"]),
    "to the end": (
        table(AREA_HEADS, *NORTH[:2]).replace("rowspan=2", "rowspan=0"),
        AREAS[:2],
        ["Area: Week"],
    ),
    "a row too many": (
        table(AREA_HEADS, *NORTH[:2]).replace("rowspan=2", "rowspan=999999999"),
        AREAS[:2],
        ["Area: Week"],
    ),
    "ends with its group": (
        f"<table><thead><tr>{AREA_HEADS}<tbody><tr><td rowspan=9>North<td>Day<td>12"
        f"<tbody><tr>{NORTH[2]}</table>",
        [AREAS[0], AREAS[2]],
        ["North; Pass: South"],
    ),
    "in the middle": (
        table(
            AREA_HEADS,
            "<td>North<td rowspan=2>Day<td>12",
            "<td>South<td>9",
        ),
        [AREAS[0], AREAS[2]],
        ["Pass: 9"],
    ),
    "columns": (
        table(SEASONS, "<td>Day<td colspan=2>12", "<td>Week<td>40<td>30"),
        FEES,
        [],
    ),
    "columns at the left": (
        table(SEASONS, "<td colspan=2>Season<td>90"),
        ["Winter: 90"],
        ["Summer: 90"],
    ),
    "columns and rows": (
        table(
            SEASONS,
            "<td>Day<td colspan=2 rowspan=2>12",
            "<td>Two days",
            "<td>Week<td>40<td>30",
        ),
        [*FEES, "Pass: Two days; Summer: 12; Winter: 12"],
        [],
    ),
    "a title over all": (
        table("<th colspan=3>Fees", SEASONS, "<td>Day<td>12<td>9"),
        ["Fees\n", "Pass: Day; Summer: 12; Winter: 9"],
        ["Fees, Pass"],
    ),
    "a line over all": (
        table(SEASONS, "<td colspan=3>No boats at night", "<td>Day<td>12<td>9"),
        ["No boats at night", "Pass: Day; Summer: 12; Winter: 9"],
        ["Pass: No", "Summer: No"],
    ),
    "two levels": (table(*TWO_LEVELS), PRICES, ["Pass: Week; Price: 40"]),
    "heads of rows": (
        table("<th>Day<td>12<td>9", "<th>Week<td>40<td>30"),
        ["Day: 12; 9", "Week: 40; 30"],
        [],
    ),
    "two levels of rows": (
        table("<th rowspan=2>North<th>Day<td>12", "<th>Week<td>40"),
        ["North, Day: 12", "North, Week: 40"],
        [],
    ),
    "heads of both": (
        table("<th><th>Summer<th>Winter", "<th>Day<td colspan=2>12"),
        ["Day; Summer: 12; Winter: 12"],
        [],
    ),
    "a corner that is no head": (
        table("<td><th>Summer<th>Winter", "<th>Day<td>12<td>9"),
        ["Day; Summer: 12; Winter: 9"],
        [],
    ),
    "a corner with a text": (
        table("<td>Pass<th>Summer<th>Winter", "<th>Day<td colspan=2>12"),
        ["Pass: Day; Summer: 12; Winter: 12"],
        [],
    ),
    "no heads": (
        table("<td rowspan=2>North<td>Day<td>12", "<td>Week<td>40"),
        ["North; Day; 12", "North; Week; 40"],
        ["Day: Week"],
    ),
    "overlapping": (
        table(SEASONS, "<td>Day<td rowspan=2>12<td>9", "<td colspan=2>Week<td>30"),
        ["Pass: Day; Summer: 12; Winter: 9", "Week; 12; Winter: 30"],
        ["Pass: Week", "Summer: Week"],
    ),
    "absurd": (
        table(SEASONS, "<td colspan=1000000000>12", "<td>Day<td>40<td>30"),
        ["12", "Pass: Day; Summer: 40; Winter: 30"],
        [],
    ),
    "heads again": (
        table(SEASONS, "<td>Day<td>12<td>9", "<th>Dog<th>Small<th>Large")
        + "<table><tr><th>Dog<th>Small<tr><td>Ilva<td>4</table>",
        ["Pass: Day; Summer: 12; Winter: 9", "Dog: Ilva; Small: 4"],
        ["Pass: Ilva"],
    ),
    "new heads within": (
        table(SEASONS, "<td>Day<td>12<td>9", "<th>Dog<th>Small<th>Large")[:-8]
        + "<tr><td>Ilva<td>4<td>7</table>",
        ["Dog: Ilva; Small: 4; Large: 7"],
        ["Pass: Ilva", "Summer: 4"],
    ),
    "nested": (
        table(
            "<th>Boat<th>Fees", f"<td>Ilva<td>{table(SEASONS, '<td>Day<td>12<td>9')}"
        ),
        ["Ilva", "Pass: Day; Summer: 12; Winter: 9"],
        ["Boat: Day"],
    ),
    "nested beside a tall cell": (
        table(
            SEASONS,
            f"<td rowspan=2>Day<td>{table('<th>A<th>B', '<td>1<td>2')}<td>9",
            "<td>12<td>7",
        ),
        ["A: 1; B: 2", "Pass: Day; Summer: 12; Winter: 7"],
        ["Pass: 12"],
    ),
    "lists in cells": (
        table(SEASONS, "<td>Day<td><ul><li>12<li>14</ul><td><p>9</p><p>7</p>"),
        ["Pass: Day; Summer: 12, 14; Winter: 9 7"],
        [],
    ),
    "years as heads": (
        table("<th>Area<th>2019<th>2020", "<td>North<td>12<td>14"),
        ["Area: North; 2019: 12; 2020: 14"],
        [],
    ),
    "a sum in heads": (
        table(SEASONS, "<td>Day<td>12<td>9", "<th>Sum<th>12<th>9"),
        ["Pass: Sum; Summer: 12; Winter: 9"],
        [],
    ),
    "heads alone": (table(SEASONS), ["Pass | Summer | Winter"], []),
    "a heading in a cell": (
        table(SEASONS, "<td><h2>Day</h2><td>12<td>9", "<td>Week<td>40<td>30"),
        ["Day", "12", "Pass: Week; Summer: 40; Winter: 30"],
        ["Pass: 12"],
    ),
}


@pytest.mark.parametrize("ending", [".html", ".md"])
@pytest.mark.parametrize("name", MERGED)
def test_merged_cells_stand_under_their_own_heads(name, ending, tmp_path):
    markup, states, denies = MERGED[name]
    path = tmp_path / f"x{ending}"
    path.write_text(f"{BEFORE}\n\n{markup}\n\n{AFTER}\n")
    text = parse_document(path).text
    assert [t for t in (BEFORE, *states, AFTER) if t not in text] == [], text
    assert [t for t in denies if t in text] == [], text


def word_cell(text: str, *properties: str, bold: bool = False) -> str:
    "A cell of a DOCX, with its properties and its text."
    inside = "".join(f"<w:{p}/>" for p in properties)
    look = "<w:b/>" if bold else ""
    return f"<w:tc><w:tcPr>{inside}</w:tcPr><w:p>{run(text, look)}</w:p></w:tc>"


def word_rows(*rows: str, about: str = "") -> str:
    "A table of a DOCX, of rows of cells."
    return f"<w:tbl>{about}{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


def cells(*texts: str) -> str:
    return "".join(map(word_cell, texts))


BEGINS, GOES_ON, TWO = "vMerge w:val='restart'", "vMerge", "gridSpan w:val='2'"
HEAD_MARK = "<w:trPr><w:tblHeader/></w:trPr>"
NO_FIRST = "<w:tblPr><w:tblLook w:firstRow='0'/></w:tblPr>"
WORD_TABLES = {
    "rows": (
        word_rows(
            cells("Area", "Pass", "Price"),
            word_cell("North", BEGINS) + cells("Day", "12"),
            word_cell("", GOES_ON) + cells("Week", "40"),
            cells("South", "Day", "9"),
        ),
        AREAS,
        ["Area: Week"],
    ),
    "columns": (
        word_rows(
            cells("Pass", "Summer", "Winter"),
            cells("Day") + word_cell("12", TWO),
            cells("Week", "40", "30"),
        ),
        FEES,
        [],
    ),
    "old merging": (
        word_rows(
            cells("Pass", "Summer", "Winter"),
            cells("Day")
            + word_cell("12", "hMerge w:val='restart'")
            + word_cell("", "hMerge w:val='continue'"),
            cells("Week", "40", "30"),
        ),
        FEES,
        [],
    ),
    "a row that begins late": (
        word_rows(
            cells("Pass", "Summer", "Winter"),
            cells("Day", "12", "9"),
            "<w:trPr><w:gridBefore w:val='1'/></w:trPr>" + cells("40", "30"),
        ),
        ["Summer: 40; Winter: 30"],
        ["Pass: 40"],
    ),
    "two levels": (
        word_rows(
            word_cell("Pass", BEGINS) + word_cell("Price", TWO),
            word_cell("", GOES_ON) + cells("Summer", "Winter"),
            cells("Day") + word_cell("12", TWO),
            cells("Week", "40", "30"),
        ),
        PRICES,
        [],
    ),
    "two levels without merged rows": (
        word_rows(
            word_cell("") + word_cell("Price", TWO),
            cells("Pass", "Summer", "Winter"),
            cells("Week", "40", "30"),
            cells("Day", "12", "9"),
        ),
        PRICES[1:],
        [],
    ),
    "a title over all": (
        word_rows(
            word_cell("Fees of the ferry", "gridSpan w:val='3'"),
            cells("Area", "Pass", "Price"),
            cells("South", "Day", "9"),
        ),
        ["Fees of the ferry", AREAS[2]],
        ["Fees of the ferry, ", "Fees of the ferry: "],
    ),
    "the first row heads": (
        word_rows(cells("Machine", "Deposit"), cells("chipper", "80 euros")),
        ["Machine: chipper; Deposit: 80 euros"],
        [],
    ),
    "words alone": (
        word_rows(
            cells("Room", "Key holder"), cells("Hall", "Anna"), cells("Barn", "Ben")
        ),
        ["Room: Hall; Key holder: Anna", "Room: Barn; Key holder: Ben"],
        [],
    ),
    "marked": (
        word_rows(HEAD_MARK + cells("Day 1", "Day 2"), cells("12", "14")),
        ["Day 1: 12; Day 2: 14"],
        [],
    ),
    "numbers above numbers": (
        word_rows(cells("trimmer", "25 euros"), cells("chipper", "80 euros")),
        ["trimmer: 25 euros", "chipper: 80 euros"],
        ["25 euros: 80"],
    ),
    "names that end with a colon": (
        word_rows(cells("Opening:", "daily"), cells("Dogs:", "free")),
        ["daily", "free"],
        ["daily: free", "Opening:: Dogs"],
    ),
    "names in bold": (
        word_rows(
            word_cell("Opening", bold=True) + word_cell("daily"),
            word_cell("Dogs", bold=True) + word_cell("free"),
        ),
        ["Opening: daily", "Dogs: free"],
        ["daily: free"],
    ),
    "said not to be heads": (
        word_rows(cells("Opening", "daily"), cells("Dogs", "free"), about=NO_FIRST),
        ["Opening: daily", "Dogs: free"],
        ["daily: free"],
    ),
    "a cell over all rows": (
        word_rows(
            word_cell("North", BEGINS) + cells("Pass", "Price"),
            word_cell("", GOES_ON) + cells("Day", "12"),
            word_cell("", GOES_ON) + cells("Week", "40"),
        ),
        ["Pass: Day; Price: 12", "Pass: Week; Price: 40"],
        ["North: Day"],
    ),
    "absurd": (
        word_rows(
            cells("Pass", "Price"),
            word_cell("Day", "gridSpan w:val='1000000000'"),
            cells("Week", "40"),
        ),
        ["Day", "Pass: Week; Price: 40"],
        [],
    ),
}


@pytest.mark.parametrize("name", WORD_TABLES)
def test_the_first_row_of_a_word_table_heads_its_rows(name, tmp_path):
    xml, states, denies = WORD_TABLES[name]
    (tmp_path / "x.docx").write_bytes(word(xml))
    text = parse_document(tmp_path / "x.docx").text
    assert [t for t in (BEFORE, *states, AFTER) if t not in text] == [], text
    assert [t for t in denies if t in text] == [], text


BOLD = {50: form("/Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold")}
TWO_LOOKS = "/Resources<</Font<</F1 3 0 R/F2 50 0 R>>>>"
PLOTS = [("Plot", "Area in square metres", "Fee"), ("small", "120", "96")]
PLOTS += [("large", "310", "248")]
KEYS = [("Room", "Key holder"), ("Hall", "Anna"), ("Barn", "Ben")]
NARROW = [(row[0], row[2]) for row in PLOTS]


def drawn(
    rows: list, bold: bool = True, ruled: bool = False, by_column: bool = False
) -> str:
    "A table of a PDF; the first row may be bold, lines may be drawn, and columns one after the other."
    places = (50, 200, 340)
    out = []
    for r, row in enumerate(rows):
        for x, text in zip(places, row):
            font = "F2" if bold and not r else "F1"
            begin = f"BT /{font} 10 Tf {x} {700 - 16 * r} Td"
            out.append((x, f"{begin} ({text}) Tj ET\n"))
    if by_column:
        out.sort(key=lambda piece: piece[0])
    ink = [f"45 {712 - 16 * r} m 450 {712 - 16 * r} l S" for r in range(len(rows) + 1)]
    ink += [f"{x} 712 m {x} {712 - 16 * len(rows)} l S" for x in (45, 195, 335, 450)]
    return "".join(text for _, text in out) + "\n".join(ink if ruled else [])


RUNNING = lines(*BODY, top=600)
PDF_TABLES = {  # stream -> what it states
    "bold heads": (drawn(PLOTS), ["Plot: large; Area in square metres: 310; Fee: 248"]),
    "ruled": (drawn(PLOTS, False, True), ["Plot: small; Area in square metres: 120"]),
    "plain": (
        drawn(PLOTS, False),
        ["Plot: large; Area in square metres: 310; Fee: 248"],
    ),
    "two columns": (drawn(NARROW), ["Plot: large; Fee: 248"]),
    "two columns, ruled": (drawn(NARROW, True, True), ["Plot: large; Fee: 248"]),
    "two plain columns": (drawn(NARROW, False), ["Plot: small; Fee: 96"]),
    "words alone": (drawn(KEYS), ["Room: Barn; Key holder: Ben"]),
    "drawn by columns": (drawn(PLOTS, by_column=True), ["Plot: large; Area in square"]),
}


@pytest.mark.parametrize("name", PDF_TABLES)
def test_the_heads_of_a_pdf_table_are_no_title_of_a_section(name, tmp_path):
    stream, states = PDF_TABLES[name]
    about = lines("The plots of the club are let for a year.", top=740)
    data = paper(about + stream + "\n" + RUNNING, page=TWO_LOOKS, more=BOLD)
    (tmp_path / "x.pdf").write_bytes(data)
    document = parse_document(tmp_path / "x.pdf")
    assert [s.path for s in document.sections] == [()]
    assert [t for t in (*states, *BODY) if t not in document.text] == [], document.text


def test_columns_that_begin_with_headings_are_no_table(tmp_path):
    long = "In row {} the ferry of the {} leaves"
    stream = "".join(
        f"BT /F1 10 Tf {x} {680 - 14 * n} Td ({long.format(n, about)}) Tj ET\n"
        for n in range(8)
        for x, about in ((50, "boats"), (320, "isle"))
    )
    heads = (
        "BT /F2 14 Tf 50 700 Td (Boats) Tj ET BT /F2 14 Tf 320 700 Td (Isles) Tj ET\n"
    )
    (tmp_path / "x.pdf").write_bytes(paper(heads + stream, page=TWO_LOOKS, more=BOLD))
    document = parse_document(tmp_path / "x.pdf")
    assert [s.path for s in document.sections] == [("Boats",), ("Isles",)]
    assert "row 0 of" not in document.text
    assert "In row 0 the ferry of the boats leaves In row 1" in document.text


# Order and letters of a PDF

LEFT = [
    "The ferry to Quill Island",
    "leaves at ten. It is closed",
    "on Mondays in winter.",
]
RIGHT = [
    "A ticket costs 12 crowns",
    "for adults. Children pay",
    "six crowns and dogs none.",
]


def placed(*pieces: tuple[float, float, str]) -> str:
    "A stream of texts at their places, in this order."
    return "".join(f"BT /F1 10 Tf {x} {y} Td ({t}) Tj ET\n" for x, y, t in pieces)


def spaced(text: str, step: float = 6.0, twice: float = 0.0, bold: int = 1) -> str:
    "A stream of single letters, each drawn again so far beside itself."
    pieces = []
    for n, letter in enumerate(text):
        for again in range(1 + bold * bool(twice)):
            pieces.append((50 + n * step + again * twice, 700, letter))
    return placed(*pieces)


ROWS = [
    [(50, 700 - 14 * n, a), (320, 700 - 14 * n, b)]
    for n, (a, b) in enumerate(zip(LEFT, RIGHT))
]
ORDERS = {  # stream -> texts in their order
    "columns, line by line": (
        placed(*sum(ROWS, [])),
        [" ".join(LEFT), " ".join(RIGHT)],
    ),
    "columns, right to left": (
        placed(*sum([row[::-1] for row in ROWS], [])),
        [" ".join(LEFT), " ".join(RIGHT)],
    ),
    "columns, bottom first": (
        placed(*sum(ROWS[::-1], [])),
        [" ".join(LEFT), " ".join(RIGHT)],
    ),
    "last line first": (placed(*[row[0] for row in ROWS[::-1]]), [" ".join(LEFT)]),
    "letters of all widths, twice": (
        spaced("The fee is 12 crowns in winter", 7, 0.3),
        ["The fee is 12 crowns in winter"],
    ),
    "letters of all widths, spaced": (
        spaced("Dogs will travel free in July", 9),
        ["Dogs will travel free in July"],
    ),
    "letters without drawn spaces": (
        re.sub(r"BT [^\n]*\( \) Tj ET\n", "", spaced("The fee is 12 crowns", 7, 0.3)),
        ["The fee is 12 crowns"],
    ),
    "each letter twice": (spaced("MEET MOON", 8, 0.3), ["MEET MOON"]),
    "each letter three times": (spaced("MEET MOON", 8, 0.2, 2), ["MEET MOON"]),
    "each sentence twice": (
        placed(
            *[(50 + d, 700 - 14 * n, t) for d in (0, 0.4) for n, t in enumerate(LEFT)]
        ),
        [" ".join(LEFT)],
    ),
    "each number twice": (
        placed(*[(50 + d, 700, "Fee 12 crowns") for d in (0, 0.3)]),
        ["Fee 12 crowns"],
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_a_page_is_read_in_order_and_once(name, tmp_path):
    stream, texts = ORDERS[name]
    (tmp_path / "x.pdf").write_bytes(paper(stream))
    text = " ".join(parse_document(tmp_path / "x.pdf").text.split())
    assert text == " ".join(texts)


SLIDES = {  # a heading of each page, which stands apart; # is the page
    "Step #": 16,
    "# Chapter": 16,
    "Lesson # of 4": 14,
    "Room 10#": 18,
    "Day #": 13.5,
}


@pytest.mark.parametrize("heading", SLIDES)
def test_a_heading_that_counts_with_the_pages_is_no_running_head(heading, tmp_path):
    titles = [heading.replace("#", str(n)) for n in range(1, 5)]
    begin = f"BT /F1 {SLIDES[heading]} Tf 50 760 Td"
    pages = [f"{begin} ({title}) Tj ET\n" + lines(*BODY, top=600) for title in titles]
    (tmp_path / "x.pdf").write_bytes(paper(*pages))
    document = parse_document(tmp_path / "x.pdf")
    assert [s.path for s in document.sections] == [(title,) for title in titles]


def outlined(*titles: str) -> dict[int, bytes]:
    "The objects of an outline, from 60 on."
    count = len(titles)
    objects = {
        60: form(f"/Type/Outlines/First 61 0 R/Last {60 + count} 0 R/Count {count}")
    }
    for n, title in enumerate(titles, 61):
        following = f"/Next {n + 1} 0 R" if n < 60 + count else ""
        objects[n] = form(f"/Title({title})/Parent 60 0 R{following}")
    return objects


def test_an_outline_says_which_lines_are_headings(tmp_path):
    bold = "BT /F2 10 Tf 50 {} Td ({}) Tj ET\n"
    stream = "".join(
        bold.format(700 - 120 * n, title) + lines(*BODY, top=680 - 120 * n)
        for n, title in enumerate(("Fees", "crowns pay_for(dog)", "Winter"))
    )
    stream = stream.replace("pay_for(dog)", r"pay_for\(dog\)")
    outline = outlined("Fees", "Winter")
    with_it = paper(
        stream, page=TWO_LOOKS, catalog="/Outlines 60 0 R", more={**BOLD, **outline}
    )
    (tmp_path / "x.pdf").write_bytes(with_it)
    paths = [s.path for s in parse_document(tmp_path / "x.pdf").sections]
    assert paths == [("Fees",), ("Winter",)]
    elsewhere = outlined("Of another file", "And another")
    foreign = paper(
        stream, page=TWO_LOOKS, catalog="/Outlines 60 0 R", more={**BOLD, **elsewhere}
    )
    (tmp_path / "x.pdf").write_bytes(foreign)
    paths = [s.path for s in parse_document(tmp_path / "x.pdf").sections]
    assert ("Fees",) in paths and ("Winter",) in paths, "an outline that names nothing"


# Encodings

SAID = "The fee is €12 – it’s “low” for Müllers."
CHINESE, JAPANESE, KOREAN = (
    "渡轮票价十二元朱镕基",
    "フェリーの料金①髙橋",
    "똠방각하 요금은 12",
)
TRADITIONAL, CYRILLIC, POLISH = (
    "渡輪票價十二元",
    "Паром стоит 12 крон",
    "Łódź kosztuje 12 zł",
)
CHARSETS = {  # what the page says, the codec that it is in, its text
    "iso-8859-1": ("cp1252", SAID),
    "ISO8859-1": ("cp1252", SAID),
    "latin1": ("cp1252", SAID),
    "us-ascii": ("cp1252", SAID),
    "ascii": ("cp1252", SAID),
    "iso-8859-15": ("iso-8859-15", "The fee is €12."),
    "windows-1251": ("cp1251", CYRILLIC),
    "koi8-r": ("koi8-r", CYRILLIC),
    "iso-8859-2": ("iso-8859-2", POLISH),
    "windows-1250": ("cp1250", POLISH),
    "gb2312": ("gb18030", CHINESE),
    "gbk": ("gb18030", CHINESE),
    "GB18030": ("gb18030", CHINESE),
    "shift_jis": ("cp932", JAPANESE),
    "x-sjis": ("cp932", JAPANESE),
    "shift-jis": ("cp932", JAPANESE),
    "euc-jp": ("euc_jp", "フェリーの料金"),
    "iso-2022-jp": ("iso-2022-jp", "フェリーの料金"),
    "euc-kr": ("cp949", KOREAN),
    "ks_c_5601-1987": ("cp949", KOREAN),
    "big5": ("big5", TRADITIONAL),
    "macintosh": ("mac-roman", "Müllers’ fee"),
}
FORMS = {  # where the page says it
    "charset": "<html><head><meta charset='{}'></head><body><p>{}</p></body></html>",
    "http-equiv": "<meta http-equiv=Content-Type content='text/html; charset={}'><p>{}</p>",
    "late": f"<html><head><script>{'x' * 9000}</script><meta charset={{}}></head><p>{{}}</p>",
    "xml": "<?xml version='1.0' encoding='{}'?><html><body><p>{}</p></body></html>",
}


@pytest.mark.parametrize("where", FORMS)
@pytest.mark.parametrize("label", CHARSETS)
def test_a_page_is_read_in_the_encoding_that_a_browser_reads_it_in(
    label, where, tmp_path
):
    codec, text = CHARSETS[label]
    page_text = FORMS[where].format(label, text)
    for data in (page_text.encode(codec), page_text.encode("utf-8")):
        (tmp_path / "x.html").write_bytes(data)
        document = parse_document(tmp_path / "x.html")
        assert (document.text, document.notes) == (text, ())


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_counts_before_what_a_page_says(mark, tmp_path):
    markup = f"<meta charset=gb2312><p>{SAID}"
    (tmp_path / "x.html").write_bytes(markup.encode(mark))
    assert parse_document(tmp_path / "x.html").text == SAID


UNDECLARED = {
    "comment": "<!-- <meta charset=gb2312> --><p>{}",
    "script": "<script>'<meta charset=gb2312>'</script><p>{}",
    "description": "<meta name=description content='charset=gb2312'><p>{}",
    "unknown": "<meta charset=no-such-charset><p>{}",
    "another attribute": "<meta data-charset=gb2312><p>{}",
}


@pytest.mark.parametrize("name", UNDECLARED)
def test_what_declares_nothing_is_no_declaration(name, tmp_path):
    (tmp_path / "x.html").write_bytes(UNDECLARED[name].format("Fähre").encode("cp1252"))
    document = parse_document(tmp_path / "x.html")
    assert document.text == "Fähre"
    assert "guessed" in document.notes[0]


def test_bytes_that_an_encoding_does_not_have_are_counted(tmp_path):
    data = "<meta charset=gb2312><p>渡轮".encode("gb18030") + b"\xff.</p>"
    (tmp_path / "x.html").write_bytes(data)
    document = parse_document(tmp_path / "x.html")
    assert "渡轮" in document.text
    assert "1 characters are not in its encoding" in document.notes[0]


@pytest.mark.parametrize("declared", ["utf-8", "iso-8859-1", "no-such-charset"])
def test_a_byte_that_is_not_utf_8_does_not_spoil_the_others(declared, tmp_path):
    markup = f"<meta charset={declared}><p>{SAID}"
    (tmp_path / "x.html").write_bytes(markup.encode("utf-8") + b" \x96 now.</p>")
    document = parse_document(tmp_path / "x.html")
    assert document.text.startswith(SAID)
    assert document.notes == ("1 characters are not in its encoding, utf-8",)


# Headings that are buttons

BUTTONS = {
    "<h2><button>Fees</button></h2><p>12</p>": ("Fees", "12"),
    "<h3><button aria-expanded=false><span>Fees</span><svg><text>v</text></svg></button></h3>12": (
        "Fees",
        "12",
    ),
    "<h2>Fees <button>and dogs</button></h2><p>12</p>": ("Fees and dogs", "12"),
    "<h2>Fees</h2><button>Book</button><p>12</p>": ("Fees", "12"),
    "<h2><button hidden>Menu</button>Fees</h2><p>12</p>": ("Fees", "12"),
    "<h2><button><b>Fees</b></button></h2><div>12</div>": ("Fees", "12"),
}


@pytest.mark.parametrize("markup", BUTTONS)
def test_a_button_in_a_heading_is_text(markup, tmp_path):
    (tmp_path / "x.html").write_text(markup)
    [section] = parse_document(tmp_path / "x.html").sections
    assert (section.path[-1], section.text) == BUTTONS[markup]


# Small files that harm a reader


def loop(kind: str) -> bytes:
    "A PDF whose outline leads back to itself."
    ways = {
        "next": {61: form("/Title(A)/Parent 60 0 R/Next 61 0 R")},
        "first": {61: form("/Title(A)/Parent 60 0 R/First 61 0 R")},
        "both": {61: form("/Title(A)/Next 61 0 R/First 61 0 R")},
        "two": {61: form("/Title(A)/Next 62 0 R"), 62: form("/Title(B)/Next 61 0 R")},
        "root": {61: form("/Title(A)/First 60 0 R")},
    }
    outline = {60: form("/Type/Outlines/First 61 0 R/Last 61 0 R"), **ways[kind]}
    return paper(lines(FEE), catalog="/Outlines 60 0 R", more=outline)


@pytest.mark.parametrize("kind", ["next", "first", "both", "two", "root"])
def test_an_outline_that_contains_itself_is_refused_before_it_can_crash(kind, tmp_path):
    (tmp_path / "x.pdf").write_bytes(loop(kind))
    with pytest.raises(DataError, match="its outline contains itself"):
        parse_document(tmp_path / "x.pdf")


def test_a_file_that_crashes_or_hangs_its_reader_is_named_and_the_next_one_is_read(
    tmp_path,
):
    names = " ".join(f"/X{n} {{0}} 0 R" for n in range(10))
    draws = " ".join(f"/X{n} Do" for n in range(10))
    start = "/Type/XObject/Subtype/Form/BBox[0 0 9 9]"
    more = {
        n: form(f"{start}/Resources<</XObject<<{names.format(n + 1)}>>>>", draws)
        for n in range(50, 59)
    }
    more[59] = form(start, "0 0 9 9 re f")
    page_about = f"{FONT}/XObject<<{names.format(50)}>>>>"
    (tmp_path / "deep.pdf").write_bytes(paper(draws, page=page_about, more=more))
    (tmp_path / "fees.pdf").write_bytes(paper(lines(FEE)))
    with Reader(seconds=3) as reader:
        with pytest.raises(DataError, match=r"deep\.pdf: reading it (broke|took)"):
            reader.read(tmp_path / "deep.pdf")
        assert reader.read(tmp_path / "fees.pdf").text == FEE


def test_the_seconds_for_a_document_are_fewer_than_before():
    assert Reader().seconds <= 60


FOREIGN = {
    "a ZIP archive": b"PK\3\4",
    "a picture": b"\x89PNG\r\n\x1a\n",
    "RTF": b"{\\rtf1 ",
    "HTML, perhaps": b"<html>",
    "an old Office file": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_another_kind_of_file_never_comes_to_the_reader_of_pdf(
    what, tmp_path, monkeypatch
):
    "liteparse starts other programs for what is no PDF."
    monkeypatch.setattr("mtrag_nb.serve.pdf._parsed", lambda data: pytest.fail("read"))
    (tmp_path / "x.pdf").write_bytes(FOREIGN[what] + paper(lines(FEE)))
    with pytest.raises(DataError, match=what):
        parse_document(tmp_path / "x.pdf")


TIMES = {
    "rows": "<table>" + "<tr><td rowspan=0 colspan=999999999>x" * 20_000,
    "long heads": "<table><tr>"
    + f"<th>{'h' * 150}" * 900
    + "<tr><td colspan=1000>x" * 5000,
    "tall": f"<table><tr><td rowspan=65534>{'x' * 90_000}<td>y" + "<tr><td>z" * 20_000,
    "deep": "<div>" * 100_000 + "x",
    "deep tables": "<table><tr><td>" * 30_000 + "x",
    "deep cells": "<td>" * 100_000 + "x",
}


@pytest.mark.parametrize("name", TIMES)
def test_absurd_tables_and_nesting_are_bounded(name, tmp_path):
    (tmp_path / "x.html").write_text(TIMES[name])
    begun = time.thread_time()
    with suppress(DataError):
        assert len(parse_document(tmp_path / "x.html").text) < 20_000_000
    assert time.thread_time() - begun < 10


# Names


def put(folder: Path, files: Mapping[str, str]) -> None:
    "Files of a folder."
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def texts_of(library: Library) -> dict[str, str]:
    "The documents of a library: name -> text."
    with open_index(library.folder, HashEmbedder()) as index:
        return {
            e.name: " ".join(c.text for _, c in passages_of(index, e.id))
            for e in library.documents()
        }


SIDES = {"north/fees.txt": "Fee 12.", "south/fees.txt": "Fee 9."}
NAMED_ALIKE = {  # files, what is added in turn (path, collection), names in the library
    "two folders": (SIDES, ["north", "south"], ["fees.txt", "south/fees.txt"]),
    "two files": (
        SIDES,
        ["north/fees.txt", "south/fees.txt"],
        ["fees.txt", "south/fees.txt"],
    ),
    "a folder and a file": (
        SIDES,
        ["north", "south/fees.txt"],
        ["fees.txt", "south/fees.txt"],
    ),
    "deeper": (
        {"a/x/fees.txt": "Fee 1.", "b/x/fees.txt": "Fee 2.", "c/x/fees.txt": "Fee 3."},
        ["a/x", "b/x", "c/x"],
        ["fees.txt", "x/fees.txt", "c/x/fees.txt"],
    ),
    "within folders": (
        {"a/x/fees.txt": "Fee 1.", "b/x/fees.txt": "Fee 2."},
        ["a", "b"],
        ["x/fees.txt", "b/x/fees.txt"],
    ),
    "capitals": (
        {"a/Fees.txt": "Fee 1.", "b/fees.txt": "Fee 2."},
        ["a", "b"],
        ["Fees.txt", "b/fees.txt"],
    ),
    "accents in two forms": (
        {"a/Fa\u0308hre.txt": "Fee 1.", "b/F\u00e4hre.txt": "Fee 2."},
        ["a", "b"],
        ["Fähre.txt", "b/Fähre.txt"],
    ),
    "one file again": (SIDES, ["north", "north/fees.txt", "north"], ["fees.txt"]),
    "the folder above": (
        SIDES,
        ["north", "."],
        ["fees.txt", "south/fees.txt"],
    ),
}


COLLECTIONS = [["own", "other", "third"], ["own"]]


@pytest.mark.parametrize("name, collections", pairs(NAMED_ALIKE, COLLECTIONS))
def test_two_files_of_one_name_are_two_documents(name, collections, tmp_path):
    files, sources, names = NAMED_ALIKE[name]
    put(tmp_path / "docs", files)
    library = Library(tmp_path / "library")
    for n, source in enumerate(sources):
        collection = collections[n % len(collections)]
        library.add(tmp_path / "docs" / source, collection, HashEmbedder())
    texts = texts_of(library)
    assert sorted(texts) == sorted(names)
    wanted = files.values() if len(names) == len(files) else ["Fee 12."]
    assert sorted(texts.values()) == sorted(wanted)


def test_a_file_is_replaced_by_what_it_says_now_and_by_no_other(tmp_path):
    put(tmp_path, SIDES)
    library = Library(tmp_path / "library")
    library.add(tmp_path / "north/fees.txt", "own", HashEmbedder())
    change = library.add(tmp_path / "south/fees.txt", "own", HashEmbedder())
    assert change.added == ("south/fees.txt",)
    assert "another document is called fees.txt" in str(change)
    put(tmp_path, {"south/fees.txt": "Fee 10."})
    change = library.add(tmp_path / "south", "own", HashEmbedder())
    assert (change.added, change.replaced) == ((), ("south/fees.txt",))
    assert texts_of(library) == {"fees.txt": "Fee 12.", "south/fees.txt": "Fee 10."}
    again = library.add(tmp_path / "south", "own", HashEmbedder())
    assert again.unchanged == ("south/fees.txt",)


def test_files_are_called_by_the_path_that_is_given(tmp_path, monkeypatch):
    put(tmp_path, SIDES)
    monkeypatch.chdir(tmp_path)
    library = Library("library")
    for name in SIDES:
        library.add(name, "own", HashEmbedder())
    assert [e.name for e in library.documents()] == list(SIDES)


def test_no_path_of_this_machine_stands_in_a_library(tmp_path):
    put(tmp_path / "secret-place", SIDES)
    library = Library(tmp_path / "library")
    library.add(tmp_path / "secret-place", "own", HashEmbedder())
    files = [p for p in library.folder.rglob("*") if p.is_file()]
    assert not [p for p in files if b"secret-place" in p.read_bytes()]


NAMES = ["Fähre.txt", "é/Ångström.txt", "가격.txt", "ộ.txt", "ﬁ.txt"]
FORMS_OF_NAMES = [("NFC", "NFD"), ("NFD", "NFC"), ("NFC", "NFC"), ("NFD", "NFD")]


@pytest.mark.parametrize("name, forms", pairs(NAMES, FORMS_OF_NAMES))
def test_a_document_is_removed_by_its_name_in_any_form(name, forms, tmp_path):
    given, stored = forms
    put(tmp_path / "docs", {unicodedata.normalize(stored, name): FEE})
    library = Library(tmp_path / "library")
    library.add(tmp_path / "docs", "own", HashEmbedder())
    change = library.remove([unicodedata.normalize(given, name)])
    assert len(change.removed) == 1
    assert library.documents() == []


def test_an_upload_replaces_its_namesake_in_its_collection_alone(tmp_path):
    put(tmp_path, SIDES)
    library = Library(tmp_path / "library")
    library.add(parse_document(tmp_path / "north/fees.txt"), "own", HashEmbedder())
    south = parse_document(tmp_path / "south/fees.txt")
    with pytest.raises(DataError, match="another document, of 'own', has this name"):
        library.add(south, "other", HashEmbedder())
    assert texts_of(library) == {"fees.txt": "Fee 12."}
    assert library.add(south, "own", HashEmbedder()).replaced == ("fees.txt",)
    assert texts_of(library) == {"fees.txt": "Fee 9."}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        rows = [(name, outcome(e, Path(where))) for name, e in ELEMENTS.items()]
    print(text_table(("element", "is"), rows))
    print(f"{len(rows)} documents:", dict(Counter(what for _, what in rows)))


def test_what_is_searched_of_a_document_ends_with_a_sentence():
    "Of the sample's PDF 2 of 6 pieces did when they were cut by characters; the other one is a heading."
    splitter = document_parser(ChunkSettings()).node_parser_map["child"]
    [ferry] = iter_documents(sample_dir() / "harbour" / "ferry.pdf")
    passages = section_passages(ferry, "harbour")
    pieces = [text for p in passages for text in splitter.split_text(p.text)]
    assert sum(text.endswith(".") for text in pieces) == len(pieces) - 1 == 5
    for passage in passages:
        places = splitter.places(passage.text)
        seen = {n for a, b in places for n in range(a, b)}
        left = (c for n, c in enumerate(passage.text) if n not in seen)
        assert not "".join(left).strip(), "nothing is left out"
    long = "A sentence " + "that goes on " * 60 + "ends."
    assert splitter.split_text(f"Short. {long} Short again.")[1].startswith(long)
