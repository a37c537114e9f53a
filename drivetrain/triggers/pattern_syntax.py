"""Reads an event pattern into alternatives of field tests, and refuses what EventBridge refuses.

`$or` is multiplied out, as the service does. Fields are named by their path, joined with dots, so that
`{"detail": {"a.b": [1]}}` and `{"detail": {"a": {"b": [1]}}}` are the same field to the service and here.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn, cast

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.triggers import value_tests as tests
from drivetrain.triggers.value_tests import ValueTest, is_number, written

MAX_COMBINATIONS = 1_000
"""The product of the lengths of all `$or` lists may not be larger."""

MAX_CHARACTERS = 2_048
"""The limit of a new account. It can be raised, for one account and region each.

https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html, "Event pattern size"."""

MAX_DEPTH = 100

_OR = "$or"
OPERATORS = (
    *("prefix", "suffix", "equals-ignore-case", "wildcard"),
    *("anything-but", "numeric", "exists", "cidr", "exactly"),
)
_RESERVED_IN_OR = frozenset(
    {
        *OPERATORS,
        *("=", "<", "<=", ">", ">=", "regex", "not-wildcard", "not-equals-ignore-case"),
        *("date-after", "date-on-or-after", "date-before", "date-on-or-before", "in-date-range"),
        *("ip-address-in-range", "ip-address-not-in-range"),
    }
)


class PatternError(UserError):
    """A pattern that PutRule would refuse."""


@dataclass(frozen=True)
class FieldTest:
    """The tests of one field: one of the tests for one of its values, or (`absent`) that it has none."""

    tests: tuple[ValueTest, ...]
    absent: bool = False

    @property
    def wanted(self) -> tuple[str, ...]:
        return (*(test.wanted for test in self.tests), *(('{"exists": false}',) if self.absent else ()))


Alternative = Mapping[str, FieldTest]


def compiled(pattern: Any) -> tuple[Alternative, ...]:
    """The alternatives of a pattern, each a test for every field that it names.

    Raises:
        PatternError: naming the place, what is there and what is allowed.
    """
    if not isinstance(pattern, Mapping):
        _refuse("", f"the pattern is {_shown(pattern)}. Give an object of fields")
    if _combinations(cast(Mapping[str, Any], pattern), 0) > MAX_COMBINATIONS:
        _refuse("", f"its $or lists make more than {MAX_COMBINATIONS:,} combinations. Make several triggers of it")
    size = len(json.dumps(pattern, ensure_ascii=False, separators=(",", ":")))
    if size > MAX_CHARACTERS:
        _refuse("", f"it has {size:,} characters; a rule takes at most {MAX_CHARACTERS:,}. Make several triggers of it")
    return tuple(_object(cast(Mapping[str, Any], pattern), (), [{}], False))


def _combinations(node: Mapping[str, Any], depth: int) -> int:
    if depth > MAX_DEPTH:
        _refuse("", f"it is nested more than {MAX_DEPTH} deep")
    count = 1
    for name, value in node.items():
        inner: list[Any] = []
        if name == _OR and isinstance(value, list):
            count *= max(len(cast(list[Any], value)), 1)
            inner = cast(list[Any], value)
        elif isinstance(value, Mapping):
            inner = [value]
        for part in inner:
            if isinstance(part, Mapping):
                count *= _combinations(cast(Mapping[str, Any], part), depth + 1)
        if count > MAX_COMBINATIONS:
            break
    return count


def _object(
    node: Mapping[str, Any], path: tuple[str, ...], before: list[dict[str, FieldTest]], inside_or: bool
) -> list[dict[str, FieldTest]]:
    """Every alternative of `before` with the fields of `node` added."""
    where = ".".join(path)
    if not node:
        _refuse(where, "an empty object. Name a field and the values that it may have")
    for name, value in node.items():
        place = ".".join((*path, name))
        if name == _OR and _is_or(value):
            before = [
                made
                for branch in value
                for made in _object(branch, path, [dict(alternative) for alternative in before], True)
            ]
        elif inside_or and name in _RESERVED_IN_OR:
            _refuse(place, f"{name!r} is an operator, which cannot be the name of a field inside $or")
        elif isinstance(value, Mapping):
            before = _object(cast(Mapping[str, Any], value), (*path, name), before, inside_or)
        elif isinstance(value, list):
            wanted = _field(cast(list[Any], value), place)
            for alternative in before:
                if place in alternative:
                    _refuse(place, "this field is named twice; it can be named once in each alternative")
                alternative[place] = wanted
        else:
            _refuse(place, f"{_shown(value)} stands alone. Put it into a list: [{_shown(value)}]")
    return before


def _is_or(value: Any) -> bool:
    """Anything else called `$or` is a field of that name, as before the operator came."""
    return (
        isinstance(value, list)
        and len(cast(list[Any], value)) > 1
        and all(isinstance(part, Mapping) for part in cast(list[Any], value))
        and not any(name in _RESERVED_IN_OR for part in cast(list[Mapping[str, Any]], value) for name in part)
    )


def _field(values: list[Any], place: str) -> FieldTest:
    if not values:
        _refuse(place, "an empty list. Give the values that the field may have")
    found: list[ValueTest] = []
    absent = False
    for value in values:
        if isinstance(value, Mapping):
            if value == {"exists": False} and isinstance(value["exists"], bool):  # 0 == False in Python
                absent = True
            else:
                found.append(_expression(cast(Mapping[str, Any], value), place))
        elif isinstance(value, list):
            _refuse(place, "a list inside the list of values. Give texts, numbers, true, false, null or operators")
        else:
            found.append(tests.equals(value))
    return FieldTest(tuple(found), absent)


def _expression(expression: Mapping[str, Any], place: str) -> ValueTest:
    name, operand = _only(expression, place, "an operator")
    wanted = f"{{{json.dumps(name)}: {_shown(operand)}}}"
    if name not in OPERATORS:
        hint = " ($or takes a list of two or more objects.)" if place.endswith(_OR) else ""
        _refuse(place, f"there is no operator {name!r}. {did_you_mean(name, OPERATORS)}{hint}", stop="")
    if name == "exists":
        if not isinstance(operand, bool):
            _refuse(place, f'"exists" is {_shown(operand)}. Give true or false')
        return tests.present(wanted)
    if name == "numeric":
        return tests.in_range(wanted, _numeric(operand, place))
    if name == "cidr":
        return tests.in_network(wanted, _network(operand, place))
    if name == "anything-but":
        return _anything_but(operand, place, wanted)
    return tests.any_text(wanted, [_text_test(name, operand, place)])


def _text_test(name: str, operand: Any, place: str) -> Callable[[str], bool]:
    if name in ("prefix", "suffix") and isinstance(operand, Mapping):
        inner, text = _only(cast(Mapping[str, Any], operand), place, f"{name!r} of an operator")
        if inner != "equals-ignore-case":
            _refuse(place, f"{name!r} takes a text or equals-ignore-case, and not {inner!r}")
        ignoring = tests.starts_ignoring_case if name == "prefix" else tests.ends_ignoring_case
        return ignoring(_text(text, place, name))
    return _TEXT_TESTS[name](_text(operand, place, name))


def _wildcard(text: str) -> Callable[[str], bool]:
    pieces, place = [""], 0
    while place < len(text):
        character = text[place]
        if character == "\\":
            if text[place + 1 : place + 2] not in ("*", "\\"):
                raise ValueError(f"a backslash at position {place} stands before neither * nor \\")
            pieces[-1] += text[place + 1]
            place += 2
            continue
        if character == "*":
            if text[place + 1 : place + 2] == "*":
                raise ValueError(f"two wildcards in a row at position {place}; one matches as much")
            pieces.append("")
        else:
            pieces[-1] += character
        place += 1
    return tests.like(pieces)


_TEXT_TESTS: Mapping[str, Callable[[str], Callable[[str], bool]]] = {
    "exactly": tests.same_text,
    "prefix": tests.starts,
    "suffix": tests.ends,
    "equals-ignore-case": tests.same_ignoring_case,
    "wildcard": _wildcard,
}


def _anything_but(operand: Any, place: str, wanted: str) -> ValueTest:
    if isinstance(operand, Mapping):
        name, inner = _only(cast(Mapping[str, Any], operand), place, "anything-but")
        allowed = ("prefix", "suffix", "equals-ignore-case", "wildcard")
        if name not in allowed:
            _refuse(place, f"anything-but takes no {name!r}. {did_you_mean(name, allowed)}", stop="")
        texts = cast(list[Any], inner) if isinstance(inner, list) else [inner]
        if not texts:
            _refuse(place, f"anything-but {name} of an empty list")
        for text in texts:
            if text == "" and name in ("prefix", "suffix"):
                _refuse(place, f"anything-but an empty {name}, which every text has")
        return tests.no_text(wanted, [_made(_TEXT_TESTS[name], _text(text, place, name), place) for text in texts])
    values = cast(list[Any], operand) if isinstance(operand, list) else [operand]
    if values and all(isinstance(value, str) for value in values):
        return tests.no_text(wanted, [tests.same_text(value) for value in values])
    if values and all(is_number(value) for value in values):
        return tests.no_number(wanted, [_number(value, place, "anything-but") for value in values])
    _refuse(place, f"anything-but is {_shown(operand)}. Give texts or numbers, not both, or an operator")


def _numeric(operand: Any, place: str) -> list[tuple[str, Decimal]]:
    """One comparison, or a lower and an upper limit in this order."""
    parts = cast(list[Any], operand) if isinstance(operand, list) else []
    operators, limits = parts[::2], parts[1::2]
    fits = (
        len(parts) in (2, 4)
        and operators[0] in ("=", "<", "<=", ">", ">=")
        and (len(parts) == 2 or (operators[0] in (">", ">=") and operators[1] in ("<", "<=")))
    )
    if not fits:
        _refuse(
            place, f'"numeric" is {_shown(operand)}. Give ["=", 5], [">", 0] or [">", 0, "<=", 5], lower limit first'
        )
    found = [(name, _number(limit, place, "numeric")) for name, limit in zip(operators, limits, strict=True)]
    if len(found) == 2 and not found[0][1] < found[1][1]:
        _refuse(place, f'"numeric" is {_shown(operand)}, and the lower limit is not below the upper one')
    return found


def _number(value: Any, place: str, operator: str) -> Decimal:
    found = tests.comparable(value)
    if found is None:
        _refuse(
            place,
            f'"{operator}" compares with {_shown(value)}. Give a number from -5e9 to 5e9 with at most six decimals',
        )
    return found


def _network(operand: Any, place: str) -> tests.Network:
    text = _text(operand, place, "cidr")
    start, slash, bits = text.partition("/")
    found = tests.address(start)
    if found is None or not slash or not bits.isdecimal() or not bits.isascii() or int(bits) >= found.max_prefixlen:
        _refuse(
            place,
            f'"cidr" is {_shown(operand)}. Give a network such as 10.0.0.0/24 or 2001:db8::/32, of fewer bits than '
            "the whole address",
        )
    return ipaddress.ip_network(f"{found}/{bits}", strict=False)


def _text(value: Any, place: str, operator: str) -> str:
    if not isinstance(value, str):
        _refuse(place, f'"{operator}" is {_shown(value)}. Give a text')
    if operator == "wildcard":
        _made(_wildcard, value, place)
    return value


def _made(make: Callable[[str], Callable[[str], bool]], text: str, place: str) -> Callable[[str], bool]:
    try:
        return make(text)
    except ValueError as error:
        _refuse(place, f'"wildcard" is {_shown(text)}: {error}')


def _only(expression: Mapping[str, Any], place: str, what: str) -> tuple[str, Any]:
    if len(expression) != 1:
        names = ", ".join(map(str, expression)) or "none"
        _refuse(place, f"{what} has one key; this has {len(expression)} ({names})")
    return next(iter(expression.items()))


def _shown(value: Any) -> str:
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = written(value)
    return text if len(text) <= 120 else text[:119] + "…"


def _refuse(place: str, message: str, stop: str = ".") -> NoReturn:
    raise PatternError(f"Event pattern{', ' + place if place else ''}: {message}{stop}")
