"""Rules and schedules as part of the stack, for those who do not let `drivetrain apply` write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aws_cdk import CfnResource
from constructs import Construct, IDependable

from drivetrain.spec.pipeline import Pipeline
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.triggers.resources import Rule, TriggerSite, resources


class Triggers(Construct):
    """The pipeline's triggers as resources; CloudFormation has the same words as the API."""

    def __init__(self, scope: Construct, pipeline: Pipeline, names: Names, role: IDependable) -> None:
        """Args:
        role: the scheduler's, which the service must be able to take on when a schedule is made.
        """
        super().__init__(scope, "Triggers")
        site = TriggerSite(
            region=names.region,
            account=names.account,
            pipeline_arn=names.pipeline_arn,
            scheduler_role=names.role("scheduler"),
            event_queue=names.event_queue,
            dead_letter_queue=names.dead_letter_queue,
            partition=names.partition,
        )
        for item in resources(pipeline, site):
            if isinstance(item, Rule):
                properties = {**item.rule, "EventPattern": json.loads(item.rule["EventPattern"])}
                properties["Targets"] = [dict(target) for target in item.targets]
                CfnResource(self, item.trigger, type="AWS::Events::Rule", properties=plain(properties))
            else:
                made = CfnResource(self, item.trigger, type="AWS::Scheduler::Schedule", properties=plain(item.schedule))
                made.node.add_dependency(role)


def plain(properties: Mapping[str, Any]) -> dict[str, Any]:
    """With times as CloudFormation has them."""
    return {
        name: value.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(value, datetime) else value
        for name, value in properties.items()
    }
