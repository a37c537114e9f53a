"""What is the same JSON: a number in any spelling, and nothing else."""

from typing import Any

import pytest

from drivetrain.base.json_text import Json, parse
from drivetrain.targets.sagemaker.document.difference.change import ABSENT
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.document.difference.meaning import equal, says_nothing

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


def lambda_with(payload: dict[str, Any]) -> dict[str, Any]:
    return {"Steps": [{"Name": "tell", "Type": "Lambda", "Arguments": payload}]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"Tags": []}, {}),
        ({"EnableManagedSpotTraining": False}, {}),
        ({"x": None}, {}),
        ({"x": [{"Tags": []}, 1]}, {"x": [{}, 1]}),
    ],
)
def test_arguments_of_foreign_programs_are_taken_literally(one: Any, other: Any) -> None:
    assert len(differences(lambda_with(one), lambda_with(other))) == 1
    assert len(differences(lambda_with(other), lambda_with(one))) == 1
    service = {"Steps": [{"Name": "t", "Type": "Training", "Arguments": {"Odd": [{"Tags": []}, 1]}}]}
    other_spelling = {"Steps": [{"Name": "t", "Type": "Training", "Arguments": {"Odd": [{}, 1]}}]}
    assert differences(service, other_spelling) == ()


@pytest.mark.parametrize("shorter", [["python3"], []])
def test_a_list_without_names_that_goes_on_is_another_one(shorter: list[str]) -> None:
    def version(entries: list[str]) -> dict[str, Any]:
        return {"Steps": [{"Name": "t", "Type": "Training", "Arguments": {"Odd": entries}}]}

    longer = [*shorter, "-I", "-I"]
    for one, other in ((shorter, longer), (longer, shorter)):
        [change] = differences(version(one), version(other))
        assert (change.old, change.new) == (one, other)


def test_a_step_that_goes_takes_its_branch_with_it() -> None:
    def version(*steps: dict[str, Any]) -> dict[str, Any]:
        return {"Steps": [{"Name": "gate", "Type": "Condition", "Arguments": {"IfSteps": list(steps)}}]}

    [change] = differences(version({"Name": "stop", "Type": "Fail"}), version())
    assert (change.where, change.new) == ("steps.stop", ABSENT)
