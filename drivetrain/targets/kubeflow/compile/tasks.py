"""A step as a component, an executor and a task, and what its document says.

The document travels in the environment, where no placeholder and no interpreter's name is replaced in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drivetrain.assets.assets import Code
from drivetrain.base.errors import SpecError
from drivetrain.spec.resources import FolderPath
from drivetrain.spec.steps import BaseStep, JobStep, ProcessingStep, TrainingStep
from drivetrain.steps import START_COMMAND
from drivetrain.targets.kubeflow.compile.scopes import Channel, Scope, output_type
from drivetrain.targets.kubeflow.compile.words import Word
from drivetrain.targets.target import flag

Json = dict[str, Any]
CODE_INPUT = "code"
DOCUMENT = "DRIVETRAIN_TASK"
# Linux starts no program with a variable of 128 KiB.
MAX_DOCUMENT_BYTES = 120_000
# What a task takes by these names is no parameter of the pipeline (drivetrain.steps.kubeflow).
_OF_THE_TASK = (EXECUTION_INPUT, ITEM_INPUT) = ("execution", "item")


@dataclass
class Task:
    """A task under construction: what it takes, gives and is told.

    `parameters` and `artifacts` are the outputs: key -> type of the IR, and names.
    """

    scope: Scope
    name: str
    step: BaseStep | None
    code: Code
    document: Json = field(default_factory=dict[str, Any])
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    artifacts: tuple[str, ...] = ()
    inputs: dict[str, Channel] = field(default_factory=dict[str, Channel])
    constants: set[str] = field(default_factory=set[str])
    cached: bool = False

    def take(self, name: str, channel: Channel) -> None:
        """Give the task an input."""
        self.inputs[name] = channel
        self.scope.connect(self.name, name, channel)

    def take_value(self, channel: Channel) -> str:
        """The input by which the task has a value; a value that is taken twice is one input."""
        name = next((name for name, known in self.inputs.items() if known == channel), None)
        if name is None:
            name = f"{channel.task}-{channel.key}" if channel.task else channel.key
            if channel.scope.parent is None and name in _OF_THE_TASK:
                name += "-value"
            while name in self.inputs:
                name += "-value"
            self.take(name, channel)
        return name

    def give(self, key: str, type: str, source: str, name: Any) -> Channel:
        """Let the task hand on a value as an output parameter.

        Args:
            source: the part of the document that says where it comes from (`metrics`, `texts`, `logged`, `reports`).
            name: what it is there.
        """
        self.parameters[key] = type
        self.document.setdefault(source, {})[key] = name
        return Channel("parameters", key, self.scope, self.name, type)

    def take_constant(self, name: str, text: str) -> str:
        """The input with a text of the platform's, such as a placeholder."""
        self.constants.add(name)
        parameters = self.scope.tasks[self.name].setdefault("inputs", {}).setdefault("parameters", {})
        parameters[name] = {"runtimeValue": {"constant": text}}
        return name

    def component(self, executor: str) -> Json:
        """The component of the task alone."""
        built: Json = {"executorLabel": executor}
        parameters: Json = {
            name: {"parameterType": channel.type}
            for name, channel in self.inputs.items()
            if channel.flow == "parameters"
        }
        parameters |= {name: {"parameterType": "STRING"} for name in self.constants}
        artifacts = {name: channel.definition for name, channel in self.inputs.items() if channel.flow == "artifacts"}
        if given := _definitions(artifacts, parameters):
            built["inputDefinitions"] = given
        outputs = {name: {"artifactType": output_type(name)} for name in self.artifacts}
        if made := _definitions(outputs, {key: {"parameterType": type} for key, type in self.parameters.items()}):
            built["outputDefinitions"] = made
        return built

    def executor(self, image: str, environment: Mapping[str, str], resources: Json, places: Iterable[str] = ()) -> Json:
        """The container that runs the task.

        Args:
            places: what importers bring it from. The platform's cache compares the command, and neither variables nor
                the URIs of artifacts, so a hash of both stands there.
        """
        document = self._document_text()
        told = hashlib.sha256("\n".join([document, *sorted(places)]).encode()).hexdigest()
        container: Json = {
            "args": ["{{$}}"],
            "command": ["sh", "-c", start_command(self.code, told)],
            "env": [{"name": name, "value": value} for name, value in {**environment, DOCUMENT: document}.items()],
            "image": image,
        }
        if resources:
            container["resources"] = resources
        return {"container": container}

    def _document_text(self) -> str:
        """The document as JSON in which nothing means anything to Kubernetes, which expands `$(NAME)` and `$$` in a
        variable's value, nor to Argo and KFP, which fill in `{{...}}`. Neither stands outside of a text of JSON's.

        Raises:
            SpecError: more than a variable can hold.
        """
        text = json.dumps(self.document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        text = text.replace("$", "\\u0024").replace("{{", "\\u007b{")
        if (size := len(text.encode())) > MAX_DOCUMENT_BYTES:
            raise SpecError(
                f"Step {self.document['step']!r}: its arguments and variables take {size:,} bytes. Allowed: "
                f"{MAX_DOCUMENT_BYTES:,}. Put long values into a file, and give it as an input."
            )
        return text


def start_command(code: Code, told: str) -> str:
    """The shell's text: run the start file of the code archive, if both are unchanged since the compilation. It is
    short, since the platform's Workflow has it nine times.

    Args:
        told: a hash of everything else that affects the task's results, for the platform's cache.

    The runner of many tasks on one machine (../run) has unpacked that code for all of them, and names the folder:
    unpacking takes longer than the rest of a task.

    The comment is for kfp's local runner, which runs nothing without the first of its names, and leaves the argument
    after the other two as it is.
    """
    folder = code.uri.removeprefix("s3:/").rstrip("/")  # where Pipelines' launcher has it, below /s3
    return (
        f'c={code.sha256}; test "$DRIVETRAIN_UNPACKED" = $c && exec "python3" -m drivetrain.steps.kubeflow "$0"; '
        f'exec "python3" -I -S -c "{START_COMMAND[-1]}" {code.start_sha256} '
        f'"${{DRIVETRAIN_OBJECT_STORE-/s3}}{folder}/start.py" --code $c kubeflow "$0"'
        ' # kfp.dsl.executor_main "$program_path/ephemeral_component.py" "$@"'
        f" task {told}"
    )


def _definitions(artifacts: Json, parameters: Json) -> Json:
    found = {"artifacts": dict(sorted(artifacts.items())), "parameters": dict(sorted(parameters.items()))}
    return {flow: each for flow, each in found.items() if each}


def arguments_of(
    step: JobStep, words: Mapping[str, Word], script: Iterable[Word], checkpoints: Word | None
) -> list[Word]:
    """The words of the program's own command line.

    Args:
        words: the step's parameters.
        script: the words of a script's arguments, folders left out.
        checkpoints: the place of a training's.
    """
    found: list[Word] = []
    if isinstance(step, ProcessingStep) and step.program.kind == "script":
        values = iter(script)
        return [{each.flow: each.name} if isinstance(each, FolderPath) else next(values) for each in step.arguments]
    if isinstance(step, TrainingStep):
        words = dict(sorted(words.items()))  # as the start file has hyperparameters
    for name in step.inputs:
        found.append({"option": [flag(name), {"input": name}]})
    for name in step.output_names():
        found.append({"option": [flag(name), {"output": name}]})
    if checkpoints is not None:
        found.append({"option": [flag("checkpoints"), checkpoints]})
    found += [{"option": [flag(name), value]} for name, value in words.items()]
    return found
