"""Endpoint: machines that answer all the time, which a run here does not start; a stub stands for them.

The response has the shape of DescribeEndpoint.
"""

from __future__ import annotations

from typing import Any

from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.step_types import _absent

check, run = _absent.refused("machines of SageMaker's hosting"), _absent.run


def described(context: StepContext) -> dict[str, Any]:
    name = str(context.arguments.get("EndpointName") or context.facts.job_name(context.step.name))
    arn = context.facts.arn(f"endpoint/{name.lower()}")
    return {"EndpointName": name, "EndpointArn": arn, "EndpointStatus": "InService"}
