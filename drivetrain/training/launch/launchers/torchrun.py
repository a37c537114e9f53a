"""Several processes a host as one torch.distributed group, through torchrun.

https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.job import RANK_MODULE, Ended, Job, Options, Program
from drivetrain.training.launch.processes.failure import from_rank, json_or_none
from drivetrain.training.launch.processes.supervision import supervise

SUMMARY = "processes that torch.distributed joins; static or elastic, with restarts"


def run(job: Job) -> Ended:
    """
    Raises:
        InputError: torch is not there.
    """
    if importlib.util.find_spec("torch") is None:
        raise InputError(
            "launcher=torchrun is torch's own, and torch is not installed here. Install it: pip install "
            "'drivetrain[torch]'; for a program without torch choose launcher=python or mpirun."
        )
    report = job.folder / "failures.json"
    command = torchrun_command(job.cluster, job.program, job.options, report=report, log_folder=job.folder / "torchrun")
    environment = dict(job.environment)
    if job.options.max_restarts or (len(job.cluster.hosts) > 1 and not is_static(job.cluster, job.options)):
        # torch 2.13 shares one store among all rounds of a c10d rendezvous: after a restart a rank finds the addresses
        # of those that are gone, and cannot connect. So rank 0 keeps a fresh one each time.
        environment.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    # torchrun itself still has a group to end when the time of its ranks is over.
    [code], stopped = supervise([(command, environment)], stop_seconds=job.options.stop_timeout + 10, tick=job.tick)
    found = json_or_none(report) or []
    return Ended(code, stopped, [from_rank(f["rank"], f["exit_code"], f["record"]) for f in found], "torchrun")


def is_static(cluster: Cluster, options: Options) -> bool:
    """Return True if the hosts meet once, in a fixed order. Hosts that may restart or be missing need c10d.

    Raises:
        InputError: static was asked for where it cannot be.
    """
    if len(cluster.hosts) == 1:
        return False
    needs = "a range of hosts" if cluster.is_elastic else "max_restarts" if options.max_restarts else ""
    if options.rendezvous == "static" and needs:
        raise InputError(f"rendezvous=static with {needs}: hosts that come again need c10d. Choose auto.")
    return options.rendezvous == "static" or (options.rendezvous == "auto" and not needs)


def torchrun_command(
    cluster: Cluster, program: Program, options: Options, *, report: Path, log_folder: Path
) -> list[str]:
    """The command line of torchrun for this host."""
    if len(cluster.hosts) == 1:
        # The rendezvous takes a free port of its own choosing, so any number of jobs can share the machine.
        # The address: torchrun otherwise asks for the host's full name, which in containers may not resolve.
        where = ["--standalone", "--local-addr=127.0.0.1"]
    elif is_static(cluster, options):
        # Rank order is host order, in every attempt.
        where = [
            f"--nnodes={len(cluster.hosts)}",
            f"--node-rank={cluster.host_index}",
            f"--master-addr={cluster.hosts[0]}",
            f"--master-port={cluster.port}",
            f"--rdzv-conf=timeout={options.join_timeout:.0f}",
            f"--local-addr={cluster.host}",
        ]
    else:
        least = cluster.min_hosts or len(cluster.hosts)
        settings = {
            # Said and not guessed: torchrun would compare names and addresses of this host with the endpoint.
            "is_host": int(cluster.host_index == 0),
            "join_timeout": round(options.join_timeout),
            "last_call_timeout": round(options.last_call),
            # How long to look for the first host, which may come up later.
            "timeout": max(1, round(options.join_timeout)),
        }
        where = [
            f"--nnodes={least}:{len(cluster.hosts)}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={cluster.hosts[0]}:{cluster.port}",
            f"--rdzv-id={cluster.job}",
            f"--rdzv-conf={','.join(f'{name}={value}' for name, value in settings.items())}",
            f"--local-addr={cluster.host}",
        ]
    return [
        *(sys.executable, "-m", "drivetrain.training.launch.torchrun", str(report)),
        *where,
        f"--nproc-per-node={cluster.processes}",
        f"--max-restarts={options.max_restarts}",
        f"--shutdown-timeout={options.stop_timeout}",  # its own default is 30 s
        f"--log-dir={log_folder}",  # only error files go there; output passes through
        # What follows "--" is no option of its own: it would take --monitor for the beginning of one.
        *("-m", "--", RANK_MODULE, *program.words),
    ]
