"""BedrockModelImport: an import into Amazon Bedrock; a stub stands for it.

The response has the shape of GetModelImportJob.
"""

from __future__ import annotations

from typing import Any

from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.step_types import _absent

check, run = _absent.refused("Amazon Bedrock"), _absent.run


def described(context: StepContext) -> dict[str, Any]:
    name = str(context.arguments.get("ImportedModelName") or context.facts.job_name(context.step.name))
    arn = context.facts.arn(f"imported-model/{name.lower()}", "bedrock")
    return {"ImportedModelName": name, "ImportedModelArn": arn, "Status": "Completed"}
