"""A batch as metrics see it: the recipe's losses and values, its targets, and the meaning of the model's outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.errors import unknown_name
from drivetrain.training.framework import Values
from drivetrain.training.metric import Amount, Ints, Samples
from drivetrain.training.metric_states.intervals import covered
from drivetrain.training.metric_states.numbers.finite import EXTREME, Locate, Where, check_finite
from drivetrain.training.outputs import answers_of
from drivetrain.training.recipe import HasDirections, HasLossWeights, HasTruth, Recipe, wrong_answer
from drivetrain.training.task import Task

# A target that counts for nothing (torch's `ignore_index`), where a sample has many.
_IGNORED = -100


def samples_of(
    framework: Values,
    recipe: Recipe,
    task: Task,
    outputs: Any,
    targets: Any,
    rows: Ints | None = None,
    locate: Locate | None = None,
    unrounded: Any = None,
) -> Samples:
    """The samples of a batch.

    Args:
        framework: whose tensors these are.
        outputs: of the model, for all samples of the batch.
        targets: as the recipe's `batch` gave them.
        rows: the row numbers of the samples, for messages.
        locate: where those rows are.
        unrounded: the targets before they were brought into the number format of the model, which the metrics are to
            see; None for `targets`.

    Raises:
        InputError: the recipe returned what its contract does not have; a loss or an output that is no number; targets
            that the task does not have.
    """
    where, num_samples = Where(rows, locate), trees.num_samples(targets)
    truth = _truth(recipe, task, targets if unrounded is None else unrounded)
    given = np.zeros(num_samples or 0) if truth is None else framework.array(truth)
    _check_classes(task, given, where)  # torch only says "out of bounds"

    def of_samples(method: str, answer: Any) -> NDArray[Any]:
        """One value a sample: as float64, or bool where it is."""
        if not framework.is_tensor(answer) or tuple(answer.shape) != (num_samples,):
            mean = "not a mean: reduction='none'" if method == "losses" else "not a mean"
            raise wrong_answer(recipe, method, answer, f"one number a sample, shape [{num_samples}], {mean}")
        values = framework.array(answer)
        return values if values.dtype == np.bool_ else values.astype(np.float64)

    metrics, losses = _own_metrics(recipe, outputs, targets), recipe.losses(outputs, targets)
    found = {"loss": of_samples("losses", losses).astype(np.float64, copy=False)}
    values = {name: of_samples("metrics", value) for name, value in metrics.items()}
    found |= values
    for name, numbers in found.items():
        if numbers.dtype != np.bool_:
            check_finite(name, numbers, where, EXTREME)
    weights = None
    if isinstance(recipe, HasLossWeights):
        weights = of_samples("loss_weights", recipe.loss_weights(targets)).astype(np.float64, copy=False)
    if weights is not None:
        check_finite("loss weight", weights, where, EXTREME)
        if weights.size and weights.min() < 0:
            raise wrong_answer(recipe, "loss_weights", targets, f"numbers from 0, and not {weights.min():g}")
    texts = _texts(recipe, outputs, targets)
    if task.kind == "values":
        return Samples(losses=found["loss"], weights=weights, values=values, texts=texts)
    scores, predicted, margins, ends = answers_of(framework, recipe, task, outputs)
    for name, numbers in (("score", scores), ("prediction", predicted), ("output", margins)):
        if numbers is not None and numbers.dtype.kind == "f":
            check_finite(name, numbers, where, EXTREME)
    wanted = _targets(recipe, task, given, where)
    if predicted is not None and predicted.shape != wanted.shape:
        raise InputError(
            f"{type(recipe).__module__}: targets of shape {trees.described(truth)} do not fit outputs of shape "
            f"{trees.described(outputs)}, which make predictions of shape {list(predicted.shape)} in a {task.kind} "
            "task."
        )
    if ends is not None:
        values = {**covered(*ends, wanted[:, 0]), **values}
    return Samples(
        losses=found["loss"],
        weights=weights,
        targets=wanted,
        scores=scores,
        predicted=predicted,
        margins=margins,
        values=values,
        texts=texts,
    )


def amounts_of(samples: Samples) -> dict[str, Amount]:
    """The recipe's own metrics, and what their values are."""
    return {name: "bool" if values.dtype == np.bool_ else "float" for name, values in samples.values.items()}


def no_samples(task: Task) -> Samples:
    """Samples in the shapes of a task, none of them."""
    one, each, none = (np.zeros(0, np.int64), np.zeros((0, task.num_classes)), np.zeros(0))
    whole = each.astype(np.int64)
    targets, scores, predicted = {
        "binary": (one, none, one),
        "multiclass": (one, each, one),
        "multilabel": (whole, each, whole),
        "regression": (each, None, each),
        "tokens": (np.zeros((0, 0), np.int64), None, None),
        "segmentation": (np.zeros((0, 0), np.int64), None, np.zeros((0, 0), np.int64)),
        "values": (None, None, None),
    }[task.kind]
    margins = None if task.ranked_by == "probabilities" else scores
    return Samples(losses=none, targets=targets, scores=scores, predicted=predicted, margins=margins)


def _texts(recipe: Recipe, outputs: Any, targets: Any) -> Callable[[], tuple[Sequence[str], Sequence[str]]] | None:
    """The recipe's texts, made once for all metrics that ask for them."""
    make: Any = getattr(recipe, "texts", None)
    return None if make is None else cache(lambda: make(outputs, targets))


def _truth(recipe: Recipe, task: Task, targets: Any) -> Any:
    """The tensor of the targets that a task's metrics look at; None where a task of values has several.

    Raises:
        InputError: the recipe does not say which.
    """
    if isinstance(recipe, HasTruth):
        return recipe.truth(targets)
    if trees.is_tensor(targets):
        return targets
    if task.kind == "values":
        return None
    raise wrong_answer(recipe, "batch", targets, "one tensor of targets, or have a method truth(targets) that chooses")


def _own_metrics(recipe: Recipe, outputs: Any, targets: Any) -> dict[str, Any]:
    """
    Raises:
        InputError: the recipe returned no names with values. (The shapes are looked at with those of the losses.)
    """
    metrics: object = recipe.metrics(outputs, targets)
    if not isinstance(metrics, dict):
        raise wrong_answer(recipe, "metrics", metrics, "a dict of names and tensors, such as {'accuracy': ...}")
    wrong = [name for name in metrics if not isinstance(name, str) or name == "loss"]
    if wrong:
        raise wrong_answer(recipe, "metrics", metrics, f"names that are text other than 'loss', not {wrong[0]!r}")
    if isinstance(recipe, HasDirections) and (unknown := sorted(recipe.higher_is_better.keys() - metrics.keys())):
        error = unknown_name("metric", unknown[0], metrics)
        raise InputError(f"{type(recipe).__module__}: higher_is_better of the recipe: {error}")
    return metrics


def _targets(recipe: Recipe, task: Task, targets: NDArray[Any], where: Where) -> NDArray[Any]:
    """In the shape and type that `Samples` has for the task."""
    if task.kind == "regression":
        values = targets.astype(np.float64)
        check_finite("target", values, where, "correct the label column")
        return values.reshape(len(values), -1)
    with np.errstate(invalid="ignore"):  # of what is no number
        found = targets.astype(np.int64)
    if targets.dtype.kind == "f" and not np.array_equal(found.astype(targets.dtype), targets):
        raise wrong_answer(recipe, "batch", targets, f"targets that are whole numbers, as a {task.kind} task has them")
    if task.kind in ("tokens", "segmentation"):
        found = found.reshape(len(found), -1)
    elif task.kind in ("binary", "multiclass"):
        found = found.reshape(len(found)) if found.size == len(found) else found
    if found.ndim != (1 if task.kind in ("binary", "multiclass") else 2):
        raise wrong_answer(recipe, "batch", targets, f"targets as a {task.kind} task has them")
    return found


def _check_classes(task: Task, given: NDArray[Any], where: Where) -> None:
    """Every target is a class."""
    many = task.kind in ("tokens", "segmentation")
    if task.kind not in ("binary", "multiclass", "multilabel") and not (many and task.num_classes):
        return
    limit = 2 if task.kind == "multilabel" else task.num_classes
    if not given.size or (given.min() >= 0 and given.max() < limit):
        return
    given = given.reshape(len(given), -1)
    wrong = ~((given >= 0) & (given < limit) | (many & (given == _IGNORED)))
    places = np.flatnonzero(wrong.any(axis=1))
    if places.size:
        first = given[places[0]][wrong[places[0]]][0]
        more = f" ({places.size} such in the batch)" if places.size > 1 else ""
        what = "0 or 1 for each label" if task.kind == "multilabel" else f"classes 0 to {limit - 1}"
        raise InputError(
            f"the target of {where.of(places[0])} is {first}{more}; allowed are {what}"
            f"{f', and {_IGNORED} for what is not to count' if many else ''}. Correct the data, or the recipe's "
            "num_classes."
        )
