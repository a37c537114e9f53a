"""BedrockCustomModelDeployment: a deployment in Amazon Bedrock; a stub stands for it.

The response has the shape of GetCustomModelDeployment.
"""

from __future__ import annotations

from typing import Any

from drivetrain.pipelines.targets.local import absent
from drivetrain.pipelines.targets.local.context import StepContext

check, run = absent.refused("Amazon Bedrock"), absent.run


def described(context: StepContext) -> dict[str, Any]:
    name = str(context.arguments.get("ModelDeploymentName") or context.facts.job_name(context.step.name))
    arn = context.facts.arn(f"custom-model-deployment/{name.lower()}", "bedrock")
    return {"ModelDeploymentName": name, "ModelDeploymentArn": arn, "Status": "Active"}
