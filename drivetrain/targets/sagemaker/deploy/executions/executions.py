"""Executions of a deployed pipeline: listed, started, stopped, described."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import as_object, object_in
from drivetrain.deploying.runs import LATEST, RemoteRun
from drivetrain.run_store.model import ENDED, GOING
from drivetrain.spec.binding import bind
from drivetrain.targets.deployer import StartRequest
from drivetrain.targets.fresh import deployed_start
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.executions.execution_jobs import JobStep
from drivetrain.targets.sagemaker.document import document
from drivetrain.targets.sagemaker.document.document import Definition
from drivetrain.targets.sagemaker.document.graph import check_selection
from drivetrain.targets.sagemaker.document.lengths import too_long

_SHOWN = 100
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StartPipelineExecution.html
_PIPELINE = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}")
_DISPLAY_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,81}")


def executions(account: Account, pipeline: str, limit: int | None = None) -> list[RemoteRun]:
    """The pipeline's executions, the newest first, without their steps.

    Raises:
        UserError: no pipeline can have that name.
        AbsentError: there is no such pipeline.
    """
    found = account.pages(
        "sagemaker",
        "list_pipeline_executions",
        "PipelineExecutionSummaries",
        about=_about(account, pipeline),
        PipelineName=pipeline,
        SortBy="CreationTime",
        SortOrder="Descending",
        MaxResults=min(limit or _SHOWN, _SHOWN),
    )
    return [
        RemoteRun(
            id=str(item["PipelineExecutionArn"]).rpartition("/")[2],
            arn=str(item["PipelineExecutionArn"]),
            pipeline=pipeline,
            status=str(item.get("PipelineExecutionStatus", "")),
            name=item.get("PipelineExecutionDisplayName"),
            started=_seconds(item.get("StartTime")) or 0.0,
            reason=item.get("PipelineExecutionFailureReason"),
        )
        for item in islice(found, limit)
    ]


def _about(account: Account, pipeline: str) -> str:
    """The subject of a call about a pipeline, for its messages.

    Raises:
        UserError: no pipeline can have that name, and AWS would answer with a pattern.
    """
    if not _PIPELINE.fullmatch(pipeline):
        raise UserError(
            f"{pipeline!r} is no name of a pipeline. Allowed: letters and digits, with hyphens between them. Those "
            f"that are there: drivetrain list --deployed --region {account.region}"
        )
    return f"pipeline {pipeline!r}"


def of_arn(arn: str, pipeline: str) -> str:
    """The ARN of one of the pipeline's executions.

    Raises:
        UserError: it is none.
    """
    if "/execution/" not in arn:
        raise UserError(f"{arn} is no ARN of an execution. Give its id, the beginning of it, or {LATEST!r}.")
    # The service may spell the name in lower case in the ARN.
    if (other := pipeline_of(arn)).lower() != pipeline.lower():
        raise UserError(f"{arn} is an execution of {other!r}, not of {pipeline!r}.")
    return arn


def describe(account: Account, arn: str) -> RemoteRun:
    """An execution with its steps.

    Raises:
        AbsentError: there is no such execution.
    """
    about = f"execution {arn.rpartition('/')[2]!r}"
    said = account.call("sagemaker", "describe_pipeline_execution", about=about, PipelineExecutionArn=arn)
    steps = account.pages(
        "sagemaker",
        "list_pipeline_execution_steps",
        "PipelineExecutionSteps",
        about=about,
        PipelineExecutionArn=arn,
        SortOrder="Ascending",
    )
    status = str(said["PipelineExecutionStatus"])
    return RemoteRun(
        id=arn.rpartition("/")[2],
        arn=arn,
        pipeline=pipeline_of(arn),
        status=status,
        name=said.get("PipelineExecutionDisplayName"),
        started=_seconds(said.get("CreationTime")) or 0.0,
        ended=None if status in GOING else _seconds(said.get("LastModifiedTime")),
        reason=said.get("FailureReason") or None,
        version=said.get("PipelineVersionId"),
        steps=tuple(map(step_of, steps)),
    )


def pipeline_of(arn: str) -> str:
    """The pipeline's name in an execution's ARN."""
    return arn.rpartition(":pipeline/")[2].partition("/")[0]


def definition_of(account: Account, arn: str) -> Definition:
    """The definition that an execution runs.

    Raises:
        UserError: it is none.
    """
    about = f"execution {arn.rpartition('/')[2]!r}"
    said = account.call(
        "sagemaker", "describe_pipeline_definition_for_execution", about=about, PipelineExecutionArn=arn
    )
    return document.read(str(said["PipelineDefinition"]), about)


def start(account: Account, pipeline: str, request: StartRequest) -> str:
    """Start an execution; gives its ARN. `request.source` is an ARN, `request.token` has 32 characters and more.

    Raises:
        UserError: a parameter or step that it does not have, or AWS refuses.
    """
    about = _about(account, pipeline)
    which: dict[str, Any] = {}
    if request.name is not None and not _DISPLAY_NAME.fullmatch(request.name):
        raise UserError(
            f"--name {request.name!r:.100}: no execution can be called so. Allowed: 1 to 82 letters and digits, with "
            "hyphens between them."
        )
    version, alias = request.version, request.alias
    if version is not None and alias is not None:
        raise UserError("A version and an alias are both given. Give one of them.")
    if version is not None:
        which["PipelineVersionId"] = version
    if alias is not None:
        which["PipelineVersionAlias"] = alias
    of = "" if not which else f"version {version} of " if version is not None else f"version with alias {alias!r} of "
    said = account.call("sagemaker", "describe_pipeline", about=f"{of}{about}", PipelineName=pipeline, **which)
    definition = document.read(str(said["PipelineDefinition"]), about)
    token = request.token or uuid.uuid4().hex  # one for all tries of this call: a lost answer does not start it twice
    parameters, select = request.parameters, request.select
    if request.fresh:
        parameters = deployed_start(parameters, [one.name for one in definition.parameters], pipeline, token)
    values = bind(definition.parameters, parameters)
    for step in definition.all_steps:
        if not select or step.name in select:
            for problem in too_long(step.type, step.arguments, values):
                raise UserError(f"step {step.name!r}: {problem}")
    arguments: dict[str, Any] = dict(which)
    if parameters:
        arguments["PipelineParameters"] = [{"Name": key, "Value": value} for key, value in parameters.items()]
    if select:
        source = request.source
        if check_selection(definition, select) and source is None:
            source = _latest_ended(account, pipeline)
        chosen: dict[str, Any] = {"SelectedSteps": [{"StepName": step} for step in dict.fromkeys(select)]}
        arguments["SelectiveExecutionConfig"] = chosen | (
            {} if source is None else {"SourcePipelineExecutionArn": source}
        )
    if request.parallel is not None:
        arguments["ParallelismConfiguration"] = {"MaxParallelExecutionSteps": request.parallel}
    if request.name is not None:
        arguments["PipelineExecutionDisplayName"] = request.name
    started = account.call(
        "sagemaker",
        "start_pipeline_execution",
        about=about,
        PipelineName=pipeline,
        ClientRequestToken=token,
        **arguments,
    )
    return str(started["PipelineExecutionArn"])


def _latest_ended(account: Account, pipeline: str) -> str:
    # Nothing is taken from one that was stopped.
    # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SelectiveExecutionConfig.html
    for execution in executions(account, pipeline):
        if not (execution.is_going or execution.status == "Stopped"):
            return execution.arn
    raise UserError(
        f"The selected steps need results of others, and no execution of {pipeline!r} has succeeded or failed yet. "
        "Select those, too, or run the whole pipeline first."
    )


def stop(account: Account, arn: str) -> None:
    """Ask an execution to stop: its jobs get SIGTERM and may take their time; one that has ended stays as it is.

    Raises:
        UserError: it has ended.
    """
    about = f"execution {arn.rpartition('/')[2]!r}"
    said = account.call("sagemaker", "describe_pipeline_execution", about=about, PipelineExecutionArn=arn)
    if said["PipelineExecutionStatus"] not in GOING:
        raise UserError(f"Execution {arn.rpartition('/')[2]} has ended: {said['PipelineExecutionStatus']}.")
    account.call(
        "sagemaker",
        "stop_pipeline_execution",
        about=about,
        PipelineExecutionArn=arn,
        ClientRequestToken=uuid.uuid4().hex,
    )


def step_of(said: Mapping[str, Any]) -> JobStep:
    """A step as ListPipelineExecutionSteps tells it."""
    kind, about = next(iter(object_in(said, "Metadata").items()), ("", None))
    facts = as_object(about)
    cached = as_object(said.get("CacheHitResult") or said.get("SelectiveExecutionResult"))
    context = object_in(said, "IterationContext")
    name, body_step, status = str(said["StepName"]), None, str(said.get("StepStatus", ""))
    if context:
        body_step = name.removesuffix(f"-{context.get('Index')}")
        name = f"{context.get('ParentStepName')}[{context.get('Index')}].{body_step}"
    step = JobStep(
        name=name,
        status="Cached" if cached and status == "Succeeded" else status,
        type=kind,
        title=name if context else str(said.get("StepDisplayName") or name),
        started=_seconds(said.get("StartTime")),
        ended=_seconds(said.get("EndTime")),
        arn=facts.get("Arn") or facts.get("CheckJobArn"),
        value=_value(kind, facts),
        cache_of=str(cached["SourcePipelineExecutionArn"]).rpartition("/")[2] if cached else None,
        reason=said.get("FailureReason") or facts.get("ErrorMessage"),
        attempts=int(said.get("AttemptCount") or 1),
        body_step=body_step,
    )
    if step.log_group is not None:
        return step
    why = f"it is taken from {step.cache_of}" if step.cache_of else "it starts no program"
    return replace(step, no_log=why, may_log=not kind and status not in ENDED)


def _value(kind: str, facts: Mapping[str, Any]) -> str | None:
    """The result in a word: a condition's `yes` or `no`, a registered version."""
    if kind == "Condition" and facts.get("Outcome") is not None:
        return "yes" if facts["Outcome"] == "True" else "no"
    return f"version {facts['Arn'].rpartition('/')[2]}" if kind == "RegisterModel" and facts.get("Arn") else None


def _seconds(time: Any) -> float | None:
    return None if time is None else float(time.timestamp())


def versions(account: Account, pipeline: str) -> Iterator[tuple[int, float | None, tuple[str, ...]]]:
    """Number, time and aliases of each version, the newest first."""
    for item in account.pages(
        "sagemaker",
        "list_pipeline_versions",
        "PipelineVersionSummaries",
        about=f"pipeline {pipeline!r}",
        PipelineName=pipeline,
        SortOrder="Descending",
    ):
        aliases = tuple(item.get("PipelineVersionAliases") or ())
        yield int(item["PipelineVersionId"]), _seconds(item.get("CreationTime")), aliases
