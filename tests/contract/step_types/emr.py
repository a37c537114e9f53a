"""EMR: a Python program of Spark runs here; a program of Java is refused."""

from __future__ import annotations

from typing import Any

from tests.contract.step_types import _spark_program
from tests.fixtures.local_runs import LocalRuns

SAYS = ("Id", "Name", "Status.State", "Config.Args[1]")
made = _spark_program.made


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    options = ["--deploy-mode", "cluster", "--conf", "spark.said=here", "--num-executors", "9"]
    words = ["spark-submit", *options, _spark_program.put(runs), *_spark_program.ARGUMENTS]
    return [_step({"Jar": "command-runner.jar", "Args": words})]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    return [_step({"Jar": "s3://b/a.jar", "MainClass": "com.acme.Main", "Args": ["--out", "s3://b/o"]})]


def _step(jar: dict[str, Any]) -> dict[str, Any]:
    return {"Name": "it", "Type": "EMR", "Arguments": {"ClusterId": "j-1", "StepConfig": {"HadoopJarStep": jar}}}
