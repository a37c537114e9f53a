"""One training at a time in a place: a second one is refused, a dead holder is ignored, a resumed one is fenced.

lock.json says who holds the place; it is made and changed only by operations that one of several contenders wins
(Place.create, Place.swap). The holder counts up a `beat` in it, once a second. Whether a holder is alive:

* released, or a copy (a sync agent restored it: Place.mark differs): it holds nothing.
* the same boot and the same process table: what /proc says. A process that is stopped is alive, and is waited for.
* another host, or another container: it is dead when its beat has not changed while it was watched. No two clocks are
  compared; the watcher counts its own seconds, and none in which the place does not answer, as no beat can be
  written in them. The beat is a quarter of its patience: a second training is to be told
  within 5 s, and one whose beat is late by a moment is to lose nothing. (An agent that copies the file all day copies
  2 KiB at a time, and what it copies holds nothing.)

A holder that is taken for dead though it only slept (SIGSTOP, a paused machine) finds another id in lock.json when it
wakes: `check` looks there right before each commit. Until then it, and the other ranks of its training, write into a
folder that no other training uses: a process that takes a place over without being certain counts up `term`, and
folders are named after it. What the holder does in the instant between the look and the commit cannot harm either:
Store.commit never replaces a manifest, and a manifest vouches for exactly the bytes that its own writer wrote.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import socket
import threading
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from drivetrain.base.errors import InputError
from drivetrain.base.process_identity import boot_id, process_table, start_time
from drivetrain.training.checkpointing.places import Place

LOCK_FILE = "lock.json"
PATIENCE_S = 4.0
BEAT_S = 1.0
_LOOK_S = 0.05
_LENGTH, _LONGEST_WHO = 2048, 200


class LostLockError(RuntimeError):
    """Another training holds the place by now; this one must write nothing more there."""


@dataclass(frozen=True)
class Holder:
    """The content of lock.json.

    Attributes:
        id: of this holding, never used again.
        boot: the id of the machine's boot, /proc/sys/kernel/random/boot_id; "" if it is missing.
        processes: the table that `pid` is of; containers on one machine have their own.
        pid_start: when the process started, in ticks since the boot: a pid may be used again.
        mark: Place.mark of the file that this was written to; "" until the holder has looked.
        beat: counts up while the holder lives.
        term: counts up with each holder that was taken for dead by its beat alone, and may only sleep.
        since, who: for people only.
    """

    id: str
    host: str
    boot: str
    processes: str
    pid: int
    pid_start: int
    since: str
    who: str = ""
    mark: str = ""
    beat: int = 0
    term: int = 0
    released: bool = False

    def to_bytes(self) -> bytes:
        # Of one length, so that it is changed by one write: no kill leaves half of the one and half of the other.
        return json.dumps(asdict(self), indent=1, ensure_ascii=False).encode(errors="replace").ljust(_LENGTH)


class Lock:
    """Held from `acquire` to `release`, or inside a `with`; of one process, its forked children do not hold it.

    Args:
        who: a text for the process that is refused, such as the name of the training.
        patience_s: how long a holder is watched before it counts as dead, and is waited for before this one gives up.
    """

    def __init__(self, place: Place, who: str = "", *, patience_s: float = PATIENCE_S, beat_s: float = BEAT_S) -> None:
        self._place = place
        self._who = who
        self._patience_s = patience_s
        self._beat_s = beat_s
        self._mine: Holder | None = None
        self._changing = threading.Lock()  # the beating thread, and release
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the place; a dead holder is replaced.

        Raises:
            InputError: another training holds it, and did not end within `patience_s`.
        """
        assert self._mine is None, "it is held already"
        mine = _this_process(self._who)
        watch = Watch(self._place)
        while True:
            found = watch.look()
            if found is None:
                taken = self._create(mine)
            elif watch.holds_nothing() or (watch.could_not_tell() and watch.unchanged_s() >= self._patience_s):
                mine = replace(mine, mark=self._place.mark(LOCK_FILE), term=watch.next_term())
                taken = self._place.swap(LOCK_FILE, found, mine.to_bytes())
            else:
                taken = False
            if taken:
                break
            # One that is watched to the end of its patience is given a moment more, to be replaced.
            late = watch.watched_s - self._patience_s
            if late > (self._patience_s / 8 if watch.could_not_tell() and not watch.changed else 0.0):
                raise InputError(watch.refusal(self._place.uri))
            time.sleep(_LOOK_S)
        self._mine = mine
        self._beat()  # with the mark of a file that has just been made
        self._over.clear()
        self._thread = threading.Thread(target=self._keep_beating, name="checkpoint-lock", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Let the next one in. Without effect where the lock is not held (any more)."""
        if self._mine is None or self._mine.pid != os.getpid():
            return
        self._over.set()
        assert self._thread is not None
        self._thread.join()
        with self._changing:
            mine, self._mine = self._mine, None
            # A place that is gone, or cannot be reached: the next one finds a holder that is dead.
            with contextlib.suppress(OSError):
                self._place.swap(LOCK_FILE, mine.to_bytes(), replace(mine, released=True).to_bytes())

    @property
    def term(self) -> int:
        """A number that no earlier holder has that may still write."""
        return self._mine.term if self._mine is not None else 0

    def raise_term(self, term: int) -> None:
        """Go by a higher term, the highest of those of a training's several folders: each host's is told by its lock.

        Raises:
            LostLockError: another one has taken the place over.
        """
        while self.term < term and not self._beat(term):
            self.check()
            time.sleep(_LOOK_S)

    def is_mine(self) -> bool:
        """Ask the place, and return True if this process holds it.

        Raises:
            OSError: the place does not answer.
        """
        mine = self._mine
        if mine is None or mine.pid != os.getpid():
            return False
        try:
            with self._changing:  # what the beating thread is writing would be read in part
                found = _parse(self._place.read(LOCK_FILE))
        except FileNotFoundError:
            return False
        return found is not None and found.id == mine.id and not found.released

    def check(self) -> None:
        """See that this process may write.

        Raises:
            LostLockError: it may not: another one has taken the place over.
        """
        if not self.is_mine():
            raise LostLockError(
                f"{self._place.uri} belongs to another training now, which took it over while this one was suspended. "
                "This one writes nothing more there."
            )

    def _create(self, mine: Holder) -> bool:
        try:
            self._place.create(LOCK_FILE, mine.to_bytes())
        except FileExistsError:
            return False
        return True

    def _beat(self, term: int = 0) -> bool:
        """Count up; False if another process holds the lock."""
        with self._changing:
            mine = self._mine
            assert mine is not None
            mark, term = mine.mark or self._place.mark(LOCK_FILE), max(mine.term, term)
            after = replace(mine, beat=mine.beat + 1, mark=mark, term=term)
            if self._place.swap(LOCK_FILE, mine.to_bytes(), after.to_bytes()):
                self._mine = after
                return True
            found = _parse(self._place.read(LOCK_FILE))
            if found is not None and found.id == mine.id:  # a beat that failed had been written all the same
                self._mine = found
            return False

    def _keep_beating(self) -> None:
        while not self._over.wait(self._beat_s):
            try:
                if not self._beat() and not self.is_mine():
                    return  # `check` says so when it matters
            except OSError:
                continue  # a place that fails for a while; if another one takes it over meanwhile, `check` says so


class Watch:
    """Looks at lock.json again and again, and judges its holder."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._content: bytes | None = None
        self._looked, self._changed_at = math.inf, 0.0
        self.watched_s = 0.0
        """Seconds in which the place was seen to answer."""
        self.holder: Holder | None = None
        self.changed = False

    def look(self) -> bytes | None:
        """The content now; None where there is no such file."""
        try:
            content = self._place.read(LOCK_FILE)
        except FileNotFoundError:
            content = None
        now = time.monotonic()
        self.watched_s += min(max(0.0, now - self._looked), BEAT_S)
        self._looked = now
        if content != self._content or content is None:
            self.changed = self._content is not None
            self._content, self._changed_at = content, self.watched_s
            self.holder = _parse(content) if content is not None else None
        return content

    def unchanged_s(self) -> float:
        return self.watched_s - self._changed_at

    def holds_nothing(self) -> bool:
        """True if the holder is certainly dead."""
        holder = self.holder
        if holder is None:
            return False
        if holder.released or (holder.mark and holder.mark != self._place.mark(LOCK_FILE)):
            return True
        return not self.could_not_tell() and start_time(holder.pid) != holder.pid_start

    def could_not_tell(self) -> bool:
        """True if only the beat can tell: the content is invalid, or the process belongs to another process table."""
        holder = self.holder
        return holder is None or not holder.boot or (holder.boot, holder.processes) != (boot_id(), process_table())

    def next_term(self) -> int:
        """The term of a process that takes over now."""
        if self.holder is None:
            return 1
        return self.holder.term + (not self.holds_nothing())

    def refusal(self, uri: str) -> str:
        holder = self.holder
        whose = "another process"
        if holder is not None:
            whose = f"{holder.who or 'another training'} (host {holder.host}, pid {holder.pid}, since {holder.since})"
        return (
            f"{uri} is in use by {whose}. Two trainings cannot write to one checkpoint folder: wait until that one has "
            "ended, end it, or give this one a folder of its own."
        )


def _this_process(who: str) -> Holder:
    pid = os.getpid()
    return Holder(
        id=secrets.token_hex(16),
        host=socket.gethostname(),
        boot=boot_id(),
        processes=process_table(),
        pid=pid,
        pid_start=start_time(pid) or 0,
        since=datetime.now(UTC).isoformat(timespec="seconds"),
        who=who[:_LONGEST_WHO],
    )


def _parse(content: bytes) -> Holder | None:
    """The holder; None where the file is torn, or nothing of ours."""
    try:
        given = json.loads(content)
        holder = Holder(**given)
    except (ValueError, TypeError, RecursionError):
        return None
    fits = all(type(getattr(holder, name)) is type(value) for name, value in asdict(_EXAMPLE).items())
    return holder if fits else None


_EXAMPLE = Holder(id="", host="", boot="", processes="", pid=0, pid_start=0, since="")
