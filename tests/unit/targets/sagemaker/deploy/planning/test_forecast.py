"""A forecast says that a step runs again just where its key differs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from drivetrain.targets.sagemaker.deploy.planning.forecast import forecast
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.document.step_types import key_fields

STEPS: dict[str, Any] = {
    "Tuning": {
        "HyperParameterTuningJobConfig": {"Strategy": "Random", "ResourceLimits": {"MaxParallelTrainingJobs": 1}},
        "TrainingJobDefinition": {
            "AlgorithmSpecification": {"TrainingImage": "image:1", "TrainingInputMode": "File"},
            "HyperParameterRanges": {"ContinuousParameterRanges": [{"Name": "lr", "MinValue": "0", "MaxValue": "1"}]},
            "InputDataConfig": [{"ChannelName": "data", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/1"}}}],
            "OutputDataConfig": {"S3OutputPath": "s3://b/out"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
            "StaticHyperParameters": {"epochs": "1"},
            "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        },
    },
    "Training": {
        "AlgorithmSpecification": {"TrainingImage": "image:1", "TrainingInputMode": "File"},
        "CheckpointConfig": {"S3Uri": "s3://b/checkpoints"},
        "HyperParameters": {"epochs": "1"},
        "OutputDataConfig": {"S3OutputPath": "s3://b/out"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
    },
    "Transform": {
        "DataProcessing": {"JoinSource": "Input"},
        "Environment": {"A": "1"},
        "ModelName": "digits",
        "TransformInput": {"DataSource": {"S3DataSource": {"S3Uri": "s3://b/1"}}, "ContentType": "text/csv"},
        "TransformOutput": {"S3OutputPath": "s3://b/out"},
        "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
    },
    "AutoML": {
        "AutoMLJobConfig": {
            "CandidateGenerationConfig": {"FeatureSpecificationS3Uri": "s3://b/features"},
            "CompletionCriteria": {"MaxCandidates": 10},
            "DataSplitConfig": {"ValidationFraction": 1},
            "Mode": "ENSEMBLING",
            "SecurityConfig": {"VolumeKmsKeyId": "key"},
        },
        "AutoMLJobObjective": {"MetricName": "Accuracy"},
        "InputDataConfig": [{"TargetAttributeName": "y", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/1"}}}],
        "OutputDataConfig": {"S3OutputPath": "s3://b/out"},
        "ProblemType": "BinaryClassification",
        "RoleArn": "arn:aws:iam::000000000000:role/jobs",
    },
    "EMR": {
        "ClusterId": "j-1ABC",
        "StepConfig": {"HadoopJarStep": {"Jar": "s3://b/x.jar", "Args": ["a"]}},
        "ExecutionRoleArn": "arn:aws:iam::000000000000:role/emr",
    },
}


def leaves(value: Any, *place: Any) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    return [place] if items is None else [leaf for key, item in items for leaf in leaves(item, *place, key)]


def changed(arguments: dict[str, Any], place: tuple[Any, ...]) -> dict[str, Any]:
    made = copy.deepcopy(arguments)
    at: Any = made
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = at[place[-1]] + 1 if isinstance(at[place[-1]], int) else f"{at[place[-1]]}0"
    return made


@pytest.mark.parametrize(
    ("kind", "place"), [(kind, place) for kind, arguments in STEPS.items() for place in leaves(arguments)]
)
def test_a_step_runs_again_where_its_key_differs(kind: str, place: tuple[Any, ...]) -> None:
    old, new = STEPS[kind], changed(STEPS[kind], place)

    def definition(arguments: dict[str, Any]) -> dict[str, Any]:
        step = {"Name": "it", "Type": kind, "Arguments": arguments, "CacheConfig": {"Enabled": True}}
        return {"Version": "2020-12-01", "Steps": [step]}

    one, other = definition(old), definition(new)
    (found,) = forecast(one, other, differences(one, other))
    assert found.cached == (key_fields(kind, old) == key_fields(kind, new)), found.why


def test_some_of_a_tunings_training_counts_and_some_does_not() -> None:
    old = STEPS["Tuning"]
    kept = {
        place[1]
        for place in leaves(old["TrainingJobDefinition"], "TrainingJobDefinition")
        if key_fields("Tuning", changed(old, place)) == key_fields("Tuning", old)
    }
    assert kept == {"OutputDataConfig", "ResourceConfig", "StoppingCondition"}


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("Transform", {"TransformOutput", "TransformResources"}),
        ("AutoML", {"SecurityConfig", "OutputDataConfig", "RoleArn"}),
        ("EMR", {"ExecutionRoleArn"}),
    ],
)
def test_attributes_documented_outside_the_key_are_ignored(kind: str, kept: set[str]) -> None:
    old = STEPS[kind]
    same = [place for place in leaves(old) if key_fields(kind, changed(old, place)) == key_fields(kind, old)]
    assert {place[1] if place[0] == "AutoMLJobConfig" else place[0] for place in same} == kept


def steps(*given: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2020-12-01", "Steps": list(given)}


def why(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    return {found.step: found.why for found in forecast(old, new, differences(old, new))}


@pytest.mark.parametrize(
    ("kind", "field", "runs"),
    [
        ("QualityCheck", "SkipCheck", True),
        ("QualityCheck", "RegisterNewBaseline", True),
        ("QualityCheck", "ModelPackageGroupName", True),
        ("QualityCheck", "SuppliedBaselineConstraints", True),
        ("QualityCheck", "SuppliedBaselineStatistics", True),
        ("ClarifyCheck", "SuppliedBaselineConstraints", True),
        ("ClarifyCheck", "SuppliedBaselineStatistics", False),
        ("ClarifyCheck", "ModelName", True),
        ("QualityCheck", "FailOnViolation", False),
    ],
)
def test_of_a_check_fields_beside_its_arguments_count(kind: str, field: str, runs: bool) -> None:
    check = {"Name": "check", "Type": kind, "Arguments": {"Environment": {"A": "1"}}, "CacheConfig": {"Enabled": True}}
    old, new = steps({**check, field: "a"}), steps({**check, field: "b"})
    assert bool(why(old, new)["check"]) == runs
    # A reference in such a field is one of the key, too.
    reading = steps({**check, field: {"Get": "Execution.PipelineExecutionId"}})
    assert why(reading, reading) == {"check": ("its arguments name the execution",) if runs else ()}
    assert why(old, steps({**check, field: "a", "Arguments": {"Environment": {"A": "2"}}}))["check"]


def test_new_results_of_uncached_steps_make_readers_run() -> None:
    def transform(model: dict[str, Any]) -> dict[str, Any]:
        asking = {**STEPS["Transform"], "ModelName": {"Get": "Steps.model.ModelName"}}
        ask = {"Name": "ask", "Type": "Transform", "Arguments": asking, "CacheConfig": {"Enabled": True}}
        return steps({"Name": "model", "Type": "Model", "Arguments": model}, ask)

    unnamed, named = transform({"PrimaryContainer": {}}), transform({"ModelName": "digits"})
    by_the_execution = transform({"ModelName": {"Get": "Execution.PipelineExecutionId"}})
    assert why(unnamed, unnamed) == why(by_the_execution, by_the_execution) == {"ask": ("model runs each time",)}
    assert why(named, named) == {"ask": ()}


@pytest.mark.parametrize(
    ("uri", "runs"),
    [
        ("s3://b/fixed", False),
        ({"Get": "Parameters.Place"}, False),
        ({"Std:Join": {"On": "/", "Values": ["s3://b", {"Get": "Execution.PipelineExecutionId"}]}}, True),
        ({"Std:Join": {"On": "/", "Values": ["s3://b", {"Get": "Execution.ProcessingJobName"}]}}, True),
        ({"Get": "Steps.prepare.ProcessingOutputConfig.Outputs['out'].S3Output.S3Uri"}, False),
        (None, True),
    ],
)
def test_a_fixed_output_location_of_an_uncached_step_is_no_change(uri: Any, runs: bool) -> None:
    output = {"OutputName": "out", "S3Output": {} if uri is None else {"S3Uri": uri}}
    prepare = {"ProcessingOutputConfig": {"Outputs": [output]}}
    channel = {"Get": "Steps.prepare.ProcessingOutputConfig.Outputs['out'].S3Output.S3Uri"}
    train = {"InputDataConfig": [{"ChannelName": "data", "DataSource": {"S3DataSource": {"S3Uri": channel}}}]}
    both = {
        **steps(
            {"Name": "prepare", "Type": "Processing", "Arguments": prepare},
            {"Name": "train", "Type": "Training", "Arguments": train, "CacheConfig": {"Enabled": True}},
        ),
        "Parameters": [{"Name": "Place", "Type": "String", "DefaultValue": "s3://b/p"}],
    }
    assert why(both, both) == {"train": ("prepare runs each time",) if runs else ()}
