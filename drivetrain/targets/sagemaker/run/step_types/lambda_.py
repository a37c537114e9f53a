"""Lambda: a Python handler of the user's, called in a process of its own.

Which one: the option `functions`, by ARN, function name or step name. The service waits at most ten minutes and takes
and gives at most 6 MB (https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs import handlers

_TIMEOUT_S = 600.0


def check(step: StepNode, plan: RunPlan) -> list[str]:
    arn = plan.raw.get("FunctionArn")
    target = _target(step.name, arn, plan.options.functions)
    shown = arn if isinstance(arn, str) else "ARN"
    if target is None:
        return [
            f"step {step.name!r} calls {shown}, and no handler is given for it here. Give one with "
            f"--lambda {shown}=file.py:handler (or module:handler), or its results with --stub "
            f"{step.name}=outputs.json."
        ]
    return handlers.problems(step, target) or handlers.output_problems(step)


def run(context: StepContext) -> StepResult:
    arn = str(context.fields.get("FunctionArn"))
    target = _target(context.step.name, arn, context.options.functions)
    assert target is not None, "checked before the run"
    event = dict(context.arguments)
    answer = handlers.call(context, target, event, name=_function_name(arn), arn=arn, timeout_s=_TIMEOUT_S)
    outputs = handlers.outputs(context.step, answer)
    response = {**context.arguments, "FunctionArn": arn, "OutputParameters": outputs}
    return StepResult(response=response, value=handlers.shown(outputs))


def _target(step: str, arn: Any, functions: Mapping[str, str]) -> str | None:
    names = [arn, _function_name(arn), step] if isinstance(arn, str) else [step]
    return next((functions[name] for name in names if name in functions), None)


def _function_name(arn: str) -> str:
    """`arn:aws:lambda:region:account:function:name[:version]` -> name."""
    parts = arn.split(":")
    return parts[6] if len(parts) > 6 and parts[5] == "function" else arn
