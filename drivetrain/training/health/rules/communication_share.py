"""Ranks spend much of a step waiting for each other's gradients."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen
from drivetrain.training.health.verdict import share_of_steps

WATCHES = "tensors"
ACTION = "note"
WINDOW = "5 records with tensors"
ADVICE = (
    "Give a larger global_batch or accumulation, communication_hook=bf16 in strategy_options, fewer hosts, or a faster "
    "network; with many parameters fsdp's overlap helps."
)


@dataclass
class Rule:
    share: float = 0.5
    """The share of a step's time, on the rank that waits least: longer waits of others are a straggler's doing."""
    records: int = 5
    """In how many records in a row."""

    def __post_init__(self) -> None:
        self._met = 0

    def see(self, record: Record) -> Seen | None:
        if record.ranks is None or len(record.ranks) < 2:
            return None
        share = float(share_of_steps(record.ranks, "communication").min())
        self._met = self._met + 1 if share > self.share else 0
        return Seen(f"all ranks wait for gradients in {share:.0%} of the time") if self._met >= self.records else None
