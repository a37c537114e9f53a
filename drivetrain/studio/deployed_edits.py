"""The state of Studio at the last pull, so that the next pull can tell new edits from those it brought before.

Until the next apply, what is deployed differs from what apply wrote last by all that was pulled already. A patch
therefore holds a mark of each value as Studio had it: a hash of what apply had written, of the place and of the value.
After the next apply no mark fits any more, and none is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from drivetrain.base.json_text import Json, text_of
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change, Value, kind_of
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.document.difference.editing import NoSuchPlaceError, alike, find
from drivetrain.targets.sagemaker.document.difference.outline import Outline, outline
from drivetrain.targets.sagemaker.document.difference.place import Place

_MARK = 16


def marks(
    edits: Iterable[Change],
    applied: Mapping[str, Any] | None,
    deployed: Mapping[str, Any],
    before: Iterable[str] = (),
) -> tuple[str, ...]:
    """The marks of a pull: of each edit that is as Studio has it, also where a reviewer has deleted it since.

    Args:
        edits: of the patch that is about to be written.
        applied: what apply wrote last; None where it never did: then there is one mark, of all that is deployed.
        deployed: what the service has.
        before: the marks of the patch until now.
    """
    if applied is None:
        return (_mark(None, (), cast("Json", deployed)),)
    there = outline(deployed)
    found = [_mark(applied, edit.place, edit.new) for edit in edits if _is_there(edit, there)]
    known = set(before)
    again = (_mark(applied, change.place, change.new) for change in differences(applied, deployed))
    return tuple(dict.fromkeys([*found, *(mark for mark in again if mark in known)]))


def seen(
    edits: Iterable[Change], pulled: Iterable[str], applied: Mapping[str, Any], deployed: Mapping[str, Any]
) -> tuple[Change, ...]:
    """Give Studio's values at these edits, and at those that a reviewer has deleted since, as far as the marks
    say it; `old` is not known."""
    known, there = set(pulled), outline(deployed)
    kept = list(edits)
    found: list[Change] = []
    places_of_kept = {edit.place for edit in kept}
    for edit in (*kept, *(change for change in differences(applied, deployed) if change.place not in places_of_kept)):
        for value in _candidates(edit, there):
            if _mark(applied, edit.place, value) in known:
                found.append(Change(edit.place, ABSENT, value, kind_of(edit.place, ABSENT, value)))
                break
    return tuple(found)


def is_known(deployed: Mapping[str, Any], pulled: Iterable[str]) -> bool:
    """Return True if the deployed pipeline is as it was when it was pulled, with nothing applied since."""
    return _mark(None, (), cast("Json", deployed)) in pulled


def _candidates(edit: Change, there: Outline) -> Iterator[Value]:
    yield edit.new
    try:
        yield find(there, edit.place)  # a reviewer changed the edit, and Studio has it as it was pulled
    except NoSuchPlaceError:
        return


def _is_there(edit: Change, there: Outline) -> bool:
    try:
        return alike(there, edit.place, find(there, edit.place), edit.new)
    except NoSuchPlaceError:
        return edit.new is ABSENT


def _mark(applied: Mapping[str, Any] | None, place: Place, value: Value) -> str:
    base = "" if applied is None else text_of(cast("Json", applied))
    parts = (base, places.text(place), "" if value is ABSENT else text_of(value))
    hashes = "".join(hashlib.sha256(part.encode()).hexdigest() for part in parts)
    return hashlib.sha256(hashes.encode()).hexdigest()[:_MARK]
