import os

from helpdesk import Desk

desk = Desk(os.environ["DESK_DOCUMENTS"], os.environ.get("DESK_FAULT", ""))


def answer(messages):
    r = desk.ask([m["content"] for m in messages])
    passages = [{"id": str(p.number), "text": p.body} for p in r.found]
    yield {"step": "retrieve", "passages": passages}
    yield {"step": "grade", "kept": [str(p.number) for p in r.used]}
    yield {"step": "gate", "passed": r.confident}
    yield r.message
