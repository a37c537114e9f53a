"""The tests that an event pattern puts to one value: equality, prefix, suffix, wildcard, numeric, cidr, anything-but.

Operators and their limits: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html.
Where that page is silent (what an operator says to values of another type, what is refused), the service's own matcher
decides, which is public: https://github.com/aws/event-ruler. Values are JSON that still knows how a number was written.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import SpelledFloat, parse

Scalar = str | int | float | bool | None
Json = Mapping[str, "Json"] | list["Json"] | Scalar

MAX_BYTES = 1_048_576
"""The largest event, as PutEvents takes it."""


def loads(text: str | bytes, what: str, most: int = MAX_BYTES) -> Any:
    """JSON text as Python values that still know how their numbers were written: EventBridge compares those of a
    pattern by their text.

    Raises:
        UserError: the text is no JSON (as `json_text.parse` defines it), or has more than `most` bytes (by default as
            many as one event can have). The message names `what`.
    """
    if len(text) > most:
        raise UserError(f"{what} has {len(text):,} bytes; at most {most:,} are read.")
    return parse(text, what)


def written(value: Scalar) -> str:
    """The JSON text of a scalar, a number as it was written where that is known."""
    if isinstance(value, SpelledFloat):
        return value.text
    return json.dumps(value, ensure_ascii=False)


def is_number(value: object) -> bool:
    """Return True if a value is a JSON number (Python counts True among its integers)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


LARGEST_NUMBER = 5_000_000_000
MAX_DECIMALS = 6
_V4 = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")
_V6 = re.compile(r"[0-9a-fA-F:]*:[0-9a-fA-F:]*")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class ValueTest:
    """A test of one value; `wanted` is the pattern's own text."""

    wanted: str
    holds: Callable[[Scalar], bool]


def equals(expected: Scalar) -> ValueTest:
    """A value written exactly so: 300 is neither 300.0 nor "300", and true is not 1."""
    text = written(expected)
    return ValueTest(text, lambda value: written(value) == text)


def present(wanted: str) -> ValueTest:
    """Any value, null included."""
    return ValueTest(wanted, lambda value: True)


def any_text(wanted: str, tests: Sequence[Callable[[str], bool]]) -> ValueTest:
    """A text for which one of the tests holds."""
    return ValueTest(wanted, lambda value: isinstance(value, str) and any(test(value) for test in tests))


def no_text(wanted: str, tests: Sequence[Callable[[str], bool]]) -> ValueTest:
    """Anything but a text for which one of the tests holds: numbers, true, false and null pass."""
    return ValueTest(wanted, lambda value: not (isinstance(value, str) and any(test(value) for test in tests)))


def no_number(wanted: str, numbers: Sequence[Decimal]) -> ValueTest:
    """Anything but one of these numbers, however it is written."""
    return ValueTest(wanted, lambda value: comparable(value) not in numbers)


def in_range(wanted: str, compared: Sequence[tuple[str, Decimal]]) -> ValueTest:
    """A number for which each comparison holds."""

    def holds(value: Scalar) -> bool:
        number = comparable(value)
        return number is not None and all(_COMPARE[operator](number, limit) for operator, limit in compared)

    return ValueTest(wanted, holds)


_COMPARE: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def comparable(value: object) -> Decimal | None:
    """A number as EventBridge compares it: of at most 5e9 either way, with at most six decimals; None for others."""
    if not is_number(value):
        return None
    number = Decimal(written(value))  # type: ignore[arg-type]
    if not number.is_finite() or abs(number) > LARGEST_NUMBER:
        return None
    return number if number == round(number, MAX_DECIMALS) else None


def in_network(wanted: str, network: Network) -> ValueTest:
    """The text of an address inside the network."""

    def holds(value: Scalar) -> bool:
        found = address(value) if isinstance(value, str) else None
        return found is not None and found in network

    return ValueTest(wanted, holds)


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP address without zone; an IPv4 address inside IPv6 counts as IPv4."""
    if not (_V4.fullmatch(text) or _V6.fullmatch(text)):
        return None
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def same_text(expected: str) -> Callable[[str], bool]:
    return lambda text: text == expected


def starts(prefix: str) -> Callable[[str], bool]:
    return lambda text: text.startswith(prefix)


def ends(suffix: str) -> Callable[[str], bool]:
    return lambda text: text.endswith(suffix)


def same_ignoring_case(expected: str) -> Callable[[str], bool]:
    return lambda text: len(text) in _reached(text, expected)


def starts_ignoring_case(prefix: str) -> Callable[[str], bool]:
    return lambda text: bool(_reached(text, prefix))


def ends_ignoring_case(suffix: str) -> Callable[[str], bool]:
    return lambda text: bool(_reached(text[::-1], suffix, backwards=True))


def _reached(text: str, expected: str, *, backwards: bool = False) -> set[int]:
    """The places in `text` up to which `expected` goes, each of its characters in lower or upper case.

    A set, since one character may have cases of several lengths: ß and SS.
    """
    places = {0}
    for character in reversed(expected) if backwards else expected:
        forms = {character.lower(), character.upper()}
        forms = {form[::-1] for form in forms} if backwards else forms
        places = {place + len(form) for place in places for form in forms if text.startswith(form, place)}
        if not places:
            break
    return places


def like(pieces: Sequence[str]) -> Callable[[str], bool]:
    """A text made of the pieces in their order, with anything between them."""
    first, *middle = pieces
    if not middle:
        return same_text(first)
    *middle, last = middle

    def holds(text: str) -> bool:
        if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
            return False
        place, end = len(first), len(text) - len(last)
        for piece in middle:  # the leftmost fit leaves the most room for the others
            place = text.find(piece, place, end)
            if place < 0:
                return False
            place += len(piece)
        return True

    return holds
