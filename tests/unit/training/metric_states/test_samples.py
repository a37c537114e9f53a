"""What metrics see of a batch, and what a recipe and its data must not give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.metric import load_metrics
from drivetrain.training.metric_states.samples import amounts_of, no_samples, samples_of
from drivetrain.training.recipe import Batch
from drivetrain.training.task import Kind, Task
from drivetrain.training.torch.values import Values

NAN, INF = float("nan"), float("inf")
ROWS = np.array([70, 71, 72])


@dataclass(frozen=True)
class Recipe:
    num_classes: int | None = None
    columns: tuple[str, ...] = ()
    loss: float = 0.5

    def model(self) -> nn.Module:
        return nn.Identity()

    def batch(self, columns: Any, label: str) -> Batch:
        raise AssertionError("nothing is read")

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.tensor([0.0, self.loss, 1.0])

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"hit": torch.tensor([True, False, True]), "size": torch.tensor([1, 2, 3])}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        raise AssertionError("nothing is trained")


def found(task: Task, outputs: Any, targets: Any, **options: Any) -> Any:
    return samples_of(Values(), Recipe(**options), task, torch.tensor(outputs), torch.tensor(targets), ROWS)


def test_losses_and_values() -> None:
    samples = found(Task("values"), [1.0, 2.0, 3.0], [0, 0, 0])
    assert samples.losses.dtype == np.float64
    assert samples.losses.tolist() == [0.0, 0.5, 1.0]
    assert samples.values["hit"].dtype == np.bool_
    assert samples.values["size"].dtype == np.float64
    assert amounts_of(samples) == {"hit": "bool", "size": "float"}
    assert samples.targets is samples.scores is samples.predicted is None


def test_two_classes_of_one_output_or_two() -> None:
    logits = [[0.0], [3.0], [-3.0]]
    one = found(Task("binary", 2), logits, [[0.0], [1.0], [1.0]])
    two = found(Task("binary", 2), [[0.0, 0.0], [0.0, 3.0], [3.0, 0.0]], [0, 1, 1])
    for samples in (one, two):
        assert samples.targets.tolist() == [0, 1, 1]
        assert samples.targets.dtype == samples.predicted.dtype == np.int64
        assert samples.predicted.tolist() == [1, 1, 0]
        assert samples.scores == pytest.approx([0.5, 1 / (1 + np.exp(-3)), 1 / (1 + np.exp(3))], rel=1e-15)


def test_many_classes() -> None:
    samples = found(Task("multiclass", 3), [[0.0, 1.0, 0.0], [2.0, 0.0, 1.0], [0.0, 0.0, 0.0]], [1, 1, 2])
    assert samples.scores.shape == (3, 3)
    assert samples.scores.sum(axis=1) == pytest.approx(np.ones(3))
    assert samples.predicted.tolist() == [1, 0, 0]


def test_other_tasks() -> None:
    labels = found(Task("multilabel", 2), [[1.0, -1.0]] * 3, [[1, 0], [0, 1], [1, 1]])
    assert labels.targets.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert labels.predicted.tolist() == [[1, 0]] * 3
    values = found(Task("regression", 1), [1.5, 2.5, 3.5], [1.0, 2.0, 3.0])
    assert values.targets.shape == values.predicted.shape == (3, 1)
    tokens = found(Task("tokens", 9), np.zeros((3, 4, 9)), [[1, 2, 3, -100]] * 3)
    assert tokens.targets.shape == (3, 4)
    pixels = found(Task("segmentation", 2), np.zeros((3, 2, 4, 5)), np.zeros((3, 4, 5), dtype=np.int64))
    assert pixels.targets.shape == pixels.predicted.shape == (3, 20)


BINARY, THREE = Task("binary", 2), Task("multiclass", 3)
GOOD = [[0.0, 1.0, 0.0]] * 3


@pytest.mark.parametrize(
    ("task", "outputs", "targets", "message"),
    [
        (
            THREE,
            GOOD,
            [0, 3, 5],
            r"the target of row 71 is 3 \(2 such in the batch\); allowed are classes 0 to 2\. Corr",
        ),
        (THREE, GOOD, [0, 1, -100], "the target of row 72 is -100; allowed are classes 0 to 2"),
        (BINARY, [0.0, 0.0, 0.0], [0, 2, 1], "the target of row 71 is 2; allowed are classes 0 to 1"),
        (BINARY, [0.0, 0.0, 0.0], [0.0, 0.5, 1.0], "must return targets that are whole numbers, as a binary task has"),
        (
            THREE,
            [[0.0, NAN, 0.0]] * 3,
            [0, 1, 2],
            r"the score of row 70 is nan \(3 such in the batch\): values of the data",
        ),
        (
            BINARY,
            [0.0, NAN, 0.0],
            [0, 1, 1],
            "the score of row 71 is nan: values of the data",
        ),
        (THREE, [[0.0, INF, 0.0], *GOOD[1:]], [0, 1, 2], "the score of row 70 is nan"),
        (
            THREE,
            [[0.0, 1.0]] * 3,
            [0, 1, 2],
            r"model\(\) of the recipe returned shape \[3, 2\]; it must return outputs",
        ),
        (Task("regression", 1), [1.0, INF, 1.0], [1.0] * 3, "the prediction of row 71 is inf"),
        (Task("regression", 1), [1.0] * 3, [1.0, 1.0, NAN], "the target of row 72 is nan: correct the label column"),
        (
            Task("regression", 2),
            [[1.0, 2.0]] * 3,
            [1.0] * 3,
            r"targets of shape \[3\] do not fit outputs of shape \[3, 2",
        ),
        (
            Task("multilabel", 2),
            [[1.0, 2.0]] * 3,
            [[0, 1]] * 2 + [[0, 2]],
            "the target of row 72 is 2; allowed are 0 or",
        ),
        (
            Task("tokens", 4),
            [0.0] * 3,
            [[1], [-100], [4]],
            "the target of row 72 is 4; allowed are classes 0 to 3, and -1",
        ),
        (Task("segmentation", 2), np.zeros((3, 2, 1, 1)), [[[0]], [[-1]], [[-100]]], "the target of row 71 is -1;"),
        (THREE, GOOD, [[0, 1], [1, 1], [2, 1]], "must return targets as a multiclass task has them"),
    ],
)
def test_wrong_samples_are_one_clear_error(task: Task, outputs: Any, targets: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        found(task, outputs, targets)


@pytest.mark.parametrize("loss", [NAN, INF])
def test_a_loss_that_is_no_number(loss: float) -> None:
    with pytest.raises(InputError, match=rf"the loss of row 71 is {loss}: values of the data"):
        found(Task("values"), GOOD, [0, 1, 2], loss=loss)
    with pytest.raises(InputError, match="the loss of sample 1 of the batch is"):
        samples_of(Values(), Recipe(loss=loss), Task("values"), torch.tensor(GOOD), torch.zeros(3))


@pytest.mark.parametrize(
    "kind", ["binary", "multiclass", "multilabel", "regression", "tokens", "segmentation", "values"]
)
def test_no_samples_can_be_counted_by_every_metric(kind: Kind) -> None:
    task = Task(kind, {"binary": 2, "values": 0}.get(kind, 3))
    samples = no_samples(task)
    for metric in load_metrics("", task).values():
        for tally in metric.tallies(task).values():
            counts = tally.count(samples)
            assert counts.cells.size == 0 or (counts.amounts is not None and not counts.amounts.any())


@dataclass(frozen=True)
class Weighing(Recipe):
    weight: float = 2.0

    def loss_weights(self, targets: Tensor) -> Tensor:
        return torch.tensor([1.0, self.weight, 3.0])


def test_sample_weights() -> None:
    given = (Task("values"), torch.zeros(3), torch.zeros(3), ROWS)
    weights = samples_of(Values(), Weighing(), *given).weights
    assert weights is not None
    assert weights.tolist() == [1.0, 2.0, 3.0]
    assert samples_of(Values(), Recipe(), *given).weights is None
    for weight, words in ((NAN, "loss weight"), (-1.0, r"loss_weights\(\) .* numbers from 0, and not -1")):
        with pytest.raises(InputError, match=words):
            samples_of(Values(), Weighing(weight=weight), *given)
