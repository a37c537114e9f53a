"""Values of a definition as code: references by the variables of parameters and steps, literals by their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast, get_args

from drivetrain.base.json_text import as_list, as_object, compact, objects_in, parsed_object
from drivetrain.native import names_in, output_paths
from drivetrain.native.table import Call, is_function
from drivetrain.spec.values import TYPE_OF_SCALAR, ExecutionField
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.written.layout import Called, Code, Item, assigned, comment, text
from drivetrain.targets.written.names import Names

_STEP = re.compile(r"Steps\.([^.\[]+)\.(.+)", re.DOTALL)
_IN_PARENTHESES = re.compile(r"OutputParameters\['([^']*)'\]")
_IMAGE = ("ImageUri", "TrainingImage", "Image")
_ITEM = "ForEach.CurrentItem"
_OFTEN = 3
_PLACE = re.compile(r"""("?)(s3://[a-z0-9.-]+)(/[^{}"'\\]*)\1""")
_STAMPED = re.compile(r"""(s3://[a-z0-9.-]+/(?:[^{}"'\\/]+/)*([\w-]+?)-\d{4}(?:-\d\d){5}-\d{3})((?:/[^{}"'\\]*)?)""")
_STAMP = "The name of this place has the time at which the SDK made the definition."


class UnsaidError(Exception):
    """Something for which the words of this package have no form; the message says what."""


class References:
    """The variables of a definition, and code for what refers to them."""

    def __init__(self, definition: Definition, names: Names, raw: Mapping[str, str], lines: list[str]) -> None:
        self.names, self.raw, self.lines = names, raw, lines
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
        texts = list(_texts(definition.raw.get("Steps"), ""))
        everywhere = [value for _, value in _texts(definition.raw, "")]
        found = list(_settings(texts))
        fixed = {text for text, _, of in found if of == "bucket" and _stands_apart(text, everywhere)}
        self.settings = {text: names.give(name, otherwise=of) for text, name, of in found if text not in fixed}
        """Text -> the setting that it is the default of; a place `s3://bucket` is that of all below it."""
        others = [*((text, name, of) for text, name, of in found if text in fixed), *_images(texts)]
        self.constants = {text: names.give(name, otherwise=of, constant=True) for text, name, of in others}
        """Image, and bucket that a setting could not change everywhere -> its name."""
        self.machines = {text: self.settings[text] for text, _, of in found if of == "machine"}
        """Machine of several jobs -> its setting."""
        self.named = {
            text: name for text, name in (self.settings | self.constants).items() if text not in self.machines
        }
        self._joins = Counter(compact(each) for each in _joins(definition.raw.get("Steps")))
        self._shared: dict[str, str] = {}

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
                joined = Called("join", tuple(parts), {"on": operand["On"]} if operand["On"] else {})
                return self._joined(value, joined) if self._joins[compact(dict(value))] > 1 else joined
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

    def _joined(self, json: Mapping[str, Any], joined: Called) -> Any:
        """The variable of a text that is joined more than once, named by its last literal."""
        values = as_list(json["Std:Join"]["Values"])
        texts = [value for value in values if isinstance(value, str)]
        if not texts:
            return joined
        called = texts[-1].rpartition("/")[2].partition(".")[0]
        return self.shared(compact(dict(json)), f"{called}_uri" if texts[0].startswith("s3:") else called, joined)

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
        if (found := _STAMPED.fullmatch(value)) and value.isprintable():
            place = self.shared(found[1], f"{found[2]}_place", self._place(found[1]), _STAMP)
            return Code(f'f"{{{place}}}{found[3]}"') if found[3] else place
        return self._place(value)

    def _place(self, value: str) -> Any:
        """A text by its name, or by that of its bucket."""
        if value in self.named:
            return Code(self.named[value])
        found = _PLACE.fullmatch(value)
        if not found or (name := self.named.get(found[2])) is None or not found[3].isprintable():
            return value
        return Code(f"f'\"{{{name}}}{found[3]}\"'" if found[1] else f'f"{{{name}}}{found[3]}"')

    def shared(self, key: str, called: str, value: Any, said: str = "") -> Code:
        """The variable of a value, which gets its line before the first place that uses it."""
        if key not in self._shared:
            name = self.names.give(called, otherwise="value")
            self.lines += [*comment(said), assigned(name, value)]
            self._shared[key] = name
        return Code(self._shared[key])


def _typed(type: str, usual: str) -> dict[str, Any]:
    return {} if type == usual else {"type": type}


def _item_types(definition: Definition) -> dict[str, str]:
    items = [each for step in definition.all_steps for each in as_list(step.arguments.get("IterableItems"))]
    objects = [(isinstance(item, str) and parsed_object(item)) or {"": item} for item in items]
    fields = [field for each in objects for field in each.items()]
    return {name: TYPE_OF_SCALAR[type(value)] for name, value in fields if type(value) in TYPE_OF_SCALAR}


def _settings(texts: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Roles, machines and buckets that occur often: text, name, what it is."""
    places = [found[2] for _, value in texts if (found := _PLACE.fullmatch(value))]
    for called, values, least in (
        ("role", [value for name, value in texts if name.endswith("RoleArn")], 1),
        ("bucket", places, _OFTEN),
        ("machine", [value for name, value in texts if name == "InstanceType"], _OFTEN),
    ):
        often = [value for value, count in Counter(values).most_common() if count >= least]
        for value in often:
            own = f"{value.rpartition('/')[2].removeprefix('ml.')}_{called}"
            yield value, called if value == often[0] else own, called


def _stands_apart(place: str, texts: list[str]) -> bool:
    """Return True if a bucket also stands in texts that are no places of it."""
    bucket = place.removeprefix("s3://")
    return any(bucket in text and not ((found := _PLACE.fullmatch(text)) and found[2] == place) for text in texts)


def _images(texts: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Images that occur more than once, with their names."""
    for image, count in Counter(value for name, value in texts if name in _IMAGE).items():
        if count > 1:
            yield image, image.rpartition("/")[2].partition(":")[0].removeprefix("sagemaker-"), "image"


def _joins(value: Any) -> Iterator[dict[str, Any]]:
    """Every join in the JSON."""
    if "Std:Join" in as_object(value):
        yield value
    for each in (*as_object(value).values(), *as_list(value)):
        yield from _joins(each)


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Every text in the JSON, with the field that holds it."""
    if isinstance(value, str):
        yield name, value
    for key, each in as_object(value).items():
        yield from _texts(each, key)
    for each in as_list(value):
        yield from _texts(each, name)
