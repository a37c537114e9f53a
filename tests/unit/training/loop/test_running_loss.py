from __future__ import annotations

import json
from functools import partial

import torch

from drivetrain.training.loop.running_loss import RunningLoss
from drivetrain.training.process import Process

scalar = partial(torch.tensor, dtype=torch.float64)
ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


def test_the_mean_divides_last() -> None:
    losses = RunningLoss(ALONE)
    losses.add(scalar(3.0), 4)
    losses.add(scalar(1.0), 1)
    assert losses.of_epoch() == 0.8


def test_since_the_last_report_and_of_the_epoch() -> None:
    losses = RunningLoss(ALONE)
    losses.add(scalar(8.0), 4)
    assert losses.since_last() == losses.since_last() == 2.0  # asking changes nothing
    losses.mark()
    losses.add(scalar(4.0), 4)
    assert losses.since_last() == 1.0
    assert losses.of_epoch() == 1.5
    losses.mark()
    losses.add(scalar(20.0), 4)
    assert losses.since_last() == 5.0
    losses.start_epoch()
    losses.add(scalar(7.0), 1)
    assert (losses.since_last(), losses.of_epoch()) == (7.0, 7.0)


def test_small_losses_are_not_lost_beside_large_sums() -> None:
    losses = RunningLoss(ALONE)
    losses.add(scalar(2.0**24), 1)
    for _ in range(4):
        losses.add(scalar(1.0), 1)
    assert losses.of_epoch() == (2.0**24 + 4) / 5


def test_the_state_resumes() -> None:
    first, second = RunningLoss(ALONE), RunningLoss(ALONE)
    first.add(scalar(0.1), 2)
    first.mark()
    first.add(scalar(0.7), 1)
    second.load_state(json.loads(json.dumps(first.state())))
    for losses in (first, second):
        losses.add(scalar(0.2), 2)
    assert second.of_epoch() == first.of_epoch()
    assert second.since_last() == first.since_last() != first.of_epoch()


def test_samples_that_weigh_something() -> None:
    first, second = RunningLoss(ALONE), RunningLoss(ALONE)
    first.add(scalar(6.0), 2, scalar(3.0))
    first.mark()
    second.load_state(json.loads(json.dumps(first.state())))
    for losses in (first, second):
        losses.add(scalar(2.0), 2, scalar(5.0))
        assert (losses.of_epoch(), losses.since_last()) == (1.0, 0.4)
        losses.start_epoch()
        losses.add(scalar(0.0), 2, scalar(0.0))
        assert (losses.of_epoch(), losses.since_last()) == (0.0, 0.0)


def test_sums_of_other_ranks_are_added_up() -> None:
    losses = RunningLoss(ALONE)
    saved = {"sums": [1.0, 2.0, 3.0], "num_samples": 4, "reported": [0.5, 0.5, 1.0], "num_reported": 2}
    losses.load_state(saved)
    assert (losses.of_epoch(), losses.since_last()) == (1.5, 2.0)


def test_numbers_on_the_host_are_the_same_to_the_bit() -> None:
    on_host, scalars = RunningLoss(ALONE, on_host=True), RunningLoss(ALONE)
    for loss in torch.rand(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0)):
        on_host.add(loss, 3)
        scalars.add(loss, 3)
    assert isinstance(on_host.total, float)
    assert on_host.of_epoch().hex() == scalars.of_epoch().hex()
