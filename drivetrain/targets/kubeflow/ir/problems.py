"""One problem of a text, and how its place is written: `root.dag.tasks['train'].inputs.parameters['x']`."""

from __future__ import annotations

from typing import Any, NamedTuple

Json = dict[str, Any]
# So many are looked for: nobody reads more, and each names what may be meant, which takes its time.
MOST = 200
_LONGEST = 60


class Problem(NamedTuple):
    """A problem: its place, and what is wrong there and what to do."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def at(place: str, *fields: str) -> str:
    """The place of a field within another place, which is empty for the document itself."""
    return ".".join((place, *fields) if place else fields)


def entry(place: str, key: str | int) -> str:
    """The place of an entry of a map or a list."""
    return f"{place}[{key}]" if isinstance(key, int) else f"{place}[{quoted(key)}]"


def quoted(name: str) -> str:
    """A name as messages show it."""
    return repr(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}...")
