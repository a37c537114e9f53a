"""Processes that find each other through TensorFlow's TF_CONFIG, one variable with the whole cluster in it.

Parameter servers, and the workers that a chief hands its steps to, serve until they are ended: the chief's end is
theirs, on every host.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from drivetrain.base.ports import held_port
from drivetrain.training.errors import LostHostError
from drivetrain.training.launch import meeting
from drivetrain.training.launch.cluster import DEFAULT_PORT, Cluster
from drivetrain.training.launch.job import Ended, Job, rank_command
from drivetrain.training.launch.launchers._processes import places, run_processes
from drivetrain.training.launch.tf_config import (
    CHIEF,
    EVALUATOR,
    SERVER,
    WORKER,
    addresses_of,
    filled,
    read_roles,
    refuse_another_cluster,
    tasks,
    tf_config,
)

SUMMARY = "processes with TF_CONFIG, for TensorFlow's multi-worker and parameter-server strategies"


def run(job: Job) -> Ended:
    cluster = job.cluster
    roles = filled(read_roles(job.options.roles), cluster.world_size)
    refuse_another_cluster(job.environment, cluster.world_size - roles.get(EVALUATOR, 0))
    listed = tasks(cluster.world_size, roles)
    first = cluster.host_index * cluster.processes
    ranks = range(first, first + cluster.processes)
    names = {rank: f"{role} {index}" for rank, (role, index) in enumerate(listed)} if roles else {}
    with _addresses(cluster) as (addresses, meeting_port):
        processes = []
        for rank, place in places(cluster):
            place |= {
                "TF_CONFIG": tf_config(addresses, rank, roles),
                # Where rank 0 listens for what is no gradient.
                "MASTER_ADDR": cluster.hosts[0],
                "MASTER_PORT": str(meeting_port),
            }
            if SERVER in roles and listed[rank][0] == CHIEF:  # the others serve it: it is a group of its own
                place |= {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
            if listed[rank][0] == SERVER:
                place["CUDA_VISIBLE_DEVICES"] = ""  # it stores; its host's GPUs are the workers'
            processes.append((rank, rank_command(job.program), place))
        if SERVER not in roles:
            with _all_hosts(job):
                return run_processes(job, processes, names=names)
        serving = [rank - first for rank in ranks if listed[rank][0] in (SERVER, WORKER)]
        return _with_servers(job, processes, serving, names)


@contextmanager
def _addresses(cluster: Cluster) -> Generator[tuple[list[str], int]]:
    """Addresses at which each process listens, and rank 0 for the group. On one host, where nobody has named a port,
    they are free ones that are held for them: other jobs on this machine have theirs."""
    if len(cluster.hosts) > 1 or cluster.port != DEFAULT_PORT:
        yield addresses_of(cluster), cluster.port + cluster.processes  # behind the ports of its host's processes
        return
    with ExitStack() as held:
        ports = [held.enter_context(held_port()).getsockname()[1] for _ in range(cluster.processes + 1)]
        yield [f"{cluster.host}:{port}" for port in ports[1:]], ports[0]


@contextmanager
def _all_hosts(job: Job) -> Generator[None]:
    """Every host's launcher has come: TensorFlow itself would wait for a host without an end.

    Raises:
        LostHostError: some did not come within `join_timeout`.
    """
    meet = meeting.other_host if job.cluster.host_index else meeting.first_host
    with meet(_place(job), job.options):
        yield


def _place(job: Job) -> Cluster:
    """The cluster with the port at which the launchers meet: behind the ports of the first host's processes and of
    their group."""
    return replace(job.cluster, port=job.cluster.port + job.cluster.processes + 1)


def _with_servers(
    job: Job,
    processes: Sequence[tuple[int, Sequence[str], Mapping[str, str]]],
    serving: Sequence[int],
    names: Mapping[int, str],
) -> Ended:
    """Run them until the chief is done, which is on the first host and tells the others."""
    cluster, place = job.cluster, _place(job)

    def run(is_served: Callable[[], bool]) -> Ended:
        return run_processes(job, processes, names=names, serving=serving, is_served=is_served)

    if not cluster.host_index:
        with meeting.first_host(place, job.options) as others:
            ended = run(lambda: True)
            others.tell(ended.code)
        return ended
    with meeting.other_host(place, job.options) as chief:
        ended = run(chief.has_ended)
        if ended.code or ended.stopped:
            return ended
        code, _ = chief.wait([])
    if code is None:
        raise LostHostError(f"{cluster.hosts[0]}, on which the chief was running, is gone.")
    return replace(ended, code=code, who=f"the chief's host {cluster.hosts[0]}")
