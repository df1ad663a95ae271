"""Programs from outside run as they do at home: event loops, bound graphs, tools, shortened and empty passages, ends of a turn."""

import asyncio
import json
import operator
import re
import sys
import threading
import time
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, TypedDict

import httpx
import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, RetryPolicy, Send
from llama_index.core import Document as LlamaDocument
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CitationQueryEngine, CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import (
    ImageNode,
    MediaResource,
    Node,
    NodeWithScore,
    TextNode,
)
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from mtrag_nb.app.evaluate import evaluate
from mtrag_nb.core.record import Ranked, Retrieved
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import DataError, Outcome
from mtrag_nb.runs.forks import Replayer, fork
from mtrag_nb.systems.foreign import as_passages
from mtrag_nb.systems.outside import outside
from tests.conftest import ROOT

TICKET = "A ticket costs 12 crowns."
DOGS = "Dogs are allowed."
PRICE = "It costs 12 crowns."
QUESTIONS = [
    {"question": q, "answer": "12 crowns", "passages": [TICKET]}
    for q in ("How much is a ticket?", "What does a ticket cost?", "Price of a ticket?")
]


def turns_of(value, out, questions=QUESTIONS, **changes) -> list:
    "The turns of a program on the questions."
    made = evaluate(value, questions, out / "run", progress=False, **changes)
    return list(Run(made.run.folder).trajectories.values())


def only(value, out, **changes):
    "The turn of a program on the first question."
    return turns_of(value, out, QUESTIONS[:1], **changes)[0]


def outcomes(turns) -> list[str]:
    return [str(t.error.message) if t.error else t.outcome.value for t in turns]


def same_forks(value, out) -> list[bool]:
    "Whether a fork at each visit of the first turn, recalled and anew, comes out the same."
    run = evaluate(value, QUESTIONS[:1], out / "run", progress=False).run
    same = []
    with Replayer(run, system=outside(value)) as player:
        for i, turn in run.trajectories.items():
            assert not turn.failed, turn.error
            for node in dict.fromkeys(
                s.node for s in turn.steps if s.state_update.get("saw")
            ):
                same.append(fork(player, i, node).same)
                same.append(fork(player, i, node, fresh=True).diff.same)
    assert same
    return same


# One event loop


@pytest.fixture(scope="module")
def address():
    "A server of a few lines, which keeps its connections open."

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            message = {"role": "assistant", "content": PRICE}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            about = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
            body = json.dumps({**about, "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            "Nothing on the screen."

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def by_openai(address):
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=address, api_key="x")

    async def ask(text):
        message = {"role": "user", "content": text}
        done = await client.chat.completions.create(model="m", messages=[message])
        return done.choices[0].message.content

    return ask


def by_httpx(address):
    client = httpx.AsyncClient()

    async def ask(text):
        reply = await client.post(f"{address}/chat/completions", json={"q": text})
        return reply.json()["choices"][0]["message"]["content"]

    return ask


def by_semaphore(address):
    one = asyncio.Semaphore(1)

    async def ask(text):
        async with one:
            await asyncio.sleep(0.01)
            return PRICE

    return ask


def by_background(address):
    wanted: asyncio.Queue = asyncio.Queue()
    workers = []

    async def work():
        while True:
            reply = await wanted.get()
            reply.set_result(PRICE)

    async def ask(text):
        if not workers:
            workers.append(asyncio.create_task(work()))
        reply = asyncio.get_running_loop().create_future()
        await wanted.put(reply)
        return await asyncio.wait_for(reply, 5)

    return ask


def by_event(address):
    ready = asyncio.Event()

    async def ask(text):
        asyncio.get_running_loop().call_later(0.01, ready.set)
        await ready.wait()
        return PRICE

    return ask


def as_function(ask):
    async def answer(messages):
        return await ask(messages[-1]["content"]), [TICKET]

    return answer


def as_pieces(ask):
    async def answer(messages):
        yield {"step": "retrieve", "passages": [TICKET]}
        yield await ask(messages[-1]["content"])

    return answer


class Asked(TypedDict, total=False):
    question: str
    search_query: str
    documents: list
    answer: str


def line(*nodes, schema=Asked, **how):
    "A compiled graph whose nodes follow one another."
    builder = StateGraph(schema, **how)
    names = [START]
    for name, node in nodes:
        builder.add_node(name, node)
        names.append(name)
    names.append(END)
    for a, b in zip(names, names[1:]):
        builder.add_edge(a, b)
    return builder


def as_graph(ask):
    async def rewrite(state):
        return {"search_query": await ask(state["question"])}

    async def generate(state):
        return {"answer": await ask(state["question"])}

    retrieve = ("retrieve", lambda state: {"documents": [TICKET]})
    return line(("rewrite", rewrite), retrieve, ("generate", generate)).compile()


def as_workflow(ask):
    class Question(StartEvent):
        question: str

    class Flow(Workflow):
        @step
        async def answer(self, event: Question) -> StopEvent:
            return StopEvent(result=await ask(event.question))

    return Flow()


@pytest.mark.parametrize(
    "form", [as_function, as_pieces, as_graph, as_workflow], ids=lambda f: f.__name__
)
@pytest.mark.parametrize(
    "client",
    [by_openai, by_httpx, by_semaphore, by_background, by_event],
    ids=lambda f: f.__name__,
)
def test_a_client_made_once_answers_every_turn(client, form, address, tmp_path):
    program = form(client(address))
    first = turns_of(program, tmp_path / "a", in_flight=3)
    assert outcomes(first) == ["answered"] * 3
    again = turns_of(program, tmp_path / "b", in_flight=1)
    assert outcomes(again) == ["answered"] * 3, "the same program on the bench again"


def test_a_task_that_ends_the_process_ends_one_turn(tmp_path):
    async def end():
        sys.exit(3)

    async def answer(messages):
        if messages[-1]["content"].startswith("What"):
            await asyncio.gather(asyncio.sleep(0), asyncio.create_task(end()))
        return PRICE

    told = outcomes(turns_of(answer, tmp_path))
    assert told.count("answered") == 2
    assert any("the system ended the program: SystemExit(3)" in text for text in told)


# What is bound to a graph


def price_from(read):
    def generate(state, config: RunnableConfig):
        return {"answer": f"It costs {read(config)} crowns."}

    return line(("generate", generate))


def bound_configurable():
    graph = price_from(lambda c: c["configurable"].get("price", 7)).compile()
    return graph.with_config(configurable={"price": 12})


def bound_metadata():
    graph = price_from(lambda c: c["metadata"].get("price", 7)).compile()
    return graph.with_config(metadata={"price": 12})


def bound_tags():
    graph = price_from(lambda c: {**dict.fromkeys(c["tags"])}.popitem()[0]).compile()
    return graph.with_config(tags=["12"])


def bound_twice():
    graph = price_from(lambda c: c["configurable"]["a"] + c["configurable"]["b"])
    return (
        graph.compile()
        .with_config(configurable={"a": 5})
        .with_config(configurable={"b": 7})
    )


def bound_subgraph():
    inner = price_from(lambda c: c["configurable"].get("price", 7)).compile()
    return line(("inner", inner.with_config(configurable={"price": 12}))).compile()


def bound_from_above():
    inner = price_from(lambda c: c["configurable"].get("price", 7)).compile()
    return line(("inner", inner)).compile().with_config(configurable={"price": 12})


def held_in_a_store():
    store = InMemoryStore()
    store.put(("facts",), "price", {"is": 12})

    def generate(state, runtime: Runtime):
        return {"answer": f"It costs {runtime.store.get(('facts',), 'price').value['is']} crowns."}  # fmt: skip

    return line(("inner", line(("generate", generate)).compile())).compile(store=store)


class Prices(TypedDict):
    price: int


def from_a_context():
    def generate(state, runtime: Runtime[Prices]):
        return {"answer": f"It costs {runtime.context['price']} crowns."}

    graph = line(("generate", generate), context_schema=Prices).compile()
    return graph.bind(context={"price": 12})


def by_coroutine():
    async def generate(state):
        return {"answer": PRICE}

    return line(("generate", RunnableLambda(generate))).compile()


def by_a_coroutine_at_a_fork():
    async def way(state):
        await asyncio.sleep(0)
        return "dear"

    builder = line(("look", lambda state: {"documents": [TICKET]}))
    builder.add_node("dear", lambda state: {"answer": PRICE})
    builder.add_conditional_edges("look", way, ["dear"])
    return builder.compile()


def within_its_time():
    async def generate(state):
        await asyncio.sleep(0.01)
        return {"answer": PRICE}

    builder = StateGraph(Asked)
    builder.add_node("generate", generate, timeout=30)
    builder.add_edge(START, "generate")
    return builder.compile()


def by_two_commands():
    class Counted(TypedDict, total=False):
        question: str
        price: Annotated[int, operator.add]
        answer: str

    def count(state):
        return [Command(update={"price": 5}), Command(update={"price": 7})]

    def generate(state):
        return {"answer": f"It costs {state['price']} crowns."}

    return line(("count", count), ("generate", generate), schema=Counted).compile()


def tried_again():
    tries = []

    async def generate(state):
        tries.append(1)
        if len(tries) % 2:
            raise ConnectionError("again")
        return {"answer": PRICE}

    builder = StateGraph(Asked)
    policy = RetryPolicy(initial_interval=0.01)
    builder.add_node("generate", generate, retry_policy=policy)
    builder.add_edge(START, "generate")
    return builder.compile()


BOUND = [
    bound_configurable,
    bound_metadata,
    bound_tags,
    bound_twice,
    bound_subgraph,
    bound_from_above,
    held_in_a_store,
    from_a_context,
    by_coroutine,
    by_a_coroutine_at_a_fork,
    within_its_time,
    by_two_commands,
    tried_again,
]


@pytest.mark.parametrize("make", BOUND, ids=lambda f: f.__name__)
def test_a_graph_answers_as_in_langgraph(make, tmp_path):
    graph = make()
    at_home = asyncio.run(graph.ainvoke({"question": "How much?"}))["answer"]
    turn = only(graph, tmp_path)
    assert outcomes([turn]) == ["answered"]
    assert turn.answer == at_home == PRICE
    if make is not tried_again:
        assert set(same_forks(graph, tmp_path / "forks")) == {True}


def test_a_time_limit_of_a_node_is_kept(tmp_path):
    async def generate(state):
        await asyncio.sleep(20)

    builder = StateGraph(Asked)
    builder.add_node("generate", generate, timeout=0.2)
    builder.add_edge(START, "generate")
    start = time.monotonic()
    turn = only(builder.compile(), tmp_path)
    assert turn.failed and "imeout" in turn.error.type
    assert time.monotonic() - start < 15


def test_a_conversation_is_a_thread(tmp_path):
    def generate(state, config: RunnableConfig):
        return {"answer": f"It is {config['configurable']['thread_id']}."}

    graph = line(("generate", generate)).compile()
    turn = only(graph, tmp_path / "a")
    assert turn.answer == f"It is {turn.conversation_id}."
    named = graph.with_config(configurable={"thread_id": "mine"})
    assert only(named, tmp_path / "b").answer == "It is mine."


@pytest.mark.parametrize("where", ["outer", "inner", "interrupts"])
def test_what_of_a_graph_is_not_taken_over_is_said(where, tmp_path):
    node = ("generate", lambda state: {"answer": PRICE})
    if where == "outer":
        graph, word = line(node).compile(checkpointer=InMemorySaver()), "checkpointer"
    elif where == "inner":
        inner = line(node).compile(checkpointer=True)
        graph, word = line(("inner", inner)).compile(), "checkpointer"
    else:
        graph = line(node).compile(interrupt_before=["generate"])
        word = "interrupts"
    made = evaluate(graph, QUESTIONS[:1], tmp_path / "run", progress=False)
    assert outcomes(made.run.trajectories.values()) == ["answered"]
    assert f"not taken over: its {word}" in made.run.manifest["about"]
    assert any("not taken over" in note and word in note for note in made.unknown)
    plain = evaluate(
        line(node).compile(), QUESTIONS[:1], tmp_path / "b", progress=False
    )
    assert not any("not taken over" in note for note in plain.unknown)


def test_langgraph_is_used_by_its_public_names_alone():
    modules = ("loop", "watch", "values", "program", "follow", "graphs", "functions")
    for name in modules:
        code = (ROOT / "mtrag_nb/systems" / f"{name}.py").read_text("utf-8")
        private = re.findall(r"\b(?!self\b)\w+\._(?!_)\w+", code)
        assert not private, (name, private)
        imported = re.findall(r"from lang\S*\.(_\w+)|import (_\w+)$", code, re.M)
        assert not imported, (name, imported)


# A state that is not what it says


def retriever_of(documents):
    return ("retrieve", lambda state: {"documents": documents})


def answer_from(state):
    return {"answer": "It costs 12 crowns." if state["documents"] else "I don't know."}


HINTS = {
    "list of texts": list[str],
    "list of dictionaries": list[dict],
    "a text or a list": str | list[str],
    "list": list,
    "anything": object,
    "tuple of texts": tuple[str, ...],
}


@pytest.mark.parametrize("hint", HINTS)
def test_documents_under_another_declared_type_can_be_forked(hint, tmp_path):
    schema = TypedDict(
        "State", {"question": str, "documents": HINTS[hint], "answer": str}
    )

    def generate(state):
        return {"answer": " ".join(d.page_content for d in state["documents"])}

    pages = [Document(TICKET, id="d1"), Document(DOGS, id="d2")]
    graph = line(retriever_of(pages), ("generate", generate), schema=schema).compile()
    assert set(same_forks(graph, tmp_path)) == {True}
    run = Run(tmp_path / "run")
    with Replayer(run, system=outside(graph)) as player:
        turn = next(iter(run.trajectories.values()))
        came = fork(player, turn.task_id, "retrieve", {"kept": ["d2"]})
    assert came.after.answer == DOGS, "the program gets documents, not texts"


class Cell:
    "Something that cannot be written down."


STATES = {
    "tuple keys": {("a", 1): "x", ("b", 2): "y"},
    "number keys": {1: "x", 2.5: "y", None: "z"},
    "bytes": b"\xff\xfe\x00",
    "bytes within": {"page": [b"\xff", {"image": b"\x80"}]},
    "a set of tuples": {(1, 2), (3, 4)},
    "a document with a NaN": Document("x", metadata={"score": float("nan")}),
    "a decimal": Decimal("1.5"),
}


@pytest.mark.parametrize("name", STATES)
def test_values_that_json_does_not_have_are_recorded(name, tmp_path):
    class Kept(TypedDict, total=False):
        question: str
        cache: object
        answer: str

    def keep(state):
        return {"cache": STATES[name]}

    def generate(state):
        assert type(state["cache"]) is type(STATES[name])
        return {"answer": PRICE}

    graph = line(("keep", keep), ("generate", generate), schema=Kept).compile()
    assert outcomes([only(graph, tmp_path / "one")]) == ["answered"]
    if name not in ("a decimal", "a set of tuples"):
        assert set(same_forks(graph, tmp_path)) == {True}


NUMBERS = {
    "NaN": float("nan"),
    "infinity": float("inf"),
    "within": [1, {"a": -float("inf")}],
    "of numpy": np.float64("nan"),
    "a key's": {"x": {"y": float("nan")}},
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_is_none_ends_one_turn(name, tmp_path):
    class Scored(TypedDict, total=False):
        question: str
        weight: object
        answer: str

    def weigh(state):
        odd = state["question"].startswith("What")
        return {"weight": NUMBERS[name] if odd else 0.5, "answer": PRICE}

    turns = turns_of(line(("weigh", weigh), schema=Scored).compile(), tmp_path)
    told = outcomes(turns)
    assert told.count("answered") == 2
    [broken] = [t for t in turns if t.failed]
    assert broken.error.node == "weigh" and "own.weight" in broken.error.message


@pytest.mark.parametrize(
    "step",
    [
        {"step": "retrieve", "passages": [TICKET], "seconds": float("nan")},
        {"step": "gate", "passed": True, "score": 0.5, "threshold": float("inf")},
        {"step": "check", "passed": True, "score": float("nan"), "threshold": 0.5},
        {"step": "note", "note": "", "seconds": "soon"},
        {"step": "note", "note": "", "seconds": np.float32("inf")},
    ],
)
def test_a_step_with_such_a_number_ends_one_turn(step, tmp_path):
    def answer(messages):
        odd = messages[-1]["content"].startswith("What")
        return {"answer": PRICE, "steps": [step] if odd else []}

    assert outcomes(turns_of(answer, tmp_path)).count("answered") == 2


def long_state(state):
    long = "x" * 40_000_000 if state["question"].startswith("What") else ""
    return {"answer": PRICE, "search_query": "", "documents": [], "note": long}


class Noted(Asked, total=False):
    note: str


def long_answer(messages):
    return "x" * 40_000_000 if messages[-1]["content"].startswith("What") else PRICE


def control_characters(messages):
    odd = messages[-1]["content"].startswith("What")
    return "\x01" * 8_000_000 if odd else PRICE


def long_passage(messages):
    odd = messages[-1]["content"].startswith("What")
    return PRICE, ["y" * 40_000_000 if odd else TICKET]


def long_together(messages):
    odd = messages[-1]["content"].startswith("What")
    return PRICE, [f"{n} " + "y" * 9_000_000 for n in range(5)] if odd else [TICKET]


LONG = {
    "state": line(("note", long_state), schema=Noted).compile(),
    "answer": long_answer,
    "control characters": control_characters,
    "passage": long_passage,
    "passages together": long_together,
}


LONG_CASES = [
    pytest.param(n, marks=pytest.mark.slow if n == "answer" else ()) for n in LONG
]


@pytest.mark.parametrize("name", LONG_CASES)
def test_a_turn_that_is_too_long_for_a_line_ends_alone(name, tmp_path):
    turns = turns_of(LONG[name], tmp_path)
    told = outcomes(turns)
    assert told.count("answered") == 2 and len(told) == 3
    assert any("bytes on the record" in text for text in told)
    again = turns_of(LONG[name], tmp_path)
    assert outcomes(again).count("answered") == 2, "the folder is read again"


# Ends of the process


class Mine(BaseException):
    "Of nobody's family."


ENDS = [SystemExit(3), GeneratorExit(), Mine("gone"), asyncio.CancelledError()]


def ends_in(where, end):
    def odd(state):
        text = state["question"] if isinstance(state, dict) else state[-1]["content"]
        if text.startswith("What"):
            raise end

    def function(messages):
        odd(messages)
        return PRICE

    async def coroutine(messages):
        await asyncio.sleep(0)
        odd(messages)
        return PRICE

    def generator(messages):
        yield "It costs "
        odd(messages)
        yield "12 crowns."

    def node(state):
        odd(state)
        return {"answer": PRICE}

    async def later(state):
        await asyncio.sleep(0)
        odd(state)
        return {"answer": PRICE}

    def way(state):
        odd(state)
        return END

    programs = {"function": function, "coroutine": coroutine, "generator": generator}
    if where in programs:
        return programs[where]
    if where == "edge":
        builder = StateGraph(Asked)
        builder.add_node("generate", lambda state: {"answer": PRICE})
        builder.add_edge(START, "generate")
        builder.add_conditional_edges("generate", way, [END])
        return builder.compile()
    return line(("generate", node if where == "node" else later)).compile()


WHERE = ["function", "coroutine", "generator", "node", "later", "edge"]


@pytest.mark.parametrize("end", ENDS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("where", WHERE)
def test_what_would_end_the_process_ends_one_turn(where, end, tmp_path):
    turns = turns_of(ends_in(where, end), tmp_path)
    assert [t.outcome for t in turns].count(Outcome.ANSWERED) == 2
    [broken] = [t for t in turns if t.failed]
    assert broken.outcome is Outcome.ERROR


@pytest.mark.parametrize("where", WHERE)
def test_ctrl_c_still_stops_a_run(where, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        turns_of(ends_in(where, KeyboardInterrupt()), tmp_path, in_flight=1)


# Searches that are tools


PAGES = [Document(TICKET, id="d1"), Document(DOGS, id="d2")]


class Scripted(BaseChatModel):
    "Asks its tool once, then answers by what came."

    calls: int = 1
    tool: str = "look_up"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        if messages[-1].type == "tool":
            there = any("12 crowns" in str(m.content) for m in messages)
            message = AIMessage("It costs 10 crowns." if there else "I don't know.")
        else:
            calls = [
                {"name": self.tool, "args": {"query": f"ticket {n}"}, "id": f"c{n}"}
                for n in range(self.calls)
            ]
            message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def text_and(artifact):
    return "\n\n".join(page.page_content for page in PAGES), artifact


def look_up_tool(artifact):
    @tool(response_format="content_and_artifact")
    def look_up(query: str):
        "Look something up."
        return text_and(artifact)

    return look_up


def async_tool():
    async def look_up(query: str):
        "Look something up."
        return text_and(PAGES)

    about = {"name": "look_up", "response_format": "content_and_artifact"}
    return StructuredTool.from_function(coroutine=look_up, **about)


def command_tool():
    @tool
    def look_up(query: str, tool_call_id: Annotated[str, InjectedToolCallId]):
        "Look something up."
        text, pages = text_and(PAGES)
        message = ToolMessage(text, tool_call_id=tool_call_id, artifact=pages)
        return Command(update={"messages": [message]})

    return look_up


def by_hand(tool, calls=1):
    model = Scripted(calls=calls)
    builder = StateGraph(MessagesState)
    builder.add_node(
        "agent", lambda state: {"messages": [model.invoke(state["messages"])]}
    )
    builder.add_node("tools", ToolNode([tool]))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges(
        "agent", lambda s: "tools" if s["messages"][-1].tool_calls else END, ["tools", END]
    )  # fmt: skip
    builder.add_edge("tools", "agent")
    return builder.compile()


def react(tool, version="v2", calls=1):
    return create_react_agent(Scripted(calls=calls), [tool], version=version)


AGENTS = {
    "tool node": lambda: by_hand(look_up_tool(PAGES)),
    "a coroutine": lambda: by_hand(async_tool()),
    "a command": lambda: by_hand(command_tool()),
    "react": lambda: react(look_up_tool(PAGES)),
    "react, first version": lambda: react(look_up_tool(PAGES), "v1"),
    "react, a coroutine": lambda: react(async_tool()),
    "react, a command": lambda: react(command_tool()),
    "pairs with scores": lambda: by_hand(look_up_tool([(p, 0.5) for p in PAGES])),
    "a tuple": lambda: by_hand(look_up_tool(tuple(PAGES))),
    "in a dictionary": lambda: by_hand(look_up_tool({"query": "x", "docs": PAGES})),
    "dictionaries": lambda: by_hand(
        look_up_tool([{"content": p.page_content, "source": p.id} for p in PAGES])
    ),
    "nodes of LlamaIndex": lambda: by_hand(
        look_up_tool([TextNode(text=p.page_content, id_=p.id) for p in PAGES])
    ),
    "twice at once": lambda: by_hand(look_up_tool(PAGES), calls=2),
    "react, twice at once": lambda: react(look_up_tool(PAGES), calls=2),
    "with an empty page": lambda: by_hand(look_up_tool([Document(""), *PAGES])),
}


@pytest.mark.parametrize("form", AGENTS)
def test_documents_of_a_tool_are_a_search(form, tmp_path):
    made = evaluate(AGENTS[form](), QUESTIONS[:1], tmp_path / "run", progress=False)
    [turn] = made.run.trajectories.values()
    assert turn.error is None and turn.answer == "It costs 10 crowns."
    texts = [made.run.passages[i].text for i in turn.found]
    assert texts == [TICKET, DOGS]
    assert [(b.cause, b.stage) for b in made.blame.turns.values()] == [
        ("wrong draft from gold", "generate")
    ]
    assert not any("without passages" in note for note in made.unknown)


@pytest.mark.parametrize(
    "form", ["tool node", "react", "a command", "pairs with scores"]
)
def test_other_documents_of_a_tool_reach_the_program(form, tmp_path):
    graph = AGENTS[form]()
    assert set(same_forks(graph, tmp_path)) == {True}
    run = Run(tmp_path / "run")
    turn = next(iter(run.trajectories.values()))
    with Replayer(run, system=outside(graph)) as player:
        came = fork(player, turn.task_id, "tools", {"found": ["d2"], "kept": ["d2"]})
    assert came.after.contexts == ("d2",)
    assert came.after.answer == "I don't know."


# Engines that shorten what they found


LONG_PAGE = f"{TICKET} " + "The harbour is old. " * 80


class Says(MockLLM):
    "Says the same to everything."

    def complete(self, prompt, formatted=False, **kwargs):
        reply = super().complete(prompt, formatted, **kwargs)
        return reply.model_copy(update={"text": "It costs 10 crowns [1]."})


class Shorten(BaseNodePostprocessor):
    "Shortens the nodes that it gets: in place, or in copies of the same ids."

    in_place: bool = True

    def _postprocess_nodes(self, nodes, query_bundle=None):
        kept = []
        for scored in nodes:
            node = scored.node if self.in_place else scored.node.model_copy()
            node.set_content(node.get_content().partition(". ")[0] + ".")
            kept.append(NodeWithScore(node=node, score=scored.score))
        return kept


class Pieces(BaseNodePostprocessor):
    "Two pieces under the id of each node."

    def _postprocess_nodes(self, nodes, query_bundle=None):
        kept = []
        for scored in nodes:
            for text in scored.node.get_content().split(". ")[:2]:
                node = scored.node.model_copy()
                node.set_content(text)
                kept.append(NodeWithScore(node=node, score=scored.score))
        return kept


class Metadata(BaseNodePostprocessor):
    "Writes into the metadata of the nodes that it gets."

    def _postprocess_nodes(self, nodes, query_bundle=None):
        for scored in nodes:
            scored.node.metadata["file_name"] = "changed.pdf"
        return nodes


@pytest.fixture
def index():
    pages = [
        LlamaDocument(text=LONG_PAGE, id_="d1", metadata={"window": TICKET}),
        LlamaDocument(text=DOGS, id_="d2", metadata={"window": DOGS}),
    ]
    return VectorStoreIndex.from_documents(pages, embed_model=MockEmbedding(8))


def cut_engine(name, index):
    if name.startswith("citation"):
        size = int(name.partition(" ")[2])
        how = {"citation_chunk_size": size, "citation_chunk_overlap": 4}
        return CitationQueryEngine.from_args(
            index, llm=Says(), similarity_top_k=2, **how
        )
    after = {
        "in place": Shorten(),
        "in copies": Shorten(in_place=False),
        "in pieces": Pieces(),
        "by metadata": MetadataReplacementPostProcessor("window"),
        "metadata written": Metadata(),
    }[name]
    how = {"similarity_top_k": 2, "node_postprocessors": [after]}
    return index.as_query_engine(llm=Says(), **how)


CUTS = ["citation 64", "citation 512", "in place", "in copies", "in pieces"]
CUTS += ["by metadata", "metadata written"]


@pytest.mark.parametrize("name", CUTS)
def test_a_search_is_what_was_found_and_pieces_are_what_was_read(name, index, tmp_path):
    engine = cut_engine(name, index)
    made = evaluate(engine, QUESTIONS[:1], tmp_path / "run", progress=False)
    run = Run(made.run.folder)
    [turn] = run.trajectories.values()
    assert turn.error is None, turn.error
    found = {run.passages[i].text.strip() for i in turn.found}
    assert found == {LONG_PAGE.strip(), DOGS}
    read = [run.passages[i].text for i in turn.contexts]
    if name != "metadata written":
        assert any(isinstance(s, Ranked) for s in turn.steps)
        assert max(map(len, read)) < len(LONG_PAGE) or name == "citation 512"
    assert [(b.cause, b.stage) for b in made.blame.turns.values()] == [
        ("wrong draft from gold", "generate")
    ]
    assert (run.folder / "predictions.jsonl").read_text("utf-8").count("\n") == 1


class Custom(CustomQueryEngine):
    "An engine that searches, and returns a text without its nodes."

    retriever: BaseRetriever

    def custom_query(self, query_str: str) -> str:
        self.retriever.retrieve(query_str)
        return "It costs 10 crowns."


def test_an_engine_that_names_no_nodes_has_read_what_it_found(index, tmp_path):
    engine = Custom(retriever=index.as_retriever(similarity_top_k=2))
    made = evaluate(engine, QUESTIONS[:1], tmp_path / "run", progress=False)
    [turn] = made.run.trajectories.values()
    assert len(turn.found) == len(turn.contexts) == 2
    assert [(b.cause, b.stage) for b in made.blame.turns.values()] == [
        ("wrong draft from gold", "generate")
    ]


PAGE, PIECE = {"id": "d1", "text": LONG_PAGE}, {"id": "d1", "text": TICKET}


def cut_by_steps(messages):
    steps = [
        {"step": "retrieve", "passages": [PAGE]},
        {"step": "grade", "kept": [PIECE]},
    ]
    return {"answer": PRICE, "steps": steps}


def cut_by_passages(messages):
    yield {"step": "retrieve", "passages": [PAGE]}
    yield PRICE, [PIECE]


def cut_by_rank(messages):
    steps = [{"step": "retrieve", "passages": [PAGE]}]
    steps.append({"step": "rerank", "passages": [PIECE, {"id": "d1", "text": DOGS}]})
    return {"answer": PRICE, "steps": steps}


def cut_by_graph(name):
    def cut(state):
        return {"documents": [Document(TICKET, id="d1")]}

    search = retriever_of([Document(LONG_PAGE, id="d1")])
    return line(
        search, (name, cut), ("generate", lambda s: {"answer": PRICE})
    ).compile()


CUT = {
    "steps": cut_by_steps,
    "passages": cut_by_passages,
    "ranking": cut_by_rank,
    "a node": cut_by_graph("compress"),
    "a grading node": cut_by_graph("grade_documents"),
    "a ranking node": cut_by_graph("rerank"),
}


@pytest.mark.parametrize("name", CUT)
def test_shortened_passages_of_other_programs_are_read_again(name, tmp_path):
    made = evaluate(CUT[name], QUESTIONS[:1], tmp_path / "run", progress=False)
    run = Run(made.run.folder)
    [turn] = run.trajectories.values()
    assert turn.error is None
    assert [run.passages[i].text for i in turn.found] == [LONG_PAGE]
    assert TICKET in [run.passages[i].text for i in turn.contexts]


# Empty passages


EMPTY = {
    "a blank page": Document("", metadata={"source": "scan.pdf", "page": 0}),
    "white space": Document(" \n\t"),
    "None": None,
    "an empty text": "",
    "NaN of a table": float("nan"),
    "a text that is None": {"id": "d9", "text": None},
    "a text that is NaN": {"id": "d9", "text": float("nan"), "score": 0.5},
    "a blank in a dictionary": {"page_content": " ", "metadata": {"source": "s.pdf"}},
    "an image": ImageNode(image="aGk="),
    "an image with a score": NodeWithScore(node=ImageNode(image="aGk="), score=0.3),
    "an image alone": NodeWithScore(
        node=Node(image_resource=MediaResource(data=b"aGk=")), score=0.3
    ),
    "a pair": (Document(""), 0.4),
    "an empty node": TextNode(text="", id_="n9"),
    "a pair with no text": ("", 0.4),
    "a pair with None": (None, 0.4),
    "an empty dictionary": {},
    "a mark that is not seen": "\u200b\ufeff",
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_passage_is_left_out_and_counted(name, tmp_path):
    passages = [EMPTY[name], Document(TICKET), EMPTY[name]]
    made = evaluate(
        lambda messages: (PRICE, passages), QUESTIONS[:1], tmp_path / "run", progress=False
    )  # fmt: skip
    [turn] = made.run.trajectories.values()
    assert outcomes([turn]) == ["answered"]
    assert [made.run.passages[i].text for i in turn.found] == [TICKET]
    assert turn.steps[0].note == "2 empty passages left out"
    assert "empty passages left out: 2" in made.unknown


@pytest.mark.parametrize(
    "score", [float("nan"), "nan", np.float32("nan"), float("inf"), "NaN"]
)
def test_a_score_that_is_no_number_is_none(score, tmp_path):
    passages = [{"text": TICKET, "score": score}, {"text": DOGS, "score": 0.5}]
    turn = only(lambda messages: (PRICE, passages), tmp_path)
    assert outcomes([turn]) == ["answered"] and len(turn.found) == 2


def test_empty_passages_of_engines_graphs_steps_and_retrievers(tmp_path):
    nodes = [
        NodeWithScore(node=ImageNode(image="aGk=", id_="scan"), score=0.9),
        NodeWithScore(node=TextNode(text=TICKET, id_="d1"), score=float("nan")),
    ]

    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle):
            return list(nodes)

    from llama_index.core.query_engine import RetrieverQueryEngine

    def graph_of(documents):
        return line(retriever_of(documents), ("generate", answer_from)).compile()

    def steps(messages):
        yield {"step": "retrieve", "passages": [None, TICKET]}
        yield {"step": "grade", "kept": ["", TICKET]}
        yield PRICE

    programs = {
        "engine": RetrieverQueryEngine.from_args(Fixed(), llm=Says()),
        "retriever": Fixed(),
        "graph": graph_of([Document(""), Document(TICKET)]),
        "graph of texts": graph_of(["", TICKET]),
        "graph with None": graph_of([None, Document(TICKET)]),
        "steps": steps,
    }
    for name, program in programs.items():
        turn = only(program, tmp_path / name.replace(" ", "_"))
        assert turn.error is None, (name, turn.error)
        [search] = turn.of(Retrieved)
        assert len(search.contexts) == 1, name
        assert "1 empty passage left out" in search.note, name


def test_all_passages_empty_is_a_search_that_found_nothing(tmp_path):
    turn = only(lambda messages: (PRICE, [None, "", Document("")]), tmp_path)
    assert outcomes([turn]) == ["answered"]
    assert turn.found == () and turn.steps[0].note == "3 empty passages left out"


@pytest.mark.parametrize("value", [{"distance": 0.3}, 5, {"body": TICKET}])
def test_a_passage_without_a_place_for_text_is_a_mistake(value):
    with pytest.raises(DataError, match="neither text nor url"):
        as_passages([value, TICKET])


# Parallel branches


def test_many_branches_with_coroutines_at_once(tmp_path):
    class Spread(TypedDict, total=False):
        question: str
        documents: Annotated[list[Document], operator.add]
        answer: str

    async def look(word):
        await asyncio.sleep(0.001)
        return {"documents": [Document(f"{word} costs 12 crowns.", id=word)]}

    builder = StateGraph(Spread)
    builder.add_node("look", look)
    builder.add_node("write", lambda s: {"answer": s["documents"][0].page_content})
    words = [f"ticket{n:02}" for n in range(24)]
    builder.add_conditional_edges(START, lambda s: [Send("look", w) for w in words])
    builder.add_edge("look", "write")
    turns = turns_of(builder.compile(), tmp_path, in_flight=8)
    assert outcomes(turns) == ["answered"] * 3
    assert all(t.contexts == tuple(words) for t in turns)
