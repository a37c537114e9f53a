"""EndpointConfig: a record of variants under a name. The response has the shape of DescribeEndpointConfig."""

from __future__ import annotations

import time
from typing import Any

from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult


def check(step: StepNode, plan: RunPlan) -> list[str]:
    if plan.arguments.get("ProductionVariants"):
        return []
    return [f"step {step.name!r} has no ProductionVariants. Allowed: a list with at least one."]


def described(context: StepContext) -> dict[str, Any]:
    name = str(context.arguments.get("EndpointConfigName") or context.facts.job_name(context.step.name))
    arn = context.facts.arn(f"endpoint-config/{name.lower()}")
    return {"EndpointConfigName": name, "EndpointConfigArn": arn, "CreationTime": time.time()}


def run(context: StepContext) -> StepResult:
    response = {**context.arguments, **described(context)}
    return StepResult(response=response, value=response["EndpointConfigName"])
