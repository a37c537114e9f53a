"""The memory of a rank grows without end: something is kept in each step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from drivetrain.training.health.record import Floats, Record
from drivetrain.training.health.rule import Seen

WATCHES = "ranks"
ACTION = "warn"
WINDOW = "40 records in which it grows by a quarter, and by 256 MiB"
ADVICE = (
    "Look for tensors or rows that are kept from step to step (a list of losses without .item() or .detach(), a cache "
    "without a bound). tracemalloc shows where Python's objects were made."
)


@dataclass
class Rule:
    records: int = 40
    """The number of records over which it grows."""
    share: float = 0.25
    """The growth, as a share of the earlier memory."""
    mebibytes: float = 256.0
    """The least growth [MiB]."""
    first: int = 10
    """Records that are left out: a training takes its memory in the first steps."""

    def __post_init__(self) -> None:
        self._lately: deque[Floats] = deque(maxlen=max(self.records, 4))
        self._seen = 0

    def see(self, record: Record) -> Seen | None:
        assert record.ranks is not None
        self._seen += 1
        if self._seen <= self.first:
            return None
        self._lately.append(record.ranks["memory"])
        if len(self._lately) < (self._lately.maxlen or 0):
            return None
        least = self.mebibytes * 2**20
        if not (self._lately[-1] - self._lately[0] > least / 2).any():
            return None  # (of nearly all records: what follows takes longer)
        # Four quarters, each above the one before: growth that is still going on, and no single jump.
        quarters = [part.mean(axis=0) for part in np.array_split(np.array(self._lately), 4)]
        grown, begun = quarters[-1] - quarters[0], quarters[0]
        steadily = np.all([later - earlier > 0.15 * grown for earlier, later in pairwise(quarters)], axis=0)
        grows = steadily & (grown > self.share * begun) & (grown > least)
        if not grows.any():
            return None
        rank = int(np.where(grows, grown, 0.0).argmax())
        return Seen(
            f"the memory of rank {rank} grew from {begun[rank] / 2**20:,.0f} to {quarters[-1][rank] / 2**20:,.0f} MiB "
            "in the last records",
            f"rank {rank}",
        )
