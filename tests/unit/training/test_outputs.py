"""What outputs mean, and when they leave the device for it."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from drivetrain.training.outputs import Answers, answers_of
from drivetrain.training.task import Kind, Task
from drivetrain.training.torch.values import Values

# Has a shape and a type, and nothing that could be copied.
UNCOPIED = torch.empty(2, 3, 5, device="meta")
WITHOUT_ANSWERS = ("tokens", "values")


class Plain:
    pass


class Own:
    def scores(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(dim=-1)

    def predicted(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(dim=-1)


@pytest.mark.parametrize("kind", WITHOUT_ANSWERS)
def test_logits_of_which_nothing_is_asked_stay_on_the_device(kind: Kind) -> None:
    recipe: Any = Plain()
    assert answers_of(Values(), recipe, Task(kind, 5), UNCOPIED) == Answers(None, None)


@pytest.mark.parametrize("kind", WITHOUT_ANSWERS)
def test_a_recipe_s_own_answers_are_asked_for(kind: Kind) -> None:
    recipe: Any = Own()
    outputs = torch.tensor([[[0.0, 2.0], [1.0, 0.0]]])
    found = answers_of(Values(), recipe, Task(kind, 2), outputs)
    assert found.scores is not None and found.scores.tolist() == outputs.softmax(dim=-1).tolist()
    assert found.predicted is not None and found.predicted.tolist() == [[1, 0]]


@pytest.mark.parametrize("kind", sorted({*get_args(Kind)} - {*WITHOUT_ANSWERS}))
def test_those_of_every_other_task_are_answers_on_the_cpu(kind: Kind) -> None:
    recipe: Any = Plain()
    shape = {"binary": (2,), "regression": (2,), "segmentation": (2, 3, 4)}.get(kind, (2, 3))
    found = answers_of(Values(), recipe, Task(kind, 3), torch.zeros(shape))
    assert found.predicted is not None and len(found.predicted) == 2
