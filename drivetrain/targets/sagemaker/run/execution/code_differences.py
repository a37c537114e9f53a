"""List the files that differ between the code of a step and that of an earlier execution, by their archives in the
home."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drivetrain.assets.assets import WHOLE_FOLDER
from drivetrain.run_store.objects import ObjectStore
from drivetrain.steps.start import plain_files
from drivetrain.targets.sagemaker.run.execution.cache_differences import CODE
from drivetrain.targets.sagemaker.run.spares import archive_of

_SOURCE, _PACKAGE, _MOST = "source/", "drivetrain/", 3


def changed_code(old: Mapping[str, Any], new: Mapping[str, Any], store: ObjectStore) -> str:
    """Describe how code changed: `code: helper.py edited`.

    Args:
        old: the key attributes of the earlier execution.
        new: those of the present one.
    """
    archives = [archive_of(arguments, store) for arguments in (old, new)]
    try:
        found = [_files(archive) for archive in archives if archive is not None]
    except (OSError, tarfile.TarError):  # one is gone, or damaged
        found = []
    if len(found) < len(archives):
        return CODE
    before, after = found
    said = list(_differences(before, after))
    more = f" and {len(said) - _MOST} more" if len(said) > _MOST else ""
    why = after.get(WHOLE_FOLDER, b"").decode().strip()
    whole = f" (every file of the folder counts, since {why})" if why else ""
    return f"code: {', '.join(said[:_MOST])}{more}{whole}" if said else CODE


def _differences(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    names = sorted({*before, *after})
    package = [name for name in names if name.startswith(_PACKAGE)]
    is_edited = any(before[name] != after[name] for name in package if name in before and name in after)
    if is_edited:
        yield "drivetrain itself changed"
    for name in names:
        if name.startswith(_SOURCE) and before.get(name) != after.get(name):
            kind = "edited" if name in before and name in after else "is new" if name in after else "no longer used"
            yield f"{name.removeprefix(_SOURCE)} {kind}"
    if before.get("wheels.sha256") != after.get("wheels.sha256"):
        yield "other wheels"
    if not is_edited and any((name in before) != (name in after) for name in package):
        yield "it uses other folders of drivetrain"


def _files(archive: Path) -> dict[str, bytes]:
    """The files of an archive: name -> content."""
    content = archive.read_bytes()
    files = plain_files(content)
    if files is not None:
        return {name: content[begin:end] for name, begin, end in files}
    with tarfile.open(archive) as tar:
        opened = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in opened.items() if file is not None}
