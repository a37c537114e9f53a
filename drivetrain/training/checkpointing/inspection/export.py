"""Export a checkpoint as one safetensors file, or as the model folder that its training would write. Needs no torch.

Whatever the strategy and the number of processes were, the bytes are those that the training on its own would write.
Nothing appears under the final name before it is whole, durable, and made of files that have been verified.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.inspection import verification
from drivetrain.training.checkpointing.inspection.consolidated import pieces
from drivetrain.training.checkpointing.inspection.contents import read_state
from drivetrain.training.checkpointing.inspection.trainings import Training, held
from drivetrain.training.checkpointing.inspection.whole_files import named_as_given, write_file, write_folder
from drivetrain.training.checkpointing.places import Place
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.tensors.index import (
    AVERAGE,
    BEST,
    INDEX_FILE,
    MODEL,
    STATE_FILE,
    Index,
    TensorEntry,
)
from drivetrain.training.model_folder import CODE_FOLDER, DESCRIPTION_FILE, WEIGHTS_FILE

SUFFIX = ".safetensors"
# What a training says of the model that it would hand on, in its state.
DESCRIPTION = "description"
_WINDOW = 4 << 20


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The weights to export: those that are evaluated (`average` where there is one), those of the best
    validation, or everything that the checkpoint has."""

    average: bool = True
    best: bool = False
    everything: bool = False


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The written files. `weights` is `parameters`, `unmeasured` (parameters whose average is validated instead),
    `average`, `best` or `everything`."""

    training: str
    step: int
    path: str
    weights: str
    tensors: int
    bytes: int
    sha256: str


def export(
    training: Training,
    step: int,
    to: Path,
    wanted: Wanted,
    *,
    force: bool = False,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> Exported:
    """Verify the files that are needed, and write their tensors as one.

    Args:
        to: NAME.safetensors for a file; anything else is a model folder: model.safetensors, model.json and code/.
        progress: told a name, bytes so far and bytes in all.

    Raises:
        InputError: `to` is there (and is not to be replaced, or is no earlier export); the checkpoint has no tensors
            or not those that are wanted, or does not say what model they are of.
        DamagedError: a file that is needed is not what was written.
    """
    store = training.store
    to = Path(os.path.abspath(to))
    is_file = to.name.endswith(SUFFIX)
    if not is_file and wanted.everything:
        raise InputError(f"--optimizer writes one file, and {to} is to be a folder. Give --out NAME{SUFFIX}.")
    _refuse_occupied(to, is_file, force)
    with held(store, step) as folder:
        manifest = store.manifest(step)
        listed = {file.name: file.size for file in manifest.files}
        index = verification.read_index(store, step)
        if index is None:
            raise InputError(
                f"{folder} in {training.place.uri} has no {INDEX_FILE}: another program than our training wrote it, "
                "and only that knows what its files mean."
            )
        contradiction = verification.contradiction(index, manifest)
        if contradiction is not None:
            raise DamagedError(f"{folder}/{contradiction}", file=INDEX_FILE)
        tensors, weights = choose(index, wanted)
        needed = sorted({chunk.file for entry in tensors.values() for chunk in entry.chunks} | {INDEX_FILE})
        needed += [STATE_FILE] if STATE_FILE in listed else []
        total = 2 * sum(listed.get(name, 0) for name in needed)
        done = 0
        for name in needed:
            progress(f"verify {name}", done, total)
            store.verify(step, [name])
            done += listed[name]
        description = None if is_file else _description(training, step, weights)

        parts = _Parts(store.place, folder, listed)

        def read(file: str, start: int, length: int) -> bytes:
            nonlocal done
            progress(f"copy {file}", done, total)
            done += length
            return parts(file, start, length)

        with named_as_given(to):
            if description is None:
                written, digest = write_file(to, pieces(tensors, read))
            else:
                written, digest = write_folder(to, pieces(tensors, read), description)
        progress("", total, total)
    return Exported(
        training=training.id,
        step=step,
        path=str(to),
        weights=weights,
        tensors=len(tensors),
        bytes=written,
        sha256=digest,
    )


class _Parts:
    """Reads parts of a checkpoint's files; small ones from a window, since an object store takes its time for each."""

    def __init__(self, place: Place, folder: str, sizes: Mapping[str, int]) -> None:
        self._place, self._folder, self._sizes = place, folder, sizes
        self._file, self._start, self._window = "", 0, b""

    def __call__(self, file: str, start: int, length: int) -> bytes:
        if length >= _WINDOW:
            return self._read(file, start, length)
        first = start - self._start
        if file != self._file or first < 0 or first + length > len(self._window):
            self._file, self._start, first = file, start, 0
            self._window = self._read(file, start, max(length, min(_WINDOW, self._sizes[file] - start)))
        return self._window[first : first + length]

    def _read(self, file: str, start: int, length: int) -> bytes:
        data = self._place.read_part(f"{self._folder}/{file}", start, length)
        if len(data) != length:
            raise DamagedError(f"{self._folder}/{file} was changed while it was read", file=file)
        return data


def choose(index: Index, wanted: Wanted) -> tuple[dict[str, TensorEntry], str]:
    """The tensors under the names that they are to have, and what they are in a word.

    Raises:
        InputError: the checkpoint has no such tensors.
    """
    if wanted.everything:
        return dict(index.tensors), "everything"
    prefix = BEST if wanted.best else MODEL
    found = {name.removeprefix(prefix): entry for name, entry in index.tensors.items() if name.startswith(prefix)}
    if not found and wanted.best:
        raise InputError("the checkpoint has no model of a best validation; it is kept with keep_best=true.")
    if not found:
        raise InputError(
            f"the checkpoint has no tensors {MODEL}...: another program than our training named them. Take all with "
            "--optimizer."
        )
    average = {name.removeprefix(AVERAGE): entry for name, entry in index.tensors.items() if name.startswith(AVERAGE)}
    if wanted.best:
        return found, "best"
    if not wanted.average or not average:
        # Where there is an average, it is what was validated.
        return found, "unmeasured" if average else "parameters"
    return found | average, "average"


def _description(training: Training, step: int, weights: str) -> dict[str, Any]:
    """The content of model.json, without the part about weights.

    Raises:
        InputError: the training did not say what model it is.
    """
    state = read_state(training, step)
    description = state.get(DESCRIPTION)
    if not isinstance(description, dict):
        raise InputError(
            f"the checkpoint of step {step} does not say what model it is of. Write the weights alone: --out "
            f"NAME{SUFFIX}; a training takes them as the input `weights`."
        )
    watch, history = state.get("watch"), state.get("history")
    if weights == "best":
        step = watch.get("best_step", step) if isinstance(watch, dict) else step
    entries = history if isinstance(history, list) and weights != "unmeasured" else []
    entry = next((each for each in entries if isinstance(each, dict) and each.get("step") == step), {})
    return description | {
        "step": step,
        "metrics": {name: value for name, value in entry.items() if name not in ("epoch", "step")},
    }


def _refuse_occupied(to: Path, is_file: bool, force: bool) -> None:
    if not to.parent.is_dir():
        raise InputError(f"{to}: there is no folder {to.parent}. Make it, or give another place.")
    if is_file:
        if to.is_dir():
            raise InputError(f"{to} is a folder. Give a file's name.")
        if to.exists() and not force:
            raise InputError(f"{to} is there already. Give --force to replace it, or another name.")
        return
    if to.exists() and not to.is_dir():
        raise InputError(f"{to} is a file. Give a folder, or a name that ends with {SUFFIX}.")
    held = sorted(path.name for path in to.iterdir()) if to.is_dir() else []
    strange = [name for name in held if name not in (CODE_FOLDER, DESCRIPTION_FILE, WEIGHTS_FILE)]
    if strange:
        raise InputError(f"{to} holds {strange[0]}, which no export wrote; nothing there is replaced. Give another.")
    if held and not force:
        raise InputError(f"{to} holds a model already. Give --force to replace it, or another folder.")
