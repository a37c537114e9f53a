"""Checkpoints of made-up bytes, saved and loaded as a training does it, so that the store alone can be tried."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from drivetrain.training.checkpointing.store.manifest import DamagedError, FileEntry, Manifest, MissingError
from drivetrain.training.checkpointing.store.store import Store

Files = dict[str, bytes]


def draw_files(draw: random.Random, step: int, *, longest: int = 6000) -> Files:
    """What a training of one to three ranks leaves, of some other length each time."""
    ranks = draw.randint(1, 3)
    files = {
        f"rank-{rank:05d}-of-{ranks:05d}.safetensors": draw.randbytes(draw.randrange(longest)) for rank in range(ranks)
    }
    names = sorted(files)
    files["index.json"] = json.dumps({"tensors": {f"model/{n}": {"file": names[n % ranks]} for n in range(8)}}).encode()
    files["state.json"] = json.dumps({"step": step, "consumed": step * 32, "draw": draw.random()}).encode()
    return files


def save(store: Store, step: int, files: Files) -> None:
    """One save, from begin to commit; what a training does when it fails, too."""
    folder = store.begin(step)
    try:
        entries = [
            FileEntry(name, len(data), store.place.write(f"{folder}/{name}", data)) for name, data in files.items()
        ]
        store.commit(Manifest(step=step, files=tuple(entries), values={"consumed": step * 32}))
    except OSError:
        store.abandon(step)
        raise


@dataclass
class Loaded:
    """The newest whole checkpoint, what was set aside on the way to it, and what was passed by."""

    step: int = -1
    files: Files = field(default_factory=dict)
    quarantined: list[int] = field(default_factory=list)
    passed_by: list[int] = field(default_factory=list)


def load_newest(store: Store) -> Loaded:
    """As a training does it when it starts."""
    loaded = Loaded()
    for step in store.steps():
        try:
            store.verify(step)
        except MissingError:
            loaded.passed_by.append(step)
            continue
        except DamagedError as why:
            store.quarantine(step, why)
            loaded.quarantined.append(step)
            continue
        folder, manifest = store.folder(step), store.manifest(step)
        loaded.step = step
        loaded.files = {file.name: store.place.read(f"{folder}/{file.name}") for file in manifest.files}
        break
    return loaded
