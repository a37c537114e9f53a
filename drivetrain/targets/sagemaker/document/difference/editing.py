"""Read and change a definition at places; what is not named stays the very object that it was.

find(outline(definition), parse("steps.train.Arguments.ResourceConfig.InstanceType"))
put(outline(definition), change.place, change.new)
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Json
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Value
from drivetrain.targets.sagemaker.document.difference.difference import STEP, differences, same
from drivetrain.targets.sagemaker.document.difference.entries import Spot, View, assembled, empty, inside, takes, view
from drivetrain.targets.sagemaker.document.difference.meaning import says_nothing
from drivetrain.targets.sagemaker.document.difference.outline import Object, Outline, outline
from drivetrain.targets.sagemaker.document.difference.outline import assembled as definition_of
from drivetrain.targets.sagemaker.document.difference.place import Place, Segment
from drivetrain.targets.sagemaker.document.difference.value_words import shown

# The lists that are laid out by name under roots of their own; whole, where that cannot be.
STEPS_FIELD, PARAMETERS_FIELD = "Steps", "Parameters"


class NoSuchPlaceError(UserError):
    """Nothing can stand at a place, since what would hold it is not there, or is something else.

    `depth` is the length of the part of the place that does exist.
    """

    def __init__(self, place: Place, depth: int, there: str) -> None:
        self.depth = depth
        super().__init__(f"{places.text(place)}: {places.text(place[:depth]) or 'the definition'} {there}.")


def find(parts: Outline, place: Place) -> Value:
    """Return the value at a place; ABSENT if there is no value, but could be one.

    Raises:
        NoSuchPlaceError: where nothing can.
    """
    return _found(parts, place)[0]


def alike(parts: Outline, place: Place, one: Value, other: Value) -> bool:
    """Return True if two values mean the same at a place.

    Raises:
        NoSuchPlaceError: there is no such place.
    """
    if place in ((places.DEFINITION, STEPS_FIELD), (places.DEFINITION, PARAMETERS_FIELD)):
        first, second = ({} if given is ABSENT else {str(place[1]): given} for given in (one, other))
        return not differences(first, second)
    return same(one, other, spot_at(parts, place))


def spot_at(parts: Outline, place: Place) -> Spot:
    """Return the spot of a value at a place.

    Raises:
        NoSuchPlaceError: there is no such place.
    """
    return _found(parts, place)[1]


def _found(parts: Outline, place: Place) -> tuple[Value, Spot]:
    value, spot = _start(parts, place)
    for depth, segment in enumerate(place[2:], 2):
        seen = _open(value, spot, place, depth)
        value, spot = seen.entries.get(segment, ABSENT), inside(spot, seen, segment)
    return value, spot


def put(parts: Outline, place: Place, new: Value) -> Outline:
    """The outline with `new` at a place; ABSENT takes away what is there.

    Raises:
        NoSuchPlaceError: nothing can stand there.
    """
    value, spot = _start(parts, place)
    made = _with(value, spot, place, 2, new)
    root, name = place[0], str(place[1])
    if root == places.PARAMETERS:
        return replace(parts, parameters=_replaced(parts.parameters, name, made))
    if root == places.STEPS:
        branches = parts.branches if made is not ABSENT else _replaced(parts.branches, name, ABSENT)
        return replace(parts, steps=_replaced(parts.steps, name, made), branches=branches)
    if root == places.BRANCHES:
        return replace(parts, branches=_replaced(parts.branches, name, made))
    if name not in (STEPS_FIELD, PARAMETERS_FIELD):
        return replace(parts, fields=_replaced(parts.fields, name, made))
    return replace(outline(_replaced(_whole(parts), name, made)), raw=parts.raw)


def _start(parts: Outline, place: Place) -> tuple[Value, Spot]:
    """The value of a place's first two segments."""
    if len(place) < 2 or place[0] not in places.ROOTS or not isinstance(place[1], str):
        raise NoSuchPlaceError(place, 0, f"has {', '.join(places.ROOTS)}, and names below them")
    root, name = place[0], place[1]
    if root == places.DEFINITION:
        if name in (STEPS_FIELD, PARAMETERS_FIELD):
            return _whole(parts).get(name, ABSENT), Spot(name, of_service=False)
        return parts.fields.get(name, ABSENT), Spot(name)
    named = parts.parameters if root == places.PARAMETERS else parts.steps
    if named is None:
        raise NoSuchPlaceError(place, 1, "have no names of their own")
    if root != places.BRANCHES:
        return named.get(name, ABSENT), STEP if root == places.STEPS else Spot()
    if name not in named:
        raise NoSuchPlaceError(place, 1, f"have no {name}: there is no such step")
    return parts.branches.get(name, ABSENT), Spot("branch", of_service=False)


def _whole(parts: Outline) -> Object:
    return definition_of(parts, outline(parts.raw))


def _open(value: Value, spot: Spot, place: Place, depth: int) -> View:
    """The entries of the value at place[:depth]; place[depth] may be one of them."""
    nothing = value is ABSENT or (spot.of_service and says_nothing(value, spot.field))
    seen = empty(spot) if nothing else view(cast("Json", value), spot)
    if nothing and seen is None:
        raise NoSuchPlaceError(place, depth, "is not there")
    if seen is None or not takes(seen, place[depth]):
        raise NoSuchPlaceError(place, depth, f"is {shown(value)}")
    return seen


def _with(value: Value, spot: Spot, place: Place, depth: int, new: Value) -> Value:
    if depth == len(place):
        return new
    seen = _open(value, spot, place, depth)
    key = place[depth]
    made = _with(seen.entries.get(key, ABSENT), inside(spot, seen, key), place, depth + 1, new)
    entries: dict[Segment, Json] = dict(seen.entries)
    if made is ABSENT:
        entries.pop(key, None)
        if not entries and empty(spot) is not None:
            return ABSENT
    else:
        entries[key] = made
    result = assembled(seen.form, entries)
    if made is not ABSENT and isinstance(result, list):
        # An entry of a list carries its name itself.
        again = view(result, spot)
        if again is None or key not in again.entries:
            raise NoSuchPlaceError(place, depth, f"is a list, in which {shown(made)} would not be {shown(key)}")
    return result


def _replaced(given: Object | None, name: str, value: Value) -> Object:
    made = dict(given or {})
    if value is ABSENT:
        made.pop(name, None)
    else:
        made[name] = value
    return made
