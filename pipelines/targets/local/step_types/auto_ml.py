"""AutoML: a job that only SageMaker runs; a stub stands for it. The response has the shape of DescribeAutoMLJob."""

from __future__ import annotations

from typing import Any

from drivetrain.pipelines.targets.local import absent
from drivetrain.pipelines.targets.local.context import StepContext

check, run = absent.refused("SageMaker Autopilot"), absent.run


def described(context: StepContext) -> dict[str, Any]:
    name = str(context.arguments.get("AutoMLJobName") or context.facts.job_name(context.step.name)[:32].rstrip("-"))
    return {
        "AutoMLJobName": name,
        "AutoMLJobArn": context.facts.arn(f"automl-job/{name.lower()}"),
        "AutoMLJobStatus": "Completed",
    }
