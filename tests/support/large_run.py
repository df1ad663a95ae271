"""A run of many turns, made of the turns and passages of another: for measuring pages, reports and the browser."""

from dataclasses import replace
from pathlib import Path

from mtrag_nb.core.files import write_json, write_jsonl
from mtrag_nb.core.record import turn_line
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import Context, plain


def large_run(
    folder: Path,
    like: Run,  # whose turns and passages are varied
    turns: int = 2000,
    passages: int = 3000,
) -> Path:  # the run folder
    "Write a run of conversations of nine turns, over passages that each have a number of their own."
    texts, turns_there = (
        [c.text for c in like.passages.values()],
        list(like.trajectories.values()),
    )
    number = {i: n for n, i in enumerate(like.passages)}

    def passage(n: int) -> Context:
        text = f"{texts[n % len(texts)]} Number {n}. {texts[n * 7 % len(texts)]}"[:1100]
        return Context(f"p{n}", f"p{n}", text, f"Page {n}")

    def moved(value, n: int):
        "The ids of contexts in a turn's line, exchanged for those of its own passages."
        if isinstance(value, dict):
            return {k: moved(v, n) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [moved(v, n) for v in value]
        known = isinstance(value, str) and value in number
        return f"p{(number[value] * 61 + n) % passages}" if known else value

    def turn(n: int) -> dict:
        t, talk, place = turns_there[n % len(turns_there)], f"big{n // 9}", n % 9 + 1
        ids = {"task_id": f"{talk}<::>{place}", "conversation_id": talk, "turn": place}
        t = replace(t, question=f"{t.question} ({n})", **ids)
        return moved(turn_line(t), n)

    write_jsonl(folder / "passages.jsonl", (plain(passage(n)) for n in range(passages)))
    write_jsonl(folder / "trajectories.jsonl", (turn(n) for n in range(turns)))
    identity = {**like.manifest["identity"], "system": "large"}
    write_json(folder / "manifest.json", {**like.manifest, "identity": identity})
    return folder
