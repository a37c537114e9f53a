"""SageMaker: resourceconfig.json in the container, or what its training toolkit makes of it (SM_HOSTS, ...).

    {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0",
     "instance_groups": [{"instance_group_name": "gpu", "instance_type": "ml.g5.xlarge", "hosts": ["algo-1"]}, ...]}

https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html. In a heterogeneous
cluster SM_DISTRIBUTION_INSTANCE_GROUPS (JSON) names the groups that train.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.launch.cluster import DEFAULT_PORT, Cluster, member_of, positive

SUMMARY = "SM_HOSTS"
ORDER = 30
GROUPS = "SM_DISTRIBUTION_INSTANCE_GROUPS"


def read(environment: Mapping[str, str], base: Path) -> Cluster | None:
    if "SM_HOSTS" in environment:
        return _cluster(
            environment,
            hosts=_json(environment, "SM_HOSTS", list),
            host=environment.get("SM_CURRENT_HOST", ""),
            interface=environment.get("SM_NETWORK_INTERFACE_NAME", ""),
            groups=list(_json(environment, "SM_INSTANCE_GROUPS_DICT", dict).values()),
            names=("SM_HOSTS", "SM_CURRENT_HOST"),
            contract=SUMMARY,
        )
    path = resource_file(base)
    if path is None:
        return None
    resources = read_json(path)
    for field, kind in (("hosts", list), ("current_host", str)):
        if not isinstance(resources.get(field), kind):
            raise InputError(f"{path}: the field {field!r} is {resources.get(field)!r}, not a {kind.__name__}.")
    return _cluster(
        environment,
        hosts=resources["hosts"],
        host=resources["current_host"],
        interface=str(resources.get("network_interface_name") or ""),
        groups=resources.get("instance_groups") or [],
        names=(f"{path}: hosts", f"{path}: current_host"),
        contract=str(path),
    )


def resource_file(base: Path) -> Path | None:
    """A training job's file, or a processing job's."""
    return next(
        (path for part in ("input/config", "config") if (path := base / part / "resourceconfig.json").is_file()), None
    )


def read_json(path: Path) -> dict[str, Any]:
    """
    Raises:
        InputError: the file cannot be read or holds no JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object.")
    return content


def _cluster(
    environment: Mapping[str, str],
    *,
    hosts: list[str],
    host: str,
    interface: str,
    groups: list[dict[str, Any]],
    names: tuple[str, str],
    contract: str,
) -> Cluster:
    training = _json(environment, GROUPS, list)
    if training:
        by_name = {str(group.get("instance_group_name")): group.get("hosts", []) for group in groups}
        unknown = [name for name in training if name not in by_name]
        if unknown:
            raise InputError(f"{GROUPS} names {unknown[0]!r}; the cluster's groups are {', '.join(by_name) or 'none'}.")
        hosts = [name for group in training for name in by_name[group]]
        if host not in hosts:
            raise InputError(
                f"{host} trains nothing: {GROUPS} names {', '.join(training)} (hosts {', '.join(hosts)}). Give the "
                "hosts of the other groups a program of their own."
            )
    index = member_of(tuple(map(str, hosts)), host, names=names)
    return Cluster(
        hosts=tuple(map(str, hosts)),
        host_index=index,
        processes=_num_gpus(environment),
        port=DEFAULT_PORT,
        interface=interface,
        job=environment.get("TRAINING_JOB_NAME") or Cluster.job,
        contract=contract,
    )


def _num_gpus(environment: Mapping[str, str]) -> int:
    """SM_NUM_GPUS, where it is not the 0 of a host without any."""
    return 0 if environment.get("SM_NUM_GPUS", "0").strip() == "0" else positive(environment, "SM_NUM_GPUS")


def _json(environment: Mapping[str, str], name: str, kind: type) -> Any:
    text = environment.get(name, "")
    if not text:
        return kind()
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        raise InputError(f"{name}={text!r} is no JSON {'list' if kind is list else 'object'}.")
    return value
