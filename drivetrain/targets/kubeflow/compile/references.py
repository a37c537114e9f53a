"""The place and task of each step, the value that every reference stands for, and what is imported from outside of the
pipeline: code, data of this machine, URIs. One importer brings each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from drivetrain.assets.assets import Asset, Code, code_channel, data_asset
from drivetrain.assets.step_code import StepCode, Used
from drivetrain.base.json_text import parse_path
from drivetrain.native.kubeflow import outputs_of
from drivetrain.spec.pipeline import Graph, Pipeline, find_cycle
from drivetrain.spec.steps import BaseStep, ForEachStep, JobStep, NativeStep, TrainingStep
from drivetrain.spec.values import (
    EagerValue,
    ExecutionRef,
    ItemRef,
    IterationRef,
    LoggedRef,
    MetricRef,
    OutputRef,
    ParameterRef,
    PropertyRef,
    Reference,
    Value,
)
from drivetrain.targets.kubeflow.compile import checks
from drivetrain.targets.kubeflow.compile.checks import task_name
from drivetrain.targets.kubeflow.compile.notices import STEPS
from drivetrain.targets.kubeflow.compile.retries import policies_of, retry_policy
from drivetrain.targets.kubeflow.compile.scopes import ARTIFACT, Channel, Flow, Scope
from drivetrain.targets.kubeflow.compile.tasks import CODE_INPUT, EXECUTION_INPUT, ITEM_INPUT, Task
from drivetrain.targets.kubeflow.compile.words import Word, parameter_type, word
from drivetrain.targets.kubeflow.settings import TITLE, settings_of
from drivetrain.targets.target import Problem, refuse

RUN_ID = "{{$.pipeline_job_uuid}}"
_NUMBER = "NUMBER_DOUBLE"
# Key of a pipeline's `other`: a parameter that is a text -> List or Struct, as which its JSON reaches the platform.
PARAMETER_TYPES = "parameter_types"
Json = dict[str, Any]


class References:
    """The tasks of a pipeline by its steps, made as they are first asked for, and what their values are there."""

    def __init__(self, pipeline: Pipeline, source: Path | None, base: Path) -> None:
        self.pipeline = pipeline
        self.settings = settings_of(pipeline.deployment)
        self.types: Mapping[str, str] = pipeline.other.get(PARAMETER_TYPES, {})
        self.root = f"{self.settings.root}/{pipeline.name}"
        self.graph = Graph(pipeline)
        self.inner: list[Scope] = []
        self.outermost = Scope("root")
        # The notices' exit task waits for all steps, which then stand in a DAG of their own.
        self.scope = self.inside(self.outermost, STEPS) if self.settings.notices else self.outermost
        self.placed: dict[str, tuple[Scope, str]] = {}
        self.tasks: dict[str, Task] = {}
        # Components have one list of names for all DAGs, so that tasks have one, too.
        self.names = set(checks.task_names(self.graph))
        self.imports = Imports(self.scope, self.root, base, self.names)
        self.step_code = StepCode(source, self.graph)

    def inside(self, scope: Scope, task: str) -> Scope:
        """The DAG that a task of another one runs."""
        self.inner.append(Scope(f"comp-{task}", scope, task))
        return self.inner[-1]

    def depend(self, step: str, on: str) -> None:
        """Let a step run after another, through the DAGs that hold them."""
        mine, theirs = self.chain(step), self.chain(on)
        for scope, task in mine:
            for other, needed in theirs:
                if scope is other and task != needed:
                    scope.depend(task, needed)
                    return

    def chain(self, step: str) -> list[tuple[Scope, str]]:
        """The task of a step, and the tasks of the DAGs around it, from the inside out."""
        scope, task = self.placed[step]
        found = [(scope, task)]
        while scope.parent is not None:
            found.append((scope.parent, scope.task))
            scope = scope.parent
        return found

    @staticmethod
    def check_order(scope: Scope) -> None:
        """
        Raises:
            SpecError: tasks of a DAG would wait for each other.
        """
        cycle = find_cycle({name: task.get("dependentTasks", ()) for name, task in scope.tasks.items()})
        if cycle is not None:
            reason = (
                "would wait for each other, since others wait there for a branch as a whole. Take a step out of it."
            )
            refuse([Problem("", " -> ".join(cycle), reason)], TITLE)

    def task(self, step: BaseStep) -> Task:
        """A step's task under construction; every one takes the code."""
        if step.name not in self.tasks:
            scope, name = self.placed[step.name]
            self.tasks[step.name] = self.new_task(scope, name, step, step.name)
            if policies := policies_of(step, self.settings):
                longest = step.cluster.max_run_seconds if isinstance(step, JobStep) else 0
                scope.tasks[name]["retryPolicy"] = retry_policy(policies, longest)
                self.tasks[step.name].document["retries"] = True
        return self.tasks[step.name]

    def new_task(self, scope: Scope, name: str, step: BaseStep | None, called: str) -> Task:
        task = Task(scope, name, step, self.imports.code(self.step_code.of(step)), {"step": called})
        task.take(CODE_INPUT, self.imports.code_channel(task.code))
        return task

    def selection(self, loop: ForEachStep, index: int | None) -> Task:
        """The task that hands on what one iteration of a loop gave."""
        called = f"{loop.name}-selected" if index is None else f"{loop.name}-{index}"
        if f"select {called}" not in self.tasks:
            scope, loop_task = self.placed[loop.name]
            name = free_name(checks.task_name(called), self.names)
            scope.add_task(name, called)
            task = self.tasks[f"select {called}"] = self.new_task(scope, name, None, called)
            chosen: Json = {"index": index}
            if index is None:
                assert loop.selector is not None
                values = self.collected(self.channel(loop.selector.value), scope, loop_task)
                task.take(values.key, values)
                chosen = {"pick": loop.selector.pick, "values": values.key}
            task.document["select"] = {**chosen, "outputs": [], "parameters": []}
        return self.tasks[f"select {called}"]

    def iterated(self, reference: IterationRef) -> Channel:
        """The channel of what a step of a loop's body gave in one iteration."""
        loop = self.graph.by_name[reference.step]
        assert isinstance(loop, ForEachStep)
        task = self.selection(loop, reference.index)
        collected = self.collected(self.channel(reference.of), *self.placed[loop.name])
        if collected.key not in task.inputs:
            task.take(collected.key, collected)
        chosen = task.document["select"]
        if collected.flow == "artifacts":
            if collected.key not in chosen["outputs"]:
                chosen["outputs"].append(collected.key)
                task.artifacts = (*task.artifacts, collected.key)
            return Channel("artifacts", collected.key, task.scope, task.name)
        key = f"{collected.key}-chosen"
        if key not in chosen["parameters"]:
            chosen["parameters"].append(key)
            task.parameters[key] = _NUMBER
        return Channel("parameters", key, task.scope, task.name, _NUMBER)

    @staticmethod
    def collected(inner: Channel, scope: Scope, loop_task: str) -> Channel:
        """The list of what a task of a loop's body gave in all iterations."""
        key = inner.scope.hand_out(inner)
        return Channel(inner.flow, key, scope, loop_task, "LIST" if inner.flow == "parameters" else "", is_list=True)

    def artifact(self, value: EagerValue, step: str, name: str) -> Channel:
        """The artifact that an input of a step reads: an output, or what an importer brings."""
        if isinstance(value, OutputRef | IterationRef | PropertyRef):
            return self.channel(value)
        return self.imports.input(value, f"{step}-{name}")

    def archives(self, step: JobStep) -> Json:
        """The document's field `archives`: input -> the name of the one archive that the program expects there, for
        what trainings made, as SageMaker hands it on. Components of ours open both, and are spared the packing."""
        found: dict[str, str] = {}
        if step.program.target.startswith("drivetrain.components."):
            return {}
        for name, value in step.inputs.items():
            made = value.of if isinstance(value, IterationRef) else value
            if isinstance(made, OutputRef) and isinstance(self.graph.by_name[made.step], TrainingStep):
                found[name] = f"{made.output}.tar.gz"
        return {"archives": found} if found else {}

    def word(self, value: EagerValue, task: Task) -> Word:
        """A value as a word of the task's document."""
        return word(value, lambda reference: self.referred(reference, task))

    def referred(self, reference: Reference, task: Task) -> Word:
        """A reference as a word of the task's document; the task takes what it stands for."""
        match reference:
            case ExecutionRef(field="PipelineName"):
                return self.pipeline.name
            case ExecutionRef():
                return {"parameter": task.take_constant(EXECUTION_INPUT, RUN_ID), "type": "String"}
            case OutputRef() | IterationRef(of=OutputRef()):
                return {"uri": task.take_value(self.channel(reference))}
            case MetricRef():
                # As JSON: the platform has numbers as doubles, 7 as 7.0, and looks for placeholders in texts.
                key = checks.text_key_of(checks.metric_name(reference))
                channel = self.returned(reference, key, "STRING", "texts", "JSON")
                return {"parameter": task.take_value(channel), "type": "JSON"}
            case ItemRef(path=path):
                channel = Channel("parameters", ITEM_INPUT, task.scope, type="STRING")
                return {"parameter": task.take_value(channel), "type": "String", **({"path": path} if path else {})}
            case _:
                name = task.take_value(self.channel(reference))
                return {"parameter": name, "type": reference.value_type()}

    def channel(self, reference: Reference) -> Channel:
        """The channel of the value that a reference stands for."""
        match reference:
            case ParameterRef(name=name):
                type = self.types.get(name, "").upper() or parameter_type(reference)
                return Channel("parameters", name, self.outermost, type=type)
            case OutputRef(step=step, output=output):
                return Channel("artifacts", output, *self.placed[step])
            case LoggedRef(step=step, name=name):
                training = self.graph.by_name[step]
                assert isinstance(training, TrainingStep)
                return self.task(training).give(f"logged-{checks.key_of(name)}", _NUMBER, "logged", name)
            case IterationRef():
                return self.iterated(reference)
            case PropertyRef(step=step):
                flow, key, type = self.native(reference)
                is_list = bool(type.get("isArtifactList"))
                return Channel(flow, key, *self.placed[step], type.get("parameterType", ""), is_list)
            case MetricRef(type=type):
                key = checks.key_of(checks.metric_name(reference))
                return self.returned(reference, key, parameter_type(reference), "metrics", type)
            case _:
                raise AssertionError(f"check() lets no {reference.described()} pass")

    def returned(self, reference: MetricRef, key: str, type: str, source: str, kind: str) -> Channel:
        """The output parameter of a step with what it returned (of that part of the document), or wrote into a file."""
        task = self.task(self.graph.by_name[reference.step])
        if not reference.file:
            return task.give(key, type, source, reference.name)
        output, _, file = reference.file.partition("/")
        return task.give(key, type, "reports", [output, file, list(parse_path(reference.name)), kind])

    def native(self, reference: PropertyRef) -> tuple[Flow, str, Json]:
        """The flow, the key and the type of an output of a task that is the platform's own."""
        step, (flow, _, key) = self.graph.by_name[reference.step], reference.path.partition(".")
        assert isinstance(step, NativeStep)
        return ("artifacts" if flow == "artifacts" else "parameters"), key, outputs_of(step.fields)[flow][key]


class Imports:
    """The importers of a pipeline, tasks of its outermost DAG, and the objects that have to be uploaded.

    Args:
        root: URI of the pipeline's own folder.
        base: folder that relative data paths start from.
        names: those of all tasks, in whatever DAG they stand; the importers' are added.
    """

    def __init__(self, scope: Scope, root: str, base: Path, names: set[str]) -> None:
        self.scope, self.root, self.base, self.names = scope, root, base, names
        self.assets: dict[str, Asset] = {}
        self.components: Json = {}
        self.executors: Json = {}
        self._known: dict[str, Channel] = {}
        self._code: dict[int, Code] = {}

    def code(self, used: Used) -> Code:
        """The code archive with these files of the user's."""
        if id(used) not in self._code:
            code = self._code[id(used)] = code_channel(self.root, used)
            self.assets |= {asset.uri: asset for asset in code.assets}
        return self._code[id(used)]

    def code_channel(self, code: Code) -> Channel:
        """The folder of a code archive."""
        return self._imported(code.uri, "code")

    def input(self, value: Value, called: str) -> Channel:
        """Import what lies at a URI, at a path of this machine, or at the URI that a parameter has.

        Args:
            called: for whom, in the name of the importer, which is that of the first who asks.

        Raises:
            UserError: there is no such path.
        """
        if isinstance(value, ParameterRef):
            return self._imported(value, called)
        text = str(value)
        if text.startswith("s3://"):
            return self._imported(text, called)
        uri, assets = data_asset(self.root, text, self.base)
        self.assets |= {asset.uri: asset for asset in assets}
        # A single file's own folder: an input is a folder, here as on SageMaker.
        return self._imported(uri if uri.endswith("/") else uri.rpartition("/")[0], called)

    def places(self, channels: Iterable[Channel]) -> list[str]:
        """The sources of the channels that importers bring: URIs, or `parameter NAME` for a parameter that has one."""
        taken = {channel.task for channel in channels if channel.flow == "artifacts"}
        return [known for known, channel in self._known.items() if channel.task in taken]

    def _imported(self, source: str | ParameterRef, called: str) -> Channel:
        known = source.rstrip("/") if isinstance(source, str) else f"parameter {source.name}"
        if known in self._known:
            return self._known[known]
        name = free_name(task_name(f"import-{called}"), self.names)
        uri: Json = {"constant": known}
        task: Json = {
            "cachingOptions": {"enableCache": True},
            "componentRef": {"name": f"comp-{name}"},
            "taskInfo": {"name": name},
        }
        self.scope.add(name, task)
        if isinstance(source, ParameterRef):
            uri = {"runtimeParameter": "uri"}
            outermost = self.scope.parent or self.scope
            self.scope.connect(name, "uri", Channel("parameters", source.name, outermost, type="STRING"))
        else:
            task["inputs"] = {"parameters": {"uri": {"runtimeValue": {"constant": known}}}}
        self.components[f"comp-{name}"] = {
            "executorLabel": f"exec-{name}",
            "inputDefinitions": {"parameters": {"uri": {"parameterType": "STRING"}}},
            "outputDefinitions": {"artifacts": {"artifact": {"artifactType": ARTIFACT}}},
        }
        self.executors[f"exec-{name}"] = {"importer": {"artifactUri": uri, "typeSchema": ARTIFACT}}
        self._known[known] = Channel("artifacts", "artifact", self.scope, name)
        return self._known[known]


def free_name(name: str, taken: set[str]) -> str:
    """A name for a further task, which is entered in those that are taken: this one, or with a number."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    taken.add(found)
    return found
