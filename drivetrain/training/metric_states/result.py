"""Results of an evaluation, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Amount
from drivetrain.training.metric_states.rows import RowTable
from drivetrain.training.task import Task


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A value of a metric."""

    value: float
    """Always finite."""
    bound: float = 0.0
    """How far at most the true value of these samples may lie from it; 0 where it is exact."""
    advice: str = ""
    """Advice on a wide bound, for people."""
    low: float | None = None
    """The lower end of the interval (uncertainty/intervals.py); None without an interval. It is a possible value: that
    of a share lies in [0, 1]."""
    high: float | None = None
    no_interval: str = ""
    """The reason for no interval in spite of replicates, as a clause: `too few samples: ...`."""
    unless: str = ""
    """The condition of the interval, as a clause; "" without one."""
    interval_bound: float = 0.0
    """The distance that both ends were moved outwards because replicates are not exact: the interval of exact
    replicates lies within this one. 0 if they are exact. No end was moved beyond the possible values."""
    higher_is_better: bool | None = None
    num_samples: int | None = None
    """The number of samples of the value, if not all of the group (those of a class)."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Some of the samples, and what was measured of them, in the order of the metrics."""

    num_samples: int
    metrics: Mapping[str, Measured]
    undefined: Mapping[str, str]
    """Metric -> why the samples do not define it, as a clause."""
    replicates: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """Metric -> its value in each of the bootstrap's replicates, None where they do not define it. A metric that is
    undefined throughout is left out."""
    bounds: Mapping[str, float] = field(default_factory=dict)
    """Metric -> how far at most its value in a replicate may lie from the true one, in any of them; those that are
    exact in all are left out."""
    num_keys: float | None = None
    """As how many keys of equal size the samples vary, where they share keys: see intervals.keys_of_equal_size."""


@dataclass(frozen=True, kw_only=True)
class Slice(Group):
    """The samples with one value of a column."""

    column: str
    value: int | bool | str


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """How intervals are drawn: samples of one value of the column `key` together; each by itself where it is ""."""

    replicates: int
    seed: int = 0
    confidence: float = 0.95
    key: str = ""

    def __post_init__(self) -> None:
        """
        Raises:
            InputError: a number that cannot be.
        """
        if self.replicates < 2 or not 0 <= self.seed < 2**63 or not 0 < self.confidence < 1:
            raise InputError(
                f"bootstrap with {self.replicates} replicates, seed {self.seed}, confidence {self.confidence}; allowed "
                "are replicates from 2, seeds from 0 to 2**63 - 1, and a confidence between 0 and 1."
            )

    @property
    def by(self) -> str:
        """For people."""
        return self.key or "row"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The results for all samples and for each slice: the same on every rank, but for `rows`."""

    task: Task
    whole: Group
    slices: tuple[Slice, ...] = ()
    curves: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name (`roc_curve_class_3`) -> plain JSON, as `HasCurves` gives it; of all samples."""
    bootstrap: Bootstrap | None = None
    expected_rows: int
    """How many rows there were to count; `whole.num_samples` of them were, each once: the hashes agreed."""
    collectives: int
    """Collectives that it took (0 for one process alone)."""
    values: Mapping[str, Amount] = field(default_factory=dict)
    """The recipe's own metrics, and what their values are: `bool` or `float`."""
    rows: RowTable | None = field(default=None, compare=False, repr=False)
    """The evidence of each row, on the first rank; None on others, and without a bootstrap."""

    @property
    def num_samples(self) -> int:
        return self.whole.num_samples

    @property
    def means(self) -> dict[str, float]:
        """`loss` and the recipe's own metrics, averaged over samples; empty where there is no sample."""
        return {name: self.whole.metrics[name].value for name in ("loss", *self.values) if name in self.whole.metrics}
