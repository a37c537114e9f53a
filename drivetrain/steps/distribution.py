"""How SageMaker's SDK is told that a script is a distributed one, and what the script finds of it.

    read('{"smdistributed": {"dataparallel": {"enabled": true}}}').library      # "smddp"

The same JSON as the SDK's argument `distribution`, which writes it into the job's hyperparameters; there the training
toolkit reads them (https://sagemaker.readthedocs.io/en/v2.199.0/api/training/distributed.html). Here the step reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from drivetrain.base.errors import InputError

EXAMPLE = '{"smdistributed": {"dataparallel": {"enabled": true}}}'
# What may be given, and the members of each.
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "torch_distributed": ("enabled",),
    "mpi": ("enabled", "processes_per_host", "custom_mpi_options"),
    "smdistributed": ("dataparallel", "modelparallel"),
    "smdistributed.dataparallel": ("enabled", "custom_mpi_options"),
    "smdistributed.modelparallel": ("enabled", "parameters"),
}
# Parameters that only the first version has: it cut models into stages.
_OF_V1 = ("partitions", "pipeline_parallel_degree", "microbatches", "pipeline", "ddp")
# The second version's, each with the least that is allowed
# (https://docs.aws.amazon.com/sagemaker/latest/dg/distributed-model-parallel-v2-reference.html).
_DEGREES = {
    "hybrid_shard_degree": 0,
    "tensor_parallel_degree": 1,
    "context_parallel_degree": 1,
    "expert_parallel_degree": 1,
    "activation_loading_horizon": 1,
    "random_seed": 0,
}
_SWITCHES = ("sm_activation_offloading", "fsdp_cache_flush_warnings", "allow_empty_shards")


@dataclass(frozen=True)
class Distribution:
    """The launcher that starts a script."""

    launcher: str = ""
    """torchrun or mpirun; empty where nothing says which."""
    processes: int = 0
    """On each host; 0 where nothing says how many."""
    library: str = ""
    """smddp, smp or smp_v1; empty for none of SageMaker's."""
    framework: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The hyperparameters `sagemaker_...` that the SDK would write: SM_FRAMEWORK_PARAMS."""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Hyperparameters that the SDK adds to the script's own: `mp_parameters`, also SM_HP_MP_PARAMETERS."""


def read(text: str) -> Distribution:
    """
    Raises:
        InputError: not the SDK's form, or two of its ways that exclude each other.
    """
    given = _object("", text)
    shared = _object("smdistributed", given.get("smdistributed", {}))
    parts = {
        "torch_distributed": _object("torch_distributed", given.get("torch_distributed", {})),
        "mpi": _object("mpi", given.get("mpi", {})),
        "data": _object("smdistributed.dataparallel", shared.get("dataparallel", {})),
        "model": _object("smdistributed.modelparallel", shared.get("modelparallel", {})),
    }
    torchrun, mpi, data, model = (part.get("enabled") is True for part in parts.values())
    for one, other, first, second in (
        ("smdistributed.dataparallel", "smdistributed.modelparallel", data, model),
        ("torch_distributed", "mpi", torchrun, mpi),
    ):
        if first and second:
            raise InputError(f"distribution enables {one} and {other}, which exclude each other. Give one of them.")
    parameters = _parameters(parts["model"].get("parameters", {})) if model else {}
    version = "" if not model else "smp_v1" if any(name in parameters for name in _OF_V1) else "smp"
    if version == "smp" and mpi:
        raise InputError(
            "distribution enables mpi beside smdistributed.modelparallel without partitions: version 2 of that library "
            "is started by torchrun. Give torch_distributed instead; or, for version 1, its parameter partitions."
        )
    if version == "smp":
        _check_degrees(parameters)
    processes = parts["mpi"].get("processes_per_host", 0)
    if mpi and (isinstance(processes, bool) or not isinstance(processes, int) or processes < 0):
        raise InputError(
            f"distribution: mpi.processes_per_host is {json.dumps(processes)}. Allowed: whole numbers from 1."
        )
    options = parts["data" if data else "mpi"].get("custom_mpi_options", "")
    own: dict[str, Any] = {}
    if torchrun or version == "smp":
        own["sagemaker_torch_distributed_enabled"] = True
    if mpi or version == "smp_v1":
        own |= {"sagemaker_mpi_enabled": True, "sagemaker_mpi_custom_mpi_options": options}
    if data:
        own |= {
            "sagemaker_distributed_dataparallel_enabled": True,
            "sagemaker_distributed_dataparallel_custom_mpi_options": options,
        }
    return Distribution(
        launcher="torchrun" if torchrun or version == "smp" else "mpirun" if mpi or data or model else "",
        processes=processes if mpi else 0,
        library="smddp" if data else version,
        framework=own,
        hyperparameters={"mp_parameters": parameters} if model else {},
    )


def _object(where: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InputError(f"distribution {value!r} is not JSON ({error}). Example: {EXAMPLE}") from None
    if not isinstance(value, dict):
        raise InputError(f"distribution: {where or 'it'} is {json.dumps(value)}, not an object. Example: {EXAMPLE}")
    found = cast("dict[str, Any]", value)
    allowed = _KNOWN[where] if where else [name for name in _KNOWN if "." not in name]
    for name, given in found.items():
        if name not in allowed:
            raise InputError(f"distribution: no {name!r} in {where or 'it'}. Allowed: {', '.join(allowed)}.")
        if name == "enabled" and not isinstance(given, bool):
            raise InputError(f"distribution: {where}.enabled is {json.dumps(given)}. Allowed: true or false.")
    return found


def _parameters(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(
            f"distribution: smdistributed.modelparallel.parameters is {json.dumps(value)}, not an object. "
            'Example: {"hybrid_shard_degree": 8}'
        )
    return cast("dict[str, Any]", value)


def _check_degrees(parameters: Mapping[str, Any]) -> None:
    """
    Raises:
        InputError: parameters that version 2 of the model parallel library does not have, or that contradict.
    """
    where = "distribution: smdistributed.modelparallel.parameters"
    for name, value in parameters.items():
        if name in _SWITCHES and isinstance(value, bool):
            continue
        least = _DEGREES.get(name)
        if least is None or isinstance(value, bool) or not isinstance(value, int) or value < least:
            if name not in (*_DEGREES, *_SWITCHES):
                raise InputError(f"{where}: no {name!r}. Allowed: {', '.join((*_DEGREES, *_SWITCHES))}.")
            allowed = "true or false" if name in _SWITCHES else f"whole numbers from {least}"
            raise InputError(f"{where}.{name} is {json.dumps(value)}. Allowed: {allowed}.")
    tensor, context, expert = (parameters.get(f"{name}_parallel_degree", 1) for name in ("tensor", "context", "expert"))
    shard = parameters.get("hybrid_shard_degree", 0)
    if tensor > 1 and expert > 1:
        raise InputError(
            f"{where}: tensor_parallel_degree {tensor} and expert_parallel_degree {expert}, which the library does not "
            "have together. Give one of them."
        )
    if shard and context > shard:
        raise InputError(
            f"{where}: context_parallel_degree {context} is above hybrid_shard_degree {shard} and must divide it. "
            f"Give a hybrid_shard_degree that is a multiple of {context}, or 0."
        )


def refuse_world(parameters: Mapping[str, Any], processes: int) -> None:
    """
    Raises:
        InputError: degrees of version 2 of the model parallel library that do not divide the processes of all hosts.
    """
    for name in filter(lambda each: each.endswith("_degree"), _DEGREES):
        degree = parameters.get(name, 1) or 1
        if processes % degree:
            raise InputError(
                f"distribution: {name} {degree} does not divide the job's {processes} processes. Change it, or the "
                "number of hosts or processes."
            )
