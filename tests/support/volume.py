"""Which cases of a parametrized test `make test` runs, and which only add volume: those are marked slow, and `make test-all` runs them."""

from collections.abc import Iterable
from itertools import product

import pytest

is_whole = True  # whether slow tests run, too; tests/conftest.py sets it


def few(cases: Iterable[object], count: int = 1) -> list[object]:
    "The first cases as they are, the others marked slow."
    marked = []
    for number, case in enumerate(cases):
        is_slow = number >= count
        marked.append(pytest.param(case, marks=pytest.mark.slow) if is_slow else case)
    return marked


def pairs(first: Iterable[object], second: Iterable[object]) -> list[object]:
    "All pairs of two kinds of cases; marked slow are those without the first of either kind."
    marked = []
    ones, others = list(first), list(second)
    for one, other in product(ones, others):
        is_slow = one != ones[0] and other != others[0]
        marks = [pytest.mark.slow] if is_slow else []
        marked.append(pytest.param(one, other, marks=marks))
    return marked
