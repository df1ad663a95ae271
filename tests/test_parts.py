"""The field's parts from `mtrag fetch models` to the report, on tiny random models of their real architectures and files' layouts, from
a stand-in of the hub and offline afterwards. What random models answer means nothing: tested is that each part runs to its end, and
what of it reaches the record and the page."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtrag_nb.core.record import Run
from mtrag_nb.core.settings import load_settings
from tests.support.hub import StandInHub, hub_environment
from tests.support.tiny import TINY, make_tiny, teach

THINKER = "Qwen/Qwen3-4B"
PARTS = (THINKER,)
FETCH = "import sys; from mtrag_nb.app.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def offline(tmp_path_factory) -> Iterator[Path]:
    "The models are fetched by the command that a user types; then there is no network."
    from huggingface_hub import constants

    folder, home = tmp_path_factory.mktemp("hub"), tmp_path_factory.mktemp("home")
    make_tiny(folder, PARTS)
    named = [word for name in PARTS for word in ("--model", name)]
    with StandInHub(folder) as hub:
        env = {**os.environ, **hub_environment(hub.url, home)}
        command = [sys.executable, "-c", FETCH, "fetch", "models", *named]
        done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
        patched.chdir(tmp_path_factory.mktemp("runs"))
        yield home / "hub"


def run_of(system: str, name: str, models=None, **changes) -> Run:
    "Two turns of the sample by a system, with passages of their own."
    from mtrag_nb.app.run import run
    from mtrag_nb.data.mtrag import sample_dir
    from mtrag_nb.systems.registry import configured

    settings = configured(system, "laptop", {"stages.max_new_tokens": 8, **changes})
    how = {"setting": "reference", "limit": 2, "settings": settings, "progress": False}
    return run(sample_dir() / "reference.jsonl", name, system, models=models, **how)


def test_a_model_thinks_and_its_thoughts_are_no_part_of_the_answer(offline):
    from mtrag_nb.app.evaluate import report, score
    from mtrag_nb.models.calls import Models

    changes = {"chat.name": THINKER, "chat.think": "6", "stages.prompts": "permissive"}
    models = Models(load_settings("laptop", changes))
    loaded, words = models.chat.load(), (" the", " and", " that")
    token = {
        w: models.chat._ids_of(w)[0] for w in ("\n", "\n\n", "</think>", " of", " from", *words)
    }
    ends = loaded.tokenizer.eos_token_id
    teach(
        loaded,
        [token[w] for w in ("\n", *words, "</think>")],
        [*(token[w] for w in ("\n\n", " of", " from")), ends],
    )
    found = run_of("naive", "thinks", models, **changes)
    turns = list(found.trajectories.values())
    assert [t.answer for t in turns] == ["of from"] * 2, [t.error for t in turns]
    assert [t.drafts[0].thought for t in turns] == ["the and that"] * 2
    (called, *_) = map(json.loads, Path("thinks/calls.jsonl").read_text().splitlines())
    assert called["value"]["text"].strip() == "of from"
    assert called["value"]["thought"] == "the and that" and called["value"]["tokens_out"] == 6
    assert "the and that" not in Path("thinks/predictions.jsonl").read_text()
    score(["thinks"], encoder="none")
    page = report(["thinks"]).read_text(encoding="utf-8")
    assert page.count("thought before it (3 words)") == 2 and "of from" in page
