"""How many hosts a job has here, and of which type it says they are."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.run.jobs.programs import host_count, instance_type

PREFERRED = [{"InstanceType": "ml.g5.12xlarge"}, {"InstanceType": "ml.g5.16xlarge"}]
COUNTED = [
    {"InstanceType": "ml.g5.12xlarge", "InstanceCount": 2},
    {"InstanceType": "ml.g5.16xlarge", "InstanceCount": 8},
]
GROUPS = [
    {"InstanceGroupName": "main", "InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
    {"InstanceGroupName": "readers", "InstanceType": "ml.c5.xlarge", "InstanceCount": 2},
]


@pytest.mark.parametrize(
    ("resources", "hosts", "name"),
    [
        ({"InstanceType": "ml.m5.xlarge", "InstanceCount": 3}, 3, "ml.m5.xlarge"),
        ({"InstanceGroups": GROUPS}, 3, "ml.g5.xlarge"),
        ({"InstancePreferences": PREFERRED, "InstanceCount": 4}, 4, "ml.g5.12xlarge"),
        ({"InstancePreferences": COUNTED}, 2, "ml.g5.12xlarge"),
        ({"InstancePreferences": {"Get": "Parameters.Types"}, "InstanceCount": 2}, 2, ""),
        ({"InstancePreferences": []}, 1, ""),
    ],
)
def test_hosts(resources: dict[str, Any], hosts: int, name: str) -> None:
    assert (host_count("train", resources), instance_type(resources)) == (hosts, name)


def test_preferences_that_are_none_are_refused() -> None:
    with pytest.raises(UserError, match="InstancePreferences"):
        host_count("train", {"InstancePreferences": ["ml.g5.xlarge"]})
