"""The task of a model: the kind of its outputs, and the names of its classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from drivetrain.training.calibration import Calibration

Kind = Literal["multiclass", "binary", "multilabel", "regression", "tokens", "segmentation", "values"]
"""The kind of a model's outputs. `values`: nothing is known but losses and the recipe's own values a sample."""

RankedBy = Literal["probabilities", "logits", "raw scores"]
"""The numbers by which samples are ranked. `probabilities`: the scores, which tell apart what probabilities tell apart.
`logits`: margins that are log-odds; the scores are their softmax or sigmoid. `raw scores`: margins, any real numbers;
the scores are the same numbers, and no probabilities."""


@dataclass(frozen=True)
class Task:
    """The task of a model. `num_classes` counts the classes of multiclass (binary: 2), tokens and segmentation, the
    labels of multilabel, and the outputs of regression; 0 for `values`."""

    kind: Kind
    num_classes: int = 0
    class_names: tuple[str, ...] = ()
    """Names for people, in the order of the classes; may be empty."""
    threshold: float = 0.5
    """The least score for class 1, for binary tasks."""
    ranked_by: RankedBy = "probabilities"
    calibration: Calibration | None = None
    """Applied to the outputs of a recipe's model; None where there is none, or where it was applied already."""
