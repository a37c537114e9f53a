"""Model: a record of images and data that exist."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import BUCKET, LocalRuns

SAYS = ("ModelName", "ModelArn", "PrimaryContainer.ModelDataUrl", "CreationTime")


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    container = {"Image": "i", "ModelDataUrl": runs.put("model.tar.gz", "m")}
    return [{"Name": "it", "Type": "Model", "Arguments": {"ExecutionRoleArn": "r", "PrimaryContainer": container}}]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    [step] = steps(runs)
    step["Arguments"]["PrimaryContainer"]["ModelDataUrl"] = f"{BUCKET}/gone.tar.gz"
    return [step]
