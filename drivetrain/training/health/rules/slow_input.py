"""The training waits for its data.

Time in which a rank is ready and waits for a CPU is no waiting for data, whatever it was about to do: on a busy host
that is most of a short step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from drivetrain.training.health.record import Floats, Record
from drivetrain.training.health.rule import Seen
from drivetrain.training.health.verdict import INPUT_BOUND, LEAST_STEPS, LEAST_WAIT, waiting_for_data

WATCHES = "ranks"
ACTION = "warn"
WINDOW = "20 steps, after the first record"
ADVICE = "Raise workers (processes that read ahead) or prefetch; cheaper augmentation or a faster disk help as well."


@dataclass
class Rule:
    share: float = INPUT_BOUND
    """The share of a step's time in which the slowest rank waits for data."""
    seconds: float = LEAST_WAIT
    """A step: less is not worth a word."""
    steps: int = LEAST_STEPS
    """The steps over which it is told; the first record is left out, for files are cold then."""

    def __post_init__(self) -> None:
        self._lately: deque[tuple[int, Floats, Floats]] = deque()
        self._is_first = True

    def see(self, record: Record) -> Seen | None:
        assert record.ranks is not None
        if self._is_first:
            self._is_first = False
            return None
        self._lately.append((record.steps, *waiting_for_data(record.ranks)))
        while sum(row[0] for row in self._lately) - self._lately[0][0] >= self.steps:
            self._lately.popleft()
        steps = sum(row[0] for row in self._lately)
        if steps < self.steps:
            return None
        waited = sum((row[1] for row in self._lately), np.zeros(len(record.ranks)))
        whole = sum((row[2] for row in self._lately), np.zeros(len(record.ranks)))
        rank = int(waited.argmax())
        share, wait = float(waited[rank] / whole[rank]) if whole[rank] else 0.0, float(waited[rank]) / steps
        if share <= self.share or wait <= self.seconds:
            return None
        return Seen(
            f"rank {rank} waits for data in {share:.0%} of the time, {wait * 1e3:.3g} ms a step", f"rank {rank}"
        )
