"""Places that the steps of a pipeline write beside its own folder, as far as the spec says before a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drivetrain.base.json_text import as_list, as_object
from drivetrain.base.records import dataclass
from drivetrain.spec.steps import NativeStep, Step, TrainingStep
from drivetrain.spec.values import Join, ParameterRef

_SCHEME = "s3://"
# Fields of the service's requests that say where something is written: by themselves, and by an S3Uri in them.
_FIELDS = frozenset(("S3OutputPath", "S3OutputLocation", "OutputS3Uri", "DestinationS3Uri", "LogUri"))
_PARTS = frozenset(("S3Output", "CheckpointConfig"))
_PARAMETER = "Parameters."


@dataclass(frozen=True)
class WrittenPlace:
    """A folder, or what a place begins with where the rest is only known to an execution."""

    bucket: str
    key: str
    is_whole: bool

    @property
    def uri(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.key}{'' if self.is_whole else '...'}"

    def meets(self, bucket: str, prefix: str) -> bool:
        """Return True if objects of this place lie below the prefix, as far as is known."""
        if bucket != self.bucket:
            return False
        return self.key.startswith(prefix) or (self.is_whole and prefix.startswith(self.key))


def written_places(step: Step, values: Mapping[str, Any]) -> Iterator[WrittenPlace]:
    """The places that a step names for what it writes.

    Args:
        values: parameter -> its value; what is not in it only an execution knows.
    """
    given: list[Any] = []
    if isinstance(step, TrainingStep) and step.checkpoint is not None:
        given.append(step.checkpoint.uri)
    elif isinstance(step, NativeStep):
        given += _outputs(step.fields)
    for value in given:
        text, is_whole = _text(value, values)
        bucket, slash, key = text.removeprefix(_SCHEME).partition("/")
        if text.startswith(_SCHEME) and (slash or is_whole):
            yield WrittenPlace(bucket, f"{key.rstrip('/')}/" if is_whole and key else key, is_whole)


def _outputs(node: Any) -> Iterator[Any]:
    """The places in a native step's fields, those of steps inside of it included."""
    for name, item in as_object(node).items():
        if name in _FIELDS:
            yield item
        elif name in _PARTS:
            yield as_object(item).get("S3Uri")
        else:
            yield from _outputs(item)
    for item in as_list(node):
        yield from _outputs(item)


def _text(value: Any, values: Mapping[str, Any]) -> tuple[str, bool]:
    """A value's text, and whether it is all of it or only how it begins."""
    if isinstance(value, Join):
        return _joined(value.on, value.values, values)
    if isinstance(value, ParameterRef):
        value = values.get(value.name)
    operation = as_object(value)
    if "Std:Join" in operation:
        operand = as_object(operation["Std:Join"])
        return _joined(operand.get("On", ""), as_list(operand.get("Values")), values)
    path = operation.get("Get")
    if isinstance(path, str) and path.startswith(_PARAMETER):
        value = values.get(path.removeprefix(_PARAMETER))
    return (str(value), True) if isinstance(value, str | int | float) else ("", False)


def _joined(on: Any, parts: Sequence[Any], values: Mapping[str, Any]) -> tuple[str, bool]:
    text = ""
    for n, part in enumerate(parts):
        more, is_whole = _text(part, values)
        text += (str(on) if n else "") + more
        if not is_whole:
            return text, False
    return text, bool(parts)
