"""The common part of the backends: what is given is checked here, and decisions that all make alike: the version that
is meant, and the one version of a content."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import (
    AbsentError,
    Approval,
    ModelEvent,
    ModelGroup,
    NotAllowedError,
    RegistryError,
    checked_approval,
    checked_group,
    checked_hash,
    checked_metrics,
    checked_request,
)


class NewVersion(NamedTuple):
    """A version to register, checked; `request` is its record as CreateModelPackage's request."""

    group: str
    content_hash: str
    record: ModelRecord
    request: dict[str, Any]
    metrics: dict[str, float]
    execution: str | None
    status: Approval


class Backend(ABC):
    """A backend keeps the promises of registry.Registry, which says what the methods mean."""

    @property
    def objects(self) -> Path | None:
        return None

    @property
    def caller(self) -> str | None:
        return None

    def register(
        self,
        group: str,
        content_hash: str,
        record: ModelRecord,
        *,
        metrics: Mapping[str, float] | None = None,
        execution: str | None = None,
        approval: str = "PendingManualApproval",
    ) -> tuple[int, bool]:
        return self._register(
            NewVersion(
                group=checked_group(group),
                content_hash=checked_hash(content_hash),
                record=record,
                request=checked_request(group, record),
                metrics=checked_metrics(metrics),
                execution=execution,
                status=checked_approval(approval),
            )
        )

    @abstractmethod
    def _register(self, new: NewVersion) -> tuple[int, bool]:
        """The version of this content in the group, and whether this call made it."""


class Service(Backend):
    """A service lists groups from versions, and keeps no history that can be read."""

    keeps_history = False
    no_history = ""
    """The message of `events`: where changes are told instead."""

    def groups(self) -> list[ModelGroup]:
        found = [
            ModelGroup(
                name=name,
                num_versions=len(versions),
                latest=versions[0],
                approved=next((each.version for each in versions if each.status == "Approved"), None),
                created_at=created_at,
            )
            for name, created_at, versions in self._groups()
            if versions
        ]
        return sorted(found, key=lambda group: group.name)

    def events(self, group: str | None = None, *, after: int = 0) -> list[ModelEvent]:
        raise InputError(self.no_history)

    @abstractmethod
    def _groups(self) -> Iterator[tuple[str, float, Sequence[Any]]]:
        """Name, time of creation and versions of each group, the newest first; the first of them whole."""


class Numbered(Protocol):
    """A version, or what a registry's list says of one."""

    @property
    def version(self) -> int: ...
    @property
    def status(self) -> str: ...


class Kept(NamedTuple):
    """A version that holds the content in question; `untouched` when nobody has changed it since it was made."""

    version: int
    untouched: bool


def chosen(group: str, which: int | str, versions: Sequence[Numbered]) -> Any:
    """Choose from the versions of a group (newest first, at least one) that with a number, the `latest`, or the newest
    `approved` one.

    Raises:
        AbsentError: there is no such version.
    """
    wanted = str(which)
    for version in versions:
        if wanted in ("latest", str(version.version)) or (wanted == "approved" and version.status == "Approved"):
            return version
    waits = next((version.version for version in versions if version.status == "PendingManualApproval"), None)
    raise no_version(group, wanted, versions[0].version, waits)


def no_version(group: str, wanted: str, newest: int, waits: int | None) -> AbsentError:
    """That a group has no such version. `newest` is its newest version, and `waits` the newest that waits."""
    if wanted == "approved":
        advice = f". Approve the newest that waits: drivetrain models approve {group} {waits}"
        return AbsentError(
            f"no version of {group!r} is approved{advice if waits else ', and none waits for approval.'}"
        )
    return AbsentError(f"{group!r} has no version {wanted!r}. Allowed: 1 to {newest}, latest, approved.")


def no_group(registry: str, group: str, there: Iterable[str]) -> AbsentError:
    """That a registry has no such group, with the closest that it has."""
    names = tuple(sorted(there))
    none = "It has no models yet: a pipeline with register(...) registers one."
    error = AbsentError(f"{registry} has no group {group!r}. {did_you_mean(group, names, none=none)}")
    error.there = names
    return error


def without_header(text: str) -> str:
    """A client's message without the value of a header that cannot be sent, as of a token with a line break."""
    return re.sub(r"(header value).*", r"\1, that of a token or key", text, flags=re.DOTALL | re.IGNORECASE)


def registered_once(
    holding: Callable[[], list[Kept]], create: Callable[[], int], delete: Callable[[int], None]
) -> tuple[int, bool]:
    """Exactly one version of a content in a registry that does not refuse a second one by itself.

    If the content is found, nothing is made. Two callers at the same time both find nothing and make one version each.
    So each looks again afterwards: the lowest number is the version, and the caller that made another one deletes it. A
    process that is killed before that leaves one too many; the next caller that registers the content deletes it,
    unless its status was decided meanwhile. The lowest is never deleted, so all callers agree. A caller that may not
    delete a version leaves it, with a warning: the content is registered all the same, and every caller gets the lowest
    number.

    Args:
        holding: the versions with the content.
        create: makes one, whole, in one request; gives its number.
        delete: takes one back; one that is gone already is fine.

    Raises:
        InputError: whatever they raise.
    """
    found = sorted(holding())
    mine = None
    if not found:
        try:
            mine = create()
        except RegistryError:
            raise
        except InputError:
            # Refused, perhaps because another has just made it, with other numbers.
            if found := sorted(holding()):
                return found[0].version, False
            raise
        found = sorted(holding())
        if not any(kept.version == mine for kept in found):  # lists may lag behind
            found = sorted([*found, Kept(mine, True)])
    left: list[int] = []
    refused = ""
    for kept in found[1:]:
        if kept.version == mine or kept.untouched:
            try:
                delete(kept.version)
            except NotAllowedError as error:
                left.append(kept.version)
                refused = str(error)
    if left:
        also = ", ".join(map(str, left))
        print(
            f"warning: the content is version {found[0].version}; it is also in {also}, made at the same moment, which "
            f"may not be taken back. {refused}",
            file=sys.stderr,
        )
    return found[0].version, found[0].version == mine
