"""A pipeline's manifests: the files of a folder for `kubectl apply -k`, by name.

files(pipeline)["kustomization.yaml"]
write(pipeline, Path("build/kubeflow"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.infra.folder import write_folder
from drivetrain.infra.kubeflow.access import accounts, roles
from drivetrain.infra.kubeflow.needs import Needs, needs_of, notes_of
from drivetrain.infra.kubeflow.network import network_policies
from drivetrain.infra.kubeflow.objects import Object, yaml_of
from drivetrain.infra.kubeflow.runtimes import runtimes
from drivetrain.infra.kubeflow.services import starter, tensorboard
from drivetrain.infra.kubeflow.storage import namespace, volumes
from drivetrain.targets.kubeflow.compile.yaml_text import yaml_text

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline

KUSTOMIZATION = "kustomization.yaml"
# File -> what is in it, in the order in which they are to be applied.
_FILES: Mapping[str, Callable[[Needs], Iterator[Object]]] = {
    "namespace.yaml": namespace,
    "runtimes.yaml": runtimes,
    "accounts.yaml": accounts,
    "roles.yaml": roles,
    "volumes.yaml": volumes,
    "network.yaml": network_policies,
    "tensorboard.yaml": tensorboard,
    "starter.yaml": starter,
}


def objects(pipeline: Pipeline) -> dict[str, list[Object]]:
    """File -> its objects; a file that would be empty is left out.

    Raises:
        UserError: a setting that is wrong, or missing for what the pipeline does.
    """
    needs = needs_of(pipeline)
    made = {name: list(build(needs)) for name, build in _FILES.items()}
    return {name: found for name, found in made.items() if found}


def files(pipeline: Pipeline) -> dict[str, str]:
    """File name -> text: the manifests, and last the kustomization that lists them.

    Raises:
        UserError: as `objects`.
    """
    made = {name: yaml_of(found) for name, found in objects(pipeline).items()}
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [*made]}
    return {**made, KUSTOMIZATION: yaml_text(kustomization)}


def notes(pipeline: Pipeline) -> list[str]:
    """What somebody has to do or to know before the manifests are of use.

    Raises:
        UserError: as `objects`.
    """
    return notes_of(needs_of(pipeline))


def write(pipeline: Pipeline, folder: Path) -> list[str]:
    """Write the folder, or bring one up to date that this wrote; gives the names of its files.

    Raises:
        UserError: as `objects`; the folder holds what this did not write, or that somebody edited.
    """
    made = files(pipeline)
    write_folder(folder, made, f"drivetrain infra kubeflow {pipeline.name}")
    return list(made)
