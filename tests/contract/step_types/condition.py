"""Condition: decides at once, and nothing stands for it."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = ("Outcome",)
CAN_BE_STUBBED = False


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    holds = {"Type": "Equals", "LeftValue": 1, "RightValue": 1}
    return [{"Name": "it", "Type": "Condition", "Arguments": {"Conditions": [holds], "IfSteps": [], "ElseSteps": []}}]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    [step] = steps(runs)
    step["Arguments"]["Conditions"] = [{"Type": "Wishes", "LeftValue": 1, "RightValue": 1}]
    return [step]
