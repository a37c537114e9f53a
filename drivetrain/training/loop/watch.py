"""Watch for the best validation, and for the end of improvement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name

PREFIX = "validation_"


class Watch:
    """A watch on one validation metric.

    Every rank has one and sees the same numbers, so that all come to the same decision at the same step.

    Args:
        monitor: its name, `validation_loss` or `validation_` and a metric of the recipe.
        patience: validations without a better one after which it gives up; 0 for never.
        higher_is_better: which way the metric is better; None where nothing says so: then `check` refuses it.
    """

    def __init__(self, monitor: str, patience: int, *, higher_is_better: bool | None) -> None:
        self.monitor = monitor
        self.patience = patience
        self.higher_is_better = higher_is_better
        self.best: float | None = None
        self.best_step = 0
        self.worse_since_best = 0

    def check(self, names: Iterable[str]) -> None:
        """
        Raises:
            InputError: the metric that is watched is not among them, with the closest match; or nothing says which way
                it is better.
        """
        names = sorted(names)
        if self.monitor not in names:
            raise unknown_name("monitor", self.monitor, names)
        if self.higher_is_better is None:
            name = self.monitor.removeprefix(PREFIX)
            raise InputError(
                f"monitor={self.monitor}: nothing says whether more of {name!r} is better, so no validation can be the "
                f"best. Give the recipe higher_is_better = {{{name!r}: True}} (or False), or watch another metric."
            )

    def improves(self, step: int, metrics: Mapping[str, float]) -> bool:
        """Take note of a validation; whether it is the best so far. Of equal ones the first is."""
        value = metrics[self.monitor]
        sign = -1 if self.higher_is_better else 1
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
        return {
            "best": self.best,
            "best_step": self.best_step,
            "worse_since_best": self.worse_since_best,
            "higher_is_better": self.higher_is_better,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.best, self.best_step = state["best"], int(state["best_step"])
        self.worse_since_best = int(state["worse_since_best"])
