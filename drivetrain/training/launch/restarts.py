"""Report what torchrun leaves out when it restarts its processes."""

from __future__ import annotations

from pathlib import Path

from drivetrain.base.errors import FAILED, InputError
from drivetrain.training.launch import network
from drivetrain.training.launch.job import Options
from drivetrain.training.launch.processes.failure import Failure, from_rank, json_or_none, root_cause
from drivetrain.training.launch.processes.watchdog import Watchdog


class Restarts:
    """Says why torchrun starts its processes anew, which torchrun itself does not."""

    def __init__(self, folder: Path, watchdog: Watchdog, options: Options) -> None:
        self.folder, self.watchdog, self.options = folder, watchdog, options
        self.told = 0

    def tick(self) -> None:
        while self.told < min(self.watchdog.attempt, self.options.max_restarts):
            failures = attempt_failures(self.folder / "torchrun", self.told)
            self.told += 1
            reason = "another host's process failed"
            if failures:
                cause = root_cause(failures)
                if cause.kind == "input":  # torchrun does not know that the same would happen again
                    raise InputError(cause.summary)
                reason = f"rank {cause.rank}: {(cause.summary.splitlines() or [''])[0]}"
            network.say(f"restart {self.told} of {self.options.max_restarts} ({reason})")


def attempt_failures(folder: Path, attempt: int) -> list[Failure]:
    """Read what this host's ranks reported in one of torchrun's attempts."""
    found = []
    for path in sorted(folder.glob(f"*/attempt_{attempt}/*/error.json")):
        record = json_or_none(path)
        found.append(from_rank(int(path.parent.name), FAILED, record))
    return found
