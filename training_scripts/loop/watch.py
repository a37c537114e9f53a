"""Which validation was the best so far, and whether it is worth going on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drivetrain.training_scripts.errors import unknown_name


class Watch:
    """Of one validation metric: a loss is better when smaller, anything else when greater.

    Every rank has one and sees the same numbers, so that all come to the same decision at the same step.

    Args:
        monitor: its name, `validation_loss` or `validation_` and a metric of the recipe.
        patience: validations without a better one after which it gives up; 0 for never.
    """

    def __init__(self, monitor: str, patience: int) -> None:
        self.monitor = monitor
        self.patience = patience
        self.best: float | None = None
        self.best_step = 0
        self.worse_since_best = 0

    def check(self, names: Iterable[str]) -> None:
        """
        Raises:
            InputError: the metric that is watched is not among them, with the closest match.
        """
        names = sorted(names)
        if self.monitor not in names:
            raise unknown_name("monitor", self.monitor, names)

    def improves(self, step: int, metrics: Mapping[str, float]) -> bool:
        """Take note of a validation; whether it is the best so far. Of equal ones the first is."""
        value = metrics[self.monitor]
        sign = 1 if self.monitor.endswith("loss") else -1
        if self.best is not None and sign * value >= sign * self.best:
            self.worse_since_best += 1
            return False
        self.best, self.best_step, self.worse_since_best = value, step, 0
        return True

    @property
    def gives_up(self) -> bool:
        return bool(self.patience) and self.worse_since_best >= self.patience

    def describe(self) -> str:
        """For people, when it gives up."""
        return (
            f"early stopping: {self.monitor} was best at step {self.best_step} ({self.best:.6g}), and the "
            f"{self.worse_since_best} validations since were no better"
        )

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "best_step": self.best_step, "worse_since_best": self.worse_since_best}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.best, self.best_step = state["best"], int(state["best_step"])
        self.worse_since_best = int(state["worse_since_best"])
