"""From the samples of batches, on each rank its own, to what was measured of all of them, on every rank the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.launch.processes.heartbeat import beat
from drivetrain.training.metric import (
    ANY,
    HasCurves,
    HasExact,
    HasExactCurves,
    HasRange,
    Ints,
    Metric,
    Ranked,
    Ranking,
    Samples,
    UndefinedError,
    Value,
)
from drivetrain.training.metric_states import coverage, reduction
from drivetrain.training.metric_states.numbers.hashing import Hashes, hash_column
from drivetrain.training.metric_states.result import Bootstrap, Evaluation, Group, Measured, Slice
from drivetrain.training.metric_states.room import MEMORY, make_room
from drivetrain.training.metric_states.rows import KeptRows
from drivetrain.training.metric_states.samples import no_samples
from drivetrain.training.metric_states.slices import SliceColumn
from drivetrain.training.metric_states.state import State
from drivetrain.training.metric_states.tally_set import TallySet, results, why_undefined
from drivetrain.training.metric_states.uncertainty import bootstrap as drawing
from drivetrain.training.metric_states.uncertainty.intervals import Interval, interval, keys_of_equal_size
from drivetrain.training.metric_states.waiting import Batch, Waiting
from drivetrain.training.process import Process
from drivetrain.training.task import Task

# If the bins of replicates make up more than this share of an interval, advice is given.
_WIDE = 0.25
_DIRECTIONS = {"higher": True, "lower": False, "neither": None}
_EXACT_MODE = "mode=exact"
_SLICES_IN_BINS = (
    "too many scores are equal or nearly so for the bins in which slices are counted, in every mode; fewer slices, "
    "replicates or metrics leave memory for finer ones"
)
_WHY_WIDE = (
    "is the bins in which replicates are counted, in every mode: its scores lie too close together for them. Fewer "
    "slices, replicates or metrics leave memory for finer ones"
)


class Accumulator:
    """Counts samples: `update` for each batch, then `finish`, in which the ranks meet.

    What it holds does not grow with the number of samples, but for the scores that an exact mode exchanges and, with a
    bootstrap, what each row says (rows.py).

    Args:
        metrics: what is measured, by the names of the results; where two results have one name, the first has it.
        num_rows: how many rows the ranks are to count together, each once: 0 to num_rows - 1.
        slices: columns by whose values everything is measured as well.
        bootstrap: draw intervals.
        exact: ranks exchange scores for metrics that have an exact mode.
        memory: bytes that a rank may count in.

    Raises:
        InputError: the memory is not enough.
    """

    def __init__(
        self,
        process: Process,
        task: Task,
        metrics: Mapping[str, Metric],
        *,
        num_rows: int,
        slices: Sequence[SliceColumn] = (),
        bootstrap: Bootstrap | None = None,
        exact: bool = False,
        memory: int = MEMORY,
    ) -> None:
        self._process, self._task, self._metrics = process, task, metrics
        self._num_rows, self._slices, self._bootstrap = num_rows, slices, bootstrap
        room = make_room(
            task,
            metrics,
            num_values=[len(column.values) for column in slices],
            replicates=bootstrap.replicates if bootstrap else 0,
            exact=exact,
            memory=memory,
        )
        self._room = room
        self._messages = reduction.header_size(process.world_size)
        self._state = State(
            room,
            header=self._messages + coverage.SIZE,
            seed=bootstrap.seed if bootstrap else 0,
            num_ranks=process.world_size,
        )
        self._coverage = coverage.Coverage(num_rows, process.rank, process.world_size)
        self._ranked = {name: m for name, m in metrics.items() if exact and isinstance(m, HasExact)}
        self._drawn = {name: m for name, m in metrics.items() if exact and isinstance(m, HasExactCurves)}
        self._rankings: dict[str, list[Ranking]] = {name: [] for name in self._rank(no_samples(task))}
        self._waiting = Waiting()
        self._kept = (
            KeptRows(task, metrics, slices, num_rows=num_rows, keyed=bool(bootstrap.key)) if bootstrap else None
        )
        self._failure: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that `update` needs."""
        key = self._bootstrap.key if self._bootstrap else ""
        return tuple(
            dict.fromkeys([*(name for column in self._slices for name in column.columns), *([key] if key else [])])
        )

    def update(self, rows: Ints, samples: Samples, columns: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Count a batch, with some that follow perhaps. Samples that cannot be counted are told to all ranks, in
        `finish`.

        Args:
            rows: the row number of each sample, shape [n].
            columns: the values of `self.columns`, shape [n] each.
        """
        if self._failure is not None:
            return
        batch = Batch(rows, samples, columns or {})
        if self._waiting.take(batch):
            return
        self._count_waiting()
        if not self._waiting.take(batch):
            self._count(batch)

    def _count_waiting(self) -> None:
        waiting, self._waiting = self._waiting, Waiting()
        if not waiting or self._failure is not None:
            return
        self._count(waiting.together())
        if self._failure is not None:  # batch by batch, to find the rows
            self._failure = None
            for batch in waiting.each():
                self._count(batch)

    def _count(self, batch: Batch) -> None:
        """Whatever is counted twice on the way to a failure: nothing is made of it."""
        if self._failure is not None:
            return
        rows, samples, given = batch
        try:
            numbers = [column.places(given, rows) for column in self._slices]
            keys = self._keys(rows, given)
            try:
                self._state.update(samples, numbers, keys)
                for name, ranking in self._rank(samples).items():
                    self._rankings[name].append(ranking)
                if self._kept is not None and keys is not None:
                    self._kept.add(rows, samples, numbers, keys)
            except InputError as error:  # of a metric, which does not know the rows
                raise InputError(f"rows {rows[0]} to {rows[-1]}, counted from 0: {error}") from error
        except InputError as error:
            self.fail(str(error))
            return
        self._coverage.count(rows)

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def fail(self, message: str) -> None:
        """Let all ranks stop with an error, in `finish`."""
        self._failure = self._failure or message

    def finish(self) -> Evaluation:
        """Reduce over all ranks and compute the evaluation. Every rank must call it.

        Raises:
            InputError: samples of any rank could not be counted. Every rank raises the same.
            CoverageError: a row was not counted, or more than once.
        """
        process, state = self._process, self._state
        self._count_waiting()
        try:
            vector = state.finish()
        except InputError as error:
            self.fail(str(error))
            vector = state.vector
        messages, covered = state.header[: self._messages], state.header[self._messages :]
        covered[:] = self._coverage.cells()
        if self._failure is not None:
            reduction.leave_message(messages, process.rank, process.world_size, self._failure)
        collectives = reduction.reduce(process, vector)
        reduction.raise_messages(messages, process.world_size)
        coverage.check(covered)
        if self._bootstrap and process.world_size > 1:
            collectives += reduction.reduce(process, state.replicates_in_use())
        ranked: Mapping[str, Ranked] = {}
        if self._ranked or self._drawn:
            from drivetrain.training.metric_states.ranking.ranking import rank_exactly

            ranked, more = rank_exactly(process, self._rankings, curves=bool(self._drawn))
            collectives += more
        rows = None if self._kept is None else self._kept.gathered(process)
        return replace(self._evaluation(ranked, collectives), rows=rows)

    def _rank(self, samples: Samples) -> dict[str, Ranking]:
        """Collect the scores to be ranked; those that several metrics rank, once."""
        found: dict[str, Ranking] = {}
        for metric in (*self._ranked.values(), *self._drawn.values()):
            for name, ranking in metric.rankings(self._task, samples).items():
                other = found.setdefault(name, ranking)
                if not all(map(np.array_equal, other, ranking)):
                    raise InputError(
                        f"two metrics have different rankings that they call {name!r}. Rename one of them."
                    )
        return found

    def _keys(self, rows: Ints, columns: Mapping[str, NDArray[Any]]) -> Hashes | None:
        if self._bootstrap is None:
            return None
        key = self._bootstrap.key
        return drawing.keys_of(key, columns[key]) if key else hash_column(rows)

    def _evaluation(self, ranked: Mapping[str, Ranked], collectives: int) -> Evaluation:
        room, state = self._room, self._state
        whole = state.whole()
        slices = []
        for place, column in enumerate(self._slices):
            for number, (value, cells) in enumerate(zip(column.values, state.slices(place), strict=True)):
                replicates = state.slice_replicates(place, number)
                beat()  # many of them are no hang
                if column.crossed and not room.sliced.num_samples(cells):
                    continue  # a combination that no sample has
                group = self._group(room.sliced, cells, room.drawn_sliced, replicates, ranked, of_slice=True)
                slices.append(Slice(column=column.name, value=value, **vars(group)))
        return Evaluation(
            task=self._task,
            whole=self._group(room.whole, whole, room.drawn, state.replicates(), ranked),
            slices=tuple(slices),
            curves=self._curves(whole, ranked),
            bootstrap=self._bootstrap,
            expected_rows=self._num_rows,
            collectives=collectives,
        )

    def _group(
        self,
        tallies: TallySet,
        cells: Sequence[Ints],
        drawn: TallySet,
        replicates: Iterable[Sequence[Ints]],
        ranked: Mapping[str, Ranked],
        *,
        of_slice: bool = False,
    ) -> Group:
        """Compute the results of one group of samples.

        Args:
            tallies: their cells are `cells`.
            drawn: their cells are those of each of `replicates`.
            ranked: rankings of all samples, where metrics are to be exact.
            of_slice: they are those of a slice.
        """
        found: dict[str, tuple[Value, Metric]] = {}
        undefined: dict[str, str] = {}
        values_of_replicates, bounds, sizes = self._replicates(drawn, replicates, ranked)
        for name, metric in self._metrics.items():
            if name not in tallies.metrics and (of_slice or not ranked):
                continue  # it is there to be drawn
            try:
                if not of_slice and name in self._ranked and tallies.num_samples(cells):
                    values = results(name, self._ranked[name].compute_exact(self._task, ranked))
                else:
                    values = tallies.compute(name, cells, ranked)
            except UndefinedError as error:
                undefined.setdefault(name, str(error))
                continue
            for result, value in values.items():
                why = why_undefined(value)
                if why:
                    undefined.setdefault(result, why)
                elif result not in found:
                    if of_slice and _EXACT_MODE in value.advice:
                        value = replace(value, advice=_SLICES_IN_BINS)
                    found[result] = value, metric
        num_samples = tallies.num_samples(cells)
        right = found.get("accuracy") if self._task.kind in ("binary", "multiclass", "multilabel") else None
        if right is not None and right[0].limits is None:  # one of the recipe's own, in a measure of its own
            right = None
        num_keys = keys_of_equal_size(num_samples, sizes)
        of = partial(
            self._measured,
            num_samples=num_samples,
            num_keys=num_keys,
            num_right=None if right is None else round(right[0].value * num_samples),
        )
        return Group(
            num_samples=num_samples,
            metrics={
                result: of(value, metric, values_of_replicates.get(result, ()), bounds.get(result, 0.0))
                for result, (value, metric) in found.items()
            },
            undefined={name: why for name, why in undefined.items() if name not in found},
            replicates=values_of_replicates,
            bounds=bounds,
            num_keys=num_keys,
        )

    def _measured(
        self,
        value: Value,
        metric: Metric,
        replicates: Sequence[float | None],
        bound: float,
        *,
        num_samples: int,
        num_keys: float | None,
        num_right: int | None,
    ) -> Measured:
        found = Interval(None)
        if self._bootstrap:
            found = interval(
                value,
                replicates,
                self._bootstrap.confidence,
                num_samples=num_samples,
                num_right=num_right,
                num_keys=num_keys,
                bound=bound,
                value_range=value.value_range or (metric.value_range if isinstance(metric, HasRange) else ANY),
            )
        low, high = found.limits or (None, None)
        advice = [value.advice] if value.advice else []
        if low is not None and high is not None and 2 * bound > _WIDE * (high - low):
            advice.append(f"{2 * bound / (high - low):.0%} of its interval's width {_WHY_WIDE}")
        return Measured(
            value=float(value.value),
            bound=float(value.bound),
            advice="; ".join(advice),
            low=low,
            high=high,
            no_interval=found.why_none,
            unless=found.unless,
            interval_bound=bound if found.limits else 0.0,
            higher_is_better=_DIRECTIONS.get(value.better, metric.higher_is_better),
            num_samples=value.num_samples,
        )

    def _replicates(
        self, tallies: TallySet, replicates: Iterable[Sequence[Ints]], ranked: Mapping[str, Ranked]
    ) -> tuple[dict[str, tuple[float | None, ...]], dict[str, float], list[int]]:
        """Result -> its value in each replicate; the largest bound of them, where there is one; and the number of
        samples in each replicate."""
        found: dict[str, list[float | None]] = {}
        bounds: dict[str, float] = {}
        sizes: list[int] = []
        for number, cells in enumerate(replicates, 1):
            seen: set[str] = set()
            sizes.append(tallies.num_samples(cells))
            for name in tallies.metrics:
                try:
                    values = tallies.compute(name, cells, ranked)
                except UndefinedError:
                    continue
                for result, value in values.items():
                    if result not in seen and not why_undefined(value):
                        column = found.setdefault(result, [])
                        column += [None] * (number - 1 - len(column))
                        column.append(float(value.value))
                        seen.add(result)
                        if value.bound > bounds.get(result, 0.0):
                            bounds[result] = float(value.bound)
        values_of = {result: (*column, *[None] * (len(sizes) - len(column))) for result, column in found.items()}
        return values_of, bounds, sizes

    def _curves(self, cells: Sequence[Ints], ranked: Mapping[str, Ranked]) -> dict[str, Mapping[str, Any]]:
        tallies, found = self._room.whole, {}
        for name, metric in tallies.metrics.items():
            if isinstance(metric, HasCurves) and tallies.num_samples(cells):
                try:
                    if name in self._drawn:
                        curves = self._drawn[name].curves_exact(self._task, ranked)
                    else:
                        curves = metric.curves(self._task, tallies.counted(name, cells))
                except UndefinedError:  # `compute` says why
                    continue
                found |= {f"{name}_{suffix}" if suffix else name: curve for suffix, curve in curves.items()}
        return found
