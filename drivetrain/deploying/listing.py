"""A deployed pipeline in a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Listed:
    """A deployed pipeline. Times are seconds since the epoch."""

    name: str
    ids: Mapping[str, str]
    """Its names for scripts, such as its ARN."""
    state: str
    """`as applied`: the definition is what apply wrote last. `edited`: others wrote it since. `being applied`: apply is
    at work, or was cut short. `not ours`: apply never wrote it. `not readable`: these credentials may not look at it.
    """
    modified: float | None = None
    """When it was written last, by whomever."""
    applied: str | None = None
    """SHA-256 of the definition that apply wrote last, where the target keeps it."""
    last: Mapping[str, Any] | None = None
    """The latest execution, as scripts read it: `status`, `started` and more."""

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.name,
            **self.ids,
            "state": self.state,
            "modified": self.modified,
            "applied_sha256": self.applied,
            "last_execution": self.last,
        }
