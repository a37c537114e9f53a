"""Processes that find each other through TensorFlow's TF_CONFIG, one variable with the whole cluster in it."""

from __future__ import annotations

from drivetrain.training.launch.job import Ended, Job, rank_command
from drivetrain.training.launch.launchers._processes import places, run_processes
from drivetrain.training.launch.tf_config import tf_config

SUMMARY = "processes with TF_CONFIG, for TensorFlow's multi-worker strategies"


def run(job: Job) -> Ended:
    cluster = job.cluster
    processes = []
    for local_rank, (rank, place) in enumerate(places(cluster)):
        own = {
            **place,
            "TF_CONFIG": tf_config(cluster, local_rank),
            # Where rank 0 listens for what is no gradient: behind the ports of its host's processes.
            "MASTER_ADDR": cluster.hosts[0],
            "MASTER_PORT": str(cluster.port + cluster.processes),
        }
        processes.append((rank, rank_command(job.program), own))
    return run_processes(job, processes)
