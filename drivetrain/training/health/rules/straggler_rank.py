"""One rank is slower than the others, and all wait for it.

It compares the time that each rank takes for its data and its forward pass, before it meets the others: the lower
quartile over the last steps, and nearly all of their records, so that a rank that is late now and then does not count.
Time in which a rank is ready and waits for a CPU is left out: on a busy host it is much more than the difference
between ranks. A rank that waits for a CPU must be slower by more: the process that took the CPU leaves cold caches,
which slow down the rest. This works only with strategies whose ranks compute a forward pass by themselves (ddp).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from drivetrain.training.health.record import Floats, Record, quantile
from drivetrain.training.health.rule import Seen
from drivetrain.training.health.verdict import share_queued

WATCHES = "ranks"
ACTION = "warn"
WINDOW = "20 steps of 80 ms or more; 6 records of shorter ones"
ADVICE = (
    "Look at that host: another process on it, a throttled or failing GPU, a slow disk. `drivetrain attach RUN` shows "
    "where a rank is."
)
# Of its records all but this share are slower than all but this share of the others': chance mixes them.
_LEFT_OUT = 0.15


@dataclass
class Rule:
    factor: float = 1.25
    """The factor over the median of the others."""
    steps: int = 15
    """The steps over which it is compared."""
    records: int = 5
    """The least number of records of such steps."""
    seconds: float = 0.001
    """The seconds by which it is slower a step: less is chance."""
    queued: float = 1.0
    """The addition to `factor` for a rank that would always wait for a CPU; its share of that for others."""

    def __post_init__(self) -> None:
        self._lately: deque[tuple[Floats, Floats, int]] = deque()

    def see(self, record: Record) -> Seen | None:
        assert record.ranks is not None
        own = record.ranks["own"]
        if len(own) < 2 or not (own > 0).all():
            return None
        self._lately.append((own, share_queued(record.ranks), record.steps))
        while len(self._lately) > self.records and self._steps - self._lately[0][-1] >= self.steps:
            self._lately.popleft()
        if len(self._lately) < self.records or self._steps < self.steps:
            return None
        times = np.array([seconds for seconds, _, _ in self._lately])
        quarter = quantile(times, 0.25)
        rank = int(quarter.argmax())
        usual, slowest = float(quantile(np.delete(quarter, rank), 0.5)), float(quarter[rank])
        queued = float(np.mean([shares[rank] for _, shares, _ in self._lately]))
        if slowest < (self.factor + self.queued * queued) * usual or slowest - usual < self.seconds:
            return None
        others = quantile(np.delete(times, rank, axis=1).T, 0.5)
        if quantile(times[:, rank], _LEFT_OUT) <= quantile(others, 1 - _LEFT_OUT):
            return None
        return Seen(
            f"rank {rank} takes {slowest * 1e3:.3g} ms for its data and its forward pass, the others "
            f"{usual * 1e3:.3g} ms ({slowest / usual - 1:.0%} more)",
            f"rank {rank}",
        )

    @property
    def _steps(self) -> int:
        return sum(steps for _, _, steps in self._lately)
