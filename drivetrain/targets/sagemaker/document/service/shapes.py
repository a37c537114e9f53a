r"""Hold a step's Arguments against what the service accepts, offline and in microseconds.

    for problem in check_arguments("Training", arguments, {"Epochs": "Integer"}):
        print(problem)
    # Arguments.ResourceConfig: unknown member 'InstanceCnt'. Did you mean 'InstanceCount'? Allowed: ...

What is accepted comes from shapes.json, extracted from botocore's service model (`make shapes`). References (`Get`,
`Std:Join`, `Std:JsonGet`) are taken as of the right type unless their type is known: that of a pipeline parameter, of
a join (text), of a property of a step whose type is given.

The service's patterns are written for Java, and read by Python's `re`:

    matches(r"[\p{L}\p{Z}\p{N}_.:/=+\-@]*", "kosten: müller")  -> True

A pattern is translated and compiled once, when a value is first held against it. Differences that remain: Java's `.`
also stops at \r, U+0085, U+2028 and U+2029; here it does not, so that we refuse less than the service, never more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from drivetrain.base.errors import did_you_mean
from drivetrain.targets.sagemaker.document.service import UnknownPropertyError, property_type, service
from drivetrain.targets.sagemaker.document.step_types import STEP_TYPES

# None of the service's patterns needs more than linear time for a value of this length (a test measures every one);
# longer values are refused by their maximum length or not held against the pattern at all.
MAX_CHARACTERS = 16_384

# Java's Unicode classes, here with their ASCII members; the others are added as a value brings them.
_ASCII_MEMBERS = {
    "L": "a-zA-Z",
    "M": "",
    "N": "0-9",
    "P": r"!-#%-*,-/:;?@\[-\]_{}",
    "S": r"$+<=>\^`|~",
    "Z": " ",
    "Alnum": "a-zA-Z0-9",
}
_CLASS = re.compile(r"\\p\{(\w+)\}")
# `$` cannot be repeated in Python; after it there is nothing to match, so its count says nothing.
_REPEATED_END = re.compile(r"\$\{\d+,\d*\}")
# Java reads a pair of surrogates as the code point that it encodes.
_SURROGATE_RANGE = r"\uD800\uDC00-\uDBFF\uDFFF"


def matches(pattern: str, value: str) -> bool:
    """Return True if the whole value matches, as the service means it."""
    if len(value) > MAX_CHARACTERS:
        return True
    if pattern == ".*":  # that of every fourth shape with one
        return "\n" not in value
    extra = "" if value.isascii() or r"\p{" not in pattern else "".join(sorted({c for c in value if not c.isascii()}))
    return _compiled(pattern, extra).fullmatch(value) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str, extra: str) -> re.Pattern[str]:
    """The pattern, its Unicode classes holding the ASCII members and those of `extra`.

    Python's re knows no \\p{...}, and spelling the classes out takes thousands of ranges; the few characters beyond
    ASCII that one value has are enough to decide about it.
    """

    def members(found: re.Match[str]) -> str:
        name = found.group(1)
        return _ASCII_MEMBERS[name] + "".join(re.escape(c) for c in extra if _category(c).startswith(name))

    pattern = _REPEATED_END.sub("$", pattern).replace(_SURROGATE_RANGE, r"\U00010000-\U0010FFFF")
    return re.compile(_CLASS.sub(members, pattern), re.ASCII)


def _category(character: str) -> str:
    import unicodedata

    return unicodedata.category(character)


REFERENCES: dict[str, type] = {"Get": str, "Std:Join": dict, "Std:JsonGet": dict}
# What a definition may leave out of a request: the names that Pipelines gives.
FILLED_IN: dict[str, frozenset[str]] = {
    **{each.name: frozenset((each.named_by,)) for each in STEP_TYPES.values() if each.named_by},
    "Execution": frozenset(("ClientRequestToken",)),
    "Pipeline": frozenset(("ClientRequestToken",)),
}
NO_TYPES: Mapping[str, str] = {}

_WORDS = {
    "string": "text",
    "timestamp": "a time",
    "integer": "a whole number",
    "long": "a whole number",
    "float": "a number",
    "double": "a number",
    "boolean": "true or false",
    "list": "a list",
    "map": "an object",
    "structure": "an object",
}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "timestamp": (str, int, float),
    "integer": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "boolean": bool,
    "list": (list, tuple),
    "map": dict,
    "structure": dict,
}
# Shape type -> pipeline types that the service assigns to it; an integer also is a float.
_TAKES = {
    "string": ("String",),
    "integer": ("Integer",),
    "long": ("Integer",),
    "float": ("Float", "Integer"),
    "double": ("Float", "Integer"),
    "boolean": ("Boolean",),
    "structure": ("Object",),
    "map": ("Object",),
    "list": ("List",),
}
_MAX_SHOWN = 60
_NEWER = " If the service knows it by now, upgrade boto3 and run `make shapes`."


class Problem(NamedTuple):
    """One thing that the service would refuse: where (`Arguments.ResourceConfig`), what was given, what is allowed."""

    path: str
    given: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.path}: {self.given}. {self.allowed}"


def check_arguments(
    step_type: str,
    arguments: Mapping[str, Any],
    parameter_types: Mapping[str, str] = NO_TYPES,
    step_types: Mapping[str, str] = NO_TYPES,
    *,
    path: str = "Arguments",
) -> list[Problem]:
    """List what the service would refuse in a step's Arguments, in their order; [] for step types without a known call.

    Args:
        step_type: `Training`, `Processing`, `RegisterModel`, ... as in the definition.
        arguments: plain JSON values (dict, list, str, int, float, bool, None).
        parameter_types: pipeline parameter -> String, Integer, Float or Boolean.
        step_types: step name -> step type, to check what `Steps.<name>.<path>` leads to; steps left out are not.
        path: what the reported paths begin with.
    """
    root = service()["requests"].get(step_type)
    if root is None:
        return []
    check = _Check(parameter_types, step_types)
    check.structure(dict(arguments), service()["shapes"][root], path, FILLED_IN.get(step_type, frozenset()))
    return check.problems


def check_types(step_type: str, arguments: Mapping[str, Any]) -> list[Problem]:
    """List the values that make no sense in the Arguments of a definition that others wrote.

    Only kinds of values and the ranges of numbers are looked at: members, words and forms that shapes.json does not
    know may be newer than it is, and what is missing may not matter where the definition is read. A number may stand
    for text, and the text of one for a number.
    """
    root = service()["requests"].get(step_type)
    if root is None:
        return []
    check = _Types({}, {})
    check.structure(dict(arguments), service()["shapes"][root], "Arguments")
    return check.problems


def is_reference(value: Any) -> bool:
    """Return True if a value is an object that stands for one that is known when the pipeline runs."""
    if not isinstance(value, dict) or len(cast("dict[str, Any]", value)) != 1:
        return False
    [(name, content)] = cast("dict[str, Any]", value).items()
    if name.startswith("Std:") and name not in REFERENCES:
        return True  # a function that is newer than this package; what it gives is not known
    return isinstance(content, REFERENCES.get(name, ()))


class _Check:
    """One walk through the arguments; `problems` fills as it goes."""

    def __init__(self, parameter_types: Mapping[str, str], step_types: Mapping[str, str]) -> None:
        self.shapes: Mapping[str, dict[str, Any]] = service()["shapes"]
        self.parameter_types = parameter_types
        self.step_types = step_types
        self.problems: list[Problem] = []

    def report(self, path: str, given: str, allowed: str) -> None:
        self.problems.append(Problem(path, given, allowed))

    def value(self, value: Any, name: str, path: str) -> None:
        shape = self.shapes[name]
        kind = shape["type"]
        fits = isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")
        if is_reference(value):
            self.reference(value, kind, path)
        elif not fits:
            self.wrong_type(value, kind, path)
        elif kind == "structure":
            self.structure(value, shape, path)
        elif kind == "map":
            self.mapping(value, shape, path)
        elif kind == "string":
            self.text(value, shape, path)
        elif kind == "list":
            self.entries(value, shape, path)
        elif kind in ("integer", "long", "float", "double"):
            self.within(value, shape, path, str(value), "")

    def structure(
        self, value: dict[str, Any], shape: dict[str, Any], path: str, filled_in: frozenset[str] = frozenset()
    ) -> None:
        members = shape["members"]
        for member in shape.get("required", ()):
            if member not in value and member not in filled_in:
                self.report(path, f"{member!r} is missing", f"Required: {', '.join(_needed(shape, filled_in))}.")
        for member, given in value.items():
            if member in members:
                self.value(given, members[member], f"{path}.{member}")
            else:
                self.report(path, f"unknown member {member!r}", did_you_mean(str(member), members))

    def mapping(self, value: dict[str, Any], shape: dict[str, Any], path: str) -> None:
        self.within(len(value), shape, path, f"{len(value)} entries", " entries")
        for key, given in value.items():
            self.value(key, shape["key"], f"{path} (key {key!r})")
            self.value(given, shape["value"], f"{path}.{key}")

    def entries(self, value: Sequence[Any], shape: dict[str, Any], path: str) -> None:
        self.within(len(value), shape, path, f"{len(value)} entries", " entries")
        member = shape["member"]
        for index, given in enumerate(value):
            self.value(given, member, f"{path}[{index}]")

    def text(self, value: str, shape: dict[str, Any], path: str) -> None:
        if "enum" in shape:
            if value not in shape["enum"]:
                self.report(path, f"{_shown(value)} is not known", did_you_mean(value, shape["enum"]) + _NEWER)
            return
        if not self.within(len(value), shape, path, f"the text has {len(value)} characters", " characters"):
            return
        pattern = shape.get("pattern")
        if pattern is not None and not matches(pattern, value):
            self.report(path, f"{_shown(value)} is not of the right form", f"It must match {pattern}")

    def within(self, size: float, shape: dict[str, Any], path: str, given: str, unit: str) -> bool:
        low, high = shape.get("min"), shape.get("max")
        if (low is None or size >= low) and (high is None or size <= high):
            return True
        if low is not None and high is not None:
            allowed = f"{low} to {high}"
        else:
            allowed = f"at least {low}" if high is None else f"at most {high}"
        self.report(path, given, f"Allowed: {allowed}{unit}.")
        return False

    def reference(self, value: dict[str, Any], kind: str, path: str) -> None:
        try:
            known = self.reference_type(value)
        except UnknownPropertyError as error:
            self.report(path, f"{value['Get']!r}: {error.given}", error.allowed)
            return
        if known is None or known in _TAKES.get(kind, (known,)):
            return
        allowed = f"{_WORDS[kind].capitalize()} is needed"
        if kind == "string" and known in ("Integer", "Float", "Boolean"):
            allowed += ': join it, {"Std:Join": {"On": "", "Values": [...]}}'
        elif known in ("Object", "List"):
            allowed += ": name a member of it"
        self.report(path, f"{_reference_text(value)} is {known}", allowed + ".")

    def reference_type(self, value: dict[str, Any]) -> str | None:
        if "Std:Join" in value:
            return "String"
        if "Get" not in value:
            return None
        root, _, rest = value["Get"].partition(".")
        if root == "Parameters":
            return self.parameter_types.get(rest)
        if root == "Execution":
            return "String"
        if root == "Steps":
            step, _, below = rest.partition(".")
            if step in self.step_types and below:
                return property_type(self.step_types[step], below)
        return None

    def wrong_type(self, value: Any, kind: str, path: str) -> None:
        hint = ""
        if kind == "string" and isinstance(value, int | float):
            hint = f" Write it as text: {json.dumps(json.dumps(value))}."
        elif kind in ("integer", "long") and isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}", value):
            hint = f" Write it without quotes: {int(value)}."
        self.report(path, f"{_shown(value)} is {_kind_of(value)}", f"Allowed: {_WORDS[kind]}.{hint}")


class _Types(_Check):
    """The walk of check_types."""

    def value(self, value: Any, name: str, path: str) -> None:
        if value is not None:  # as good as left out
            super().value(value, name, path)

    def structure(
        self, value: dict[str, Any], shape: dict[str, Any], path: str, filled_in: frozenset[str] = frozenset()
    ) -> None:
        for member, given in value.items():
            if member in shape["members"]:
                self.value(given, shape["members"][member], f"{path}.{member}")

    def text(self, value: str, shape: dict[str, Any], path: str) -> None:
        pass

    def within(self, size: float, shape: dict[str, Any], path: str, given: str, unit: str) -> bool:
        return unit != "" or super().within(size, shape, path, given, unit)

    def reference(self, value: dict[str, Any], kind: str, path: str) -> None:
        pass

    def wrong_type(self, value: Any, kind: str, path: str) -> None:
        if kind == "string" and isinstance(value, int | float):
            return
        if kind in ("integer", "long", "float", "double", "boolean") and isinstance(value, str):
            try:
                read = json.loads(value)
            except ValueError:
                pass
            else:
                if isinstance(read, bool) == (kind == "boolean") and isinstance(read, bool | int | float):
                    return
        super().wrong_type(value, kind, path)


def _needed(shape: dict[str, Any], filled_in: frozenset[str]) -> list[str]:
    return [member for member in shape["required"] if member not in filled_in]


def _reference_text(value: dict[str, Any]) -> str:
    return repr(value["Get"]) if "Get" in value else next(iter(value))


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _kind_of(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list | tuple) else "no JSON value"
