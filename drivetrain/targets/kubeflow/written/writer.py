"""Writes the code: the parameters, then each task after those that it takes something from, then the pipeline."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any, cast

from drivetrain.base.json_text import as_object, object_in
from drivetrain.native.kubeflow import (
    CHANNEL,
    FIELD,
    FLOWS,
    GROUP,
    ITERATORS,
    TASK,
    channel_of,
    is_source,
    kind_of,
    outputs_of,
    selectors,
    type_of_value,
    word_of,
)
from drivetrain.targets.kubeflow.compile.natives import PARAMETER_TYPES, put, type_in
from drivetrain.targets.written.layout import Called, Code, Item, assigned, block, imported, spelled
from drivetrain.targets.written.names import Names

Json = dict[str, Any]
_OURS, _NATIVE = {"Parameter", "Pipeline"}, {"cel", "given", "group", "task"}
_PARAMETERS = {"STRING": "string", "NUMBER_INTEGER": "integer", "NUMBER_DOUBLE": "number", "BOOLEAN": "boolean"}
_SHARED = ("image", "command", "arguments", "outputs", "environment")
_COMPARED = re.compile(r"inputs\.parameter_values\['([^']*)'\]")
_FUNCTION = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)
_TEXTS = (("kfp.dsl.executor_main", "RUN_FUNCTION"), ("pip install", "INSTALL"))


class _Level:
    """A DAG and the variables of what is in it; its task in the level around it, which the root has not."""

    def __init__(self, component: Json, task: Json | None = None, around: _Level | None = None) -> None:
        self.around, self.tasks = around, object_in(component["dag"], "tasks")
        self.definitions, self.sources = _flat(component, "inputDefinitions"), _flat(task or {}, "inputs")
        self.made: Json = {
            name: {"outputs": object_in(each["component"], "outputDefinitions")} for name, each in self.tasks.items()
        }
        self.variables: dict[str, str] = {}
        self.own: dict[tuple[str, str], Code] = {}
        """Input and field -> the variable of its given(...)."""
        self.brought: set[str] = set()
        """Inputs that the word of the group brings in, since something in it takes them from outside."""

    def is_brought(self, name: str) -> bool:
        """Return True if that word gives an input this name, if something takes it."""
        return name in self.sources and channel_of(self.sources[name]) == name

    def in_order(self) -> Iterator[str]:
        needs = {
            name: [*map(_producer, _flat(task, "inputs").values()), *task.get("dependentTasks", ())]
            for name, task in self.tasks.items()
        }
        return (name for name in TopologicalSorter(needs).static_order() if name in self.tasks)


class Writer:
    """Writes a pipeline by its meaning."""

    def __init__(self, meaning: Json) -> None:
        self.meaning, self.root = meaning, meaning["root"]
        self.raw: dict[str, str] = {}
        """Task, or parameter -> the reason that JSON of its stands in the code."""
        self.names = Names({"pipeline", *_OURS, *_NATIVE})
        self.lines: list[tuple[str, Any]] = []
        self.constants: dict[str, str] = {}
        """Text -> its name."""
        self.parameters: dict[str, str] = {}
        self.other: Json = {}

    def write(self) -> str:
        """The code."""
        level = _Level(self.root)
        for name, definition in object_in(object_in(self.root, "inputDefinitions"), "parameters").items():
            self._parameter(name, definition)
        for name in level.in_order():
            self._task(level, name)
        info, given = self.meaning["pipelineInfo"], dict[str, Any]()
        for field, keyword in (("name", "name"), ("displayName", "display_name"), ("description", "description")):
            given |= {keyword: info[field]} if field in info else {}
        if self.parameters:
            given["parameters"] = [Code(variable) for variable in self.parameters.values()]
        given["steps"] = [Code(variable) for variable in level.variables.values()]
        other = {
            name: value for name, value in self.meaning.items() if name not in ("root", "pipelineInfo", "schemaVersion")
        }
        root = {name: self.root[name] for name in ("outputDefinitions",) if name in self.root}
        root |= {"dag": {"outputs": self.root["dag"]["outputs"]}} if "outputs" in self.root["dag"] else {}
        for place, part in (("root", root), ("", other)):
            if part:
                self.raw["the pipeline"] = f"{', '.join(part)} of the whole have no word"
                put(self.other, {place: part} if place else part)
        if self.other:
            given["other"] = self.other
        return self._laid_out(Called("Pipeline", (), given))

    def _laid_out(self, pipeline: Called) -> str:
        alike = Counter(key for _, value in self.lines if (key := _shared(value)))
        shared: dict[str, str] = {}
        body: list[str] = []
        for name, value in self.lines:
            if alike[key := _shared(value)] > 1:
                shared.setdefault(key, self.names.give(value.positional[0], otherwise="task", constant=True))
                rest = {word: each for word, each in value.keywords.items() if word not in _SHARED}
                value = Called("task", (value.positional[0], Code(f"**{shared[key]}")), rest)
            body.append(assigned(name, value))
        text = "\n".join([*body, f"    return {spelled(pipeline, 4, len('return '))}"])
        parts = [f"{name} = {block(value)}" for value, name in self.constants.items()]
        for key, name in shared.items():
            first = next(value for _, value in self.lines if _shared(value) == key)
            parts.append(assigned(name, {word: first.keywords[word] for word in _SHARED if word in first.keywords}, 0))
        used = {node.id for node in ast.walk(ast.parse(f"def pipeline():\n{text}")) if isinstance(node, ast.Name)}
        head = ['"""A pipeline as Kubeflow Pipelines has it, written by drivetrain import --code."""', ""]
        head.append(imported("drivetrain", _OURS & {*used, "Pipeline"}))
        head += [imported("drivetrain.native.kubeflow", _NATIVE & used)] if _NATIVE & used else []
        return "\n".join([*head, *(["", *parts] if parts else []), "", "", "def pipeline() -> Pipeline:", text, ""])

    def _parameter(self, name: str, definition: Json) -> None:
        variable = self.parameters[name] = self.names.give(name, otherwise="parameter")
        kind, default = definition.get("parameterType"), definition.get("defaultValue")
        said: Json = {"parameterType": kind} | (
            {} if default is None else {"defaultValue": default, "isOptional": True}
        )
        if kind in ("LIST", "STRUCT"):
            self.other.setdefault(PARAMETER_TYPES, {})[name] = word_of({"parameterType": kind})
            default = None if default is None else json.dumps(default, ensure_ascii=False)
        if more := {field: value for field, value in definition.items() if said.get(field) != value}:
            self.raw[name] = f"its {', '.join(more)} has no word"
            put(self.other, {"root": {"inputDefinitions": {"parameters": {name: more}}}})
        positional = (name,) if default is None else (name, _typed(default, definition))
        self.lines.append((variable, Called(f"Parameter.{_PARAMETERS.get(str(kind), 'string')}", positional)))

    def _task(self, level: _Level, name: str) -> None:
        task, component = level.tasks[name], level.tasks[name]["component"]
        sources, definitions = _flat(task, "inputs"), _flat(component, "inputDefinitions")
        fields: Json = {field: value for field, value in {**task, **component}.items() if field not in _BESIDE}
        group: Json = {}
        inner = _Level(component, task, level) if "dag" in component else None
        types: Json = {}
        if inner is None:
            fields["outputs"] = object_in(component, "outputDefinitions")
        else:
            for each in inner.in_order():
                self._task(inner, each)
            self._grouped(inner, level, component, fields, group)
        fields |= {"inputs": {}, "defaults": {}, "types": types}
        for key in {**sources, **definitions}:
            source, definition = sources.get(key), dict(definitions.get(key, {}))
            value = None if source is None else self._value(source, level, definition)
            if source is not None and (inner is None or key not in inner.brought):
                fields["inputs"][key] = value
            inferred = {} if source is None else type_in(source, level.definitions, level.made)
            if definition.pop("isOptional", False):
                default = fields["defaults"][key] = _typed(definition.pop("defaultValue", None), definition)
                inferred = type_of_value(default) if source is None and default is not None else inferred
            if "runtimeValue" in as_object(source):
                inferred = type_of_value(value)
            if key == group.get("item"):
                items: Any = group["each"]
                inferred = type_of_value(items[0]) if isinstance(items, list) and items else {"parameterType": "STRING"}
            if definition != inferred and not (inner is None and key.startswith(CHANNEL) and not definition):
                types[key] = definition
        fields = {field: value for field, value in fields.items() if value or field not in _EMPTY}
        table = TASK if inner is None else GROUP
        keywords, rest = table.read(fields)
        given = {**{key: self._constant(value) for key, value in keywords.items()}, **group}
        implied = {_producer(source) for source in sources.values()}
        if after := [Code(level.variables[each]) for each in task.get("dependentTasks", ()) if each not in implied]:
            given["after"] = after
        if (shown := object_in(task, "taskInfo").get("name", name)) != name:
            given["display_name"] = shown
        if rest:
            self.raw[name] = f"{', '.join(rest)} has no word"
            given["other"] = rest
        positional = (name,) if inner is None else (name, [Code(each) for each in inner.variables.values()])
        level.variables[name] = self.names.give(name, otherwise="task")
        self.lines.append((level.variables[name], Called(table.word, positional, given)))

    def _grouped(self, inner: _Level, outer: _Level, component: Json, fields: Json, group: Json) -> None:
        """The words of a group for its items, its condition and its outputs, taken out of its fields."""
        as_loop = {name: fields[name] for name in ITERATORS if name in fields}
        inferred = outputs_of({"dag": {**component["dag"], "tasks": inner.made}, **as_loop})
        for iterator in (name for name in ITERATORS if name in fields):
            item, items = fields[iterator].get("itemInput"), fields[iterator].get("items", {})
            taken = items.get("inputParameter", items.get("inputArtifact"))
            if "raw" not in items and not inner.is_brought(str(taken)):
                continue
            if taken is not None:
                inner.brought.add(taken)
            group["each"] = items["raw"] if taken is None else self._value(inner.sources[taken], outer)
            group["item"] = item
            del fields[iterator]
        condition = object_in(fields, "triggerPolicy").get("condition")
        if condition and "{" not in condition:
            values: Json = {}

            def word(found: re.Match[str]) -> str:
                if not inner.is_brought(found[1]):
                    return found[0]
                inner.brought.add(found[1])
                value = self._value(inner.sources[found[1]], outer)
                called = value.step if isinstance(value, Item) else str(value)
                called = next(name for name in (called, f"{called}_{len(values)}") if values.get(name, value) == value)
                values[called] = value
                return f"{{{called}}}"

            text = _COMPARED.sub(word, condition)
            if values:
                group["when"] = Called("cel", (text,), values)
                policy = fields.pop("triggerPolicy")
                if rest := {key: each for key, each in policy.items() if key != "condition"}:
                    fields["triggerPolicy"] = rest
        for flow, found in object_in(component["dag"], "outputs").items():
            for key, source in found.items():
                of = [
                    Item(inner.variables[each["producerSubtask"]], each[f"output{FLOWS[flow]}Key"])
                    for each in selectors(source)
                ]
                group.setdefault("outputs", {})[key] = of if len(of) > 1 or "valueFromOneof" in source else of[0]
                declared = _flat(component, "outputDefinitions").get(key, {})
                if declared != inferred[flow][key]:
                    fields.setdefault("outputs", {}).setdefault(flow, {})[key] = declared

    def _value(self, source: Json, level: _Level, definition: Json | None = None) -> Any:
        """A source as code; as its JSON where no word says it."""
        kind, is_named = kind_of(source), bool(channel_of(source))
        if is_named and (output := source.get(f"taskOutput{kind}")):
            return Item(level.variables[output["producerTask"]], output[f"output{kind}Key"])
        if is_named:
            field = FIELD.fullmatch(source.get("parameterExpressionSelector", ""))
            return self._input(level, source[f"componentInput{kind}"], field[1] if field else "", kind)
        if "constant" in object_in(source, "runtimeValue"):
            constant = _typed(source["runtimeValue"]["constant"], definition or {})
            return source if is_source(constant) else constant
        if source.keys() == {"taskFinalStatus"}:
            return Called(f"{level.variables[source['taskFinalStatus']['producerTask']]}.status")
        return source

    def _input(self, level: _Level, name: str, field: str = "", kind: str = "Parameter") -> Any:
        if level.around is None and name in self.parameters and not field:
            return Code(self.parameters[name])
        if level.around is not None and level.is_brought(name) and not field:
            level.brought.add(name)
            return self._value(level.sources[name], level.around)
        if (name, field) not in level.own:
            called = field or ("item" if "loop-item" in name else name.removeprefix(CHANNEL))
            variable = level.own[name, field] = Code(self.names.give(called, otherwise="item"))
            positional = (name, field) if field else (name,)
            self.lines.append((variable, Called("given", positional, {"artifact": True} if kind == "Artifact" else {})))
        return level.own[name, field]

    def _constant(self, value: Any) -> Any:
        """Values of a word, texts of several lines by the names of constants."""
        if isinstance(value, list):
            return [self._constant(each) for each in cast("list[Any]", value)]
        if type(value) is not str or value.count("\n") < 2:
            return value
        if value not in self.constants:
            function = _FUNCTION.search(value)
            called = next(
                (name for part, name in _TEXTS if part in value), f"{function[1]}_source" if function else "SCRIPT"
            )
            self.constants[value] = self.names.give(called, otherwise="script", constant=True)
        return Code(self.constants[value])


_EMPTY = ("inputs", "defaults", "types", "outputs")
_BESIDE = ("inputs", "inputDefinitions", "outputDefinitions", "component", "dependentTasks", "taskInfo", "dag")


def _flat(holder: Json, field: str) -> Json:
    """Parameters and artifacts, which have one list of names."""
    return {name: each for flow in FLOWS for name, each in object_in(object_in(holder, field), flow).items()}


def _producer(source: Json) -> str:
    return object_in(source, f"taskOutput{kind_of(source)}").get("producerTask", "")


def _typed(value: Any, definition: Mapping[str, Any]) -> Any:
    """A number as the one that its type has."""
    is_double = type(value) is int and definition.get("parameterType") == "NUMBER_DOUBLE"
    return float(value) if is_double else value


def _shared(value: Any) -> str:
    """The part that tasks with the same program share; empty for everything else."""
    if value.function != "task" or "command" not in value.keywords:
        return ""
    return spelled({word: value.keywords[word] for word in _SHARED if word in value.keywords})
