"""Options of a plug-in: a frozen dataclass with plain fields, filled from a JSON object.

channels: Annotated[int, Bounds(1)] = 32                    numbers that are allowed (drivetrain.base.bounds)
split: Literal["train", "test"] = "train"                   texts that are allowed
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from drivetrain.base.bounds import ANY_NUMBER, Bounds, refused
from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.base.json_options import wrong_type

T = TypeVar("T")


def build_options(kind: type[T], given: dict[str, Any], owner: str) -> T:
    """`kind` with the given fields.

    Args:
        kind: a dataclass whose annotations are plain types.
        given: names and values.
        owner: whose options they are, for messages.

    Raises:
        InputError: no such option (with the closest match), or a value that the dataclass refuses.
    """
    known = {field.name: field.type for field in fields(kind)}  # type: ignore[arg-type]
    with suppress(NameError):  # of a name for type checkers alone: then types are as they are written
        known = {name: each for name, each in get_type_hints(kind, include_extras=True).items() if name in known}
    for name, value in given.items():
        if name not in known:
            raise InputError(f"{owner} has no option {name!r}. {did_you_mean(name, known)}")
        if allowed := _refused(value, known[name]):
            raise InputError(f"{owner}: {name}={json.dumps(value)}; allowed {allowed}.")
    # (JSON has lists only; the fields are tuples.)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{owner} with options {json.dumps(given)}: {error}") from None


def _refused(value: Any, annotation: Any) -> str:
    """The values that are allowed, in words, for one that is not; only plain annotations are held against values."""
    bounds = ANY_NUMBER
    if hasattr(annotation, "__metadata__"):
        bounds = next((each for each in annotation.__metadata__ if isinstance(each, Bounds)), ANY_NUMBER)
        annotation = annotation.__origin__
    if get_origin(annotation) is Literal:
        choices = [json.dumps(each) for each in get_args(annotation)]
        return "" if json.dumps(value) in choices else f"are {', '.join(choices)}"
    if wanted := wrong_type(value, annotation.__name__ if type(annotation) is type else str(annotation)):
        return f"is {wanted}"
    allowed = refused(value, (), bounds, annotation)
    return allowed and f"are {allowed}"
