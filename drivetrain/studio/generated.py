"""Separate what compiling generates (hashes, locations, roles, images, lineage) from what the author wrote.

Compiling marks such texts (`Generated`). An edit keeps what people wrote, and follows the code in all else:

    unlike(parts, place, was)       # what the author wrote there otherwise than the edit expects
    as_written(here)                # the value for `was`, with a mark for each text that is generated
    carried(new, old, here, spot)   # what Studio wrote, with the code's texts for those that it left as they were
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from drivetrain.base.json_text import Json
from drivetrain.targets.sagemaker.compile import Constant, Generated
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change, Value
from drivetrain.targets.sagemaker.document.difference.difference import differing
from drivetrain.targets.sagemaker.document.difference.editing import find, spot_at
from drivetrain.targets.sagemaker.document.difference.entries import Spot, View, assembled, compatible, inside, view
from drivetrain.targets.sagemaker.document.difference.meaning import says_nothing
from drivetrain.targets.sagemaker.document.difference.outline import Outline
from drivetrain.targets.sagemaker.document.difference.place import Place, Segment
from drivetrain.targets.sagemaker.document.expressions import is_expression

MARK = "${generated}"
"""Stands in `was` for each text that compiling generates, and in `now` for the only one that stands at the place."""

Follows = Callable[[Value, Generated], bool]
"""True if a value is left to what is generated at its place."""


def unlike(parts: Outline, place: Place, expected: Value) -> tuple[Change, ...]:
    """List where the author wrote something else than expected (`old`); generated texts make no difference.

    Raises:
        NoSuchPlaceError: there is no such place.
    """
    here, spot = find(parts, place), spot_at(parts, place)
    return differing(renewed(expected, here, spot), here, place, spot)


def renewed(value: Value, here: Value, spot: Spot, follows: Follows = lambda value, text: True) -> Value:
    """The value with the texts that are generated in `here`, each in its place."""
    if isinstance(here, Generated):
        is_text = value is ABSENT or isinstance(value, str)
        return here if is_text and follows(value, here) else value
    if value is ABSENT:
        is_left = here is not ABSENT and all(follows(ABSENT, text) for text in generated(here))
        return here if is_left and _consists_of(here, _is_generated) else ABSENT
    if here is ABSENT:
        return ABSENT if _consists_of(value, lambda text: text == MARK) else value
    if (
        isinstance(value, list)
        and isinstance(here, list)
        and len(value) != len(here)
        and _consists_of(here, lambda text: isinstance(text, Generated) and follows(MARK, text))
    ):
        return here
    before, after = _entries(value, here, spot)
    if before is None or after is None:
        return value
    made: dict[Segment, Value] = {}
    for key in (*after.entries, *(key for key in before.entries if key not in after.entries)):
        one, other = before.entries.get(key, ABSENT), after.entries.get(key, ABSENT)
        made[key] = renewed(one, other, _inside(spot, after, key), follows)
    kept = [key for key in before.entries if key in after.entries]
    if before.ordered and kept != [key for key in after.entries if key in before.entries]:
        made = {key: made[key] for key in before.entries}
    return assembled(after.form, {key: item for key, item in made.items() if item is not ABSENT})


def carried(new: Value, old: Value, here: Value, spot: Spot) -> Value:
    """Give Studio's value in place of `old`; a text that Studio left alone is as it is generated now."""
    texts: dict[str, Generated] = {}

    def noted(value: Value, text: Generated) -> bool:
        if isinstance(value, str) and not isinstance(text, Constant):
            texts.setdefault(value, text)
        return True

    renewed(old, here, spot, noted)
    return replaced(new, lambda text: texts.get(text, text)) if texts else new


def as_written(value: Value, spot: Spot) -> Value:
    """Give the author's part of a value: generated texts are dropped, or marked where something must stand."""
    if isinstance(value, Generated):
        return MARK
    seen = view(value, spot) if isinstance(value, dict | list) else None
    if seen is None:
        return replaced(value, lambda text: MARK if isinstance(text, Generated) else text)
    made: dict[Segment, Value] = {}
    for key, item in seen.entries.items():
        within = _inside(spot, seen, key)
        is_said = not (within.of_service and says_nothing(item, within.field))
        if is_said and not _consists_of(item, _is_generated):
            made[key] = as_written(item, within)
    return assembled(seen.form, {key: item for key, item in made.items() if item is not ABSENT})


def as_edited(new: Value, here: Value) -> Value:
    """Replace each text of Studio's value that is generated in `here` by a mark."""
    names = _named(here)
    return replaced(new, lambda text: names.get(text, text) if _varies(text) else text)


def from_edit(new: Value, here: Value) -> Value:
    """The inverse of `as_edited`, with what is generated in `here` now."""
    texts = {name: text for text, name in _named(here).items()}
    return replaced(new, lambda text: texts.get(text, text)) if texts else new


def generated(value: Value) -> Iterator[Generated]:
    """The texts in a value that compiling generates."""
    if isinstance(value, Generated):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from generated(item)


def has_mark(value: Value) -> bool:
    """Return True if a value holds a mark of a generated text."""
    found: list[str] = []
    replaced(value, lambda text: (found.append(text), text)[1] if text == MARK else text)
    return bool(found)


def replaced(value: Value, change: Callable[[str], str]) -> Value:
    """A copy of the value with other texts; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: cast("Json", replaced(item, change)) for key, item in value.items()}
    if isinstance(value, list):
        return [cast("Json", replaced(item, change)) for item in value]
    return value


def _named(here: Value) -> Mapping[str, str]:
    """Generated text -> its mark: by number, where there are several."""
    texts = list(dict.fromkeys(filter(_varies, generated(here))))
    return {text: MARK if len(texts) == 1 else f"{MARK[:-1]} {n}}}" for n, text in enumerate(texts, 1)}


def _varies(text: str) -> bool:
    return isinstance(text, Generated) and not isinstance(text, Constant)


def _is_generated(value: Any) -> bool:
    """Return True for a single generated value; beside generated values, false and null count as absent."""
    return isinstance(value, Generated) or value is False or value is None


def _consists_of(value: Value, is_one: Callable[[Any], bool]) -> bool:
    if isinstance(value, dict | list):
        items = list(value.values()) if isinstance(value, dict) else value
        return bool(items) and all(_consists_of(item, is_one) for item in items)
    return is_one(value)


def _entries(value: Value, here: Value, spot: Spot) -> tuple[View | None, View | None]:
    """Both by the same names; a list without names by position, where it has the same length."""
    if isinstance(value, dict) and isinstance(here, dict):
        return tuple(View(("object", ""), cast("dict[Segment, Json]", one)) for one in (value, here))  # type: ignore[return-value]
    if not isinstance(value, list) or not isinstance(here, list):
        return None, None
    before, after = view(value, spot), view(here, spot)
    if before is not None and after is not None and compatible(before, after):
        return before, after
    if len(value) != len(here):
        return None, None
    return tuple(View(("list", ""), {str(n): item for n, item in enumerate(one)}) for one in (value, here))  # type: ignore[return-value]


def _inside(spot: Spot, seen: View, key: Segment) -> Spot:
    is_function = seen.form[0] == "object" and is_expression(cast("dict[str, Json]", {key: None}))
    return Spot("", of_service=False) if is_function else inside(spot, seen, key)
