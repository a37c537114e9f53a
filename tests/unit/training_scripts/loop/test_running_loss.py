from __future__ import annotations

import torch

from drivetrain.training_scripts.loop.running_loss import RunningLoss
from drivetrain.training_scripts.process import Process

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


def test_the_mean_divides_last() -> None:
    losses = RunningLoss(ALONE)
    losses.add(torch.tensor(3.0), 4)
    losses.add(torch.tensor(1.0), 1)
    assert losses.of_epoch() == 0.8


def test_since_the_last_report_and_of_the_epoch() -> None:
    losses = RunningLoss(ALONE)
    losses.add(torch.tensor(8.0), 4)
    assert losses.since_last() == 2.0
    losses.add(torch.tensor(4.0), 4)
    assert losses.since_last() == 1.0
    assert losses.of_epoch() == 1.5
    losses.add(torch.tensor(20.0), 4)
    assert losses.since_last() == 5.0  # what the epoch's mean told counts as told
    losses.start_epoch()
    losses.add(torch.tensor(7.0), 1)
    assert (losses.since_last(), losses.of_epoch()) == (7.0, 7.0)


def test_small_losses_are_not_lost_beside_large_sums() -> None:
    losses = RunningLoss(ALONE)
    losses.add(torch.tensor(2.0**24), 1)
    for _ in range(4):
        losses.add(torch.tensor(1.0), 1)
    assert losses.of_epoch() == (2.0**24 + 4) / 5


def test_it_goes_on_where_it_was() -> None:
    first, second = RunningLoss(ALONE), RunningLoss(ALONE)
    first.add(torch.tensor(0.1), 2)
    second.load_state(first.state())
    for losses in (first, second):
        losses.add(torch.tensor(0.2), 2)
    assert second.of_epoch() == first.of_epoch()


def test_sums_of_other_ranks_are_added_up() -> None:
    losses = RunningLoss(ALONE)
    losses.load_state({"sums": [1.0, 2.0, 3.0], "num_samples": 4})
    assert losses.of_epoch() == 1.5
