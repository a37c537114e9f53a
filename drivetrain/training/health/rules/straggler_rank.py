"""One rank is slower than the others, and all wait for it.

Compared is the shortest time in which each rank gets its data and its forward pass done, before it meets the others:
over the last steps, and in nearly all of their records, so that a rank that is late now and then is none. Only
strategies whose ranks compute a forward pass by themselves (ddp) tell it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from drivetrain.training.health.record import Floats, Record
from drivetrain.training.health.rule import Seen

WATCHES = "ranks"
ACTION = "warn"
WINDOW = "20 steps of 80 ms or more; 6 records of shorter ones"
ADVICE = (
    "Look at that host: another process on it, a throttled or failing GPU, a slow disk. `drivetrain attach RUN` shows "
    "where a rank is."
)
# Of its records all but so many per cent are slower than all but so many of the others': chance mixes them.
_LEFT_OUT = 15


@dataclass
class Rule:
    factor: float = 1.2
    """Of the median of the others."""
    steps: int = 15
    """Over which it is compared."""
    records: int = 5
    """Of these steps, at least."""
    seconds: float = 0.001
    """By which it is slower a step: less is chance."""

    def __post_init__(self) -> None:
        self._lately: deque[tuple[Floats, int]] = deque()

    def see(self, record: Record) -> Seen | None:
        assert record.ranks is not None
        own = record.ranks["own"]
        if len(own) < 2 or not (own > 0).all():
            return None
        self._lately.append((own, record.steps))
        while len(self._lately) > self.records and self._steps - self._lately[0][1] >= self.steps:
            self._lately.popleft()
        if len(self._lately) < self.records or self._steps < self.steps:
            return None
        times = np.array([seconds for seconds, _ in self._lately])
        shortest = times.min(axis=0)
        rank = int(shortest.argmax())
        usual, slowest = float(np.median(np.delete(shortest, rank))), float(shortest[rank])
        if slowest < self.factor * usual or slowest - usual < self.seconds:
            return None
        others = np.median(np.delete(times, rank, axis=1), axis=1)
        if np.percentile(times[:, rank], _LEFT_OUT) <= np.percentile(others, 100 - _LEFT_OUT):
            return None
        return Seen(
            f"rank {rank} takes {slowest * 1e3:.3g} ms for its data and its forward pass, the others "
            f"{usual * 1e3:.3g} ms ({slowest / usual - 1:.0%} more)",
            f"rank {rank}",
        )

    @property
    def _steps(self) -> int:
        return sum(steps for _, steps in self._lately)
