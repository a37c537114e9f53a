"""Fail: ends the execution; there is nothing that could be wrong with it, and nothing stands for it."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

ENDS = ("Failed", "it: not good enough")
CAN_BE_STUBBED = False


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [{"Name": "it", "Type": "Fail", "Arguments": {"ErrorMessage": "not good enough"}}]
