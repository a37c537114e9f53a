"""The inputs of a batch transform: its model and the objects of its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import InputError, UserError
from drivetrain.base.json_text import object_in
from drivetrain.registry.model_folder import unpack
from drivetrain.run_store.objects import StoredObject, artifact, fetch, missing, sha256_of
from drivetrain.run_store.schema import ArtifactEntry
from drivetrain.targets.sagemaker.run.batch_transform import driver
from drivetrain.targets.sagemaker.run.batch_transform.containers import SUBMIT_DIRECTORY
from drivetrain.targets.sagemaker.run.jobs import manifests
from drivetrain.targets.sagemaker.run.jobs import programs as jobs
from drivetrain.targets.sagemaker.run.jobs.job_data import member

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext

PLAN, OUTPUT, REQUESTS = driver.PLAN, driver.OUTPUT, f"{driver.FOLDER}/requests"
SUFFIX = ".out"
_KINDS = ("S3Prefix", "ManifestFile")
_ARCHIVES = (".tar.gz", ".tgz")


def problems(where: str, arguments: Mapping[str, Any], plan: RunPlan) -> list[str]:
    """Why the input cannot be read, as far as it is known before the run."""
    source = _source(arguments)
    kind = source.get("S3DataType", _KINDS[0])
    if not isinstance(kind, dict) and kind not in _KINDS:
        return [f"{where}: S3DataType {kind!r:.40} cannot be read on this machine. Allowed: {', '.join(_KINDS)}."]
    return jobs.input_problems(f"{where}: TransformInput", source.get("S3Uri"), plan)


def bring_data(context: StepContext, root: Path) -> tuple[ArtifactEntry, list[tuple[str, str]]]:
    """Copy the input's objects to root/transform/input; gives what was read, and each file with its output's name.

    Raises:
        UserError: nothing is there, or the manifest is invalid.
    """
    source = _source(context.arguments)
    uri = str(source["S3Uri"])
    if source.get("S3DataType", _KINDS[0]) == "ManifestFile":
        objects = manifests.listed(uri, context.store)
    else:
        objects = context.store.find(uri)
    if not objects:
        raise UserError(missing(f"step {context.step.name!r}: TransformInput", uri, context.store))
    gzipped = object_in(context.arguments, "TransformInput").get("CompressionType") == "Gzip"
    folder = root / driver.INPUT
    folder.mkdir(parents=True)
    entry = _fetched(context, "data", uri, objects, folder, gzipped=gzipped)
    names = [(item.name.removesuffix(".gz") if gzipped else item.name, item.name + SUFFIX) for item in objects]
    return entry, names


def bring_model(
    context: StepContext, container: Mapping[str, Any], root: Path, suffix: str = ""
) -> tuple[ArtifactEntry, ...]:
    """Unpack a container's model to root/model, and code that lies apart to root/code; gives what was read.

    Args:
        suffix: what tells its artifacts from those of other containers.

    Raises:
        UserError: nothing is there; model data of a kind that is not unpacked here.
        InputError: an archive that cannot be trusted.
    """
    read: list[ArtifactEntry] = []
    (root / "model").mkdir(parents=True, exist_ok=True)
    source = member(object_in(container, "ModelDataSource"), "S3DataSource")
    if container.get("ModelDataUrl") is not None:
        read.append(_unpacked(context, f"model{suffix}", str(container["ModelDataUrl"]), root / "model"))
    elif source is not None:
        uri, packed = str(source.get("S3Uri")), source.get("CompressionType", "None") == "Gzip"
        if packed:
            read.append(_unpacked(context, f"model{suffix}", uri, root / "model"))
        else:
            objects = context.store.find(uri)
            if not objects:
                raise UserError(missing("ModelDataSource", uri, context.store))
            read.append(_fetched(context, f"model{suffix}", uri, objects, root / "model"))
    submitted = jobs.environment_of(container).get(SUBMIT_DIRECTORY, "")
    if submitted.startswith("s3://"):
        (root / "code").mkdir()
        read.append(_unpacked(context, f"code{suffix}", submitted, root / "code"))
    return tuple(read)


def _unpacked(context: StepContext, name: str, uri: str, folder: Path) -> ArtifactEntry:
    objects = context.store.find(uri)
    if not objects:
        raise UserError(missing(f"step {context.step.name!r}: its {name}", uri, context.store))
    if len(objects) != 1 or not objects[0].name.endswith(_ARCHIVES):
        raise UserError(f"{uri} is no archive. Allowed for a model: one .tar.gz, as a training writes it.")
    try:
        unpack(objects[0].path, folder)
    except InputError as error:
        raise UserError(f"{uri}: {error}") from error
    checksum = context.ledger.checksum(objects[0]) or sha256_of(objects[0].path)
    return artifact("input", name, uri, objects, {objects[0].name: checksum})


def _fetched(
    context: StepContext,
    name: str,
    uri: str,
    objects: Sequence[StoredObject],
    folder: Path,
    *,
    gzipped: bool = False,
) -> ArtifactEntry:
    hashed = fetch(objects, [folder], known=context.ledger.checksum, gzipped=gzipped)
    return artifact("input", name, uri, objects, hashed)


def _source(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    source = object_in(object_in(arguments, "TransformInput"), "DataSource")
    return object_in(source, "S3DataSource")
