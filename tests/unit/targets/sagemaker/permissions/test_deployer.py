"""The deployer's and destroyer's roles against the commands: what their code calls is allowed, and no other action."""

import ast
from collections.abc import Iterator
from pathlib import Path

import drivetrain
from drivetrain.targets.sagemaker.document.step_types import JOBS_OF_METADATA
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.policies import CI, DESTROYER, derive
from tests.fixtures.every_permission import ACCOUNT, BUCKET_KEY, REGION, ROLE, definition

# What S3 calls the permission; the others have the call's own name.
S3 = {
    "list_objects_v2": "s3:ListBucket",
    "get_object": "s3:GetObject",
    "put_object": "s3:PutObject",
    "delete_objects": "s3:DeleteObject",
    "get_bucket_encryption": "s3:GetEncryptionConfiguration",
}
# Calls whose name stands in a variable: of schedules, and of the jobs of each kind.
CHOSEN = {"create_schedule": "scheduler", "update_schedule": "scheduler"}
FREE = {"sts:GetCallerIdentity"}
"""Allowed to everybody: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html"""
INDIRECT = {"iam:PassRole", "kms:Decrypt", "kms:GenerateDataKey"}
"""Asked by the services on the way."""


def calls() -> Iterator[str]:
    """IAM's name of every call in the code of plan, apply, start and the like."""
    folder = Path(drivetrain.__file__).parent / "targets" / "sagemaker"
    for path in (folder / "account.py", *sorted((folder / "deploy").rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                given = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
                if node.func.attr in ("call", "find", "pages") and len(given) == 2:
                    yield permission(str(given[0]), str(given[1]))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in CHOSEN:
                yield permission(CHOSEN[node.value], node.value)
    for job in JOBS_OF_METADATA.values():  # whatever an execution's steps have started
        yield permission("sagemaker", job.describe)


def permission(service: str, operation: str) -> str:
    if service == "s3":
        return S3[operation]
    return f"{service}:{''.join(part.title() for part in operation.split('_'))}"


def test_the_deployer_may_call_what_the_commands_call_and_nothing_else() -> None:
    names = Names(
        partition="aws",
        region=REGION,
        account=ACCOUNT,
        pipeline="nightly",
        bucket="acme",
        prefix="pipelines",
        pipeline_role=f"{ROLE}pipeline",
        bucket_key=BUCKET_KEY,
    )
    derived = derive(definition(), names)
    allowed: set[str] = set()
    for kind in (CI, DESTROYER):
        policy = derived.of(kind)
        assert policy is not None
        of_kind = {action for statement in policy.statements for action in statement.actions}
        assert ("s3:DeleteObject" in of_kind) == (kind == DESTROYER)
        allowed |= of_kind
    called = set(calls()) - FREE
    assert len(called) > 25
    assert called - allowed == set()
    assert allowed - called - INDIRECT == set()
