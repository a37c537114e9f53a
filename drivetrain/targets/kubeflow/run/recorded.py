"""What a step took and gave, as the ledger has it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drivetrain.spec.steps import JobStep, ProcessingStep, RegisterStep, Step, TrainingStep
from drivetrain.steps.contract import METRICS_FILE
from drivetrain.targets.local.home import Home
from drivetrain.targets.local.ledger.rows import ArtifactEntry
from drivetrain.targets.step_contract import flag

Json = dict[str, Any]


class Recorded:
    """Outputs and inputs of tasks in a home, by the folders that tasks name."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def uri(self, path: str) -> str:
        """The s3:// URI that a folder of the store stands for; what lies elsewhere keeps its own."""
        try:
            return f"s3://{Path(path).relative_to(self.home.objects).as_posix()}"
        except ValueError:
            return path

    def response(self, step: Step, words: Sequence[str], outputs: Mapping[str, str]) -> tuple[Json, str | None]:
        """What SageMaker's description of such a step would say of its outputs, and a word on it."""
        if isinstance(step, TrainingStep):
            return {"ModelArtifacts": {"S3ModelArtifacts": outputs.get("model", "")}}, None
        if isinstance(step, ProcessingStep):
            listed = [{"OutputName": name, "S3Output": {"S3Uri": uri}} for name, uri in outputs.items()]
            return {"ProcessingOutputConfig": {"Outputs": listed}}, None
        if not isinstance(step, RegisterStep):
            return {}, None
        from drivetrain.registry.backends.local import LocalRegistry

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
            files = sorted(file for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
            about = [(file.relative_to(path).as_posix(), file.stat()) for file in files]
            hashed = "\n".join(f"{_sha256(file)} {name}" for file, (name, _) in zip(files, about, strict=True))
            stamp = "\n".join(f"{stat.st_size} {stat.st_mtime_ns} {name}" for name, stat in about)
            yield ArtifactEntry(
                flow=flow,
                name=name,
                uri=uri,
                digest=hashlib.sha256(hashed.encode()).hexdigest(),
                stamp=hashlib.sha256(stamp.encode()).hexdigest(),
                files=len(files),
                bytes=sum(stat.st_size for _, stat in about),
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def arguments_of(step: Step, words: Sequence[str]) -> Json:
    """The parameters of the step's program, under the name by which the page shows them."""
    if not isinstance(step, JobStep):
        return {}
    given = {name: value_of(name, words) for name in step.parameters}
    return {"HyperParameters": {name: value for name, value in given.items() if value is not None}}


def value_of(name: str, words: Sequence[str]) -> str | None:
    """The value of a parameter in a command line."""
    option = flag(name)
    for index, word in enumerate(words):
        if word == option and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None
