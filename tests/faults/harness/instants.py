"""Instants of a training's life, drawn, and waited for."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.faults.harness.ranks import Event, Ranks
from tests.faults.harness.training import PATIENCE_S, Reference

ANY = "any instant"


@dataclass(frozen=True)
class Instant:
    """`seconds` after rank `rank` has come to `phase` for the `occurrence`th time, from 1; or after the start."""

    phase: str
    rank: int
    occurrence: int
    seconds: float

    @property
    def name(self) -> str:
        return self.phase if self.phase == ANY else f"in {self.phase}"


def draw_instant(draw: random.Random, whole: Reference, phases: Sequence[str] = (), *, any_instant: float) -> Instant:
    """Every phase that the uninterrupted run came to is as likely, however short it is; in it, every moment.

    Args:
        phases: only these; all that there are unless given.
        any_instant: with this probability an instant from start to end instead, whatever is going on.
    """
    if draw.random() < any_instant:
        return Instant(ANY, 0, 0, draw.uniform(0.0, whole.seconds))
    there = sorted({event.phase for event in whole.events if not phases or event.phase in phases})
    phase = draw.choice(there)
    begun = [event for event in whole.events if event.phase == phase and event.begins]
    chosen = draw.randrange(len(begun))
    rank = begun[chosen].rank
    occurrence = sum(event.rank == rank for event in begun[: chosen + 1])
    return Instant(phase, rank, occurrence, draw.uniform(0.0, _longest(whole.events, phase, rank)))


def _longest(events: Sequence[Event], phase: str, rank: int) -> float:
    began, longest = 0.0, 0.0
    for event in events:
        if event.phase == phase and event.rank == rank:
            if event.begins:
                began = event.when
            else:
                longest = max(longest, event.when - began)
    return longest


def wait_for(ranks: Ranks, instant: Instant) -> bool:
    """Return at the instant; False where the training ended before."""
    if instant.phase == ANY:
        ranks.until(lambda event: False, instant.seconds)
        return not ranks.has_ended
    left = instant.occurrence

    def reached(event: Event) -> bool:
        nonlocal left
        left -= event.phase == instant.phase and event.begins and event.rank == instant.rank
        return left == 0

    if not ranks.until(reached, PATIENCE_S):
        return False
    deadline = time.perf_counter() + instant.seconds
    while time.perf_counter() < deadline:  # shorter than any sleep
        pass
    return True
