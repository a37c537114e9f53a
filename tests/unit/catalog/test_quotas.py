"""The written limits are those of the service model, where it states them."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.catalog import quotas
from drivetrain.targets.sagemaker.document.service import service
from drivetrain.triggers import event_values


@pytest.mark.parametrize(
    ("limit", "shape"),
    [
        (quotas.MAX_DEFINITION_CHARACTERS, "PipelineDefinition"),
        (quotas.MAX_DISPLAY_NAME_CHARACTERS, "PipelineName"),
        (quotas.MAX_DESCRIPTION_CHARACTERS, "PipelineDescription"),
        (quotas.MAX_TAGS, "TagList"),
        (quotas.MAX_TAG_KEY_CHARACTERS, "TagKey"),
        (quotas.MAX_TAG_VALUE_CHARACTERS, "TagValue"),
        (quotas.MAX_PARAMETER_VALUE_CHARACTERS, "String1024"),
        (quotas.MAX_PARAMETERS_AT_START, "ParameterList"),
        (quotas.MAX_JOB_NAME_CHARACTERS, "TrainingJobName"),
        (quotas.MAX_JOB_NAME_CHARACTERS, "ProcessingJobName"),
        (quotas.MAX_HYPERPARAMETERS, "HyperParameters"),
        (quotas.MAX_HYPERPARAMETER_CHARACTERS, "HyperParameterValue"),
        (quotas.MAX_CHANNELS, "InputDataConfig"),
        (quotas.MAX_ARGUMENTS, "ContainerArguments"),
        (quotas.MAX_ARGUMENTS, "TrainingContainerArguments"),
        (quotas.MAX_ARGUMENT_CHARACTERS, "ContainerArgument"),
        (quotas.MAX_ARGUMENT_CHARACTERS, "TrainingContainerArgument"),
        (quotas.MAX_PROCESSING_INPUTS, "ProcessingInputs"),
        (quotas.MAX_PROCESSING_OUTPUTS, "ProcessingOutputs"),
        (quotas.MAX_WARM_POOL_SECONDS, "KeepAlivePeriodInSeconds"),
        (quotas.MAX_JOB_RETRIES, "MaximumRetryAttempts"),
        (quotas.PENDING_SECONDS[1], "MaxPendingTimeInSeconds"),
        (quotas.MAX_INSTANCE_GROUPS, "InstanceGroups"),
        (quotas.MAX_INSTANCE_PREFERENCES, "InstancePreferenceList"),
        (quotas.MAX_SUBNETS, "Subnets"),
        (quotas.MAX_SECURITY_GROUPS, "VpcSecurityGroupIds"),
        (quotas.MAX_RUN_SECONDS["Processing"], "ProcessingMaxRuntimeInSeconds"),
        (quotas.MAX_SELECTED_STEPS, "SelectedStepList"),
        (quotas.MAX_TUNED_HYPERPARAMETERS, "ContinuousParameterRanges"),
    ],
)
def test_a_limit_is_that_of_the_service_model(limit: int, shape: str) -> None:
    shapes: dict[str, Any] = service()["shapes"]
    assert shapes[shape]["max"] == limit


def test_the_limit_that_travels_without_the_package_is_the_same() -> None:
    # event_values goes to the function that starts pipelines, which has no spec beside it.
    assert event_values.MAX_VALUE_CHARACTERS == quotas.MAX_PARAMETER_VALUE_CHARACTERS


def test_the_least_that_a_job_waits_is_that_of_the_service_model() -> None:
    assert service()["shapes"]["MaxPendingTimeInSeconds"]["min"] == quotas.PENDING_SECONDS[0]


def test_default_limits_are_below_the_maximum_ones() -> None:
    assert quotas.DEFAULT_MAX_RUN_SECONDS < quotas.MAX_RUN_SECONDS["Training"] == 28 * 24 * 3600
    assert quotas.DEFAULT_WARM_POOL_SECONDS < quotas.MAX_WARM_POOL_SECONDS
