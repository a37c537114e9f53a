"""Which validation was the best so far, and whether it is worth going on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.training_scripts.errors import unknown_name


class Watch:
    """Of one validation metric: a loss is better when smaller, anything else when greater."""

    def __init__(self, monitor: str, patience: int) -> None:
        self.monitor = monitor
        self.patience = patience
        self.best: float | None = None
        self.best_step = 0
        self.worse_since_best = 0

    def improves(self, step: int, metrics: Mapping[str, float]) -> bool:
        """Take note of a validation; whether it is the best so far.

        Raises:
            InputError: the metric that is watched is not among them.
        """
        if self.monitor not in metrics:
            raise unknown_name("monitor", self.monitor, metrics)
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

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "best_step": self.best_step, "worse_since_best": self.worse_since_best}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.best, self.best_step = state["best"], int(state["best_step"])
        self.worse_since_best = int(state["worse_since_best"])
