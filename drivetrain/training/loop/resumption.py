"""The place of a training's checkpoints, and those of others that lie there.

    <checkpoints>/<data>-<what else makes it what it is>/step-00000120/...

See drivetrain/steps/trainings.py: a start goes on from what its own training has kept, and names the others.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.steps import trainings
from drivetrain.steps.trainings import RECORD, Kept
from drivetrain.training.checkpointing.attempts import FOLDER, read_attempts
from drivetrain.training.checkpointing.places import Place, open_place
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.config import RESUMABLE
from drivetrain.training.loop.identity import Identity
from drivetrain.training.problem import Problem
from drivetrain.training.process import Process


@dataclass(frozen=True)
class Training:
    """The place of this training's checkpoints (None: nowhere), and lines for people."""

    place: Place | None
    lines: tuple[str, ...] = ()
    kept: Kept | None = None
    has_weights: bool = False

    def starts(self, step: int) -> str:
        """The line that says what the start goes on from."""
        if step:
            changed = () if self.kept is None else self.kept.changed
            return ", ".join([f"step {step} of this training (interrupted)", *changed])
        return "the weights that it is given" if self.has_weights else trainings.nothing(os.environ)

    def end(self) -> None:
        """Note that the training has ended well: for rank 0, when its model is written."""
        if self.place is not None and self.kept is not None:
            self.place.replace(RECORD, self.kept._replace(ended=True).record)


def find_training(checkpoints: Path | str | None, identity: Identity, total_steps: int, process: Process) -> Training:
    """Every rank must call it; rank 0 looks, and notes that the training has begun.

    Args:
        total_steps: at which this training ends.

    Raises:
        InputError: the place cannot be looked into.
        AwayError: it is a service that does not answer.
    """
    if checkpoints is None:
        return Training(None, has_weights=bool(identity.weights))

    def look() -> dict[str, Any]:
        if not process.is_main:
            return {}
        try:
            root = open_place(checkpoints)
            choice = _chosen(root, identity, total_steps)
            kept = _kept(choice, identity)
            open_place(f"{checkpoints}/{choice.folder}").replace(RECORD, kept.record)
            return {**choice._asdict(), "kept": kept.record.decode()}
        except InputError as error:  # the others must hear of it, too
            return {"problem": Problem(str(error))}
        except OSError as error:
            text = f"cannot look for checkpoints in {checkpoints}: {error}. Fix that, or give another place."
            return {"problem": Problem.of(error, text)}

    said = json.dumps(process.group.meanwhile(look)).encode()
    said = json.loads(process.broadcast_bytes(said if process.is_main else None))
    if "problem" in said:
        raise Problem(*said["problem"]).raised()
    _remove(checkpoints, said["going"], process)
    kept = trainings.read_kept(said["folder"], said["kept"].encode())
    lines = (*said["lines"], *trainings.about_removed(said["going"]))
    return Training(open_place(f"{checkpoints}/{said['folder']}"), lines, kept, bool(identity.weights))


def _chosen(root: Place, identity: Identity, total_steps: int) -> trainings.Choice:
    """
    Raises:
        InputError: a resumed run has fewer steps than were taken.
    """
    names = root.names()
    found: dict[str, Kept | None] = {}
    for folder in sorted({name.partition("/")[0] for name in names if "/" in name}):
        if not folder.startswith("."):
            content = root.read(f"{folder}/{RECORD}") if f"{folder}/{RECORD}" in names else None
            kept = trainings.read_kept(folder, content)
            found[folder] = kept and kept._replace(started=_heard(root, kept))
    execution = trainings.execution_of(os.environ)
    choice = trainings.choose(found, identity.name, identity.parts, execution, may_change=RESUMABLE, now=time.time())
    taken = max(Store(open_place(f"{root.uri}/{choice.folder}")).steps(), default=0)
    if not taken:  # it begins with these values
        choice = choice._replace(changed=())
    if taken > total_steps:
        raise InputError(
            f"the training in {root.uri}/{choice.folder} has taken {taken} steps, and this one ends at step "
            f"{total_steps}: epochs or max_steps are fewer than they were. Give more, or begin a new run with them."
        )
    return choice


def _kept(choice: trainings.Choice, identity: Identity) -> Kept:
    execution = trainings.execution_of(os.environ)
    return Kept(choice.folder, identity.parts, execution, time.time(), False, choice.changed)


def _heard(root: Place, kept: Kept) -> float:
    """When a training last gave a sign of life: a long one was perhaps started only once."""
    if kept.ended or time.time() - kept.started < trainings.KEPT_S:
        return kept.started
    attempts = read_attempts(root, f"{kept.folder}/{FOLDER}")
    return max([kept.started, *(attempt.time for attempt in attempts[-1:])])


def _remove(checkpoints: Path | str, folders: Sequence[str], process: Process) -> None:
    """Remove what other trainings have left, on each host where the place is one of its own."""
    if not folders:
        return
    if "://" not in str(checkpoints):
        if process.local_rank == 0:
            trainings.clear(Path(checkpoints), folders)
    elif process.is_main:
        root = open_place(checkpoints)
        for folder in folders:
            root.remove(list(root.names(folder)))
