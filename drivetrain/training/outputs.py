"""The meaning of a model's outputs: its task, and the probabilities and answers that follow from the outputs.

Needs nothing of the data or of other ranks, so that it travels with a model that is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.calibration import Calibration, log_odds_of_each
from drivetrain.training.errors import unknown_name
from drivetrain.training.model_folder import THRESHOLD
from drivetrain.training.recipe import Recipe, wrong_answer
from drivetrain.training.task import Kind, RankedBy, Task

if TYPE_CHECKING:
    from drivetrain.training.framework import Values

# What these mean only a recipe knows.
_WITHOUT_ANSWERS: tuple[Kind, ...] = ("tokens", "values")
# Of more classes than this the scores are one column of lists.
MAX_SCORE_COLUMNS = 256
_RANKED: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")


class Answers(NamedTuple):
    """A model's answers for n samples, on the CPU; shapes and types are those of `Samples` in metric.py."""

    scores: NDArray[Any] | None
    predicted: NDArray[Any] | None
    margins: NDArray[np.float64] | None = None
    ends: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    """Low and high of an interval a row, shape [n] each."""


def task_of(recipe: Recipe, description: Mapping[str, Any] | None = None) -> Task:
    """The task of a recipe's model: its optional attribute `task` (a kind), or what `num_classes` tells: two classes
    are binary, more are multiclass, none are values. Its optional `class_names` name the classes. What is no class is
    counted by its optional `num_outputs`: the outputs of a regression (1 unless it says so), labels, or tokens. Samples
    are ranked by the outputs; by what its `scores(outputs)` returns where it has that method. These are probabilities,
    unless its optional `raw_scores` is true.

    Args:
        description: of the model; its optional `threshold` is that of a binary task, its optional `calibration` is
            applied to the answers.

    Raises:
        InputError: no such kind, not one name per class, an invalid threshold or calibration.
    """
    num_classes = recipe.num_classes or 0
    default = {0: "values", 2: "binary"}.get(num_classes, "multiclass")
    kind: Any = getattr(recipe, "task", default)
    if kind not in get_args(Kind):
        raise unknown_name("task", str(kind), get_args(Kind), advice=f"({type(recipe).__module__})")
    names = tuple(str(name) for name in getattr(recipe, "class_names", ()))
    if names and len(names) != num_classes:
        raise InputError(
            f"{type(recipe).__module__}: class_names has {len(names)} names, and num_classes is {num_classes}."
        )
    size = num_classes or int(getattr(recipe, "num_outputs", kind == "regression"))
    task = Task(kind, size, names, ranked_by=_ranked_by(recipe, kind), calibration=Calibration.of(description or {}))
    if task.calibration is not None and task.ranked_by == "raw scores":
        task = replace(task, ranked_by="logits")
    threshold: Any = (description or {}).get(THRESHOLD, task.threshold)
    if not (isinstance(threshold, int | float) and 0 <= threshold <= 1):
        raise InputError(f"the model's threshold is {threshold!r:.40}; allowed are numbers from 0 to 1.")
    return replace(task, threshold=float(threshold)) if kind == "binary" else task


def _ranked_by(recipe: Recipe, kind: Kind) -> RankedBy:
    """
    Raises:
        InputError: raw scores without the method that gives them.
    """
    raw = bool(getattr(recipe, "raw_scores", False))
    if getattr(recipe, "scores", None) is None:
        if raw:
            raise InputError(f"{type(recipe).__module__}: raw_scores is true, and there is no method scores(outputs).")
        return "logits" if kind in _RANKED else "probabilities"
    return "raw scores" if raw else "probabilities"


def answers_of(framework: Values, recipe: Recipe, task: Task, outputs: Any) -> Answers:
    """Probabilities (float64, softmax or sigmoid of the outputs) and answers for a batch.

    A recipe's optional methods `scores(outputs)` and `predicted(outputs)` say it in their own way. A binary model has
    one output a sample (the logit of class 1) or two. The task's calibration is applied.

    Raises:
        InputError: outputs of a shape that the task does not have.
    """
    own_scores, own_predicted = getattr(recipe, "scores", None), getattr(recipe, "predicted", None)
    if task.kind in _WITHOUT_ANSWERS and own_scores is None and own_predicted is None:
        return Answers(None, None)  # before gigabytes of logits are copied from the device
    outputs = framework.on_host(outputs)
    scores: NDArray[Any] | None = None
    predicted: NDArray[Any] | None = None
    if trees.is_tensor(outputs):
        scores, predicted, *_ = _answers(framework, recipe, task, outputs)
    elif own_predicted is None:
        raise wrong_answer(
            recipe, "model", outputs, "one tensor, or have a method predicted(outputs) that says what they answer"
        )
    if own_scores is not None:
        scores = framework.array(own_scores(outputs))
    if own_predicted is not None:
        predicted = framework.array(own_predicted(outputs))
    margins = _margins(framework, task.kind, _ranked_by(recipe, task.kind), outputs, scores)
    return calibrated(task.calibration, task, Answers(scores, predicted, margins))


def calibrated(calibration: Calibration | None, task: Task, answers: Answers) -> Answers:
    """The answers of any model as its calibration changes them. Two classes are told apart by the threshold then."""
    scores, predicted, margins, ends = answers
    if calibration is None:
        return answers
    if task.kind == "regression" and predicted is not None and predicted.size == len(predicted):
        return answers._replace(ends=calibration.ends(predicted, ends))
    if task.kind not in ("binary", "multiclass") or (scores is None and margins is None):
        return answers
    scores, margins = calibration.probabilities(task.kind, scores, margins)
    return Answers(scores, (scores >= task.threshold).astype(np.int64) if task.kind == "binary" else predicted, margins)


def _margins(
    framework: Values, kind: Kind, ranked_by: RankedBy, outputs: Any, scores: NDArray[Any] | None
) -> NDArray[np.float64] | None:
    """The numbers by which samples are ranked, as `Samples.margins` has it."""
    if scores is None or ranked_by == "probabilities":
        return None
    if ranked_by == "raw scores":
        return np.asarray(scores, np.float64)
    logits = np.asarray(framework.array(outputs), np.float64)
    if kind == "binary":
        return logits[:, 1] - logits[:, 0] if logits.shape[1:] == (2,) else logits.reshape(-1)
    return log_odds_of_each(logits, scores) if kind == "multiclass" else logits


def _answers(framework: Values, recipe: Recipe, task: Task, outputs: Any) -> Answers:
    shape = tuple(outputs.shape)
    if task.kind == "multiclass":
        _check(recipe, outputs, shape[1:] == (task.num_classes,), f"[samples, {task.num_classes}]")
        return Answers(framework.softmax(outputs), framework.array(outputs).argmax(axis=1))
    if task.kind == "binary":
        fits = shape[1:] in ((), (1,), (2,))
        _check(recipe, outputs, fits, "[samples, 2], or one output a sample: the logit of class 1")
        score = framework.softmax(outputs)[:, 1] if shape[1:] == (2,) else framework.sigmoid(outputs).reshape(-1)
        return Answers(score, (score >= task.threshold).astype(np.int64))
    if task.kind == "multilabel":
        scores = framework.sigmoid(outputs)
        return Answers(scores, (scores >= 0.5).astype(np.int64))
    if task.kind == "regression":
        values = framework.array(outputs).astype(np.float64)
        return Answers(None, values[:, None] if values.ndim == 1 else values)
    if task.kind == "segmentation":
        _check(recipe, outputs, len(shape) > 2, "[samples, classes, ...]")
        answers = framework.array(outputs).argmax(axis=1)
        return Answers(None, answers.reshape(len(answers), -1))
    return Answers(None, None)


def answer_columns(
    task: Task,
    predicted: NDArray[Any] | None,
    scores: NDArray[Any] | None,
    margins: NDArray[Any] | None = None,
) -> dict[str, NDArray[Any]]:
    """As columns of a table: predicted, score or score_<class>, margin or margin_<class>, where there are any."""
    columns: dict[str, NDArray[Any]] = {}
    if predicted is not None:
        columns["predicted"] = one_value(predicted)
    for name, values in (("score", scores), ("margin", margins)):
        if values is None:
            continue
        if values.ndim == 1 or values.shape[1] > MAX_SCORE_COLUMNS:
            columns[name] = values
        else:
            classes = task.class_names or tuple(map(str, range(values.shape[1])))
            columns |= {f"{name}_{each}": values[:, number] for number, each in enumerate(classes)}
    return columns


def by_name(task: Task, predicted: NDArray[Any]) -> NDArray[Any]:
    """Predicted classes by their names, object [n], where the task names its classes; else unchanged."""
    if not task.class_names or task.kind not in ("binary", "multiclass"):
        return predicted
    return np.array(task.class_names, dtype=object)[predicted]


def one_value(values: NDArray[Any]) -> NDArray[Any]:
    """Lists of one value a row, shape [n, 1], as the values: shape [n]."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _check(recipe: Recipe, outputs: Any, fits: bool, wanted: str) -> None:
    if not fits:
        raise wrong_answer(recipe, "model", outputs, f"outputs of shape {wanted}")
