"""Who holds a place; tests/contract/test_places.py and the fault family about two runs have the rest."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store import lock as lock_module
from drivetrain.training.checkpointing.store.lock import LOCK_FILE, Lock, LostLockError
from drivetrain.training.checkpointing.store.store import Store

FAST = {"patience_s": 0.3, "beat_s": 0.02}


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    return FolderPlace(tmp_path / "place")


def content(place: FolderPlace, **changes: Any) -> dict[str, Any]:
    """What lock.json says, after changing it."""
    found = json.loads(place.read(LOCK_FILE)) | changes
    if changes:
        (place.root / LOCK_FILE).write_text(json.dumps(found))
    return found


@pytest.fixture
def holder(place: FolderPlace) -> Iterator[int]:
    """A process that holds the place; its pid."""
    with process(place) as pid:
        yield pid


class process:  # noqa: N801  a context, as a function would be
    """A forked process that takes the lock and waits."""

    def __init__(self, place: FolderPlace) -> None:
        self.place = place

    def __enter__(self) -> int:
        ready, say = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                signal.alarm(60)
                Lock(self.place, "holder", beat_s=0.02).acquire()
                os.write(say, b".")
                signal.pause()
            finally:
                os._exit(1)
        os.close(say)
        assert os.read(ready, 1) == b"."
        os.close(ready)
        return self.pid

    def __exit__(self, *_: object) -> None:
        kill(self.pid)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def seconds_to_acquire(lock: Lock) -> float:
    began = time.monotonic()
    with lock:
        assert lock.is_mine()
        return time.monotonic() - began


class Watching:
    """The time of who waits for the lock, without waiting: it goes on when the waiter sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.meanwhile: Callable[[], object] = lambda: None
        monkeypatch.setattr(lock_module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(lock_module.time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()

    def seconds_to(self, act: Callable[[], object]) -> float:
        began = self.now
        act()
        return self.now - began


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Watching:
    return Watching(monkeypatch)


def test_the_holder_of_a_lock_is_described(place: FolderPlace) -> None:
    with Lock(place, "digits, run 7" + "x" * 2000):
        found = content(place)
        assert found["pid"] == os.getpid() and found["who"].startswith("digits, run 7")
        assert found["mark"] == place.mark(LOCK_FILE) and not found["released"]
        with pytest.raises(InputError) as caught:
            Lock(place, **FAST).acquire()
    said = str(caught.value)
    assert f"{place.uri} is in use by digits, run 7" in said and f"pid {os.getpid()}, since 2" in said
    assert "Two trainings cannot write to one checkpoint folder: wait" in said
    assert content(place)["released"]


def test_the_beat_goes_on(place: FolderPlace) -> None:
    with Lock(place, **FAST) as lock:
        first = content(place)["beat"]
        deadline = time.monotonic() + 30
        while content(place)["beat"] < first + 3:
            assert time.monotonic() < deadline
        lock.check()


def test_a_living_holder_keeps_it(place: FolderPlace, holder: int) -> None:
    with pytest.raises(InputError, match=f"pid {holder}"):
        Lock(place, **FAST).acquire()


def test_a_stopped_holder_on_this_machine_lives(place: FolderPlace, holder: int) -> None:
    os.kill(holder, signal.SIGSTOP)
    with pytest.raises(InputError, match=f"pid {holder}"):
        Lock(place, **FAST).acquire()


def test_a_dead_holder_is_followed_at_once(place: FolderPlace, holder: int, watching: Watching) -> None:
    kill(holder)
    lock = Lock(place)
    assert seconds_to_acquire(lock) < 2
    assert content(place)["term"] == 0


def test_a_zombie_is_dead(place: FolderPlace, holder: int, watching: Watching) -> None:
    os.kill(holder, signal.SIGKILL)
    os.waitid(os.P_PID, holder, os.WEXITED | os.WNOWAIT)  # ended, and still in the table
    assert seconds_to_acquire(Lock(place)) < 2


def test_a_pid_that_was_used_again_is_not_the_holder(place: FolderPlace, holder: int, watching: Watching) -> None:
    content(place, pid=os.getpid(), beat=-1)  # the beating thread of the true holder gives up
    kill(holder)
    assert seconds_to_acquire(Lock(place)) < 2


def test_a_copy_is_no_lock(place: FolderPlace, holder: int, tmp_path: Path, watching: Watching) -> None:
    """A sync agent brought the file back with the rest, to another machine or to this one."""
    os.kill(holder, signal.SIGSTOP)
    shutil.copytree(place.root, tmp_path / "copy")
    copy = FolderPlace(tmp_path / "copy")
    content(copy, boot="another")
    assert seconds_to_acquire(Lock(copy)) < 2


@pytest.mark.parametrize("elsewhere", [{"boot": "another"}, {"processes": "pid:[1]"}, {"boot": ""}])
def test_a_remote_holder_is_judged_by_its_heartbeat(
    place: FolderPlace, elsewhere: dict[str, str], watching: Watching
) -> None:
    """On another host, in another container, on a system without /proc."""
    with Lock(place, "holder", beat_s=3600):
        found = content(place, **elsewhere)
    content(place, released=False)

    def refused() -> None:
        with pytest.raises(InputError, match="in use by holder"):
            Lock(place).acquire()

    watching.meanwhile = lambda: content(place, beat=int(watching.now))
    assert 4.0 <= watching.seconds_to(refused) < 5.0
    watching.meanwhile = lambda: None
    lock = Lock(place, beat_s=3600)
    assert 4.0 <= watching.seconds_to(lock.acquire) < 5.0
    assert content(place)["id"] != found["id"] and content(place)["term"] == lock.term == 1
    lock.release()


def test_a_holder_that_dies_while_it_is_watched_is_not_waited_for_twice(place: FolderPlace, watching: Watching) -> None:
    with Lock(place, beat_s=3600):
        content(place, boot="another")
    content(place, released=False)
    beats = iter(range(10, 20))
    watching.meanwhile = lambda: content(place, beat=next(beats, 19))

    def refused() -> None:
        with pytest.raises(InputError):
            Lock(place).acquire()

    assert 4.0 <= watching.seconds_to(refused) < 5.0


def test_the_successor_of_a_sleeping_holder_writes_own_folders(place: FolderPlace, watching: Watching) -> None:
    assert Store(place).begin(5) == "step-00000005"
    with Lock(place, beat_s=3600):
        content(place, boot="another")
    content(place, released=False)
    with Lock(place, beat_s=3600) as lock:
        assert lock.term == 1
        assert Store(place, fence=lock).begin(5) == "step-00000005.101"


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b"null", b'{"id": 1}', b"[" * 100_000, b"\xff"])
def test_an_invalid_lock_file_is_waited_for_and_replaced(place: FolderPlace, torn: bytes, watching: Watching) -> None:
    place.create(LOCK_FILE, torn)
    lock = Lock(place, beat_s=3600)
    assert 4.0 <= watching.seconds_to(lock.acquire) < 5.0
    assert lock.is_mine()
    lock.release()


@pytest.mark.parametrize(
    "changes", [{"pid": "1"}, {"pid": True}, {"beat": None}, {"more": 1}, {"released": 1}, {"term": 0.5}]
)
def test_a_lock_with_other_values_is_invalid(place: FolderPlace, changes: dict[str, Any], watching: Watching) -> None:
    with Lock(place, beat_s=3600):
        pass
    content(place, **changes)
    lock = Lock(place, beat_s=3600)
    assert 4.0 <= watching.seconds_to(lock.acquire) < 5.0
    lock.release()


def test_a_holder_that_was_stopped_while_it_changed_the_file(place: FolderPlace, watching: Watching) -> None:
    """It keeps others from changing it, too: they are refused, and do not wait for ever."""
    with Lock(place, "holder", beat_s=3600):
        content(place, boot="another")
    content(place, released=False)
    with open(place.root / LOCK_FILE, "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        def refused() -> None:
            with pytest.raises(InputError, match="in use by holder"):
                Lock(place).acquire()

        assert 4.0 <= watching.seconds_to(refused) < 5.5


def test_a_missed_heartbeat_is_made_up_for(place: FolderPlace) -> None:
    with Lock(place, **FAST) as lock:
        with open(place.root / LOCK_FILE, "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(0.5)  # longer than a swap tries
        beat, deadline = content(place)["beat"], time.monotonic() + 30
        while content(place)["beat"] == beat:
            assert time.monotonic() < deadline
        lock.check()


def test_a_holder_is_notified_of_a_takeover(place: FolderPlace) -> None:
    lock = Lock(place, beat_s=3600)
    with pytest.raises(LostLockError):
        lock.check()
    with lock:
        lock.check()
        content(place, id="somebody else's")
        with pytest.raises(LostLockError, match="belongs to another training now"):
            lock.check()
        (place.root / LOCK_FILE).unlink()
        with pytest.raises(LostLockError):
            lock.check()
    assert not (place.root / LOCK_FILE).exists()  # a lock that is lost is not released either


def test_a_forked_child_does_not_hold_it(place: FolderPlace) -> None:
    with Lock(place, **FAST) as lock:
        child = os.fork()
        if not child:
            code = 1
            try:
                held = lock.is_mine()
                lock.release()
                code = 2 if held else 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        lock.check()


def test_a_place_that_fails_for_a_while_costs_no_lock(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lock(place, **FAST) as lock:
        failed = threading.Event()

        def fail(*_: object) -> bool:
            failed.set()
            raise OSError("away")

        with monkeypatch.context() as patched:
            patched.setattr(place, "swap", fail)
            assert failed.wait(30)
        beat, deadline = content(place)["beat"], time.monotonic() + 30
        while content(place)["beat"] == beat:
            assert time.monotonic() < deadline
        lock.check()


def test_a_place_that_is_away_while_the_lock_is_taken_costs_nobody_the_lock(
    place: FolderPlace, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be read for a minute is neither a holder that is at work nor one that is dead."""
    with Lock(place, "holder", beat_s=3600):
        content(place, boot="another")
    content(place, released=False)
    read = place.read
    away = iter([60.0])

    def slow(name: str) -> bytes:
        watching.now += next(away, 0.0)
        return read(name)

    monkeypatch.setattr(place, "read", slow)
    lock = Lock(place, beat_s=3600)
    assert 64.0 <= watching.seconds_to(lock.acquire) < 65.0  # the holder is dead
    lock.release()

    content(place, boot="another", released=False, id="alive")
    times, away = iter(range(1000)), iter([0.0, 60.0])
    watching.meanwhile = lambda: content(place, beat=next(times))
    with pytest.raises(InputError, match="in use by"):
        Lock(place, beat_s=3600).acquire()


def test_a_beat_that_was_written_although_it_failed_is_gone_on_from(
    place: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service took the write, and went away before it said so."""
    swap = place.swap

    def lose_the_answer(name: str, expected: bytes, data: bytes) -> bool:
        swap(name, expected, data)
        raise AwayError("the answer is lost")

    with Lock(place, beat_s=3600) as lock:
        with monkeypatch.context() as patched:
            patched.setattr(place, "swap", lose_the_answer)
            with pytest.raises(AwayError):
                lock._beat()
        lock._beat()  # sees what is there
        beat = content(place)["beat"]
        assert lock._beat() and content(place)["beat"] == beat + 1
    assert content(place)["released"]


def test_a_place_that_is_gone_at_the_end(place: FolderPlace) -> None:
    with Lock(place, **FAST):
        shutil.rmtree(place.root)
    with Lock(place, **FAST) as lock:
        assert lock.is_mine()


def test_a_holder_that_ends_while_it_is_waited_for(place: FolderPlace, holder: int) -> None:
    """A training that was told to leave, and its successor that starts too early."""
    ending = threading.Timer(0.2, kill, [holder])
    ending.start()
    try:
        assert seconds_to_acquire(Lock(place, patience_s=30)) < 20
    finally:
        ending.join()


def test_the_content_has_one_length(place: FolderPlace) -> None:
    """It is changed by one write, so that a kill leaves no half."""
    with Lock(place, "é" * 300, **FAST):
        lengths = {len(place.read(LOCK_FILE))}
    lengths.add(len(place.read(LOCK_FILE)))
    assert len(lengths) == 1


def test_this_process_is_known() -> None:
    start = lock_module.start_time(os.getpid())
    assert start and start == lock_module.start_time(os.getpid())
    assert lock_module.start_time(2**22 + 1) is None
    assert lock_module.boot_id() and lock_module.process_table().startswith("pid:")
