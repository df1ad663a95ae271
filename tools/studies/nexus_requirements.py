"""What shows the requirements of NexusRAG's description."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import mtrag_nb
from mtrag_nb.core.files import data_dir
from mtrag_nb.core.record import Graded
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.core.types import Passage, as_context
from mtrag_nb.serve.library import document_parser, section_passages
from mtrag_nb.serve.reader import iter_documents
from mtrag_nb.systems.citations import _source_head
from mtrag_nb.systems.citations import by_claims
from mtrag_nb.systems.nexus import NEXUS
from mtrag_nb.systems.citations import Citation, Cited, Claim
from tests.support.specimens import handbook
from tools.studies.evidence import (
    RRF_K,
    Evidence,
    asked_of_service,
    in_words,
    steps_of,
    visits,
)
from tools.studies.planted_claims import FALSE, TRUE, caught
from tools.study import footprint_words, kept_in

AT = "recorded/sample_nexus"
ENDPOINTS = (  # (table 4)
    "POST /api/upload",
    "POST /api/query",
    "GET /api/documents",
    "GET /api/status",
    "DELETE /api/documents/{id}",
)


@cache
def recorded_run() -> Run:
    "The recorded run of the sample."
    return Run(data_dir("recorded") / "sample_nexus")


@cache
def handbook_passages() -> list[Passage]:
    "The handbook of the tests, a PDF, cut at its sections."
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "handbook.pdf"
        path.write_bytes(handbook()[0])
        [document] = iter_documents(path)
    return section_passages(document, "ferries")


def recorded_citations() -> list[tuple[Claim, Citation]]:
    "Each citation of the recorded run, with its claim."
    cited = steps_of([recorded_run()], Cited)
    return [(c, x) for s in cited for c in s.claims for x in c.citations]


def ends(texts: Sequence[str]) -> str:
    "How many texts end with a sentence, in words."
    return f"{sum(t.rstrip().endswith(('.', '!', '?')) for t in texts)} of {len(texts)}"


def exact(claim: Claim, citation: Citation) -> bool:
    "Whether a citation points to the very words of a claim."
    return (
        " ".join(
            recorded_run()
            .passages[citation.context]
            .text[citation.start : citation.end]
            .split()
        )
        == claim.text
    )


def addresses(settings: Mapping) -> list[str]:
    "The addresses that a run's settings name."
    return [
        x
        for x in (
            settings["chat"]["url"],
            settings["embedder"]["url"],
            settings["qdrant_url"],
        )
        if x
    ]


def method() -> dict[str, Evidence]:
    "What shows the requirements of retrieval, generation and verification (sections 1, 3 and 4)."
    own = NEXUS.configure("nexus")
    sample_run = recorded_run()
    at = AT
    kept = {name: kept_in(name) for name in ("nexus", "citing")}
    citing = kept["citing"]
    turns = list(sample_run.trajectories.values())
    cut = handbook_passages()
    splitter = document_parser(own.chunks).node_parser_map["child"]
    children = [text for c in cut for text in splitter.split_text(c.text)]
    claims = recorded_citations()
    cited = steps_of([sample_run], Cited)
    grades = [g.verdict for s in steps_of([sample_run], Graded) for g in s.grades]
    again = [t for t in turns if any(s.node == "reformulate" for s in t.steps)]
    return {
        "fusion": Evidence(
            "profile nexus",
            f"{own.retrieval.views}, {own.retrieval.fusion} with k {RRF_K}",
        ),
        "sizes": Evidence(
            "the handbook of the tests, a PDF cut now",
            in_words(
                Counter("in range" if len(c.text) >= 1000 else "shorter" for c in cut)
            ),
        ),
        "sentences": Evidence(
            "the same",
            (
                f"{ends([c.text for c in cut])} passages end with a sentence, "
                f"{ends(children)} of the children that are searched"
            ),
        ),
        "labels": Evidence(
            at,
            in_words(
                Counter(
                    {"yes": "correct", "no": "incorrect"}.get(
                        v.label.value, v.label.value
                    )
                    for v in grades
                )
            ),
        ),
        "reformulate": Evidence(
            at,
            f"{visits([sample_run])['reformulate']} times in {len(again)} of {len(turns)} turns",
        ),
        "sources": Evidence(
            "the same PDF, as the generator reads it",
            _source_head(1, as_context(cut[1])),
        ),
        "cite": Evidence(
            f"profile nexus; measured/citing; {at}",
            (
                f"cite by the {own.own.cite}; the laptop's, asked to, cited in {citing['written']} of {citing['answers']} answers; recorded: "
                + in_words(Counter(s.way for s in cited))
            ),
        ),
        "verify": Evidence(
            f"{at}; planted above",
            (
                f"{sum(x.supports for _, x in claims)} of {len(claims)} citations confirmed; planted falsehoods caught: "
                f"{caught(FALSE, by_claims)} of {len(FALSE)}; true paraphrases, too: {caught([('', t) for t in TRUE], by_claims)} of {len(TRUE)}"
            ),
        ),
        "confidence": Evidence(
            at,
            (
                "coverage from "
                f"{min(s.raw for s in cited):.2f} to {max(s.raw for s in cited):.2f} on record"
            ),
        ),
        "stated": Evidence(
            at,
            (
                f"coverage, density and their product in {sum(s.coverage is not None for s in cited)} of {len(cited)} answers, "
                f"a licensed chance in {sum(s.confidence is not None for s in cited)}"
            ),
        ),
        "hallucination": Evidence(
            "measured/nexus, nexus-written",
            (
                "{mean:.2f} [{low:.2f}, {high:.2f}] of the claims have support".format(
                    **kept["nexus"]["cited"]["rows"]["nexus-written"]["in company"]
                )
            ),
        ),
        "traceability": Evidence(
            at,
            f"{sum(exact(*c) for c in claims)} of {len(claims)} citations point to the words of their claim",
        ),
    }


def system(came: Mapping) -> dict[str, Evidence]:
    """What shows the requirements of the service and its models (sections 1, 5 and 7, tables 1 to 4);
    `came`: what the service answered."""
    own = NEXUS.configure("nexus")
    sample_run = recorded_run()
    at = AT
    kept = {"footprint": kept_in("footprint")}
    endpoints = {
        name: Evidence("the service, asked now", came[name.replace("{id}", "{i}")])
        for name in ENDPOINTS
    }
    return {
        "layers": Evidence(
            "the folders of the package",
            ", ".join(
                sorted(
                    p.name
                    for p in Path(mtrag_nb.__file__).parent.iterdir()
                    if (p / "__init__.py").exists()
                )
            ),
        ),
        "endpoints": Evidence(
            "the service, asked now",
            f"{sum(' /api' in k for k in came)} kinds of request answered",
        ),
        "page": Evidence(
            "the service, asked now",
            f"GET /: {came['GET /']}, a page with {came['page']} script",
        ),
        **endpoints,
        "streaming": Evidence("the service, asked now", came["stream"]),
        "agents": Evidence(
            "recorded/sample_agents",
            in_words(visits([Run(data_dir("recorded") / "sample_agents")])),
        ),
        "local": Evidence(
            f"settings of {at}",
            (
                ""
                if addresses(sample_run.manifest["settings"])
                else "no address is named"
            ),
        ),
        "lazy": Evidence(
            "measured/footprint",
            (
                "{started[after_mb]} MB when started, "
                "{later question[after_mb]:,} MB after the first question that asks the chat model".format(
                    **kept["footprint"]["alone"]
                )
            ),
        ),
        "batches": Evidence(
            "profile nexus",
            f"{own.embed_batch} at most",
        ),
        "memory": Evidence(
            "measured/footprint",
            f"{footprint_words(kept['footprint'])['kept_mb']:+} MB after two more uploads",
        ),
        "models": Evidence(
            "profiles nexus, t4",
            f"{own.chat.name}, {load_settings('t4').chat.name}, {own.embedder.name}",
        ),
        "8 GB": Evidence(
            "measured/footprint",
            f"{footprint_words(kept['footprint'])['peak_mb']:,} MB at most",
        ),
    }


def nexus_evidence() -> dict[str, Evidence]:
    "What shows each requirement, by the name that its row has; the service is asked now."
    came = asked_of_service("nexus")
    assert came["citations"] == ["fares.txt"]
    assert came["stream"] == "text/event-stream"
    claims = recorded_citations()
    assert all(exact(*c) for c in claims)
    assert len(claims) > 50
    evidence = {**method(), **system(came)}
    assert {evidence[name].found for name in ENDPOINTS} == {"200 OK"}
    return evidence
