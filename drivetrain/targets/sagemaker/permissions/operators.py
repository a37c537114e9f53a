"""The permissions around a pipeline: of its deployers, its schedules, and the function that starts it for events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from drivetrain.targets.sagemaker.document.step_types import job_of
from drivetrain.targets.sagemaker.permissions.job_roles import everywhere
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.pipeline_role import SAGEMAKER
from drivetrain.targets.sagemaker.permissions.places import S3Place
from drivetrain.targets.sagemaker.permissions.policy import Conditions, Statement, Trust, minimal
from drivetrain.targets.sagemaker.permissions.storage import bucket_key, reading, result_keys, writing
from drivetrain.targets.sagemaker.permissions.uses import Reading, Use

SCHEDULER = "scheduler.amazonaws.com"
LAMBDA = "lambda.amazonaws.com"
# https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
POLL = ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
PIPELINE_ACTIONS = (
    "sagemaker:CreatePipeline",
    "sagemaker:DeletePipeline",
    "sagemaker:DescribePipeline",
    "sagemaker:ListPipelineExecutions",
    "sagemaker:ListPipelineVersions",
    "sagemaker:StartPipelineExecution",
    "sagemaker:UpdatePipeline",
)
DESTROYING = ("sagemaker:DeletePipeline", "sagemaker:ListPipelineExecutions", "sagemaker:ListTags")
TAG_ACTIONS = ("sagemaker:AddTags", "sagemaker:DeleteTags", "sagemaker:ListTags")
RULES_GONE = ("events:DeleteRule", "events:ListTagsForResource", "events:ListTargetsByRule", "events:RemoveTargets")
SCHEDULES_GONE = ("scheduler:DeleteSchedule", "scheduler:GetSchedule")
EXECUTION_ACTIONS = (
    "sagemaker:DescribePipelineDefinitionForExecution",
    "sagemaker:DescribePipelineExecution",
    "sagemaker:ListPipelineExecutionSteps",
    "sagemaker:StopPipelineExecution",
)
RULE_ACTIONS = (
    "events:DeleteRule",
    "events:ListTagsForResource",
    "events:ListTargetsByRule",
    "events:PutRule",
    "events:PutTargets",
    "events:RemoveTargets",
    "events:TagResource",
)
SCHEDULE_ACTIONS = (
    "scheduler:CreateSchedule",
    "scheduler:DeleteSchedule",
    "scheduler:GetSchedule",
    "scheduler:UpdateSchedule",
)


def scheduler_statements(names: Names) -> Iterator[Statement]:
    """The role under which EventBridge Scheduler starts the pipeline.

    https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-templated.html
    """
    yield _starting(names, "schedules start the pipeline")
    yield Statement(
        sid="KeepWhatFailed",
        actions=("sqs:SendMessage",),
        resources=(names.dead_letter_queue,),
        reason="a schedule that could not start the pipeline leaves a message",
    )


def starter_statements(names: Names) -> Iterator[Statement]:
    """The role of the function that stands between the queue of events and the pipeline."""
    yield _starting(names, "events start the pipeline")
    yield Statement(
        sid="CountStarts",
        actions=("sagemaker:ListPipelineExecutions",),
        resources=names.spellings(f"pipeline/{names.pipeline}"),
        reason="a trigger may allow so many starts in a time, and no more",
    )
    yield Statement(
        sid="TakeEvents",
        actions=POLL,
        resources=(names.event_queue,),
        reason="Lambda takes the events from the queue under the function's role",
    )
    yield Statement(
        sid="WriteLog",
        actions=("logs:CreateLogStream", "logs:PutLogEvents"),
        resources=(names.arn("logs", f"log-group:{starter_log(names)}:log-stream:*"),),
        reason="the function writes its log",
    )


def starter_log(names: Names) -> str:
    """The log group of the starter."""
    return f"/aws/lambda/{names.named('starter')}"


def deployer_statements(known: Reading, names: Names) -> Iterator[Statement]:
    """The role that deploys and operates the pipeline, such as CI's: `drivetrain plan`, `apply`, `start`, ...

    It deletes no object: what is written once could be written again after it.
    """
    root, written = S3Place(names.bucket, f"{names.root}/"), _written(names)
    replaced = [S3Place(names.bucket, f"{names.root}/applied/{name}.json", whole=True) for name in ("lock", "owner")]
    yield from reading([root], names, "what apply wrote, and what was made")
    yield Statement(
        sid="ReadEncryption",
        actions=("s3:GetEncryptionConfiguration",),
        resources=(f"arn:{names.partition}:s3:::{names.bucket}",),
        reason="plan tells what roles need of the bucket's key",
    )
    yield from writing(
        written,
        names,
        "code, data, and the record of what was applied; none that is there is replaced",
        sid="WriteOnce",
        once=True,
    )
    yield from writing(
        replaced, names, "one writer of the pipeline at a time; whose it is, where it is taken over", sid="HoldLock"
    )
    yield from bucket_key(names, [root], written)
    yield from result_keys([root], known.encrypted, names)
    pipelines = names.spellings(f"pipeline/{names.pipeline}")
    yield Statement(sid="DeployPipeline", actions=PIPELINE_ACTIONS, resources=pipelines, reason="plan, apply, start")
    yield Statement(sid="TagPipeline", actions=TAG_ACTIONS, resources=pipelines, reason="the hash of what was applied")
    yield Statement(
        sid="FollowExecutions",
        actions=EXECUTION_ACTIONS,
        resources=tuple(f"{pipeline}/execution/*" for pipeline in pipelines),
        reason="status, stop, and the report of an execution",
    )
    yield Statement(
        sid="PassToSagemaker",
        actions=("iam:PassRole",),
        resources=(names.pipeline_role,),
        conditions={"StringEquals": {"iam:PassedToService": (SAGEMAKER,)}},
        reason="the pipeline works under its own role",
    )
    yield Statement(
        sid="PassToScheduler",
        actions=("iam:PassRole",),
        resources=(names.role("scheduler"),),
        conditions={"StringEquals": {"iam:PassedToService": (SCHEDULER,)}},
        reason="schedules start the pipeline under a role of their own",
    )
    yield Statement(
        sid="WriteRules", actions=RULE_ACTIONS, resources=(names.rules,), reason="the pipeline's event rules"
    )
    yield Statement(
        sid="WriteSchedules", actions=SCHEDULE_ACTIONS, resources=(names.schedules,), reason="the pipeline's schedules"
    )
    yield from _finding_triggers(names)
    yield from _following(known.uses, names)


def destroyer_statements(names: Names) -> Iterator[Statement]:
    """The role of `drivetrain destroy`: it alone deletes objects, and it puts none but the lock."""
    written = _written(names)
    yield from reading(written, names, "what apply wrote")
    lock = S3Place(names.bucket, f"{names.root}/applied/lock.json", whole=True)
    yield from writing([lock], names, "one writer of the pipeline at a time", sid="HoldLock")
    yield Statement(
        sid="DeleteObjects",
        actions=("s3:DeleteObject",),
        resources=tuple(names.object(place.bucket, f"{place.key}*") for place in written),
        reason="destroy takes away the records of what was applied, and code and data that no other pipeline uses",
    )
    yield from bucket_key(names, written, [lock])
    pipelines = names.spellings(f"pipeline/{names.pipeline}")
    yield Statement(sid="DestroyPipeline", actions=DESTROYING, resources=pipelines, reason="destroy")
    others = "code and data that another pipeline uses stay"
    yield everywhere("FindPipelines", ("sagemaker:ListPipelines",), names, others)
    yield Statement(
        sid="ReadPipelines",
        actions=("sagemaker:DescribePipeline",),
        resources=(names.arn("sagemaker", "pipeline/*"),),
        reason=others,
    )
    yield Statement(sid="DeleteRules", actions=RULES_GONE, resources=(names.rules,), reason="the pipeline's rules")
    yield Statement(
        sid="DeleteSchedules", actions=SCHEDULES_GONE, resources=(names.schedules,), reason="the pipeline's schedules"
    )
    yield from _finding_triggers(names)


def _written(names: Names) -> list[S3Place]:
    """The places that apply writes."""
    return [S3Place(names.bucket, f"{names.root}/{folder}/") for folder in ("applied", "code", "data")]


def _finding_triggers(names: Names) -> Iterator[Statement]:
    yield everywhere("FindRules", ("events:ListRules",), names, "rules are found by the beginning of their names")
    yield everywhere(
        "FindSchedules", ("scheduler:ListSchedules",), names, "schedules are found by the beginning of their names"
    )


def _following(uses: Iterable[Use], names: Names) -> Iterator[Statement]:
    """Jobs and their logs, for the report and for `drivetrain runs logs`."""
    jobs = [(job, use) for use in uses if (job := job_of(use.type)) and job.logs]
    described = [(job, use) for job, use in jobs if use.type != "Tuning"]
    for job in dict.fromkeys(job for job, _ in described):
        given = [f"{use.job.rstrip('*')}*" for other, use in described if other == job]
        yield Statement(
            sid=f"Describe{job.api}s",
            actions=(f"sagemaker:Describe{job.api}",),
            resources=minimal(arn for name in given for arn in names.spellings(f"{job.resource}/{name}")),
            reason="the report of an execution: times, failures, billable seconds",
        )
    groups = tuple(dict.fromkeys(job.logs for job, _ in jobs))
    if groups:
        yield Statement(
            sid="FindLogs",
            actions=("logs:DescribeLogStreams",),
            resources=tuple(names.arn("logs", f"log-group:{group}:*") for group in groups),
            reason="drivetrain runs logs",
        )
        yield Statement(
            sid="ReadLogs",
            actions=("logs:GetLogEvents",),
            resources=minimal(
                names.arn("logs", f"log-group:{job.logs}:log-stream:{use.job.rstrip('*')}*") for job, use in jobs
            ),
            reason="drivetrain runs logs, of jobs that are called as the pipeline's are",
        )


def trust_service(service: str, names: Names, sources: tuple[str, ...]) -> Trust:
    """A service of AWS may take a role on, for this account's things alone (the "confused deputy").

    https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html
    """
    conditions: dict[str, dict[str, tuple[str, ...]]] = {"StringEquals": {"aws:SourceAccount": (names.account,)}}
    if sources:
        conditions["ArnLike"] = {"aws:SourceArn": sources}
    return Trust(service=service, conditions=conditions)


def trust_token(provider: str, issuer: str, audience: str, subjects: Sequence[str]) -> Trust:
    """The bearer of a token of an OpenID provider, such as a CI job, by the subject that the token names.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_create_oidc.html
    """
    conditions: Conditions = {
        "StringEquals": {f"{issuer}:aud": (audience,)},
        "StringLike": {f"{issuer}:sub": tuple(subjects)},
    }
    return Trust(provider=provider, conditions=conditions)


def _starting(names: Names, reason: str) -> Statement:
    return Statement(
        sid="StartPipeline",
        actions=("sagemaker:StartPipelineExecution",),
        resources=names.spellings(f"pipeline/{names.pipeline}"),
        reason=reason,
    )
