"""Check what metrics ask of samples: give each value if it is right, else raise one clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Floats, Ints, Samples
from drivetrain.training.metric_states.numbers.finite import EXTREME
from drivetrain.training.task import Kind, RankedBy

IGNORED = -100
"""A target that counts for nothing (torch's `ignore_index`)."""

LARGEST = 1e150
"""The largest target or output of a regression: squares have to be finite."""


def classes(samples: Samples, kind: Kind, num_classes: int) -> tuple[Ints, Ints]:
    """Targets and predictions, in the shapes that `Samples` has for `kind`.

    Classes lie in [0, num_classes), those of a multilabel task are 0 or 1; a target of a segmentation may be IGNORED.

    Raises:
        InputError: something else.
    """
    predicted = _whole(_given(samples.predicted, "predictions"), "predictions")
    targets = class_targets(samples, kind, num_classes)
    _same_shape(targets, predicted, "targets", "predictions")
    if (found := ("predicted", kind, num_classes)) not in samples.checked:
        _within(predicted, "prediction", kind, num_classes)
        samples.checked.add(found)
    return targets, predicted


def class_targets(samples: Samples, kind: Kind, num_classes: int) -> Ints:
    """The targets alone.

    Raises:
        InputError: a target that is no class.
    """
    targets = _whole(_given(samples.targets, "targets"), "targets")
    if (found := ("targets", kind, num_classes)) not in samples.checked:
        counts = targets[targets != IGNORED] if kind == "segmentation" else targets
        _within(counts, "target", kind, num_classes)
        samples.checked.add(found)
    return targets


def scores(samples: Samples, kind: Kind, num_classes: int, *, probabilities: bool = True) -> NDArray[np.floating[Any]]:
    """The scores, in the shape that `Samples` has for `kind`.

    Args:
        probabilities: they have to lie in [0, 1]; else every number will do.

    Raises:
        InputError: something else.
    """
    found = _of_classes(samples.scores, "scores", samples, kind, num_classes)
    of = "probabilities" if probabilities else "scores"
    if found.size and of not in samples.checked:
        low, high = found.min(), found.max()  # NaN where one of them is
        if np.isnan(low):
            raise InputError(f"a score is nan: {EXTREME}; or the recipe's scores() divides by zero.")
        if probabilities and not (low >= 0 and high <= 1):
            raise InputError(
                f"a score is {float(low if low < 0 else high):g}, and this metric needs probabilities between 0 and 1. "
                "Let the recipe's scores() return what softmax or sigmoid makes of the outputs. If its scores only "
                "rank, say so by its attribute raw_scores = True, and name metrics that rank, such as auroc."
            )
        samples.checked.add(of)
    return found


def ranked(samples: Samples, kind: Kind, num_classes: int, by: RankedBy) -> NDArray[np.floating[Any]]:
    """The numbers by which samples are ranked, in the shape of the scores.

    Raises:
        InputError: they are missing, or one is not finite or no probability.
    """
    if by == "probabilities":
        return scores(samples, kind, num_classes)
    found = _of_classes(samples.margins, "margins", samples, kind, num_classes)
    if "margins" not in samples.checked:
        wrong = found[~np.isfinite(found)]
        if wrong.size:
            raise InputError(f"a score to rank by is {wrong[0]:g}: {EXTREME}.")
        samples.checked.add("margins")
    return found


def _of_classes(
    values: NDArray[Any] | None, what: str, samples: Samples, kind: Kind, num_classes: int
) -> NDArray[np.floating[Any]]:
    found, targets = _given(values, what), _given(samples.targets, "targets")
    wanted = (len(targets),) if kind == "binary" else (len(targets), num_classes)
    if found.shape != wanted:
        raise InputError(
            f"the {what} of {len(targets)} samples have shape {list(found.shape)}; a {kind} task of {num_classes} "
            f"classes needs {list(wanted)}. Correct the recipe's scores()."
        )
    return found


def outputs(samples: Samples, num_outputs: int) -> tuple[Floats, Floats]:
    """Targets and predictions of a regression: float64 [n, num_outputs] each.

    Raises:
        InputError: other shapes, or a number that is not finite or beyond LARGEST.
    """
    targets = np.asarray(_given(samples.targets, "targets"), np.float64)
    predicted = np.asarray(_given(samples.predicted, "predictions"), np.float64)
    _same_shape(targets, predicted, "targets", "predictions")
    if targets.shape[1:] != (num_outputs,):
        raise InputError(
            f"targets have shape {list(targets.shape)}; a regression of {num_outputs} outputs needs "
            f"{[len(targets), num_outputs]}. Correct the recipe's num_outputs, or its targets."
        )
    for what, values in (("target", targets), ("prediction", predicted)):
        wrong = values[~(np.abs(values) <= LARGEST)]
        if wrong.size:
            advice = EXTREME if what == "prediction" else "correct the label column"
            raise InputError(f"a {what} is {wrong[0]:g}; allowed are numbers up to {LARGEST:g}: {advice}.")
    return targets, predicted


def _given(values: NDArray[Any] | None, what: str) -> NDArray[Any]:
    if values is None:
        raise InputError(
            f"a metric needs {what}, and the recipe has none for its task. Leave the metric out, or correct the "
            "recipe's task."
        )
    return values


def _whole(values: NDArray[Any], what: str) -> Ints:
    if values.dtype.kind not in "iub":
        raise InputError(f"{what} are {values.dtype} numbers; numbers of classes, which are whole, are needed.")
    return values.astype(np.int64, copy=False)


def _same_shape(one: NDArray[Any], other: NDArray[Any], name: str, other_name: str) -> None:
    if one.shape != other.shape:
        raise InputError(
            f"{name} have shape {list(one.shape)} and {other_name} {list(other.shape)}; they have to be the same. "
            "Correct the recipe's predicted(), or its targets."
        )


def _within(values: NDArray[Any], what: str, kind: Kind, num_classes: int) -> None:
    limit = 2 if kind == "multilabel" else num_classes
    if kind == "multilabel" and values.shape[1:] != (num_classes,):
        raise InputError(
            f"{what}s have shape {list(values.shape)}; {num_classes} labels need {[len(values), num_classes]}."
        )
    # (Of negative numbers their bits are larger than any class.)
    if values.size and values.view(np.uint64).max() >= limit:
        low, high = values.min(), values.max()
        if not (low >= 0 and high < limit):
            wrong = low if not low >= 0 else high
            allowed = "0 or 1 for each label" if kind == "multilabel" else f"the classes 0 to {limit - 1}"
            if kind == "segmentation" and what == "target":
                allowed += f", and {IGNORED} for what is not to count"
            raise InputError(
                f"a {what} is {wrong}; allowed is {allowed}. Correct "
                + (
                    "the label column, or the recipe's num_classes."
                    if what == "target"
                    else "the recipe's predicted()."
                )
            )
