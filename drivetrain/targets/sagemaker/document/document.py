"""A pipeline definition as SageMaker keeps it: read without losing anything, written back with the same meaning.

    definition = read(path.read_bytes(), str(path))
    for step in definition.walk(): ...

Fields and step types that nobody here knows stay in `raw` and come out again. Only what is needed to walk the steps
is checked while reading, so that whatever the service holds can be pulled and shown; `graph.check` checks the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from drivetrain.base import json_text
from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json
from drivetrain.base.records import dataclass
from drivetrain.targets.sagemaker.document import list_of, member, object_of, optional_text, shown, step_fields
from drivetrain.targets.sagemaker.document.expressions import FUNCTIONS, Get, expressions
from drivetrain.targets.sagemaker.document.step_fields import Cache, DependsOn, OutputParameter, PropertyFile, Retry

# The service takes 1 MiB in a request (more through S3). These bounds are what is read, and refused, within a second.
MAX_BYTES = 8 * 1024 * 1024
MAX_STEPS = 10_000
_DESCRIBED = " Take the text out of it: aws sagemaker describe-pipeline ... --query PipelineDefinition --output text."
# The rules of this type are in for_each.py, which only definitions that have such a step import.
FOR_EACH = "ForEach"


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
        """The step's CacheConfig; caching is off without one.

        Raises:
            UserError: `Enabled` is not true or false, or `ExpireAfter` is no duration.
        """
        return step_fields.cache(self.raw, self.place)

    @cached_property
    def retry_policies(self) -> tuple[Retry, ...]:
        """When the service tries the step again.

        Raises:
            UserError: a policy of another shape.
        """
        return step_fields.retry_policies(self.raw, self.place)

    @cached_property
    def property_files(self) -> dict[str, PropertyFile]:
        """Name -> where the file lies.

        Raises:
            UserError: an entry without PropertyFileName, OutputName or FilePath.
        """
        return step_fields.property_files(self.raw, self.place)

    @cached_property
    def output_parameters(self) -> tuple[OutputParameter, ...]:
        """The values that the step says it gives back.

        Raises:
            UserError: an entry without OutputName.
        """
        return step_fields.output_parameters(self.raw, self.place)

    @cached_property
    def own_fields(self) -> dict[str, Any]:
        """The step's JSON without the steps in its branches; `raw` itself where it has none."""
        if self.type != "Condition":
            return self.raw
        arguments = {key: value for key, value in self.arguments.items() if key not in ("IfSteps", "ElseSteps")}
        return {**self.raw, "Arguments": arguments}

    @cached_property
    def body(self) -> tuple[StepNode, ...]:
        """The steps that a ForEach runs once an item, as they were written; none of any other type.

        Raises:
            UserError: the body is no list of steps.
        """
        if self.type != FOR_EACH:
            return ()
        return _steps(self.arguments.get("ForEachBody"), self.place, "ForEachBody", ())

    @cached_property
    def body_names(self) -> tuple[str, ...]:
        """Names of the steps in a ForEach's body, whose references to each other stay inside the step; as far as it
        can be read."""
        body: Json = self.arguments.get("ForEachBody") if self.type == FOR_EACH else None
        if not isinstance(body, list):
            return ()
        names = [item.get("Name") for item in body if isinstance(item, dict)]
        return tuple(name for name in names if isinstance(name, str))

    @property
    def references(self) -> tuple[Get, ...]:
        """The references in the step's own fields.

        Raises:
            UserError: for a reference that cannot be read, naming the step.
        """
        return self._expressions[0]

    @property
    def unknown_functions(self) -> tuple[str, ...]:
        """Names of the functions (`Std:...`) in the step's own fields that are not known here: newer than this package,
        or mistyped; each once.

        Raises:
            UserError: for a reference that cannot be read, naming the step.
        """
        return tuple(dict.fromkeys(name for name in self._expressions[1] if name not in FUNCTIONS))

    @cached_property
    def _expressions(self) -> tuple[tuple[Get, ...], list[str]]:
        try:
            gets, functions = expressions(self.own_fields)
        except UserError as error:
            raise UserError(f"{self.place}: {error}") from None
        return tuple(get for get in gets if get.step not in self.body_names), functions


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
        return _flattened(self.steps)

    @cached_property
    def all_steps(self) -> tuple[StepNode, ...]:
        """Every step as `walk` gives it, and after a ForEach the steps of its body, each once for all items.

        Raises:
            UserError: a body that is no list of steps.
        """
        return _flattened(self.steps, bodies=True)

    @cached_property
    def by_name(self) -> Mapping[str, StepNode]:
        """Name -> step; of several with one name (`graph.check` refuses them) the first."""
        return {step.name: step for step in reversed(self._walked)}

    def step(self, name: str) -> StepNode:
        """The step of that name.

        Raises:
            UserError: there is no such step.
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
    if len(text) > MAX_BYTES:
        raise UserError(f"{source}: a definition has at most {MAX_BYTES:,} bytes.")
    return _definition(json_text.parse(text, source), source)


def read_bytes(path: Path) -> bytes:
    """The text of a file for `read`: all of it, or enough to see that it is too long (a device has no end).

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


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
        hint = _DESCRIBED if isinstance(value, str) else ""
        raise UserError(f"{source}: a definition is a JSON object with a list of Steps; given {shown(value)}.{hint}")
    if "Steps" not in value:
        given = ", ".join(value) or "nothing"
        hint = _DESCRIBED if "PipelineDefinition" in value else ""
        raise UserError(f"{source}: the definition has no Steps. Given: {given:.120}.{hint}")
    if value["Steps"] is None:
        raise UserError(f"{source}: Steps is null. Allowed: a list.")
    if (count := _num_steps(value["Steps"])) > MAX_STEPS:
        raise UserError(f"{source}: the definition has {count:,} steps. Allowed: {MAX_STEPS:,}.")
    return Definition(
        raw=value,
        parameters=tuple(
            _parameter(item, f"{source}: Parameters[{n}]")
            for n, item in enumerate(list_of(value.get("Parameters"), f"{source}: Parameters"))
        ),
        steps=_steps(value["Steps"], source, "Steps", ()),
        source=source,
    )


def _num_steps(given: Json) -> int:
    """How many steps a list holds, those in branches included; cheap, whatever else is wrong with it."""
    if not isinstance(given, list):
        return 0
    count = len(given)
    for item in given:
        arguments = item.get("Arguments") if isinstance(item, dict) else None
        if isinstance(arguments, dict):
            count += sum(_num_steps(arguments.get(branch)) for branch in ("IfSteps", "ElseSteps"))
    return count


def _flattened(steps: tuple[StepNode, ...], *, bodies: bool = False) -> tuple[StepNode, ...]:
    """The steps, each before those of its branches and, with `bodies`, of its body."""
    found: list[StepNode] = []
    pending = list(reversed(steps))
    while pending:
        step = pending.pop()
        found.append(step)
        pending.extend(reversed((*step.then, *step.otherwise, *(step.body if bodies else ()))))
    return tuple(found)


def _steps(given: Json, source: str, path: str, branch: tuple[tuple[str, bool], ...]) -> tuple[StepNode, ...]:
    return tuple(
        _step(item, source, f"{path}[{n}]", branch) for n, item in enumerate(list_of(given, f"{source}: {path}"))
    )


def _step(given: Json, source: str, path: str, branch: tuple[tuple[str, bool], ...]) -> StepNode:
    place = f"{source}: {path}"
    raw = object_of(given, place)
    name = member(raw, "Name", place)
    place = f"{place} ({name!r})"
    kind = member(raw, "Type", place)
    arguments = object_of(raw.get("Arguments"), f"{place}: Arguments")
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
        display_name=optional_text(raw, "DisplayName", place),
        description=optional_text(raw, "Description", place),
        depends_on=step_fields.depends_on(raw, place),
        branch=branch,
        then=then,
        otherwise=otherwise,
    )


def _parameter(given: Json, place: str) -> DefinitionParameter:
    raw = object_of(given, place)
    name = member(raw, "Name", place)
    place = f"{place} ({name!r})"
    return DefinitionParameter(
        name=name,
        type=member(raw, "Type", place),
        default=raw.get("DefaultValue"),
        choices=tuple(list_of(raw.get("EnumValues"), f"{place}: EnumValues")),
        raw=raw,
    )
