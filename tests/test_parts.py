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

from mtrag_nb.app.cli import ingest, run
from mtrag_nb.app.evaluate import report, score
from mtrag_nb.core.record import Checked, Clarified, Drafted, Graded, Refused, Rewritten, Run
from mtrag_nb.core.record import new_turn
from mtrag_nb.core.settings import ModelSpec, load_settings, with_settings
from mtrag_nb.core.text import Label, Verdict
from mtrag_nb.core.types import ModelNotFound, MTRAGError, SettingsError
from mtrag_nb.data.mtrag import sample_corpus, sample_dir
from mtrag_nb.evaluate.scores import Evidence
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import Contract, ScriptedChat, chat, first_sentence
from mtrag_nb.models.embed import CrossEncoderReranker, HashEmbedder
from mtrag_nb.models.local import TransformersChat, _find_adapter, read_contract
from mtrag_nb.show.turn import turn_html
from mtrag_nb.systems.outside import configured
from mtrag_nb.systems.stages import Cited
from tests.support.hub import StandInHub, hub_environment
from tests.support.servers import completion, serving
from tests.support.tiny import GRANITE, GRANITELIB, make_tiny, teach

THINKER = "Qwen/Qwen3-4B"
RERANKER = "BAAI/bge-reranker-v2-m3"
GRANITES = (GRANITE, GRANITELIB, "BAAI/bge-m3", RERANKER)
FETCH = "import sys; from mtrag_nb.app.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def offline(tmp_path_factory) -> Iterator[Path]:
    "The models are fetched by the command that a user types; then there is no network."
    from huggingface_hub import constants

    folder, home = tmp_path_factory.mktemp("hub"), tmp_path_factory.mktemp("home")
    make_tiny(folder, (THINKER, *GRANITES))
    with StandInHub(folder) as hub:
        env = {**os.environ, **hub_environment(hub.url, home)}
        command = [sys.executable, "-c", FETCH, "fetch", "models"]
        for arguments in (["--model", THINKER], ["--profile", "granite"]):
            done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=env)
            assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
        patched.chdir(tmp_path_factory.mktemp("runs"))
        yield home / "hub"


def run_of(system: str, name: str, models=None, **changes) -> Run:
    "Two turns of the sample by a system, with passages of their own."
    settings = configured(system, "laptop", {"stages.max_new_tokens": 8, **changes})
    how = {"setting": "reference", "limit": 2, "settings": settings, "progress": False}
    return run(sample_dir() / "reference.jsonl", name, system, models=models, **how)


def test_a_model_thinks_and_its_thoughts_are_no_part_of_the_answer(offline):
    changes = {"chat.name": THINKER, "chat.think": "6", "stages.prompts": "permissive"}
    models = Models(load_settings("laptop", changes))
    loaded = models.chat.load()
    thought = [models.chat._ids_of(w)[0] for w in ("\n", " the", " and", " that", "</think>")]
    answer = [models.chat._ids_of(w)[0] for w in ("\n\n", " of", " from")]
    teach(loaded, thought, [*answer, loaded.tokenizer.eos_token_id])
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


def test_a_page_marks_what_a_check_does_not_support():
    draft = Drafted(text="It leaves at noon. It is <free>.", node="generate")
    no = Verdict(Label.NO, "adapter", 0.5, 1.0)
    checked = Checked(verdict=no, spans=((19, 32),), unsupported="It is <free>.", node="check")
    t = new_turn(draft, checked, Refused(reason="gave_up", role="exhausted"))
    page = turn_html(Evidence(Run.of("by hand", [t])), t.task_id)
    assert "<mark>It is &lt;free&gt;.</mark>" in page


def test_a_language_model_is_no_reranker_in_one_clear_line(offline):
    with pytest.raises(SettingsError, match="no reranker is made of it"):
        CrossEncoderReranker(ModelSpec(THINKER, device="cpu")).score("Why?", ["A document."])


def test_a_cross_encoder_orders_what_was_found(offline):
    "Words and vectors are fused, and the reranker's scores decide."
    changes = {"retrieval.views": "query bm25:query", "retrieval.fusion": "rrf"}
    changes |= {"retrieval.top_k": 6, "retrieval.rerank_k": 3, "retrieval.reranker": "model"}
    reranker = ModelSpec(RERANKER, device="cpu")
    settings = replace(configured("naive", "laptop", changes), reranker=reranker)
    models = Models(settings, chat=ScriptedChat(first_sentence), embedder=HashEmbedder())
    ingest(sample_corpus(), "reranked-index", ["clapnq"], settings, models=models, progress=False)
    assert type(models.reranker) is CrossEncoderReranker
    how = {"domains": ["clapnq"], "limit": 2, "models": models, "progress": False}
    tasks = sample_dir() / "reference.jsonl"
    found = run(tasks, "reranked", "naive", "reranked-index", settings=settings, **how)
    turns = list(found.trajectories.values())
    assert len(turns) == 2 and not any(t.error for t in turns), [t.error for t in turns]
    assert all(0 < h.rerank_score < 1 for t in turns for h in t.retrievals[0].hits)
    score(["reranked"], encoder="none")
    assert "naive" in report(["reranked"]).read_text(encoding="utf-8")


# Adapters (LoRA). That the library is laid out as the published one is asserted by name; `peft` loads them.

CPU = {"chat.device": "cpu", "chat.dtype": "fp32", "embedder.device": "cpu"}
TALK = [("user", "Is there a ferry?"), ("assistant", "Yes."), ("user", "What does it cost?")]


def granite(folder: Path | str = GRANITELIB) -> ModelSpec:
    return ModelSpec(GRANITE, device="cpu", dtype="fp32", adapters=str(folder))


def test_adapters_decide_three_stages_from_fetch_to_report(offline):
    pytest.importorskip("peft")
    (library,) = offline.glob("models--ibm-granite--granitelib-rag-r1.0/snapshots/*")
    folders = {str(p.parent.relative_to(library)) for p in library.rglob("io.yaml")}
    assert folders == {f"{task}/granite-4.1-3b/lora" for task in ANSWERS}
    changes = {**CPU, "stages.max_new_tokens": 8, "stages.max_retries": 0}
    settings = configured("self_crag", "granite", changes)
    models = Models(settings, embedder=HashEmbedder())
    how = {"setting": "reference", "limit": 3, "settings": settings, "progress": False}
    found = run(sample_dir() / "reference.jsonl", "adapted", "self_crag", models=models, **how)
    turns = list(found.trajectories.values())
    assert not any(t.error for t in turns), [t.error for t in turns]
    assert any(step.raw for t in turns for step in t.of(Rewritten))
    verdicts = [v for t in turns for s in t.of(Graded) for v in s.verdicts]
    verdicts += [s.verdict for t in turns for s in t.of(Checked)]
    assert {v.how for v in verdicts} == {"adapter"} and all(v.raw for v in verdicts if v.defaulted)
    assert found.manifest["identity"]["adapters"]
    score(["adapted"], encoder="none")
    page = report(["adapted"]).read_text(encoding="utf-8")
    assert "grade by adapter: no licence, not measured with these models" in page


def test_two_adapters_in_one_batch_are_each_alone_and_the_base_model_stays(offline):
    pytest.importorskip("peft")
    import torch

    spec = granite()
    base, adapted = TransformersChat(replace(spec, adapters="")), TransformersChat(spec)
    asked = [read_contract(spec, task) for task in ("query_rewrite", "answerability")]
    plain = chat("", *(text for _, text in TALK))
    prompts = [asked[0].prompt(TALK), asked[1].prompt(TALK, ["It costs 12."]), plain]
    prompts += [asked[0].prompt(TALK[2:]), replace(asked[0].prompt(TALK), adapter="answerability")]
    alone = [TransformersChat(spec).generate([p], 8)[0].text for p in prompts]
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1]):
        together = adapted.generate([prompts[i] for i in order], 8)
        assert [c.text for c in together] == [alone[i] for i in order]
    assert len({alone[0], alone[4], base.generate([replace(plain)], 8)[0].text}) == 3
    scores = base.score([plain], ["12 crowns"]), adapted.score([plain], ["12 crowns"])
    assert scores[0][0].logprob == scores[1][0].logprob
    was = dict(base.load().model.named_parameters())
    now = {n.replace(".base_layer", ""): p for n, p in adapted.load().model.named_parameters()}
    assert all(torch.equal(was[n], now[n]) for n in was) and was.keys() < now.keys()
    added = sum(p.numel() for n, p in now.items() if n not in was)
    assert added == 2 * 2 * 4 * (128 + 128 + 128 + 32), "two adapters, two layers, rank 4: q and v"


@pytest.mark.parametrize(
    "file, old, new, said",
    [
        ("io.yaml", "", None, "lacks io.yaml"),
        ("io.yaml", "model: ~", "<html>", "not the contract of an adapter"),
        ("io.yaml", "model: ~", "docs_as_message: roles", "it wants documents as roles"),
        ("adapter_config.json", "granite-4.1-3b", "granite-4.1-8b", "an adapter of .*4.1-8b"),
        ("adapter_config.json", "LORA", "IA3", "of the kind IA3, where a LoRA is wanted"),
        ("adapter_config.json", '"r": 4', '"r": 8', "does not fit"),
        ("adapter_model.safetensors", "", "not weights", "does not fit"),
    ],
)
def test_a_wrong_file_of_an_adapter_is_one_clear_line(file, old, new, said, offline, tmp_path):
    if "does not fit" in said:
        pytest.importorskip("peft")
    library = make_tiny(tmp_path, [GRANITELIB])[GRANITELIB]
    path = library / "answerability/granite-4.1-3b/lora" / file
    if new is None:
        path.unlink()
    else:
        path.write_text(path.read_text().replace(old, new) if old else new)
    with pytest.raises(MTRAGError, match=said) as raised:
        spec = granite(tmp_path / GRANITELIB)
        asked = read_contract(spec, "answerability")
        TransformersChat(spec).generate([asked.prompt(TALK)], 4)
    assert "\n" not in str(raised.value)


def test_what_is_not_there_for_adapters_is_one_clear_line(offline):
    settings = with_settings(load_settings("laptop"), {"stages.rewrite": "adapter:query_rewrite"})
    with pytest.raises(SettingsError, match="takes an adapter: name a library"):
        Models(settings).adapters(settings)
    with pytest.raises(ModelNotFound, match="no adapter 'citation'; .* answerability, citations"):
        _find_adapter(granite(), "citation")
    with pytest.raises(ModelNotFound, match="adapters 'no/library' are not here"):
        _find_adapter(granite("no/library"), "citation")
    with pytest.raises(ModelNotFound, match="no adapters for Qwen3-4B; .* for: granite-4.1-3b"):
        _find_adapter(replace(granite(), name=THINKER), "answerability")
    thinker = TransformersChat(ModelSpec(THINKER, device="cpu"))
    lacking = "the chat template of Qwen/Qwen3-4B shows no documents"
    with pytest.raises(SettingsError, match=lacking):
        thinker.encode(Contract("answerability").prompt(TALK, ["It costs 12."]))
    with pytest.raises(SettingsError, match="leave chat.think empty"):
        replace(granite(), think="yes")


ANSWERS = {
    "query_rewrite": '{"rewritten_question": "What does the ferry to Oland cost?"}',
    "answerability": '"answerable"',
    "hallucination_detection": '[{"r": 0, "f": "faithful", "e": "It says so."}]',
    "query_clarification": '{"clarification": "Do you mean the ferry or the bus?"}',
    "citations": '[{"r": 0, "c": [0]}]',
}


def test_adapters_ask_back_and_find_citations(offline):
    "The two that belong to a system's own stages: what the quoting baseline asks back, and what NexusRAG cites."

    def replies(prompt):
        return ANSWERS.get(getattr(prompt, "adapter", ""), "It costs 12 crowns.")

    library = {"chat.name": GRANITE, "chat.adapters": GRANITELIB}
    own = {"quote": {"quote.clarify": "adapter:query_clarification"}}
    own["nexus"] = {"nexus.cite": "adapter:citations"}
    for system, its in own.items():
        changes = library | its
        models = Models(load_settings(), chat=ScriptedChat(replies), embedder=HashEmbedder())
        if system == "nexus":
            changes |= {"nexus.generator": "write", "nexus.verify": "support"}
        turns = list(run_of(system, f"own-{system}", models, **changes).trajectories.values())
        assert not any(t.error for t in turns), [t.error for t in turns]
        if system == "quote":
            assert {t.answer for t in turns} == {"Do you mean the ferry or the bus?"}
            assert {s.verdict.how for t in turns for s in t.of(Clarified)} == {"adapter"}
        else:
            cited = [s for t in turns for s in t.of(Cited)]
            assert cited and {s.way for s in cited} == {"adapter"}
            assert {c.n for s in cited for claim in s.claims for c in claim.citations} == {1}


@pytest.mark.parametrize("name", ["ibm-granite/granite-4.1-3b", "granite-switch-4.1-3b"])
def test_a_server_has_the_adapters_by_name_or_baked_in(name, offline):
    "vLLM serves each adapter as a model of its name; Granite Switch takes the name for its template."
    seen = []

    def reply(asked):
        if asked.method == "GET":
            return {"data": [{"id": "any"}]}
        task = asked.body.get("chat_template_kwargs", {}).get("adapter_name", asked.body["model"])
        seen.append((asked.body["model"], task, len(asked.body.get("documents", ()))))
        return completion(ANSWERS.get(task, "It costs 12 crowns."))

    library = f"{GRANITELIB}:granite-4.1-3b" if "switch" in name else GRANITELIB
    changes = {"stages.rewrite": "adapter:query_rewrite", "stages.grade": "adapter:answerability"}
    changes |= {"stages.check": "adapter:hallucination_detection", "chat.adapters": library}
    with serving(reply) as server:
        changes |= {"chat.name": name, "chat.url": server.url}
        models = Models(load_settings("laptop", changes), embedder=HashEmbedder())
        found = run_of("self_crag", f"served-{'switch' in name}", models, **changes)
    turns = list(found.trajectories.values())
    assert [t.answer for t in turns] == ["It costs 12 crowns."] * 2, [t.error for t in turns]
    assert any(r.text.startswith("What does the ferry") for t in turns for r in t.of(Rewritten))
    models, tasks, documents = zip(*seen)
    three = {"query_rewrite", "answerability", "hallucination_detection"}
    assert {*models} == ({name} if "switch" in name else {name, *three})
    assert {*tasks} >= three
    by_documents = three - {"query_rewrite"}
    assert all(bool(n) == (task in by_documents) for task, n in zip(tasks, documents))
