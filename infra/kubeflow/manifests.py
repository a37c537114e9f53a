"""A pipeline's manifests: the files of a folder for `kubectl apply -k`, by name.

files(pipeline)["kustomization.yaml"]
write(pipeline, Path("build/kubeflow"))
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.base.files import write_text
from drivetrain.infra.kubeflow import launcher
from drivetrain.infra.kubeflow.access import accounts, roles, step_account
from drivetrain.infra.kubeflow.needs import Needs, needs_of
from drivetrain.infra.kubeflow.network import network_policies
from drivetrain.infra.kubeflow.notes import notes_of
from drivetrain.infra.kubeflow.objects import Json, yaml_of
from drivetrain.infra.kubeflow.runtimes import runtimes
from drivetrain.infra.kubeflow.services import starter, tensorboard
from drivetrain.infra.kubeflow.storage import namespace, volumes
from drivetrain.targets.kubeflow.compile.yaml_text import yaml_text

if TYPE_CHECKING:
    from drivetrain.infra.kubeflow.readiness.place import Finding
    from drivetrain.spec.pipeline import Pipeline

KUSTOMIZATION = "kustomization.yaml"
# File -> what is in it, in the order in which they are to be applied.
# What may be there before the pipeline, or be used by another one, has a name that is not made of the pipeline's. It is
# in no kustomization: `kubectl delete -k` never deletes it.
_SHARED: Mapping[str, Callable[[Needs], Iterator[Json]]] = {
    "namespace.yaml": namespace,
    "runtimes.yaml": runtimes,
    "account.yaml": step_account,
    "volumes.yaml": volumes,
}
_OWN: Mapping[str, Callable[[Needs], Iterator[Json]]] = {
    "accounts.yaml": accounts,
    "roles.yaml": roles,
    "network.yaml": network_policies,
    "tensorboard.yaml": tensorboard,
    "starter.yaml": starter,
}
_HEADER = re.compile(r"# Written by `(?P<author>[^`\n]+)`; sha256 of the rest (?P<sha256>[0-9a-f]{64})\n")


def objects(pipeline: Pipeline) -> dict[str, list[Json]]:
    """File -> its objects; a file that would be empty is left out.

    Raises:
        UserError: a setting that is wrong, or missing for what the pipeline does.
    """
    needs = needs_of(pipeline)
    made = {name: list(build(needs)) for name, build in {**_SHARED, **_OWN}.items()}
    return {name: found for name, found in made.items() if found}


def manifests(pipeline: Pipeline) -> str:
    """All objects as one YAML text.

    Raises:
        UserError: as `objects`.
    """
    return yaml_of(each for found in objects(pipeline).values() for each in found)


def files(pipeline: Pipeline) -> dict[str, str]:
    """File name -> text: the manifests, a patch, and last the kustomization that lists what is the pipeline's alone.

    Raises:
        UserError: as `objects`.
    """
    made = {name: yaml_of(found) for name, found in objects(pipeline).items()}
    own = [name for name in made if name in _OWN]
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": own}
    patch = launcher.patch(needs_of(pipeline))
    patches = {} if patch is None else {launcher.PATCH_FILE: patch}
    return {**made, **patches, KUSTOMIZATION: yaml_text(kustomization)}


def commands(pipeline: Pipeline, folder: Path) -> list[str]:
    """Apply the written folder: once what others may use too, then what is the pipeline's alone.

    Raises:
        UserError: as `objects`.
    """
    needs = needs_of(pipeline)
    shared = " ".join(f"-f {shlex.quote(str(folder / name))}" for name in objects(pipeline) if name in _SHARED)
    once = [f"kubectl apply {shared}"] if shared else []
    if launcher.providers(needs) is not None:
        once.append(launcher.patch_command(needs, shlex.quote(str(folder / launcher.PATCH_FILE))))
    return [*once, f"kubectl apply -k {shlex.quote(str(folder))}"]


def notes(pipeline: Pipeline) -> list[str]:
    """Notes for the person who applies the manifests: what to do and to know before.

    Raises:
        UserError: as `objects`.
    """
    return notes_of(needs_of(pipeline))


def check(pipeline: Pipeline, command: str) -> list[tuple[str, Finding]]:
    """Ask the server, the storage and the cluster whether the pipeline would run where its settings say.

    Args:
        command: prints the manifests, for what is said.

    Raises:
        UserError: as `objects`.
    """
    from drivetrain.infra.kubeflow.readiness.checks import check

    return check(pipeline, command)


def write(pipeline: Pipeline, folder: Path) -> list[str]:
    """Write the folder, or bring one up to date that this wrote; gives the names of its files.

    Raises:
        UserError: as `objects`; the folder holds files that were edited, or that this did not write.
    """
    made = files(pipeline)
    write_folder(folder, made, f"drivetrain infra kubeflow {pipeline.name}")
    return list(made)


def write_folder(folder: Path, files: Mapping[str, str], author: str) -> None:
    """Write all files or, where one is refused, none.

    The first line of each says who wrote it and the hash of the rest. So the folder can be written again: a file that
    is unchanged is replaced or, where it is no longer needed, removed; no other file is overwritten.

    Args:
        files: name -> text. The last one is written last: it is what names the others.
        author: the command that writes them, in one line; the folder is its own.

    Raises:
        UserError: the place is no folder, holds only files that `author` did not write, or a file of these names was
            edited or written by another program.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Give the name of a folder that is new or empty.")
    present = sorted(folder.iterdir()) if folder.is_dir() else []
    authors = {path.name: _author(path) for path in present}
    ours = {name for name, found in authors.items() if found == author}
    if present and not ours:
        other = next((found for found in authors.values() if found), None)
        said = f"was written by `{other}`" if other else f"is not empty: it holds {present[0].name!r}"
        raise UserError(f"{folder} {said}. Give a folder that is new or empty, or one that this command wrote.")
    for name in files:
        if name in authors and name not in ours:
            raise UserError(
                f"{folder / name} was edited, or was not written by this command: it is left as it is, and nothing was "
                "written. Keep your changes elsewhere (kustomize overlays do that), remove the file, and try again."
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, f"# Written by `{author}`; sha256 of the rest {_sha256(text)}\n{text}")
    for name in ours - files.keys():
        (folder / name).unlink()


def _author(path: Path) -> str | None:
    """The pipeline that wrote a file; None for a file that was edited since, or that lacks the first line."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None
    header = _HEADER.match(text)
    if header is None or header["sha256"] != _sha256(text[header.end() :]):
        return None
    return header["author"]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
