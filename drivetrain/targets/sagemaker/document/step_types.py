"""The known facts of each type of step: one record a type, so that a new one is entered in one place.

How a type runs on this machine is told by its file in `targets/sagemaker/run/step_types/`. Sources: what the SDK writes
(sagemaker-mlops 1.27 and 1.30, and the v2 line before it), and the pages that the fields name.

What the cache compares of a step are its key attributes: its result is taken from an earlier execution in which these
were equal; outputs, instance types and the role do
not count.
https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-default-keys.html
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

TOP_LEVEL = frozenset(("Version", "Metadata", "Parameters", "PipelineExperimentConfig", "MlflowConfig", "Steps"))
EVERY_STEP = frozenset(
    ("Name", "Type", "Arguments", "DisplayName", "Description", "DependsOn", "CacheConfig", "RetryPolicies")
)
# How the steps are named that a ForEach makes of those that it holds: Child-0, Child-1, ...
CHILD_NAME = re.compile(r"(.+)-\d+", re.DOTALL)


class Job(NamedTuple):
    """A resource that SageMaker makes for a step."""

    api: str
    """In the names of its calls (Create..., Describe..., Stop...), and before `Name`."""
    resource: str
    """In its ARN, before the name."""
    logs: str | None = None
    """The log group, which is CloudWatch's namespace of it, too; None where nothing runs.
    https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html"""
    price: str | None = None
    """How the price list calls its machines: Training, Processing or Transform."""
    stops: bool = True
    """True if it can be stopped."""

    @property
    def name_member(self) -> str:
        """The member of a request that names it."""
        return f"{self.api}Name"

    @property
    def describe(self) -> str:
        """boto3's call that tells of it: `describe_training_job`."""
        return "describe" + re.sub("(?=[A-Z])", "_", self.api).lower()


_PROCESSING = Job("ProcessingJob", "processing-job", "/aws/sagemaker/ProcessingJobs", "Processing")
_TRAINING = Job("TrainingJob", "training-job", "/aws/sagemaker/TrainingJobs", "Training")
_TRANSFORM = Job("TransformJob", "transform-job", "/aws/sagemaker/TransformJobs", "Transform")
_TUNING = Job("HyperParameterTuningJob", "hyper-parameter-tuning-job", "/aws/sagemaker/TrainingJobs")


class StepType(NamedTuple):
    """A type of step, as definitions have it."""

    name: str
    fields: tuple[str, ...] = ()
    """The fields of a step, beside those that every step has."""
    creates: str | None = None
    """The call that the service makes for it; its input is the form of Arguments. Checks of quality and bias are
    processing jobs (sagemaker.workflow.{quality,clarify}_check_step of the SDK)."""
    named_by: str | None = None
    """The member of that call which Pipelines fills in; a definition may still set it (trim_request_dict of
    sagemaker.workflow.utilities)."""
    describes: tuple[str, ...] = ()
    """The calls whose answers a later step can read as `Steps.<name>.<path>`, where the service documents that these
    are all (a check of quality, an AutoML job and an endpoint have properties of their own)."""
    job: Job | None = None
    """The job that it starts, as far as permissions, logs and prices go by it."""
    key: tuple[str, ...] | None = None
    """The arguments that the cache compares; None if they are not documented for the type: all of them count.
    https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-default-keys.html"""
    key_fields: tuple[str, ...] = ()
    """The fields beside the arguments that the cache compares."""
    named_anew: bool = False
    """True if the service makes up its name in each execution, and with it the place that it writes to."""
    is_free: bool = False
    """SageMaker charges nothing for it; what it calls (Lambda, SQS) is billed there, and is little."""
    of_the_pipeline: bool = False
    """True if it is of the pipeline's own making: it needs no permission, and a ForEach cannot hold it."""
    is_structured: bool = False
    """True if the members of its Arguments are known, by a request of the service or as the pipeline's own."""


_CHECKS = (
    *("CheckType", "FailOnViolation", "ModelPackageGroupName", "PropertyFiles", "RegisterNewBaseline", "SkipCheck"),
    *("SuppliedBaselineConstraints", "SuppliedBaselineStatistics"),
)
# CheckType and ModelName are what becomes of the kind of a check's config. Those documented (CheckJobConfig,
# ClarifyCheckConfig, QualityCheckConfig) are the SDK's: a definition has the job that comes of them.
_CHECKS_COMPARED = (
    *("CheckType", "ModelPackageGroupName", "RegisterNewBaseline", "SkipCheck", "SuppliedBaselineConstraints"),
)
_ALL = (
    StepType("Athena"),
    StepType(
        "AutoML",
        creates="CreateAutoMLJob",
        named_by="AutoMLJobName",
        key=("AutoMLJobConfig", "AutoMLJobObjective", "InputDataConfig", "ProblemType"),
        named_anew=True,
        is_structured=True,
    ),
    StepType("Callback", fields=("SqsQueueUrl", "OutputParameters"), is_free=True),
    StepType(
        "ClarifyCheck",
        fields=(*_CHECKS, "ModelName"),
        creates="CreateProcessingJob",
        named_by="ProcessingJobName",
        job=_PROCESSING,
        key_fields=(*_CHECKS_COMPARED, "ModelName"),
        is_structured=True,
    ),
    StepType("Cleanup", is_free=True),
    StepType("Condition", is_free=True, of_the_pipeline=True, is_structured=True),
    StepType("EMR", fields=("ClusterId", "ClusterConfig", "ExecutionRoleArn"), key=("ClusterId", "StepConfig")),
    StepType("EMRServerless", fields=("ApplicationId", "ApplicationConfig", "ExecutionRoleArn")),
    StepType("Endpoint", creates="CreateEndpoint", named_by="EndpointName", is_structured=True),
    StepType(
        "EndpointConfig",
        creates="CreateEndpointConfig",
        named_by="EndpointConfigName",
        is_free=True,
        is_structured=True,
    ),
    StepType("Fail", is_free=True, of_the_pipeline=True, is_structured=True),
    StepType("ForEach", of_the_pipeline=True, is_structured=True),
    StepType("HubContent"),
    StepType("InferenceComponent", is_structured=True),
    StepType("Job"),
    StepType("Lambda", fields=("FunctionArn", "OutputParameters"), is_free=True),
    StepType("Lineage", is_free=True),
    StepType(
        "Model",
        creates="CreateModel",
        named_by="ModelName",
        describes=("DescribeModel",),
        job=Job("Model", "model", stops=False),
        named_anew=True,
        is_free=True,
        is_structured=True,
    ),
    StepType(
        "Processing",
        fields=("PropertyFiles",),
        creates="CreateProcessingJob",
        named_by="ProcessingJobName",
        describes=("DescribeProcessingJob",),
        job=_PROCESSING,
        key=("AppSpecification", "Environment", "ProcessingInputs"),
        named_anew=True,
        is_structured=True,
    ),
    StepType(
        "QualityCheck",
        fields=_CHECKS,
        creates="CreateProcessingJob",
        named_by="ProcessingJobName",
        job=_PROCESSING,
        key_fields=(*_CHECKS_COMPARED, "SuppliedBaselineStatistics"),
        is_structured=True,
    ),
    StepType(
        "RegisterModel",
        creates="CreateModelPackage",
        named_by="ModelPackageName",
        describes=("DescribeModelPackage",),
        is_free=True,
        is_structured=True,
    ),
    StepType(
        "Training",
        fields=("OutputParameters",),
        creates="CreateTrainingJob",
        named_by="TrainingJobName",
        describes=("DescribeTrainingJob",),
        job=_TRAINING,
        key=(
            *("AlgorithmSpecification", "CheckpointConfig", "DebugHookConfig", "DebugRuleConfigurations"),
            *("Environment", "HyperParameters", "InputDataConfig"),
        ),
        named_anew=True,
        is_structured=True,
    ),
    StepType(
        "Transform",
        creates="CreateTransformJob",
        named_by="TransformJobName",
        describes=("DescribeTransformJob",),
        job=_TRANSFORM,
        key=("DataProcessing", "Environment", "ModelName", "TransformInput"),
        named_anew=True,
        is_structured=True,
    ),
    StepType(
        "Tuning",
        creates="CreateHyperParameterTuningJob",
        named_by="HyperParameterTuningJobName",
        describes=("DescribeHyperParameterTuningJob", "ListTrainingJobsForHyperParameterTuningJob"),
        job=_TUNING,
        key=("HyperParameterTuningJobConfig", "TrainingJobDefinition", "TrainingJobDefinitions"),
        named_anew=True,
        is_structured=True,
    ),
)
STEP_TYPES: dict[str, StepType] = {each.name: each for each in _ALL}


# What an execution's step has in its metadata -> its job: the job's name, or of a check the step's type.
JOBS_OF_METADATA: dict[str, Job] = {
    each.name if each.key_fields else each.job.api: each.job for each in _ALL if each.job and each.job.price
}


def step_type(name: str) -> StepType:
    """The record of a type; of one that is not known a record with nothing in it."""
    return STEP_TYPES.get(name) or StepType(name)


def job_of(name: str) -> Job | None:
    """The job that a step of the type starts; None without one."""
    return step_type(name).job


def is_processing(name: str) -> bool:
    """Return True if a step of the type is a processing job, checks included."""
    return job_of(name) is _PROCESSING


# What a Get of Steps.X.Outcome gives, as the service spells it.
TRUE, FALSE = "True", "False"


def outcome(step_type: str, response: Mapping[str, Any]) -> bool | None:
    """The outcome of a Condition step, by its response; None for a step of another type."""
    return response.get("Outcome") == TRUE if step_type == "Condition" else None


# Of the attributes that are objects, the parts that count, where not all of them do.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "AutoMLJobConfig": ("CandidateGenerationConfig", "CompletionCriteria", "DataSplitConfig", "Mode"),
    "TrainingJobDefinition": (
        "AlgorithmSpecification",
        "HyperParameterRanges",
        "InputDataConfig",
        "StaticHyperParameters",
        "TuningObjective",
    ),
}


def key_fields(type_name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The attributes of a step's arguments that make the key; None for a type without known ones."""
    names = step_type(type_name).key
    return None if names is None else {name: _counted(name, arguments[name]) for name in names if name in arguments}


def _counted(attribute: str, value: Any) -> Any:
    parts = _PARTS.get(attribute)
    if parts is None or not isinstance(value, Mapping):
        return value
    given = cast("Mapping[str, Any]", value)
    return {name: given[name] for name in parts if name in given}


def compared(type_name: str, step: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a definition's step that the cache compares: for a type without known attributes, all its
    arguments."""
    arguments: Mapping[str, Any] = step.get("Arguments") or {}
    known = key_fields(type_name, arguments)
    beside = {name: step[name] for name in step_type(type_name).key_fields if name in step}
    return {"Arguments": arguments if known is None else known, **beside}


def counts(type_name: str, place: Sequence[Any]) -> bool:
    """Return True if a place in a step is part of what the cache compares; the step as a whole is."""
    if not place:
        return True
    root, *rest = place
    if root != "Arguments":
        return root in step_type(type_name).key_fields
    names = step_type(type_name).key
    if names is None or not rest:
        return True
    parts = _PARTS.get(rest[0])
    return rest[0] in names and (parts is None or len(rest) == 1 or rest[1] in parts)


def key_of(type_name: str, fields: Mapping[str, Any]) -> str:
    """The sha256 of the key attributes."""
    text = json.dumps([type_name, fields], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
