from __future__ import annotations

import math
from typing import Any

import pytest

from drivetrain.base.bounds import ANY_NUMBER, Bounds, is_number
from drivetrain.base.json_options import wrong_type


@pytest.mark.parametrize(
    ("bounds", "words", "inside", "outside"),
    [
        (Bounds(1), "numbers from 1", (1, 1.0, 10**400), (0, 0.999, -1, -(10**400))),
        (Bounds(0, 10), "numbers from 0 to 10", (0, 10), (-0.1, 10.1)),
        (Bounds(most=2.5), "numbers to 2.5", (2.5, -7), (2.6,)),
        (Bounds(above=0), "numbers above 0", (1e-300,), (0, -1)),
        (Bounds(below=1), "numbers below 1", (0.999, -1), (1, 2)),
        (Bounds(0.000001, 1_000), "numbers from 0.000001 to 1000", (0.000001,), (0, 1_001)),
        (Bounds(0, below=1), "numbers from 0 to below 1", (0, 0.999), (1, -0.1)),
        (Bounds(above=0, below=1), "numbers above 0 and below 1", (0.5,), (0, 1)),
        (Bounds(0, 2**63 - 1), "numbers from 0 to 9223372036854775807", (2**63 - 1,), (2**63,)),
        (ANY_NUMBER, "numbers", (-1e300, 0), ()),
    ],
)
def test_values_within_bounds_are_accepted(
    bounds: Bounds, words: str, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    assert bounds.described() == words
    assert bounds.described(int) == f"whole {words}"
    assert all(map(bounds.hold, inside))
    assert not any(map(bounds.hold, (*outside, math.nan, math.inf, -math.inf)))


@pytest.mark.parametrize("value", [0, -1.5, 5e-324, 1.8e307, 2**60])
def test_finite_numbers_are_accepted(value: float) -> None:
    assert is_number(value)


@pytest.mark.parametrize("value", [True, None, "1", float("nan"), float("inf"), 10**400, [1]])
def test_numbers_beyond_a_double_are_refused(value: object) -> None:
    assert not is_number(value)


@pytest.mark.parametrize(
    ("value", "annotation", "allowed"),
    [
        (float("inf"), "float", "a number (finite)"),
        (float("nan"), "float", "a number (finite)"),
        (2**63, "float", "a number (finite)"),
        (2**63, "int", "a whole number (of 64 bits)"),
        (1.5, "int", "a whole number (of 64 bits)"),
        (True, "int", "a whole number (of 64 bits)"),
        ([1], "tuple[str, ...]", 'a list of texts, such as ["4", "8"]'),
        ("6", "tuple[str, ...]", 'a list of texts, such as ["4", "8"]'),
        (None, "str", "a text"),
        (1, "bool", "true or false"),
        (1, "float", None),
        (1e300, "float", None),
        (["a"], "tuple[str, ...]", None),
        ({"a": 1}, "int | None", None),
    ],
)
def test_a_value_of_a_wrong_type_is_told_what_is_allowed(value: Any, annotation: str, allowed: str | None) -> None:
    assert wrong_type(value, annotation) == allowed
