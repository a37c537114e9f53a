"""EMRServerless, which only the account has."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = (
    "jobRun.state",
    "jobRun.jobDriver.sparkSubmit.entryPoint",
)


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [
        {
            "Name": "it",
            "Type": "EMRServerless",
            "Arguments": {
                "ApplicationId": "a",
                "ExecutionRoleArn": "r",
                "JobConfig": {"jobDriver": {"sparkSubmit": {"entryPoint": "s3://b/j.py"}}},
            },
        }
    ]
