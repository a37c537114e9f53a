"""Log groups, and how long they keep what jobs wrote. A group that SageMaker makes itself keeps it for ever."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from drivetrain.infra.options import Options
from drivetrain.targets.sagemaker.document.step_types import job_of
from drivetrain.targets.sagemaker.permissions.uses import Use


class JobLogs(Construct):
    """SageMaker's log groups of the kinds of jobs that the pipeline has; they stay when the stack goes."""

    def __init__(self, scope: Construct, uses: Iterable[Use], options: Options) -> None:
        super().__init__(scope, "Logs")
        if options.log_groups == "make":
            for name in dict.fromkeys(job.logs for use in uses if (job := job_of(use.type)) and job.logs):
                log_group(self, name.rpartition("/")[2], name, options, RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)


def log_group(scope: Construct, name: str, path: str, options: Options, removal: RemovalPolicy) -> logs.LogGroup:
    """A log group of that path."""
    made = logs.LogGroup(scope, name, log_group_name=path, removal_policy=removal)
    child = made.node.default_child
    assert isinstance(child, logs.CfnLogGroup)
    child.retention_in_days = options.log_days
    return made
