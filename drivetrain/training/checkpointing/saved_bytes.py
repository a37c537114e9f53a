"""Checkpoints of a training whose state is one piece of bytes and a few plain values, kept by one process.

    with SavedBytes(open_place(folder)) as kept:
        found = kept.newest()                    # (values, data), or None
        kept.save(step, {"history": [...]}, data)

They are kept as all checkpoints are (store/store.py): a save that was interrupted counts for nothing, a damaged one is
quarantined and the one before it taken, and a second training in the folder is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Self

from drivetrain.training.checkpointing.places import Place
from drivetrain.training.checkpointing.store.lock import Lock
from drivetrain.training.checkpointing.store.manifest import DamagedError, FileEntry, Manifest, MissingError
from drivetrain.training.checkpointing.store.reading import read_checked
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store

_DATA, _VALUES = "model", "values.json"


class SavedBytes:
    """See the module. Made, it holds the place's lock until the `with` block ends.

    Raises:
        InputError: another training keeps its checkpoints there.
    """

    def __init__(self, place: Place, say: Callable[[str], None] = print) -> None:
        self._place, self._say = place, say
        self._lock = Lock(place)
        self._lock.acquire()
        self._store = Store(place, fence=self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def newest(self) -> tuple[dict[str, Any], bytes] | None:
        """The values and the data of the newest checkpoint that is whole; None where there is none."""
        for step in self._store.steps():
            try:
                manifest, folder = self._store.manifest(step), self._store.folder(step)
                data = read_checked(self._place, folder, manifest, _DATA)
                values = json.loads(read_checked(self._place, folder, manifest, _VALUES))
            except (MissingError, FileNotFoundError) as error:  # which may not have come yet
                self._say(f"checkpoint {step} is not whole ({error}); the one before it is taken")
                continue
            except DamagedError as error:
                self._say(f"checkpoint {step} is damaged ({error}); it is now {self._store.quarantine(step, error)}")
                continue
            self._store.vouch(step)
            self._store.clean()
            self._say(f"resuming from {self._place.uri}/{folder}")
            return values, data
        return None

    def save(self, step: int, values: Mapping[str, Any], data: bytes, *, finished: bool = False) -> None:
        """Save the state after `step`; durable when it returns. Where it cannot be written (a full disk), a line says
        so, and the checkpoint before it stands.

        Raises:
            LostLockError: another training has taken the place over.
        """
        try:
            folder = self._store.begin(step)
            files = {_DATA: data, _VALUES: json.dumps(values, allow_nan=False).encode()}
            entries = [
                FileEntry(name, len(each), self._place.write(f"{folder}/{name}", each)) for name, each in files.items()
            ]
            self._store.commit(Manifest(step=step, files=tuple(entries), values={"finished": finished}))
            self._store.retain(Retention(last=2))
        except OSError as error:
            self._say(f"checkpoint {step} could not be saved: {error}. Training continues; the one before it remains.")
