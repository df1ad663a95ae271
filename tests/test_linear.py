"""What reads outside text takes time in step with its length: the functions that read it, over units that are repeated. What
backtracks holds every thread of a service."""

import json
import re
import time

import pytest

from mtrag_nb.core.claims import check_claims
from mtrag_nb.core.files import parse_json
from mtrag_nb.core.text import content_words, declines, parse_verdict, sentences, titled, unmarked
from mtrag_nb.core.types import redacted
from mtrag_nb.serve.reply import without_sources

UNITS = (
    *(
        "?key",
        "?key=",
        "&token=x",
        "do ",
        "can't ",
        "is not found ",
        "do you ",
        "-1 ",
        "1.",
        "[",
        "[1]",
    ),
    *(
        " ",
        "\n",
        "a ",
        "a",
        "a b ",
        "a-",
        "1",
        "_ ",
        "( ",
        "{'",
        "<",
        "</think>",
        "<think>",
        "no ",
        "yes or ",
    ),
    *(
        "answer ",
        "answer (",
        "which is ",
        "I  ",
        "the documents do not ",
        "data, ",
        '"',
        "' ",
        "\\",
        "//",
        "@",
    ),
    *(
        "bearer ",
        "://a",
        "not ",
        "however, but ",
        "score: ",
        "it is ",
        "[[",
        "](",
        "![",
        "| ",
        "#",
        "- ",
        "=",
        "é ",
    ),
)


def slow(do, end: str) -> list[tuple[str, float]]:
    "The units over which a function takes more than .2 s of this processor for 12 kB; it is stopped as soon as that is clear."
    out = []
    for unit in UNITS:
        for size in (750, 1500, 3000, 6000, 12_000):
            text = (unit * (size // len(unit) + 1))[:size] + end
            begun = time.thread_time()
            do(text)
            if (took := time.thread_time() - begun) > 0.2:
                out.append((unit, took))
                break
    return out


PASSAGES = ["A dog costs 1 crown on the ferry, and 2 on deck. " * 40]
READERS = {
    "redacted": redacted,
    "declines": declines,
    "parse_verdict": parse_verdict,
    "a verdict's key": lambda x: parse_verdict(json.dumps({x: "yes"})),
    "sentences": sentences,
    "titled": titled,
    "unmarked": unmarked,
    "without_sources": without_sources,
    "content_words": content_words,
}


@pytest.mark.parametrize("name", READERS)
def test_what_reads_outside_text_is_linear(name):
    assert not slow(READERS[name], "")


def test_claims_are_checked_in_step_with_their_length():
    "Of a sentence a thousand tokens are looked at; what it is held against is bounded by the passages."
    begun = time.thread_time()
    for unit in ("-1 ", "dog 1 ", "Dog, no more "):
        check_claims(unit * 4000, [*PASSAGES, unit * 1000])
    assert time.thread_time() - begun < 10


def test_a_key_twice_among_very_many_is_found_at_once():
    keys = ", ".join(f'"{n}": 1' for n in (*range(100_000), 99_999))
    begun = time.thread_time()
    with pytest.raises(ValueError, match="'99999' stands twice"):
        parse_json(f"{{{keys}}}")
    assert time.thread_time() - begun < 3


@pytest.mark.parametrize(
    "text",
    [
        "http://h/v1?api_key=K&b=1",
        "?a=b?key=K",
        "x?key?y=K z",
        "&sig=K",
        "a key=K ?x",
        "?KEY=K#f",
        "?q='&mytoken=K'",
        "?a&b=c&auth=K",
        "?key=",
    ],
)
def test_a_secret_in_a_query_is_hidden_as_the_slow_pattern_hid_it(text):
    name = r"[^=&\s\"']*"
    slowly = rf"([?&]{name}(?:key|token|secret|passw|pwd|auth|sig){name}=)[^&\s\"'#]+"
    assert redacted(text) == re.sub(slowly, r"\1***", text, flags=re.I)
