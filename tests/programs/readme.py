"""Run the README's commands, copied as they are printed, in an empty folder that holds the official layout.

  python tests/programs/readme.py [--list] [--conversations N]

Every line of a ```bash block is run by bash, in the order of the page; a line that ends in `# not run by the test: REASON`, or
that another test runs, is left out, and it is told why. A block below "`NAME.py`:" or "`NAME.jsonl`:" is that file, and a
python block is run last. What `mtrag fetch` would bring is there already: the sample's
files where the official repository has its own (data/official), and in the hub's cache tiny models of random weights and the real
architectures under the names that the profiles use. So everything is run as a user would run it, but for the network and the size.
The last line reads `N passed, N failed`.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from mtrag_nb.core.files import data_dir
from mtrag_nb.core.record import Run
from mtrag_nb.data.mtrag import OFFICIAL
from tests.support.tiny import tiny_cache

ROOT = Path(__file__).resolve().parents[2]
NOT_RUN = re.compile(r"#\s*not run by the test:\s*(.+)$")
ELSEWHERE = {
    "pip install": "`make test-wheel`",
    "git clone": "`make test-anywhere`",
    "make demo": ".github/workflows/test.yml",
}
SOURCES = {  # a kind of official file -> the sample's file in its place
    "corpora": "corpora/passage_level/{d}.jsonl",
    "mtrag-human/reference": "reference.jsonl",
    "mtragun-human/reference": "reference.jsonl",
    "mtrag-human/conversations": "conversations.json",
    "mtrag-human/qrels": "retrieval_tasks/{d}/qrels/dev.tsv",
    "mtragun-human/qrels": "retrieval_tasks/{d}/qrels/dev.tsv",
    "samples/taskac_input": "taskac_input.jsonl",
    "samples/taskb_input": "taskb_input.jsonl",
    **{
        f"mtrag-human/{k}": f"retrieval_tasks/{{d}}/{{d}}_{k}.jsonl"
        for k in ("lastturn", "rewrite", "questions")
    },
}


def commands(page: str) -> list:
    'The commands of a page\'s bash blocks, in order: (command, reason not to run it or "").'
    found = []
    for block in re.findall(r"^```(?:bash|sh)\n(.*?)^```", page, re.S | re.M):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            why = NOT_RUN.search(line)
            where = next((w for begin, w in ELSEWHERE.items() if line.startswith(begin)), "")
            found.append((line, why[1] if why else where and f"{where} does it"))
    return found


def files(page: str) -> dict[str, str]:
    "The files that the page shows: name -> text."
    return dict(re.findall(r"`(\w+\.(?:py|jsonl))`:\n\n```\w+\n(.*?)^```", page, re.S | re.M))


def programs(page: str) -> list[str]:
    "The python blocks that are no files, as commands."
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    return [f"python -c {shlex.quote(b)}" for b in blocks if b not in files(page).values()]


def lay_out(folder: Path, conversations: int) -> None:
    "The sample as the official repository lays its files out: zipped corpora, names of the domains, the first conversations of each."
    for kind, source in SOURCES.items():
        for path in OFFICIAL[kind].paths():
            domain = next(
                (
                    d
                    for d in ("clapnq", "cloud", "fiqa", "govt")
                    if OFFICIAL[kind].path.format(d=d) == path
                ),
                "",
            )
            text = (data_dir("sample") / source.format(d=domain)).read_text(encoding="utf-8")
            if kind.endswith("/reference"):
                text = first_conversations(text, conversations)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            if path.endswith(".zip"):
                with zipfile.ZipFile(folder / path, "w", zipfile.ZIP_DEFLATED) as z:
                    z.writestr(Path(path).stem, text)
            else:
                (folder / path).write_text(text, encoding="utf-8")
    for kind in OFFICIAL.values():  # what the sample has nothing for, and no command reads
        for path in kind.paths():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).touch()


def first_conversations(text: str, n: int) -> str:
    "The lines of the first n conversations of each domain, of a file of tasks."

    def field(line, key):
        return json.loads(line)[key]

    lines = text.splitlines(keepends=True)
    talks = dict.fromkeys(
        (field(line, "Collection"), field(line, "conversation_id")) for line in lines
    )
    kept = {t for c in {c for c, _ in talks} for t in [t for c2, t in talks if c2 == c][:n]}
    return "".join(line for line in lines if field(line, "conversation_id") in kept)


def run(command: str, folder: Path, env: dict) -> tuple:
    "A command in bash, with nobody at the keyboard: exit code, the end of what it said, seconds."
    start = time.time()
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return (
        done.returncode,
        "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:]),
        time.time() - start,
    )


def speechless(command: str, folder: Path) -> bool:
    """Whether a command did a part (exit code 1) only because random weights said nothing now and then.

    An empty reply is an error and no answer: the run says so, and the official check then misses the prediction.
    """
    words = command.split()
    runs = [
        Path(w) if words[1] == "run" else Path(w).parent
        for a, w in zip(words, words[1:])
        if a in ("--out", "--predictions")
    ]
    if (
        words[1] not in ("run", "check")
        or not runs
        or not (folder / runs[-1] / "trajectories.jsonl").exists()
    ):
        return False
    broke = [t.error.message for t in Run(folder / runs[-1]).trajectories.values() if t.failed]
    return bool(broke) and all("empty reply" in e for e in broke)


def main() -> int:
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--list", action="store_true", help="say what would be run")
    ap.add_argument(
        "--conversations",
        type=int,
        default=1,
        help="of each domain, in the reference file (default 1)",
    )
    args, passed, failed = ap.parse_args(), 0, 0
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    todo = commands(page) + [(program, "") for program in programs(page)]
    if args.list:
        for command, why in todo:
            print(f"not run, {why}: {command}" if why else command)
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        folder = Path(tmp) / "work"
        lay_out(folder / "data" / "official", args.conversations)
        (folder / "data" / "sample").symlink_to(data_dir("sample"))
        for name, text in files(page).items():
            (folder / name).write_text(text, encoding="utf-8")
        for name in ("README.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, folder)  # as documents of one's own
        cache = tiny_cache(Path(tmp) / "tiny", Path(tmp) / "hub")
        env = {
            **os.environ,
            "HF_HUB_CACHE": str(cache),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        env.pop("MTRAG_DATA", None)
        for command, why in todo:
            if why:
                print(f"left out, {why}: {command}\n", flush=True)
                continue
            code, said, seconds = run(command, folder, env)
            good = code == 0 or code == 1 and speechless(command, folder)
            passed, failed = passed + good, failed + (not good)
            how = (
                "ok  "
                if code == 0
                else "part (a model of random weights said nothing)"
                if good
                else f"FAIL ({code})"
            )
            print(f"{how} {seconds:6.1f} s  $ {command}\n{said}\n", flush=True)
    print(f"{passed} passed, {failed + (not passed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
