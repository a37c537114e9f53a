"""Comparisons by which runs are chosen: `accuracy > 0.98 and (tag.team = vision or not status = failed)`.

    expression   any of `and`, `or`, `not`, parentheses around comparisons; `and` binds closer than `or`
    comparison   NAME OPERATOR VALUE
    operator     = != < <= > >=, and ~ for "contains"
    name         a word, or a text in quotes
    value        a number, a word, a text in quotes; none for what a run does not have

A quote of its own kind stands twice in a text in quotes: 'it''s'.

A comparison holds only for runs that have the value, `!=` too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from drivetrain.base.errors import UserError

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "~")
MAX_CHARACTERS = 2_000
MAX_DEPTH = 50
_TOKEN = re.compile(
    r"""\s*(?:(?P<sign>[()])|(?P<operator>==|!=|<=|>=|=|<|>|~)"""
    r"""|(?P<text>'(?:[^']|'')*'(?!')|"(?:[^"]|"")*"(?!"))|(?P<word>[^\s()<>=!~'"]+))"""
)
_EXAMPLE = "a comparison such as accuracy > 0.98"


@dataclass(frozen=True)
class Comparison:
    """One comparison; `at` are the places of name and value in the text. `value` is None for `none`."""

    name: str
    operator: str
    value: str | None
    at: tuple[int, int]


@dataclass(frozen=True)
class Not:
    """A condition that holds if `of` does not."""

    of: Expression


@dataclass(frozen=True)
class All:
    """A condition that holds if every part does."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Any:
    """A condition that holds if a part does."""

    parts: tuple[Expression, ...]


Expression = Comparison | Not | All | Any


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        UserError: with the place of the mistake.
    """
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"where: the expression has {len(text):,} characters. Allowed: {MAX_CHARACTERS:,}.")
    reader = _Reader(text)
    found = reader.any(0)
    if reader.token.kind != "end":
        raise reader.wrong("'and', 'or' or the end")
    return found


def names_in(text: str) -> list[str]:
    """The names that an expression compares."""
    pending: list[Expression] = [parse(text)] if text.strip() else []
    found: dict[str, None] = {}
    while pending:
        one = pending.pop(0)
        if isinstance(one, Comparison):
            found[one.name] = None
        elif isinstance(one, Not):
            pending.append(one.of)
        else:
            pending += one.parts
    return list(found)


def mistake(text: str, at: int, said: str) -> UserError:
    """An error with the expression, and a caret below the place that it is about."""
    line = "".join(char if char.isprintable() else " " for char in text)
    start = max(at - 60, 0)
    return UserError(f"where: {said}\n  {line[start : start + 100]}\n  {' ' * (at - start)}^")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            place = at + len(text[at:]) - len(text[at:].lstrip())
            said = "the quote is not closed." if text[place] in "'\"" else f"{text[place]!r} cannot stand here."
            raise mistake(text, place, said)
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], match.start(kind))
        at = match.end()
    yield _Token("end", "", len(text.rstrip()))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self._left = _tokens(text)
        self.token = next(self._left)

    def take(self) -> _Token:
        taken, self.token = self.token, next(self._left, self.token)
        return taken

    def is_word(self, word: str) -> bool:
        return self.token.kind == "word" and self.token.text.lower() == word

    def is_sign(self, sign: str) -> bool:
        return self.token.kind == "sign" and self.token.text == sign

    def is_kind(self, *kinds: str) -> bool:
        return self.token.kind in kinds

    def wrong(self, expected: str) -> UserError:
        found = "the end" if self.token.kind == "end" else repr(self.token.text)
        return mistake(self.text, self.token.at, f"{expected} is expected here, not {found}.")

    def any(self, depth: int) -> Expression:
        parts = [self.all(depth)]
        while self.is_word("or"):
            self.take()
            parts.append(self.all(depth))
        return parts[0] if len(parts) == 1 else Any(tuple(parts))

    def all(self, depth: int) -> Expression:
        parts = [self.one(depth)]
        while self.is_word("and"):
            self.take()
            parts.append(self.one(depth))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def one(self, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise mistake(self.text, self.token.at, f"more than {MAX_DEPTH} parentheses stand around this.")
        if self.is_word("not"):
            self.take()
            return Not(self.one(depth + 1))
        if self.is_sign("("):
            opened = self.take()
            inner = self.any(depth + 1)
            if not self.is_sign(")"):
                raise mistake(self.text, opened.at, "this parenthesis is not closed.")
            self.take()
            return inner
        return self.comparison()

    def comparison(self) -> Comparison:
        if not self.is_kind("word", "text") or self.is_word("and") or self.is_word("or"):
            raise self.wrong(_EXAMPLE)
        name = self.take()
        if not self.is_kind("operator"):
            raise self.wrong(f"one of {' '.join(OPERATORS)}")
        operator = self.take()
        if not self.is_kind("word", "text"):
            raise self.wrong("a value: a number, a word or a text in quotes,")
        value = self.take()
        sign = "=" if operator.text == "==" else operator.text
        if value.kind == "word" and value.text.lower() == "none":
            if sign not in ("=", "!="):
                raise mistake(self.text, operator.at, "none is compared by = or !=.")
            return Comparison(_unquoted(name), sign, None, (name.at, value.at))
        return Comparison(_unquoted(name), sign, _unquoted(value), (name.at, value.at))


def _unquoted(token: _Token) -> str:
    if token.kind != "text":
        return token.text
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)
