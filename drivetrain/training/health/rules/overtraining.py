"""The training goes on, and held-out data does not get any better from it: time and money without a better model."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen

WATCHES = "validation"
ACTION = "note"
WINDOW = "10 validations without a better one"
ADVICE = "Give early_stopping, or fewer epochs."
REMEMBERS = ("_best", "_best_step", "_since")


@dataclass
class Rule:
    validations: int = 10
    """Validations in a row without a better loss."""
    share: float = 0.001
    """The least improvement that counts, as a share of the best loss."""

    def __post_init__(self) -> None:
        self._best: float | None = None
        self._best_step, self._since = 0, 0

    def see(self, record: Record) -> Seen | None:
        assert record.validation is not None
        loss = record.validation.get("validation_loss")
        if loss is None or not math.isfinite(loss):
            return None
        if self._best is None or loss < self._best - self.share * abs(self._best):
            self._best, self._best_step, self._since = loss, record.step, 0
            return None
        self._since += 1
        if self._since < self.validations:
            return None
        return Seen(f"validation_loss is no better since step {self._best_step}, {self._since} validations ago")
