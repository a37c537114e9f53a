"""Processes as one MPI job, through Open MPI's mpirun on the first host.

The other hosts only offer an ssh server and wait: mpirun starts their processes, and the first host tells them how it
ended. https://www.open-mpi.org/doc/v4.1/man1/mpirun.1.php
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
from collections.abc import Iterable, Mapping

from drivetrain.base.errors import InputError
from drivetrain.base.ports import held_port
from drivetrain.training.errors import LostHostError
from drivetrain.training.launch import meeting
from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.job import MPI_STOP, Ended, Job, rank_command
from drivetrain.training.launch.launchers._processes import reported
from drivetrain.training.launch.processes.supervision import supervise

SUMMARY = "processes of one MPI job"
# What belongs to one host or one shell, and would be wrong on another.
_OWN = frozenset({"DRIVETRAIN_HOST", "HOME", "HOSTNAME", "LOGNAME", "MAIL", "OLDPWD", "PWD", "SHELL", "SHLVL"}) | {
    *("SM_CURRENT_HOST", "TERM", "TMPDIR", "USER", "_")
}


def run(job: Job) -> Ended:
    cluster = job.cluster
    if shutil.which("mpirun", path=job.environment.get("PATH")) is None:
        raise InputError(
            "launcher=mpirun, but there is no mpirun on PATH. Install Open MPI (apt-get install openmpi-bin), or "
            "choose torchrun."
        )
    if cluster.host_index:
        return _wait_for_first_host(job)
    with held_port() as held, meeting.first_host(cluster, job.options) as others:
        environment = {
            **job.environment,
            # Where torch's env:// rendezvous meets: rank 0 keeps the store, on a port that nobody else is given.
            "MASTER_ADDR": cluster.hosts[0],
            "MASTER_PORT": str(held.getsockname()[1]),
        }
        command = mpirun_command(cluster, rank_command(job.program), environment)
        [code], stopped = supervise(
            [(command, environment | _FOR_ROOT | _FOR_VERSION_5)],
            stop_seconds=job.options.stop_timeout,
            tick=job.tick,
            # Told to end, mpirun would give its processes a second. This signal it hands on, and they know its meaning.
            stop_signal=MPI_STOP,
        )
        others.tell(code)
    if code - 128 in signal.valid_signals() and stopped is None:
        code = 128 - code  # mpirun's word for a signal
    return Ended(code, stopped, reported(job.ranks), "mpirun")


# Containers run as root, and there is nobody else in them whom that could hurt.
_FOR_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}

# Its name of orte_keep_fqdn_hostnames (below); version 4 takes no option of that name.
_FOR_VERSION_5 = {"PRTE_MCA_prte_keep_fqdn_hostnames": "1"}


def mpirun_command(cluster: Cluster, program: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """The command line of mpirun on the first host."""
    interface = environment.get("GLOO_SOCKET_IFNAME")
    settings = {
        # Reading another process's memory needs a right (ptrace) that containers do not give.
        "btl_vader_single_copy_mechanism": "none",
        # Otherwise a host is called by the first part of its name, by which a pod of a cluster is not found.
        "orte_keep_fqdn_hostnames": "1",
    }
    hosts = [f"{host}:{cluster.processes}" for host in cluster.hosts]
    is_alone = all(is_this_machine(host) for host in cluster.hosts)
    if is_alone:
        hosts = [f"localhost:{cluster.world_size}"]  # its other addresses mpirun would try to reach by ssh
    if interface:
        settings["btl_tcp_if_include"] = interface
        if not is_alone:  # Open MPI 5 refuses the loopback interface, and talks to no other daemon here
            settings["oob_tcp_if_include"] = interface
    words = ["mpirun", "-np", str(cluster.world_size), "--map-by", "slot", "--host", ",".join(hosts)]
    # Cores are shared out by OMP_NUM_THREADS; bound to one core, the threads of a process would share that one.
    words += ["--bind-to", "none"]
    for name, value in settings.items():
        words += ["--mca", name, value]
    if len(cluster.hosts) > 1:
        # Hosts of one job trust each other's keys; nobody is there to answer a question.
        words += ["--mca", "plm_rsh_args", "-o StrictHostKeyChecking=no -o BatchMode=yes"]
    for name in sorted(environment):
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name not in _OWN and not name.startswith("OMPI_"):
            words += ["-x", name]
    return [*words, *program]


def _wait_for_first_host(job: Job) -> Ended:
    """Let the first host start this one's processes; ends when and as mpirun does there."""
    commands = []
    if not is_this_machine(job.cluster.hosts[0]):
        server = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
        if server is None:
            raise InputError(
                f"launcher=mpirun: {job.cluster.host} has no sshd, by which mpirun on {job.cluster.hosts[0]} would "
                "start its processes. Take an image with openssh-server, or choose torchrun."
            )
        commands.append(([server, "-D", "-e"], job.environment))
    with meeting.other_host(job.cluster, job.options) as first:
        code, stopped = first.wait(commands)
    if code is None:
        raise LostHostError(f"{job.cluster.hosts[0]}, on which mpirun was running, is gone.")
    return Ended(code, stopped, [], f"mpirun on {job.cluster.hosts[0]}")


def is_this_machine(host: str) -> bool:
    """Return True if a host is only a name of this machine, so that mpirun needs no ssh."""
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return False
    return address.startswith("127.")
