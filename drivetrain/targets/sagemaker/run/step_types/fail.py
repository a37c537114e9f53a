"""Fail: ends the execution, saying why."""

from __future__ import annotations

from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution import StepFailedError
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult

INLINE = True


def check(step: StepNode, plan: RunPlan) -> list[str]:
    return []


def run(context: StepContext) -> StepResult:
    raise StepFailedError(str(context.arguments.get("ErrorMessage") or "the pipeline's Fail step was reached"))
