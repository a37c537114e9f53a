"""Processes as DeepSpeed's launcher starts them on each host: its variables, and `--local_rank=N` for the program.

The hosts are the platform's, so no hostfile is read, and nothing goes from host to host by pdsh or ssh: each host
starts its own processes (deepspeed/launcher/launch.py, what `deepspeed --no_ssh` comes to).
https://www.deepspeed.ai/getting-started/#launching-deepspeed-training
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from drivetrain.base.errors import InputError
from drivetrain.base.ports import held_port
from drivetrain.training.launch.cluster import num_gpus
from drivetrain.training.launch.job import Ended, Job, rank_command
from drivetrain.training.launch.launchers._processes import places, run_processes
from drivetrain.training.launch.processes.rank import KERNELS
from drivetrain.training.torch import extensions

SUMMARY = "processes with DeepSpeed's variables and --local_rank; no ssh"


def run(job: Job) -> Ended:
    """
    Raises:
        InputError: the program is no Python file or module, which --local_rank is for.
    """
    cluster, program = job.cluster, job.program
    if program.kind == "command":
        raise InputError(
            f"launcher=deepspeed starts a Python script or module, and {program.target} is neither. Give the script; "
            "or start what runs `deepspeed` itself with launcher=python."
        )
    with ExitStack() as stack:
        port = cluster.port
        if len(cluster.hosts) == 1:
            port = stack.enter_context(held_port()).getsockname()[1]
        common = {
            "MASTER_ADDR": cluster.hosts[0],
            "MASTER_PORT": str(port),
            "LOCAL_SIZE": str(cluster.processes),
            "CROSS_RANK": str(cluster.host_index),
            "CROSS_SIZE": str(len(cluster.hosts)),
        }
        if num_gpus(job.environment):
            common |= {KERNELS: "compiled", extensions.FOLDER: extensions.folder(job.environment)}
        else:
            common |= {KERNELS: "none", "DS_ACCELERATOR": job.environment.get("DS_ACCELERATOR", "cpu")}
        processes = []
        for local_rank, (rank, place) in enumerate(places(cluster)):
            told = replace(program, arguments=(f"--local_rank={local_rank}", *program.arguments))
            processes.append((rank, rank_command(told), {**common, **place}))
        return run_processes(job, processes)
