"""ForEach: a body, an iteration an item."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = ("SucceededStepCount", "IterationOutputs[1].record.Associations")


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    item = {"Get": "ForEach.CurrentItem"}
    association = {"Source": {"Arn": item}, "Destination": {"Arn": "b"}}
    body = {"Name": "record", "Type": "Lineage", "Arguments": {"Associations": [association]}}
    arguments = {"IterableItems": ["x", "y"], "MaxConcurrency": 2, "ForEachBody": [body]}
    return [{"Name": "it", "Type": "ForEach", "Arguments": arguments}]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    [step] = steps(runs)
    step["Arguments"]["MaxConcurrency"] = 51
    return [step]
