"""The training waits for its data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen
from drivetrain.training.health.verdict import share_of_steps

WATCHES = "ranks"
ACTION = "warn"
WINDOW = "3 records"
ADVICE = "Raise workers (processes that read ahead) or prefetch; cheaper augmentation or a faster disk help as well."


@dataclass
class Rule:
    share: float = 0.4
    """Of a step's time in which the slowest rank waits for data."""
    seconds: float = 0.002
    """A step: less is not worth a word."""
    records: int = 3
    """In how many records in a row, after the first: files are cold then."""

    def __post_init__(self) -> None:
        self._met, self._seen = 0, 0

    def see(self, record: Record) -> Seen | None:
        assert record.ranks is not None
        self._seen += 1
        shares = share_of_steps(record.ranks, "data")
        waits = record.ranks["data"] / np.maximum(record.ranks["steps"], 1.0)
        rank = int(shares.argmax())
        slow = self._seen > 1 and shares[rank] > self.share and waits[rank] > self.seconds
        self._met = self._met + 1 if slow else 0
        if self._met < self.records:
            return None
        return Seen(
            f"rank {rank} waits for data in {shares[rank]:.0%} of the time, {waits[rank] * 1e3:.3g} ms a step",
            f"rank {rank}",
        )
