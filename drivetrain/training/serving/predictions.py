"""A model's predictions for rows: probabilities and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.training import trees
from drivetrain.training.outputs import Answers, answers_of
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Recipe, wrong_answer
from drivetrain.training.task import Task

if TYPE_CHECKING:
    from drivetrain.training.framework import Values

# Rows of a forward pass: those that evaluate and batch_predict take by default, so that the answers are theirs, bit for
# bit.
BATCH_SIZE = 256


@dataclass(frozen=True)
class Predictions:
    """Answers for n rows. `predicted`: [n] or [n, ...]; `scores`: float64 [n] (binary: of class 1), [n, C], or
    None; margins where the task is ranked by raw scores."""

    task: Task
    predicted: NDArray[Any]
    scores: NDArray[Any] | None = None
    ends: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """`low` and `high` of an interval a row, [n] each, where the model gives them."""
    margins: NDArray[Any] | None = None
    """As `Samples.margins`; of a model of functions they are left out."""

    def __len__(self) -> int:
        return len(self.predicted)


def predictions_of(framework: Values, recipe: Recipe, task: Task, outputs: Any) -> Predictions:
    """Outputs of a forward pass as answers. Of tokens the likeliest one a position; where nothing is known of them (a
    task of values), the outputs themselves."""
    answers: Answers = answers_of(framework, recipe, task, outputs)
    predicted = answers.predicted
    if predicted is None and not trees.is_tensor(outputs):
        raise wrong_answer(
            recipe, "model", outputs, "one tensor, or have a method predicted(outputs) that says what they answer"
        )
    if predicted is None:
        numbers = framework.array(outputs)
        predicted = numbers.argmax(axis=-1) if task.kind == "tokens" else numbers.astype(np.float64)
    ends: dict[str, NDArray[Any]] = {}
    if answers.ends is not None:
        ends = {"low": answers.ends[0], "high": answers.ends[1]}
    return Predictions(task, predicted, answers.scores, ends, answers.margins)


class Answering:
    """A model that answers; `answers` is one forward pass of its framework."""

    task: Task
    answers: Callable[[Columns], Predictions]

    def predict(self, columns: Columns) -> Predictions:
        """The answers for all rows, `BATCH_SIZE` of them at a time.

        Args:
            columns: arrays of shape [rows, ...], of the types that the training data had.

        Raises:
            InputError: the recipe or the model does not take them.
        """
        num_rows = len(next(iter(columns.values())))
        slices = [slice(start, start + BATCH_SIZE) for start in range(0, num_rows, BATCH_SIZE)]
        parts = [self.answers({name: values[rows] for name, values in columns.items()}) for rows in slices]
        scores = [part.scores for part in parts if part.scores is not None]
        predicted = np.concatenate([part.predicted for part in parts])
        ends = {name: np.concatenate([part.ends[name] for part in parts]) for name in parts[0].ends}
        return Predictions(parts[0].task, predicted, np.concatenate(scores) if scores else None, ends)
