"""How a value gets from its DAG into a DAG that needs it.

The IR nests: a branch or a loop's body is a DAG of its own, a component that sees nothing but its inputs. So a value
of an outer DAG is handed through every DAG in between, under one name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from drivetrain.steps import METRICS_OUTPUT

Json = dict[str, Any]
Flow = Literal["parameters", "artifacts"]
ARTIFACT = {"schemaTitle": "system.Artifact", "schemaVersion": "0.0.1"}
METRICS = {"schemaTitle": "system.Metrics", "schemaVersion": "0.0.1"}
MODEL = {"schemaTitle": "system.Model", "schemaVersion": "0.0.1"}
# Outputs by their names, so that the platform's pages show models and numbers as such.
_TYPES = {"model": MODEL, METRICS_OUTPUT: METRICS}


def output_type(name: str) -> Json:
    """The type of an output's artifact."""
    return _TYPES.get(name, ARTIFACT)


@dataclass(frozen=True)
class Channel:
    """A value that tasks can take: an output of a task, or (without a task) an input of the DAG `scope`.

    `type` is a parameter's type of the IR (`NUMBER_DOUBLE`), and empty for an artifact.
    """

    flow: Flow
    key: str
    scope: Scope
    task: str = ""
    type: str = ""
    is_list: bool = False

    @property
    def threaded(self) -> str:
        """Its name as an input of DAGs further in.

        kfp's local runner finds the value of a condition by it: the task stands before the last `--`.
        """
        return f"pipelinechannel--{self.task}--{self.key}" if self.task else f"pipelinechannel--{self.key}"

    @property
    def definition(self) -> Json:
        """The definition of an input that takes it."""
        if self.flow == "parameters":
            return {"parameterType": self.type}
        return {"artifactType": ARTIFACT, **({"isArtifactList": True} if self.is_list else {})}


@dataclass(eq=False)
class Scope:
    """A DAG: its tasks by name, and the inputs that were found to be needed from outside.

    `task` is the name of the task of the DAG around it that runs this one.
    """

    name: str
    parent: Scope | None = None
    task: str = ""
    tasks: dict[str, Json] = field(default_factory=dict[str, Json])
    inputs: dict[str, Channel] = field(default_factory=dict[str, Channel])
    outputs: Json = field(default_factory=dict[str, Any])
    output_definitions: Json = field(default_factory=dict[str, Any])

    def add_task(self, name: str, shown: str) -> None:
        """Enter a task that runs a component of its own.

        Args:
            shown: its name on the platform's pages.
        """
        self.add(name, {"componentRef": {"name": f"comp-{name}"}, "taskInfo": {"name": shown}})

    def add(self, name: str, task: Json) -> None:
        """Enter a task; what it takes is connected by `connect`."""
        self.tasks[name] = task

    def connect(self, task: str, name: str, channel: Channel) -> None:
        """Let a task of this DAG take a channel as its input `name`."""
        self._inputs(task, channel.flow)[name] = self._source(task, channel)

    def bring_in(self, channel: Channel) -> str:
        """Let this DAG take a channel from outside, as an input of its own; gives its name there."""
        assert self.parent is not None, f"{channel} is not above {self.name}"
        if channel.threaded not in self.inputs:
            self.inputs[channel.threaded] = channel
            self.parent.connect(self.task, channel.threaded, channel)
        return channel.threaded

    def depend(self, task: str, on: str) -> None:
        """Let a task run after another one of this DAG."""
        found: list[str] = self.tasks[task].setdefault("dependentTasks", [])
        if on not in found:
            found.append(on)
            found.sort()

    def hand_out(self, channel: Channel) -> str:
        """Let the DAG give what a task of its gives; of a loop's body, as a list. Gives the output's key."""
        key = f"{channel.task}-{channel.key}"
        if channel.flow == "parameters":
            source: Json = {"outputParameterKey": channel.key, "producerSubtask": channel.task}
            given: Json = {"valueFromParameter": source}
            defined: Json = {"parameterType": "LIST"}
        else:
            source = {"outputArtifactKey": channel.key, "producerSubtask": channel.task}
            given = {"artifactSelectors": [source]}
            defined = {"artifactType": output_type(channel.key), "isArtifactList": True}
        self.outputs.setdefault(channel.flow, {})[key] = given
        self.output_definitions.setdefault(channel.flow, {})[key] = defined
        return key

    def component(self) -> Json:
        """The DAG as a component."""
        dag: Json = {"tasks": dict(sorted(self.tasks.items()))}
        if self.outputs:
            dag = {"outputs": self.outputs, **dag}
        built: Json = {"dag": dag}
        definitions: Json = {}
        for flow in ("artifacts", "parameters"):
            found = {name: channel.definition for name, channel in sorted(self.inputs.items()) if channel.flow == flow}
            if found:
                definitions[flow] = found
        if definitions:
            built["inputDefinitions"] = definitions
        if self.output_definitions:
            built["outputDefinitions"] = self.output_definitions
        return built

    def _inputs(self, task: str, flow: str) -> Json:
        return self.tasks[task].setdefault("inputs", {}).setdefault(flow, {})

    def _source(self, task: str, channel: Channel) -> Json:
        kind = "Parameter" if channel.flow == "parameters" else "Artifact"
        if channel.scope is self:
            if not channel.task:
                return {f"componentInput{kind}": channel.key}
            self.depend(task, channel.task)
            return {f"taskOutput{kind}": {f"output{kind}Key": channel.key, "producerTask": channel.task}}
        return {f"componentInput{kind}": self.bring_in(channel)}
