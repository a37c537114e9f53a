"""The phases of a checkpoint's life, announced as a rank comes to them and out of them.

A record of three bytes goes through a pipe: the rank, the phase's number, whether it begins (1) or ends (0).
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

RECORD = 3
# Where each phase begins and ends: (name, module, what of it).
_CHECKPOINTING = "drivetrain.training.checkpointing"
_WATCHED = (
    ("load", f"{_CHECKPOINTING}.checkpointer", "Checkpointer.load_newest"),
    ("copy", f"{_CHECKPOINTING}.checkpointer", "Checkpointer.save"),
    ("begin", f"{_CHECKPOINTING}.store.store", "Store.begin"),
    ("write", f"{_CHECKPOINTING}.places.folder", "FolderPlace.write"),
    ("fsync", "os", "fsync"),
    ("gather", "drivetrain.training.group.gloo", "GlooGroup.to_main"),
    ("manifest", f"{_CHECKPOINTING}.store.store", "Store.commit"),
    ("retention", f"{_CHECKPOINTING}.store.store", "Store.retain"),
    ("removal", f"{_CHECKPOINTING}.places.folder", "FolderPlace.remove"),
    ("warm-up", "drivetrain.training_scripts.strategies.ddp", "Strategy._settle_buckets"),
    ("step", "drivetrain.training.torch.strategy", "Strategy.train_step"),
    ("validation", "drivetrain.training_scripts.train", "validate"),
)
NAMES = ("meeting", *dict.fromkeys(name for name, _, _ in _WATCHED))


def announce(pipe: int, rank: int) -> None:
    """From now on this process says through `pipe` which phase it comes to."""
    for name, module, path in _WATCHED:
        owner: Any = importlib.import_module(module)
        *owners, last = path.split(".")
        for each in owners:
            owner = getattr(owner, each)
        setattr(owner, last, _watched(getattr(owner, last), name, pipe, rank))


@contextmanager
def announced(name: str, pipe: int, rank: int) -> Generator[None]:
    """The phase `name`, from the start of the block to its end."""
    phase = NAMES.index(name)
    os.write(pipe, bytes([rank, phase, 1]))
    try:
        yield
    finally:
        os.write(pipe, bytes([rank, phase, 0]))


def _watched(function: Callable[..., Any], name: str, pipe: int, rank: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def watched(*given: Any, **named: Any) -> Any:
        with announced(name, pipe, rank):
            return function(*given, **named)

    return watched
