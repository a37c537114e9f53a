"""The policy of every role that a pipeline needs, derived from its definition.

    for policy in derive(compiled.definition, names).policies: print(policy.role, policy.to_json())

A role serves every job that names it: where the deployment names one role for all, that role gets all of it, and a
note says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from drivetrain.catalog.quotas import MAX_DEFINITION_CHARACTERS
from drivetrain.targets.sagemaker.deploy.wire import wire_text
from drivetrain.targets.sagemaker.document.document import Definition, from_json
from drivetrain.targets.sagemaker.permissions.job_roles import job_statements
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.operators import (
    LAMBDA,
    SCHEDULER,
    deployer_statements,
    destroyer_statements,
    scheduler_statements,
    starter_statements,
    trust_service,
)
from drivetrain.targets.sagemaker.permissions.pipeline_role import SAGEMAKER, pipeline_statements
from drivetrain.targets.sagemaker.permissions.places import PATTERNS, S3Place
from drivetrain.targets.sagemaker.permissions.policy import MAX_POLICY_CHARACTERS, Policy, Statement, Trust, condensed
from drivetrain.targets.sagemaker.permissions.reading import read_uses
from drivetrain.targets.sagemaker.permissions.uses import Use

PIPELINE, SCHEDULES, STARTER, CI, DESTROYER = "pipeline", "scheduler", "starter", "ci", "destroyer"

# Actions that stand with the resource `*`, and why: the Service Authorization Reference lists no resource for them.
# Each is bound by a condition instead.
# https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
UNSCOPED: Mapping[str, str] = {
    "cloudwatch:PutMetricData": "no resource but CloudWatch's own data sets; bound to the namespace of the job's kind",
    "ec2:DescribeDhcpOptions": "no resource; bound to the region",
    "ec2:DescribeNetworkInterfaces": "no resource; bound to the region",
    "ec2:DescribeSecurityGroups": "no resource; bound to the region",
    "ec2:DescribeSubnets": "no resource; bound to the region",
    "ec2:DescribeVpcs": "no resource; bound to the region",
    "ecr:GetAuthorizationToken": "no resource; a token gives nothing without the actions on a repository",
    "elasticmapreduce:RunJobFlow": "no resource before the cluster is there; bound to the region",
    "emr-serverless:CreateApplication": "no resource before the application is there; bound to the region",
    "events:ListRules": "no resource; bound to the region",
    "sagemaker:ListModelPackageGroups": "no resource; bound to the region",
    "sagemaker:ListModelPackages": "a list is of no single version; bound to the region",
    "sagemaker:ListPipelines": "no resource; bound to the region",
    "scheduler:ListSchedules": "no resource; bound to the region",
    "ssmmessages:CreateControlChannel": "no resource; bound to the region",
    "ssmmessages:CreateDataChannel": "no resource; bound to the region",
    "ssmmessages:OpenControlChannel": "no resource; bound to the region",
    "ssmmessages:OpenDataChannel": "no resource; bound to the region",
}

# Resources with unknown names, and why they are unknown. Any other wildcard must follow the beginning of a name, or it
# would match everything of its kind in the account.
UNNAMED: Mapping[str, str] = {
    "ec2:network-interface/": "an interface gets its id from a job; changing one is bound to the job's subnets",
    "elasticmapreduce:cluster/": "a cluster gets its id when a step makes it",
    "emr-serverless:/applications/": "an application gets its id when a step makes it",
    "sagemaker:experiment-trial/": "a trial is called as its execution is",
    "sagemaker:pipeline/": "any pipeline of the account may use the code that destroy takes away",
    "sagemaker:hyper-parameter-tuning-job/": "its name begins with the execution's id, without a prefix",
}
_WILDCARD = re.compile(r"[*?]")
# A resource whose name has not begun yet: its kind alone, or nothing.
_KIND = re.compile(r"/?[a-z-]*[:/]?|schedule/default/")


def why_wild(statement: Statement, resource: str) -> str | None:
    """Why a statement's resource may have a wildcard where it has one; None where nothing says so.

    That a wildcard was derived is no reason by itself: either it stands behind the beginning of a name, for the
    statement's own reason, or `UNSCOPED` or `UNNAMED` lists it.
    """
    if resource == "*":
        reasons = [f"{action}: {UNSCOPED[action]}" for action in statement.actions if action in UNSCOPED]
        return "; ".join(reasons) if len(reasons) == len(statement.actions) and statement.conditions else None
    *_, service, _region, _account, name = resource.split(":", 5)
    known = _WILDCARD.split(name, maxsplit=1)[0]
    if service == "s3":
        return statement.reason if "/" in known else None
    return UNNAMED.get(f"{service}:{known}") if _KIND.fullmatch(known) else statement.reason


@dataclass(frozen=True)
class Derived:
    """The policies of all roles, and what could not be derived."""

    policies: tuple[Policy, ...]
    notes: tuple[str, ...]

    def of(self, kind: str) -> Policy | None:
        """The policy of the role that serves a kind of work."""
        return next((policy for policy in self.policies if kind in policy.kinds), None)


def derive(
    definition: Definition | Mapping[str, Any],
    names: Names,
    values: Mapping[str, Sequence[str]] | None = None,
    trusts: Mapping[str, Trust] | None = None,
) -> Derived:
    """The policies that deploying and running a definition takes, and no more.

    Args:
        values: parameter -> what an execution may be started with, beside its default and its choices.
        trusts: kind -> who may take the role of the deployer (CI) and of the destroyer on.

    Raises:
        UserError: a definition whose references cannot be read.
    """
    if not isinstance(definition, Definition):
        definition = from_json(dict(definition), names.pipeline)
    reading = read_uses(definition, names, PATTERNS, values)
    started = (trust_service(SAGEMAKER, names, ()),)
    # Of a definition that no request takes the service is told the record in the bucket. That it reads it under this
    # role is inferred.
    recorded = [S3Place(names.bucket, f"{names.root}/applied/*", whole=True)]
    long = len(wire_text(definition.raw)) > MAX_DEFINITION_CHARACTERS
    statements = pipeline_statements(reading, names, recorded if long else ())
    shares = [_Share(names.pipeline_role, (PIPELINE,), statements, started)]
    for role in dict.fromkeys(use.role for use in reading.uses if use.role is not None):
        uses = [use for use in reading.uses if use.role == role]
        shares.append(_Share(role, map(kind_of, uses), job_statements(uses, names, reading.encrypted), started))
    for kind, statements, trust in (
        (SCHEDULES, scheduler_statements(names), trust_service(SCHEDULER, names, ())),
        (STARTER, starter_statements(names), Trust(service=LAMBDA)),
        (CI, deployer_statements(reading, names), (trusts or {}).get(CI)),
        (DESTROYER, destroyer_statements(names), (trusts or {}).get(DESTROYER)),
    ):
        shares.append(_Share(names.role(kind), (kind,), statements, () if trust is None else (trust,)))
    roles = dict.fromkeys(share.role for share in shares)
    policies = tuple(_policy(role, [share for share in shares if share.role == role]) for role in roles)
    return Derived(policies, (*reading.notes, *_notes(policies)))


def kind_of(use: Use) -> str:
    """The kind of work that a job's role is for."""
    if use.type in ("Training", "Tuning"):
        return "training"
    if use.type in ("Model", "Transform"):
        return "serving"
    return "registry" if use.groups else "processing"


class _Share(NamedTuple):
    """The part of a role's policy that some kinds of work need."""

    role: str
    kinds: Iterable[str]
    statements: Iterable[Statement]
    trust: tuple[Trust, ...]


def _policy(role: str, shares: Sequence[_Share]) -> Policy:
    trust: list[Trust] = []
    for each in (each for share in shares for each in share.trust):
        if each not in trust:  # a role may serve several kinds of work: each of its services must be able to take it on
            trust.append(each)
    return Policy(
        role=role,
        kinds=tuple(dict.fromkeys(kind for share in shares for kind in share.kinds)),
        statements=condensed(statement for share in shares for statement in share.statements),
        trust=tuple(trust),
    )


def _notes(policies: Iterable[Policy]) -> Iterator[str]:
    for policy in policies:
        if len(policy.kinds) > 1:
            yield (
                f"role {policy.name!r} serves {', '.join(policy.kinds)} at once, and so holds what each of them "
                "needs. Give each its own: deployment.targets.sagemaker.roles (docs/infrastructure.md)."
            )
        if (size := len(json.dumps(policy.to_json(), separators=(",", ":")))) > MAX_POLICY_CHARACTERS:
            yield (
                f"role {policy.name!r}: its policy has {size:,} characters; IAM takes {MAX_POLICY_CHARACTERS:,} of "
                "a role. Give its jobs several roles, or fewer places."
            )
