"""The folder that a container finds at /opt/ml, laid out as SageMaker does: configuration and empty folders.

https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html
https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html

Every host has a tree of its own. The data come after: storage/channels.py, storage/checkpoints.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.targets.local.containers.mounts import BASE, DEBUG_HOOK, host_path

NETWORK_INTERFACE = "lo"
INSTANCE_GROUP = "homogeneousCluster"


@dataclass(frozen=True)
class Cluster:
    """The hosts of a job, by address in order, and the instance type that the definition asks for."""

    hosts: tuple[str, ...]
    instance_type: str


def loopback_hosts(count: int) -> tuple[str, ...]:
    """Addresses for the hosts of a job, at most 254 (programs.host_count): Linux answers on all of 127.0.0.0/8."""
    return tuple(f"127.0.0.{number}" for number in range(1, count + 1))


def lay_out_training(
    root: Path,
    cluster: Cluster,
    host: str,
    *,
    hyperparameters: Mapping[str, Any],
    input_data_config: Sequence[Mapping[str, Any]],
    checkpoint_path: str = f"{BASE}/checkpoints",
    debug_hook: Mapping[str, Any] | None = None,
) -> None:
    """Make the tree of one host of a training job.

    Args:
        root: the folder that becomes /opt/ml; made when it does not exist.
        hyperparameters: resolved values; they arrive as strings.
        input_data_config: the channels as in CreateTrainingJob, resolved.
        checkpoint_path: where the job keeps its checkpoints; the folder is made.
        debug_hook: the job's DebugHookConfig, from which smdebug makes a hook in the script. What that saves is part of
            the job's output, where the service would bring it to the hook's S3OutputPath.

    Raises:
        UserError: a path outside /opt/ml.
    """
    for folder in ("input/config", "input/data", "model", "output/data", "code"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    _inside(checkpoint_path, root).mkdir(parents=True, exist_ok=True)
    config = root / "input" / "config"
    _write(config / "hyperparameters.json", {name: _string(value) for name, value in hyperparameters.items()})
    _write(config / "inputdataconfig.json", {str(c["ChannelName"]): _channel(c) for c in input_data_config})
    _write(config / "resourceconfig.json", _resources(cluster, host))
    if debug_hook:
        own = host if len(cluster.hosts) > 1 else ""
        _write(config / DEBUG_HOOK, {**debug_hook, "LocalPath": str(PurePosixPath(BASE, "output/data/tensors", own))})


def lay_out_processing(
    root: Path,
    cluster: Cluster,
    host: str,
    *,
    job: Mapping[str, Any],
    output_paths: Sequence[str],
) -> None:
    """Make the tree of one host of a processing job.

    Args:
        root: the folder that becomes /opt/ml; made when it does not exist.
        job: the resolved arguments of CreateProcessingJob with ProcessingJobName and ProcessingJobArn.
        output_paths: the LocalPath of every output; the folders are made.

    Raises:
        UserError: a path outside /opt/ml.
    """
    for folder in ("config", "output"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    _write(root / "config" / "resourceconfig.json", _resources(cluster, host))
    _write(root / "config" / "processingjobconfig.json", dict(job))
    for path in output_paths:
        _inside(path, root).mkdir(parents=True, exist_ok=True)


def _inside(path: str, root: Path) -> Path:
    found = host_path(path, root)
    if not found.is_relative_to(root) or found == root:
        raise UserError(f"Path {path!r} in a container. Allowed: a path below {BASE} without '..'.")
    return found


def _channel(channel: Mapping[str, Any]) -> dict[str, str]:
    """What a channel's entry in inputdataconfig.json says."""
    source: Mapping[str, Any] = channel.get("DataSource", {}).get("S3DataSource", {})
    return {
        "ContentType": str(channel.get("ContentType") or ""),
        "TrainingInputMode": str(channel.get("InputMode") or "File"),
        "S3DistributionType": str(source.get("S3DataDistributionType") or "FullyReplicated"),
        "RecordWrapperType": str(channel.get("RecordWrapperType") or "None"),
    }


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
