"""A container without docker: supervised process trees that see a folder of the run as /opt/ml.

    running = start(job, record=ledger_writes_the_processes)
    result = running.wait()

Every host of a job runs under a supervisor of its own (supervisor.py), which ends all that the job started when the
job stops, fails, exceeds its time, or when this process dies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drivetrain.pipelines.targets.local.processes import ProcessRecord

Mode = Literal["auto", "namespace", "rewrite"]


@dataclass(frozen=True)
class Host:
    """One host: `name` is its loopback address (127.0.0.1, 127.0.0.2, ...), `root` the folder that becomes /opt/ml."""

    name: str
    root: Path


@dataclass(frozen=True, kw_only=True)
class Job:
    """What starts, the same on every host.

    `command` is the argument list (no shell) with paths as the container sees them (/opt/ml/...); `environment` the
    container's own variables, to which only PATH (this Python's folder first), HOME and the locale of the runner are
    added, never its secrets. Logs go to `<log_folder>/<host name>.log`, stdout and stderr together, appended to as
    they are written. After `time_limit_s` the job is stopped like one that the user stops: SIGTERM to the command,
    `grace_s` later SIGTERM and then SIGKILL to all that is left. `working_folder` is where the command starts.
    `code` names the folders, as the container sees them, that hold the user's program; in `rewrite` mode they are
    searched for a literal /opt/ml (those that an argument of `command` leads to are searched anyway).
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    hosts: tuple[Host, ...]
    log_folder: Path
    time_limit_s: float | None = None
    grace_s: float = 120.0
    mode: Mode = "auto"
    working_folder: str = "/opt/ml"
    code: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostResult:
    """How one host ended. `exit_code` is None when a signal ended the command (or it never started: then 127)."""

    host: str
    exit_code: int | None
    signal: int | None
    timed_out: bool
    failure_reason: str | None
    cpu_s: float
    max_rss_bytes: int
    started_at: float
    ended_at: float


@dataclass(frozen=True)
class JobResult:
    """How the job ended; of several hosts that failed, the one that failed first.

    `failure_reason` is what the program wrote to /opt/ml/output/failure (or output/message), else the end of its log;
    None when every host ended with 0. `stopped` says that `RunningJob.stop` was called, `timed_out` that the time
    limit ended it.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    stopped: bool
    failed_host: str | None
    failure_reason: str | None
    cpu_s: float
    wall_s: float
    hosts: tuple[HostResult, ...]

    @property
    def succeeded(self) -> bool:
        return self.failed_host is None and not self.timed_out and not self.stopped


class RunningJob:
    """A started job."""

    @property
    def processes(self) -> tuple[ProcessRecord, ...]:
        """The supervisors, for the ledger."""
        ...

    def wait(self, timeout: float | None = None) -> JobResult | None:
        """Wait until nothing of the job lives; None when `timeout` (seconds) passed first. Call it again then.

        While it waits, the failure of one host ends the others. Safe to call in one thread while another one calls
        `stop`.
        """
        ...

    def stop(self, grace_s: float | None = None) -> None:
        """Ask every host to end (SIGTERM, then SIGKILL after the grace); returns at once, `wait` gives the result."""
        ...


def start(job: Job, *, record: Callable[[Sequence[ProcessRecord]], None] | None = None) -> RunningJob:
    """Start every host of a job.

    `record` is called with the supervisors before they start anything: what it writes is on disk before the program
    can do something, so that a runner killed at any instant leaves no process that its ledger does not know.

    Raises:
        UserError: a mode that this machine does not allow; in rewrite mode, a script with a literal /opt/ml.
    """
    ...
