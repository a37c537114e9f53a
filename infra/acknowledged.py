"""Findings of cdk-nag that are meant to be, each with its reason beside the thing it is about.

cdk-nag knows every `*` in a policy as a finding of its own. In the derived policies a `*` stands behind the beginning
of a name, for what only an execution knows; the few that do not are listed with their reasons (`UNSCOPED`, `UNNAMED`).
What is neither stays a finding, and the synthesis fails.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct

from drivetrain.targets.sagemaker.permissions.policies import why_wild
from drivetrain.targets.sagemaker.permissions.policy import Statement

WILDCARDS = "AwsSolutions-IAM5"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Say why a finding stays."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_wildcards(construct: IConstruct, statements: Iterable[Statement]) -> None:
    """Say of each `*` in a derived policy what it stands for, where every statement that has it can."""
    reasons: dict[str, list[str | None]] = {}
    for statement in statements:
        for resource in statement.resources:
            if "*" in resource:
                why = why_wild(statement, resource)
                reasons.setdefault(resource, []).append(None if why is None else f"{statement.sid}: {why}")
    for resource, said in reasons.items():
        given = [why for why in dict.fromkeys(said) if why is not None]
        if None not in said:
            acknowledge(construct, f"{WILDCARDS}[Resource::{resource}]", ". ".join(given))
