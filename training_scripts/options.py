"""Options of a plug-in: a frozen dataclass with plain fields, filled from a JSON object."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, TypeVar

from drivetrain.training_scripts.errors import InputError, unknown_name

T = TypeVar("T")

_PLAIN: dict[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "str": (str, "a text"),
    "bool": (bool, "true or false"),
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
            raise unknown_name(f"option of {owner}", name, known)
        annotation = known[name].type
        _check_type(name, value, annotation if isinstance(annotation, str) else annotation.__name__, owner)
    try:
        return kind(**given)
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


def _check_type(name: str, value: Any, annotation: str, owner: str) -> None:
    """Hold a value against a plain annotation; others (unions, tuples) are the dataclass's own business."""
    kinds, words = _PLAIN.get(annotation, (object, ""))
    if not isinstance(value, kinds) or (isinstance(value, bool) and annotation in ("int", "float")):
        raise InputError(f"{owner}: {name}={json.dumps(value)}; allowed is {words}.")
