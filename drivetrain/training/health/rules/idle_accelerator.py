"""A GPU is there, paid for, and idle for most of the time."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen

WATCHES = "ranks"
ACTION = "warn"
WINDOW = "20 records"
ADVICE = (
    "Raise global_batch until the GPU's memory is used, raise workers where the input is slow, give precision=bf16 and "
    "compile; or take a smaller machine."
)


@dataclass
class Rule:
    utilisation: float = 0.3
    """Below which it is idle, on average over the records."""
    records: int = 20
    """In how many records in a row."""

    def __post_init__(self) -> None:
        self._met, self._total = 0, 0.0

    def see(self, record: Record) -> Seen | None:
        assert record.ranks is not None
        used = record.ranks["accelerator"]
        if not (used >= 0).all():
            return None  # no GPU, or unknown
        busiest = float(used.max())
        self._met = self._met + 1 if busiest < self.utilisation else 0
        self._total = self._total + busiest if self._met else 0.0
        if self._met < self.records:
            return None
        return Seen(f"the busiest GPU is used in {self._total / self._met:.0%} of the time")
