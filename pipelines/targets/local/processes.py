"""Which processes are ours, and how they are ended: read from /proc, standard library only.

A process is known by its pid together with its start time, since pids are used again. The supervisor, which starts
without site-packages, imports this file too, so nothing else of the package is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessRecord:
    """What the ledger keeps of a supervisor, so that a later run can end what a dead one left.

    `start_time` is field 22 of /proc/PID/stat (clock ticks since boot) and `boot` the kernel's boot id: the three
    together name one process for ever. `token` stands in the environment of every process of the job
    (DRIVETRAIN_JOB), by which descendants are found even after their supervisor was killed.
    """

    pid: int
    start_time: int
    boot: str
    token: str
