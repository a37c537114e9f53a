"""The common part of the services' registries: they list groups from versions, and keep no history that can be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.registry.registry import ModelEvent, ModelGroup


class ServiceRegistry(ABC):
    """A backend says which groups there are, and where changes are told instead of a history."""

    keeps_history = False
    objects = None
    no_history = ""
    """The message of `events`."""

    def groups(self) -> list[ModelGroup]:
        """Every group that has a version, by name."""
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
        """Always an error: see Registry."""
        raise InputError(self.no_history)

    @abstractmethod
    def _groups(self) -> Iterator[tuple[str, float, Sequence[Any]]]:
        """Name, time of creation and versions of each group, the newest first; the first of them whole."""
