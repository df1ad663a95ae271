"""Look at the site that `make site` built: links and anchors, sizes, requests to elsewhere, a phone, dark mode, the keyboard, axe-core.

  python tests/programs/look_at_site.py [FOLDER] [--shots FOLDER]

Pages are served on this machine and looked at by Chromium. The last line reads `N passed, N failed`.
"""

import functools
import http.server
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from browser import Checks, arguments, launched
from common import ROOT

# bytes of a page; of all that the first page fetches, compressed as a web server would
MOST, FIRST = 1_000_000, 200_000
LOOKED_AT = {
    "first": "index.html",
    "chapter": "nbs/tour/05_real_systems.html",
    "room": "nbs/1_core/13_record.html",
    "api": "api/mtrag_nb/core/record/index.html",
    "search": "search.html?q=retry",
    "cards": "docs/cards.html",
    "study": "nbs/9_studies/03_correction.html",
}


class Page(HTMLParser):
    "The anchors of a page, what it links to, and what it loads."

    def __init__(self, path: Path):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {v for k, v in attrs.items() if k in ("id", "name") and v}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if (
            tag in ("img", "script", "source")
            or tag == "link"
            and attrs.get("rel") == "stylesheet"
        ):
            self.loads += [v for k in ("src", "srcset", "href") if (v := attrs.get(k))]


def broken(site: Path) -> list[str]:
    "What leads nowhere, and what is loaded from elsewhere."
    pages, found = {p: Page(p) for p in site.rglob("*.html")}, []
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            if urlsplit(link).scheme or link.startswith("//"):
                if link in page.loads and not link.startswith("data:"):
                    found.append(f"{path.relative_to(site)} loads {link}")
                continue
            name, anchor = urldefrag(unquote(link))
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].ids if target in pages else {anchor}
            if not target.exists() or anchor and anchor not in known:
                found.append(f"{path.relative_to(site)} -> {link}")
    return found


def look(site: Path, url: str, shots: Path):
    "What Chromium finds: (what, problem or '')."
    import gzip

    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = launched(play)
        for scheme, width in (
            ("light", 1280),
            ("dark", 1280),
            ("light", 390),
            ("dark", 390),
        ):
            size = {"width": width, "height": 900}
            context = browser.new_context(viewport=size, color_scheme=scheme)
            for what, path in LOOKED_AT.items():
                page, came = context.new_page(), []
                page.on("response", lambda r, came=came: came.append(r))
                page.goto(url + path, wait_until="networkidle")
                where = f"{what}, {scheme}, {width}"
                page.screenshot(path=shots / f"{where.replace(', ', '_')}.png")
                wrong = [
                    r.url for r in came if not r.url.startswith(url) or r.status != 200
                ]
                yield (
                    f"{where}: nothing from elsewhere, nothing missing",
                    " ".join(wrong),
                )
                wide = page.evaluate("document.documentElement.scrollWidth")
                yield (
                    f"{where}: no wider than the screen",
                    str(wide) if wide > width else "",
                )
                axe = Axe().run(page)
                rules = [
                    f"{v['id']} ({len(v['nodes'])})" for v in axe.response["violations"]
                ]
                yield f"{where}: axe-core", ", ".join(rules)
                if what == "first":
                    size = sum(len(gzip.compress(r.body())) for r in came)
                    yield (
                        f"{where}: {size // 1000} kB",
                        "" if size < FIRST else "too large",
                    )
                if what == "search":
                    hits = page.locator("#search-results li").count()
                    yield f"{where}: {hits} hits", "" if hits else "no hits"
                if what == "first" and width > 1000:
                    page.keyboard.press("Tab")
                    focused = page.evaluate("document.activeElement.textContent.trim()")
                    skips = "skip" in focused.lower()
                    yield (
                        f"{where}: Tab, {focused!r}",
                        "" if skips else "no way past the menu",
                    )
                page.close()
            context.close()
        browser.close()


def main() -> int:
    ap = arguments(__doc__)
    ap.add_argument("site", nargs="?", type=Path, default=ROOT / "_docs")
    args = ap.parse_args()
    checks, pages = Checks(args.shots), list(args.site.rglob("*.html"))
    large = [f"{p} {p.stat().st_size}" for p in pages if p.stat().st_size > MOST]
    found = [
        (f"{len(pages)} pages: no link leads nowhere", "\n".join(broken(args.site)))
    ]
    found.append(("no page of more than 1 MB", "\n".join(large)))
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=args.site
    )
    http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found += look(args.site, f"http://127.0.0.1:{server.server_port}/", checks.shots)
    for what, problem in found:
        with checks(what):
            assert not problem, problem
    return checks.ended()


if __name__ == "__main__":
    sys.exit(main())
