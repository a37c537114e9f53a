"""Strict JSON text: what comes from other people is read or refused, never guessed at.

The standard library's reader accepts what JSON does not have (NaN), silently drops what is written twice (the last of
two equal keys wins) and stops with a RecursionError where data is nested deeply. This one says where and why.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from json.encoder import encode_basestring, encode_basestring_ascii  # type: ignore[reportUnknownVariableType]
from typing import Any, TypeAlias, cast

from drivetrain.base.errors import UserError

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Segment = str | int

# Real definitions are about 20 levels deep; a condition in a branch of another one adds four.
MAX_LEVELS = 200
# The service takes 1,048,576 characters in a request and more through S3; this bounds memory, not use.
MAX_BYTES = 32 * 1024 * 1024

# A key in brackets ends at its quote and bracket: the SDK writes it without any escaping.
_SEGMENT = re.compile(r"""\.([^.\[\]'"]+)|\[([0-9]{1,9})\]|\['(.*?)'\]|\["(.*?)"\]""", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_Container: TypeAlias = "dict[str, Json] | list[Json]"
_quoted: Callable[[str], str] = cast("Any", encode_basestring)
_quoted_in_ascii: Callable[[str], str] = cast("Any", encode_basestring_ascii)


class SpelledFloat(float):
    """A float that remembers how it was written (`1E5`, `0.10`), so that it is written back the same."""

    __slots__ = ("text",)
    text: str


class _DuplicateKeyError(ValueError):
    pass


class _RefusedLiteralError(ValueError):
    """A literal that JSON or a double does not have, and why."""

    def __init__(self, literal: str, why: str) -> None:
        self.literal, self.why = literal, why


def parse(text: str | bytes, source: str) -> Json:
    """The value of a JSON text.

    Raises:
        UserError: not UTF-8, not JSON (with line and column), a key given twice, NaN or Infinity, a number outside a
            double's range, more than MAX_LEVELS levels or MAX_BYTES bytes.
    """
    if len(text) > MAX_BYTES:
        raise UserError(f"{source}: {len(text):,} bytes are too much; at most {MAX_BYTES:,}.")
    if isinstance(text, bytes):
        text = _decoded(text, source)
    text = text.removeprefix("\ufeff")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_float=_float, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        found = repr(text[error.pos : error.pos + 20]) if error.pos < len(text) else "the end of the file"
        raise UserError(f"{_place(source, text, error.pos)}: not JSON: {error.msg}, found {found}.") from None
    except RecursionError:
        raise UserError(_too_deep(source)) from None
    except _DuplicateKeyError:
        raise UserError(_duplicate_key(text, source)) from None
    except _RefusedLiteralError as error:
        literal = error.literal
        place = _place(source, text, _position(text, lambda token: token.startswith(literal)))
        raise UserError(f"{place}: {literal[:40]} {error.why}") from None
    except ValueError:  # the conversion of a long integer takes quadratic time, so CPython refuses it
        most = sys.get_int_max_str_digits()
        too_long = re.compile(rf"-?[0-9]{{{most + 1}}}")
        place = _place(source, text, _position(text, lambda token: too_long.match(token) is not None))
        raise UserError(f"{place}: a number of more than {most:,} digits.") from None
    if deeper_than(value, MAX_LEVELS):
        raise UserError(_too_deep(source))
    return value


def text_of(value: Json, indent: int = 1) -> str:
    """JSON text with every key in its given order, `indent` spaces a level and a final newline.

    What `parse` read comes out with the same meaning, and floats with the same spelling.

    Raises:
        UserError: for NaN and Infinity, which JSON does not have, and for what is no JSON value at all.
    """
    try:
        text = _written(value, "\n", " " * indent) + "\n"
    except ValueError as error:
        raise UserError(f"this cannot be written as JSON: {error}") from None
    # A lone half of a surrogate pair cannot be encoded; as an escape it survives.
    return _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def compact(value: Json) -> str:
    """JSON text in ASCII without spaces and newlines, floats with the spelling that `parse` read.

    Raises:
        UserError: as `text_of`.
    """
    return _written(value, "", "", _quoted_in_ascii, ":")


def _written(value: Json, newline: str, indent: str, quoted: Callable[[str], str] = _quoted, colon: str = ": ") -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        inner = newline + indent
        items = [f"{quoted(key)}{colon}{_written(item, inner, indent, quoted, colon)}" for key, item in value.items()]
        return f"{{{inner}{f',{inner}'.join(items)}{newline}}}" if items else "{}"
    if isinstance(value, list):
        inner = newline + indent
        items = [_written(item, inner, indent, quoted, colon) for item in value]
        return f"[{inner}{f',{inner}'.join(items)}{newline}]" if items else "[]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, SpelledFloat):
        return value.text
    if isinstance(value, float):  # type: ignore[reportUnnecessaryIsInstance]  # callers may give anything
        if value - value != 0:
            raise UserError(f"{value} is no finite number.")
        return float.__repr__(value)
    raise UserError(f"{value!r:.80} is a {type(value).__name__}.")


def as_object(value: object) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """A list; an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def parsed_object(text: str) -> dict[str, Any] | None:
    """The object in a text; None for a text that is no JSON object."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def object_in(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; empty if it is missing."""
    return as_object(given.get(key))


def list_in(given: Mapping[str, Any], key: str) -> list[Any]:
    """The list under a key; empty if it is missing."""
    return as_list(given.get(key))


def objects_in(given: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects in the list under a key."""
    return [cast("dict[str, Any]", item) for item in list_in(given, key) if isinstance(item, dict)]


def text_in(given: Mapping[str, Any], key: str) -> str | None:
    """The text under a key; None if it is missing or not known yet."""
    value = given.get(key)
    return value if isinstance(value, str) else None


def deeper_than(value: Json, levels: int) -> bool:
    """Return True if objects and lists nest more than `levels` deep; level by level, so that no depth can break it."""
    level: list[_Container] = [value] if type(value) is dict or type(value) is list else []
    for _ in range(levels):
        if not level:
            return False
        items = [item for node in level for item in (node.values() if type(node) is dict else node)]
        level = [item for item in items if type(item) is dict or type(item) is list]
    return bool(level)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _DuplicateKeyError
    return made


def _float(text: str) -> float:
    value = float(text)
    if repr(value) == text:
        return value
    if value - value != 0:
        why = "is outside the range of a double (about 1.8e308). Use a smaller number, or text."
        raise _RefusedLiteralError(text, why)
    spelled = SpelledFloat(value)
    spelled.text = text
    return spelled


def _refuse_constant(text: str) -> Json:
    raise _RefusedLiteralError(text, "is not JSON. Use a finite number, or text.")


def _position(text: str, wanted: Callable[[str], bool]) -> int:
    """The position of the first such token, garbage at its end included. The fast reader does not say."""
    return next(token.start() for token in _TOKEN.finditer(text) if wanted(token.group()))


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{source}: byte {error.start} (0x{data[error.start]:02x}) is not UTF-8. Save the file as UTF-8."
        ) from None


def _too_deep(source: str) -> str:
    return f"{source}: objects and lists are nested more than {MAX_LEVELS} levels deep."


def _place(source: str, text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"{source}, line {line}, column {position - text.rfind(chr(10), 0, position)}"


def _duplicate_key(text: str, source: str) -> str:
    """The place of the second key of that name."""
    keys: list[set[str] | None] = []
    tokens = list(_TOKEN.finditer(text))
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        mark = token.group()
        if mark in "{[":
            keys.append(set() if mark == "{" else None)
        elif mark in "}]":
            keys.pop()
        elif mark[0] == '"' and following is not None and following.group() == ":" and (seen := keys[-1]) is not None:
            key = json.loads(mark)
            if key in seen:
                return (
                    f"{_place(source, text, token.start())}: key {key!r} is given twice in one object. Remove one of "
                    "them (readers disagree which of the two counts)."
                )
            seen.add(key)
    raise AssertionError("a duplicate key that cannot be found again")


@lru_cache(maxsize=8192)
def parse_path(text: str) -> tuple[Segment, ...]:
    """The segments of a path: keys as text, positions in a list as int.

    Raises:
        UserError: naming the place from which the text is no path.
    """
    dotted = text if text.startswith("[") else "." + text
    found: list[Segment] = []
    position = 0
    while position < len(dotted):
        segment = _SEGMENT.match(dotted, position)
        if segment is None:
            rest = dotted[position:] if position else text
            raise UserError(
                f"{text[:120]!r} is not a path: cannot read {rest[:40]!r}. Allowed: names with dots, ['key'] and [0]."
            )
        name, index, single, double = segment.groups()
        if index is not None:
            found.append(int(index))
        else:
            found.append(next(key for key in (name, single, double) if key is not None))
        position = segment.end()
    return tuple(found)
