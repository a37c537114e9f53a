"""State machines as definitions: what becomes of each state, and what is told."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.document import from_json
from drivetrain.targets.sagemaker.inspection import inspect
from drivetrain.targets.sagemaker.states.machine import Translated, is_machine, read_machine
from drivetrain.targets.sagemaker.written import write_code

FIXTURES = Path(__file__).parents[4] / "fixtures" / "state_machines"
LAMBDA = "arn:aws:lambda:eu-west-1:000000000000:function:f"


def machine(states: dict[str, Any], start: str = "A") -> Translated:
    return read_machine({"StartAt": start, "States": states}, "machine")


def function(payload: Any = None, **more: Any) -> dict[str, Any]:
    return {"Type": "Task", "Resource": LAMBDA, "Parameters": payload or {"a": 1}, **({"End": True} | more)}


def test_a_night_becomes_steps_with_their_references() -> None:
    found = read_machine(json.loads((FIXTURES / "nightly.asl.json").read_text()), "nightly")
    steps = {step.name: step for step in from_json(found.definition).walk()}
    assert {name: step.type for name, step in steps.items()} == {
        "Prepare-data": "Processing",
        "Train": "Training",
        "Count": "Lambda",
        "Create-model": "Model",
        "Evaluate": "Lambda",
        "Good": "Condition",
        "Score-all": "Transform",
        "Too-bad": "Fail",
    }
    arguments = {name: step.arguments for name, step in steps.items()}
    assert arguments["Train"]["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] == {
        "Get": "Steps.Prepare-data.ProcessingOutputConfig.Outputs['train'].S3Output.S3Uri"
    }
    assert arguments["Prepare-data"]["ProcessingInputs"][0]["S3Input"]["S3Uri"] == {
        "Std:Join": {
            "On": "",
            "Values": [
                "s3://",
                {"Get": "Parameters.bucket"},
                "/raw/",
                {"Get": "Execution.PipelineExecutionId"},
                "/",
            ],
        }
    }
    assert arguments["Prepare-data"]["AppSpecification"]["ContainerArguments"] == [
        "--days",
        {"Get": "Parameters.days"},
    ]
    assert arguments["Score-all"]["ModelName"] == {"Get": "Steps.Create-model.ModelName"}
    assert arguments["Evaluate"] == {
        "model": {"Get": "Steps.Train.ModelArtifacts.S3ModelArtifacts"},
        "rows": {"Get": "Steps.Count.OutputParameters['rows']"},
    }
    assert arguments["Good"]["Conditions"] == [
        {
            "Type": "LessThanOrEqualTo",
            "LeftValue": {"Get": "Steps.Evaluate.OutputParameters['mse']"},
            "RightValue": 6.0,
        },
        {"Type": "Equals", "LeftValue": {"Get": "Parameters.deploy"}, "RightValue": True},
    ]
    types = {parameter.name: parameter.type for parameter in from_json(found.definition).parameters}
    assert (types["count"], types["deploy"], types["images_training"]) == ("Integer", "Boolean", "String")
    assert "job" not in types
    assert steps["Evaluate"].raw["OutputParameters"] == [{"OutputName": "mse", "OutputType": "Float"}]
    assert [edge.step for edge in steps["Create-model"].depends_on] == ["Count"]
    assert found.lost == (
        "Prepare data.ProcessingInputs.S3Input.S3Uri: the name of the execution is its id, which nobody chooses",
        "Say so is left out: no step calls arn:aws:states:::sns:publish",
        "Tell is left out: only a Catch, or nothing, leads to it",
    )
    assert "Prepare data: Retry has other causes than RetryPolicy" in found.notes
    assert not inspect(from_json(found.definition)).problems()


def test_a_night_becomes_code_without_raw_steps() -> None:
    found = read_machine(json.loads((FIXTURES / "nightly.asl.json").read_text()), "nightly")
    written = write_code(from_json(found.definition), "nightly")
    assert written.is_equal
    assert found.docstring.startswith("Train each night, deploy if it is good.\n\nFrom a state machine")
    assert "- Count: 'rows' of its answer is taken as text." in found.docstring.splitlines()
    assert 'fail("TooBad: The error is above 6."' in written.code
    assert "NativeStep" not in written.code
    assert 'train["model"]' in written.code


def test_jsonata_paths_and_choices() -> None:
    found = read_machine(
        {
            "QueryLanguage": "JSONata",
            "StartAt": "A",
            "States": {
                "A": {
                    "Type": "Task",
                    "Resource": "arn:aws:states:::lambda:invoke",
                    "Arguments": {"FunctionName": LAMBDA, "Payload": {"x": "{% $states.input.x.y %}"}},
                    "Output": {"mse": "{% $states.result.Payload.mse %}"},
                    "Next": "B",
                },
                "B": {
                    "Type": "Choice",
                    "Choices": [{"Condition": "{% $states.input.mse < 0.5 %}", "Next": "C"}],
                    "Default": "D",
                },
                "C": {"Type": "Succeed"},
                "D": {"Type": "Fail", "Cause": "bad"},
            },
        },
        "m",
    )
    first, second = found.definition["Steps"]
    assert first["Arguments"] == {"x": {"Get": "Parameters.x_y"}}
    assert second["Arguments"]["Conditions"] == [
        {"Type": "LessThan", "LeftValue": {"Get": "Steps.A.OutputParameters['mse']"}, "RightValue": 0.5}
    ]
    assert found.lost == ()


def test_several_choices_nest_and_a_shared_end_is_written_for_each_way() -> None:
    rules = [{"Variable": "$.x", "NumericGreaterThan": limit, "Next": to} for limit, to in ((2, "B"), (1, "C"))]
    states = {
        "A": {"Type": "Choice", "Choices": rules},
        "B": function(Next="D", End=False),
        "C": function(Next="D", End=False),
        "D": function(),
    }
    steps = from_json(machine(states).definition).walk()
    assert [step.name for step in steps] == ["A", "B", "D", "A-2", "C", "D-2", "A-none"]
    assert [edge.step for edge in steps[5].depends_on] == ["C"]


def test_a_map_becomes_a_for_each_over_its_items() -> None:
    states = {
        "A": {
            "Type": "Map",
            "ItemsPath": "$.places",
            "ItemSelector": {"place.$": "$$.Map.Item.Value.uri", "eta.$": "$.eta"},
            "MaxConcurrency": 2,
            "ItemProcessor": {"StartAt": "B", "States": {"B": function({"place.$": "$.place", "eta.$": "$.eta"})}},
            "End": True,
        }
    }
    (step,) = machine(states).definition["Steps"]
    assert step["Arguments"]["IterableItems"] == {"Get": "Parameters.places"}
    assert step["Arguments"]["MaxConcurrency"] == 2
    (inner,) = step["Arguments"]["ForEachBody"]
    assert inner["Arguments"] == {"place": {"Get": "ForEach.CurrentItem.uri"}, "eta": {"Get": "Parameters.eta"}}


@pytest.mark.parametrize(
    ("payload", "lost"),
    [
        ({"a.$": "States.JsonMerge($.a, $.b, false)"}, "A.a is left out: States.JsonMerge($.a, $.b, false) calculates"),
        ({"a.$": "$.x[*].y"}, "A.a is left out: $.x[*].y selects"),
        ({"a.$": "$"}, "A.a is left out: it takes the whole input"),
        ({"a.$": "$$.Task.Token"}, "A.a is left out: 'Task.Token' of the context has no counterpart"),
    ],
)
def test_a_value_that_no_step_can_say_is_left_out_and_told(payload: dict[str, str], lost: str) -> None:
    found = machine({"A": function(payload)})
    assert found.definition["Steps"][0]["Arguments"] == {}
    assert [line[: len(lost)] for line in found.lost] == [lost]


def test_a_jobs_name_that_stands_elsewhere_is_told() -> None:
    train = {
        "Type": "Task",
        "Resource": "arn:aws:states:::sagemaker:createTrainingJob",
        "Parameters": {"TrainingJobName.$": "$.job", "OutputDataConfig": {"S3OutputPath.$": "$.job"}},
        "End": True,
    }
    found = machine({"A": train})
    assert found.lost[0].startswith("A: $.job names its job or model, which the service does itself")
    assert "A: the pipeline waits for the end of the job, the state machine does not" in found.notes


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"A": function(Next="A", End=False)}, "a way leads back to state 'A'"),
        ({"A": function(Next="B", End=False)}, "a state 'B' is named, and there is none"),
        ({"A": {"Type": "Choice", "Choices": [{"Variable": "$.x", "IsPresent": True}]}}, "no condition says IsPresent"),
        ({"A": {"Type": "Dance"}}, "has Type 'Dance'"),
    ],
)
def test_a_machine_that_no_pipeline_can_be_is_refused(states: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        machine(states)


def test_mutated_machines_are_read_or_refused() -> None:
    whole = (FIXTURES / "nightly.asl.json").read_text()
    random_ = random.Random(7)
    texts = [word for word in whole.split('"') if word.strip(" :,[]{}\n")]
    read = 0
    for _ in range(150):
        words = whole.split('"')
        for _ in range(random_.randint(1, 3)):
            words[2 * random_.randrange(len(words) // 2) + 1] = random_.choice(texts)
        try:
            mutated = json.loads('"'.join(words))
        except ValueError:
            continue
        if not is_machine(mutated):
            continue
        try:
            found = read_machine(mutated, "mutated")
        except UserError:
            continue
        assert write_code(from_json(found.definition), "mutated").code
        read += 1
    assert read > 30
