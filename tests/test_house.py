"""The rules of the house: notebooks and modules match, imports go one way, a system is named in one place, a record is read
without a model, and code is formatted."""

import ast
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from itertools import islice
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

import anywhere
import measures
import outputs
import readme
import release
import sync

ROOT = Path(__file__).resolve().parents[1]
NBS, PACKAGE = ROOT / "nbs", ROOT / "mtrag_nb"
FOLDERS = list(readme.FOLDERS)  # a folder may import from those above it
DIRECTIVES = set(
    "export exports exporti default_exp hide echo output slow gpu varies real models fresh slow_because".split()
)


@cache
def cells(notebook: str) -> list[dict]:
    found = json.loads((NBS / notebook).read_text(encoding="utf-8"))["cells"]
    return [{**c, "source": "".join(c["source"])} for c in found]


def code(notebook: str) -> list[str]:
    return [c["source"] for c in cells(notebook) if c["cell_type"] == "code"]


def exported(notebook: str) -> list[str]:
    kinds = {"export", "exports", "exporti"}
    return [s for s in code(notebook) if outputs.directives(s).keys() & kinds]


@cache
def parsed(source: str) -> ast.Module:
    "Syntax; magics of a cell are passed over."
    try:
        return ast.parse(source)
    except SyntaxError:
        return ast.parse(re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.M))


ROOMS = sync.written(NBS)
MODULE_OF = {notebook: names[0] for notebook, names in ROOMS.items() if names}
NOTEBOOK_OF = {module: notebook for notebook, module in MODULE_OF.items()}
PATHS = {module: PACKAGE / (module.replace(".", "/") + ".py") for module in NOTEBOOK_OF}
SOURCES = {module: path.read_text(encoding="utf-8") for module, path in PATHS.items()}


def test_each_module_has_one_notebook_of_its_name():
    assert sync.misfits(ROOMS, sync.modules(PACKAGE)) == []


def test_rooms_are_numbered_without_holes():
    for folder in {Path(n).parent.name for n in ROOMS if "/" in n}:
        names = sorted(Path(n).name for n in ROOMS if Path(n).parent.name == folder)
        numbers = [f"{i:02d}_" for i in range(len(names))]
        assert [n[:3] for n in names] == numbers, folder


def test_misfits_are_found():
    rooms = {
        "1_a/00_b.ipynb": ["a.b"],
        "1_a/01_b.ipynb": ["a.b"],
        "2_c/00_d.ipynb": ["c.e"],
    }
    assert len(sync.misfits(rooms, {"a.b", "x.y"})) >= 4


TOP = set(
    ".ci .gitattributes .gitconfig .github .gitignore CHANGELOG.md CITATION.cff CONTRIBUTING.md LICENSE MANIFEST.in Makefile "
    "README.md constraints.txt data docs figures langgraph.json mtrag_nb nbs pyproject.toml ruff.toml settings.ini setup.py tests tools".split()
)


def test_nothing_that_a_run_left_is_committed():
    "What a command writes lies in folders that git ignores; the top level names every file and folder that belongs here."
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("this is no clone")
    assert {path.split("/")[0] for path in listed.stdout.split("\0") if path} <= TOP


# Two files for one package


def test_pyproject_says_what_settings_say():
    toml = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, nbdev, ini = toml["project"], toml["tool"]["nbdev"], anywhere.CFG
    [author] = project["authors"]
    said = {
        "lib_name": project["name"],
        "git_url": project["urls"]["Repository"],
        "description": project["description"],
        "author": author["name"],
        "author_email": author["email"],
        "keywords": " ".join(project["keywords"]),
        "min_python": project["requires-python"].removeprefix(">="),
        **{k: nbdev[k] for k in ("lib_path", "nbs_path", "tst_flags")},
        **{k: " ".join(v) for k, v in nbdev.items() if k.startswith("allowed_")},
    }
    assert said == {name: ini[name] for name in said}
    built_with = toml["build-system"]["requires"][0].removeprefix("setuptools")
    assert f"setuptools{built_with}" in ini["run_requirements"].split()
    documented = ini["doc_host"] + ini["doc_baseurl"]
    assert project["urls"]["Documentation"].rstrip("/") == documented
    assert project["urls"]["Changelog"].startswith(ini["git_url"])
    least = f"Programming Language :: Python :: {ini['min_python']}"
    assert least in project["classifiers"]


PLATFORM_MODULES = {"mtrag_nb", "kaggle_secrets"}  # ours; Kaggle's own


def imported_modules() -> dict[str, str]:
    "Top-level module that the package imports -> a file that does, the standard library left out."
    modules = {}
    for path in (ROOT / "mtrag_nb").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            modules |= {name.partition(".")[0]: path.name for name in names}
    known = PLATFORM_MODULES | sys.stdlib_module_names
    return {name: file for name, file in modules.items() if name not in known}


def test_what_the_package_imports_is_declared():
    declared = set()
    for key, requirements in anywhere.CFG.items():
        if key.endswith("requirements"):
            names = re.findall(r"^[\w.-]+|(?<= )[\w.-]+", requirements)
            declared |= {name.lower().replace("_", "-") for name in names}
    distributions = packages_distributions()
    undeclared = {}
    for module, file in imported_modules().items():
        names = {
            n.lower().replace("_", "-") for n in distributions.get(module, [module])
        }
        if not names & declared:
            undeclared[module] = file
    assert undeclared == {}


def test_type_checkers_are_told_that_the_package_has_types():
    assert (ROOT / "mtrag_nb" / "py.typed").is_file()


def test_citation_and_changelog_have_the_version_and_the_address():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == anywhere.CFG["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, re.M)[1] == cited["version"]
    assert (cited["repository-code"], cited["url"]) == (anywhere.ADDRESS, anywhere.SITE)


def test_a_release_is_told_what_it_lacks(tmp_path):
    clone = tmp_path / "mine"
    git = [
        "git",
        "-C",
        str(clone),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
    ]
    if subprocess.run(
        ["git", "clone", "-q", "--shared", str(ROOT), str(clone)]
    ).returncode:
        pytest.skip("this is no clone")
    version = anywhere.CFG["version"]
    for name in ("CHANGELOG.md", "CITATION.cff"):
        text = (clone / name).read_text(encoding="utf-8").replace(version, "0.0.1")
        (clone / name).write_text(text, encoding="utf-8")
    subprocess.run([*git, "commit", "-qam", "wrong"], check=True)
    subprocess.run([*git, "tag", "v99.0"], check=True)
    (clone / "left").touch()
    found = {what: fine for what, fine, _ in islice(release.checks(clone, tmp_path), 4)}
    assert len(found) == 4 and not any(found.values())


def test_the_data_card_names_every_recorded_run_and_its_files():
    card = (ROOT / "data" / "README.md").read_text(encoding="utf-8").split("---")[1]
    files = {c["config_name"]: c["data_files"] for c in yaml.safe_load(card)["configs"]}
    runs = {p.name for p in (ROOT / "data" / "recorded").iterdir()}
    assert set(files) == runs | {"tasks", "passages"}
    assert all(any((ROOT / "data").glob(pattern)) for pattern in files.values())


def test_the_actions_of_workflows_are_pinned():
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    lines = [x for p in workflows for x in p.read_text(encoding="utf-8").splitlines()]
    used = [line for line in lines if "uses:" in line]
    assert used and all(re.search(r"@[0-9a-f]{40} # v\d", line) for line in used), used


# Checked where their programs are installed (pip install cffconvert datasets; actionlint)


def test_the_citation_is_valid():
    cffconvert = pytest.importorskip("cffconvert")
    cffconvert.Citation((ROOT / "CITATION.cff").read_text(encoding="utf-8")).validate()


def test_the_snippet_of_the_data_card_loads_a_run(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    pytest.importorskip("datasets")
    monkeypatch.chdir(ROOT)
    page = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], shown := {})
    assert len(shown["turns"]) == 16


@pytest.mark.skipif(
    not shutil.which("actionlint"), reason="actionlint is not installed"
)
def test_the_workflows_are_sound():
    done = subprocess.run(["actionlint"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# The direction of imports


def named_modules(node: ast.AST, module: str) -> list[str]:
    "The modules of the package that a piece of syntax imports or names; `module` is where it stands."
    if isinstance(node, ast.Import):
        found = [a.name for a in node.names]
    elif isinstance(node, ast.ImportFrom):
        above = f"mtrag_nb.{module}".split(".")[: -node.level] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        found = [base, *(f"{base}.{a.name}" for a in node.names)]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = [node.value.partition(":")[0]]
    else:
        found = []
    return [f[9:] for f in found if f.startswith("mtrag_nb.") and f[9:] in NOTEBOOK_OF]


def imports(source: str, module: str) -> set[str]:
    return {
        name
        for node in ast.walk(parsed(source))
        for name in named_modules(node, module)
    }


def place(notebook: str) -> tuple[int, str]:
    folder, _, room = notebook.rpartition("/")
    return FOLDERS.index(folder), room


def test_imports_are_read_everywhere():
    source = """from ..core.types import Task
def later():
    from . import stages
    import mtrag_nb.data.mtrag
where = 'mtrag_nb.systems.system:System'"""
    expected = {"core.types", "systems.stages", "data.mtrag", "systems.system"}
    assert imports(source, "systems.nodes") == expected


def test_imports_go_one_way():
    wrong = [
        f"{module} imports {other}"
        for module, source in SOURCES.items()
        for other in imports(source, module)
        if other != module and place(NOTEBOOK_OF[other]) >= place(NOTEBOOK_OF[module])
    ]
    assert not wrong, "\n".join(wrong)


def test_what_a_program_imports_is_there(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "programs")
    elsewhere = {
        "sphinx",
        "playwright",
        "axe_playwright_python",
    }  # of the site, of a browser
    named = set()
    for path in (*ROOT.glob("tools/*.py"), *ROOT.glob("tests/programs/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {(path.name, a.name.partition(".")[0]) for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                named.add((path.name, node.module.partition(".")[0]))
    assert not [
        x for x in named if x[1] not in elsewhere and not importlib.util.find_spec(x[1])
    ]


def test_cells_use_no_folder_below():
    wrong = [
        f"{notebook} uses {other}"
        for notebook, module in MODULE_OF.items()
        for cell in code(notebook)
        for other in imports(cell, module)
        if place(NOTEBOOK_OF[other])[0] > place(notebook)[0]
    ]
    assert not wrong, "\n".join(wrong)


def bound(body: list[ast.stmt]) -> set[str]:
    "The names that statements bind, those under a condition included."
    names = set()
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.If, ast.Try)):
            names |= bound(node.body) | bound(node.orelse)
        else:
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names


def test_what_a_cell_imports_from_a_room_is_there():
    there = {
        f"mtrag_nb.{m}": bound(parsed(source).body) for m, source in SOURCES.items()
    }
    wrong = [
        f"{notebook}: {node.module} has no {name.name}"
        for notebook in ROOMS
        for cell in code(notebook)
        for node in ast.walk(parsed(cell))
        if isinstance(node, ast.ImportFrom) and node.module in there
        for name in node.names
        if name.name not in there[node.module]
    ]
    assert not wrong, "\n".join(wrong)


# Systems


PAPERS = {  # about the papers, by name
    "8_show/08_paper_table.ipynb",
    "8_show/09_specification.ipynb",
    "8_show/10_papers.ipynb",
}
THE_DEFAULT = "DEFAULT = "  # of settings, so that help need not load the systems


def test_a_system_is_named_in_one_place():
    from mtrag_nb.core.settings import DEFAULT
    from mtrag_nb.systems.outside import SYSTEMS

    names = "|".join(name.replace("_", "[ _-]?") for name in SYSTEMS)
    pattern = re.compile(rf"(?<![a-z])({names})(?![a-z])", re.I)
    # urllib's function, html.escape's parameter
    foreign = re.compile(r"import quote\b|\bquote(?=[(=])")
    wrong = [
        f"{notebook}: {line.strip()}"
        for notebook in MODULE_OF
        if not notebook.startswith("5_systems/") and notebook not in PAPERS
        for cell in exported(notebook)
        for line in cell.splitlines()
        if not line.startswith(THE_DEFAULT) and pattern.search(foreign.sub("", line))
    ]
    assert not wrong, "\n".join(wrong)
    assert DEFAULT == next(iter(SYSTEMS))


# Records


BLOCKED = """
import sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"{{name}} is blocked")

sys.meta_path.insert(0, Nowhere())
"""
READER = """
import importlib, tempfile
from collections import Counter
from pathlib import Path

for room in {rooms}:
    importlib.import_module("mtrag_nb." + room)

from mtrag_nb.core.files import data_dir
from mtrag_nb.show.report import write_report

folder, out = data_dir("recorded") / "sample_ncl", Path(tempfile.mkdtemp())
opened = Counter()

def count(event, args):
    if event == "open" and str(args[0]).startswith(str(folder)):
        opened[Path(str(args[0])).name] += 1

sys.addaudithook(count)
assert write_report([folder], out / "report.html").stat().st_size > 10_000
assert set(opened) >= {{"manifest.json", "trajectories.jsonl", "passages.jsonl"}}, opened
assert set(opened.values()) == {{1}}, opened
"""
MEASURING = {"evaluation.calibrate"}  # it asks models, too
HEAVY = "torch langgraph langsmith langchain_core qdrant_client qdrant_edge llama_index transformers sentence_transformers"


def run_light(program: str) -> None:
    "Run a program where the models and systems are not installed."
    script = BLOCKED.format(blocked=HEAVY.split()) + program
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-1500:]


def test_a_run_is_reported_without_a_model_and_read_once():
    reading = ("core.", "data.", "evaluation.", "show.")
    rooms = sorted(
        set(m for m in MODULE_OF.values() if m.startswith(reading)) - MEASURING
    )
    run_light(READER.format(rooms=rooms))


# Pages and layout


@pytest.mark.parametrize("notebook", sorted(ROOMS))
def test_a_notebook_begins_with_its_purpose_and_knows_its_directives(notebook):
    title, purpose = readme.head(NBS / notebook)
    marks = {m for source in code(notebook) for m in outputs.directives(source)}
    assert title and len(purpose) > 20 and marks <= DIRECTIVES, marks - DIRECTIVES


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda p: p.name
)
def test_the_links_of_a_page_lead_to_files(page):
    links = re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert all((page.parent / link).exists() for link in links), links


def test_each_target_of_make_that_is_named_exists():
    there = set(
        re.findall(
            r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M
        )
    )
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]
    pages += [
        *NBS.rglob("*.ipynb"),
        *ROOT.glob("tools/*.py"),
        *ROOT.glob("tests/**/*.py"),
    ]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"(?:`|^|\n)make ([a-z][a-z-]+)", text))
        assert named <= there, (page.name, named - there)


@pytest.mark.parametrize("notebook", sorted(ROOMS))
def test_a_notebook_that_is_named_exists(notebook):
    text = "\n".join(c["source"] for c in cells(notebook))
    for name in re.findall(r"`((?:\d_\w+/|tour/)?\d\d[a-z]?_[a-z_]+)`", text):
        folder = NBS if "/" in name else (NBS / notebook).parent
        assert (folder / f"{name}.ipynb").is_file(), f"no notebook {name}"


def test_readme_is_read_in_four_minutes_and_names_what_is_here():
    "At most 110 lines and 750 words as rendered, tables and code with them: 180 a minute."
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110
    page = MarkdownIt().enable("table").render(text)
    words = re.sub(r"<[^>]+>", "", page).split()
    assert len(words) <= 750
    first = " ".join(words[:150])
    named = (
        "Self-CRAG NCL multi-agent NexusRAG Jupyter LangGraph LlamaIndex Qwen".split()
    )
    assert [n for n in named if n not in first] == []
    assert [
        n for n in ("a free T4", "the papers' figures", "in a widget") if n not in first
    ] == []
    opened = re.search(r"^.*a free T4.*$", text, re.M)[0]
    for name in (
        "00_walkthrough",
        "04_reproduce",
        "01_cases",
    ):  # the uses, one click away
        assert f"nbs/tour/{name}.ipynb)" in opened
    shown = re.findall(r'(?:src|srcset|href)="(?!http)([^"]+)"', text)
    assert shown and all((ROOT / name).is_file() for name in shown), shown


EVERY = sorted(p.relative_to(NBS).as_posix() for p in NBS.rglob("*.ipynb"))


@pytest.mark.parametrize("notebook", EVERY)
def test_outputs_carry_no_path_of_a_machine(notebook):
    made = [o for c in cells(notebook) for o in c.get("outputs", [])]
    shown = ["".join(o["text"]) for o in made if o["output_type"] == "stream"]
    assert not re.findall(
        r"(?<![\w.:/])/(?:home|root|work|Users|mnt)/\S+", "".join(shown)
    )


def test_a_kept_output_names_files_from_the_clone_on():
    told = {
        "output_type": "stream",
        "name": "stdout",
        "text": f"read {ROOT}/data/sample\n",
    }
    assert outputs.worth_keeping([told])[0]["text"] == "read data/sample\n"


def test_a_difference_is_shown_where_it_is():
    kept, fresh = ("a" * 3000 + end + "c" * 3000 for end in ("before", "after"))
    told = outputs.difference([kept], [fresh])
    assert "aabefore" in told and "aaafter" in told and len(told) < 900
    assert outputs.difference(["x"], ["y"]) == "- x\n+ y"


def test_ruff_decides_the_layout():
    for command in ("format --check", "check --select E731,E701,E702"):
        words = [
            sys.executable,
            "-m",
            "ruff",
            *command.split(),
            "nbs",
            "tools",
            "tests",
        ]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-500:]


def test_no_module_imports_a_name_twice_or_for_nothing():
    words = [sys.executable, "-m", "ruff", "check", "--select", "F401,F811", "mtrag_nb"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-500:]


ALIKE = ["AUROC 0.983|AUROC 0.984", ".629|.630", "cost   9.99  12|cost  10.00  12"]
ALIKE += ["p = 1.2e-05|p = 1.3e-05", "-0.00|0.00"]
UNLIKE = ["12 turns|13 turns", "AUROC 0.983|AUROC 0.971", "1.2.3|1.2.4", "yes|no"]


@pytest.mark.parametrize("both", [*ALIKE, *UNLIKE])
def test_outputs_that_say_the_same(both):
    assert outputs.same(*both.split("|")) == (both in ALIKE)


# Measures

KEPT = json.loads((ROOT / "tests" / "measures.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    return measures.measure()


@pytest.mark.parametrize("name", KEPT)
def test_a_measure_of_the_code_only_improves(name: str, measured: dict[str, float]):
    "tests/measures.json holds what was reached; who improves a measure lowers it there."
    assert measured[name] <= KEPT[name], f"python tools/measures.py --worst: {name}"


def test_every_measure_is_kept(measured: dict[str, float]):
    assert list(KEPT) == list(measured)


def test_measures_of_a_small_module(tmp_path: Path):
    source = """import os

class Shop:
    "A shop."
    price: int = 3
    "In crowns."

def cost(shop: "_Shop", count):  # a comment
    total, word = shop.price, "a"
    return [x for y in word for x in y] if count else total
"""
    (tmp_path / "shop.py").write_text(source, encoding="utf-8")
    shop = measures.weigh(tmp_path)
    assert shop.lines == 5
    assert shop.shapes["ternaries"] == 1
    assert shop.shapes["nested comprehensions"] == 1
    assert shop.shapes["unrelated pairs"] == 1
    assert shop.shapes["untyped parameters"] == 1
    assert shop.functions == [(3, "shop.py:8 cost")]


# Processes of a runner that was killed

START = """import subprocess, sys, time
p = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
print(p.pid, flush=True)
time.sleep(600)"""
SLEEP = "print('ready', flush=True), __import__('time').sleep(600)"
ATTACHED = {  # each prints a line when it has begun
    "the runner": f"import run_notebooks; run_notebooks.end_with_parent(); {SLEEP}",
    "the zygote while it imports": f"import sys, zygote; zygote.importlib.import_module = lambda name: ({SLEEP}); zygote.serve(sys.argv[1])",
    "a client of the zygote": "import socket, sys, zygote; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); zygote.signal.signal = lambda *a: print('ready', flush=True); zygote.ask(sys.argv[1], [])",
}


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are read from /proc"
)
@pytest.mark.parametrize("name", ATTACHED)
def test_what_a_killed_runner_started_ends_too(name, tmp_path):
    command = [sys.executable, "-c", START, ATTACHED[name], str(tmp_path / "socket")]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=env
    ) as parent:
        pid = int(parent.stdout.readline())
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
    stat = Path(f"/proc/{pid}/stat")
    for _ in range(200):
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    pytest.fail(f"{name} runs on")
