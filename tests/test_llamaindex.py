"""LlamaIndex's query engines, chat engines and retrievers as systems, and what else its objects and LangChain's hand over."""

import importlib.util

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import TextNode
from pydantic import BaseModel
from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from mtrag_nb.app.run import run
from mtrag_nb.app.evaluate import evaluate
from mtrag_nb.core.files import write_jsonl
from mtrag_nb.core.record import Retrieved, Rewritten
from mtrag_nb.core.settings import load_place
from mtrag_nb.core.types import Outcome, SettingsError
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.search.nodes import part_identity
from mtrag_nb.systems.foreign import read_reply
from mtrag_nb.systems.outside import configure, load_outside, outside
from tests.support.foreign import PROGRAMS

PROGRAM = PROGRAMS / "llamaindex_engine.py"
QUESTIONS = [
    ("What does a crossing to Holm cost?", "A crossing to Holm costs 12 crowns.", "ferry.pdf", 1),
    ("When does the last ferry leave Holm?", "It leaves at nine in the evening.", "ferry.pdf", 2),
    ("When does the swimming pool open?", "The swimming pool opens at seven.", "pool.pdf", 1),
    ("How long does the library lend books?", "It lends books for four weeks.", "library.pdf", 1),
    ("What does parking at the harbour cost?", "Parking costs three crowns an hour.", "parking.pdf", 1),
    ("When is the fish market held?", "It is held every Saturday morning.", "market.pdf", 1),
]  # fmt: skip
LINES = [
    {"question": q, "answer": a, "passages": [{"file": file, "page": page}]}
    for q, a, file, page in QUESTIONS
]


def program(monkeypatch, fault: str = ""):
    monkeypatch.setenv("DESK_FAULT", fault)
    spec = importlib.util.spec_from_file_location(f"engine_{fault or 'whole'}", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def evaluated(tmp_path):
    "A system over questions: what came of it, and its turns."

    def by(system, lines=LINES, **how):
        made = evaluate(system, lines, out=tmp_path / "run", progress=False, **how)
        return made, [*made.run.trajectories.values()]

    return by


def test_a_query_engine_is_a_system(monkeypatch, evaluated):
    desk = program(monkeypatch)
    made, turns = evaluated(desk.engine)
    second = desk.PAGES[1][2]
    assert [t.answer for t in turns][:2] == [
        "A crossing to Holm costs 12 crowns.",
        second,
    ]
    first = made.run.passages[turns[0].contexts[0]]
    assert (first.source, first.url) == (
        "ferry.pdf",
        "ferry.pdf#page=1",
    ) and first.score > 0.5
    assert [s.path for s in turns[0].steps][:2] == ["retrieved", "ranked"]
    assert {b.verdict for b in made.blame.turns.values()} == {"right"}


def test_an_index_with_other_documents_is_another_system(monkeypatch):
    desk = program(monkeypatch)
    same, other = program(monkeypatch).engine, desk.nothing
    named = [outside(e).source for e in (desk.engine, same, other)]
    assert named[0] == named[1] != named[2]


def test_a_chat_engine_is_a_system(monkeypatch, evaluated):
    desk = program(monkeypatch)
    history = ["What does a crossing to Holm cost?", "12 crowns."]
    asked = {"question": "And when does the last one leave?", "history": history}
    asked |= {
        "answer": "At nine in the evening.",
        "passages": [{"file": "ferry.pdf", "page": 2}],
    }
    _, (turn,) = evaluated(desk.chat, [asked])
    (rewrite,) = turn.of(Rewritten)
    assert (
        rewrite.text
        == "What does a crossing to Holm cost? And when does the last one leave?"
    )
    assert turn.answered and [s.path for s in turn.steps][1:3] == [
        "retrieved",
        "ranked",
    ]


def test_a_retriever_is_a_system_without_answers(monkeypatch, evaluated):
    desk = program(monkeypatch)
    made, turns = evaluated(desk.search)
    assert {t.outcome for t in turns} == {Outcome.NOT_RECORDED}
    assert all(len(t.found) == 4 for t in turns)
    first = [made.run.passages[t.found[0]].url for t in turns]
    assert first == [f"{file}#page={page}" for _, _, file, page in QUESTIONS]


@pytest.mark.parametrize(
    "fault, stage",
    [("retriever", "retrieve"), ("postprocessor", "rerank"), ("generator", "generate")],
)
def test_a_planted_fault_is_named(fault, stage, monkeypatch, evaluated):
    made, _ = evaluated(program(monkeypatch, fault).engine)
    named = [b.stage for b in made.blame.failed]
    assert len(named) >= 5 and named.count(stage) >= 0.8 * len(named), named


def flow_of(desk, broken: str = ""):
    "A workflow that searches, and answers by the engine's model; by default it takes any question."

    class Asked(StartEvent):
        question: str

    class Found(Event):
        question: str
        nodes: list

    class Desk(Workflow):
        @step
        async def search(self, ev: Asked) -> Found:
            query = "" if broken == "query" else ev.question
            return Found(
                question=ev.question,
                nodes=await desk.search.aretrieve(query or "mayor"),
            )

        @step
        async def write(self, ev: Found) -> StopEvent:
            if broken == "write":
                raise ValueError("no pen")
            context = "\n".join(n.get_content() for n in ev.nodes)
            line = "---------------------"
            prompt = f"{line}\n{context}\n{line}\nQuery: {ev.question}"
            return StopEvent(result=desk.Copies().answer(prompt))

    return Desk(timeout=60)


def test_a_workflow_is_a_system(monkeypatch, evaluated):
    flow = flow_of(program(monkeypatch))
    made, turns = evaluated(flow)
    assert [s.node for s in turns[0].steps][:2] == ["search", "write"]
    assert all(isinstance(t.steps[0], Retrieved) and len(t.found) == 4 for t in turns)
    assert turns[0].answer == "A crossing to Holm costs 12 crowns."
    assert [b.verdict for b in made.blame.turns.values()].count("right") >= 5


def test_a_workflow_whose_search_fails_is_blamed_on_it(monkeypatch, evaluated):
    flow = flow_of(program(monkeypatch), "query")
    made, (turn, *_) = evaluated(flow)
    assert (
        turn.of(Rewritten)[0].text == "mayor" and turn.of(Rewritten)[0].node == "search"
    )
    assert [b.stage for b in made.blame.failed] == ["rewrite"] * 3


def test_a_workflow_that_breaks_is_an_error(monkeypatch, evaluated):
    _, (turn,) = evaluated(flow_of(program(monkeypatch), "write"), LINES[:1])
    assert turn.failed and "no pen" in turn.error.message


def test_a_workflow_gets_the_conversation(evaluated):
    class Talk(Workflow):
        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            said = [m.content for m in ev.chat_history]
            return StopEvent(
                result=f"{ev.query} {ev.user_msg} after {said}, {len(ev.messages)}"
            )

    asked = {"question": "B?", "history": ["A?", "a."], "answer": "b"}
    _, (turn,) = evaluated(Talk(), [asked])
    assert turn.answer == "B? B? after ['A?', 'a.'], 3"


FLOW = """from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent


class Talk(Workflow):
    def __init__(self, prompt="Be brief."):
        super().__init__()
        self.prompt = prompt

    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result="12 crowns")


flow, other = Talk(), Talk("Be long.")
"""


def test_an_edited_workflow_and_one_with_another_prompt_are_other_systems(tmp_path):
    program = tmp_path / "flow.py"

    def named(source: str, name: str) -> dict:
        program.write_text(source)
        value, _ = load_place(f"{program}:{name}")
        return outside(value).source

    first = named(FLOW, "flow")
    assert first == named(FLOW + "\n", "flow") != named(FLOW, "other")
    assert first != named(FLOW.replace("12 crowns", "13 crowns"), "flow")


def test_a_workflow_that_starts_with_what_no_turn_has_is_refused():
    class Order(StartEvent):
        dish: str

    class Kitchen(Workflow):
        @step
        async def only(self, ev: Order) -> StopEvent:
            return StopEvent(result=ev.dish)

    with pytest.raises(
        SettingsError, match="starts with dish; a turn has chat_history, input"
    ):
        outside(Kitchen())


def test_a_file_names_an_engine(monkeypatch):
    monkeypatch.setenv("DESK_FAULT", "")
    system = load_outside(f"{PROGRAM}:engine")
    assert system.name == "llamaindex_engine.py:engine"


def test_an_empty_response_is_no_answer(monkeypatch, evaluated):
    desk = program(monkeypatch)
    _, (turn,) = evaluated(desk.nothing, LINES[:1])
    assert turn.refused and turn.role == "dropped" and not turn.contexts


def test_a_function_may_return_what_frameworks_return(monkeypatch, evaluated):
    desk = program(monkeypatch)
    asked = lambda messages: desk.engine.query(messages[-1]["content"])  # noqa: E731
    _, (turn,) = evaluated(asked, LINES[:1], name="asked")
    assert [s.path for s in turn.steps][:2] == ["retrieved", "ranked"]
    assert read_reply(AIMessage("12 crowns.")).text == "12 crowns."
    found = Document(
        "A ticket costs 12 crowns.", metadata={"source": "a/fees.pdf", "page": 3}
    )
    chain = read_reply({"input": "Fee?", "context": [found], "answer": "12 crowns."})
    assert [(p.source, p.url) for p in chain.passages] == [
        ("a/fees.pdf", "a/fees.pdf#page=3")
    ]


@pytest.mark.parametrize("name", ["engine", "search"])
def test_its_retriever_takes_the_place_of_ours(name, tmp_path):
    "By FILE.py:NAME, without an index of this package: a system of ours answers from its passages."
    tasks = tmp_path / "questions.jsonl"
    write_jsonl(tasks, LINES)
    settings = configure("naive", changes={"retrieval.retriever": f"{PROGRAM}:{name}"})
    models = Models(
        settings, chat=ScriptedChat(first_sentence), embedder=HashEmbedder()
    )
    made = run(
        tasks,
        tmp_path / "run",
        "naive",
        settings=settings,
        models=models,
        progress=False,
    )
    turns = [*made.trajectories.values()]
    assert not any(t.failed for t in turns), [t.error for t in turns if t.failed]
    first = [made.passages[t.contexts[0]] for t in turns]
    assert [c.title for c in first] == [file for _, _, file, _ in QUESTIONS]
    assert ":" in made.manifest["identity"]["retriever"]


def test_a_part_that_holds_a_class_has_an_identity():
    class Structured(SimilarityPostprocessor):
        output: type

    parts = [
        Structured(similarity_cutoff=0.5, output=c) for c in (TextNode, BaseModel, int)
    ]
    assert len({part_identity(p) for p in parts}) == 3
    assert part_identity(parts[0]) == part_identity(parts[0].model_copy())
