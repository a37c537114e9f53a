"""Count a table's answers: each rank takes its own batches, and the ranks meet once, as for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.answers.asking import AnswersOfRows
from drivetrain.training.launch.processes.heartbeat import beat
from drivetrain.training.metric import Ints, Metric, Samples
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.metric_states.own_values import own_metrics
from drivetrain.training.metric_states.result import Bootstrap, Evaluation
from drivetrain.training.metric_states.slices import SliceColumn
from drivetrain.training.process import Process


def count_answers(
    answers: AnswersOfRows,
    process: Process,
    *,
    batch_size: int,
    metrics: Mapping[str, Metric],
    slices: Sequence[SliceColumn] = (),
    bootstrap: Bootstrap | None = None,
    exact: bool = False,
    on_batch: Callable[[Ints, Samples], None] | None = None,
    on_counted: Callable[[], None] | None = None,
) -> Evaluation:
    """Measure answers on all rows, on all ranks together: the digits of `evaluate` for a model that answers so.

    Args:
        batch_size: rows that are looked at together.
        metrics: what is measured besides the loss and the table's own measures, by the names of the results.
        on_batch: is given each batch, row numbers and samples.
        on_counted: is called on every rank when its batches are counted, before the ranks meet.

    Raises:
        InputError: an answer or a target that cannot be, on any rank; every rank raises the same.
    """
    dataset, total = answers.dataset, len(answers.dataset)
    own = own_metrics(answers.task, answers.values, answers.directions)
    if not answers.has_losses:
        del own["loss"]
    others = {name: metric for name, metric in metrics.items() if name not in own}
    accumulator = Accumulator(
        process, answers.task, {**own, **others}, num_rows=total, slices=slices, bootstrap=bootstrap, exact=exact
    )
    for start in range(process.rank * batch_size, total, process.world_size * batch_size):
        beat()  # a long evaluation is no hang
        rows = np.arange(start, min(total, start + batch_size))
        try:
            samples = answers.samples(rows)
            if on_batch:
                on_batch(rows, samples)
            columns = dataset.reader.read(rows, accumulator.columns) if accumulator.columns else {}
        except InputError as error:
            accumulator.fail(str(error))
            break
        accumulator.update(rows, samples, columns)
    if on_counted:
        on_counted()
    return replace(accumulator.finish(), values=dict(answers.values))
