"""The IAM roles of a pipeline, one a kind of work, with the policies that are derived from its definition.

Findings of cdk-nag that are meant to be are acknowledged, each with its reason beside the thing it is about. cdk-nag
knows every `*` in a policy as a finding of its own. In the derived policies a `*` stands behind the beginning of a
name, for what only an execution knows; the few that do not are listed with their reasons (`UNSCOPED`, `UNNAMED`). What
is neither stays a finding, and the synthesis fails.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Validations
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

from drivetrain.infra.options import ContinuousIntegration
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.operators import trust_token
from drivetrain.targets.sagemaker.permissions.policies import CI, DESTROYER, why_wild
from drivetrain.targets.sagemaker.permissions.policy import Policy, Statement, Trust, conditions_json

ISSUER = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"
WILDCARDS = "AwsSolutions-IAM5"


class Roles(Construct):
    """A role for each policy, by its ARN."""

    def __init__(self, scope: Construct, policies: Iterable[Policy], names: Names) -> None:
        super().__init__(scope, "Roles")
        self.by_arn: dict[str, iam.Role] = {}
        for policy in policies:
            self.by_arn[policy.role] = self._role(policy, names)

    def _role(self, policy: Policy, names: Names) -> iam.Role:
        taken = {child.node.id for child in self.node.children}
        path, _, name = policy.role.partition(":role/")[2].rpartition("/")
        made = iam.Role(
            self,
            "-".join(policy.kinds) if len(policy.kinds) == 1 and policy.kinds[0] not in taken else name,
            role_name=name,
            path=f"/{path}/" if path else None,
            description=f"Pipeline {names.pipeline}: {', '.join(policy.kinds)}",
            assumed_by=iam.CompositePrincipal(*map(principal, policy.trust)),
            inline_policies={"derived": iam.PolicyDocument.from_json(policy.to_json())},
            max_session_duration=Duration.hours(1),
        )
        acknowledge_wildcards(made, policy.statements)
        return made


def principal(trust: Trust) -> iam.PrincipalBase:
    """The principal that may assume a role."""
    conditions = conditions_json(trust.conditions)
    if trust.provider is not None:
        return iam.WebIdentityPrincipal(trust.provider, conditions)
    assert trust.service is not None
    return iam.ServicePrincipal(trust.service, conditions=conditions)


def ci_trusts(scope: Construct, ci: ContinuousIntegration, names: Names) -> dict[str, Trust]:
    """Kind of role -> GitHub's runs of one repository, by the account's OpenID provider."""
    provider = f"arn:{names.partition}:iam::{names.account}:oidc-provider/{ISSUER}"
    if ci.provider == "make":
        made = iam.CfnOIDCProvider(scope, "GitHub", url=f"https://{ISSUER}", client_id_list=[AUDIENCE])
        made.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)  # roles of other stacks trust it, too
        provider = made.attr_arn
    return {
        kind: trust_token(provider, ISSUER, AUDIENCE, [f"repo:{ci.repository}:{subject}" for subject in subjects])
        for kind, subjects in ((CI, ci.subjects), (DESTROYER, ci.destroy_subjects))
        if subjects
    }


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
