"""A launcher's job and its result."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.steps.forked import Forked
from drivetrain.steps.programs import check
from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.processes.failure import Failure


@dataclass(frozen=True)
class Program:
    """A Python module, a Python script, or a command (any executable file), and its arguments, passed on unchanged."""

    kind: Literal["module", "script", "command"]
    target: str
    arguments: tuple[str, ...] = ()

    @staticmethod
    def of_script(path: str, arguments: Sequence[str]) -> Program:
        """
        Raises:
            InputError: no such file, or one that is neither Python nor executable.
        """
        if not os.path.isfile(path):
            raise InputError(f"no script {path!r} in {os.getcwd()}. Give the path of a file.")
        if path.endswith(".py"):
            return Program("script", path, tuple(arguments))
        if not os.access(path, os.X_OK):
            raise InputError(f"script {path!r} is neither Python (.py) nor executable. Make it so: chmod +x {path}")
        return Program("command", os.path.abspath(path), tuple(arguments))

    @property
    def words(self) -> list[str]:
        """For `python -m drivetrain.training.launch.processes.rank`."""
        return [self.kind, self.target, *self.arguments]


def rank_command(program: Program) -> list[str]:
    """The command line of one process, supervised from inside (drivetrain.training.launch.processes.rank)."""
    return [sys.executable, "-u", "-m", RANK_MODULE, *program.words]


RANK_MODULE = "drivetrain.training.launch.processes.rank"
# What mpirun hands on to every process where the launcher was sent SIGTERM.
MPI_STOP = signal.SIGUSR2


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a program's processes are started and watched. Each is an option of launch.py, and a variable
    (DRIVETRAIN_LAUNCHER, DRIVETRAIN_MAX_RESTARTS, ...)."""

    launcher: str = "auto"
    """torchrun, mpirun, python or tf_config; auto: python for one process, and for Drivetrain's own programs on one
    host, without restarts; else torchrun."""
    rendezvous: Literal["auto", "static", "c10d"] = "auto"
    """static: ranks in the order of the hosts; c10d: hosts may come, go and restart; auto: static unless restarts or
    a range of hosts need c10d."""
    max_restarts: Annotated[int, Bounds(0)] = 0
    """How often torchrun starts all processes anew after one has failed."""
    hang_timeout: Annotated[float, Bounds(0, below=10**9)] = 1800.0
    """Seconds without a heartbeat after which a process is taken to hang; 0: never."""
    resolve_timeout: Annotated[float, Bounds(0, below=10**9)] = 300.0
    """Seconds to wait for the names of all hosts; a host of the same job can come up much later than the first."""
    join_timeout: Annotated[float, Bounds(0, below=10**9)] = 600.0
    """Seconds to wait for the other hosts' launchers once their names are known."""
    last_call: Annotated[float, Bounds(0, below=10**9)] = 30.0
    """Seconds to wait for more hosts when the least number of a range is there."""
    stop_timeout: Annotated[int, Bounds(1)] = 90
    """Seconds that processes have to save and leave after SIGTERM. The platform sends SIGKILL after 120: the rest is
    for torchrun, for us, and for the platform's own clock."""
    checkpoints: str = ""
    """The folder or URI that outlives a start: interruptions are counted there."""
    publish: str = ""
    """The model's folder, which gets the files in `checkpoints` when the program has ended well."""
    max_interruptions: Annotated[int, Bounds(0)] = 0
    """How often in a row the job may be interrupted and started again; 0: any number of times."""
    spot_notice: Literal["auto", "on", "off"] = "auto"
    """Ask the machine's metadata service if the machine is about to be taken away: on, off, or auto, which
    asks where a platform runs us."""
    roles: str = ""
    """With launcher=tf_config: how many processes of all hosts are what, such as chief=1,worker=2,ps=1; empty: all are
    workers."""

    def __post_init__(self) -> None:
        check(self)
        if self.max_interruptions and not self.checkpoints:
            raise InputError(
                f"max_interruptions={self.max_interruptions} is counted in the checkpoints folder. Give "
                "--checkpoints FOLDER, or leave max_interruptions out."
            )
        if self.launcher != "torchrun" and self.launcher != "auto" and (self.max_restarts or self.rendezvous != "auto"):
            raise InputError(f"launcher={self.launcher} has no restarts and no rendezvous; torchrun has.")
        if self.roles and self.launcher != "tf_config":
            raise InputError(
                f"roles={self.roles!r} are those of TF_CONFIG. Give launcher=tf_config, or leave them out."
            )


@dataclass(frozen=True, kw_only=True)
class Job:
    """One host's part. `environment` is that of its processes; `folder` a fresh one for this run, in which `ranks` is
    where processes report; `tick` is to be called about once a second while they run."""

    cluster: Cluster
    program: Program
    options: Options
    environment: Mapping[str, str]
    folder: Path
    tick: Callable[[], None] = field(default=lambda: None)
    forked: Sequence[Forked] = ()
    """Processes that wait for the programs of this host; none where they are to be executed."""

    @property
    def ranks(self) -> Path:
        return self.folder / "ranks"


@dataclass(frozen=True)
class Ended:
    """How it ended: `code` (negative: the signal that ended what was started), the stop signal that we were sent, the
    ranks of this host that failed, and who it was that ended with `code`."""

    code: int
    stopped: signal.Signals | None
    failures: list[Failure]
    who: str
