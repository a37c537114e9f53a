"""A training through the real launcher (`python -m drivetrain.training_scripts.launch`), torchrun and its ranks.

The ranks run `python -m tests.faults.harness.traced_train`, the train program that writes down each step it takes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from drivetrain.processes.process_table import descendants, send
from drivetrain.steps.trainings import EXECUTION
from drivetrain.training.launch.processes.parent import announce_parent
from tests.faults.harness.progress import ROOT
from tests.faults.harness.training import Case, trace

FOLDER, ATTEMPT = "FAULTS_FOLDER", "FAULTS_ATTEMPT"
_TICK_S = 0.01


class Launched:
    """One start, whose output goes to `log-<attempt>-launcher.txt`."""

    def __init__(self, case: Case, data: Path, folder: Path, attempt: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.attempt, self.case = folder, attempt, case
        environment = announce_parent(os.environ) | {
            FOLDER: str(folder),
            ATTEMPT: str(attempt),
            EXECUTION: "one",
        }
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        command = [
            *(sys.executable, "-m", "drivetrain.training_scripts.launch", f"--processes={case.world_size}"),
            *("tests.faults.harness.traced_train", *case.words(data, folder)),
        ]
        with (folder / f"log-{attempt}-launcher.txt").open("wb") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def until_step(self, step: int, timeout: float) -> bool:
        """Return once rank 0 has begun the `step`th step of this start; False where it ended before, or in time."""
        deadline = time.monotonic() + timeout
        while len(trace(self.folder, self.attempt, 0)) < step:
            if self.process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(_TICK_S)  # another process writes the trace, which announces nothing
        return True

    def until_ranks(self, timeout: float) -> bool:
        """Return once every rank is a process; False where the launcher ended before, or in time."""
        deadline = time.monotonic() + timeout
        while len(self.ranks()) < self.case.world_size:
            if self.process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(_TICK_S)
        return True

    def wait(self, timeout: float) -> int | None:
        """The exit code; None where it goes on after `timeout`."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def ranks(self) -> dict[int, int]:
        """The process of each rank that lives."""
        found: dict[int, int] = {}
        for pid in descendants(self.process.pid):
            try:
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            rank = next((entry for entry in variables if entry.startswith(b"RANK=")), None)
            if rank and b"tests.faults.harness.traced_train" in words:
                found[int(rank.removeprefix(b"RANK="))] = pid
        return found

    def kill_everything(self) -> None:
        """As when the machine is taken back."""
        below = descendants(self.process.pid)
        for pid in (self.process.pid, *below):
            send(pid, signal.SIGKILL)
        self.process.wait()

    def log(self) -> str:
        return (self.folder / f"log-{self.attempt}-launcher.txt").read_text()[-2000:]

    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_everything()
