"""The surroundings of a script that ModelTrainer of the SageMaker SDK v3 starts: its arguments, and its SM_* variables.

This is sagemaker-train 1.27.0 in two functions (sagemaker/train/container_drivers: scripts/environment.py and
common/utils.py). An imported definition brings these drivers as its channel `sm_drivers`; a local run puts our launcher
in their place, which starts the script so, and train_script starts one's own so, too. A test marked `sdk` compares this
file with the real drivers.

Three things differ: the channels `code` and `sm_drivers` are not there, so neither is SM_DISTRIBUTED_DRIVER_DIR; and
SM_MASTER_ADDR is the first host's own name, which there is always algo-1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from drivetrain.steps.script_mode import ScriptJob, as_variables, num_gpus, num_neurons

_PORT = 7777


def arguments(hyperparameters: Mapping[str, Any]) -> list[str]:
    """`--name value`, in the order that they have: text as it is, all else as JSON writes it (`true`, `null`)."""
    words: list[str] = []
    for name, value in hyperparameters.items():
        words += [f"--{name}", _text(_decoded(_decoded(value)))]  # environment.py, and then the driver
    return words


def variables(job: ScriptJob, environment: Mapping[str, str], distributed: Mapping[str, Any]) -> dict[str, str]:
    """The SM_* variables.

    Args:
        environment: the job's own variables; its PATH is searched for the tools that count accelerators.
        distributed: distributed.json, such as {"process_count_per_node": 2}; empty for one process a host.

    Raises:
        InputError: a hyperparameter whose name or value cannot be a variable.
    """
    resources, folders = job.resources, job.folders
    host: str = resources["current_host"]
    hosts: list[str] = sorted(resources["hosts"])
    instance_type: str = resources.get("current_instance_type", "local")
    path = environment.get("PATH", os.defpath)
    hyperparameters = {name: _decoded(value) for name, value in job.hyperparameters.items()}
    shared: dict[str, Any] = {
        "model_dir": folders.model,
        "input_dir": folders.input,
        "input_data_dir": f"{folders.input}/data",
        "input_config_dir": f"{folders.input}/config",
        "output_data_dir": folders.output_data,
        "log_level": job.log_level,
        "master_addr": hosts[0],
        "master_port": _PORT,
        "current_host": host,
        "current_instance_type": instance_type,
        "hosts": hosts,
        "network_interface_name": resources.get("network_interface_name", "eth0"),
        "num_cpus": os.cpu_count() or 1,
        "num_gpus": num_gpus(path),
        "num_neurons": num_neurons(path, ""),
        "resource_config": dict(resources),
        "input_data_config": dict(job.channels),
    }
    training_env = {
        **shared,
        "channel_input_dirs": dict(folders.channels),
        "hyperparameters": hyperparameters,
        "job_name": environment.get("TRAINING_JOB_NAME", ""),
    }
    exported: dict[str, Any] = {
        **shared,
        **{f"channel_{name}": folder for name, folder in folders.channels.items()},
        **{f"hp_{name.replace('-', '_')}": value for name, value in hyperparameters.items()},
        "output_dir": folders.output,
        "output_failure": f"{folders.output}/failure",
        "source_dir": job.module_dir,
        "entry_script": job.program,
        "channels": list(job.channels),
        "hps": hyperparameters,
        "host_count": len(hosts),
        "current_host_rank": hosts.index(host),
        "training_env": training_env,
        **({"distributed_config": dict(distributed)} if distributed else {}),
    }
    return as_variables({name: _text(value) for name, value in exported.items()})


def _decoded(value: Any) -> Any:
    """utils.safe_deserialize: text that is JSON becomes what it says."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _text(value: Any) -> str:
    """utils.safe_serialize."""
    return value if isinstance(value, str) else json.dumps(value)
