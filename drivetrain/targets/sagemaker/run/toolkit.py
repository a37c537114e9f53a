"""The convention of sagemaker-training 5.1.4: what the stock images do with a training job that names no entry point.

The hyperparameters `sagemaker_program` and `sagemaker_submit_directory` (JSON in strings, as all of them) name a
script and an archive; the toolkit unpacks the archive to /opt/ml/code, turns hyperparameters into arguments and
SM_* variables, and starts the script. test_toolkit.py among the unit tests holds this file against the real
toolkit. https://github.com/aws/sagemaker-training-toolkit (environment.py, mapping.py, process.py)

Two things differ, and a note says so when they matter: requirements.txt is not installed into the user's environment,
and a package (setup.py) is run from its folder without installing it.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError, UserError
from drivetrain.processes.mounts import BASE, host_path, search_path
from drivetrain.steps.script_mode import ScriptJob, arguments, is_entry_point, opt_ml_folders, variables
from drivetrain.steps.start import FREE_BYTES, MAX_BYTES, MAX_RATIO, StartError, unpack
from drivetrain.steps.user_code import bool_warnings

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
_LAUNCH = "drivetrain.training_scripts.launch"
# What makes the toolkit or a framework's container start something other than one process a host -> our launcher.
_LAUNCHERS = {
    "sagemaker_mpi_enabled": "mpirun",
    "sagemaker_torch_distributed_enabled": "torchrun",
    # TF_CONFIG with a worker a host (sagemaker-tensorflow-training 20.5.0, training.py). Its port is always 8890; on
    # this machine jobs share the hosts, so that it is one that the job has for itself.
    "sagemaker_multi_worker_mirrored_strategy_enabled": "tf_config",
}
_NUM_PROCESSES, _MPI_OPTIONS = "sagemaker_mpi_num_of_processes_per_host", "sagemaker_mpi_custom_mpi_options"
_TORCHRUN = "torch.distributed by torchrun (sagemaker_torch_distributed_enabled)"
_ROLES = "--launcher tf_config --roles chief=1,worker=1,ps=1"
# Others -> what it is that only their own container has, and what to use instead.
_NOT_HERE = {
    "sagemaker_parameter_server_enabled": (
        "parameter servers for TensorFlow's estimators (a master, workers, ps; they left TensorFlow with 2.16)",
        "tf.distribute.ParameterServerStrategy, with the component train_script (launcher='tf_config', "
        f"roles='chief=1,worker=1,ps=1') or --image-command IMAGE='python -m {_LAUNCH} {_ROLES} --script SCRIPT'",
    ),
    "sagemaker_distributed_dataparallel_enabled": ("SageMaker's data parallel library (SMDDP)", _TORCHRUN),
    "sagemaker_pytorch_ddp_enabled": ("SageMaker's launcher of DDP (smddprun)", _TORCHRUN),
    "sagemaker_pytorch_xla_multi_worker_enabled": ("PyTorch/XLA", _TORCHRUN),
}


@dataclass(frozen=True)
class Launch:
    """A command to start in the container, its working folder, and variables beside the job's own; `notes` and
    `warnings` are for people."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    working_folder: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def is_used(hyperparameters: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Return True if a training job without an entry point follows the toolkit's convention."""
    return PROGRAM in hyperparameters or PROGRAM.upper() in environment


def submit_directory(hyperparameters: Mapping[str, str]) -> str | None:
    """The place of the job's code: an s3:// URI (the caller finds the file) or a path in the container; None if not
    given."""
    value = _decode(hyperparameters[SUBMIT_DIRECTORY]) if SUBMIT_DIRECTORY in hyperparameters else None
    return None if value is None else str(value)


def unsupported(hyperparameters: Mapping[str, str]) -> str | None:
    """Why a job with these hyperparameters cannot be started here; None where it can."""
    for name, (what, instead) in _NOT_HERE.items():
        if _decode(hyperparameters.get(name, "false")):
            return f"hyperparameter {name} asks for {what}, which this machine does not have. Use {instead}."
    return None


def prepare(root: Path, environment: Mapping[str, str], *, archive: Path | None) -> Launch:
    """Unpack the job's code into the tree of one host and say what to start.

    Args:
        root: a tree that opt_ml.lay_out_training made.
        environment: the container's own variables.
        archive: the local file behind an s3:// submit directory; None where the directory is a path in the container.

    Raises:
        UserError: no usable program or archive; a distribution that is `unsupported`.
    """
    config = root / "input" / "config"
    raw: dict[str, str] = json.loads((config / "hyperparameters.json").read_text(encoding="utf-8"))
    resources: dict[str, Any] = json.loads((config / "resourceconfig.json").read_text(encoding="utf-8"))
    channels: dict[str, Any] = json.loads((config / "inputdataconfig.json").read_text(encoding="utf-8"))
    decoded = {name: _decode(value) for name, value in raw.items()}
    own = {name: value for name, value in decoded.items() if not _is_sagemakers(name)}
    framework = {name: value for name, value in decoded.items() if _is_sagemakers(name) and name not in _KNOWN}
    if problem := unsupported(raw):
        raise UserError(problem)
    program = environment.get(PROGRAM.upper()) or decoded.get(PROGRAM)
    program = _entry_point(program)
    module_dir = str(decoded.get(SUBMIT_DIRECTORY, CODE))
    code = root / "code"
    _fetch_code(module_dir, archive, code, root)
    if not (code / program).is_file() and not (code / "setup.py").exists():
        raise UserError(f"sagemaker_program {program!r} is not in {module_dir} (it holds {_listing(code)}).")

    job = ScriptJob(
        resources=resources,
        channels=channels,
        hyperparameters=own,
        folders=opt_ml_folders(BASE, channels),
        program=program,
        module_dir=module_dir,
        framework=framework,
        log_level=decoded.get("sagemaker_container_log_level", _INFO),
    )
    try:
        given = variables(
            job, {**environment, "PATH": search_path(environment if "PATH" in environment else os.environ)}
        )
    except InputError as error:
        raise UserError(str(error)) from None
    region = decoded.get("sagemaker_region") or environment.get("AWS_DEFAULT_REGION") or ""
    python_path = [CODE, *([environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else [])]
    given |= {
        "SAGEMAKER_JOB_NAME": str(decoded.get("sagemaker_job_name", "")),
        "SAGEMAKER_REGION": str(region),
        "PYTHONPATH": os.pathsep.join(python_path),
    }
    command, notes = _command(program, code)
    launcher = next((launcher for name, launcher in _LAUNCHERS.items() if framework.get(name)), None)
    if launcher is not None:
        command = _launched(launcher, command, framework)
        told, left_out = mpi_options(str(framework.get(_MPI_OPTIONS, "")))
        given |= told
        if left_out:
            notes += (
                f"{' '.join(left_out)} of {_MPI_OPTIONS} is left out: it tunes the network of the machines that the "
                "job is made for.",
            )
    return Launch(
        command=(*command, *arguments(own)),
        environment={**environment, **given},
        working_folder=CODE,
        notes=notes,
        warnings=tuple(bool_warnings(code / program)) if (code / program).is_file() else (),
    )


def _is_sagemakers(name: str) -> bool:
    return name in _KNOWN or name.startswith(_PREFIX)


def _decode(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _entry_point(program: Any) -> str:
    if not is_entry_point(program):
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
        with _decompressed(source) as tar:
            unpack(str(tar), str(code))
    except StartError as error:
        raise UserError(f"sagemaker_submit_directory {module_dir!r}: {error}") from None


@contextmanager
def _decompressed(archive: Path) -> Generator[Path]:
    """The archive, or within the block the tar that it holds compressed.

    Raises:
        StartError: it is damaged, or holds far more than its own size promises.
    """
    with open(archive, "rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    if not is_compressed:
        yield archive
        return
    most = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * archive.stat().st_size))
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / archive.name
        try:
            with gzip.open(archive) as compressed, open(plain, "wb") as written:
                while chunk := compressed.read(1 << 20):
                    if written.tell() + len(chunk) > most:
                        raise StartError(f"{archive.name} holds more than {most >> 20} MiB. Allowed: less.")
                    written.write(chunk)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise StartError(f"{archive.name} is not a whole tar.gz archive: {error}.") from None
        yield plain


def _command(program: str, code: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """process.ProcessRunner._create_command without a shell in between, and what to tell the user."""
    notes: list[str] = []
    if (code / "requirements.txt").exists() and not program.endswith(".sh"):
        notes.append("requirements.txt is not installed locally: the program sees this environment's packages.")
    if program.endswith(".sh") or not (program.endswith(".py") or (code / "setup.py").exists()):
        path = code / program
        path.chmod(0o700)
        with path.open("rb") as file:
            direct = file.read(2) == b"#!"
        # The toolkit runs `sh -c "./program args"`; a file without #! is then read by that shell.
        return (() if direct else ("/bin/sh",)) + (f"./{program}",), tuple(notes)
    if (code / "setup.py").exists():
        notes.append("setup.py is not installed locally: the package is run from its folder.")
        return ("python3", "-m", program.removesuffix(".py")), tuple(notes)
    return ("python3", "--", program), tuple(notes)


def _launched(launcher: str, command: tuple[str, ...], framework: Mapping[str, Any]) -> tuple[str, ...]:
    """The same program as the processes of our launcher, which reads the hosts from the job's files."""
    given = framework.get(_NUM_PROCESSES) or 0 if launcher == "mpirun" else int(launcher == "tf_config")
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise UserError(f"Hyperparameter {_NUM_PROCESSES} is {given!r}. Allowed: a whole number from 1.")
    if command[0] == "/bin/sh":
        raise UserError(f"sagemaker_program {command[1]!r} does not say what runs it. Begin it with #!/bin/sh.")
    program = [command[-1]] if "-m" in command else ["--script", command[-1]]
    return (*launched(launcher, given), *program)


def launched(launcher: str, processes: int) -> tuple[str, ...]:
    """The command of our launcher, without the program."""
    # -P: no file of the user's is taken for a module of ours.
    return (sys.executable, "-P", "-m", _LAUNCH, f"--launcher={launcher}", f"--processes={processes}")


def mpi_options(text: str) -> tuple[dict[str, str], list[str]]:
    """Split options for mpirun into the variables that they give the processes (`-x NAME=VALUE`), and the other
    words."""
    told: dict[str, str] = {}
    left_out: list[str] = []
    words = iter(text.split())
    for word in words:
        name, equals, value = next(words, "").partition("=") if word == "-x" else ("", "", "")
        if equals:
            told[name] = value
        elif word != "-x":
            left_out.append(word)  # (`-x NAME` hands a variable on, which all are)
    return told, left_out


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join(names[:8]) + (" ..." if len(names) > 8 else "") if names else "nothing"
