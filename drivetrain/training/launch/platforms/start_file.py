"""The variables that a start file prepares, or a person sets: DRIVETRAIN_HOSTS and DRIVETRAIN_HOST."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from drivetrain.training.launch.cluster import Cluster, member_of

SUMMARY = "DRIVETRAIN_HOSTS"
ORDER = 10


def read(environment: Mapping[str, str], base: Path) -> Cluster | None:
    if "DRIVETRAIN_HOSTS" not in environment:
        return None
    hosts = tuple(host.strip() for host in environment["DRIVETRAIN_HOSTS"].split(","))
    host = environment.get("DRIVETRAIN_HOST", hosts[0] if len(hosts) == 1 else "")
    index = member_of(hosts, host, names=("DRIVETRAIN_HOSTS", "DRIVETRAIN_HOST"))
    return Cluster(hosts, index, processes=0, contract=SUMMARY)
