"""Show where a process of a job is at this moment: every rank answers a signal by writing down the stacks of its
threads.

    python -m drivetrain.training.launch.processes.stacks      all ranks of this machine or container

Python's faulthandler writes them in the signal's handler itself, so a rank that waits in native code for a collective
answers as well. Where py-spy is installed it is asked instead: it sees native frames, too.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from drivetrain.training.launch.processes.heartbeat import process_state, read_heartbeats

# One that nobody else uses: scripts take SIGUSR1 and SIGUSR2 for their own purposes.
SIGNAL = signal.SIGRTMIN + 7
_SUFFIX = ".asked"
_TELLING = ("cmdline", "mountinfo")
_ANSWER_SECONDS, _QUIET_SECONDS = 3.0, 0.1
_PY_SPY_SECONDS = 20.0


def register(folder: Path, local_rank: int) -> TextIO:
    """Answer `stack_of` from now on; the file must be kept open."""
    file = (folder / f"{local_rank}{_SUFFIX}").open("w", encoding="utf-8")
    faulthandler.register(SIGNAL, file, all_threads=True)
    return file


@dataclass(frozen=True)
class RankProcess:
    """A process of a job on this machine, which answers in a file of `folder`."""

    rank: int
    local_rank: int
    pid: int
    folder: Path


def ranks_with(text: str) -> list[RankProcess]:
    """The ranks on this machine in whose command line or mounts `text` stands, by rank. (What a runner has forked into
    folders of its own has no command line that would tell.)"""
    found: list[RankProcess] = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or not any(text.encode() in _read(place / name) for name in _TELLING):
            continue
        asked = _answers_in(place)
        if asked is None:
            continue
        # (By its number, and not by its process id, which may be another one where it runs.)
        local_rank = int(asked.stem)
        beats = {one.local_rank: one for one in read_heartbeats(asked.parent)}
        if local_rank in beats and not beats[local_rank].done:
            found.append(RankProcess(beats[local_rank].rank, local_rank, int(place.name), asked.parent))
    return sorted(found, key=lambda process: process.rank)


def stack_of(process: RankProcess) -> str:
    """The stacks of its threads, the most recent call first; in words where it gives none."""
    state = process_state(process.pid)
    if state == "":
        return "it has ended"
    if state in "Tt":
        return "it is stopped (SIGSTOP, or a debugger) and answers nobody; kill -CONT lets it go on"
    if (spy := shutil.which("py-spy")) is not None:
        command = [spy, "dump", "--pid", str(process.pid)]
        asked = subprocess.run(command, capture_output=True, text=True, timeout=_PY_SPY_SECONDS, check=False)
        if asked.returncode == 0:
            return asked.stdout.strip()
    file = process.folder / f"{process.local_rank}{_SUFFIX}"
    before = file.stat().st_size
    os.kill(process.pid, SIGNAL)
    deadline, size, since = time.monotonic() + _ANSWER_SECONDS, before, time.monotonic()
    while time.monotonic() < deadline and (size == before or time.monotonic() - since < _QUIET_SECONDS):
        time.sleep(0.01)  # a file has no event that says it is whole
        if (now := file.stat().st_size) != size:
            size, since = now, time.monotonic()
    with file.open("rb") as written:
        written.seek(before)
        return written.read().decode("utf-8", "replace").strip() or "it does not answer"


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has just ended, or belongs to another user
        return b""


def _answers_in(place: Path) -> Path | None:
    """The file in which a process answers, which it keeps open."""
    try:
        for entry in (place / "fd").iterdir():
            target = os.readlink(entry)
            inside = place / "root" / target.lstrip("/")  # as the process sees it
            if target.endswith(_SUFFIX) and inside.is_file():
                return inside
    except OSError:
        return None
    return None


def main() -> None:
    for process in ranks_with(""):
        print(f"rank {process.rank} (process {process.pid})\n{stack_of(process)}\n", flush=True)


if __name__ == "__main__":
    main()
