"""EMR: a step of a Hadoop cluster, which this machine does not have; a stub stands for it.

The response has the shape of EMR's Step (https://docs.aws.amazon.com/emr/latest/APIReference/API_Step.html).
"""

from __future__ import annotations

from typing import Any

from drivetrain.pipelines.definition.shapes import object_in
from drivetrain.pipelines.targets.local import absent
from drivetrain.pipelines.targets.local.context import StepContext
from drivetrain.pipelines.targets.local.storage.channels import entries

check, run = absent.refused("an EMR cluster"), absent.run


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
