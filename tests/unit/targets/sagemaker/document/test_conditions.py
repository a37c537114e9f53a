from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document import graph
from drivetrain.targets.sagemaker.document.conditions import OPERATORS, check_condition, described, evaluate
from drivetrain.targets.sagemaker.document.document import from_json


def same(value: Any) -> Any:
    return value


def compare(operator: str, left: Any, right: Any) -> dict[str, Any]:
    return {"Type": operator, "LeftValue": left, "RightValue": right}


TRUE, FALSE = compare("Equals", 1, 1), compare("Equals", 1, 2)


@pytest.mark.parametrize(
    ("operator", "of_less", "of_equal", "of_greater"),
    [
        ("Equals", False, True, False),
        ("GreaterThan", False, False, True),
        ("GreaterThanOrEqualTo", False, True, True),
        ("LessThan", True, False, False),
        ("LessThanOrEqualTo", True, True, False),
    ],
)
@pytest.mark.parametrize(("low", "high"), [(1, 2), (0.5, 1), ("a", "b"), ("10", "9"), (2**53, 2**53 + 1)])
def test_comparisons(operator: str, of_less: bool, of_equal: bool, of_greater: bool, low: Any, high: Any) -> None:
    assert evaluate(compare(operator, low, high), same) is of_less
    assert evaluate(compare(operator, low, low), same) is of_equal
    assert evaluate(compare(operator, high, low), same) is of_greater


def test_an_integer_equals_the_same_float() -> None:
    assert evaluate(compare("Equals", 1, 1.0), same)


@pytest.mark.parametrize(("left", "right", "holds"), [(True, True, True), (True, False, False)])
def test_truth_values_are_equal_or_not(left: bool, right: bool, holds: bool) -> None:
    assert evaluate(compare("Equals", left, right), same) is holds


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"Type": "In", "QueryValue": "b", "Values": ["a", "b"]}, True),
        ({"Type": "In", "QueryValue": 3, "Values": [1, 2]}, False),
        ({"Type": "Not", "Expression": FALSE}, True),
        ({"Type": "Not", "Condition": TRUE}, False),
        ({"Type": "Or", "Conditions": [FALSE, TRUE]}, True),
        ({"Type": "Or", "Conditions": [FALSE, FALSE]}, False),
        (
            {"Type": "Not", "Expression": {"Type": "Or", "Conditions": [FALSE, {"Type": "Not", "Expression": TRUE}]}},
            True,
        ),
        ([TRUE, TRUE], True),
        ([TRUE, FALSE], False),
        ({"Type": "Or", "Conditions": [[TRUE, FALSE], [TRUE, TRUE]]}, True),
    ],
)
def test_combinations(condition: Any, holds: bool) -> None:
    check_condition(condition)
    assert evaluate(condition, same) is holds


def test_values_are_resolved_where_they_stand() -> None:
    values = {"metric": 0.98, "floor": 0.97, "stage": "prod"}
    condition = [
        compare("GreaterThan", {"Get": "metric"}, {"Get": "floor"}),
        {"Type": "In", "QueryValue": {"Get": "stage"}, "Values": ["test", {"Get": "stage"}]},
    ]
    assert evaluate(condition, lambda node: values[node["Get"]] if isinstance(node, dict) else node)


@pytest.mark.parametrize(
    ("operator", "left", "right"),
    [
        ("GreaterThan", 1, "2"),
        ("Equals", "1", 1),
        ("Equals", True, 1),
        ("Equals", None, None),
        ("GreaterThan", True, False),
        ("LessThan", [1], [2]),
        ("Equals", {}, {}),
    ],
)
def test_incomparable_values_are_refused(operator: str, left: Any, right: Any) -> None:
    with pytest.raises(UserError, match=r"cannot compare .* Allowed: number with number, text with text"):
        evaluate(compare(operator, left, right), same)


def test_a_value_of_a_file_that_cannot_be_compared_is_named() -> None:
    file = {"PropertyFile": {"Get": "Steps.scores.PropertyFiles.evaluation-scores"}, "Path": "metrics.acc.value"}
    said = r"scores\.metrics\.acc\.value \(Steps\.scores\.PropertyFiles\.evaluation-scores\): cannot compare 'high'"
    with pytest.raises(UserError, match=said):
        evaluate(compare("GreaterThan", {"Std:JsonGet": file}, 1), lambda part: "high" if part != 1 else part)


def test_a_member_of_another_kind_is_refused() -> None:
    with pytest.raises(UserError, match="cannot compare"):
        evaluate({"Type": "In", "QueryValue": "1", "Values": [1]}, same)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("x", "a condition is 'x'"),
        (None, "a condition is None"),
        ({}, "condition type None is not known"),
        ({"Type": "Equal"}, "condition type 'Equal' is not known. Did you mean 'Equals'?"),
        ({"Type": ["Equals"]}, "is not known"),
        ({"Type": "Equals", "LeftValue": 1}, "of type Equals has no RightValue"),
        ({"Type": "Equals", "LeftValue": 1, "Rightvalue": 2}, "Did you mean 'Rightvalue'"),
        ({"Type": "In", "QueryValue": 1}, "of type In has no Values"),
        ({"Type": "In", "QueryValue": 1, "Values": []}, "Allowed: a filled list"),
        ({"Type": "Not"}, "of type Not has no Condition"),
        ({"Type": "Or", "Conditions": TRUE}, "Allowed: a filled list"),
        ({"Type": "Not", "Expression": {"Type": "Or", "Conditions": [{"Type": "Never"}]}}, "'Never' is not known"),
        ([TRUE, 5], "a condition is 5"),
    ],
)
def test_unreadable_conditions_are_refused_before_and_while_running(condition: Any, said: str) -> None:
    for function in (check_condition, lambda given: evaluate(given, same), described):
        with pytest.raises(UserError) as caught:
            function(condition)
        assert said in str(caught.value)


def test_every_operator_is_described() -> None:
    metric = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.evaluate.PropertyFiles.F"}, "Path": "metrics.accuracy"}}
    texts = {
        "Equals": described(compare("Equals", {"Get": "Parameters.Stage"}, "prod")),
        "GreaterThan": described(compare("GreaterThan", metric, 0.97)),
        "GreaterThanOrEqualTo": described(compare("GreaterThanOrEqualTo", {"Get": "Steps.a.Outcome"}, 1)),
        "LessThan": described(compare("LessThan", {"Std:Join": {"On": "/", "Values": ["a", 1]}}, "b")),
        "LessThanOrEqualTo": described([compare("LessThanOrEqualTo", 1, 2), TRUE]),
        "In": described({"Type": "In", "QueryValue": {"Get": "Parameters.P"}, "Values": ["a", "b"]}),
        "Not": described({"Type": "Not", "Expression": TRUE}),
        "Or": described({"Type": "Or", "Conditions": [TRUE, FALSE]}),
    }
    assert texts == {
        "Equals": "Stage == prod",
        "GreaterThan": "evaluate.metrics.accuracy > 0.97",
        "GreaterThanOrEqualTo": "a.Outcome >= 1",
        "LessThan": "a/1 < b",
        "LessThanOrEqualTo": "1 <= 2 and 1 == 1",
        "In": "P in a, b",
        "Not": "not (1 == 1)",
        "Or": "(1 == 1) or (1 == 2)",
    }
    assert texts.keys() == set(OPERATORS)


def faults_of(condition: dict[str, Any]) -> list[str]:
    """Of a definition that decides by it."""
    lambda_ = {
        "Name": "ask",
        "Type": "Lambda",
        "Arguments": {},
        "OutputParameters": [{"OutputName": "count", "OutputType": "Integer"}],
    }
    train = {"Name": "train", "Type": "Training", "Arguments": {}}
    gate = {
        "Name": "gate",
        "Type": "Condition",
        "Arguments": {"Conditions": [condition], "IfSteps": [], "ElseSteps": []},
    }
    parameters = [{"Name": name, "Type": name} for name in ("String", "Integer", "Float", "Boolean")]
    return graph.faults(from_json({"Parameters": parameters, "Steps": [lambda_, train, gate]}, "it"))


def parameter(type_name: str) -> dict[str, str]:
    return {"Get": f"Parameters.{type_name}"}


ACCURACY = {"Get": "Steps.train.FinalMetricDataList['accuracy'].Value"}
REPORT = {"Std:JsonGet": {"PropertyFile": "x", "Path": "accuracy"}}


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (compare("Equals", parameter("String"), 1), "compares String with Integer. Make both of one type."),
        (compare("GreaterThan", ACCURACY, parameter("String")), "compares Float with String"),
        (compare("Equals", parameter("Boolean"), "true"), "compares Boolean with String"),
        (compare("LessThan", parameter("Boolean"), True), "orders Boolean values"),
        (compare("Equals", {"Get": "Steps.ask.OutputParameters['count']"}, "3"), "compares Integer with String"),
        (compare("Equals", {"Get": "Execution.PipelineName"}, 3), "compares String with Integer"),
        (compare("Equals", {"Std:Join": {"On": "", "Values": [1]}}, 1), "compares String with Integer"),
        (compare("Equals", {"Get": "Steps.train.HyperParameters"}, "x"), "compares Object with String"),
        ({"Type": "In", "QueryValue": parameter("Integer"), "Values": [1, "2"]}, "compares Integer with String"),
        ({"Type": "Not", "Expression": compare("Equals", parameter("String"), 1)}, "compares String with Integer"),
        ({"Type": "Or", "Conditions": [TRUE, compare("Equals", "a", 1)]}, "compares String with Integer"),
    ],
)
def test_types_that_cannot_be_compared_are_told_before_a_run(condition: dict[str, Any], said: str) -> None:
    [fault] = faults_of(condition)
    assert said in fault
    assert "('gate')" in fault


@pytest.mark.parametrize(
    "condition",
    [
        compare("GreaterThan", parameter("Float"), 1),
        compare("LessThan", parameter("String"), "2026-01-01"),
        compare("GreaterThan", ACCURACY, parameter("Integer")),
        compare("Equals", REPORT, parameter("String")),
        compare("Equals", {"Get": "Steps.ask.Outcome"}, 1),
        compare("Equals", {"Get": "Steps.ask.OutputParameters['other']"}, 1),
    ],
)
def test_types_that_can_be_or_are_not_known(condition: dict[str, Any]) -> None:
    assert faults_of(condition) == []
