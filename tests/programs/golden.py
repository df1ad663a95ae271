"""Compute what the package says of the recorded runs, and compare two such files value by value: a rewrite that
changes no behaviour differs in none.

  python tests/programs/golden.py --write FILE                  compute, and keep the values in a file
  python tests/programs/golden.py --against FILE                compute, and compare with a file kept earlier
  python tests/programs/golden.py --write FILE --against OTHER  both

The runs are those below data/recorded, data/paper/runs and data/talks and, where MTRAG_DATA has released outputs,
six of those, imported. Of each: every turn in words, its digests, blame, scores, the gate (the run against itself
and against a neighbour), the card of its mechanisms, and the data of its report. It takes some three minutes.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from common import arguments

from mtrag_nb.core.files import data_dir, read_json
from mtrag_nb.core.record import tell
from mtrag_nb.core.run_folder import Run, answer_digest, scored_digest
from mtrag_nb.core.types import MTRAGError, plain
from mtrag_nb.data.mtrag import Benchmark, read_benchmark, read_corpus, sample_dir
from mtrag_nb.data.official import official_file
from mtrag_nb.data.predictions import import_predictions
from mtrag_nb.evaluation.blame import blame
from mtrag_nb.evaluation.cards import mechanism_card
from mtrag_nb.evaluation.gate import gate_runs
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.scores import score_run
from mtrag_nb.show.report import write_report
from tests.support.places import with_official_ids

RECORDED = ("recorded", "paper/runs", "talks")
RELEASED = (
    "gbgers/A_dev110_bge-m3_rerank_lastturn",
    "gbgers/C_dev110_self-crag_v3_permissive_llama3b",
    "gbgers/C_dev110_self-crag_v4_permissive_llama8b",
    "raguteam/B_dev96_qwen2.5-7b",
    "sifei/C_dev100_elser_prompt-evidence",
    "sifei/C_dev100_elser_prompt-official",
)
SHOWN = 20  # differences that are printed


class Subject(NamedTuple):
    "A run with the file of its tasks."

    name: str
    run: Run
    reference: Path
    known: Benchmark


def recorded_runs() -> Iterator[Subject]:
    "The runs that the project holds, beside the sample's tasks."
    reference = sample_dir() / "reference.jsonl"
    known = read_benchmark(reference)
    for place in RECORDED:
        for manifest in sorted(data_dir(place).glob("*/manifest.json")):
            folder = manifest.parent
            for judged in (None, folder / "judged"):
                if judged is None or judged.is_dir():
                    name = f"{place}/{folder.name}" + ("/judged" if judged else "")
                    run = Run(folder, judged=judged)
                    yield Subject(name, run, reference, known)


def released_runs(folder: Path) -> Iterator[Subject]:
    "Six released outputs, imported below a folder; none without MTRAG_DATA."
    root = Path(os.environ.get("MTRAG_DATA") or "nowhere")
    if not (root / "released").is_dir():
        return
    reference = root / "mtrag-human" / "reference.jsonl"
    known = read_benchmark(reference)
    talks = official_file(root, "mtrag-human/conversations")
    pool = list(read_corpus(root / "passages.jsonl.gz"))
    for name in RELEASED:
        path = root / "released" / f"{name}.jsonl.gz"
        if name.startswith("gbgers"):  # that team numbered the conversations itself
            path = with_official_ids(path, talks, known.tasks, folder)
        run = import_predictions(path, known, folder / name, passages=pool)
        yield Subject(f"released/{name}", run, reference, known)


def values_of(subject: Subject, neighbour: Subject | None, place: Path) -> dict:
    "What the package says of a run, as plain data. place: a folder for what is written on the way."
    run = subject.run
    gold = subject.known.gold
    evidence = Evidence(run, gold)
    relevant = {i: {p.id: 1 for p in g.passages} for i, g in gold.items() if g.passages}
    answers = any(t.answer for t in run.trajectories.values())
    measure = "right" if answers else "nDCG@5"
    page = place / "report.html"
    parts: dict[str, Callable[[], object]] = {
        "turns": lambda: {
            i: tell(t, run.passages) for i, t in run.trajectories.items()
        },
        "digests": lambda: digests_of(run),
        "telemetry": lambda: evidence.telemetry,
        "blame": lambda: blame(evidence).data,
        "scores": lambda: score_run(run, gold, qrels=relevant, out=place).data,
        "gate itself": lambda: gate_runs(evidence, evidence, measure).data,
        "card": lambda: mechanism_card(evidence).data,
        "report": lambda: report_data([run], page, subject.reference),
    }
    if neighbour:
        other = Evidence(neighbour.run, neighbour.known.gold)
        runs = [run, neighbour.run]
        parts["gate"] = lambda: gate_runs(evidence, other, measure, shared=True).data
        parts["report of two"] = lambda: report_data(runs, page, subject.reference)
    return {name: value_or_error(part, place) for name, part in parts.items()}


def value_or_error(part: Callable[[], object], place: Path) -> object:
    "What a function returns, as JSON reads it back; of an error of this package, its words."
    try:
        value = plain(part())
    except MTRAGError as error:
        value = f"{type(error).__name__}: {error}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.replace(str(place.parent), "PLACE")
    return json.loads(text.replace(str(data_dir()), "DATA"))


def digests_of(run: Run) -> dict[str, list[str]]:
    "The digests under which judgements and scores are kept: task id -> of its answer, of what is scored."
    return {
        i: [answer_digest(t.answer, t.contexts), scored_digest(t)]
        for i, t in run.trajectories.items()
    }


def report_data(runs: Sequence[Run], page: Path, reference: Path) -> dict:
    "The cards beside a report, and the rows of its tables by section."
    same_tasks = any(
        i in read_benchmark(reference).gold for r in runs for i in r.trajectories
    )
    write_report(runs, page, reference=reference if same_tasks else None)
    tables = TableRows()
    tables.feed(page.read_text("utf-8"))
    cards = read_json(page.with_suffix(".cards.json"), list)
    return {"cards": cards, "tables": tables.rows}


class TableRows(HTMLParser):
    "The rows of the tables of a page, each as the texts of its cells, by the id of the section around it."

    def __init__(self):
        super().__init__()
        self.rows: dict[str, list[str]] = {}
        self.section = ""
        self.cells: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("section", "details") and dict(attrs).get("id"):
            self.section = str(dict(attrs)["id"])
        if tag == "tr":
            self.cells = []
        if tag in ("td", "th") and self.cells is not None:
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and self.cells is not None:
            row = " | ".join(" ".join(cell.split()) for cell in self.cells)
            self.rows.setdefault(self.section, []).append(row)
            self.cells = None

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


def leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    "Each value that holds no others, with its path, as JSON."
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        yield path, json.dumps(value, ensure_ascii=False)
        return
    for key, part in parts:
        yield from leaves(part, f"{path} > {key}" if path else str(key))


def differences(before: dict, after: dict) -> tuple[int, list[str]]:
    "How many values were compared, and a line for each that differs or is on one side alone."
    old = dict(leaves(before))
    new = dict(leaves(after))
    absent = "(absent)"
    lines = []
    for path in dict.fromkeys([*old, *new]):
        was = old.get(path, absent)
        now = new.get(path, absent)
        if was != now:
            lines.append(f"{path}: {was:.200} -> {now:.200}")
    return len(old.keys() | new.keys()), lines


def compute() -> dict:
    "The values of all runs, by name."
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subjects = [*recorded_runs(), *released_runs(place)]
        found = {}
        for number, subject in enumerate(subjects):
            print(subject.name, file=sys.stderr, flush=True)
            out = place / f"values{number}"
            out.mkdir()
            neighbour = neighbour_of(
                subject, subjects[number + 1 :] + subjects[:number]
            )
            found[subject.name] = values_of(subject, neighbour, out)
        return found


def neighbour_of(subject: Subject, others: Sequence[Subject]) -> Subject | None:
    "The first other run over some of the same tasks."
    for other in others:
        shared = subject.run.trajectories.keys() & other.run.trajectories.keys()
        if other.run.folder != subject.run.folder and shared:
            return other
    return None


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--write", metavar="FILE", type=Path)
    parser.add_argument("--against", metavar="FILE", type=Path)
    chosen = parser.parse_args()
    if not (chosen.write or chosen.against):
        parser.error("name a file: --write FILE, --against FILE, or both")
    before = read_json(chosen.against) if chosen.against else None
    after = compute()
    if chosen.write:
        text = json.dumps(after, ensure_ascii=False, indent=1)
        chosen.write.write_text(text + "\n", "utf-8")
        count = sum(1 for _ in leaves(after))
        refused = [part for parts in after.values() for part in parts.values()]
        errors = sum(isinstance(part, str) for part in refused)
        print(
            f"{count} values of {len(after)} runs, {errors} parts of which are errors"
        )
    if before is None:
        return 0
    count, lines = differences(before, after)
    print(*lines[:SHOWN], sep="\n")
    print(f"{count} values compared, {len(lines)} differ")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
