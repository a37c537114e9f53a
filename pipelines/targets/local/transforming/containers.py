"""The container behind a ModelName, and what serves it on this machine.

A model has one of: the command that the user gives for its image, which is started with the word `serve`, as the
service starts an image; or code of its own in the archive (code/inference.py, or what SAGEMAKER_PROGRAM names).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.components.declaration import CODE_CHANNEL
from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.spec.trainings import TRAIN
from drivetrain.pipelines.targets.local.options import Options
from drivetrain.pipelines.targets.local.programs import environment, image_command
from drivetrain.pipelines.targets.local.storage.channels import entries, member, text
from drivetrain.pipelines.targets.local.storage.objects import ObjectStore

if TYPE_CHECKING:
    from drivetrain.components.registries.local import LocalRegistry

PROGRAM, SUBMIT_DIRECTORY = "SAGEMAKER_PROGRAM", "SAGEMAKER_SUBMIT_DIRECTORY"
MODEL, CODE = "/opt/ml/model", "/opt/ml/code"
DEFAULT_PROGRAM = "inference.py"
_SERVER = Path(__file__).with_name("server.py")
_PACKAGE = ":model-package/"


def containers(model: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The containers of CreateModel's arguments, in their order.

    Raises:
        UserError: Containers is no list of objects.
    """
    primary = member(model, "PrimaryContainer")
    return [primary] if primary is not None else entries(model, "Containers")


def data_uris(container: Mapping[str, Any]) -> list[Any]:
    """Where a container's model lies; as many as are named, expressions as they are."""
    source = member(member(container, "ModelDataSource") or {}, "S3DataSource") or {}
    return [uri for uri in (container.get("ModelDataUrl"), source.get("S3Uri")) if uri is not None]


def from_package(container: Mapping[str, Any], registry: LocalRegistry) -> Mapping[str, Any]:
    """A container with what the registered version that it names brings: its image and its model.

    Raises:
        UserError: ModelPackageName is no ARN of this machine's registry.
        InputError: there is no such version.
    """
    name = container.get("ModelPackageName")
    if name is None:
        return container
    group, _, version = str(name).partition(_PACKAGE)[2].rpartition("/")
    if not group or not version.isdigit():
        raise UserError(f"ModelPackageName {name!r}. Allowed: the ARN of a version in this machine's registry.")
    package = registry.version(group, int(version)).package
    found = entries(member(package, "InferenceSpecification") or {}, "Containers")
    return {**(found[0] if found else {}), **container}


def problems(
    model: Mapping[str, Any], options: Options, store: ObjectStore, makers: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Why a model could not be served here, as far as it is known before the run.

    Args:
        model: CreateModel's arguments, resolved as far as they can be.
        makers: step name -> arguments of the Training steps of the definition.
    """
    found = containers(model)
    if len(found) != 1:
        yield (
            f"its model has {len(found)} containers, one after the other. Allowed on this machine: one; or give its "
            "results"
        )
        return
    container = found[0]
    if container.get("Mode") == "MultiModel":
        yield "its model is a MultiModel container, which a batch transform does not take. Allowed: SingleModel"
        return
    if "ModelPackageName" in container or image_command(container.get("Image"), options) is not None:
        return  # of a package it is known once it is registered
    given = member(container, "Environment") or {}
    if given.get(PROGRAM) or given.get(SUBMIT_DIRECTORY):
        return
    uris = data_uris(container)
    if uris and all(_may_bring_code(uri, store, makers) for uri in uris):
        return
    image = container.get("Image")
    shown = image if isinstance(image, str) else "IMAGE"
    yield (
        f"what serves its model is not known here: the archive brings no code/{DEFAULT_PROGRAM} that is known of. Give "
        f"--image-command '{shown}=COMMAND' (COMMAND serve answers /ping and /invocations on $SAGEMAKER_BIND_TO_PORT)"
    )


@dataclass(frozen=True)
class Serving:
    """What to start, as the container sees it, and what a reader of the log should know."""

    command: tuple[str, ...]
    notes: tuple[str, ...] = ()


def serving(container: Mapping[str, Any], root: Path, options: Options) -> Serving:
    """What serves a container whose model lies in root/model (and its code, where that is apart, in root/code).

    Raises:
        UserError: nobody says how.
    """
    command = image_command(container.get("Image"), options)
    if command is not None:
        return Serving((*command, "serve"))
    given = environment(container)
    program = given.get(PROGRAM) or DEFAULT_PROGRAM
    apart = (root / "code").is_dir()
    folder = f"{CODE}" if apart else f"{MODEL}/code"
    local = root / "code" if apart else root / "model" / "code"
    if Path(program).is_absolute() or ".." in Path(program).parts or not (local / program).is_file():
        raise UserError(
            f"the model brings no code/{program}, which would answer for it. Give --image-command "
            f"'{container.get('Image')}=COMMAND' (COMMAND serve answers /ping and /invocations on "
            "$SAGEMAKER_BIND_TO_PORT)."
        )
    notes = (
        ("requirements.txt is not installed locally: the model's code sees this environment's packages.",)
        if (local / "requirements.txt").exists()
        else ()
    )
    return Serving((sys.executable, "-P", str(_SERVER), MODEL, folder, program), notes)


def _may_bring_code(uri: Any, store: ObjectStore, makers: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the model at `uri` has code, or its maker is one of ours, whose models have."""
    if isinstance(uri, dict):
        from drivetrain.pipelines.definition.expressions import references

        return any(_is_ours(makers.get(get.step or "", {})) for get in references(uri))
    known = text(uri)
    if known is None or not store.exists(known):
        return False
    return any(_has_code(item.name, item.path) for item in store.find(known))


def _has_code(name: str, path: Path) -> bool:
    if name.endswith((".tar.gz", ".tgz")):
        import tarfile

        try:
            with tarfile.open(path) as archive:
                names = {member.name.removeprefix("./") for member in archive}
        except (tarfile.TarError, OSError, EOFError):
            return True  # unpacking it says what is wrong with it
        return f"code/{DEFAULT_PROGRAM}" in names
    return name.endswith(f"code/{DEFAULT_PROGRAM}")


def _is_ours(arguments: Mapping[str, Any]) -> bool:
    algorithm = member(arguments, "AlgorithmSpecification") or {}
    words: list[Any] = list(algorithm.get("ContainerArguments") or ())
    return words[:1] == [f"--{CODE_CHANNEL}"] and words[-1:] == [TRAIN]
