"""The folder that a container finds at /opt/ml, laid out as SageMaker does: configuration, inputs, empty outputs.

https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html
https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html

Every host has a tree of its own. Inputs are copied, or cloned where the file system shares blocks (btrfs, xfs): a
program may change its inputs, and a link would let it change the store, or another step's input, with them.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.targets.local.containers.mounts import BASE, host_path

NETWORK_INTERFACE = "lo"
INSTANCE_GROUP = "homogeneousCluster"
_CHANNEL = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_FICLONE = 0x40049409  # linux/fs.h


@dataclass(frozen=True)
class Input:
    """Data that a container finds: a local folder (its content) or file (under its name) at a path below /opt/ml.

    `sharded` deals the files out to the hosts by sorted name, as S3DataDistributionType ShardedByS3Key does; otherwise
    every host gets all of them.
    """

    name: str
    source: Path
    local_path: str
    sharded: bool = False


@dataclass(frozen=True)
class Cluster:
    """The hosts of a job, by address in order, and the instance type that the definition asks for."""

    hosts: tuple[str, ...]
    instance_type: str


def loopback_hosts(count: int) -> tuple[str, ...]:
    """Addresses for the hosts of a job: Linux answers on all of 127.0.0.0/8.

    Raises:
        UserError: more hosts than the last byte of an address can name.
    """
    if not 1 <= count <= 254:
        raise UserError(f"InstanceCount {count}: a local run takes 1 to 254 hosts. Set a smaller count for it.")
    return tuple(f"127.0.0.{number}" for number in range(1, count + 1))


def training_input(channel: Mapping[str, Any], source: Path) -> Input:
    """The input of one resolved entry of InputDataConfig whose data lie at `source`."""
    name = str(channel["ChannelName"])
    if not _CHANNEL.fullmatch(name):
        raise UserError(f"Channel name {name!r}. Allowed: letters, digits, '.', '-' and '_', and no '.' first.")
    return Input(name, source, f"{BASE}/input/data/{name}", sharded=_distribution(channel) == "ShardedByS3Key")


def lay_out_training(
    root: Path,
    cluster: Cluster,
    host: str,
    *,
    hyperparameters: Mapping[str, Any],
    input_data_config: Sequence[Mapping[str, Any]],
    inputs: Sequence[Input],
    checkpoints: Path | None = None,
    checkpoint_path: str = f"{BASE}/checkpoints",
) -> None:
    """Make the tree of one host of a training job.

    Args:
        root: the folder that becomes /opt/ml; made when it does not exist.
        hyperparameters: resolved values; they arrive as strings.
        input_data_config: the channels as in CreateTrainingJob, resolved.
        checkpoints: the folder that /opt/ml/checkpoints *is* (a link to it), so that what a killed job saved is not
            lost; without it an empty folder.

    Raises:
        UserError: a channel name or path that is not allowed; an input that does not exist.
    """
    for folder in ("input/config", "input/data", "model", "output/data", "code"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    place = _inside(checkpoint_path, root)
    if checkpoints is None:
        place.mkdir(parents=True, exist_ok=True)
    else:
        checkpoints.mkdir(parents=True, exist_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(checkpoints.resolve(), target_is_directory=True)
    config = root / "input" / "config"
    _write(config / "hyperparameters.json", {name: _string(value) for name, value in hyperparameters.items()})
    _write(config / "inputdataconfig.json", {str(c["ChannelName"]): _channel(c) for c in input_data_config})
    _write(config / "resourceconfig.json", _resources(cluster, host))
    _place_all(inputs, root, cluster, host)


def lay_out_processing(
    root: Path,
    cluster: Cluster,
    host: str,
    *,
    job: Mapping[str, Any],
    inputs: Sequence[Input],
    output_paths: Sequence[str],
) -> None:
    """Make the tree of one host of a processing job.

    Args:
        root: the folder that becomes /opt/ml; made when it does not exist.
        job: the resolved arguments of CreateProcessingJob with ProcessingJobName and ProcessingJobArn.
        output_paths: the LocalPath of every output; the folders are made.

    Raises:
        UserError: a path outside /opt/ml; an input that does not exist.
    """
    for folder in ("config", "output"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    _write(root / "config" / "resourceconfig.json", _resources(cluster, host))
    _write(root / "config" / "processingjobconfig.json", dict(job))
    for path in output_paths:
        _inside(path, root).mkdir(parents=True, exist_ok=True)
    _place_all(inputs, root, cluster, host)


def copy(source: Path, target: Path) -> Literal["cloned", "copied"]:
    """One file's content: blocks shared until one side is written where the file system can, else copied.

    Measured on ext4: 1 GB/s from the page cache, 0.1 ms a small file; a clone takes 0.1 ms at any size.
    """
    with source.open("rb") as reading, target.open("wb") as writing:
        try:
            fcntl.ioctl(writing.fileno(), _FICLONE, reading.fileno())
            return "cloned"
        except OSError:  # another file system, or one that cannot
            size = os.fstat(reading.fileno()).st_size
            while sent := os.sendfile(writing.fileno(), reading.fileno(), None, max(size, 1 << 20)):
                size -= sent
            return "copied"


def _place_all(inputs: Sequence[Input], root: Path, cluster: Cluster, host: str) -> None:
    for given in inputs:
        target = _inside(given.local_path, root)
        target.mkdir(parents=True, exist_ok=True)
        names = _files(given)
        if given.sharded:
            names = names[cluster.hosts.index(host) :: len(cluster.hosts)]
        for name in names:
            source = given.source if given.source.is_file() else given.source / name
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            copy(source, target / name)


def _files(given: Input) -> list[str]:
    """Names of the input's files below its source, sorted as keys of an object store are."""
    if given.source.is_file():
        return [given.source.name]
    if not given.source.is_dir():
        raise UserError(f"Input {given.name!r}: {given.source} does not exist.")
    found: list[str] = []
    for parent, folders, files in os.walk(given.source):
        for name in folders:
            if os.path.islink(os.path.join(parent, name)):
                raise UserError(
                    f"Input {given.name!r}: {os.path.join(parent, name)} is a link to a folder, which an object store "
                    "cannot hold. Give the folder itself, or copy it."
                )
        found.extend(os.path.relpath(os.path.join(parent, name), given.source) for name in files)
    return sorted(found)


def _inside(path: str, root: Path) -> Path:
    found = host_path(path, root)
    if not found.is_relative_to(root) or found == root:
        raise UserError(f"Path {path!r} in a container. Allowed: a path below {BASE} without '..'.")
    return found


def _channel(channel: Mapping[str, Any]) -> dict[str, str]:
    """What a channel's entry in inputdataconfig.json says."""
    return {
        "ContentType": str(channel.get("ContentType") or ""),
        "TrainingInputMode": str(channel.get("InputMode") or "File"),
        "S3DistributionType": _distribution(channel),
        "RecordWrapperType": str(channel.get("RecordWrapperType") or "None"),
    }


def _distribution(channel: Mapping[str, Any]) -> str:
    source: Mapping[str, Any] = channel.get("DataSource", {}).get("S3DataSource", {})
    return str(source.get("S3DataDistributionType") or "FullyReplicated")


def _resources(cluster: Cluster, host: str) -> dict[str, Any]:
    hosts = list(cluster.hosts)
    return {
        "current_host": host,
        "current_instance_type": cluster.instance_type,
        "current_group_name": INSTANCE_GROUP,
        "hosts": hosts,
        "instance_groups": [
            {"instance_group_name": INSTANCE_GROUP, "instance_type": cluster.instance_type, "hosts": hosts}
        ],
        "network_interface_name": NETWORK_INTERFACE,
    }


def _string(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
