from __future__ import annotations

from pathlib import Path

from tests.benchmarks.checkpoint import rows
from tests.benchmarks.harness.bench import Bench


def one_round(factor: float) -> dict[str, dict[str, float]]:
    """`factor`: how busy the machine is."""
    return {
        measure: {name: factor * value for name, value in values.items()}
        for measure, values in {
            "stall": {"drivetrain": 0.12, "dcp": 0.5, "limit": 0.10},
            "durable": {"drivetrain": 0.30, "dcp": 0.5, "limit": 0.20},
            "lost": {"drivetrain": 0.20, "torch.save": 0.50},
            "load": {"drivetrain": 0.70, "torch.save": 0.50, "limit": 0.10},
        }.items()
    }


def test_each_row_has_its_own_limit_and_share(tmp_path: Path) -> None:
    found = {
        "rounds": [one_round(f) for f in (1.0, 3.0, 1.0)],
        "bytes": 5e8,
        "steps": 4,
        "processes": 2,
        "device": "CPU",
    }
    stall, durable, lost, load = rows(Bench(tmp_path), found)
    assert (stall.ours, stall.limit, stall.target, stall.met) == (0.12, 0.10, 1.2 * 0.10, True)
    assert (durable.limit, durable.target, durable.peers) == (0.20, 1.6 * 0.20, {"dcp": 0.5})
    assert (lost.limit, lost.target, lost.met) == (0.50, 0.25, True)
    assert (load.limit, load.target, load.met) == (0.50, 1.3 * 0.50, False)
    assert "ours over it in each round: 1.40, 1.40, 1.40" in load.note
    assert "pinned" not in stall.note
    gpu = next(rows(Bench(tmp_path), found | {"device": "GPU"}))
    assert "from the GPU into pinned memory" in gpu.note
