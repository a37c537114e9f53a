"""Checkpoints hold up the training for much of its time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from drivetrain.training.health.record import PHASES, Record
from drivetrain.training.health.rule import Seen

WATCHES = "ranks"
ACTION = "warn"
WINDOW = "3 checkpoints and 30 s"
ADVICE = (
    "Give checkpoint_every=auto (it weighs what a save costs) or a longer one, keep async_checkpoints on, or write "
    "to a faster disk."
)


@dataclass
class Rule:
    share: float = 0.1
    """The share of the time, on the rank that is held up longest."""
    saves: int = 3
    """Checkpoints that it is told from."""
    seconds: float = 30.0
    """And the time, at least."""

    def __post_init__(self) -> None:
        # From each record with a checkpoint up to the next one: seconds of saving, all seconds, checkpoints.
        self._lately: deque[tuple[float, float, float]] = deque()

    def see(self, record: Record) -> Seen | None:
        assert record.ranks is not None
        table = record.ranks
        rank = int(table["save"].argmax())
        saving, saves = float(table["save"][rank]), float(table["saves"].max())
        whole = sum(float(table[phase][rank]) for phase in PHASES)
        if self._lately and not saves:
            before = self._lately.pop()
            saving, whole, saves = before[0] + saving, before[1] + whole, before[2]
        self._lately.append((saving, whole, saves))
        while len(self._lately) > 1 and self._enough(list(self._lately)[1:]):
            self._lately.popleft()
        if not self._enough(self._lately):
            return None
        saving, whole = sum(one[0] for one in self._lately), sum(one[1] for one in self._lately)
        if saving <= self.share * whole:
            return None
        return Seen(
            f"saving held rank {rank} up for {saving:.3g} of the last {whole:.3g} s ({saving / whole:.0%})",
            f"rank {rank}",
        )

    def _enough(self, rows: deque[tuple[float, float, float]] | list[tuple[float, float, float]]) -> bool:
        return sum(row[2] for row in rows) >= self.saves and sum(row[1] for row in rows) >= self.seconds
