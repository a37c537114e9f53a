"""The median and the 90 % quantile of the absolute error in evaluation.json."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from drivetrain.base.order_statistics import enclosing
from drivetrain.training.evaluation.absolute_errors import absolute_errors
from drivetrain.training.metric import Samples, Task, load_metrics
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.metric_states.result import Bootstrap, Evaluation
from drivetrain.training.process import Process


def evaluated(errors: np.ndarray, metrics: str = "mae, mse", *, drawn: bool = True, keys: int = 0) -> Evaluation:
    task, n = Task("regression", 1), len(errors)
    bootstrap = Bootstrap(replicates=20, key="id" if keys else "") if drawn else None
    alone = Process(0, 1, 0, 1, torch.device("cpu"))
    counting = Accumulator(alone, task, load_metrics(metrics, task), num_rows=n, bootstrap=bootstrap)
    samples = Samples(losses=errors**2, targets=errors[:, None], predicted=np.zeros((n, 1)))
    counting.update(np.arange(n), samples, {"id": np.arange(n) // keys} if keys else None)
    return counting.finish()


def test_order_statistics_enclose_them() -> None:
    errors = np.random.default_rng(0).standard_normal(300)
    found = absolute_errors(evaluated(errors))
    ordered, ends = np.sort(np.abs(errors)), enclosing(300, 0.9, 0.95)
    assert ends is not None and found["median"]["value"] == pytest.approx(np.median(np.abs(errors)))
    far = found["quantile_90"]
    assert (far["low"], far["high"]) == pytest.approx((ordered[ends[0]], ordered[ends[1]]))


def test_missing_intervals_are_reported() -> None:
    errors = np.random.default_rng(0).standard_normal(300)
    assert absolute_errors(evaluated(errors[:20]))["quantile_90"]["no_interval"] == "too few samples: 20"
    assert absolute_errors(evaluated(errors, keys=50))["median"]["no_interval"] == "samples share keys"
    assert absolute_errors(evaluated(errors, "mse")) == absolute_errors(evaluated(errors, drawn=False)) == {}
