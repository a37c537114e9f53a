"""AutoML, which only the account has."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = (
    "AutoMLJobName",
    "AutoMLJobStatus",
)


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [{"Name": "it", "Type": "AutoML", "Arguments": {"AutoMLJobConfig": {}}}]
