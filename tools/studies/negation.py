"""Do the laptop's rankers tell "can" from "cannot"? Planted pairs of passages that differ in nothing else.

For each passage of a pair there is a question that it answers. A ranker that knows the difference prefers the passage that
answers; one that does not is right for one question of a pair and wrong for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mtrag_nb.core.html import text_table
from mtrag_nb.core.settings import load_settings
from mtrag_nb.models.calls import load_chat
from mtrag_nb.models.chat import ChatModel, EmbedderLike, chat
from mtrag_nb.models.embed import Embedder

PLANTED = {  # question | passage | question | passage: each passage is wrong for the other question
    "can, cannot": """
How can a guest open the reports?|A guest can open the reports.|Why is a guest kept out of the reports?|A guest cannot open the reports.
Who may bring a dog on board?|Passengers can bring a dog on board.|Who must leave the dog at home?|Passengers cannot bring a dog on board.
Is payment by card possible?|You can pay by card at the desk.|Why was my card refused?|You cannot pay by card at the desk.
Which plan lets me restore backups?|The free plan can restore backups.|Which plan is unable to restore backups?|The free plan cannot restore backups.
Who is entitled to vote?|Tenants can vote in the council.|Who is excluded from voting?|Tenants cannot vote in the council.
Can I cancel after ten days?|Orders can be cancelled after ten days.|When is it too late to cancel?|Orders cannot be cancelled after ten days.
""",
    "exempt, applies": """
Which goods are free of the ferry tax?|Medicines are exempt from the ferry tax.|Which goods must pay the ferry tax?|The ferry tax applies to medicines.
Who need not pay the toll?|Residents are exempt from the toll.|Who has to pay the toll?|The toll applies to residents.
Is interest below ten crowns untaxed?|Interest below ten crowns is exempt from tax.|Do I owe tax on small interest?|The tax applies to interest below ten crowns.
Who is released from jury duty?|Teachers are exempt from jury duty.|Who is called to jury duty?|Jury duty applies to teachers.
What escapes the noise rule?|Church bells are exempt from the noise rule.|What falls under the noise rule?|The noise rule applies to church bells.
Which farms are outside the water charge?|Small farms are exempt from the water charge.|Which farms are charged for water?|The water charge applies to small farms.
""",
}
Ranker = Callable[[str, Sequence[str]], list[float]]  # question, texts -> scores


def margins(score: Ranker, kind: str) -> list[float]:
    "For each question the score of the passage that answers, less that of the other."
    out = []
    for line in PLANTED[kind].strip().splitlines():
        question, passage, other_question, other = line.split("|")
        for q, right, wrong in (
            (question, passage, other),
            (other_question, other, passage),
        ):
            a, b = score(q, [right, wrong])
            out.append(a - b)
    return out


def by_cosine(embedder: EmbedderLike) -> Ranker:
    "Rank texts by their cosine with the question."

    def cosine(question: str, texts: Sequence[str]) -> list[float]:
        [asked] = embedder.encode([question], query=True)
        return (embedder.encode(list(texts)) @ asked).tolist()

    return cosine


def by_likelihood(model: ChatModel) -> Ranker:
    "Rank texts by the likelihood that a chat model gives the question after each."

    def likelihood(question: str, texts: Sequence[str]) -> list[float]:
        told = "Write a question that this document answers."
        asked = [chat("", f"Document: {t}\n\n{told}") for t in texts]
        found = model.score(asked, [question] * len(texts))
        return [s.logprob / s.tokens for s in found]

    return likelihood


def show_margins(rankers: Mapping[str, Ranker]) -> dict[str, dict[str, list[float]]]:
    "Print how many questions each ranker gets right; returned are the margins by ranker and kind."
    gaps = {
        name: {kind: margins(score, kind) for kind in PLANTED}
        for name, score in rankers.items()
    }
    rows = []
    for name, by in gaps.items():
        counts = [sum(g > 0 for g in gap) for gap in by.values()]
        rows.append([name, *(f"{n} of 12" for n in counts)])
    print(text_table(["prefers the passage that answers", *PLANTED], rows))
    return gaps


def laptop_margins() -> None:
    "Print and check what the laptop's two rankers prefer."
    settings = load_settings()
    minilm = Embedder(settings.embedder)
    rankers = {
        "cosine (MiniLM)": by_cosine(minilm),
        "likelihood of the question (SmolLM2)": by_likelihood(load_chat(settings.chat)),
    }
    gaps = show_margins(rankers)
    minilm.unload()
    every = [[g for gap in by.values() for g in gap] for by in gaps.values()]
    of_cosine, of_likelihood = (sum(g > 0 for g in some) / 24 for some in every)
    assert abs(of_cosine - 0.5) < 0.15
    assert of_likelihood > 0.75
    # no decision depends on the processor
    assert min(abs(g) for some in every for g in some) > 1e-3
