"""AutoML: a job that only SageMaker runs; a stub stands for it. The response has the shape of DescribeAutoMLJob."""

from __future__ import annotations

from typing import Any

from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.step_types import _absent

check, run = _absent.refused("SageMaker Autopilot"), _absent.run


def described(context: StepContext) -> dict[str, Any]:
    name = str(context.arguments.get("AutoMLJobName") or context.facts.job_name(context.step.name)[:32].rstrip("-"))
    return {
        "AutoMLJobName": name,
        "AutoMLJobArn": context.facts.arn(f"automl-job/{name.lower()}"),
        "AutoMLJobStatus": "Completed",
    }
