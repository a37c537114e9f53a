"""The owner of a deployed pipeline: a tag of it, and a record beside what apply uploads.

Two teams of one account may call their pipelines alike. Each is known by its bucket and prefix, and its project
(deploying/project.py). The record, `{root}/{pipeline}/applied/owner.json`, says the same of the folder: there may be no
pipeline to bear a tag, and two projects may have one prefix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployed import OURS, OWNER, Deployed, applied_uri
from drivetrain.targets.sagemaker.deploy.objects import get_text, listed

MAX_TAG_CHARACTERS = 256
_HASH_CHARACTERS = 16
NOBODY = "an unknown owner"


@dataclass(frozen=True)
class Owner:
    """A user who deploys pipelines. `project` is empty if it has no name."""

    root: str
    project: str = ""

    @property
    def tag(self) -> str:
        """The value of the tag: a long one ends with its hash."""
        said = f"{self.root} {self.project}".rstrip()
        if len(said) <= MAX_TAG_CHARACTERS:
            return said
        digest = hashlib.sha256(said.encode()).hexdigest()[:_HASH_CHARACTERS]
        return f"{said[: MAX_TAG_CHARACTERS - _HASH_CHARACTERS - 1]}.{digest}"

    def other_in(self, tags: Mapping[str, str]) -> str | None:
        """The other owner that tags name, in words; None where it is this one, or they do not say."""
        tag = tags.get(OWNER)
        return None if tag in (None, self.tag) else _words(tag, self)

    def other_of(self, record: str | None) -> str | None:
        """The other owner that a record names, in words; None where it is this one, or there is no record."""
        return None if record in (None, self.record) else _words(_tag_in(record), self)

    @property
    def record(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    def uri(self, pipeline: str) -> str:
        """The URI of the record."""
        return f"{self.root}/{pipeline}/applied/owner.json"


@dataclass(frozen=True)
class Claim:
    """The owner of a pipeline's name in the account."""

    other: str | None = None
    """The other one, in words; None where it is ours, or free."""
    is_known: bool = True
    """True where our folder has anything of this pipeline: rules and schedules without a pipeline are ours then."""

    def seen(self, deployed: Deployed) -> Deployed:
        """The pipeline as we may read it: what another one's apply wrote last says nothing of our edits."""
        return deployed if self.other is None else deployed.as_foreign()


def claim(account: Account, name: str, owner: Owner, deployed: Deployed | None) -> Claim:
    """Find the owner of the pipeline of that name.

    One that was deployed before there were owners is ours where our folder has the record of it.

    Raises:
        ServiceError: AWS refuses.
    """
    records = listed(account, f"{owner.root}/{name}/applied/")
    uri = owner.uri(name)
    if uri in records and (other := owner.other_of(get_text(account, uri))):
        return Claim(f"{other}, as {uri} says")
    if deployed is None or not deployed.is_ours:
        return Claim(is_known=bool(records))
    if OWNER in deployed.tags:
        return Claim(owner.other_in(deployed.tags))
    return Claim(None if _is_recorded(deployed, owner, records) else f"{NOBODY} (no record of it is in {owner.root}/)")


def _is_recorded(deployed: Deployed, owner: Owner, records: Mapping[str, int]) -> bool:
    hashes = (deployed.tags[tag] for tag in OURS if tag in deployed.tags)
    return any(applied_uri(owner.root, deployed.name, sha256) in records for sha256 in hashes)


def _tag_in(record: str) -> str:
    try:
        said: Any = json.loads(record)
        return Owner(str(said["root"]), str(said["project"])).tag
    except (ValueError, KeyError, TypeError, RecursionError):
        return NOBODY


def _words(tag: str, owner: Owner) -> str:
    """A tag in words: the project and its place; `owner` is this one."""
    if tag == NOBODY:
        return tag
    root, _, project = tag.partition(" ")
    said = f"project {project!r}" if project else "a project without a name"
    return f"{said} in {root}" if root != owner.root else f"{said} with the same bucket and prefix"
