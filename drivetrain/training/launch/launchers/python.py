"""One process a host, started directly: torchrun would import torch once more only to watch it."""

from __future__ import annotations

import os
from dataclasses import replace

from drivetrain.base.errors import InputError
from drivetrain.training.launch.job import Ended, Job, rank_command
from drivetrain.training.launch.launchers._processes import run_processes

SUMMARY = "one process a host, as it is"
_THREADS = "OMP_NUM_THREADS"


def run(job: Job) -> Ended:
    if job.cluster.processes > 1:
        raise InputError(
            f"launcher=python starts one process a host, but {job.cluster.processes} are asked for. "
            "Choose torchrun or mpirun, or 1 process."
        )
    if job.program.kind == "module":
        place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        # On several hosts they are not one group, unless the program makes them one from DRIVETRAIN_HOSTS or SM_HOSTS.
        own = place if len(job.cluster.hosts) == 1 else {}
    else:
        # A script of the user's own finds what plain Python would give it: it may take RANK for a sign that it is part
        # of a group. It may also start processes of its own, which share out the cores as it sees fit. Where they meet
        # AWS's PyTorch container says to any script (sagemaker-pytorch-training 3.0.0, training.py).
        own = {"MASTER_ADDR": job.cluster.hosts[0], "MASTER_PORT": str(job.cluster.port)}
        kept = {name: value for name, value in job.environment.items() if name != _THREADS or name in os.environ}
        job = replace(job, environment=kept)
    return run_processes(job, [(job.cluster.host_index, rank_command(job.program), own)])
