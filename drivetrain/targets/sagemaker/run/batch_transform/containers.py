"""The containers behind a ModelName, and what serves them on this machine.

A container has one of: the command that the user gives for its image, which is started with the word `serve`, as the
service starts an image; or code of its own in the archive (code/inference.py, or what SAGEMAKER_PROGRAM names).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain import inference_server
from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.processes.mounts import BASE
from drivetrain.registry.package_mapping import request_of
from drivetrain.run_store.objects import missing
from drivetrain.spec.resources import CALIBRATE, MAKE_MODELS_OF_FUNCTIONS
from drivetrain.spec.steps import TRAIN
from drivetrain.steps import CODE_CHANNEL
from drivetrain.targets.sagemaker.document.expressions import references
from drivetrain.targets.sagemaker.run.jobs.job_data import entries, member, text, words_in
from drivetrain.targets.sagemaker.run.jobs.programs import environment_of, image_command
from drivetrain.targets.sagemaker.run.options import Options

if TYPE_CHECKING:
    from drivetrain.registry.backends.local import LocalRegistry
    from drivetrain.targets.sagemaker.run.execution.context import RunPlan

PROGRAM, SUBMIT_DIRECTORY = "SAGEMAKER_PROGRAM", "SAGEMAKER_SUBMIT_DIRECTORY"
MODEL_FOLDER = "SM_MODEL_DIR"
DEFAULT_PROGRAM = "inference.py"
_SERVER = Path(inference_server.__file__).with_name("start.py")
_PACKAGE = ":model-package/"


def containers(model: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The containers of CreateModel's arguments, in their order.

    Raises:
        UserError: Containers is no list of objects.
    """
    primary = member(model, "PrimaryContainer")
    return [primary] if primary is not None else entries(model, "Containers")


def data_uris(container: Mapping[str, Any]) -> list[Any]:
    """The URIs of a container's model data; expressions are left unresolved."""
    source = object_in(object_in(container, "ModelDataSource"), "S3DataSource")
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
    package = request_of(registry.version(group, int(version)).record)
    found = entries(object_in(package, "InferenceSpecification"), "Containers")
    return {**(found[0] if found else {}), **container}


def problems(model: Mapping[str, Any], plan: RunPlan) -> Iterator[str]:
    """Why a model could not be served here, as far as it is known before the run.

    Args:
        model: CreateModel's arguments, resolved as far as they can be.
    """
    found = containers(model)
    if object_in(model, "InferenceExecutionConfig").get("Mode") == "Direct":
        yield "its model's containers are invoked directly, which a batch transform does not do. Allowed: Serial"
        return
    for container in found:
        if container.get("Mode") == "MultiModel":
            yield "its model is a MultiModel container, which a batch transform does not take. Allowed: SingleModel"
        elif "ModelPackageName" in container:  # what a version brings is known once it is registered
            continue
        elif image_command(container.get("Image"), plan.options) is None:
            yield from _code_problems(container, plan)


def _code_problems(container: Mapping[str, Any], plan: RunPlan) -> Iterator[str]:
    given = object_in(container, "Environment")
    submitted, program = given.get(SUBMIT_DIRECTORY), given.get(PROGRAM)
    if isinstance(submitted, str) and submitted.startswith("s3://"):
        if not plan.is_written(submitted) and not plan.store.exists(submitted):
            yield missing(SUBMIT_DIRECTORY, submitted, plan.store).removesuffix(".")
        return
    uris = data_uris(container)
    script = program if isinstance(program, str) else DEFAULT_PROGRAM
    if uris and all(_may_bring_code(uri, script, plan, told=bool(program)) for uri in uris):
        return
    image = container.get("Image")
    shown = image if isinstance(image, str) else "IMAGE"
    yield (
        f"nothing is known here that serves its model: no code/{script} is known in its archive. Give "
        f"--image-command '{shown}=COMMAND' (COMMAND serve answers /ping and /invocations on $SAGEMAKER_BIND_TO_PORT)"
    )


@dataclass(frozen=True)
class Serving:
    """The command that serves a container and its variables, with paths as the container sees them, and notes for the
    reader of the log."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    notes: tuple[str, ...] = ()


def folder_of(number: int, count: int) -> str:
    """The folder, below /opt/ml, of a container's model and code: each of several containers has its own."""
    return "" if count == 1 else f"containers/{number}/"


def serving(container: Mapping[str, Any], root: Path, folder: str, options: Options) -> Serving:
    """Find the command that serves a container.

    Args:
        root: the folder that becomes /opt/ml.
        folder: the container's own in it (`folder_of`); its model lies in `model`, code that is apart in `code`.

    Raises:
        UserError: nobody says how.
    """
    given = environment_of(container)
    variables = {**given, MODEL_FOLDER: f"{BASE}/{folder}model"}
    command = image_command(container.get("Image"), options)
    if command is not None:
        return Serving((*command, "serve"), variables)
    program = given.get(PROGRAM) or DEFAULT_PROGRAM
    code = f"{folder}code" if (root / folder / "code").is_dir() else f"{folder}model/code"
    if Path(program).is_absolute() or ".." in Path(program).parts or not (root / code / program).is_file():
        raise UserError(
            f"the model has no code/{program}, so it cannot be served. Give --image-command "
            f"'{container.get('Image')}=COMMAND' (COMMAND serve answers /ping and /invocations on "
            "$SAGEMAKER_BIND_TO_PORT)."
        )
    notes = (
        ("requirements.txt is not installed locally: the model's code sees this environment's packages.",)
        if (root / code / "requirements.txt").exists()
        else ()
    )
    served = (f"{BASE}/{folder}model", f"{BASE}/{code}", program)
    return Serving((sys.executable, "-P", str(_SERVER), *served), variables, notes)


def _may_bring_code(uri: Any, script: str, plan: RunPlan, *, told: bool) -> bool:
    """Return True if the model at `uri` has the script in its code; for one that the run makes, if it is `told` to be
    there or the maker is a step of ours, whose models have."""
    known = text(uri)
    if known is not None and plan.store.exists(known) and not plan.is_written(known):
        return any(_has_code(item.name, item.path, script) for item in plan.store.find(known))

    return told or any(_is_ours(plan.others.get(get.step or "", {})) for get in references(uri))


def _has_code(name: str, path: Path, script: str) -> bool:
    if name.endswith((".tar.gz", ".tgz")):
        import tarfile

        try:
            with tarfile.open(path) as archive:
                names = {member.name.removeprefix("./") for member in archive}
        except (tarfile.TarError, OSError, EOFError):
            return True  # unpacking it says what is wrong with it
        return f"code/{script}" in names
    return name.endswith(f"code/{script}")


def _is_ours(arguments: Mapping[str, Any]) -> bool:
    words = words_in(arguments, "ContainerArguments")
    return words[:1] == [f"--{CODE_CHANNEL}"] and any(
        each in words for each in (TRAIN, CALIBRATE, *MAKE_MODELS_OF_FUNCTIONS)
    )
