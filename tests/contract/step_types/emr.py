"""EMR, which only the account has."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = (
    "Status.State",
    "Config.Args[1]",
)


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [
        {
            "Name": "it",
            "Type": "EMR",
            "Arguments": {
                "ClusterId": "j-1",
                "StepConfig": {"HadoopJarStep": {"Jar": "s3://b/a.jar", "Args": ["--out", "s3://b/o"]}},
            },
        }
    ]
