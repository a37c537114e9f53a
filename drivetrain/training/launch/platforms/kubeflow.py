"""Kubeflow Trainer v2 sets torchrun's own variables in every pod of a TrainJob; so does PyTorchJob.

    PET_NNODES=2  PET_NPROC_PER_NODE=auto|cpu|gpu|4  PET_NODE_RANK=1
    PET_MASTER_ADDR=myjob-node-0-0.myjob  PET_MASTER_PORT=29500

https://github.com/kubeflow/trainer/blob/master/pkg/runtime/framework/plugins/torch/torch.go. Elastic jobs have
PET_NNODES=1:4 and PET_RDZV_ENDPOINT=HOST:PORT with PET_RDZV_ID instead of the master's address.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.training.launch.cluster import Cluster, node_range, num_gpus

SUMMARY = "PET_* (Kubeflow Trainer)"
ORDER = 20
# Where the rank of a pod is when the platform does not say it in PET_NODE_RANK.
_INDEX = "JOB_COMPLETION_INDEX"


def read(environment: Mapping[str, str], base: Path) -> Cluster | None:
    if not environment.get("PET_NNODES"):
        return None
    least, most = node_range("PET_NNODES", environment["PET_NNODES"])
    processes = _processes(environment)
    if most == 1:
        return Cluster(processes=processes, contract=SUMMARY)
    address, port = _meeting_point(environment)
    rank = environment.get("PET_NODE_RANK") or environment.get(_INDEX, "")
    if not (rank.isascii() and rank.isdigit() and int(rank) < most):
        raise InputError(f"PET_NODE_RANK={rank!r}; allowed are whole numbers below PET_NNODES={most}.")
    return Cluster(
        hosts=_names(address, most),
        host_index=int(rank),
        processes=processes,
        port=port,
        min_hosts=least if least < most else 0,
        job=environment.get("PET_RDZV_ID") or Cluster.job,
        contract=SUMMARY,
    )


def _processes(environment: Mapping[str, str]) -> int:
    text = environment.get("PET_NPROC_PER_NODE", "auto").strip()
    if text == "cpu":
        return len(os.sched_getaffinity(0))
    if text == "auto":
        # torchrun counts cores where there is no GPU; a process a core is seldom what a training wants.
        return 0
    if text == "gpu":
        if found := num_gpus(environment):
            return found
        raise InputError("PET_NPROC_PER_NODE='gpu', but this host has no GPU. Give a number, or 'cpu'.")
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InputError(f"PET_NPROC_PER_NODE={text!r}; allowed are auto, cpu, gpu and whole numbers from 1.")
    return int(text)


def _meeting_point(environment: Mapping[str, str]) -> tuple[str, int]:
    address, port = environment.get("PET_MASTER_ADDR", ""), environment.get("PET_MASTER_PORT", "29400")
    if not address:
        address, _, given = environment.get("PET_RDZV_ENDPOINT", "").rpartition(":")
        port = given or port
    if not address:
        raise InputError("PET_NNODES names several hosts, but neither PET_MASTER_ADDR nor PET_RDZV_ENDPOINT is set.")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InputError(f"PET_MASTER_PORT={port!r}; allowed are ports from 1 to 65535.")
    return address, int(port)


def _names(first: str, number: int) -> tuple[str, ...]:
    """Trainer's pods are `<job>-node-0-<index>.<job>`, PyTorchJob's `<job>-master-0` and `<job>-worker-<index - 1>`."""
    if match := re.fullmatch(r"(.+-node-0-)0((?:\..+)?)", first):
        return tuple(f"{match[1]}{index}{match[2]}" for index in range(number))
    if match := re.fullmatch(r"(.+)-master-0((?:\..+)?)", first):
        return (first, *(f"{match[1]}-worker-{index}{match[2]}" for index in range(number - 1)))
    return (first, *(f"node-{index}-of-{first}" for index in range(1, number)))
