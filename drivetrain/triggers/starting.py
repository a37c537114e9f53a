"""From a queued event to the start of a pipeline: which trigger, whether it may, under which token, with which values.

The rule of a trigger sends `{"trigger": ..., "event": ...}`: all that the decision needs comes with the message, so
that one Lambda serves every pipeline. What is decided here is what the Lambda does and what `drivetrain triggers
replay` shows. The standard library alone is imported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.catalog import MODEL_PACKAGE_EVENT
from drivetrain.triggers.event_values import ParameterSource, parameters

LOOKED_BACK = timedelta(days=2)
"""How far back executions are looked at for one that this event started: longer than EventBridge goes on trying."""

_DIGITS = 12
# As SOURCE of drivetrain/decision/served_findings.py.
_FINDINGS = "drivetrain"


@dataclass(frozen=True)
class Request:
    """A trigger as it travels in its rule."""

    trigger: str
    pipeline: str
    """The pipeline's name."""

    pipeline_arn: str
    parameters: Mapping[str, ParameterSource] = field(default_factory=dict[str, ParameterSource])
    loop_guard: bool = True
    starts: int | None = None
    """At most so many starts in `seconds`."""

    seconds: int | None = None
    window_seconds: int | None = None
    """Events in the same slot of so many seconds count as one."""

    max_parallel_steps: int | None = None

    def to_json(self) -> dict[str, Any]:
        parameters = {
            name: {"type": one.type, "value": one.value, **({"choices": list(one.choices)} if one.choices else {})}
            for name, one in self.parameters.items()
        }
        values = {**vars(self), "parameters": parameters}
        return {name: value for name, value in values.items() if value is not None}

    @staticmethod
    def from_json(given: Mapping[str, Any]) -> Request:
        """Read a request from the output of `to_json`.

        Raises:
            UserError: it is something else.
        """
        try:
            wanted = {
                str(name): ParameterSource(str(one["type"]), str(one["value"]), tuple(map(str, one.get("choices", ()))))
                for name, one in given.get("parameters", {}).items()
            }
            numbers = {
                name: None if given.get(name) is None else int(given[name])
                for name in ("starts", "seconds", "window_seconds", "max_parallel_steps")
            }
            pipeline, arn = str(given["pipeline"]), str(given["pipeline_arn"])
            # One is started, by the other starts are counted and its own models are known.
            if arn.rpartition(":pipeline/")[2].lower() != pipeline.lower():
                raise UserError(f"The message starts pipeline {pipeline!r:.300}, but is about {arn:.300}.")
            return Request(
                trigger=str(given["trigger"]),
                pipeline=pipeline,
                pipeline_arn=arn,
                parameters=wanted,
                loop_guard=bool(given.get("loop_guard", True)),
                **numbers,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"The message names no trigger that can be read: {error!r}.") from None


@dataclass(frozen=True)
class Earlier:
    """An execution of the pipeline: its display name and when it started (with its zone)."""

    name: str
    started: datetime


@dataclass(frozen=True)
class Start:
    """Start the pipeline, once under this token."""

    token: str
    """A SHA-256 in hex: what StartPipelineExecution takes as ClientRequestToken."""

    display_name: str
    parameters: Mapping[str, str]


@dataclass(frozen=True)
class Skip:
    """Do not start it, and why."""

    reason: str


def read_message(text: str) -> tuple[Request, Mapping[str, Any]]:
    """The trigger and the event of a queued message.

    Raises:
        UserError: it is no such message.
    """
    try:
        message = json.loads(text)
    except ValueError as error:
        raise UserError(f"The message is no JSON: {error}.") from None
    if not isinstance(message, dict) or not all(isinstance(message.get(part), dict) for part in ("trigger", "event")):  # type: ignore[reportUnknownMemberType]
        raise UserError('The message is not {"trigger": {...}, "event": {...}}.')
    parts = cast(dict[str, dict[str, Any]], message)
    return Request.from_json(parts["trigger"]), parts["event"]


def decide(request: Request, event: Mapping[str, Any], earlier: Iterable[Earlier], now: datetime) -> Start | Skip:
    """Decide about an event of a trigger, given the earlier executions.

    Raises:
        UserError: the event lacks a value that a parameter needs.
    """
    by = generated_by(event)
    if request.loop_guard and is_execution_of(by, request.pipeline_arn):
        return Skip(f"loop guard: the model was registered by this pipeline's own execution {by}")
    digest = token(request, event, now)
    name = start_name(request.trigger, digest)
    executions = list(earlier)
    if any(one.name == name for one in executions):
        return Skip(f"duplicate: execution {name} was started for it")
    if request.starts is not None and request.seconds is not None:
        since = now - timedelta(seconds=request.seconds)
        # By name: what a batch has just begun may be in the service's list already.
        recent = {one.name for one in executions if _is_of(one.name, request.trigger) and one.started > since}
        if len(recent) >= request.starts:
            return Skip(f"rate limit: {len(recent)} starts in the last {request.seconds:,} s; at most {request.starts}")
    return Start(digest, name, parameters(request.parameters, event))


def start_name(trigger: str, digest: str) -> str:
    """The display name of an execution: by it, a later delivery knows what was started."""
    return f"{trigger}-{digest[:_DIGITS]}"


def looked_back(request: Request) -> timedelta:
    """How far back `decide` must know of executions."""
    return max(LOOKED_BACK, timedelta(seconds=request.seconds or 0), timedelta(seconds=request.window_seconds or 0))


def generated_by(event: Mapping[str, Any]) -> str | None:
    """The execution that made the model package of an event (MetadataProperties.GeneratedBy)."""
    here: Any = event
    for name in ("detail", "MetadataProperties", "GeneratedBy"):
        here = cast(Mapping[str, Any], here).get(name) if isinstance(here, Mapping) else None
    return here if isinstance(here, str) else None


def is_execution_of(arn: str | None, pipeline_arn: str) -> bool:
    """Return True if an ARN is that of an execution of the pipeline. SageMaker writes some ARNs in lower case."""
    return arn is not None and arn.lower().startswith(f"{pipeline_arn.lower()}/execution/")


def token(request: Request, event: Mapping[str, Any], now: datetime) -> str:
    """The same for every delivery of the same change, another for every other change, trigger and pipeline.

    A model package's change is known by its ARN, the changed fields, the new status and the modification time, since
    the service may tell of one change in two events; a finding in served data by its own id, since a repeated job sends
    it again; any other event by its id; and with a window by the slot of time alone.
    """
    if request.window_seconds:
        change: Any = int(_time(event, now).timestamp() // request.window_seconds)
    elif event.get("detail-type") == MODEL_PACKAGE_EVENT and isinstance(event.get("detail"), Mapping):
        detail = cast(Mapping[str, Any], event["detail"])
        cycle: Any = detail.get("ModelLifeCycle")
        stage = cast(Mapping[str, Any], cycle if isinstance(cycle, Mapping) else {})
        changed: Any = detail.get("UpdatedModelPackageFields")
        change = [
            detail.get("ModelPackageArn"),
            sorted(map(str, cast(list[Any], changed))) if isinstance(changed, list) else changed,
            [detail.get("ModelApprovalStatus"), stage.get("Stage"), stage.get("StageStatus")],
            detail.get("LastModifiedTime", event.get("time")),
        ]
    else:
        detail: Any = event.get("detail")
        is_finding = event.get("source") == _FINDINGS and isinstance(detail, Mapping)
        change = (cast(Mapping[str, Any], detail).get("id") if is_finding else None) or event.get("id")
        if not isinstance(change, str) or not change:
            raise UserError(
                "The event has no id, so that a second delivery of it could not be told from another event."
            )
    text = json.dumps([request.pipeline_arn, request.trigger, change], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _time(event: Mapping[str, Any], now: datetime) -> datetime:
    """When the event happened, so that a late delivery falls into the slot of the first."""
    given: Any = event.get("time")
    try:
        found = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        return now
    return found if found.tzinfo is not None else now


def _is_of(name: str, trigger: str) -> bool:
    return name.startswith(f"{trigger}-") and len(name) == len(trigger) + 1 + _DIGITS
