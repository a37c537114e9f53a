"""A Kubernetes object as data: its kind and name, and the fields that are its kind's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drivetrain.targets.kubeflow.compile.yaml_text import yaml_text

Json = dict[str, Any]

PART_OF = "drivetrain"
NAME_LABEL, INSTANCE_LABEL = "app.kubernetes.io/name", "app.kubernetes.io/instance"
PART_OF_LABEL, MANAGED_LABEL = "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by"
# In place of both on a namespace, whose labels are others' too: Kubeflow lets in and serves by its `part-of`.
NAMESPACE_MANAGED_LABEL = "drivetrain/managed-by"


@dataclass(frozen=True, kw_only=True)
class Object:
    """One object.

    `namespace` is None for a kind that belongs to the whole cluster. `fields` are those beside `metadata`: `spec`,
    `rules`, `subjects`, ...
    """

    api: str
    kind: str
    name: str
    namespace: str | None
    labels: Mapping[str, str]
    fields: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> Json:
        """The object as the API takes it."""
        managed = NAMESPACE_MANAGED_LABEL if self.kind == "Namespace" else MANAGED_LABEL
        metadata: Json = {"name": self.name, "labels": {**self.labels, managed: PART_OF}}
        if self.namespace is not None:
            metadata["namespace"] = self.namespace
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return {"apiVersion": self.api, "kind": self.kind, "metadata": metadata, **self.fields}


def labels_of(pipeline: str, name: str) -> dict[str, str]:
    """The labels of one part of a pipeline: by them selectors find its pods.

    Args:
        name: the part: `tensorboard`, `starter`, ...
    """
    return {NAME_LABEL: name, INSTANCE_LABEL: pipeline, PART_OF_LABEL: PART_OF}


def yaml_of(objects: Iterable[Object]) -> str:
    """The objects as one YAML text, in their order."""
    return "---\n".join(yaml_text(each.to_dict()) for each in objects)
