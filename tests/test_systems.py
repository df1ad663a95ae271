"What `5_systems` reads, checks and cuts: cases by the dozen."

import time

from mtrag_nb.core.record import Drafted, read_step, step_line
from mtrag_nb.core.replies import Label
from mtrag_nb.core.text import spans_of
from mtrag_nb.core.types import (
    Passage,
    SettingsError,
    Turn,
    as_context,
    expect,
)
from mtrag_nb.core.types import build_object
from mtrag_nb.models.chat import Sampling, ScriptedChat
from mtrag_nb.systems.agents import LAPTOP, AgentsSettings, _cut_to, _estimate, _fit
from mtrag_nb.systems.citations import (
    _claims_in,
    by_words,
    copied_claims,
    read_citation_marks,
    written_claims,
)
from mtrag_nb.systems.citations import Cited
from mtrag_nb.systems.stages import (
    PROMPTS,
    StageInput,
    _read_grade,
    clean_answer,
    grade_by_verdict,
    show_history,
)
from mtrag_nb.serve.reply import _cited_lines
from mtrag_nb.systems.nexus import _read_label
from tests.support.turns import new_turn

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
FARES = "The ferry to Oland Island costs 12 crowns. Children pay 6 crowns on board."
FERRY = as_context(
    Passage("p1", FARES, "Ferries › Fares", "ferries.pdf#page=3", "ferries.pdf")
)
BEES = as_context(
    Passage("p2", "Bees sleep at night. They collect pollen by day.", "Bees")
)


GRADES = {  # grade -> the replies that state it; None: nothing that may be read
    0: ["0"],
    3: ["The relevance score is 3."],
    5: ["<think>maybe 3</think>5"],
    6: ['{"score": 6}'],
    7: ["Grade: 7", "7 (out of 10)"],
    7.5: ["7.5/10"],
    8: ["8", " 8.", "8. The document names the fee.", "8. At least the fee is there."],
    9: ["9 out of 10"],
    10: ["**10**"],
    None: [
        "", "It helps.", "11", "-3", "4/5", "5 to 7", "7 or 8", "between 6 and 8", "8 of 12", "7%",
        "Grade 7 of 9", "80/100", "1,000", "Document 3 helps", ">7", "< 5", "at least 6",
        "8, at least", "7/10 or more", "Grade: more than 4",
    ],
}  # fmt: skip
LABELS = {
    Label.YES: ["Correct", "**correct**", "Correct. It names the fee.", "<think>Incorrect?</think>Correct"],
    Label.AMBIGUOUS: [" AMBIGUOUS.", '{"grade": "AMBIGUOUS"}', "Ambiguous - it names the ferry only"],
    Label.NO: ["Grade: Incorrect", "The document is incorrect.", "Incorrect because it is about bees"],
    None: [
        "", "It helps.", "Not correct", "Correct or incorrect", "correct me if I am wrong",
        "Correct? Ambiguous.", "Yes", "partially", "It is neither correct nor incorrect",
        "<think>Correct",
    ],
}  # fmt: skip


def test_a_grade_or_label_is_read_where_a_reply_leaves_no_doubt():
    for read, known in ((_read_grade, GRADES), (_read_label, LABELS)):
        for value, replies in known.items():
            assert {text: read(text) for text in replies} == dict.fromkeys(
                replies, value
            )


def test_generated_verdicts_keep_what_cannot_be_read():
    scripted = ScriptedChat(["Yes", "hm", "No, it is about glass."])
    asked = StageInput(scripted, PROMPTS, QUESTION, show_history(TALK), DOCS)
    graded = grade_by_verdict(asked)
    assert [v.label for v in graded] == [Label.YES, Label.YES, Label.NO]
    assert [v.defaulted for v in graded] == [False, True, False]
    told = scripted.asked[0].messages[1][1]
    assert "Conversation:\nuser: Who runs" in told and DOCS[0] in told


def test_an_answer_is_cleaned_of_markers_labels_and_repetitions():
    cleaned = {
        " Assistant: Answer: it is. So it goes. It is. So it goes.": "it is. So it goes.",
        "<|im_start|>assistant: It is.<|im_end|>\nUser: And then?\nAgent: No.": "It is.",
        "User: And then?": "",
    }
    assert {text: clean_answer(text) for text in cleaned} == cleaned
    assert clean_answer("Agent: It is. It is.", tidy=False) == "It is. It is."


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
        "It costs 12[1][3]. Pay.": ("It costs 12. Pay.", [(11, 1), (11, 3)]),
        "": ("", []),
    }
    read |= {
        code: (code, [])
        for code in ("x[1] = 5", "array[10]", "Write f(x)[1] = 5 twice")
    }
    assert {text: read_citation_marks(text) for text in read} == read


def test_hostile_citations_are_read_in_linear_time():
    def seconds_of(text):
        "Processor time of the best of three."

        def once():
            begun = time.process_time()
            read_citation_marks(text)
            return time.process_time() - begun

        return min(once() for _ in range(3))

    for piece in (" ", "[", "[1", "[1] ", "(source ", "[1, "):
        some, more = seconds_of(piece * 4_000), seconds_of(piece * 32_000)
        assert more < 20 * some + 0.1, (piece, some, more)


def test_quotes_are_claims_at_their_places():
    (quote,) = copied_claims(
        "Children pay 6 crowns on board.", [("p1", 43, 74)], [FERRY, BEES]
    )
    assert (
        quote.supported
        and quote.citations[0].n == 1
        and FERRY.text[43:74] == quote.text
    )
    block = "Rules of the Harbour of Ven\nBy Anna Berg, 2024\nDogs travel free."  # of a document's first page
    assert [c.text for c in _claims_in(block)] == ["Dogs travel free."]
    lines = [("p9", *span) for span in spans_of(block, block.split("\n"))]
    found = copied_claims(
        " ".join(block.split()), lines, [as_context(Passage("p9", block))]
    )
    assert [c.text for c in found] == ["Dogs travel free."]


def test_the_step_of_citations_is_on_the_record():
    said = "The ferry costs 12 crowns [1]. Bees sleep at night. [1] Children pay 6 crowns [1][5]."
    text, marks = read_citation_marks(f"{said} Dragons guard the pier.")
    written = written_claims(text, marks, [FERRY, BEES], by_words())
    step = Cited(claims=tuple(written), way="written", raw=0.5, licence="none")
    assert read_step(step_line(step)) == step
    unsupported = ["Bees sleep at night.", "Dragons guard the pier."]
    assert [c.text for c in step.unsupported] == unsupported
    assert (step.density, step.coverage) == (0.75, 0.6667), "raw is their product"
    turn = new_turn(Drafted(text=text), step, contexts=(FERRY.id, BEES.id))
    reply = _cited_lines(turn, {c.id: c for c in (FERRY, BEES)})
    told = ("coverage", "density", "confidence", "chance")
    assert [reply[name] for name in told] == [0.6667, 0.75, 0.5, None]


def test_texts_are_cut_to_a_budget():
    texts = ["a " * 100, "b " * 100, "c " * 100]
    assert _fit(texts, 1000) == texts and [len(t) for t in _fit(texts, 90)] == [
        200,
        159,
    ]
    assert _fit(texts, 60) == texts[:1] and _fit([], 5) == []
    assert _cut_to("one two three", 2) == "one two"
    assert _cut_to("incomprehensibilities", 2) == "" == _cut_to("", 0)
    for tokens in range(1, 200, 7):
        assert sum(map(_estimate, _fit(texts, tokens))) <= tokens


def test_the_settings_of_the_agents_are_the_specifications():
    own = AgentsSettings()
    numbers = (
        own.messages,
        own.every,
        own.graded,
        own.grade_threshold,
        own.enough,
        own.deadline,
    )
    assert numbers == (10, 5, 6, 7.0, 3, 30.0)
    assert (
        own.sampling == Sampling(0.1, 0.9, 40, 1.1)
        and not AgentsSettings(**LAPTOP).sampling
    )
    for wrong in ({"rounds": 0}, {"deadline": -1.0}):
        with expect(TypeError, "AgentsSettings."):
            build_object(AgentsSettings, wrong)
    with expect(SettingsError):
        build_object(AgentsSettings, {"top_p": 2.0})
