"""A state machine as a definition: its SageMaker jobs, functions, choices, parallel branches and loops over items.

translated = read_machine(machine, "nightly.asl.json")
translated.definition, translated.lost, translated.notes

A task of SageMaker has the arguments of the service's own call, as a step has. What the States Language says beyond
that is told: as a note, or as lost where a state or a value is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import as_list, as_object, object_in, objects_in
from drivetrain.base.records import dataclass
from drivetrain.catalog.quotas import MAX_FOREACH_CONCURRENCY
from drivetrain.spec.pipeline import steps_got
from drivetrain.targets.sagemaker.document import Segment, path_text
from drivetrain.targets.sagemaker.document.service import service
from drivetrain.targets.sagemaker.document.step_types import STEP_TYPES
from drivetrain.targets.sagemaker.states.choices import conditions
from drivetrain.targets.sagemaker.states.data import (
    Answer,
    Expression,
    Input,
    Item,
    Joined,
    Known,
    Lost,
    LostError,
    Returned,
    filled,
    looked_up,
    outputs_of,
    parameter_of,
    place,
    property_of,
    put,
)

_TYPES = {kind.creates.lower(): kind for kind in STEP_TYPES.values() if kind.creates and "Check" not in kind.name}
_TASK = re.compile(r"arn:aws[\w-]*:states:[^:]*:[^:]*:(?:aws-sdk:)?(\w+):(\w+)(?:\.(\w+))?")
_FUNCTION = re.compile(r"arn:aws[\w-]*:lambda:.*:function:.*")
_PARAMETERS = {"integer": "Integer", "long": "Integer", "float": "Float", "double": "Float", "boolean": "Boolean"}
_NOT_CARRIED = {
    "Retry": "Retry has other causes than RetryPolicy",
    "Catch": "Catch: a step that fails ends the pipeline",
    "TimeoutSeconds": "TimeoutSeconds",
    "HeartbeatSeconds": "HeartbeatSeconds",
}
_MAX_STATES = 1000


@dataclass(frozen=True)
class Translated:
    """A state machine as a definition."""

    definition: dict[str, Any]
    lost: tuple[str, ...]
    """The states and values that the definition leaves out, with the reasons."""
    notes: tuple[str, ...]
    """Differences that leave nothing out of the definition."""
    comment: str = ""

    @property
    def docstring(self) -> str:
        """The machine's comment, and what its code does not show."""
        listed = [f"- {line}." for line in (*self.lost, *self.notes)]
        head = [self.comment] if self.comment else []
        return "\n".join([*head, *(["", "From a state machine, which said more:", *listed] if listed else [])]).strip()


class Walk(NamedTuple):
    """A way through states: its steps, the data at its end, and the steps that its next one waits for."""

    steps: list[dict[str, Any]]
    data: Any
    last: list[str]


def is_machine(json: Any) -> bool:
    """Return True for JSON that is a state machine."""
    return {"StartAt", "States"} <= as_object(json).keys()


def read_machine(machine: Mapping[str, Any], source: str) -> Translated:
    """The definition that does what a state machine does.

    Args:
        machine: JSON of the States Language, as DescribeStateMachine gives it.
        source: begins every message.

    Raises:
        UserError: a way that comes back to a state, a choice that no condition can say, or states that cannot be read.
    """
    reader = _Reader(source)
    steps = reader.walk(machine, Input(), []).steps
    unreached = [name for name in object_in(machine, "States") if name not in reader.walked]
    reader.lost += [f"{name} is left out: only a Catch, or nothing, leads to it" for name in unreached]
    for _, given, step in reader.resources:
        if isinstance(given, Input) and parameter_of(given.path) in reader.parameters:
            reader.lost.append(
                f"{step}: $.{path_text(given.path)} names its job or model, which the service does itself; "
                "the parameter stands in other places, too"
            )
    parameters = [{"Name": name, "Type": kind} for name, kind in reader.parameters.items()]
    for step in reader.functions.values():
        reader.notes += [f"{step.raw['Name']}: {name!r} of its answer is taken as text" for name in step.untyped]
        listed = [{"OutputName": name, "OutputType": kind or "String"} for name, kind in step.outputs.items()]
        step.raw["OutputParameters"] = listed
    definition: dict[str, Any] = {"Version": "2020-12-01", "Metadata": {}, "Parameters": parameters, "Steps": steps}
    comment = machine.get("Comment")
    told = tuple(reader.lost), tuple(reader.notes)
    return Translated(definition, *told, comment if isinstance(comment, str) else "")


class _Function(NamedTuple):
    raw: dict[str, Any]
    outputs: dict[str, str]

    @property
    def untyped(self) -> list[str]:
        return [name for name, kind in self.outputs.items() if not kind]


class _Reader:
    """Walks the states, and collects what it finds."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lost: list[str] = []
        self.notes: list[str] = []
        self.walked: set[str] = set()
        self.parameters: dict[str, str] = {}
        self.functions: dict[str, _Function] = {}
        self.resources: list[tuple[str, Any, str]] = []
        """Member that names a resource, the name that a state gave it, and the step that makes it."""
        self.names: set[str] = set()

    def walk(self, machine: Mapping[str, Any], data: Any, after: list[str]) -> Walk:
        return self._from(object_in(machine, "States"), machine.get("StartAt"), data, after, ())

    def _from(
        self, states: Mapping[str, Any], start: Any, data: Any, after: list[str], before: tuple[str, ...]
    ) -> Walk:
        steps: list[dict[str, Any]] = []
        name = start
        while name is not None:
            if not isinstance(name, str) or not isinstance(states.get(name), dict):
                raise UserError(f"{self.source}: a state {name!r} is named, and there is none.")
            if name in before:
                raise UserError(
                    f"{self.source}: a way leads back to state {name!r}; a pipeline has none. Jobs are waited for by "
                    "themselves: take such a loop out, and import again."
                )
            before = (*before, name)
            self.walked.add(name)
            if len(self.names) > _MAX_STATES:
                raise UserError(f"{self.source}: its choices lead to more than {_MAX_STATES:,} steps.")
            state = as_object(states[name])
            self.notes += [f"{name}: {why}" for key, why in _NOT_CARRIED.items() if key in state]
            if state.get("Type") == "Choice":
                choices = objects_in(state, "Choices")
                step = self._choice(states, name, choices, state.get("Default"), data, after, before)
                return Walk([*steps, step], Lost("what a branch leaves is not known"), [step["Name"]])
            made, data, after = self._state(name, state, data, after)
            steps += made
            name = None if state.get("Type") in ("Succeed", "Fail") or state.get("End") else state.get("Next")
        return Walk(steps, data, after)

    def _state(self, name: str, state: Mapping[str, Any], data: Any, after: list[str]) -> Walk:
        """A state that has one way on."""
        given = self._given(state, data)
        match state.get("Type"):
            case "Task":
                made = self._task(name, state, given, after)
            case "Parallel":
                branches = [self.walk(branch, given, after) for branch in objects_in(state, "Branches")]
                last = [step for branch in branches for step in branch.last]
                steps = [step for branch in branches for step in branch.steps]
                made = Walk(steps, [branch.data for branch in branches], last)
            case "Map":
                made = self._loop(name, state, data, given, after)
            case "Pass":
                made = Walk([], filled(state["Result"], None) if "Result" in state else given, after)
            case "Fail":
                said = [str(state[key]) for key in ("Error", "Cause") if key in state]
                message = ": ".join(said) or "The state machine fails here."
                step = self._step(name, "Fail", state, {"ErrorMessage": message}, after)
                made = Walk([step], data, [])
            case "Succeed":
                made = Walk([], given, after)
            case "Wait":
                self.notes.append(f"{name}: the pipeline does not wait")
                made = Walk([], given, after)
            case kind:
                raise UserError(
                    f"{self.source}: state {name!r} has Type {kind!r}. Allowed: those of the States Language."
                )
        return made._replace(data=self._passed_on(state, data, made.data))

    def _given(self, state: Mapping[str, Any], data: Any) -> Any:
        """The input of a state's work."""
        path = state.get("InputPath", "$")
        chosen = Known({}) if path is None else looked_up(path, data)
        template = state.get("Parameters", state.get("Arguments"))
        return chosen if template is None or state.get("Type") == "Map" else filled(template, chosen)

    def _passed_on(self, state: Mapping[str, Any], data: Any, result: Any) -> Any:
        if "Output" in state:
            return filled(state["Output"], data, result)
        if "ResultSelector" in state:
            result = filled(state["ResultSelector"], result)
        is_kept = state.get("Type") not in ("Task", "Parallel", "Map", "Pass")
        path = None if is_kept else state.get("ResultPath", "$")
        passed = data if path is None else put(data, place(str(path)[1:]), result)
        return looked_up(state.get("OutputPath") or "$", passed)

    def _task(self, name: str, state: Mapping[str, Any], given: Any, after: list[str]) -> Walk:
        resource = str(state.get("Resource"))
        called = _TASK.fullmatch(resource)
        service_name, action, way = called.groups() if called else ("", "", "")
        if service_name == "sagemaker" and (kind := _TYPES.get(action.lower())) is not None:
            fields: dict[str, Any] = dict(given.fields) if isinstance(given, Known) else {}
            resource_name = fields.pop(str(kind.named_by), None)
            arguments = self._object(Known(fields), service()["requests"].get(kind.name), name)
            step = self._step(name, kind.name, state, arguments, after)
            if resource_name is not None:
                self.resources.append((str(kind.named_by), resource_name, step["Name"]))
                if (note := f"{kind.named_by}s are the service's own") not in self.notes:
                    self.notes.append(note)
            if kind.job is not None and kind.job.logs and way != "sync":
                self.notes.append(f"{name}: the pipeline waits for the end of the job, the state machine does not")
            return Walk([step], Answer(step["Name"], (), outputs_of(arguments)), [step["Name"]])
        if _FUNCTION.fullmatch(resource) or (service_name, action) == ("lambda", "invoke"):
            is_direct = not called
            function, payload = (
                (resource, given) if is_direct else (_part(given, "FunctionName"), _part(given, "Payload"))
            )
            step = self._step(name, "Lambda", state, self._payload(payload, name), after)
            step["FunctionArn"] = self._value(function, None, f"{name}: FunctionName")
            if isinstance(step["FunctionArn"], str) and not _FUNCTION.fullmatch(step["FunctionArn"]):
                self.lost.append(f"{name}: the function {step['FunctionArn']!r} is no ARN, which a step needs")
        elif service_name == "sqs" and way == "waitForTaskToken":
            step = self._step(name, "Callback", state, self._payload(_part(given, "MessageBody"), name), after)
            step["SqsQueueUrl"] = self._value(_part(given, "QueueUrl"), None, name)
            is_direct = True
        else:
            self.lost.append(f"{name} is left out: no step calls {resource}")
            return Walk([], Lost(f"what {name} answers is left out"), after)
        self.functions[step["Name"]] = _Function(step, {})
        answer = Returned(step["Name"])
        return Walk([step], answer if is_direct else Known({"Payload": answer}), [step["Name"]])

    def _payload(self, data: Any, name: str) -> dict[str, Any]:
        if isinstance(data, Known) and data.rest is None:
            return self._object(data, None, name)
        if data is not None:
            self.lost.append(f"{name}: it is given all of the state's input; name what it takes in payload={{...}}")
        return {}

    def _loop(self, name: str, state: Mapping[str, Any], data: Any, given: Any, after: list[str]) -> Walk:
        processor = object_in(state, "ItemProcessor") or object_in(state, "Iterator")
        template = state.get("ItemSelector", state.get("Parameters"))
        body = self.walk(processor, Item() if template is None else filled(template, data), [])
        items = filled(state["Items"], data) if "Items" in state else looked_up(state.get("ItemsPath", "$"), given)
        if isinstance(items, list):
            listed = [self._value(each, None, name) for each in as_list(cast("object", items))]
            value: Any = [json.dumps(each) if isinstance(each, dict | list) else each for each in listed]
        else:
            value = self._value(items, None, name)
        at_once = state.get("MaxConcurrency") or MAX_FOREACH_CONCURRENCY
        arguments = {"IterableItems": value, "MaxConcurrency": at_once, "ForEachBody": body.steps}
        step = self._step(name, "ForEach", state, arguments, after)
        return Walk([step], Lost(f"the answers of {name} are not known as one"), [step["Name"]])

    def _choice(
        self,
        states: Mapping[str, Any],
        name: str,
        choices: list[dict[str, Any]],
        default: Any,
        data: Any,
        after: list[str],
        before: tuple[str, ...],
    ) -> dict[str, Any]:
        """The condition of the first choice; the others are nested in its else branch."""
        rule, *others = choices or [{}]
        try:
            listed = conditions(rule, data, lambda given, kind: self._value(given, None, name, kind))
        except LostError as error:
            raise UserError(
                f"{self.source}: state {name!r}: {error}. Decide it in a function, by what it returns."
            ) from None
        step = self._step(name, "Condition", states[name], {"Conditions": listed}, after)
        step["Arguments"]["IfSteps"] = self._from(states, rule.get("Next"), data, [], before).steps
        if others:
            otherwise = [self._choice(states, name, others, default, data, [], before)]
        elif default is not None:
            otherwise = self._from(states, default, data, [], before).steps
        else:
            otherwise = [self._step(f"{name}-none", "Fail", {}, {"ErrorMessage": "States.NoChoiceMatched"}, [])]
        step["Arguments"]["ElseSteps"] = otherwise
        return step

    def _step(
        self, name: str, kind: str, state: Mapping[str, Any], arguments: dict[str, Any], after: list[str]
    ) -> dict[str, Any]:
        usual = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:200] or "step"
        given, count = usual, 2
        while given in self.names:
            given, count = f"{usual}-{count}", count + 1
        self.names.add(given)
        step: dict[str, Any] = {"Name": given, "Type": kind, "Arguments": arguments}
        if given != name and kind not in ("Fail", "Condition"):
            step["DisplayName"] = name
        if isinstance(comment := state.get("Comment"), str) and comment:
            step["Description"] = comment
        needed = steps_got(arguments)
        if kind != "Fail" and (waited := [each for each in after if each not in needed]):
            step["DependsOn"] = waited
        return step

    def _object(self, data: Known, shape: str | None, where: str) -> dict[str, Any]:
        members: dict[str, str] = _member(shape, "members") or {}
        built: dict[str, Any] = {}
        for name, given in data.fields.items():
            inner = members.get(name) or _member(shape, "value")
            maker = next((step for member, value, step in self.resources if (member, value) == (name, given)), None)
            try:
                value = {"Get": f"Steps.{maker}.{name}"} if maker else self._value(given, inner, f"{where}.{name}")
            except LostError as error:
                self.lost.append(f"{where}.{name} is left out: {error}")
                continue
            if value is not None:
                built[name] = value
        return built

    def _value(self, data: Any, shape: str | None, where: str, kind: str = "") -> Any:
        match data:
            case Known():
                return self._object(data, shape, where)
            case list():
                return [self._value(each, _member(shape, "member"), where) for each in as_list(cast("object", data))]
            case Input():
                return self._parameter(data.path, kind or _kind(shape, data.path))
            case Returned(step=step, name=name) if name:
                outputs = self.functions[step].outputs
                outputs[name] = outputs.get(name) or kind
                return {"Get": f"Steps.{step}.OutputParameters['{name}']"}
            case Answer(step=step, path=path) if path:
                return {"Get": f"Steps.{step}.{property_of(path)}"}
            case Item():
                return {"Get": f"ForEach.{path_text(('CurrentItem', *data.path))}"}
            case Expression():
                self.lost += [f"{where}: {data.differs}"] if data.differs else []
                return data.json
            case Joined():
                return {"Std:Join": {"On": "", "Values": [self._value(part, None, where) for part in data.parts]}}
            case Lost():
                raise LostError(data.reason)
            case Returned() | Answer():
                raise LostError(f"it takes all that {data.step} answers")
            case _:
                return data

    def _parameter(self, path: tuple[Segment, ...], kind: str) -> dict[str, str]:
        if not path:
            raise LostError("it takes the whole input, which no parameter holds")
        name = parameter_of(path)
        self.parameters.setdefault(name, kind)
        return {"Get": f"Parameters.{name}"}


def _part(data: Any, name: str) -> Any:
    """A field of what a task is given; None if it is not there."""
    if not isinstance(data, Known):
        return Lost(f"{name} is not known")
    return data.fields.get(name)


def _member(shape: str | None, part: str) -> Any:
    return None if shape is None else service()["shapes"][shape].get(part)


def _kind(shape: str | None, path: tuple[Segment, ...]) -> str:
    """The type of a parameter for a place in the arguments."""
    kind = "string" if shape is None else service()["shapes"][shape]["type"]
    if kind in ("structure", "map", "list"):
        raise LostError(f"$.{path_text(path)} is no single value, which a parameter holds")
    return _PARAMETERS.get(kind, "String")
