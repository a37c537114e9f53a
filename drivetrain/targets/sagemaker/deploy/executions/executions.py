"""Executions of a deployed pipeline: found, started, stopped, described."""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.spec.binding import bind
from drivetrain.targets.deployer import runs_command
from drivetrain.targets.fresh import deployed_start
from drivetrain.targets.sagemaker.account import Account, members
from drivetrain.targets.sagemaker.document import document
from drivetrain.targets.sagemaker.document.document import Definition
from drivetrain.targets.sagemaker.document.lengths import too_long
from drivetrain.targets.sagemaker.document.selection import check_selection
from drivetrain.targets.sagemaker.settings import NAME

LATEST = "latest"
GOING = frozenset(["Executing", "Stopping"])
_SHOWN = 100
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StartPipelineExecution.html
_PIPELINE = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}")
_DISPLAY_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,81}")


@dataclass(frozen=True)
class StepRun:
    """What ListPipelineExecutionSteps says of one step. Times are seconds since the epoch.

    `type` is the service's word for what it did (`TrainingJob`, `Condition`, ...), `job` the ARN of its job or model.
    """

    name: str
    status: str
    type: str = ""
    title: str = ""
    started: float | None = None
    ended: float | None = None
    job: str | None = None
    outcome: str | None = None
    """What a condition came to."""
    cached_from: str | None = None
    """The execution whose result was taken, from the cache or because the step was not selected."""
    reason: str | None = None
    attempts: int = 1
    body_step: str | None = None
    """The step in the body of a ForEach that it is one iteration of."""

    @property
    def job_name(self) -> str | None:
        return None if self.job is None else self.job.rpartition("/")[2]

    @property
    def shown_status(self) -> str:
        """As local runs have it: what came from the cache, or from another execution, is `Cached`."""
        return "Cached" if self.cached_from and self.status == "Succeeded" else self.status

    @property
    def value(self) -> str | None:
        """What came out, in a word: a condition's `yes` or `no`, a registered version."""
        if self.type == "Condition" and self.outcome is not None:
            return "yes" if self.outcome == "True" else "no"
        if self.type == "RegisterModel" and self.job is not None:
            return f"version {self.job_name}"
        return None

    @property
    def seconds(self) -> float | None:
        """Wall time, when it has ended."""
        return None if self.started is None or self.ended is None else self.ended - self.started


@dataclass(frozen=True)
class Execution:
    """One execution. Times are seconds since the epoch."""

    arn: str
    pipeline: str
    status: str
    name: str = ""
    started: float | None = None
    modified: float | None = None
    reason: str | None = None
    version: int | None = None
    steps: tuple[StepRun, ...] = ()
    """Those that have begun, the first one first."""

    @property
    def id(self) -> str:
        return self.arn.rpartition("/")[2]

    @property
    def is_going(self) -> bool:
        return self.status in GOING

    @property
    def ended(self) -> float | None:
        return None if self.is_going else self.modified

    def summary(self) -> dict[str, Any]:
        """What a list of executions says of one; the rest is known of a single one."""
        return {
            "execution": self.id,
            "arn": self.arn,
            "pipeline": self.pipeline,
            "name": self.name,
            "status": self.status,
            "started": self.started,
            "reason": self.reason,
        }


def executions(account: Account, pipeline: str, limit: int | None = None) -> list[Execution]:
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
        Execution(
            arn=str(item["PipelineExecutionArn"]),
            pipeline=pipeline,
            status=str(item.get("PipelineExecutionStatus", "")),
            name=str(item.get("PipelineExecutionDisplayName") or ""),
            started=_seconds(item.get("StartTime")),
            reason=item.get("PipelineExecutionFailureReason"),
        )
        for item in islice(found, limit)
    ]


def _about(account: Account, pipeline: str) -> str:
    """What a call about a pipeline says that it is about.

    Raises:
        UserError: no pipeline can have that name, and AWS would answer with a pattern.
    """
    if not _PIPELINE.fullmatch(pipeline):
        raise UserError(
            f"{pipeline!r} is no name of a pipeline. Allowed: letters and digits, with hyphens between them. Those "
            f"that are there: drivetrain list --deployed --region {account.region}"
        )
    return f"pipeline {pipeline!r}"


def find(account: Account, pipeline: str, which: str = LATEST) -> str:
    """The ARN of an execution: by ARN, by id, by the beginning of an id, or `latest`.

    Raises:
        UserError: there is none, several begin so, or the ARN is that of another pipeline's.
    """
    if which.startswith("arn:"):
        # The service may spell the name in lower case in the ARN.
        if "/execution/" not in which:
            raise UserError(f"{which} is no ARN of an execution. Give its id, the beginning of it, or {LATEST!r}.")
        if (other := pipeline_of(which)).lower() != pipeline.lower():
            raise UserError(f"{which} is an execution of {other!r}, not of {pipeline!r}.")
        return which
    if not which.strip():
        raise UserError(f"No execution is named. Give the id, the beginning of it, its name, or {LATEST!r}.")
    there = executions(account, pipeline, 1 if which == LATEST else None)
    if not there:
        raise UserError(
            f"Pipeline {pipeline!r} has not been executed yet. Start it: drivetrain start {pipeline} --region "
            f"{account.region}"
        )
    if which == LATEST:
        return there[0].arn
    found = [item for item in there if item.id.startswith(which) or item.name == which]
    exact = [item for item in found if which in (item.id, item.name)]
    if len(exact or found) == 1:
        return (exact or found)[0].arn
    if found:
        shown = ", ".join(item.id for item in found[:5])
        raise UserError(f"{len(found)} executions of {pipeline!r} are {which!r}: {shown}. Give the id.")
    names = [name for item in there for name in (item.id, item.name) if name]
    likely = difflib.get_close_matches(which, names[:_SHOWN], n=1, cutoff=0.6)
    listed = runs_command("list", (), NAME, pipeline, ("--region", account.region))
    raise UserError(
        f"No execution {which!r} of {pipeline!r}. {f'Did you mean {likely[0]!r}? ' if likely else ''}Those that are "
        f"there: {listed}"
    )


def describe(account: Account, arn: str) -> Execution:
    """An execution with its steps.

    Raises:
        AbsentError: there is none.
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
    return Execution(
        arn=arn,
        pipeline=pipeline_of(arn),
        status=str(said["PipelineExecutionStatus"]),
        name=str(said.get("PipelineExecutionDisplayName") or ""),
        started=_seconds(said.get("CreationTime")),
        modified=_seconds(said.get("LastModifiedTime")),
        reason=said.get("FailureReason") or None,
        version=said.get("PipelineVersionId"),
        steps=tuple(_step(item) for item in steps),
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


def start(
    account: Account,
    pipeline: str,
    *,
    parameters: Mapping[str, str] = {},
    select: Sequence[str] = (),
    source: str | None = None,
    parallel: int | None = None,
    version: int | None = None,
    alias: str | None = None,
    name: str | None = None,
    description: str | None = None,
    token: str | None = None,
    fresh: bool = False,
) -> str:
    """Start an execution; gives its ARN.

    Args:
        parameters: name -> value as text; checked against what is deployed.
        select: the steps to be run, where not all are.
        source: ARN of the execution whose results stand for the others.
        parallel: at most so many steps at a time.
        version: of the pipeline; else `alias`, else the latest.
        token: what is started with the same token is started once; 32 characters and more.
        fresh: use nothing of earlier executions.

    Raises:
        UserError: a parameter or step that it does not have, or AWS refuses.
    """
    about = _about(account, pipeline)
    which: dict[str, Any] = {}
    if name is not None and not _DISPLAY_NAME.fullmatch(name):
        raise UserError(
            f"--name {name!r:.100}: no execution can be called so. Allowed: 1 to 82 letters and digits, with hyphens "
            "between them."
        )
    if version is not None and alias is not None:
        raise UserError("A version and an alias are both given. Give one of them.")
    if version is not None:
        which["PipelineVersionId"] = version
    if alias is not None:
        which["PipelineVersionAlias"] = alias
    of = "" if not which else f"version {version} of " if version is not None else f"version with alias {alias!r} of "
    said = account.call("sagemaker", "describe_pipeline", about=f"{of}{about}", PipelineName=pipeline, **which)
    definition = document.read(str(said["PipelineDefinition"]), about)
    token = token or uuid.uuid4().hex  # one for all tries of this call: a lost answer does not start it twice
    if fresh:
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
        if check_selection(definition, select) and source is None:
            source = _latest_ended(account, pipeline)
        chosen: dict[str, Any] = {"SelectedSteps": [{"StepName": step} for step in dict.fromkeys(select)]}
        arguments["SelectiveExecutionConfig"] = chosen | (
            {} if source is None else {"SourcePipelineExecutionArn": source}
        )
    if parallel is not None:
        arguments["ParallelismConfiguration"] = {"MaxParallelExecutionSteps": parallel}
    for key, value in (("PipelineExecutionDisplayName", name), ("PipelineExecutionDescription", description)):
        if value is not None:
            arguments[key] = value
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


def _step(said: Mapping[str, Any]) -> StepRun:
    kind, about = next(iter(members(said.get("Metadata")).items()), ("", None))
    facts = members(about)
    cached = members(said.get("CacheHitResult") or said.get("SelectiveExecutionResult"))
    context = members(said.get("IterationContext"))
    name, body_step = str(said["StepName"]), None
    if context:
        body_step = name.removesuffix(f"-{context.get('Index')}")
        name = f"{context.get('ParentStepName')}[{context.get('Index')}].{body_step}"
    return StepRun(
        name=name,
        status=str(said.get("StepStatus", "")),
        type=kind,
        title=name if context else str(said.get("StepDisplayName") or name),
        started=_seconds(said.get("StartTime")),
        ended=_seconds(said.get("EndTime")),
        job=facts.get("Arn") or facts.get("CheckJobArn"),
        outcome=facts.get("Outcome"),
        cached_from=str(cached["SourcePipelineExecutionArn"]).rpartition("/")[2] if cached else None,
        reason=said.get("FailureReason") or facts.get("ErrorMessage"),
        attempts=int(said.get("AttemptCount") or 1),
        body_step=body_step,
    )


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
