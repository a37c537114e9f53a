"""Steps of a definition as the SDK's own objects; imported after `modules.load`.

Conditions and loops are the SDK's classes, because its compiler looks into them. Every other step is a `DefinedStep`,
which carries its JSON.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, cast

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json
from drivetrain.targets.sagemaker.document.expressions import is_expression
from drivetrain.targets.sagemaker.document.service import service

_steps: Any = importlib.import_module("sagemaker.mlops.workflow.steps")
_dependency: Any = importlib.import_module("sagemaker.mlops.workflow.step_dependency")
_condition: Any = importlib.import_module("sagemaker.mlops.workflow.condition_step")
_for_each: Any = importlib.import_module("sagemaker.mlops.workflow.for_each_step")
_conditions: Any = importlib.import_module("sagemaker.core.workflow.conditions")
_properties: Any = importlib.import_module("sagemaker.core.workflow.properties")
_variable: Any = importlib.import_module("sagemaker.core.helper.pipeline_variable")

_KNOWN_TYPES = {kind.value: kind for kind in _steps.StepTypeEnum}
_STEP = re.compile(r"Steps\.([A-Za-z0-9_-]+)")
# Fields that every step of the SDK has an attribute for.
_ATTRIBUTES = {"DisplayName": "display_name", "Description": "description"}
_SPOKEN = {"Name", "Type", "Arguments", "DependsOn", *_ATTRIBUTES}

Object = dict[str, Json]


class Expression(_variable.PipelineVariable):
    """A value that the service computes, as it is written, and the steps whose results it needs.

    Only those with objects of the SDK, which are known when all steps are made.
    """

    def __init__(self, raw: Object, names: Set[str]) -> None:
        self._raw = raw
        self._names = names

    @property
    def expr(self) -> Object:
        return self._raw

    @property
    def _referenced_steps(self) -> list[str]:
        return list(dict.fromkeys(name for name in _needed(self._raw) if name in self._names))


class DefinedCheck(_conditions.Condition):
    """One entry of a Condition step's list, as it is written."""

    def __init__(self, raw: Json, names: Set[str]) -> None:
        said = raw.get("Type") if isinstance(raw, dict) else None
        # Not ConditionTypeEnum(said), which answers Equals to everything.
        kind = next((kind for kind in _conditions.ConditionTypeEnum if kind.value == said), None)
        _conditions.Condition.__init__(self, condition_type=kind)
        self._request = spoken(raw, names)

    def to_request(self) -> Any:
        return self._request

    @property
    def _referenced_steps(self) -> list[Any]:
        return [
            step
            for variable in _steps.Step._find_pipeline_variables_in_step_arguments([self._request])
            for step in variable._referenced_steps
        ]


class DefinedStep(_steps.Step):
    """A step with the JSON that a definition holds of it: `raw`, which can be changed."""

    def __init__(self, raw: Object, names: Set[str]) -> None:
        kind = str(raw["Type"])
        _steps.Step.__init__(
            self,
            name=raw["Name"],
            # The SDK's compiler wants one of its own types; `restore` puts an unknown one back.
            step_type=_KNOWN_TYPES.get(kind, _steps.StepTypeEnum.JOB),
            depends_on=_edges(raw),
            **{attribute: raw.get(field) for field, attribute in _ATTRIBUTES.items()},
        )
        self.raw = raw
        self._names = names
        self._properties = _properties.Properties(
            step_name=self.name, step=self, shape_names=service()["responses"].get(kind, [])
        )
        if outputs := [entry for entry in _listed(raw.get("OutputParameters")) if "OutputName" in entry]:
            self._properties.__dict__["Outputs"] = {
                entry["OutputName"]: _properties.Properties(
                    step_name=self.name, path=f"OutputParameters['{entry['OutputName']}']", step=self
                )
                for entry in outputs
            }

    @property
    def arguments(self) -> Any:
        return spoken(self.raw.get("Arguments", {}), self._names)

    @property
    def properties(self) -> Any:
        return self._properties

    @property
    def property_files(self) -> list[Any]:
        """For JsonGet, which refers to them by name."""
        return [
            _properties.PropertyFile(
                name=entry["PropertyFileName"], output_name=entry["OutputName"], path=entry["FilePath"]
            )
            for entry in _listed(self.raw.get("PropertyFiles"))
        ]

    def to_request(self) -> dict[str, Any]:
        request: dict[str, Any] = {**self.raw, "Type": self.step_type.value, "Arguments": self.arguments}
        for field, attribute in _ATTRIBUTES.items():
            value = getattr(self, attribute)
            if value != self.raw.get(field):
                request[field] = value
        request.pop("DependsOn", None)
        if self.depends_on:
            request["DependsOn"] = list(self.depends_on)
        return request

    def restore(self, written: Object) -> None:
        """Put into the JSON that the SDK wrote of this step what it has no word for."""
        written["Type"] = self.raw["Type"]
        if "Arguments" not in self.raw and not written["Arguments"]:
            del written["Arguments"]


class DefinedCondition(_condition.ConditionStep):
    """A Condition step; the SDK compiles the steps of its branches."""

    def __init__(self, raw: Object, names: Set[str]) -> None:
        arguments = _arguments(raw)
        _condition.ConditionStep.__init__(
            self,
            name=raw["Name"],
            depends_on=_edges(raw),
            display_name=raw.get("DisplayName"),
            description=raw.get("Description"),
            conditions=[DefinedCheck(entry, names) for entry in cast("list[Json]", arguments.get("Conditions") or [])],
            if_steps=steps_of(arguments.get("IfSteps"), names),
            else_steps=steps_of(arguments.get("ElseSteps"), names),
        )
        self._kept = _kept(raw, "Conditions", "IfSteps", "ElseSteps")

    def restore(self, written: Object) -> None:
        _restore(written, self._kept)


class DefinedForEach(_for_each.ForEachStep):
    """A ForEach step; the SDK compiles the steps of its body."""

    def __init__(self, raw: Object, names: Set[str]) -> None:
        arguments = _arguments(raw)
        selector = arguments.get("Selector")
        _for_each.ForEachStep.__init__(
            self,
            name=raw["Name"],
            iterable_items=spoken(arguments.get("IterableItems"), names),
            max_concurrency=arguments.get("MaxConcurrency"),
            for_each_body=steps_of(arguments.get("ForEachBody"), names),
            selector=_for_each.ForEachSelector(selector.get("Pick"), spoken(selector.get("Field"), names))
            if isinstance(selector, dict)
            else None,
            display_name=raw.get("DisplayName"),
            description=raw.get("Description"),
            depends_on=_edges(raw),
        )
        self._kept = _kept(raw, "IterableItems", "MaxConcurrency", "ForEachBody", "Selector")

    def restore(self, written: Object) -> None:
        _restore(written, self._kept)


def all_steps(given: Json) -> list[Any]:
    """The steps of a definition as the SDK's objects, in order.

    Raises:
        UserError: a step depends on one that is not there, or in a way that the SDK does not know.
    """
    names = set[str]()
    made = steps_of(given, names)
    names.update(step.name for step in walk(made))
    for step in walk(made):
        for entry in step.depends_on or ():
            needed = entry if isinstance(entry, str) else entry.step_name
            if needed not in names:
                raise UserError(
                    f"Step {step.name!r} depends on {needed!r}. {did_you_mean(needed, names - {step.name})}"
                )
    return made


def steps_of(given: Json, names: Set[str]) -> list[Any]:
    """A list of steps as the SDK's objects, in order; `names` will be those of all steps."""
    return [_step(raw, names) for raw in _listed(given)]


def _step(raw: Object, names: Set[str]) -> Any:
    match raw["Type"]:
        case "Condition":
            return DefinedCondition(raw, names)
        case "ForEach":
            try:
                return DefinedForEach(raw, names)
            except ValueError:
                # The SDK refuses what it does not know; whether the service does, too, is for the service to say.
                return DefinedStep(raw, names)
        case _:
            return DefinedStep(raw, names)


def walk(steps: Iterable[Any]) -> Iterator[Any]:
    """The SDK's steps, those in branches and bodies included."""
    for step in steps:
        yield step
        for branch in ("if_steps", "else_steps", "for_each_body"):
            yield from walk(getattr(step, branch, ()))


def spoken(node: Json, names: Set[str]) -> Any:
    """A copy of a value in which every expression is an object of the SDK, so that it sees which steps are needed."""
    if isinstance(node, dict):
        if is_expression(node):
            return Expression(node, names)
        return {name: spoken(value, names) for name, value in node.items()}
    if isinstance(node, list):
        return [spoken(value, names) for value in node]
    return node


def _needed(node: Json) -> Iterator[str]:
    if isinstance(node, dict):
        text = node.get("Get")
        if isinstance(text, str) and (found := _STEP.match(text)):
            yield found[1]
        for value in node.values():
            yield from _needed(value)
    elif isinstance(node, list):
        for value in node:
            yield from _needed(value)


def _edges(raw: Object) -> list[Any] | None:
    """Convert DependsOn to the SDK's objects; None if it is empty."""
    edges: list[Any] = []
    known = {trigger.value: trigger for trigger in _dependency.TriggerCondition}
    for entry in cast("list[Json]", raw.get("DependsOn") or []):
        if isinstance(entry, dict) and (trigger := entry.get("Trigger")) is not None:
            if trigger not in known:
                raise UserError(
                    f"Step {raw['Name']!r}: DependsOn: Trigger {trigger!r}. {did_you_mean(str(trigger), known)}"
                )
            edges.append(_dependency.StepDependency(entry["Step"], known[str(trigger)]))
        else:
            edges.append(entry["Step"] if isinstance(entry, dict) else entry)
    return edges or None


def _kept(raw: Object, *arguments: str) -> tuple[Object, Object]:
    """The fields of a step, and of its arguments, that the SDK's class has no word for."""
    fields = {name: value for name, value in raw.items() if name not in _SPOKEN}
    inner = {name: value for name, value in _arguments(raw).items() if name not in arguments}
    return fields, inner


def _restore(written: Object, kept: tuple[Object, Object]) -> None:
    fields, inner = kept
    written.update(fields)
    cast("Object", written["Arguments"]).update(inner)


def _arguments(raw: Mapping[str, Json]) -> Object:
    arguments = raw.get("Arguments")
    return arguments if isinstance(arguments, dict) else {}


def _listed(given: Json) -> list[Object]:
    return [entry for entry in given if isinstance(entry, dict)] if isinstance(given, list) else []
