"""Find what the service would refuse in a definition's parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator

from drivetrain.base.errors import did_you_mean
from drivetrain.base.json_text import Json
from drivetrain.catalog.quotas import MAX_CHOICES
from drivetrain.spec.binding import ALLOWED, TYPES, value_of_type
from drivetrain.targets.sagemaker.document.difference.value_words import hidden, shown
from drivetrain.targets.sagemaker.document.document import DefinitionParameter


def problems(parameter: DefinitionParameter) -> Iterator[str]:
    """Find what the service would refuse in a parameter: text is no number here, unlike at a start.

    The default value "must be an instance matching the parameter type" (Developer Guide, Pipeline Parameters).
    """
    place = f"parameters.{parameter.name}"
    if parameter.type not in TYPES:
        yield f"{place}.Type: {parameter.type!r:.60}. {did_you_mean(parameter.type, TYPES)}"
        return
    given = {"DefaultValue": parameter.default} if "DefaultValue" in parameter.raw else {}
    given |= {f"EnumValues[{n}]": choice for n, choice in enumerate(parameter.choices)}
    for field, value in given.items():
        if not _is_instance(parameter.type, value):
            yield f"{place}.{field}: {_quoted(parameter, value)}. Allowed: {ALLOWED[parameter.type]}."
    if len(parameter.choices) > MAX_CHOICES:
        yield f"{place}.EnumValues: {len(parameter.choices)} values; at most {MAX_CHOICES}."
    if parameter.choices and parameter.default is not None and parameter.default not in parameter.choices:
        allowed = ", ".join(_quoted(parameter, choice) for choice in parameter.choices)
        yield f"{place}.DefaultValue: {_quoted(parameter, parameter.default)}. Allowed: one of EnumValues, {allowed}."


def _quoted(parameter: DefinitionParameter, value: Json) -> str:
    """A value as JSON, so that "1" is seen to be text; without what looks like a secret."""
    masked = hidden(value, (parameter.name,))
    return (
        shown(value) if masked is value and not isinstance(value, str) else json.dumps(masked, ensure_ascii=False)[:72]
    )


def _is_instance(kind: str, value: Json) -> bool:
    if kind in ("String", "Boolean"):
        return isinstance(value, str if kind == "String" else bool)
    return not isinstance(value, str) and value_of_type(kind, value) is not None
