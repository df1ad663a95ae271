"""The field's parts from `mtrag fetch models` to the report, on tiny random models of their real architectures and files' layouts, from
a stand-in of the hub and offline afterwards. What random models answer means nothing: tested is that each part runs to its end, and
what of it reaches the record and the page."""

import html
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mtrag_nb.core.record import Checked, Run
from mtrag_nb.core.settings import ModelSpec, load_settings, with_settings
from mtrag_nb.core.types import ModelNotFound, SettingsError
from mtrag_nb.evaluate.scores import Evidence
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.show.turn import turn_html
from tests.support.hub import StandInHub, hub_environment
from tests.support.tiny import make_tiny, teach

THINKER = "Qwen/Qwen3-4B"
CHECKERS = (
    "cross-encoder/nli-roberta-base",
    "lytang/MiniCheck-RoBERTa-Large",
    "lytang/MiniCheck-Flan-T5-Large",
    "KRLabsOrg/lettucedect-base-modernbert-en-v1",
    "vectara/hallucination_evaluation_model",
)
SPARSE = (
    "naver/splade-v3",
    "opensearch-project/opensearch-neural-sparse-encoding-doc-v3-distill",
)
RERANKER = "Qwen/Qwen3-Reranker-0.6B"
PARTS = (THINKER, RERANKER, *CHECKERS, *SPARSE)
FETCH = "import sys; from mtrag_nb.app.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def offline(tmp_path_factory) -> Iterator[Path]:
    "The models are fetched by the command that a user types; then there is no network."
    from huggingface_hub import constants

    folder, home = tmp_path_factory.mktemp("hub"), tmp_path_factory.mktemp("home")
    make_tiny(folder, (*PARTS, "google/flan-t5-base"))
    with StandInHub(folder) as hub:
        env = {**os.environ, **hub_environment(hub.url, home)}
        command = [sys.executable, "-c", FETCH, "fetch", "models", "--model", *PARTS]
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


@pytest.mark.parametrize("name", CHECKERS)
def test_a_classifier_checks_drafts_and_marks_what_it_does_not_support(name, offline):
    "A threshold that no random model reaches sends each draft back; the page marks the parts below it."
    from mtrag_nb.models.calls import Models
    from mtrag_nb.models.embed import HashEmbedder

    folder = f"checked-{CHECKERS.index(name)}"
    changes = {"stages.check": f"nli:{name}", "stages.check_threshold": 0.9999}
    changes |= {"stages.max_retries": 0, "stages.rewrite": "never", "stages.grade_threshold": -1.0}
    settings = load_settings("laptop", changes)
    models = Models(settings, chat=ScriptedChat(first_sentence), embedder=HashEmbedder())
    found = run_of("self_crag", folder, models, **changes)
    turns = list(found.trajectories.values())
    assert not any(t.error for t in turns), [t.error for t in turns]
    checks = [(t, c) for t in turns for c in t.of(Checked)]
    assert checks and all(c.verdict.how == "nli" and c.verdict.score < 0.9999 for _, c in checks)
    for t, c in checks:
        draft = t.drafts[-1].text
        assert c.spans and all(0 <= a < b <= len(draft) for a, b in c.spans)
        assert c.unsupported == " ... ".join(draft[a:b] for a, b in c.spans)
    assert found.manifest["identity"]["checker"].startswith(name)
    t, c = checks[0]
    a, b = c.spans[0]
    assert f"<mark>{html.escape(t.drafts[-1].text[a:b])}</mark>" in turn_html(
        Evidence(found), t.task_id
    )


def test_a_borrowed_tokenizer_comes_without_the_weights_it_belongs_to(offline):
    from mtrag_nb.models.local import find_model

    base = ModelSpec("google/flan-t5-base")
    with pytest.raises(ModelNotFound, match="lacks model.safetensors"):
        find_model(base)
    assert (find_model(base, weights=False) / "tokenizer.json").is_file()


@pytest.mark.parametrize("name, said", [(THINKER, "its architecture is Qwen3ForCausalLM")])
def test_a_model_of_another_kind_is_one_clear_line(name, said, offline):
    from mtrag_nb.models.embed import Classifier

    with pytest.raises(SettingsError, match=f"{name} is no classifier of claims: {said}"):
        Classifier(ModelSpec(name, device="cpu")).parts(["A document."], "A claim.")


def test_labels_that_say_nothing_of_support_are_one_clear_line(tmp_path):
    from mtrag_nb.models.embed import Classifier
    from tests.support.tiny import tiny_roberta

    tiny_roberta(tmp_path, ("joy", "anger", "fear"))
    with pytest.raises(SettingsError, match="its labels are joy, anger, fear"):
        Classifier(ModelSpec(str(tmp_path), device="cpu")).parts(["A document."], "A claim.")


@pytest.mark.parametrize("name", SPARSE)
def test_learned_weights_are_searched_beside_words_and_vectors(name, offline):
    "The sample is indexed in three ways at once; a run fuses them, and a yes/no reranker orders what was found."
    from mtrag_nb.app.evaluate import report, score
    from mtrag_nb.app.run import ingest, run
    from mtrag_nb.data.mtrag import sample_corpus, sample_dir
    from mtrag_nb.models.calls import Models
    from mtrag_nb.models.embed import HashEmbedder, YesNoReranker
    from mtrag_nb.systems.registry import configured

    place = f"sparse-{SPARSE.index(name)}"
    views = {"retrieval.learned": name, "retrieval.views": "query bm25:query learned:query"}
    changes = {**views, "retrieval.top_k": 6, "retrieval.rerank_k": 3, "retrieval.fusion": "rrf"}
    settings = configured("naive", "laptop", {**changes, "retrieval.reranker": "model"})
    settings = replace(settings, reranker=ModelSpec(RERANKER, device="cpu"))
    models = Models(settings, chat=ScriptedChat(first_sentence), embedder=HashEmbedder())
    ingest(sample_corpus(), f"{place}-index", ["clapnq"], settings, models=models, progress=False)
    assert type(models.reranker) is YesNoReranker
    how = {"domains": ["clapnq"], "limit": 2, "models": models, "progress": False}
    tasks = sample_dir() / "reference.jsonl"
    found = run(tasks, place, "naive", f"{place}-index", settings=settings, **how)
    turns = list(found.trajectories.values())
    assert len(turns) == 2 and not any(t.error for t in turns), [t.error for t in turns]
    assert all(0 < h.rerank_score < 1 for t in turns for h in t.retrievals[0].hits)
    score([place], encoder="none")
    assert "naive" in report([place]).read_text(encoding="utf-8")
    other = with_settings(settings, {"retrieval.learned": ""})
    with pytest.raises(SettingsError, match="searches by learned weights: name the sparse encoder"):
        run(tasks, f"{place}-without", "naive", f"{place}-index", settings=other, **how)
