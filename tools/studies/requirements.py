"""The requirements of the design card and of the four sources, as `data/paper/requirements.json` lists them.

A row says what is asked and where, whether it is built as stated, differently or not, where to look, and why it differs. Some rows
have evidence beside them that is computed from recorded runs, settings and a service that is started for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mtrag_nb.core.files import data_dir, read_json
from mtrag_nb.core.html import esc, fold, text_table, words_table
from mtrag_nb.core.types import DataError
from tools.studies.agents_requirements import agents_evidence
from tools.studies.evidence import Evidence
from tools.studies.nexus_requirements import nexus_evidence

SOURCES = {
    "card": "the design card",
    "self_crag": "Self-CRAG, paper and draft",
    "ncl": "NCL, paper",
    "agents": "the multi-agent specification",
    "nexus": "NexusRAG, description",
}
STATES = ("as stated", "differs", "missing")


@dataclass(frozen=True)
class Requirement:
    "A row of the file."

    source: str
    "A key of `SOURCES`."
    section: str
    asks: str
    state: str
    "One of `STATES`."
    places: Sequence[str]
    "Files, `module:name`, `settings key NAME` and ids of tests."
    reason: str
    "Why it differs or is missing."
    evidence: str = ""
    "A name of the source's evidence."


def read_requirements() -> list[Requirement]:
    "The rows of `data/paper/requirements.json`."
    rows = read_json(data_dir("paper") / "requirements.json", list)
    return [Requirement(**row) for row in rows]


class Requirements:
    """Rows of requirements with their evidence, as a table a source, with counts above them.

    Raises DataError for a row without its evidence, and for evidence without a row.
    """

    HEAD = ("section", "asks", "state", "where to look", "found, and why it differs")

    def __init__(
        self,
        rows: Sequence[Requirement],
        evidence: Mapping[str, Mapping[str, Evidence]],  # source -> name -> what shows
    ):
        self.rows = tuple(rows)
        self.evidence = evidence
        named = {(r.source, r.evidence) for r in rows if r.evidence}
        computed = {(source, n) for source, some in evidence.items() for n in some}
        if differ := sorted(named ^ computed):
            source, name = differ[0]
            whose = "row" if differ[0] in computed else "evidence"
            raise DataError(f"{name!r} of {source} has no {whose}")

    def of(self, source: str) -> list[Requirement]:
        "The rows of a source."
        return [r for r in self.rows if r.source == source]

    def counts(self) -> list[tuple[str, int, int, int, int]]:
        "Source, its rows, and those of each state; the last is the sum."
        rows = []
        for source, name in SOURCES.items():
            states = Counter(r.state for r in self.of(source))
            rows.append((name, states.total(), *(states[s] for s in STATES)))
        sums = [sum(column) for column in zip(*(row[1:] for row in rows))]
        return [*rows, ("all", *sums)]

    def found(self, row: Requirement) -> str:
        "The evidence of a row in words; '' where none is computed."
        if not row.evidence:
            return ""
        return str(self.evidence[row.source][row.evidence])

    def _cells(self, row: Requirement) -> tuple[str, ...]:
        places = ", ".join(row.places)
        told = ". ".join(filter(None, (self.found(row), row.reason)))
        return row.section, row.asks, row.state, places, told

    def __repr__(self) -> str:
        parts = [text_table(("source", "rows", *STATES), self.counts())]
        for source, name in SOURCES.items():
            lines = [f"{name.upper()}"]
            for row in self.of(source):
                lines.append(f"{row.section}  {row.asks} [{row.state}]")
                told = (self.found(row), row.reason)
                lines += [f"    {words}" for words in told if words]
            parts.append("\n".join(lines))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [words_table(("source", "rows", *STATES), self.counts())]
        for source, name in SOURCES.items():
            rows = [self._cells(row) for row in self.of(source)]
            head = f"{name}: {len(rows)} rows"
            parts.append(fold(esc(head), words_table(self.HEAD, rows)))
        return "".join(parts)


def requirements_with_evidence() -> Requirements:
    "All requirements, with what shows them; two services are started and asked."
    evidence = {"agents": agents_evidence(), "nexus": nexus_evidence()}
    return Requirements(read_requirements(), evidence)
