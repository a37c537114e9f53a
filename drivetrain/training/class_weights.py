"""Classes that weigh alike in the loss, however often they occur: the field `class_weights` of a training."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.recipe import HasLossWeights, Recipe


def balanced(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The weight of each class from its number of rows: rows / (classes * rows of the class).

    Over all rows weights are 1 on average. A class without rows has the weight 0. (King, Zeng 2001, "Logistic
    regression in rare events data"; scikit-learn's class_weight="balanced".)
    """
    present = np.count_nonzero(counts)
    return np.divide(counts.sum(), present * counts, out=np.zeros(len(counts)), where=counts > 0)


def weigh_classes(recipe: Recipe, dataset: Dataset) -> Recipe:
    """The recipe with `loss_weights` by the classes of the training data.

    Raises:
        InputError: the recipe has no classes, or weighs its samples itself.
    """
    name = type(recipe).__module__
    if isinstance(recipe, HasLossWeights):
        raise InputError(f"class_weights='balanced': the recipe {name} weighs its samples itself. Leave it out.")
    if recipe.num_classes is None:
        raise InputError(f"class_weights='balanced': the recipe {name} has no classes. Leave it out.")
    weights = balanced(np.bincount(_labels(dataset), minlength=recipe.num_classes)).tolist()

    def loss_weights(self: Any, targets: Any) -> Any:
        if hasattr(targets, "new_tensor"):  # of torch, on its device
            return targets.double().new_tensor(weights)[targets.long()]
        return np.asarray(weights)[np.asarray(targets)]

    kind = type(recipe)
    more = {"loss_weights": loss_weights, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    weighing = copy.copy(recipe)
    object.__setattr__(weighing, "__class__", type(kind.__name__, (kind,), more))
    return weighing


def _labels(dataset: Dataset) -> NDArray[np.int64]:
    labels = dataset.labels()
    if labels.ndim != 1 or labels.dtype.kind not in "iub" or (labels < 0).any():
        raise InputError(f"class_weights='balanced' needs a class a row; label {dataset.label!r} is {labels.dtype}.")
    return labels.astype(np.int64)
