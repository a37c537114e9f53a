"""The bucket that all of a pipeline lies in: encrypted with a key of its own, versioned, and cleared of what is old."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from drivetrain.infra.options import Options
from drivetrain.spec.pipeline import Pipeline, Upload
from drivetrain.targets.sagemaker.permissions.names import Names

UPLOAD_DAYS = 7
"""Parts of an upload that was never finished are deleted after so many days."""
LOG_DAYS = 365


class Storage(Construct):
    """The bucket, its key, and the bucket that keeps who read what.

    Both buckets and the key stay when the stack goes: models are registered by their place in them. They do not stay
    where the stack's creation failed: the next one makes them again, and could not where they are there.
    """

    def __init__(self, scope: Construct, pipeline: Pipeline, names: Names, options: Options) -> None:
        super().__init__(scope, "Storage")
        self.key = key_of_notices(self, f"Objects, queues and notices of pipeline {pipeline.name}", names)
        self.key.add_alias(names.key_alias).apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        logs = s3.Bucket(
            self,
            "AccessLogs",
            encryption=s3.BucketEncryption.S3_MANAGED,  # the service that writes access logs takes no other
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="old-logs",
                    expiration=Duration.days(LOG_DAYS),
                    noncurrent_version_expiration=Duration.days(options.old_version_days),
                )
            ],
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=names.bucket,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            versioned=True,
            server_access_logs_bucket=logs,
            server_access_logs_prefix="artifacts/",
            lifecycle_rules=list(lifecycle(names, options)),
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        if any(isinstance(trigger, Upload) and trigger.bucket == names.bucket for trigger in pipeline.triggers):
            bucket = self.bucket.node.default_child
            assert isinstance(bucket, s3.CfnBucket)
            # Of the construct this would be a function with rights on every bucket; CloudFormation itself can.
            bucket.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
                event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
            )


def key_of_notices(scope: Construct, description: str, names: Names) -> kms.Key:
    """A key by which EventBridge and CloudWatch, too, write to the encrypted topic.

    For EventBridge no condition on the source's account or ARN is ever met here
    (https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html); what SNS encrypts is known by its topic.
    """
    key = kms.Key(
        scope,
        "Key",
        description=description,
        enable_key_rotation=True,
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    )
    bound = {
        "events.amazonaws.com": {"kms:EncryptionContext:aws:sns:topicArn": names.topic},
        "cloudwatch.amazonaws.com": {"aws:SourceAccount": names.account},
    }
    for service, condition in bound.items():
        key.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal(service)],
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=["*"],
                conditions={"StringEquals": condition},
            )
        )
    return key


def lifecycle(names: Names, options: Options) -> list[s3.LifecycleRule]:
    """Rules that delete objects after their time."""
    return [
        s3.LifecycleRule(
            id="unfinished-and-old-versions",
            abort_incomplete_multipart_upload_after=Duration.days(UPLOAD_DAYS),
            noncurrent_version_expiration=Duration.days(options.old_version_days),
            expired_object_delete_marker=True,
        ),
        s3.LifecycleRule(
            id="checkpoints",
            prefix=f"{names.root}/checkpoints/",
            expiration=Duration.days(options.checkpoint_days),
        ),
    ]
