"""Who approved a version, as the backend knows it, and how many people a group asks for.

Two tags of the group, which every registry keeps (registry.py, `change_tag`):

    drivetrain.approvals     2
    drivetrain.approved-by   3/2026-11-28T21:03Z=123456789012/user/ann 3/2026-11-28T21:09Z=unverified:bob

The second holds the newest approvals, repeated ones, too, as far as 256 characters go. SageMaker knows the caller by
the credentials, an MLflow server with its own login by the user's name. A name that nobody checks is unverified.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from drivetrain.base.errors import InputError

if TYPE_CHECKING:
    from drivetrain.registry.registry import Registry

APPROVALS, APPROVED_BY = "drivetrain.approvals", "drivetrain.approved-by"
_UNVERIFIED = "unverified:"
_ENTRY = re.compile(r"(?<!\S)(\d{1,9})/([0-9TZ:-]{8,20})=(\S{1,120})(?!\S)")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_.:/+\-@]+")
_MOST_CHARACTERS, _MOST_PEOPLE, _MOST_OF_A_NAME = 256, 5, 100
_SESSION = re.compile(r"arn:[^:]+:sts::(\d+):assumed-role/([^/]+)/(.+)")
_IDENTITY = re.compile(r"arn:[^:]+:iam::(\d+):(.+)")
_SIGN_IN = "AWSReservedSSO_"
"""Begins the roles of IAM Identity Center: of these the session has the person's name."""


class Approval(NamedTuple):
    """One approval of a version. `at` is in UTC, to the minute."""

    version: int
    at: str
    by: str
    verified: bool


def person_of(arn: str) -> str:
    """Whose credentials an ARN says: `123456789012/user/ann`. All sessions of a role are one, for whoever may take the
    role names the session as they like; but for those of IAM Identity Center."""
    if found := _SESSION.fullmatch(arn):
        account, role, session = found.groups()
        return f"{account}/role/{role}" + (f"/{session}" if role.startswith(_SIGN_IN) else "")
    found = _IDENTITY.fullmatch(arn)
    return f"{found[1]}/{found[2]}" if found else arn


def needed(registry: Registry, group: str) -> int:
    """How many different people must approve a version of the group."""
    text = registry.tags(group).get(APPROVALS, "1")
    return int(text) if text.isdecimal() and 1 <= int(text) <= _MOST_PEOPLE else 1


def ask_for(registry: Registry, group: str, people: int) -> None:
    """Let a group ask for so many different people.

    Raises:
        InputError: fewer than one, or more than the tag can name; there is no such group.
    """
    if not 1 <= people <= _MOST_PEOPLE:
        raise InputError(f"{people} approvals. Allowed: 1 to {_MOST_PEOPLE} different people.")
    registry.change_tag(group, APPROVALS, lambda _: str(people))


def approvals(registry: Registry, group: str) -> list[Approval]:
    """The approvals of a group's versions that are kept, the oldest first."""
    return _read(registry.tags(group).get(APPROVED_BY, ""))


def keep(registry: Registry, group: str, version: int, by: str | None) -> list[Approval]:
    """Keep that somebody approves a version, and give all approvals of it that are kept.

    Args:
        by: who says so, where the backend knows nobody; else told beside the one whom it knows.
    """
    known = registry.caller
    name = _NOT_IN_A_NAME.sub("_", known or by or "nobody").strip("_")[-_MOST_OF_A_NAME:]
    at = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime())
    entry = f"{version}/{at}={'' if known else _UNVERIFIED}{name}"
    kept: list[Approval] = []

    def added(text: str) -> str:
        entries = [found[0] for found in _ENTRY.finditer(text)]
        entries.append(entry)
        while len(" ".join(entries)) > _MOST_CHARACTERS:
            entries.pop(0)
        kept[:] = _read(" ".join(entries))
        return " ".join(entries)

    registry.change_tag(group, APPROVED_BY, added)
    return [each for each in kept if each.version == version]


def _read(text: str) -> list[Approval]:
    return [
        Approval(int(version), at, name.removeprefix(_UNVERIFIED), not name.startswith(_UNVERIFIED))
        for version, at, name in _ENTRY.findall(text)
    ]
