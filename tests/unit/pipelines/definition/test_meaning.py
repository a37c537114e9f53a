"""What is the same JSON: a number in any spelling, and nothing else."""

from typing import Any

import pytest

from drivetrain.pipelines.definition.json_text import Json, parse
from drivetrain.pipelines.definition.meaning import equal, says_nothing

DIFFERENT: list[tuple[Any, Any]] = [
    (True, 1),
    (True, 1.0),
    (False, 0),
    (False, None),
    ("1", 1),
    ("true", True),
    (None, 0),
    (None, ""),
    ([], {}),
    ([1], [1, 2]),
    ([1], [True]),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": None}, {}),
    ({"a": None}, {"b": None}),
    ({"a": 1}, {"a": True}),
    ({"a": [0]}, {"a": [False]}),
    (2**53, 2**53 + 1),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_differs_differs_both_ways(one: Json, other: Json) -> None:
    assert not equal(one, other) and not equal(other, one)
    assert not equal([{"x": one}], [{"x": other}])
    assert equal(one, one) and equal(other, other)


@pytest.mark.parametrize(("one", "other"), [("1", "1.0"), ("1E5", "100000"), ("0.10", "0.1"), ("-0.0", "0")])
def test_a_number_is_the_same_however_it_is_spelled(one: str, other: str) -> None:
    assert equal(parse(one, "one"), parse(other, "other"))


def test_the_order_of_keys_makes_no_difference() -> None:
    assert equal({"a": 1, "b": [True]}, {"b": [True], "a": 1})
    assert not equal([1, 2], [2, 1])


def test_a_default_of_another_type_says_something() -> None:
    assert says_nothing(False, "EnableNetworkIsolation") and not says_nothing(0, "EnableNetworkIsolation")
    assert not says_nothing({"Enabled": 0}, "CacheConfig")
