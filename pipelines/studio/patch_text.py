"""The text of a patch: YAML that people review, and that gives every value back as it was.

Text in quotes is text; a bare number, true, false and null are JSON's; any other bare word is text, whatever YAML
makes of it (`on`, 2026-01-01). What YAML cannot hold (half of a surrogate pair, very deep nesting) stands as JSON
under `was-json` and `now-json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from drivetrain.pipelines.definition import json_text
from drivetrain.pipelines.definition.json_text import Json
from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.plain_yaml import MAX_DEPTH, load_yaml

_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]*(?::[A-Za-z0-9_./@-]+)*", re.ASCII)
_JSON_LITERAL = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
# Bare, these are something else to other readers of YAML.
_RESERVED = frozenset(("true", "false", "null", "on", "off", "yes", "no", "y", "n"))
# A key ends within 1,024 characters, escapes included.
_MAX_KEY = 100
_SURROGATE = re.compile("[\ud800-\udfff]")


def fits(value: Json, levels: int = MAX_DEPTH - 10) -> bool:
    """Whether YAML can hold a value."""
    if json_text.deeper_than(value, levels):
        return False
    return all(_SURROGATE.search(text) is None and (not key or len(text) <= _MAX_KEY) for text, key in _texts(value))


def lines(value: Json, indent: str) -> list[str]:
    """The lines of a value that follows a key or a dash: the first goes on that line, the others are indented."""
    if isinstance(value, dict) and value:
        return ["", *(line for key, item in value.items() for line in _entry(f"{indent}{scalar(key)}:", item, indent))]
    if isinstance(value, list) and value:
        return ["", *(line for item in value for line in _item(item, indent))]
    if isinstance(value, dict | list):
        return ["{}" if isinstance(value, dict) else "[]"]
    return [scalar(value)]


def scalar(value: str | float | bool | None) -> str:
    """A single value."""
    if not isinstance(value, str):
        return json_text.text_of(value).rstrip("\n")
    if _BARE.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    if value.isprintable() and ('"' in value or "\\" in value) and "'" not in value:
        return f"'{value}'"
    if value.isprintable():
        return json.dumps(value, ensure_ascii=False)
    return '"' + "".join(map(_escaped, value)) + '"'


def comment(text: str) -> str:
    """A line of comment, whatever the text holds."""
    return "# " + "".join(char if char.isprintable() else " " for char in text)


def read(text: str, source: str) -> Json:
    """The value of such a text.

    Raises:
        UserError: what `plain_yaml` refuses: tags, anchors, a key given twice, too deep or no YAML at all.
    """
    import yaml

    load_yaml(text, source)
    node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return None if node is None else _value(node, source)


def _value(node: Any, source: str) -> Json:
    import yaml

    if isinstance(node, yaml.MappingNode):
        entries = cast("list[tuple[Any, Any]]", node.value)
        return {str(key.value): _value(item, source) for key, item in entries}
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, source) for item in cast("list[Any]", node.value)]
    text = str(node.value)
    if node.style or not _JSON_LITERAL.fullmatch(text):  # in quotes everything is text
        return text
    return json_text.parse(text, f"{source}, line {node.start_mark.line + 1}")


def _entry(head: str, value: Json, indent: str) -> Iterator[str]:
    # A list stands under its key without further indentation, as most YAML is written.
    first, *rest = lines(value, indent if isinstance(value, list) else indent + "  ")
    yield f"{head} {first}".rstrip()
    yield from rest


def _item(value: Json, indent: str) -> Iterator[str]:
    first, *rest = lines(value, indent + "  ")
    if first or not rest:
        yield f"{indent}- {first}".rstrip()
        yield from rest
        return
    yield f"{indent}- {rest[0].removeprefix(indent + '  ')}"
    yield from rest[1:]


def _escaped(char: str) -> str:
    if char.isprintable():
        return json.dumps(char, ensure_ascii=False)[1:-1]
    return {"\n": r"\n", "\t": r"\t", "\r": r"\r"}.get(char, f"\\U{ord(char):08x}")


def _texts(value: Json) -> Iterator[tuple[str, bool]]:
    """Every text, and whether it is a key."""
    if isinstance(value, str):
        yield value, False
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key, True
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def from_json_text(text: Json, source: str) -> Json:
    """The value of `was-json` or `now-json`.

    Raises:
        UserError: no text, or no JSON.
    """
    if not isinstance(text, str):
        raise UserError(f"{source} is {text!r:.60}. Allowed: JSON in quotes.")
    return json_text.parse(text, source)


def as_json_text(value: Json) -> str:
    """A value as one line of JSON, in ASCII."""
    return _ascii(re.sub(r"\n *", " ", json_text.text_of(value)).strip())


def _ascii(text: str) -> str:
    return "".join(char if ord(char) < 128 else json.dumps(char)[1:-1] for char in text)
