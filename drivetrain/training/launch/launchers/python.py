"""The processes of one host, started directly: torchrun would import torch once more only to watch them.

Several processes are one torch.distributed group: they find the variables that torchrun would have set.
"""

from __future__ import annotations

import os
from dataclasses import replace

from drivetrain.base.errors import InputError
from drivetrain.base.ports import held_port
from drivetrain.training.launch.cluster import LOCALHOST
from drivetrain.training.launch.job import Ended, Job, rank_command
from drivetrain.training.launch.launchers._processes import places, run_processes

SUMMARY = "the processes of one host, as they are; of several hosts one process each"
_THREADS = ("OMP_NUM_THREADS", "GOMP_SPINCOUNT")


def run(job: Job) -> Ended:
    """
    Raises:
        InputError: several processes a host that torchrun has to join.
    """
    processes, hosts = job.cluster.processes, len(job.cluster.hosts)
    if processes > 1 and (hosts > 1 or job.program.kind != "module"):
        raise InputError(
            f"launcher=python starts one process a host (a module's on one host: any number), but {processes} are "
            "asked for. Choose torchrun or mpirun, or 1 process."
        )
    if job.program.kind == "module":
        # On several hosts they are not one group, unless the program makes them one from DRIVETRAIN_HOSTS or SM_HOSTS.
        if hosts > 1:
            return run_processes(job, [(job.cluster.host_index, rank_command(job.program), {})])
        with held_port() as held:
            port = str(held.getsockname()[1])
            meeting = {"MASTER_ADDR": LOCALHOST, "MASTER_PORT": port} if processes > 1 else {}
            command = rank_command(job.program)
            return run_processes(job, [(rank, command, place | meeting) for rank, place in places(job.cluster)])
    # A script of the user's own finds what plain Python would give it: it may take RANK for a sign that it is part
    # of a group. It may also start processes of its own, which share out the cores as it sees fit. Where they meet
    # AWS's PyTorch container says to any script (sagemaker-pytorch-training 3.0.0, training.py).
    own = {"MASTER_ADDR": job.cluster.hosts[0], "MASTER_PORT": str(job.cluster.port)}
    kept = {name: value for name, value in job.environment.items() if name not in _THREADS or name in os.environ}
    return run_processes(replace(job, environment=kept), [(job.cluster.host_index, rank_command(job.program), own)])
