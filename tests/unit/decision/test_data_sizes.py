"""Sizes of a change, as users write them."""

from __future__ import annotations

import math

import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.data_sizes import Limit, size


@pytest.mark.parametrize(
    ("written", "expected", "reached", "short"),
    [
        ("+5 points", 0.02, 0.07, 0.069),
        ("+5 points", 0.2, 0.25, 0.1),  # one side only
        ("5 points", 0.2, 0.15, 0.16),
        ("-1 point", 0.2, 0.19, 0.3),
        ("x2", 0.02, 0.04, 0.039),
        ("x0.5", 100.0, 50.0, 51.0),
        ("10 %", 100.0, 90.0, 91.0),
        ("+10%", -100.0, -90.0, -110.0),
        (3, 10.0, 13.0, 12.9),
        (-3, 10.0, 7.0, 14.0),
        ("1e3", 0.0, 1000.0, 999.0),
    ],
)
def test_a_size_is_reached(written: object, expected: float, reached: float, short: float) -> None:
    found = size(written, "columns: age: nulls: fail")
    assert found.reached(expected, reached) and not found.reached(expected, short)
    assert not found.reached(math.nan, reached) and not found.reached(expected, expected)


@pytest.mark.parametrize("written", ["5 pints", "", "x", "--3", "+-3", True, None, "5 points %", "+x2"])
def test_what_is_no_size_is_refused_with_its_place(written: object) -> None:
    with pytest.raises(InputError, match=r"^columns: age: nulls: fail: .* is not a size\. Allowed: '\+5 points'"):
        size(written, "columns: age: nulls: fail")


@pytest.mark.parametrize("written", [0, "x1", "0 points", math.inf])
def test_a_size_is_a_change(written: object) -> None:
    with pytest.raises(InputError, match=r"is (no change|not a size)\."):
        size(written, "age")


def test_a_limit_that_fails_warns() -> None:
    limit = Limit(fail=size("+5 points", ""))
    assert limit.warns(0.02, 0.08) and limit.fails(0.02, 0.08) and not limit.warns(0.02, 0.03)
    assert Limit(warn=size("x2", "")).warns(1.0, 2.0) and not Limit(warn=size("x2", "")).fails(1.0, 2.0)
