"A turn that is made of steps by hand."

from dataclasses import replace

from mtrag_nb.core.record import Clarified, Drafted, Fault, Refused, Step, Trajectory
from mtrag_nb.core.types import Outcome


def _outcome_of(turn: Trajectory) -> Outcome:
    "How a turn ends by its error and steps; without a refusal or a question with an answer."
    if turn.error:
        return Outcome.ERROR
    if turn.of(Refused):
        return Outcome.I_DONT_KNOW
    if any(step.text for step in turn.of(Clarified)[-1:]):
        return Outcome.ASKED_BACK
    return Outcome.ANSWERED


def _end_of(turn: Trajectory) -> dict[str, str]:
    "Answer, reason and role of a turn with an outcome, as its last step of the kind says."
    if turn.refused and turn.of(Refused):
        last = turn.of(Refused)[-1]
        return {"answer": "I don't know.", "reason": last.reason, "role": last.role}
    ends = {Outcome.ANSWERED: Drafted, Outcome.ASKED_BACK: Clarified}
    kind = ends.get(turn.outcome)
    texts = [step.text for step in turn.of(kind)] if kind else []
    return {"answer": texts[-1] if texts else ""}


def new_turn(
    *steps: Step,
    task_id: str = "",
    conversation_id: str = "c1",
    turn: int = 1,
    domain: str = "govt",
    question: str = "How much is it?",
    outcome: Outcome | str = "",
    error: Fault | None = None,
    **fields: object,
) -> Trajectory:
    """Make a turn of steps; its outcome, answer and contexts follow from them.

    Args:
        task_id: by default of conversation and turn.
        outcome: by default as the steps say.
        fields: any other field of a Trajectory.
    """
    task_id = task_id or f"{conversation_id}<::>{turn}"
    about = (task_id, conversation_id, turn, domain, question)
    made = Trajectory(*about, steps, Outcome.ERROR, error=error)
    made = replace(made, outcome=Outcome(outcome or _outcome_of(made)))
    made = replace(made, contexts=made.kept or made.found, **_end_of(made))
    return replace(made, **fields)
