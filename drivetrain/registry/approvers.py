"""The approvers of a version, as the backend knows them, and the number of people that a group asks for.

Two tags of the group, which every registry keeps (registry.py, `change_tag`):

    drivetrain.approvals     2
    drivetrain.approved-by   3/2026-11-28T21:03Z=123456789012/user/ann 3/2026-11-28T21:09Z=unverified:Bob+0a1b2c3d4e5f

The second holds the newest approval of each version by each person. A person is a hash of the name without its case. It
stands behind a name that a tag cannot hold as it is, and alone where 256 characters do not hold the names of all.
Versions that do not wait give way to those that do. SageMaker knows the caller by the credentials, an MLflow server
with its own login by the user's name. A name that nobody checks is unverified.
"""

from __future__ import annotations

import hashlib
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from drivetrain.base.errors import InputError

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion, Registry

APPROVALS, APPROVED_BY = "drivetrain.approvals", "drivetrain.approved-by"
_UNVERIFIED = "unverified:"
_ENTRY = re.compile(r"(?<!\S)(\d{1,9})/([0-9TZ:-]{8,20})=(\S{1,140})(?!\S)")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_.:/+\-@]+")
_HASHED = re.compile(r"(.*)\+([0-9a-f]{12})")
_NAMELESS = "person-"
_MOST_CHARACTERS, _MOST_PEOPLE, _MOST_OF_A_NAME = 256, 5, 100
_SESSION = re.compile(r"arn:[^:]+:sts::(\d+):assumed-role/([^/]+)/(.+)")
_IDENTITY = re.compile(r"arn:[^:]+:iam::(\d+):(.+)")
_SIGN_IN = "AWSReservedSSO_"
"""Begins the roles of IAM Identity Center: of these the session has the person's name."""


class Approval(NamedTuple):
    """One approval of a version.

    Attributes:
        at: in UTC, to the minute.
        by: the name, as far as a registry can keep it.
        person: the same of one person, and another of everybody else.
    """

    version: int
    at: str
    by: str
    verified: bool
    person: str


def person_of(arn: str) -> str:
    """The person or role whose credentials an ARN names: `123456789012/user/ann`. All sessions of a role count as one
    person, since everyone who may assume the role chooses the session's name. Sessions of IAM Identity Center are an
    exception."""
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


def keep(registry: Registry, group: str, version: ModelVersion, by: str | None) -> list[Approval]:
    """Keep that somebody approves a version, and give all approvals of it that count: none of those before it was
    rejected.

    Args:
        by: who says so, where the backend knows nobody; else told beside the one whom it knows.

    Raises:
        InputError: the approvals of the versions that wait leave no room.
    """
    known = registry.caller
    name = known or by or "nobody"
    at = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime())
    new = Approval(version.version, at, _spelled(name), known is not None, _person(name))
    kept: list[Approval] = []

    def added(text: str) -> str:
        entries = [new]
        for each in reversed(_read(text)):
            repeats = any((each.version, each.person) == (one.version, one.person) for one in entries)
            if not repeats and not (each.version == version.version and version.status == "Rejected"):
                entries.insert(0, each)
        if not _fits(entries):
            waits = {each.version for each in registry.versions(group) if each.status == "PendingManualApproval"}
            entries = _fitting(entries, waits if version.status == "Approved" else waits | {version.version})
        kept[:] = entries
        return _written(entries)

    registry.change_tag(group, APPROVED_BY, added)
    return [each for each in kept if each.version == version.version]


def _fitting(entries: list[Approval], waits: set[int]) -> list[Approval]:
    """Approvals, the newest last, as far as a tag holds them: without the oldest ones of versions that do not wait, and
    then with hashes in the place of names."""
    kept = list(entries)
    for each in entries[:-1]:
        if not _fits(kept) and each.version not in waits:
            kept.remove(each)
    for place, each in enumerate(kept):
        if not _fits(kept):
            kept[place] = each._replace(by=_NAMELESS + each.person)
    if not _fits(kept):
        others = sorted({each.version for each in kept} - {kept[-1].version})
        raise InputError(
            "there is no room for another approval beside those of other versions that wait "
            f"({', '.join(map(str, others))}). Approve or reject one of them first."
        )
    return kept


def _fits(approvals: list[Approval]) -> bool:
    return len(_written(approvals)) <= _MOST_CHARACTERS


def _person(name: str) -> str:
    """The same of names that differ in their case, or in how their letters are encoded, only."""
    import unicodedata

    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return hashlib.sha256(folded.encode("utf-8", "replace")).hexdigest()[:12]


def _spelled(name: str) -> str:
    """A name in the characters of a tag."""
    import unicodedata

    plain = "".join(each for each in unicodedata.normalize("NFKD", name) if not unicodedata.combining(each))
    return _NOT_IN_A_NAME.sub("_", plain).strip("_")[-_MOST_OF_A_NAME:] or _NAMELESS + _person(name)


def _written(approvals: list[Approval]) -> str:
    def entry(each: Approval) -> str:
        name = "" if each.by == _NAMELESS + each.person else each.by
        if _HASHED.fullmatch(name) or _person(name) != each.person:
            name += f"+{each.person}"
        return f"{each.version}/{each.at}={'' if each.verified else _UNVERIFIED}{name}"

    return " ".join(map(entry, approvals))


def _read(text: str) -> list[Approval]:
    def approval(version: str, at: str, told: str) -> Approval:
        name = told.removeprefix(_UNVERIFIED)
        hashed = _HASHED.fullmatch(name)
        by, person = hashed.groups() if hashed else (name, _person(name))
        return Approval(int(version), at, by or _NAMELESS + person, name == told, person)

    return [approval(*found) for found in _ENTRY.findall(text)]
