"""The place of a value in a definition, by name rather than by position.

    steps.train.Arguments.ResourceConfig.InstanceType
    parameters.MinAccuracy.DefaultValue
    branches.register-model                                  the branch under which a step stands
    definition.PipelineExperimentConfig.ExperimentName       the other fields of the definition
    steps.register.Arguments.InferenceSpecification.Containers[1 of 2].Image

Positions move when a step is added; names stay. So two people can change one definition, and an edit that was
made in Studio is found again after the code has changed around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from drivetrain.base.errors import UserError


@dataclass(frozen=True)
class Position:
    """An entry of a list whose entries have no names: its index from 0, and how many there are.

    The count belongs to it: in a list that has grown, the same index may be another thing.
    """

    index: int
    count: int


Segment: TypeAlias = str | Position
Place: TypeAlias = tuple[Segment, ...]

# Named in the place of a place: each of them.
ALL = "all"
STEPS, BRANCHES, PARAMETERS, DEFINITION = "steps", "branches", "parameters", "definition"
ROOTS = (STEPS, BRANCHES, PARAMETERS, DEFINITION)

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_POSITION = re.compile(r"\[([1-9][0-9]{0,8}) of ([1-9][0-9]{0,8})\]", re.ASCII)


def text(place: Place) -> str:
    """A place as people read and write it; `parse` is the inverse."""
    written = ""
    for segment in place:
        if isinstance(segment, Position):
            written += f"[{segment.index + 1} of {segment.count}]"
        elif _BARE.fullmatch(segment):
            written += f".{segment}" if written else segment
        else:
            # JSON's quoting, so that any key of a JSON object is a segment; what cannot be seen is escaped.
            written += f"[{json.dumps(segment, ensure_ascii=not segment.isprintable())}]"
    return written


def is_named(place: Place, names: Iterable[str]) -> bool:
    """Return True if one of the names is the place's, the beginning of it up to a dot or bracket, or `all`."""
    whole = text(place)
    return any(name == ALL or whole == name or whole.startswith((f"{name}.", f"{name}[")) for name in names)


def parse(given: str) -> Place:
    """The place that a text names.

    Raises:
        UserError: naming the part from which the text is no place.
    """
    dotted = given if given.startswith("[") or not given else "." + given
    found: list[Segment] = []
    at = 0
    while at < len(dotted):
        bare = _BARE.match(dotted, at + 1) if dotted[at] == "." else None
        position = _POSITION.match(dotted, at)
        if bare is not None:
            found.append(bare.group())
            at = bare.end()
        elif position is not None and int(position[1]) <= int(position[2]):
            found.append(Position(int(position[1]) - 1, int(position[2])))
            at = position.end()
        elif dotted.startswith('["', at):
            key, at = _quoted(dotted, at + 1, given)
            found.append(key)
        else:
            raise _no_place(given, dotted[at:])
    return tuple(found)


def _quoted(dotted: str, at: int, given: str) -> tuple[str, int]:
    try:
        key, end = json.JSONDecoder(strict=False).raw_decode(dotted, at)
    except json.JSONDecodeError:
        raise _no_place(given, dotted[at:]) from None
    if dotted[end : end + 1] != "]":
        raise _no_place(given, dotted[at:])
    return str(key), end + 1


def _no_place(given: str, rest: str) -> UserError:
    return UserError(
        f"{given[:120]!r} is not a place in a definition: cannot read {rest[:40]!r}. Allowed: names with dots, such as "
        'steps.train.Arguments.ResourceConfig.InstanceType, ["any key"] and [1 of 2].'
    )
