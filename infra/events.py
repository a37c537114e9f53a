"""Starts by events: an ordered queue, the starter function, and queues for events that fail.

    rule -> event queue (FIFO, one message group a pipeline) -> starter -> StartPipelineExecution
              `-> after five attempts: failed events            rules and schedules that could not deliver: dead letters

Rules and schedules are part of the stack for those who do not let `drivetrain apply` write them.
In a FIFO queue a group's messages are handled one after the other. This keeps rate limits exact without reserved
concurrency, which is scarce in a new account.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from aws_cdk import CfnResource, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from drivetrain.infra.groups import log_group
from drivetrain.infra.options import Options
from drivetrain.infra.roles import acknowledge
from drivetrain.infra.starter.bundle import HANDLER, write_archive
from drivetrain.spec.pipeline import Pipeline
from drivetrain.targets.sagemaker.permissions.names import MAX_ROLE_NAME, Names
from drivetrain.targets.sagemaker.permissions.operators import starter_log
from drivetrain.triggers.resources import Rule, TriggerSite, resources

SECONDS = 60
"""The timeout of the starter, which lists executions and starts one."""
ATTEMPTS = 5
KEPT = Duration.days(14)


class Events(Construct):
    """Queues and the starter."""

    def __init__(self, scope: Construct, names: Names, options: Options, role: iam.IRole, folder: Path) -> None:
        super().__init__(scope, "Events")
        self.dead_letters = _queue(self, "DeadLetters", names.dead_letter_queue)
        acknowledge(
            self.dead_letters,
            "AwsSolutions-SQS3",
            "It is the dead-letter queue itself: of rules and schedules, which CloudFormation does not show as such.",
        )
        self.failed = _queue(self, "Failed", names.arn("sqs", names.named("failed-events.fifo")))
        self.queue = _queue(
            self,
            "Queue",
            names.event_queue,
            content_based_deduplication=True if names.event_queue.endswith(".fifo") else None,
            # https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html: six times the function's own.
            visibility_timeout=Duration.seconds(6 * SECONDS),
            dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=ATTEMPTS, queue=self.failed),
        )
        for queue in (self.queue, self.dead_letters):
            queue.add_to_resource_policy(
                iam.PolicyStatement(
                    sid="RulesOfThePipeline",
                    principals=[iam.ServicePrincipal("events.amazonaws.com")],
                    actions=["sqs:SendMessage"],
                    resources=[queue.queue_arn],
                    conditions={"ArnLike": {"aws:SourceArn": names.rules}},
                )
            )
        self._starter(names, options, role, folder)

    def _starter(self, names: Names, options: Options, role: iam.IRole, folder: Path) -> None:
        archive = folder / "starter.zip"
        write_archive(archive)
        log = log_group(self, "StarterLog", starter_log(names), options, RemovalPolicy.DESTROY)
        self.starter = lambda_.Function(
            self,
            "Starter",
            function_name=names.named("starter", MAX_ROLE_NAME),
            description=f"Starts pipeline {names.pipeline} for events, each once",
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.ARM_64,
            handler=HANDLER,
            code=lambda_.Code.from_asset(str(archive)),
            # By its ARN, so that constructs add nothing to its policy, which is derived.
            role=iam.Role.from_role_arn(self, "StarterRole", names.role("starter"), mutable=False),
            timeout=Duration.seconds(SECONDS),
            memory_size=256,
            log_group=log,
        )
        self.starter.node.add_dependency(role)
        lambda_.EventSourceMapping(
            self,
            "Source",
            target=self.starter,
            event_source_arn=self.queue.queue_arn,
            batch_size=1,
            report_batch_item_failures=True,
        )


def _queue(scope: Construct, name: str, arn: str, **more: Any) -> sqs.Queue:
    """A queue of that ARN."""
    return sqs.Queue(
        scope,
        name,
        queue_name=arn.rpartition(":")[2],
        fifo=True if arn.endswith(".fifo") else None,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=KEPT,
        **more,
    )


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
