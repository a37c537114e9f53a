"""What starts a pipeline by itself. Declared with the pipeline, so that it is reviewed with it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drivetrain.spec import Frozen, FrozenDict, FrozenMap, Lazily, Matching
from drivetrain.spec.values import Scalar

Name = Annotated[
    str,
    Matching(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}", "letters, digits and '-' between them, at most 63: nightly"),
]


class Limit(Frozen):
    """At most so many starts in any period: `Limit(starts=2, every="1 day")`. Events beyond it are dropped."""

    starts: Annotated[int, Field(ge=1, le=1_000)] = 1
    every: str = "1 day"
    """A count and a unit: 30 minutes, 6 hours, 7 days; at most 30 days."""


class _Trigger(Frozen):
    name: Name
    enabled: bool = True
    parameters: FrozenMap[Scalar] = Field(default_factory=FrozenDict)
    """Values for the pipeline's parameters; text that starts with `$.` is taken from the event."""

    dead_letter: bool = True
    """What could not be delivered is kept in the dead-letter queue, where the deployment has one."""


class Schedule(_Trigger):
    """By the clock: one of `cron` (AWS's six fields, minutes first, year last), `rate` (`1 day`) and `at` (once)."""

    kind: Literal["schedule"] = "schedule"
    cron: str | None = None
    rate: str | None = None
    at: str | None = None
    """A single time by the clock of `timezone`: 2026-03-01T02:00:00."""

    timezone: str = "UTC"
    """Such as Europe/Berlin. A cron time that clocks skip is skipped; one that comes twice runs once."""

    start: str | None = None
    """Not before: 2026-03-01, 2026-03-01T02:00:00 (in `timezone`), 2026-03-01T02:00:00Z. With `cron` and `rate` only:
    the service ignores it for a single time."""

    end: str | None = None
    """Not after; likewise."""

    flexible_minutes: Annotated[int, Field(ge=1, le=1440)] | None = None
    """Some time within so many minutes after the time, for schedules that should not all start at once."""


class EventTrigger(_Trigger):
    """What all triggers by events have."""

    loop_guard: bool = True
    """A model that this pipeline itself registered does not start it; nor can its own end or its own files."""

    limit: Limit | None = None
    once_per: str | None = None
    """The deduplication window: events within the same slot of so much time (`10 minutes`) count as one, and start it
    with the values of the first. Without it, one and the same event starts it once however often it is delivered."""


class RegistryEvent(EventTrigger):
    """A model package of a group changed: was approved, moved to a stage, ..."""

    kind: Literal["registry"] = "registry"
    group: Name
    status: Literal["Approved", "Rejected", "PendingManualApproval"] | None = "Approved"
    stage: str | None = None
    stage_status: str | None = None
    changed: tuple[str, ...] | None = None
    """Only when one of these fields is what changed; without it every edit of a package would fire. By default those
    that `status` and `stage` are about; `()` for any, and for packages that are new."""

    def changes(self) -> tuple[str, ...]:
        """`changed`, or the fields that status and stage are about."""
        if self.changed is not None:
            return self.changed
        staged = self.stage is not None or self.stage_status is not None
        approved = ("ModelApprovalStatus",) if self.status is not None else ()
        return (*approved, *(("ModelLifeCycle",) if staged else ()))


class Upload(EventTrigger):
    """An object arrived under a prefix. The bucket must send its events to EventBridge."""

    kind: Literal["upload"] = "upload"
    bucket: Annotated[
        str, Matching(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "the name of a bucket alone, such as team-data")
    ]
    prefix: str = ""
    suffix: str = ""


class PipelineFinished(EventTrigger):
    """Another pipeline ended."""

    kind: Literal["pipeline"] = "pipeline"
    pipeline: Annotated[
        str,
        Matching(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}", "a pipeline's name: letters, digits and '-' between them"),
    ]
    outcome: Literal["Succeeded", "CompletedWithFailures", "Failed", "Stopped"] = "Succeeded"
    """CompletedWithFailures is no success: a step failed, and one with a Trigger took care of it."""


class Alarm(EventTrigger):
    """A CloudWatch alarm went off, for example one on data drift."""

    kind: Literal["alarm"] = "alarm"
    alarm: Annotated[str, Field(min_length=1, max_length=255)]


Trigger = Annotated[Schedule | RegistryEvent | Upload | PipelineFinished | Alarm, Lazily("kind")]
