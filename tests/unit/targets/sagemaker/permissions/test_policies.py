"""Least privilege, held from both sides: every call of a deployment and a run is allowed, and nothing is allowed that
none of them needs. The one side is written apart from the other."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from drivetrain.authoring.loading import load
from drivetrain.catalog.quotas import MAX_DEFINITION_CHARACTERS
from drivetrain.spec.resources import CHECK_DATA, CHECK_SERVED
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.policies import UNNAMED, UNSCOPED, Derived, derive, why_wild
from drivetrain.targets.sagemaker.permissions.policy import MAX_POLICY_CHARACTERS, Policy, Statement
from tests.fixtures.every_permission import ACCOUNT, BUCKET_KEY, REGION, ROLE, definition, processing, rarer, training
from tests.fixtures.iam import evaluator
from tests.fixtures.iam.evaluator import applies, decide
from tests.fixtures.iam.request import Request
from tests.fixtures.iam.requests import requests

Json = dict[str, Any]
RESULTS_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0a1b2c3d"
SAGEMAKER = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"


def names(pipeline: str = "nightly", key: str | None = BUCKET_KEY) -> Names:
    return Names(
        partition="aws",
        region=REGION,
        account=ACCOUNT,
        pipeline=pipeline,
        bucket="acme",
        prefix="pipelines",
        pipeline_role=f"{ROLE}pipeline",
        bucket_key=key,
    )


def flagship(*settings: str, pipeline: str = "retraining") -> tuple[Mapping[str, Any], Names]:
    given = [
        f"deployment.targets.sagemaker.role={ROLE}pipeline",
        "deployment.targets.sagemaker.bucket=acme",
        f"deployment.targets.sagemaker.region={REGION}",
        *settings,
    ]
    loaded = load(pipeline, None, given)
    compiled = compile_pipeline(loaded.pipeline, loaded.source, loaded.base)
    return compiled.definition, Names.of(loaded.pipeline, BUCKET_KEY)


def one_role(given: Any) -> Any:
    """The definition with the pipeline's own role in place of all others."""
    if isinstance(given, dict):
        return {
            key: f"{ROLE}pipeline"
            if key in ("RoleArn", "ExecutionRoleArn") and "JobConfig" not in given
            else one_role(v)
            for key, v in given.items()
        }
    return [one_role(item) for item in given] if isinstance(given, list) else given


@pytest.fixture(
    scope="module",
    params=[
        *("flagship", "flagship, a role a kind", "flagship, a role a step", "flagship, a key for results"),
        "flagship, the bucket's key for results",
        *("every kind", "rarer fields", "one role", "no key", "empty", "longer than a request"),
    ],
)
def case(request: pytest.FixtureRequest) -> tuple[Mapping[str, Any], Names]:
    match request.param:
        case "flagship":
            return flagship()
        case "flagship, a role a kind":
            return flagship(
                *(
                    f"deployment.targets.sagemaker.roles.{kind}={ROLE}{kind}"
                    for kind in ("training", "processing", "registry")
                ),
                "spot=true",
            )
        case "flagship, a role a step":
            return flagship(
                *(
                    f"deployment.targets.sagemaker.roles.steps.{step}={ROLE}{step}"
                    for step in ("prepare", "train", "evaluate", "compare")
                )
            )
        case "flagship, a key for results":
            return flagship(
                *(
                    f"deployment.targets.sagemaker.roles.{kind}={ROLE}{kind}"
                    for kind in ("training", "processing", "registry")
                ),
                f"deployment.targets.sagemaker.keys.output={RESULTS_KEY}",
            )
        case "flagship, the bucket's key for results":
            return flagship(
                *(
                    f"deployment.targets.sagemaker.roles.{kind}={ROLE}{kind}"
                    for kind in ("training", "processing", "registry")
                ),
                "deployment.targets.sagemaker.keys.output=alias/drivetrain-retraining-key",
            )
        case "longer than a request":
            return {**definition(), "Metadata": {"padding": "x" * MAX_DEFINITION_CHARACTERS}}, names()
        case "rarer fields":
            return rarer(), names()
        case "every kind":
            return definition(), names()
        case "one role":
            return one_role(definition()), names()
        case "no key":
            return definition(), names("Another-Nightly", None)
        case _:
            return {"Version": "2020-12-01", "Steps": []}, names()


def permissions(policy: Policy) -> Iterator[tuple[Statement, tuple[Statement, ...]]]:
    """Each action on each resource, and what is left without it."""
    for n, statement in enumerate(policy.statements):
        others = (*policy.statements[:n], *policy.statements[n + 1 :])
        parts = tuple(evaluator.permissions(statement))
        for part in parts:
            yield part, (*others, *(other for other in parts if other != part))


def by_role(derived: Derived) -> dict[str, Policy]:
    return {policy.role: policy for policy in derived.policies}


def test_every_call_is_allowed(case: tuple[Mapping[str, Any], Names]) -> None:
    policies = by_role(derive(*case))
    asked = requests(*case)
    assert len(asked) > 40
    denied = [str(r) for r in asked if r.role not in policies or decide(r, policies[r.role].statements) != "allowed"]
    assert denied == []


def test_every_permission_is_needed(case: tuple[Mapping[str, Any], Names]) -> None:
    asked = requests(*case)
    spare: list[str] = []
    checked = 0
    for policy in derive(*case).policies:
        mine = [request for request in asked if request.role == policy.role]
        for part, rest in permissions(policy):
            checked += 1
            needing = [request for request in mine if applies(part, request)]
            if all(decide(request, rest) == "allowed" for request in needing):
                spare.append(f"{policy.name}: {part.sid}: {part.actions[0]} on {part.resources[0]}")
    assert spare == []
    assert checked > 40


def test_processing_steps_with_roles_of_their_own_write_nothing_of_each_other() -> None:
    steps = ("prepare", "evaluate", "compare")
    case = flagship(*(f"deployment.targets.sagemaker.roles.steps.{step}={ROLE}{step}" for step in steps))
    policies, asked = by_role(derive(*case)), requests(*case)
    for step in steps:
        writes = [one for one in asked if one.role == f"{ROLE}{step}" and one.action == "s3:PutObject"]
        assert writes, step
        for other in set(steps) - {step}:
            statements = policies[f"{ROLE}{other}"].statements
            as_other = [replace(one, role=f"{ROLE}{other}") for one in writes]
            assert [str(one) for one in as_other if decide(one, statements) == "allowed"] == []


def test_no_action_and_no_resource_is_everything(case: tuple[Mapping[str, Any], Names]) -> None:
    for policy in derive(*case).policies:
        for statement in policy.statements:
            assert statement.effect == "Allow"
            for action in statement.actions:
                assert "*" not in action and "?" not in action, action
            if "*" in statement.resources:
                assert statement.resources == ("*",)
                assert set(statement.actions) <= UNSCOPED.keys()
                assert statement.conditions, f"{statement.sid} is bound by nothing"
            for resource in set(statement.resources) - {"*"}:
                partition, service, region, account, rest = resource.split(":", 5)[1:]
                assert partition == "aws" and service and "*" not in service + region + account, resource
                assert rest.strip("/").partition("/")[0].strip("*"), resource
                assert not (service == "s3" and rest.partition("/")[2] == "*"), resource


def test_each_exception_has_its_reason_and_is_met() -> None:
    met = {
        action
        for policy in derive(definition(), names()).policies
        for statement in policy.statements
        if statement.resources == ("*",)
        for action in statement.actions
    }
    assert met == UNSCOPED.keys()
    assert all(reason for reason in UNSCOPED.values())


def test_every_wildcard_has_a_reason(case: tuple[Mapping[str, Any], Names]) -> None:
    wild = [(s, r) for policy in derive(*case).policies for s in policy.statements for r in s.resources if "*" in r]
    assert len(wild) > 10
    assert [f"{s.sid}: {resource}" for s, resource in wild if not why_wild(s, resource)] == []


def test_each_resource_without_a_name_is_met() -> None:
    resources = {r for policy in derive(definition(), names()).policies for s in policy.statements for r in s.resources}
    for known in UNNAMED:
        service, _, head = known.partition(":")
        assert f"arn:aws:{service}:{REGION}:{ACCOUNT}:{head}*" in resources


@pytest.mark.parametrize(
    "resource",
    [
        *(f"{SAGEMAKER}:{name}" for name in ("training-job/*", "training-job/*-*", "model-package/*", "*")),
        *(f"arn:aws:iam::{ACCOUNT}:role/{name}" for name in ("*", "*-jobs")),
        *("arn:aws:s3:::*", "arn:aws:s3:::*/x", "arn:aws:s3:::acme-*/x"),
        f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:*",
        f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:*",
        f"arn:aws:events:{REGION}:{ACCOUNT}:rule/*",
        f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/default/*",
        f"arn:aws:sqs:{REGION}:{ACCOUNT}:*",
        f"arn:aws:kms:{REGION}:{ACCOUNT}:key/*",
    ],
)
def test_a_wildcard_that_nobody_listed_has_no_reason(resource: str) -> None:
    """However it came about: the stack acknowledges none without one."""
    wide = Statement(sid="Wide", actions=("a:B",), resources=(resource,), reason="steps of the pipeline")
    assert why_wild(wide, resource) is None


def test_everything_has_a_reason_for_listed_actions_under_a_condition_alone() -> None:
    bound = {"StringEquals": {"aws:RequestedRegion": (REGION,)}}
    listed = Statement(
        sid="A", actions=("events:ListRules",), resources=("*",), conditions=bound, reason="rules are found"
    )
    assert why_wild(listed, "*") == "events:ListRules: no resource; bound to the region"
    assert why_wild(replace(listed, conditions={}), "*") is None
    assert why_wild(replace(listed, actions=("events:ListRules", "events:PutRule")), "*") is None


JOB_NAMES = {
    "Training": ("TrainingJobName", "training-job"),
    "Processing": ("ProcessingJobName", "processing-job"),
    "Transform": ("TransformJobName", "transform-job"),
    "Model": ("ModelName", "model"),
}


@pytest.mark.parametrize("type", JOB_NAMES)
def test_the_name_of_a_job_that_only_the_start_gives_is_none(type: str) -> None:
    field, resource = JOB_NAMES[type]
    given = copy.deepcopy(definition())
    gate = next(step for step in given["Steps"] if step["Name"] == "gate")
    steps = [*given["Steps"], *gate["Arguments"]["IfSteps"]]
    named = next(step for step in steps if step["Type"] == type)
    named["Arguments"][field] = {"Get": "Parameters.Name"}
    given["Parameters"].append({"Name": "Name", "Type": "String"})
    derived = derive(given, names())
    found = {r for p in derived.policies for s in p.statements for r in s.resources if f":{resource}/" in r}
    assert found == {f"{SAGEMAKER}:{resource}/pipelines-*"}
    assert any(f"step {named['Name']!r}, {field}: only an execution knows it" in note for note in derived.notes)


def test_a_job_may_have_any_of_the_names_that_its_parameter_offers() -> None:
    given = {
        "Parameters": [{"Name": "Name", "Type": "String", "DefaultValue": "blue", "EnumValues": ["blue", "Green"]}],
        "Steps": [processing("p", {"a": "s3://lake/a/"}, (), ProcessingJobName={"Get": "Parameters.Name"})],
    }
    derived = derive(given, names())
    policy = derived.of("pipeline")
    assert policy is not None
    found = {r for s in policy.statements for r in s.resources if ":processing-job/" in r}
    assert found == {f"{SAGEMAKER}:processing-job/{name}-*" for name in ("blue", "Green", "green")}
    policies = by_role(derived)
    asked = requests(given, names())
    assert {r.resource for r in asked if r.action == "sagemaker:CreateProcessingJob"} == {
        f"{SAGEMAKER}:processing-job/{name}-tmgxry49ug" for name in ("blue", "Green", "green")
    }
    assert all(decide(r, policies[r.role].statements) == "allowed" for r in asked)


def test_an_experiment_that_only_the_start_names_gives_no_permission() -> None:
    given = definition() | {
        "PipelineExperimentConfig": {"ExperimentName": {"Get": "Parameters.Name"}, "TrialName": "mine"}
    }
    derived = derive(given, names())
    assert not any(":experiment" in r for p in derived.policies for s in p.statements for r in s.resources)
    assert not any("experiment" in request.resource for request in requests(given, names()))
    assert any("ExperimentName: only an execution knows it" in note for note in derived.notes)


@pytest.mark.parametrize(
    ("type", "access", "says"),
    [
        ("EFS", "ro", "allow the step's role elasticfilesystem:ClientMount there"),
        ("EFS", "rw", "elasticfilesystem:ClientMount and elasticfilesystem:ClientWrite there"),
        ("FSxLustre", "rw", "988 and 1018 to 1023 for Lustre"),
    ],
)
def test_permissions_of_a_file_system_are_listed(type: str, access: str, says: str) -> None:
    mounted = {"FileSystemId": "fs-1", "FileSystemType": type, "FileSystemAccessMode": access, "DirectoryPath": "/x"}
    channel = {"ChannelName": "train", "DataSource": {"FileSystemDataSource": mounted}}
    notes = derive({"Steps": [training("t", InputDataConfig=[channel])]}, names()).notes
    (said,) = (note for note in notes if "file system" in note)
    assert said.startswith("step 't': file system 'fs-1' is reached over the network") and says in said
    assert ("elasticfilesystem" in said) == (type == "EFS")


def test_the_key_of_the_disks_that_a_tuning_chooses_among_is_allowed() -> None:
    disks = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/tuned"
    config = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30}
    resources = {
        "InstanceConfigs": [config],
        "AllocationStrategy": "Prioritized",
        "VolumeKmsKeyId": disks,
    }
    given = definition()
    tuning = next(step for step in given["Steps"] if step["Type"] == "Tuning")["Arguments"]
    before = {r for p in derive(given, names()).policies for s in p.statements for r in s.resources}
    del tuning["TrainingJobDefinition"]["ResourceConfig"]
    tuning["TrainingJobDefinition"]["HyperParameterTuningResourceConfig"] = resources
    after = {r for p in derive(given, names()).policies for s in p.statements for r in s.resources}
    assert after - before == {disks}


def test_permissions_of_an_analysis_are_listed() -> None:
    checks = [processing("bias", {"a": "s3://lake/a/"}, (), Type="ClarifyCheck")]
    notes = derive({"Steps": checks}, names()).notes
    assert any("step 'bias': where its analysis asks a model" in note and "InvokeEndpoint" in note for note in notes)


def test_policies_are_legal(case: tuple[Mapping[str, Any], Names]) -> None:
    for policy in derive(*case).policies:
        sids = [statement.sid for statement in policy.statements]
        assert len(set(sids)) == len(sids) and all(sid.isalnum() for sid in sids)
        assert len(policy.name) <= 64
        assert all(statement.reason for statement in policy.statements)
        document = policy.to_json()
        assert document["Version"] == "2012-10-17"
        assert all(s["Effect"] == "Allow" and s["Action"] and s["Resource"] for s in document["Statement"])


FORBIDDEN = [
    # Other people's objects, and another pipeline's.
    ("training", "s3:GetObject", "arn:aws:s3:::acme/pipelines/other/steps/train/x/model.tar.gz", {}),
    ("training", "s3:PutObject", "arn:aws:s3:::acme/pipelines/retraining/steps/evaluate/p1/metrics/metrics.json", {}),
    # An output of the step `prepare` is called as the training's step is.
    ("training", "s3:PutObject", "arn:aws:s3:::acme/pipelines/retraining/steps/prepare/p1/train/part-0.csv", {}),
    ("training", "s3:PutObject", "arn:aws:s3:::acme/pipelines/retraining/data/2c3d/train/part-0.csv", {}),
    ("training", "s3:PutObject", "arn:aws:s3:::acme/pipelines/retraining/code/0a1b/start.py", {}),
    ("training", "s3:DeleteObject", "arn:aws:s3:::acme/pipelines/retraining/steps/train/p1/x", {}),
    ("training", "s3:GetObject", "arn:aws:s3:::elsewhere/pipelines/retraining/code/0a1b/start.py", {}),
    ("training", "s3:GetObject", "arn:aws:s3:::acme/pipelines/other/code/0a1b/start.py", {}),
    ("training", "s3:ListBucket", "arn:aws:s3:::acme", {"s3:prefix": ""}),
    ("training", "s3:ListBucket", "arn:aws:s3:::acme", {"s3:prefix": "pipelines/other/"}),
    ("training", "kms:Decrypt", BUCKET_KEY, {"kms:ViaService": f"secretsmanager.{REGION}.amazonaws.com"}),
    ("training", "kms:Decrypt", BUCKET_KEY.replace("key/bucket", "key/another"), {}),
    # Jobs do not touch what decides over models.
    (
        "training",
        "sagemaker:CreateModelPackage",
        f"{SAGEMAKER}:model-package/retraining/1",
        {},
    ),
    ("processing", "sagemaker:ListModelPackages", "*", {}),
    (
        "registry",
        "sagemaker:UpdateModelPackage",
        f"{SAGEMAKER}:model-package/retraining/1",
        {},
    ),
    (
        "registry",
        "sagemaker:CreateModelPackage",
        f"{SAGEMAKER}:model-package/retraining/1",
        {},
    ),
    ("registry", "sagemaker:DescribeModelPackage", f"{SAGEMAKER}:model-package/others/1", {}),
    # Of the evidence of comparisons that of the pipeline's group alone.
    ("registry", "s3:GetObject", "arn:aws:s3:::acme/pipelines/drivetrain-evidence/others.npz", {}),
    ("registry", "s3:PutObject", "arn:aws:s3:::acme/pipelines/drivetrain-evidence/others.npz", {}),
    ("registry", "s3:DeleteObject", "arn:aws:s3:::acme/pipelines/drivetrain-evidence/retraining.npz", {}),
    ("registry", "s3:ListBucket", "arn:aws:s3:::acme", {"s3:prefix": "pipelines/drivetrain-evidence/"}),
    ("training", "s3:PutObject", "arn:aws:s3:::acme/pipelines/drivetrain-evidence/retraining.npz", {}),
    # Nobody makes their own job bigger, or passes a role that is not of the pipeline.
    ("pipeline", "iam:PassRole", f"{ROLE}admin", {"iam:PassedToService": "sagemaker.amazonaws.com"}),
    ("pipeline", "iam:PassRole", f"{ROLE}training", {"iam:PassedToService": "lambda.amazonaws.com"}),
    ("pipeline", "iam:PassRole", f"{ROLE}training", {}),
    ("pipeline", "sagemaker:CreateTrainingJob", f"{SAGEMAKER}:training-job/mine", {}),
    ("pipeline", "sagemaker:CreateEndpoint", f"{SAGEMAKER}:endpoint/e", {}),
    ("pipeline", "sagemaker:AddTags", f"{SAGEMAKER}:training-job/pipelines-x", {}),
    ("pipeline", "sagemaker:StartPipelineExecution", f"{SAGEMAKER}:pipeline/retraining", {}),
    ("scheduler", "sagemaker:StartPipelineExecution", f"{SAGEMAKER}:pipeline/other", {}),
    (
        "starter",
        "sagemaker:StopPipelineExecution",
        f"{SAGEMAKER}:pipeline/retraining/execution/x",
        {},
    ),
    ("starter", "sqs:ReceiveMessage", f"arn:aws:sqs:{REGION}:{ACCOUNT}:others", {}),
    ("ci", "sagemaker:UpdatePipeline", f"{SAGEMAKER}:pipeline/other", {}),
    ("ci", "iam:PassRole", f"{ROLE}training", {"iam:PassedToService": "sagemaker.amazonaws.com"}),
    ("ci", "iam:CreateRole", f"{ROLE}anything", {}),
    ("ci", "events:PutRule", f"arn:aws:events:{REGION}:{ACCOUNT}:rule/others", {}),
    ("ci", "s3:DeleteObject", "arn:aws:s3:::acme/pipelines/retraining/code/0a1b/start.py", {}),
    ("ci", "s3:DeleteObject", "arn:aws:s3:::acme/pipelines/retraining/data/2c3d/part-0", {}),
    ("ci", "s3:DeleteObject", "arn:aws:s3:::acme/pipelines/retraining/applied/0a1b.json", {}),
    ("destroyer", "s3:DeleteObject", "arn:aws:s3:::acme/pipelines/retraining/steps/train/p1/model.tar.gz", {}),
    ("destroyer", "s3:DeleteObject", "arn:aws:s3:::acme/pipelines/other/code/0a1b/start.py", {}),
    ("destroyer", "s3:PutObject", "arn:aws:s3:::acme/pipelines/retraining/code/0a1b/a", {"s3:if-none-match": "*"}),
    ("destroyer", "s3:PutObject", "arn:aws:s3:::acme/pipelines/retraining/applied/0a1b.json", {}),
    ("destroyer", "sagemaker:StartPipelineExecution", f"{SAGEMAKER}:pipeline/retraining", {}),
    # Code and data are a pipeline's own: who deploys one cannot take away what another runs.
    ("ci", "s3:DeleteObject", "arn:aws:s3:::acme/pipelines/other/code/0a1b/start.py", {}),
    ("ci", "s3:PutObject", "arn:aws:s3:::acme/pipelines/other/data/2c3d/part-0", {"s3:if-none-match": "*"}),
    ("ci", "s3:PutObject", "arn:aws:s3:::acme/pipelines/other/applied/x.json", {"s3:if-none-match": "*"}),
    # Code that is there is not replaced, nor is the record of what was applied.
    ("ci", "s3:PutObject", "arn:aws:s3:::acme/pipelines/retraining/code/0a1b/start.py", {}),
    ("ci", "s3:PutObject", "arn:aws:s3:::acme/pipelines/retraining/applied/0a1b.json", {}),
    ("ci", "events:ListRules", "*", {"aws:RequestedRegion": "us-west-2"}),
]


@pytest.mark.parametrize(("kind", "action", "resource", "context"), FORBIDDEN)
def test_unneeded_actions_are_denied(kind: str, action: str, resource: str, context: Json) -> None:
    given = flagship(
        *(f"deployment.targets.sagemaker.roles.{each}={ROLE}{each}" for each in ("training", "processing", "registry"))
    )
    policy = derive(*given).of(kind)
    assert policy is not None
    asked = Request(
        role=policy.role,
        action=action,
        resource=resource,
        why="a test",
        context={"aws:RequestedRegion": REGION, **context},
    )
    assert decide(asked, policy.statements) == "implicitly denied"


def test_a_comparison_may_keep_the_evidence_of_its_group() -> None:
    policy = derive(*flagship(f"deployment.targets.sagemaker.roles.registry={ROLE}registry")).of("registry")
    assert policy is not None
    for action in ("s3:GetObject", "s3:PutObject"):
        place = "arn:aws:s3:::acme/pipelines/drivetrain-evidence/retraining.npz"
        asked = Request(role=policy.role, action=action, resource=place, why="a test", context={})
        assert decide(asked, policy.statements) == "allowed", action


def test_a_check_of_data_may_keep_the_nights_of_its_group_and_asks_for_its_versions() -> None:
    given = flagship(f"deployment.targets.sagemaker.roles.steps.check-data={ROLE}check", pipeline="churn")
    (policy,) = [each for each in derive(*given).policies if each.role == f"{ROLE}check"]
    folder = "arn:aws:s3:::acme/pipelines/drivetrain-evidence"

    def decided(action: str, resource: str) -> str:
        context = {"aws:RequestedRegion": REGION}
        asked = Request(role=policy.role, action=action, resource=resource, why="a test", context=context)
        return decide(asked, policy.statements)

    for place in (f"{folder}/churn-data.npz", f"{folder}/churn-data/{'a' * 64}.npz"):
        assert decided("s3:GetObject", place) == decided("s3:PutObject", place) == "allowed"
    assert decided("s3:PutObject", f"{folder}/churn.npz") == "implicitly denied"
    group = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:model-package-group/churn"
    assert decided("sagemaker:DescribeModelPackageGroup", group) == "allowed"
    assert decided("sagemaker:CreateModelPackage", group) == "implicitly denied"


def test_a_look_at_served_data_may_keep_its_findings_and_send_them() -> None:
    made, where = flagship(f"deployment.targets.sagemaker.roles.steps.check-data={ROLE}check", pipeline="churn")
    given = json.loads(json.dumps(made).replace(CHECK_DATA, CHECK_SERVED))
    (policy,) = [each for each in derive(given, where).policies if each.role == f"{ROLE}check"]
    folder = "arn:aws:s3:::acme/pipelines/drivetrain-evidence"

    def decided(action: str, resource: str, source: str = "drivetrain") -> str:
        context = {"aws:RequestedRegion": REGION, "events:source": source}
        asked = Request(role=policy.role, action=action, resource=resource, why="a test", context=context)
        return decide(asked, policy.statements)

    found, baseline = f"{folder}/churn-served.json", f"{folder}/churn-data/{'a' * 64}.npz"
    assert decided("s3:GetObject", found) == decided("s3:PutObject", found) == "allowed"
    assert decided("s3:GetObject", f"{folder}/churn-data.npz") == decided("s3:GetObject", baseline) == "allowed"
    assert decided("s3:PutObject", baseline) == "implicitly denied"
    bus = f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/"
    assert decided("events:PutEvents", f"{bus}default") == "allowed"
    assert decided("events:PutEvents", f"{bus}other") == "implicitly denied"
    assert decided("events:PutEvents", f"{bus}default", source="shop") == "implicitly denied"
    group = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:model-package-group/churn"
    assert decided("sagemaker:DescribeModelPackageGroup", group) == "allowed"
    assert decided("sagemaker:CreateModelPackage", group) == "implicitly denied"


def test_new_code_and_data_need_no_new_policy() -> None:
    """Their hashes change with every deployment; the roles belong to another one."""
    given, where = flagship()
    text = {"old": given, "new": copy.deepcopy(dict(given))}
    for step in text["new"]["Steps"]:
        for item in step["Arguments"].get("ProcessingInputs", ()):
            uri = item["S3Input"]["S3Uri"]
            if isinstance(uri, str):
                head, folder, rest = uri.partition("/code/") if "/code/" in uri else uri.partition("/data/")
                item["S3Input"]["S3Uri"] = f"{head}{folder}fedc{rest[4:]}"
        if checkpoint := step["Arguments"].get("CheckpointConfig"):
            checkpoint["S3Uri"] = checkpoint["S3Uri"][:-5] + "0000/"
    assert text["old"] != text["new"]
    assert derive(text["old"], where) == derive(text["new"], where)


def test_a_role_a_kind() -> None:
    kinds = {policy.name: policy.kinds for policy in derive(definition(), names()).policies}
    assert kinds == {
        "pipeline": ("pipeline",),
        "processing": ("processing",),
        "training": ("training",),
        "registry": ("registry",),
        "look": ("registry",),
        "registrar": ("registry",),
        "serving": ("serving",),
        "parts": ("processing",),
        "drivetrain-nightly-scheduler": ("scheduler",),
        "drivetrain-nightly-starter": ("starter",),
        "drivetrain-nightly-ci": ("ci",),
        "drivetrain-nightly-destroyer": ("destroyer",),
    }


def test_one_role_for_all_is_said() -> None:
    derived = derive(one_role(definition()), names())
    assert any("'pipeline' serves pipeline, processing, training" in note for note in derived.notes)
    assert derive(definition(), names()).notes == ()


def test_a_role_with_too_many_places_is_said() -> None:
    inputs = {f"i{n}": f"s3://lake/{'x' * 40}/{n}/table" for n in range(3_000)}
    derived = derive({"Steps": [processing("wide", inputs, ())]}, names())
    assert any(f"IAM takes {MAX_POLICY_CHARACTERS:,}" in note for note in derived.notes)


def test_unknown_values_become_notes_and_no_permissions() -> None:
    steps = [
        processing("odd", {"a": {"Get": "Steps.tell.OutputParameters['uri']"}, "b": {"Get": "Parameters.Where"}}, ()),
        {"Name": "tell", "Type": "Lambda", "FunctionArn": {"Get": "Parameters.Function"}, "Arguments": {}},
        {"Name": "query", "Type": "Athena", "Arguments": {}},
        {
            "Name": "score",
            "Type": "Transform",
            "Arguments": {
                "ModelName": "theirs",
                "TransformInput": {"DataSource": {"S3DataSource": {"S3Uri": "s3://lake/batch/"}}},
                "TransformOutput": {"S3OutputPath": "s3://lake/scores/", "KmsKeyId": "alias/ours"},
            },
        },
        {"Name": "ask", "Type": "Callback", "SqsQueueUrl": "http://queue", "Arguments": {}},
    ]
    given = {"Steps": steps, "Parameters": [{"Name": "Where", "Type": "String"}], "MlflowConfig": {"a": 1}}
    derived = derive(given, names())
    said = "\n".join(derived.notes)
    for text in (
        "step 'odd', an input: only an execution knows it",
        "step 'tell', its function: only an execution knows it",
        "type 'Athena'",
        "step 'score': its model is made elsewhere",
        "key 'alias/ours': a policy cannot name it so",
        "'http://queue' is no URL of a queue",
        "MlflowConfig",
    ):
        assert text in said
    assert not any("anything" in r or "*lake" in r for p in derived.policies for s in p.statements for r in s.resources)


def joined(*parts: Any, on: str = "") -> Json:
    return {"Std:Join": {"On": on, "Values": list(parts)}}


OTHER_SUBNET = f"arn:aws:ec2:{REGION}:{ACCOUNT}:subnet/subnet-0other"


@pytest.mark.parametrize(
    ("actions", "changes"),
    [
        (("kms:CreateGrant",), {"context": {"kms:GrantIsForAWSResource": "false"}}),
        (
            ("ec2:CreateNetworkInterfacePermission", "ec2:DeleteNetworkInterfacePermission"),
            {"context": {"ec2:Subnet": OTHER_SUBNET}},
        ),
        (
            ("sagemaker:StopTrainingJob", "sagemaker:StopProcessingJob", "sagemaker:StopHyperParameterTuningJob"),
            {
                "context": {
                    "aws:ResourceTag/sagemaker:pipeline-execution-arn": f"{SAGEMAKER}:pipeline/other/execution/x"
                }
            },
        ),
        (("lambda:InvokeFunction",), {"resource": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:others"}),
        (
            ("events:PutRule", "events:PutTargets", "events:DescribeRule"),
            {"resource": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/others"},
        ),
    ],
)
def test_permissions_are_not_wider_than_needed(actions: tuple[str, ...], changes: Json) -> None:
    """Each call that a run makes, with one thing about it changed."""
    policies = by_role(derive(definition(), names()))
    asked = [request for request in requests(definition(), names()) if request.action in actions]
    assert {request.action for request in asked} == set(actions)
    for request in asked:
        context = {**request.context, **changes.get("context", {})}
        other = replace(request, resource=changes.get("resource", request.resource), context=context)
        assert decide(request, policies[request.role].statements) == "allowed", request
        assert decide(other, policies[request.role].statements) == "implicitly denied", other


def test_services_take_roles_on_for_this_account_alone() -> None:
    trusts = [trust for policy in derive(definition(), names()).policies for trust in policy.trust]
    own = {"StringEquals": {"aws:SourceAccount": (ACCOUNT,)}}
    assert {trust.service for trust in trusts} == {
        *("lambda.amazonaws.com", "sagemaker.amazonaws.com", "scheduler.amazonaws.com"),
    }
    for trust in trusts:
        # Lambda names no source.
        assert trust.conditions == ({} if trust.service == "lambda.amazonaws.com" else own)


UNBOUND = {"Get": "Parameters.Unbound"}
EXECUTION = {"Get": "Execution.PipelineExecutionId"}


@pytest.mark.parametrize("unknown", [UNBOUND, EXECUTION], ids=["parameter", "execution"])
def test_unbounded_resources_become_notes_and_no_permissions(unknown: Json) -> None:
    steps = [
        processing(
            "odd",
            {"a": joined("s3://", unknown, "/x"), "b": joined("s3://acme-", unknown, "/x")},
            (),
            RoleArn=joined(f"{ROLE}team-", unknown),
            AppSpecification={"ImageUri": joined(f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/", unknown, ":1")},
            NetworkConfig={"VpcConfig": {"Subnets": [joined("subnet-", unknown)], "SecurityGroupIds": ["sg-1"]}},
        ),
        {
            "Name": "tell",
            "Type": "Lambda",
            "FunctionArn": joined(f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:", unknown),
            "Arguments": {},
        },
        {
            "Name": "other",
            "Type": "Lambda",
            "FunctionArn": joined("arn:aws:lambda:", unknown, f":{ACCOUNT}:function:x"),
            "Arguments": {},
        },
    ]
    given = {"Steps": steps, "Parameters": [{"Name": "Unbound", "Type": "String"}]}
    bare = {"Steps": [{"Name": "none", "Type": "Fail", "Arguments": {}}]}

    def allowed(one: Json) -> set[str]:
        return {r for p in derive(one, names()).policies for s in p.statements for r in s.resources}

    more = [r for r in allowed(given) - allowed(bare) if r.startswith(("arn:aws:s3", "arn:aws:iam", "arn:aws:lambda"))]
    assert [r for r in more if not r.startswith("arn:aws:s3:::acme")] == []
    assert not any(s in r for r in allowed(given) for s in ("acme-", "team-", "repository/*", "subnet/subnet-*"))
    said = "\n".join(derive(given, names()).notes)
    for what in (
        *("'odd', an input", "'odd', its role", "'odd', its image", "'odd', a subnet"),
        *("'tell', its function", "'other', its function"),
    ):
        assert f"step {what}: only an execution knows it" in said


def test_resources_with_an_open_suffix_are_allowed() -> None:
    given = {"Steps": [processing("p", {"a": joined("s3://lake/in/", EXECUTION, "/rows")}, ())]}
    policy = derive(given, names()).of("processing")
    assert policy is not None
    assert "arn:aws:s3:::lake/in/*/rows*" in {r for s in policy.statements for r in s.resources}


def test_a_role_that_is_shared_can_be_taken_on_by_all_its_services() -> None:
    shared = f"{ROLE}pipeline"
    where = replace(names(), given={"scheduler_role": shared})
    policy = by_role(derive(definition(), where))[shared]
    assert [trust.service for trust in policy.trust] == ["sagemaker.amazonaws.com", "scheduler.amazonaws.com"]
    assert all(trust.conditions["StringEquals"] == {"aws:SourceAccount": (ACCOUNT,)} for trust in policy.trust)


def test_a_job_may_have_any_of_the_roles_that_its_parameter_offers() -> None:
    choices = [f"{ROLE}blue", f"{ROLE}green"]
    given = {
        "Parameters": [{"Name": "Role", "Type": "String", "DefaultValue": choices[0], "EnumValues": choices}],
        "Steps": [processing("p", {"a": "s3://lake/a/"}, (), RoleArn={"Get": "Parameters.Role"})],
    }
    policies = by_role(derive(given, names()))
    for role in choices:
        assert any("s3:GetObject" in s.actions for s in policies[role].statements)
    passed = {r for s in policies[f"{ROLE}pipeline"].statements if "iam:PassRole" in s.actions for r in s.resources}
    assert passed == set(choices)
    asked = requests(given, names())
    assert all(decide(r, policies[r.role].statements) == "allowed" for r in asked)
    assert {r.role for r in asked} >= set(choices)


def test_a_role_that_only_the_start_names_gives_the_pipelines_own_nothing() -> None:
    given = {
        "Parameters": [{"Name": "Role", "Type": "String"}],
        "Steps": [processing("p", {"a": "s3://lake/a/"}, (), RoleArn={"Get": "Parameters.Role"})],
    }
    derived = derive(given, names())
    assert any("step 'p', its role: only an execution knows it" in note for note in derived.notes)
    assert not any("lake" in r for p in derived.policies for s in p.statements for r in s.resources)


def test_choices_are_all_allowed_for_or_it_is_said() -> None:
    def given(count: int) -> Json:
        values = [f"v{n}" for n in range(count)]
        parameters = [
            {"Name": name, "Type": "String", "DefaultValue": "v0", "EnumValues": values} for name in ("A", "B")
        ]
        uri = joined("s3://lake/", {"Get": "Parameters.A"}, "/", {"Get": "Parameters.B"}, "/")
        return {"Parameters": parameters, "Steps": [processing("p", {"a": uri}, ())]}

    def readable(derived: Derived) -> set[str]:
        policy = derived.of("processing")
        assert policy is not None
        return {r for s in policy.statements if "s3:GetObject" in s.actions for r in s.resources}

    few = derive(given(12), names())
    assert {f"arn:aws:s3:::lake/v{a}/v{b}/*" for a in range(12) for b in range(12)} <= readable(few)
    assert not any("different ones" in note for note in few.notes)
    assert any("may be 1,600 different ones" in note for note in derive(given(40), names()).notes)


def test_a_parameter_allows_its_default_its_choices_and_what_is_named() -> None:
    given = {
        "Parameters": [
            {"Name": "A", "Type": "String", "DefaultValue": "s3://lake/a/"},
            {"Name": "B", "Type": "String", "DefaultValue": "s3://lake/b/", "EnumValues": ["s3://lake/b/", "s3://c/"]},
        ],
        "Steps": [processing("p", {"a": {"Get": "Parameters.A"}, "b": {"Get": "Parameters.B"}}, ())],
    }

    def readable(**values: tuple[str, ...]) -> set[str]:
        policy = derive(given, names(), values).of("processing")
        assert policy is not None
        return {r for s in policy.statements if s.actions == ("s3:GetObject",) for r in s.resources}

    default = {"arn:aws:s3:::lake/a/*", "arn:aws:s3:::lake/b/*", "arn:aws:s3:::c/*"}
    assert readable() == default
    assert readable(A=("s3://new/x",)) == default | {"arn:aws:s3:::new/x*"}
    assert any("parameter 'A'" in note for note in derive(given, names()).notes)


def test_another_partition() -> None:
    where = Names(
        partition="aws-cn",
        region="cn-north-1",
        account=ACCOUNT,
        pipeline="nightly",
        bucket="acme",
        prefix="pipelines",
        pipeline_role=f"arn:aws-cn:iam::{ACCOUNT}:role/pipeline",
        bucket_key=f"arn:aws-cn:kms:cn-north-1:{ACCOUNT}:key/k",
    )
    given = {
        "Steps": [
            processing(
                "p",
                {"a": "s3://lake/a"},
                ("out",),
                RoleArn=where.pipeline_role,
                AppSpecification={"ImageUri": f"{ACCOUNT}.dkr.ecr.cn-north-1.amazonaws.com.cn/x/y:1"},
            )
        ]
    }
    policies = by_role(derive(given, where))
    resources = {r for p in policies.values() for s in p.statements for r in s.resources if r != "*"}
    assert all(resource.startswith("arn:aws-cn:") for resource in resources)
    assert f"arn:aws-cn:ecr:cn-north-1:{ACCOUNT}:repository/x/y" in resources
    assert all(decide(r, policies[r.role].statements) == "allowed" for r in requests(given, where))


def test_two_derivations_are_equal() -> None:
    assert derive(definition(), names()) == derive(definition(), names())


def test_outputs_of_a_for_each_are_readable_within_and_after_it() -> None:
    def reads(*uris: Any) -> dict[str, Any]:
        return {f"i{number}": {"Get": f"{uri}.S3Output.S3Uri"} for number, uri in enumerate(uris)}

    outputs = "ProcessingOutputConfig.Outputs"
    body = [
        processing("make", {"raw": "s3://lake/raw/"}, ("out",)),
        processing("use", reads(f"Steps.make.{outputs}['out']"), ("out",), RoleArn=f"{ROLE}use"),
    ]
    score = {"Get": f"IterationOutput.use.{outputs}['out'].S3Output.S3Uri"}
    arguments = {"ForEachBody": body, "IterableItems": [1, 2], "Selector": {"Pick": "MaxBy", "Field": score}}
    results = (f"Steps.loop.Selected.{outputs}['out']", f"Steps.loop.IterationOutputs[1].make.{outputs}['out']")
    after = processing("after", reads(*results), (), RoleArn=f"{ROLE}after")
    derived = derive({"Steps": [{"Name": "loop", "Type": "ForEach", "Arguments": arguments}, after]}, names())
    policies = by_role(derived)

    def readable(role: str) -> set[str]:
        return {r for s in policies[f"{ROLE}{role}"].statements if "s3:GetObject" in s.actions for r in s.resources}

    made = "arn:aws:s3:::acme/pipelines/nightly/*/{}/out*"
    assert readable("use") == {made.format("make")}
    assert readable("after") == {made.format("use"), made.format("make")}
    assert not [note for note in derived.notes if "only an execution knows it" in note]
