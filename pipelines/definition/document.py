"""A pipeline definition as SageMaker keeps it: read without losing anything, written back with the same meaning.

    definition = read(path.read_bytes(), str(path))
    for step in definition.walk(): ...

Fields and step types that nobody here knows stay in `raw` and come out again. Only what is needed to walk the steps
is checked while reading, so that whatever the service holds can be pulled and shown; `graph.check` checks the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, cast

from drivetrain.pipelines.definition import durations, json_text
from drivetrain.pipelines.definition.json_text import Json
from drivetrain.pipelines.errors import UserError, did_you_mean


class DependsOn(NamedTuple):
    """An edge that no reference makes; `trigger` (Failed, Stopped, Any) runs the step because of how `step` ended."""

    step: str
    trigger: str | None = None


class PropertyFile(NamedTuple):
    """A JSON file in one of the step's outputs, from which Std:JsonGet reads."""

    output_name: str
    file_path: str


class OutputParameter(NamedTuple):
    """A named value that a Callback, Lambda or notebook step gives back."""

    name: str
    type: str


@dataclass(frozen=True)
class Cache:
    """The step's CacheConfig. Without `expire_after_seconds` a result never gets too old."""

    enabled: bool = False
    expire_after_seconds: float | None = None


@dataclass(frozen=True)
class Retry:
    """One retry policy, with the service's defaults. `expire_after_seconds` bounds the sum of all attempts."""

    exceptions: tuple[str, ...]
    interval_seconds: float = 1
    backoff_rate: float = 2.0
    max_attempts: int | None = 5
    expire_after_seconds: float | None = None


@dataclass(frozen=True)
class DefinitionParameter:
    """A parameter of the pipeline; `default` is None when there is none, `choices` empty when all are allowed."""

    name: str
    type: str
    default: Json
    choices: tuple[Json, ...]
    raw: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class StepNode:
    """One step: `raw` is the very object of the definition, the rest is read from it.

    `branch` names the conditions that the step stands under, from the outside in, and the outcome that leads to it.
    `then` and `otherwise` are a Condition's own branches. `place` is where it stands, for messages.
    """

    name: str
    type: str
    raw: dict[str, Any] = field(repr=False)
    arguments: dict[str, Any] = field(repr=False, compare=False)
    place: str = field(repr=False, compare=False)
    display_name: str | None = field(default=None, repr=False, compare=False)
    description: str | None = field(default=None, repr=False, compare=False)
    depends_on: tuple[DependsOn, ...] = field(default=(), repr=False, compare=False)
    branch: tuple[tuple[str, bool], ...] = ()
    then: tuple[StepNode, ...] = field(default=(), repr=False, compare=False)
    otherwise: tuple[StepNode, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def cache(self) -> Cache:
        """The step's CacheConfig; caching is off where there is none.

        Raises:
            UserError: `Enabled` is not true or false, or `ExpireAfter` is no duration.
        """
        given = _object(self.raw.get("CacheConfig"), f"{self.place}: CacheConfig")
        if not given:
            return Cache()
        enabled = given.get("Enabled", False)
        if not isinstance(enabled, bool):
            raise UserError(f"{self.place}: CacheConfig.Enabled is {_shown(enabled)}. Allowed: true, false.")
        expire = given.get("ExpireAfter")
        if expire is None:
            return Cache(enabled)
        try:
            return Cache(enabled, durations.seconds(_text(expire, "ExpireAfter")))
        except UserError as error:
            raise UserError(f"{self.place}: CacheConfig.ExpireAfter: {error}") from None

    @cached_property
    def retry_policies(self) -> tuple[Retry, ...]:
        """When the service tries the step again.

        Raises:
            UserError: a policy of another shape.
        """
        return tuple(_retry(given, place) for given, place in self._listed("RetryPolicies"))

    @cached_property
    def property_files(self) -> dict[str, PropertyFile]:
        """Name -> where the file lies.

        Raises:
            UserError: an entry without PropertyFileName, OutputName or FilePath.
        """
        return {
            _member(given, "PropertyFileName", place): PropertyFile(
                _member(given, "OutputName", place), _member(given, "FilePath", place)
            )
            for given, place in self._listed("PropertyFiles")
        }

    @cached_property
    def output_parameters(self) -> tuple[OutputParameter, ...]:
        """The values that the step says it gives back.

        Raises:
            UserError: an entry without OutputName.
        """
        return tuple(
            OutputParameter(
                _member(given, "OutputName", place), _text(given.get("OutputType", "String"), f"{place}.OutputType")
            )
            for given, place in self._listed("OutputParameters")
        )

    def _listed(self, key: str) -> list[tuple[dict[str, Json], str]]:
        place = f"{self.place}: {key}"
        return [
            (_object(item, f"{place}[{n}]"), f"{place}[{n}]") for n, item in enumerate(_list(self.raw.get(key), place))
        ]


@dataclass(frozen=True)
class Definition:
    """A whole definition. Two are equal when their JSON is."""

    raw: dict[str, Any] = field(repr=False)
    parameters: tuple[DefinitionParameter, ...] = field(compare=False)
    steps: tuple[StepNode, ...] = field(compare=False)
    """The top level; those in branches are in their Condition's `then` and `otherwise`."""
    source: str = field(default="definition", compare=False)

    def walk(self) -> list[StepNode]:
        """Every step, those in branches included, in the order in which they were written.

        The body of a ForEach is part of that step, since its steps run any number of times.
        """
        return list(self._walked)

    @cached_property
    def _walked(self) -> tuple[StepNode, ...]:
        found: list[StepNode] = []
        pending = list(reversed(self.steps))
        while pending:
            step = pending.pop()
            found.append(step)
            pending.extend(reversed((*step.then, *step.otherwise)))
        return tuple(found)

    @cached_property
    def by_name(self) -> Mapping[str, StepNode]:
        """Name -> step; of several with one name (`graph.check` refuses them) the first."""
        return {step.name: step for step in reversed(self._walked)}

    def step(self, name: str) -> StepNode:
        """The step of that name.

        Raises:
            UserError: when there is none.
        """
        try:
            return self.by_name[name]
        except KeyError:
            raise UserError(f"{self.source}: no step {name!r}. {did_you_mean(name, self.by_name)}") from None


def read(text: str | bytes, source: str = "definition") -> Definition:
    """The definition in a JSON text; `source` (a path, a pipeline's name) begins every message.

    Raises:
        UserError: text that is not strict JSON (see `json_text.parse`), or not of a definition's shape.
    """
    return _definition(json_text.parse(text, source), source)


def from_json(raw: Any, source: str = "definition") -> Definition:
    """The definition in an object that was read or built already; it is kept, not copied.

    Raises:
        UserError: no list of Steps; a step or parameter without Name or Type; a branch that is no list of steps.
    """
    if json_text.deeper_than(raw, json_text.MAX_LEVELS):
        raise UserError(f"{source}: objects and lists are nested more than {json_text.MAX_LEVELS} levels deep.")
    return _definition(raw, source)


def write(definition: Definition | Mapping[str, Any]) -> str:
    """The definition as text: keys in their order, one space a level, so that two versions differ by lines.

    Raises:
        UserError: when an object that was built in Python holds something that JSON cannot.
    """
    return json_text.text_of(cast("Json", definition.raw if isinstance(definition, Definition) else definition))


def _definition(value: Json, source: str) -> Definition:
    if not isinstance(value, dict):
        raise UserError(f"{source}: a definition is a JSON object with a list of Steps; given {_shown(value)}.")
    if "Steps" not in value:
        raise UserError(f"{source}: the definition has no Steps. {did_you_mean('Steps', value)}")
    if value["Steps"] is None:
        raise UserError(f"{source}: Steps is null. Allowed: a list.")
    return Definition(
        raw=value,
        parameters=tuple(
            _parameter(item, f"{source}: Parameters[{n}]")
            for n, item in enumerate(_list(value.get("Parameters"), f"{source}: Parameters"))
        ),
        steps=_steps(value["Steps"], source, "Steps", ()),
        source=source,
    )


def _steps(given: Json, source: str, path: str, branch: tuple[tuple[str, bool], ...]) -> tuple[StepNode, ...]:
    return tuple(
        _step(item, source, f"{path}[{n}]", branch) for n, item in enumerate(_list(given, f"{source}: {path}"))
    )


def _step(given: Json, source: str, path: str, branch: tuple[tuple[str, bool], ...]) -> StepNode:
    place = f"{source}: {path}"
    raw = _object(given, place)
    name = _member(raw, "Name", place)
    place = f"{place} ({name!r})"
    kind = _member(raw, "Type", place)
    arguments = _object(raw.get("Arguments"), f"{place}: Arguments")
    then: tuple[StepNode, ...] = ()
    otherwise: tuple[StepNode, ...] = ()
    if kind == "Condition":
        inner = f"{path}.Arguments"
        then = _steps(arguments.get("IfSteps"), source, f"{inner}.IfSteps", (*branch, (name, True)))
        otherwise = _steps(arguments.get("ElseSteps"), source, f"{inner}.ElseSteps", (*branch, (name, False)))
    return StepNode(
        name=name,
        type=kind,
        raw=raw,
        arguments=arguments,
        place=place,
        display_name=_optional_text(raw, "DisplayName", place),
        description=_optional_text(raw, "Description", place),
        depends_on=_depends_on(raw.get("DependsOn"), place),
        branch=branch,
        then=then,
        otherwise=otherwise,
    )


def _depends_on(given: Json, place: str) -> tuple[DependsOn, ...]:
    found: list[DependsOn] = []
    for n, item in enumerate(_list(given, f"{place}: DependsOn")):
        if isinstance(item, dict):
            where = f"{place}: DependsOn[{n}]"
            found.append(DependsOn(_member(item, "Step", where), _optional_text(item, "Trigger", where)))
        else:
            found.append(DependsOn(_text(item, f"{place}: DependsOn[{n}]")))
    return tuple(found)


def _parameter(given: Json, place: str) -> DefinitionParameter:
    raw = _object(given, place)
    name = _member(raw, "Name", place)
    place = f"{place} ({name!r})"
    return DefinitionParameter(
        name=name,
        type=_member(raw, "Type", place),
        default=raw.get("DefaultValue"),
        choices=tuple(_list(raw.get("EnumValues"), f"{place}: EnumValues")),
        raw=raw,
    )


def _retry(given: dict[str, Json], place: str) -> Retry:
    expire = _number(given, "ExpireAfterMin", place)
    attempts = _number(given, "MaxAttempts", place)
    defaults = Retry(())
    if attempts is None:
        attempts = defaults.max_attempts if expire is None else None
    interval = _number(given, "IntervalSeconds", place)
    backoff = _number(given, "BackoffRate", place)
    return Retry(
        exceptions=tuple(
            _text(item, f"{place}.ExceptionType")
            for item in _list(given.get("ExceptionType"), f"{place}.ExceptionType")
        ),
        interval_seconds=defaults.interval_seconds if interval is None else interval,
        backoff_rate=defaults.backoff_rate if backoff is None else backoff,
        max_attempts=None if attempts is None else int(attempts),
        expire_after_seconds=None if expire is None else expire * 60,
    )


def _number(given: dict[str, Json], key: str, place: str) -> float | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise UserError(f"{place}.{key} is {_shown(value)}. Allowed: a number that is not negative.")
    return value


def _object(given: Json, place: str) -> dict[str, Json]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise UserError(f"{place} is {_shown(given)}. Allowed: an object.")
    return given


def _list(given: Json, place: str) -> list[Json]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise UserError(f"{place} is {_shown(given)}. Allowed: a list.")
    return given


def _text(given: Json, place: str) -> str:
    if not isinstance(given, str) or not given:
        raise UserError(f"{place} is {_shown(given)}. Allowed: text.")
    return given


def _member(given: dict[str, Json], key: str, place: str) -> str:
    if key not in given:
        raise UserError(f"{place} has no {key}. {did_you_mean(key, given)}")
    return _text(given[key], f"{place}: {key}")


def _optional_text(given: dict[str, Json], key: str, place: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise UserError(f"{place}: {key} is {_shown(value)}. Allowed: text.")
    return value


def _shown(value: Json) -> str:
    """A value in a message: its kind where it is large, itself where it is small."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str) or abs(value) < 1e15 else "a huge number"
    return text if len(text) <= 60 else text[:60] + "..."
