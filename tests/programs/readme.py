"""Run the commands of README.md and docs/commands.md, copied as they are printed, in an empty folder that holds the sample.

  python tests/programs/readme.py [--list]

Every line of a ```bash block is run by bash, in the order of the page; a line that another test runs is left out, and it is told
which. A block below "`NAME.py`:" or "`NAME.jsonl`:" is that file, and a python block is run last. The last line reads
`N passed, N failed`.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/commands.md")
ELSEWHERE = {
    "pip install": "`make test-wheel`",
    "git clone": "`make test-anywhere`",
    "make demo": ".github/workflows/test.yml",
    "mtrag ask": "the notebook `serve/03_ask`",  # it waits for questions
    "mtrag serve": "`make test-browser`",  # it runs until it is stopped
}


def commands(page: str) -> list[tuple[str, str]]:
    'The commands of a page\'s bash blocks, in order: (command, what runs it in place of this test or "").'
    blocks = re.findall(r"^```bash\n(.*?)^```", page, re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines()]
    return [(n, next((w for b, w in ELSEWHERE.items() if n.startswith(b)), "")) for n in lines]


def files(page: str) -> dict[str, str]:
    "The files that the page shows: name -> text."
    return dict(re.findall(r"`(\w+\.(?:py|jsonl))`:\n\n```\w+\n(.*?)^```", page, re.S | re.M))


def programs(page: str) -> list[str]:
    "The python blocks that are no files, as commands."
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    return [f"python -c {shlex.quote(b)}" for b in blocks if b not in files(page).values()]


def main() -> int:
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--list", action="store_true", help="say what would be run")
    page = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in PAGES)
    todo, passed, failed = commands(page) + [(p, "") for p in programs(page)], 0, 0
    if ap.parse_args().list:
        for command, where in todo:
            print(f"not run, {where} does it: {command}" if where else command)
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        folder = Path(tmp)
        (folder / "data").mkdir()
        (folder / "data" / "sample").symlink_to(ROOT / "data" / "sample")
        shutil.copy(ROOT / "CONTRIBUTING.md", folder)  # as a document of one's own
        for name, text in files(page).items():
            (folder / name).write_text(text, encoding="utf-8")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        env.pop("MTRAG_DATA", None)
        for command, where in todo:
            if where:
                print(f"left out, {where} does it: {command}\n", flush=True)
                continue
            start = time.time()
            how = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, **how)
            passed, failed = passed + (not done.returncode), failed + bool(done.returncode)
            said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
            mark = f"FAIL ({done.returncode})" if done.returncode else "ok  "
            print(f"{mark} {time.time() - start:6.1f} s  $ {command}\n{said}\n", flush=True)
    print(f"{passed} passed, {failed + (not passed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
