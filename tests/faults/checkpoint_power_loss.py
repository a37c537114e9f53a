"""The power goes at any instant of a training's life with its checkpoints, and the disk has kept any part of what was
not fsynced. Recorded from the real calls, and laid out by a model of such a disk (harness/lossy_disk.py)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.lossy_disk import LossyDisk
from tests.faults.harness.made_checkpoints import Files, draw_files, load_newest, save

FAULT = "power lost, un-fsynced writes dropped or reordered: the last save loads, whole, and saving goes on"
TRIALS, QUICK, AT_ONCE = 400, 3, 2
_STATES = 40  # of each trial's life
_LIKELY = (0.0, 0.5, 0.9, 1.0)


@dataclass
class Life:
    """What a training did: `written` are the contents of each step, a step that was saved again has several."""

    disk: LossyDisk
    written: dict[int, list[Files]] = field(default_factory=dict)


def trial(given: Trial, shared: None) -> Found:
    # What is recorded is the call; the machine that this runs on will not lose its power.
    with mock.patch("os.fsync"):
        life = Life(LossyDisk(given.folder / "disk"))
        life.disk.root.mkdir()
        live(given, life)
        return lose_power(given, life)


def lose_power(given: Trial, life: Life) -> Found:
    """Hold states that may be left against what was saved."""
    did: Counter[str] = Counter()
    violations: list[str] = []
    count = len(life.disk.calls)
    for number in range(_STATES):
        calls, likely = given.draw.randint(0, count), given.draw.choice(_LIKELY)
        into = given.folder / f"state-{number}"
        life.disk.after_loss(calls, given.draw, likely, into)
        did["states after a loss"] += 1
        committed = [step for at, step in life.disk.marks if at <= calls]
        found = _check(into, life.written, committed[-1] if committed else -1)
        violations += [f"after call {calls} of {count} ({likely}, {into}): {text}" for text in found]
    return Found(violations, did)


def live(given: Trial, life: Life) -> None:
    """Two starts, several saves, a step saved again, one set aside, retention."""
    draw = given.draw
    step = 0
    with life.disk.recording():
        for _ in range(2):
            store = Store(FolderPlace(life.disk.root / "checkpoints"))
            store.clean()
            step = max(load_newest(store).step, 0)
            for _ in range(draw.randint(1, 3)):
                step += draw.randint(0 if step else 1, 9)
                files = draw_files(draw, step)
                life.written.setdefault(step, []).append(files)
                save(store, step, files)
                life.disk.mark(step)
                store.retain(Retention(last=draw.randint(1, 3)))
            if len(store.steps()) > 1 and draw.random() < 0.5:
                life.disk.mark(store.steps()[1])
                store.quarantine(store.steps()[0], DamagedError("for a try"))


def _check(disk: Path, written: dict[int, list[Files]], least: int) -> list[str]:
    violations: list[str] = []
    store = Store(FolderPlace(disk / "checkpoints"))
    for step in store.steps():
        # By order of calls, not thanks to checksums: whatever has a manifest is whole.
        try:
            store.verify(step)
        except DamagedError as error:
            violations.append(f"step {step} has a manifest and is not whole: {error}")
    loaded = load_newest(store)
    if loaded.step < least:
        violations.append(f"step {least} was committed, and step {loaded.step} is loaded")
    if loaded.step >= 0 and loaded.files not in written[loaded.step]:
        violations.append(f"step {loaded.step} holds what was never saved in one")
    store.clean()
    save(store, loaded.step + 1, {"weights": b"1"})
    store.retain(Retention(last=1))
    again = load_newest(Store(FolderPlace(disk / "checkpoints")))
    if (again.step, again.files) != (loaded.step + 1, {"weights": b"1"}):
        violations.append(f"after the loss step {loaded.step + 1} was saved, and step {again.step} is loaded")
    return violations
