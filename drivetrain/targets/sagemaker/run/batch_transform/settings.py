"""Read and check the settings of CreateTransformJob for requests and answers.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTransformJob.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drivetrain.base.json_text import object_in
from drivetrain.targets.sagemaker.run.batch_transform import records
from drivetrain.targets.sagemaker.run.batch_transform.data_processing import (
    DataProcessing,
    Filter,
    FilterError,
    kind_of,
)

MOST_PAYLOAD_MB = 100
DEFAULT_PAYLOAD_MB = 6
_ASSEMBLIES = (records.NONE, records.LINE)
_COMPRESSIONS = ("None", "Gzip")
_DEFAULT_TIMEOUT_S, _DEFAULT_RETRIES = 600, 3


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One job's way with its data. `strategy` and `payload_mb` are None where the server may say them (its
    `/execution-parameters`), and then the service's defaults hold: MultiRecord, 6 MB. 0 MB is without a limit."""

    split_type: str
    strategy: str | None
    payload_mb: int | None
    content_type: str | None
    accept: str | None
    assemble_with: str
    processing: DataProcessing
    timeout_s: float
    retries: int

    @staticmethod
    def of(arguments: Mapping[str, Any]) -> Settings:
        """Read the settings from resolved arguments that `problems` found nothing wrong with."""
        given, into = object_in(arguments, "TransformInput"), object_in(arguments, "TransformOutput")
        client = object_in(arguments, "ModelClientConfig")
        return Settings(
            split_type=given.get("SplitType") or records.NONE,
            strategy=arguments.get("BatchStrategy"),
            payload_mb=arguments.get("MaxPayloadInMB"),
            content_type=given.get("ContentType"),
            accept=into.get("Accept"),
            assemble_with=into.get("AssembleWith") or records.NONE,
            processing=_processing(arguments),
            timeout_s=float(client.get("InvocationsTimeoutInSeconds") or _DEFAULT_TIMEOUT_S),
            retries=int(client.get("InvocationsMaxRetries", _DEFAULT_RETRIES)),
        )


def problems(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Name the settings that the service would refuse, or that cannot be followed here, as far as the arguments are
    known by now."""
    given, into = object_in(arguments, "TransformInput"), object_in(arguments, "TransformOutput")
    for holder, field, allowed in (
        (given, "SplitType", records.SPLIT_TYPES),
        (given, "CompressionType", _COMPRESSIONS),
        (into, "AssembleWith", _ASSEMBLIES),
        (arguments, "BatchStrategy", records.STRATEGIES),
    ):
        value = holder.get(field)
        if value is not None and not isinstance(value, dict) and value not in allowed:
            yield f"{field} is {value!r:.40}. Allowed: {', '.join(allowed)}."
    for holder, field in ((given, "ContentType"), (into, "Accept")):
        value = holder.get(field)
        if value is not None and not isinstance(value, dict | str):
            yield f"{field} is {value!r:.40}. Allowed: a content type such as text/csv."
    yield from _number_problems(arguments)
    yield from _processing_problems(arguments)


def _number_problems(arguments: Mapping[str, Any]) -> Iterator[str]:
    payload, concurrent = arguments.get("MaxPayloadInMB"), arguments.get("MaxConcurrentTransforms")
    for name, value in (("MaxPayloadInMB", payload), ("MaxConcurrentTransforms", concurrent)):
        if value is not None and not isinstance(value, dict) and (not _is_whole(value) or value < 0):
            yield f"{name} is {value!r:.40}. Allowed: a whole number from 0."
            return
    at_once = concurrent if isinstance(concurrent, int) else 1
    if isinstance(payload, int) and payload * max(1, at_once) > MOST_PAYLOAD_MB:
        yield (
            f"MaxPayloadInMB {payload} (times MaxConcurrentTransforms {concurrent or 1}). Allowed: {MOST_PAYLOAD_MB} "
            "at most, and 0 for no limit."
        )


def _processing_problems(arguments: Mapping[str, Any]) -> Iterator[str]:
    asked = object_in(arguments, "DataProcessing")
    join = asked.get("JoinSource")
    if join is not None and not isinstance(join, dict) and join not in ("Input", "None"):
        yield f"JoinSource is {join!r:.40}. Allowed: Input, None."
    filters: list[Filter] = []
    for name in ("InputFilter", "OutputFilter"):
        text = asked.get(name)
        if isinstance(text, str):
            try:
                filters.append(Filter.of(text))
            except FilterError as error:
                yield f"{name}: {error}."
        elif text is not None and not isinstance(text, dict):
            yield f"{name} is {text!r:.40}. Allowed: text such as $[1:]."
    if join != "Input" and all(each.whole for each in filters):
        return
    given, into = object_in(arguments, "TransformInput"), object_in(arguments, "TransformOutput")
    types = given.get("ContentType"), into.get("Accept")
    if any(not isinstance(each, str | None) for each in types):
        return  # not known yet, or no type at all
    kinds = [kind_of(each) for each in types]
    if None in kinds or kinds[0] != kinds[1]:
        yield (
            f"DataProcessing needs ContentType and Accept of one kind; given {types[0]!r} and {types[1]!r}. Allowed: "
            "both text/csv, or both application/json or application/jsonlines."
        )
        return
    split, assemble = given.get("SplitType") or records.NONE, into.get("AssembleWith") or records.NONE
    if kinds[0] == "csv" and (split, assemble) != (records.LINE, records.LINE):
        yield (
            f"DataProcessing of text/csv needs SplitType Line and AssembleWith Line; given {split!r:.40} and "
            f"{assemble!r:.40}."
        )
    elif split in (records.TF_RECORD, records.RECORD_IO):
        yield f"DataProcessing reads text, and SplitType is {split}. Allowed: None, Line."


def _processing(arguments: Mapping[str, Any]) -> DataProcessing:
    asked = object_in(arguments, "DataProcessing")
    return DataProcessing(
        kind=kind_of(object_in(arguments, "TransformInput").get("ContentType")),
        input_filter=Filter.of(asked.get("InputFilter") or "$"),
        output_filter=Filter.of(asked.get("OutputFilter") or "$"),
        join=asked.get("JoinSource") == "Input",
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
