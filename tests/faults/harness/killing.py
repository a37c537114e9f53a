"""Kill a runner, see that nothing of it lives, and hold what a later run makes against an uninterrupted one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.processes.process_table import descendants
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore, sha256_of, walk
from drivetrain.run_store.reader import Ledger
from drivetrain.training.launch.processes.parent import follows_parent

ROOT = Path(__file__).parents[3]
GONE_WITHIN_S = 5.0


@dataclass(frozen=True)
class Outcome:
    """What a finished run left: files by key (the execution's id taken out), and what the ledger says."""

    files: dict[str, str]
    statuses: dict[str, str | None]
    succeeded_attempts: dict[str, int]
    models: int


def command(home: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.faults.harness.workload", str(home), *arguments]


def run(home: Path, *arguments: str) -> tuple[int, str]:
    """Run the workload to its end; gives exit code and stderr."""
    done = to_its_end(command(home, *arguments))
    return done.returncode, done.stderr


def to_its_end(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command that ends with this process, at the latest."""
    follow = follows_parent(signal.SIGKILL)
    return subprocess.run(words, cwd=ROOT, preexec_fn=follow, capture_output=True, text=True)


def kill_after(delay_s: float, home: Path, *arguments: str) -> tuple[bool, list[str]]:
    """Start the workload and SIGKILL it; gives whether it was still at work, and what of it lives 5 s later."""
    process = _start(home, *arguments)
    try:
        process.wait(delay_s)
        return False, []
    except subprocess.TimeoutExpired:
        return True, _kill(process, home)


def kill_when(ready: Callable[[], bool], patience_s: float, home: Path, *arguments: str) -> list[str]:
    """Start the workload and SIGKILL it once `ready`; gives what of it lives 5 s later."""
    process = _start(home, *arguments)
    deadline = time.monotonic() + patience_s
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            return ["the workload ended, or did not come far enough, before it could be killed"]
        time.sleep(0.02)
    return _kill(process, home)


def _start(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    null, follow = subprocess.DEVNULL, follows_parent(signal.SIGKILL)
    return subprocess.Popen(command(home, *arguments), cwd=ROOT, preexec_fn=follow, stdout=null, stderr=null)


def _kill(process: subprocess.Popen[bytes], home: Path) -> list[str]:
    below = descendants(process.pid)
    process.kill()
    process.wait()
    return left_in(home, below)


def left_in(home: Path, below: Sequence[int] = ()) -> list[str]:
    """What lives 5 s later of processes known by pid, or at work in a home."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while left := sorted({*(pid for pid in below if alive(pid)), *processes_in(home)}):
        if time.monotonic() > deadline:
            return [f"{pid}: {_command_line(pid)}" for pid in left]
        time.sleep(0.02)
    return []


def differences(found: Outcome, whole: Outcome) -> list[str]:
    """In what a resumed run differs from an uninterrupted one."""
    return [
        f"{what} differ: {_difference(getattr(found, what), getattr(whole, what))}"
        for what in ("files", "statuses", "succeeded_attempts", "models")
        if getattr(found, what) != getattr(whole, what)
    ]


def _difference(found: Any, whole: Any) -> str:
    if not isinstance(whole, dict):
        return f"{found} instead of {whole}"
    keys = [key for key in {**found, **whole} if found.get(key) != whole.get(key)]
    return ", ".join(f"{key}: {found.get(key)} instead of {whole.get(key)}" for key in keys[:4])


def processes_in(folder: Path) -> list[int]:
    """Processes that run in a folder, or have a file below it open."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            links = [f"/proc/{name}/cwd", *(f"/proc/{name}/fd/{fd}" for fd in os.listdir(f"/proc/{name}/fd"))]
            if any(os.readlink(link).startswith(str(folder)) for link in links):
                found.append(int(name))
        except OSError:
            continue  # it has just ended, or is another user's
    return found


def outcome(home: Home) -> Outcome:
    """What the latest execution left.

    Raises:
        AssertionError: the ledger is damaged, or what it says does not fit together.
    """
    import sqlite3

    with sqlite3.connect(home.ledger) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",), "the ledger is damaged"
    connection.close()
    with Ledger(home) as ledger:
        executions = ledger.executions(limit=100)
        row = executions[0]
        attempts = ledger.attempts(row.id)
        unfinished = [attempt for attempt in attempts if attempt.status in ("Executing", "Publishing")]
        assert not unfinished, f"attempts were left open: {unfinished}"
        store = ObjectStore(home.objects)
        for written in ledger.objects(row.id):
            path = store.path(written.uri)
            assert path.is_file() and sha256_of(path) == written.sha256, f"{written.uri} is not what the ledger says"
        steps = ledger.steps(row.id)
        succeeded = {step.name: 0 for step in steps}
        for attempt in attempts:
            succeeded[attempt.step] += attempt.status == "Succeeded"
    files: dict[str, str] = {}
    writers: dict[str, set[str]] = {}
    for name, path in walk(home.objects / "bucket" / "runs" / row.id):
        text = path.read_bytes()
        writer, newline, rest = text.partition(b"\n")
        if path.suffix == ".txt" and newline:
            # The first line names the process that wrote the file.
            writers.setdefault(name.rpartition("/")[0], set()).add(writer.decode())
            text = rest
        import hashlib

        # The name of a tuning's training ends in digits that its execution makes.
        known = re.sub(r"(-search-\d-\d{3})-[0-9a-f]{8}/", r"\1/", name.replace(row.id, "ID"))
        files[known] = hashlib.sha256(text).hexdigest()
    mixed = [folder for folder, names in writers.items() if len(names) > 1]
    assert not mixed, f"files of several runs lie in {mixed}"
    leftovers = [name for name, _ in walk(home.objects / ".incoming")] if (home.objects / ".incoming").exists() else []
    # Checkpoints that a kill interrupted may leave a copy behind; nobody reads it.
    assert len(leftovers) <= 2, f"copies were left behind: {leftovers}"
    registry = LocalRegistry(home.ledger)
    models = sum(group.num_versions for group in registry.groups())
    return Outcome(files, {step.name: step.status for step in steps}, succeeded, models)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be asked for its exit code does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] not in (b"Z", b"X")
    except OSError:
        return False


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return "ended meanwhile"
