"""The service's patterns in Python: each compiles, none can be made to run for ever, classes mean what Java means."""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest

from drivetrain.targets.sagemaker.document.service import service, shapes

ALL = sorted({shape["pattern"] for shape in service()["shapes"].values() if "pattern" in shape})
BLOCKS = (
    "a",
    "-",
    "a-",
    "-a",
    "/",
    "s3://a/",
    ".",
    " ",
    "\n",
    "1",
    "_",
    "a.",
    "arn:aws:sagemaker:x:123456789012:",
    "é",
)


@pytest.mark.parametrize("pattern", ALL)
def test_every_pattern_answers_at_once_whatever_it_is_given(pattern: str) -> None:
    shapes.matches(pattern, "")
    start = time.process_time()
    for block in BLOCKS:
        for tail in ("", "\0", "\n", "!"):
            longest = block * (shapes.MAX_CHARACTERS // len(block))
            shapes.matches(pattern, longest[: shapes.MAX_CHARACTERS - 1] + tail)
    # 56 values of 16,384 characters take about 20 ms; an exponential pattern would take for ever with any of them.
    assert time.process_time() - start < 5


@pytest.mark.slow_cases("L")
@pytest.mark.parametrize("name", ["L", "M", "N", "P", "S", "Z"])
def test_unicode_classes_hold_exactly_their_characters(name: str) -> None:
    # \x07 stands in the class because that of marks has no ASCII member, and an empty class is no class.
    sample = [chr(code) for code in (*range(8, 128), *range(128, sys.maxunicode, 97)) if not 0xD800 <= code < 0xE000]
    wrong = [
        character
        for character in sample
        if shapes.matches(f"[\\p{{{name}}}\\x07]", character) != unicodedata.category(character).startswith(name)
    ]
    assert wrong == []


def test_the_whole_value_must_match() -> None:
    assert shapes.matches("[a-z]+", "abc")
    assert not shapes.matches("[a-z]+", "abc\n")
    assert not shapes.matches("[a-z]+", "abc1")


def test_java_s_classes_are_ascii() -> None:
    assert not shapes.matches(r"\w+", "é")
    assert not shapes.matches(r"\d+", "٣")
    assert not shapes.matches(r"arn:[\p{Alnum}\-]+", "arn:é")


def test_a_counted_end_and_a_pair_of_surrogates_are_read() -> None:
    tag = r"([\p{L}\p{Z}\p{N}_.:\/=+\-@]*)${1,256}"
    assert shapes.matches(tag, "kosten: müller")
    assert not shapes.matches(tag, "a;b")
    text = r"[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\t]*"
    assert shapes.matches(text, "ascii, ü and 😀")
    assert not shapes.matches(text, "\0")


def test_a_value_that_is_far_too_long_is_left_to_its_maximum() -> None:
    assert shapes.matches("[a-z]+", "1" * (shapes.MAX_CHARACTERS + 1))
