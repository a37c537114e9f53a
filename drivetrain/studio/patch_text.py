"""The text of a patch: YAML that people review, and that gives every value back as it was.

Text in quotes is text; a bare number, true, false and null are JSON's; any other bare word is text, whatever YAML
makes of it (`on`, 2026-01-01). What YAML cannot hold (half of a surrogate pair, very deep nesting) stands as JSON
under `was-json` and `now-json`. The comments that reviewers wrote are kept when it is written again.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from drivetrain.base import json_text
from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Json

MAX_DEPTH = 50
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]*(?::[A-Za-z0-9_./@-]+)*", re.ASCII)
_JSON_LITERAL = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
# Bare, these are something else to other readers of YAML.
_RESERVED = frozenset(("true", "false", "null", "on", "off", "yes", "no", "y", "n"))
# A key ends within 1,024 characters, escapes included.
_MAX_KEY = 100
_SURROGATE = re.compile("[\ud800-\udfff]")
_COMMENT = re.compile("#[^\r\n\x85\u2028\u2029]*")

NO_EDIT = ""
"""Stands for the place of what belongs to no edit."""


def fits(value: Json, levels: int = MAX_DEPTH - 10) -> bool:
    """Return True if YAML can hold a value."""
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
    """The value of such a text, built in one pass.

    Raises:
        UserError: tags, anchors, aliases, a key given twice, too deep, several documents or no YAML at all.
    """
    import yaml

    built = _Built(source)
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.ScalarEvent):
                built.plain(event)
                built.scalar(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                built.plain(event)
                built.start(event, {} if isinstance(event, yaml.MappingStartEvent) else [])
            elif isinstance(event, yaml.CollectionEndEvent):
                built.end()
            elif isinstance(event, yaml.AliasEvent):
                raise UserError(f"{built.at(event)}: anchors and aliases are not allowed.")
            elif isinstance(event, yaml.DocumentStartEvent):
                built.document(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UserError(f"{source}{place}: not YAML: {error.problem}.") from None
    except yaml.YAMLError as error:
        raise UserError(f"{source}: not YAML: {str(error).splitlines()[0]}.") from None
    return built.value


class _Built:
    """A value that grows with the events of a parser."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.value: Json = None
        self._open: list[dict[str, Json] | list[Json]] = []
        self._keys: list[str | None] = []
        self._documents = 0

    def at(self, event: Any) -> str:
        return f"{self.source}, line {event.start_mark.line + 1}"

    def document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise UserError(f"{self.at(event)}: a second document begins. A patch is one.")

    def plain(self, event: Any) -> None:
        """Refuse what stands for more than it shows."""
        if event.anchor is not None:
            raise UserError(f"{self.at(event)}: anchors and aliases are not allowed.")
        if event.tag is not None:
            raise UserError(f"{self.at(event)}: tags are not allowed; a patch holds plain values.")

    def scalar(self, event: Any) -> None:
        text = str(event.value)
        inner = self._open[-1] if self._open else None
        if isinstance(inner, dict) and self._keys[-1] is None:
            if text in inner:
                raise UserError(f"{self.at(event)}: {text!r} is given twice.")
            self._keys[-1] = text
        elif event.style or not _JSON_LITERAL.fullmatch(text):  # in quotes everything is text
            self._put(text)
        else:
            self._put(json_text.parse(text, self.at(event)))

    def start(self, event: Any, container: dict[str, Json] | list[Json]) -> None:
        if self._open and isinstance(self._open[-1], dict) and self._keys[-1] is None:
            raise UserError(f"{self.at(event)}: a list or mapping cannot be a key. Write `name: value`.")
        if len(self._open) >= MAX_DEPTH:
            raise UserError(f"{self.at(event)}: nested deeper than {MAX_DEPTH} levels.")
        self._put(container)
        self._open.append(container)
        self._keys.append(None)

    def end(self) -> None:
        self._open.pop()
        self._keys.pop()

    def _put(self, value: Json) -> None:
        inner = self._open[-1] if self._open else None
        if isinstance(inner, dict):
            inner[str(self._keys[-1])] = value
            self._keys[-1] = None
        elif isinstance(inner, list):
            inner.append(value)
        else:
            self.value = value


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


def comments(text: str) -> dict[str, tuple[str, ...]]:
    """Place of an edit, as it is written, -> the comments above it, beside it and in it; in the text of a patch."""
    import yaml

    if "#" not in text:
        return {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    edits = _edits(yaml.compose(text, Loader=loader))
    starts = [node.start_mark.line for node, _ in edits]
    end = max((node.end_mark.line for node, _ in edits), default=0)
    found: dict[str, list[str]] = {}
    for line, comment in _comments(text, list(yaml.scan(text, Loader=loader))):
        at = bisect_right(starts, line) - 1
        found.setdefault(edits[at][1] if at >= 0 and line < end else NO_EDIT, []).append(comment)
    return {place: tuple(said) for place, said in found.items()}


def _edits(root: Any) -> list[tuple[Any, str]]:
    """The node of every edit, and its place."""
    fields = {key.value: value for key, value in root.value}
    items = fields["edits"].value
    return [(item, next(str(value.value) for key, value in item.value if key.value == "place")) for item in items]


def _comments(text: str, tokens: list[Any]) -> Iterator[tuple[int, str]]:
    """Every comment, and the line of what it is about: its own, or that of what follows where it stands alone."""
    for before, after in pairwise(tokens):
        # Between tokens there are only spaces, line breaks and comments.
        for comment in _COMMENT.finditer(text, before.end_mark.index, after.start_mark.index):
            is_beside = "\n" not in text[before.end_mark.index : comment.start()] and before.end_mark.column > 0
            yield (before.end_mark if is_beside else after.start_mark).line, comment.group().rstrip()
