"""A version's files, compared with the registered hash. A version is approved only with its own files. The local
registry mends a version with damaged files when the same content is registered again.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from drivetrain.base.errors import InputError, UserError
from drivetrain.base.stopping import AwayError

if TYPE_CHECKING:
    from drivetrain.registry.record import ModelRecord
    from drivetrain.registry.registry import ModelVersion, Registry

MEND = (
    "Restore them from a backup; or train again until the same files are registered: the local registry then points to "
    "the new ones, for another registry copy them to that place."
)


def place_of(artifact: str, objects: Path | None) -> Path | None:
    """The path of a model on this machine; None for one that lies elsewhere, as far as is known.

    Args:
        objects: the folder that stands for S3. A bucket that it has not got is one of S3 itself.
    """
    if objects is None or not artifact:
        return None
    if artifact.startswith("s3://"):
        bucket, *names = PurePosixPath(artifact.removeprefix("s3://")).parts or ("",)
        legal = bucket and ".." not in (bucket, *names)
        return objects.joinpath(bucket, *names) if legal and (objects / bucket).is_dir() else None
    parts = urlsplit(artifact)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None if "://" in artifact else Path(artifact)


def damage(version: ModelVersion, objects: Path | None) -> str | None:
    """How the files of a version differ from those that were registered; None where they do not, or nothing tells."""
    place = place_of(version.artifact, objects)
    if place is None or not version.content_hash or _is_of_several(version):
        return None
    return difference(place, version.content_hash)


def difference(place: Path, registered: str) -> str | None:
    """How the files at a path differ from those of the hash that was registered; None where they do not."""
    from drivetrain.registry.content_hash import content_hash, hash_of_files

    try:
        if place.is_file() and not place.name.endswith((".tar.gz", ".tgz")):
            with open(place, "rb") as file:
                alone = hash_of_files({place.name: hashlib.file_digest(file, "sha256").hexdigest()})
            if alone == registered:
                return None
        return None if content_hash(place) == registered else "its files have changed"
    except InputError as error:
        return str(error).rstrip(".")
    except OSError as error:
        return f"{place} cannot be read: {error.strerror or error}"


def known(registry: Registry, group: str, content_hash: str) -> ModelVersion | None:
    """The version of a content before it is registered again, in a registry that mends it then; None in others."""
    there = registry.objects is not None and registry.objects.parent.is_dir()
    return registry.find(group, content_hash) if there else None


def is_mended_by(version: ModelVersion, record: ModelRecord, objects: Path | None) -> bool:
    """True where the files of a version are damaged, and those that another record names are its content."""
    return (
        record.artifact != version.artifact
        and damage(version, objects) is not None
        and damage(replace(version, record=record), objects) is None
    )


def moved(package: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """A version's package, and the card in it, with another place of the model."""
    from drivetrain.registry import model_package
    from drivetrain.registry.model_card import as_package_card

    made = cast("dict[str, Any]", _replaced(dict(package), old, new))
    card = model_package.card(package)
    if card is not None:
        with suppress(InputError):  # longer than we would write one: it is kept as it is
            made["ModelCard"] = as_package_card(_replaced(card, old, new))
    return made


def damage_anywhere(version: ModelVersion, objects: Path | None) -> str | None:
    """As `damage`, of files elsewhere, too: they are fetched. What cannot be read is told, and is no damage."""
    import tempfile

    from drivetrain.registry.artifacts import AbsentArtifactError, fetch

    if not version.artifact or not version.content_hash or place_of(version.artifact, objects) is not None:
        return damage(version, objects)
    with tempfile.TemporaryDirectory(prefix="drivetrain-version-") as folder:
        try:
            place = fetch(version.artifact, Path(folder) / "model")
        except (InputError, AwayError) as error:
            # A path may be another machine's; in a bucket nothing is where nothing is found.
            if isinstance(error, AbsentArtifactError) and version.artifact.startswith("s3://"):
                return str(error).rstrip(".")
            print(f"warning: the files of {version.group} version {version.version} are not read: {error}",
                  file=sys.stderr)  # fmt: skip
            return None
        return None if _is_of_several(version) else difference(place, version.content_hash)


def check_own_files(version: ModelVersion, objects: Path | None) -> None:
    """
    Raises:
        UserError: the files of the version are not those that were registered.
    """
    if (problem := damage_anywhere(version, objects)) is not None:
        raise UserError(
            f"{version.group} version {version.version} cannot be approved: {problem}. The files at {version.artifact} "
            f"are not those that were registered ({version.content_hash[:12]}). {MEND}"
        )


def _is_of_several(version: ModelVersion) -> bool:
    """Return True for a version of several containers: its hash is that of all their models."""
    specification: Any = version.record.others.get("InferenceSpecification") or {}
    return isinstance(specification, Mapping) and len(cast("Any", specification).get("Containers") or ()) > 1


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(each, old, new) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_replaced(each, old, new) for each in cast("list[Any]", value)]
    return new if value == old else value
