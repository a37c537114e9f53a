"""The words of this package for steps that run no job: conditions, loops, functions, failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from drivetrain.base.json_text import as_list, as_object
from drivetrain.native.table import MisfitError, is_function
from drivetrain.native.words import OUTPUTS
from drivetrain.spec.values import TYPE_OF_SCALAR, ValueType
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.written.references import References, UnsaidError
from drivetrain.targets.written.layout import Called, Code, Item, spelled

_ORDER = {"Equals": "", "GreaterThan": ">", "GreaterThanOrEqualTo": ">=", "LessThan": "<", "LessThanOrEqualTo": "<="}
_BESIDE = ("Name", "Type", "Arguments", "DisplayName", "Description", "DependsOn")


class Control:
    """Writes these steps."""

    def __init__(self, values: References) -> None:
        self.values = values

    def said(self, step: StepNode, common: dict[str, Any]) -> Called:
        """A step in words; `common` has what every word takes.

        Raises:
            UnsaidError: something of it has no word.
        """
        match step.type:
            case "Condition":
                return self.condition(step, common)
            case "ForEach":
                return self.for_each(step, common)
            case "Fail":
                return self.failure(step, common)
            case _:
                raise UnsaidError(f"type {step.type} has no word")

    def condition(self, step: StepNode, common: dict[str, Any]) -> Called:
        _only(step.raw, *_BESIDE)
        _only(step.arguments, "Conditions", "IfSteps", "ElseSteps")
        conditions = tuple(Code(self._condition(each)) for each in as_list(step.arguments.get("Conditions")))
        if not conditions:
            raise UnsaidError("it has no condition")
        branches = {"then": step.then, "otherwise": step.otherwise}
        given = {name: self._steps(steps) for name, steps in branches.items() if steps}
        return Called("when", conditions, {**given, "name": step.name, **common})

    def for_each(self, step: StepNode, common: dict[str, Any]) -> Called:
        _only(step.raw, *_BESIDE)
        _only(step.arguments, "IterableItems", "MaxConcurrency", "ForEachBody", "Selector")
        items = step.arguments.get("IterableItems")
        if isinstance(items, list):
            listed: Any = [self.values.value(each) for each in as_list(step.arguments["IterableItems"])]
        elif is_function(items):
            listed = self.values.value(items)
        else:
            raise UnsaidError("its items are no list")
        if type(at_once := step.arguments.get("MaxConcurrency")) is not int:
            raise UnsaidError("its MaxConcurrency is no number")
        given: dict[str, Any] = {"name": step.name, "max_concurrency": at_once}
        if (selector := step.arguments.get("Selector")) is not None:
            given["best"] = self._selected(as_object(selector))
        return Called("for_each", (listed, self._steps(step.body)), {**given, **common})

    def function(self, step: StepNode, common: dict[str, Any]) -> Called:
        _only(step.raw, "Name", "Type", "Arguments", "DependsOn", "FunctionArn", "OutputParameters")
        try:
            outputs = OUTPUTS.read(step.raw.get("OutputParameters", []))
        except MisfitError:
            outputs = {"": ""}
        if not {*map(str, outputs.values())} <= {*get_args(ValueType)}:
            raise UnsaidError("its OutputParameters are of another form")
        given: dict[str, Any] = {"name": step.name}
        if step.arguments:
            given["payload"] = {name: self._payload(each) for name, each in step.arguments.items()}
        if outputs:
            given["outputs"] = outputs
        return Called("call_lambda", (self.values.value(step.raw.get("FunctionArn")),), {**given, **common})

    def failure(self, step: StepNode, common: dict[str, Any]) -> Called:
        _only(step.raw, *_BESIDE)
        _only(step.arguments, "ErrorMessage")
        message = self.values.value(step.arguments.get("ErrorMessage"))
        return Called("fail", (message,), {"name": step.name, **common})

    def _steps(self, steps: tuple[StepNode, ...]) -> list[Code]:
        return [Code(self.values.variables[step.name]) for step in steps]

    def _condition(self, given: Any) -> str:
        kind = as_object(given).get("Type")
        if kind == "Or":
            _only(given, "Type", "Conditions")
            parts = [self._literal(each) for each in as_list(given.get("Conditions"))]
            if len(parts) < 2:
                raise UnsaidError("an Or of fewer than two conditions has no word")
            return " | ".join(part if part.endswith(")") else f"({part})" for part in parts)
        return self._literal(given)

    def _literal(self, given: Any) -> str:
        condition = as_object(given)
        kind = str(condition.get("Type"))
        if kind == "Not":
            _only(condition, "Type", "Condition")
            inner = as_object(condition.get("Condition"))
            if inner.get("Type") not in ("Equals", "In"):
                raise UnsaidError("Not around an order has no word")
            return f"~{self._literal(inner)}"
        if kind == "In":
            _only(condition, "Type", "QueryValue", "Values")
            options = as_list(condition.get("Values"))
            left = self._left(condition.get("QueryValue"), options[0] if options else None)
            return f"{left}.is_in({spelled([self.values.value(each) for each in options], 8)})"
        if kind not in _ORDER:
            raise UnsaidError(f"a condition {kind!r} has no word")
        _only(condition, "Type", "LeftValue", "RightValue")
        left = self._left(condition.get("LeftValue"), condition.get("RightValue"))
        right = spelled(self.values.value(condition.get("RightValue"), self._type(condition.get("LeftValue"))), 8)
        return f"{left}.equals({right})" if kind == "Equals" else f"{left} {_ORDER[kind]} {right}"

    def _left(self, given: Any, right: Any) -> str:
        """The left side, always a reference; what is read from a file gets a variable of its own."""
        if not is_function(given):
            raise UnsaidError("a literal on a condition's left has no word")
        value = self.values.value(given, self._type(right))
        if isinstance(value, Code | Item):
            return spelled(value, 8)
        path = str(value.positional[-1]) if value.positional and isinstance(value.positional[-1], str) else "value"
        words = [word for word in path.replace("['", ".").replace("']", "").split(".") if word != "value"]
        return self.values.shared(spelled(value, 8), words[-1] if words else "value", value)

    def _type(self, other: Any) -> str:
        """The type of the value that is compared."""
        if type(other) in TYPE_OF_SCALAR:
            return TYPE_OF_SCALAR[type(other)].replace("Integer", "Float")
        got = str(as_object(other).get("Get"))
        declared = self.values.types.get(got.removeprefix("Parameters."), "String")
        return declared.replace("Integer", "Float")

    def _payload(self, given: Any) -> Any:
        if isinstance(given, dict) and not is_function(given):
            return {name: self._payload(each) for name, each in as_object(cast("object", given)).items()}
        if isinstance(given, list):
            return [self._payload(each) for each in as_list(cast("object", given))]
        return self.values.value(given)

    def _selected(self, selector: Mapping[str, Any]) -> Called:
        _only(selector, "Pick", "Field")
        word = {"MaxBy": "largest", "MinBy": "smallest"}.get(str(selector.get("Pick")))
        _only(field := as_object(selector.get("Field")), "Get")
        path = str(field.get("Get"))
        if word is None or not path.startswith("IterationOutput."):
            raise UnsaidError("its Selector has no word")
        return Called(word, (self.values.value({"Get": path.replace("IterationOutput", "Steps", 1)}),))


def _only(given: Mapping[str, Any], *known: str) -> None:
    if unknown := [name for name in given if name not in known]:
        raise UnsaidError(f"{unknown[0]} has no word")
