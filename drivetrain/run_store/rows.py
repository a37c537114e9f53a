"""The ledger of runs, a SQLite database. Here are its rows, as those who read it get them, and what is entered of a
step.

Times are seconds since the epoch. Values whose names look like secrets read `***` (masking.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from drivetrain.base.records import dataclass
from drivetrain.processes import ProcessRecord
from drivetrain.run_store.events import shown_run_status

if TYPE_CHECKING:
    import sqlite3

# How the reason begins of an execution that ended early, and what each of its steps says; the earlier one's id follows.
NOTHING_NEW = "nothing new since "


@dataclass(frozen=True, kw_only=True)
class ExecutionRow:
    """One run of a pipeline.

    `status` is Executing, Succeeded, CompletedWithFailures, Failed, Stopped or Interrupted (the ledger says Executing
    but no living process holds the execution: it can be resumed). `ended` is None until it ended. `definition_hash`
    is the sha256 of the definition's text. `idle` are the seconds in which nobody ran it: of each resumption those from
    its end, or the last sign of a runner that was killed, to the moment at which it went on.
    """

    id: str
    pipeline: str
    status: str
    started: float
    ended: float | None
    idle: float
    reason: str | None
    definition_hash: str
    parameters: Mapping[str, Any]
    name: str | None = None
    """What the user calls it; `note` is what they wrote about it."""
    note: str | None = None
    stopping: bool = False
    """Whether it goes on, and was asked to stop."""
    unhealthy: bool = False
    """Whether a model of it failed a health rule."""

    @property
    def shown_status(self) -> str:
        """`status`, or Stopping; Unhealthy instead of Succeeded where a model failed a health rule."""
        return shown_run_status(self.status, stopping=self.stopping, unhealthy=self.unhealthy)

    @property
    def nothing_new_since(self) -> str | None:
        """The earlier execution whose results it took over, since it found nothing new."""
        reason = self.reason or ""
        return reason.removeprefix(NOTHING_NEW) if reason.startswith(NOTHING_NEW) else None

    @property
    def seconds(self) -> float | None:
        """Wall time without the time in which nobody ran it; None before it ended. Of one whose runner was killed, up
        to its last sign of life."""
        return None if self.ended is None else self.ended - self.started - self.idle


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One step of an execution, in the definition's order.

    `status` is None until the step was looked at, then Executing, Succeeded, Failed, Stopped, Cached or NotExecuted.
    `arguments` are the resolved arguments, `response` what the service's describe call would give (both empty until
    known). `why` says what made it run instead of hitting the cache, or what the cache did not look at. `value` is
    the result in a word: the branch a condition took, the version registered.

    A step of an iteration of a ForEach names that in `parent`, with the number of the iteration and the item as text.
    """

    execution: str
    name: str
    type: str
    display_name: str
    status: str | None = None
    started: float | None = None
    ended: float | None = None
    attempts: int = 0
    cache_of: str | None = None
    reason: str | None = None
    value: str | None = None
    why: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    response: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parent: str | None = None
    iteration: int | None = None
    item: str | None = None

    @property
    def seconds(self) -> float | None:
        """Wall time, None while it runs or when it never started; up to the last sign of life of one whose runner was
        killed."""
        return None if self.started is None or self.ended is None else self.ended - self.started


@dataclass(frozen=True, kw_only=True)
class AttemptRow:
    """One try at a step. `error_type` is the retry policies' word for what went wrong, where they have one.

    `status` is Executing, Publishing (it succeeded and its outputs are being moved to their places), Succeeded,
    Failed, Stopped or Interrupted (the runner died; what it left was thrown away).
    """

    execution: str
    step: str
    number: int
    status: str
    started: float
    ended: float | None = None
    reason: str | None = None
    error_type: str | None = None
    processes: tuple[ProcessRecord, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ArtifactRow:
    """A folder or file that a step read (`flow` input) or wrote (output).

    `digest` is the sha256 over the sorted (name, sha256) of its files. `from_execution` and `from_step` say who wrote
    what was read, where the ledger knows.
    """

    execution: str
    step: str
    flow: str
    name: str
    uri: str
    digest: str
    files: int
    bytes: int
    from_execution: str | None = None
    from_step: str | None = None


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
