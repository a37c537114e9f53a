"""Values of a definition as code: references by the variables of parameters and steps, literals by their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast, get_args

from drivetrain.base.json_text import as_list, as_object, objects_in, parsed_object
from drivetrain.native import names_in, output_paths
from drivetrain.native.table import Call, is_function
from drivetrain.spec.values import TYPE_OF_SCALAR, ExecutionField
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.written.layout import Called, Code, Item, text
from drivetrain.targets.written.names import Names

_STEP = re.compile(r"Steps\.([^.\[]+)\.(.+)", re.DOTALL)
_IN_PARENTHESES = re.compile(r"OutputParameters\['([^']*)'\]")
_IMAGE = ("ImageUri", "TrainingImage", "Image")
_ITEM = "ForEach.CurrentItem"
_OFTEN = 3


class UnsaidError(Exception):
    """Something for which the words of this package have no form; the message says what."""


class References:
    """The variables of a definition, and code for what refers to them."""

    def __init__(self, definition: Definition, names: Names, raw: Mapping[str, str]) -> None:
        self.raw = raw
        self.parameters: dict[str, str] = {}
        """Parameter -> its variable."""
        self.types: dict[str, str] = {}
        """Parameter -> its type."""
        self.variables: dict[str, str] = {}
        """Step -> its variable, once it is written."""
        self.jobs: set[str] = set()
        """Steps that a word of drivetrain.native gives, or that moved."""
        self.moved: set[str] = set()
        self.steps: Mapping[str, StepNode] = {step.name: step for step in definition.all_steps}
        self.items = _item_types(definition)
        """Field of an item of a ForEach, empty for the item itself -> its type."""
        self.constants = _constants(definition, names)
        """Text -> its name; a place `s3://bucket` is that of all below it."""

    def json(self, value: Any) -> Any:
        """JSON as a word of a job takes it, with references by variables where there are any."""
        if isinstance(value, Call):
            keywords = {name: self.json(each) for name, each in value.keywords.items()}
            return Called(value.word, tuple(map(self.json, value.positional)), keywords)
        if is_function(value) and (reference := self.reference(value)) is not None:
            return reference
        if isinstance(value, dict):
            return {name: self.json(each) for name, each in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            return [self.json(each) for each in cast("list[Any]", value)]
        if isinstance(value, tuple):
            return tuple(map(self.json, cast("tuple[Any, ...]", value)))
        return self._text(value) if isinstance(value, str) else value

    def value(self, value: Any, type: str = "String") -> Any:
        """A text, number, truth or reference, as the other words of this package take it.

        Raises:
            UnsaidError: anything else.
        """
        found = self._value(value, type)
        if found is None:
            raise UnsaidError(f"{value!r:.80} has no word")
        return found

    def _value(self, value: Any, type: str = "String") -> Any:
        if isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self._text(value)
        return self.reference(value, type) if is_function(value) else None

    def reference(self, value: Mapping[str, Any], type: str = "String") -> Any:
        """A reference to a value of a type; None where this package has no word for it, or the step comes later."""
        function, operand = next(iter(value.items()))
        if function == "Get" and isinstance(operand, str):
            return self._got(operand, type)
        if function == "Std:Join" and as_object(operand).keys() == {"On", "Values"}:
            parts = [self._value(each) for each in as_list(operand["Values"])]
            if isinstance(operand["On"], str) and None not in parts and isinstance(operand["Values"], list):
                return Called("join", tuple(parts), {"on": operand["On"]} if operand["On"] else {})
        if function == "Std:JsonGet" and as_object(operand).keys() == {"PropertyFile", "Path"}:
            found = _STEP.fullmatch(str(as_object(operand["PropertyFile"]).get("Get")))
            if (
                found
                and is_function(operand["PropertyFile"])
                and found[2].startswith("PropertyFiles.")
                and isinstance(operand["Path"], str)
            ):
                return self._reported(found[1], found[2].removeprefix("PropertyFiles."), operand["Path"], type)
        return None

    def _reported(self, step: str, file: str, path: str, type: str) -> Any:
        if step not in self.jobs:
            return None
        files = objects_in(self.steps[step].raw, "PropertyFiles")
        found = next((each for each in files if each.get("PropertyFileName") == file), None)
        if found is None:
            return None
        if step in self.moved:
            place = f"{text(str(found.get('OutputName')))}, {text(str(found.get('FilePath')))}"
            return Called(f"{self.variables[step]}.report({place}).value", (path,), _typed(type, "Float"))
        return Called(f"{self.variables[step]}.report({text(file)}).value", (path,), _typed(type, "Float"))

    def _got(self, path: str, type: str) -> Any:
        root, _, rest = path.partition(".")
        if root == "Parameters" and rest in self.parameters:
            return Code(self.parameters[rest])
        if root == "Execution" and rest in get_args(ExecutionField):
            return Called("execution", (rest,))
        if path == _ITEM or path.startswith(f"{_ITEM}."):
            field = path.removeprefix(_ITEM)[1:]
            type = self.items.get(field, type)
            return Called("current_item", (), {**_typed(type, "String"), **({"field": field} if field else {})})
        found = _STEP.fullmatch(path)
        if not found or found[1] not in self.variables:
            return None
        step, variable = self.steps[found[1]], self.variables[found[1]]
        if step.name in self.jobs:
            for name, place in output_paths(step.type, step.raw).items():
                if place == found[2] and type == "String":
                    return Item(variable, name)
        elif step.type == "Lambda" and step.name not in self.raw and (named := _IN_PARENTHESES.fullmatch(found[2])):
            if named[1] not in names_in(step.raw.get("OutputParameters"), "OutputName"):
                return None
            return Called(f"{variable}.value", (named[1],))
        return Called(f"{variable}.property", (found[2],), _typed(type, "String"))

    def _text(self, value: str) -> Any:
        if value in self.constants:
            return Code(self.constants[value])
        bucket, slash, key = value.removeprefix("s3://").partition("/")
        name = self.constants.get(f"s3://{bucket}")
        if not value.startswith("s3://") or not slash or name is None or not re.fullmatch(r"[^{}\"\\]*", key):
            return value
        return Code(f'f"{{{name}}}/{key}"') if key.isprintable() else value


def _typed(type: str, usual: str) -> dict[str, Any]:
    return {} if type == usual else {"type": type}


def _item_types(definition: Definition) -> dict[str, str]:
    items = [each for step in definition.all_steps for each in as_list(step.arguments.get("IterableItems"))]
    objects = [(isinstance(item, str) and parsed_object(item)) or {"": item} for item in items]
    fields = [field for each in objects for field in each.items()]
    return {name: TYPE_OF_SCALAR[type(value)] for name, value in fields if type(value) in TYPE_OF_SCALAR}


def _constants(definition: Definition, names: Names) -> dict[str, str]:
    """The role, the images and the bucket that occur often, each with a name."""
    texts = list(_texts(definition.raw.get("Steps"), ""))
    roles = Counter(value for name, value in texts if name.endswith("RoleArn"))
    images = Counter(value for name, value in texts if name in _IMAGE)
    places = [value.removeprefix("s3://").split("/") for _, value in texts if value.startswith("s3://")]
    buckets = Counter(parts[0] for parts in places if len(parts) > 1 and re.fullmatch(r"[a-z0-9.-]+", parts[0]))
    found = {role: names.give("ROLE", otherwise="role", constant=True) for role in roles if len(roles) == 1}
    for image in (image for image, count in images.items() if count > 1):
        called = image.rpartition("/")[2].partition(":")[0].removeprefix("sagemaker-")
        found[image] = names.give(called, otherwise="image", constant=True)
    for bucket, count in buckets.most_common(1):
        if count >= _OFTEN:
            found[f"s3://{bucket}"] = names.give("BUCKET", otherwise="bucket", constant=True)
    return found


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Every text in the JSON, with the field that holds it."""
    if isinstance(value, str):
        yield name, value
    for key, each in as_object(value).items():
        yield from _texts(each, key)
    for each in as_list(value):
        yield from _texts(each, name)
