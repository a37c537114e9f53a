from __future__ import annotations

import pytest
import torch

from drivetrain.training.loop.schedule import Schedule


def factors(kind: str, steps: int, **given: float) -> list[float]:
    schedule = Schedule(**({"kind": kind, "warmup_steps": 0, "total_steps": steps} | given))  # type: ignore[arg-type]
    return [schedule.factor(step) for step in range(steps)]


def test_it_rises_and_falls() -> None:
    found = factors("cosine", 110, warmup_steps=10)
    assert found[:10] == [pytest.approx((step + 1) / 10) for step in range(10)]
    assert found[10] == 1.0
    assert found[60] == pytest.approx(0.5)
    assert found[10:] == sorted(found[10:], reverse=True)
    assert 0 < found[-1] < 0.001
    assert factors("cosine", 1) == [1.0]
    assert all(factor <= 1.0 for factor in factors("cosine", 5, warmup_steps=5))


def test_linear_and_constant() -> None:
    assert factors("linear", 4) == [1.0, 0.75, 0.5, 0.25]
    assert factors("constant", 4, warmup_steps=2) == [0.5, 1.0, 1.0, 1.0]


def test_warm_restarts() -> None:
    """torch's CosineAnnealingWarmRestarts is the same (I. Loshchilov and F. Hutter, ICLR 2017)."""
    parameter = torch.nn.Parameter(torch.zeros(()))
    for growth in (1, 2, 3):
        optimizer = torch.optim.SGD([parameter], lr=1.0)
        theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=7, T_mult=growth)
        expected = []
        for _ in range(200):
            expected.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            theirs.step()
        assert factors("sgdr", 200, cycle_steps=7, cycle_growth=growth) == pytest.approx(expected, abs=1e-9)
