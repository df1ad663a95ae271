"""Everything that is counted of released runs, into `data/measured/released.json`, with its picture.

Some five minutes; what was imported before is not imported again. With `OUT=FOLDER` what is kept is left as it is, and a page with
every number is written into that folder.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from mtrag_nb.core.files import data_dir, read_json, write_json
from mtrag_nb.core.html import View, esc, html_table
from mtrag_nb.core.types import plain
from mtrag_nb.evaluation.statistics import Interval
from mtrag_nb.show.figures import save_figure, shares_figure, svg_uri
from tools.studies.blame_rules import rewriting, rules
from tools.studies.counterfactual import control, counterfactual, same_misses
from tools.studies.ladder import break_even, by_gold_found, ladder, picture
from tools.studies.official_scores import (
    copied_beside,
    measure_order,
    parts_of_rb_agg,
    refusal_rule,
    scored_files,
    scores_by_cause,
)
from tools.studies.other_runs import by_model, model_files, test_set
from tools.studies.released_files import (
    ARMS,
    CONTEXTS,
    PROMPTS,
    arm_name,
    read_interval,
    released,
    rounded,
)
from tools.studies.released_self_crag import self_crag
from tools.studies.search_pairs import hard_core, search_pairs, searches


def files_used() -> dict[str, str]:
    "The files at hand, each with the checksum of what is in it, unpacked."
    paths = [p for p in sorted(released().rglob("*.json*")) if p.is_file()]
    return {
        p.relative_to(released()).as_posix().removesuffix(".gz"): hashlib.sha256(
            gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes()
        ).hexdigest()
        for p in paths
    }


def measure_all(out: Path) -> None:
    "Everything, into a file."
    with_retrieval = [a for a in ARMS if a[0] != "gold"]
    found = {
        "counterfactual": {arm_name(a): counterfactual(a) for a in with_retrieval},
        "control": {p: control(p) for p in PROMPTS},
        "same misses": same_misses(),
        "rules": rules(),
        "rewriting": rewriting(),
        "ladder": ladder(),
        "by gold found": by_gold_found(),
        "break even": {c: break_even(c) for c in CONTEXTS},
        "self_crag": self_crag(),
        "searches": searches(),
        "pairs": search_pairs(),
        "hard core": hard_core(),
        "rb_agg": {
            name: parts_of_rb_agg(path) for name, path in scored_files().items()
        },
        "refusal rule": refusal_rule(),
        "scores by cause": scores_by_cause(),
        "order": measure_order(),
        "copied": copied_beside(),
        "test set": test_set(),
        "models": {name: by_model(path) for name, path in model_files().items()},
        "picture": picture(),
        "files": files_used(),
    }
    write_json(out, rounded(plain(found)))


def leaves(found: object, name: str = "") -> Iterator[tuple[str, object]]:
    "Every number of the kept results, under its place."
    if isinstance(found, Mapping) and {"value", "low", "n"} <= found.keys():
        yield name, read_interval(found)
    elif isinstance(found, Mapping):
        for key, value in found.items():
            yield from leaves(value, f"{name}; {key}" if name else str(key))
    else:
        yield name, found


def page_of(kept: Mapping, fig: Figure) -> View:
    "The picture, and a table for each section: every interval with its turns and conversations."
    parts = [f"<img src='{svg_uri(fig)}' alt='What became of the turns of six runs'>"]
    for section, found in kept.items():
        rows = [
            [name, str(x), x.n, x.clusters]
            if isinstance(x, Interval)
            else [name, x, "", ""]
            for name, x in leaves(found)
        ]
        parts.append(
            f"<h2>{esc(section)}</h2>{html_table(['', 'value', 'n', 'conversations'], rows)}"
        )
    return View("What the released runs say", "".join(parts), "")


def measure_released() -> None:
    "Measure, keep, and draw the picture for light pages and dark ones."
    what = "share of the answerable turns, GPT-4o"
    own = os.environ.get("OUT")  # a folder: the kept results are left as they are
    out = Path(own or data_dir("measured")) / "released.json"
    measure_all(out)
    kept = read_json(out)
    picture = kept["picture"]
    figure = shares_figure(picture["counts"], picture["colours"], what)
    if own:
        page_of(kept, figure).save(out.with_suffix(".html"))
        return
    save_figure(figure, "released", formats=("png",), dark=True)
