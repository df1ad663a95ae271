"""Bring a run folder of an earlier version up to the present one, beside it; the old folder is only read.

  python tools/upgrade_run.py OLD NEW

Version 1 (before the first release) had steps without kinds, and the settings of every system in every manifest. Nothing is
computed anew: each text, score and second is the one that was recorded.
"""

import json
import shutil
import sys
from pathlib import Path

FIRST = ("node", "seconds", "calls")
KINDS = {  # node of a step in version 1 -> its kind
    "rewrite": "rewritten",
    "global_rewrite": "rewritten/globally",
    "local_rewrite": "rewritten/locally",
    "retrieve": "retrieved",
    "grade_documents": "graded",
    "generate": "drafted",
    "hallucination_check": "checked",
    "quality": "checked",
    "gate": "gated",
    "relation": "related",
    "rerank": "ranked",
    "increment_retry": "retried",
    "fallback": "refused",
    "evidence": "evidence",
}
ASKED = {"hallucination_check": "grounded", "quality": "well formed", "gate": "answerable"}
ROLES = {  # reason for a refusal -> what it is called in every system
    "hallucination_loop_exhausted": "exhausted",
    "irrelevant_docs": "dropped",
    "unanswerable": "dropped",
    "llm_refusal": "declined",
}


def step(old: dict) -> dict:
    "A step of version 1 with its kind. Raises KeyError for a node that version 1 did not have."
    node = old["node"]
    rest = {k: v for k, v in old.items() if k not in FIRST}
    if "rewrite" in rest:
        rest = {**rest.pop("rewrite"), **rest}
    if "draft" in rest:
        rest = {"text": rest.pop("draft"), **rest}
    if "ranked" in rest:
        rest = {"ranks": rest["ranked"]}
    if "grades" in rest:
        grades = [
            {"id": g.pop("id"), "verdict": {**g, "scale": None}} for g in map(dict, rest["grades"])
        ]
        rest = {"grades": grades}
    if node == "quality":  # what rules said of an answer's form
        unread = {"score": None, "threshold": None, "raw": "", "defaulted": False}
        said = {"label": "no" if rest["problem"] else "yes", "how": "rules", **unread}
        rest = {"check": said, "unsupported": rest["problem"]}
    if node in ASKED:
        found = {**(rest.get("check") or rest["gate"]), "scale": None}
        more = {} if node == "gate" else {"unsupported": rest.get("unsupported", "")}
        rest = {"verdict": found, **more, "asked": ASKED[node]}
    if "reason" in rest:
        rest["role"] = ROLES[rest["reason"]]
    return {"kind": KINDS[node], **{k: old[k] for k in FIRST}, **rest}


def turn(old: dict) -> dict:
    "A turn of version 1 as version 2 has it."
    reason = "" if old["reason"] == "none" else old["reason"]
    new = {**old, "reason": reason, "role": ROLES.get(reason, ""), "error": old["error"] or None}
    return {**new, "steps": [step(s) for s in old["steps"]]}


def manifest(old: dict) -> dict:
    "A manifest of version 1 as version 2 has it: of the systems' settings only the run's own."
    settings = {k: v for k, v in old["settings"].items() if k != "ncl"}
    mine = old["identity"]["system"].startswith("ncl")
    settings["own"] = old["settings"]["ncl"] if mine else None
    return {"version": 2, **old, "settings": settings}


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    old, new = map(Path, sys.argv[1:])
    known = json.loads((old / "manifest.json").read_text(encoding="utf-8"))
    if known.get("version", 1) != 1:
        sys.exit(f"{old} has version {known['version']}: nothing to do")
    lines = (old / "trajectories.jsonl").read_text(encoding="utf-8").splitlines()
    turns = [json.dumps(turn(json.loads(line)), ensure_ascii=False) for line in lines]
    shutil.copytree(old, new)
    (new / "trajectories.jsonl").write_text("\n".join(turns) + "\n", encoding="utf-8")
    (new / "manifest.json").write_text(json.dumps(manifest(known), indent=1), encoding="utf-8")
    print(f"{new}: {len(turns)} turns of version 2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
