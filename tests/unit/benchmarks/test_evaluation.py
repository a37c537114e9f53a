"""The rows of the evaluation benchmark, from what its probe prints."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.evaluation import BASELINE, EXACT, rows
from tests.benchmarks.harness.timing import OURS


def tool(wall: list[float], held: int, auroc: float = 0.5, **more: Any) -> dict[str, Any]:
    return {"wall": wall, "cpu": wall, "held": held, "auroc": auroc, "bound": None, "collectives": 9, **more}


def printed(scale: int, peers: bool = True) -> dict[str, Any]:
    tools = {
        "by hand": tool([0.01, 0.01, 0.03], 10),
        OURS: tool([0.02, 0.01, 0.04], 10, 0.5000001, bound=2e-6, collectives=1),
        EXACT: tool([0.1, 0.1, 0.1], 40 * scale, collectives=5),
    }
    if peers:
        tools[BASELINE] = tool([0.5, 0.3, 0.8], 80 * scale, 0.50001)
    return {"tools": tools, "exact": 0.5}


def test_rows_say_what_was_promised() -> None:
    found = {record.name.removeprefix("evaluation: "): record for record in rows(printed(1), printed(4), "")}
    faster = found[f"times faster than {BASELINE}, time"]
    assert faster.ours == pytest.approx(25) and faster.met  # the median of 25, 30 and 20
    assert found["collectives"].ours == 1 and found["collectives"].peers == {EXACT: 5, BASELINE: 9}
    bound, error = found["bound of the AUROC's error, computed from the counts"], found["error of the AUROC"]
    assert bound.met and error.met and error.target == bound.ours == 2e-6
    growth = found["held on a rank, 4M predictions over 1M"]
    assert growth.ours == 1 and growth.met and growth.peers == {EXACT: 4, BASELINE: 4}
    assert found["exact mode has the digits of the exact AUROC"].ours is True
    assert all(record.met is not False for record in found.values())


def test_without_peers_ours_is_still_measured() -> None:
    found = {record.name: record for record in rows(printed(1, peers=False), printed(4, peers=False), "")}
    assert not any("faster" in name for name in found)
    assert found["evaluation: 1M predictions on 2 ranks, time"].peers == {EXACT: 100}
