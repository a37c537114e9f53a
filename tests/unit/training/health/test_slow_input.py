"""What waits for a CPU does not wait for its data."""

from __future__ import annotations

import numpy as np
import pytest

from drivetrain.training.health.record import PHASES, Record, Table
from drivetrain.training.health.rules.slow_input import Rule


def fires(steps: int = 30, **seconds: float) -> bool:
    """On steps of one rank that take so long in their phases."""
    columns = {name: np.array([seconds.get(name, 0.0)]) for name in (*PHASES, "starved")}
    rule, table = Rule(), Table(["rank 0"], columns)
    return any(rule.see(Record(step=step, steps=1, ranks=table)) for step in range(1, steps))


@pytest.mark.parametrize(("starved", "is_slow"), [(0.0, True), (0.002, True), (0.006, False), (0.02, False)])
def test_a_busy_host_is_no_slow_input(starved: float, is_slow: bool) -> None:
    """Data 8 ms of 14: what is left without the wait for a CPU, of what is left of the step."""
    assert fires(data=0.008, forward=0.006, starved=starved) is is_slow


def test_a_recording_of_before_says_nothing_of_it() -> None:
    rule, table = Rule(), Table(["rank 0"], {name: np.array([0.01 * (name == "data")]) for name in PHASES})
    assert any(rule.see(Record(step=step, steps=1, ranks=table)) for step in range(1, 30))
