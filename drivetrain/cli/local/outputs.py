"""Find the outputs of a submitted job on this machine, and copy them to the user's folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.data.version_folder import copy_version, holds_versions
from drivetrain.data.versions import holds_other_manifest, is_data_set
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.reader import Ledger

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home

_PARTIAL = ".drivetrain-partial"
# Beside a folder that was copied to: the names of what an earlier copy left, which the next one may take away.
_COPIED = ".{}.drivetrain-copied"


def outputs_of_latest(home: Home, pipeline: str) -> dict[str, Path]:
    """Output -> folder or file, of the latest execution of a pipeline; of a cached step those that it took over."""
    store = ObjectStore(home.objects)
    with Ledger(home) as ledger:
        execution = ledger.executions(limit=1, pipeline=pipeline)[0].id
        return {
            artifact.name: store.path(artifact.uri)
            for step in ledger.steps(execution)
            for artifact in ledger.artifacts(step.cache_of or execution, step.name)
            if artifact.flow == "output"
        }


def check_folder(folder: Path, outputs: Iterable[str]) -> None:
    """Check, before the job runs, that folders of these outputs can be made below `folder`.

    Raises:
        UserError: a file is in the way, Drivetrain did not write its manifest.json, or this user may not write there.
    """
    for place in (folder, *(folder / name for name in outputs)):
        there = next(path for path in (place, *place.absolute().parents) if path.exists())
        if not there.is_dir():
            raise UserError(f"--out {folder}: Not a directory: {there}. Give a folder; it is made if it is missing.")
        if not os.access(there, os.W_OK | os.X_OK):
            raise UserError(f"--out {folder}: Permission denied: {there}. Give a folder that you may write to.")
        if holds_other_manifest(place) and not _note_of(place).is_file():
            raise UserError(
                f"--out {folder}: {place / 'manifest.json'} was not written by drivetrain, and an output may replace "
                "it. Give another folder, or move the file away."
            )


def check_inputs(folder: Path, outputs: Sequence[str], inputs: Mapping[str, object]) -> None:
    """Refuse copies that would lie in what the job reads. The sets of an earlier run may be replaced by the new ones.

    Raises:
        UserError: they would.
    """
    if outputs and all(is_data_set(folder / name) for name in outputs):
        return
    for name, given in inputs.items():
        if not isinstance(given, str) or ":" in given:
            continue
        read = Path(given).resolve()
        if read.exists() and folder.resolve().is_relative_to(read):
            raise UserError(
                f"--out {folder}: it is the folder of the input {name} ({given}), or inside it, so that the next run "
                "would read its own output. Give another folder."
            )


def copy_outputs(places: Mapping[str, Path], folder: Path, *, keep_versions: int = 0) -> dict[str, Path]:
    """Copy outputs into `folder`, each under its name; gives where they are now.

    What an earlier copy left is replaced. Each file is there as a whole or not at all. Of a data set `keep_versions`
    earlier versions stay, as where a step writes into one folder each time.

    Raises:
        UserError: a folder holds files that are not of the output, which readers of it would take for a part; or it
            cannot be written.
    """
    copied: dict[str, Path] = {}
    for name, place in places.items():
        # A file keeps its own name, by which readers know what it is (model.tar.gz).
        target = folder / (place.name if place.is_file() else name)
        try:
            if holds_versions(place) and (is_data_set(target) or not _files(target)):
                copy_version(place, target, keep_versions)
                _note_of(target).unlink(missing_ok=True)
            else:
                _copy(place, target)
        except OSError as error:
            from drivetrain.run_store.durable import NO_SPACE

            if error.errno in NO_SPACE:  # the error may name the file that was read
                free = shutil.disk_usage(folder).free >> 20
                raise UserError(
                    f"--out {folder}: {error.strerror}: {free:,} MiB are free there. Make room, or give another "
                    f"folder. The output itself is in {place}."
                ) from None
            raise UserError(f"--out {folder}: {error.strerror or error}: {error.filename or target}.") from None
        copied[name] = target
    return copied


def _note_of(target: Path) -> Path:
    return target.with_name(_COPIED.format(target.name))


def _files(folder: Path) -> set[Path]:
    """The files in a folder and below it, without copies that were ended before they were whole."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != _PARTIAL)
    return {path.relative_to(folder) for path in found}


def _copy(place: Path, target: Path) -> None:
    if place.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy_file(place, target)
        return
    target.mkdir(parents=True, exist_ok=True)
    files = {path.relative_to(place) for path in place.rglob("*") if path.is_file()}
    there = _files(target)
    noted = _note_of(target)
    earlier = (
        {Path(line) for line in noted.read_text(encoding="utf-8").splitlines()} if noted.is_file() else set[Path]()
    )
    foreign = sorted(there - files - earlier)
    if foreign:
        raise UserError(
            f"--out: {target} holds {foreign[0]}, which is no part of the output. Give another folder, or remove it. "
            f"The output itself is in {place}."
        )
    # What is there from now on, should this copy be ended before it is whole.
    noted.write_text("".join(f"{file}\n" for file in sorted(files | earlier)), encoding="utf-8")
    # Files at the top, which may say what the others are, come last.
    for file in sorted(files, key=lambda file: (len(file.parts) == 1, file)):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        _copy_file(place / file, target / file)
    for file in sorted((earlier & there) - files):
        (target / file).unlink()
        _remove_empty((target / file).parent, target)
    noted.write_text("".join(f"{file}\n" for file in sorted(files)), encoding="utf-8")


def _remove_empty(folder: Path, top: Path) -> None:
    while folder != top and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _copy_file(source: Path, target: Path) -> None:
    partial = target.with_name(target.name + _PARTIAL)
    try:
        shutil.copyfile(source, partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
