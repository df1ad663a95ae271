"""Documents of one element each: what a reader of the document sees is read, or a note counts what was left out; what nobody
sees is not read. `python -m tests.test_documents` prints the table."""

import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from mtrag_nb.core.html import text_table
from mtrag_nb.core.types import Context, as_context
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.serve.documents import parse_document
from mtrag_nb.serve.library import section_passages
from mtrag_nb.serve.reply import page_words, place_of
from mtrag_nb.systems.system import nearest
from tests.support.specimens import docx, pdf, word_paragraph, word_table, word_xml

BEFORE, AFTER = "The text before.", "The text after."


class Element(NamedTuple):
    "A document with one element between two texts."

    name: str  # of the file
    data: bytes
    shown: str = ""  # what a reader sees, to be read
    noted: str = ""  # a pattern of the note, for what is left out
    absent: str = ""  # what may not stand in the text


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
        f"<w:r><w:fldChar w:fldCharType='{t}'/></w:r>" for t in ("begin", "separate", "end")
    )
    return f"{begin}<w:r><w:instrText>{code}</w:instrText></w:r>{middle}{run(shown)}{end}"


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
VML = f"<w:pict><v:shape {VML_SPACE}><v:textbox>{box(FEE)}</v:textbox></v:shape></w:pict>"
EITHER = (
    f"<mc:Choice Requires='wps'>{drawing(SHAPE)[5:-6]}</mc:Choice><mc:Fallback>{VML}</mc:Fallback>"
)
TICKED = (
    "<w:sdt><w:sdtPr><w14:checkbox><w14:checked w14:val='1'/></w14:checkbox></w:sdtPr>"
    "<w:sdtContent><w:r><w:t>☒</w:t></w:r></w:sdtContent></w:sdt>"
)
FRACTION = (
    "<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
)
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
    ("comments", "comments"): f"<w:comment w:id='0'><w:p>{run('Is it?')}</w:p></w:comment>",
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
    "caption": (run("Table ") + simple("SEQ Table", "3") + run(": fees"), "Table 3: fees"),
    "cross-reference": (within(simple("REF x", "section 4.2"), "See ", "."), "See section 4.2."),
    "merge field": (run("Dear ") + simple("MERGEFIELD n", "Ms Ilvra"), "Dear Ms Ilvra"),
    "property": (within(simple("DOCPROPERTY f", "12"), "The fee is ", " crowns."), FEE),
    "sum": (within(field(" =SUM(ABOVE) ", "12"), "The fee is ", " crowns."), FEE),
    "date": (field(" DATE ", "12 May 2031"), "12 May 2031"),
    "inserted": (run("The fee is ") + f"<w:ins w:id='1'>{run('12 crowns.')}</w:ins>", FEE),
    "moved here": (run("The fee is ") + f"<w:moveTo w:id='1'>{run('12 crowns.')}</w:moveTo>", FEE),
    "content control": (f"<w:sdt><w:sdtPr/><w:sdtContent>{run(FEE)}</w:sdtContent></w:sdt>", FEE),
    "block control": (f"<w:sdt><w:sdtContent><w:p>{run(FEE)}</w:p></w:sdtContent></w:sdt>", FEE),
    "smart tag": (f"<w:smartTag w:element='x'>{run(FEE)}</w:smartTag>", FEE),
    "right to left": (f"<w:bdo w:val='rtl'>{run('שלום 12')}</w:bdo>", "שלום 12"),
    "direction": (f"<w:dir w:val='rtl'>{run('שלום 12')}</w:dir>", "שלום 12"),
    "box with fallback": (f"<w:r><mc:AlternateContent>{EITHER}</mc:AlternateContent></w:r>", FEE),
    "old text box": (f"<w:r>{VML}</w:r>", FEE),
    "line end": ("<w:r><w:t>Fee</w:t><w:cr/><w:t>12</w:t></w:r>", "Fee\n12"),
    "placed tab": ("<w:r><w:t>Fee</w:t><w:ptab/><w:t>12</w:t></w:r>", "Fee 12"),
    "page break": ("<w:r><w:t>Fee</w:t><w:br w:type='page'/><w:t>12</w:t></w:r>", "Fee\n12"),
    "kept hyphen": ("<w:r><w:t>Fee</w:t><w:noBreakHyphen/><w:t>12</w:t></w:r>", "Fee\u201112"),
    "raised price": (run("Only $12") + run("99", "<w:vertAlign w:val='superscript'/>"), "$12^99"),
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
    "text box": (drawing(SHAPE), "", "objects"),
    "other document": ("<w:altChunk r:id='rId9'/>", "", "altChunk"),
    "picture": (drawing("<pic:pic/>", "A map of the harbour"), "", "picture"),
    "chart": (drawing("<c:chart r:id='rId9'/>"), "", "picture|chart"),
    "old picture": (
        f"<w:r><w:pict><v:shape {VML_SPACE}><v:imagedata r:id='rId9'/></v:shape></w:pict></w:r>",
        "",
        "picture",
    ),
    "other program's object": (f"<w:r><w:object>{OLE}</w:object></w:r>", "", "object"),
    "symbol": (run("Dogs ") + "<w:r><w:sym w:font='Odd' w:char='F0FC'/></w:r>", "", "sym"),
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
NOTED = within("<w:r><w:footnoteReference w:id='2'/></w:r>", "The fee is 12", " crowns.")
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
    "raised link": ("<p>It is 12<sup><a href='#1'>1</a></sup> crowns.</p>", "12^1 crowns"),
    "raised in brackets": ("<p>It is 12<sup>[1]</sup> crowns.</p>", "12[1] crowns"),
    "lowered digit": ("<p>x1<sub>2</sub></p>", "x1_2"),
    "digit before": ("<p><sup>1</sup>12 crowns.</p>", "1 12 crowns"),
    "inserted": ("<p>The fee is <ins>12</ins> crowns.</p>", FEE),
    "closed details": (f"<details><summary>Fees</summary>{FEE}</details>", FEE),
    "list": ("<ol start=3><li>Open the valve.</ol>", "Open the valve.", "1 number of a list"),
    "numbers in cells": ("<table><tr><td>12</td><td>7</td></tr></table>", "12 | 7"),
    "line end": ("<p>Fee<br>12</p>", "Fee\n12"),
    "figure": ("<figure><img src=x><figcaption>The harbour</figcaption></figure>", "The harbour"),
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
    "important style": ("<p style='font-size:0 !important'>12 crowns</p>", "", "1 hidden"),
    "struck out": ("<p>Dogs are <s>not</s> allowed.</p>", "Dogs are allowed.", "1 struck out"),
    "deleted": (
        "<p>It is <del>10</del><ins>12</ins> crowns.</p>",
        "It is 12 crowns.",
        "1 struck out",
    ),
    "struck end of a line": (
        f"<p>Fee<br style='{STRUCK} line-through'>12</p><p title='{STRUCK}line-through'>crowns</p>",
        "Fee\n12\n\ncrowns",
    ),
    "ruby": ("<p><ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>12</p>", "東京"),
}
STYLED = {
    "struck by style": ("text-decoration: line-through", "1 struck out"),
    "padded style": (f"{PADDING}display:none", "1 hidden"),
    "padded struck style": (f"{PADDING}{STRUCK}{PADDING}underline line-through", "1 struck out"),
}
add("HTML", "x.html", {k: (page(x), *row) for k, (x, *row) in MARKUP.items()})
SPAN = "<p>Dogs are <span style='{}'>not</span> allowed.</p>"
STYLED = {k: (page(SPAN.format(s)), "Dogs are allowed.", note) for k, (s, note) in STYLED.items()}
add("HTML", "x.html", STYLED)

# Markdown and text

PLAIN = {
    "begins with a rule": ("x.md", f"---\n\n{FEE}\n\n---\n\nIt is open.\n", FEE),
    "begins with dots": ("x.md", f"---\n{FEE}\n...\nIt is open.\n", FEE),
    "front matter": ("x.md", f"---\ntitle: >-\n  Ferries\n---\n{FEE}\n", FEE, "front matter"),
    "front matter that is a list": ("x.md", f"---\n- {FEE}\n---\nIt is open.\n", FEE),
    "TOML": ("x.md", f"+++\ntitle = 'x'\n+++\n{FEE}\n", FEE),
    "front matter with a tab": ("x.md", f"---\nfee:\t{FEE}\n\tx: [\n---\nIt is open.\n", FEE),
    "comment": ("x.md", f"<!-- {FEE} -->\nIt is open.\n", "It is open."),
    "code": ("x.md", f"```\n{FEE}\n```\n", FEE),
    "struck out": ("x.md", "Dogs are ~~not~~ allowed.\n", "~~not~~"),
    "table": ("x.md", "| Fee |\n|---|\n| 12 |\n", "Fee\n\n12"),
    "carriage returns": ("x.txt", f"It is open.\r{FEE}\r", FEE),
    "unseen characters": ("x.txt", "The fee is\u2066 12\u2069 crowns.\n", FEE, "2 hidden"),
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
    *pages: str, font: bytes = HELVETICA, catalog: str = "", more: Mapping[int, bytes] = {}, page=""
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
    return bytes(out + b"trailer<</Size 100/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % begins)


def lines(*texts: str, top: int = 700) -> str:
    "A stream with these lines."
    rows = enumerate(texts)
    return "".join(f"BT /F1 10 Tf 50 {top - 14 * n} Td ({text}) Tj ET\n" for n, text in rows)


BODY = ["The room lies above the harbour.", "Breakfast is served from seven."]
BODY += ["Guests bring their own towels."]


def with_note(kind: str, inside: str) -> bytes:
    "A PDF of one page with an annotation."
    note = f"<</Type/Annot/Subtype/{kind}/Rect[0 0 90 20]{inside}>>"
    return paper(lines(BEFORE), page=f"/Annots[{note}]")


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
ONE_X, TWO_FONTS = f"{FONT}/XObject<</X1 50 0 R>>>>", "/Resources<</Font<</F1 {} 0 R/F2 51 0 R>>>>"
TYPE1 = "/Type/Font/Subtype/Type1/BaseFont/"
NO_LETTERS = TYPE1 + "Own/Encoding<</Type/Encoding/Differences[65 /g84 /g104 /g101]>>"
DRAWN = (
    "/Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[.1 0 0 .1 0 0]/CharProcs<<>>/FirstChar 65"
    "/LastChar 67/Widths[9 9 9]/Encoding<</Differences[65 {}]>>"
)
INNER = form(f"/Type/XObject/Subtype/Form/BBox[0 0 600 800]{FONT}>>", lines(FEE, top=500))
IMAGE = form(
    "/Type/XObject/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray", "x"
)
ATTACHED = {
    50: form("/Type/Filespec/F(fees.txt)/EF<</F 51 0 R>>"),
    51: form("/Type/EmbeddedFile", FEE),
}
LISTED = "/Names<</EmbeddedFiles<</Names[(fees.txt) 50 0 R]>>>>"
LETTERS = {50: form(DRAWN.format("/A /B /C")), 51: form(DRAWN.format("/g84 /g104 /g101"))}
ROOM = "Price of room"
BEGUN = "BT /F1 10 Tf 50 700 Td"
PAPER = {
    "text": (paper(lines(FEE)), FEE),
    "typed field": (with_note("Widget", "/FT/Tx/T(Fee)/V(12 crowns)"), "", "form fields"),
    "ticked box": (with_note("Widget", "/FT/Btn/T(Dogs)/V/Yes/AS/Yes"), "", "form fields"),
    "choice": (with_note("Widget", "/FT/Ch/T(Who)/V[(Adult)(Child)]"), "", "form fields"),
    "free text": (with_note("FreeText", f"/Contents({FEE})"), "", "notes"),
    "sticky note": (with_note("Text", f"/Contents({FEE})"), "", "notes"),
    "stamp": (with_note("Stamp", f"/Contents({FEE})"), "", "notes"),
    "form within a page": (paper(lines(BEFORE) + "/X1 Do", page=ONE_X, more={50: INNER}), FEE),
    "picture": (
        paper(lines(BEFORE) + "/X1 Do", page=ONE_X, more={50: IMAGE}),
        BEFORE,
        "1 pictures",
    ),
    "picture in a stream": (paper(lines(BEFORE) + "BI /W 1 /H 1 /BPC 8 /CS /G ID x EI"), BEFORE),
    "attached file": (paper(lines(BEFORE), catalog=LISTED, more=ATTACHED), BEFORE, "attached"),
    "attached to a page": (
        with_note("FileAttachment", "/FS 50 0 R/Contents(fees.txt)"),
        "",
        "notes",
    ),
    "prices at the top": (hand("Room 10#: 1# crowns"), "Room 104: 14 crowns"),
    "prices at the foot": (hand(f"{ROOM} 10#: 1# crowns", False), f"{ROOM} 104: 14 crowns"),
    "totals": (hand("Visitors in 201#: 1200", False), "Visitors in 2014: 1200"),
    "steps": (hand("Step #"), "Step 4"),
    "notice on each page": (hand("No refunds after 30 days", False), "No refunds after 30 days"),
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
    "one line a page": (paper(*(lines(f"Fee {n} crowns") for n in (12, 7, 5, 3))), "Fee 12 crowns"),
    "page without text": (paper(lines(FEE), "0 0 9 9 re f"), FEE, "1 of 2 pages hold no text"),
    "names of glyphs": (paper(lines("ABC"), font=form(NO_LETTERS)), "", "do not say which letters"),
    "one font of two without letters": (
        paper(
            lines("AB") + "BT /F2 10 Tf 50 600 Td (ABC) Tj ET",
            page=TWO_FONTS.format(50),
            more=LETTERS,
        ),
        "AB",
        "characters are in fonts that do not say which letters",
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
    "raised price": (paper(f"{BEGUN} (Only $12) Tj /F1 6 Tf 4 Ts (99) Tj 0 Ts ET"), "$12^99"),
    "raised then text": (
        paper(f"{BEGUN} (It is 12) Tj /F1 6 Tf 4 Ts (1) Tj /F1 10 Tf 0 Ts (0) Tj ET"),
        "It is 12^1 0",
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
        paper(lines("The fee is twelve cro-", "wns for each of the adults who come on board.")),
        "twelve crowns",
    ),
    "columns": (paper(f"{BEGUN} (Adults) Tj 200 0 Td (12) Tj ET"), "Adults 12"),
}
add("PDF", "x.pdf", PAPER)


def outcome(e: Element, folder: Path) -> str:
    "What became of an element: read, noted or lost; lost, too, what is read although nobody sees it, or takes a text beside it along."
    (folder / e.name).write_bytes(e.data)
    d = parse_document(folder / e.name)
    beside = [t for t in (BEFORE, AFTER) if t.encode() in e.data]
    if e.absent and e.absent in d.text or any(t not in d.text for t in (e.shown, *beside)):
        return "lost"
    if e.noted:
        return "noted" if re.search(e.noted, "\n".join(d.notes)) else "lost"
    return "read"


@pytest.mark.parametrize("name", ELEMENTS)
def test_an_element_is_read_or_counted(name, tmp_path):
    assert outcome(ELEMENTS[name], tmp_path) != "lost"


def test_a_sentence_has_the_page_on_which_it_stands_whatever_it_is_cut_with(tmp_path):
    night, key = "A night costs 120 euros.", "A lost key costs 180 euros."
    blocks = [(1, "Hotels"), ("text", night), ("page", ""), (1, "Keys"), ("text", key)]
    (tmp_path / "travel.pdf").write_bytes(pdf(blocks)[0])
    document = parse_document(tmp_path / "travel.pdf")
    [passage] = section_passages(document, "travel")
    places = [(at := passage.text.index(s), at + len(s)) for s in (night, key)]
    found = [page_words(place_of(as_context(passage), some)) for some in ([p] for p in places)]
    assert found == ["page 1", "page 2"]
    assert page_words(place_of(as_context(passage), places)) == "pages 1-2"


TABLES = {
    "menu.md": b"# Menu\n\n| Dish | Price |\n| --- | --- |\n| Soup | 2.80 |\n| Vegan dish | 6.40 |\n",
    "menu.html": b"<h1>Menu</h1><table><tr><th>Dish<th>Price<tr><td>Soup<td>2.80<tr><td>Vegan dish<td>6.40</table>",
    "menu.docx": docx(word_table(("Dish", "Price"), ("Soup", "2.80"), ("Vegan dish", "6.40"))),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_row_of_a_table_is_a_statement_that_can_be_copied(name, tmp_path):
    (tmp_path / name).write_bytes(TABLES[name])
    text = parse_document(tmp_path / name).text
    quotes = nearest(HashEmbedder(), ["vegan dish"], [Context("m", "m", text)], 1, 2, near=0.5)
    [said] = [text[q.start : q.end] for q in quotes]
    assert "|" not in text and text.count("Vegan dish") == 1
    headed = "Dish: Vegan dish; Price: 6.40."  # a row of Word does not say that it holds heads
    assert said == ("Vegan dish: 6.40." if name == "menu.docx" else headed)


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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        rows = [(name, outcome(e, Path(where))) for name, e in ELEMENTS.items()]
    print(text_table(("element", "is"), rows))
    print(f"{len(rows)} documents:", dict(Counter(what for _, what in rows)))
