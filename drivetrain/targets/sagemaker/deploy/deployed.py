"""Read the current state of the account: the pipeline, what apply wrote last, and what starts it.

What apply writes is kept in the bucket, as `{root}/{pipeline}/applied/{sha256 of the text}.json`, and its hash is a tag
of the pipeline. A pipeline with another definition was edited outside of apply, such as in Studio.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from drivetrain.base import json_text
from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.catalog import quotas
from drivetrain.targets.sagemaker.account import Account, is_of_aws
from drivetrain.targets.sagemaker.deploy.objects import get_text
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger, read_triggers
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.document.difference.difference import differences

APPLIED = "drivetrain:applied"
"""The tag with the hash of the definition that apply wrote last."""
APPLYING = "drivetrain:applying"
"""The tag with the hash of the definition that it is about to write: after a crash the pipeline holds either."""
OURS = (APPLIED, APPLYING)
AROUND = ("drivetrain:applied-surroundings", "drivetrain:applying-surroundings")
"""The same for what the pipeline is beside its definition (planning/account_resources.py)."""
OWNER = "drivetrain:owner"
"""The tag that names who deploys it (ownership.py)."""
ALL_OURS = (*OURS, *AROUND, OWNER)

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class AccountPipeline:
    """A pipeline in an account: what it is beside its definition."""

    name: str
    arn: str
    role: str
    display_name: str
    description: str
    max_parallel: int
    tags: Mapping[str, str]
    triggers: tuple[AccountTrigger, ...] = ()
    """Its rules and schedules."""

    @property
    def properties(self) -> Json:
        """The properties beside its definition, its tags, and its rules and schedules."""
        names = ("role", "display_name", "description", "max_parallel")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class Deployed(AccountPipeline):
    """A pipeline as DescribePipeline and ListTags answer, and its rules and schedules."""

    text: str = field(repr=False)
    modified: float | None = None
    """Seconds since the epoch."""
    modified_by: str | None = None

    @cached_property
    def definition(self) -> Json:
        """The definition, read.

        Raises:
            UserError: the service holds something that is no definition.
        """
        source = f"pipeline {self.name!r} in the account"
        value = json_text.parse(self.text, source)
        if not isinstance(value, dict):
            raise UserError(f"{source}: its definition is no JSON object.")
        return cast("Json", value)

    @property
    def ids(self) -> Mapping[str, str]:
        """The identifiers of the pipeline for scripts."""
        return {"arn": self.arn}

    @property
    def is_ours(self) -> bool:
        """True if apply made it, or took it over."""
        return any(tag in self.tags for tag in OURS)

    def as_foreign(self) -> Deployed:
        """Seen as a pipeline of another owner: it is unknown what apply wrote last."""
        return replace(self, tags={name: value for name, value in self.tags.items() if name not in ALL_OURS})

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that a plan goes by: another one, and the plan is stale."""
        said = {
            **self.properties,
            "arn": self.arn,
            "definition": digest_of(self.text),
            "tags": {name: self.tags.get(name) for name in ALL_OURS},
            "triggers": [trigger.to_json() for trigger in self.triggers],
        }
        return digest_of(json.dumps(said, sort_keys=True))


NOTHING = digest_of("no pipeline")
"""The fingerprint where there is no pipeline."""


def fingerprint(deployed: Deployed | None) -> str:
    """The fingerprint of this state, which a plan made for it holds."""
    return NOTHING if deployed is None else deployed.fingerprint


def read(account: Account, name: str) -> Deployed | None:
    """The pipeline of that name; None if it is missing.

    Raises:
        ServiceError: AWS refuses.
        UserError: AWS manages it.
    """
    there = read_pipeline(account, name)
    if there is None:
        return None
    if is_of_aws(there.arn):
        raise UserError(
            f"Pipeline {name!r} is managed by AWS ({there.arn}): it can be neither pulled nor changed. Give the name "
            "of another one."
        )
    return replace(there, tags=read_tags(account, name, there.arn), triggers=read_triggers(account, name, there.arn))


def read_tags(account: Account, name: str, arn: str) -> dict[str, str]:
    """The tags of the pipeline of that name.

    Raises:
        ServiceError: AWS refuses.
    """
    tags = account.pages("sagemaker", "list_tags", "Tags", about=f"tags of pipeline {name!r}", ResourceArn=arn)
    return {str(tag["Key"]): str(tag["Value"]) for tag in tags}


def read_pipeline(account: Account, name: str, version: int | None = None) -> Deployed | None:
    """The pipeline of that name without its tags and triggers, in one call; None if it is missing.

    Raises:
        ServiceError: AWS refuses.
    """
    which = {} if version is None else {"PipelineVersionId": version}
    said = account.find("sagemaker", "describe_pipeline", about=f"pipeline {name!r}", PipelineName=name, **which)
    if said is None:
        return None
    modified = said.get("LastModifiedTime")
    parallel = object_in(said, "ParallelismConfiguration")
    return Deployed(
        name=name,
        arn=str(said["PipelineArn"]),
        text=str(said.get("PipelineDefinition") or "{}"),
        role=str(said["RoleArn"]),
        display_name=str(said.get("PipelineDisplayName") or name),
        description=str(said.get("PipelineDescription") or ""),
        max_parallel=int(parallel.get("MaxParallelExecutionSteps") or quotas.DEFAULT_PARALLEL_STEPS),
        tags={},
        modified=None if modified is None else float(modified.timestamp()),
        modified_by=_who(object_in(said, "LastModifiedBy")),
    )


def _who(context: Json) -> str | None:
    """The Studio user or the role that wrote last, where the service says it."""
    return context.get("UserProfileName") or object_in(context, "IamIdentity").get("Arn") or None


def applied_uri(root: str, pipeline: str, sha256: str) -> str:
    """The URI of the definition with that hash."""
    return f"{root}/{pipeline}/applied/{sha256}.json"


class LostError(UserError):
    """The record of what apply wrote last is lost."""


def base_of(account: Account, deployed: Deployed, root: str) -> Json | None:
    """The definition of `applied_last`.

    Raises:
        LostError: as there.
    """
    found = applied_last(account, deployed, root)
    return None if found is None else found[1]


def applied_last(account: Account, deployed: Deployed, root: str) -> tuple[str, Json] | None:
    """The definition that apply wrote last, from which drift is told, and its hash; None where it never wrote this one.

    After a crash between two writes there are two candidates; the one nearer to the deployed definition is chosen.

    Raises:
        LostError: the record in the bucket is gone, or is not what its hash says.
    """
    hashes = [deployed.tags[tag] for tag in OURS if tag in deployed.tags]
    if not hashes:
        return None
    if (digest := digest_of(deployed.text)) in hashes:
        return digest, deployed.definition
    found: list[tuple[str, Json]] = []
    altered: list[str] = []
    for sha256 in dict.fromkeys(hashes):
        uri = applied_uri(root, deployed.name, sha256)
        text = get_text(account, uri)
        if text is None:
            continue
        if digest_of(text) != sha256:
            altered.append(uri)
            continue
        found.append((sha256, cast("Json", json_text.parse(text, uri))))
    if found:
        return min(found, key=lambda base: len(differences(base[1], deployed.definition)))
    if altered:
        raise LostError(
            f"{altered[0]} was altered: it is not what its hash says. It is the record of what apply wrote last to "
            f"pipeline {deployed.name!r}. Restore an earlier version of that object, or take the pipeline over as it "
            "is (pull with --adopt)."
        )
    raise LostError(
        f"The record of what apply wrote last to pipeline {deployed.name!r} is not in {root}/{deployed.name}/applied/. "
        "Was it deployed with another bucket or prefix? Give that one, or take the pipeline over as it is (pull with "
        "--adopt)."
    )
