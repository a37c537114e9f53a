"""Options of the stack beside what a pipeline always needs: a file of a few lines, by default nothing.

notify: [ops@example.com]
ci: {repository: acme/models}
network: {zones: 2}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from drivetrain.authoring.plain_yaml import read_yaml
from drivetrain.base.errors import UserError
from drivetrain.spec import Frozen, FrozenMap

Days = Annotated[int, Field(ge=1, le=3_650)]
# What CloudWatch takes: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
LogDays = Literal[
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653
]
MAX_ZONES = 6
# What every service takes of a tag: https://docs.aws.amazon.com/tag-editor/latest/userguide/tagging.html
_TAG_NAME, _TAG_VALUE = re.compile(r"[\w .:/=+@-]{1,128}"), re.compile(r"[\w .:/=+@-]{0,256}")
Status = Literal["Executing", "Stopping", "Stopped", "Failed", "CompletedWithFailures", "Succeeded"]


_Subject = Annotated[str, Field(pattern=r"^[\w-]+:[\w./-]+$")]


class ContinuousIntegration(Frozen):
    """Permission to deploy for jobs of a repository on GitHub, by a token for each run and no stored secret."""

    repository: Annotated[str, Field(pattern=r"^([\w.-]+/[\w.-]+|[\w.-]+@\d+/[\w.-]+@\d+)$")]
    """OWNER/NAME or, of one that was made, renamed or moved since 15 July 2026, OWNER@ID/NAME@ID, as its tokens have it
    (https://github.blog/changelog/2026-04-23-immutable-subject-claims-for-github-actions-oidc-tokens)."""
    subjects: Annotated[tuple[_Subject, ...], Field(min_length=1)] = ("ref:refs/heads/main",)
    """The runs that may deploy: `ref:refs/heads/main`, `environment:production`, ...; no `*`, which also is every pull
    request."""
    destroy_subjects: tuple[_Subject, ...] = ()
    """The runs that may destroy the pipeline, under a role of its own, such as `environment:destroy`; by default
    none."""
    provider: Literal["make", "existing"] = "make"
    """The account's OpenID provider for GitHub. An account has one: `existing` where it is there already."""

    @field_validator("destroy_subjects")
    @classmethod
    def _are_others(cls, given: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if both := sorted(set(given) & set(info.data.get("subjects", ()))):
            raise ValueError(
                f"{both[0]} also deploys: a run that holds both roles could delete code and put other code in its "
                "place. Name other runs, such as environment:destroy"
            )
        return given


class PrivateNetwork(Frozen):
    """A network without a way to the internet, for jobs: AWS's services are reached by endpoints in it."""

    zones: int | tuple[str, ...] = 2
    """Availability zones: how many, or their names. Machines of one training stand in one of them."""
    cidr: str = "10.80.0.0/16"

    @field_validator("zones")
    @classmethod
    def _are_zones(cls, given: int | tuple[str, ...]) -> int | tuple[str, ...]:
        names = () if isinstance(given, int) else given
        count = given if isinstance(given, int) else len(set(names))
        if not 1 <= count <= MAX_ZONES or not all(re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d[a-z]", name) for name in names):
            raise ValueError(f"allowed are 1 to {MAX_ZONES}, or as many names, such as [eu-west-1a, eu-west-1b]")
        return given

    @field_validator("cidr")
    @classmethod
    def _is_network(cls, given: str) -> str:
        from ipaddress import IPv4Network

        if not 16 <= IPv4Network(given).prefixlen <= 24:  # each zone gets a part of it
            raise ValueError("allowed are networks of /16 to /24")
        return given


class Spaces(Frozen):
    """The wheel of drivetrain that spaces of Studio get: one that you built, not what an index has under the name."""

    source: Annotated[
        str, Field(pattern=r"^(s3://[a-z0-9.-]{3,63}|https://[\w.-]+(:\d+)?)(/[\w.+=@-]+)*/[\w.+-]+\.whl$")
    ]
    """s3://BUCKET/KEY.whl, which the role of the space must be able to read, or the https:// URL of the file."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The hash of the file; another one is not installed."""


class Options(Frozen):
    """The choices of a deployment; see docs/infrastructure.md."""

    bucket: Literal["make", "existing"] = "make"
    """Have the stack make deployment.targets.sagemaker.bucket; with `existing` its key is `bucket_key`."""
    bucket_key: Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+$")] | None = None
    """ARN of the KMS key of a bucket that is there already."""
    checkpoint_days: Days = 30
    """Checkpoints are deleted so long after they were written."""
    old_version_days: Days = 30
    """How long what was overwritten or deleted can be restored."""
    log_days: LogDays = 90
    log_groups: Literal["make", "existing"] = "existing"
    """SageMaker's log groups, which are the account's: an account that ever ran a job has them. `make` in a new one."""
    existing_groups: tuple[str, ...] = ()
    """Model package groups that are there already."""
    triggers: Literal["apply", "stack"] = "apply"
    """The writer of rules and schedules: `drivetrain apply` with the pipeline, or this stack."""
    notify: tuple[Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$")], ...] = ()
    """Mail addresses that are told how executions end, and of events that came to nothing."""
    notify_on: Annotated[tuple[Status, ...], Field(min_length=1)] = (
        "Failed",
        "CompletedWithFailures",
        "Stopped",
    )
    termination_protection: bool = False
    """Once a deployment has succeeded: a protected stack whose creation failed cannot be made again."""
    ci: ContinuousIntegration | None = None
    network: PrivateNetwork | None = None
    studio: Spaces | None = None
    """A lifecycle configuration that puts drivetrain into new spaces of Studio."""
    parameters: FrozenMap[tuple[str, ...]] = Field(default_factory=dict)
    """Parameter -> S3 places and the like that executions may be started with, beside default and choices."""
    tags: FrozenMap[str] = Field(default_factory=dict)

    @field_validator("tags")
    @classmethod
    def _are_tags(cls, given: Mapping[str, str]) -> Mapping[str, str]:
        for name, value in given.items():
            if name.lower().startswith(("aws:", "drivetrain:")):
                raise ValueError(f"names that begin with aws: or drivetrain: are taken, such as {name!r}")
            if not _TAG_NAME.fullmatch(name) or not _TAG_VALUE.fullmatch(value):
                raise ValueError(
                    f"{name!r:.80} is no tag. Allowed: letters, digits, spaces and _.:/=+-@, 1 to 128 of them in its "
                    "name, at most 256 in its value"
                )
        return given


def read_options(path: Path | None) -> Options:
    """The options in a YAML file; the defaults without one.

    Raises:
        UserError: the file cannot be read, or a field is unknown or wrong.
    """
    if path is None:
        return Options()
    try:
        return Options.model_validate(read_yaml(path))
    except ValidationError as error:
        first, *others = error.errors()
        place = ".".join(map(str, first["loc"])) or "the file"
        more = f" ({len(others)} more)" if others else ""
        said = "Write it as a list, such as [NAME]" if first["type"] == "tuple_type" else first["msg"]
        raise UserError(f"{path}: {place}: {said}; given {first['input']!r:.80}.{more}") from None
