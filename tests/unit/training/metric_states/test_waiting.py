"""Batches that are counted together come to what they come to one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Samples, load_metrics
from drivetrain.training.metric_states import accumulator as accumulator_module
from drivetrain.training.metric_states import waiting
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.metric_states.own_values import own_metrics
from drivetrain.training.metric_states.waiting import Batch, Waiting
from drivetrain.training.process import Process
from drivetrain.training.task import Kind, Task
from tests.fixtures.evaluated_samples import KINDS, Given, comparable, evaluated

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


def batch(start: int, count: int, **arrays: Any) -> Batch:
    losses = np.arange(start, start + count, dtype=np.float64)
    return Batch(np.arange(start, start + count), Samples(losses=losses, **arrays), {"site": losses % 3})


@pytest.mark.slow_cases(
    "True-multiclass", "True-multilabel", "True-regression", "True-tokens", "True-segmentation", "True-values"
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exact", [False, True])
def test_together_they_count_the_same(kind: Kind, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given(kind, 60, sliced=True, replicates=4, exact=exact)
    together = evaluated(ALONE, given)
    counted: list[int] = []
    count = Accumulator._count

    def noted(self: Accumulator, given: Batch) -> None:
        counted.append(len(given.rows))
        count(self, given)

    monkeypatch.setattr(Accumulator, "_count", noted)
    monkeypatch.setattr(waiting, "MOST_SAMPLES", 20)  # two batches of seven; at the end the last four rows, too
    assert comparable(evaluated(ALONE, given)) == comparable(together)
    assert counted == [14, 14, 14, 18]
    counted.clear()
    monkeypatch.setattr(waiting, "MOST_SAMPLES", 0)
    assert comparable(evaluated(ALONE, given)) == comparable(together)
    assert counted == [7] * 8 + [4]


def test_waiting_samples_are_ordered_copies() -> None:
    waits, given = Waiting(), batch(0, 5)
    assert not waits
    assert waits.take(given) and waits.take(batch(5, 3)) and waits.take(batch(8, 0))
    assert given.samples.losses is not None
    given.samples.losses[:] = given.rows[:] = -1
    found = waits.together()
    assert waits and found.samples.losses is not None
    assert found.rows.tolist() == found.samples.losses.tolist() == list(range(8))
    assert found.columns["site"].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert [one.rows.tolist() for one in waits.each()] == [[0, 1, 2, 3, 4], [5, 6, 7], []]


def test_samples_that_do_not_fit_waiting_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Waiting()
    assert waits.take(batch(0, 2, targets=np.zeros((2, 4), np.int64)))
    for other in (
        {},
        {"targets": np.zeros((2, 5), np.int64)},  # of other lengths
        {"targets": np.zeros((2, 4), np.int32)},
        {"targets": np.zeros((2, 4), np.int64), "values": {"hit": np.ones(2)}},
        {"targets": np.zeros((3, 4), np.int64)},  # which a metric refuses
    ):
        assert not waits.take(batch(2, 2, **other))
    monkeypatch.setattr(waiting, "MOST_BYTES", 24 * 10)
    few = Waiting()
    assert few.take(batch(0, 4)) and few.take(batch(4, 6)) and not few.take(batch(10, 1))
    assert not Waiting().take(batch(0, 6))  # of which no two fit
    monkeypatch.setattr(waiting, "MOST_BYTES", 24)
    assert not Waiting().take(batch(0, 1))


def test_an_error_names_the_rows_of_its_batch() -> None:
    task = Task("binary", 2)
    counting = Accumulator(ALONE, task, load_metrics("accuracy", task), num_rows=12)
    for start in range(0, 12, 4):
        targets = np.array([0, 1, 1, 0])
        targets[3] = 2 if start else 0
        counting.update(np.arange(start, start + 4), Samples(targets=targets, predicted=np.zeros(4, np.int64)))
        assert not counting.failed
    with pytest.raises(InputError, match=r"^rows 4 to 7, counted from 0: a target is 2; allowed is the classes 0 to 1"):
        counting.finish()


def test_a_failure_that_came_first_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch that waits nobody has looked at anything yet."""
    task = Task("values")
    counting = Accumulator(ALONE, task, own_metrics(task, {}), num_rows=8)
    counting.update(np.arange(4), Samples(losses=np.array([1.0, np.inf, 1.0, 1.0])))
    counting.fail("the disk is full")
    with pytest.raises(InputError, match="the disk is full"):
        counting.finish()
    assert accumulator_module.Waiting is Waiting
