"""Ranges: what may be given, and which values come out of them."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.run.tuning.space import Categorical, Continuous, Integer, read_ranges


def integer(name: str, low: str, high: str, scaling: str = "Linear") -> dict[str, Any]:
    bounds = {"Name": name, "MinValue": low, "MaxValue": high, "ScalingType": scaling}
    return {"IntegerParameterRanges": [bounds]}


def continuous(name: str, low: str, high: str, scaling: str = "Linear") -> dict[str, Any]:
    return {"ContinuousParameterRanges": integer(name, low, high, scaling)["IntegerParameterRanges"]}


def test_ranges_are_read_in_their_order() -> None:
    given = {
        **continuous("eta", "0.1", "0.3"),
        **integer("depth", "1", "10"),
        "CategoricalParameterRanges": [{"Name": "optimizer", "Values": ['"sgd"', '"adam"', '"sgd"']}],
    }
    assert read_ranges(given) == (
        Categorical("optimizer", ('"sgd"', '"adam"')),
        Integer("depth", 1, 10),
        Continuous("eta", 0.1, 0.3),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (continuous("x", "0", "1", "Logarithmic"), "Logarithmic needs values above 0"),
        (continuous("x", "0", "1", "ReverseLogarithmic"), "ReverseLogarithmic needs 0 <= x < 1"),
        (integer("x", "1", "5", "ReverseLogarithmic"), "is for ContinuousParameterRanges"),
        (continuous("x", "2", "1"), "MinValue 2 is above MaxValue 1"),
        (continuous("x", "one", "2"), "MinValue is 'one'. Allowed: a number"),
        (continuous("x", "0", "inf"), "MaxValue is 'inf'"),
        (continuous("x", 10**400, "1"), "MinValue is 1000"),  # type: ignore[arg-type]
        (integer("x", "0.5", "2"), "whole numbers"),
        (continuous("x", "1", "2", "Log"), "ScalingType is 'Log'. Allowed: Auto, Linear"),
        ({"CategoricalParameterRanges": [{"Name": "x", "Values": []}]}, "at least one value"),
        ({**continuous("x", "1", "2"), **integer("x", "1", "2")}, "'x' has two ranges"),
        ({"AutoParameters": [{"Name": "x", "ValueHint": "1"}]}, "Autotune"),
        (continuous("", "1", "2"), "a range is named ''"),
    ],
)
def test_impossible_ranges_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_ranges(given)


@pytest.mark.parametrize(
    ("low", "high", "expected"), [("0.0001", "1", "Logarithmic"), ("0", "1000", "Linear"), ("0.1", "1", "Linear")]
)
def test_auto_searches_by_orders_of_magnitude_what_spans_two_of_them(low: str, high: str, expected: str) -> None:
    (found,) = read_ranges(continuous("x", low, high, "Auto"))
    assert isinstance(found, Continuous) and found.scaling == expected


@pytest.mark.parametrize(
    ("one", "middle"),
    [
        (Continuous("x", -1, 3), 1.0),
        (Continuous("x", 1e-4, 1.0, "Logarithmic"), 1e-2),
        # As far from 0.9 as from 0.999 in orders of magnitude of the distance from 1.
        (Continuous("x", 0.9, 0.999, "ReverseLogarithmic"), 0.99),
    ],
)
def test_the_middle_of_a_scale(one: Continuous, middle: float) -> None:
    assert float(one.at(0.5)) == pytest.approx(middle)
    assert (float(one.at(0.0)), float(one.at(1.0))) == (pytest.approx(one.low), pytest.approx(one.high))
    for unit in (0.0, 0.123, 0.5, 0.999):
        assert one.unit(one.at(unit)) == pytest.approx(unit, abs=1e-9)


def test_whole_numbers_are_as_likely_at_the_ends_as_between() -> None:
    drawn = random.Random(1)
    counts = Counter(Integer("x", 1, 4).at(drawn.random()) for _ in range(4000))
    assert sorted(counts) == ["1", "2", "3", "4"]
    assert all(900 < number < 1100 for number in counts.values())


def test_whole_numbers_on_a_logarithmic_scale() -> None:
    drawn = random.Random(1)
    values = [int(Integer("x", 1, 1000, "Logarithmic").at(drawn.random())) for _ in range(2000)]
    assert min(values) >= 1 and max(values) <= 1000
    assert math.exp(sum(map(math.log, values)) / len(values)) == pytest.approx(math.sqrt(0.5 * 1000.5), rel=0.2)


def test_categories_are_drawn_evenly_and_go_as_they_are() -> None:
    drawn = random.Random(1)
    counts = Counter(Categorical("x", ('"a"', '"b"', '"c"')).at(drawn.random()) for _ in range(3000))
    assert sorted(counts) == ['"a"', '"b"', '"c"'] and all(900 < number < 1100 for number in counts.values())


def test_a_range_of_one_value() -> None:
    assert Continuous("x", 0.5, 0.5).at(0.7) == "0.5" and Continuous("x", 0.5, 0.5).unit("0.5") == 0.0
    assert Integer("x", 3, 3).at(0.99) == "3"
