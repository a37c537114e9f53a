"""The convention of sagemaker-training 5.1.4: what the stock images do with a training job that names no entry point.

The hyperparameters `sagemaker_program` and `sagemaker_submit_directory` (JSON in strings, as all of them) name a
script and an archive; the toolkit unpacks the archive to /opt/ml/code, turns hyperparameters into arguments and
SM_* variables, and starts the script. containers/test_toolkit.py among the unit tests holds this file against the real
toolkit. https://github.com/aws/sagemaker-training-toolkit (environment.py, mapping.py, process.py)

Two things differ, and a note says so when they matter: requirements.txt is not installed into the user's environment,
and a package (setup.py) is run from its folder without installing it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.components.start import StartError, unpack
from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.targets.local.containers.mounts import BASE, host_path, search_path

CODE = f"{BASE}/code"
PROGRAM, SUBMIT_DIRECTORY = "sagemaker_program", "sagemaker_submit_directory"
_PREFIX = "sagemaker_"
_INFO = 20  # logging.INFO

# Hyperparameters of the SDK that are no framework parameters (params.py of the toolkit).
_KNOWN = frozenset(
    {
        PROGRAM,
        SUBMIT_DIRECTORY,
        "sagemaker_enable_cloudwatch_metrics",
        "sagemaker_region",
        "sagemaker_container_log_level",
        "sagemaker_job_name",
        "default_user_module_name",
        "_tuning_objective_metric",
        "sagemaker_s3_output",
    }
)
# They make the toolkit or a framework's container start something other than one process a host.
_DISTRIBUTIONS = (
    "sagemaker_mpi_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
    "sagemaker_torch_distributed_enabled",
)
_ENTRY_POINT = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)*")


@dataclass(frozen=True)
class Launch:
    """What to start in the container, where, with what beside the job's own environment; `notes` are for people."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    working_folder: str
    notes: tuple[str, ...] = ()


def is_used(hyperparameters: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Whether a training job without an entry point follows the toolkit's convention."""
    return PROGRAM in hyperparameters or PROGRAM.upper() in environment


def submit_directory(hyperparameters: Mapping[str, str]) -> str | None:
    """Where the job's code is: an s3:// URI (the caller finds the file) or a path in the container."""
    value = _decode(hyperparameters[SUBMIT_DIRECTORY]) if SUBMIT_DIRECTORY in hyperparameters else None
    return None if value is None else str(value)


def prepare(root: Path, environment: Mapping[str, str], *, archive: Path | None) -> Launch:
    """Unpack the job's code into the tree of one host and say what to start.

    Args:
        root: a tree that opt_ml.lay_out_training made.
        environment: the container's own variables.
        archive: the local file behind an s3:// submit directory; None where the directory is a path in the container.

    Raises:
        UserError: no usable program or archive; a distribution that only the framework's own container starts.
    """
    config = root / "input" / "config"
    raw: dict[str, str] = json.loads((config / "hyperparameters.json").read_text(encoding="utf-8"))
    resources: dict[str, Any] = json.loads((config / "resourceconfig.json").read_text(encoding="utf-8"))
    channels: dict[str, Any] = json.loads((config / "inputdataconfig.json").read_text(encoding="utf-8"))
    decoded = {name: _decode(value) for name, value in raw.items()}
    own = {name: value for name, value in decoded.items() if not _is_sagemakers(name)}
    framework = {name: value for name, value in decoded.items() if _is_sagemakers(name) and name not in _KNOWN}
    for name in _DISTRIBUTIONS:
        if framework.get(name):
            raise UserError(
                f"Hyperparameter {name} asks for a launcher that only the framework's own container has. Give the step "
                "a command with --image-command IMAGE=CMD, or an entry point of its own."
            )
    program = environment.get(PROGRAM.upper()) or decoded.get(PROGRAM)
    program = _entry_point(program)
    module_dir = str(decoded.get(SUBMIT_DIRECTORY, CODE))
    code = root / "code"
    _fetch_code(module_dir, archive, code, root)
    if not (code / program).is_file() and not (code / "setup.py").exists():
        raise UserError(f"sagemaker_program {program!r} is not in {module_dir} (it holds {_listing(code)}).")

    arguments = _arguments(own)
    variables = _variables(
        environment, resources, channels, own, framework, decoded, program=program, module_dir=module_dir
    )
    command, notes = _command(program, code)
    return Launch(
        command=(*command, *arguments),
        environment={**environment, **variables},
        working_folder=CODE,
        notes=notes,
    )


def _is_sagemakers(name: str) -> bool:
    return name in _KNOWN or name.startswith(_PREFIX)


def _decode(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _entry_point(program: Any) -> str:
    """The toolkit's rule: a plain relative path, which no program can read as an option."""
    if not isinstance(program, str) or not _ENTRY_POINT.fullmatch(program) or {".", ".."} & set(program.split("/")):
        raise UserError(
            f"sagemaker_program {program!r}. Allowed: the path of a script relative to its source folder, such as "
            "'train.py' or 'bin/train.sh', of letters, digits and . _ + - /."
        )
    return program


def _fetch_code(module_dir: str, archive: Path | None, code: Path, root: Path) -> None:
    """files.download_and_extract of the toolkit: what is there already stays."""
    code.mkdir(parents=True, exist_ok=True)
    if any(code.iterdir()):
        return
    source = archive if archive is not None else host_path(module_dir, root)
    if (module_dir.startswith("s3://") and archive is None) or not source.exists():
        raise UserError(f"sagemaker_submit_directory {module_dir!r} does not exist in the local object store.")
    if source.is_dir():
        if source.resolve() != code.resolve():
            shutil.copytree(source, code, dirs_exist_ok=True)
        return
    try:
        unpack(str(source), str(code))
    except StartError as error:
        raise UserError(f"sagemaker_submit_directory {module_dir!r}: {error}") from None


def _command(program: str, code: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """process.ProcessRunner._create_command without a shell in between, and what to tell the user."""
    notes: list[str] = []
    if (code / "requirements.txt").exists() and not program.endswith(".sh"):
        notes.append("requirements.txt is not installed locally: the program sees this environment's packages.")
    if program.endswith(".sh") or not (program.endswith(".py") or (code / "setup.py").exists()):
        path = code / program
        path.chmod(0o777)
        with path.open("rb") as file:
            direct = file.read(2) == b"#!"
        # The toolkit runs `sh -c "./program args"`; a file without #! is then read by that shell.
        return (() if direct else ("/bin/sh",)) + (f"./{program}",), tuple(notes)
    if (code / "setup.py").exists():
        notes.append("setup.py is not installed locally: the package is run from its folder.")
        return ("python3", "-m", program.removesuffix(".py")), tuple(notes)
    return ("python3", "--", program), tuple(notes)


def _arguments(hyperparameters: Mapping[str, Any]) -> list[str]:
    """mapping.to_cmd_args: sorted, `--name value`, one letter with one dash, mappings as `k=v,k=v`."""
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


def _variables(
    environment: Mapping[str, str],
    resources: Mapping[str, Any],
    channels: Mapping[str, Any],
    hyperparameters: Mapping[str, Any],
    framework: Mapping[str, Any],
    all_parameters: Mapping[str, Any],
    *,
    program: str,
    module_dir: str,
) -> dict[str, str]:
    """environment.Environment: to_env_vars and what its constructor sets."""
    hosts: list[str] = resources["hosts"]
    host: str = resources["current_host"]
    instance_type: str = resources.get("current_instance_type", "local")
    group: str = resources.get("current_group_name", "homogeneousCluster")
    groups: list[dict[str, Any]] = resources.get("instance_groups", [])
    by_name = {entry["instance_group_name"]: entry for entry in groups}
    distributed: list[str] = framework.get("sagemaker_distribution_instance_groups", [])
    distribution_hosts = [
        name for entry in groups if entry["instance_group_name"] in distributed for name in entry["hosts"]
    ]
    if not groups:
        distribution_hosts = list(hosts)
    first = (distribution_hosts or hosts)[0]
    model_parallel = environment.get("SM_HP_MP_PARAMETERS")
    path = search_path(environment) if "PATH" in environment else search_path()
    shared: dict[str, Any] = {
        "channel_input_dirs": {name: f"{BASE}/input/data/{name}" for name in channels},
        "current_host": host,
        "current_instance_group": group,
        "current_instance_group_hosts": by_name.get(group, {}).get("hosts", []),
        "current_instance_type": instance_type,
        "distribution_instance_groups": distributed,
        "framework_module": environment.get("SAGEMAKER_TRAINING_MODULE"),
        "hosts": hosts,
        "input_config_dir": f"{BASE}/input/config",
        "input_data_config": channels,
        "input_dir": f"{BASE}/input",
        "instance_groups": [entry["instance_group_name"] for entry in groups],
        "instance_groups_dict": by_name,
        "is_hetero": len(groups) > 1,
        "log_level": all_parameters.get("sagemaker_container_log_level", _INFO),
        "model_dir": f"{BASE}/model",
        "module_dir": module_dir,
        "module_name": program.removesuffix(".py"),
        "network_interface_name": resources.get("network_interface_name", "eth0"),
        "num_cpus": os.cpu_count() or 1,
        "num_gpus": _num_gpus(path),
        "num_neurons": _num_neurons(path, instance_type),
        "output_data_dir": f"{BASE}/output/data",
        "output_dir": f"{BASE}/output",
        "output_intermediate_dir": f"{BASE}/output/intermediate",
        "resource_config": resources,
        "user_entry_point": program,
    }
    if topology := resources.get("topology", []):
        shared["topology"] = topology
    training_env = {
        **shared,
        "additional_framework_parameters": framework,
        "distribution_hosts": distribution_hosts,
        "hyperparameters": hyperparameters,
        "is_master": host == first,
        "is_modelparallel_enabled": model_parallel and model_parallel != "{}",
        "is_smddpmprun_installed": shutil.which("smddpmprun", path=path) is not None,
        "is_smddprun_installed": shutil.which("smddprun", path=path) is not None,
        "job_name": environment.get("TRAINING_JOB_NAME"),
        "master_hostname": first,
        "topology": topology,
    }
    exported: dict[str, Any] = {name: value for name, value in shared.items() if name != "channel_input_dirs"} | {
        "channels": sorted(channels),
        "framework_params": framework,
        "hps": hyperparameters,
        "training_env": training_env,
        "user_args": _arguments(hyperparameters),
        **{f"channel_{name}": f"{BASE}/input/data/{name}" for name in channels},
        **{f"hp_{name}": value for name, value in hyperparameters.items()},
    }
    variables = {f"SM_{name.upper()}": _text(value) for name, value in exported.items()}
    for name in variables:
        if "=" in name or "\0" in name + variables[name]:
            raise UserError(f"Hyperparameter {name[6:]!r} cannot become the variable {name!r}: '=' or NUL in it.")
    region = all_parameters.get("sagemaker_region") or environment.get("AWS_DEFAULT_REGION") or ""
    python_path = [CODE, *([environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else [])]
    return variables | {
        "CURRENT_HOST": host,
        "SAGEMAKER_JOB_NAME": str(all_parameters.get("sagemaker_job_name", "")),
        "SAGEMAKER_REGION": str(region),
        "PYTHONPATH": os.pathsep.join(python_path),
    }


def _text(value: Any) -> str:
    """mapping.to_env_vars: strings as they are, None empty, all else compact JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))


def _num_gpus(path: str) -> int:
    lines = _output(path, "nvidia-smi", "--list-gpus").splitlines()
    return sum(line.startswith("GPU ") for line in lines)


def _num_neurons(path: str, instance_type: str) -> int:
    if "trn2.48xlarge" in instance_type:
        return 64
    listed = _output(path, "neuron-ls", "-j")
    return sum(device.get("nc_count", 0) for device in json.loads(listed)) if listed else 0


def _output(path: str, program: str, *arguments: str) -> str:
    """What a tool prints; nothing when it is not there or fails, which is what its absence means to the toolkit."""
    found = shutil.which(program, path=path)
    if found is None:
        return ""
    done = subprocess.run([found, *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join(names[:8]) + (" ..." if len(names) > 8 else "") if names else "nothing"
