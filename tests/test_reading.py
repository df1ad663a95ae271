"""What is read from other programs: tables of questions, histories of chats, pages of loaders, spans of tracers, and files
whose line ends git has changed."""

import json
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from google.protobuf.json_format import ParseDict
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.schema import NodeWithScore, TextNode
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from mtrag_nb.core.types import Context, DataError, Passage, Turn
from mtrag_nb.data.cells import plain_value, rows_of
from mtrag_nb.data.messages import read_history
from mtrag_nb.data.mtrag import read_benchmark
from mtrag_nb.data.tasks import BY_TEXT, is_gold
from mtrag_nb.data.passages import fields_of, page_numbers
from mtrag_nb.data.predictions import holds_predictions
from mtrag_nb.data.traces import import_traces

QUESTION, ANSWER = "How much is a ticket?", "A ticket costs 12 crowns."
SECOND, REPLY = "And a dog?", "A dog costs 4 crowns."
TEXT = "A ticket costs 12 crowns. Dogs are free."


# Tables of questions


def benchmark(rows: list[dict], folder: Path):
    "Questions in the simple form, written as JSON lines with NaN, and read."
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return read_benchmark(path)


NAN = float("nan")
EMPTY = {
    "None": None,
    "NaN": NAN,
    "NaN of NumPy": np.float32("nan"),
    "NA of pandas": pd.NA,
    "NaT": pd.NaT,
    "NaT of NumPy": np.datetime64("NaT"),
    "a masked value": np.ma.masked,
    "no text": "",
    "blanks": " \n",
    "a mark alone": "\ufeff",
    "nan as text": "nan",
    "NA as text": "<NA>",
    "null as text": "NULL",
}
COLUMNS = "answer passages history conversation turn collection id answerable".split()


@pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("column", COLUMNS)
def test_an_empty_cell_is_as_if_its_key_were_not_there(column, empty, tmp_path):
    rows = [{"question": QUESTION, column: empty}, {"question": SECOND, column: empty}]
    found = benchmark(rows_of(rows), tmp_path)
    bare = benchmark([{"question": QUESTION}, {"question": SECOND}], tmp_path)
    assert found.tasks == bare.tasks
    assert found.gold == bare.gold
    assert [task.history for task in found.tasks] == [(), ()]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("empty", [None, NAN])
def test_an_empty_value_of_a_line_is_as_if_its_key_were_not_there(
    column, empty, tmp_path
):
    found = benchmark([{"question": QUESTION, column: empty}], tmp_path)
    assert found.tasks == benchmark([{"question": QUESTION}], tmp_path).tasks


@pytest.mark.parametrize("empty", ["None", "N/A", "NA"])
def test_what_may_be_an_answer_is_no_name_of_a_conversation(empty, tmp_path):
    rows = [{"question": q, "conversation": empty} for q in (QUESTION, SECOND)]
    found = benchmark([*rows, {"question": "Who?", "answer": empty}], tmp_path)
    assert [task.history for task in found.tasks] == [(), (), ()]
    assert [gold.targets for gold in found.gold.values()] == [(), (), (empty,)]


def test_an_answer_may_stand_on_two_pages_of_a_file(tmp_path):
    pages = [{"file": "fees.pdf", "page": page} for page in (2, 3)]
    found = benchmark([{"question": QUESTION, "passages": pages}], tmp_path)
    [gold] = found.gold.values()
    assert [p.id for p in gold.passages] == ["fees.pdf#page=2", "fees.pdf#page=3"]
    with pytest.raises(DataError, match="repeats"):
        benchmark([{"question": QUESTION, "passages": pages[:1] * 2}], tmp_path)


def test_a_line_without_a_question_says_what_it_has(tmp_path):
    with pytest.raises(DataError, match="has no question, but Question, Answer"):
        benchmark([{"Question": QUESTION, "Answer": ANSWER}], tmp_path)
    [task] = benchmark(
        rows_of([{"question": QUESTION}, {"answer": NAN}]), tmp_path
    ).tasks
    assert task.question == QUESTION


VALUES = {  # column -> value of a table, what is read
    "answer a number": ("answer", 12, ("12",)),
    "answer of NumPy": ("answer", np.int64(12), ("12",)),
    "answer with a point": ("answer", 12.0, ("12",)),
    "answer a fraction": ("answer", np.float32(0.5), ("0.5",)),
    "answers with an empty one": ("answer", ["12", None, "twelve"], ("12", "twelve")),
    "answers as an array": ("answer", np.array(["12", "twelve"]), ("12", "twelve")),
    "answers as a tuple of numbers": ("answer", (12, 13), ("12", "13")),
    "answer true": ("answer", np.bool_(True), ("yes",)),
    "answer in bytes": ("answer", b"twelve", ("twelve",)),
    "answer an id": ("answer", UUID(int=0), (str(UUID(int=0)),)),
}


@pytest.mark.parametrize("column, value, answers", VALUES.values(), ids=VALUES)
def test_values_of_tables_are_answers(column, value, answers, tmp_path):
    found = benchmark(rows_of([{"question": QUESTION, column: value}]), tmp_path)
    assert next(iter(found.gold.values())).targets == answers


@pytest.mark.parametrize("turn", [1.0, np.float64(1), "1", "1.0", np.int32(1), 1])
def test_a_turn_is_a_number_whatever_writes_it(turn, tmp_path):
    found = benchmark(rows_of([{"question": QUESTION, "turn": turn}]), tmp_path)
    assert found.tasks[0].turn == 1


@pytest.mark.parametrize("value", [7, 7.0, np.int64(7), np.float64(7), "7"])
def test_numbers_name_conversations_and_ids(value, tmp_path):
    rows = [
        {"question": QUESTION, "answer": ANSWER, "conversation": value},
        {"question": SECOND, "conversation": value, "id": value},
    ]
    first, second = benchmark(rows_of(rows), tmp_path).tasks
    assert (first.conversation_id, first.id, second.id) == ("7", "7<::>1", "7")
    assert [turn.text for turn in second.history] == [QUESTION, ANSWER]


TABLE = pd.DataFrame(
    {
        "question": [QUESTION, SECOND, "Who?"],
        "answer": [12, None, 3],
        "passages": [
            np.array([TEXT], dtype=object),
            None,
            [{"file": "a", "page": NAN}],
        ],
        "turn": [1, 2, NAN],
        "conversation": ["c1", "c1", pd.NA],
    }
)
TABLES = {
    "data frame": TABLE,
    "records": TABLE.to_dict("records"),
    "columns as lists": TABLE.to_dict("list"),
    "columns as objects": TABLE.to_dict(),
    "generator": (row for row in TABLE.to_dict("records")),
    "better dtypes": TABLE.convert_dtypes(),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_is_read_from_whatever_holds_it(table, tmp_path):
    found = benchmark(rows_of(table), tmp_path)
    first, second, third = found.tasks
    assert [t.conversation_id for t in found.tasks] == ["c1", "c1", "question 3"]
    assert found.gold[first.id].targets == ("12",)
    assert found.gold[second.id].targets == ()
    assert [p.text for p in found.gold[first.id].passages] == [TEXT]
    assert found.gold[third.id].passages[0].id == "a"


def test_csv_is_read_as_the_table_that_it_is(tmp_path):
    path = tmp_path / "questions.csv"
    TABLE.drop(columns="passages").to_csv(path, index=False)
    found = read_benchmark(path)
    conversations = [t.conversation_id for t in found.tasks]
    assert conversations == ["c1", "c1", "question 4"]  # by the line of the file
    assert found.gold[found.tasks[0].id].targets == ("12.0",)
    text = f'\ufeffquestion,answer,history\r\n{SECOND},"[""4"", ""four""]","[""{QUESTION}"", ""{ANSWER}""]"\r\n'
    path.write_text(text, encoding="utf-8", newline="")
    (task,) = read_benchmark(path).tasks
    assert [turn.text for turn in task.history] == [QUESTION, ANSWER]
    assert read_benchmark(path).gold[task.id].targets == ("4", "four")
    path.with_suffix(".tsv").write_text(f"question\tanswer\n{QUESTION}\t12\n")
    assert read_benchmark(path.with_suffix(".tsv")).tasks[0].question == QUESTION


WRONG = {
    "no question": ({"question": None, "answer": "12"}, "question is missing"),
    "an object as answer": ({"question": "a", "answer": {"a": 1}}, "answer"),
    "a turn in words": ({"question": "a", "turn": "two"}, "turn is 'two'"),
    "half a turn": ({"question": "a", "turn": 1.5}, "turn is '1.5'"),
    "a role": (
        {"question": "a", "history": [{"role": "critic", "content": "b"}]},
        "the role 'critic'",
    ),
    "perhaps": ({"question": "a", "answerable": "perhaps"}, "answerable"),
    "a key": ({"question": "a", "answers": ["b"]}, "'answers'"),
}


@pytest.mark.parametrize("row, words", WRONG.values(), ids=WRONG)
def test_what_cannot_be_read_is_named_with_row_and_column(row, words, tmp_path):
    with pytest.raises(DataError) as error:
        benchmark([{"question": QUESTION}, row], tmp_path)
    assert words in str(error.value)
    assert "questions.jsonl:2" in str(error.value)


def test_a_row_that_is_no_row_is_named():
    with pytest.raises(DataError, match="question 2 is text"):
        rows_of([{"question": QUESTION}, SECOND])
    with pytest.raises(DataError, match="question 1: the column 'answer'"):
        rows_of([{"question": QUESTION, "answer": print}])
    holds_itself: list = []
    holds_itself.append(holds_itself)
    with pytest.raises(DataError, match="nested too deeply"):
        rows_of([{"question": QUESTION, "answer": holds_itself}])


def test_evaluate_reads_a_table(tmp_path):
    from mtrag_nb import evaluate

    table = pd.DataFrame(
        {
            "question": [QUESTION, SECOND],
            "answer": ["12 crowns", NAN],
            "history": [None, [SystemMessage("Be brief."), HumanMessage(QUESTION)]],
        }
    )
    done = evaluate(
        lambda messages: ANSWER, table, out=tmp_path / "run", progress=False
    )
    assert len(done.run.trajectories) == 2
    assert "left out of the histories: 1 system messages" in repr(done)


# Histories

TALK = [Turn("user", QUESTION), Turn("agent", ANSWER)]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
HISTORIES = {  # name -> history, what is left out
    "texts": ([QUESTION, ANSWER], {}),
    "roles": (
        [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": ANSWER},
        ],
        {},
    ),
    "system message": (
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": ANSWER},
        ],
        {"system messages": 1},
    ),
    "developer and tool": (
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
            {"role": "tool", "tool_call_id": "c", "content": TEXT},
            {"role": "assistant", "content": ANSWER},
        ],
        {"system messages": 1, "tool messages": 2},
    ),
    "function": (
        [
            {"role": "user", "content": QUESTION},
            {"role": "function", "name": "search", "content": TEXT},
            {"role": "assistant", "content": ANSWER},
        ],
        {"tool messages": 1},
    ),
    "parts": (
        [
            {"role": "user", "content": [{"type": "text", "text": QUESTION}, IMAGE]},
            {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
        ],
        {"images": 1},
    ),
    "an image alone": (
        [
            {"role": "user", "content": [IMAGE]},
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": ANSWER},
        ],
        {"images": 1},
    ),
    "human and ai": (
        [{"role": "human", "content": QUESTION}, {"type": "ai", "content": ANSWER}],
        {},
    ),
    "LangChain": (
        [
            SystemMessage("Be brief."),
            HumanMessage(QUESTION),
            ToolMessage(TEXT, tool_call_id="c"),
            AIMessage(ANSWER),
        ],
        {"system messages": 1, "tool messages": 1},
    ),
    "LangChain's parts": (
        [HumanMessage([{"type": "text", "text": QUESTION}, IMAGE]), AIMessage(ANSWER)],
        {"images": 1},
    ),
    "LangChain serialised": (
        [
            {
                "lc": 1,
                "type": "constructor",
                "id": ["langchain", "schema", "messages", name],
                "kwargs": {"content": text},
            }
            for name, text in (("HumanMessage", QUESTION), ("AIMessage", ANSWER))
        ],
        {},
    ),
    "LangChain's pairs": ([("human", QUESTION), ("ai", ANSWER)], {}),
    "LlamaIndex": (
        [
            ChatMessage(role="user", content=QUESTION),
            ChatMessage(role="assistant", content=ANSWER),
        ],
        {},
    ),
    "ShareGPT": (
        [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": ANSWER}],
        {},
    ),
    "Gemini": (
        [
            {"role": "user", "parts": [{"text": QUESTION}]},
            {"role": "model", "parts": [{"text": ANSWER}]},
        ],
        {},
    ),
    "Anthropic": (
        [
            {"role": "user", "content": QUESTION},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "12?"},
                    {"type": "text", "text": ANSWER},
                    {"type": "tool_use", "id": "t", "name": "s", "input": {}},
                ],
            },
        ],
        {"thoughts": 1, "tool messages": 1},
    ),
    "OpenAI's responses": (
        [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": QUESTION}],
            },
            {"type": "function_call", "name": "s", "arguments": "{}", "call_id": "c"},
            {"type": "function_call_output", "call_id": "c", "output": TEXT},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": ANSWER}],
            },
        ],
        {"tool messages": 2},
    ),
    "Gradio's pairs": ([[QUESTION, ANSWER]], {}),
    "question and answer": ([{"question": QUESTION, "answer": ANSWER}], {}),
    "ChatML": (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
        f"{QUESTION}<|im_end|>\n<|im_start|>assistant\n{ANSWER}<|im_end|>",
        {"system messages": 1},
    ),
    "ChatML, a text a message": (
        [
            f"<|im_start|>user\n{QUESTION}<|im_end|>",
            f"<|im_start|>assistant\n{ANSWER}<|im_end|>",
        ],
        {},
    ),
    "names before colons": (f"User: {QUESTION}\nAssistant: {ANSWER}", {}),
    "names before colons, a text a message": (
        [f"User: {QUESTION}", f"AI: {ANSWER}"],
        {},
    ),
    "JSON": (
        json.dumps(
            [
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": ANSWER},
            ]
        ),
        {},
    ),
    "under messages": (
        {"messages": [["user", QUESTION], ["assistant", ANSWER]]},
        {},
    ),
    "capital letters": (
        [
            {"role": "User", "content": QUESTION},
            {"role": "ASSISTANT", "content": ANSWER},
        ],
        {},
    ),
    "speakers": (
        [{"speaker": "user", "text": QUESTION}, {"speaker": "agent", "text": ANSWER}],
        {},
    ),
    "a refusal": (
        [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": ANSWER}]},
        ],
        {},
    ),
    "an image by its address": (
        [
            ChatMessage(
                role="user",
                blocks=[TextBlock(text=QUESTION), ImageBlock(url="http://x/y.png")],
            ),
            ChatMessage(ANSWER, role="assistant"),
        ],
        {"images": 1},
    ),
}


@pytest.mark.parametrize("history, left_out", HISTORIES.values(), ids=HISTORIES)
def test_the_turns_before_a_question_are_read(history, left_out, tmp_path):
    read = read_history(plain_value(history))
    assert list(read.turns) == TALK
    assert read.left_out == left_out
    rows = rows_of([{"question": SECOND, "history": history}])
    found = benchmark(rows, tmp_path)
    assert list(found.tasks[0].history) == TALK
    assert found.left_out == left_out
    assert found.tasks[0].turn == 2


def test_an_openai_object_is_a_message():
    message = pytest.importorskip("openai.types.chat").ChatCompletionMessage
    said = message(role="assistant", content=ANSWER)
    history = [{"role": "user", "content": QUESTION}, said]
    assert list(read_history(plain_value(history)).turns) == TALK


@pytest.mark.parametrize(
    "texts, speakers",
    [
        (["Welcome!", QUESTION, ANSWER], ["agent", "user", "agent"]),
        (["Hi, how can I help?"], ["agent"]),
        ([QUESTION, ANSWER], ["user", "agent"]),
        ([QUESTION, ANSWER, SECOND, REPLY], ["user", "agent", "user", "agent"]),
        (
            ["Hi", QUESTION, ANSWER, SECOND, REPLY],
            "agent user agent user agent".split(),
        ),
        ([[None, "Welcome!"], [QUESTION, ANSWER]], ["agent", "user", "agent"]),
    ],
)
def test_texts_that_begin_with_a_greeting_keep_their_speakers(texts, speakers):
    assert [turn.speaker for turn in read_history(texts).turns] == speakers


@pytest.mark.parametrize(
    "history, words",
    [
        ([{"role": "critic", "content": "x"}], "history[0] has the role 'critic'"),
        (
            [{"role": "user", "content": "x"}, {"role": "narrator", "content": "y"}],
            "history[1] has the role 'narrator'",
        ),
        ([{"content": "x"}], "history[0] has no role"),
        ([1], "history[0] is a number"),
        ("How much?", "history is one text"),
        (12, "history is a number"),
    ],
)
def test_a_history_that_cannot_be_read_names_what_and_where(history, words):
    with pytest.raises(DataError) as error:
        read_history(history)
    assert words in str(error.value)


# Pages and files of passages

GOLD = Passage("fees.pdf#page=3", "")
LOADED = {  # who gives it -> the third page of fees.pdf
    "PyMuPDF": {
        "source": "docs/fees.pdf",
        "file_path": "docs/fees.pdf",
        "page": 2,
        "total_pages": 9,
    },
    "PDFPlumber": {"source": "fees.pdf", "page": 2, "total_pages": 9, "Producer": "x"},
    "PyPDFium2": {
        "producer": "p",
        "creationdate": "",
        "moddate": "2024",
        "source": "fees.pdf",
        "total_pages": 3,
        "page": 2,
    },
    "PyPDF with a label": {
        "source": "/tmp/fees.pdf",
        "page": 2,
        "page_label": "3",
        "total_pages": 9,
    },
    "PyPDF with a Roman first part": {
        "source": "fees.pdf",
        "page": 7,
        "page_label": "3",
    },
    "LlamaIndex's PyMuPDF": {
        "total_pages": 9,
        "file_path": "docs/fees.pdf",
        "source": "3",
    },
    "LlamaIndex's PDF": {
        "page_label": "3",
        "file_name": "fees.pdf",
        "file_path": "/a/fees.pdf",
    },
    "Haystack": {"file_path": "fees.pdf", "page_number": 3, "split_id": 0},
    "Unstructured": {
        "filename": "fees.pdf",
        "file_directory": "docs",
        "page_number": 3,
    },
    "LangChain.js": {
        "source": "docs/fees.pdf",
        "pdf": {"totalPages": 9},
        "loc": {"pageNumber": 3},
    },
    "Docling": {
        "dl_meta": {
            "origin": {"filename": "fees.pdf"},
            "doc_items": [{"prov": [{"page_no": 3}]}],
        }
    },
    "MinerU": {"file_name": "fees.pdf", "page_idx": 2},
    "Bedrock": {
        "x-amz-bedrock-kb-source-uri": "s3://b/fees.pdf",
        "x-amz-bedrock-kb-document-page-number": 2.0,
    },
    "words": {"source": "fees.pdf", "page": "p. 3"},
    "page of pages": {"source": "fees.pdf", "page": "Page 3 of 9"},
    "a float": {"source": "fees.pdf", "page": 3.0},
    "a list": {"file_name": "fees.pdf", "page_numbers": [3]},
    "two pages": {"file_name": "fees.pdf", "pages": [2, 3]},
    "a range": {"file_name": "fees.pdf", "page": "3-4"},
    "Windows": {"source": "C:\\docs\\fees.pdf", "page": 3},
    "an address": {"url": "https://x.invalid/docs/fees.pdf", "page": 3},
    "a file address": {"source": "file:///docs/fees.pdf", "page_number": "3"},
    "a source that is a number": {"source": 3, "file_name": "fees.pdf"},
    "a source in words": {"source": "page 3", "filename": "fees.pdf"},
}


def context(value: object) -> Context:
    from mtrag_nb.systems.foreign import as_passage

    return as_passage(value)


@pytest.mark.parametrize("metadata", LOADED.values(), ids=LOADED)
def test_a_page_of_a_loader_is_the_gold_page(metadata):
    forms = (
        {"text": TEXT, "metadata": metadata},
        {"content": TEXT, "meta": metadata},
        {"text": TEXT, **metadata},
        Document(TEXT, metadata=metadata),
        NodeWithScore(node=TextNode(text=TEXT, metadata=metadata), score=0.5),
        (Document(TEXT, metadata=metadata), 0.5),
    )
    for form in forms:
        found = context(form)
        assert is_gold(GOLD, found, own_ids=True), found
        assert is_gold(Passage("fees.pdf", ""), found, own_ids=True)
        assert not is_gold(Passage("fees.pdf#page=7", ""), found, own_ids=True)
        assert not is_gold(Passage("prices.pdf#page=3", ""), found, own_ids=True)


def test_a_page_zero_is_the_first():
    assert fields_of({"source": "fees.pdf", "page": 0}).place == "fees.pdf#page=1"
    assert fields_of({"source": "fees.pdf", "page": 3}).place == "fees.pdf#page=3"
    assert fields_of({"source": "fees.pdf"}).place == "fees.pdf"
    assert fields_of({"source": "2023"}).place == "2023"
    assert page_numbers(True) == page_numbers("none") == page_numbers(2.5) == []


def test_a_label_that_is_no_number_stays():
    fields = fields_of({"source": "fees.pdf", "page": 2, "page_label": "iii"})
    assert fields.place in ("fees.pdf#page=iii", "fees.pdf#page=3")


def test_pages_of_documents_in_spans_are_gold_too(tmp_path):
    documents = [{"page_content": TEXT, "metadata": LOADED["PyMuPDF"]}]
    run = imported(
        [
            otlp("rag", "1", **IN_OUT),
            otlp(
                "retrieve",
                "2",
                "1",
                **{
                    "openinference.span.kind": "RETRIEVER",
                    "output.value": json.dumps(documents),
                },
            ),
        ],
        tmp_path,
    )
    (passage,) = run.passages.values()
    assert is_gold(GOLD, passage, own_ids=True)
    assert passage.document_id.startswith(BY_TEXT)


# Traces

IN_OUT = {"input.value": QUESTION, "output.value": ANSWER}


def otlp(name, id, parent="", begins=0, span_events=(), **attributes) -> dict:
    "A span of OTLP."

    def pairs(values):
        return [{"key": k, "value": typed(v)} for k, v in values.items()]

    def typed(value):
        kind = {int: "intValue", float: "doubleValue", bool: "boolValue"}
        return {kind.get(type(value), "stringValue"): value}

    start = (1_700_000_000 + begins + int(id)) * 10**9
    return {
        "traceId": attributes.pop("trace", "t"),
        "spanId": id,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10**9),
        "attributes": pairs(attributes),
        "events": [{"name": n, "attributes": pairs(a)} for n, a in span_events],
    }


def imported(value: object, folder: Path, name: str = "spans.json"):
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return import_traces(path, folder / "run")


def check_turn(run, searches: int = 1, drafts: int = 1) -> None:
    "Whether a run is the one turn, with what it found."
    (turn,) = run.trajectories.values()
    assert (turn.question, turn.answer) == (QUESTION, ANSWER)
    retrieved = [step for step in turn.steps if type(step).__name__ == "Retrieved"]
    assert len(retrieved) == searches
    if searches:
        assert TEXT in [passage.text for passage in run.passages.values()]
    drafted = [step for step in turn.steps if type(step).__name__ == "Drafted"]
    assert len(drafted) == drafts


DOCUMENTS = [
    {"page_content": TEXT, "metadata": {"source": "fees.txt"}, "type": "Document"}
]


def langsmith(
    id: str, kind: str, name: str, inputs: dict, outputs: dict, parts=()
) -> dict:
    "A run of LangSmith that holds its parts."
    time = f"2026-01-01T00:00:{int(id):02d}"
    run = {"id": id, "run_type": kind, "name": name, "start_time": time}
    run |= {"end_time": time, "inputs": inputs, "outputs": outputs, "extra": {}}
    return run | {"child_runs": list(parts)}


RETRIEVER = langsmith(
    "3",
    "retriever",
    "VectorStoreRetriever",
    {"query": QUESTION},
    {"documents": DOCUMENTS},
)
MODEL = langsmith(
    "4",
    "llm",
    "ChatOpenAI",
    {"messages": [[{"role": "user", "content": QUESTION}]]},
    {"generations": [[{"text": ANSWER}]]},
)
CHAIN = langsmith(
    "2",
    "chain",
    "RunnableSequence",
    {"question": QUESTION},
    {"answer": ANSWER},
    [RETRIEVER, MODEL],
)


def langfuse_trace(nested: bool) -> dict | list:
    "A trace of Langfuse with its observations in it, or beside each other."
    about = {"traceId": "t", "level": "DEFAULT", "statusMessage": None}
    times = {
        "startTime": "2026-01-01T00:00:01.000Z",
        "endTime": "2026-01-01T00:00:02.000Z",
    }
    observations = [
        {
            "id": "o1",
            "type": "SPAN",
            "name": "rag",
            "parentObservationId": None,
            "input": {"question": QUESTION},
            "output": ANSWER,
            **about,
            **times,
        },
        {
            "id": "o2",
            "type": "RETRIEVER",
            "name": "search",
            "parentObservationId": "o1",
            "input": QUESTION,
            "output": DOCUMENTS,
            **about,
            **times,
        },
        {
            "id": "o3",
            "type": "GENERATION",
            "name": "gpt",
            "parentObservationId": "o1",
            "input": [{"role": "user", "content": f"{TEXT} {QUESTION}"}],
            "output": {"role": "assistant", "content": ANSWER},
            **about,
            **times,
        },
    ]
    if not nested:
        return observations
    return {
        "id": "t",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "name": "rag",
        "input": QUESTION,
        "output": ANSWER,
        "sessionId": "s1",
        "observations": observations,
    }


def mlflow_trace() -> dict:
    "A trace of MLflow 3."

    def span(id, parent, name, kind, inputs, outputs):
        return {
            "trace_id": "dHJhY2U=",
            "span_id": id,
            "parent_span_id": parent,
            "name": name,
            "start_time_unix_nano": 1_700_000_000_000_000_000 + ord(id),
            "end_time_unix_nano": 1_700_000_001_000_000_000 + ord(id),
            "events": [],
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": {
                "mlflow.spanType": json.dumps(kind),
                "mlflow.spanInputs": json.dumps(inputs),
                "mlflow.spanOutputs": json.dumps(outputs),
            },
        }

    spans = [
        span("a", None, "rag", "CHAIN", {"question": QUESTION}, ANSWER),
        span("b", "a", "find", "RETRIEVER", {"query": QUESTION}, DOCUMENTS),
        span(
            "c",
            "a",
            "llm",
            "CHAT_MODEL",
            {"messages": [{"role": "user", "content": f"{TEXT}\n{QUESTION}"}]},
            {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]},
        ),
    ]
    return {"info": {"trace_id": "tr-1"}, "data": {"spans": spans}}


NESTED = {
    "one level": langsmith(
        "1",
        "chain",
        "rag",
        {"question": QUESTION},
        {"answer": ANSWER},
        [RETRIEVER, MODEL],
    ),
    "two levels": langsmith(
        "1", "chain", "rag", {"question": QUESTION}, {"answer": ANSWER}, [CHAIN]
    ),
    "a list of runs": [
        langsmith(
            "1", "chain", "rag", {"question": QUESTION}, {"answer": ANSWER}, [CHAIN]
        )
    ],
    "under runs": {
        "runs": [
            langsmith(
                "1", "chain", "rag", {"question": QUESTION}, {"answer": ANSWER}, [CHAIN]
            )
        ]
    },
    "Langfuse": langfuse_trace(nested=True),
    "Langfuse's list": {"data": [langfuse_trace(nested=True)], "meta": {"page": 1}},
    "Langfuse's observations": langfuse_trace(nested=False),
    "MLflow": mlflow_trace(),
    "MLflow's list": [mlflow_trace()],
    "MLflow's list under traces": {"traces": [mlflow_trace()]},
}


@pytest.mark.parametrize("value", NESTED.values(), ids=NESTED)
def test_what_is_nested_in_a_run_is_read(value, tmp_path):
    check_turn(imported(value, tmp_path))


USER = json.dumps([{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}])
SAID = json.dumps(
    [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": ANSWER}],
            "finish_reason": "stop",
        }
    ]
)
CHAT = {"gen_ai.operation.name": "chat"}
SYSTEM = ("gen_ai.system.message", {"content": "Be brief.", "role": "system"})
ALL_MESSAGES = json.dumps(
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]},
    ]
)
EVENTS = {  # who writes it -> the spans of a turn without a search
    "details": [
        otlp(
            "chat m",
            "1",
            span_events=[
                (
                    "gen_ai.client.inference.operation.details",
                    {"gen_ai.input.messages": USER, "gen_ai.output.messages": SAID},
                )
            ],
            **CHAT,
        )
    ],
    "attributes": [
        otlp(
            "chat m",
            "1",
            **CHAT,
            **{"gen_ai.input.messages": USER, "gen_ai.output.messages": SAID},
        )
    ],
    "an event a message": [
        otlp(
            "chat m",
            "1",
            span_events=[
                SYSTEM,
                ("gen_ai.user.message", {"content": QUESTION}),
                (
                    "gen_ai.choice",
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": json.dumps({"content": ANSWER, "role": "assistant"}),
                    },
                ),
            ],
            **CHAT,
        )
    ],
    "Strands": [
        otlp(
            "invoke_agent A",
            "1",
            span_events=[
                ("gen_ai.user.message", {"content": json.dumps([{"text": QUESTION}])}),
                ("gen_ai.choice", {"message": ANSWER, "finish_reason": "end_turn"}),
            ],
            **{"gen_ai.operation.name": "invoke_agent"},
        ),
        otlp(
            "chat",
            "2",
            "1",
            span_events=[
                ("gen_ai.user.message", {"content": json.dumps([{"text": QUESTION}])}),
                ("gen_ai.choice", {"message": json.dumps([{"text": ANSWER}])}),
            ],
            **CHAT,
        ),
    ],
    "bodies": [
        otlp(
            "chat m",
            "1",
            span_events=[
                (
                    "gen_ai.user.message",
                    {
                        "gen_ai.event.content": json.dumps(
                            {"role": "user", "content": QUESTION}
                        )
                    },
                ),
                (
                    "gen_ai.choice",
                    {
                        "gen_ai.event.content": json.dumps(
                            {"message": {"content": ANSWER}}
                        )
                    },
                ),
            ],
            **CHAT,
        )
    ],
    "content events": [
        otlp(
            "chat m",
            "1",
            span_events=[
                ("gen_ai.content.prompt", {"gen_ai.prompt": QUESTION}),
                ("gen_ai.content.completion", {"gen_ai.completion": ANSWER}),
            ],
            **CHAT,
        )
    ],
    "Pydantic AI, messages": [
        otlp(
            "invoke_agent a",
            "1",
            **{
                "gen_ai.operation.name": "invoke_agent",
                "pydantic_ai.all_messages": json.dumps(
                    [*json.loads(USER), *json.loads(SAID)]
                ),
                "final_result": ANSWER,
            },
        ),
        otlp(
            "chat m",
            "2",
            "1",
            **CHAT,
            **{"gen_ai.input.messages": USER, "gen_ai.output.messages": SAID},
        ),
    ],
    "Vercel": [
        otlp(
            "ai.generateText",
            "1",
            **{
                "ai.operationId": "ai.generateText",
                "ai.prompt": json.dumps({"system": "Be brief.", "prompt": QUESTION}),
                "ai.response.text": ANSWER,
            },
        ),
        otlp(
            "ai.generateText.doGenerate",
            "2",
            "1",
            **{
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.prompt.messages": json.dumps(
                    [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
                ),
                "ai.response.text": ANSWER,
            },
        ),
    ],
    "Vercel, messages": [
        otlp(
            "ai.streamText",
            "1",
            **{
                "ai.operationId": "ai.streamText",
                "ai.prompt": json.dumps(
                    {"messages": [{"role": "user", "content": QUESTION}]}
                ),
                "ai.response.text": ANSWER,
            },
        ),
        otlp(
            "ai.streamText.doStream",
            "2",
            "1",
            **{
                "ai.operationId": "ai.streamText.doStream",
                "ai.prompt.messages": json.dumps(
                    [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
                ),
                "ai.response.text": ANSWER,
            },
        ),
    ],
    **{
        name: [otlp("agent run", "1", **{name: ALL_MESSAGES, "final_result": ANSWER})]
        for name in ("pydantic_ai.all_messages", "all_messages_events")
    },
    "Haystack's pipeline": [
        otlp(
            "haystack.pipeline.run",
            "1",
            **{
                "haystack.pipeline.input_data": json.dumps(
                    {"retriever": {"query": QUESTION}, "prompt": {"question": QUESTION}}
                ),
                "haystack.pipeline.output_data": json.dumps(
                    {"llm": {"replies": [ANSWER]}, "retriever": {"documents": []}}
                ),
            },
        ),
    ],
}


@pytest.mark.parametrize("spans", EVENTS.values(), ids=EVENTS)
def test_messages_are_read_wherever_they_stand(spans, tmp_path):
    value = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    check_turn(imported(value, tmp_path), searches=0)


PROMPT = f"Context: {TEXT}\nQuestion: {QUESTION}"
MODEL_CALL = {
    "llm.request.type": "chat",
    "gen_ai.prompt.0.role": "user",
    "gen_ai.prompt.0.content": PROMPT,
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": ANSWER,
}


def traceloop(
    root_input: object, found: object, answered: object = ANSWER
) -> list[dict]:
    "A turn as OpenLLMetry has it."
    return [
        otlp(
            "rag.workflow",
            "1",
            **{
                "traceloop.span.kind": "workflow",
                "traceloop.entity.name": "rag",
                "traceloop.entity.input": json.dumps(root_input),
                "traceloop.entity.output": json.dumps(answered),
            },
        ),
        otlp(
            "retrieve.task",
            "2",
            "1",
            **{
                "traceloop.span.kind": "task",
                "traceloop.entity.name": "retrieve",
                "traceloop.entity.input": json.dumps(
                    {"args": [QUESTION], "kwargs": {}}
                ),
                "traceloop.entity.output": json.dumps(found),
            },
        ),
        otlp("openai.chat", "3", "1", **MODEL_CALL),
    ]


def haystack() -> list[dict]:
    "A turn of a pipeline of Haystack."

    def component(id, name, kind, inputs, outputs):
        return otlp(
            "haystack.component.run",
            id,
            "1",
            **{
                "haystack.component.name": name,
                "haystack.component.type": kind,
                "haystack.component.input": json.dumps(inputs),
                "haystack.component.output": json.dumps(outputs),
            },
        )

    return [
        otlp(
            "haystack.pipeline.run",
            "1",
            **{
                "haystack.pipeline.input_data": json.dumps(
                    {
                        "retriever": {"query": QUESTION},
                        "prompt_builder": {"question": QUESTION},
                    }
                ),
                "haystack.pipeline.output_data": json.dumps(
                    {"llm": {"replies": [ANSWER], "meta": [{}]}}
                ),
            },
        ),
        component(
            "2",
            "retriever",
            "InMemoryBM25Retriever",
            {"query": QUESTION, "top_k": 3},
            {
                "documents": [
                    {
                        "id": "d1",
                        "content": TEXT,
                        "meta": {"file_path": "fees.txt"},
                        "score": 1.5,
                    }
                ]
            },
        ),
        component(
            "3",
            "prompt_builder",
            "PromptBuilder",
            {"question": QUESTION},
            {"prompt": PROMPT},
        ),
        component(
            "4",
            "llm",
            "OpenAIGenerator",
            {"prompt": PROMPT},
            {"replies": [ANSWER], "meta": [{}]},
        ),
    ]


WITH_SEARCH = {
    "Traceloop": traceloop({"args": [], "kwargs": {"question": QUESTION}}, DOCUMENTS),
    "Traceloop, by place": traceloop({"args": [QUESTION], "kwargs": {}}, DOCUMENTS),
    "Traceloop, LangChain": traceloop(
        {
            "inputs": {"question": QUESTION},
            "tags": [],
            "metadata": {},
            "kwargs": {"name": "rag"},
        },
        {"documents": DOCUMENTS},
        {"outputs": {"answer": ANSWER}, "kwargs": {"tags": []}},
    ),
    "Traceloop, texts": traceloop({"args": [QUESTION], "kwargs": {}}, [TEXT]),
    "Haystack": haystack(),
    "Langfuse's attributes": [
        otlp(
            "rag",
            "1",
            **{
                "langfuse.observation.type": "span",
                "langfuse.observation.input": json.dumps({"question": QUESTION}),
                "langfuse.observation.output": ANSWER,
            },
        ),
        otlp(
            "search",
            "2",
            "1",
            **{
                "langfuse.observation.type": "retriever",
                "langfuse.observation.input": QUESTION,
                "langfuse.observation.output": json.dumps(DOCUMENTS),
            },
        ),
        otlp(
            "gpt",
            "3",
            "1",
            **{
                "langfuse.observation.type": "generation",
                "langfuse.observation.input": json.dumps(
                    [{"role": "user", "content": PROMPT}]
                ),
                "langfuse.observation.output": json.dumps(
                    {"role": "assistant", "content": ANSWER}
                ),
            },
        ),
    ],
    "Vercel with a tool": [
        otlp(
            "ai.generateText",
            "1",
            **{
                "ai.operationId": "ai.generateText",
                "ai.prompt": json.dumps({"prompt": QUESTION}),
                "ai.response.text": ANSWER,
            },
        ),
        otlp(
            "ai.toolCall",
            "2",
            "1",
            **{
                "ai.operationId": "ai.toolCall",
                "ai.toolCall.name": "searchDocs",
                "ai.toolCall.args": json.dumps({"query": QUESTION}),
                "ai.toolCall.result": json.dumps([{"id": "d1", "text": TEXT}]),
            },
        ),
        otlp(
            "ai.generateText.doGenerate",
            "3",
            "1",
            **{
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.prompt.messages": json.dumps([{"role": "user", "content": PROMPT}]),
                "ai.response.text": ANSWER,
            },
        ),
    ],
    "Strands with a tool": [
        otlp(
            "invoke_agent A",
            "1",
            span_events=[
                ("gen_ai.user.message", {"content": json.dumps([{"text": QUESTION}])}),
                ("gen_ai.choice", {"message": ANSWER}),
            ],
            **{"gen_ai.operation.name": "invoke_agent"},
        ),
        otlp(
            "execute_tool search",
            "2",
            "1",
            span_events=[
                (
                    "gen_ai.tool.message",
                    {"role": "tool", "content": json.dumps({"query": QUESTION})},
                ),
                (
                    "gen_ai.choice",
                    {
                        "message": json.dumps(
                            [{"text": json.dumps([{"id": "d1", "text": TEXT}])}]
                        )
                    },
                ),
            ],
            **{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"},
        ),
        otlp(
            "chat",
            "3",
            "1",
            span_events=[
                ("gen_ai.user.message", {"content": json.dumps([{"text": PROMPT}])}),
                ("gen_ai.choice", {"message": json.dumps([{"text": ANSWER}])}),
            ],
            **CHAT,
        ),
    ],
    "LangWatch": [
        otlp(
            "rag",
            "1",
            **{
                "langwatch.span.type": "chain",
                "langwatch.input": json.dumps({"type": "text", "value": QUESTION}),
                "langwatch.output": json.dumps({"type": "text", "value": ANSWER}),
            },
        ),
        otlp(
            "find",
            "2",
            "1",
            **{
                "langwatch.span.type": "rag",
                "openinference.span.kind": "RETRIEVER",
                "langwatch.rag.contexts": json.dumps(
                    [{"document_id": "d1", "content": TEXT}]
                ),
            },
        ),
        otlp(
            "llm",
            "3",
            "1",
            **{
                "langwatch.span.type": "llm",
                "langwatch.output": json.dumps({"type": "text", "value": ANSWER}),
            },
        ),
    ],
    "a store's events": [
        otlp("rag", "1", **IN_OUT),
        otlp(
            "pinecone.query",
            "2",
            "1",
            span_events=[
                (
                    "db.query.result",
                    {
                        "db.query.result.id": "d1",
                        "db.query.result.score": 0.5,
                        "db.query.result.metadata": json.dumps({"text": TEXT}),
                    },
                )
            ],
        ),
        otlp("openai.chat", "3", "1", **MODEL_CALL),
    ],
}


@pytest.mark.parametrize("spans", WITH_SEARCH.values(), ids=WITH_SEARCH)
def test_names_of_other_libraries_are_read(spans, tmp_path):
    value = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    check_turn(imported(value, tmp_path))


SPANS = WITH_SEARCH["Langfuse's attributes"]


def in_protobuf(spans: list[dict]) -> bytes:
    "Spans of OTLP as a collector sends them."
    data = TracesData()
    messages = data.resource_spans.add().scope_spans.add().spans
    for span in spans:
        fields = {key: span[key] for key in ("name", "attributes", "events")}
        message = ParseDict(fields, messages.add())
        message.trace_id = b"t" * 16
        message.span_id = span["spanId"].encode()
        message.parent_span_id = span["parentSpanId"].encode()
        message.start_time_unix_nano = int(span["startTimeUnixNano"])
        message.end_time_unix_nano = int(span["endTimeUnixNano"])
    return data.SerializeToString()


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


BINARY = {
    "one message": in_protobuf(SPANS),
    "a message behind its length": framed(in_protobuf(SPANS)),
    "a message a span": b"".join(framed(in_protobuf([span])) for span in SPANS),
}


@pytest.mark.parametrize("data", BINARY.values(), ids=BINARY)
def test_otlp_in_protobuf_is_read(data, tmp_path):
    (tmp_path / "spans.binpb").write_bytes(data)
    assert not holds_predictions(tmp_path / "spans.binpb")
    check_turn(import_traces(tmp_path / "spans.binpb", tmp_path / "run"))


@pytest.mark.parametrize("cut", [1, 9, 200])
def test_torn_protobuf_is_an_error(cut, tmp_path):
    (tmp_path / "spans.binpb").write_bytes(BINARY["one message"][:-cut])
    with pytest.raises(DataError, match="spans.binpb"):
        import_traces(tmp_path / "spans.binpb", tmp_path / "run")


def test_half_a_character_does_not_lose_a_span(tmp_path):
    spans = json.loads(json.dumps(SPANS).replace("crowns.", "crowns \\ud83d."))
    run = imported({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}, tmp_path)
    (turn,) = run.trajectories.values()
    assert turn.answer == ANSWER.replace("crowns.", "crowns ?.")


SESSIONS = {
    "OpenInference": "session.id",
    "Langfuse": "langfuse.session.id",
    "Traceloop's session": "traceloop.association.properties.session_id",
    "Traceloop's thread": "traceloop.association.properties.thread_id",
    "Traceloop's chat": "traceloop.association.properties.chat_id",
    "MLflow": "mlflow.trace.session",
    "GenAI": "gen_ai.conversation.id",
    "Vercel": "ai.telemetry.metadata.sessionId",
    "LangSmith": "langsmith.trace.session_id",
    "metadata": "metadata.session_id",
}


def check_conversation(run) -> None:
    first, second = sorted(run.trajectories.values(), key=lambda t: t.turn)
    assert [first.question, second.question] == [QUESTION, SECOND]
    assert first.conversation_id == second.conversation_id == "s1"
    history = run.tasks[second.task_id].history
    assert [turn.text for turn in history] == [QUESTION, ANSWER]


@pytest.mark.parametrize("key", SESSIONS.values(), ids=SESSIONS)
@pytest.mark.parametrize("inner", [False, True])
def test_turns_of_a_session_are_a_conversation(key, inner, tmp_path):
    spans = []
    for n, (question, answer) in enumerate([(QUESTION, ANSWER), (SECOND, REPLY)]):
        session = {key: "s1"}
        about = {"input.value": question, "output.value": answer, "trace": f"t{n}"}
        spans.append(
            otlp("rag", "1", begins=9 * n, **about, **({} if inner else session))
        )
        spans.append(
            otlp("chat", "2", "1", begins=9 * n, trace=f"t{n}", **CHAT, **session)
        )
    check_conversation(imported(spans, tmp_path))


def test_sessions_that_a_trace_says_for_its_spans_are_conversations(tmp_path):
    first, second = langfuse_trace(nested=True), langfuse_trace(nested=True)
    text = json.dumps(second).replace(QUESTION, SECOND).replace(ANSWER, REPLY)
    text = text.replace('"t"', '"u"').replace("2026-01-01", "2026-01-02")
    check_conversation(imported([first, json.loads(text)], tmp_path))


EMPTY_FILES = {
    "spans without content": [otlp("chat m", "1", **CHAT)],
    "no spans": {"resourceSpans": []},
    "another object": {"hello": 1},
    "an empty list": [],
    "an empty trace of Langfuse": {"data": []},
}


@pytest.mark.parametrize("value", EMPTY_FILES.values(), ids=EMPTY_FILES)
def test_a_file_without_a_turn_is_named_as_it_was_given(value, tmp_path):
    with pytest.raises(DataError) as error:
        imported(value, tmp_path, "my spans.json")
    assert str(tmp_path / "my spans.json") in str(error.value)
    assert ".part" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_parts_that_are_no_spans_are_counted(tmp_path):
    run = langsmith(
        "1",
        "chain",
        "rag",
        {"question": QUESTION},
        {"answer": ANSWER},
        [RETRIEVER, MODEL, {"note": "x"}, "y"],
    )
    odd = imported(run, tmp_path).manifest["imported"]["odd"]
    assert odd["an object that is no span"] == 1
    assert odd["not an object"] == 1


def test_questions_in_csv_are_run_and_kept_beside_the_run(
    tmp_path, monkeypatch, capsys
):
    from mtrag_nb.app.cli import main

    monkeypatch.chdir(tmp_path)
    Path("my_system.py").write_text(
        f"def answer(messages): return {ANSWER!r}, [{TEXT!r}]"
    )
    history = json.dumps([{"role": "system", "content": "Be brief."}])
    table = pd.DataFrame(
        {"question": [QUESTION], "answer": ["12 crowns"], "history": [history]}
    )
    table.to_csv("q.csv")  # with a column of numbers that has no name
    args = [
        "run",
        "--system",
        "my_system.py:answer",
        "--tasks",
        "q.csv",
        "--out",
        "out",
    ]
    assert main(args) == 0
    assert "left out of the histories: 1 system messages" in capsys.readouterr().err
    assert main(["blame", "out"]) == 0
    assert "1 turns judged: 1 right" in capsys.readouterr().out


# Line ends


def to_crlf(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))


CHANGED = {  # files of a library -> whether git has changed the ends of their lines
    "all texts": ("*.json",),
    "the documents": ("documents.json",),
    "the manifest": ("manifest.json",),
    "the entries": ("entries.json",),
    "texts of the engine": ("manifest.json", "config.json"),
}


@pytest.fixture
def library(tmp_path) -> Path:
    from mtrag_nb.models.embed import HashEmbedder
    from mtrag_nb.serve.library import Library

    (tmp_path / "fees.md").write_text(f"# Fees\n\n{TEXT}\n")
    Library(tmp_path / "library").add(tmp_path / "fees.md", "own", HashEmbedder())
    return tmp_path / "library"


@pytest.mark.parametrize("patterns", CHANGED.values(), ids=CHANGED)
def test_line_ends_that_git_changed_are_named(patterns, library):
    from mtrag_nb.search.generations import check_sums

    check_sums(library)
    paths = [path for pattern in patterns for path in library.rglob(pattern)]
    changed = [path for path in paths if path.name != "checksums.json"]
    for path in changed:
        to_crlf(path)
    assert any(b"\r\n" in path.read_bytes() for path in changed)
    with pytest.raises(DataError) as error:
        check_sums(library)
    assert "line ends" in str(error.value) and "-text" in str(error.value)
    for path in changed:
        path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))
    check_sums(library)


def test_other_damage_is_not_called_line_ends(library):
    from mtrag_nb.search.generations import check_sums

    (path,) = library.rglob("documents.json")
    path.write_bytes(path.read_bytes().replace(b"crowns", b"pounds") + b"\r\n")
    with pytest.raises(DataError, match="it is not what was written"):
        check_sums(library)
