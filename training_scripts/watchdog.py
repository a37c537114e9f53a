"""The launcher's eye on its host's processes: who hangs, and where.

A process hangs when it has counted heartbeats and stops counting, when it stays stopped (SIGSTOP, a debugger), or when
its peers say that it did not come to a collective before they timed out (missing_peers.py). It is sent SIGABRT, on
which Python writes down where each of its threads was, and its end ends the job.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from drivetrain.training_scripts.failure import MAX_TRACEBACK_LINES, Failure
from drivetrain.training_scripts.heartbeat import Heartbeat, read_heartbeats

# Written by a process that waited in vain: the ranks that it waited for.
ABSENT_FILE = "absent.json"
# Between SIGABRT and SIGKILL: what it takes to write a traceback.
_ABORT_SECONDS = 5.0


@dataclass
class _Seen:
    beat: Heartbeat
    changed: float
    stopped_since: float | None = None


class Watchdog:
    """`tick` looks around; `failures` says whom it has ended, and why."""

    def __init__(self, folder: Path, *, hang_timeout: float) -> None:
        self.folder = folder
        self.hang_timeout = hang_timeout
        self._seen: dict[int, _Seen] = {}
        self._reasons: dict[int, tuple[Heartbeat, str, float]] = {}
        self.attempt = 0

    def tick(self) -> None:
        now = time.monotonic()
        beats = [one for one in read_heartbeats(self.folder) if not one.done]
        self.attempt = max([self.attempt, *(one.attempt for one in beats)])
        for one in beats:
            seen = self._seen.get(one.local_rank)
            if seen is None or seen.beat != one:
                seen = self._seen[one.local_rank] = _Seen(one, now, seen.stopped_since if seen else None)
            seen.stopped_since = (seen.stopped_since or now) if _state(one.pid) in ("T", "t") else None
        for one, reason in self._hanging(beats, now):
            self._end(one, reason, now)
        for one, _, ended in self._reasons.values():
            if now - ended > _ABORT_SECONDS and _state(one.pid) not in ("", "Z"):
                _send(one.pid, signal.SIGKILL)

    def failures(self) -> list[Failure]:
        """Of the last attempt."""
        return [
            Failure(beat.rank, "hang", reason, self._where(beat.local_rank), exit_code=-signal.SIGABRT)
            for beat, reason, _ in self._reasons.values()
            if beat.attempt == self.attempt
        ]

    def where(self, local_rank: int) -> str:
        """Where a process was when native code, or we, ended it; empty where it left nothing."""
        return self._where(local_rank)

    def _hanging(self, beats: list[Heartbeat], now: float) -> list[tuple[Heartbeat, str]]:
        found = [
            (one, "it did not come to a collective before the others timed out")
            for one in beats
            if one.rank in self._absent(one.attempt)
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
        # Those that wait for it are silent, too: whoever has counted least is the one they wait for.
        least = min(one.beats for one in beats)
        return [
            (one, f"no heartbeat for {now - self._seen[one.local_rank].changed:.0f} s, after {one.beats} of them")
            for one in silent
            if one.beats == least
        ]

    def _absent(self, attempt: int) -> list[int]:
        try:
            said = json.loads((self.folder / ABSENT_FILE).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # nobody has said so yet, or is just writing
            return []
        return said["ranks"] if said["attempt"] == attempt else []

    def _end(self, one: Heartbeat, reason: str, now: float) -> None:
        if one.local_rank in self._reasons and self._reasons[one.local_rank][0].pid == one.pid:
            return
        self._reasons[one.local_rank] = (one, reason, now)
        _send(one.pid, signal.SIGABRT)
        _send(one.pid, signal.SIGCONT)  # a stopped process takes no other signal

    def _where(self, local_rank: int) -> str:
        try:
            text = (self.folder / f"{local_rank}.stack").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return stack_of_main_thread(text)


def stack_of_main_thread(text: str) -> str:
    """From what faulthandler writes: its first line, and the frames of the thread that the signal met."""
    if not text.strip():
        return ""
    title, *sections = re.split(r"\n\n(?=(?:Current thread|Thread|Stack) )", text.strip())
    chosen = next((part for part in sections if part.startswith("Current")), sections[-1] if sections else "")
    chosen = chosen.split("\n\n")[0]  # a list of extension modules may follow
    lines = [
        line for line in chosen.splitlines() if "/training_scripts/rank.py" not in line and "<frozen runpy>" not in line
    ]
    return "\n".join([title.splitlines()[0], *lines[:MAX_TRACEBACK_LINES]])


def _state(pid: int) -> str:
    """The process's state letter of proc(5); "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return ""


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has just ended by itself
        return
