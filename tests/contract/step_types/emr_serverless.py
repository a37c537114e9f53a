"""EMRServerless: a Python program of Spark runs here; one of Hive is refused."""

from __future__ import annotations

from typing import Any

from tests.contract.step_types import _spark_program
from tests.fixtures.local_runs import LocalRuns

SAYS = (
    "jobRun.state",
    "jobRun.jobDriver.sparkSubmit.entryPoint",
)
made = _spark_program.made


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    submitted = {
        "entryPoint": _spark_program.put(runs),
        "entryPointArguments": _spark_program.ARGUMENTS,
        "sparkSubmitParameters": "--conf spark.executor.memory=2g --conf spark.driver.cores=1",
    }
    settings = [{"classification": "spark-defaults", "properties": {"spark.said": "here"}}]
    overrides = {"applicationConfiguration": settings}
    return [_step({"jobDriver": {"sparkSubmit": submitted}, "configurationOverrides": overrides})]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    return [_step({"jobDriver": {"hive": {"query": "s3://b/q.sql"}}})]


def _step(config: dict[str, Any]) -> dict[str, Any]:
    arguments = {"ApplicationId": "a", "ExecutionRoleArn": "r", "JobConfig": config}
    return {"Name": "it", "Type": "EMRServerless", "Arguments": arguments}
