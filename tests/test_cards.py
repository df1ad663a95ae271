"The table of run cards that anyone extends: each card fits its schema, and the sample's are what the report writes now."

import json
from pathlib import Path

import jsonschema
import pytest

from mtrag_nb.core.files import data_dir, read_json
from mtrag_nb.show.report import write_report

CARDS = sorted((Path(__file__).resolve().parents[1] / "data" / "cards").glob("*.json"))
COUNTED = "run identity tasks turns conversations outcomes".split()


@pytest.mark.parametrize("path", CARDS, ids=lambda p: p.stem)
def test_cards_fit_their_schema_and_their_turns_add_up(path):
    cards = read_json(path, list)
    jsonschema.validate(cards, read_json(data_dir("page") / "card.json"))
    assert all(sum(card["outcomes"].values()) == card["turns"] for card in cards)
    assert all(str(Path.home()) not in json.dumps(card) for card in cards)


def test_no_run_stands_twice():
    cards = [card for path in CARDS for card in read_json(path, list)]
    assert len({json.dumps([c["identity"], c["tasks"]]) for c in cards}) == len(cards)


def test_the_samples_cards_are_what_the_report_writes(tmp_path):
    runs = sorted(data_dir("recorded").iterdir())
    page = write_report(runs, tmp_path / "report.html")
    now = read_json(page.with_suffix(".cards.json"), list)
    kept = read_json(next(p for p in CARDS if p.stem == "sample"), list)
    assert [[c[k] for k in COUNTED] for c in now] == [
        [c[k] for k in COUNTED] for c in kept
    ]
