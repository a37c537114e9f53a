"""Some metrics and what has to be counted for them: equal tallies of several metrics once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from drivetrain.training.metric import (
    HasCurves,
    HasResolution,
    HasTies,
    Ints,
    Metric,
    Ranked,
    Tally,
    UndefinedError,
    Value,
)
from drivetrain.training.metric_states.own_values import NumSamples
from drivetrain.training.task import Task


@dataclass(frozen=True)
class TallySet:
    """`metrics` of a task, with their tallies."""

    task: Task
    metrics: Mapping[str, Metric]

    @cached_property
    def _named(self) -> dict[str, dict[str, Tally]]:
        return {name: dict(metric.tallies(self.task)) for name, metric in self.metrics.items()}

    @cached_property
    def tallies(self) -> tuple[Tally, ...]:
        """All of them, each once; the first counts the samples."""
        every = (tally for named in self._named.values() for tally in named.values())
        return tuple(dict.fromkeys([NumSamples(), *every]))

    @cached_property
    def size(self) -> int:
        """Cells of all tallies."""
        return sum(tally.size for tally in self.tallies)

    @cached_property
    def _places(self) -> dict[Tally, int]:
        return {tally: place for place, tally in enumerate(self.tallies)}

    def counted(self, name: str, cells: Sequence[Ints]) -> dict[str, Ints]:
        """The counts that a metric is computed from, taken from the cells of each of `tallies`."""
        return {local: cells[self._places[tally]] for local, tally in self._named[name].items()}

    def num_samples(self, cells: Sequence[Ints]) -> int:
        return int(cells[0][0])

    def compute(self, name: str, cells: Sequence[Ints], ranked: Mapping[str, Ranked] | None = None) -> dict[str, Value]:
        """The values of a metric, by the names of the results.

        Args:
            ranked: rankings of all samples, where there are some; `cells` may be of fewer.

        Raises:
            UndefinedError: the samples do not define it.
        """
        if not self.num_samples(cells):
            raise UndefinedError("there is no sample")
        metric, counted = self.metrics[name], self.counted(name, cells)
        if ranked and isinstance(metric, HasTies):
            return results(name, metric.compute_of_some(self.task, counted, ranked))
        return results(name, metric.compute(self.task, counted))

    def coarser(self, cells: int) -> TallySet:
        """The metrics with at most `cells` cells for each of those that can do with fewer, or the fewest there are.
        Those that are there to be drawn only are left out."""
        kept = {name: metric for name, metric in self.metrics.items() if not _is_drawn_only(metric)}
        return TallySet(
            self.task,
            {n: m.coarser(self.task, cells) if isinstance(m, HasResolution) else m for n, m in kept.items()},
        )


def results(name: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """Values by the names of the results: `f1`, `f1_macro`."""
    return {f"{name}_{suffix}" if suffix else name: value for suffix, value in values.items()}


def why_undefined(value: Value) -> str:
    """Why a value is no number; "" where it is one."""
    return "" if math.isfinite(value.value) else value.advice or f"it is {value.value}"


def _is_drawn_only(metric: Metric) -> bool:
    return isinstance(metric, HasCurves) and metric.higher_is_better is None
