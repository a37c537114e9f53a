"""Saves checkpoints at s3://... until it is killed: `python -m tests.faults.harness.s3_writer URI STEP SIZE`."""

from __future__ import annotations

import random
import sys

from drivetrain.aws.s3 import Patience
from drivetrain.training.checkpointing.places.s3 import S3Place
from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from drivetrain.training.checkpointing.store.store import Store

PART = 64 << 10
# As short as a machine under load allows: what is measured is that there is an end.
PATIENCE = Patience(seconds=1.0, connect_seconds=5.0, stall_seconds=0.4)


def contents(step: int, sizes: list[int]) -> dict[str, bytes]:
    """The files of a step: no two have the same bytes."""
    return {f"rank-{rank:05d}": random.Random(f"{step}/{rank}").randbytes(size) for rank, size in enumerate(sizes)}


def save(store: Store, step: int, files: dict[str, bytes]) -> None:
    folder = store.begin(step)
    entries = [FileEntry(name, len(data), store.place.write(f"{folder}/{name}", data)) for name, data in files.items()]
    store.commit(Manifest(step=step, files=tuple(entries)))


if __name__ == "__main__":
    uri, step, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    patient = Patience(stall_seconds=120.0)  # it is to wait for its end where it is stopped
    save(Store(S3Place(uri, patience=patient, part=PART)), step, contents(step, [size]))
