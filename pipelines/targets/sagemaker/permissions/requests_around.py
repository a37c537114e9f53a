"""The calls of those around a pipeline: deploying, operating and destroying it, its schedules and its starter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from drivetrain.pipelines.targets.sagemaker.permissions.names import Names
from drivetrain.pipelines.targets.sagemaker.permissions.places import EXAMPLE_EXECUTION
from drivetrain.pipelines.targets.sagemaker.permissions.policy import Request
from drivetrain.pipelines.targets.sagemaker.permissions.uses import Reading

_TRIGGER = "nightly-1a2b3c4d"
_JOBS = {
    "Processing": ("ProcessingJob", "processing-job", "ProcessingJobs"),
    "QualityCheck": ("ProcessingJob", "processing-job", "ProcessingJobs"),
    "ClarifyCheck": ("ProcessingJob", "processing-job", "ProcessingJobs"),
    "Training": ("TrainingJob", "training-job", "TrainingJobs"),
    "Tuning": ("HyperParameterTuningJob", "hyper-parameter-tuning-job", "TrainingJobs"),
    "Transform": ("TransformJob", "transform-job", "TransformJobs"),
    "Model": ("Model", "model", None),
}


def deploying(reading: Reading, names: Names) -> Iterator[Request]:
    """plan, apply, start, status, logs, stop and destroy, as the role of CI."""
    role = names.role("ci")

    def ask(action: str, resource: str, why: str, context: Mapping[str, str] | None = None) -> Request:
        known = {"aws:RequestedRegion": names.region, **(context or {})}
        return Request(role=role, action=action, resource=resource, why=why, context=known)

    bucket = f"arn:{names.partition}:s3:::{names.bucket}"
    code, data = f"{names.prefix}/code/0a1b/", f"{names.prefix}/data/2c3d/"
    applied = f"{names.prefix}/{names.pipeline}/applied/"
    made = f"{names.prefix}/{names.pipeline}/{EXAMPLE_EXECUTION}/evaluate/report/"
    for folder in (code, data, applied, made):
        yield ask("s3:ListBucket", bucket, "what is there already, and what an execution made", {"s3:prefix": folder})
        yield ask("s3:GetObject", f"{bucket}/{folder}part-0", "the record of what was applied; results")
    for folder in (code, data, applied):
        yield ask("s3:PutObject", f"{bucket}/{folder}part-0", "apply uploads")
        yield ask("s3:DeleteObject", f"{bucket}/{folder}part-0", "destroy")
    yield ask("s3:ListBucket", bucket, "destroy looks for other pipelines", {"s3:prefix": f"{names.prefix}/"})
    yield ask("s3:GetEncryptionConfiguration", bucket, "plan tells what roles need of the bucket's key")
    theirs = f"{names.prefix}/another/applied/"
    yield ask("s3:ListBucket", bucket, "destroy looks what others need", {"s3:prefix": theirs})
    yield ask("s3:GetObject", f"{bucket}/{theirs}0a1b.json", "destroy looks what others need")
    if names.bucket_key is not None:
        via = {"kms:ViaService": f"s3.{names.region}.amazonaws.com" + (".cn" if names.partition == "aws-cn" else "")}
        for action in ("kms:Decrypt", "kms:GenerateDataKey"):
            yield ask(action, names.bucket_key, "objects of the bucket", via)
    for pipeline in names.spellings(f"pipeline/{names.pipeline}"):
        for action in ("Create", "Describe", "Update", "Delete"):
            yield ask(f"sagemaker:{action}Pipeline", pipeline, "plan, apply, destroy")
        for action in ("AddTags", "ListTags", "DeleteTags"):
            yield ask(f"sagemaker:{action}", pipeline, "the hash of what was applied")
        for action in ("StartPipelineExecution", "ListPipelineExecutions", "ListPipelineVersions"):
            yield ask(f"sagemaker:{action}", pipeline, "start, executions")
        for action in (
            "DescribePipelineDefinitionForExecution",
            "DescribePipelineExecution",
            "ListPipelineExecutionSteps",
            "StopPipelineExecution",
        ):
            yield ask(f"sagemaker:{action}", f"{pipeline}/execution/{EXAMPLE_EXECUTION}", "status, stop, report")
    yield ask(
        "iam:PassRole", names.pipeline_role, "the pipeline's role", {"iam:PassedToService": "sagemaker.amazonaws.com"}
    )
    yield ask(
        "iam:PassRole",
        names.role("scheduler"),
        "the schedules' role",
        {"iam:PassedToService": "scheduler.amazonaws.com"},
    )
    yield from _triggers(names, ask)
    for use in reading.uses:
        if use.type in _JOBS:
            api, resource, log = _JOBS[use.type]
            for arn in names.spellings(f"{resource}/{use.job}") if use.type not in ("Model", "Tuning") else ():
                yield ask(f"sagemaker:Describe{api}", arn, f"the report of step {use.step}")
            if log is not None:
                group = names.arn("logs", f"log-group:/aws/sagemaker/{log}:log-stream:")
                yield ask("logs:DescribeLogStreams", group, "drivetrain logs")
                yield ask("logs:GetLogEvents", f"{group}{use.job}/algo-1-1600000000", "drivetrain logs")


def _triggers(names: Names, ask: Callable[[str, str, str], Request]) -> Iterator[Request]:
    rule = names.arn("events", f"rule/{names.pipeline[:20]}-{_TRIGGER}")
    for action in ("PutRule", "PutTargets", "TagResource", "ListTagsForResource", "ListTargetsByRule"):
        yield ask(f"events:{action}", rule, "rules of the pipeline")
    for action in ("RemoveTargets", "DeleteRule"):
        yield ask(f"events:{action}", rule, "rules that are gone from the code; destroy")
    yield ask("events:ListRules", "*", "rules of the pipeline")
    schedule = names.arn("scheduler", f"schedule/default/{names.pipeline[:20]}-{_TRIGGER}")
    for action in ("CreateSchedule", "GetSchedule", "UpdateSchedule", "DeleteSchedule"):
        yield ask(f"scheduler:{action}", schedule, "schedules of the pipeline")
    yield ask("scheduler:ListSchedules", "*", "schedules of the pipeline")


def starting(names: Names) -> Iterator[Request]:
    """A schedule and an event start the pipeline."""
    context = {"aws:RequestedRegion": names.region}

    def ask(kind: str, action: str, resource: str, why: str) -> Request:
        return Request(role=names.role(kind), action=action, resource=resource, why=why, context=context)

    for kind in ("scheduler", "starter"):
        for pipeline in names.spellings(f"pipeline/{names.pipeline}"):
            yield ask(kind, "sagemaker:StartPipelineExecution", pipeline, f"the {kind} starts the pipeline")
    yield ask("scheduler", "sqs:SendMessage", names.dead_letter_queue, "a schedule that came to nothing")
    for pipeline in names.spellings(f"pipeline/{names.pipeline}"):
        yield ask("starter", "sagemaker:ListPipelineExecutions", pipeline, "the rate limit counts starts")
    for action in ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "ChangeMessageVisibility"):
        yield ask("starter", f"sqs:{action}", names.event_queue, "events come by the queue")
    log = names.arn("logs", f"log-group:/aws/lambda/{names.named('starter')}:log-stream:2026/11/21/[$LATEST]abc")
    for action in ("CreateLogStream", "PutLogEvents"):
        yield ask("starter", f"logs:{action}", log, "the function's log")
