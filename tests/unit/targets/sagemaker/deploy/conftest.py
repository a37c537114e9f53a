"""A pipeline of three steps, and an account in which it can be deployed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from drivetrain.assets.assets import Asset
from drivetrain.deploying.applying import Applied
from drivetrain.deploying.plan import Plan, Terms
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy import deployed as reading
from drivetrain.targets.sagemaker.deploy.applying.applying import apply
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.planning.planning import make_plan
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger
from drivetrain.triggers.resource_names import OWNER, resource_name
from tests.fixtures.sagemaker_service.server import Service, TestAccount, sagemaker_service

NAME = "nightly"
BESIDE = ("-surroundings", ":owner")
"""Ends of tags that most tests say nothing of."""


def processing(name: str, *, instance: str = "ml.m5.large", after: str | None = None, cache: bool = True, **more: str):
    words = [word for key in more for word in (f"--{key}", more[key])]
    arguments: dict[str, Any] = {
        "ProcessingResources": {"ClusterConfig": {"InstanceType": instance, "InstanceCount": 1, "VolumeSizeInGB": 30}},
        "AppSpecification": {"ImageUri": "image", **({"ContainerArguments": words} if words else {})},
        "RoleArn": "arn:aws:iam::000000000000:role/jobs",
    }
    if after is not None:
        source = {"Get": f"Steps.{after}.ProcessingOutputConfig.Outputs['data'].S3Output.S3Uri"}
        place = {"S3Uri": source, "LocalPath": "/opt/ml/processing/input/data", "S3DataType": "S3Prefix"}
        arguments["ProcessingInputs"] = [{"InputName": "data", "S3Input": place}]
    step: dict[str, Any] = {"Name": name, "Type": "Processing", "Arguments": arguments}
    return {**step, "CacheConfig": {"Enabled": True}} if cache else step


def definition(instance: str = "ml.m5.large", rows: str = "10") -> dict[str, Any]:
    return {
        "Version": "2020-12-01",
        "Metadata": {},
        "Parameters": [{"Name": "MinAccuracy", "Type": "Float", "DefaultValue": 0.9}],
        "Steps": [
            processing("prepare", rows=rows),
            processing("train", instance=instance, after="prepare"),
            {"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}, "DependsOn": ["train"]},
        ],
    }


def long_definition() -> dict[str, Any]:
    """Longer than a request may be."""
    words = {f"note-{number}": "x" * 250 for number in range(20)}
    found = {**definition(), "Steps": [processing(f"step-{number}", **words) for number in range(220)]}
    assert len(json.dumps(found)) > 1_048_576
    return found


@dataclass
class Place:
    """An account with a bucket, and what is deployed there through the functions that are tested."""

    outside: TestAccount
    bucket: str
    account: Account
    service: Service
    name: str = NAME

    def wanted(self, **changes: Any) -> Desired:
        root = f"s3://{self.bucket}/pipelines"
        code = f"code of {self.name}: ".encode() + json.dumps(changes.get("definition", definition())).encode()
        digest = hashlib.sha256(code).hexdigest()
        folder = f"{root}/{self.name}/code/{hashlib.sha256(digest.encode()).hexdigest()}/"
        given = changes.pop("definition", definition())
        given = {**given, "Metadata": {"code": folder}}
        plain = Desired(
            name=self.name,
            arn=self.account.arn("sagemaker", f"pipeline/{self.name}"),
            root=root,
            definition=given,
            assets=(Asset(f"{folder}start.py", digest, code),),
            role=f"arn:aws:iam::{self.outside.number}:role/pipelines",
            display_name=self.name,
            description="What it does.",
            max_parallel=50,
            tags={"team": "vision"},
        )
        return replace(plain, **changes)

    def deployed(self) -> reading.Deployed | None:
        return reading.read(self.account, self.name)

    def plan(self, wanted: Desired, *, whole: bool = False, **terms: Any) -> Plan:
        return make_plan(self.account, wanted, self.deployed(), Terms(**terms), whole=whole)

    def apply(self, wanted: Desired, account: Account | None = None, **options: Any) -> Applied:
        return apply(account or self.account, wanted, self.plan(wanted, **options), pause=lambda seconds: None)

    def schedule(self, expression: str = "rate(1 day)", name: str = "daily") -> AccountTrigger:
        return AccountTrigger.schedule(
            {
                "Name": resource_name(self.name, name),
                "ScheduleExpression": expression,
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {
                    "Arn": self.account.arn("sagemaker", f"pipeline/{self.name}"),
                    "RoleArn": f"arn:aws:iam::{self.outside.number}:role/scheduler",
                },
            }
        )

    def rule(self, status: str = "Approved", name: str = "approved") -> AccountTrigger:
        return AccountTrigger.rule(
            {
                "Name": f"{self.name}_{name}",
                "EventPattern": json.dumps({"source": ["aws.sagemaker"], "detail": {"ModelApprovalStatus": [status]}}),
                "Tags": [{"Key": OWNER, "Value": self.name}],
            },
            [{"Id": "queue", "Arn": f"arn:aws:sqs:us-east-1:{self.outside.number}:events"}],
        )

    def edit(self, **changes: Any) -> None:
        """Change the definition as Studio does: the text is written anew, the tags stay."""
        client = self.outside.client("sagemaker")
        edited = {**json.loads(client.describe_pipeline(PipelineName=self.name)["PipelineDefinition"]), **changes}
        client.update_pipeline(PipelineName=self.name, PipelineDefinition=json.dumps(edited, indent=1))

    def describe(self, description: str, **more: Any) -> None:
        """Change the description as Studio does."""
        client = self.outside.client("sagemaker")
        client.update_pipeline(PipelineName=self.name, PipelineDescription=description, **more)

    def turn(self, name: str = "daily", **changes: Any) -> None:
        """Change a schedule as the console does: all of it is written."""
        client = self.outside.client("scheduler")
        said = client.get_schedule(Name=resource_name(self.name, name))
        kept = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target", "State", "ScheduleExpressionTimezone")
        client.update_schedule(**{**{key: said[key] for key in kept}, **changes})

    def state(self) -> dict[str, Any]:
        """All that is in the account, as seen from outside."""
        sagemaker, s3 = self.outside.client("sagemaker"), self.outside.client("s3")
        events, scheduler = self.outside.client("events"), self.outside.client("scheduler")
        pipelines: dict[str, Any] = {}
        for summary in sagemaker.list_pipelines()["PipelineSummaries"]:
            said = sagemaker.describe_pipeline(PipelineName=summary["PipelineName"])
            tags = sagemaker.list_tags(ResourceArn=said["PipelineArn"])["Tags"]
            pipelines[summary["PipelineName"]] = {
                **{key: said.get(key) for key in ("PipelineDefinition", "RoleArn", "PipelineDescription")},
                "parallel": said.get("ParallelismConfiguration"),
                "tags": {tag["Key"]: tag["Value"] for tag in tags if not tag["Key"].endswith(BESIDE)},
                "around": {tag["Key"]: tag["Value"] for tag in tags if tag["Key"].endswith(BESIDE)},
            }
        rules = {
            rule["Name"]: (
                rule["EventPattern"],
                rule["State"],
                events.list_targets_by_rule(Rule=rule["Name"])["Targets"],
            )
            for rule in events.list_rules()["Rules"]
        }
        schedules = {
            item["Name"]: (said["ScheduleExpression"], said["State"], said["Target"])
            for item in scheduler.list_schedules()["Schedules"]
            for said in [scheduler.get_schedule(Name=item["Name"])]
        }
        keys = [item["Key"] for item in s3.list_objects_v2(Bucket=self.bucket).get("Contents", ())]
        objects = [key for key in keys if not key.endswith("/lock.json")]
        return {"pipelines": pipelines, "rules": rules, "schedules": schedules, "objects": sorted(objects)}


@pytest.fixture
def place() -> Generator[Place]:
    service = sagemaker_service()
    with service.account() as outside:
        yield Place(outside, outside.make_bucket(), Account(outside.region), service)
