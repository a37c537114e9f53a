"""The inputs and outputs of a step, as the ledger has them; and whether data from outside are on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.durable import parse
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore, artifact, sha256_of
from drivetrain.run_store.schema import ArtifactEntry
from drivetrain.run_store.starting_point import StartingPoint
from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.steps import JobStep, ProcessingStep, RegisterStep, Step, TrainingStep
from drivetrain.spec.values import ParameterRef
from drivetrain.steps import METRICS_FILE
from drivetrain.targets.target import flag

Json = dict[str, Any]


def lost_inputs(pipeline: Pipeline, parameters: Mapping[str, Any], store: ObjectStore) -> list[str]:
    """List a message for each input that is missing or has a wrong URI, in the order of the steps.

    Args:
        parameters: the pipeline's, which may hold URIs.
    """
    found: list[str] = []
    for step in Graph(pipeline).steps:
        for name, value in _inputs(step):
            if isinstance(value, ParameterRef):
                value = str(parameters[value.name])
            elif not (isinstance(value, str) and value.startswith("s3://")):
                continue  # an output of a step; data of this machine, which the compiler has looked for
            where = f"step {step.name!r}: input {name!r}"
            try:
                parse(value)
            except UserError as error:
                found.append(f"{where}: {error}")
                continue
            if not store.exists(value):
                found.append(
                    f"{where} reads {value}, and nothing is there on this machine ({store.path(value)}). Put it there."
                )
    return found


def _inputs(step: Step) -> Iterator[tuple[str, Any]]:
    if isinstance(step, JobStep):
        yield from step.inputs.items()
    elif isinstance(step, RegisterStep):
        for name in ("model", "metrics", "evaluation", "decision"):
            yield name, getattr(step, name)


class Recorded:
    """Outputs and inputs of tasks in a home, by the folders that tasks name."""

    def __init__(self, home: Home) -> None:
        self.home, self.store = home, ObjectStore(home.objects)

    def uri(self, path: str) -> str:
        """The s3:// URI that a folder of the store stands for; what lies elsewhere keeps its own."""
        try:
            return f"s3://{Path(path).relative_to(self.home.objects).as_posix()}"
        except ValueError:
            return path

    def response(
        self, step: Step, words: Sequence[str], outputs: Mapping[str, str], log: Path
    ) -> tuple[Json, str | None]:
        """The outputs of a step as SageMaker's description of such a step would give them, and a note on them or
        None."""
        if isinstance(step, TrainingStep):
            return {"ModelArtifacts": {"S3ModelArtifacts": outputs.get("model", "")}}, StartingPoint(log).read()
        if isinstance(step, ProcessingStep):
            listed = [{"OutputName": name, "S3Output": {"S3Uri": uri}} for name, uri in outputs.items()]
            return {"ProcessingOutputConfig": {"Outputs": listed}}, None
        if not isinstance(step, RegisterStep):
            return {}, None

        group = value_of("group", words)
        assert group is not None
        file = self.home.objects / outputs["metrics"].removeprefix("s3://") / METRICS_FILE
        numbers = json.loads(file.read_text(encoding="utf-8"))
        known = LocalRegistry(self.home.ledger).version(group, int(numbers["version"]))
        note = "" if numbers["created"] else " (the same content was registered before)"
        response = {
            "ModelPackageArn": known.arn,
            "ModelApprovalStatus": known.status,
            "ModelPackageVersion": known.version,
        }
        return response, f"{group} version {known.version}{note}"

    def artifacts(self, flow: Any, found: Mapping[str, Any]) -> Iterator[ArtifactEntry]:
        for name, given in found.items():
            uri = self.uri(given[0] if isinstance(given, list) else given)  # type: ignore[reportUnknownArgumentType]
            path = self.home.objects / uri.removeprefix("s3://")
            if name == "code" or not uri.startswith("s3://") or not path.exists():
                continue
            objects = self.store.find(uri if path.is_file() else f"{uri}/")
            yield artifact(flow, name, uri, objects, {item.name: sha256_of(item.path) for item in objects})


def arguments_of(step: Step, words: Sequence[str], code: str) -> Json:
    """The parameters of the step's program, and the hash of its code, under the names by which the page shows them.

    Args:
        code: the SHA-256 of the archive with the steps' programs.
    """
    if not isinstance(step, JobStep):
        return {}
    given = {name: value_of(name, words) for name in step.parameters}
    return {
        "HyperParameters": {name: value for name, value in given.items() if value is not None},
        "AppSpecification": {"ContainerArguments": ["--code", code]},
    }


def value_of(name: str, words: Sequence[str]) -> str | None:
    """The value of a parameter in a command line."""
    option = flag(name)
    for index, word in enumerate(words):
        if word == option and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None
