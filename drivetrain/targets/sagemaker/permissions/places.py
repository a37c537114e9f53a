"""Resolve the values of a definition to S3 places, images and keys, as far as they stand in it.

What only an execution knows is a wildcard in a policy: see `Run`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from drivetrain.base.json_text import Json, Segment
from drivetrain.targets.sagemaker.document import descend
from drivetrain.targets.sagemaker.document.document import FOR_EACH, Definition, StepNode
from drivetrain.targets.sagemaker.document.expressions import Get, parse_get
from drivetrain.targets.sagemaker.document.for_each import selector
from drivetrain.targets.sagemaker.permissions.names import JOB_PREFIX

_S3 = re.compile(r"s3://([^/]+)(?:/(.*))?", re.DOTALL)
_IMAGE = re.compile(r"(\d{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.[a-z.]+/([^:@]+)(?:[:@].*)?")
MOST_CHOICES = 1_024
"""The most values that one text may have, by the choices of its parameters."""
# Inside of texts that are being put together, what only an execution knows; `Run` says what is written in its place.
_UNKNOWN, _EXECUTION, _JOB, _JOB_END = "\x00", "\x01", "\x02", "\x03"
_MARKS = re.compile(r"[\x00\x01]|\x02([^\x03]*)\x03")


@dataclass(frozen=True)
class Run:
    """The stand-ins for values that are not known yet: `*` for patterns, examples for one run."""

    unknown: str
    execution: str
    job: Callable[[str], str]
    """Step -> the name of its job."""


PATTERNS = Run(unknown="*", execution="*", job=lambda step: f"{JOB_PREFIX}*")


@dataclass(frozen=True)
class S3Place:
    """Keys of a bucket that begin so. `whole` says that the key is an object's, or a wildcard stands at its end."""

    bucket: str
    key: str
    whole: bool = False


@dataclass
class Resolver:
    """The values of a definition as text: all that they may be, where a parameter has choices."""

    definition: Definition
    pipeline: str
    run: Run
    values: Mapping[str, Sequence[str]]
    """Parameter -> what it may be started with, beside its default and its choices."""
    notes: list[str] = field(default_factory=list[str])

    def texts(self, node: Json, place: str, *, whole: bool = False) -> tuple[str, ...]:
        """Every text that a value may be; none, and a note, where only an execution knows what bounds it.

        Of `s3://` and a parameter without a default, the wildcard would be every bucket; of `function:` and one, every
        function. So the bucket, or the beginning of the name of anything else, must stand in the definition.

        Args:
            place: what the value is, for the note: `step 'train', input 'data'`.
            whole: all of it must be known, as of roles, which share their beginnings with those of others.
        """
        found = tuple(dict.fromkeys(self._texts(node)))
        bounded = [text for text in found if (not _MARKS.search(text) if whole else _is_bounded(text))]
        if len(bounded) < len(found):
            self.note(f"{place}: only an execution knows it, so no permission is derived for it.")
        return tuple(map(self._written, bounded))

    def names_of(self, node: Json) -> tuple[str, ...]:
        """Every name that a value may be; a wildcard or an example where only an execution knows it."""
        return tuple(dict.fromkeys(map(self._written, self._texts(node))))

    def _written(self, text: str) -> str:
        known = {_UNKNOWN: self.run.unknown, _EXECUTION: self.run.execution}
        return _MARKS.sub(lambda found: known.get(found[0]) or self.run.job(found[1]), text)

    def job_names(self, step: StepNode, given: str = "") -> tuple[str, ...]:
        """The names that the service may give the step's job: by the execution, or beginning with a name that the step
        gives.

        Of a name that a parameter without a default begins, the wildcard would be every job: then, as where the
        pipeline leaves names to the service, it is that of the execution alone.
        """
        names = self.texts(step.arguments.get(given), f"step {step.name!r}, {given}")
        job = self.run.job(step.name)
        return tuple(f"{name}-{job.rpartition('-')[2]}" for name in names) or (job,)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _texts(self, node: Json) -> list[str]:
        if isinstance(node, dict) and len(node) == 1:
            (name, operand), *_ = node.items()
            if name == "Get" and isinstance(operand, str):
                return self._got(parse_get(operand))
            if name == "Std:Join" and isinstance(operand, dict):
                return self._joined(operand)
            if name.startswith("Std:"):
                return [_UNKNOWN]
        if isinstance(node, str):
            return [node]
        if isinstance(node, bool) or node is None or isinstance(node, dict | list):
            return []
        return [str(node)]

    def _joined(self, operand: dict[str, Json]) -> list[str]:
        on, values = operand.get("On", ""), operand.get("Values")
        if not isinstance(on, str) or not isinstance(values, list):
            return [_UNKNOWN]
        parts = [self._texts(value) or [_UNKNOWN] for value in values]
        if (count := math.prod(map(len, parts))) > MOST_CHOICES:
            self.note(
                f"a text of {len(parts)} parts may be {count:,} different ones, by the choices of its parameters; the "
                f"first {MOST_CHOICES:,} of them are allowed for. Give fewer choices, or a place for all of them."
            )
        return [on.join(chosen) for chosen in itertools.islice(itertools.product(*parts), MOST_CHOICES)]

    def _got(self, get: Get) -> list[str]:
        if get.parameter is not None:
            return self._parameter(get.parameter)
        if get.root == "Execution":
            known = {"PipelineName": self.pipeline, "PipelineExecutionId": _EXECUTION}
            return [known.get(str(get.path[0]), _UNKNOWN)]
        step, path = self._steps.get(get.step or ""), get.path
        if step is not None and step.type == FOR_EACH:
            step, path = self._in_body(step, path)
        if step is None:
            return [_UNKNOWN]
        try:
            return self._texts(descend(cast("Json", self._described(step)), path)) or [_UNKNOWN]
        except LookupError:
            return [_UNKNOWN]

    @cached_property
    def _steps(self) -> Mapping[str, StepNode]:
        """By name, those in the body of a ForEach, too: what an iteration says of them is `*` there."""
        return {step.name: step for step in reversed(self.definition.all_steps)}

    def _in_body(self, loop: StepNode, path: tuple[Segment, ...]) -> tuple[StepNode | None, tuple[Segment, ...]]:
        """The step of a ForEach's body that a path into its results means, and the path into that step's."""
        if path[:1] == ("Selected",) and (chosen := selector(loop)) is not None:
            return self._steps.get(str(chosen[1].path[0])), path[1:]
        if path[:1] == ("IterationOutputs",) and len(path) > 2:
            return self._steps.get(str(path[2])), path[3:]
        return None, ()

    def _parameter(self, name: str) -> list[str]:
        parameter = next((p for p in self.definition.parameters if p.name == name), None)
        given = list(self.values.get(name, ()))
        if parameter is not None and parameter.choices:
            given += [str(choice) for choice in parameter.choices]
        elif parameter is not None and parameter.default is not None:
            given.append(str(parameter.default))
            self.note(
                f"parameter {name!r}: what an execution is started with instead of its default "
                f"{str(parameter.default)!r:.80} is not allowed for."
            )
        return given or [_UNKNOWN]

    def _described(self, step: StepNode) -> dict[str, Any]:
        """Predict the service's description of a step, as far as its arguments tell."""
        job = f"{_JOB}{step.name}{_JOB_END}"
        known: dict[str, Any] = {**step.arguments, f"{step.type}JobName": job}
        if step.type == "Training":
            path = {"On": "/", "Values": [_output_path(step.arguments), job, MODEL_FILE]}
            known["ModelArtifacts"] = {"S3ModelArtifacts": {"Std:Join": path}}
        if step.type == "Tuning":
            definition = cast("dict[str, Any]", step.arguments.get("TrainingJobDefinition") or {})
            path = _output_path(definition)
            known["BestTrainingJob"] = {"TrainingJobName": _UNKNOWN}
            known["TrainingJobSummaries"] = [{"TrainingJobName": _UNKNOWN}] * 10
            known["TrainingJobDefinition"] = {**definition, "OutputDataConfig": {"S3OutputPath": path}}
        return known


MODEL_FILE = "output/model.tar.gz"


def _output_path(arguments: Mapping[str, Any]) -> Json:
    output: Json = arguments.get("OutputDataConfig")
    return output.get("S3OutputPath") if isinstance(output, dict) else None


def _is_bounded(text: str) -> bool:
    """Return True if a pattern of this text is bound to something in the definition: see `texts`."""
    if text.startswith("s3://"):
        bucket = text.removeprefix("s3://").partition("/")[0]
        return bool(bucket) and not _MARKS.search(bucket)
    if text.startswith("arn:"):
        *owner, resource = text.split(":", 5)
        name = re.split("[:/]", resource, maxsplit=1)[-1]
        return not _MARKS.search(":".join(owner)) and len(owner) == 5 and not _MARKS.match(name)
    if (image := re.fullmatch(r"([\w.\x00-\x03-]+\.[\w.\x00-\x03-]+)/(.*)", text, re.DOTALL)) is not None:
        return not _MARKS.search(image[1]) and not _MARKS.match(image[2])
    if text.startswith("https://"):
        place, _, name = text.rpartition("/")
        return not _MARKS.search(place) and not _MARKS.match(name)
    return not text.startswith((_UNKNOWN, _EXECUTION))


def s3_place(uri: str) -> S3Place | None:
    """The bucket and key of a URI; None for what is no URI of S3."""
    found = _S3.fullmatch(uri)
    if found is None:
        return None
    key = found[2] or ""
    return S3Place(found[1], re.sub("/{2,}", "/", key))


def repository(image: str, partition: str) -> str | None:
    """The ARN of the ECR repository of an image; None for images from elsewhere."""
    found = _IMAGE.fullmatch(image)
    return None if found is None else f"arn:{partition}:ecr:{found[2]}:{found[1]}:repository/{found[3]}"
