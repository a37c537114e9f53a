"""Import what comes from outside of the pipeline: code, data of this machine, URIs. One importer brings each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from drivetrain.assets.assets import Asset, Code, code_channel, data_asset
from drivetrain.assets.step_code import Used
from drivetrain.spec.values import ParameterRef, Value
from drivetrain.targets.kubeflow.compile.checks import task_name
from drivetrain.targets.kubeflow.compile.scopes import ARTIFACT, Channel, Scope

Json = dict[str, Any]


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
