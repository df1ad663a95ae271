"""Fifteen turns over Debian's manuals, marked as a person would mark them on the page: the stages to blame, and planted faults named.

  python tests/programs/own_documents.py   the last line reads `N passed, N failed`

The manuals come with Debian (base-passwd, dpkg, python3) and are not part of this project; where they are not installed there
is nothing to do. The laptop's models answer. Then three faults are planted, one at a time: a grade that keeps nothing, a
search that returns its worst passages first, and a library that has not yet got the manual. Each must be named. At last a test
set is drawn from the manuals, accepted as it is, and run over: with the passages that come with it, and over the library.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from common import Checks

from mtrag_nb.app.run import run
from mtrag_nb.core.files import write_jsonl
from mtrag_nb.data.submissions import check_format
from mtrag_nb.search.retrieve import Retriever
from mtrag_nb.serve.questions import accept, accepted_questions, draw_questions
from mtrag_nb.serve.service import Service, about_turn, ask_service, mark, search

DOC = Path("/usr/share/doc")
MANUALS = [DOC / "base-passwd/users-and-groups.html", DOC / "dpkg/spec/triggers.txt"]
MANUALS.append(DOC / "python3/python-policy.html")
ASKED = [  # question, what stands in the passage that answers it ("": nothing does), an answer
    ("Why are games sgid to the group games?", "high score", "So that they can write high score files."),
    ("What is the shell of the user sync?", "/bin/sync", "The shell of user sync is /bin/sync."),
    ("Who owns the mailboxes?", "/var/mail", "Mailboxes are owned by the group mail."),
    ("Should web content be owned by www-data?", "rewrite a web site", "No, web content should not be owned by it."),
    ("Which user runs squid?", "squid", "Squid runs as user proxy."),
    ("What keeps the master files in sync?", "update-passwd", "The update-passwd tool keeps them in sync."),
    ("What is a dpkg trigger?", "recorded and aggregated", "A facility to record and aggregate events of packages."),
    ("When is a file trigger activated?", "matching file", "When a matching file is installed, upgraded or removed."),
    ("Which characters may a trigger name have?", "7-bit ascii", "Only printing 7-bit ascii characters."),
    ("Which package has the command python in bullseye?", "python-is-python2", "The package python-is-python2."),
    ("Where is the set of supported Python versions?", "debian_defaults", "In /usr/share/python3/debian_defaults."),
    ("What must the main binary package be called?", "pythonX.Y", "It must be called pythonX.Y."),
    ("How much does a Debian developer earn?", "", ""),
    ("Who won the football world cup in 1998?", "", ""),
    ("How do I cook rice in a pressure cooker?", "", ""),
]  # fmt: skip


def marked(service: Service, reply: dict, wanted: str, answer: str) -> str:
    "What came of a turn that a person marks."
    talk, right = (
        (reply["conversation_id"], reply["turn"]),
        reply["outcome"] == "answered",
    )
    if not wanted:
        return mark(service, *talk, verdict="refuse" if right else "right")["came"]
    found = search(service, f"{wanted} {answer}", most=20)
    passage = next(p["passage"] for p in found if wanted in p["text"])
    right = right and wanted in reply["answer"]
    verdict = "right" if right else "wrong"
    return mark(service, *talk, passage, verdict=verdict, answer=answer)["came"]


def talk(folder: Path, late: bool = False, **changes: str) -> list[str]:
    "What came of all turns, three to a conversation; `late`: the manuals are put in after they were asked about."
    how = {"stages.rewrite": "never", **changes}
    with Service(folder / "library", folder / "served", changes=how) as service:
        other = folder / "other.txt"
        other.write_text("Ferries\n\nA dog costs four crowns on the ferry.\n")
        service.documents.put(other, other.name, "manuals")
        for path in () if late else MANUALS:
            service.documents.put(path, path.name, "manuals")
        replies = []
        for n, (question, *_) in enumerate(ASKED):
            before = replies[-1]["conversation_id"] if n % 3 else ""
            replies.append(ask_service(service, question, before))
        for path in MANUALS if late else ():
            service.documents.put(path, path.name, "manuals")
        came = [marked(service, r, *known) for r, (_, *known) in zip(replies, ASKED)]
        again = [
            about_turn(service, r["conversation_id"], r["turn"])["came"]
            for r in replies
        ]
        assert again == came
        return came


def test_set(folder: Path) -> Counter:
    "Questions drawn from the manuals and run over in both ways; how many there are of each kind."
    with Service(folder / "library", folder / "served") as service:
        for path in MANUALS:
            service.documents.put(path, path.name, "manuals")
        for seed in (0, 1):
            for line in draw_questions(service, seed):
                accept(service, line["task_id"], seed)
        for form in ("given", "search"):
            write_jsonl(folder / f"{form}.jsonl", accepted_questions(service, form))
        kinds = Counter(line["drawn"]["kind"] for line in accepted_questions(service))
    given, found = (folder / f"{form}.jsonl" for form in ("given", "search"))
    how = {"system": "selective", "progress": False}
    runs = [run(given, folder / "r1", setting="reference", **how)]
    runs += [run(found, folder / "r2", index=folder / "library", **how)]
    counts = kinds.total(), kinds.total() - kinds["unanswerable"]
    for tasks, done, n in zip((given, found), runs, counts):
        assert len(done.trajectories) == n and not any(
            t.failed for t in done.trajectories.values()
        )
        assert check_format("C", tasks, done.folder / "predictions.jsonl").lines == n
    return kinds


def stages(came: list[str]) -> Counter:
    "Turns by what came of them, the failed ones by stage."
    return Counter(c.split(":")[0].removeprefix("Failed first at ") for c in came)


def main() -> int:
    if missing := [str(p) for p in MANUALS if not p.exists()]:
        print(f"not installed: {', '.join(missing)}", "0 passed, 0 failed", sep="\n")
        return 0
    checks, answerable = (
        Checks(),
        [n for n, (_, wanted, _) in enumerate(ASKED) if wanted],
    )

    def worst_first(self, query, domain="", task_id="", turns=()):
        nodes = self.rank_candidates(
            query, domain, turns
        )  # a person's own search goes by `rank_candidates`
        return self.as_retrieval(nodes[::-1][: self.settings.rerank_k])

    keep_nothing = {"nexus.correct": "0.99", "nexus.ambiguous": "0.99"}

    def answerable_of(name, **how):
        came = talk(folder / name, **how)
        found = stages([c for n, c in enumerate(came) if n in answerable])
        print(found)
        return found

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with checks(
            "fifteen marked turns: each is judged, and a stage is named for what failed"
        ):
            came = talk(folder / "plain")
            print(
                *(f"{c:60.60} {q}" for c, (q, *_) in zip(came, ASKED)),
                stages(came),
                sep="\n",
            )
            assert len(came) == 15 and not {"not judged", "undecided"} & set(came)
            assert not any("no stage" in c for c in came)
        with checks("a grade that keeps nothing is named"):
            found = answerable_of("grade", **keep_nothing)
            assert found["grade"] > len(answerable) / 2 and set(found) <= {
                "grade",
                "retrieve",
            }
        with (
            checks("a search that returns the worst first is named"),
            patch.object(Retriever, "retrieve", worst_first),
        ):
            found = answerable_of("retrieve")
            assert found["retrieve"] > len(answerable) / 2, found
        with checks("a library that has not got the manual is named"):
            found = answerable_of("index", late=True)
            assert found == {"index": len(answerable)}
        with checks("a test set is drawn from the manuals, and run over in both ways"):
            kinds = test_set(folder / "drawn")
            print(kinds)
            assert min(kinds[k] for k in ("question", "follow-up", "unanswerable")) > 0
    return checks.ended()


if __name__ == "__main__":
    sys.exit(main())
