"""Condition: decides which branch runs. The scheduler does the rest."""

from __future__ import annotations

from drivetrain.targets.sagemaker.document.conditions import evaluate
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.step_types import FALSE, TRUE
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult

INLINE = True


def check(step: StepNode, plan: RunPlan) -> list[str]:
    return []  # graph.check has read the conditions


def run(context: StepContext) -> StepResult:
    holds = evaluate(context.arguments["Conditions"], lambda value: value)
    outcome = TRUE if holds else FALSE
    return StepResult(response={"Outcome": outcome}, value="yes" if holds else "no")
