"""The numbers of released runs by task, into `data/board`: what `mtrag score FILE --board` places a run of one's own among.

Numbers alone, of nobody's text. Of a run whose repository has no licence means are kept. Files that are not at hand are named
and left out. Some five minutes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mtrag_nb import __version__
from mtrag_nb.core.files import read_json, write_whole
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.types import TO_ASK, plain
from mtrag_nb.data.official import official_dir, official_file
from mtrag_nb.data.predictions import import_predictions
from mtrag_nb.evaluation.blame import blame
from mtrag_nb.evaluation.measures import condition
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.evaluation.standings import (
    ReleasedRun,
    ReleasedRuns,
    entrant_of,
    is_search,
    read_released_runs,
)
from tests.support.places import with_official_ids
from tools.studies.released_files import (
    ARMS,
    CONTEXTS,
    DEV,
    PROMPTS,
    RUNS,
    TEST,
    arm_file,
    benchmark,
    file_at,
    imported,
    official_scores,
    rounded,
)
from tools.studies.search_pairs import SCORED, SEARCHES, search_file

ROOT = Path(__file__).resolve().parents[2]
BOARD = ROOT / "data" / "board"
BENCHMARKS = {"mtrag": DEV, "mtragun": TEST}
PHI = ("RB_agg", "RB_llm", "RL_F")  # official scores
LETTERS = {"right": "r", "undecided": "u", "failed": "f", "not judged": "-"}
TEAMS = {  # folder -> team, repository, commit, licence; of what data/paper/released.json does not list
    "aynazhamedi": ("AynazHamedi", "AynazHamedi/mtrag-Semeval2026", "", ""),
    "gbgers": ("Gbgers", "LookUpMark/llm-semeval-task8", "", ""),
    "iimas_rag": ("IIMAS-RAG", "PLN-disca-iimas/mtrag_semeval2026", "3b0497e", "none"),
    "pashaabri": ("pashaAbri", "pashaAbri/mt-rag-benchmark", "8bb7127", "Apache-2.0"),
    "predictions_raguteam": ("RaguTeam", "RaguTeam/ragu_mtrag_semeval", "", "MIT"),
    "raguteam": ("RaguTeam", "RaguTeam/ragu_mtrag_semeval", "", ""),
    "re_call": ("RE-call", "GiulioDER/RE-call", "", ""),
    "sifei": ("Sifei", "mengsifei/Multi_turn_RAG", "", "Apache-2.0"),
    "zvictor12": ("zvictor12", "zvictor12/MT-RAG", "", ""),
}
SIFEI = "Apache-2.0 at the commit, no licence file in the newest one"
CRAG = "its file lists other passages than those the answers were made from: no stage of retrieval is blamed"
COMMITS = {
    "A_dev110_bge-m3_rerank_lastturn": ("619edf2", "MIT"),
    "C_dev100_elser_prompt-official": ("3cb3851", SIFEI),
    "C_dev100_elser_prompt-evidence": ("3cb3851", SIFEI),
    "A_test_hybrid-rerank_old": ("8ebf623", SIFEI),
}
OTHERS = {  # file -> name, setting, note
    "sifei/C_dev100_elser_prompt-official.jsonl": (
        "DeepSeek, ELSER, the benchmark's prompt",
        "C",
        "100 tasks",
    ),
    "sifei/C_dev100_elser_prompt-evidence.jsonl": (
        "DeepSeek, ELSER, evidence first",
        "C",
        "100 tasks",
    ),
    "gbgers/C_dev110_self-crag_v1_strict_llama8b.jsonl": (
        "Self-CRAG v1, Llama-3.1-8B",
        "C",
        CRAG,
    ),
    "gbgers/C_dev110_self-crag_v2_strict_llama8b.jsonl": (
        "Self-CRAG v2, Llama-3.1-8B",
        "C",
        CRAG,
    ),
    "gbgers/C_dev110_self-crag_v3_permissive_llama3b.jsonl": (
        "Self-CRAG v3, Llama-3.2-3B",
        "C",
        CRAG,
    ),
    "gbgers/C_dev110_self-crag_v4_permissive_llama8b.jsonl": (
        "Self-CRAG v4, Llama-3.1-8B",
        "C",
        CRAG,
    ),
    "gbgers/A_dev110_bge-m3_rerank_lastturn.jsonl": (
        "bge-m3 + reranker, last question, all domains",
        "A",
        "all scores are 0.0: the order of the file counts",
    ),
    "sifei/A_test_hybrid-rerank_old.jsonl": (
        "Jasper + SPLADE RRF, reranker, GPT-5.2 rewrite",
        "A",
        "an earlier version of the submission; 399 of 507 tasks",
    ),
    "iimas_rag/C_test_gpt-4.1_splade-voyage-rrf_gate.jsonl": (
        "GPT-4.1, SPLADE + Voyage RRF",
        "C",
        "no licence: means alone; 399 of 507 tasks",
    ),
}
MODELS = {  # RaguTeam's answers to the test set, over the gold passages
    "gemini-3-pro-preview-high_new_prompt": "Gemini 3 Pro",
    "glm_46_gemini_prompt": "GLM 4.6",
    "haiku45_taskB": "Claude Haiku 4.5",
    "llama3_3_70b_gemini_prompt": "Llama 3.3 70B",
    "meno_v17_ckp420_taskB": "Meno",
    "qwen235b_gemini_prompt_no_empty": "Qwen3 235B",
    "qwen2_5_32b_taskB": "Qwen2.5 32B",
}


@dataclass(frozen=True)
class _Source:
    "A released file, and what the board says of it."

    path: Path
    name: str
    setting: str
    benchmark: str
    note: str = ""


def sources() -> list[_Source]:
    "The released runs that the board has, also those whose files are not at hand."
    found = []
    for arm in ARMS:
        name = f"GPT-4o, {CONTEXTS[arm[0]]}, {PROMPTS[arm[1]]}"
        found.append(_Source(arm_file(arm), name, arm_file(arm).name[0], "mtrag"))
    for name in (*SEARCHES, *SCORED):
        note = "scores as its authors computed them" if name in SCORED else ""
        found.append(_Source(search_file(name), name, "A", "mtrag", note))
    teams = file_at("raguteam/any").parent
    for path in sorted(teams.glob("B_dev96_*")):
        name = path.name[8:].partition(".jsonl")[0].replace("_", ", ")
        found.append(_Source(path, name, "B", "mtrag", "96 tasks"))
    for file, (name, setting, note) in OTHERS.items():
        of = "mtragun" if "_test_" in file else "mtrag"
        found.append(_Source(file_at(file), name, setting, of, note))
    root = official_dir(having="mtragun-human/predictions_raguteam")
    for stem, name in MODELS.items():
        path = root / "mtragun-human" / "predictions_raguteam" / f"{stem}.jsonl"
        note = "answers without passages; 399 of 507 tasks"
        found.append(_Source(path, name, "B", "mtragun", note))
    return found


def run_of(source: _Source) -> Run:
    "A released file as a run; the listed passages of Self-CRAG's answers are not those that were used."
    which = BENCHMARKS[source.benchmark]
    if source.path.parent.name != "gbgers" or source.setting == "A":
        return imported(source.path, which)
    with TemporaryDirectory() as folder:
        known = benchmark(which)
        talks = official_file(None, "mtrag-human/conversations")
        path = with_official_ids(source.path, talks, known.tasks, Path(folder))
        out = RUNS / "unused" / source.path.name.partition(".")[0]
        if (out / "manifest.json").is_file():
            return Run(out)
        return import_predictions(path, known, out, used=False)


def official_means(source: _Source) -> dict[str, dict[str, float]]:
    """Means of the official scores of a file, UNDERSPECIFIED questions left out: `official`, conditioned here by the labels and
    the file's own verdicts on refusals, and `filed`, conditioned as the file has it, with the share of RL_F that is .5."""
    gold = benchmark(BENCHMARKS[source.benchmark]).gold
    scores = {
        i: s
        for i, s in official_scores(source.path, BENCHMARKS[source.benchmark]).items()
        if i in gold and gold[i].answerability != "UNDERSPECIFIED"
    }
    official = {}
    filed = {}
    for phi in PHI:
        if not any(phi in s for s in scores.values()):
            continue
        known = {i: s for i, s in scores.items() if "idk_eval" in s}
        conditioned = [
            condition(s.get(phi), gold[i].answerability, s["idk_eval"])
            for i, s in known.items()
        ]
        names = (f"{phi}_idk", f"{phi}_idk_underspecified")
        as_filed = [s[n] for s in known.values() for n in names if n in s]
        for means, values in ((official, conditioned), (filed, as_filed)):
            values = [x for x in values if x is not None]
            if values:
                means[phi] = sum(values) / len(values)
    plain_rl_f = [s["RL_F"] for s in scores.values() if "RL_F" in s]
    if plain_rl_f:
        filed["RL_F at .5"] = plain_rl_f.count(0.5) / len(plain_rl_f)
    return {"official": rounded(official), "filed": rounded(filed)}


def origin(source: _Source) -> dict[str, str]:
    "Team, repository, commit, file and licence of a released file."
    file = f"{source.path.parent.name}/{source.path.name.removesuffix('.gz')}"
    team, repository, commit, licence = TEAMS[source.path.parent.name]
    commit, licence = COMMITS.get(source.path.name.split(".")[0], (commit, licence))
    listed = read_json(ROOT / "data" / "paper" / "released.json", kind=list)
    for known in listed:
        if known["file"].removesuffix(".gz") == file:
            repository, commit, licence = (
                known[k] for k in ("repository", "commit", "licence")
            )
    return {
        "team": team,
        "repository": repository,
        "commit": commit,
        "file": file,
        "licence": licence,
    }


def numbers_of(source: _Source, tasks: Sequence[str]) -> ReleasedRun:
    "The numbers of a released run, in the order of the tasks."
    known = benchmark(BENCHMARKS[source.benchmark])
    about = ReleasedRun(
        name=source.name, setting=source.setting, note=source.note, **origin(source)
    )
    if source.path.name.startswith("metrics_"):
        scores = official_scores(source.path)
        values = {i: s["nDCG@5"] for i, s in scores.items()}
        return replace(about, values=in_order(values, tasks))
    run = Evidence(run_of(source), known.gold)
    entrant = entrant_of(run)
    about = replace(about, values=in_order(entrant.values, tasks))
    if is_search(run):
        return about
    report = blame(run)
    places = {i: n for n, i in enumerate(tasks)}
    stages: dict[str, list[int]] = {}
    given = "generate" if source.setting == "B" else ""  # the gold passages were there
    for i, stage in entrant.failures.items():
        stage = stage or given
        stages.setdefault(stage, []).append(places[i])
    verdicts = (report.turns.get(i) for i in tasks)
    return replace(
        about,
        asked=[places[i] for i, asked in entrant.asks.items() if asked],
        verdicts="".join(LETTERS[b.verdict] if b else "." for b in verdicts),
        blame=stages,
        **official_means(source),
    )


def in_order(values: Mapping[str, float], tasks: Sequence[str]) -> list[float | None]:
    "Values in the order of tasks, to three digits; None where there is none."
    return [round(values[i], 3) if i in values else None for i in tasks]


def means_alone(run: ReleasedRun, talks: Sequence[str]) -> ReleasedRun:
    "A run of which nothing by task may be kept, as its means."
    from mtrag_nb.evaluation.statistics import mean_interval

    judged = [(v == "r", t) for v, t in zip(run.verdicts, talks) if v in "ruf"]
    i = mean_interval([float(r) for r, _ in judged], [t for _, t in judged])
    means = {"right": i.value, "low": i.low, "high": i.high, "tasks": float(i.n)}
    return replace(
        run, verdicts="", values=[], asked=[], blame={}, means=rounded(means, 4)
    )


def write_runs(released: ReleasedRuns) -> None:
    "Write a file of data/board, a line a run."
    found = plain(released)
    runs = [json.dumps(run, ensure_ascii=False) for run in found.pop("runs")]
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()]
    lines.append('"runs": [\n' + ",\n".join(runs) + "\n]")
    write_whole(BOARD / f"{released.benchmark}.json", "{" + ",\n".join(lines) + "}\n")


def measure_board() -> None:
    "Count every released run at hand, into data/board; files that are missing are named."
    BOARD.mkdir(exist_ok=True)
    found = sources()
    for name, which in BENCHMARKS.items():
        tasks = benchmark(which).tasks
        ids = [t.id for t in tasks]
        talks: dict[str, int] = {}
        numbers = [talks.setdefault(t.conversation_id, len(talks)) for t in tasks]
        runs = []
        for source in found:
            if source.benchmark != name:
                continue
            if not source.path.is_file():
                print("not at hand:", source.path)
                continue
            print(source.path.name, flush=True)
            run = numbers_of(source, ids)
            if run.licence == "none":
                run = means_alone(run, [t.conversation_id for t in tasks])
            runs.append(run)
        made = {"study": "board", "mtrag_nb": __version__}
        gold = benchmark(which).gold
        vague = [n for n, i in enumerate(ids) if gold[i].answerability in TO_ASK]
        write_runs(ReleasedRuns(name, made, ids, numbers, runs, vague))
    write_readme()


README = """# Numbers of released runs, by task

What `mtrag score FILE --board` ranks a run of one's own among. Numbers alone: no question, answer, passage or rewrite of anybody is here. Made by `make study NAME=board` from the files that their teams published, read as `mtrag import` reads them; `docs/official_scores.md` says why official scores differ from these.

`mtrag.json` (842 tasks) and `mtragun.json` (the 399 tasks of the test set that were at hand) hold the ids of the tasks, the number of each task's conversation, the places of the UNDERSPECIFIED tasks, and a line a run:

- `verdicts`: a letter a task, r right, u undecided, f failed, - not judged (its label does not say what is right), . no turn; by words, with the rule's reading of refusals;
- `values`: of a search nDCG@5; else ROUGE-L, 1 for a right refusal and 0 for a wrong one;
- `blame`: stage to blame -> the places of the tasks that failed there, from 0;
- `asked`: the places of the tasks whose reply asks the user back, by the rule of `1_core/10_refusals`;
- `official`: means of the official scores that the file carries, conditioned by the labels; `filed`: as the file has conditioned them, and the share of RL_F that is .5;
- `means`: of a run without a licence nothing else is kept.

Left out: closed-book answers filed as B (Gbgers), a trial over a broken search (IIMAS-RAG, 100 tasks), files of rewrites, and what cannot be fetched.

"""


def write_readme() -> None:
    "Write data/board/README.md: what each run is, whence, and under which licence."
    head = [
        "benchmark",
        "",
        "run",
        "team",
        "file",
        "repository",
        "commit",
        "licence",
        "note",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for path in sorted(BOARD.glob("*.json")):
        for run in read_released_runs(path).runs:
            place = f"{run.repository} | {run.commit[:7]} | {run.licence} | {run.note}"
            cells = f"{run.setting} | {run.name} | {run.team} | `{run.file}` | {place}"
            lines.append(f"| {path.stem} | {cells} |")
    write_whole(BOARD / "README.md", README + "\n".join(lines) + "\n")
