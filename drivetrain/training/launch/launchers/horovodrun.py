"""Processes of Horovod that meet over gloo, as `horovodrun --gloo` starts them; no MPI, and no ssh between hosts."""

from __future__ import annotations

from contextlib import ExitStack

from drivetrain.base.ports import held_port
from drivetrain.training.errors import LostHostError
from drivetrain.training.launch import horovod, meeting
from drivetrain.training.launch.job import Ended, Job, rank_command
from drivetrain.training.launch.launchers._processes import places, run_processes

SUMMARY = "processes of Horovod, which meet over gloo without MPI"


def run(job: Job) -> Ended:
    """
    Raises:
        InputError: Horovod is not installed.
        LostHostError: the first host does not answer, or its port is taken.
    """
    cluster = job.cluster
    several = len(cluster.hosts) > 1
    with ExitStack() as stack:
        port, torch_port = cluster.port, cluster.port + 1
        if not several:
            torch_port = stack.enter_context(held_port()).getsockname()[1]
        if not cluster.host_index:
            try:
                serving = horovod.rendezvous(cluster.world_size, cluster.processes, cluster.port if several else 0)
                port = stack.enter_context(serving)
            except OSError as error:
                raise LostHostError(
                    f"cannot listen on port {cluster.port} ({error.strerror}). Give another DRIVETRAIN_PORT."
                ) from None
        else:
            # Horovod's processes try three times within two seconds; the first host may be up much later.
            meeting.connected(cluster.hosts[0], port, job.options.join_timeout).close()
        interface = job.environment.get("GLOO_SOCKET_IFNAME", "").split(",")[0] or ("" if several else "lo")
        met = horovod.meeting(cluster.hosts[0], port, interface)
        processes = []
        for rank, place in places(cluster):
            own = {
                **met,
                **horovod.place(rank, cluster.world_size, cluster.processes),
                # What torch.distributed wants, for programs that use it, too.
                **place,
                "MASTER_ADDR": cluster.hosts[0],
                "MASTER_PORT": str(torch_port),
            }
            processes.append((rank, rank_command(job.program), own))
        return run_processes(job, processes)
