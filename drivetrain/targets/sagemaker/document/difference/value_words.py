"""Values of a definition as people read them: short, on one line, without what looks like a secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from drivetrain.base.json_text import Json
from drivetrain.base.masking import MASK, looks_secret, mask
from drivetrain.base.masking import without_secrets as text_without_secrets
from drivetrain.targets.sagemaker.document.conditions import expression_text
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change, Value
from drivetrain.targets.sagemaker.document.difference.meaning import equal
from drivetrain.targets.sagemaker.document.difference.place import Place
from drivetrain.targets.sagemaker.document.expressions import is_expression

_MAX_SHOWN = 72
_MOST_LEAVES = 3


def hidden(value: Any, place: Place) -> Any:
    """The value, or MASK for text that looks like a secret by the name of its place; an ARN only names one. In other
    text what looks like one by its shape is masked."""
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""
    if is_text and looks_secret(name_of(place)) and not str(value).startswith("arn:"):
        return MASK
    return text_without_secrets(value) if isinstance(value, str) else value


def _masked(value: Json, name: str = "") -> Json:
    """The value, with MASK for whatever is called a secret in it."""
    if isinstance(value, dict):
        return {key: _masked(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(_argument(item, flag)) for item, flag in zip(value, ("", *value), strict=False)]
    return hidden(value, (name,))


def _argument(item: Json, flag: Json) -> Json:
    """One of a list of arguments; `flag` is what stands before it."""
    own, equals, _ = item.partition("=") if isinstance(item, str) and item.startswith("-") else ("", "", "")
    if equals and looks_secret(own):
        return f"{own}={MASK}"
    return hidden(item, (flag,) if isinstance(flag, str) and flag.startswith("-") and not own else ())


def without_secrets(value: Any, place: Place) -> Any:
    """A copy of the value at a place, in which all that looks like a secret reads MASK; ABSENT stays."""
    if value is ABSENT:
        return value
    name = name_of(place)
    if isinstance(value, dict) and looks_secret(name):
        # Of what is named by its place, such as a parameter, the name is not in the value.
        given = cast("dict[str, Any]", value)
        marked: dict[str, Any] = mask({**given, "Name": name}, name)
        return {key: marked[key] if key != "Name" else item for key, item in given.items()}
    return mask(value, name)


def masked(change: Change) -> Change:
    """The change as it may be kept and shown."""
    old, new = (without_secrets(value, change.place) for value in (change.old, change.new))
    return replace(change, old=old, new=new)


def name_of(place: Place) -> str:
    """The name under which people know what stands at a place: a variable's, a flag's, a parameter's."""
    named = place[1:2] if place[:1] == (places.PARAMETERS,) else place[-1:]
    if named == ("Value",):
        named = place[-2:-1]
    return named[0] if named and isinstance(named[0], str) else ""


def shown(value: Any) -> str:
    """A value in a few words: text as it is, an expression by what it refers to, an object by its keys."""
    given: Value = value
    if given is ABSENT:
        return "nothing"
    if isinstance(given, str):
        given = text_without_secrets(given)
        return short(given if given and given.isprintable() and given == given.strip() else json.dumps(given))
    if isinstance(given, dict):
        if is_expression(given):
            return short(expression_text(given))
        return short("{" + ", ".join(str(key) for key in given) + "}")
    if isinstance(given, list) and any(isinstance(item, dict) and not is_expression(item) for item in given):
        return f"a list of {len(given)}"
    if isinstance(given, list):
        arguments = (_argument(item, flag) for item, flag in zip(given, ("", *given), strict=False))
        return short("[" + ", ".join(map(shown, arguments)) + "]")
    return json.dumps(given)


def arrow(old: Value, new: Value) -> str:
    """`20 -> 30`, `added: 30`, `removed (was 20)`."""
    if old is ABSENT:
        return f"added: {shown(new)}" if not isinstance(new, dict) or is_expression(new) else "added"
    if new is ABSENT:
        return f"removed (was {shown(old)})" if not isinstance(old, dict) or is_expression(old) else "removed"
    if (within := _within_json(old, new)) is not None:
        return within
    before, after = shown(old), shown(new)
    if before == after:  # text against number, or a difference beyond what is shown
        before, after = _around(*(json.dumps(_masked(value), ensure_ascii=False) for value in (old, new)))
    return f"{before} -> {after}"


def _within_json(old: Value, new: Value) -> str | None:
    """Describe the first differences of two objects that are written as text, such as a model's card; None for others,
    and for short ones."""
    if not (isinstance(old, str) and isinstance(new, str) and old[:1] == new[:1] == "{"):
        return None
    try:
        before, after = json.loads(old), json.loads(new)
    except (ValueError, RecursionError):
        return None
    found = list(islice(_leaves(before, after, ""), _MOST_LEAVES + 1))
    if not found or len(old) + len(new) <= _MAX_SHOWN:
        return None
    parts = [
        " ".join((name, shown(hidden(was, (name,))), "->", shown(hidden(now, (name,))))).strip()
        for name, was, now in found[:_MOST_LEAVES]
    ]
    return "; ".join(parts) + ("; ..." if len(found) > _MOST_LEAVES else "")


def _leaves(old: Value, new: Value, name: str) -> Iterator[tuple[str, Value, Value]]:
    """Name, old and new of what differs in two values; an entry of a list is named as it names itself."""
    if isinstance(old, dict) and isinstance(new, dict):
        called = old.get("name")
        for key in dict.fromkeys((*old, *new)):
            inner = called if isinstance(called, str) and key == "value" else key
            yield from _leaves(old.get(key, ABSENT), new.get(key, ABSENT), inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            yield from _leaves(one, other, name)
    elif old is ABSENT or new is ABSENT or not equal(old, new):
        yield name, old, new


def _around(old: str, new: str) -> tuple[str, str]:
    """The part of two long texts in which they differ."""
    if max(len(old), len(new)) <= _MAX_SHOWN:
        return old, new
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, start - 12)
    dots = "..." if start else ""
    return f"{dots}{short(old[start:])}", f"{dots}{short(new[start:])}"


def short(text: str) -> str:
    """A text of at most 72 characters."""
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
