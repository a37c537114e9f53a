"""The learning rate over a training: a share of the highest one, as a function of the step alone.

Nothing has to be saved for it. P. Goyal et al., "Accurate, Large Minibatch SGD", 2017 (warm-up, linear scaling);
I. Loshchilov and F. Hutter, "SGDR", ICLR 2017 (cosine, warm restarts); A. Krizhevsky, "One weird trick for
parallelizing convolutional neural networks", 2014 (square-root scaling).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, get_args

from drivetrain.base.errors import InputError
from drivetrain.training import config
from drivetrain.training.recipe import HasSchedules, Recipe


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Steps are counted from 0.

    `kind` is cosine (half a wave down to 0), linear (down to 0), constant, or sgdr: cosine waves of `cycle_steps`, each
    `cycle_growth` times as long as the one before.
    """

    kind: config.Schedule
    warmup_steps: int
    total_steps: int
    cycle_steps: int = 1
    cycle_growth: float = 1.0

    def factor(self, step: int) -> float:
        """The share of the highest learning rate for `step`: a linear rise over the warm-up, then the schedule."""
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        done = step - self.warmup_steps
        if self.kind == "constant":
            return 1.0
        if self.kind == "sgdr":
            share = self._position_in_cycle(done)
        else:
            share = min(1.0, done / max(1, self.total_steps - self.warmup_steps))
        return 1.0 - share if self.kind == "linear" else 0.5 * (1 + math.cos(math.pi * share))

    def _position_in_cycle(self, done: int) -> float:
        """In [0, 1): how much of its cycle the step has behind it."""
        length = float(max(1, self.cycle_steps))
        if self.cycle_growth == 1.0:
            return (done % length) / length
        # Cycle n starts at length * (growth^n - 1) / (growth - 1).
        growth = self.cycle_growth
        number = int(math.log(done / length * (growth - 1) + 1, growth) + 1e-9)
        start = length * (growth**number - 1) / (growth - 1)
        return min(1.0, max(0.0, (done - start) / (length * growth**number)))


@dataclass(frozen=True)
class Schedules:
    """Those of a recipe's optimizers, in their order; or one for all."""

    each: tuple[Schedule, ...]

    @property
    def total_steps(self) -> int:
        return self.each[0].total_steps

    def factors(self, step: int) -> list[float]:
        return [schedule.factor(step) for schedule in self.each]


def schedules_of(recipe: Recipe, schedule: Schedule) -> Schedules:
    """`schedule`, in the kinds that the recipe names for its optimizers (`HasSchedules`)."""
    kinds: Any = recipe.schedules if isinstance(recipe, HasSchedules) else ("",)
    return Schedules(tuple(replace(schedule, kind=kind or schedule.kind) for kind in kinds))


def check_schedules(recipe: Recipe, num_optimizers: int) -> None:
    """
    Raises:
        InputError: the recipe has schedules for another number of optimizers, or names of none.
    """
    if not isinstance(recipe, HasSchedules):
        return
    kinds = get_args(config.Schedule)
    where = f"{type(recipe).__module__}: schedules of the recipe is {recipe.schedules!r}"
    if isinstance(recipe.schedules, str) or len(recipe.schedules) != num_optimizers:
        raise InputError(f"{where}, and optimizer() returned {num_optimizers}. Give a schedule for each.")
    if wrong := [kind for kind in recipe.schedules if kind not in ("", *kinds)]:
        raise InputError(f"{where}; allowed are {', '.join(kinds)}, or '' for the training's own, not {wrong[0]!r}.")
