"""A clock that is a day off, ahead or behind, another way at each start; and files with any times. Checkpoints are
ordered by step alone, retention keeps the newest steps, and the lock knows the living from the dead."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from unittest import mock

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store import lock, store
from drivetrain.training.checkpointing.store.lock import Lock
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.made_checkpoints import Files, draw_files, load_newest, save

FAULT = "clock a day off, files of any age: order by step, the newest steps are kept, the lock holds"
TRIALS, QUICK, AT_ONCE = 200, 3, 2
_DAY_S = 86_400


@mock.patch("os.fsync")  # this machine will not lose its power
def trial(given: Trial, shared: None, fsync: mock.Mock) -> Found:
    draw, folder = given.draw, given.folder / "checkpoints"
    did: Counter[str] = Counter()
    violations: list[str] = []
    saved: dict[int, Files] = {}
    step = 0
    for _ in range(draw.randint(2, 4)):
        off = draw.choice((-1, 0, 1)) * _DAY_S
        did["starts with a clock that is off"] += off != 0
        with clock(off), Lock(FolderPlace(folder), beat_s=0.02) as held:
            made = Store(FolderPlace(folder), fence=held)
            made.clean()
            loaded = load_newest(made)
            if loaded.step != (step or -1) or (step and loaded.files != saved[step]):
                violations.append(f"step {step} was the last, and step {loaded.step} is loaded")
            for _ in range(draw.randint(1, 4)):
                step += draw.randint(1, 9)
                saved[step] = draw_files(draw, step)
                save(made, step, saved[step])
                _age(folder, draw)
                made.retain(Retention(last=2))
            if made.steps() != sorted(saved, reverse=True)[:2]:
                violations.append(f"kept: {made.steps()} of {sorted(saved)}")
            violations += _second_is_refused(folder, draw)
        saved = {step: files for step, files in saved.items() if step in made.steps()}
        _age(folder, draw)
        if draw.random() < 0.3 and len(saved) > 1:
            del saved[step]
            Store(FolderPlace(folder)).quarantine(step, DamagedError("for a try"))
            step = max(saved)
    return Found(violations, did)


@contextmanager
def clock(off_s: float) -> Generator[None]:
    """Let everything that asks for the time of day be told another one."""
    real, real_ns = time.time, time.time_ns

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=off_s)

    with (
        mock.patch("time.time", lambda: real() + off_s),
        mock.patch("time.time_ns", lambda: real_ns() + int(off_s * 1e9)),
        mock.patch.object(store, "datetime", Shifted),
        mock.patch.object(lock, "datetime", Shifted),
    ):
        yield


def _age(folder: Path, draw: random.Random) -> None:
    for path in sorted(folder.rglob("*")):
        at = time.time() + draw.uniform(-2, 2) * _DAY_S
        os.utime(path, (at, at))


def _second_is_refused(folder: Path, draw: random.Random) -> list[str]:
    with clock(draw.choice((-1, 1)) * _DAY_S):
        second = Lock(FolderPlace(folder), patience_s=0.1)
        try:
            second.acquire()
        except InputError:
            return []
        second.release()
        return ["a second one got the lock"]
