"""Match events against EventBridge patterns, with the reason where one does not match.

    matches({"detail": {"ModelApprovalStatus": ["Approved"]}}, event)

The rules (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html and the pages below it):
every field that the pattern names must match, one of its listed values suffices, fields that it does not name do not
matter. Of a list in the event one element suffices; but two fields inside a list of objects must match in the same
object, as the service's matcher has it (https://github.com/aws/event-ruler, "JSON Array Matching"). `exists` is about
values only: an object, an empty object and an empty list are as good as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from drivetrain.triggers.pattern_syntax import Alternative, FieldTest, compiled
from drivetrain.triggers.value_tests import Scalar, written

Membership = frozenset[tuple[int, int]]
"""The elements that hold a value of the event: pairs of a list (a number) and a place in it."""

Fields = Mapping[str, list[tuple[Scalar, Membership]]]


@dataclass(frozen=True)
class Mismatch:
    """A field of the pattern that the event does not satisfy."""

    field: str
    given: tuple[Scalar, ...]
    """The field's values in the event: none where it is absent, several where it is a list."""

    wanted: tuple[str, ...]
    """The values that the pattern allows, as JSON."""

    apart: bool = False
    """Each field has a value that would do, but not in the same object of a list."""

    def __str__(self) -> str:
        given = ", ".join(map(written, self.given)) if self.given else "absent"
        if self.apart:
            return f"{self.field} is {given}, but not in the same object of the list as the fields before it"
        return f"{self.field} is {given}; wanted: {' or '.join(self.wanted)}"


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Return True if the event would be sent to the targets of a rule with this pattern.

    Raises:
        PatternError: the service would refuse the pattern.
    """
    return not explain(pattern, event)


def explain(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> list[Mismatch]:
    """Why the event does not match; empty where it does. Of `$or`, the branch that is nearest to matching counts.

    Raises:
        PatternError: the service would refuse the pattern.
    """
    fields = _fields(event)
    nearest: list[Mismatch] | None = None
    for alternative in compiled(pattern):
        found = _mismatches(alternative, fields)
        if not found:
            return []
        if nearest is None or len(found) < len(nearest):
            nearest = found
    assert nearest is not None
    return nearest


def _mismatches(alternative: Alternative, fields: Fields) -> list[Mismatch]:
    alone = [
        Mismatch(field, tuple(value for value, _ in fields.get(field, ())), test.wanted)
        for field, test in alternative.items()
        if not _possible(test, fields.get(field, []))
    ]
    return alone or _apart(alternative, fields)


def _apart(alternative: Alternative, fields: Fields) -> list[Mismatch]:
    """The first field that no longer fits into the list elements which the fields before it have chosen.

    Fields go in the order of their names, as in the service's matcher, which is what decides where one of them must be
    absent. Of the choices so far only what a later field may lie in is kept, or their number would explode.
    """
    order = sorted(alternative, key=lambda name: name.encode("utf-16-be"))
    later: list[frozenset[int]] = [frozenset()]
    for field in reversed(order):
        lists = {number for _, membership in fields.get(field, ()) for number, _ in membership}
        later.append(later[-1] | lists)
    chosen: set[Membership] = {frozenset()}
    for field, needed in zip(order, reversed(later[:-1]), strict=True):
        values = fields.get(field, [])
        reached = _reachable(alternative[field], values, chosen)
        if not reached:
            alone = bool(_reachable(alternative[field], values, {frozenset()}))
            return [Mismatch(field, tuple(value for value, _ in values), alternative[field].wanted, apart=alone)]
        chosen = {frozenset(item for item in membership if item[0] in needed) for membership in reached}
    return []


def _possible(test: FieldTest, values: list[tuple[Scalar, Membership]]) -> bool:
    """Return True if a field's test can hold, whatever the other fields choose."""
    return bool(_reachable(test, values, {frozenset()})) or (test.absent and all(place for _, place in values))


def _reachable(test: FieldTest, values: list[tuple[Scalar, Membership]], chosen: set[Membership]) -> set[Membership]:
    """The choices of list elements under which a field's test holds, of those that are still open."""
    good = {
        membership for value, membership in values if any(one.holds(value) for one in test.tests)
    }  # a set: the elements of a plain list all lie in the same place
    reached = {
        joined for so_far in chosen for membership in good if (joined := _joined(so_far, membership)) is not None
    }
    if test.absent:
        reached |= {so_far for so_far in chosen if all(_joined(so_far, place) is None for _, place in values)}
    return reached


def _joined(one: Membership, other: Membership) -> Membership | None:
    """Both choices together; None where they lie in two elements of one list."""
    places = dict(one)
    if any(places.get(number, place) != place for number, place in other):
        return None
    return one | other


def _fields(event: Mapping[str, Any]) -> Fields:
    """The values of an event by their path. (No recursion: an event may be nested deeper than Python's stack.)"""
    found: dict[str, list[tuple[Scalar, Membership]]] = {}
    num_lists = 0
    waiting: list[tuple[str, Any, Membership]] = [("", event, frozenset())]
    while waiting:
        path, value, membership = waiting.pop()
        if isinstance(value, Mapping):
            for name, inner in cast(Mapping[str, Any], value).items():
                waiting.append((f"{path}.{name}" if path else name, inner, membership))
        elif isinstance(value, list):
            for place, inner in enumerate(cast(list[Any], value)):
                nested = isinstance(inner, Mapping | list)
                waiting.append((path, inner, membership | {(num_lists, place)} if nested else membership))
            num_lists += 1
        else:
            found.setdefault(path, []).append((value, membership))
    for values in found.values():
        values.reverse()  # the last were looked at first
    return found
