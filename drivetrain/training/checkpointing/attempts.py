"""The record of each start of a training: how far it came, what it spent, how it ended.

    attempts/00003.json      {"number": 3, "started": 1763688012.5, "first_step": 120, "step": 171, "time": ..., ...}

A start that was interrupted never recorded its end: that is how interruptions are counted. The file is brought up to
date when it is out of date by a fiftieth of what it tells, from a second up to a minute, and not synced: what a crash
takes away is that much of a statistic, and a sync agent has as little to copy. Those of the last starts stay; how often
machines are taken away these tell as well. Times are seconds since the epoch, for people and for differences within one
file; nothing compares those of two machines.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from drivetrain.training.checkpointing.places import Place

FOLDER = "attempts"
Ending = Literal["finished", "stopped", "failed"]
# So many of the last saves are told one by one.
KEPT_SAVES = 200
# So many starts before this one are read, which an object store is asked for one by one; older ones are removed.
KEPT_STARTS = 50
UPDATE_SHARE, UPDATE_SECONDS, LONGEST_UPDATE_SECONDS = 0.02, 1.0, 60.0


@dataclass(frozen=True)
class Attempt:
    """One start. Durations are in seconds; `step` is the last one known to have been taken; `saved` are the last saves,
    each with its step and the moment at which it began."""

    number: int
    started: float = 0.0
    first_step: int = 0
    step: int = 0
    time: float = 0.0
    saves: int = 0
    stall_seconds: float = 0.0
    save_seconds: float = 0.0
    restart_seconds: float = 0.0
    ended: Ending | None = None
    saved: tuple[tuple[int, float], ...] = ()

    @property
    def seconds(self) -> float:
        """How long it ran, as far as known."""
        return max(0.0, self.time - self.started)

    @property
    def was_interrupted(self) -> bool:
        return self.ended in (None, "stopped")


def read_attempts(place: Place, folder: str = FOLDER) -> list[Attempt]:
    """The recorded attempts, by number. If a file cannot be read, only the number is known."""
    return [_parsed(number, place, name) for number, name in _listed(place, folder)]


def _listed(place: Place, folder: str) -> list[tuple[int, str]]:
    """Numbers and names of the files."""
    pattern = re.compile(rf"{re.escape(folder)}/(\d{{5,9}})\.json", re.ASCII)
    return sorted((int(match[1]), name) for name in place.names(folder) if (match := pattern.fullmatch(name)))


def exposure(attempts: Iterable[Attempt]) -> tuple[float, int]:
    """(seconds that they ran, how many of them were interrupted), for `interval.mean_time_between`."""
    listed = list(attempts)
    return sum(attempt.seconds for attempt in listed), sum(attempt.was_interrupted for attempt in listed)


def interrupted_in_a_row(attempts: Sequence[Attempt]) -> int:
    """How many of the last starts were interrupted, since one came to an end by itself."""
    count = 0
    for attempt in reversed(attempts):
        if not attempt.was_interrupted:
            break
        count += 1
    return count


class Record:
    """The file of this start. One process of a training writes it.

    Args:
        place: the training's.
        first_step: the step that it goes on from.
        restart_seconds: from the start of the process until it could take a step.
        keep: so many starts before this one stay, and are in `earlier`.
        say: told once where it cannot be read or written: a statistic is no reason to end a training.
        clock: seconds since the epoch; asked once, later times follow the machine's steady clock.
    """

    def __init__(
        self,
        place: Place,
        *,
        first_step: int = 0,
        restart_seconds: float = 0.0,
        folder: str = FOLDER,
        keep: int = KEPT_STARTS,
        say: Callable[[str], None] = print,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place, self._folder, self._say, self._steady = place, folder, say, steady
        self._begun = steady() - restart_seconds
        self._is_local = "://" not in place.uri
        started = clock() - restart_seconds
        self._works, listed = True, list[tuple[int, str]]()
        try:
            listed = _listed(place, folder)
            self.earlier = [_parsed(number, place, name) for number, name in listed[-keep:]]
        except OSError as error:
            self.earlier, self._works = [], False
            say(f"{place.uri}/{folder} cannot be read ({error}); it is only a statistic")
        self.attempt = Attempt(
            number=1 + max((attempt.number for attempt in self.earlier), default=0),
            started=round(started, 3),
            first_step=first_step,
            step=first_step,
            time=round(started + restart_seconds, 3),
            restart_seconds=round(restart_seconds, 3),
        )
        self._trying(self._create)
        self._remove([name for _, name in listed[:-keep]])
        self._written = steady()

    def reached(self, step: int) -> None:
        """Record a step; writes the file if the last write was long enough ago."""
        now = self._steady()
        every = min(max(UPDATE_SHARE * (now - self._begun), UPDATE_SECONDS), LONGEST_UPDATE_SECONDS)
        if now - self._written >= (every if self._is_local else LONGEST_UPDATE_SECONDS):
            self._write(now, step=step)

    def saved(self, step: int, stall_seconds: float, save_seconds: float, *, of_step: int | None = None) -> None:
        """Take note of a save: the time in which no step was taken, and the time until it was durable, which is now.

        Args:
            step: the last one taken.
            of_step: the saved step; the last one by default.
        """
        now = self._steady()
        began = round(self.attempt.started + now - self._begun - save_seconds, 3)
        self._write(
            now,
            step=step,
            saved=(*self.attempt.saved, (step if of_step is None else of_step, began))[-KEPT_SAVES:],
            saves=self.attempt.saves + 1,
            stall_seconds=round(self.attempt.stall_seconds + stall_seconds, 6),
            save_seconds=round(self.attempt.save_seconds + save_seconds, 6),
        )

    def end(self, ended: Ending, step: int | None = None) -> None:
        """Record how the start ended, durably."""
        self._write(self._steady(), last=True, ended=ended, step=self.attempt.step if step is None else step)

    @property
    def _name(self) -> str:
        return f"{self._folder}/{self.attempt.number:05d}.json"

    def _write(self, now: float, *, last: bool = False, **changes: Any) -> None:
        self.attempt = replace(self.attempt, time=round(self.attempt.started + now - self._begun, 3), **changes)
        self._written = now
        self._trying(self._put_durably if last or not self._is_local else self._put)

    def _trying(self, write: Callable[[], None]) -> None:
        if not self._works:
            return
        try:
            write()
        except OSError as error:
            self._works = False
            self._say(f"{self._place.uri}/{self._name} cannot be written ({error}); it is only a statistic")

    def _create(self) -> None:
        while True:
            try:
                self._place.create(self._name, _text(self.attempt))
                return
            except FileExistsError:  # another start took the number in between
                self.attempt = replace(self.attempt, number=self.attempt.number + 1)

    def _remove(self, names: list[str]) -> None:
        try:
            if names:
                self._place.remove(names)
        except OSError as error:
            self._say(f"old files stay in {self._place.uri}/{self._folder}: {error}")

    def _put_durably(self) -> None:
        self._place.replace(self._name, _text(self.attempt))

    def _put(self) -> None:
        path = Path(self._place.uri) / self._name
        temporary = path.with_suffix(".partial")
        temporary.write_bytes(_text(self.attempt))
        os.replace(temporary, path)


def _text(attempt: Attempt) -> bytes:
    return json.dumps(asdict(attempt)).encode()


def _parsed(number: int, place: Place, name: str) -> Attempt:
    kinds = {field.name: (str,) if field.name == "ended" else (int, float) for field in fields(Attempt)}
    try:
        given = json.loads(place.read(name))
        known = {name: value for name, value in given.items() if name in kinds}
        saved = tuple((int(step), float(moment)) for step, moment in known.pop("saved", ()))
        if not all(value is None or type(value) in kinds[name] for name, value in known.items()):
            raise ValueError("values of other kinds")
        return Attempt(**{**known, "number": number, "saved": saved})
    except (ValueError, TypeError, AttributeError, RecursionError, OSError):
        return Attempt(number)


def process_age() -> float:
    """Seconds since this process was started, its imports included."""
    stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    started = int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
