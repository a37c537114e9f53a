"""The schema of the definitions that are written here: steps and fields that are documented, and the arguments of every
job as the service's own model has them, with references anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.catalog import quotas
from drivetrain.native.retries import EXCEPTIONS
from drivetrain.schemas import DIALECT, object_of
from drivetrain.spec.binding import TYPES
from drivetrain.targets.sagemaker.document import for_each
from drivetrain.targets.sagemaker.document.conditions import OPERATORS
from drivetrain.targets.sagemaker.document.graph import TRIGGERS, reached
from drivetrain.targets.sagemaker.document.service import service
from drivetrain.targets.sagemaker.document.service.shapes import FILLED_IN
from drivetrain.targets.sagemaker.document.step_types import EVERY_STEP, STEP_TYPES, TOP_LEVEL

_EXPRESSION = {"$ref": "#/$defs/Expression"}
_TEXT = {"type": "string"}
_STEPS = {"type": "array", "items": {"$ref": "#/$defs/Step"}}
_TEXT_OR_EXPRESSION = {"anyOf": [_TEXT, _EXPRESSION]}


def definition_schema() -> dict[str, Any]:
    """The schema of a definition. Steps of types that are not documented may hold anything."""
    shapes = service()["shapes"]
    arguments: dict[str, Any] = {
        "Condition": object_of(
            ("Conditions",), Conditions=_several({"$ref": "#/$defs/Condition"}), IfSteps=_STEPS, ElseSteps=_STEPS
        ),
        "Fail": object_of((), ErrorMessage=_TEXT_OR_EXPRESSION),
        "ForEach": _for_each(),
    }
    used: set[str] = set()
    for kind, name in service()["requests"].items():
        if kind not in ("Execution", "Pipeline"):
            arguments[kind] = _plain(shapes[name], FILLED_IN.get(kind, frozenset()))
            used |= reached([name], lambda each: _names(shapes[each]))
    properties: dict[str, Any] = {name: {"type": ["object", "null"]} for name in sorted(TOP_LEVEL)}
    parameters = {"type": "array", "items": {"$ref": "#/$defs/Parameter"}}
    properties |= {"Version": _TEXT, "Parameters": parameters, "Steps": _STEPS}
    return {
        "$schema": DIALECT,
        "title": "SageMaker pipeline definition",
        **object_of(("Version", "Steps"), **properties),
        "$defs": {
            "Expression": _expression(),
            "Parameter": object_of(
                ("Name", "Type"),
                Name=_TEXT,
                Type={"enum": list(TYPES)},
                DefaultValue={"type": ["string", "number", "boolean"]},
                EnumValues={"type": "array", "items": _TEXT},
            ),
            "Condition": _condition(),
            "Step": _step(arguments),
            **{f"service.{name}": _shape(shapes[name]) for name in sorted(used)},
        },
    }


def _several(items: Any) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": items}


def _cases(cases: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions of the schema for objects of each Type."""
    of_type = ({"properties": {"Type": {"const": kind}}, "required": ["Type"]} for kind in cases)
    return [{"if": condition, "then": then} for condition, then in zip(of_type, cases.values(), strict=True)]


def _condition() -> dict[str, Any]:
    inner = {"$ref": "#/$defs/Condition"}
    operator = {"Type": {"enum": list(OPERATORS)}}
    others = {
        "In": object_of(("QueryValue", "Values"), **operator, QueryValue=True, Values=_several(True)),
        # Older versions of the SDK write Expression, which the service refuses.
        "Not": {**object_of((), **operator, Condition=inner, Expression=inner), "minProperties": 2},
        "Or": object_of(("Conditions",), **operator, Conditions=_several(inner)),
    }
    two = object_of(("LeftValue", "RightValue"), **operator, LeftValue=True, RightValue=True)
    cases = {name: others.get(name, two) for name in OPERATORS}
    return {"type": "object", "required": ["Type"], "properties": operator, "allOf": _cases(cases)}


def _for_each() -> dict[str, Any]:
    items = {"anyOf": [{"type": "array", "minItems": 1, "maxItems": quotas.MAX_FOREACH_ITEMS}, _TEXT, _EXPRESSION]}
    selector = object_of(("Pick", "Field"), Pick={"enum": list(for_each.PICKS)}, Field=_EXPRESSION)
    return object_of(
        ("IterableItems", "ForEachBody"),
        IterableItems=items,
        MaxConcurrency={"type": "integer", "minimum": 1, "maximum": quotas.MAX_FOREACH_CONCURRENCY},
        Selector=selector,
        ForEachBody=_STEPS,
    )


def _step(arguments: dict[str, Any]) -> dict[str, Any]:
    name = {"type": "string", "pattern": f"^[A-Za-z0-9_-]{{1,{quotas.MAX_STEP_NAME_CHARACTERS}}}$"}
    edge = object_of(("Step",), Step=name, Trigger={"enum": [*TRIGGERS]})
    retry = object_of(
        ("ExceptionType",),
        ExceptionType=_several({"enum": list(EXCEPTIONS.values())}),
        IntervalSeconds={"type": "number", "exclusiveMinimum": 0},
        BackoffRate={"type": "number", "minimum": 0},
        MaxAttempts={"type": "integer", "minimum": 1, "maximum": quotas.MAX_RETRY_ATTEMPTS},
        ExpireAfterMin={"type": "integer", "minimum": 1, "maximum": quotas.MAX_RETRY_MINUTES},
    )
    property_file = object_of(
        ("PropertyFileName", "OutputName", "FilePath"),
        PropertyFileName=_TEXT,
        OutputName=_TEXT,
        FilePath=_TEXT_OR_EXPRESSION,
    )
    cases: dict[str, Any] = {}
    for kind, own in sorted(STEP_TYPES.items()):
        needed = {"Lambda": ("FunctionArn",), "Callback": ("SqsQueueUrl",)}.get(kind, ())
        case: dict[str, Any] = {"propertyNames": {"enum": sorted(EVERY_STEP.union(own.fields))}}
        if kind in arguments:
            needed, case["properties"] = (*needed, "Arguments"), {"Arguments": arguments[kind]}
        cases[kind] = {**case, "required": [*needed]}
    return {
        "type": "object",
        "required": ["Name", "Type"],
        "properties": {
            "Name": name,
            "Type": {"type": "string", "examples": sorted(STEP_TYPES)},
            "DisplayName": {"type": "string", "maxLength": quotas.MAX_DISPLAY_NAME_CHARACTERS},
            "Description": {"type": "string", "maxLength": quotas.MAX_DESCRIPTION_CHARACTERS},
            "DependsOn": {"type": "array", "items": {"anyOf": [name, edge]}},
            "CacheConfig": object_of(("Enabled",), Enabled={"type": "boolean"}, ExpireAfter=_TEXT),
            "RetryPolicies": {"type": "array", "items": retry},
            "PropertyFiles": {"type": "array", "items": property_file},
        },
        "allOf": _cases(cases),
    }


def _expression() -> dict[str, Any]:
    join = {**object_of(("On", "Values"), On=_TEXT, Values={"type": "array"})}
    read = {
        **object_of(("Path",), Path=_TEXT, PropertyFile=_EXPRESSION, S3Uri=_TEXT_OR_EXPRESSION),
        "oneOf": [{"required": ["PropertyFile"]}, {"required": ["S3Uri"]}],
    }
    operands = {"Get": _TEXT, "Std:Join": join, "Std:JsonGet": read}
    known = [object_of((name,), **{name: operand}) for name, operand in operands.items()]
    newer: dict[str, Any] = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "patternProperties": {"^Std:(?!(Join|JsonGet)$)": {}},
        "additionalProperties": False,
    }
    return {"anyOf": [*known, newer]}


def _names(shape: dict[str, Any]) -> list[str]:
    inner = [shape[key] for key in ("member", "key", "value") if key in shape]
    return [*shape.get("members", {}).values(), *inner]


def _shape(shape: dict[str, Any]) -> dict[str, Any]:
    """A shape, or a reference in its place."""
    return {"anyOf": [_plain(shape), _EXPRESSION]}


def _plain(shape: dict[str, Any], filled_in: frozenset[str] = frozenset()) -> dict[str, Any]:
    kind, low, high = shape["type"], shape.get("min"), shape.get("max")
    if kind == "structure":
        return {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/service.{inner}"} for name, inner in shape["members"].items()},
            "required": [name for name in shape.get("required", ()) if name not in filled_in],
            "additionalProperties": False,
        }
    if kind == "map":
        inner = {"$ref": f"#/$defs/service.{shape['value']}"}
        return {"type": "object", "additionalProperties": inner, **_bounds("Properties", low, high)}
    if kind == "list":
        inner = {"$ref": f"#/$defs/service.{shape['member']}"}
        return {"type": "array", "items": inner, **_bounds("Items", low, high)}
    if kind == "boolean":
        return {"type": "boolean"}
    if kind in ("integer", "long", "float", "double"):
        bounds = {"minimum": low, "maximum": high}
        whole = kind in ("integer", "long")
        return {"type": "integer" if whole else "number", **{k: v for k, v in bounds.items() if v is not None}}
    if kind == "timestamp":
        return {"type": ["string", "number"]}
    if "enum" in shape:
        return {"enum": list(shape["enum"])}
    return {"type": "string", **_bounds("Length", low, high)}


def _bounds(what: str, low: int | None, high: int | None) -> dict[str, int]:
    given = {f"min{what}": low, f"max{what}": high}
    return {key: value for key, value in given.items() if value is not None}
