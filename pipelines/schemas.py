"""JSON Schemas (2020-12) for editors: of the settings of a pipeline, and of the definitions that we write.

They help while typing: names are completed, mistakes underlined. What decides is `settings.build` for settings, and
`drivetrain check` for definitions.
"""

from __future__ import annotations

from typing import Any

from drivetrain.pipelines.settings import Settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_EXPRESSION = {"$ref": "#/$defs/Expression"}


def settings_schema(kind: type[Settings]) -> dict[str, Any]:
    """The schema of a pipeline's settings file."""
    schema: dict[str, Any] = kind.model_json_schema()
    for model in (schema, *schema.get("$defs", {}).values()):
        for field in model.get("properties", {}).values():
            for choice in (field, *field.get("anyOf", ())):
                # A field of text takes a list or a mapping too, as its JSON.
                if choice.get("type") == "string" and not {"enum", "const", "pattern", "format"} & set(choice):
                    choice["type"] = ["string", "object", "array"]
    return {"$schema": DIALECT, **schema}


def definition_schema() -> dict[str, Any]:
    """The schema of a definition: the arguments of every job as the service's model has them, references anywhere."""
    from drivetrain.pipelines.definition.conditions import OPERATORS
    from drivetrain.pipelines.definition.parameters import TYPES
    from drivetrain.pipelines.targets.sagemaker.service_model import service
    from drivetrain.pipelines.targets.sagemaker.shapes import FILLED_IN

    shapes = service()["shapes"]
    requests = {kind: name for kind, name in service()["requests"].items() if kind not in ("Execution", "Pipeline")}
    arguments: dict[str, Any] = {}
    used: set[str] = set()
    for kind, name in requests.items():
        arguments[kind] = _plain(shapes[name], FILLED_IN.get(kind, frozenset()))
        _collect(shapes[name], shapes, used)
    steps = {"type": "array", "items": {"$ref": "#/$defs/Step"}}
    arguments["Condition"] = {
        "type": "object",
        "required": ["Conditions"],
        "properties": {
            "Conditions": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Condition"}},
            "IfSteps": steps,
            "ElseSteps": steps,
        },
    }
    arguments["ForEach"] = {
        "type": "object",
        "required": ["IterableItems", "ForEachBody"],
        "properties": {"ForEachBody": steps, "MaxConcurrency": {"type": "integer", "minimum": 1, "maximum": 50}},
    }
    return {
        "$schema": DIALECT,
        "title": "SageMaker pipeline definition",
        "type": "object",
        "required": ["Version", "Steps"],
        "properties": {
            "Version": {"type": "string"},
            "Metadata": {"type": "object"},
            "Parameters": {"type": "array", "items": {"$ref": "#/$defs/Parameter"}},
            "PipelineExperimentConfig": {"type": "object"},
            "Steps": steps,
        },
        "$defs": {
            "Expression": _expression(),
            "Parameter": {
                "type": "object",
                "required": ["Name", "Type"],
                "properties": {
                    "Name": {"type": "string"},
                    "Type": {"enum": list(TYPES)},
                    "DefaultValue": {"type": ["string", "number", "boolean"]},
                    "EnumValues": {"type": "array"},
                },
            },
            "Condition": {
                "type": "object",
                "required": ["Type"],
                "properties": {
                    "Type": {"enum": list(OPERATORS)},
                    "Conditions": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Condition"}},
                },
            },
            "Step": _step(arguments),
            **{f"service.{name}": _shape(shapes[name]) for name in sorted(used)},
        },
    }


def _step(arguments: dict[str, Any]) -> dict[str, Any]:
    name = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
    trigger = {"enum": ["Failed", "Stopped", "Any"]}
    edge = {"type": "object", "required": ["Step"], "properties": {"Step": name, "Trigger": trigger}}
    return {
        "type": "object",
        "required": ["Name", "Type"],
        "properties": {
            "Name": name,
            "Type": {"type": "string", "examples": sorted([*arguments, "Fail", "Lambda", "Callback"])},
            "DisplayName": {"type": "string", "maxLength": 256},
            "Description": {"type": "string", "maxLength": 3072},
            "DependsOn": {"type": "array", "items": {"anyOf": [name, edge]}},
            "CacheConfig": {
                "type": "object",
                "required": ["Enabled"],
                "properties": {"Enabled": {"type": "boolean"}, "ExpireAfter": {"type": "string"}},
            },
            "RetryPolicies": {"type": "array", "items": {"type": "object", "required": ["ExceptionType"]}},
            "PropertyFiles": {
                "type": "array",
                "items": {"type": "object", "required": ["PropertyFileName", "OutputName", "FilePath"]},
            },
        },
        "allOf": [
            {
                "if": {"properties": {"Type": {"const": kind}}, "required": ["Type"]},
                "then": {"properties": {"Arguments": schema}, "required": ["Arguments"]},
            }
            for kind, schema in sorted(arguments.items())
        ],
    }


def _expression() -> dict[str, Any]:
    def one(name: str, operand: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "required": [name], "properties": {name: operand}, "additionalProperties": False}

    join = {"type": "object", "required": ["On", "Values"], "properties": {"Values": {"type": "array"}}}
    return {
        "anyOf": [
            one("Get", {"type": "string"}),
            one("Std:Join", join),
            one("Std:JsonGet", {"type": "object", "required": ["Path"]}),
        ]
    }


def _collect(shape: dict[str, Any], shapes: dict[str, Any], used: set[str]) -> None:
    """Names of all shapes that a shape leads to."""
    pending = _names(shape)
    while pending:
        name = pending.pop()
        if name not in used:
            used.add(name)
            pending += _names(shapes[name])


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
