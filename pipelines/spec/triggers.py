"""What starts a pipeline by itself. Declared with the pipeline, so that it is reviewed with it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drivetrain.pipelines.spec.frozen import Frozen, FrozenMap
from drivetrain.pipelines.spec.values import Scalar


class _Trigger(Frozen):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9](-*[A-Za-z0-9]){0,62}$")]
    enabled: bool = True
    parameters: FrozenMap[Scalar] = Field(default_factory=dict)
    """Values for the pipeline's parameters; text that starts with `$.` is taken from the event."""


class Schedule(_Trigger):
    """By the clock. `cron` has AWS's six fields (minutes first, year last); `rate` reads like `1 day`."""

    kind: Literal["schedule"] = "schedule"
    cron: str | None = None
    rate: str | None = None
    timezone: str = "UTC"
    start: str | None = None
    end: str | None = None
    flexible_minutes: Annotated[int, Field(ge=1, le=1440)] | None = None


class RegistryEvent(_Trigger):
    """A model package of a group changed: was approved, moved to a stage, ..."""

    kind: Literal["registry"] = "registry"
    group: str
    status: Literal["Approved", "Rejected", "PendingManualApproval"] | None = "Approved"
    stage: str | None = None
    changed: tuple[str, ...] = ("ModelApprovalStatus",)
    """Only when one of these fields is what changed; without it every edit of a package would fire."""


class Upload(_Trigger):
    """An object arrived under a prefix."""

    kind: Literal["upload"] = "upload"
    bucket: str
    prefix: str = ""


class PipelineFinished(_Trigger):
    """Another pipeline ended."""

    kind: Literal["pipeline"] = "pipeline"
    pipeline: str
    outcome: Literal["Succeeded", "Failed"] = "Succeeded"


class Alarm(_Trigger):
    """A CloudWatch alarm went off, for example one on data drift."""

    kind: Literal["alarm"] = "alarm"
    alarm: str


Trigger = Annotated[Schedule | RegistryEvent | Upload | PipelineFinished | Alarm, Field(discriminator="kind")]
