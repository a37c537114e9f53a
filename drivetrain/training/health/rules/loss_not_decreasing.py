"""The loss has never fallen below that of the beginning, or of guessing classes: nothing is learnt.

A loss that stands still after it has fallen is another matter: the training may have converged (overtraining).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen

WATCHES = "loss"
ACTION = "fail"
WINDOW = "200 steps in which it has not fallen by 2 %"
ADVICE = (
    "Look at the labels (are they shuffled against the inputs?), at the scale of the inputs, and at learning_rate; a "
    "model that can learn at all learns 100 samples by heart."
)
REMEMBERS = ("_first", "_begun", "_falls", "_guess")
# Many classes take their time: so many steps a class before the loss is compared with guessing.
_STEPS_A_CLASS = 20
# What a loss has to come below, as a share of that of guessing: a hard task of few classes is learnt hardly better.
_FEW_CLASSES, _OF_FEW, _OF_MANY = 5, 1.02, 0.99
# A first loss of more than so many times that of guessing is no cross-entropy alone.
_SAME_SCALE = 1.5


@dataclass
class Rule:
    steps: int = 200
    """Steps that a loss has to fall."""
    share: float = 0.02
    """The share by which it has to fall below the first records'."""

    def __post_init__(self) -> None:
        self._first: Sequence[float] | None = None  # the mean of the first steps, and how many
        self._begun: int | None = None
        self._lately: deque[tuple[float, int]] = deque()
        self._falls = False
        self._guess: Sequence[float] | None = (
            None  # ln(classes), what the loss must fall below, and after how many steps
        )

    def see(self, record: Record) -> Seen | None:
        if self._falls or record.loss is None or not record.steps:
            return None
        if self._begun is None:
            self._begun = record.step - record.steps
            self._guess = _guess_of(record, self._begun)
        # Means over a tenth of the window: a single batch says little.
        least = max(self.steps // 10, 1)
        if self._first is None or self._first[1] < least:
            loss, steps = self._first or (0.0, 0)
            self._first = ((loss * steps + record.loss * record.steps) / (steps + record.steps), steps + record.steps)
            return None
        self._lately.append((record.loss, record.steps))
        while sum(steps for _, steps in self._lately) - self._lately[0][1] >= least:
            self._lately.popleft()
        steps = sum(steps for _, steps in self._lately)
        if steps < least:
            return None
        lately = sum(loss * steps for loss, steps in self._lately) / steps
        # (Losses below 0 exist: logarithms of densities.)
        falls = lately < self._first[0] - self.share * abs(self._first[0])
        learns = self._guess is None or lately < self._guess[1]
        self._falls = falls and learns
        since = record.step - self._begun
        if not falls and since >= self.steps:
            was = f"and was {self._first[0]:.4g} at the beginning"
        elif not learns and self._guess is not None and since >= max(self.steps, self._guess[2]):
            was = f"and guessing gives {self._guess[0]:.4g}"
        else:
            return None
        return Seen(f"the loss is {lately:.4g} after {record.step} steps, {was}")


def _guess_of(record: Record, begun: int) -> tuple[float, float, int] | None:
    """The loss of guessing, the loss to fall below, and the number of steps, for a training whose loss is a
    cross-entropy as far as its first record can tell: a learning rate that is too high spoils only what comes next."""
    classes = 0 if record.classes is None else len(record.classes)
    if begun or classes < 2 or record.loss is None or not record.loss <= _SAME_SCALE * math.log(classes):
        return None
    guess = math.log(classes)
    return guess, guess * (_OF_FEW if classes < _FEW_CLASSES else _OF_MANY), _STEPS_A_CLASS * classes
