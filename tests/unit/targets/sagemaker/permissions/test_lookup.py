"""What jobs read and write beside their plain inputs and outputs: each place, key and group is allowed, or said."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.policies import Derived, derive
from tests.fixtures.every_permission import ACCOUNT, IMAGE, OTHER_GROUP, REGION, ROLE, processing, rarer
from tests.fixtures.iam.evaluator import decide
from tests.fixtures.iam.request import Request, by_s3
from tests.fixtures.iam.requests import requests

NAMES = Names(
    partition="aws",
    region=REGION,
    account=ACCOUNT,
    pipeline="nightly",
    bucket="acme",
    prefix="pipelines",
    pipeline_role=f"{ROLE}pipeline",
)
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key"
OTHER = OTHER_GROUP.replace("model-package-group/Shared-Models", "model-package")


@pytest.fixture(scope="module")
def derived() -> Derived:
    return derive(rarer(), NAMES)


def decision(derived: Derived, role: str, action: str, resource: str, context: dict[str, str]) -> str:
    policy = next(each for each in derived.policies if each.name == role)
    context = {"aws:RequestedRegion": REGION, **context}
    return decide(
        Request(role=policy.role, action=action, resource=resource, why="", context=context), policy.statements
    )


@pytest.mark.parametrize(
    ("role", "action", "resource", "context"),
    [
        # Folders of models are listed and each object is read; archives are read alone.
        ("serving", "s3:GetObject", "arn:aws:s3:::models/large/weights-1", {}),
        ("serving", "s3:ListBucket", "arn:aws:s3:::models", {"s3:prefix": "large/"}),
        ("serving", "s3:GetObject", "arn:aws:s3:::models/draft/weights", {}),
        ("serving", "s3:GetObject", "arn:aws:s3:::models/words.bin", {}),
        ("serving", "s3:GetObject", "arn:aws:s3:::models/many/a.tar.gz", {}),
        ("serving", "s3:ListBucket", "arn:aws:s3:::models", {"s3:prefix": "many/"}),
        ("serving", "s3:GetObject", "arn:aws:s3:::sources/serving.tar.gz", {}),
        ("pipeline", "s3:GetObject", "arn:aws:s3:::models/more/words", {}),
        # A transform under the role of its model.
        ("serving", "s3:PutObject", "arn:aws:s3:::scores/captured/2026/x", {}),
        ("serving", "kms:GenerateDataKey", f"{KEY}/captured", {}),
        # Debugger's rules.
        ("training", "s3:PutObject", "arn:aws:s3:::debugging/rules/report", {}),
        ("training", "s3:PutObject", "arn:aws:s3:::debugging/profiler-rules/report", {}),
        ("training", "s3:GetObject", "arn:aws:s3:::debugging/tensors/0", {}),
        ("training", "ecr:BatchGetImage", f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/team/rules", {}),
        # Rows of a query, which the next step reads, too.
        ("queries", "s3:PutObject", "arn:aws:s3:::lake/rows/athena/1", {}),
        ("queries", "s3:GetObject", "arn:aws:s3:::lake/rows/redshift/1", {}),
        ("queries", "kms:Decrypt", f"{KEY}/rows", by_s3(NAMES)),
        ("later", "kms:Decrypt", f"{KEY}/rows", by_s3(NAMES)),
        # A group of another account.
        ("pipeline", "sagemaker:CreateModelPackage", OTHER_GROUP, {}),
        ("pipeline", "sagemaker:CreateModelPackage", f"{OTHER}/shared-models/3", {}),
    ],
)
def test_permissions_for_rare_fields_are_included(
    derived: Derived, role: str, action: str, resource: str, context: dict[str, str]
) -> None:
    assert decision(derived, role, action, resource, context) == "allowed"


@pytest.mark.parametrize(
    ("role", "action", "resource", "context"),
    [
        ("serving", "s3:GetObject", "arn:aws:s3:::models/words.bin.old", {}),
        ("serving", "s3:GetObject", "arn:aws:s3:::models/larger/weights", {}),
        ("serving", "s3:ListBucket", "arn:aws:s3:::models", {"s3:prefix": ""}),
        ("serving", "kms:Decrypt", f"{KEY}/rows", by_s3(NAMES)),
        ("later", "kms:Decrypt", f"{KEY}/rows", {}),
        ("later", "kms:GenerateDataKey", f"{KEY}/rows", by_s3(NAMES)),
        ("pipeline", "kms:Decrypt", f"{KEY}/rows", by_s3(NAMES)),
        ("pipeline", "sagemaker:CreateModelPackage", OTHER_GROUP.replace("999999999999", ACCOUNT), {}),
    ],
)
def test_rarer_fields_allow_no_more(
    derived: Derived, role: str, action: str, resource: str, context: dict[str, str]
) -> None:
    assert decision(derived, role, action, resource, context) == "implicitly denied"


@pytest.mark.parametrize(
    "says",
    [
        "step 'ask': input 'a' is a query: Athena asks under the step's role: allow it athena:StartQueryExecution",
        "step 'ask': input 'r' is a query: Redshift writes under its ClusterRoleArn",
        "step 'ask': output 'features' goes into a feature group: allow the step's role sagemaker:PutRecord",
        "step 'model': its model is that of a model package",
        "step 'train': the rules of its Debugger are jobs of the service's own naming",
        "step 'share': group 'Shared-Models' is of account 999999999999: the group's own policy must allow",
    ],
)
def test_unresolvable_references_are_noted(derived: Derived, says: str) -> None:
    assert [note for note in derived.notes if note.startswith(says)]


@pytest.mark.parametrize("type", ["Processing", "Transform", "Model"])
def test_the_objects_of_a_manifest_are_said(type: str) -> None:
    source = {"S3Uri": "s3://lake/list.manifest", "S3DataType": "ManifestFile"}
    step = processing("p", {}, ())
    if type == "Processing":
        step["Arguments"]["ProcessingInputs"] = [{"InputName": "a", "S3Input": source}]
    elif type == "Transform":
        step |= {"Type": type, "Arguments": {"TransformInput": {"DataSource": {"S3DataSource": source}}}}
    else:
        model = {"S3DataType": "S3Prefix", "S3Uri": "s3://m/", "ManifestS3Uri": "s3://m/list"}
        container = {"Image": IMAGE, "ModelDataSource": {"S3DataSource": model}}
        step |= {"Type": type, "Arguments": {"PrimaryContainer": container}}
    notes = derive({"Steps": [step]}, NAMES).notes
    assert "step 'p': allow its role to read the objects that its manifest lists, too." in notes


@pytest.mark.parametrize("own", ["Models", f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:model-package-group/Models"])
def test_a_group_of_the_own_account_is_the_same_by_its_arn(own: str) -> None:
    def register(group: str) -> dict[str, Any]:
        return {"Name": "r", "Type": "RegisterModel", "Arguments": {"ModelPackageGroupName": group}}

    given = {"Steps": [register(own)]}
    found = derive(given, NAMES)
    assert found == derive({"Steps": [register("Models")]}, NAMES)
    policies = {policy.role: policy.statements for policy in found.policies}
    assert all(decide(request, policies[request.role]) == "allowed" for request in requests(given, NAMES))


def test_the_conditions_of_a_pipeline_read_numbers_that_another_role_encrypted() -> None:
    numbers = f"{KEY}/numbers"
    step = processing(
        "evaluate",
        {},
        (),
        PropertyFiles=[{"PropertyFileName": "m", "OutputName": "out", "FilePath": "metrics.json"}],
        ProcessingOutputConfig={
            "Outputs": [{"OutputName": "out", "S3Output": {"S3Uri": "s3://numbers/here"}}],
            "KmsKeyId": numbers,
        },
    )
    found = derive({"Steps": [step]}, NAMES)
    assert decision(found, "pipeline", "kms:Decrypt", numbers, by_s3(NAMES)) == "allowed"
    assert decision(found, "pipeline", "kms:Decrypt", numbers, {}) == "implicitly denied"
    assert decision(found, "pipeline", "kms:GenerateDataKey", numbers, by_s3(NAMES)) == "implicitly denied"
