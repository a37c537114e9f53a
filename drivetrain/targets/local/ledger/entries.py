"""What is entered of a step: what it read and wrote, where its outputs go, the steps of its iterations."""

from __future__ import annotations

from dataclasses import dataclass


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
