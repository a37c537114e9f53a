"""Job, which only the account has."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = ()


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [{"Name": "it", "Type": "Job", "Arguments": {}}]
