"What `5_systems` reads, checks and cuts: cases by the dozen, and adapters whose replies are written down."

import time
from dataclasses import replace

from mtrag_nb.core.record import read_step, _step_line
from mtrag_nb.core.text import Label, sentences, spans_of
from mtrag_nb.core.types import Context, Passage, SettingsError, Turn, as_context, expect
from mtrag_nb.core.types import structured
from mtrag_nb.models.chat import Contract, Sampling, ScriptedChat
from mtrag_nb.systems.agents import LAPTOP, AgentsSettings, _cut_to, _estimate, _fit
from mtrag_nb.systems.baselines import _claims_in, adapter_claims, by_words, copied_claims
from mtrag_nb.systems.baselines import read_marks, written_claims
from mtrag_nb.systems.stages import PROMPTS, Asked, Cited, Toolbox, _check_by_adapter
from mtrag_nb.systems.nexus import _read_label
from mtrag_nb.systems.stages import _grade_by_adapter, _read_grade
from mtrag_nb.systems.stages import _rewrite_by_adapter, clean_answer
from mtrag_nb.systems.stages import grade_by_verdict, show_history

TALK = (
    Turn("user", "Who runs the ferry to Oland Island?"),
    Turn("agent", "The Harbour Council runs it."),
    Turn("user", "And the bus?"),
    Turn("agent", "It has a driver."),
)
DOCS = [
    "The ferry to Oland Island leaves at 7:40 and costs 12 crowns.",
    "The museum shows glass from three centuries.",
    "Pay on board: ferry tickets are 12 crowns, children 6.",
]
QUESTION = "How much is the ferry to Oland Island?"
FERRY = as_context(
    Passage(
        "p1",
        "The ferry to Oland Island costs 12 crowns. Children pay 6 crowns on board.",
        "Ferries › Fares",
        "ferries.pdf#page=3",
        "ferries.pdf",
    )
)
BEES = as_context(Passage("p2", "Bees sleep at night. They collect pollen by day.", "Bees"))


def test_a_grade_is_read_where_a_reply_leaves_no_doubt():
    read = {
        "8": 8,
        " 8.": 8,
        "Grade: 7": 7,
        "**10**": 10,
        "7.5/10": 7.5,
        "9 out of 10": 9,
        '{"score": 6}': 6,
        "The relevance score is 3.": 3,
        "0": 0,
        "8. The document names the fee.": 8,
        "<think>maybe 3</think>5": 5,
        "7 (out of 10)": 7,
        "8. At least the fee is there.": 8,
    }
    unread = [
        "",
        "It helps.",
        "11",
        "-3",
        "4/5",
        "5 to 7",
        "7 or 8",
        "between 6 and 8",
        "8 of 12",
        "7%",
        "Grade 7 of 9",
        "80/100",
        "1,000",
        "Document 3 helps",
        ">7",
        "< 5",
        "at least 6",
        "8, at least",
        "7/10 or more",
        "Grade: more than 4",
    ]
    for text, grade in read.items():
        assert _read_grade(text) == grade, text
    for text in unread:
        assert _read_grade(text) is None, text


def test_a_label_is_read_where_it_stands_alone():
    read = {
        "Correct": "yes",
        " AMBIGUOUS.": "ambiguous",
        "Grade: Incorrect": "no",
        "**correct**": "yes",
        '{"grade": "AMBIGUOUS"}': "ambiguous",
        "The document is incorrect.": "no",
        "Correct. It names the fee.": "yes",
        "<think>Incorrect?</think>Correct": "yes",
        "Ambiguous - it names the ferry only": "ambiguous",
        "Incorrect because it is about bees": "no",
    }
    unread = [
        "",
        "It helps.",
        "Not correct",
        "Correct or incorrect",
        "correct me if I am wrong",
        "Correct? Ambiguous.",
        "Yes",
        "partially",
        "It is neither correct nor incorrect",
        "<think>Correct",
    ]
    for text, label in read.items():
        assert _read_label(text).value == label, text
    for text in unread:
        assert _read_label(text) is None, text


def test_generated_verdicts_keep_what_cannot_be_read():
    scripted = ScriptedChat(["Yes", "hm", "No, it is about glass."])
    asked = Asked(scripted, PROMPTS, QUESTION, show_history(TALK), DOCS)
    graded = grade_by_verdict(asked)
    assert [(v.label.value, v.defaulted) for v in graded] == [
        ("yes", False),
        ("yes", True),
        ("no", False),
    ]
    assert (
        "Conversation:\nuser: Who runs" in scripted.asked[0].messages[1][1]
        and DOCS[0] in scripted.asked[0].messages[1][1]
    )


def test_an_answer_is_cleaned_of_markers_labels_and_repetitions():
    assert (
        clean_answer(" Assistant: Answer: it is. So it goes. It is. So it goes.")
        == "it is. So it goes."
    )
    assert (
        clean_answer("<|im_start|>assistant: It is.<|im_end|>\nUser: And then?\nAgent: No.")
        == "It is."
    )
    assert (
        clean_answer("User: And then?") == ""
        and clean_answer("Agent: It is. It is.", tidy=False) == "It is. It is."
    )


def test_adapters_rewrite_grade_and_check():
    adapters = {task: Contract(task, marks=(("last_message", "i"),)) for task in ("q", "a", "h")}
    replies = [
        '{"rewritten_question": "What does the ferry cost?"}',
        '"unanswerable"',
        '[{"r": 0, "f": "faithful", "e": ""}, {"r": 1, "f": "unfaithful", "e": "No gulls."}]',
        "That is fine.",
    ]
    by = ScriptedChat(replies)
    messages = [
        ("user", "Is there a ferry?"),
        ("assistant", "Yes."),
        ("user", "What does it cost?"),
    ]
    assert _rewrite_by_adapter(by, adapters["q"], messages).text == "What does the ferry cost?"
    assert [v.label for v in _grade_by_adapter(by, adapters["a"], messages, DOCS)] == [
        Label.NO
    ] * len(DOCS)
    two = "It costs 12 crowns. Gulls are free."
    v, spans = _check_by_adapter(by, adapters["h"], [*messages, ("assistant", two)], DOCS)
    assert (v.score, v.passed) == (0.5, False) and [two[a:b] for a, b in spans] == [
        "Gulls are free."
    ]
    assert by.asked[-1].messages[-1][1] == "<i0> It costs 12 crowns. <i1> Gulls are free."
    v, spans = _check_by_adapter(by, adapters["h"], [*messages, ("assistant", two)], DOCS)
    assert (v.defaulted, v.passed, spans) == (True, False, ())


def test_citations_are_read_by_their_form():
    read = {
        "It costs 12 [1].": ("It costs 12.", [(11, 1)]),
        "It is. [1][3] Pay on board.": ("It is. Pay on board.", [(6, 1), (6, 3)]),
        "Both [1, 2].": ("Both.", [(4, 1), (4, 2)]),
        "All [1-3]": ("All", [(3, 1), (3, 2), (3, 3)]),
        "So (Source 2).": ("So.", [(2, 2)]),
        "[Source 1] It is.": ("It is.", [(0, 1)]),
        "It was [Document 4].": ("It was.", [(6, 4)]),
        "Since [1998] (2, 3) (2) [sic]": ("Since [1998] (2, 3) (2) [sic]", []),
        "": ("", []),
    }
    for text, expected in read.items():
        assert read_marks(text) == expected, (text, read_marks(text))

    for code in ("x[1] = 5", "array[10]", "Write f(x)[1] = 5 twice"):
        assert read_marks(code) == (code, []), code
    assert read_marks("It costs 12[1][3]. Pay.") == ("It costs 12. Pay.", [(11, 1), (11, 3)])


def test_hostile_citations_are_read_in_linear_time():
    def seconds_of(text):
        "Processor time of the best of three."

        def once():
            begun = time.process_time()
            read_marks(text)
            return time.process_time() - begun

        return min(once() for _ in range(3))

    for piece in (" ", "[", "[1", "[1] ", "(source ", "[1, "):
        some, more = seconds_of(piece * 4_000), seconds_of(piece * 32_000)
        assert more < 20 * some + 0.1, (
            f"{piece!r}: 8 times the size takes {more / some:.0f} times the time"
        )


def test_an_adapter_names_the_sentences_that_a_claim_rests_on():
    two_pages = [Context("a", "a", DOCS[0]), Context("b", "b", "Gulls are loud. The bus is free.")]
    its_reply = '[{"r": 0, "c": [0]}, {"r": 1, "c": [LAST, 99]}]'.replace(
        "LAST", str(len(sentences(DOCS[0])) + 1)
    )
    asker = Toolbox(None, ScriptedChat([its_reply.replace(", 99", ""), its_reply]), None, None)
    asker = replace(
        asker, adapters={"cite": Contract("c", marks=(("last_message", "r"), ("documents", "c")))}
    )
    its_text = "It costs 12 crowns. The bus is free."
    its_claims = adapter_claims(asker, "What is free?", its_text, two_pages, by_words(0.5))
    assert [[c.n for c in claim.citations] for claim in its_claims] == [[1], [2]] and its_claims[
        1
    ].supported
    assert adapter_claims(asker, "What is free?", its_text, two_pages, by_words()) is None
    assert "<c1>" in asker.chat.asked[0].documents[1] or len(sentences(DOCS[0])) > 1


def test_quotes_are_claims_at_their_places():
    (quote,) = copied_claims("Children pay 6 crowns on board.", [("p1", 43, 74)], [FERRY, BEES])
    assert quote.supported and quote.citations[0].n == 1 and FERRY.text[43:74] == quote.text
    block = "Rules of the Harbour of Ven\nBy Anna Berg, 2024\nDogs travel free."  # of a document's first page
    assert [c.text for c in _claims_in(block)] == ["Dogs travel free."]
    lines = [("p9", *span) for span in spans_of(block, block.split("\n"))]
    assert [
        c.text
        for c in copied_claims(" ".join(block.split()), lines, [as_context(Passage("p9", block))])
    ] == ["Dogs travel free."]


def test_the_step_of_citations_is_on_the_record():
    text, marks = read_marks(
        "The ferry costs 12 crowns [1]. Bees sleep at night. [1] Children pay 6 crowns [1][5]. Dragons guard the pier."
    )
    written = written_claims(text, marks, [FERRY, BEES], by_words())
    step = Cited(claims=tuple(written), way="written", raw=0.5, licence="none")
    assert read_step(_step_line(step)) == step and [c.text for c in step.unsupported] == [
        "Bees sleep at night.",
        "Dragons guard the pier.",
    ]


def test_texts_are_cut_to_a_budget():
    texts = ["a " * 100, "b " * 100, "c " * 100]
    assert (
        _fit(texts, 1000) == texts
        and [len(t) for t in _fit(texts, 90)] == [200, 159]
        and _fit(texts, 60) == texts[:1]
        and _fit([], 5) == []
    )
    assert (
        _cut_to("one two three", 2) == "one two"
        and _cut_to("incomprehensibilities", 2) == ""
        and _cut_to("", 0) == ""
    )
    for tokens in range(1, 200, 7):
        assert sum(map(_estimate, _fit(texts, tokens))) <= tokens


def test_the_settings_of_the_agents_are_the_specifications():
    own = AgentsSettings()
    assert (own.messages, own.every, own.graded, own.grade_threshold, own.enough, own.deadline) == (
        10,
        5,
        6,
        7.0,
        3,
        30.0,
    )
    assert own.sampling == Sampling(0.1, 0.9, 40, 1.1) and not AgentsSettings(**LAPTOP).sampling
    for wrong in ({"fold": "never"}, {"rounds": 0}, {"context_tokens": 63}, {"kinds": "poetry"}):
        with expect(TypeError, "AgentsSettings."):
            structured(AgentsSettings, wrong)
    with expect(SettingsError):
        structured(AgentsSettings, {"top_p": 2.0})
