"""One process a host, started directly: torchrun would import torch once more only to watch it."""

from __future__ import annotations

from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.job import Ended, Job, rank_command
from drivetrain.training_scripts.launchers._processes import run_processes

SUMMARY = "one process a host, as it is"


def run(job: Job) -> Ended:
    if job.cluster.processes > 1:
        raise InputError(
            f"launcher=python starts one process a host, but {job.cluster.processes} are asked for. "
            "Choose torchrun or mpirun, or 1 process."
        )
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    # On several hosts they are not one group, unless the program makes them one from DRIVETRAIN_HOSTS or SM_HOSTS.
    own = place if len(job.cluster.hosts) == 1 else {}
    return run_processes(job, [(job.cluster.host_index, rank_command(job.program), own)])
