"""Processes of this host that the launcher itself starts and watches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.job import Ended, Job
from drivetrain.training.launch.processes.failure import Failure, from_rank, json_or_none
from drivetrain.training.launch.processes.supervision import supervise


def places(cluster: Cluster) -> list[tuple[int, dict[str, str]]]:
    """(rank, the variables that say which one it is) of each process of this host, in the order of local ranks."""
    first = cluster.host_index * cluster.processes
    return [
        (
            first + local_rank,
            {
                "RANK": str(first + local_rank),
                "WORLD_SIZE": str(cluster.world_size),
                "LOCAL_RANK": str(local_rank),
                "LOCAL_WORLD_SIZE": str(cluster.processes),
            },
        )
        for local_rank in range(cluster.processes)
    ]


def run_processes(
    job: Job,
    processes: Sequence[tuple[int, Sequence[str], Mapping[str, str]]],
    *,
    names: Mapping[int, str] | None = None,
    serving: Collection[int] = (),
    is_served: Callable[[], bool] = lambda: True,
) -> Ended:
    """Run (rank, command, variables of its own) for each process of this host.

    Args:
        names: what people call a rank, beside its number.
        serving, is_served: see `supervise`.
    """
    commands = [(command, {**job.environment, **own}) for _, command, own in processes]
    codes, stopped = supervise(
        commands,
        stop_seconds=job.options.stop_timeout,
        tick=job.tick,
        forked=job.forked,
        serving=serving,
        is_served=is_served,
    )
    failures = [
        replace(
            from_rank(rank, code, json_or_none(job.ranks / f"{local_rank}.error.json")),
            name=(names or {}).get(rank, ""),
        )
        for local_rank, ((rank, _, _), code) in enumerate(zip(processes, codes, strict=True))
        if code
    ]
    first = next((code for code in codes if code), 0)
    return Ended(first, stopped, failures, "the program")


def reported(folder: Path) -> list[Failure]:
    """Read what this host's processes wrote about their end, where nobody else knows their exit codes."""
    found = ((int(path.name.split(".")[0]), json_or_none(path)) for path in sorted(folder.glob("*.error.json")))
    return [from_rank(local_rank, 1, record) for local_rank, record in found if record is not None]
