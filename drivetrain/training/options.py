"""Options of a plug-in: a frozen dataclass with plain fields, filled from a JSON object."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from drivetrain.base.errors import InputError, did_you_mean

T = TypeVar("T")

# torch keeps sizes in 64 bits, and JSON as Python reads it knows Infinity and NaN.
LARGEST_INT = 2**63 - 1


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INT


def _is_float(value: Any) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _is_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)


_PLAIN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (_is_int, "a whole number (of 64 bits)"),
    "float": (_is_float, "a number (finite)"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "tuple[str, ...]": (_is_texts, 'a list of texts, such as ["4", "8"]'),
}


def build_options(kind: type[T], given: dict[str, Any], owner: str) -> T:
    """`kind` with the given fields.

    Args:
        kind: a dataclass whose annotations are plain types.
        given: names and values.
        owner: whose options they are, for messages.

    Raises:
        InputError: no such option (with the closest match), or a value that the dataclass refuses.
    """
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name, value in given.items():
        if name not in known:
            raise InputError(f"{owner} has no option {name!r}. {did_you_mean(name, known)}")
        annotation = known[name].type
        _check_type(name, value, _written(annotation), owner)
    # (JSON has lists only; the fields are tuples.)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{owner} with options {json.dumps(given)}: {error}") from None


def parse_options(text: str, owner: str) -> dict[str, Any]:
    """Options from the JSON text of a command line.

    Raises:
        InputError: text that is not a JSON object.
    """
    example = 'Example: {"name": 32}'
    try:
        options = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{owner} options {text!r} are not JSON ({error}). {example}") from None
    if not isinstance(options, dict):
        raise InputError(f"{owner} options {text!r} are not a JSON object. {example}")
    return options


def _written(annotation: Any) -> str:
    """An annotation as it stands in the file."""
    return annotation.__name__ if type(annotation) is type else str(annotation)


def _check_type(name: str, value: Any, annotation: str, owner: str) -> None:
    """Hold a value against a plain annotation; others (such as unions) are the dataclass's own business."""
    fits, words = _PLAIN.get(annotation, (None, ""))
    if fits and not fits(value):
        raise InputError(f"{owner}: {name}={json.dumps(value)}; allowed is {words}.")
