"""The expressions of conditions: CEL, as far as conditions on inputs need it (https://github.com/google/cel-spec).

An expression is read, not evaluated: what it refers to, and whether its parts can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_TOKENS = re.compile(
    r"""\s*(?:
        (?P<text>[rR]?"(?:[^"\\\n]|\\.)*"|[rR]?'(?:[^'\\\n]|\\.)*')
      | (?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?u?|0x[0-9a-fA-F]+u?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<mark>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]])
    )""",
    re.VERBOSE,
)
MAX_CHARACTERS, MAX_LEVELS = 10_000, 40
_COMPARE = ("==", "!=", "<=", ">=", "<", ">", "in")
# Function or method -> the type that it gives; None where that depends.
_FUNCTIONS = {
    "bool": "boolean",
    "contains": "boolean",
    "double": "number",
    "endsWith": "boolean",
    "has": "boolean",
    "int": "number",
    "matches": "boolean",
    "size": "number",
    "startsWith": "boolean",
    "string": "text",
    "type": None,
    "uint": "number",
}
_LITERALS = {"true": "boolean", "false": "boolean", "null": None}

Type = str | None
"""`text`, `number`, `boolean`, `list` or `object`; None where it is not known."""


class CelError(ValueError):
    """An error in an expression, with its column if it is in one place."""


class Reference(NamedTuple):
    """An input of the task that an expression names."""

    flow: str
    name: str


def references(expression: str, type_of: Callable[[Reference], Type]) -> list[Reference]:
    """The inputs that a condition refers to, in their order.

    Args:
        type_of: the type of an input's value.

    Raises:
        CelError: no CEL, no names but `inputs`, a comparison of a text with a number, or no condition at all.
    """
    if len(expression) > MAX_CHARACTERS:
        raise CelError(f"{len(expression):,} characters. Allowed: {MAX_CHARACTERS:,}.")
    reader = _Reader(expression, type_of)
    result = reader.choice(0)
    if reader.token != "":
        raise reader.error(f"found {reader.token!r} where the expression could end")
    if result not in ("boolean", None):
        raise CelError(f"it gives a {result}. Allowed: what is true or false, such as a comparison.")
    return reader.found


class _Reader:
    def __init__(self, text: str, type_of: Callable[[Reference], Type]) -> None:
        self.text, self.type_of = text, type_of
        self.found: list[Reference] = []
        self.end = 0
        self.token, self.kind, self.start = "", "", 0
        self.advance()

    def error(self, what: str) -> CelError:
        return CelError(f"column {self.start + 1}: {what}.")

    def advance(self) -> str:
        """Go on to the next token; gives the one before."""
        before = self.token
        match = _TOKENS.match(self.text, self.end)
        if match is not None and match.lastgroup is not None:
            self.kind, self.token = match.lastgroup, match.group(match.lastgroup)
            self.start, self.end = match.start(match.lastgroup), match.end()
            return before
        rest = self.text[self.end :].lstrip()
        self.start = len(self.text) - len(rest)
        if rest:
            raise self.error(f"{rest[:20]!r} is no CEL")
        self.kind, self.token = "", ""
        return before

    def is_at(self, mark: str) -> bool:
        return self.kind == "mark" and self.token == mark

    def take(self, mark: str) -> None:
        if not self.is_at(mark):
            raise self.error(f"found {self.token or 'the end'!r} instead of {mark!r}")
        self.advance()

    def choice(self, level: int) -> Type:
        """condition ? one : other."""
        if level > MAX_LEVELS:
            raise self.error(f"nested deeper than {MAX_LEVELS} levels")
        tested = self.logic(level)
        if not self.is_at("?"):
            return tested
        self.advance()
        self._want(tested, "boolean", "?")
        one = self.choice(level + 1)
        self.take(":")
        other = self.choice(level + 1)
        return one if one == other else None

    def logic(self, level: int) -> Type:
        """Parts with `&&` or `||` between them."""
        result = self.comparison(level)
        while self.is_at("&&") or self.is_at("||"):
            mark = self.token
            self._want(result, "boolean", mark)
            self.advance()
            self._want(self.comparison(level), "boolean", mark)
            result = "boolean"
        return result

    def comparison(self, level: int) -> Type:
        left = self.sum(level)
        while self.token in _COMPARE and self.kind != "text":
            mark = self.advance()
            right = self.sum(level)
            if mark != "in" and None not in (left, right) and left != right:
                raise self.error(f"{mark!r} compares a {left} with a {right}, which never holds")
            left = "boolean"
        return left

    def sum(self, level: int) -> Type:
        left = self.unary(level)
        while self.token in ("+", "-", "*", "/", "%") and self.kind == "mark":
            self.advance()
            right = self.unary(level)
            left = left if left == right else None
        return left

    def unary(self, level: int) -> Type:
        if self.kind == "mark" and self.token in ("!", "-"):
            if level > MAX_LEVELS:
                raise self.error(f"nested deeper than {MAX_LEVELS} levels")
            mark, wanted = self.token, "boolean" if self.token == "!" else "number"
            self.advance()
            self._want(self.unary(level + 1), wanted, mark)
            return wanted
        return self.member(level)

    def member(self, level: int) -> Type:
        """A literal, a name or something in brackets, and what is taken of it."""
        result = self.primary(level)
        while self.is_at(".") or self.is_at("["):
            if self.advance() == "[":
                self.choice(level + 1)
                self.take("]")
                result = None
                continue
            name = self._name()
            result = None
            if self.is_at("("):
                if name not in _FUNCTIONS:
                    raise self.error(f"there is no function {name!r}. Allowed: {', '.join(_FUNCTIONS)}")
                self.items("(", ")", level)
                result = _FUNCTIONS[name]
        return result

    def primary(self, level: int) -> Type:
        kind, token = self.kind, self.token
        if kind in ("text", "number"):
            self.advance()
            return kind
        if self.is_at("("):
            self.advance()
            result = self.choice(level + 1)
            self.take(")")
            return result
        if self.is_at("["):
            self.items("[", "]", level)
            return "list"
        if kind != "name":
            raise self.error(f"found {token or 'the end'!r} where a value belongs")
        if token == "inputs":
            return self.input()
        if token in _LITERALS:
            self.advance()
            return _LITERALS[token]
        if token not in _FUNCTIONS:
            raise self.error(f"there is no {token!r}. Allowed: inputs.parameter_values['NAME'] and functions")
        self.advance()
        self.items("(", ")", level)
        return _FUNCTIONS[token]

    def items(self, opening: str, closing: str, level: int) -> None:
        """Values with commas between them."""
        self.take(opening)
        while not self.is_at(closing):
            self.choice(level + 1)
            if not self.is_at(closing):
                self.take(",")
        self.advance()

    def input(self) -> Type:
        """`inputs.parameter_values['x']` or `inputs.artifacts['x']`."""
        self.advance()
        self.take(".")
        flow = self._name()
        if flow not in ("parameter_values", "parameters", "artifacts"):
            raise self.error(f"inputs has no {flow!r}. Allowed: parameter_values, artifacts")
        self.take("[")
        if self.kind != "text":
            raise self.error("an input is named by a text, such as ['x']")
        reference = Reference("artifacts" if flow == "artifacts" else "parameters", self.token[1:-1])
        self.advance()
        self.take("]")
        self.found.append(reference)
        return self.type_of(reference)

    def _name(self) -> str:
        if self.kind != "name":
            raise self.error(f"found {self.token or 'the end'!r} where a name belongs")
        return self.advance()

    def _want(self, given: Type, wanted: str, mark: str) -> None:
        if given not in (wanted, None):
            raise self.error(f"{mark!r} takes a {wanted}, not a {given}")
