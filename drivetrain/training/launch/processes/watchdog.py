"""The launcher's eye on its host's processes: who hangs, and where.

A process hangs when it has counted heartbeats and stops counting, when it stays stopped (SIGSTOP, a debugger), when its
peers say that it did not come to a collective before they timed out (missing_peers.py), or when it does not notice that
the first host has ended. It is sent SIGABRT, on which Python writes down where each of its threads was, and its end
ends the job.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from drivetrain.training.launch.processes import blame, collectives
from drivetrain.training.launch.processes.failure import MAX_TRACEBACK_LINES, Failure
from drivetrain.training.launch.processes.heartbeat import Heartbeat, process_state, read_heartbeats
from drivetrain.training.launch.processes.missing_peers import ABSENT_FILE

# Between SIGABRT and SIGKILL: what it takes to write a traceback.
_ABORT_SECONDS = 5.0
_ANSWER_SECONDS = 0.2
# Where an exception ends the process, in a thread of native code that has lines of ours only.
_TERMINATED = "/launch/processes/collectives.py"


class FirstHost:
    """Watch the first host's launcher, which keeps the meeting point.

    A connection that is refused says that it has ended, one that is not answered may be the network: that takes longer
    to believe.
    """

    PAUSE_S, REFUSED_TIMES, SILENT_TIMES = 5.0, 3, 12

    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self._next = 0.0
        self._seen = False
        self._refused = self._silent = 0

    def has_ended(self) -> bool:
        now = time.monotonic()
        if now >= self._next:
            self._ask()
            self._next = time.monotonic() + self.PAUSE_S
        return self._seen and (self._refused >= self.REFUSED_TIMES or self._silent >= self.SILENT_TIMES)

    def _ask(self) -> None:
        try:
            socket.create_connection((self.address, self.port), timeout=1.0).close()
            self._seen, self._refused, self._silent = True, 0, 0
        except ConnectionRefusedError:
            self._refused += 1
            self._silent += 1
        except OSError:
            self._refused = 0
            self._silent += 1


@dataclass
class _Seen:
    beat: Heartbeat
    changed: float
    stopped_since: float | None = None


class Watchdog:
    """`tick` looks around; `failures` says whom it has ended, and why."""

    def __init__(self, folder: Path, *, hang_timeout: float, first_host: FirstHost | None = None) -> None:
        self.folder = folder
        self.hang_timeout = hang_timeout
        self.first_host = first_host
        self._seen: dict[int, _Seen] = {}
        self._reasons: dict[int, tuple[Heartbeat, str, float]] = {}
        self._asked = False
        self.attempt = 0

    def tick(self) -> None:
        now = time.monotonic()
        beats = [one for one in read_heartbeats(self.folder) if not one.done]
        self.attempt = max([self.attempt, *(one.attempt for one in beats)])
        for one in beats:
            seen = self._seen.get(one.local_rank)
            if seen is None or seen.beat != one:
                seen = self._seen[one.local_rank] = _Seen(one, now, seen.stopped_since if seen else None)
            seen.stopped_since = (seen.stopped_since or now) if process_state(one.pid) in ("T", "t") else None
        for one, reason in self._hanging(beats, now):
            self._end(one, reason, now)
        if not self._asked and any(process_state(one.pid) in ("", "Z") for one in beats):
            # One was killed: the others, which are about to be ended, say in what they waited for it.
            self._asked = True
            collectives.ask(self.folder, [one.local_rank for one in beats], _ANSWER_SECONDS)
        for one, _, ended in self._reasons.values():
            if now - ended > _ABORT_SECONDS and process_state(one.pid) not in ("", "Z"):
                _send(one.pid, signal.SIGKILL)

    def failures(self) -> list[Failure]:
        """The failures of the last attempt."""
        return [
            Failure(beat.rank, "hang", reason, self._where_it_hung(beat.local_rank), exit_code=-signal.SIGABRT)
            for beat, reason, _ in self._reasons.values()
            if beat.attempt == self.attempt
        ]

    def mismatch(self) -> list[Failure]:
        """The failure of the last attempt in which a rank called another collective than the others, if all ended
        before they could say so."""
        found = blame.find_mismatch(collectives.read(self.folder, self.attempt))
        return [Failure(found.ranks[0], found.kind, found.text)] if found else []

    def waited_in(self, lost: int) -> str:
        """The collective of this host's ranks when one was lost; "" if none has said it."""
        last = {r: begun[-1] for r, begun in collectives.read(self.folder, self.attempt).items() if r != lost}
        return "\n".join(f"Rank {rank} was in {call}." for rank, call in sorted(last.items())[:MAX_TRACEBACK_LINES])

    def where(self, local_rank: int) -> str:
        """The stack of a process when native code, or we, ended it; empty if it left none."""
        try:
            text = (self.folder / f"{local_rank}.stack").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return stack_of_main_thread(text)

    def _where_it_hung(self, local_rank: int) -> str:
        """The same without faulthandler's first line: that it was aborted was our doing."""
        lines = self.where(local_rank).splitlines()[1:]
        return "\n".join(["It was here (most recent call first):", *lines[1:]]) if lines else ""

    def _hanging(self, beats: list[Heartbeat], now: float) -> list[tuple[Heartbeat, str]]:
        found = [(one, reason) for one in beats if (reason := self._reason_of_peers(one))]
        if beats and self.first_host and self.first_host.has_ended():
            return [
                (one, f"it did not notice that {self.first_host.address}, the first host, has ended") for one in beats
            ]
        if not self.hang_timeout or found:
            return found
        for one in beats:
            since = self._seen[one.local_rank].stopped_since
            if since is not None and now - since >= self.hang_timeout:
                found.append((one, f"it has been stopped (SIGSTOP) for {now - since:.0f} s"))
        silent = [one for one in beats if one.beats and now - self._seen[one.local_rank].changed >= self.hang_timeout]
        if found or not silent:
            return found
        # Ranks that wait for it are silent, too: they wait for the rank with the fewest heartbeats.
        least = min(one.beats for one in beats)
        return [
            (one, f"no heartbeat for {now - self._seen[one.local_rank].changed:.0f} s, after {one.beats} of them")
            for one in silent
            if one.beats == least
        ]

    def _reason_of_peers(self, one: Heartbeat) -> str:
        """The peers' reason, if they say that it hangs, or suspect it and it is stopped; else ""."""
        try:
            said = json.loads((self.folder / ABSENT_FILE).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # nobody has said so yet, or is just writing
            return ""
        is_named = said["attempt"] == one.attempt and one.rank in said["ranks"]
        if not is_named or not (said["sure"] or process_state(one.pid) in ("T", "t")):
            return ""
        return said["reason"] or self._missed(one)

    def _missed(self, one: Heartbeat) -> str:
        """The collective that a stopped process did not reach, as far as its peers have written what they wait in."""
        known = {r: begun for r, begun in collectives.read(self.folder, one.attempt).items() if r != one.rank}
        verdict = blame.find_missing(known, [one.rank])
        assert verdict is not None  # of one that is silent there always is one
        return f"{verdict.after_timeout()}: it is stopped (SIGSTOP)"

    def _end(self, one: Heartbeat, reason: str, now: float) -> None:
        if one.local_rank in self._reasons and self._reasons[one.local_rank][0].pid == one.pid:
            return
        self._reasons[one.local_rank] = (one, reason, now)
        _abort(one.pid)
        _send(one.pid, signal.SIGCONT)  # a stopped process takes no other signal


def stack_of_main_thread(text: str) -> str:
    """Shorten what faulthandler writes to its first line, and the frames of the thread that the signal met."""
    if not text.strip():
        return ""
    title, *sections = re.split(r"\n\n(?=(?:Current thread|Thread|Stack) )", text.strip())
    current = [part for part in sections if part.startswith("Current") and _TERMINATED not in part]
    chosen = (current or sections or [""])[-1]
    chosen = chosen.split("\n\n")[0]  # a list of extension modules may follow
    lines = [
        line for line in chosen.splitlines() if "/launch/processes/rank.py" not in line and "<frozen runpy>" not in line
    ]
    return "\n".join([title.splitlines()[0], *lines[:MAX_TRACEBACK_LINES]])


def _abort(pid: int) -> None:
    """Send SIGABRT to the main thread, whose stack is wanted. One that is sent to a stopped process as a whole is taken
    by whichever thread wakes first, and the main thread goes on until then."""
    to_thread = getattr(ctypes.CDLL(None), "tgkill", None)  # since glibc 2.30
    if to_thread is None or to_thread(pid, pid, int(signal.SIGABRT)) != 0:
        _send(pid, signal.SIGABRT)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has just ended by itself
        return
