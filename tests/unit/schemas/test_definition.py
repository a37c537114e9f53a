"""The schema takes what is compiled here, and refuses what people mistype."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from drivetrain.schemas.definition import definition_schema

TESTS = Path(__file__).parents[2]
GOLDEN = sorted((TESTS / "golden").glob("*.json"))
STEPS = [
    {"Name": "ask", "Type": "Callback", "SqsQueueUrl": "https://queue", "Arguments": {"any": {"thing": 1}}},
    {"Name": "tell", "Type": "Lambda", "FunctionArn": "arn:...", "OutputParameters": [], "Arguments": {}},
    {"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": {"Std:Join": {"On": " ", "Values": ["no", 1]}}}},
    {"Name": "new", "Type": "OfTomorrow", "Arguments": {"x": None}, "Unheard": [1.0]},
    {"Name": "late", "Type": "Cleanup", "DependsOn": ["ask", {"Step": "tell", "Trigger": "Any"}]},
    {
        "Name": "each",
        "Type": "ForEach",
        "Arguments": {
            "IterableItems": [1, 2],
            "MaxConcurrency": 2,
            "Selector": {"Pick": "MaxBy", "Field": {"Get": "Steps.tell.OutputParameters['x']"}},
            "ForEachBody": [{"Name": "in-it", "Type": "Lambda", "FunctionArn": {"Get": "Parameters.F"}}],
        },
    },
    {
        "Name": "choose",
        "Type": "Condition",
        "Arguments": {
            "Conditions": [
                {"Type": "In", "QueryValue": {"Get": "Parameters.F"}, "Values": ["a"]},
                {"Type": "Not", "Expression": {"Type": "Equals", "LeftValue": 1, "RightValue": 1}},
                {"Type": "Or", "Conditions": [{"Type": "LessThan", "LeftValue": 1, "RightValue": 2}]},
            ],
            "IfSteps": [],
        },
    },
]


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    made = definition_schema()
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    return json.loads((TESTS / "golden" / "retraining.json").read_text())


def places(validator: Draft202012Validator, value: Any) -> set[str]:
    """Where a value breaks the schema, down to the deepest error of each."""
    found: set[str] = set()
    pending = list(validator.iter_errors(value))
    while pending:
        error = pending.pop()
        found.add(".".join(map(str, error.absolute_path)))
        pending += error.context or []
    return found


@pytest.mark.slow_cases("retraining", "searches")
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_compiled_pipeline_is_of_the_schema(schema: Draft202012Validator, golden: Path) -> None:
    assert places(schema, json.loads(golden.read_text())) == set()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["Type"])
def test_every_kind_of_step_is_described(schema: Draft202012Validator, step: dict[str, Any]) -> None:
    definition = {"Version": "2020-12-01", "MlflowConfig": None, "Steps": [step]}
    assert places(schema, definition) == set()
    unheard = {**definition, "Steps": [{**step, "Dependson": []}]}
    assert (places(schema, unheard) == set()) == (step["Type"] == "OfTomorrow")


REMOVED = object()
TRAIN = ("Steps", 1)


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        ((*TRAIN, "Arguments", "ResourceConfig", "InstanceCount"), "two", "Steps.1.Arguments.ResourceConfig"),
        ((*TRAIN, "Arguments", "ResourceConfig", "InstanceType"), "ml.huge", "Steps.1.Arguments.ResourceConfig"),
        ((*TRAIN, "Arguments", "HyperParameters", "epochs"), 20, "Steps.1.Arguments.HyperParameters.epochs"),
        ((*TRAIN, "Arguments", "RoleArn"), REMOVED, "Steps.1.Arguments"),
        ((*TRAIN, "Arguments", "Unheard"), 1, "Steps.1.Arguments"),
        ((*TRAIN, "Name"), "with space", "Steps.1.Name"),
        ((*TRAIN, "Dependson"), ["prepare"], "Steps.1"),
        ((*TRAIN, "PropertyFiles"), [], "Steps.1"),
        ((*TRAIN, "CacheConfig"), {"Enabled": "yes"}, "Steps.1.CacheConfig.Enabled"),
        ((*TRAIN, "CacheConfig"), {"Enabled": True, "ExpiresAfter": "P1D"}, "Steps.1.CacheConfig"),
        ((*TRAIN, "RetryPolicies"), [{"ExceptionType": ["Step.SLOW"]}], "Steps.1.RetryPolicies.0.ExceptionType.0"),
        ((*TRAIN, "RetryPolicies"), [{"ExceptionType": ["Step.THROTTLING"], "MaxAttempts": 21}], "Steps.1.RetryP"),
        ((*TRAIN, "DependsOn"), [{"Step": "prepare", "Trigger": "Success"}], "Steps.1.DependsOn.0"),
        (("Steps", 4, "Arguments", "Conditions"), [], "Steps.4.Arguments.Conditions"),
        (("Steps", 4, "Arguments", "Conditions", 0, "Type"), "AtLeast", "Steps.4.Arguments.Conditions.0.Type"),
        (("Steps", 4, "Arguments", "Conditions", 0, "RightValue"), REMOVED, "Steps.4.Arguments.Conditions.0"),
        (("Steps", 4, "Arguments", "IfSteps", 0, "Name"), 5, "Steps.4.Arguments.IfSteps.0.Name"),
        (("Steps", 4, "Arguments", "ThenSteps"), [], "Steps.4.Arguments"),
        (("Parameters", 0, "Type"), "Number", "Parameters.0.Type"),
        (("Parameters", 0, "Default"), 1, "Parameters.0"),
        (("Steps",), None, "Steps"),
        (("Parameter",), [], ""),
        (("Version",), REMOVED, ""),
    ],
)
def test_a_mistake_is_found_at_its_place(
    schema: Draft202012Validator, compiled: dict[str, Any], path: tuple[Any, ...], value: Any, place: str
) -> None:
    wrong = copy.deepcopy(compiled)
    inner: Any = wrong
    for segment in path[:-1]:
        inner = inner[segment]
    if value is REMOVED:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    assert any(found.startswith(place) for found in places(schema, wrong))


def test_references_are_allowed_everywhere(schema: Draft202012Validator, compiled: dict[str, Any]) -> None:
    with_reference = copy.deepcopy(compiled)
    resources = with_reference["Steps"][1]["Arguments"]["ResourceConfig"]
    resources["InstanceCount"] = {"Get": "Parameters.InstanceCount"}
    assert places(schema, with_reference) == set()
    resources["InstanceCount"] = {"Got": "Parameters.InstanceCount"}
    assert places(schema, with_reference) != set()
