"""Python code as ruff formats it, for what definitions hold: calls, lists, dicts and literals."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from inspect import cleandoc
from typing import Any, NamedTuple, cast

from drivetrain.base.formatting import printable

WIDTH = 88
"""Lines that are shorter stay as they are with any longer limit, too: what is split ends with a comma."""


class Code(str):
    """A piece of code that stands as it is."""

    __slots__ = ()


class Called(NamedTuple):
    """A call; values are literals, Code or calls."""

    function: str
    positional: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = {}


class Item(NamedTuple):
    """A value of a step by its name: step["name"]."""

    step: str
    name: str


def assigned(name: str, value: Any, indent: int = 4) -> str:
    """The lines of `name = value`."""
    code = spelled(value, indent, len(name) + 3)
    space = " " * indent
    if isinstance(value, str) and len(f"{space}{name} = {code}") > WIDTH >= len(f"{space}    {code}"):
        return f"{space}{name} = (\n{space}    {code}\n{space})"
    return f"{space}{name} = {code}"


def spelled(value: Any, indent: int = 4, before: int = 0, after: int = 0) -> str:
    """The code of a value, which begins `before` characters after the indentation; `after` more follow it."""
    flat = _flat(value)
    if indent + before + len(flat) + after <= WIDTH or not _parts(value):
        return flat
    opening, closing = _brackets(value)
    inner = indent + 4
    comma = "" if isinstance(value, Item) else ","
    lines = [f"{' ' * inner}{head}{spelled(part, inner, len(head), 1)}{comma}" for head, part in _parts(value)]
    return "\n".join([opening, *lines, " " * indent + closing])


def text(value: str) -> str:
    """A text in the quotes that ruff prefers."""
    body = repr('"' + value)[2:-1]  # with a double quote in it, it stands in single ones
    if value.count('"') > value.count("'"):
        return f"'{body}'"
    body = re.sub(r"\\(.)", lambda found: "'" if found[1] == "'" else found[0], body)
    return '"' + body.replace('"', '\\"') + '"'


def imported(module: str, words: set[str]) -> str:
    """The lines that import words from a module."""
    listed = sorted(words, key=lambda word: (word[0].islower(), word))
    line = f"from {module} import {', '.join(listed)}"
    many = [f"from {module} import (", *(f"    {word}," for word in listed), ")"]
    return line if len(line) <= WIDTH else "\n".join(many)


def comment(lines: str) -> list[str]:
    """Lines of comment in a function."""
    wrapped = [part for line in lines.splitlines() for part in textwrap.wrap(printable(line), WIDTH - 6) or [""]]
    return [f"    # {line}".rstrip() for line in wrapped]


def docstring(given: str) -> str:
    """Text as a docstring, its lines without what no terminal shows."""
    lines = "\n".join(printable(line).rstrip() for line in cleandoc(given).splitlines()).replace("\\", "\\\\")
    escaped = lines.replace('"', '\\"')
    is_odd = lines.startswith('"') or lines.endswith('"') or '"""' in lines
    return f'"""{escaped if is_odd else lines}"""'


def block(value: str) -> Code:
    """A text in several lines between three quotes, where each character of it can be seen there."""
    is_plain = all(line.isprintable() and line == line.rstrip() for line in value.split("\n"))
    if not is_plain or '"""' in value or value.endswith('"'):
        return Code(text(value))
    return Code('"""' + value.replace("\\", "\\\\") + '"""')


def _brackets(value: Any) -> tuple[str, str]:
    if isinstance(value, Called):
        return f"{value.function}(", ")"
    if isinstance(value, Item):
        return f"{value.step}[", "]"
    return ("{", "}") if isinstance(value, dict) else ("(", ")") if isinstance(value, tuple) else ("[", "]")


def _parts(value: Any) -> list[tuple[str, Any]]:
    """The parts between the brackets, each with the code before it."""
    if isinstance(value, Called):
        return [
            *(("", each) for each in value.positional),
            *((f"{key}=", each) for key, each in value.keywords.items()),
        ]
    if isinstance(value, Item):
        return [("", value.name)]
    if isinstance(value, dict):
        return [(f"{text(name)}: ", each) for name, each in cast("dict[str, Any]", value).items()]
    return [("", each) for each in cast("list[Any]", value)] if isinstance(value, list | tuple) else []


def _flat(value: Any) -> str:
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict | list | tuple):
        opening, closing = _brackets(value)
        single = (
            isinstance(value, tuple) and not isinstance(value, Called | Item) and len(cast("tuple[Any]", value)) == 1
        )
        return opening + ", ".join(head + _flat(part) for head, part in _parts(value)) + "," * single + closing
    return repr(value)
