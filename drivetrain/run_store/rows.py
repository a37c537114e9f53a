"""The ledger of runs, a SQLite database. Here are its rows beside runs and steps (model.py), and the entries of a step.

Times are seconds since the epoch. Values whose names look like secrets read `***` (masking.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from drivetrain.base.records import dataclass

if TYPE_CHECKING:
    import sqlite3


@dataclass(frozen=True, kw_only=True)
class ObjectRow:
    """One written object with its sha256."""

    uri: str
    sha256: str
    bytes: int
    execution: str
    step: str


@dataclass(frozen=True)
class MetricRow:
    """A training metric, `seconds` after the attempt's start; `position` is the training's step, where its log says
    it."""

    step: str
    name: str
    seconds: float
    position: float | None
    attempt: int
    value: float


@dataclass(frozen=True, kw_only=True)
class EventRow:
    """A change of status as EventBridge tells it; `step` is None for the execution's own."""

    number: int
    step: str | None
    time: float
    event: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class EarlierStep:
    """A success of a step that the cache may go back to; `key_fields` are the attributes of its cache key."""

    execution: str
    step: str
    ended: float
    arguments: Mapping[str, Any]
    key_fields: Mapping[str, Any]
    response: Mapping[str, Any]
    value: str | None


@dataclass(frozen=True, kw_only=True)
class ArtifactEntry:
    """An input or output of a step to be entered; `stamp` is the cheap fingerprint of objects.Contents."""

    flow: str
    name: str
    uri: str
    digest: str
    stamp: str
    files: int
    bytes: int


@dataclass(frozen=True)
class ObjectEntry:
    """A written object to be entered."""

    uri: str
    sha256: str
    bytes: int
    mtime_ns: int
    ctime_ns: int | None = None
    """When the file was last changed in any way, at its final place; None until that has been looked at. Programs can
    set a file's mtime, and not this."""

    @staticmethod
    def enter(db: sqlite3.Connection, objects: Iterable[ObjectEntry], execution: str = "", step: str = "") -> None:
        """Enter objects that a step has written, or again with other times. Those that were uploaded belong to no
        step."""
        db.executemany(
            "INSERT OR REPLACE INTO objects (uri, sha256, bytes, mtime_ns, ctime_ns, execution, step) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(each.uri, each.sha256, each.bytes, each.mtime_ns, each.ctime_ns, execution, step) for each in objects],
        )


@dataclass(frozen=True)
class Move:
    """Bring `staged` (a path below the attempt's folder) to `uri`."""

    staged: str
    uri: str


@dataclass(frozen=True, kw_only=True)
class Child:
    """A step of one iteration of a ForEach, to be entered; `item` is what the iteration is for, as text."""

    name: str
    type: str
    title: str
    iteration: int
    item: str


def dump(value: Any) -> str:
    """The JSON of a value, as short as it can be."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair (from the JSON that a program wrote) cannot be encoded; as an escape it survives.
    return text if text.isascii() else re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half.group()):04x}", text)
