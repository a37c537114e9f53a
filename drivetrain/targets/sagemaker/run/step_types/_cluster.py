"""Steps that give a program of Spark to a cluster: a Python file runs here, all else is refused unless stubbed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.spark import clusters
from drivetrain.targets.sagemaker.run.step_types import _absent

Check = Callable[[StepNode, RunPlan], list[str]]
Run = Callable[[StepContext], StepResult]
Named = Callable[[Mapping[str, Any]], list[str]]


def steps(
    read: Callable[[Mapping[str, Any]], clusters.Program], needs: str, describe: _absent.Describe
) -> tuple[Check, Run, Named]:
    """A step type's `check`, `run` and `named`.

    Args:
        read: finds the program in the arguments.
        needs: what its steps work with ("an EMR cluster").
        describe: what the describe call says.
    """

    def check(step: StepNode, plan: RunPlan) -> list[str]:
        try:
            return clusters.problems(step, plan, read(plan.arguments))
        except clusters.NotHereError as problem:
            return [f"{_absent.refusal(step, needs)} It {problem}."]
        except UserError as error:
            return [f"step {step.name!r}: {error}"]

    def run(context: StepContext) -> StepResult:
        clusters.run(context, read(context.arguments))
        return StepResult(response={**context.arguments, **describe(context)})

    def named(arguments: Mapping[str, Any]) -> list[str]:
        try:
            return read(arguments).uris
        except UserError:  # check says it
            return []

    return check, run, named
