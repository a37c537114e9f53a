from __future__ import annotations

from typing import Any

import pytest

from drivetrain.targets.sagemaker.run.jobs.spot_rules import spot_problems

GOOD: dict[str, Any] = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60},
    "CheckpointConfig": {"S3Uri": "s3://b/checkpoints/"},
}
WAIT = {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 59}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"EnableManagedSpotTraining": False}, "MaxWaitTimeInSeconds is set and EnableManagedSpotTraining is not"),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 60}}, "Set it to 60 or more"),
        ({"StoppingCondition": None}, "Set it to 86400 or more"),
        ({"StoppingCondition": WAIT}, "MaxWaitTimeInSeconds (59) is less than MaxRuntimeInSeconds (60)"),
        (
            {"StoppingCondition": {**WAIT, "MaxWaitTimeInSeconds": "60"}},
            "MaxWaitTimeInSeconds is '60'; the service takes",
        ),
        ({"StoppingCondition": {**WAIT, "MaxRuntimeInSeconds": "5"}}, "MaxRuntimeInSeconds is '5'; the service takes"),
        ({"StoppingCondition": {**WAIT, "MaxWaitTimeInSeconds": True}}, "MaxWaitTimeInSeconds is True; the service"),
        ({"StoppingCondition": {**WAIT, "MaxRuntimeInSeconds": 59.5}}, "MaxRuntimeInSeconds is 59.5; the service"),
        ({"CheckpointConfig": None}, "without CheckpointConfig: an interruption would lose everything"),
        ({"CheckpointConfig": {"S3Uri": "s3://b/checkpoints"}}, "Write 's3://b/checkpoints/'"),
    ],
)
def test_spot_settings_refused_by_the_service_or_unsafe_are_refused(changes: dict[str, Any], message: str) -> None:
    [problem] = spot_problems("step 'train'", {**GOOD, **changes})
    assert problem.startswith("step 'train': ") and message in problem


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"EnableManagedSpotTraining": {"Get": "Parameters.Spot"}},
        {
            "EnableManagedSpotTraining": False,
            "StoppingCondition": {"MaxRuntimeInSeconds": 60},
            "CheckpointConfig": None,
        },
        {"StoppingCondition": {"MaxRuntimeInSeconds": {"Get": "Parameters.N"}, "MaxWaitTimeInSeconds": 5}},
        {"CheckpointConfig": {"S3Uri": {"Get": "Parameters.Uri"}}},
        {"CheckpointConfig": {"Get": "Steps.other.CheckpointConfig"}},
    ],
)
def test_valid_or_unknown_spot_settings_are_accepted(changes: dict[str, Any]) -> None:
    assert not list(spot_problems("step 'train'", {**GOOD, **changes}))
