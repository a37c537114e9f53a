"""The stack as CloudFormation gets it: synthesized offline, clean by cdk-nag and cfn-lint, no wider than derived.

    make test-in ENV=infra

The CDK is in an environment of its own, so one process there synthesizes every stack, and the templates are read here.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.infra.starter import bundle
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.policies import UNSCOPED, derive
from drivetrain.targets.sagemaker.permissions.policy import Policy, Statement
from tests.fixtures.every_permission import ACCOUNT, BUCKET_KEY, REGION, ROLE, definition
from tests.fixtures.iam.evaluator import decide
from tests.fixtures.iam.requests import requests

pytestmark = pytest.mark.infra

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venvs" / "infra" / "bin"
GOLDEN = Path(__file__).parent / "full.template.json"
CLEAN = ("plain", "full", "events", "uploads", "every kind")
OTHERS = ("groups", "another wheel", "another tag", "unacknowledged", "widened")
Json = dict[str, Any]


def in_environment(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    if not (ENVIRONMENT / "python").exists():
        pytest.skip("no .venvs/infra: run `make test-in ENV=infra`")
    return subprocess.run(
        [str(ENVIRONMENT / command[0]), *command[1:]],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=500,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stacks")
    done = in_environment("python", "-m", "tests.fixtures.infra_stacks", str(made), *CLEAN, *OTHERS)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, str]:
    return json.loads((folder / "said.json").read_text())


def template(folder: Path, name: str) -> Json:
    (path,) = (folder / name).glob("*.template.json")
    return json.loads(path.read_text())


def of_type(found: Json, kind: str) -> dict[str, Json]:
    return {name: r for name, r in found["Resources"].items() if r["Type"] == kind}


def only(found: Json, kind: str) -> Json:
    (resource,) = of_type(found, kind).values()
    return resource


@pytest.mark.parametrize("name", CLEAN)
def test_cdk_nag_finds_nothing(said: dict[str, str], name: str) -> None:
    assert said[name] == ""


def test_cdk_nag_finds_what_is_not_acknowledged(said: dict[str, str], folder: Path) -> None:
    assert "ValidationFailed" in said["unacknowledged"]
    report = (folder / "unacknowledged" / "validation-report.json").read_text()
    assert "AwsSolutions-IAM5" in report and "AwsSolutions-SQS3" in report
    assert "arn:aws:s3:::acme/pipelines/retraining/code/*" in report


def test_a_wildcard_is_not_acknowledged_for_having_been_derived(said: dict[str, str], folder: Path) -> None:
    assert "ValidationFailed" in said["widened"]
    report = (folder / "widened" / "validation-report.json").read_text()
    found = set(re.findall(r"AwsSolutions-IAM5\[Resource::([^\]]*)\]", report))
    # Of the first role, `*` is no longer acknowledged for the actions that are listed, either.
    assert found == {f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/*-*", "*"}


def test_cfn_lint_finds_nothing(folder: Path) -> None:
    paths = [str(path) for path in sorted(folder.glob("*/*.template.json"))]
    assert len(paths) == len(CLEAN) + len(OTHERS)
    done = in_environment("cfn-lint", *paths)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_cfn_lint_finds_what_is_wrong(folder: Path, tmp_path: Path) -> None:
    """The linter is there and reads such templates."""
    broken = template(folder, "plain")
    only(broken, "AWS::Lambda::Function")["Properties"]["Runtme"] = "python3.14"
    path = tmp_path / "broken.template.json"
    path.write_text(json.dumps(broken))
    done = in_environment("cfn-lint", str(path))
    assert done.returncode != 0 and "Runtme" in done.stdout


def test_two_syntheses_are_equal(folder: Path, tmp_path: Path) -> None:
    done = in_environment(
        "python", "-m", "tests.fixtures.infra_stacks", str(tmp_path), "full", PYTHONHASHSEED="4711", TZ="Asia/Tokyo"
    )
    assert done.returncode == 0, done.stderr
    one, other = folder / "full", tmp_path / "full"
    # The CDK's own notes, which are not deployed, hold its stack traces.
    names = sorted(path.name for path in one.iterdir() if not path.name.endswith(".metadata.json"))
    assert names == sorted(path.name for path in other.iterdir() if not path.name.endswith(".metadata.json"))
    assert any(name.endswith(".template.json") for name in names)
    assert {n for n in names if (one / n).read_bytes() != (other / n).read_bytes()} == set()


def test_golden(folder: Path, request: pytest.FixtureRequest) -> None:
    """Review the diff of what is deployed: `make test-in ENV=infra ARGS=--write-golden`."""
    text = json.dumps(template(folder, "full"), indent=1) + "\n"
    text = re.sub(r'"[0-9a-f]{64}\.zip"', '"STARTER.zip"', text)
    if request.config.getoption("--write-golden"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def roles(found: Json) -> Iterator[tuple[str, Json]]:
    for role in of_type(found, "AWS::IAM::Role").values():
        if any(policy.get("PolicyName") == "derived" for policy in role["Properties"].get("Policies", ())):
            yield role["Properties"]["RoleName"], role["Properties"]


def statements(properties: Json, key: str) -> list[Statement]:
    """A role's statements as the template has them, the key that the stack makes under its name."""

    def texts(given: Any) -> tuple[str, ...]:
        return tuple(
            key if isinstance(item, dict) else item for item in (given if isinstance(given, list) else [given])
        )

    (policy,) = properties["Policies"]
    return [
        Statement(
            sid=given["Sid"],
            effect=given["Effect"],
            actions=texts(given["Action"]),
            resources=texts(given["Resource"]),
            conditions={
                op: {key: texts(values) for key, values in keys.items()}
                for op, keys in given.get("Condition", {}).items()
            },
            reason="in the template",
        )
        for given in policy["PolicyDocument"]["Statement"]
    ]


def nightly(key: str) -> Names:
    return Names(
        partition="aws",
        region=REGION,
        account=ACCOUNT,
        pipeline="nightly",
        bucket="acme",
        prefix="pipelines",
        pipeline_role=f"{ROLE}pipeline",
        bucket_key=key,
    )


def test_the_deployed_roles_allow_every_call(folder: Path) -> None:
    names = nightly(BUCKET_KEY)
    deployed = {name: statements(role, BUCKET_KEY) for name, role in roles(template(folder, "every kind"))}
    asked = [request for request in requests(definition(), names) if not request.role.endswith(("-ci", "-destroyer"))]
    assert len(asked) > 150
    denied = [str(r) for r in asked if decide(r, deployed[r.role.rpartition("/")[2]]) != "allowed"]
    assert denied == []


def test_the_deployed_roles_equal_the_derived_ones(folder: Path) -> None:
    def plain(policy: Policy) -> list[Json]:
        return [statement.to_json() for statement in policy.statements]

    derived = {p.name: plain(p) for p in derive(definition(), nightly(BUCKET_KEY)).policies if p.trust}
    found = {
        name: [statement.to_json() for statement in statements(role, BUCKET_KEY)]
        for name, role in roles(template(folder, "every kind"))
    }
    assert found == derived


@pytest.mark.parametrize("name", CLEAN)
def test_only_the_named_principals_can_assume_a_role(folder: Path, name: str) -> None:
    count = 0
    for role, properties in roles(template(folder, name)):
        for statement in properties["AssumeRolePolicyDocument"]["Statement"]:
            count += 1
            who = statement["Principal"]
            assert who not in ("*", {"AWS": "*"})
            if "Federated" in who:
                conditions = statement["Condition"]
                issuer = "token.actions.githubusercontent.com"
                assert conditions["StringEquals"] == {f"{issuer}:aud": "sts.amazonaws.com"}
                subjects = conditions["StringLike"][f"{issuer}:sub"]
                for subject in subjects if isinstance(subjects, list) else [subjects]:
                    assert re.match("repo:(acme/models|acme@71096353/models@1296269):", subject) and "*" not in subject
            elif role.endswith("-starter"):  # Lambda names no source
                assert who == {"Service": "lambda.amazonaws.com"}
            else:
                assert statement["Condition"]["StringEquals"]["aws:SourceAccount"] == ACCOUNT
    assert count >= 3


def test_ci_has_a_role_on_request(folder: Path) -> None:
    names = {stack: {name for name, _ in roles(template(folder, stack))} for stack in ("plain", "full", "events")}
    assert "drivetrain-retraining-ci" not in names["plain"]
    assert "drivetrain-retraining-ci" in names["full"] & names["events"]
    assert [name for name in names if "drivetrain-retraining-destroyer" in names[name]] == ["full"]
    assert len(of_type(template(folder, "full"), "AWS::IAM::OIDCProvider")) == 1
    assert of_type(template(folder, "events"), "AWS::IAM::OIDCProvider") == {}
    trust = dict(roles(template(folder, "events")))["drivetrain-retraining-ci"]["AssumeRolePolicyDocument"]
    provider = f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com"
    assert [statement["Principal"] for statement in trust["Statement"]] == [{"Federated": provider}]


@pytest.mark.parametrize("name", CLEAN)
def test_buckets_and_queues_are_encrypted_kept_and_private(folder: Path, name: str) -> None:
    found = template(folder, name)
    for bucket in of_type(found, "AWS::S3::Bucket").values():
        properties = bucket["Properties"]
        assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
        assert all(properties["PublicAccessBlockConfiguration"].values())
    for key in of_type(found, "AWS::KMS::Key").values():
        assert key["Properties"]["EnableKeyRotation"] is True
    for queue in of_type(found, "AWS::SQS::Queue").values():
        assert queue["Properties"]["SqsManagedSseEnabled"] is True
    for log in of_type(found, "AWS::Logs::LogGroup").values():
        assert log["Properties"]["RetentionInDays"] in (90, 365)
    # Of a bucket that is there already, the key is not ours to let services notify with: the topic has its own.
    ((key_name, key),) = of_type(found, "AWS::KMS::Key").items()
    assert only(found, "AWS::SNS::Topic")["Properties"]["KmsMasterKeyId"] == {"Fn::GetAtt": [key_name, "Arn"]}
    notifying = {
        statement["Principal"]["Service"]: statement.get("Condition")
        for statement in key["Properties"]["KeyPolicy"]["Statement"]
        if "Service" in statement["Principal"]
    }
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:{only(found, 'AWS::SNS::Topic')['Properties']['TopicName']}"
    # EventBridge names no source, see `let_services_notify`; still it may use the key for the topic alone.
    assert notifying == {
        "events.amazonaws.com": {"StringEquals": {"kms:EncryptionContext:aws:sns:topicArn": topic}},
        "cloudwatch.amazonaws.com": {"StringEquals": {"aws:SourceAccount": ACCOUNT}},
    }


@pytest.mark.parametrize("name", CLEAN)
def test_rules_and_alarms_may_publish_to_the_topic(folder: Path, name: str) -> None:
    """A rule without a condition: "You can't use Condition blocks in Amazon SNS topic policies for EventBridge."
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html"""
    found = template(folder, name)
    allowed = [
        (statement["Principal"]["Service"], statement.get("Condition"))
        for statement in only(found, "AWS::SNS::TopicPolicy")["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    ]
    assert ("events.amazonaws.com", None) in allowed
    bound = [
        {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": [alarm, "Arn"]}}, "StringEquals": {"aws:SourceAccount": ACCOUNT}}
        for alarm in of_type(found, "AWS::CloudWatch::Alarm")
    ]
    assert len(bound) == 2
    assert allowed[1:] == [("cloudwatch.amazonaws.com", condition) for condition in bound]


KEPT = {
    "AWS::IAM::OIDCProvider",
    "AWS::KMS::Alias",
    "AWS::KMS::Key",
    "AWS::S3::Bucket",
    "AWS::SageMaker::ModelPackageGroup",
}


@pytest.mark.parametrize("name", CLEAN)
def test_retained_resources_are_deleted_after_a_failed_creation(folder: Path, name: str) -> None:
    """With `Retain` the second `cdk deploy` finds the bucket of the first, which failed, and fails of that."""
    resources = template(folder, name)["Resources"].values()
    assert "Retain" not in {resource.get("DeletionPolicy") for resource in resources}
    for resource in resources:
        path = resource["Properties"].get("LogGroupName") if resource["Type"] == "AWS::Logs::LogGroup" else None
        if resource["Type"] in KEPT or (path is not None and path.startswith("/aws/sagemaker/")):
            assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
        else:
            assert resource.get("DeletionPolicy", "Delete") == "Delete"


@pytest.mark.parametrize(("name", "protected"), [("plain", False), ("full", True)])
def test_a_stack_is_protected_on_request(folder: Path, name: str, protected: bool) -> None:
    """`cdk deploy` protects a stack before it makes it, and cannot delete it any more where that fails."""
    artifacts = json.loads((folder / name / "manifest.json").read_text())["artifacts"].values()
    (stack,) = (each for each in artifacts if each["type"] == "aws:cloudformation:stack")
    assert stack["properties"].get("terminationProtection", False) is protected


def test_log_groups_of_all_jobs_are_created_on_request(folder: Path) -> None:
    """Each account that ever ran a job has them, and CloudFormation takes over none."""

    def shared(name: str) -> set[str]:
        groups = of_type(template(folder, name), "AWS::Logs::LogGroup").values()
        return {path for group in groups if (path := group["Properties"]["LogGroupName"]).startswith("/aws/sagemaker/")}

    assert shared("full") == {"/aws/sagemaker/ProcessingJobs", "/aws/sagemaker/TrainingJobs"}
    assert [shared(name) for name in CLEAN if name != "full"] == [set()] * 4


def test_job_outputs_are_encrypted_with_the_stack_key(folder: Path) -> None:
    """Without a key of their own they lie under aws/s3, which no other account can be given."""
    found = template(folder, "full")
    (key,) = of_type(found, "AWS::KMS::Key")
    alias = only(found, "AWS::KMS::Alias")["Properties"]
    arn = {"Fn::GetAtt": [key, "Arn"]}
    assert alias == {"AliasName": "alias/drivetrain-retraining-key", "TargetKeyId": arn}
    encrypts = {
        name: statement["Resource"]
        for name, role in roles(found)
        for statement in role["Policies"][0]["PolicyDocument"]["Statement"]
        if statement["Sid"] == "EncryptResults"
    }
    assert encrypts == dict.fromkeys(("training", "processing", "registry"), arn)
    assert arn in [output["Value"] for output in found["Outputs"].values()]
    assert of_type(template(folder, "events"), "AWS::KMS::Alias") == {}


def test_ci_is_trusted_only_for_the_named_workflows(folder: Path) -> None:
    trusts = {
        name: dict(roles(template(folder, name)))["drivetrain-retraining-ci"]["AssumeRolePolicyDocument"]["Statement"]
        for name in ("full", "events")
    }
    subject = "token.actions.githubusercontent.com:sub"
    found = {name: [s["Condition"]["StringLike"][subject] for s in given] for name, given in trusts.items()}
    main, production = "repo:acme/models:ref:refs/heads/main", "repo:acme/models:environment:production"
    with_ids = "repo:acme@71096353/models@1296269:ref:refs/heads/main"
    assert found == {"full": [[main, production]], "events": [with_ids]}
    destroyer = dict(roles(template(folder, "full")))["drivetrain-retraining-destroyer"]["AssumeRolePolicyDocument"]
    (statement,) = destroyer["Statement"]
    assert statement["Condition"]["StringLike"][subject] == "repo:acme/models:environment:destroy"


def test_the_bucket(folder: Path) -> None:
    found = template(folder, "full")
    (bucket,) = (b["Properties"] for b in of_type(found, "AWS::S3::Bucket").values() if "BucketName" in b["Properties"])
    (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    rules = {rule["Id"]: rule for rule in bucket["LifecycleConfiguration"]["Rules"]}
    assert rules["checkpoints"]["Prefix"] == "pipelines/retraining/checkpoints/"
    assert rules["checkpoints"]["ExpirationInDays"] == 5
    assert rules["unfinished-and-old-versions"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert "Prefix" not in rules["unfinished-and-old-versions"]
    assert "ExpirationInDays" not in rules["unfinished-and-old-versions"]
    assert of_type(template(folder, "events"), "AWS::S3::Bucket") == {}


def test_only_a_watched_bucket_sends_upload_events(folder: Path) -> None:
    def tells(name: str) -> list[Any]:
        buckets = of_type(template(folder, name), "AWS::S3::Bucket").values()
        return [
            b["Properties"]["NotificationConfiguration"]
            for b in buckets
            if "NotificationConfiguration" in b["Properties"]
        ]

    assert tells("uploads") == [{"EventBridgeConfiguration": {"EventBridgeEnabled": True}}]
    assert tells("full") == []


def test_events_go_through_the_queue_to_the_starter(folder: Path) -> None:
    found = template(folder, "events")
    queues = {q["Properties"]["QueueName"]: (n, q["Properties"]) for n, q in of_type(found, "AWS::SQS::Queue").items()}
    assert set(queues) == {
        "drivetrain-retraining-events.fifo",
        "drivetrain-retraining-failed-events.fifo",
        "drivetrain-retraining-dead-letters",
    }
    name, queue = queues["drivetrain-retraining-events.fifo"]
    failed = queues["drivetrain-retraining-failed-events.fifo"][0]
    assert queue["RedrivePolicy"] == {"deadLetterTargetArn": {"Fn::GetAtt": [failed, "Arn"]}, "maxReceiveCount": 5}
    starter = only(found, "AWS::Lambda::Function")["Properties"]
    assert queue["VisibilityTimeout"] >= 6 * starter["Timeout"]
    assert starter["Role"] == f"{ROLE}drivetrain-retraining-starter"
    source = only(found, "AWS::Lambda::EventSourceMapping")["Properties"]
    assert source["EventSourceArn"] == {"Fn::GetAtt": [name, "Arn"]}
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    for policy in of_type(found, "AWS::SQS::QueuePolicy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            if statement["Effect"] == "Allow":
                assert statement["Action"] == "sqs:SendMessage"
                assert statement["Principal"] == {"Service": "events.amazonaws.com"}
                source = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/retraining_*"
                assert statement["Condition"] == {"ArnLike": {"aws:SourceArn": source}}
    rules = {r["Properties"]["Name"].rsplit("-", 1)[0] for r in of_type(found, "AWS::Events::Rule").values()}
    assert rules == {
        "retraining_approved",
        "retraining_arrived",
        "retraining_after-features",
        "retraining_drift",
        "retraining_drop",
        "retraining_errors",
        "drivetrain-retraining",
    }
    made = only(found, "AWS::Scheduler::Schedule")
    # The service takes a schedule only with a role that it may take on.
    (role,) = (
        n for n, r in of_type(found, "AWS::IAM::Role").items() if r["Properties"]["RoleName"].endswith("-scheduler")
    )
    assert made["DependsOn"] == [role]
    schedule = made["Properties"]
    assert schedule["EndDate"] == "2029-12-31T23:00:00Z"
    assert schedule["Target"]["RoleArn"] == f"{ROLE}drivetrain-retraining-scheduler"
    assert of_type(template(folder, "full"), "AWS::Scheduler::Schedule") == {}


def test_the_starter_archive_is_complete(folder: Path) -> None:
    (asset,) = (folder / "plain").glob("asset.*.zip")
    with zipfile.ZipFile(asset) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == bundle.files()


def test_spaces_get_the_named_wheel(folder: Path) -> None:
    found = only(template(folder, "full"), "AWS::SageMaker::StudioLifecycleConfig")["Properties"]
    script = base64.b64decode(found["StudioLifecycleConfigContent"]).decode()
    first, source, digest, *_ = script.splitlines()
    assert first == "#!/bin/bash"
    assert source == "DRIVETRAIN_SOURCE=s3://acme/pipelines/wheels/drivetrain-1.2-py3-none-any.whl"
    assert digest == f"DRIVETRAIN_SHA256={'0a' * 32}"
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert of_type(template(folder, "plain"), "AWS::SageMaker::StudioLifecycleConfig") == {}


def test_a_changed_script_or_tag_is_a_new_configuration(folder: Path) -> None:
    """CloudFormation replaces what can only be made, and does not where the name stays."""
    given = [
        only(template(folder, name), "AWS::SageMaker::StudioLifecycleConfig")["Properties"]
        for name in ("full", "another wheel", "another tag")
    ]
    names = [properties.pop("StudioLifecycleConfigName") for properties in given]
    assert all(one != other for one, other in itertools.combinations(given, 2))
    assert len(set(names)) == 3
    for name in names:
        assert re.fullmatch(r"drivetrain-retraining-start-[0-9a-f]{8}", name)


def test_named_and_own_model_groups_are_created(folder: Path) -> None:
    groups = of_type(template(folder, "groups"), "AWS::SageMaker::ModelPackageGroup").values()
    assert sorted(group["Properties"]["ModelPackageGroupName"] for group in groups) == ["named", "own"]


def test_the_network_has_no_way_out(folder: Path) -> None:
    found = template(folder, "full")
    kinds = {resource["Type"] for resource in found["Resources"].values()}
    assert len(of_type(found, "AWS::EC2::Subnet")) == 3
    assert not kinds & {"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::Route"}
    services, of_looks = (
        json.dumps([e["Properties"]["ServiceName"] for e in of_type(each, "AWS::EC2::VPCEndpoint").values()])
        for each in (found, template(folder, "every kind"))
    )
    for service in ("s3", "ecr.api", "ecr.dkr", "logs", "monitoring", "kms", "sts", "sagemaker.api"):
        assert f".{service}" in services
    assert ".events" not in services and ".events" in of_looks  # only for steps that send findings
    assert len(of_type(found, "AWS::EC2::FlowLog")) == 1
    assert of_type(template(folder, "plain"), "AWS::EC2::VPC") == {}


def test_zones_can_be_named(folder: Path) -> None:
    def zones(name: str) -> list[Any]:
        subnets = of_type(template(folder, name), "AWS::EC2::Subnet").values()
        return [subnet["Properties"]["AvailabilityZone"] for subnet in subnets]

    assert zones("uploads") == ["eu-west-1a", "eu-west-1c"]
    assert zones("full") == [{"Fn::Select": [n, {"Fn::GetAZs": ""}]} for n in range(3)]


def test_only_the_pipeline_bucket_is_reachable_from_the_network(folder: Path) -> None:
    found = template(folder, "full")
    (gateway,) = [
        endpoint["Properties"]
        for endpoint in of_type(found, "AWS::EC2::VPCEndpoint").values()
        if endpoint["Properties"]["VpcEndpointType"] == "Gateway"
    ]
    reached = {each["Sid"]: each for each in gateway["PolicyDocument"]["Statement"]}
    roles_use = {
        resource.split(":::")[1].partition("/")[0]
        for _, role in roles(found)
        for statement in statements(role, BUCKET_KEY)
        for resource in statement.resources
        if resource.startswith("arn:aws:s3:::")
    }
    buckets = {resource.split(":::")[1].partition("/")[0] for resource in reached["Buckets"]["Resource"]}
    assert buckets == roles_use
    assert reached["ImageLayers"]["Resource"] == f"arn:aws:s3:::prod-{REGION}-starport-layer-bucket/*"
    assert set(reached) == {"Buckets", "ImageLayers"}


def test_actions_and_resources_are_those_of_the_service_authorization_reference() -> None:
    """cfn-lint brings the reference along: each action exists, and each resource is of a type that the action takes."""
    code = (
        "import cfnlint, json, pathlib, sys; "
        "sys.stdout.write((pathlib.Path(cfnlint.__file__).parent / 'data/AdditionalSpecs/Policies.json').read_text())"
    )
    reference = json.loads(in_environment("python", "-c", code).stdout)
    checked = 0
    for policy in derive(definition(), nightly(BUCKET_KEY)).policies:
        for statement in policy.statements:
            for action in statement.actions:
                service, _, name = action.partition(":")
                known = reference[service]["Actions"]
                assert name.lower() in known, action
                types = known[name.lower()].get("Resources") or []
                types = [types] if isinstance(types, str) else types
                if statement.resources == ("*",):
                    # Those two have a resource that is optional, and not the one that is meant.
                    assert types == [] or action in ("sagemaker:ListModelPackages", "cloudwatch:PutMetricData"), action
                    assert action in UNSCOPED
                    continue
                assert types, f"{action} takes no resource"
                if action == "sagemaker:CreateModelPackage":
                    types = [*types, "model-package-group"]  # which the reference lists since then
                formats = [
                    form for kind in types for form in reference[service]["Resources"][kind.lower()]["ARNFormats"]
                ]
                for resource in statement.resources:
                    checked += 1
                    assert any(_fits(resource, form) for form in formats), (action, resource, formats)
    assert checked > 100


def _fits(resource: str, form: str) -> bool:
    """Whether a resource has the form `arn:${Partition}:s3:::.*/.*`."""
    pattern = re.escape(re.sub(r"\$\{[^}]*\}", "<part>", form)).replace("<part>", "[^:]*").replace(r"\.\*", ".*")
    return re.fullmatch(pattern, resource) is not None


def test_the_command_line_reports_what_to_correct(tmp_path: Path) -> None:
    wrong = tmp_path / "infra.yaml"
    wrong.write_text("checkpoint_days: soon\n")
    for arguments, expected in (
        (["retraining"], "deployment.targets.sagemaker.bucket is not set"),
        (["retrain"], "No pipeline 'retrain'. Did you mean 'retraining'?"),
        (["retraining", "--infra", str(wrong)], f"{wrong}: checkpoint_days: "),
        (
            [
                "retraining",
                "--set",
                "deployment.targets.sagemaker.bucket=acme",
                "--set",
                "deployment.targets.sagemaker.role=me",
            ],
            "Step 'prepare': ",
        ),
    ):
        output = tmp_path / "out"
        done = in_environment("python", "-m", "drivetrain.infra.app", *arguments, "-o", str(output))
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"error: {expected}"), done.stderr
        assert done.stderr.count("\n") == 1
        assert not output.exists()


def test_the_command_line_writes_the_template(tmp_path: Path) -> None:
    output = tmp_path / "cdk.out"
    settings = [
        f"deployment.targets.sagemaker.role={ROLE}pipeline",
        "deployment.targets.sagemaker.bucket=acme",
        f"deployment.targets.sagemaker.region={REGION}",
    ]
    arguments = [word for setting in settings for word in ("--set", setting)]
    done = in_environment("python", "-m", "drivetrain.infra.app", "retraining", *arguments, "-o", str(output))
    assert (done.returncode, done.stdout) == (0, f"{output}\n"), done.stderr
    assert "note: role 'pipeline' serves pipeline, processing, training, registry at once" in done.stderr
    assert "note: the stack is not protected from deletion. Once a deployment has succeeded" in done.stderr
    assert "Set deployment.targets.sagemaker.keys.output: alias/drivetrain-retraining-key" in done.stderr
    assert len(of_type(template(tmp_path, "cdk.out"), "AWS::IAM::Role")) == 3
