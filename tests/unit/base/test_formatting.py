from __future__ import annotations

import math

import pytest

from drivetrain.base.formatting import cells, count, duration, number, printable, size, status_word


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.0, "0.00 s"), (9.994, "9.99 s"), (9.999, "10.0 s"), (59.99, "1 min 00 s"), (245, "4 min 05 s"),
     (7380, "2 h 03 min"), (360_000, "4 d 4 h"), (math.inf, "–")],
)  # fmt: skip
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.97222, "0.9722"), (1797, "1797"), (-2026.0, "-2026"), (9338.2, "9338"), (12345.6, "12,346"),
     (3.2e-7, "3.2e-07"), (0.0, "0"), (True, "true"), (math.nan, "nan"), (-0.05, "-0.05000")],
)  # fmt: skip
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_size_and_count() -> None:
    assert [size(n) for n in (0, 812, 4_100, 3_000_000, 999_600)] == ["0 B", "812 B", "4.1 kB", "3.0 MB", "1.0 MB"]
    assert count(1, "step") == "1 step" and count(1200, "step") == "1,200 steps"


def test_status_words() -> None:
    assert status_word("NotExecuted") == "not run"
    assert status_word("SomethingNew") == "SomethingNew"
    assert status_word(None) == ""


def test_terminal_commands_are_not_printable() -> None:
    assert printable("a\x1b]0;title\x07b\nc\u202ed") == "a�]0;title�b c�d"


def test_cells() -> None:
    assert cells("abc") == 3 and cells("数据") == 4 and cells("e\u0301") == 1
