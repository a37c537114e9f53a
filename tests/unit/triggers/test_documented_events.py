"""Each documented kind of SageMaker event, whole and with one thing changed, against patterns of every operator.

What is expected follows from the documented rules alone: a changed field matters to the patterns that name it, and to
no other. Each entry names the pattern, so a wrong answer says where.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.triggers.event_pattern import explain, matches
from drivetrain.triggers.value_tests import loads

EVENTS = Path(__file__).parents[2] / "fixtures" / "events"
ABSENT = object()


def event(kind: str) -> dict[str, Any]:
    return loads((EVENTS / f"{kind}.json").read_text(), kind)


def changed(kind: str, path: str, value: Any) -> dict[str, Any]:
    """The event with one field set, or taken out where the value is ABSENT."""
    made = copy.deepcopy(event(kind))
    *outer, last = path.split("/")
    place: Any = made
    for step in outer:
        place = place[int(step) if isinstance(place, list) else step]
    key: Any = int(last) if isinstance(place, list) else last
    if value is ABSENT:
        del place[key]
    else:
        place[key] = value
    return made


APPROVED = {
    "source": ["aws.sagemaker"],
    "detail-type": ["SageMaker Model Package State Change"],
    "detail": {
        "ModelPackageGroupName": ["digits"],
        "ModelApprovalStatus": ["Approved"],
        "UpdatedModelPackageFields": ["ModelApprovalStatus"],
    },
}
PACKAGE = {
    "approved": APPROVED,
    "version": {"detail": {"ModelPackageVersion": [{"numeric": [">", 5, "<=", 10]}]}},
    "foreign": {
        "detail": {"MetadataProperties": {"GeneratedBy": [{"anything-but": {"wildcard": "*pipeline/digits/*"}}]}}
    },
    "no_metadata": {"detail": {"MetadataProperties": {"GeneratedBy": [{"exists": False}]}}},
    "json": {"detail": {"InferenceSpecification": {"SupportedContentTypes": [{"suffix": "/json"}]}}},
    "pair": {
        "detail": {
            "InferenceSpecification": {
                "Containers": {"Image": [{"wildcard": "*/serve:*"}], "ModelDataUrl": [{"suffix": "/model.tar.gz"}]}
            }
        }
    },
    "stage_or_approved": {
        "detail": {
            "$or": [
                {"ModelLifeCycle": {"Stage": [{"equals-ignore-case": "production"}]}},
                {"ModelApprovalStatus": ["Approved"], "CertifyForMarketplace": [False]},
            ]
        }
    },
}
# What is changed, and for which patterns the answer is then "no" (of the whole event: `no_metadata` alone).
PACKAGE_CHANGES: list[tuple[str, Any, str]] = [
    ("source", "my.sagemaker", "approved"),
    ("source", "AWS.SageMaker", "approved"),
    ("source", ABSENT, "approved"),
    ("source", ["other", "aws.sagemaker"], ""),
    ("detail-type", "SageMaker Model Package State Changed", "approved"),
    ("detail-type", None, "approved"),
    ("account", "999999999999", ""),
    ("resources", [], ""),
    ("detail/ModelPackageGroupName", "digit", "approved"),
    ("detail/ModelPackageGroupName", "digits ", "approved"),
    ("detail/ModelPackageGroupName", {"name": "digits"}, "approved"),
    ("detail/ModelApprovalStatus", "Rejected", "approved stage_or_approved"),
    ("detail/ModelApprovalStatus", "approved", "approved stage_or_approved"),
    ("detail/ModelApprovalStatus", ABSENT, "approved stage_or_approved"),
    ("detail/ModelApprovalStatus", None, "approved stage_or_approved"),
    ("detail/ModelApprovalStatus", ["Rejected", "Approved"], ""),
    ("detail/UpdatedModelPackageFields", ["ModelLifeCycle"], "approved"),
    ("detail/UpdatedModelPackageFields", [], "approved"),
    ("detail/UpdatedModelPackageFields", "ModelApprovalStatus", ""),
    ("detail/UpdatedModelPackageFields", [["ModelApprovalStatus"]], ""),
    ("detail/ModelPackageVersion", 5, "version"),
    ("detail/ModelPackageVersion", 10, ""),
    ("detail/ModelPackageVersion", 10.000001, "version"),
    ("detail/ModelPackageVersion", "7", "version"),
    ("detail/ModelPackageVersion", True, "version"),
    (
        "detail/MetadataProperties/GeneratedBy",
        "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/digits/execution/z",
        "foreign",
    ),
    ("detail/MetadataProperties/GeneratedBy", ABSENT, "foreign -no_metadata"),
    ("detail/MetadataProperties", ABSENT, "foreign -no_metadata"),
    ("detail/MetadataProperties", {}, "foreign -no_metadata"),
    ("detail/MetadataProperties/GeneratedBy", None, ""),
    ("detail/MetadataProperties/GeneratedBy", {"arn": "x"}, "foreign -no_metadata"),
    ("detail/InferenceSpecification/SupportedContentTypes", ["text/csv"], "json"),
    ("detail/InferenceSpecification/SupportedContentTypes", "text/json", ""),
    ("detail/InferenceSpecification/Containers/0/ModelDataUrl", "s3://models/x.tar.gz", "pair"),
    ("detail/InferenceSpecification/Containers/1/ModelDataUrl", "s3://b/model.tar.gz", ""),
    ("detail/InferenceSpecification/Containers/0", ABSENT, "pair"),
    ("detail/CertifyForMarketplace", 0, "stage_or_approved"),
    ("detail/CertifyForMarketplace", "false", "stage_or_approved"),
    ("detail/ModelLifeCycle/Stage", "PRODUCTION", ""),
    ("detail", "not an object", "approved version foreign json pair stage_or_approved -no_metadata"),
]

EXECUTION = {
    "ended": {
        "source": [{"prefix": "aws."}],
        "detail": {
            "currentPipelineExecutionStatus": ["Succeeded"],
            "pipelineArn": [{"suffix": ":pipeline/features"}],
        },
    },
    "not_failed": {"detail": {"currentPipelineExecutionStatus": [{"anything-but": ["Failed", "Stopped"]}]}},
    "was_running": {"detail": {"previousPipelineExecutionStatus": [{"exists": True}]}},
    "no_description": {"detail": {"pipelineExecutionDescription": [None]}},
    "resource": {"resources": [{"wildcard": "arn:aws:sagemaker:*:pipeline/features/execution/*"}]},
    "europe": {"region": [{"anything-but": {"prefix": ["us-", "ap-"]}}]},
    "morning": {"time": [{"wildcard": "*T0*:*Z"}]},
}
EXECUTION_CHANGES: list[tuple[str, Any, str]] = [
    ("source", "aws", "ended"),
    ("source", "aws.", ""),
    ("source", "", "ended"),
    ("detail/currentPipelineExecutionStatus", "Failed", "ended not_failed"),
    ("detail/currentPipelineExecutionStatus", "Stopped", "ended not_failed"),
    ("detail/currentPipelineExecutionStatus", "failed", "ended"),
    ("detail/currentPipelineExecutionStatus", "Executing", "ended"),
    ("detail/currentPipelineExecutionStatus", "", "ended"),
    ("detail/currentPipelineExecutionStatus", None, "ended"),
    ("detail/currentPipelineExecutionStatus", 1, "ended"),
    ("detail/currentPipelineExecutionStatus", ABSENT, "ended not_failed"),
    ("detail/currentPipelineExecutionStatus", [], "ended not_failed"),
    ("detail/currentPipelineExecutionStatus", ["Failed", "Stopped"], "ended not_failed"),
    ("detail/currentPipelineExecutionStatus", ["Failed", "Succeeded"], ""),
    ("detail/pipelineArn", "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/my-features", "ended"),
    ("detail/pipelineArn", "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/features2", "ended"),
    ("detail/previousPipelineExecutionStatus", ABSENT, "was_running"),
    ("detail/previousPipelineExecutionStatus", None, ""),
    ("detail/previousPipelineExecutionStatus", {"status": "Executing"}, "was_running"),
    ("detail/previousPipelineExecutionStatus", {}, "was_running"),
    ("detail/previousPipelineExecutionStatus", [], "was_running"),
    ("detail/pipelineExecutionDescription", "", "no_description"),
    ("detail/pipelineExecutionDescription", "null", "no_description"),
    ("detail/pipelineExecutionDescription", ABSENT, "no_description"),
    ("resources", ["arn:aws:sagemaker:eu-west-1:123456789012:pipeline/features"], "resource"),
    ("resources", "arn:aws:sagemaker:x:pipeline/features/execution/", ""),
    ("region", "us-east-1", "europe"),
    ("region", "ap-south-1", "europe"),
    ("region", "us", ""),
    ("time", "2026-03-04T16:00:01Z", "morning"),
    ("time", "T0:Z", ""),
    ("time", "T0Z:", "morning"),
]

STEP = {
    "failed": {"detail": {"currentStepStatus": ["Failed"], "stepType": ["Training", "Processing"]}},
    "cleaning": {"detail": {"stepName": [{"equals-ignore-case": "CLEAN"}]}},
    "own_fault": {"detail": {"failureReason": [{"prefix": {"equals-ignore-case": "clienterror"}}]}},
    "rows": {"detail": {"failureReason": [{"suffix": {"equals-ignore-case": "LEFT"}}]}},
    "not_clean": {"detail": {"stepName": [{"anything-but": {"equals-ignore-case": ["clean", "tidy"]}}]}},
    "has_job": {"detail": {"metadata": {"processingJob": {"arn": [{"exists": True}]}}}},
    "job_object": {"detail": {"metadata": {"processingJob": [{"exists": True}]}}},
    "empty_cache": {"detail": {"cacheHitResult": {"sourcePipelineExecutionArn": [""]}}},
    "either": {
        "$or": [{"detail": {"stepName": ["train"]}}, {"detail": {"currentStepStatus": ["Failed"]}}],
        "source": ["aws.sagemaker"],
    },
}
STEP_CHANGES: list[tuple[str, Any, str]] = [
    ("detail/currentStepStatus", "Succeeded", "failed either"),
    ("detail/currentStepStatus", ABSENT, "failed either"),
    ("detail/currentStepStatus", ["Failed"], ""),
    ("detail/stepType", "Training", ""),
    ("detail/stepType", "training", "failed"),
    ("detail/stepType", "Tuning", "failed"),
    ("detail/stepType", None, "failed"),
    ("detail/stepName", "Clean", ""),
    ("detail/stepName", "clean ", "cleaning -not_clean"),
    ("detail/stepName", "TIDY", "cleaning"),
    ("detail/stepName", "train", "cleaning -not_clean"),
    ("detail/stepName", 5, "cleaning -not_clean"),
    ("detail/stepName", ABSENT, "cleaning"),
    ("detail/failureReason", "CLIENTERROR: x", "rows"),
    ("detail/failureReason", "InternalError: nothing is Left", "own_fault"),
    ("detail/failureReason", "", "own_fault rows"),
    ("detail/failureReason", ABSENT, "own_fault rows"),
    ("detail/failureReason", ["ClientError", "is left"], ""),
    ("detail/metadata", {}, "has_job"),
    ("detail/metadata", {"trainingJob": {"arn": "x"}}, "has_job"),
    ("detail/metadata/processingJob", "arn", "has_job -job_object"),
    ("detail/metadata/processingJob", None, "has_job -job_object"),
    ("detail/metadata/processingJob", [{"arn": "a"}, {"arn": "b"}], ""),
    ("detail/cacheHitResult", ABSENT, "empty_cache"),
    ("detail/cacheHitResult/sourcePipelineExecutionArn", None, "empty_cache"),
    ("detail/cacheHitResult/sourcePipelineExecutionArn", " ", "empty_cache"),
    ("source", "aws.other", "either"),
]

TRAINING = {
    "failed": {"detail": {"TrainingJobStatus": ["Failed", "Stopped"]}},
    "large": {"detail": {"ResourceConfig": {"InstanceCount": [{"numeric": [">=", 3]}]}}},
    "three": {"detail": {"ResourceConfig": {"InstanceCount": [3]}}},
    "volume": {"detail": {"ResourceConfig": {"VolumeSizeInGB": [{"numeric": ["=", 20.5]}]}}},
    "not_three_hours": {"detail": {"StoppingCondition": {"MaxRuntimeInSeconds": [{"anything-but": [10800, 7200]}]}}},
    "spot": {"detail": {"EnableManagedSpotTraining": [True]}},
    "no_vpc": {"detail": {"VpcConfig": {"Subnets": [{"exists": False}]}}},
    "zipped_validation": {"detail": {"InputDataConfig": {"ChannelName": ["validation"], "CompressionType": ["Gzip"]}}},
    "plain_train": {
        "detail": {
            "InputDataConfig": {
                "ChannelName": ["train"],
                "DataSource": {"S3DataSource": {"S3Uri": [{"prefix": "s3://data/train"}]}},
            }
        }
    },
    "gpu": {"detail": {"ResourceConfig": {"InstanceType": [{"wildcard": "ml.g*.*xlarge"}]}}},
    "some_reason": {"detail": {"FailureReason": [{"anything-but": ""}]}},
}
TRAINING_CHANGES: list[tuple[str, Any, str]] = [
    ("detail/TrainingJobStatus", "Completed", "failed"),
    ("detail/TrainingJobStatus", "Stopped", ""),
    ("detail/ResourceConfig/InstanceCount", 2, "large three"),
    ("detail/ResourceConfig/InstanceCount", 3.0, "three"),
    ("detail/ResourceConfig/InstanceCount", "3", "large three"),
    ("detail/ResourceConfig/InstanceCount", 4, "three"),
    ("detail/ResourceConfig/InstanceCount", 6e9, "large three"),
    ("detail/ResourceConfig/InstanceCount", [1, 3], ""),
    ("detail/ResourceConfig/VolumeSizeInGB", 20.50000001, "volume"),
    ("detail/ResourceConfig/VolumeSizeInGB", 20.500001, "volume"),
    ("detail/StoppingCondition/MaxRuntimeInSeconds", 10800, "not_three_hours"),
    ("detail/StoppingCondition/MaxRuntimeInSeconds", 7200.0, "not_three_hours"),
    ("detail/StoppingCondition/MaxRuntimeInSeconds", "10800", ""),
    ("detail/StoppingCondition", ABSENT, "not_three_hours"),
    ("detail/EnableManagedSpotTraining", False, "spot"),
    ("detail/EnableManagedSpotTraining", 1, "spot"),
    ("detail/EnableManagedSpotTraining", "true", "spot"),
    ("detail/VpcConfig", {"Subnets": ["subnet-1"]}, "no_vpc"),
    ("detail/VpcConfig", {"Subnets": []}, ""),
    ("detail/VpcConfig", ABSENT, ""),
    ("detail/InputDataConfig/1/CompressionType", "None", "zipped_validation"),
    ("detail/InputDataConfig/0/CompressionType", "Gzip", ""),
    ("detail/InputDataConfig/1", ABSENT, "zipped_validation"),
    ("detail/InputDataConfig", [], "zipped_validation plain_train"),
    ("detail/InputDataConfig/0/DataSource/S3DataSource/S3Uri", "s3://data/val/", "plain_train"),
    ("detail/InputDataConfig/1/DataSource/S3DataSource/S3Uri", "s3://data/train/", ""),
    ("detail/ResourceConfig/InstanceType", "ml.m5.xlarge", "gpu"),
    ("detail/ResourceConfig/InstanceType", "ml.g.xlarge", ""),
    ("detail/ResourceConfig/InstanceType", "ml.g5xlarge", "gpu"),
    ("detail/FailureReason", "out of memory", "-some_reason"),
    ("detail/FailureReason", None, "-some_reason"),
    ("detail/FailureReason", ABSENT, ""),
]

KINDS: dict[str, tuple[dict[str, Any], list[tuple[str, Any, str]], set[str]]] = {
    "model_package": (PACKAGE, PACKAGE_CHANGES, {"no_metadata"}),
    "pipeline_execution": (EXECUTION, EXECUTION_CHANGES, set()),
    "pipeline_step": (STEP, STEP_CHANGES, {"not_clean", "job_object"}),
    "training_job": (TRAINING, TRAINING_CHANGES, {"some_reason"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_event(kind: str) -> None:
    patterns, changes, no = KINDS[kind]
    assert {name for name, pattern in patterns.items() if not matches(pattern, event(kind))} == no
    assert len(changes) >= 20


@pytest.mark.parametrize(
    ("kind", "path", "value", "answers"),
    [
        pytest.param(
            kind, path, value, answers, id=f"{kind}-{path}-{'absent' if value is ABSENT else json.dumps(value)}"
        )
        for kind, (_, changes, _) in KINDS.items()
        for path, value, answers in changes
    ],
)
def test_a_change_of_one_field_breaks_the_match(kind: str, path: str, value: Any, answers: str) -> None:
    """`answers` lists the patterns that no longer match; with a minus, those that now do."""
    patterns, _, no = KINDS[kind]
    expected = set(no)
    for answer in answers.split():
        if answer.startswith("-"):
            expected.remove(answer[1:])
        else:
            assert answer not in no
            expected.add(answer)
    given = changed(kind, path, value)
    found = {name: explain(pattern, given) for name, pattern in patterns.items()}
    assert {name for name, why in found.items() if why} == expected
    for name in expected - no:
        field = path.replace("/", ".").replace(".0", "").replace(".1", "")
        assert any(why.field.startswith(field) or why.apart for why in found[name]) or "$or" in json.dumps(
            patterns[name]
        )
