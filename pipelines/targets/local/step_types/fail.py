"""Fail: ends the execution, saying why."""

from __future__ import annotations

from drivetrain.pipelines.definition.document import StepNode
from drivetrain.pipelines.targets.local.context import Plan, StepContext
from drivetrain.pipelines.targets.local.outcomes import StepFailedError, StepResult

INLINE = True


def check(step: StepNode, plan: Plan) -> list[str]:
    return []


def run(context: StepContext) -> StepResult:
    raise StepFailedError(str(context.arguments.get("ErrorMessage") or "the pipeline's Fail step was reached"))
