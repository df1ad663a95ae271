"What `7_evaluate` answers where its notebooks do not show it: faults that were found once, and cases by the dozen."

import pytest

from mtrag_nb.core.files import data_dir
from mtrag_nb.core.record import Grade, Graded, Refused, Retrieved, Run, kept_by, new_turn
from mtrag_nb.core.text import scored
from mtrag_nb.core.types import Context, Gold, Passage
from mtrag_nb.evaluate.blame import blame_turn
from mtrag_nb.evaluate.scores import Evidence

PLACES = [Context("g#0", "g", "The ferry costs 12 crowns."), Context("b#0", "b", "Bees sleep.")]
FOUND = Retrieved(contexts=("g#0", "b#0"), node="retrieve")


def cause_of(*steps, **known):
    "The cause and stage of a turn whose gold passage was found, by steps after the search."
    turn = new_turn(FOUND, *steps, task_id="c1<::>1", conversation_id="c1", **known)
    gold = {
        turn.task_id: Gold(
            turn.task_id, "ANSWERABLE", ("It costs 12 crowns.",), (Passage("g", ""),)
        )
    }
    found = blame_turn(Evidence(Run.of("made", [turn], PLACES), gold), turn.task_id)
    return found.cause, found.stage


@pytest.mark.parametrize(
    ("steps", "known", "cause", "stage"),
    [
        ((), {"outcome": "answered", "answer": "Bananas grow on trees."}, "wrong draft from gold", "generate"),
        ((), {"outcome": "answered", "answer": "I'm sorry, I do not know."}, "declined though gold was there", "generate"),
        ((), {"outcome": "asked_back", "answer": "Which ferry do you mean?"}, "asked back though clear", "gate"),
        ((Refused(reason="weak", role="dropped"),), {}, "refused though gold was there", "gate"),
    ],
)  # fmt: skip
def test_a_turn_without_a_draft_on_record(steps, known, cause, stage):
    "Traces without a typed generation, and systems from outside, record no draft: only a refusal is a gate's."
    assert cause_of(*steps, **known) == (cause, stage)


def test_kept_is_what_the_system_kept():
    "A step whose system keeps by another rule than its verdicts says so in `extra`; blame and the record read the same."
    grades = tuple(Grade(c.id, scored(0.1, 0.5, "cosine")) for c in PLACES)
    own = Graded(grades=grades, node="grade", extra={"kept": ["g#0"]})
    assert own.kept == () and kept_by(own) == ("g#0",)
    assert new_turn(FOUND, own).kept == ("g#0",)
    assert cause_of(own, outcome="answered", answer="Bananas grow.")[0] == "wrong draft from gold"


def test_recorded_agents_kept_what_they_answered_from():
    "In 4 of the 16 recorded turns, `kept` did not name the passages that the answer was made from."
    turns = Run(data_dir("recorded") / "sample_agents").trajectories.values()
    assert all(set(t.contexts) <= set(t.kept) for t in turns if t.answered)
