"""Run jobs on as many lanes as there are cores, the longest first, and end with the seconds that each took.

The jobs are those of `jobs.py`. What a job prints goes to build/ci/<name>.log; it is shown when the job ends, whole
where it failed. A job that fails stops no other one. The exit code is 1 when a job failed, or could not start because
one that it needs failed. Only the standard library: this runs before anything is installed.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

LOGS = Path("build/ci")
# A line for whoever watches, while nothing ends [s].
HEARTBEAT = 60.0
# (A signal that comes just before it waits is only heeded when it waits again.)
LOOK = 0.5
# Lines of a log that are shown of a job that passed.
SHOWN = 25


@dataclass(frozen=True)
class Job:
    """What runs in one lane.

    Args:
        seconds: about how long it takes on a quiet core; the longest start first.
        needs: names of jobs that must have passed before.
        aside: takes no lane, runs beside the lanes at low priority, one such job at a time (installing).
        alone: nothing runs beside it (measuring).
    """

    name: str
    command: str
    seconds: int = 0
    needs: tuple[str, ...] = ()
    aside: bool = False
    alone: bool = False


@dataclass
class _State:
    waiting: list[Job]
    running: dict[str, Job] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    """Exit codes of ended jobs; negative ones are signals."""
    took: dict[str, float] = field(default_factory=dict)

    def startable(self, lanes: int) -> Job | None:
        """The next job to start, or None while there is nothing to start."""
        busy = [job for job in self.running.values() if not job.aside]
        if any(job.alone for job in busy):
            return None
        aside = any(job.aside for job in self.running.values())
        for job in sorted(self.waiting, key=lambda job: (job.alone, -job.seconds)):
            if not all(self.codes.get(name) == 0 for name in job.needs):
                continue
            if job.aside:
                fits = not aside
            elif job.alone:
                # Last, so that it waits for no lane while others could use it.
                fits = not self.running and all(other.alone for other in self.waiting)
            else:
                fits = len(busy) < lanes
            if fits:
                return job
        return None

    def lost(self) -> Job | None:
        """A job that cannot start any more."""
        return next((job for job in self.waiting if any(self.codes.get(name, 0) for name in job.needs)), None)


def run(jobs: Sequence[Job], lanes: int, logs: Path) -> dict[str, tuple[int | None, float]]:
    """Run all of them; gives exit code (None where one was not started) and seconds of each.

    Raises:
        ValueError: a job needs one that there is not, or they need each other in a circle.
    """
    names = [job.name for job in jobs]
    for job in jobs:
        if unknown := [name for name in job.needs if name not in names]:
            raise ValueError(f"{job.name} needs {', '.join(unknown)}, which no job is called")
    logs.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    state, ended = _State(list(jobs)), queue.SimpleQueue[tuple[Job, int, float] | int]()
    started: dict[str, subprocess.Popen[bytes]] = {}

    told = began

    def say(text: str) -> None:
        nonlocal told
        told = time.monotonic()
        print(f"[{time.monotonic() - began:6.0f} s] {text}", flush=True)

    def start(job: Job) -> None:
        say(f"{job.name}: {job.command}")
        at = time.monotonic()
        with (logs / f"{job.name}.log").open("wb") as log:
            words = ["nice", "-n", "10", *_SHELL] if job.aside else _SHELL
            process = subprocess.Popen(
                [*words, job.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started[job.name] = process
        threading.Thread(target=lambda: ended.put((job, process.wait(), time.monotonic() - at)), daemon=True).start()
        state.running[job.name] = job

    with _ending_all(started, ended):
        while state.waiting or state.running:
            while job := state.startable(lanes):
                state.waiting.remove(job)
                start(job)
            while job := state.lost():
                state.waiting.remove(job)
                state.codes[job.name] = 1
                say(f"{job.name} was not started: something that it needs failed")
            if not state.running:
                if state.waiting:
                    raise ValueError(f"these need each other: {', '.join(job.name for job in state.waiting)}")
                break
            try:
                came = ended.get(timeout=LOOK)
            except queue.Empty:
                if time.monotonic() - told >= HEARTBEAT:
                    say(f"at work: {', '.join(state.running)}")
                continue
            if isinstance(came, int):
                raise SystemExit(128 + came)
            job, code, seconds = came
            del state.running[job.name], started[job.name]
            state.codes[job.name], state.took[job.name] = code, seconds
            say(f"{job.name} {'passed' if code == 0 else f'FAILED with exit code {code}'} after {seconds:.0f} s")
            show(logs / f"{job.name}.log", whole=code != 0)
    return {name: (state.codes[name] if name in state.took else None, state.took.get(name, 0.0)) for name in names}


_SHELL = ("bash", "-euo", "pipefail", "-c")


@contextlib.contextmanager
def _ending_all(started: dict[str, subprocess.Popen[bytes]], ended: queue.SimpleQueue[Any]) -> Iterator[None]:
    """Where this program is ended, so are its jobs with all that they started in their sessions."""

    def stop(number: int, frame: FrameType | None) -> None:
        # (An exception here would come out of whatever is at work, such as a lock that is half taken.)
        ended.put(number)

    kept = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, kept)
        for process in started.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def show(log: Path, *, whole: bool) -> None:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if not whole and len(lines) > SHOWN:
        print(f"    ... {len(lines) - SHOWN} lines before these in {log}")
        lines = lines[-SHOWN:]
    for line in lines:
        print(f"    {line}")
    sys.stdout.flush()


def main(jobs: Sequence[Job]) -> int:
    """Run them from the folder that this is started in, with a table at the end."""
    began = time.monotonic()
    results = run(jobs, os.cpu_count() or 1, LOGS)
    print(f"\n{'suite':<20} {'seconds':>8}")
    for name, (code, seconds) in results.items():
        end = "" if code == 0 else "  not started" if code is None else f"  FAILED ({code})"
        print(f"{name:<20} {seconds:>8.0f}{end}")
    print(f"{'in all':<20} {time.monotonic() - began:>8.0f}", flush=True)
    return 1 if any(code != 0 for code, _ in results.values()) else 0
