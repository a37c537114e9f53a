"""The model learns the training data by heart: the loss on held-out data rises while that of the training falls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen

WATCHES = "validation"
ACTION = "warn"
WINDOW = "3 validations after the best"
ADVICE = (
    "Give keep_best (the best model is handed on) or early_stopping; more data, augmentation, dropout or weight_decay "
    "make the best one better."
)
REMEMBERS = ("_best", "_best_step", "_met", "_largest", "_last")
# A loss that has fallen by more than this share of its rise is on its way back: so it is in the first epochs, where the
# running means of batch normalization lag behind weights that still move fast.
_FALLS_BACK = 0.2


@dataclass
class Rule:
    share: float = 0.2
    """The share by which the validation loss is above its best."""
    scale: float = 0.05
    """The least excess as a share of the largest training loss: near 0 a loss easily doubles."""
    validations: int = 3
    """The number of validations in a row; those in which it falls back are not counted."""

    def __post_init__(self) -> None:
        self._best: Sequence[float] | None = None  # of the validation, and the training loss of that time
        self._best_step, self._met, self._largest, self._last = 0, 0, 0.0, 0.0

    def see(self, record: Record) -> Seen | None:
        assert record.validation is not None
        loss, learnt = record.validation.get("validation_loss"), record.validation.get("train_loss")
        if loss is None or learnt is None or not math.isfinite(loss):
            return None
        self._largest, last, self._last = max(self._largest, abs(learnt)), self._last, loss
        if self._best is None or loss < self._best[0]:
            self._best, self._best_step, self._met = (loss, learnt), record.step, 0
            return None
        rise = loss - self._best[0]
        if self._met and last - loss > _FALLS_BACK * (last - self._best[0]):
            return None
        worse = rise > self.share * abs(self._best[0]) and rise > self.scale * self._largest and learnt < self._best[1]
        self._met = self._met + 1 if worse else 0
        if self._met < self.validations:
            return None
        return Seen(
            f"validation_loss was best at step {self._best_step} ({self._best[0]:.4g}) and is {loss:.4g} now, while "
            f"train_loss went from {self._best[1]:.4g} to {learnt:.4g}"
        )
