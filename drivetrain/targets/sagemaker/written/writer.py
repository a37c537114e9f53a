"""Writes the code: the parameters, then every step after those that it takes something from, then the pipeline."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, cast

from drivetrain.base.json_text import list_in, object_in
from drivetrain.native.table import is_function
from drivetrain.native.words import ENTRIES, TABLES
from drivetrain.spec.pipeline import steps_got
from drivetrain.targets.sagemaker.compile.compile import VERSION
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.written import moving
from drivetrain.targets.sagemaker.written.control import Control
from drivetrain.targets.sagemaker.written.moving import Program
from drivetrain.targets.sagemaker.written.references import References, UnsaidError
from drivetrain.targets.written.layout import WIDTH, Called, Code, assigned, comment, docstring, imported, spelled, text
from drivetrain.targets.written.names import Hints, Names

_NATIVE = {table.word for table in (*ENTRIES, *TABLES.values())}
_STEPS = ("NativeStep", "call_lambda", "fail", "for_each", "when")
_VALUES = ("Dependency", "Parameter", "RetryPolicy", "current_item", "execution", "join", "largest", "smallest")
_OURS = {"Pipeline", *_STEPS, *_VALUES}
_BESIDE = ("Name", "Type", "DisplayName", "Description", "DependsOn")
_OF_THE_SDK = re.compile(r"(?<=.)-(RegisterModel|CreateModel)$|(?<=RepackModel)-0$")
"""Ends that the SDK puts behind the name of a person."""
_PASSED = ("HyperParameters", "StaticHyperParameters")
_REPACKS = "The SDK put this job here to add a script; Drivetrain's register() needs none."
_DOCSTRING = "A pipeline as SageMaker has it, written by drivetrain import --code."
_EXPERIMENT = {
    "ExperimentName": {"Get": "Execution.PipelineName"},
    "TrialName": {"Get": "Execution.PipelineExecutionId"},
}
_PARAMETERS = {"String": "string", "Integer": "integer", "Float": "number", "Boolean": "boolean"}


class Writer:
    """Writes one definition; steps of `raw` stay JSON, for the reason that it gives."""

    def __init__(
        self,
        definition: Definition,
        name: str,
        raw: Mapping[str, str],
        hints: Hints | None = None,
        moving: Mapping[str, Program] | None = None,
    ) -> None:
        self.definition, self.name, self.raw = definition, name, dict(raw)
        self.moving: Mapping[str, Program] = moving or {}
        """Step that becomes a script -> it."""
        self.hints = hints or Hints()

    def write(self) -> tuple[str, dict[str, str]]:
        """The code, and the steps that stay JSON with the reasons."""
        while True:
            known = len(self.raw)
            code = self._code()
            if len(self.raw) == known:  # else what turned out to stay JSON stays it with all that stands in it
                return code, self.raw

    def _code(self) -> str:
        ours = _OURS | (moving.WORDS if self.moving else set[str]())
        self.names = Names({"pipeline", *_NATIVE, *ours, *([moving.TRAIN_SCRIPT] if self.moving else [])})
        self.moves: list[moving.Move] = []
        self.lines: list[str] = []
        self.values = References(self.definition, self.names, self.raw, self.lines)
        self.control = Control(self.values)
        for parameter in self.definition.parameters:
            self._parameter(parameter.raw)
        self.lines += [""] if self.lines else []
        for step in _in_order([*self._shown(self.definition.steps)]):
            self._step(step)
        raw = self.definition.raw
        given: dict[str, Any] = {"name": self.name}
        if self.values.parameters:
            given["parameters"] = [Code(name) for name in self.values.parameters.values()]
        given["steps"] = [Code(self.values.variables[step.name]) for step in self.definition.steps]
        other = {"Version": None, **{name: each for name, each in raw.items() if name not in ("Parameters", "Steps")}}
        if other["Version"] == VERSION:
            del other["Version"]
        if isinstance(raw.get("Metadata"), dict) and (metadata := other.pop("Metadata")):
            given["metadata"] = metadata
        if (experiment := other.pop("PipelineExperimentConfig", None)) != _EXPERIMENT:
            is_usual = isinstance(experiment, dict) and bool(cast("object", experiment))
            given["experiment"] = experiment if is_usual else None
            other |= {} if is_usual else {"PipelineExperimentConfig": experiment}
        other = {name: each for name, each in other.items() if each is not None or name == "Version"}
        if other:
            given["other"] = other
        body = "\n".join([*self.lines, f"    return {spelled(Called('Pipeline', (), given), 4, len('return '))}"])
        used = {node.id for node in ast.walk(ast.parse(f"def pipeline():\n{body}")) if isinstance(node, ast.Name)}
        head = [docstring(self.hints.docstring or _DOCSTRING), ""]
        ours_by_module = (
            ("drivetrain", ours),
            (f"drivetrain.components.{moving.TRAIN_SCRIPT}", {moving.TRAIN_SCRIPT} if self.moves else set[str]()),
            ("drivetrain.native", _NATIVE),
        )
        for module, words in ours_by_module:
            head += [imported(module, words & {*used, "Pipeline"})] if words & {*used, "Pipeline"} else []
        constants = [assigned(name, value, 0) for value, name in self.values.constants.items() if name in used]
        settings = [f"{name}: str = {text(value)}" for value, name in self.values.settings.items() if name in used]
        return "\n".join([*head, *(["", *constants] if constants else []), "", "", _signature(settings), body, ""])

    def _shown(self, steps: tuple[StepNode, ...]) -> Iterator[StepNode]:
        """The steps that have a variable: those inside of a step that stays JSON have none."""
        for step in steps:
            yield step
            if step.name not in self.raw:
                yield from self._shown((*step.then, *step.otherwise, *step.body))

    def _parameter(self, raw: Mapping[str, Any]) -> None:
        name, kind = raw["Name"], raw["Type"]
        variable = self._variable(name, "parameter")
        self.values.parameters[name], self.values.types[name] = variable, kind
        default, choices = raw.get("DefaultValue"), raw.get("EnumValues")
        given: dict[str, Any] = {"choices": tuple(choices)} if choices else {}
        if kind in _PARAMETERS:
            value = self.values.json(default) if isinstance(default, str) else default
            positional = (name,) if default is None else (name, value)
            call = Called(f"Parameter.{_PARAMETERS[kind]}", positional, given)
        else:
            call = Called("Parameter", (), {"name": name, "type": kind, "default": default, **given})
        self.lines.append(assigned(variable, call))

    def _variable(self, name: str, otherwise: str) -> str:
        """The variable of a parameter or a step, below its comment."""
        self.lines += comment(self.hints.comments.get(name, ""))
        return self.names.give(self.hints.names.get(name) or _OF_THE_SDK.sub("", name), otherwise=otherwise)

    def _step(self, step: StepNode) -> None:
        common: dict[str, Any] = {}
        if step.depends_on:
            common["after"] = [self._edge(*edge) for edge in step.depends_on]
        fields = (("display_name", step.display_name), ("description", step.description))
        common |= {name: value for name, value in fields if value is not None}
        before = len(self.lines)
        try:
            call = self._said(step, common)
        except UnsaidError as error:
            del self.lines[before:]
            self.raw.setdefault(step.name, str(error))
            call = self._unsaid(step, common)
        self.lines += comment(_notes(step))
        variable = self._variable(step.name, "step")
        self.values.variables[step.name] = variable
        self.lines.append(assigned(variable, call))

    def _edge(self, step: str, trigger: str | None) -> Any:
        if trigger is None and step in self.values.variables:
            return Code(self.values.variables[step])
        return Called("Dependency", (step,) if trigger is None else (step, trigger))

    def _said(self, step: StepNode, common: dict[str, Any]) -> Called:
        """The step in words."""
        if step.name in self.raw:
            raise UnsaidError(self.raw[step.name])
        if step.type not in TABLES:
            return self.control.said(step, common)
        if step.name in self.moving:
            call, move = moving.moved(step, self.moving[step.name], self.values, common)
            self.moves.append(move)
            self.values.jobs.add(step.name)
            self.values.moved.add(step.name)
            return call
        if step.type == "Lambda":
            with suppress(UnsaidError):  # function(...) takes what call_lambda(...) does not
                return self.control.function(step, common)
        table = TABLES[step.type]
        keywords, rest = table.read(_fields(step))
        more: dict[str, Any] = {}
        if isinstance(rest.get("Arguments"), dict) and not is_function(rest["Arguments"]):
            more["other"] = rest.pop("Arguments")
        if rest:
            more["fields"] = rest
        written = {name: self.values.json(value) for name, value in {**keywords, **more}.items()}
        if isinstance(machine := keywords.get("machine"), str) and machine in self.values.machines:
            written["machine"] = Code(self.values.machines[machine])
        self.values.jobs.add(step.name)
        return Called(table.word, (step.name,), {**written, **common})

    def _unsaid(self, step: StepNode, common: dict[str, Any]) -> Called:
        edges = [Called("Dependency", tuple(part for part in edge if part)) for edge in step.depends_on]
        given = {name: value for name, value in common.items() if name != "after"}
        given |= {"depends_on": tuple(edges)} if edges else {}
        return Called("NativeStep", (), {"name": step.name, "type": step.type, **given, "fields": _fields(step)})


def _fields(step: StepNode) -> dict[str, Any]:
    return {name: value for name, value in step.raw.items() if name not in _BESIDE}


def _in_order(steps: list[StepNode]) -> list[StepNode]:
    """The steps, each after those that it refers to or that stand in it; in a circle in the order given."""
    by_name = {step.name: step for step in steps}
    state: dict[str, str] = {}
    ordered: list[StepNode] = []
    pending = [(step, False) for step in reversed(steps)]
    while pending:
        step, is_ready = pending.pop()
        if is_ready:
            ordered.append(step)
        elif step.name not in state:
            state[step.name] = "begun"
            inner = [each.name for each in (*step.then, *step.otherwise, *step.body)]
            needed = [*steps_got(step.own_fields), *(edge.step for edge in step.depends_on), *inner]
            pending.append((step, True))
            pending += [(by_name[name], False) for name in reversed(needed) if name in by_name]
    return ordered


def _signature(settings: list[str]) -> str:
    """The head of the function; settings are its arguments, whose defaults are the definition's values."""
    line = f"def pipeline({', '.join(settings)}) -> Pipeline:"
    split = ["def pipeline(", *(f"    {each}," for each in settings), ") -> Pipeline:"]
    return line if len(line) <= WIDTH else "\n".join(split)


def _notes(step: StepNode) -> str:
    """Comments that belong to a step."""
    jobs = (step.arguments, object_in(step.arguments, "TrainingJobDefinition"))
    given = [pair for job in jobs for key in _PASSED for pair in object_in(job, key).items()]
    arguments = list_in(object_in(step.arguments, "AppSpecification"), "ContainerArguments")
    given += [(str(name).lstrip("-"), value) for name, value in pairwise(arguments)]
    truths = [name for name, value in given if value in ("True", "False", "true", "false")]
    said = [_REPACKS] if "RepackModel" in step.name else []
    told = f'{", ".join(truths)}: text, no Boolean. In Python bool("False") is True.'
    return "\n".join([*said, *([told] if truths else [])])
