"""Systems from outside: foreign programs in three frameworks, each unaware of this project, with a fault planted in one stage."""

import json
import re

import pytest

from mtrag_nb.core.files import data_dir
from mtrag_nb.evaluate.statistics import mean_interval
from tests.conftest import ROOT
from tests.support.foreign import FAULTS, HEAD, blamed, table, write_sample

# From spans alone


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[dict]:
    pytest.importorskip("openinference.instrumentation.llama_index")
    pytest.importorskip("openinference.instrumentation.langchain")
    folder = write_sample(tmp_path_factory.mktemp("foreign"))
    return [row for program in FAULTS for row in blamed(program, folder)]


def named_at_home() -> tuple[int, int]:
    "How often the stage with the planted fault is named in the systems of this package, as `7_evaluate/05_blame` measures it."
    book = json.loads((ROOT / "nbs/7_evaluate/05_blame.ipynb").read_text("utf-8"))
    shown = "".join("".join(o.get("text", ())) for c in book["cells"] for o in c.get("outputs", ()))
    named, broken = re.search(r"together: (\d+) of (\d+)", shown).groups()
    return int(named), int(broken)


def test_the_stage_is_named_from_spans_as_often_as_at_home(found):
    for row in [HEAD, *table(found)]:
        print(*row, sep="\t")
    for r in found:
        right = sum(s == r["stage"] for s in r["named"].values())
        assert len(r["named"]) >= 8, r
        assert right >= 0.95 * len(r["named"]), r
    hits = [float(s == r["stage"]) for r in found for s in r["named"].values()]
    talks = [i.partition("<")[0] for r in found for i in r["named"]]
    share, (named, broken) = mean_interval(hits, talks), named_at_home()
    print(f"together {share}; at home {named} of {broken}")
    assert share.value >= named / broken or share.low <= named / broken <= share.high


def test_the_table_that_is_kept_is_the_one_that_is_measured(found):
    kept = json.loads((data_dir("measured") / "outside.json").read_text("utf-8"))
    assert table(kept) == table(found)


def test_programs_know_nothing_of_this_project():
    for path in (ROOT / "tests" / "foreign").glob("*.py"):
        code = path.read_text("utf-8").partition('"""\n\n')[2]
        assert "mtrag" not in code.lower(), path
