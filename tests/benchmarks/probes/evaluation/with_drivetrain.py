"""Our engine, as `evaluate` runs it: with messages of failures and the proof that each row was counted once."""

from __future__ import annotations

from typing import Any

import numpy as np
from predictions import Predictions

from drivetrain.training.metric import Samples, load_metrics
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.task import Task

TASK = Task("binary", 2)
METRICS = load_metrics("accuracy, auroc, pr_curve", TASK)  # (They have no state.)


def run(process: Any, predictions: Predictions, exact: bool = False) -> dict[str, Any]:
    counting = Accumulator(process, TASK, METRICS, num_rows=predictions.num_samples, exact=exact)
    first, waited = predictions.first, 0
    for scores, targets in predictions.batches:
        found = scores.numpy()
        samples = Samples(scores=found, targets=targets.numpy(), predicted=(found >= 0.5).astype(np.int64))
        counting.update(np.arange(first, first + len(found)), samples)
        first += len(found)
        waited = max(waited, sum(values.nbytes for values in counting._waiting._arrays.values()))
    held = counting._state.vector.nbytes + waited
    held += sum(column.nbytes for several in counting._rankings.values() for one in several for column in one)
    evaluation = counting.finish()
    assert len(evaluation.curves["pr_curve"]["x"]) > 100
    auroc = evaluation.whole.metrics["auroc"]
    accuracy = evaluation.whole.metrics["accuracy"].value
    return {"accuracy": accuracy, "auroc": auroc.value, "bound": auroc.bound, "held": held}
