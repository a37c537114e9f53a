"""What reports tell, read from the ledger, definitions and the files of steps. Here is what the page of a run tells:
plain values, wherever they came from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import WARNING
from drivetrain.base.records import dataclass
from drivetrain.run_store.events import STARTS_FROM, shown_run_status, shown_sign, shown_status, unhealthy_part
from drivetrain.telling.dag import Dag

if TYPE_CHECKING:
    from drivetrain.telling.content.card import CardFacts
    from drivetrain.telling.content.datasets import DatasetFacts
    from drivetrain.telling.content.decision import DecisionFacts
    from drivetrain.telling.content.evaluation import EvaluationFacts
    from drivetrain.telling.content.goodput import JobTimes
    from drivetrain.telling.content.health import HealthFacts
    from drivetrain.telling.content.tuning import TuningFacts


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """One step of the run. Times are seconds since the epoch, `seconds` is wall time, retries included.

    `why` says what made it run (`max_digits 4 -> 3`), `cache_of` names the execution whose result it took, `value` what
    came out in a word (`version 3`), `reason` what went wrong. `settings` are the program's parameters and the machine.
    A step of an iteration of a ForEach names that in `parent`, and what the iteration is for in `item`.
    """

    name: str
    type: str
    title: str
    status: str
    started: float | None = None
    ended: float | None = None
    seconds: float | None = None
    attempts: int = 0
    cache_of: str | None = None
    reason: str | None = None
    value: str | None = None
    why: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    parent: str | None = None
    item: str | None = None

    @property
    def starts_from(self) -> str:
        """What a training started from, in its own words; empty where it did not say so."""
        starts = [part for part in (self.value or "").split("; ") if part.startswith(STARTS_FROM)]
        return starts[0].removeprefix(STARTS_FROM) if starts else ""

    @property
    def unhealthy(self) -> str:
        """The health rule that the model failed, and what to do; empty where none did."""
        return unhealthy_part(self.value)

    @property
    def warning(self) -> str:
        """What the step warned of; empty where it did not."""
        return (self.value or "").partition(WARNING)[2]

    @property
    def sign(self) -> str:
        """Before its name: that of its status, and `!` where it is done and warned."""
        return shown_sign(self.status, self.value)

    @property
    def shown_status(self) -> str:
        """`Unhealthy` instead of Succeeded or Cached where a health rule failed."""
        return shown_status(self.status, self.value)

    @property
    def outcome(self) -> str:
        """`value` without that."""
        return "; ".join(part for part in (self.value or "").split("; ") if not part.startswith(STARTS_FROM))

    @property
    def said(self) -> str:
        """`value` beside the step's status: of a cached result it says nothing of how that was made."""
        return self.outcome if self.cache_of else self.value or ""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One training metric of one step: (seconds since the attempt started, value). `positions` are the training's steps
    at the points, where the log says them; else empty."""

    step: str
    name: str
    points: tuple[tuple[float, float], ...]
    positions: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """A checkpoint from which a training can go on."""

    training_step: int
    uri: str


@dataclass(frozen=True, kw_only=True)
class CheckpointFacts:
    """A checkpoint that a step saved and that still lies in its store. `saved` is in seconds since the epoch; `whole`
    says that all of its files are there."""

    step: str
    training_step: int
    uri: str
    saved: float
    bytes: int
    whole: bool


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The numbers that a step returned, by name."""

    step: str
    numbers: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class ArtifactFacts:
    """What a step read (`flow` input) or wrote (output); `digest` is the hash of its content."""

    step: str
    flow: str
    name: str
    uri: str
    digest: str
    files: int
    bytes: int
    from_step: str | None = None
    from_execution: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """A registered version and where it came from."""

    group: str
    version: int
    status: str
    model_uri: str = ""
    content_hash: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])
    registered_by: str | None = None
    """The execution that registered this content first; another one when it was registered already."""


@dataclass(frozen=True, kw_only=True)
class Changed:
    """`values` are (before, now) by parameter, or `STEP.SETTING`; None where one of the runs has no such value. `since`
    is the execution before."""

    since: str
    values: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """One execution of a pipeline.

    `parameters` are masked already; `environment` says on what and with what the run was made; `codes` has for each
    step the hash of the archive with its program, `definition_hash` is that of the compiled definition.
    """

    id: str
    pipeline: str
    status: str
    started: float
    ended: float | None
    stopping: bool = False
    """Whether it goes on, and was asked to stop."""
    idle: float = 0.0
    """Seconds between an interruption or an end and the moment at which it went on."""
    reason: str | None = None
    definition_hash: str = ""
    codes: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    steps: tuple[StepFacts, ...] = ()
    dag: Dag = field(default_factory=lambda: Dag((), ()))
    curves: tuple[Curve, ...] = ()
    ended_early: Mapping[str, str] = field(default_factory=dict[str, str])
    """Training step -> why early stopping ended it, in its own words."""
    job_times: tuple[JobTimes, ...] = ()
    """Of the trainings that were interrupted, or ran on machines that can be taken away."""
    goes_on_from: Mapping[str, SavedState] = field(default_factory=dict[str, "SavedState"])
    """Training step that is not done -> the newest checkpoint that lies in its store."""
    checkpoints: tuple[CheckpointFacts, ...] = ()
    tunings: tuple[TuningFacts, ...] = ()
    measured: tuple[Measured, ...] = ()
    healths: tuple[HealthFacts, ...] = ()
    """Of the trainings that were watched."""
    datasets: tuple[DatasetFacts, ...] = ()
    evaluations: tuple[EvaluationFacts, ...] = ()
    decisions: tuple[DecisionFacts, ...] = ()
    read_by_conditions: frozenset[str] = frozenset()
    """Names in the paths by which the pipeline's conditions read reports; some are those of metrics."""
    cards: tuple[CardFacts, ...] = ()
    changed: Changed | None = None
    """Since the pipeline's run before; None of its first."""
    commands: tuple[tuple[str, str], ...] = ()
    """How to go on from the run: (words, command)."""
    artifacts: tuple[ArtifactFacts, ...] = ()
    models: tuple[ModelFacts, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    trackers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Experiment tracker -> where it shows the run."""
    written: float = 0.0
    """When these facts were read."""
    name: str | None = None
    """What the user calls it; `note` is what they wrote about it, `tags` what they marked it with."""
    note: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    nothing_new_since: str | None = None
    """The execution from which all results came, where no step with a cache had to run."""
    can_go_on: bool = True
    """Whether the run can be resumed if it did not succeed."""

    @property
    def unhealthy(self) -> bool:
        """Whether a model of it failed a health rule."""
        return any(step.shown_status == "Unhealthy" for step in self.steps)

    @property
    def shown_status(self) -> str:
        """`status`, or Stopping; Unhealthy instead of Succeeded where a model failed a health rule."""
        return shown_run_status(self.status, stopping=self.stopping, unhealthy=self.unhealthy)

    @property
    def code_hash(self) -> str:
        """The hash of all steps' code: that of the archive where all have one; "" where no step has any."""
        found = sorted(set(self.codes.values()))
        if len(found) < 2:
            return "".join(found)
        return hashlib.sha256("\n".join(found).encode()).hexdigest()

    @property
    def seconds(self) -> float:
        """Wall time until the end, or until now while it runs, without the time in which nobody ran it."""
        return (self.ended if self.ended is not None else self.written) - self.started - self.idle

    @property
    def deciding(self) -> frozenset[str]:
        """Names of metrics by which comparisons decide, else conditions; after a comparison those read what it said."""
        return frozenset(decision.metric for decision in self.decisions) or self.read_by_conditions

    def plain_numbers(self) -> tuple[Measured, ...]:
        """What steps returned whose findings are not told in another way."""
        told = {one.step for one in (*self.evaluations, *self.decisions) if not one.problem}
        return tuple(one for one in self.measured if one.step not in told)

    def failures(self) -> tuple[StepFacts, ...]:
        """The steps that failed by themselves: of a ForEach the steps of its iterations, where these did."""
        inner = {step.parent for step in self.steps if step.status == "Failed"}
        return tuple(step for step in self.steps if step.status == "Failed" and step.name not in inner)

    def step(self, name: str) -> StepFacts | None:
        return next((step for step in self.steps if step.name == name), None)
