"""Groups that stay when the stack goes: log groups, and the model package groups that the pipeline registers in.

A log group that SageMaker makes itself keeps for ever what jobs wrote.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from drivetrain.infra.options import Options
from drivetrain.spec.model_groups import model_group
from drivetrain.targets.sagemaker.document.step_types import job_of
from drivetrain.targets.sagemaker.permissions.names import Names
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


class ModelGroups(Construct):
    """A model package group for each name of this account and region; they stay, as the versions in them do."""

    def __init__(self, scope: Construct, uses: Iterable[Use], names: Names, options: Options) -> None:
        super().__init__(scope, "Groups")
        registered = dict.fromkeys(group for use in uses for group in use.groups if "*" not in group)
        # A name is of the pipeline's account and region; what is an ARN lives elsewhere.
        existing = {
            group.name
            for group in map(model_group, options.existing_groups)
            if group.is_of(names.account, names.region)
        }
        for group in registered:
            if model_group(group).account is None and group not in existing:
                made = sagemaker.CfnModelPackageGroup(
                    self,
                    group,
                    model_package_group_name=group,
                    model_package_group_description=f"Models of pipeline {names.pipeline}",
                )
                made.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
