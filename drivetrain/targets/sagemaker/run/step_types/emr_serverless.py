"""EMRServerless: a job run of EMR Serverless. A Python program of Spark runs here, in `local[*]`; a stub stands for all
else.

The response has the shape of GetJobRun
(https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_GetJobRun.html).
"""

from __future__ import annotations

from typing import Any

from drivetrain.base.json_text import object_in
from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.spark import clusters

check, run, named = clusters.steps(clusters.of_serverless, "EMR Serverless", lambda context: described(context))


def described(context: StepContext) -> dict[str, Any]:
    config = object_in(context.arguments, "JobConfig")
    application = config.get("applicationId") or context.arguments.get("ApplicationId") or context.facts.id
    run_id = context.facts.id
    return {
        "jobRun": {
            "applicationId": application,
            "jobRunId": run_id,
            "arn": context.facts.arn(f"/applications/{application}/jobruns/{run_id}", "emr-serverless"),
            "name": config.get("name") or context.step.name,
            "executionRole": config.get("executionRoleArn") or context.arguments.get("ExecutionRoleArn"),
            "jobDriver": config.get("jobDriver"),
            "state": "SUCCESS",
        }
    }
