"""Instance types: processors, memory, GPUs, disks of their own, and how fast they talk. The table is instances.json."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.base.errors import UserError, did_you_mean

TABLE = Path(__file__).with_name("instances.json")
LOCAL = "local"
DEFAULT_TYPE = "ml.m5.xlarge"
"""The machine of a step that asks for none."""
GIB = 1024**3
BITS = 8
# Machines with NVMe disks of their own, so that no volume is made, paid or encrypted by a key for them.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html (VolumeSizeInGB, VolumeKmsKeyId)
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/InstanceStorage.html
_WITH_OWN_DISK = re.compile(
    r"(c5d|c[68]gd|c6id|g4dn|g5|g6|g6e|g7|g7e|i3en|m5d|m[68]gd|m6id|p3dn|p[456].*|r5d|r[68]gd|r6id|trn.*)"
)


class Instance(NamedTuple):
    """One host. Rates are in bytes a second and one direction; memory is in bytes."""

    name: str
    vcpus: int
    memory: int
    link_rate: float
    """Peak between neighbours inside the host."""
    network_rate: float
    """The sustained rate between hosts, for the whole host."""
    gpus: int = 0
    gpu: str = ""
    """The GPU's name; empty without a GPU."""
    gpu_memory: int = 0
    half_precision: str = "bf16"
    """The format of two bytes that it computes fast in; GPUs before Ampere have fp16 alone."""
    link: str = "memory"
    """The link between the processes of a host."""
    link_is_assumed: bool = False
    nvlink: bool = False
    efa: bool = False
    processing: bool = True
    """True if processing jobs have it, too; training jobs have all."""

    @property
    def default_processes(self) -> int:
        """One a GPU, else one: what the launcher starts unless it is told a number."""
        return max(self.gpus, 1)

    def memory_of_a_process(self, processes: int) -> int:
        """The memory for one of `processes` on the host: a GPU's memory, or its share of the host's."""
        return self.gpu_memory if self.gpus else self.memory // max(processes, 1)

    def described(self) -> str:
        """`4 x A10G of 22.4 GiB, PCIe 4 x16 32 GB/s, network 40 Gbit/s with EFA`."""
        network = f"network {self.network_rate * BITS / 1e9:g} Gbit/s" + (" with EFA" if self.efa else "")
        assumed = " (assumed)" if self.link_is_assumed else ""
        link = f"{self.link} {self.link_rate / 1e9:g} GB/s{assumed}"
        if not self.gpus:
            return f"{self.vcpus} vCPU, {self.memory / GIB:g} GiB, {link}, {network}"
        return f"{self.gpus} x {self.gpu} of {self.gpu_memory / GIB:g} GiB, {link}, {network}"


def instance_names() -> list[str]:
    """The names in the table."""
    return list(_table()["instances"])


def find_instance(name: str) -> Instance | None:
    """The facts of an instance type, or None where the table has none of it; `local` is this machine."""
    if name == LOCAL:
        return this_machine()
    row = _table()["instances"].get(name)
    return None if row is None else _instance(name, row)


def get_instance(name: str) -> Instance:
    """
    Raises:
        UserError: the table has no such type, with the closest match.
    """
    found = find_instance(name)
    if found is None:
        raise UserError(
            f"No facts of instance type {name!r}. {did_you_mean(name, [*instance_names(), LOCAL])} The table is "
            "drivetrain/catalog/instances.json."
        )
    return found


def processing_instance_type(name: str) -> str:
    """An instance type for a processing job that does what a training on `name` did, such as evaluate its model.

    It is `name` where processing jobs have it (or the table has no facts of it). Else it is the smallest with one GPU
    of as much memory, of the largest there is where none has as much; of machines without GPUs the smallest with as
    many processors and as much memory.
    """
    wanted = find_instance(name)
    if wanted is None or wanted.processing:
        return name
    others = [get_instance(each) for each in instance_names()]
    others = [each for each in others if each.processing and min(wanted.gpus, 1) == each.gpus]
    most = max(each.gpu_memory for each in others)
    enough = [
        each
        for each in others
        if each.gpu_memory >= min(wanted.gpu_memory, most)
        and (wanted.gpus or (each.vcpus >= wanted.vcpus and each.memory >= wanted.memory))
    ]
    return min(enough or others, key=lambda each: (each.vcpus, each.memory)).name


def this_machine() -> Instance:
    """The machine that this runs on, as processes without GPUs see it."""
    cpu = _table()["cpu"]
    return Instance(
        name=LOCAL,
        vcpus=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        link_rate=cpu["link_gb_per_second"] * 1e9 / 2,
        link_is_assumed=True,
        # Hosts of a local run are folders of this machine: they meet in its memory, too.
        network_rate=cpu["link_gb_per_second"] * 1e9 / 2,
    )


def _instance(name: str, row: dict[str, Any]) -> Instance:
    table = _table()
    gpu = table["gpus"][row["gpu"]] if "gpu" in row else None
    link = row.get("link_gb_per_second") or (gpu or table["cpu"])["link_gb_per_second"]
    return Instance(
        name=name,
        vcpus=row["vcpus"],
        memory=round(row["memory_gib"] * GIB),
        gpus=row.get("gpus", 0),
        gpu=row.get("gpu", ""),
        gpu_memory=round(gpu["memory_gib"] * GIB) if gpu else 0,
        half_precision=gpu.get("half_precision", "bf16") if gpu else "bf16",
        link=gpu["link"] if gpu else "memory",
        link_rate=link * 1e9 / 2,
        link_is_assumed=gpu is None,
        nvlink=bool(gpu and gpu["nvlink"]),
        network_rate=row["network_gbit"] * 1e9 / BITS,
        efa=row["efa"],
        processing=row.get("processing", True),
    )


@cache
def _table() -> dict[str, Any]:
    return json.loads(TABLE.read_bytes())


def has_own_disk(instance_type: str) -> bool:
    """Return True if machines of a type such as `ml.g5.xlarge` have disks of their own."""
    return _WITH_OWN_DISK.fullmatch(instance_type.removeprefix("ml.").partition(".")[0]) is not None
