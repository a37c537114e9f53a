"""The checkpoints that lie in the store of a training, told from the names and sizes of files.

<CheckpointConfig.S3Uri>/<training>/step-00000120/{manifest.json, ...}
                                    step-00000120.2/...                  the same step saved again

The manifest is written last and names the other files. Whether they are whole only the training finds out, when it
verifies their checksums; here people are told where it is going to begin.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.telling.content import CheckpointFacts, SavedState

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home
    from drivetrain.run_store.model import StepRun

# As drivetrain.training.checkpointing.store.store names them.
_STEP = re.compile(r"step-(\d{8,18})(?:\.([1-9]\d{0,5}))?", re.ASCII)
_MAX_MANIFEST_BYTES = 16 * 1024 * 1024


def newest_checkpoint(home: Home, step: StepRun) -> SavedState | None:
    """The checkpoint from which a training goes on; None without one, or if there are checkpoints of several trainings
    (other data, other code): only the training knows which one it takes."""
    place = _place(home, step)
    if place is None:
        return None
    uri, folder = place
    found = [newest for training in _folders(folder) for newest in [_newest(training)] if newest is not None]
    if len(found) != 1:
        return None
    number, path = found[0]
    return SavedState(training_step=number, uri=_uri_of(uri, folder, path))


def checkpoints_of(home: Home, step: StepRun) -> Iterator[CheckpointFacts]:
    """The checkpoints that a training saved in its time, the first one first: other runs keep theirs at the same
    place."""
    place = _place(home, step)
    if place is None or step.started is None:
        return
    uri, folder = place
    for training in _folders(folder):
        for number, _, path in sorted(_saved(training)):
            try:
                saved = (path / "manifest.json").stat().st_mtime
                files = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
            except OSError:
                continue  # it is not finished, or was removed just now
            if step.started <= saved <= (step.ended or math.inf):
                yield CheckpointFacts(
                    step=step.name,
                    training_step=number,
                    uri=_uri_of(uri, folder, path),
                    saved=saved,
                    bytes=sum(files),
                    whole=_is_there(path),
                )


def _place(home: Home, step: StepRun) -> tuple[str, Path] | None:
    """The place of a training's checkpoints: the URI, and the folder here."""
    from drivetrain.run_store.objects import ObjectStore

    if (uri := step.checkpoints_uri) is None:
        return None
    try:
        return uri, ObjectStore(home.objects).path(uri)
    except UserError:
        return None  # no URI of an object store


def _uri_of(uri: str, folder: Path, path: Path) -> str:
    return f"{uri.rstrip('/')}/{path.relative_to(folder).as_posix()}/"


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _newest(training: Path) -> tuple[int, Path] | None:
    """The checkpoint of the highest step whose files are all there; of a step saved more than once, the last."""
    return next(((step, path) for step, _, path in sorted(_saved(training), reverse=True) if _is_there(path)), None)


def _saved(training: Path) -> list[tuple[int, int, Path]]:
    """The training step, how often it was saved, and the folder of each checkpoint."""
    return [
        (int(match[1]), int(match[2] or 1), path)
        for path in _folders(training)
        for match in [_STEP.fullmatch(path.name)]
        if match
    ]


def _is_there(checkpoint: Path) -> bool:
    manifest = checkpoint / "manifest.json"
    try:
        if manifest.stat().st_size > _MAX_MANIFEST_BYTES:
            return False
        files: Any = json.loads(manifest.read_bytes())["manifest"]["files"]
        return all(_size(checkpoint, str(entry["name"])) == entry["size"] for entry in files)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False  # half of it was copied


def _size(checkpoint: Path, name: str) -> int:
    """
    Raises:
        ValueError: the name leads out of the checkpoint.
        OSError: there is no such file.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(name)
    return (checkpoint / path).stat().st_size
