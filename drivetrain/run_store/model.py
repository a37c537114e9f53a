"""A run of a pipeline, wherever it ran: on this machine, in an account, on a cluster.

What runs something gives these (the ledger, each target's deployer); what shows something takes them (pages, the
terminal, notebooks, trackers). Times are seconds since the epoch. Values whose names look like secrets read `***`
(masking.py). The statuses are those of local runs:

    a run     Executing, Stopping, Succeeded, CompletedWithFailures, Failed, Stopped, Interrupted
    a step    Waiting, Executing, Succeeded, Cached, Failed, Stopped, NotExecuted, Interrupted

Interrupted is what the ledger knows as Executing while no living process holds the run: it can be resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base.errors import WARNING
from drivetrain.base.records import dataclass
from drivetrain.run_store.events import STARTS_FROM, shown_run_status, shown_sign, shown_status, unhealthy_part

if TYPE_CHECKING:
    from drivetrain.processes import ProcessRecord

ENDED = frozenset(("Succeeded", "Cached", "Failed", "Stopped", "NotExecuted"))
"""Statuses of a step that has ended."""
GOING = frozenset(("Executing", "Stopping"))
"""Statuses of a run that goes on."""
# How the reason of a run begins that ended early, and the reason of each of its steps; the earlier run's id follows.
NOTHING_NEW = "nothing new since "


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A folder or file that a step read (`flow` input) or wrote (output).

    `digest` is the sha256 over the sorted (name, sha256) of its files. `from_execution` and `from_step` say who wrote
    an input, where that is known.
    """

    execution: str = ""
    step: str
    flow: str
    name: str
    uri: str
    digest: str
    files: int
    bytes: int
    from_execution: str | None = None
    from_step: str | None = None


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try at a step. `error_type` is the retry policies' word for its failure, where they have one.

    `status` is Executing, Publishing (it succeeded and its outputs are being moved to their places), Succeeded,
    Failed, Stopped or Interrupted (the runner died; what it left was thrown away).
    """

    execution: str
    step: str
    number: int
    status: str
    started: float
    ended: float | None = None
    reason: str | None = None
    error_type: str | None = None
    processes: tuple[ProcessRecord, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Metric:
    """The latest value of a training metric, `seconds` after the start of attempt number `attempt`; None where the
    platform does not say when."""

    value: float
    seconds: float | None = None
    attempt: int = 1


@dataclass(frozen=True, kw_only=True)
class Job:
    """The job behind a step, as a platform tells it.

    `phase` is what it does now, in the platform's word; `Training` and `Interrupted` (its machines were taken away)
    mean the same everywhere. `interruptions` counts the latter, the present one included.
    """

    phase: str | None = None
    interruptions: int = 0


@dataclass(frozen=True, kw_only=True)
class StepRun:
    """A step of a run. One of an iteration of a ForEach names that in `parent`, with the number of the iteration and
    the item as text.

    `value` is the result in a word (the branch of a condition, the version registered), `reason` the error. `why` says
    what made it run instead of hitting the cache, `cache_of` is the run whose result it took. `settings` are the
    program's parameters and the machine. `arguments` are the resolved arguments and `response` what the service's
    describe call would give, both empty until known.
    """

    name: str
    type: str
    title: str
    status: str = "Waiting"
    execution: str = ""
    started: float | None = None
    ended: float | None = None
    attempts: int = 0
    cache_of: str | None = None
    reason: str | None = None
    value: str | None = None
    why: tuple[str, ...] = ()
    parent: str | None = None
    iteration: int | None = None
    item: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    response: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    key_fields: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """The attributes of its cache key, where the cache asked for an earlier success; else empty."""
    tries: tuple[Attempt, ...] = field(default=(), repr=False)
    """Those that are known, in their order."""
    logged: Mapping[str, Metric] = field(default_factory=dict[str, Metric], repr=False)
    """Its training metrics, while the run is followed."""
    job: Job | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def seconds(self) -> float | None:
        """Wall time, retries included; None while it runs or when it never started. If its runner was killed, up to
        its last sign of life."""
        return None if self.started is None or self.ended is None else self.ended - self.started

    @property
    def checkpoints_uri(self) -> str | None:
        """The URI of a training's checkpoints; None if it keeps none."""
        config = self.arguments.get("CheckpointConfig")
        uri = cast("dict[str, Any]", config).get("S3Uri") if isinstance(config, dict) else None
        return uri if isinstance(uri, str) else None

    @property
    def starts_from(self) -> str:
        """The start of a training in its own words; empty if it did not say so."""
        starts = [part for part in (self.value or "").split("; ") if part.startswith(STARTS_FROM)]
        return starts[0].removeprefix(STARTS_FROM) if starts else ""

    @property
    def outcome(self) -> str:
        """`value` without that."""
        return "; ".join(part for part in (self.value or "").split("; ") if not part.startswith(STARTS_FROM))

    @property
    def said(self) -> str:
        """`value` beside the step's status: of a cached result it says nothing of how that was made."""
        return self.outcome if self.cache_of else self.value or ""

    @property
    def unhealthy(self) -> str:
        """The health rule that the model failed, and what to do; empty where none did."""
        return unhealthy_part(self.value)

    @property
    def warning(self) -> str:
        """The step's warning; empty without one."""
        return (self.value or "").partition(WARNING)[2]

    @property
    def shown_status(self) -> str:
        """`status`; Unhealthy instead of Succeeded or Cached where a health rule failed."""
        return shown_status(self.status, self.value)

    @property
    def sign(self) -> str:
        """Before its name: that of its status, and `!` where it is done and warned."""
        return shown_sign(self.status, self.value)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a pipeline.

    `idle` are the seconds in which nobody ran it: for each resumption those between its end, or the last sign of a
    runner that was killed, and the moment at which it went on. `definition_hash` is the sha256 of the definition's
    text. `name` is what the user calls it, `note` what they wrote about it, `tags` what they marked it with.
    """

    id: str
    pipeline: str
    status: str
    started: float
    ended: float | None = None
    """None until it ended."""
    idle: float = 0.0
    reason: str | None = None
    definition_hash: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str | None = None
    note: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    stopping: bool = False
    """True while it goes on although it was asked to stop."""
    unhealthy: bool = False
    """True where a model of it failed a health rule."""
    steps: tuple[StepRun, ...] = ()
    """In the pipeline's order, after a ForEach the steps of its iterations; empty in a list of runs."""

    @property
    def is_going(self) -> bool:
        return self.status in GOING

    @property
    def shown_status(self) -> str:
        """`status`, or Stopping; Unhealthy instead of Succeeded where a model failed a health rule."""
        return shown_run_status(self.status, stopping=self.stopping, unhealthy=self.unhealthy)

    @property
    def nothing_new_since(self) -> str | None:
        """The earlier run whose results it took over, since it found nothing new."""
        reason = self.reason or ""
        return reason.removeprefix(NOTHING_NEW) if reason.startswith(NOTHING_NEW) else None

    @property
    def seconds(self) -> float | None:
        """Wall time without the time in which nobody ran it; None before it ended. If its runner was killed, up to its
        last sign of life."""
        return None if self.ended is None else self.ended - self.started - self.idle

    def step(self, name: str) -> StepRun | None:
        return next((step for step in self.steps if step.name == name), None)

    def failures(self) -> tuple[StepRun, ...]:
        """The steps that failed by themselves: of a ForEach the steps of its iterations, where these did."""
        inner = {step.parent for step in self.steps if step.status == "Failed"}
        return tuple(step for step in self.steps if step.status == "Failed" and step.name not in inner)


@dataclass(frozen=True)
class ObjectRow:
    """One written object with its sha256."""

    uri: str
    sha256: str
    bytes: int
    execution: str
    step: str


@dataclass(frozen=True)
class MetricRow:
    """A training metric, `seconds` after the attempt's start; `position` is the training's step, where its log says
    it."""

    step: str
    name: str
    seconds: float
    position: float | None
    attempt: int
    value: float


@dataclass(frozen=True, kw_only=True)
class EventRow:
    """A change of status as EventBridge tells it; `step` is None for the execution's own."""

    number: int
    step: str | None
    time: float
    event: Mapping[str, Any]
