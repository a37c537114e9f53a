"""Unknown fields and wrong types; what is left of a document when they are taken out has the right ones.

Which fields there are say the protobufs, pipeline_spec.proto and kubernetes_executor_config.proto: all of it is in
messages.json, which `make shapes` extracts from the installed kfp (tests/fixtures/kfp_messages.py). A field's type is
`text`, `bool`, `int`, `number`, `duration`, `any`, `object` (of any content), the name of an enum or a message, or a
`list` or `map` of one. Of the fields of a message with the same word after `|` at most one is given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from drivetrain.base.errors import did_you_mean
from drivetrain.targets.kubeflow.ir.problems import MOST, Json, Problem, at, entry

FILE = Path(__file__).with_name("messages.json")


class Field(NamedTuple):
    """A field of a message."""

    container: str
    """`list`, `map`, or empty for one value."""
    kind: str
    """The type of the value, or of each of them."""
    choice: str
    """The choice that it is one alternative of; empty where it stands alone."""


@cache
def enums() -> dict[str, list[str]]:
    """Enum -> its words."""
    return _file()["enums"]


@cache
def messages() -> dict[str, dict[str, Field]]:
    """Message -> field -> its type."""
    return {
        message: {name: _field(text) for name, text in fields.items()}
        for message, fields in _file()["messages"].items()
    }


@cache
def _file() -> dict[str, Any]:
    return json.loads(FILE.read_bytes())


def _field(text: str) -> Field:
    words, _, choice = text.partition(" | ")
    container, _, kind = words.rpartition(" ")
    return Field(container, kind, choice)


_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_DURATION = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?s")
_WORDS = {
    "text": "a text",
    "bool": "true or false",
    "int": "a whole number",
    "number": "a number",
    "duration": "a number of seconds such as '30s'",
    "object": "an object",
}


def cleaned(value: Any, message: str, place: str, found: list[Problem]) -> Json:
    """A copy of an object with the known fields that have the right types; what else it has is entered in `found`.

    Args:
        message: the name of its type in messages.json.
        place: of the object; empty for the document itself.
    """
    if not isinstance(value, dict):
        found.append(Problem(place or "the document", f"is {_kind_of(value)}, not an object."))
        return {}
    fields = messages()[message]
    kept: Json = {}
    chosen: dict[str, str] = {}
    for name, item in cast(Json, value).items():
        if len(found) >= MOST:
            break
        field = fields.get(str(name))
        where = at(place, str(name))
        if field is None:
            found.append(Problem(where, f"there is no such field here. {did_you_mean(str(name), fields)}"))
            continue
        if item is None:  # as the protobufs read it: not given
            continue
        if field.choice:
            if field.choice in chosen:
                found.append(Problem(where, f"is given beside {chosen[field.choice]!r}. Give one of them."))
                continue
            chosen[field.choice] = name
        result = _value(item, field, where, found)
        if result is not None:
            kept[name] = result
    return kept


def _value(item: Any, field: Field, where: str, found: list[Problem]) -> Any:
    if field.container == "list":
        if not isinstance(item, list):
            found.append(Problem(where, f"is {_kind_of(item)}, not a list."))
            return None
        results = [_one(each, field.kind, entry(where, i), found) for i, each in enumerate(cast("list[Any]", item))]
        return [each for each in results if each is not None]
    if field.container == "map":
        if not isinstance(item, dict):
            found.append(Problem(where, f"is {_kind_of(item)}, not an object."))
            return None
        entries = cast(Json, item).items()
        return {
            key: result
            for key, each in entries
            if _is_name(key, where, found) and (result := _one(each, field.kind, entry(where, key), found)) is not None
        }
    return _one(item, field.kind, where, found)


def _one(item: Any, kind: str, where: str, found: list[Problem]) -> Any:
    if kind in enums():
        if item not in enums()[kind]:
            given = repr(item) if isinstance(item, str) else _kind_of(item)
            found.append(Problem(where, f"is {given}. {did_you_mean(str(item), enums()[kind])}"))
            return None
        return item
    if kind not in _WORDS and kind != "any":
        return cleaned(item, kind, where, found)
    for problem in _strange(item, where):
        found.append(problem)
        return None
    if kind != "any" and not _fits(item, kind):
        found.append(Problem(where, f"is {_kind_of(item)}, not {_WORDS[kind]}."))
        return None
    return item


def _is_name(key: Any, where: str, found: list[Problem]) -> bool:
    if isinstance(key, str):
        return True
    found.append(Problem(where, f"the key {key!r} is no text. Put it in quotes."))
    return False


def _fits(item: Any, kind: str) -> bool:
    if kind == "text":
        return isinstance(item, str)
    if kind == "bool":
        return isinstance(item, bool)
    if kind == "object":
        return isinstance(item, dict)
    if kind == "duration":
        return isinstance(item, str) and _DURATION.fullmatch(item) is not None
    if isinstance(item, bool):
        return False
    if kind == "int":  # protobuf's JSON has 64-bit numbers as texts
        is_whole = isinstance(item, int) or (isinstance(item, float) and item.is_integer())
        return is_whole or (isinstance(item, str) and _WHOLE.fullmatch(item) is not None)
    return isinstance(item, int | float)


def _strange(item: Any, where: str) -> Iterator[Problem]:
    """Find what YAML has and JSON has not, anywhere in a value, such as a date."""
    pending: list[Any] = [item]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            pending += cast("dict[Any, Any]", one).values()
            if any(not isinstance(key, str) for key in cast("dict[Any, Any]", one)):
                yield Problem(where, "has a key that is no text. Put it in quotes.")
        elif isinstance(one, list):
            pending += cast("list[Any]", one)
        elif not isinstance(one, str | int | float | bool | None):
            yield Problem(where, f"is or has {_kind_of(one)}. Put it in quotes, so that it is a text.")


def _kind_of(item: Any) -> str:
    names: dict[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    kind = type(cast("object", item))
    return "nothing" if item is None else names.get(kind, f"a {kind.__name__}")
