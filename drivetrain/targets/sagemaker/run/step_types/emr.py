"""EMR: a step of a Hadoop cluster. A Python program of Spark runs here, in `local[*]`; a stub stands for all else.

The response has the shape of EMR's Step (https://docs.aws.amazon.com/emr/latest/APIReference/API_Step.html).
"""

from __future__ import annotations

from typing import Any

from drivetrain.base.json_text import object_in
from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.jobs.job_data import entries
from drivetrain.targets.sagemaker.run.spark import clusters

check, run, named = clusters.steps(clusters.of_emr, "an EMR cluster", lambda context: described(context))


def described(context: StepContext) -> dict[str, Any]:
    arguments = context.arguments
    jar = object_in(object_in(arguments, "StepConfig"), "HadoopJarStep")
    config = {name: jar[name] for name in ("Jar", "MainClass", "Args") if name in jar}
    if "Properties" in jar:  # a list in the request, a map in the answer
        config["Properties"] = {each.get("Key"): each.get("Value") for each in entries(jar, "Properties")}
    return {
        "Id": f"s-{context.facts.id.upper()}",
        "Name": context.step.name,
        "Config": config,
        "Status": {"State": "COMPLETED"},
        **({"ExecutionRoleArn": arguments["ExecutionRoleArn"]} if "ExecutionRoleArn" in arguments else {}),
    }
