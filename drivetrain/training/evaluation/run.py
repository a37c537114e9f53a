"""The loop of an evaluation: every rank counts its own batches, one collective adds the ranks (another one what the
bootstrap drew), division comes last."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.framework import Forward, Framework
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.launch.processes.heartbeat import beat
from drivetrain.training.layout import Layout
from drivetrain.training.metric import Amount, Ints, Metric, Samples
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.metric_states.intervals import DIRECTIONS
from drivetrain.training.metric_states.own_values import own_metrics
from drivetrain.training.metric_states.result import Bootstrap, Evaluation
from drivetrain.training.metric_states.room import MEMORY
from drivetrain.training.metric_states.samples import amounts_of, samples_of
from drivetrain.training.metric_states.slices import SliceColumn
from drivetrain.training.outputs import task_of
from drivetrain.training.recipe import Batch, HasLossWeights, Recipe, direction
from drivetrain.training.task import Task

__all__ = ["Bootstrap", "Evaluation", "Forward", "SliceColumn", "evaluate", "probe", "samples_of", "task_of"]

VALUES = Task("values")


def evaluate(
    forward: Forward,
    dataset: Dataset,
    layout: Layout,
    *,
    framework: Framework,
    batch_size: int,
    precision: Any,
    num_rows: int | None = None,
    task: Task = VALUES,
    metrics: Mapping[str, Metric] | None = None,
    slices: Sequence[SliceColumn] = (),
    bootstrap: Bootstrap | None = None,
    exact: bool = False,
    memory: int = MEMORY,
    values: Mapping[str, Amount] | None = None,
    on_batch: Callable[[Ints, Samples], None] | None = None,
    on_counted: Callable[[], None] | None = None,
) -> Evaluation:
    """Evaluate a model in eval mode on all rows, on all ranks together.

    Batches are cut from the one order of the data and dealt whole to the replicas, so that a forward pass sees the
    same samples on any number of ranks, none of them twice. Every replica goes through the same number of rounds, since
    its ranks may meet those of others in each; one for which a replica has no batch counts for nothing. So does what
    follows a batch that a rank could not count: all ranks learn of it where they meet.

    Args:
        forward: outputs of the model for inputs; None on ranks whose replica another rank speaks for.
        dataset: the rows, with the columns to slice by and the key opened.
        layout: how the ranks share the work.
        batch_size: rows of a forward pass.
        framework: the model's.
        precision: the framework's number format of floating-point inputs.
        num_rows: only so many rows, the first ones; None for all.
        task: what is predicted; by default nothing but losses and the recipe's own metrics is looked at.
        metrics: what is measured besides those, by the names of the results (`load_metrics`). One that has the name of
            one of the recipe's own metrics is left out: the recipe knows better, and its own are measured by class. Not
            so of a calibrated binary model: its answers are not those of the outputs that the recipe sees.
        slices: columns by whose values everything is measured as well.
        bootstrap: draw intervals.
        exact: metrics that have an exact mode exchange scores.
        memory: bytes that a rank may count in.
        values: the recipe's own metrics, where they are known (`probe`, or an earlier `Evaluation.values`). If not, the
            first rank tells them in a collective of its own.
        on_batch: is given each batch that counts, row numbers and samples, on the rank that speaks for its replica.
        on_counted: is called on every rank when its batches are counted, before the ranks meet.

    Raises:
        InputError: data that cannot be, on any rank; every rank raises the same.
        CoverageError: a row was not counted, or more than once.
    """
    process, recipe = layout.process, dataset.recipe
    stop = len(dataset) if num_rows is None else min(len(dataset), num_rows)
    starts = range(0, stop, batch_size)
    rounds = -(-len(starts) // layout.data_size)

    def accumulate(known: Mapping[str, Amount]) -> Accumulator:
        listed = metrics or {}
        if task.calibration is not None and task.kind == "binary":
            known = {name: amount for name, amount in known.items() if name not in listed}
        directions = {name: _direction(recipe, name, listed.get(name)) for name in known}
        own = own_metrics(task, known, directions, weighted=isinstance(recipe, HasLossWeights))
        others = {name: metric for name, metric in listed.items() if name not in own}
        return Accumulator(
            process,
            task,
            {**own, **others},
            num_rows=stop,
            slices=slices,
            bootstrap=bootstrap,
            exact=exact,
            memory=memory,
        )

    if not rounds and values is None:
        values = {}
    accumulator, told = accumulate(values) if values is not None else None, 0
    inputs = _Inputs(dataset, framework)
    with framework.without_gradients():
        for index in range(layout.data_rank, rounds * layout.data_size, layout.data_size):
            beat()  # a long evaluation is no hang
            counts = index < len(starts)
            rows = np.arange(starts[index], min(stop, starts[index] + batch_size)) if counts else np.zeros(1, np.int64)
            read = inputs.of(rows)
            batch = framework.on_device(read, process.device, precision)
            outputs = forward(batch.inputs)
            samples, failure = None, inputs.failure
            if outputs is not None and failure is None and (counts or accumulator is None):
                try:
                    samples = samples_of(
                        framework, recipe, task, outputs, batch.targets, rows, dataset.reader.locate, read.targets
                    )
                except InputError as error:
                    failure = str(error)
            if accumulator is None:
                values, told = _tell(layout, samples, failure)
                accumulator = accumulate(values)
            if failure is not None:
                accumulator.fail(failure)
            elif samples is not None and counts and not accumulator.failed:
                try:
                    if on_batch:
                        on_batch(rows, samples)
                    columns = dataset.reader.read(rows, accumulator.columns) if accumulator.columns else {}
                except InputError as error:
                    accumulator.fail(str(error))
                else:
                    accumulator.update(rows, samples, columns)
    assert accumulator is not None and values is not None
    if on_counted:
        on_counted()
    result = accumulator.finish()
    return replace(result, collectives=result.collectives + told, values=dict(values))


def probe(framework: Framework, recipe: Recipe, model: Any, dataset: Dataset, task: Task = VALUES) -> dict[str, Amount]:
    """The recipe's own metrics, and what their values are: asked of one row, before the model is distributed.

    Args:
        model: on the host.

    Raises:
        InputError: the recipe or the row are not what they should be.
    """
    if not len(dataset):
        return {}
    rows = np.zeros(1, dtype=np.int64)
    with framework.without_gradients():
        batch, outputs = framework.probed(model, dataset.batch(rows))
        samples = samples_of(framework, recipe, task, outputs, batch.targets, rows, dataset.reader.locate)
    return amounts_of(samples)


def _direction(recipe: Recipe, name: str, listed: Metric | None) -> bool | None:
    """A metric of the list that has the name of one of the recipe's own knows, where the recipe says nothing."""
    known = direction(recipe, name)
    known = listed.higher_is_better if known is None and listed is not None else known
    return DIRECTIONS.get(name) if known is None else known


class _Inputs:
    """Batches of a dataset; after one that cannot be read, others in its place, which only keep peers company."""

    def __init__(self, dataset: Dataset, framework: Framework) -> None:
        self._dataset, self._framework = dataset, framework
        self._good: Batch | None = None
        self.failure: str | None = None
        """The problem of the first that could not be read."""

    def of(self, rows: Ints) -> Batch:
        """
        Raises:
            InputError: no row at all can be read.
        """
        try:
            batch = self._dataset.batch(rows)
        except InputError as error:
            self.failure = self.failure or str(error)
            good = self._good or self._any(error)
            num_good = trees.num_samples(good.inputs) or 1
            places = np.arange(len(rows)) % num_good  # as many rows: peers may exchange parts of them
            return self._framework.rows(good, places)
        self._good = self._good or batch
        return batch

    def _any(self, error: InputError) -> Batch:
        """A batch of some row that can be read."""
        for row in np.unique(np.linspace(0, len(self._dataset) - 1, 32).astype(np.int64)):
            try:
                return self._dataset.batch(np.array([row]))
            except InputError:
                continue
        raise error


def _tell(layout: Layout, samples: Samples | None, failure: str | None) -> tuple[dict[str, Amount], int]:
    """The recipe's own metrics, on every rank as the first that speaks for a replica has them; and how many collectives
    that took.

    Raises:
        InputError: that rank could not make samples of its first batch.
    """
    process = layout.process
    message = None
    if process.rank == layout.speaker:
        assert samples is not None or failure is not None
        message = json.dumps({"failure": failure, "values": amounts_of(samples) if samples else {}}).encode()
    told = json.loads(process.broadcast_bytes(message, source=layout.speaker))
    if told["failure"] is not None:
        raise InputError(told["failure"])
    return told["values"], int(process.world_size > 1)
