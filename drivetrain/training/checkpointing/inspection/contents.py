"""The contents of one checkpoint: files, tensors, values, and the starts of its training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from drivetrain.training.checkpointing.attempts import Attempt, read_attempts
from drivetrain.training.checkpointing.inspection.listing import metrics_of
from drivetrain.training.checkpointing.inspection.trainings import Training, held
from drivetrain.training.checkpointing.inspection.verification import read_index
from drivetrain.training.checkpointing.store.manifest import DamagedError, FileEntry
from drivetrain.training.checkpointing.tensors.index import STATE_FILE


@dataclass(frozen=True)
class TensorFacts:
    """A tensor, and into how many different parts it is cut."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    parts: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of one checkpoint. `values` are the manifest's, `state` that of state.json ({} without one)."""

    training: str
    place: str
    step: int
    folder: str
    files: tuple[FileEntry, ...]
    tensors: tuple[TensorFacts, ...]
    values: dict[str, Any]
    metrics: dict[str, float]
    state: dict[str, Any]
    attempts: tuple[Attempt, ...]


def contents(training: Training, step: int) -> Contents:
    """Read a checkpoint's contents from its manifest, index and state, without its tensors.

    Raises:
        DamagedError: one of the three is damaged.
        FileNotFoundError: it was removed in between.
    """
    store = training.store
    with held(store, step) as folder:
        manifest = store.manifest(step)
        small = [file.name for file in manifest.files if file.name.endswith(".json")]
        store.verify(step, small)
        index = read_index(store, step)
        tensors = [
            TensorFacts(
                name,
                entry.dtype,
                entry.shape,
                len({chunk.offsets for chunk in entry.chunks}),
                sum({chunk.offsets: chunk.length for chunk in entry.chunks}.values()),
            )
            for name, entry in (index.tensors.items() if index else ())
        ]
        state = read_state(training, step)
    return Contents(
        training=training.id,
        place=store.place.uri,
        step=step,
        folder=folder,
        files=manifest.files,
        tensors=tuple(tensors),
        values=manifest.values,
        metrics=metrics_of(manifest),
        state=state,
        attempts=tuple(read_attempts(store.place)),
    )


def read_state(training: Training, step: int) -> dict[str, Any]:
    """Read a checkpoint's state.json; {} if it has none.

    Raises:
        DamagedError: it is no JSON object.
    """
    try:
        state = json.loads(training.place.read(f"{training.store.folder(step)}/{STATE_FILE}"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as problem:
        raise DamagedError(f"{STATE_FILE} is no JSON, though the manifest vouches for it ({problem})") from None
    if not isinstance(state, dict):
        raise DamagedError(f"{STATE_FILE} is no JSON object, though the manifest vouches for it")
    return state
