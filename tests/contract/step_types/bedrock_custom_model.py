"""BedrockCustomModel, which only the account has."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = (
    "ModelArn",
    "ModelStatus",
)


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [{"Name": "it", "Type": "BedrockCustomModel", "Arguments": {"ModelName": "m", "RoleArn": "r"}}]
