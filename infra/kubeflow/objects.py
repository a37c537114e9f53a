"""Kubernetes objects as the API takes them, their labels and their YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drivetrain.infra.kubeflow.needs import Needs
from drivetrain.targets.kubeflow.compile.yaml_text import yaml_text

Json = dict[str, Any]

PART_OF = "drivetrain"
NAME_LABEL, INSTANCE_LABEL = "app.kubernetes.io/name", "app.kubernetes.io/instance"
PART_OF_LABEL, MANAGED_LABEL = "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by"
# In place of both on a namespace, since other programs use its labels too: Kubeflow lets in and serves by `part-of`.
NAMESPACE_MANAGED_LABEL = "drivetrain/managed-by"


def kubernetes_object(
    api: str, kind: str, name: str, labels: Mapping[str, str], fields: Json | None = None, namespace: str | None = None
) -> Json:
    """One object.

    Args:
        fields: those beside `metadata`: `spec`, `rules`, `subjects`, ...
        namespace: None for a kind that belongs to the whole cluster.
    """
    managed = NAMESPACE_MANAGED_LABEL if kind == "Namespace" else MANAGED_LABEL
    metadata: Json = {"name": name, "labels": {**labels, managed: PART_OF}}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **(fields or {})}


def part_object(needs: Needs, part: str, api: str, kind: str, fields: Json, *, name: str | None = None) -> Json:
    """An object of one part of the pipeline (`tensorboard`, `starter`, ...), in its namespace.

    Args:
        name: that of the part unless given.
    """
    labels = labels_of(needs.name, part)
    return kubernetes_object(api, kind, name or name_of(needs, part), labels, fields, needs.settings.namespace)


def name_of(needs: Needs, part: str) -> str:
    """The name of a part of the pipeline."""
    return f"{needs.name}-{part}"


def labels_of(pipeline: str, part: str) -> dict[str, str]:
    """The labels of one part of a pipeline: by them selectors find its pods."""
    return {NAME_LABEL: part, INSTANCE_LABEL: pipeline, PART_OF_LABEL: PART_OF}


def yaml_of(objects: Iterable[Json]) -> str:
    """The objects as one YAML text, in their order."""
    return "---\n".join(map(yaml_text, objects))
