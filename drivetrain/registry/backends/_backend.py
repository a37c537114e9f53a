"""The common part of the backends: what is given is checked here, and each does the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import (
    Approval,
    ModelEvent,
    ModelGroup,
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
