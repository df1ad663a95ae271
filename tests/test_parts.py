"""The field's parts from `mtrag fetch models` to the report, on tiny random models of their real architectures and files' layouts, from
a stand-in of the hub and offline afterwards. What random models answer means nothing: tested is that each part runs to its end, and
what of it reaches the record and the page."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mtrag_nb.app.data import ingest
from mtrag_nb.app.run import run
from mtrag_nb.app.measure import score
from mtrag_nb.app.pages import report
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import ModelSpec, load_settings
from mtrag_nb.core.types import SettingsError
from mtrag_nb.data.mtrag import sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import CrossEncoderReranker, HashEmbedder
from mtrag_nb.systems.outside import configure
from tests.support.hub import StandInHub, hub_environment
from tests.support.tiny import make_tiny, teach

THINKER = "Qwen/Qwen3-4B"
RERANKER = "BAAI/bge-reranker-v2-m3"
EMBEDDER = "BAAI/bge-m3"
FETCH = """
import sys
from mtrag_nb.app.cli import main

for name in sys.argv[1:]:
    assert main(["fetch", "models", "--model", name]) == 0, name
"""


@pytest.fixture(scope="module")
def offline(tmp_path_factory) -> Iterator[Path]:
    "The models are fetched by the command that a user types; then there is no network."
    from huggingface_hub import constants

    folder, home = tmp_path_factory.mktemp("hub"), tmp_path_factory.mktemp("home")
    make_tiny(folder, (THINKER, EMBEDDER, RERANKER))
    with StandInHub(folder) as hub:
        env = {**os.environ, **hub_environment(hub.url, home)}
        command = [sys.executable, "-c", FETCH, THINKER, EMBEDDER, RERANKER]
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
        patched.chdir(tmp_path_factory.mktemp("runs"))
        yield home / "hub"


def run_of(system: str, name: str, models=None, **changes) -> Run:
    "Two turns of the sample by a system, with passages of their own."
    settings = configure(system, "laptop", {"stages.max_new_tokens": 8, **changes})
    how = {"setting": "reference", "limit": 2, "settings": settings, "progress": False}
    return run(sample_dir() / "reference.jsonl", name, system, models=models, **how)


def test_a_model_thinks_and_its_thoughts_are_no_part_of_the_answer(offline):
    changes = {"chat.name": THINKER, "chat.think": "6", "stages.prompts": "permissive"}
    models = Models(load_settings("laptop", changes))
    loaded = models.chat.load()
    thought = [
        models.chat._ids_of(w)[0] for w in ("\n", " the", " and", " that", "</think>")
    ]
    answer = [models.chat._ids_of(w)[0] for w in ("\n\n", " of", " from")]
    teach(loaded, thought, [*answer, loaded.tokenizer.eos_token_id])
    found = run_of("naive", "thinks", models, **changes)
    turns = list(found.trajectories.values())
    assert [t.answer for t in turns] == ["of from"] * 2, [t.error for t in turns]
    assert [t.drafts[0].thought for t in turns] == ["the and that"] * 2
    (called, *_) = map(json.loads, Path("thinks/calls.jsonl").read_text().splitlines())
    assert called["value"]["text"].strip() == "of from"
    assert (
        called["value"]["thought"] == "the and that"
        and called["value"]["tokens_out"] == 6
    )
    assert "the and that" not in Path("thinks/predictions.jsonl").read_text()
    score(["thinks"], encoder="none")
    page = report(["thinks"]).read_text(encoding="utf-8")
    assert page.count("thought before it (3 words)") == 2 and "of from" in page


def test_a_language_model_is_no_reranker_in_one_clear_line(offline):
    with pytest.raises(SettingsError, match="no reranker is made of it"):
        CrossEncoderReranker(ModelSpec(THINKER, device="cpu")).score(
            "Why?", ["A document."]
        )


def test_a_cross_encoder_orders_what_was_found(offline):
    "Words and vectors are fused, and the reranker's scores decide."
    changes = {"retrieval.views": "query bm25:query", "retrieval.fusion": "rrf"}
    changes |= {
        "retrieval.top_k": 6,
        "retrieval.rerank_k": 3,
        "retrieval.reranker": "model",
    }
    reranker = ModelSpec(RERANKER, device="cpu")
    settings = replace(configure("naive", "laptop", changes), reranker=reranker)
    models = Models(
        settings, chat=ScriptedChat(first_sentence), embedder=HashEmbedder()
    )
    ingest(
        sample_corpus(),
        "reranked-index",
        ["clapnq"],
        settings,
        models=models,
        progress=False,
    )
    assert type(models.reranker) is CrossEncoderReranker
    how = {"domains": ["clapnq"], "limit": 2, "models": models, "progress": False}
    tasks = sample_dir() / "reference.jsonl"
    found = run(tasks, "reranked", "naive", "reranked-index", settings=settings, **how)
    turns = list(found.trajectories.values())
    assert len(turns) == 2 and not any(t.error for t in turns), [t.error for t in turns]
    assert all(0 < h.rerank_score < 1 for t in turns for h in t.retrievals[0].hits)
    score(["reranked"], encoder="none")
    assert "naive" in report(["reranked"]).read_text(encoding="utf-8")
