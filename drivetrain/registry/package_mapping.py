"""A version's record as CreateModelPackage's request, and back: `request_of(record_of(request)) == request`, but for
the group and the approval, which are the version's own.

What the record has a name for is written in the one way that is written here; a field that says it in another way, or
says more, is kept in `others`, whose fields count.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from drivetrain.base.errors import InputError
from drivetrain.base.json_text import as_list, as_object
from drivetrain.registry import model_package
from drivetrain.registry.model_card import as_package_card
from drivetrain.registry.record import ModelRecord, Serving

JSON_TYPE = "application/json"
# Of the version itself, whatever its registry.
_OF_THE_VERSION = ("ModelPackageGroupName", "ModelApprovalStatus")

Json = dict[str, Any]


def request_of(record: ModelRecord) -> Json:
    """CreateModelPackage's request, without group and approval.

    Raises:
        InputError: a card that is too long.
    """
    request = _named_fields(record)
    if record.card is not None:
        request["ModelCard"] = as_package_card(record.card)
    return {**request, **record.others}


def record_of(request: Mapping[str, Any]) -> ModelRecord:
    """Read a record from a request, also from one that Drivetrain did not write."""
    named = model_package.properties(request)
    own = (model_package.LINEAGE, model_package.DECISION)
    description, made_by = request.get("ModelPackageDescription"), _at(request, "MetadataProperties", "GeneratedBy")
    quality = _at(request, "ModelMetrics", "ModelQuality", "Statistics", "S3Uri")
    said = [_at(request, part, "ModelDataQuality") for part in ("ModelMetrics", "DriftCheckBaselines")]
    baselines = str(_at(said[0], "Statistics", "S3Uri")).rpartition("/")[0]
    found: Json = {
        "artifact": model_package.artifact(request),
        "description": description if isinstance(description, str) else "",
        "serving": _serving(request["InferenceSpecification"]) if "InferenceSpecification" in request else None,
        "quality": quality if isinstance(quality, str) else "",
        "baselines": baselines if said == [_baselines(baselines)] * 2 else "",
        "made_by": made_by if isinstance(made_by, str) else "",
        "lineage": _without(model_package.LINEAGE, named),
        "decision": _without(model_package.DECISION, named),
        "properties": {name: value for name, value in named.items() if not name.startswith(own)},
    }
    card = model_package.card(request)
    written = _named_fields(ModelRecord(**found))
    if card is not None:
        with suppress(InputError):  # longer than we would write one: it is kept as it is
            written["ModelCard"] = as_package_card(card)
    others = {
        name: value
        for name, value in request.items()
        if name not in _OF_THE_VERSION and not (name in written and written[name] == value)
    }
    return ModelRecord(**found, card=card, others=others)


def _named_fields(record: ModelRecord) -> Json:
    """The fields of a request for a record, but for the card."""
    request: Json = {}
    lineage = {model_package.LINEAGE + name: value for name, value in record.lineage.items()}
    decision = {model_package.DECISION + name: value for name, value in record.decision.items()}
    if named := {**record.properties, **lineage, **decision}:
        request["CustomerMetadataProperties"] = named
    if record.description:
        request["ModelPackageDescription"] = record.description
    if record.made_by:
        request["MetadataProperties"] = {"GeneratedBy": record.made_by}
    if record.serving is not None:
        request["InferenceSpecification"] = _specification(record.artifact, record.serving)
    elif record.artifact:
        request["SourceUri"] = record.artifact
    if record.quality:
        request["ModelMetrics"] = {"ModelQuality": {"Statistics": _json_at(record.quality)}}
    if record.baselines:
        of_data = {"ModelDataQuality": _baselines(record.baselines)}
        request["ModelMetrics"] = request.get("ModelMetrics", {}) | of_data
        request["DriftCheckBaselines"] = of_data
    return request


def _baselines(folder: str) -> Json:
    return {name: _json_at(f"{folder}/{file}") for name, file in model_package.BASELINES.items()}


def _json_at(uri: str) -> Json:
    return {"ContentType": JSON_TYPE, "S3Uri": uri}


def _specification(artifact: str, serving: Serving) -> Json:
    container: Json = {"ModelDataUrl": artifact} if artifact else {}
    if serving.image:
        container["Image"] = serving.image
    if serving.environment:
        container["Environment"] = dict(serving.environment)
    found: Json = {
        "Containers": [container],
        "SupportedContentTypes": list(serving.content_types),
        "SupportedResponseMIMETypes": list(serving.response_types),
    }
    if types := list(serving.instance_types):
        found["SupportedRealtimeInferenceInstanceTypes"] = types
        found["SupportedTransformInstanceTypes"] = types
    return found


def _serving(specification: Any) -> Serving:
    containers = as_list(_at(specification, "Containers"))
    first: Any = containers[0] if containers else {}
    environment, image = as_object(_at(first, "Environment")), _at(first, "Image")
    return Serving(
        image=image if isinstance(image, str) else "",
        environment={str(name): str(value) for name, value in environment.items()},
        content_types=_texts(specification, "SupportedContentTypes"),
        response_types=_texts(specification, "SupportedResponseMIMETypes"),
        instance_types=_texts(specification, "SupportedRealtimeInferenceInstanceTypes")
        or _texts(specification, "SupportedTransformInstanceTypes"),
    )


def _at(value: Any, *path: str) -> Any:
    """The value at a path; None if it is missing."""
    for name in path:
        value = cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    return tuple(each for each in as_list(_at(value, name)) if isinstance(each, str))


def _without(prefix: str, named: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}
