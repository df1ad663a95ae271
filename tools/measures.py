"""Count how heavy and how dense the code is, so that both can only fall.

  python tools/measures.py            the measures, one a line
  python tools/measures.py --worst    the hardest functions and the largest modules

Terms:
  mass       AST nodes without imports, annotations and docstrings: what a reader has to understand.
             Types, documentation and line breaks cost nothing.
  density    mass per line of code; blank lines, comments, imports and docstrings are no code.
  decisions  of a function: branches, loops, comprehensions and their conditions, boolean operators,
             assignments inside expressions, lambdas, handlers of exceptions.

`tests/test_house.py` holds each measure against the value in tests/measures.json.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mtrag_nb"
HARD = 10  # decisions
LARGE = 600  # lines of code of a module
LONG_CELL = 30  # lines of code of an export cell

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
IMPORTS = (ast.Import, ast.ImportFrom)
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.NamedExpr,
    ast.Lambda,
    ast.ExceptHandler,
    ast.match_case,
)


def is_docstring(node: ast.AST) -> bool:
    "Whether a statement is a text alone: a docstring, or a string below a field."
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def code_parts(node: ast.AST) -> Iterator[ast.AST]:
    "The children of a node that count as code."
    if isinstance(node, ast.AnnAssign):
        yield node.target
        if node.value is not None:
            yield node.value
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST) and not is_docstring(part):
                yield part


def mass(tree: ast.AST) -> int:
    "The number of AST nodes that count as code."
    total = 0
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*IMPORTS, ast.expr_context)):
            continue
        total += 1
        waiting += code_parts(node)
    return total


def code_lines(source: str) -> int:
    "The number of lines with code on them."
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, IMPORTS) or is_docstring(node):
            skipped.update(range(node.lineno, node.end_lineno + 1))
    count = 0
    for number, line in enumerate(source.splitlines(), 1):
        text = line.strip()
        if number not in skipped and text and not text.startswith("#"):
            count += 1
    return count


def decisions(function: ast.AST) -> int:
    "How often a function decides."
    count = 0
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, COMPREHENSIONS):
            count += len(node.generators)
            count += sum(len(generator.ifs) for generator in node.generators)
    return count


def is_nested(comprehension: ast.AST) -> bool:
    "Whether a comprehension has two loops, or another comprehension inside."
    if len(comprehension.generators) > 1:
        return True
    inner = (n for n in ast.walk(comprehension) if n is not comprehension)
    return any(isinstance(node, COMPREHENSIONS) for node in inner)


def is_unrelated_pair(node: ast.AST) -> bool:
    "Whether a statement is `a, b = x, y` and no swap."
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
        return False
    names = {ast.unparse(element) for element in target.elts}
    return names != {ast.unparse(element) for element in node.value.elts}


def untyped_parameters(function: ast.AST) -> int:
    "How many parameters of a function have no annotation."
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(a.annotation is None and a.arg not in ("self", "cls") for a in named)


def public_hints(definition: ast.AST) -> Iterator[ast.AST]:
    "The annotations that a user of a public function or class sees."
    methods = [definition]
    if isinstance(definition, ast.ClassDef):
        methods = [n for n in definition.body if isinstance(n, FUNCTIONS)]
        methods = [m for m in methods if m.name == "__init__" or m.name[0] != "_"]
        for node in definition.body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target)[0] != "_":
                yield node.annotation
    for method in methods:
        for argument in (*method.args.args, *method.args.kwonlyargs):
            if argument.annotation:
                yield argument.annotation
        if method.returns:
            yield method.returns


def names_private_type(definition: ast.AST) -> bool:
    "Whether the public signature of a definition names a private type."
    for hint in public_hints(definition):
        for node in ast.walk(hint):
            if isinstance(node, ast.Name) and node.id.startswith("_"):
                return True
    return False


@dataclass
class Weights:
    "The counts of one folder of modules."

    mass: int = 0
    lines: int = 0
    shapes: Counter[str] = field(default_factory=Counter)
    functions: list[tuple[int, str]] = field(default_factory=list)
    "Decisions of each function, and where it stands."
    modules: list[tuple[int, str]] = field(default_factory=list)
    "Lines of code of each module, and its path."
    public: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    "Public name -> the modules that define it."

    def per_thousand_lines(self, shape: str) -> float:
        return round(1000 * self.shapes[shape] / max(1, self.lines), 1)


def count_shapes(tree: ast.Module, where: str, weights: Weights) -> None:
    "Add what stands in one module to the counts."
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            weights.shapes["ternaries"] += 1
        elif isinstance(node, COMPREHENSIONS):
            weights.shapes["nested comprehensions"] += is_nested(node)
        elif isinstance(node, ast.Assign):
            weights.shapes["unrelated pairs"] += is_unrelated_pair(node)
        elif isinstance(node, FUNCTIONS):
            weights.shapes["untyped parameters"] += untyped_parameters(node)
            place = f"{where}:{node.lineno} {node.name}"
            weights.functions.append((decisions(node), place))
    for node in tree.body:
        is_definition = isinstance(node, (ast.ClassDef, *FUNCTIONS))
        if is_definition and not node.name.startswith("_"):
            weights.public[node.name].append(where)
            weights.shapes["private types"] += names_private_type(node)


def weigh(folder: Path) -> Weights:
    "Count all modules below a folder, without the index that nbdev writes."
    weights = Weights()
    for path in sorted(folder.rglob("*.py")):
        if path.name == "_modidx.py" or "__pycache__" in path.parts:
            continue
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        where = path.relative_to(folder).as_posix()
        lines = code_lines(source)
        weights.mass += mass(tree)
        weights.lines += lines
        weights.modules.append((lines, where))
        count_shapes(tree, where, weights)
    return weights


def cell_lines(source: str) -> int:
    "The lines of code of a cell; directives and magics are none."
    lines = source.splitlines()
    kept = [x for x in lines if not x.lstrip().startswith(("#|", "%", "!"))]
    try:
        return code_lines("\n".join(kept))
    except SyntaxError:
        return sum(bool(x.strip()) for x in kept)


def count_cells(notebooks: Path) -> tuple[list[int], list[int]]:
    "Lines of code of each export cell, and of each other code cell."
    export: list[int] = []
    other: list[int] = []
    for path in sorted(notebooks.rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts:
            continue
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] != "code":
                continue
            source = "".join(cell["source"])
            lines = cell_lines(source)
            if not source.startswith("#| export"):
                other.append(lines)
            elif lines:
                export.append(lines)
    return export, other


def measure() -> dict[str, float]:
    "All measures of this repository, by name; less is better for each."
    package = weigh(PACKAGE)
    export, other = count_cells(ROOT / "nbs")
    long_cells = sum(lines > LONG_CELL for lines in export)
    return {
        "mass of the package": package.mass,
        "density": round(package.mass / package.lines, 2),
        "ternaries per 1,000 lines": package.per_thousand_lines("ternaries"),
        "nested comprehensions per 1,000 lines": package.per_thousand_lines(
            "nested comprehensions"
        ),
        "unrelated pairs per 1,000 lines": package.per_thousand_lines(
            "unrelated pairs"
        ),
        "hard functions": sum(count > HARD for count, _ in package.functions),
        "large modules": sum(lines > LARGE for lines, _ in package.modules),
        "untyped parameters": package.shapes["untyped parameters"],
        "private types in public signatures": package.shapes["private types"],
        "public names defined twice": sum(len(w) > 1 for w in package.public.values()),
        "median lines of an export cell": statistics.median(export),
        "long export cells, percent": round(100 * long_cells / len(export), 1),
        "lines of other cells": sum(other),
        "mass of the tests": weigh(ROOT / "tests").mass,
    }


def print_worst(count: int = 40) -> None:
    "Print the hardest functions and the largest modules of the package."
    package = weigh(PACKAGE)
    for number, place in sorted(package.functions, reverse=True)[:count]:
        print(f"{number:4} decisions  {place}")
    for lines, place in sorted(package.modules, reverse=True)[:count]:
        print(f"{lines:4} lines  {place}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worst", action="store_true")
    if parser.parse_args().worst:
        print_worst()
    else:
        for name, value in measure().items():
            print(f"{value:>10,}  {name}")
