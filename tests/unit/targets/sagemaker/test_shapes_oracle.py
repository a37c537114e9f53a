"""botocore's own validator as the oracle: what it refuses we refuse, at the same place.

It checks members, types, and minimum lengths and values; enumerations, patterns and maxima are ours alone.
"""

from __future__ import annotations

import copy
import re
from functools import cache
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.targets.sagemaker.document.service.extract_shapes import CREATE
from drivetrain.targets.sagemaker.document.service.shapes import FILLED_IN, REFERENCES, check_arguments

ROLE = "arn:aws:iam::111122223333:role/drivetrain"
IMAGE = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch:2.13.0-cpu-amzn2023-sagemaker"
S3 = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/data/"}}
VALID: dict[str, dict[str, Any]] = {
    "Training": {
        "AlgorithmSpecification": {
            "TrainingImage": IMAGE,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python3"],
            "ContainerArguments": ["start.py", "train"],
            "MetricDefinitions": [{"Name": "loss", "Regex": "loss=(.*)"}],
        },
        "HyperParameters": {"epochs": "3"},
        "InputDataConfig": [{"ChannelName": "train", "DataSource": S3}, {"ChannelName": "code", "DataSource": S3}],
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/output/"},
        "ResourceConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 30},
        "RoleArn": ROLE,
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "EnableManagedSpotTraining": False,
        "Tags": [{"Key": "team", "Value": "research"}],
    },
    "Processing": {
        "AppSpecification": {"ImageUri": IMAGE, "ContainerEntrypoint": ["python3"], "ContainerArguments": ["a"]},
        "Environment": {"A": "1"},
        "ProcessingInputs": [
            {
                "InputName": "data",
                "AppManaged": False,
                "S3Input": {
                    "S3Uri": "s3://bucket/data/",
                    "LocalPath": "/opt/ml/processing/input/data",
                    "S3DataType": "S3Prefix",
                    "S3InputMode": "File",
                },
            }
        ],
        "ProcessingOutputConfig": {
            "Outputs": [
                {
                    "OutputName": "train",
                    "S3Output": {
                        "S3Uri": "s3://bucket/out/",
                        "LocalPath": "/opt/ml/processing/output/train",
                        "S3UploadMode": "EndOfJob",
                    },
                }
            ]
        },
        "ProcessingResources": {
            "ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 30}
        },
        "RoleArn": ROLE,
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    },
    "RegisterModel": {
        "ModelPackageGroupName": "digits",
        "ModelApprovalStatus": "PendingManualApproval",
        "CustomerMetadataProperties": {"accuracy": "0.97"},
        "InferenceSpecification": {
            "Containers": [{"Image": IMAGE, "ModelDataUrl": "s3://bucket/model.tar.gz"}],
            "SupportedContentTypes": ["application/json"],
            "SupportedResponseMIMETypes": ["application/json"],
            "SupportedRealtimeInferenceInstanceTypes": ["ml.m5.large"],
        },
        "ModelMetrics": {
            "ModelQuality": {"Statistics": {"ContentType": "application/json", "S3Uri": "s3://bucket/metrics.json"}}
        },
    },
    "Model": {
        "ExecutionRoleArn": ROLE,
        "PrimaryContainer": {"Image": IMAGE, "ModelDataUrl": "s3://bucket/model.tar.gz", "Environment": {"A": "1"}},
    },
    "Transform": {
        "ModelName": "digits",
        "TransformInput": {"DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/batch/"}}},
        "TransformOutput": {"S3OutputPath": "s3://bucket/scores/"},
        "TransformResources": {"InstanceCount": 1, "InstanceType": "ml.m5.large"},
    },
    "Tuning": {
        "HyperParameterTuningJobConfig": {
            "Strategy": "Bayesian",
            "ResourceLimits": {"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 2},
            "ParameterRanges": {
                "ContinuousParameterRanges": [{"Name": "lr", "MinValue": "0.001", "MaxValue": "0.1"}],
                "CategoricalParameterRanges": [{"Name": "optimizer", "Values": ["sgd", "adam"]}],
            },
        },
        "TrainingJobDefinition": {
            "AlgorithmSpecification": {"TrainingImage": IMAGE, "TrainingInputMode": "File"},
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/output/"},
            "ResourceConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 30},
            "RoleArn": ROLE,
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        },
    },
}
# A member to hold what botocore needs and Pipelines fills in.
NAMES = {step: next(iter(FILLED_IN[step])) for step in VALID}
OURS_ALONE = re.compile(
    r"is not known\.|is not of the right form\.|entries\. Allowed:|characters\. Allowed:|is a truth value\.|"
    r"\d+\. Allowed: (\d+ to|at most)"
)


@cache
def model() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("sagemaker", "service-2"))


def botocore_refuses(step: str, arguments: dict[str, Any]) -> set[str]:
    """Paths that botocore's validator complains about."""
    shape = model().operation_model(CREATE[step]).input_shape
    report = ParamValidator().validate({NAMES[step]: "name", **arguments}, shape)
    return {f"Arguments{name}" for _, name, _ in report._errors}


def we_refuse(step: str, arguments: dict[str, Any]) -> dict[str, str]:
    """Path -> message of what we complain about; keys of maps are spelt as botocore spells them."""
    problems = check_arguments(step, arguments)
    return {re.sub(r"\(key '(.*)'\)$", r"(key: \1)", p.path): str(p) for p in problems}


def assert_agreement(step: str, arguments: dict[str, Any]) -> None:
    theirs, ours = botocore_refuses(step, arguments), we_refuse(step, arguments)
    assert theirs <= set(ours), f"botocore refuses {sorted(theirs - set(ours))}"
    unexplained = [ours[path] for path in set(ours) - theirs if not OURS_ALONE.search(ours[path])]
    assert unexplained == []


@pytest.mark.parametrize("step", VALID)
def test_requests_accepted_by_botocore_are_accepted(step: str) -> None:
    assert botocore_refuses(step, VALID[step]) == set()
    assert check_arguments(step, VALID[step]) == []


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where something stands in a request, the request itself left out."""
    found = [path] if path else []
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += places(inner, (*path, key))
    return found


def put(arguments: dict[str, Any], path: tuple[str | int, ...], change: Any) -> dict[str, Any]:
    """A copy with `change(parent, key)` made at the path, unless an earlier change took the path away."""
    result = copy.deepcopy(arguments)
    place: Any = result
    for part in path[:-1]:
        try:
            place = place[part]
        except (KeyError, IndexError, TypeError):
            return result
    if isinstance(place, dict | list):
        change(place, path[-1])
    return result


@pytest.mark.parametrize("step", VALID)
@pytest.mark.parametrize("wrong", [None, True, 0, -1, 1.5, "", "text", [], ["a"], [1], {}, {"Wrong": 1}])
def test_every_place_with_every_wrong_kind_of_value(step: str, wrong: Any) -> None:
    for path in places(VALID[step]):
        assert_agreement(step, put(VALID[step], path, lambda parent, key: parent.__setitem__(key, wrong)))


@pytest.mark.parametrize("step", VALID)
def test_every_place_removed_and_every_object_with_a_member_too_many(step: str) -> None:
    def add(parent: Any, key: str | int) -> None:
        if isinstance(parent, dict):
            parent["Unknown"] = 1

    for path in places(VALID[step]):
        assert_agreement(step, put(VALID[step], path, lambda parent, key: parent.pop(key)))
        assert_agreement(step, put(VALID[step], path, add))


NAMES_OF_NOTHING = st.text(max_size=12).filter(lambda name: name not in REFERENCES)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES_OF_NOTHING, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    step = draw(st.sampled_from(sorted(VALID)))
    arguments = VALID[step]
    for _ in range(draw(st.integers(1, 4))):
        path = draw(st.sampled_from(places(VALID[step])))
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        value = draw(ANYTHING)
        name = draw(NAMES_OF_NOTHING)

        def change(parent: Any, key: Any, action: str = action, value: Any = value, name: str = name) -> None:
            if action == "add" and isinstance(parent, dict):
                parent[name] = value
            elif action == "remove" and isinstance(parent, dict):
                parent.pop(key, None)
            elif isinstance(parent, dict) or (isinstance(key, int) and key < len(parent)):
                parent[key] = value

        arguments = put(arguments, path, change)
    return step, arguments


@pytest.mark.slow
@given(mutated())
@settings(max_examples=150, deadline=None)
def test_mutated_requests_are_refused_where_botocore_refuses_them(case: tuple[str, dict[str, Any]]) -> None:
    assert_agreement(*case)
