"""Apply our health rules to a trial: to what a script's own hook of smdebug has saved in a training's output."""

from __future__ import annotations

import tarfile
import tempfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import InputError
from drivetrain.base.formatting import size

if TYPE_CHECKING:
    from drivetrain.training.health.smdebug.files import Trial

# More than this takes longer than a page may.
MAX_ARCHIVE = MAX_TENSORS = 64 * 1024 * 1024


@lru_cache(maxsize=64)  # a page is drawn again and again; what a training has handed on does not change
def told_by_trial(place: Path, changed: int) -> dict[str, Any] | None:
    """As health.json, with `source` that says what was saved; None where there is no trial, or several.

    Args:
        place: the folder of a training's output, or its archive.
        changed: when that changed last [ns].

    Raises:
        OSError, ValueError: the archive is damaged.
    """
    if find_spec("numpy") is None:  # an extra that pages do without
        return None
    from drivetrain.training.health.packed import unpacked

    if place.is_dir():
        return _told(place)
    if place.stat().st_size > MAX_ARCHIVE:
        return None
    with tempfile.TemporaryDirectory(prefix="drivetrain-health-") as temporary:
        try:
            folder = unpacked(place, Path(temporary))
        except tarfile.TarError as error:
            raise ValueError(str(error)) from error
        return None if folder is None else _told(folder)


def _told(folder: Path) -> dict[str, Any] | None:
    from drivetrain.training.health.smdebug.files import read_trial, trials_below

    trials = trials_below(folder)
    if len(trials) != 1:
        return None
    try:
        return _of_trial(read_trial(trials[0]))
    except InputError as error:
        said = str(error).replace(f"{folder}/", "")
        return {"source": f"What smdebug saved cannot be read: {said.rstrip('.')}"}


def _of_trial(trial: Trial) -> dict[str, Any]:
    from drivetrain.training.health.smdebug.trial import in_words, summary_of

    source = f"Saved by {in_words(trial)}"
    held = sum(length for step in trial.steps for _, length in step.places.values())
    if held > MAX_TENSORS:
        return {"source": f"{source}; {size(held)} are more than a page reads: drivetrain health show tells of them"}
    return {**summary_of(trial, "{}").as_json(0.0), "source": source}
