"""Values for a pipeline's parameters, out of the event that starts it.

    parameters({"Model": ParameterSource("String", "$.detail.ModelPackageArn")}, event)   # {"Model": "arn:aws:..."}

Paths are JSONPath as far as it names one place: `$.detail.key`, `$.detail['key']`, `$.resources[0]`. The standard
library alone is imported here: this file also runs in the Lambda that starts pipelines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from drivetrain.base.errors import UserError, did_you_mean

EVENT_FIELDS = (
    *("version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"),
    *("replay-name", "ingestion-time"),
)
"""The top of every event (https://docs.aws.amazon.com/eventbridge/latest/ref/overiew-event-structure.html)."""

MAX_VALUE_CHARACTERS = 1_024
"""The longest value of a parameter at start (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Parameter.html)."""
MAX_PARAMETERS = 200
"""At start (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StartPipelineExecution.html)."""

# What JSON has as a number: no nan, no digits of other scripts, which Python would read.
INTEGER = re.compile(r"[+-]?[0-9]+")
FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_STEP = re.compile(r"""\.([A-Za-z0-9_-]+)|\[(\d{1,9})\]|\['([^'\\]*)'\]|\["([^"\\]*)"\]""")


class EventValueError(UserError):
    """A value is not in the event, or does not fit the parameter."""


@dataclass(frozen=True)
class ParameterSource:
    """The source of a parameter's value: a fixed value as text, or (from `$.`) a place in the event; and the
    parameter's type."""

    type: str
    value: str
    choices: tuple[str, ...] = ()


def is_path(text: str) -> bool:
    """Return True if a text stands for a place in the event."""
    return text.startswith(("$.", "$["))


def read_path(text: str) -> tuple[str | int, ...]:
    """The steps of a path from the event's top: names and places in lists.

    Raises:
        UserError: it is no such path, or begins with a field that events do not have.
    """
    if not re.match(r"\$[.\[]", text):
        raise EventValueError(f"Event path {text!r}: write $.detail.key, with the names as the event has them.")
    steps: list[str | int] = []
    place = 1
    while place < len(text):
        found = _STEP.match(text, place)
        if found is None:
            raise EventValueError(
                f"Event path {text!r} cannot be read from {text[place:]!r} on. Write $.detail.key, $.resources[0] or "
                "$.detail['key']: each names one place."
            )
        name, index, quoted, double = found.groups()
        steps.append(
            int(index) if index is not None else next(part for part in (name, quoted, double) if part is not None)
        )
        place = found.end()
    if steps[0] not in EVENT_FIELDS:
        raise EventValueError(
            f"Event path {text!r}: an event has no {steps[0]!r} at its top. {did_you_mean(str(steps[0]), EVENT_FIELDS)}"
        )
    return tuple(steps)


def value_at(event: Mapping[str, Any], path: str) -> Any:
    """The value at a place of the event.

    Raises:
        UserError: nothing does, with what there is instead.
    """
    here: Any = event
    walked = "$"
    for step in read_path(path):
        if isinstance(step, int):
            items = cast(Sequence[Any], here) if isinstance(here, list) else ()
            if step >= len(items):
                raise EventValueError(f"The event has nothing at {path}: {walked} {_kind(here)}.")
            here = items[step]
            walked += f"[{step}]"
        else:
            if not isinstance(here, Mapping):
                raise EventValueError(f"The event has nothing at {path}: {walked} {_kind(here)}.")
            fields = cast(Mapping[str, Any], here)
            if step not in fields:
                raise EventValueError(
                    f"The event has nothing at {path}: {walked} has no {step!r}. {did_you_mean(step, fields)}"
                )
            here = fields[step]
            walked += f".{step}"
    return here


def parameters(wanted: Mapping[str, ParameterSource], event: Mapping[str, Any]) -> dict[str, str]:
    """Every parameter's value as the text that StartPipelineExecution takes.

    Raises:
        UserError: naming the parameter and what is wrong with its value.
    """
    if len(wanted) > MAX_PARAMETERS:
        raise UserError(f"{len(wanted):,} parameters; a start takes at most {MAX_PARAMETERS}.")
    return {name: _value(name, one, event) for name, one in wanted.items()}


def _value(name: str, wanted: ParameterSource, event: Mapping[str, Any]) -> str:
    if not is_path(wanted.value):
        return _short(wanted.value, f"Parameter {name!r}")
    given = value_at(event, wanted.value)
    where = f"Parameter {name!r} from {wanted.value}"
    if given is None:
        raise EventValueError(f"{where}: the event has null there.")
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    if not _fits(wanted.type, text):
        raise EventValueError(f"{where}: {text[:80]!r} is not of type {wanted.type}.")
    if wanted.choices and text not in wanted.choices:
        raise EventValueError(f"{where}: {did_you_mean(text[:80], wanted.choices)} The event has {text[:80]!r}.")
    return _short(text, where)


def _short(text: str, where: str) -> str:
    if len(text) > MAX_VALUE_CHARACTERS:
        raise EventValueError(f"{where}: {len(text):,} characters; a parameter takes at most {MAX_VALUE_CHARACTERS:,}.")
    return text


def _fits(kind: str, text: str) -> bool:
    if kind == "Integer":
        return INTEGER.fullmatch(text) is not None
    if kind == "Float":
        return FLOAT.fullmatch(text) is not None
    return text in ("true", "false") if kind == "Boolean" else True


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"is a list of {len(cast(list[Any], value))}"
    if isinstance(value, Mapping):
        return "is an object"
    return f"is {json.dumps(value, ensure_ascii=False)[:80]}"
