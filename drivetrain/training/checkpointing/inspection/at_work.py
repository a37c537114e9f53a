"""Find the training that writes checkpoints to a place now, as far as reading can tell."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from drivetrain.training.checkpointing.places import Place
from drivetrain.training.checkpointing.store.lock import BEAT_S, LOCK_FILE, Watch

_LOOK_S = 0.1


@dataclass(frozen=True)
class AtWork:
    """A training that holds the lock of a place; `since` is for people."""

    host: str
    pid: int
    since: str
    who: str

    def describe(self) -> str:
        return f"{self.who or 'a training'}, host {self.host}, process {self.pid}, since {self.since}"


def at_work(place: Place, names: Mapping[str, int]) -> AtWork | None:
    """The training that is at work in a place.

    One of this machine is asked of /proc. One of another is watched for a beat or two: it is alive if it beats.
    """
    if LOCK_FILE not in names:
        return None
    watch = Watch(place)
    watch.look()
    until = time.monotonic() + 2 * BEAT_S
    while watch.holder is not None and not watch.holds_nothing():
        if not watch.could_not_tell() or watch.changed:
            holder = watch.holder
            return AtWork(holder.host, holder.pid, holder.since, holder.who)
        if time.monotonic() > until:
            return None
        time.sleep(_LOOK_S)
        watch.look()
    return None
