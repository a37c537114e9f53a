"""Compare two definitions, in meaning and by name.

    for change in differences(deployed, compiled): ...
    print("\n".join(describe_all(differences(deployed, compiled))))

The order of keys, of steps and of whatever the service reads by name makes no difference, nor does a default that is
written out (`meaning`). A step that moves into or out of a branch is one change; a renamed one is gone and new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from drivetrain.base.json_text import Json
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change, Value, kind_of
from drivetrain.targets.sagemaker.document.difference.change_words import describe, describe_all
from drivetrain.targets.sagemaker.document.difference.entries import Spot, View, compatible, empty, inside, view
from drivetrain.targets.sagemaker.document.difference.meaning import equal, says_nothing, spelled_differently
from drivetrain.targets.sagemaker.document.difference.outline import Object, Outline, outline
from drivetrain.targets.sagemaker.document.difference.place import BRANCHES, DEFINITION, PARAMETERS, STEPS, Place

__all__ = ["ABSENT", "Change", "describe", "describe_all", "differences", "same"]

STEP = Spot(step=True)


def differences(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> tuple[Change, ...]:
    """List the changes from one definition to another: parameters, then steps in the order of the new one, then the
    rest.

    None stands for no definition, in which everything is new.
    """
    return between(outline(old), outline(new))


def same(old: Value, new: Value, spot: Spot) -> bool:
    """Return True if two values that may stand at a spot mean the same."""
    return not differing(old, new, (), spot)


def differing(old: Value, new: Value, place: Place, spot: Spot) -> tuple[Change, ...]:
    """List the differences of two values that may stand at a place."""
    found: list[Change] = []
    _compare(old, new, place, spot, found)
    return tuple(found)


def between(old: Outline, new: Outline) -> tuple[Change, ...]:
    """List the changes from one outlined definition to another."""
    found: list[Change] = []
    old_fields, new_fields = dict(old.fields), dict(new.fields)
    if old.parameters is not None and new.parameters is not None:
        for name in _union(old.parameters, new.parameters):
            before, after = old.parameters.get(name, ABSENT), new.parameters.get(name, ABSENT)
            _compare(before, after, (PARAMETERS, name), Spot(), found)
    else:
        _raw(old, new, "Parameters", old_fields, new_fields)
    if old.steps is not None and new.steps is not None:
        for name in _union(old.steps, new.steps):
            _compare_step(old.steps.get(name, ABSENT), new.steps.get(name, ABSENT), (STEPS, name), found)
            if name in new.steps:
                before, after = old.branches.get(name, ABSENT), new.branches.get(name, ABSENT)
                _compare(before, after, (BRANCHES, name), Spot("branch", of_service=False), found, whole=True)
    else:
        _raw(old, new, "Steps", old_fields, new_fields)
    for field in _union(old_fields, new_fields):
        # Not as a collection: a list that could not be keyed is one value, with or without entries.
        before, after = old_fields.get(field, ABSENT), new_fields.get(field, ABSENT)
        keyed = field not in ("Steps", "Parameters")
        _compare(before, after, (DEFINITION, field), Spot(field, of_service=keyed), found, whole=not keyed)
    return tuple(found)


def _raw(old: Outline, new: Outline, field: str, old_fields: Object, new_fields: Object) -> None:
    for given, fields in ((old, old_fields), (new, new_fields)):
        if field in given.raw:
            fields[field] = given.raw[field]


def _union(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterable[str]:
    """The names of both, in the new order; each removed name comes after its old predecessor."""
    gone: dict[str | None, list[str]] = {}
    last: str | None = None
    for name in old:
        if name in new:
            last = name
        else:
            gone.setdefault(last, []).append(name)
    yield from gone.get(None, ())
    for name in new:
        yield name
        yield from gone.get(name, ())


def _compare_step(old: Value, new: Value, place: Place, found: list[Change]) -> None:
    """A step of another type is another step, whatever its name."""
    whole = isinstance(old, dict) and isinstance(new, dict) and not equal(old.get("Type"), new.get("Type"))
    _compare(old, new, place, STEP, found, whole=whole)


def _compare(old: Value, new: Value, place: Place, spot: Spot, found: list[Change], *, whole: bool = False) -> None:
    if old is new:
        return
    nothing_before = old is ABSENT or (spot.of_service and says_nothing(old, spot.field))
    nothing_after = new is ABSENT or (spot.of_service and says_nothing(new, spot.field))
    if nothing_before and nothing_after:
        return
    before = empty(spot) if nothing_before else view(cast("Json", old), spot)
    after = empty(spot) if nothing_after else view(cast("Json", new), spot)
    if not whole and before is not None and after is not None and compatible(before, after):
        if _arrives(before, after):
            _compare_entries(before, after, place, spot, found)
            return
        whole = True
    if old is not ABSENT and new is not ABSENT:
        if equal(old, new) or (spot.of_service and spelled_differently(old, new, spot.field)):
            return
        if not whole and spot.of_service and _same_lists(old, new):
            return
    found.append(Change(place, old, new, kind_of(place, old, new)))


def _compare_entries(before: View, after: View, place: Place, spot: Spot, found: list[Change]) -> None:
    for key in (*before.entries, *(key for key in after.entries if key not in before.entries)):
        seen = before if key in before.entries else after
        old, new = before.entries.get(key, ABSENT), after.entries.get(key, ABSENT)
        within = inside(spot, seen, key)
        if within.step:
            _compare_step(old, new, (*place, key), found)
        else:
            _compare(old, new, (*place, key), within, found)


def _arrives(before: View, after: View) -> bool:
    """Return True if removing and adding entries leads to the right order, or order does not count: new entries go to
    the end."""
    if not (before.ordered or after.ordered):
        return True
    kept = [key for key in before.entries if key in after.entries]
    return [*kept, *(key for key in after.entries if key not in before.entries)] == list(after.entries)


def _same_lists(old: Json, new: Json) -> bool:
    """Lists without names: entry by entry."""
    if not (isinstance(old, list) and isinstance(new, list) and len(old) == len(new)):
        return False
    return all(same(one, other, Spot()) for one, other in zip(old, new, strict=True))
