"""A model package group, which fields of the service name by its name or, as of a shared registry, by its ARN."""

from __future__ import annotations

import re

from drivetrain.base.records import dataclass

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateModelPackage.html
_ARN = re.compile(r"arn:(aws[a-z-]*):sagemaker:([a-z0-9-]*):(\d{12}):model-package-group/(.+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ModelGroup:
    """A group's name, and whose it is where an ARN says so."""

    name: str
    partition: str | None = None
    region: str | None = None
    account: str | None = None
    """None where the name alone was given: of the account and region that are asked."""

    def is_of(self, account: str, region: str) -> bool:
        """Return True if the group belongs to an account and region; a bare name belongs to any."""
        return self.account is None or (self.account, self.region) == (account, region)


# As MLflow's sync names the group of a registered model: with six hex digits of a SHA-256 behind the name.
_SYNCED = re.compile(r"(.+)-[0-9a-f]{6}", re.DOTALL)


def synced_group(group: str) -> str | None:
    """The registered model of MLflow whose versions a group may hold, by the group's name; None for other names."""
    found = _SYNCED.fullmatch(group)
    return None if found is None else found[1]


def model_group(text: str) -> ModelGroup:
    """The group that a name or an ARN names."""
    found = _ARN.fullmatch(text)
    if found is None:
        return ModelGroup(name=text)
    partition, region, account, name = found.groups()
    return ModelGroup(name=name, partition=partition, region=region, account=account)
