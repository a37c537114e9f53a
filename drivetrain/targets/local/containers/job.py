"""What a container is asked to run, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from drivetrain.targets.local.containers.mounts import Mode


@dataclass(frozen=True)
class Host:
    """One host: `name` is its loopback address (127.0.0.1, 127.0.0.2, ...), `root` the folder that becomes /opt/ml.

    `environment` holds what differs from host to host (SM_CURRENT_HOST); it comes after the job's.
    """

    name: str
    root: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Job:
    """What starts, the same on every host.

    `command` is the argument list (no shell) with paths as the container sees them (/opt/ml/...); `environment` the
    container's own variables, to which only PATH (this Python's folder first), HOME, the locale and what finds a GPU
    are added from the runner's (INHERITED), never its secrets. Logs go to `<log_folder>/<host name>.log`, stdout and
    stderr together, line by line as they are written, without the `secrets` and what has the shape of one. After
    `time_limit_s` the job is stopped like one that the user stops: SIGTERM to the command, `grace_s` later SIGTERM and
    then SIGKILL to all that is left. `working_folder` is where the command starts. `code` names the folders, as the
    container sees them, that hold the user's program; in `rewrite` mode they are searched for a literal /opt/ml (those
    that an argument of `command` leads to are searched anyway).
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
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostResult:
    """How one host ended. `exit_code` is None when a signal ended the command.

    As in a container runtime 127 says that the command was not found and 126 that it could not be started.
    `started_at` and `ended_at` are seconds since the epoch, `cpu_s` user and system time of all its processes,
    `max_rss_bytes` the memory of the largest one.
    """

    host: str
    exit_code: int | None
    signal: int | None
    timed_out: bool
    stopped: bool
    failure_reason: str | None
    cpu_s: float
    max_rss_bytes: int
    started_at: float
    ended_at: float

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not self.timed_out and not self.stopped


@dataclass(frozen=True)
class JobResult:
    """How the job ended; of several hosts that failed, the one that failed first.

    `failure_reason` is what the program wrote to /opt/ml/output/failure (or output/message), else the end of its log;
    None when every host ended with 0. `stopped` says that `RunningJob.stop` was called, `timed_out` that the time
    limit ended it, `interrupted` that `RunningJob.interrupt` took its machines away before every host was done.
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
    interrupted: bool = False

    @property
    def succeeded(self) -> bool:
        return self.failed_host is None and not self.timed_out and not self.stopped and not self.interrupted
