"""The state of the account that the code asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from drivetrain.assets.assets import Asset
from drivetrain.base.errors import UserError
from drivetrain.catalog import quotas
from drivetrain.deploying.project import project_of
from drivetrain.targets.sagemaker.deploy.deployed import ALL_OURS, AccountPipeline
from drivetrain.targets.sagemaker.deploy.ownership import Owner
from drivetrain.targets.sagemaker.deploy.planning.account_resources import fields, record_of
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger, desired_triggers
from drivetrain.targets.sagemaker.deploy.wire import digest_of, wire_text
from drivetrain.targets.sagemaker.permissions.names import role_account
from drivetrain.targets.sagemaker.settings import Settings, settings_of
from drivetrain.triggers.looking import refuse_data_that_never_change

if TYPE_CHECKING:
    from drivetrain.spec.deployment import Deployment
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.sagemaker.account import Account
    from drivetrain.targets.sagemaker.compile.compile import Compiled

RESERVED_TAGS = "drivetrain:"


@dataclass(frozen=True, kw_only=True)
class Desired(AccountPipeline):
    """A compiled pipeline with all that belongs to it in the account."""

    root: str
    definition: Mapping[str, Any] = field(repr=False)
    assets: tuple[Asset, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    project: str = ""

    @property
    def owner(self) -> Owner:
        return Owner(self.root, self.project)

    @cached_property
    def text(self) -> str:
        """The definition as it is sent."""
        return wire_text(self.definition)

    @cached_property
    def sha256(self) -> str:
        return digest_of(self.text)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that apply would write: another one, and a saved plan is of other code."""
        said = {
            **self.properties,
            "definition": self.sha256,
            "owner": self.owner.tag,
            "assets": sorted(asset.uri for asset in self.assets),
            "tags": dict(self.tags),
            "triggers": [trigger.to_json() for trigger in self.triggers],
        }
        # How the ARN is spelled is known only when there is a pipeline, and is nothing that the code says.
        return digest_of(json.dumps(said, sort_keys=True).replace(self.arn, self.arn.lower()))

    @cached_property
    def surroundings(self) -> str:
        """All but the definition, as apply keeps it."""
        return record_of(fields(self, self.tags))

    def at(self, arn: str) -> Desired:
        """The same, for a pipeline that has this ARN."""
        if arn == self.arn:
            return self
        said = json.dumps([trigger.to_json() for trigger in self.triggers]).replace(self.arn, arn)
        return replace(self, arn=arn, triggers=tuple(AccountTrigger.from_json(item) for item in json.loads(said)))


def desired(compiled: Compiled, account: Account, arn: str | None = None) -> Desired:
    """Work out the desired state of `compiled` in `account`.

    Args:
        arn: the pipeline's, where there is one: the service decides how a name is spelled in it.

    Raises:
        UserError: settings that are good for this machine only, a role of another account, a tag that is ours.
    """
    pipeline = compiled.pipeline
    refuse_data_that_never_change(pipeline)
    arn = _checked(pipeline.name, settings_of(pipeline.deployment), pipeline.tags, account, arn)
    return replace(
        of_pipeline(pipeline, arn),
        definition=compiled.definition,
        assets=compiled.assets,
        triggers=desired_triggers(pipeline, account, arn),
        notes=compiled.notes,
    )


def desired_definition(
    name: str, definition: Mapping[str, Any], deployment: Deployment, account: Account, arn: str | None = None
) -> Desired:
    """A definition as it came, such as one that was imported, deployed under a name.

    Raises:
        UserError: as `desired`.
    """
    arn = _checked(name, settings_of(deployment), {}, account, arn)
    return of_definition(name, definition, deployment, arn)


def of_pipeline(pipeline: Pipeline, arn: str) -> Desired:
    """The desired properties of a pipeline beside its definition and triggers."""
    return replace(
        of_definition(pipeline.name, {}, pipeline.deployment, arn),
        display_name=pipeline.display_name or pipeline.name,
        description=pipeline.description or "",
        max_parallel=pipeline.max_parallel_steps or quotas.DEFAULT_PARALLEL_STEPS,
        tags=dict(pipeline.tags),
    )


def of_definition(name: str, definition: Mapping[str, Any], deployment: Deployment, arn: str) -> Desired:
    """A definition that says nothing of what is beside it, deployed by these settings."""
    place = settings_of(deployment)
    return Desired(
        name=name,
        arn=arn,
        root=place.root,
        definition=definition,
        assets=(),
        role=place.role,
        display_name=name,
        description="",
        max_parallel=quotas.DEFAULT_PARALLEL_STEPS,
        tags={},
        project=project_of(deployment),
    )


def _checked(name: str, place: Settings, tags: Mapping[str, str], account: Account, arn: str | None) -> str:
    """The pipeline's ARN, when nothing speaks against deploying it there."""
    check_place(place)
    _, owner = role_account(place.role)
    if owner != account.number:
        raise UserError(
            f"deployment.targets.sagemaker.role is of account {owner}, and these credentials are of account "
            f"{account.number}. Use credentials of the role's account (AWS_PROFILE=...), or give a role of this one: "
            "--set deployment.targets.sagemaker.role=ARN"
        )
    for tag in tags:
        if tag.lower().startswith((RESERVED_TAGS, "aws:")):
            raise UserError(f"Tag {tag!r} of the pipeline: names that begin with {RESERVED_TAGS} and aws: are taken.")
    most = quotas.MAX_TAGS - len(ALL_OURS)
    if len(tags) > most:
        raise UserError(
            f"The pipeline has {len(tags)} tags. Allowed: {most}; {quotas.MAX_TAGS - most} of {quotas.MAX_TAGS} are "
            "drivetrain's."
        )
    return arn or account.arn("sagemaker", f"pipeline/{name}")


def check_place(place: Settings, *names: str) -> None:
    """Refuse the defaults of these settings (bucket and role unless given), which name none of an account.

    Raises:
        UserError: naming the setting to give.
    """
    for name in names or ("bucket", "role"):
        given = getattr(place, name)
        if given == getattr(Settings(), name):
            raise UserError(
                f"deployment.targets.sagemaker.{name} is not set: {given!r} stands for this machine. Say where the "
                f"pipeline lives, in the settings file or with --set deployment.targets.sagemaker.{name}=... "
                "(docs/deploying.md)."
            )
