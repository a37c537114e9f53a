"""Model: a record of images and model data under a name, which a Transform step reads.

The response has the shape of DescribeModel.
"""

from __future__ import annotations

import time
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.run_store.objects import missing
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.batch_transform.containers import containers, data_uris
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs import programs as jobs


def check(step: StepNode, plan: RunPlan) -> list[str]:
    where = f"step {step.name!r}"
    try:
        found = containers(plan.arguments)
    except UserError as error:
        return [f"{where}: {error}"]
    if not found:
        return [f"{where} has no container. Allowed: PrimaryContainer, or Containers with at least one."]
    uris = [uri for container in found for uri in data_uris(container)]
    return [problem for uri in uris for problem in jobs.input_problems(f"{where}: model data", uri, plan)]


def described(context: StepContext) -> dict[str, Any]:
    name = str(context.arguments.get("ModelName") or context.facts.job_name(context.step.name))
    return {"ModelName": name, "ModelArn": context.facts.arn(f"model/{name.lower()}"), "CreationTime": time.time()}


def run(context: StepContext) -> StepResult:
    for uri in (uri for container in containers(context.arguments) for uri in data_uris(container)):
        if not context.store.exists(str(uri)):
            raise UserError(missing(f"step {context.step.name!r}: model data", str(uri), context.store))
    response = {**context.arguments, **described(context)}
    return StepResult(response=response, value=response["ModelName"])
