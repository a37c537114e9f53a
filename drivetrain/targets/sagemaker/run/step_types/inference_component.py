"""InferenceComponent: a model on an endpoint, which a run here does not start; a stub stands for it.

The response has the shape of DescribeInferenceComponent.
"""

from __future__ import annotations

from typing import Any

from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.step_types import _absent

check, run = _absent.refused("machines of SageMaker's hosting"), _absent.run


def described(context: StepContext) -> dict[str, Any]:
    name = str(context.arguments.get("InferenceComponentName") or context.facts.job_name(context.step.name))
    return {
        "InferenceComponentName": name,
        "InferenceComponentArn": context.facts.arn(f"inference-component/{name.lower()}"),
        "InferenceComponentStatus": "InService",
    }
