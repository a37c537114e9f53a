"""The data that states hand on, as far as a definition can say it before anything runs.

A machine's input becomes parameters, and the answer of a task the properties of its step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Segment, as_list, as_object, objects_in, parse_path
from drivetrain.targets.sagemaker.document import path_text

_EXECUTION = {
    "Execution.Id": "PipelineExecutionArn",
    "Execution.Name": "PipelineExecutionId",
    "Execution.StartTime": "StartDateTime",
    "StateMachine.Id": "PipelineArn",
    "StateMachine.Name": "PipelineName",
}
_CALLED = re.compile(r"States\.(Format|Array)\((.*)\)", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(?:'((?:[^'\\]|\\.)*)'|(-?\d+(?:\.\d+)?|true|false|null)|(\$[^,()]*?))\s*(?:,|$)")
_JSONATA = re.compile(r"\{%\s*(.*?)\s*%\}", re.DOTALL)
_PLAIN = re.compile(r"\$states\.(input|context|result)((?:\.\w+|\[\d+\])*)")


class LostError(Exception):
    """A value that a definition cannot say; the text says why."""


class Input(NamedTuple):
    """A place in the machine's input."""

    path: tuple[Segment, ...] = ()


class Answer(NamedTuple):
    """A place in the answer of a SageMaker task; `outputs` are the names of a processing job's, in their order."""

    step: str
    path: tuple[Segment, ...] = ()
    outputs: tuple[str, ...] = ()


class Returned(NamedTuple):
    """A value that a function returns, or all of it without a name."""

    step: str
    name: str = ""


class Expression(NamedTuple):
    """JSON that the service evaluates; `differs` says what it has in place of the machine's value."""

    json: dict[str, Any]
    differs: str = ""


class Item(NamedTuple):
    """A place in the item of a Map."""

    path: tuple[Segment, ...] = ()


class Joined(NamedTuple):
    """Texts and data, one after the other."""

    parts: tuple[Any, ...]


class Lost(NamedTuple):
    """A value that a definition cannot say."""

    reason: str


class Known(NamedTuple):
    """An object by its fields; others are those of `rest`."""

    fields: Mapping[str, Any]
    rest: Any = None


def take(data: Any, path: tuple[Segment, ...]) -> Any:
    """The data at a path.

    Raises:
        LostError: it is not known where the path leads.
    """
    for at, key in enumerate(path):
        match data:
            case Input() | Item():
                data = data._replace(path=(*data.path, key))
            case Answer():
                key = _output(data, key)
                data = data._replace(path=(*data.path, key))
            case Returned(name="") if isinstance(key, str):
                data = data._replace(name=key)
            case Known() if key in data.fields:
                data = data.fields[str(key)]
            case Known(rest=rest) if rest is not None:
                data = take(rest, (key,))
            case list() if isinstance(key, int) and key < len(as_list(cast("object", data))):
                data = as_list(cast("object", data))[key]
            case Lost():
                raise LostError(data.reason)
            case _:
                raise LostError(f"{path_text(path[: at + 1])!r} of the state's input is not known")
    return data


def _output(answer: Answer, key: Segment) -> Segment:
    """A processing job's output by its name, which the answer of the task has by its position."""
    is_output = answer.path == ("ProcessingOutputConfig", "Outputs") and isinstance(key, int)
    return answer.outputs[int(key)] if is_output and int(key) < len(answer.outputs) else key


def put(data: Any, path: tuple[Segment, ...], value: Any) -> Any:
    """The data with a value at a path."""
    if not path:
        return value
    key, *rest = path
    fields, below = (data.fields, data.rest) if isinstance(data, Known) else (Known({}).fields, data)
    try:
        inner = take(data, (key,)) if rest else None
    except LostError:
        inner = Known({})
    return Known({**fields, str(key): put(inner, tuple(rest), value)}, below)


def outputs_of(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of a processing job's outputs."""
    listed = objects_in(as_object(arguments.get("ProcessingOutputConfig")), "Outputs")
    return tuple(str(each.get("OutputName")) for each in listed)


def found(expression: str, data: Any, result: Any = None) -> Any:
    """The data that an expression names: a path, a path into the context (`$$`), States.Format, or a plain path of
    JSONata.

    Raises:
        LostError: an expression that calculates, or a path that leads nowhere.
    """
    if jsonata := _JSONATA.fullmatch(expression):
        plain = _PLAIN.fullmatch(jsonata[1])
        if not plain:
            raise LostError(f"{expression} calculates, which a definition cannot")
        if plain[1] == "context":
            return _context(place(plain[2]))
        return take(data if plain[1] == "input" else result, place(plain[2]))
    if expression.startswith("$$"):
        return _context(place(expression[2:]))
    if expression.startswith("$"):
        return take(data, place(expression[1:]))
    called = _CALLED.fullmatch(expression)
    given = None if called is None else _arguments(called[2], data)
    if called is None or given is None:
        raise LostError(f"{expression} calculates, which a definition cannot")
    if called[1] == "Array":
        return given
    texts = [re.sub(r"\\(.)", r"\1", part) for part in re.split(r"(?<!\\)\{\}", str(given[0]))] if given else []
    if len(given) != len(texts):
        raise LostError(f"{expression} has another number of values than of places")
    parts = [part for pair in zip(texts, [*given[1:], ""], strict=True) for part in pair]
    return Joined(tuple(part for part in parts if part != ""))


def _arguments(text: str, data: Any) -> list[Any] | None:
    """The arguments of a function: texts, numbers and paths; None with others among them."""
    given: list[Any] = []
    at = 0
    while at < len(text):
        if (part := _ARGUMENT.match(text, at)) is None:
            return None
        literal, plain, path = part.groups()
        given.append(literal if literal is not None else json.loads(plain) if plain else found(path, data))
        at = part.end()
    return given


def place(text: str) -> tuple[Segment, ...]:
    """The segments of a path without its `$`.

    Raises:
        LostError: it selects more than one place.
    """
    if text in ("", "."):
        return ()
    try:
        return parse_path(text.removeprefix("."))
    except UserError:
        raise LostError(f"${text} selects, which a definition cannot") from None


def _context(path: tuple[Segment, ...]) -> Any:
    if path[:2] == ("Execution", "Input"):
        return Input(path[2:])
    if path[:3] == ("Map", "Item", "Value"):
        return Item(path[3:])
    name = _EXECUTION.get(path_text(path))
    if name is None:
        raise LostError(f"{path_text(path)!r} of the context has no counterpart")
    differs = "" if name != "PipelineExecutionId" else "the name of the execution is its id, which nobody chooses"
    return Expression({"Get": f"Execution.{name}"}, differs)


def looked_up(path: Any, data: Any) -> Any:
    """As `found`; Lost where that raises."""
    try:
        return found(str(path), data)
    except LostError as error:
        return Lost(str(error))


def filled(template: Any, data: Any, result: Any = None) -> Any:
    """A payload template as data: fields that end with `.$`, and texts of JSONata, are looked up."""

    def looked_up(expression: object) -> Any:
        try:
            return found(str(expression), data, result)
        except LostError as error:
            return Lost(str(error))

    if isinstance(template, dict):
        given = as_object(cast("object", template))
        fields = {
            name.removesuffix(".$"): looked_up(each) if name.endswith(".$") else filled(each, data, result)
            for name, each in given.items()
        }
        return Known(fields)
    if isinstance(template, list):
        return [filled(each, data, result) for each in as_list(cast("object", template))]
    return looked_up(template) if isinstance(template, str) and _JSONATA.fullmatch(template) else template


def parameter_of(path: tuple[Segment, ...]) -> str:
    """The parameter for a place in the input."""
    return "_".join(re.sub(r"\W+", "_", str(key)) for key in path)


def property_of(path: tuple[Segment, ...]) -> str:
    """The place in a step's answer; an output stands there by its name."""
    if path[:2] == ("ProcessingOutputConfig", "Outputs") and len(path) > 2:
        return f"ProcessingOutputConfig.Outputs['{path[2]}']" + "".join(f".{key}" for key in path[3:])
    return path_text(path)
