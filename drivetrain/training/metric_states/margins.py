"""Numbers that samples are ranked by, from the outputs of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.framework import Values
from drivetrain.training.metric import Floats, Task

# Sums of probabilities below this have lost digits.
_TINY = 1e-290


def margins_of(framework: Values, task: Task, outputs: Any, scores: NDArray[Any] | None) -> Floats | None:
    """The numbers by which samples are ranked, as `Samples.margins` has it, for outputs and scores that `answers_of`
    has checked."""
    if scores is None or task.ranked_by == "probabilities":
        return None
    if task.ranked_by == "raw scores":
        return np.asarray(scores, np.float64)
    logits = np.asarray(framework.array(outputs), np.float64)
    if task.kind == "binary":
        return logits[:, 1] - logits[:, 0] if logits.shape[1:] == (2,) else logits.reshape(-1)
    return _log_odds(logits, scores) if task.kind == "multiclass" else logits


def _log_odds(logits: Floats, probabilities: Floats) -> Floats:
    """z_k - logsumexp of the others, shape [n, C], by p_k / (1 - p_k), where 1 - p_k has all its digits: it is at least
    1/2, but for the largest logit, for which the others are added up."""
    if logits.shape[1] == 1:
        return np.zeros_like(logits)
    top = probabilities.argmax(axis=1)[:, None]
    best, highest = np.take_along_axis(probabilities, top, 1), np.take_along_axis(logits, top, 1)
    others = probabilities.copy()
    np.put_along_axis(others, top, 0, 1)
    rest = others.sum(axis=1, keepdims=True)
    # (Equal logits have equal margins.)
    found = np.where(logits == highest, np.maximum(rest, _TINY), 1 - probabilities)
    np.divide(best, found, out=found)
    np.log(found, out=found)
    found += logits - highest
    for row in np.flatnonzero(rest[:, 0] < _TINY):
        below = np.delete(logits[row], top[row])
        found[row, top[row]] = highest[row] - np.logaddexp.reduce(below)
    return found
