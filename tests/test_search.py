"""LlamaIndex's node parser and Qdrant store do the work of every command that ingests or retrieves; nothing of the package
splits or stores beside them."""

import importlib
import json
import math
import unicodedata
from collections import Counter
from datetime import datetime

import numpy as np
import pytest
from llama_index.core.node_parser import HierarchicalNodeParser
from llama_index.core.node_parser.interface import NodeParser
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.vector_stores.qdrant import QdrantVectorStore

from mtrag_nb.app.run import demo, run
from mtrag_nb.app.data import ingest
from mtrag_nb.app.forks import blame_runs
from mtrag_nb.core.files import write_json
from mtrag_nb.core.record import Retrieved
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import StoreSettings, load_settings, recorded_settings
from mtrag_nb.core.shards import Shard
from mtrag_nb.data.mtrag import read_corpus, read_tasks, sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.core.types import DataError, IndexMismatch, Passage, SettingsError
from mtrag_nb.search.store import Index, child_name, open_folder, open_index
from mtrag_nb.search.ingest import build_index
from mtrag_nb.search.vector_store import all_points
from mtrag_nb.systems.agents import AGENTS
from mtrag_nb.search.sparse import Bm25, searched_text
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
    return Models(
        load_settings(), chat=ScriptedChat("Four crowns."), embedder=HashEmbedder()
    )


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
    how = {
        "models": scripted(),
        "questions": ["How much is a dog?"],
        "out": tmp_path / "asked",
    }
    ask(tmp_path / "library", "naive", **how)
    assert calls["queried"]


def test_the_walk_through_builds_its_index_likewise():
    cells = "".join(
        "".join(c["source"]) for c in json.loads(WALK.read_text("utf-8"))["cells"]
    )
    assert "build_index(" in cells and "mtrag_nb.search.ingest" in cells


def test_the_demo_parses_stores_and_queries(tmp_path, calls):
    demo(tmp_path / "demo", minutes=0, models=scripted(), progress=False, least=1)
    assert calls["parsed"] and calls["stored"] and calls["queried"]


KINDS = {"Splitter": NodeParser, "Parser": NodeParser, "Store": BasePydanticVectorStore}
ROOMS = (
    "search.",
    "serve.library",
    "app.",
)  # where passages are cut, kept and asked for


def test_no_splitter_or_store_but_of_llamaindex():
    "By name: whoever writes one anew calls it so."
    wrong = []
    for module in (m for m in SOURCES if m.startswith(ROOMS)):
        room = importlib.import_module(f"mtrag_nb.{module}")
        for name, made in vars(room).items():
            kind = next(
                (k for suffix, k in KINDS.items() if name.endswith(suffix)), None
            )
            own = isinstance(made, type) and made.__module__ == room.__name__
            if kind and own and not issubclass(made, kind):
                wrong.append(f"{module}.{name}")
    assert not wrong, wrong


def test_the_search_rooms_import_llama_index():
    rooms = [m for m in SOURCES if m.startswith("search.")]
    assert sum("from llama_index" in SOURCES[m] for m in rooms) >= 4


@pytest.mark.parametrize(
    "kept", ['{"docstore/metadata": []}', '{"docstore/metadata": {"a": ""}}']
)
def test_a_damaged_document_store_is_named(kept, tmp_path):
    (tmp_path / "documents.json").write_text(kept)
    with pytest.raises(
        DataError, match="documents.json: not the document store of an index"
    ):
        document_ids(tmp_path)


# Words with signs

WORDS = {  # a query -> the passage that has the very word, and others that have its parts
    "C++": ("C++ was begun in 1979 and is compiled.", "C was begun. C, C and C."),
    "C#": ("C# was begun in 2000 at Microsoft.", "C was begun in 1972."),
    "C": ("C was begun in 1972 at Bell Labs.", "C++ and C# were begun later."),
    "F#": ("F# is typed.", "F is a letter. F.", "Press F1 for help."),
    ".NET": (".NET runs on Linux.", "A net is made of string, a fishing net."),
    "g++ -O2": ("Call g++ with a file.", "The G string breaks, g."),
    "4.2.1": ("Version 4.2.1 mends the lock.", "Version 1.4.2 is old.", "4 2 1"),
    "v1.4.2": ("Release 1.4.2 is old.", "Version 4.2.1 mends the lock."),
    "2.0.0-rc1": ("Try 2.0.0-rc1 first.", "Version 2.0.1 rc1 of 0."),
    "AT&T": ("AT&T was founded in 1885.", "A t-shirt at T station."),
    "R&D": ("The R&D budget doubled.", "R and D are letters."),
    "Q&A": ("A Q&A follows.", "Q and a."),
    "I/O": ("Disk I/O is slow.", "The letters i and o."),
    "w-2": ("Send the W-2 form.", "The form W and 2 copies.", "The 2 forms"),
    "F-16": ("The F-16 flew.", "The F flew 16 times; 16 in all."),
    "err_1042": ("Code err_1042 means full.", "An err is human; 1042 was a year."),
    "x86_64": ("Built for x86-64.", "64 builds, x86 only."),
    "3.5": ("It costs 3.5 crowns.", "It costs 5 crowns for 3.", "5.3 crowns"),
    "9:30": ("It opens at 9:30.", "It opens at 30 past 9.", "9 to 30"),
    "1,500": ("There are 1500 seats.", "There is 1 seat; 500 stand."),
    "anna@example.org": (
        "Write to anna@example.org.",
        "Anna has an example of an org chart.",
    ),
    "caf\u00e9": ("The cafe is open.", "The bar is open."),
    "cafe": ("The caf\u00e9 is open.", "The bar is open."),
    "Zurich": ("Z\u00fcrich lies on a lake.", "Geneva lies on a lake."),
    "Zu\u0308rich": ("Zurich lies on a lake.", "Geneva lies on a lake."),
    "елка": ("Ёлка стоит во дворе.", "Дом стоит во дворе."),
    "Strasse": ("Die Stra\u00dfe ist lang.", "Der Weg ist lang."),
    "\uff23\uff0b\uff0b": ("C++ is compiled.", "C was begun."),
    "C++\u8bed\u8a00": ("\u5b66\u4e60C++\u8bed\u8a00", "\u5b66\u4e60C\u8bed\u8a00"),
    "w\u20112": ("Send the W-2 form.", "The form W and 2 copies."),
}
FILLERS = ["Bread is baked daily.", "The lake is cold.", "Trains run on time."]


def weigh(query: str, passages: list[str]) -> list[float]:
    "BM25 of passages for a query, rare words weighted among these passages."
    bm25 = Bm25()
    rows = [dict(zip(*row)) for row in zip(*bm25.documents(passages))]
    (numbers,), (weights,) = bm25.questions([query])
    scores = [0.0] * len(rows)
    for number, weight in zip(numbers, weights):
        holding = sum(number in row for row in rows)
        rarity = math.log(1 + (len(rows) - holding + 0.5) / (holding + 0.5))
        for i, row in enumerate(rows):
            scores[i] += weight * rarity * row.get(number, 0.0)
    return scores


@pytest.mark.parametrize("query", WORDS)
def test_the_passage_with_the_very_word_comes_first(query):
    right, *others = WORDS[query]
    first, *rest = weigh(query, [right, *others, *FILLERS])
    assert first > max(rest)


def test_the_very_spelling_of_a_word_with_accents_comes_first():
    first, second, _ = weigh(
        "r\u00e9sum\u00e9", ["A r\u00e9sum\u00e9.", "A resume.", "A bar."]
    )
    assert first > second > 0


@pytest.mark.parametrize(
    "text", ["and/or", "a well-known net", "Is it? It is!", "2 of 3"]
)
def test_other_texts_are_searched_as_they_are(text):
    assert searched_text(text) == text.lower()


@pytest.mark.parametrize("number", [1, 2])
def test_an_index_of_an_older_format_is_to_be_built_again(number, tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({"format": number}))
    with pytest.raises(IndexMismatch, match="Build it again"):
        open_folder(tmp_path)


LANCE = {"store.name": "lancedb"}


def hits_of(index: Index) -> list[tuple[str, float]]:
    "The hits of each question of the sample, by vector and by words, in its domain and everywhere."
    hits = []
    for task in read_tasks(SAMPLE):
        [vector] = HashEmbedder().encode([task.question], query=True)
        for domain in ("", task.domain):
            hits += index.search(vector, 20, domain)
            hits += index.search_words(task.question, 20, domain)
    return [(child_name(hit), hit.score) for hit in hits]


def test_an_index_in_lancedb_serves_ingest_run_and_blame_as_qdrant_does(tmp_path):
    seen = {}
    for name, changes in (("qdrant", {}), ("lancedb", LANCE)):
        settings = load_settings("laptop", changes)
        models = Models(
            settings, chat=ScriptedChat("Four crowns."), embedder=HashEmbedder()
        )
        how = {"settings": settings, "models": models, "progress": False}
        folder = tmp_path / name
        assert ingest(sample_corpus(), folder / "index", **how)
        run(SAMPLE, folder / "run", index=folder / "index", system="quote", **how)
        turns = Run(folder / "run").trajectories
        retrieved = {}
        for task, turn in turns.items():
            [step] = turn.of(Retrieved)
            retrieved[task] = [hit.id for hit in step.hits]
        [(blamed, _)] = blame_runs([folder / "run"])
        with open_folder(folder / "index") as index:
            seen[name] = (retrieved, blamed, hits_of(index), index.fingerprint)
    qdrant, lance = seen.values()
    assert any(qdrant[0].values()) and lance[0] == qdrant[0]
    assert str(lance[1]) == str(qdrant[1])
    names, scores = zip(*qdrant[2])
    assert tuple(name for name, _ in lance[2]) == names
    assert np.allclose([score for _, score in lance[2]], scores, atol=2e-6)
    assert lance[3] != qdrant[3], "the store is part of a run's identity"


def test_an_interrupted_build_in_lancedb_stores_nothing_twice(tmp_path, monkeypatch):
    passages = list(read_corpus(*sample_corpus(), domains=["govt"]))
    how = {"store": StoreSettings("lancedb"), "batch": 20, "progress": False}
    whole = build_index(passages, tmp_path / "whole", HashEmbedder(), **how)
    for broken in (1, 2):  # the batch that is stored and not entered
        calls = Counter()

        def write(path, content):
            calls[path.name] += 1
            if path.name == "documents.json" and calls[path.name] == broken:
                raise KeyboardInterrupt
            write_json(path, content)

        folder = tmp_path / str(broken)
        with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
            m.setattr("mtrag_nb.search.ingest.write_json", write)
            build_index(passages, folder, HashEmbedder(), **how)
        assert build_index(passages, folder, HashEmbedder(), **how) == whole


def test_a_folder_does_not_decide_what_code_opens_its_vectors(tmp_path):
    code = tmp_path / "mine.py"
    code.write_text(
        "from llama_index.vector_stores.lancedb import LanceDBVectorStore\n"
        "def store(folder, collection):\n"
        "    open(f'{folder}.opened', 'w').close()\n"
        "    return LanceDBVectorStore(folder, collection)\n"
    )
    place = f"{code}:store"
    passages = list(read_corpus(*sample_corpus(), domains=["govt"]))
    folder = tmp_path / "index"
    how = {"store": StoreSettings(place), "progress": False}
    build_index(passages, folder, HashEmbedder(), **how)
    mark = folder / "store.opened"
    mark.unlink()
    recorded = recorded_settings(load_settings("laptop", {"store.name": place}))
    for name in ("", recorded.store.name):
        with pytest.raises(SettingsError, match="decides? neither|does not decide"):
            open_folder(folder, store=name)
        assert not mark.exists()
    with pytest.raises(IndexMismatch, match=r"store\.name"):
        open_folder(folder, store="lancedb")
    with open_folder(folder, store=place) as index:
        assert len(index.documents) == len(passages)


def test_page_time_and_collection_are_stored_and_leave_the_identity(tmp_path):
    passages = [
        Passage("one", "The ferry costs four crowns.", url="fares.pdf#page=7"),
        Passage("two", "A dog costs two crowns."),
    ]
    settings = AGENTS.configure("agents").store
    indexes = []
    for name, store in (("plain", StoreSettings()), ("agents", settings)):
        folder = tmp_path / name
        how = {"store": store, "progress": False}
        build_index(passages, folder, HashEmbedder(), **how)
        with open_folder(folder) as index:
            children = index.passages(["one", "two"])
            payloads = [p.payload for page in all_points(index.store) for p in page]
            hits = [child_name(h) for h in index.search_words("ferry crowns", 2)]
            indexes.append((index.fingerprint, children, hits))
    assert indexes[0] == indexes[1]
    assert {p["doc_id"]: p.get("page") for p in payloads} == {"one": 7, "two": None}
    for payload in payloads:
        assert datetime.fromisoformat(payload["timestamp"]).tzinfo
    assert (folder / "qdrant" / "documents_hybrid").is_dir()


@pytest.mark.parametrize("name", ["../elsewhere", "", "a/b", "x" * 65])
def test_a_collection_has_a_name_that_stays_in_its_folder(name):
    with pytest.raises(SettingsError, match="no name of a collection"):
        StoreSettings(collection=name)


def test_a_store_goes_with_no_server_and_no_shard(tmp_path):
    how = {"store": StoreSettings("lancedb"), "progress": False}
    for more in ({"url": "http://localhost:6333"}, {"shard": Shard(1, 2)}):
        with pytest.raises(SettingsError, match="the store lancedb does not go with"):
            build_index([Passage("a", "A.")], tmp_path, HashEmbedder(), **how, **more)
