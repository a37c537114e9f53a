"""Notices of how executions end, and of events that failed."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from drivetrain import catalog
from drivetrain.infra.options import Options
from drivetrain.infra.storage import key_of_notices
from drivetrain.targets.sagemaker.permissions.names import Names


class Notices(Construct):
    """A topic, what is put on it, and the mail addresses that get it. Each address must confirm once."""

    def __init__(
        self, scope: Construct, names: Names, options: Options, key: kms.IKey | None, failed: tuple[sqs.IQueue, ...]
    ) -> None:
        super().__init__(scope, "Notices")
        if key is None:
            # The key of a bucket that is there already does not let services notify, nor does the one of AWS's own.
            key = key_of_notices(self, f"Notices of pipeline {names.pipeline}", names)
        self.topic = sns.Topic(
            self, "Topic", topic_name=names.topic.rpartition(":")[2], master_key=key, enforce_ssl=True
        )
        for address in options.notify:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))
        self._rule(names, options)
        # No condition: "You can't use Condition blocks in Amazon SNS topic policies for EventBridge."
        # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html
        self._allow("events.amazonaws.com")
        for queue in failed:
            alarm = cloudwatch.Alarm(
                self,
                f"{queue.node.id}NotEmpty",
                alarm_description=f"Pipeline {names.pipeline}: something came to nothing; look into {queue.node.id}",
                metric=queue.metric_approximate_number_of_messages_visible(period=Duration.minutes(5)),
                threshold=0,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
                evaluation_periods=1,
                treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            )
            alarm.add_alarm_action(actions.SnsAction(self.topic))
            self._allow(
                "cloudwatch.amazonaws.com",
                {
                    "ArnEquals": {"aws:SourceArn": alarm.alarm_arn},
                    "StringEquals": {"aws:SourceAccount": names.account},
                },
            )

    def _rule(self, names: Names, options: Options) -> None:
        events.CfnRule(
            self,
            "Executions",
            # Not one of the pipeline's triggers: their names begin otherwise.
            name=names.named("executions"),
            description=f"Executions of pipeline {names.pipeline} that end",
            event_pattern={
                "source": ["aws.sagemaker"],
                "detail-type": [catalog.EXECUTION_EVENT],
                "detail": {
                    "pipelineArn": list(names.spellings(f"pipeline/{names.pipeline}")),
                    "currentPipelineExecutionStatus": list(options.notify_on),
                },
            },
            targets=[
                events.CfnRule.TargetProperty(
                    id="topic",
                    arn=self.topic.topic_arn,
                    input_transformer=events.CfnRule.InputTransformerProperty(
                        input_paths_map={
                            "execution": "$.detail.pipelineExecutionArn",
                            "status": "$.detail.currentPipelineExecutionStatus",
                            "time": "$.time",
                        },
                        input_template=f'"Pipeline {names.pipeline}: <status> at <time>. Execution: <execution>"',
                    ),
                )
            ],
        )

    def _allow(self, service: str, conditions: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal(service)],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions=conditions,
            )
        )
