"""BedrockProvisionedModelThroughput: capacity of Amazon Bedrock; a stub stands for it.

The response has the shape of GetProvisionedModelThroughput.
"""

from __future__ import annotations

from typing import Any

from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.step_types import _absent

check, run = _absent.refused("Amazon Bedrock"), _absent.run


def described(context: StepContext) -> dict[str, Any]:
    name = str(context.arguments.get("ProvisionedModelName") or context.facts.job_name(context.step.name))
    arn = context.facts.arn(f"provisioned-model/{name.lower()}", "bedrock")
    return {"ProvisionedModelName": name, "ProvisionedModelArn": arn, "Status": "InService"}
