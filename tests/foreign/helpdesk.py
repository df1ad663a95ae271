"""A help desk in plain Python that knows nothing of mtrag_nb: a search, a filter, a rule when to answer, and a quote.

`Desk(documents.jsonl, fault).ask([text, text, ...])` answers the last of the texts of a conversation. A fault breaks one stage:
retriever, grader, generator or refusal.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from math import log
from pathlib import Path


def words(text: str) -> list[str]:
    return [w.rstrip("s") for w in re.findall(r"[a-z0-9]{3,}", text.lower())]


@dataclass(frozen=True)
class Page:
    "A piece of the handbook. Its number is its own."

    number: int
    heading: str
    body: str


@dataclass(frozen=True)
class Response:
    message: str
    found: list[Page]
    used: list[Page]
    confident: bool


class Desk:
    def __init__(self, path: str | Path, fault: str = ""):
        rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
        self.pages = [Page(n, r["title"], r["text"]) for n, r in enumerate(rows, 1)]
        self.counts = [Counter(words(f"{p.heading} {p.body}")) for p in self.pages]
        self.frequency = Counter(w for c in self.counts for w in c)
        self.fault = fault

    def weight(self, asked: set[str], text: str) -> float:
        here = asked & set(words(text))
        return sum(log(1 + len(self.pages) / (0.5 + self.frequency[w])) for w in here)

    def search(self, query: str, k: int = 6) -> list[Page]:
        asked, length = (
            set(words(query)),
            {p.number: len(words(p.body)) for p in self.pages},
        )
        score = {
            p.number: self.weight(asked, f"{p.heading} {p.body}")
            / (3 + log(1 + length[p.number]))
            for p in self.pages
        }
        ranked = sorted(self.pages, key=lambda p: -score[p.number])
        return ranked[-k:] if self.fault == "retriever" else ranked[:k]

    def keep(self, query: str, pages: list[Page]) -> list[Page]:
        asked = set(words(query))
        weights = [self.weight(asked, p.body) for p in pages]
        good = [w >= 0.6 * max(weights) for w in weights]
        return [p for p, g in zip(pages, good) if g != (self.fault == "grader")]

    def confident(self, question: str, pages: list[Page]) -> bool:
        asked = set(words(question))
        share = self.weight(asked, " ".join(p.body for p in pages)) / (
            self.weight(asked, question) or 1
        )
        return share >= (2 if self.fault == "refusal" else 0.45)

    def quote(self, question: str, pages: list[Page]) -> str:
        if self.fault == "generator":
            return (
                "Purple zebras graze quietly beyond seven frozen lighthouses tonight."
            )
        asked = set(words(question))
        sentences = [s for p in pages for s in re.split(r"(?<=[.!?])\s+", p.body)]
        best = max(
            range(len(sentences)), key=lambda i: self.weight(asked, sentences[i])
        )
        return " ".join(sentences[best : best + 2])

    def ask(self, said: list[str]) -> Response:
        question, query = said[-1], " ".join(said[-3::2])
        found = self.search(query)
        used = self.keep(query, found)
        confident = self.confident(question, used)
        text = (
            self.quote(question, used)
            if confident
            else "Sorry, I can't find that in our handbook."
        )
        return Response(text, found, used, confident)
