"""Findings of cdk-nag that are meant to be, each with its reason beside the thing it is about.

cdk-nag knows every `*` in a policy as a finding of its own. In the derived policies each `*` stands for what only an
execution knows (its id, names of jobs), or for actions without a resource; the reason is the statement's.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct

from drivetrain.pipelines.targets.sagemaker.permissions.policies import UNSCOPED
from drivetrain.pipelines.targets.sagemaker.permissions.policy import Statement

WILDCARDS = "AwsSolutions-IAM5"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Say why a finding stays."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_wildcards(construct: IConstruct, statements: Iterable[Statement]) -> None:
    """Say of each `*` in a derived policy what it stands for."""
    reasons: dict[str, list[str]] = {}
    for statement in statements:
        for resource in statement.resources:
            if "*" not in resource:
                continue
            why = statement.reason
            if resource == "*":
                why = "; ".join(f"{action}: {UNSCOPED[action]}" for action in statement.actions)
            reasons.setdefault(resource, []).append(f"{statement.sid}: {why}")
    for resource, said in reasons.items():
        acknowledge(construct, f"{WILDCARDS}[Resource::{resource}]", ". ".join(dict.fromkeys(said)))
