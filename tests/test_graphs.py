"""Compiled LangGraph graphs, each unaware of this project, as systems: a corrective loop, parallel branches, a subgraph."""

import asyncio
import importlib
import operator
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, TypedDict, get_type_hints

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from mtrag_nb.app.cli import main
from mtrag_nb.app.evaluate import evaluate
from mtrag_nb.core.record import Checked, Drafted, Graded, Ranked, Retrieved, Rewritten
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import TO_ANSWER, Outcome, SettingsError
from mtrag_nb.data.imports import KnownPassages
from mtrag_nb.data.mtrag import read_benchmark, sample_dir
from mtrag_nb.data.tasks import is_gold
from mtrag_nb.data.traces import import_traces
from mtrag_nb.evaluation.blame import blame
from mtrag_nb.evaluation.proof import prove
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.systems.system import NotRecorded
from mtrag_nb.runs.audits import audit_run
from mtrag_nb.runs.forks import Replayer, fork
from mtrag_nb.runs.oracles import run_ladder
from tests.support.planting import Plant, planted
from mtrag_nb.systems.outside import outside, find_system
from tests.support.foreign import PROGRAMS, asked, lucky, write_sample
from tests.support.volume import few

SAMPLE = sample_dir() / "reference.jsonl"
GOLD = read_benchmark(SAMPLE).gold
GRAPHS = ("corrective", "parallel", "nested")
NODES = {
    "corrective": "retrieve grade_documents transform_query generate check_answer fallback",
    "parallel": "plan search rerank respond review apologize",
    "nested": "research:search_last research:search_talk research:filter_found respond verify",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "The folder of the runs; the programs read the sample's documents."
    folder = tmp_path_factory.mktemp("graphs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESK_DOCUMENTS", str(write_sample(folder) / "documents.jsonl"))
        patch.chdir(PROGRAMS.parents[1])
        yield folder


@pytest.fixture(scope="module")
def run_of(place) -> Callable[[str], Run]:
    "The run of a graph, made once."
    return cache(lambda graph: asked(find_system(name_of(graph)), place / graph))


def name_of(graph: str) -> str:
    return f"tests/foreign/{graph}_graph.py:graph"


@pytest.mark.parametrize("graph", few(GRAPHS))
def test_a_fork_at_every_visit_gives_the_same_record(graph, run_of):
    "Recalled byte by byte; computed anew behind the node with the same content."
    recalled, anew, nodes = Counter(), Counter(), Counter()
    run = run_of(graph)
    with Replayer(run, system=find_system(name_of(graph))) as player:
        hints = get_type_hints(player.graph()[0].builder.state_schema)
        for i in [*run.trajectories][:16]:
            recalled[fork(player, i).same] += 1
            seen = Counter()
            for v in player.visits(i, hints):
                seen[v.node] += 1
                same = fork(player, i, v.node, visit=seen[v.node])
                recalled[same.same and not same.made] += 1
                anew[
                    fork(player, i, v.node, visit=seen[v.node], fresh=True).diff.same
                ] += 1
            nodes += seen
    print(graph, recalled, anew, nodes)
    assert set(recalled) == set(anew) == {True} and sum(anew.values()) >= 60
    assert nodes.keys() == {*NODES[graph].split()} - {"apologize"}


@pytest.mark.parametrize("graph", few(GRAPHS))
def test_model_calls_are_metered(graph, run_of):
    turns = run_of(graph).trajectories.values()
    assert all(t.calls.generate and t.calls.tokens_in for t in turns)
    assert all(t.calls.seconds for t in turns)


def test_the_grades_of_a_node_are_counted_as_its_calls(run_of):
    turn = next(iter(run_of("corrective").trajectories.values()))
    grades = next(s for s in turn.steps if isinstance(s, Graded))
    assert grades.calls.generate == len(grades.grades) == 5


# Faults


def hidden(state, step, tools) -> dict:
    gold = GOLD[state["task"].id].passages
    found = tools.contexts(state["found"])
    return {
        "found": [
            c.id for c in found if not any(is_gold(p, c, own_ids=True) for p in gold)
        ]
    }


def dropped(state, step, tools) -> dict:
    gold = GOLD[state["task"].id].passages
    kept = tools.contexts(list(step.kept))
    return {
        "kept": [
            c.id for c in kept if not any(is_gold(p, c, own_ids=True) for p in gold)
        ]
    }


ZEBRAS = "Purple zebras graze quietly beyond seven frozen lighthouses tonight."
FAULTS = {  # what is broken -> the stage to be named, and how
    "retriever": ("retrieve", Plant("retriever", Retrieved, hidden)),
    "grader": ("grade", Plant("grader", Graded, dropped)),
    "reranker": ("rerank", Plant("reranker", Ranked, dropped)),
    "generator": (
        "generate",
        Plant("generator", Drafted, lambda *_: {"draft": ZEBRAS}),
    ),
    "checker": ("check", Plant("checker", Checked, lambda *_: {"grounded": False})),
}
HAS = [  # a graph, and what is broken in it
    ("corrective", "generator"),
    ("corrective", "retriever grader generator checker"),
    ("parallel", "retriever reranker generator checker"),
    ("nested", "retriever grader generator checker"),
]


@pytest.mark.parametrize("case", few(HAS), ids=str)
def test_a_planted_fault_is_named_and_proved(case, run_of, place):
    graph, faults = case[0], case[1].split()
    whole = Evidence(run_of(graph), GOLD)
    before, hits, proved = blame(whole), Counter(), Counter()
    right = [
        i
        for i, b in before.turns.items()
        if b.verdict == "right" and not lucky(whole, i)
    ]
    for fault in faults:
        stage, plant = FAULTS[fault]
        system = planted(find_system(name_of(graph)), plant)
        broken = asked(system, place / f"{graph}-{fault}")
        after = blame(Evidence(broken, GOLD))
        known = {i: GOLD[i] for i in right[:8]}
        report = prove(broken, known, system=system, progress=False)
        proved += Counter(
            p.status for p in report.proofs.values() if p.blame.stage == stage
        )
        named = Counter(
            after.turns[i].stage for i in right if after.turns[i].verdict == "failed"
        )
        print(graph, fault, len(right), dict(named))
        assert named[stage] >= 5, (graph, fault, named)
        hits += {"named": named[stage], "broken": sum(named.values())}
    assert hits["named"] >= 0.95 * hits["broken"], hits
    print(graph, dict(proved))
    untested = proved.pop("by construction", 0)  # a reference answer cannot fail
    assert (untested > 0) == ("generator" in faults)
    # a pair: a false check, which was there before, hides the repair
    assert proved.keys() <= {"blamed stage", "either", "a pair"}, proved
    alone = proved["blamed stage"] + proved["either"]
    tested = len(faults) - ("generator" in faults)
    assert alone >= 4 * tested and alone >= 0.85 * proved.total(), proved


# The other doors


def test_live_resumed_reported_and_from_the_command_line(place, capsys):
    live = evaluate(
        name_of("nested"), SAMPLE, place / "live", live=True, limit=12, progress=False
    )
    again = evaluate(
        name_of("nested"), SAMPLE, place / "live", live=True, limit=16, progress=False
    )
    assert len(live.run.trajectories) == 12 and len(again.run.trajectories) == 16
    later = [t for t in again.run.trajectories.values() if t.turn > 1]
    own = [again.run.tasks[t.task_id].history[-1].text for t in later]
    assert own == [
        again.run.trajectories[f"{t.conversation_id}<::>{t.turn - 1}"].answer
        for t in later
    ]
    assert "nested_graph.py:graph" in again.page.read_text("utf-8")

    def ends(*words: object) -> tuple[int, str]:
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    out, tasks = place / "typed", ("--tasks", SAMPLE, "--limit", "3", "--out")
    assert ends("run", "--system", name_of("corrective"), *tasks, out)[0] == 0
    first = next(iter(Run(out).trajectories))
    fresh = ("replay", out, "--turn", first, "--at", "retrieve", "--fresh")
    code, told = ends(*fresh)
    assert code == 2 and "--system" in told, "a run folder runs no code"
    code, told = ends(*fresh, "--system", name_of("corrective"))
    assert code == 0 and "~" not in told
    line = ("replay", out, "--turn", first, "--at", "retrieve", "--system")
    code, told = ends(*line, name_of("corrective"))
    assert code == 0 and "~" not in told
    code, told = ends(*line, "tests/foreign/none.py:graph")
    assert code == 2 and "none.py" in told
    system = name_of("corrective").replace(":graph", ":builder")
    code, told = ends("run", "--system", system, *tasks, place / "no")
    assert code == 2 and ".compile()" in told


def test_oracles_and_audit_reach_the_program(run_of, place):
    "Gold in the place of the search is what the program answers from; the ladder's end is the reference."
    run = run_of("corrective")
    system = find_system(name_of("corrective"))
    rungs = run_ladder(
        run, place / "ladder", GOLD, limit=20, progress=False, system=system
    )
    gold = rungs["gold passages"]
    for i, t in gold.trajectories.items():
        texts = (
            {p.text for p in GOLD[i].passages if p.text} if GOLD[i].targets else set()
        )
        assert texts <= {gold.passages[c].text for c in t.retrievals[0].contexts}
    for i, t in rungs["perfect grade"].trajectories.items():
        found = [gold.passages.get(c) or run.passages[c] for c in t.found]
        right = [
            c.id
            for c in found
            if any(is_gold(p, c, own_ids=True) for p in GOLD[i].passages)
        ]
        if GOLD[i].answerability in TO_ANSWER:
            assert {*right} == {c for s in t.of(Graded) for c in s.kept}, (
                "ids are the program's"
            )
    changed = [
        i
        for i, t in gold.trajectories.items()
        if t.answer != run.trajectories[i].answer
    ]
    assert changed, "other passages, other answers"
    told = rungs["reference answer"].trajectories
    answers = [
        i for i in told if GOLD[i].answerability in TO_ANSWER and told[i].answered
    ]
    assert answers and all(told[i].answer == GOLD[i].targets[0] for i in answers)
    without = audit_run(run, place / "audit", limit=20, progress=False, system=system)
    assert {"grade", "memory"} <= without.keys()
    kept = without["grade"].trajectories.values()
    assert all(
        s.kept == t.retrievals[0].contexts for t in kept for s in t.of(Graded)[:1]
    )


def test_a_change_of_the_record_reaches_the_program(run_of):
    run = run_of("corrective")
    turn = next(t for t in run.trajectories.values() if t.answered and len(t.kept) > 1)
    last = turn.retrievals[-1].contexts[-1]
    with Replayer(run, system=find_system(name_of("corrective"))) as player:
        came = fork(player, turn.task_id, "grade_documents", {"kept": [last]})
        assert came.after.contexts == (last,) and len(came.made) == 2
        asked_else = fork(
            player, turn.task_id, "", {"question": "Who won the coast league?"}
        )
        assert asked_else.after.steps[0].node == "retrieve" and asked_else.made
        with pytest.raises(SettingsError, match="follows found or kept"):
            fork(player, turn.task_id, "retrieve", {"own.documents": []})


def test_a_turn_of_a_trace_runs_again_where_the_graph_is_at_hand(place, monkeypatch):
    "What its steps hold is given again; what no step holds (a counter) is missed, and said."
    pytest.importorskip("openinference.instrumentation.langchain")
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    monkeypatch.syspath_prepend(str(PROGRAMS))
    graph = importlib.import_module("corrective_graph").graph
    file = read_benchmark(SAMPLE, limit=6, contexts=True)
    provider, heard = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(heard))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    for task in file.tasks:
        kinds = {"user": HumanMessage, "agent": AIMessage}
        said = {
            "question": task.question,
            "history": [kinds[u.speaker](u.text) for u in task.history],
        }
        graph.invoke(said, {"configurable": {"thread_id": task.conversation_id}})
    LangChainInstrumentor().uninstrument()
    spans = place / "spans.jsonl"
    spans.write_text(
        "".join(s.to_json(indent=None) + "\n" for s in heard.get_finished_spans())
    )
    gold = [p for g in file.gold.values() for p in g.passages]
    run = import_traces(spans, place / "imported", file.tasks, KnownPassages(gold))
    ends = Counter()
    with Replayer(run, system=outside(graph)) as player:
        for t in run.trajectories.values():
            for s in (s for s in t.steps if s.node in graph.builder.nodes):
                try:
                    came = fork(player, t.task_id, s.node)
                    ends[
                        "the same" if came.after.answer == t.answer else "another"
                    ] += 1
                except NotRecorded as e:
                    ends["missed"] += "no step of the trace holds it" in str(e)
        first = next(t for t in run.trajectories.values() if t.answered)
        other = fork(player, first.task_id, "generate", {"draft": "Purple zebras."})
    assert ends == {"the same": 25, "missed": 1} and not other.after.answered


# Single graphs


class Judged(TypedDict, total=False):
    question: str
    answer: str
    grounded: bool


def test_a_changed_verdict_does_not_leave_a_command_where_it_was(tmp_path):
    "The node chose the next one itself, before the change: that is said, and where the turn goes can be named."

    def check(state):
        good = "crowns" in state["answer"]
        return Command(update={"grounded": good}, goto=END if good else "fallback")

    g = StateGraph(Judged)
    g.add_node("write", lambda state: {"answer": "It is 12 crowns."})
    g.add_node("check", check, destinations=("fallback", END))
    g.add_node("fallback", lambda state: {"answer": "I do not know."})
    for a, b in ((START, "write"), ("write", "check"), ("fallback", END)):
        g.add_edge(a, b)
    system, lines = (
        outside(g.compile()),
        [{"question": "How much?", "answer": "It is 12 crowns."}],
    )
    run = evaluate(system, lines, tmp_path / "run", progress=False).run
    turn = next(iter(run.trajectories.values()))
    with Replayer(run, system=system) as player:
        assert fork(player, turn.task_id, "check").same
        with pytest.raises(
            NotRecorded, match="check chose by a Command that __end__ comes next"
        ):
            fork(player, turn.task_id, "check", {"grounded": False})
        sent = {"grounded": False, "goto": ["fallback"]}
        came = fork(player, turn.task_id, "check", sent).after
    assert [s.node for s in came.steps][-2:] == [
        "fallback",
        "finish",
    ] and not came.answered


class Asked(TypedDict, total=False):
    question: str
    documents: list[Document]
    answer: str
    tries: Annotated[int, operator.add]


def one(tmp_path: Path, graph, question: str = "How much is it?", **how):
    "The only turn of a graph."
    system = outside(graph, **how)
    lines = [{"question": question, "answer": "It is 12 crowns."}]
    made = evaluate(system, lines, tmp_path / "run", progress=False)
    return next(iter(made.run.trajectories.values()))


def single(node, schema=Asked):
    g = StateGraph(schema)
    g.add_node("node", node)
    g.add_edge(START, "node")
    g.add_edge("node", END)
    return g


def test_a_coroutine_and_a_list_of_commands(tmp_path):
    async def node(state):
        await asyncio.sleep(0)
        return [Command(update={"tries": 1}), {"answer": "12 crowns"}]

    t = one(tmp_path, single(node).compile())
    assert t.answer == "12 crowns" and t.steps[0].state_update["own.tries"] == 1


def test_a_subgraph_that_hands_over_to_its_parent(tmp_path):
    def hand_over(state):
        return Command(
            graph=Command.PARENT,
            goto="clerk",
            update={"documents": [Document("a fee")]},
        )

    def clerk(state):
        return {"answer": f"from {state['documents'][0].page_content}"}

    g = StateGraph(Asked)
    g.add_node("desk", single(hand_over).compile(), destinations=("clerk",))
    g.add_node("clerk", clerk)
    g.add_edge(START, "desk")
    t = one(tmp_path, g.compile())
    assert t.answer == "from a fee"
    assert [(s.node, type(s)) for s in t.steps[:2]] == [
        ("desk:node", Retrieved),
        ("clerk", Drafted),
    ]


def test_a_turn_that_waits_for_a_person_is_an_error_that_says_so(tmp_path):
    t = one(tmp_path, single(lambda state: {"answer": interrupt("Send it?")}).compile())
    assert t.outcome is Outcome.ERROR and t.error.node == "node"
    assert "waits for a person" in t.error.message and "Send it?" in t.error.message


def test_keys_and_nodes_that_have_no_known_names(tmp_path):
    class State(TypedDict, total=False):
        ask: str
        text: str
        ok: bool

    graph = single(lambda state: {"text": "12 crowns", "ok": True}, State).compile()
    with pytest.raises(SettingsError, match="ask, text, ok.*graph.keys = "):
        outside(graph)
    keys = {"question": "ask", "answer": "text"}
    with pytest.raises(SettingsError, match="no key 'answer: reply'"):
        outside(graph, keys={**keys, "answer": "reply"})
    with pytest.raises(SettingsError, match="nodes are node"):
        outside(graph, keys=keys, kinds={"nod": "check"})
    t = one(tmp_path, graph, keys=keys)
    graph.keys, graph.kinds = keys, {"node": "step"}
    assert t.answer == "12 crowns" and isinstance(t.steps[0], Drafted)
    assert not isinstance(one(tmp_path / "step", graph).steps[0], Drafted)


def test_a_program_of_another_kind_is_refused_with_what_to_do():
    from langgraph.func import entrypoint

    @entrypoint()
    def asked(question: str) -> str:
        return question

    with pytest.raises(SettingsError, match="async def answer"):
        outside(asked)
    with pytest.raises(SettingsError, match="compile"):
        outside(single(lambda state: {}))


def test_messages_alone_with_a_tool(tmp_path):
    from langchain_core.tools import tool
    from langgraph.prebuilt import ToolNode

    @tool
    def fees(query: str) -> str:
        "Looks up fees."
        return "A ticket is 12 crowns."

    def agent(state):
        if state["messages"][-1].type == "tool":
            return {"messages": [AIMessage("12 crowns")]}
        call = {"name": "fees", "args": {"query": "ticket fee"}, "id": "1"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    g = StateGraph(MessagesState)
    g.add_node("agent", agent)
    g.add_node("tools", ToolNode([fees]))
    g.add_edge(START, "agent")
    g.add_conditional_edges(
        "agent",
        lambda s: "tools" if s["messages"][-1].tool_calls else END,
        ["tools", END],
    )
    g.add_edge("tools", "agent")
    t = one(tmp_path, g.compile())
    assert [s.node for s in t.steps] == ["agent", "tools", "agent", "finish"]
    assert t.answer == "12 crowns" and t.of(Rewritten)[0].text == "ticket fee"
    assert not t.of(Checked)
