"""Two trainings in one checkpoint folder: the second is refused within five seconds while the first lives; a lock that
is left by a dead one is taken over as fast; a first one that was stopped (SIGSTOP) on another host, and wakes after it
was taken over, writes nothing more; of several that start at once one gets in."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Generator
from pathlib import Path
from unittest import mock

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store import lock
from drivetrain.training.checkpointing.store.lock import Lock, LostLockError
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.launch.processes.parent import follows_parent
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.made_checkpoints import Files, load_newest, save

FAULT = "two runs in one folder: second refused in 5 s, stale lock recovered, a holder that slept is fenced"
TRIALS, QUICK, AT_ONCE = 240, 6, 6
PATIENCE_S = 60.0
_WITHIN_S = 5.0
_CONTENDERS = 4
_GOT_IT, _REFUSED, _FENCED = 10, 11, 12


def trial(given: Trial, shared: None) -> Found:
    kinds = [_alive, _killed, _slept, _at_once, _copied, _another_host]
    kind = given.in_turn(kinds)
    return Found(kind(given), {kind.__name__.strip("_").replace("_", " "): 1})


def _alive(given: Trial) -> list[str]:
    folder = given.folder / "checkpoints"
    with _training(folder, 1) as (child, committed):
        _wait_for_saves(committed, 2)
        violations = _refused(folder, child)
        _wait_for_saves(committed, 2)  # the first one was not disturbed
        return [*violations, *_kill(child), *_whole(folder, 1)]


def _killed(given: Trial) -> list[str]:
    folder = given.folder / "checkpoints"
    with _training(folder, 1) as (child, committed):
        _wait_for_saves(committed, given.draw.randint(0, 4))
        violations = _kill(child)
    return [*violations, *_gets_in(folder, 1.0), *_whole(folder, 1, 2)]


def _another_host(given: Trial) -> list[str]:
    """Another boot's process, that cannot be looked up: its beat alone says that it lives, or does not."""
    folder = given.folder / "checkpoints"
    with _training(folder, 1, boot="another") as (child, committed):
        _wait_for_saves(committed, 1)
        if given.draw.random() < 0.5:
            violations = _refused(folder, child)
            _wait_for_saves(committed, 2)
            return [*violations, *_kill(child)]
        violations = _kill(child)
    return [*violations, *_gets_in(folder, _WITHIN_S), *_whole(folder, 1, 2)]


def _slept(given: Trial) -> list[str]:
    """On another host: on this one a stopped process is known to live, and nobody else gets in."""
    folder = given.folder / "checkpoints"
    with _training(folder, 1, boot="another") as (child, committed):
        _wait_for_saves(committed, 2)
        time.sleep(given.draw.uniform(0, 0.02))  # anywhere in a save
        os.kill(child, signal.SIGSTOP)
        began = time.monotonic()
        violations: list[str] = []
        with Lock(FolderPlace(folder)) as held:
            if (took := time.monotonic() - began) > _WITHIN_S:
                violations.append(f"a dead holder was recovered after {took:.1f} s")
            store = Store(FolderPlace(folder), fence=held)
            store.clean()
            step = load_newest(store).step + 1
            awake = given.draw.randrange(4)
            for number in range(4):
                if number == awake:
                    os.kill(child, signal.SIGCONT)
                save(store, step + number, _files(2, step + number))
            _, status = os.waitpid(child, 0)
            violations += _whole(folder, 1, 2)
            loaded = load_newest(store)
            if (loaded.step, loaded.files) != (step + 3, _files(2, step + 3)):
                violations.append(f"step {step + 3} was saved by the second, and step {loaded.step} is loaded")
        code = os.waitstatus_to_exitcode(status)
        if code != _FENCED:
            violations.append(f"the one that slept ended with {code}")
        return violations


def _at_once(given: Trial) -> list[str]:
    """On a fresh folder, and on one that a dead training left."""
    folder = given.folder / "checkpoints"
    if given.draw.random() < 0.5:
        with _training(folder, 1) as (child, committed):
            _wait_for_saves(committed, 1)
            _kill(child)
    gate, opened = os.pipe()
    contenders = [_fork(lambda: _contend(folder, gate)) for _ in range(_CONTENDERS)]
    try:
        os.close(gate)
        os.close(opened)  # all of them see the end of the pipe at once
        codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in contenders]
    except BaseException:
        for each in contenders:
            os.kill(each, signal.SIGKILL)
        raise
    if sorted(codes) != [_GOT_IT, *[_REFUSED] * (_CONTENDERS - 1)]:
        return [f"of {_CONTENDERS} at once: {codes}"]
    return []


def _contend(folder: Path, gate: int) -> int:
    opened = gate + 1
    with contextlib.suppress(OSError):
        os.close(opened)
    os.read(gate, 1)
    try:
        Lock(FolderPlace(folder), patience_s=1.0, beat_s=0.05).acquire()
    except InputError:
        return _REFUSED
    time.sleep(1.5)  # until the others have given up; then it ends without a release
    return _GOT_IT


def _copied(given: Trial) -> list[str]:
    """A lock that was copied with the folder is none, though its holder lives."""
    folder, copy = given.folder / "checkpoints", given.folder / "copy"
    with _training(folder, 1) as (child, committed):
        _wait_for_saves(committed, 2)
        os.kill(child, signal.SIGSTOP)  # so that the copy is of one instant
        shutil.copytree(folder, copy)
        violations = _gets_in(copy, 1.0)
        return [*violations, *_kill(child), *_whole(copy, 1, 2)]


@contextlib.contextmanager
def _training(folder: Path, who: int, boot: str = "") -> Generator[tuple[int, int]]:
    """A process that holds the lock and saves; gives its pid, and a pipe with a byte for each commit."""
    committed, say = os.pipe()
    child = _fork(lambda: _train(folder, who, boot, say))
    os.close(say)
    try:
        yield child, committed
    finally:
        os.close(committed)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _train(folder: Path, who: int, boot: str, say: int) -> int:
    signal.alarm(int(PATIENCE_S))
    with mock.patch.object(lock, "boot_id", lambda: boot) if boot else contextlib.nullcontext():
        held = Lock(FolderPlace(folder))
        held.acquire()
        store, step = Store(FolderPlace(folder), fence=held), 0
        while True:
            step += 1
            try:
                save(store, step, _files(who, step))
                store.retain(Retention(last=3))
            except (LostLockError, FileExistsError, FileNotFoundError, DamagedError):
                # The files of a save that was under way went when the next one cleaned up, or its folder is taken.
                if not held.is_mine():
                    return _FENCED
                raise
            os.write(say, b".")


def _fork(act: Callable[[], int]) -> int:
    follow = follows_parent(signal.SIGKILL)  # a campaign that is killed leaves nobody
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        follow()
        code = act()
    finally:
        os._exit(code)


def _files(who: int, step: int) -> Files:
    return {f"rank-{rank}": f"{who}/{step}/{rank} ".encode() * 500 for rank in range(3)}


def _wait_for_saves(committed: int, count: int) -> None:
    for _ in range(count):
        if not os.read(committed, 1):
            raise AssertionError("the training ended")


def _refused(folder: Path, holder: int) -> list[str]:
    began = time.monotonic()
    second = Lock(FolderPlace(folder))
    try:
        second.acquire()
    except InputError as error:
        took = time.monotonic() - began
        slow = [f"refused after {took:.1f} s"] if took > _WITHIN_S else []
        return slow if f"pid {holder}" in str(error) else [*slow, f"the holder is not named: {error}"]
    second.release()
    return ["the second one got in"]


def _gets_in(folder: Path, within_s: float) -> list[str]:
    began = time.monotonic()
    with Lock(FolderPlace(folder)) as held:
        took = time.monotonic() - began
        store = Store(FolderPlace(folder), fence=held)
        store.clean()
        step = load_newest(store).step + 1
        save(store, step, _files(2, step))
    return [f"a dead holder was recovered after {took:.1f} s"] if took > within_s else []


def _kill(child: int) -> list[str]:
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return [] if code == -signal.SIGKILL else [f"the training ended with {code} before it was killed"]


def _whole(folder: Path, *writers: int) -> list[str]:
    """Every checkpoint is of one writer alone."""
    store = Store(FolderPlace(folder))
    violations: list[str] = []
    for step in store.steps():
        store.verify(step)
        found = {
            file.name: store.place.read(f"{store.folder(step)}/{file.name}") for file in store.manifest(step).files
        }
        if found not in [_files(who, step) for who in writers]:
            violations.append(f"step {step} is mixed, or none of {writers}")
    return violations
