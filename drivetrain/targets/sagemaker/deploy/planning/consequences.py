"""The consequences of a plan: what the next execution runs and costs, what roles must be allowed and no longer need,
and warnings: default quotas, services that AWS retires, images that AWS no longer patches. Quotas can be raised and
images still run, so nothing is refused.

The policies are those of permissions/, derived from the deployed definition and from the code's.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drivetrain.base.json_text import object_in
from drivetrain.catalog import quotas
from drivetrain.deploying.plan import Forecast
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployed import Deployed
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.executions import execution_report
from drivetrain.targets.sagemaker.document.document import StepNode, from_json
from drivetrain.targets.sagemaker.document.retirements import endings
from drivetrain.targets.sagemaker.images import unpatched
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.policies import CI, DESTROYER, SCHEDULES, STARTER, derive
from drivetrain.targets.sagemaker.prices.estimate import estimate, lines_of
from drivetrain.targets.sagemaker.refusals import AbsentError, ServiceError

# Roles that a definition does not change: the deployer's, the destroyer's, and those of what stands between a trigger
# and the pipeline.
OTHERS = frozenset((CI, DESTROYER, SCHEDULES, STARTER))
MAX_PERMISSIONS = 6
NEARLY = 0.8
Json = dict[str, Any]


def findings(steps: Sequence[Forecast], permissions: Json | None, cost: Json | None, *, is_new: bool) -> Iterator[str]:
    """All of it in a plan, line by line."""
    cached = [step.step for step in steps if step.cached]
    running = [step for step in steps if not step.cached]
    if cached:
        yield f"From the cache, where the last execution succeeded: {', '.join(cached)}"
    if running and all(step.why == ("it is new",) for step in running):
        yield f"To run: {', '.join(step.step for step in running)}"
    else:
        for step in running:
            yield f"To run: {step.step} ({', '.join(step.why)})"
    if permissions is not None:
        yield from _permission_lines(permissions, is_new=is_new)
    if cost is not None:
        yield "An execution costs:"
        yield from (f"    {line}" for line in cost["lines"])


def _permission_lines(said: Json, *, is_new: bool) -> Iterator[str]:
    """Describe the changed permissions of roles; for a new pipeline only their number, since all are new."""
    for role, change in said["roles"].items():
        name = role.rpartition("/")[2]
        if is_new:
            yield f"Role {name} needs {len(change['added'])} permissions (docs/infrastructure.md makes them)"
            continue
        for sign, entries in (("+", change["added"]), ("-", change["removed"])):
            for action, resource, _ in entries[:MAX_PERMISSIONS]:
                yield f"{sign} role {name}: {action} on {resource}"
            if len(entries) > MAX_PERMISSIONS:
                yield f"{sign} role {name}: {len(entries) - MAX_PERMISSIONS} more"
    for note in said["notes"]:
        yield f"note: {note}"


def cost_of(account: Account, wanted: Desired, deployed: Deployed | None) -> Json:
    """An estimate of an execution, with its `lines` for people."""
    seconds: Mapping[str, float] = {}
    more: list[str] = []
    try:
        if deployed is not None:
            seconds = execution_report.measured_seconds(account, wanted.name)
    except ServiceError as error:  # an estimate is no reason to have no plan
        more = [f"how long earlier executions took is not known: {error}"]
    found = estimate(wanted.definition, region=account.region, seconds=seconds)
    return {**found.to_json(), "lines": [*lines_of(found), *more]}


def consequences(account: Account, wanted: Desired, deployed: Mapping[str, Any] | None, role: str | None) -> Json:
    """`roles`: role -> `added` and `removed` permissions (action, resource, why); `notes` of what cannot be derived.

    Args:
        deployed: the definition that is deployed; None where none is, and all is new.
        role: the pipeline's role as it is deployed.

    Raises:
        UserError: a definition whose references cannot be read.
    """
    bucket, _, prefix = wanted.root.removeprefix("s3://").partition("/")
    key, unread = bucket_key(account, bucket)
    names = Names(
        partition=account.partition,
        region=account.region,
        account=account.number,
        pipeline=wanted.name,
        bucket=bucket,
        prefix=prefix,
        pipeline_role=wanted.role,
        bucket_key=key,
    )
    after, notes = _permissions(wanted.definition, names)
    before = {} if deployed is None else _permissions(deployed, replace(names, pipeline_role=role or wanted.role))[0]
    roles: dict[str, Json] = {}
    for name in sorted({*before, *after}):
        old, new = before.get(name, {}), after.get(name, {})
        added = [[*key, new[key]] for key in sorted(new) if key not in old]
        removed = [[*key, old[key]] for key in sorted(old) if key not in new]
        if added or removed:
            roles[name] = {"added": added, "removed": removed}
    return {"roles": roles, "notes": [*notes, *unread]}


def bucket_key(account: Account, bucket: str) -> tuple[str | None, tuple[str, ...]]:
    """ARN of the account's own KMS key that the bucket encrypts with, None without one; and what could not be read.

    AWS's own keys (SSE-S3, `aws/s3`) need no permission of a role in the same account.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
    """
    try:
        said = account.call("s3", "get_bucket_encryption", about=f"bucket {bucket!r}", Bucket=bucket)
    except AbsentError:
        return None, ()
    except ServiceError as error:  # permissions are told as far as they can be
        return None, (f"whether the roles need the key of bucket {bucket!r} is not known: {error}",)
    rules = object_in(said, "ServerSideEncryptionConfiguration").get("Rules") or ()
    for rule in rules:
        given = object_in(rule, "ApplyServerSideEncryptionByDefault").get("KMSMasterKeyID")
        if given is None or str(given).endswith("alias/aws/s3"):
            continue
        if "alias/" in given:
            return None, (
                f"bucket {bucket!r} encrypts with {given}; policies name keys and no aliases, so which key the roles "
                "need is not shown",
            )
        return str(given) if str(given).startswith("arn:") else account.arn("kms", f"key/{given}"), ()
    return None, ()


def _permissions(
    definition: Mapping[str, Any], names: Names
) -> tuple[dict[str, dict[tuple[str, str], str]], tuple[str, ...]]:
    """Role -> (action, resource) -> what needs it."""
    derived = derive(definition, names)
    found: dict[str, dict[tuple[str, str], str]] = {}
    for policy in derived.policies:
        if set(policy.kinds) & OTHERS:
            continue
        for statement in policy.statements:
            for action in statement.actions:
                for resource in statement.resources:
                    found.setdefault(policy.role, {})[action, resource] = statement.reason
    return found, derived.notes


def warnings(wanted: Desired) -> tuple[str, ...]:
    """A sentence each; the figures are those of quotas.py, with their sources."""
    return tuple(dict.fromkeys(_warnings(wanted)))


def _warnings(wanted: Desired) -> Iterator[str]:
    size = len(wanted.text)
    if size > quotas.MAX_DEFINITION_CHARACTERS:
        yield (
            f"The definition has {size:,} characters, more than the {quotas.MAX_DEFINITION_CHARACTERS:,} of a request: "
            "it goes through the bucket, whose folder `applied` the pipeline's role must be able to read."
        )
    elif size > NEARLY * quotas.MAX_DEFINITION_CHARACTERS:
        yield f"The definition has {size:,} of {quotas.MAX_DEFINITION_CHARACTERS:,} characters that a request takes."
    definition = from_json(dict(wanted.definition), "the compiled definition")
    for step in definition.all_steps:
        if step.type == "Training":
            yield from _training(step)
    yield from endings(definition)
    yield from unpatched(wanted.definition, datetime.datetime.now(datetime.UTC).date())


def _training(step: StepNode) -> Iterator[str]:
    resources = object_in(step.arguments, "ResourceConfig")
    stopping = object_in(step.arguments, "StoppingCondition")
    for given, most, what in (
        (resources.get("InstanceCount"), quotas.DEFAULT_INSTANCES_PER_TRAINING_JOB, "instances of a training job"),
        (stopping.get("MaxRuntimeInSeconds"), quotas.DEFAULT_MAX_RUN_SECONDS, "seconds of a training job"),
        (
            resources.get("KeepAlivePeriodInSeconds"),
            quotas.DEFAULT_WARM_POOL_SECONDS,
            "seconds that a warm pool is kept",
        ),
    ):
        if isinstance(given, int) and given > most:
            yield (
                f"{step.name}: {given:,} {what}; a new account may have {most:,}. Ask for a higher quota where yours "
                "is not raised yet."
            )
