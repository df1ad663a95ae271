"""The inner ring stands alone: everything else deleted, a system answers tasks of the sample and writes a page."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.test_house import ROOT, SOURCES, named_modules

RING = """core.types core.record models.chat models.calls search.nodes search.vector_store search.retrieve systems.stages
systems.system systems.self_crag runs.run evaluation.scores evaluation.blame show.turn""".split()
SCRIPT = """
from pathlib import Path
from string import ascii_lowercase
import numpy as np
from mtrag_nb.core.settings import load_settings
from mtrag_nb.data.mtrag import read_benchmark, read_tasks, sample_dir
from mtrag_nb.evaluation.blame import blame_turn
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat, first_sentence
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.show.turn import RunView
from mtrag_nb.systems.self_crag import SELF_CRAG

class Letters:
    fingerprint, dim = "letters", 26

    def encode(self, texts, query=False):
        rows = [[1 + t.lower().count(c) for c in ascii_lowercase] for t in texts]
        return np.array(rows, np.float32) / np.linalg.norm(rows, axis=1, keepdims=True)

sample = read_benchmark(sample_dir() / "reference.jsonl")
tasks = read_tasks(sample_dir() / "reference.jsonl", contexts=True)[:4]
models = Models(load_settings(), chat=ScriptedChat(first_sentence), embedder=Letters())
settings = SELF_CRAG.configure(load_settings())
run = run_tasks(
    SELF_CRAG, tasks, Path("run"), settings, setting="reference", models=models, progress=False
)
assert len(run.trajectories) == 4 and not any(t.failed for t in run.trajectories.values())
assert all(blame_turn(Evidence(run, sample.gold).rows[i]).stage is not None for i in run.trajectories)
page = RunView(run, gold=sample.gold)._repr_html_()
Path("page.html").write_text(page, encoding="utf-8")
assert len(page) > 5_000
"""


def closure(start: list[str]) -> set[str]:
    "Modules and everything that they import at any time."
    found, todo = set(), list(start)
    while todo:
        module = todo.pop()
        if module in found:
            continue
        found.add(module)
        imports = (
            n
            for n in ast.walk(ast.parse(SOURCES[module]))
            if isinstance(n, ast.ImportFrom)
        )
        todo += [m for node in imports for m in named_modules(node, module)]
    return found


def test_the_ring_stands_alone(tmp_path: Path):
    ring = closure(RING)
    package = tmp_path / "mtrag_nb"
    for module in ring:
        path = Path(module.replace(".", "/") + ".py")
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path.parent / "__init__.py").touch()
        shutil.copy(ROOT / "mtrag_nb" / path, package / path)
    shutil.copy(ROOT / "mtrag_nb" / "__init__.py", package)
    for name in ("sample", "measured", "paper", "page", "prompts", "refusals"):
        shutil.copytree(ROOT / "data" / name, tmp_path / "data" / name)
    shutil.copy(ROOT / "settings.ini", tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=alone(tmp_path),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "page.html").exists()


def alone(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder)}
