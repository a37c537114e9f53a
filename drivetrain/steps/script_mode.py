"""The surroundings of a script-mode script of SageMaker: its arguments, and the SM_* variables that describe the job.

This is sagemaker-training 5.1.4 in two functions (https://github.com/aws/sagemaker-training-toolkit: mapping.py and
environment.py). The program train_script gives it to a user's own script on every platform; the local runner gives it
to the jobs of other people's definitions. Tests marked `toolkit` hold both against the real toolkit.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from drivetrain.base.errors import InputError

# Where the toolkit keeps all folders, unless SAGEMAKER_BASE_DIR names another.
BASE = "/opt/ml"
BASE_VARIABLE = "SAGEMAKER_BASE_DIR"
INSTANCE_GROUP = "homogeneousCluster"
_INFO = 20  # logging.INFO
_ENTRY_POINT = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)*")


class Folders(NamedTuple):
    """The folders of a job's data; `opt_ml_folders` gives the places that SageMaker has."""

    input: str
    output: str
    output_data: str
    model: str
    channels: Mapping[str, str]


class ScriptJob(NamedTuple):
    """A job as the platform's files describe it.

    `resources` is resourceconfig.json; `channels` inputdataconfig.json; `hyperparameters` are decoded values;
    `framework` those whose names begin with `sagemaker_`; `program` the script, relative to its folder; `module_dir`
    that folder, or the archive it came in.
    """

    resources: Mapping[str, Any]
    channels: Mapping[str, Any]
    hyperparameters: Mapping[str, Any]
    folders: Folders
    program: str
    module_dir: str
    framework: Mapping[str, Any] = {}
    log_level: Any = _INFO


def opt_ml_folders(base: str, channels: Mapping[str, Any]) -> Folders:
    """The folders of a training job below `base`."""
    return Folders(
        input=f"{base}/input",
        output=f"{base}/output",
        output_data=f"{base}/output/data",
        model=f"{base}/model",
        channels={name: f"{base}/input/data/{name}" for name in channels},
    )


def is_entry_point(program: Any) -> bool:
    """The toolkit's rule: a plain relative path, which no program can read as an option."""
    plain = isinstance(program, str) and _ENTRY_POINT.fullmatch(program)
    return bool(plain) and not {".", ".."} & set(str(program).split("/"))


def arguments(hyperparameters: Mapping[str, Any]) -> list[str]:
    """`--name value`, sorted by name; one letter with one dash; true as `True`, a list as Python writes it, an object
    as `key=value,key=value`, null as an empty word (mapping.to_cmd_args)."""
    words: list[str] = []
    for name in sorted(hyperparameters):
        value = hyperparameters[name]
        words.append("" if not name else f"--{name}" if len(name) > 1 else f"-{name}")
        if isinstance(value, dict):
            entries: dict[str, Any] = dict(value)  # pyright: ignore[reportUnknownArgumentType]
            words.append(",".join(f"{key}={entries[key]}" for key in sorted(entries)))
        else:
            words.append("" if value is None else str(value))
    return words


def variables(job: ScriptJob, environment: Mapping[str, str]) -> dict[str, str]:
    """The SM_* variables and CURRENT_HOST (environment.Environment: to_env_vars, and what its constructor sets).

    Args:
        environment: the job's own variables; its PATH is searched for the tools that count accelerators.

    Raises:
        InputError: a hyperparameter whose name or value cannot be a variable.
    """
    resources, folders = job.resources, job.folders
    hosts: list[str] = resources["hosts"]
    host: str = resources["current_host"]
    instance_type: str = resources.get("current_instance_type", "local")
    group: str = resources.get("current_group_name", INSTANCE_GROUP)
    groups: list[dict[str, Any]] = resources.get("instance_groups", [])
    by_name = {entry["instance_group_name"]: entry for entry in groups}
    distributed: list[str] = job.framework.get("sagemaker_distribution_instance_groups", [])
    distribution_hosts = [
        name for entry in groups if entry["instance_group_name"] in distributed for name in entry["hosts"]
    ]
    if not groups:
        distribution_hosts = list(hosts)
    first = (distribution_hosts or hosts)[0]
    model_parallel = environment.get("SM_HP_MP_PARAMETERS")
    path = environment.get("PATH", os.defpath)
    shared: dict[str, Any] = {
        "channel_input_dirs": dict(folders.channels),
        "current_host": host,
        "current_instance_group": group,
        "current_instance_group_hosts": by_name.get(group, {}).get("hosts", []),
        "current_instance_type": instance_type,
        "distribution_instance_groups": distributed,
        "framework_module": environment.get("SAGEMAKER_TRAINING_MODULE"),
        "hosts": hosts,
        "input_config_dir": f"{folders.input}/config",
        "input_data_config": dict(job.channels),
        "input_dir": folders.input,
        "instance_groups": [entry["instance_group_name"] for entry in groups],
        "instance_groups_dict": by_name,
        "is_hetero": len(groups) > 1,
        "log_level": job.log_level,
        "model_dir": folders.model,
        "module_dir": job.module_dir,
        "module_name": job.program.removesuffix(".py"),
        "network_interface_name": resources.get("network_interface_name", "eth0"),
        "num_cpus": os.cpu_count() or 1,
        "num_gpus": num_gpus(path),
        "num_neurons": num_neurons(path, instance_type),
        "output_data_dir": folders.output_data,
        "output_dir": folders.output,
        "output_intermediate_dir": f"{folders.output}/intermediate",
        "resource_config": dict(resources),
        "user_entry_point": job.program,
    }
    if topology := resources.get("topology", []):
        shared["topology"] = topology
    training_env = {
        **shared,
        "additional_framework_parameters": dict(job.framework),
        "distribution_hosts": distribution_hosts,
        "hyperparameters": dict(job.hyperparameters),
        "is_master": host == first,
        "is_modelparallel_enabled": model_parallel and model_parallel != "{}",
        "is_smddpmprun_installed": _which("smddpmprun", path) is not None,
        "is_smddprun_installed": _which("smddprun", path) is not None,
        "job_name": environment.get("TRAINING_JOB_NAME"),
        "master_hostname": first,
        "topology": topology,
    }
    exported: dict[str, Any] = {name: value for name, value in shared.items() if name != "channel_input_dirs"} | {
        "channels": sorted(job.channels),
        "framework_params": dict(job.framework),
        "hps": dict(job.hyperparameters),
        "training_env": training_env,
        "user_args": arguments(job.hyperparameters),
        **{f"channel_{name}": folder for name, folder in folders.channels.items()},
        **{f"hp_{name}": value for name, value in job.hyperparameters.items()},
    }
    return as_variables({name: _text(value) for name, value in exported.items()}) | {"CURRENT_HOST": host}


def as_variables(texts: Mapping[str, str]) -> dict[str, str]:
    """SM_NAME for each name.

    Raises:
        InputError: a hyperparameter whose name or value cannot be a variable.
    """
    found = {f"SM_{name.upper()}": text for name, text in texts.items()}
    for name in found:
        if "=" in name or "\0" in name + found[name]:
            raise InputError(f"Hyperparameter {name[6:]!r} cannot become the variable {name!r}: '=' or NUL in it.")
    return found


def _text(value: Any) -> str:
    """mapping.to_env_vars: strings as they are, None empty, all else compact JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))


def num_gpus(path: str) -> int:
    lines = _output(path, "nvidia-smi", "--list-gpus").splitlines()
    return sum(line.startswith("GPU ") for line in lines)


def num_neurons(path: str, instance_type: str) -> int:
    if "trn2.48xlarge" in instance_type:
        return 64
    listed = _output(path, "neuron-ls", "-j")
    return sum(device.get("nc_count", 0) for device in json.loads(listed)) if listed else 0


def _output(path: str, program: str, *words: str) -> str:
    """The output of a tool; empty if it is not there or fails, which its absence means to the toolkit."""
    found = _which(program, path)
    if found is None:
        return ""
    import subprocess

    done = subprocess.run([found, *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def _which(program: str, path: str) -> str | None:
    import shutil

    return shutil.which(program, path=path)
