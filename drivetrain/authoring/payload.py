"""The payload of a Lambda: JSON with references inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drivetrain.base.errors import SpecError, shown
from drivetrain.spec.values import Nested, NestedValue, as_value

_DEEPEST = 32


def payload_of(whole: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The event that a Lambda is called with. A `payload` that is no dict is a field of that name.

    Raises:
        SpecError: a field that is given twice, or a value that a pipeline cannot carry.
    """
    if whole is not None and not isinstance(whole, Mapping):
        fields = {"payload": whole, **fields}
    given = cast("Mapping[str, Any]", whole if isinstance(whole, Mapping) else {})
    if twice := given.keys() & fields.keys():
        raise SpecError(f"call_lambda(...): {min(twice)!r} is given by name and in payload={{...}}. Give it once.")
    return {name: _nested(value, _field(name), 1) for name, value in {**given, **fields}.items()}


def _nested(given: Any, place: str, depth: int) -> NestedValue:
    """A value of a payload; `place` says where it stands in it."""
    if depth > _DEEPEST:
        raise SpecError(f"call_lambda(...): the payload nests deeper than {_DEEPEST}. Write it as JSON text.")
    if type(given) in (list, tuple):
        return Nested(items=tuple(_nested(item, f"{place}[{n}]", depth + 1) for n, item in enumerate(given)))
    if isinstance(given, Mapping):
        fields = cast("Mapping[Any, Any]", given)
        if len(fields) == 1 and str(name := next(iter(fields))).startswith(("Get", "Std:")):
            raise SpecError(
                f"call_lambda(...): payload{place} is {shown(given)}, which SageMaker reads as a reference. Give the "
                f"reference of this package, or another name than {name!r}."
            )
        return Nested(fields={name: _nested(value, place + _field(name), depth + 1) for name, value in fields.items()})
    try:
        return as_value(given)
    except SpecError as error:
        raise SpecError(f"call_lambda(...): payload{place}: {error}") from None


def _field(name: Any) -> str:
    if not isinstance(name, str):
        raise SpecError(
            f"call_lambda(...): the payload has the key {shown(name)}. JSON has texts alone: {str(name)!r}."
        )
    return f"[{name!r}]"
