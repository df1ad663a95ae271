"""LlamaIndex's node parser and Qdrant store do the work of every command that ingests or retrieves; nothing of the package
splits or stores beside them."""

import importlib
import json
import unicodedata
from collections import Counter

import pytest
from llama_index.core.node_parser import HierarchicalNodeParser
from llama_index.core.node_parser.interface import NodeParser
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.vector_stores.qdrant import QdrantVectorStore

from mtrag_nb.app.cli import demo, ingest, run
from mtrag_nb.core.settings import load_settings
from mtrag_nb.data.mtrag import sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.core.types import DataError
from mtrag_nb.search.store import open_index
from mtrag_nb.search.store import document_ids
from mtrag_nb.serve.documents import document_of
from mtrag_nb.serve.serve import ask
from mtrag_nb.serve.library import Library
from tests.test_house import NBS, SOURCES

SAMPLE = sample_dir() / "reference.jsonl"
WALK = NBS / "tour" / "00_walkthrough.ipynb"


@pytest.fixture
def calls(monkeypatch):
    "How often LlamaIndex's parts were called."
    counted = Counter()

    def watch(kind, method, name):
        inner = getattr(kind, method)

        def call(self, *args, **how):
            counted[name] += 1
            return inner(self, *args, **how)

        monkeypatch.setattr(kind, method, call)

    watch(HierarchicalNodeParser, "get_nodes_from_documents", "parsed")
    watch(QdrantVectorStore, "add", "stored")
    watch(QdrantVectorStore, "query", "queried")
    return counted


def scripted():
    "Models for tests of logic: the hash embedder, and a model that answers anything."
    return Models(load_settings(), chat=ScriptedChat("Four crowns."), embedder=HashEmbedder())


def test_a_corpus_is_parsed_and_stored_and_a_run_queries(tmp_path, calls):
    models = scripted()
    ingest(sample_corpus(), tmp_path / "index", ["govt"], models=models, progress=False)
    assert calls["parsed"] and calls["stored"] and not calls["queried"]
    how = {"index": tmp_path / "index", "domains": ["govt"], "limit": 3}
    run(SAMPLE, tmp_path / "run", models=models, progress=False, **how)
    assert calls["queried"] >= 3


def test_documents_of_ones_own_are_parsed_and_stored(tmp_path, calls):
    (tmp_path / "fees.md").write_text("# Fees\n\nA dog costs four crowns.\n")
    library = Library(tmp_path / "library")
    library.add(tmp_path / "fees.md", "own", HashEmbedder())
    assert calls["parsed"] == calls["stored"] == 1
    (tmp_path / "fees.md").write_text("# Fees\n\nA dog costs five crowns.\n")
    library.add(tmp_path / "fees.md", "own", HashEmbedder())
    assert calls["parsed"] == calls["stored"] == 2


def test_two_spellings_of_one_name_are_one_document(tmp_path):
    (tmp_path / "docs").mkdir()
    for form, price in (("NFC", "four"), ("NFD", "five")):
        path = tmp_path / "docs" / unicodedata.normalize(form, "F\xe4hre.md")
        path.write_text(f"# Fares\n\nA dog costs {price} crowns.\n")
    library = Library(tmp_path / "library")
    library.add(tmp_path / "docs", "own", HashEmbedder())
    [entry] = library.documents()
    with open_index(library.folder, HashEmbedder()) as index:
        assert {document_of(i) for i in index.documents} == {entry.id}


def test_a_question_to_a_library_queries(tmp_path, calls):
    (tmp_path / "fees.md").write_text("# Fees\n\nA dog costs four crowns.\n")
    Library(tmp_path / "library").add(tmp_path / "fees.md", "own", HashEmbedder())
    how = {"models": scripted(), "questions": ["How much is a dog?"], "out": tmp_path / "asked"}
    ask(tmp_path / "library", "naive", **how)
    assert calls["queried"]


def test_the_walk_through_builds_its_index_likewise():
    cells = "".join("".join(c["source"]) for c in json.loads(WALK.read_text("utf-8"))["cells"])
    assert "build_index(" in cells and "mtrag_nb.search.ingest" in cells


def test_the_demo_parses_stores_and_queries(tmp_path, calls):
    demo(tmp_path / "demo", minutes=0, models=scripted(), progress=False, least=1)
    assert calls["parsed"] and calls["stored"] and calls["queried"]


KINDS = {"Splitter": NodeParser, "Parser": NodeParser, "Store": BasePydanticVectorStore}
ROOMS = ("search.", "serve.library", "app.cli")  # where passages are cut, kept and asked for


def test_no_splitter_or_store_but_of_llamaindex():
    "By name: whoever writes one anew calls it so."
    wrong = []
    for module in (m for m in SOURCES if m.startswith(ROOMS)):
        room = importlib.import_module(f"mtrag_nb.{module}")
        for name, made in vars(room).items():
            kind = next((k for suffix, k in KINDS.items() if name.endswith(suffix)), None)
            own = isinstance(made, type) and made.__module__ == room.__name__
            if kind and own and not issubclass(made, kind):
                wrong.append(f"{module}.{name}")
    assert not wrong, wrong


def test_the_search_rooms_import_llama_index():
    rooms = [m for m in SOURCES if m.startswith("search.")]
    assert sum("from llama_index" in SOURCES[m] for m in rooms) >= 4


@pytest.mark.parametrize("kept", ['{"docstore/metadata": []}', '{"docstore/metadata": {"a": ""}}'])
def test_a_damaged_document_store_is_named(kept, tmp_path):
    (tmp_path / "documents.json").write_text(kept)
    with pytest.raises(DataError, match="documents.json: not the document store of an index"):
        document_ids(tmp_path)
