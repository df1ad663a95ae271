"Reproductions of papers over the sample by scripted models, which need no weights."

from pathlib import Path

from mtrag_nb.app.reproduce import Reproduction
from mtrag_nb.core.settings import Settings
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder


def scripted(settings: Settings) -> Models:
    "Models that need no weights: the first sentence of the documents answers, and a judge says eight."
    said = "Reasoning: it is.\nHallucination: no\nScore: 8"

    def reply(prompt):
        return said if "Score" in prompt.messages[-1][1] else first_sentence(prompt)

    return Models(settings, chat=ScriptedChat(reply), embedder=HashEmbedder(384))


def made_in(
    folder: Path, paper: str = "self_crag", limit: int = 4, models=scripted, **known
):
    "A reproduction whose models need no fetching; Self-CRAG's without the runs of its other variants."
    known = {
        "variant": "project" if paper == "self_crag" else "",
        "encoder": "none",
        "limit": limit,
        "where": "sample",
        "models": models,
        "progress": False,
        **known,
    }
    return Reproduction(paper, folder, **known)
