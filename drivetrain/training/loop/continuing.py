"""How a training goes on from another one's published state (drivetrain.training.continuation).

The optimizer, the average, the generators and the count of steps go on in any case. Where data and order are the same,
so does the pass over the data: the training is the earlier one made longer, and `epochs` counts both. Other data are
passed over from their beginning, `epochs` times, under a learning-rate schedule of their own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.steps import fresh_token
from drivetrain.training.checkpointing.checkpointer import adopt, beating
from drivetrain.training.checkpointing.places import Place, open_place
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE, DamagedError, Manifest
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.checkpointing.tensors.loading import Vote
from drivetrain.training.continuation import STATE, Continuation
from drivetrain.training.loop.identity import Identity
from drivetrain.training.loop.saved_state import check_state
from drivetrain.training.process import Process
from drivetrain.training.strategy import Strategy

# What decides which samples come next, beside the data.
_ORDER = (
    *("global_batch", "drop_last", "seed", "sampling", "weight_column"),
    *("shuffle_window", "reader", "reader_options"),
)
_CHUNK = 64 << 20
_CLOCK = ("saved_at", "save_seconds")


@dataclass(frozen=True)
class Start:
    """The start of a training that goes on from another.

    Attributes:
        name: of what it goes on from, for people; empty for a training that starts anew.
        about: the same for model.json.
        place: of the earlier training's state; None without one.
        step: how many steps the earlier one took.
        first_step: of the pass over the data: 0, or the steps that were taken on other data.
        same_pass: the earlier one's pass over the data goes on.
    """

    name: str = ""
    about: Mapping[str, Any] | None = None
    place: Place | None = None
    step: int = 0
    first_step: int = 0
    same_pass: bool = False

    def line(self, total_steps: int, epochs: int) -> str:
        """The line that says what it starts from."""
        if not self.name:
            return f"nothing ({'--fresh' if fresh_token(os.environ) else 'there is no earlier model'})"
        if self.place is None:
            return f"the weights of {self.name}, which has no training state: the optimizer starts anew"
        if self.same_pass and self.step >= total_steps:
            return f"{self.name} at step {self.step}, where epochs={epochs} end: nothing is left to train"
        return f"{self.name} at step {self.step}, {'the same data' if self.same_pass else 'a new pass over other data'}"


def find_start(continuation: Continuation, identity: Identity) -> Start:
    """
    Raises:
        InputError: a training state that cannot be read.
    """
    if continuation.model is None:
        return Start()
    name, about = continuation.name, dict(continuation.about)
    if continuation.state is None:
        return Start(name, about)
    place = open_place(continuation.state)
    store = Store(place)
    steps = store.steps()
    if not steps:
        raise InputError(
            f"{name} holds no checkpoint in {STATE}/: it was trained by a script of its own, or is not whole. Give "
            "another version."
        )
    try:
        saved = store.manifest(steps[0]).values.get("config") or {}
    except DamagedError as error:
        raise InputError(_damaged(name, str(error))) from None
    now = identity.saved
    same = all(saved.get(field) == now[field] for field in ("data", *_ORDER))
    first = saved.get("first_step", 0) if same else steps[0]
    return Start(name, {**about, "step": steps[0]}, place, steps[0], first, same)


def load_start(
    start: Start, strategy: Strategy, best: dict[str, Any], process: Process, seed: int, say: Callable[[str], None]
) -> dict[str, Any] | None:
    """Load the earlier training's state, if there is one, into the strategy. Every rank must call it.

    Args:
        best: gets this rank's parts of the best model so far, where the pass over the data goes on.

    Returns:
        The values of the training whose pass over the data goes on; None for a new pass.

    Raises:
        InputError: it is damaged, or of another model.
    """
    if start.place is None:
        return None
    exchange = process.group.twin()
    with beating():
        loaded = Vote(_Given(start.place), exchange, [0] * exchange.size, say).newest(strategy, check_state)
    if loaded is None:
        raise InputError(_damaged(start.name, "see above"))
    found = adopt(loaded, strategy, process, seed, say)
    if not start.same_pass:
        return None
    best.update(found)
    return loaded.values


class _Given(Store):
    """Checkpoints that are an input: each host has all of them, and nothing there is changed."""

    def quarantine(self, step: int, why: DamagedError) -> str:
        raise OSError(errno.EROFS, "it is an input")


def publish_state(place: Place, folder: Path, *, keeps_common: bool) -> bool:
    """Copy the newest checkpoint to `folder`, beside the model; whether there is one. Equal trainings publish equal
    bytes.

    Args:
        keeps_common: also the files that all hosts have.
    """
    store = Store(place)
    for step in store.steps():
        try:
            manifest, source = store.manifest(step), store.folder(step)
        except DamagedError:
            continue
        there = place.names(source)
        for file in manifest.files:
            if f"{source}/{file.name}" in there and (keeps_common or file.name.startswith("rank-")):
                _copy(place, f"{source}/{file.name}", folder / f"step-{step:08d}" / file.name, file.size)
        if keeps_common:
            values = {name: value for name, value in manifest.values.items() if name not in _CLOCK}
            whole = Manifest(step=manifest.step, files=manifest.files, values=values, format=manifest.format)
            open_place(folder).replace(f"step-{step:08d}/{MANIFEST_FILE}", whole.to_bytes())
        return True
    return False


def _copy(place: Place, name: str, to: Path, size: int) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    with to.open("wb") as file:
        for start in range(0, size, _CHUNK):
            file.write(place.read_part(name, start, min(_CHUNK, size - start)))


def _damaged(name: str, why: str) -> str:
    return f"the training state of {name} is damaged ({why}). Fetch it again, or continue from another version."
