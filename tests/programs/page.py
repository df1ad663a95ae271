"""The page of `mtrag serve` in a real browser: documents put in, questions asked, citations opened, a refusal, a removal.

  python tests/programs/page.py [--shots FOLDER]   the last line reads `N passed, N failed`
  python tests/programs/page.py --pictures         only makes the pictures of tour/03_your_documents (figures/page-*.png)

The service runs with the laptop's models in a process of its own. The browser uses it as a person would, at 1280 and at 390
pixels, in the light and in the dark; no request may leave the machine, and axe-core (fetched from npm) may find nothing
serious. It installs what it needs as tests/programs/browser.py does. Screenshots go to a temporary folder, or to FOLDER.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from browser import Checks, arguments, axe_source, launched, playwright, serious
from common import started

from mtrag_nb.data.mtrag import read_gold
from tests.support.specimens import docx, pdf, word_paragraph

SIZES = {
    "desktop": {"width": 1280, "height": 900},
    "phone": {"width": 390, "height": 844},
}
SCREENS = [
    (f"{n}-{s}", size, s) for n, size in SIZES.items() for s in ("light", "dark")
]


def filler(what: str) -> str:
    "Sentences that nobody asks about, so that each section is a passage of its own."
    return " ".join(
        f"{what} number {n} is made of oak, has a green handle and holds old paper maps."
        for n in range(1, 13)
    )


FERRY = [
    ("title", "The Holm Ferry"),
    (1, "Fees"),
    (
        "text",
        "A ticket for a grown person costs twelve crowns. A dog travels with its owner for four crowns. Children under six "
        "travel free of charge. A bicycle costs nine crowns, and a car costs sixty crowns. "
        + filler("Shelf"),
    ),
    ("page", ""),
    (1, "Luggage"),
    (
        "text",
        "Each passenger may bring two suitcases of up to twenty kilograms. Gas bottles and fuel cans are not allowed on board. "
        "Lost luggage is kept at the harbour office for thirty days. "
        + filler("Cupboard"),
    ),
]
HOURS = [
    "The harbour office opens at eight in the morning and closes at four in the afternoon. On Sundays the office stays closed.",
    "The first ferry leaves Holm at seven in the morning. The last ferry returns at ten in the evening. In a storm above nine "
    "Beaufort no ferry leaves the harbour.",
]
ISLAND = """<html><head><title>The island</title></head><body><h1>The island</h1><h2>Camping</h2><p>Camping is allowed on the
meadow behind the lighthouse from May to September. A tent costs eight crowns for each night. Open fires are forbidden on
the whole island.</p>
<h2>Lighthouse</h2><p>The lighthouse was built in 1887 and is thirty-one metres high. Visitors may climb its tower on Saturdays.</p>
<script>window.owned = 1</script><p><img src=x onerror="window.owned=1">Seals rest on the northern beach in winter.</p></body></html>"""
QUESTIONS = [
    ("What is the quantum spin of a gluon in chromodynamics?", "No answer"),
    ("What is the weight limit?", "No answer"),  # though a passage says it: graded away
    ("How much does a dog cost on the ferry?", "four crowns"),
    ("When does the last ferry return?", "ten in the evening"),
    ("How high is the lighthouse?", "thirty-one metres"),
    ("How long is lost luggage kept?", "thirty days"),
]
HOSTILE = "<img src=x onerror=window.owned=1>.txt"


def documents(folder: Path) -> list[Path]:
    "A PDF, a DOCX and an HTML page."
    hours = docx(
        word_paragraph("Opening hours", "berschrift1"), *map(word_paragraph, HOURS)
    )
    parrot = "<script>window.owned = 1</script> A parrot travels for one crown, says <b>nobody</b>.\n"
    made = {"ferry.pdf": pdf(FERRY)[0], "hours.docx": hours}
    made |= {"island.html": ISLAND.encode(), HOSTILE: parrot.encode()}
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in made]


HOLM = [
    ("title", "The Holm Ferry"),
    (1, "Fees"),
    (
        "text",
        "A ticket for a grown person costs twelve crowns, there and back. Children under six travel free of charge, older ones "
        "pay half. A dog travels with its owner for four crowns and stays on the lower deck. "
        "A bicycle costs nine crowns, and a car "
        "costs sixty crowns. Tickets are sold on the pier and, against one crown more, on board. A season ticket costs ninety "
        "crowns and holds from April to October. It bears a name and cannot be lent. Whoever lives on the island pays two "
        "crowns, and shows a letter with the address. Groups of ten and more are asked to write a week before. Money is given "
        "back if the ferry does not sail, and not if it sails late. The council sets the fees each year in February. They are "
        "posted on the pier and in the harbour office. Whoever travels without a ticket pays forty crowns, and the ticket as "
        "well. The crew may ask for it at any time until the ferry has landed.",
    ),
    ("page", ""),
    (1, "Luggage"),
    (
        "text",
        "Each passenger may bring two suitcases of up to twenty kilograms. Gas bottles and fuel cans are not allowed on board. "
        "Lost luggage is kept at the harbour office for thirty days. After that it is given to the island's school, which sells "
        "it in its summer market. Skis, prams and wheelchairs cost nothing and do not count as luggage. A piano takes two "
        "men, who are not the crew. Boxes with bees are carried in the first ferry of the day, when the air is cool. Parcels "
        "without a passenger are taken for three crowns, if somebody waits for them on the other side. What is left on the "
        "deck in a storm is tied to the rail by the crew. For what falls into the water nobody answers.",
    ),
]


def service(folder: Path, changes: Sequence[str] = ()) -> tuple[subprocess.Popen, str]:
    "The service with the laptop's models, and its address."
    code = (
        "import sys; from mtrag_nb.app.options import Setup; from mtrag_nb.serve.serve import serve; "
        "serve(sys.argv[1] + '/library', sys.argv[1] + '/served', port=0, settings=Setup(set=sys.argv[2:]), "
        "ready=lambda said: print(said, flush=True))"
    )
    return started(code, folder, *changes)


class Visit:
    "A browser's window on the page, and what it did."

    def __init__(self, browser, url: str, size: dict, scheme: str, axe: str):
        how = {"viewport": size, "color_scheme": scheme, "accept_downloads": True}
        self.context = browser.new_context(**how)
        self.tab, self.errors, self.asked = self.context.new_page(), [], []
        self.url, self.size, self.axe = url, size, axe
        self.tab.on("pageerror", lambda e: self.errors.append(str(e)))
        self.tab.on("console", self.hear)
        self.context.on("request", lambda r: self.asked.append(r.url))
        self.tab.goto(url)

    def hear(self, message) -> None:
        if message.type == "error" and "status of 4" not in message.text:
            self.errors.append(message.text)

    def elsewhere(self) -> list[str]:
        "Requests that left the machine."
        here, asked = urlsplit(self.url).netloc, [urlsplit(u) for u in self.asked]
        return [
            u.geturl()
            for u in asked
            if u.scheme in ("http", "https") and u.netloc != here
        ]

    def fits(self) -> None:
        width = self.tab.evaluate("document.documentElement.scrollWidth")
        assert width <= self.size["width"], "wider than the screen"

    def accessible(self) -> None:
        "Nothing serious is found by axe-core."
        found = serious(self.tab, self.axe)
        assert not found, found

    def looks(self, shot: Path, whole: bool = False) -> None:
        "It fits; a picture of it."
        self.fits()
        self.tab.screenshot(path=shot, full_page=whole)

    def downloaded(self, link: str) -> Path:
        "What a link downloads."
        with self.tab.expect_download() as got:
            self.tab.get_by_role("link", name=link).click()
        file = Path(got.value.path()).with_suffix(".jsonl")
        return Path(got.value.path()).rename(file)

    def find_lost(self, turn) -> object:
        "Ask why of a turn, and search the library for the passage that it lacks: its place in the list."
        press(turn, "Why?")
        box = turn.get_by_role("textbox", name="search the library")
        box.fill("suitcases of twenty kilograms")
        press(turn, "search: ")
        return (
            turn.get_by_role("list", name="Passages of the library").locator("li").first
        )

    def unharmed(self) -> None:
        assert self.tab.evaluate("window.owned") is None, "a script of a document ran"

    def ask(self, question: str, expect) -> object:
        "Ask, and wait for the turn."
        n = self.tab.locator("article.turn").count()
        self.tab.locator("#question").fill(question)
        self.tab.locator("#question").press("Enter")
        turn = self.tab.locator("article.turn").nth(n)
        expect(turn.locator(".foot, .box.bad").first).to_be_visible(timeout=3 * 120_000)
        return turn


def press(where, name: str) -> None:
    where.get_by_role("button", name=name).click()


def marks(checks: Checks, v: Visit, name: str) -> None:
    "Offsets count characters, whatever JavaScript counts."
    with checks(
        f"{name}: marks stand where they belong behind characters outside the BMP"
    ):
        text = "\N{OCTOPUS}" * 12 + " our notes. It opens at nine. The keeper sleeps."
        at = text.index("It opens"), text.index(" The keeper")
        said = "([text, marks]) => passageText({ text, marks }).map(x => x.textContent ?? x)"
        shown = v.tab.evaluate(said, [text, [at]])
        assert shown == [text[: at[0]], "It opens at nine.", " The keeper sleeps."], (
            shown
        )
        claim = {"start": at[0], "end": at[1], "cites": [], "supported": False}
        said = "([answer_, claims]) => answer({ answer: answer_, claims }, {}).querySelector('.unsaid').textContent"
        given = [text, [claim | {"problem": "no source"}]]
        assert v.tab.evaluate(said, given) == "It opens at nine."


def put_in(checks: Checks, v: Visit, expect, paths: list[Path], name: str) -> None:
    "Documents by the file chooser; one that is none is refused with a reason."
    with checks(f"{name}: four documents are put in, one is refused"):
        island = [str(p) for p in paths if p.suffix == ".html"]
        v.tab.locator("#files").set_input_files(
            [str(p) for p in paths if str(p) not in island]
        )
        expect(v.tab.locator("#count")).to_have_text("3", timeout=3 * 180_000)
        v.tab.get_by_label("into the collection").fill("island")
        v.tab.locator("#files").set_input_files(island)
        expect(v.tab.locator("#count")).to_have_text("4", timeout=3 * 180_000)
        expect(v.tab.locator("#documents")).to_contain_text("in “island”")
        v.tab.get_by_label("into the collection").fill("")
        broken = paths[0].parent / "broken.pdf"
        broken.write_bytes(b"no PDF at all")
        v.tab.locator("#files").set_input_files(str(broken))
        told = v.tab.locator("#uploads")
        expect(told).to_contain_text(
            "refused: the content is no PDF", timeout=3 * 60_000
        )
        press(told, "ok")
        expect(v.tab.locator("#documents")).to_contain_text(HOSTILE)
        v.unharmed()
        v.looks(checks.shots / f"page-documents-{name}.png", True)


ON_PASSAGE = "document.activeElement.classList.contains('passage')"


def converse(checks: Checks, v: Visit, expect, name: str) -> None:
    "Six questions in one conversation: answers with their sources, and a refusal with its reason."
    turns = []
    for question, wanted in QUESTIONS:
        with checks(f"{name}: {question}"):
            turns.append(v.ask(question, expect))
            expect(turns[-1]).to_contain_text(wanted)
    with checks(
        f"{name}: a citation opens its passage, the sentence marked, the page named"
    ):
        turns[5].locator(".sources button", has_text="page 2").click()
        # a copy supports itself
        expect(turns[5].locator(".facts")).not_to_contain_text("supported")
        passage = turns[5].locator(".passage:not([hidden])").first
        expect(passage.locator("mark", has_text="thirty days")).to_be_visible()
        expect(turns[5].locator(".sources button[aria-expanded=true]")).to_contain_text(
            "ferry.pdf"
        )
        turns[2].locator(".cite").first.click()
        assert v.tab.evaluate(ON_PASSAGE), "the number in the text leads there, too"
        v.looks(checks.shots / f"page-citation-{name}.png")
    with checks(f"{name}: the refusal says why"):
        expect(turns[0].locator(".box.warn")).to_contain_text("passed the grade")
        turns[0].locator("details.more summary").click()
        expect(turns[0].locator("details.more")).to_contain_text("left out")
        turns[0].scroll_into_view_if_needed()
        v.looks(checks.shots / f"page-refusal-{name}.png")
    with checks(f"{name}: why in words, and the turn as notebooks show it"):
        press(turns[2], "Why?")
        expect(turns[2].locator(".about ol").first).to_contain_text("ambiguous")
        press(turns[2], "every step")
        expect(v.tab.frame_locator("#why-page").locator("body")).to_contain_text(
            "Passages"
        )
        v.tab.screenshot(path=checks.shots / f"page-why-{name}.png")
        v.tab.keyboard.press("Escape")
    mark(checks, v, expect, turns, name)


def mark(checks: Checks, v: Visit, expect, turns: list, name: str) -> None:
    "Three marks: right, rightly refused, and a passage that the grade threw away."
    with checks(
        f"{name}: right answers and right refusals are marked, by the keyboard"
    ):
        for turn in (turns[0], turns[2]):
            turn.get_by_role("button", name="this answer is right").focus()
            v.tab.keyboard.press("Enter")
            expect(turn.locator(".came")).to_have_text("right")
        turns[2].get_by_role("textbox", name="a note").fill("right & <b>good</b>")
        turns[2].get_by_role("button", name="save: a note").click()
    lost = turns[1]
    with checks(
        f"{name}: a passage is found and marked, and the turn says which stage lost it"
    ):
        found = v.find_lost(lost)
        thrown = lost.get_by_role("list", name="Passages that were found")
        expect(thrown).to_contain_text(
            re.compile(r"thrown away: no 0\.\d\d \(limit 0.53\)")
        )
        press(found, "Luggage")
        expect(found.locator(".passage")).to_contain_text("twenty kilograms")
        press(found, "this passage answers it")
        expect(lost.locator(".came")).to_contain_text("Failed first at grade")
        expect(v.tab.locator("#marked")).to_have_text("3")
    with checks(f"{name}: the marks are a file of tasks and gold"):
        unfold(v)
        gold = read_gold(v.downloaded("tasks and gold")).values()
        assert [g.answerability for g in gold].count("ANSWERABLE") == 2


def draw(checks: Checks, v: Visit, expect, name: str) -> None:
    "A test set drawn from the documents: two questions accepted, one thrown away, the file read as tasks."
    with checks(
        f"{name}: questions are drawn, accepted, thrown away; the file has tasks and gold"
    ):
        v.tab.locator("#set-fold > summary").focus()
        v.tab.keyboard.press("Enter")
        v.tab.locator("#draw").focus()
        v.tab.keyboard.press("Enter")
        drawn = v.tab.locator("#drawn li")
        expect(drawn.nth(2)).to_be_visible(timeout=3 * 60_000)
        n = drawn.count()
        for k in (0, 1):
            press(drawn.nth(k), "accept")
            expect(v.tab.locator("#kept")).to_have_text(str(k + 1))
        press(drawn.nth(2), "throw away")
        expect(drawn).to_have_count(n - 1)
        v.accessible()
        v.looks(checks.shots / f"page-set-{name}.png", True)
        assert len(read_gold(v.downloaded("with passages"))) == 2
        for k in (0, 1):
            press(drawn.nth(k), "accept")
        expect(v.tab.locator("#set")).to_be_hidden()
        v.tab.locator("#set-fold > summary").click()


def unfold(v: Visit) -> None:
    "On a phone the lists of conversations and of documents are folded away before they are filled."
    v.tab.locator("#talks .talk").first.wait_for(state="attached")
    for fold in ("#documents-fold", "#talks-fold"):
        if v.tab.locator(f"{fold}:not([open])").count():
            v.tab.locator(f"{fold} > summary").click()


def read_again(checks: Checks, v: Visit, expect, name: str) -> None:
    "The page opened anew shows the conversation; it is exported, and by the keyboard alone the next question is asked."
    with checks(f"{name}: opened again, the conversation is there, and is exported"):
        v.tab.reload()
        expect(v.tab.locator("article.turn")).to_have_count(len(QUESTIONS))
        expect(v.tab.locator("article.turn").nth(1).locator(".came")).to_contain_text(
            "grade"
        )
        unfold(v)
        assert "four crowns" in v.downloaded("as JSON").read_text(encoding="utf-8")
    with checks(f"{name}: nothing serious for axe-core, nothing wider than the screen"):
        v.accessible()
        v.looks(checks.shots / f"page-talk-{name}.png", True)
    with checks(f"{name}: by the keyboard alone"):
        v.tab.locator("#fresh").focus()
        v.tab.keyboard.press("Enter")
        expect(v.tab.locator("#question")).to_be_focused()
        v.tab.keyboard.type("How much is a bicycle?")
        v.tab.keyboard.press("Enter")
        turn = v.tab.locator("article.turn").last
        expect(turn).to_contain_text("nine crowns", timeout=3 * 120_000)
        for _ in range(12):
            v.tab.keyboard.press("Shift+Tab")
            if v.tab.evaluate("document.activeElement.className.includes('cite')"):
                break
        v.tab.keyboard.press("Enter")
        assert v.tab.evaluate(ON_PASSAGE), "the passage has the focus"
        outline = v.tab.evaluate(
            "getComputedStyle(document.activeElement).outlineStyle"
        )
        assert outline == "solid", "and one sees it"
    with checks(f"{name}: an answer that rests only on the question before says so"):
        turn = v.ask("Who is the CEO?", expect)
        expect(turn.locator(".box.warn")).to_contain_text("do not seem to answer")


def collections(checks: Checks, v: Visit, expect, name: str) -> None:
    "The cited passage in its document, its sentence marked; a document read; a question asked of one collection only."
    with checks(f"{name}: a citation opens its document at the sentence"):
        unfold(v)
        v.tab.locator("#talks .talk", has_text=QUESTIONS[0][0]).click()
        turn = v.tab.locator("article.turn").nth(5)
        press(turn.locator(".sources li", has_text="page 2"), "show in the document")
        book = v.tab.get_by_role("dialog", name="ferry.pdf")
        expect(book.locator("mark", has_text="thirty days")).to_be_in_viewport()
        expect(book.locator("h3", has_text="page 2")).to_have_count(1)
        said = " ".join(book.locator("#book-text").inner_text().split())
        assert (
            said.count("A dog travels with its owner") == said.count("thirty days") == 1
        )
        v.accessible()
        v.looks(checks.shots / f"page-book-{name}.png")
        v.tab.keyboard.press("Escape")
        press(v.tab, f"read {HOSTILE}")
        expect(v.tab.locator("#book-text")).to_contain_text("<b>nobody</b>")
        v.tab.keyboard.press("Escape")
    with checks(f"{name}: a question to one collection finds nothing of the others"):
        unfold(v)
        v.tab.locator("#fresh").click()
        v.tab.locator("#collection").select_option("island")
        expect(v.ask(QUESTIONS[4][0], expect)).to_contain_text(QUESTIONS[4][1])
        turn = v.ask(QUESTIONS[2][0], expect)
        expect(turn).not_to_contain_text("ferry.pdf")
        v.tab.locator("#collection").select_option("")


def take_out(checks: Checks, v: Visit, expect, name: str) -> None:
    "A document that is deleted is neither cited nor found any more; the conversation is deleted, too."
    with checks(f"{name}: a deleted document is cited no more"):
        press(v.tab, "delete ferry.pdf")
        v.tab.screenshot(path=checks.shots / f"page-sure-{name}.png")
        v.tab.locator("#yes").click()
        expect(v.tab.locator("#count")).to_have_text("3")
        v.tab.locator("#fresh").click()
        expect(v.tab.locator("article.turn")).to_have_count(0)
        turn = v.ask(QUESTIONS[2][0], expect)
        expect(turn).not_to_contain_text("four crowns")
        expect(turn).not_to_contain_text("ferry.pdf")
        press(turn, "Why?")
        press(turn, "every step")
        why = v.tab.frame_locator("#why-page").locator("body")
        expect(why).not_to_contain_text("A dog travels with its owner")
        v.tab.keyboard.press("Escape")
    with checks(f"{name}: a mark says that its document is gone"):
        v.tab.locator("#talks .talk", has_text=QUESTIONS[0][0]).click()
        lost = v.tab.locator("article.turn").nth(1)
        press(lost, "Why?")
        marked = lost.get_by_role("list", name="Marked passages")
        expect(marked).to_contain_text("not in the library any more")
    with checks(f"{name}: every document and conversation deleted"):
        every = v.tab.locator("#documents button[aria-label^=delete]")
        for n in range(every.count(), 0, -1):
            every.first.click()
            v.tab.locator("#yes").click()
            expect(every).to_have_count(n - 1)
        for talk in range(v.tab.locator("#talks .talk").count(), 0, -1):
            v.tab.locator("#talks .talk").first.click()
            press(v.tab.locator("#talks"), "delete")
            v.tab.locator("#yes").click()
            expect(v.tab.locator("#talks .talk")).to_have_count(talk - 1)
        v.tab.reload()
        expect(v.tab.locator("#marks")).to_be_hidden()
    with checks(
        f"{name}: no request left the machine, no error, nothing of a document ran"
    ):
        assert not v.elsewhere(), v.elsewhere()
        assert not v.errors, v.errors
        v.unharmed()


def other_systems(checks: Checks, v: Visit, expect, systems: list[str]) -> None:
    "Another system by the list; its turn is shown like any other, whatever came of it."
    for system in systems:
        with checks(f"answered by {system}"):
            v.tab.get_by_label("answered by").select_option(system)
            v.tab.locator("#fresh").click()
            turn = v.ask("How much is a bicycle?", expect)
            expect(turn.locator(".below")).to_contain_text(system)
            v.tab.screenshot(
                path=checks.shots / f"page-{re.sub(r'[^a-z_]', '', system)}.png"
            )


def picture(v: Visit, name: str) -> None:
    "What the window shows, in few colours, so that the file is small."
    from PIL import Image

    path = Path(__file__).parents[2] / "figures" / f"page-{name}.png"
    v.tab.screenshot(path=path)
    few = (
        Image.open(path)
        .convert("RGB")
        .quantize(128, Image.Quantize.MAXCOVERAGE, dither=0)
    )
    few.save(path, optimize=True)
    assert path.stat().st_size < 120_000, f"{path}: {path.stat().st_size:,} bytes"
    print(f"{path}: {path.stat().st_size:,} bytes")


def pictures(browser, url: str, expect, paths: list[Path]) -> None:
    "Documents, a citation that is open (on a phone, too), a refusal with its reason, and a mark."
    paths[0].write_bytes(pdf(HOLM)[0])
    v = Visit(browser, url, {"width": 1280, "height": 760}, "light", "")
    v.tab.locator("#files").set_input_files([str(p) for p in paths])
    expect(v.tab.locator("#count")).to_have_text(str(len(paths)), timeout=3 * 180_000)
    picture(v, "documents")
    turn = v.ask("How long is lost luggage kept?", expect)
    turn.locator(".sources button", has_text="page 2").click()
    expect(turn.locator("mark", has_text="thirty days")).to_be_visible()
    picture(v, "citation")
    phone = Visit(browser, url, {"width": 390, "height": 844}, "light", "")
    phone.tab.locator("#talks-fold > summary").click()
    phone.tab.locator("#talks .talk").first.click()
    phone.tab.locator("article.turn .sources button", has_text="page 2").click()
    phone.tab.locator("article.turn").evaluate("e => e.scrollIntoView()")
    picture(phone, "phone")
    v.tab.locator("#fresh").click()
    turn = v.ask(QUESTIONS[0][0], expect)
    turn.locator("details.more summary").click()
    turn.scroll_into_view_if_needed()
    picture(v, "refusal")
    # long passages, of which the grade throws the right one away
    paths[0].write_bytes(pdf(FERRY)[0])
    v.tab.locator("#files").set_input_files(str(paths[0]))
    expect(v.tab.locator("#uploads")).to_contain_text("replaced", timeout=3 * 60_000)
    v.tab.locator("#fresh").click()
    turn = v.ask(QUESTIONS[0][0], expect)
    press(turn, "this answer is right")
    lost = v.ask(QUESTIONS[1][0], expect)
    press(v.find_lost(lost), "this passage answers it")
    expect(lost.locator(".came")).to_contain_text("Failed first at grade")
    lost.evaluate("e => e.scrollIntoView()")
    picture(v, "marks")


def main(argv=None) -> int:
    ap = arguments(__doc__)
    names = [name for name, *_ in SCREENS]
    ap.add_argument("--screens", nargs="+", default=names, help="only these")
    others, more = ["naive", "self_crag"], "asked besides the page's own"
    ap.add_argument("--systems", nargs="*", default=others, help=more)
    ap.add_argument(
        "--set", action="append", default=[], help="a setting of the service, as serve"
    )
    only = "make the pictures of the walk-through, and nothing else"
    ap.add_argument("--pictures", action="store_true", help=only)
    args = ap.parse_args(argv)
    api, checks = playwright(), Checks(args.shots)
    with (
        api.sync_playwright() as p,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        folder = Path(folder)
        (folder / "documents").mkdir()
        axe, paths = (
            "" if args.pictures else axe_source(folder),
            documents(folder / "documents"),
        )
        process, url = service(folder, args.set)
        browser = launched(p)
        try:
            if args.pictures:
                pictures(
                    browser, url, api.expect, [p for p in paths if p.name != HOSTILE]
                )
            for name, size, scheme in SCREENS:
                if name not in args.screens or args.pictures:
                    continue
                v = Visit(browser, url, size, scheme, axe)
                put_in(checks, v, api.expect, paths, name)
                marks(checks, v, name)
                draw(checks, v, api.expect, name)
                converse(checks, v, api.expect, name)
                if name == "desktop-light" and args.systems:
                    own = v.tab.locator("#system").input_value()
                    systems = v.tab.locator("#system option").all_inner_texts()
                    other_systems(
                        checks, v, api.expect, [s for s in systems if s in args.systems]
                    )
                    v.tab.get_by_label("answered by").select_option(own)
                    v.tab.locator(
                        "#talks .talk", has_text=QUESTIONS[0][0]
                    ).first.click()
                    v.tab.locator(
                        "#talks .talk", has_text="How much is a bicycle"
                    ).first.wait_for()
                    delete_others(v, api.expect)
                process = restarted(
                    checks, process, (folder, args.set), v, api.expect, name
                )
                url = v.url
                read_again(checks, v, api.expect, name)
                collections(checks, v, api.expect, name)
                take_out(checks, v, api.expect, name)
                v.context.close()
        finally:
            browser.close()
            process.terminate()
            with checks("stopped by a signal, it ends in good order"):
                assert process.wait(60) == 0
    return checks.ended()


def restarted(
    checks: Checks, process, how: tuple, v: Visit, expect, name: str
) -> subprocess.Popen:
    "The service killed and started again: conversation and marks are there. The new process."
    unfold(v)
    v.tab.locator("#talks .talk").first.click()
    expect(v.tab.locator("article.turn")).to_have_count(len(QUESTIONS))
    process.kill()
    process.wait()
    place = urlsplit(v.tab.url).fragment
    process, v.url = service(*how)
    with checks(
        f"{name}: killed and started again, documents, turns and marks are there"
    ):
        v.tab.goto(f"{v.url}#{place}")
        expect(v.tab.locator("#marked")).to_have_text("3")
        expect(v.tab.locator("#count")).to_have_text("4")
        expect(v.tab.locator("article.turn")).to_have_count(len(QUESTIONS))
        expect(v.tab.locator("article.turn").nth(1).locator(".came")).to_contain_text(
            "grade"
        )
        v.tab.screenshot(path=checks.shots / f"page-restarted-{name}.png")
        v.asked.clear(), v.errors.clear()
    return process


def delete_others(v: Visit, expect) -> None:
    "Leave only the conversation with the five questions."
    while (
        others := v.tab.locator("#talks .talk", has_text="How much is a bicycle")
    ).count():
        n = others.count()
        others.first.click()
        expect(v.tab.locator("#talks .talk[aria-current=true]")).to_contain_text(
            "bicycle"
        )
        press(v.tab.locator("#talks"), "delete")
        v.tab.locator("#yes").click()
        expect(
            v.tab.locator("#talks .talk", has_text="How much is a bicycle")
        ).to_have_count(n - 1)


if __name__ == "__main__":
    sys.exit(main())
