"""ClarifyCheck, which only the account has: its baseline is what was supplied, or what it calculates itself."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import BUCKET, LocalRuns

SAYS = ("CheckType", "CalculatedBaselineConstraints", "BaselineUsedForDriftCheckConstraints", "CheckJobArn")


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    step = runs.processing("it", "", outputs=["result"])
    del step["Arguments"]["AppSpecification"]["ContainerEntrypoint"]
    supplied = f"{BUCKET}/baseline.json"
    check = {"CheckType": "KIND", "SkipCheck": False, "SuppliedBaselineConstraints": supplied}
    return [{**step, **check, "Type": "ClarifyCheck"}]
