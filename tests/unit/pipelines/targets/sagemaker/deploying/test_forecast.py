"""A forecast says that a step runs again just where its key differs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from drivetrain.pipelines.definition.cache_key import key_fields
from drivetrain.pipelines.definition.difference import differences
from drivetrain.pipelines.targets.sagemaker.deploying.forecast import forecast

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
