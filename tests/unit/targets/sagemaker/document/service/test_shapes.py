"""What the check of a step's Arguments says, in the words that people read."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest

from drivetrain.targets.sagemaker.document.service.shapes import FILLED_IN, Problem, check_arguments, check_types

ROLE = "arn:aws:iam::111122223333:role/drivetrain"
TRAINING: dict[str, Any] = {
    "AlgorithmSpecification": {
        "TrainingImage": "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch:2.13.0-cpu-amzn2023-sagemaker",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/start.py"],
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    },
    "CheckpointConfig": {"S3Uri": "s3://bucket/checkpoints/", "LocalPath": "/opt/ml/checkpoints"},
    "EnableManagedSpotTraining": True,
    "Environment": {"OMP_NUM_THREADS": "1"},
    "HyperParameters": {"epochs": "3", "lr": {"Std:Join": {"On": "", "Values": [{"Get": "Parameters.Rate"}]}}},
    "InputDataConfig": [
        {
            "ChannelName": "train",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3Prefix",
                    "S3Uri": {"Get": "Steps.prepare.ProcessingOutputConfig.Outputs['train'].S3Output.S3Uri"},
                    "S3DataDistributionType": "FullyReplicated",
                }
            },
        }
    ],
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/output/"},
    "ResourceConfig": {"InstanceCount": 2, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 30},
    "RoleArn": ROLE,
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
}
TYPES = {"Count": "Integer", "Rate": "Float", "Machine": "String", "Spot": "Boolean"}
STEPS = {"prepare": "Processing", "train": "Training", "ask": "Lambda"}


def changed(path: str, value: Any) -> dict[str, Any]:
    """TRAINING with one value replaced; `path` is dotted, numbers index lists, None removes."""
    arguments = copy.deepcopy(TRAINING)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = arguments
    for part in parents:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return arguments


def messages(path: str, value: Any) -> list[str]:
    return [str(problem) for problem in check_arguments("Training", changed(path, value), TYPES, STEPS)]


def test_arguments_that_the_service_accepts_have_no_problem() -> None:
    assert check_arguments("Training", TRAINING, TYPES, STEPS) == []


def test_names_that_pipelines_gives_may_be_left_out_and_may_be_set() -> None:
    assert check_arguments("Training", {**TRAINING, "TrainingJobName": "train"}, TYPES) == []
    assert FILLED_IN["Training"] == {"TrainingJobName"}


def test_required_members_are_named() -> None:
    assert messages("RoleArn", None) == ["Arguments: 'RoleArn' is missing. Required: RoleArn, OutputDataConfig."]
    assert messages("OutputDataConfig.S3OutputPath", None) == [
        "Arguments.OutputDataConfig: 'S3OutputPath' is missing. Required: S3OutputPath."
    ]


def test_an_unknown_member_gets_a_suggestion() -> None:
    [message] = messages("ResourceConfig.InstanceCnt", 1)
    assert message.startswith(
        "Arguments.ResourceConfig: unknown member 'InstanceCnt'. Did you mean 'InstanceCount'? Allowed: "
    )


def test_an_unknown_machine_gets_a_suggestion_and_the_way_out() -> None:
    [message] = messages("ResourceConfig.InstanceType", "ml.m5.larg")
    assert message.startswith('Arguments.ResourceConfig.InstanceType: "ml.m5.larg" is not known. Did you mean \'ml.m5')
    assert message.endswith("If the service knows it by now, upgrade boto3 and run `make shapes`.")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("HyperParameters.epochs", 3, 'HyperParameters.epochs: 3 is a number. Allowed: text. Write it as text: "3".'),
        (
            "HyperParameters.epochs",
            True,
            'HyperParameters.epochs: true is a truth value. Allowed: text. Write it as text: "true".',
        ),
        (
            "ResourceConfig.InstanceCount",
            "2",
            'ResourceConfig.InstanceCount: "2" is text. Allowed: a whole number. Write it without quotes: 2.',
        ),
        (
            "ResourceConfig.InstanceCount",
            True,
            "ResourceConfig.InstanceCount: true is a truth value. Allowed: a whole number.",
        ),
        (
            "ResourceConfig.InstanceCount",
            1.5,
            "ResourceConfig.InstanceCount: 1.5 is a number. Allowed: a whole number.",
        ),
        (
            "StoppingCondition.MaxRuntimeInSeconds",
            0,
            "StoppingCondition.MaxRuntimeInSeconds: 0. Allowed: at least 1.",
        ),
        ("EnableManagedSpotTraining", "true", 'EnableManagedSpotTraining: "true" is text. Allowed: true or false.'),
        ("InputDataConfig", {}, "InputDataConfig: {} is an object. Allowed: a list."),
        ("InputDataConfig", [], "InputDataConfig: 0 entries. Allowed: 1 to 20 entries."),
        ("Environment", ["a"], 'Environment: ["a"] is a list. Allowed: an object.'),
        (
            "HyperParameters.epochs",
            "3" * 2501,
            "HyperParameters.epochs: the text has 2501 characters. Allowed: 0 to 2500 characters.",
        ),
        (
            "HyperParameters",
            {str(i): "" for i in range(101)},
            "HyperParameters: 101 entries. Allowed: 0 to 100 entries.",
        ),
        (
            "CheckpointConfig.S3Uri",
            "bucket/checkpoints",
            'CheckpointConfig.S3Uri: "bucket/checkpoints" is not of the right form. '
            "It must match (https|s3)://([^/]+)/?(.*)",
        ),
        ("StoppingCondition.MaxRuntimeInSeconds", {"a": 1, "b": 2}, None),
        ("OutputDataConfig", "s3://bucket/", 'OutputDataConfig: "s3://bucket/" is text. Allowed: an object.'),
    ],
)
def test_a_wrong_value_is_shown_with_what_is_allowed(path: str, value: Any, message: str | None) -> None:
    if message is None:
        message = f'{path}: {{"a": 1, "b": 2}} is an object. Allowed: a whole number.'
    assert messages(path, value) == [f"Arguments.{message}"]


def test_a_null_is_nothing() -> None:
    arguments = {**TRAINING, "Environment": None}
    assert [str(p) for p in check_arguments("Training", arguments, TYPES)] == [
        "Arguments.Environment: null is nothing. Allowed: an object."
    ]


def test_a_long_value_is_cut_in_the_message() -> None:
    [message] = messages("RoleArn", "secret-" * 40)
    assert len(message) < 200


def test_a_reference_of_unknown_type_is_taken_as_right() -> None:
    for reference in (
        {"Get": "Parameters.NotDeclared"},
        {"Get": "Steps.ask.OutputParameters['count']"},
        {"Get": "Steps.nobody.Anything"},
        {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.e.PropertyFiles.m"}, "Path": "accuracy"}},
    ):
        assert messages("ResourceConfig.InstanceCount", reference) == []
        assert messages("HyperParameters.epochs", reference) == []


def test_a_lookalike_of_a_reference_is_an_object() -> None:
    for value in ({"Get": None}, {"Get": "Parameters.Machine", "Also": 1}, {"Std:Join": "x"}):
        [message] = messages("ResourceConfig.InstanceType", value)
        assert message.endswith("is an object. Allowed: text.")


@pytest.mark.parametrize(
    ("path", "right", "wrong", "needed"),
    [
        ("ResourceConfig.InstanceCount", "Count", "Machine", "A whole number"),
        ("ResourceConfig.InstanceCount", "Count", "Rate", "A whole number"),
        ("ResourceConfig.InstanceType", "Machine", "Count", "Text"),
        ("HyperParameters.epochs", "Machine", "Rate", "Text"),
        ("EnableManagedSpotTraining", "Spot", "Machine", "True or false"),
    ],
)
def test_a_parameter_must_have_the_type_of_its_place(path: str, right: str, wrong: str, needed: str) -> None:
    assert messages(path, {"Get": f"Parameters.{right}"}) == []
    [message] = messages(path, {"Get": f"Parameters.{wrong}"})
    assert message.startswith(f"Arguments.{path}: 'Parameters.{wrong}' is {TYPES[wrong]}. {needed} is needed")
    assert ("Std:Join" in message) == (needed == "Text")


def test_a_join_is_text() -> None:
    join = {"Std:Join": {"On": "-", "Values": ["ml", "m5"]}}
    assert messages("ResourceConfig.InstanceType", join) == []
    assert messages("ResourceConfig.InstanceCount", join) == [
        "Arguments.ResourceConfig.InstanceCount: Std:Join is String. A whole number is needed."
    ]


def test_a_property_of_a_known_step_must_exist_and_fit() -> None:
    assert messages("OutputDataConfig.S3OutputPath", {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}) == []
    [message] = messages("OutputDataConfig.S3OutputPath", {"Get": "Steps.train.ModelArtifact.S3ModelArtifacts"})
    assert message.startswith(
        "Arguments.OutputDataConfig.S3OutputPath: 'Steps.train.ModelArtifact.S3ModelArtifacts': there is no property "
        "'ModelArtifact'. Did you mean 'ModelArtifacts'? "
    )
    assert messages("OutputDataConfig.S3OutputPath", {"Get": "Steps.train.ModelArtifacts"}) == [
        "Arguments.OutputDataConfig.S3OutputPath: 'Steps.train.ModelArtifacts' is Object. Text is needed: name a "
        "member of it."
    ]


def test_a_registration_is_checked() -> None:
    arguments = {
        "ModelPackageGroupName": "digits",
        "ModelMetrics": {},
        "InferenceSpecification": {
            "Containers": [
                {
                    "Image": "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch:2.13.0-cpu-amzn2023-sagemaker",
                    "ModelDataUrl": {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"},
                    "AdditionalS3DataSource": {"S3DataType": "S3Object", "S3Uri": "s3://bucket/key"},
                }
            ],
            "SupportedContentTypes": ["application/json"],
            "SupportedResponseMIMETypes": ["application/json"],
        },
        "ModelApprovalStatus": "Pending",
    }
    [problem] = check_arguments("RegisterModel", arguments)
    assert problem.path == "Arguments.ModelApprovalStatus"
    assert "Allowed: Approved, PendingManualApproval, Rejected." in problem.allowed

    card = {"ModelPackageGroupName": "digits", "ModelCard": {"ModelCardStatus": "Draft", "ModelCardContent": 1}}
    assert [p.path for p in check_arguments("RegisterModel", card)] == ["Arguments.ModelCard.ModelCardContent"]


def test_step_types_without_a_call_are_left_alone() -> None:
    assert check_arguments("Lambda", {"anything": 1}) == []
    assert check_arguments("Condition", {"Conditions": []}) == []


def test_pipeline_level_requests_can_be_checked_too() -> None:
    request = {"PipelineName": "-digits", "RoleArn": ROLE, "PipelineDefinition": "{}"}
    [problem] = check_arguments("Pipeline", request, path="CreatePipeline")
    assert problem.path == "CreatePipeline.PipelineName"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("ResourceConfig", "x", 'Arguments.ResourceConfig: "x" is text. Allowed: an object.'),
        ("HyperParameters", ["x"], 'Arguments.HyperParameters: ["x"] is a list. Allowed: an object.'),
        ("InputDataConfig", {"a": 1}, 'Arguments.InputDataConfig: {"a": 1} is an object. Allowed: a list.'),
        ("ResourceConfig.InstanceCount", "two", '"two" is text. Allowed: a whole number.'),
        ("ResourceConfig.InstanceCount", -1, "Arguments.ResourceConfig.InstanceCount: -1. Allowed: "),
        ("OutputDataConfig.S3OutputPath", {"a": 1, "b": 2}, "is an object. Allowed: text."),
        ("ResourceConfig.InstanceCount", "2", None),
        ("HyperParameters.epochs", 3, None),
        ("Environment", None, None),
        ("SomethingNewer", {"a": 1}, None),
        ("ResourceConfig.InstanceType", "ml.newer.large", None),
        ("RoleArn", "me", None),
    ],
)
def test_foreign_definitions_are_checked_only_for_kinds_and_ranges(path: str, value: Any, message: str | None) -> None:
    found = [str(problem) for problem in check_types("Training", changed(path, value))]
    assert found == [] if message is None else len(found) == 1 and message in found[0]


def test_what_is_missing_is_no_matter_of_types() -> None:
    assert check_types("Training", {}) == []
    assert check_types("Unheard", {"a": 1}) == []


def test_problems_are_plain_values() -> None:
    assert str(Problem("Arguments.A", "given", "Allowed: B.")) == "Arguments.A: given. Allowed: B."


def test_checking_a_step_is_quick() -> None:
    check_arguments("Training", TRAINING, TYPES, STEPS)  # patterns are compiled once a process
    fastest = min(_seconds() for _ in range(20))
    assert fastest < 0.0002


def _seconds() -> float:
    start = time.perf_counter()
    check_arguments("Training", TRAINING, TYPES, STEPS)
    return time.perf_counter() - start
