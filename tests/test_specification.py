"The specification's own configuration file, as printed in its section 12.1, answers a question on every profile."

from dataclasses import replace

import numpy as np
import pytest

from mtrag_nb.core.files import data_dir
from mtrag_nb.core.types import IndexMismatch
from mtrag_nb.data.mtrag import read_benchmark, read_corpus, sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import Embedder, HashEmbedder
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems.agents import AGENTS
from mtrag_nb.systems.nexus import NEXUS
from mtrag_nb.systems.system_yaml import system_yaml_changes
from tests.support.tiny import make_tiny


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    build_index(read_corpus(*sample_corpus()), folder, HashEmbedder(), progress=False)
    return folder


def helpful(prompt) -> str:
    "Grades as a model of some size does, and an answer."
    return (
        "8" if "from 0 to 10" in prompt.messages[-1][1] else "It is open to visitors."
    )


def eight(prompt, text: str) -> float:
    "The log-probability of a grade: 8 is the likeliest."
    return 0.0 if text.strip() == "8" else -5.0


@pytest.mark.parametrize("profile", ["laptop", "agents", "agents-server"])
def test_the_printed_file_answers(profile, index, tmp_path):
    "As long as the threshold of 7 was held against cosines, the laptop refused every question."
    changes = system_yaml_changes(
        data_dir("paper") / "system.yaml", AGENTS.configure(profile)
    )
    changes |= {
        "chunks.parent_size": 1200,
        "chunks.parent_overlap": 100,
    }  # as the index has them
    changes |= {"chunks.child_size": 400, "chunks.child_overlap": 50}
    changes["embedder.prefixes"] = ""
    changes["sparse.k1"] = 1.2
    settings = AGENTS.configure(profile, changes)
    assert settings.own.grade.startswith("scale") and settings.own.grade_threshold == 7
    models = Models(
        settings, chat=ScriptedChat(helpful, scores=eight), embedder=HashEmbedder()
    )
    tasks = read_benchmark(sample_dir() / "reference.jsonl").tasks[:2]
    run = run_tasks(
        AGENTS, tasks, tmp_path / "run", settings, index, models=models, progress=False
    )
    outcomes = {t.outcome.value for t in run.trajectories.values()}
    assert outcomes == {"answered"}, [
        t.error or t.reason for t in run.trajectories.values()
    ]


def test_an_index_that_counts_words_otherwise_is_refused(index, tmp_path):
    "k1 is the specification's 1.5 (11.2) in its profile, and can be set."
    assert AGENTS.configure("agents").sparse.k1 == 1.5
    assert AGENTS.variant("published").configure("laptop").sparse.k1 == 1.5
    changes = {"sparse.k1": 1.5, "retrieval.views": "query bm25:query"}
    settings = AGENTS.configure("laptop", changes)
    models = Models(settings, chat=ScriptedChat(helpful), embedder=HashEmbedder())
    tasks = read_benchmark(sample_dir() / "reference.jsonl").tasks[:1]
    how = {"models": models, "progress": False}
    with pytest.raises(IndexMismatch, match="has sparse.k1 1.2, and asked for is 1.5"):
        run_tasks(AGENTS, tasks, tmp_path / "run", settings, index, **how)


def test_the_local_embedder_is_the_specified_one_and_runs_no_code_of_its_folder(
    tmp_path,
):
    spec = AGENTS.configure("agents").embedder
    served = AGENTS.configure("agents-server").embedder
    assert spec.prefixes == served.prefixes == "search_query: |search_document: "
    [folder] = make_tiny(tmp_path, [spec.name]).values()
    assert "auto_map" in (folder / "config.json").read_text()
    model = Embedder(replace(spec, name=str(folder), device="cpu"))
    question, passage = model.encode(["fares"], query=True), model.encode(["fares"])
    assert np.abs(np.linalg.norm(question) - 1) < 1e-5
    assert np.abs(question - passage).max() > 1e-3, "one prefix for both"
    parts = type(model._load()[0].auto_model).__module__
    assert parts.startswith("transformers.models.nomic_bert")


def test_nexus_embeds_in_batches_of_16(monkeypatch):
    settings = NEXUS.configure("nexus")
    model = Models(settings).embedder
    assert model.most == settings.embed_batch == 16
    sizes = []
    whole = type(model._load()).encode_document

    def counted(self, texts, **how):
        sizes.append(min(len(texts), how["batch_size"]))
        return whole(self, texts, **how)

    monkeypatch.setattr(type(model._load()), "encode_document", counted)
    model.encode(["ferry"] * 40)
    model.encode(["ferry"] * 600)
    assert max(sizes) == 16
