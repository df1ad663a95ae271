"""False claims that keep their words, and true ones in other words: what checks of citations flag."""

from __future__ import annotations

from collections.abc import Sequence

from mtrag_nb.core.html import text_table
from mtrag_nb.core.types import Context, Passage, as_context
from mtrag_nb.systems.citations import Supports, attached_claims, by_claims, by_words
from mtrag_nb.systems.nexus import NexusSettings
from tests.support.company import contextual_support

LEAST_COMPANY = 0.5  # contextual support of a claim
SOURCE = as_context(
    Passage(
        "p",
        (
            "A child ticket for the ferry costs 6 crowns. The crossing takes 41 minutes in summer. Dogs are not allowed in the cabin. "
            "Bicycles are carried for 9 crowns each. The new engine reduced the fuel consumption of the ferry. The office does not accept cheques. "
            "In winter the fare increased by 2 crowns. The cabin holds 120 passengers. Tickets must be bought before boarding. "
            "The last ferry leaves Holm at 21:30."
        ),
    )
)
FALSE = (  # kind, claim
    ("number swapped", "A child ticket for the ferry costs 66 crowns."),
    ("number swapped", "The cabin holds 210 passengers."),
    ("number swapped", "Bicycles are carried for 6 crowns each."),
    ("number swapped", "The last ferry leaves Holm at 12:30."),
    ("41 made 97", "The crossing takes 97 minutes in summer."),
    ("made free of charge", "A child ticket for the ferry costs 0 crowns."),
    ("made free of charge", "Bicycles are carried free of charge."),
    ("not taken out", "Dogs are allowed in the cabin."),
    ("not taken out", "The office does accept cheques."),
    ("not put in", "Tickets must not be bought before boarding."),
    ("turned round", "The new engine increased the fuel consumption of the ferry."),
    ("turned round", "In winter the fare reduced by 2 crowns."),
)
TRUE = (  # in other words
    "Children pay 6 crowns for the ferry.",
    "In summer the crossing lasts 41 minutes.",
    "No dog may enter the cabin.",
    "You cannot pay by cheque.",
    "The ferry needs less fuel with the new engine.",
    "Up to 120 people fit into the cabin.",
    "Buy your ticket before you board.",
    "21:30 is when the last ferry leaves Holm.",
)


def caught(claims: Sequence[tuple[str, str]], supports: Supports) -> int:
    "How many planted claims a check flags."
    return sum(not supports(text, SOURCE)[1] for _, text in claims)


def in_company(claim: str, source: Context) -> tuple[float, bool]:
    "The measure that this study reports, as a check."
    share = contextual_support(claim, [source.text])
    return share, share >= LEAST_COMPANY


def show_caught() -> None:
    "Print what three checks flag of the planted claims."
    ways = {
        "what it says (the system)": by_claims,
        "words in common": by_words(NexusSettings().least),
        "words in their company (this study)": in_company,
    }
    kinds = list(dict.fromkeys(kind for kind, _ in FALSE))
    paraphrases = [("", text) for text in TRUE]
    rows = []
    for name, way in ways.items():
        parts = [[f for f in FALSE if f[0] == k] for k in kinds]
        parts += [FALSE, paraphrases]
        rows.append([name, *(f"{caught(some, way)} of {len(some)}" for some in parts)])
    print(text_table(["flagged", *kinds, "all false claims", "true paraphrases"], rows))


def check_caught() -> None:
    "Assert what the study says of the planted claims."
    words = by_words(NexusSettings().least)
    paraphrases = [("", text) for text in TRUE]
    assert caught(FALSE, words) / len(FALSE) < 0.25
    assert caught(paraphrases, words) > 0
    assert caught(FALSE, by_claims) == len(FALSE)
    assert caught(paraphrases, by_claims) > 0
    claimed = (
        "A child ticket for the ferry costs 66 crowns. Dogs are allowed in the cabin."
    )
    assert all(c.supported for c in attached_claims(claimed, [SOURCE]))
