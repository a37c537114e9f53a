"""Facts for reports, read from the ledger, definitions and the files of steps. Here are those of a run's page:
plain values, wherever they came from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from drivetrain.base.records import dataclass
from drivetrain.run_store.model import Artifact, Run
from drivetrain.telling.dag import Dag

if TYPE_CHECKING:
    from drivetrain.telling.content.card import CardFacts
    from drivetrain.telling.content.data_check import DataCheckFacts
    from drivetrain.telling.content.datasets import DatasetFacts
    from drivetrain.telling.content.decision import DecisionFacts
    from drivetrain.telling.content.evaluation import EvaluationFacts
    from drivetrain.telling.content.goodput import JobTimes
    from drivetrain.telling.content.health import HealthFacts
    from drivetrain.telling.content.tuning import TuningFacts

MAX_POINTS = 40
"""The most points of the small curve beside a run in a list."""
_MAIN = ("validation_loss", "val_loss", "eval_loss", "loss", "train_loss", "training_loss")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One training metric of one step: (seconds since the attempt started, value). `positions` are the training's steps
    at the points, where the log says them; else empty."""

    step: str
    name: str
    points: tuple[tuple[float, float], ...]
    positions: tuple[float, ...] = ()

    def thinned(self) -> list[float]:
        """At most MAX_POINTS of its values, evenly spread, the last one among them."""
        values = [value for _, value in self.points]
        if len(values) <= MAX_POINTS:
            return values
        return [values[round(place * (len(values) - 1) / (MAX_POINTS - 1))] for place in range(MAX_POINTS)]


def main_curve(curves: Iterable[Curve]) -> Curve | None:
    """The one by which a training is known at first sight: its validation loss, or what comes closest."""
    drawn = [curve for curve in curves if len(curve.points) > 1 and curve.name not in ("epoch", "step")]
    rank = {name: place for place, name in enumerate(_MAIN)}
    return min(drawn, key=lambda curve: rank.get(curve.name, len(rank) + ("loss" not in curve.name)), default=None)


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
class RunFacts(Run):
    """A run with what the files of its steps say. Its steps have their settings.

    `environment` says on what and with what the run was made; `codes` has for each step the hash of the archive with
    its program.
    """

    codes: Mapping[str, str] = field(default_factory=dict[str, str])
    dag: Dag = field(default_factory=lambda: Dag((), ()))
    curves: tuple[Curve, ...] = ()
    ended_early: Mapping[str, str] = field(default_factory=dict[str, str])
    """Training step -> why early stopping ended it, in its own words."""
    job_times: tuple[JobTimes, ...] = ()
    """The times of trainings that were interrupted, or ran on machines that can be taken away."""
    goes_on_from: Mapping[str, SavedState] = field(default_factory=dict[str, "SavedState"])
    """Training step that is not done -> the newest checkpoint that lies in its store."""
    checkpoints: tuple[CheckpointFacts, ...] = ()
    tunings: tuple[TuningFacts, ...] = ()
    measured: tuple[Measured, ...] = ()
    healths: tuple[HealthFacts, ...] = ()
    """The health of the trainings that were watched."""
    data_checks: tuple[DataCheckFacts, ...] = ()
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
    artifacts: tuple[Artifact, ...] = ()
    models: tuple[ModelFacts, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    trackers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Experiment tracker -> where it shows the run."""
    written: float = 0.0
    """When these facts were read."""
    can_go_on: bool = True
    """True if the run can be resumed if it did not succeed."""

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
        """The numbers of steps whose findings are not shown in another way."""
        told = {one.step for one in (*self.data_checks, *self.evaluations, *self.decisions) if not one.problem}
        return tuple(one for one in self.measured if one.step not in told)
