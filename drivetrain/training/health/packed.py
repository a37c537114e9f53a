"""Read the health in a training's output: ours, or what a script's own hook of smdebug saved."""

from __future__ import annotations

import tarfile
from pathlib import Path

from drivetrain.base.errors import UserError

FOLDER, RECORDS = "health", "records.jsonl"
# What smdebug saves: TRIAL/collections/000000000/worker_0_collections.json, and its siblings.
COLLECTIONS, _OF_TRIALS = "collections/*/*_collections.json", ("collections", "index", "events")
# What a training records stays below 32 MiB, and a rank's last steps below 64 KiB.
_MOST_BYTES = 256 * 1024 * 1024


def has_records(folder: Path) -> bool:
    return (folder / FOLDER / RECORDS).is_file() or any(folder.rglob(COLLECTIONS))


def unpacked(archive: Path, target: Path) -> Path | None:
    """`target` with what is in health/ of an output.tar.gz, and what smdebug has saved; None where there is neither.

    Raises:
        UserError: it is more than 256 MiB.
    """
    size = 0
    with tarfile.open(archive) as packed:
        for member in packed:
            parts = _parts_kept(member.name) if member.isfile() else ()
            if not parts:
                continue
            size += member.size
            if size > _MOST_BYTES:
                raise UserError(
                    f"{archive} unpacks to more than {_MOST_BYTES >> 20} MiB of records. Unpack it where there is "
                    "room, and give that folder."
                )
            path = target.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            source = packed.extractfile(member)
            if source is not None:
                path.write_bytes(source.read())
    return target if has_records(target) else None


def _parts_kept(name: str) -> tuple[str, ...]:
    """The path parts under which a file of an archive is kept; () if it is not ours."""
    parts = tuple(part for part in Path(name).parts if part != "/")
    if ".." in parts:
        return ()
    if FOLDER in parts[:2]:
        return parts[parts.index(FOLDER) :]
    return parts if len(parts) > 2 and parts[-3] in _OF_TRIALS else ()
