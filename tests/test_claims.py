"""The check of claims against planted falsehoods and true paraphrases of the sample's sentences, made by rule."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtrag_nb.core.claims import _FEATURES, _claim_features, check_claims, draft_score
from mtrag_nb.core.text import sentences, support
from tests.support.claims import FALSE, TRUE, of_sample

CLAIMS = of_sample(half=1)  # the half that did not choose


@pytest.fixture(scope="module")
def rejected() -> dict[str, list[bool]]:
    "Kind -> whether each of its claims is rejected."
    found: dict[str, list[bool]] = {}
    for c in CLAIMS:
        bad = not all(x.supported for x in check_claims(c.text, c.passages))
        found.setdefault(c.kind, []).append(bad)
    return found


def share(rejected: dict, kinds) -> float:
    every = [x for k in kinds for x in rejected.get(k, ())]
    return sum(every) / len(every)


def test_there_are_enough_claims_of_every_kind():
    found = Counter(c.kind for c in CLAIMS)
    assert min(found[k] for k in FALSE) >= 10, found
    assert sum(found[k] for k in TRUE) > 300, found


def test_falsehoods_are_caught_and_paraphrases_pass(rejected):
    assert share(rejected, FALSE) >= 0.85 and share(rejected, TRUE) <= 0.10


@pytest.mark.parametrize("kind", FALSE)
def test_every_kind_of_falsehood_is_caught_mostly(rejected, kind):
    assert share(rejected, [kind]) >= 0.7


@pytest.mark.parametrize("kind", [k for k in TRUE if k != "passive"])
def test_no_kind_of_paraphrase_is_rejected_often(rejected, kind):
    assert share(rejected, [kind]) <= 0.15


def test_the_share_of_words_passes_most_falsehoods():
    false = [c for c in CLAIMS if not c.true]
    assert sum(support(c.text, c.passages) < 0.6 for c in false) < 0.2 * len(false)


def test_the_order_of_passages_changes_nothing():
    for c in random.Random(0).sample(CLAIMS, 50):
        one, other = (
            _claim_features(c.text, p) for p in (c.passages, c.passages[::-1])
        )
        assert {f: v for f, (v, _) in one.items()} == {
            f: v for f, (v, _) in other.items()
        }, c.text


@given(st.text(max_size=200), st.lists(st.text(max_size=200), max_size=3))
def test_any_text_has_claims_and_a_score(draft, passages):
    claims = check_claims(draft, passages)
    assert [c.text for c in claims] == sentences(draft) and 0 <= draft_score(
        draft, passages
    ) <= 1
    assert all(0 <= c.score <= 1 and c.supported == (not c.why) for c in claims)
    assert set(_claim_features(draft, passages)) == set(_FEATURES)


@given(st.sampled_from([c for c in CLAIMS if c.true]))
def test_a_sentence_is_supported_by_itself(c):
    assert all(x.supported for x in check_claims(c.text, [c.text]))
