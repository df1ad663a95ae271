"""Run the commands of README.md, docs/commands.md and docs/SKILL.md, copied as they are printed, in an empty folder that holds the sample.

  python tests/programs/readme.py [--list] [--borrow]

A `pip install` makes a new environment, in which the lines up to the next one are run: it installs this tree, where the page names
its address, with everything that it needs (online; minutes and 2 GB for the systems). With `--borrow` the packages of the systems
are those of this environment. Every line of a ```bash block is run by bash, in the order of the page; a line that another test
runs is left out, and it is told which. `mtrag ask` is asked a question; what runs until it is stopped is stopped once it says
where it listens. A block below "`NAME.py`:" or "`NAME.jsonl`:" is that file; python blocks are run with the systems. The last line
reads `N passed, N failed, N left out`.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from common import OFFLINE, ROOT, Checks, arguments, environment
from wheel import build

PAGES = ("README.md", "docs/commands.md", "docs/SKILL.md")
ADDRESS = re.compile(r'"(mtrag_nb\S*) @ git\+\S+"')
ELSEWHERE = {
    "git clone": "`make test-anywhere`",
    "make demo": ".github/workflows/test.yml",
    "make test": ".ci/run",
    "make figures": "`tests/test_papers.py`",
}
LISTENS = ("mtrag serve",)
QUESTION = "Where is a prompt changed?\n/quit\n"


def commands(page: str) -> list[tuple[str, str]]:
    'The commands of a page\'s bash blocks and its python blocks, in order: (command, what runs it in place of this test or "").'
    shown, found = files(page).values(), []
    for kind, block in re.findall(r"^```(bash|python)\n(.*?)^```", page, re.S | re.M):
        if kind == "bash":
            found += block.splitlines()
        elif block not in shown:
            found.append(f"python -c {shlex.quote(block)}")
    return [
        (n, next((w for b, w in ELSEWHERE.items() if n.startswith(b)), ""))
        for n in found
    ]


def files(page: str) -> dict[str, str]:
    "The files that the page shows: name -> text."
    return dict(
        re.findall(r"`(\w+\.(?:py|jsonl))`:\n\n```\w+\n(.*?)^```", page, re.S | re.M)
    )


def listening(command: str, **how) -> tuple[int, str]:
    "Start what listens, wait until it says where, and stop it: its exit code and what it wrote."
    words = ["bash", "-c", f"exec {command.partition('#')[0]}"]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(words, **both, **how) as p:
        said = []
        for line in p.stdout:
            said.append(line)
            if "http://" in line:
                p.send_signal(signal.SIGINT)
        return p.wait(), "".join(said) if any(
            "http://" in line for line in said
        ) else "no address"


def run(command: str, listens: bool, **how) -> tuple[int, str]:
    "Run a line in bash: its exit code and what it wrote."
    if listens:
        return listening(command, **how)
    how |= {"input": QUESTION, "capture_output": True, "text": True}
    done = subprocess.run(["bash", "-c", command], **how)
    return done.returncode, done.stdout + done.stderr


def shell(folder: Path, borrow: bool) -> dict[str, str]:
    "The variables of a shell in a new environment."
    path = f"{environment(folder, borrow)}{os.pathsep}{os.environ['PATH']}"
    own = {k: v for k, v in os.environ.items() if k not in ("MTRAG_DATA", "PYTHONPATH")}
    return {**own, **OFFLINE, "PATH": path}


def main() -> int:
    ap, checks = arguments(__doc__), Checks()
    ap.add_argument("--list", action="store_true", help="say what would be run")
    ap.add_argument(
        "--borrow", action="store_true", help="install no package of the systems anew"
    )
    args = ap.parse_args()
    # A shell's background job ignores Ctrl-C, and so would the server that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    page = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in PAGES)
    todo = commands(page)
    left_out = sum(bool(where) for _, where in todo)
    if args.list:
        for command, where in todo:
            print(f"not run, {where} does it: {command}" if where else command)
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        folder, env = Path(tmp) / "here", None
        (folder / "data").mkdir(parents=True)
        for name in ("sample", "recorded"):
            shutil.copytree(ROOT / "data" / name, folder / "data" / name)
        shutil.copy(ROOT / "CONTRIBUTING.md", folder)  # as a document of one's own
        for name, text in files(page).items():
            (folder / name).write_text(text, encoding="utf-8")
        wheel = build(Path(tmp) / "wheel")
        for command, where in todo:
            if where:
                print(f"left out, {where} does it: {command}\n", flush=True)
                continue
            line = ADDRESS.sub(rf"'\1 @ {wheel.as_uri()}'", command)
            if line != command:
                systems = "[" in ADDRESS.search(command)[1]
                n = sum(1 for _ in Path(tmp).glob("env*"))
                env = shell(Path(tmp) / f"env{n}", args.borrow and systems)
                if args.borrow and systems:
                    line = line.replace(
                        "pip install", "pip install --no-deps --force-reinstall", 1
                    )
            with checks(f"$ {command}"):
                code, said = run(line, command.startswith(LISTENS), cwd=folder, env=env)
                print("\n".join(said.strip().splitlines()[-12:]))
                assert not code, code
    return checks.ended(f", {left_out} left out")


if __name__ == "__main__":
    sys.exit(main())
