"""Steps that need a service which this machine lacks: refused before anything starts, unless stubbed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drivetrain.base.json_text import object_in
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.execution.scope import output_uri
from drivetrain.targets.sagemaker.run.jobs.job_data import entries

Describe = Callable[[StepContext], dict[str, Any]]


@dataclass(frozen=True)
class AbsentType:
    """A step type that only a stub can stand for. It answers as the module of another type does."""

    needs: str
    """The service that its steps work with ("an EMR cluster")."""
    described: Describe | None = None

    def check(self, step: StepNode, plan: RunPlan) -> list[str]:
        return [refusal(step, self.needs)]

    def run(self, context: StepContext) -> StepResult:
        """It is never called: such a step is refused or stubbed."""
        raise AssertionError(f"step {context.step.name!r} was to be refused before the run")


def refusal(step: StepNode, needs: str) -> str:
    """Why a step is not run here, and what helps."""
    return (
        f"step {step.name!r} ({step.type}) needs {needs}, which this machine does not have. Give its results with "
        f"--stub {step.name}=outputs.json (or --stub {step.name}, where no step needs any)."
    )


def _resource(
    prefix: str, resource: str, service: str = "sagemaker", longest: int | None = None, **status: str
) -> Describe:
    """The describe call of something that has a name, an ARN and a status.

    Args:
        prefix: of the fields of the name and the ARN; the request has the same one for the name.
        resource: as ARNs spell it.
        longest: the most characters that the service allows in a name.
        status: the field of the status, and what it says of success.
    """

    def described(context: StepContext) -> dict[str, Any]:
        given = context.arguments.get(f"{prefix}Name")
        name = str(given or context.facts.job_name(context.step.name)[:longest].rstrip("-"))
        arn = context.facts.arn(f"{resource}/{name.lower()}", service)
        return {f"{prefix}Name": name, f"{prefix}Arn": arn, **status}

    return described


def check_job(*results: tuple[str, str]) -> Describe:
    """Make `described` for a QualityCheck or ClarifyCheck: the files of its job, and the baseline of its drift check.

    Args:
        results: (what, file) that the job writes, such as ("Constraints", "constraints.json").

    https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-quality-clarify-baseline-lifecycle.html
    """

    def described(context: StepContext) -> dict[str, Any]:
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

    return described


# Step type as definitions spell it -> what it needs, and the answer of its describe call (a Bedrock type's is a Get).
ABSENT = {
    "Athena": AbsentType("Amazon Athena"),
    "AutoML": AbsentType(
        "SageMaker Autopilot", _resource("AutoMLJob", "automl-job", longest=32, AutoMLJobStatus="Completed")
    ),
    "BedrockCustomModel": AbsentType(
        "Amazon Bedrock", _resource("Model", "custom-model", "bedrock", ModelStatus="Active")
    ),
    "BedrockCustomModelDeployment": AbsentType(
        "Amazon Bedrock", _resource("ModelDeployment", "custom-model-deployment", "bedrock", Status="Active")
    ),
    "BedrockModelImport": AbsentType(
        "Amazon Bedrock", _resource("ImportedModel", "imported-model", "bedrock", Status="Completed")
    ),
    "BedrockProvisionedModelThroughput": AbsentType(
        "Amazon Bedrock", _resource("ProvisionedModel", "provisioned-model", "bedrock", Status="InService")
    ),
    "ClarifyCheck": AbsentType("Clarify's image", check_job(("Constraints", "analysis.json"))),
    "Cleanup": AbsentType("resources of the account"),
    "Endpoint": AbsentType(
        "machines of SageMaker's hosting", _resource("Endpoint", "endpoint", EndpointStatus="InService")
    ),
    "HubContent": AbsentType("a hub of the account"),
    "InferenceComponent": AbsentType(
        "machines of SageMaker's hosting",
        _resource("InferenceComponent", "inference-component", InferenceComponentStatus="InService"),
    ),
    "Job": AbsentType("SageMaker"),
}
