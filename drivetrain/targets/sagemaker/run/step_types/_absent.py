"""Steps that need a service which this machine lacks: refused before anything starts, unless stubbed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drivetrain.targets.sagemaker.document import object_in
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.execution.scope import output_uri
from drivetrain.targets.sagemaker.run.jobs.job_data import entries

Check = Callable[[StepNode, RunPlan], list[str]]


def refused(needs: str) -> Check:
    """A step type's `check`; `needs` is what its steps work with ("an EMR cluster")."""

    def check(step: StepNode, plan: RunPlan) -> list[str]:
        return [
            f"step {step.name!r} ({step.type}) needs {needs}, which this machine does not have. Give its results with "
            f"--stub {step.name}=outputs.json (or --stub {step.name}, where no step needs any)."
        ]

    return check


def run(context: StepContext) -> StepResult:
    """A step type's `run`. It is never called: such a step is refused or stubbed."""
    raise AssertionError(f"step {context.step.name!r} was to be refused before the run")


def check_job(context: StepContext, *results: tuple[str, str]) -> dict[str, Any]:
    """What a QualityCheck or ClarifyCheck says of itself: the files of its job, and the baseline of its drift check.

    Args:
        results: (what, file) that the job writes, such as ("Constraints", "constraints.json").

    https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-quality-clarify-baseline-lifecycle.html
    """
    arguments, fields = context.arguments, context.fields
    name = context.facts.job_name(context.step.name)
    response: dict[str, Any] = {
        "CheckType": fields.get("CheckType"),
        "CheckJobArn": context.facts.arn(f"processing-job/{name}"),
        "ModelPackageGroupName": fields.get("ModelPackageGroupName"),
        "SkipCheck": fields.get("SkipCheck", False),
        "RegisterNewBaseline": fields.get("RegisterNewBaseline", False),
    }
    outputs = entries(object_in(arguments, "ProcessingOutputConfig"), "Outputs")
    where = output_uri(arguments, str(outputs[0].get("OutputName"))) if outputs else None
    for what, file in results:
        calculated = None if where is None else f"{where.rstrip('/')}/{file}"
        supplied = fields.get(f"SuppliedBaseline{what}")
        response[f"CalculatedBaseline{what}"] = calculated
        response[f"BaselineUsedForDriftCheck{what}"] = calculated if response["RegisterNewBaseline"] else supplied
    return {key: value for key, value in response.items() if value is not None}
