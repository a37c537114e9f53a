"""The fields of CreateModelPackage's request that say what a version is: SageMaker's words for a record (record.py).

A package is a mapping in the shape of that request. What is said below is found in it in the same places, so that a
version that a RegisterModel step made reads like one that our component made.

    artifact   InferenceSpecification.Containers[0].ModelDataUrl (or ModelDataSource.S3DataSource.S3Uri), else SourceUri
    content    CustomerMetadataProperties["drivetrain-content-hash"], and the end of ModelPackageDescription, "content
               sha256:HASH": the service's lists of versions show descriptions, but no properties
    lineage    CustomerMetadataProperties["drivetrain-lineage-NAME"], where NAME is data (on which it was
               trained), test-data, code, config, ..., and MetadataProperties.GeneratedBy: the run that made it
    decision   the record in the model card where it is there, else what CustomerMetadataProperties says in
               "drivetrain-decision-NAME" (verdict, metric, difference, ...; uri: where the record lies)
    card       ModelCard.ModelCardContent: JSON in SageMaker's model card schema

The service takes at most 50 CustomerMetadataProperties, of 256 characters each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain.base.bounds import is_number
from drivetrain.base.json_text import as_list, as_object, object_in, parsed_object

CONTENT_HASH = "drivetrain-content-hash"
CONTENT_SAID = "content sha256:"
CONTINUES, CONTINUES_FILE = "continues", "continues.json"
"""The earlier model that the training went on from (group, version, content_hash, step): a field of model.json, or of a
script's model a file of its own."""
LINEAGE = "drivetrain-lineage-"
DECISION = "drivetrain-decision-"
# Under this name of a decision's property stands the URI of decision.json.
DECISION_URI = DECISION + "uri"
# And why a version is registered against its decision.
AGAINST = DECISION + "against"
MOST_DESCRIPTION = 1024
MOST_CHARACTERS = 256

MONITOR = "model_monitor"
"""The folder of check_data's report with the files that are a version's baselines."""
BASELINES = {"Statistics": "statistics.json", "Constraints": "constraints.json"}
"""These files, by their names in a package."""

METRIC_GROUP = "drivetrain"

# TensorFlow Serving's image finds code/inference.py by itself; which of the folders with a saved_model.pb it serves has
# a name (https://github.com/aws/sagemaker-tensorflow-serving-container).
SERVING_OF_TENSORFLOW = {
    "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "saved_model",
    # As training and evaluation compute (drivetrain/training/tensorflow/framework.py).
    "TF_ENABLE_ONEDNN_OPTS": "0",
}

# Stock images that train, by their names: `pytorch-training:2.10.0-...`, and of the line that has one repository for
# all, `pytorch:2.13.0-cpu-amzn2023-sagemaker`. They hold no server.
# https://github.com/aws/deep-learning-containers/blob/main/docs/reference/available_images.md
_TRAINING_IMAGE = (
    r"(?:.*/)?(?:[^/:@]*-training(?:-[^/:@]*)?(?:[:@].*)?|pytorch:[0-9][0-9.]*-(?:cpu|cu[0-9]+)-amzn[0-9]+-sagemaker.*)"
)
_CONTENT_AT_END = rf" ?{CONTENT_SAID}([0-9a-f]{{64}})$"


def artifact(package: Mapping[str, Any]) -> str:
    """The URI of the model's folder or archive; "" where the package names none."""
    for container in _entries(object_in(package, "InferenceSpecification").get("Containers")):
        source = object_in(object_in(container, "ModelDataSource"), "S3DataSource").get("S3Uri")
        for uri in (container.get("ModelDataUrl"), source):
            if isinstance(uri, str) and uri:
                return uri
    uri = package.get("SourceUri")
    return uri if isinstance(uri, str) else ""


def is_training_image(uri: str) -> bool:
    """Return True if an image, by its name, trains and cannot serve."""
    # Most others are told by less than the pattern, which takes long to compile.
    return ("-training" in uri or "pytorch:" in uri) and re.fullmatch(_TRAINING_IMAGE, uri) is not None


def properties(package: Mapping[str, Any]) -> dict[str, str]:
    """CustomerMetadataProperties, as texts."""
    return {str(name): str(value) for name, value in object_in(package, "CustomerMetadataProperties").items()}


def content_hash(package: Mapping[str, Any]) -> str:
    """The hash of the content; "" where it is not known."""
    return properties(package).get(CONTENT_HASH, "")


def description_with(description: str, content_hash: str) -> str:
    """The description, cut where it must be, and the hash at its end."""
    said = f"{CONTENT_SAID}{content_hash}"
    description = description[: MOST_DESCRIPTION - len(said) - 1]
    return f"{description} {said}" if description else said


def description_without(description: Any) -> tuple[str, str]:
    """Split a description into its text and the hash at its end; "" if there is none."""
    text = str(description or "")
    found = re.search(_CONTENT_AT_END, text)
    return (text[: found.start()], found[1]) if found else (text, "")


def card(package: Mapping[str, Any]) -> dict[str, Any] | None:
    """The model card; None if it is missing or no JSON object."""
    content = object_in(package, "ModelCard").get("ModelCardContent")
    return parsed_object(content) if isinstance(content, str) and content else None


def metrics(package: Mapping[str, Any]) -> dict[str, float]:
    """The numbers that the model card keeps for us (a version's metrics); others of the card are not ours."""
    found: dict[str, float] = {}
    for details in _entries((card(package) or {}).get("evaluation_details")):
        for group in _entries(details.get("metric_groups")):
            if group.get("name") == METRIC_GROUP:
                for metric in _entries(group.get("metric_data")):
                    value = metric.get("value")
                    if is_number(value):
                        found[str(metric.get("name"))] = value
    return found


def _entries(value: Any) -> Iterator[Mapping[str, Any]]:
    return filter(None, map(as_object, as_list(value)))
