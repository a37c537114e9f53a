"""The model package groups that the pipeline registers in."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import RemovalPolicy
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from drivetrain.infra.options import Options
from drivetrain.spec.model_groups import model_group
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.uses import Use


class Groups(Construct):
    """A group for each name of this account and region; they stay when the stack goes, as the versions in them do."""

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
