"""The training toolkit's convention: our launch, and ours against the real toolkit's (marked `toolkit`)."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.processes import mounts
from drivetrain.processes.container import Cluster, Host, Job, lay_out_training, start
from drivetrain.steps.start import FREE_BYTES
from drivetrain.targets.sagemaker.run import toolkit
from tests.fixtures.public_forms import FORMS

ROOT = Path(__file__).parents[5]
TOOLKIT = ROOT / ".venvs" / "toolkit"

# Writes what the toolkit gives a program: its own arguments, where it starts, and the variables.
DUMP_PY = """
import json, os, sys
found = {"argv": sys.argv, "cwd": os.getcwd(), "variables": dict(os.environ)}
json.dump(found, open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "dump.json"), "w"))
"""
DUMP_SH = """#!/bin/bash
python3 -c '
import json, os, sys
found = {"argv": sys.argv[1:], "cwd": os.getcwd(), "variables": dict(os.environ)}
json.dump(found, open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "dump.json"), "w"))
' "$0" "$@"
"""


def archive(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o644
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


def channel(name: str, **more: Any) -> dict[str, Any]:
    return {"ChannelName": name, **more}


def lay_out(
    root: Path, hyperparameters: dict[str, str], *, hosts: int = 1, channels: tuple[str, ...] = ("train",)
) -> None:
    entries = [channel(name, ContentType="text/csv") for name in channels]
    names = tuple(f"127.0.0.{number + 1}" for number in range(hosts))
    lay_out_training(
        root,
        Cluster(names, "ml.m5.xlarge"),
        names[-1],
        hyperparameters=hyperparameters,
        input_data_config=entries,
    )


def submit(program: str, **more: str) -> dict[str, str]:
    return {
        "sagemaker_program": json.dumps(program),
        "sagemaker_submit_directory": '"s3://bucket/key/source/sourcedir.tar.gz"',
        **more,
    }


def run(root: Path, launch: toolkit.Launch, mode: str = "auto") -> dict[str, Any]:
    job = Job(
        command=launch.command,
        environment=launch.environment,
        hosts=(Host("127.0.0.1", root),),
        log_folder=root.parent / "logs",
        working_folder=launch.working_folder,
        mode=mode,  # type: ignore[arg-type]
    )
    result = start(job).wait(60)
    assert result is not None and result.exit_code == 0, result
    return json.loads((root / "output" / "data" / "dump.json").read_text())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: gzip.compress(bytes(FREE_BYTES + 1), 1), "holds more than 64 MiB"),
        (lambda: gzip.compress(os.urandom(5000))[:2000], "is not a whole tar.gz archive"),
        (lambda: gzip.compress(b"x" * 1024), "is not a whole tar archive"),
    ],
    ids=["bomb", "half", "no tar"],
)
def test_an_archive_that_is_none_is_refused(tmp_path: Path, content: Callable[[], bytes], message: str) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("train.py"))
    (tmp_path / "s.tar.gz").write_bytes(content())
    with pytest.raises(UserError, match=rf"sagemaker_submit_directory .*s\.tar\.gz {message}"):
        toolkit.prepare(root, {}, archive=tmp_path / "s.tar.gz")
    assert not any((root / "code").iterdir())


def test_arguments_and_variables_reach_the_program(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("train.py", epochs="5", flag="true", n="null", nested='{"b": [1, 2]}', text="a b; $(c)"))
    launch = toolkit.prepare(root, {"MINE": "1"}, archive=archive(tmp_path / "s.tar.gz", {"train.py": DUMP_PY}))
    found = run(root, launch, "namespace" if os.geteuid() == 0 else "auto")
    assert found["argv"] == [
        "train.py", "--epochs", "5", "--flag", "True", "-n", "", "--nested", "b=[1, 2]", "--text", "a b; $(c)"
    ]  # fmt: skip
    assert found["cwd"].endswith("/code")
    variables = found["variables"]
    assert variables["MINE"] == "1"
    assert json.loads(variables["SM_HPS"]) == {
        "epochs": 5, "flag": True, "n": None, "nested": {"b": [1, 2]}, "text": "a b; $(c)"
    }  # fmt: skip
    assert variables["SM_CHANNEL_TRAIN"].endswith("/input/data/train")
    assert variables["SM_MODULE_DIR"] == "s3://bucket/key/source/sourcedir.tar.gz"


@pytest.mark.parametrize("mode", ["auto", "rewrite"])
def test_a_shell_program_gets_its_arguments_untouched(tmp_path: Path, mode: str) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("run.sh", text="\"a b; $(touch /tmp/x) 'q'\""))
    launch = toolkit.prepare(root, {}, archive=archive(tmp_path / "s.tar.gz", {"run.sh": DUMP_SH}))
    assert run(root, launch, mode)["argv"] == ["./run.sh", "--text", "a b; $(touch /tmp/x) 'q'"]


def test_a_shell_program_without_an_interpreter_line_runs_in_sh(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("run.sh", a="1"))
    text = DUMP_SH.partition("\n")[2]
    launch = toolkit.prepare(root, {}, archive=archive(tmp_path / "s.tar.gz", {"run.sh": text}))
    assert launch.command == ("/bin/sh", "./run.sh", "-a", "1")
    assert run(root, launch)["argv"] == ["./run.sh", "-a", "1"]


@pytest.mark.parametrize(
    "program", ["", "/bin/sh", "../train.py", "-c", "a/../../b.py", "train.py;ls", "a b.py", "./t.py"]
)
def test_a_program_that_is_no_plain_path_is_refused(tmp_path: Path, program: str) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit(program))
    with pytest.raises(UserError, match="sagemaker_program"):
        toolkit.prepare(root, {}, archive=archive(tmp_path / "s.tar.gz", {"train.py": ""}))


def test_a_missing_program_names_what_is_there(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("train.py"))
    with pytest.raises(UserError, match=r"'train.py' is not in .*holds other.py"):
        toolkit.prepare(root, {}, archive=archive(tmp_path / "s.tar.gz", {"other.py": ""}))


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("train.py"))
    with pytest.raises(UserError, match=r"sourcedir\.tar\.gz.* does not exist"):
        toolkit.prepare(root, {}, archive=None)


def test_an_archive_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("train.py"))
    with pytest.raises(UserError, match="leads outside"):
        toolkit.prepare(root, {}, archive=archive(tmp_path / "s.tar.gz", {"../evil.py": "x"}))
    assert not (root / "evil.py").exists()


@pytest.mark.parametrize(
    ("name", "what", "instead"),
    [
        ("sagemaker_parameter_server_enabled", "estimators", "ParameterServerStrategy.*--roles chief=1,worker=1,ps=1"),
        ("sagemaker_distributed_dataparallel_enabled", "SMDDP", "sagemaker_torch_distributed_enabled"),
    ],
)
def test_a_distribution_that_is_not_here_names_what_to_use_instead(
    tmp_path: Path, name: str, what: str, instead: str
) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("train.py", **{name: "true"}))
    with pytest.raises(UserError, match=f"hyperparameter {name} asks for .*{what}.* Use .*{instead}"):
        toolkit.prepare(root, {}, archive=archive(tmp_path / "s.tar.gz", {"train.py": ""}))
    assert toolkit.unsupported(submit("train.py", **{name: "false"})) is None


@pytest.mark.parametrize(
    ("program", "given", "words"),
    [
        ("train.py", {"sagemaker_mpi_enabled": "true"}, ["mpirun", "0", "--script", "train.py"]),
        (
            "run.sh",
            {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "2"},
            ["mpirun", "2", "--script", "./run.sh"],
        ),
        ("train.py", {"sagemaker_torch_distributed_enabled": "true"}, ["torchrun", "0", "--script", "train.py"]),
        (
            "train.py",
            {"sagemaker_multi_worker_mirrored_strategy_enabled": "true"},
            ["tf_config", "1", "--script", "train.py"],
        ),
    ],
)
def test_distributions_are_our_launchers(tmp_path: Path, program: str, given: dict[str, str], words: list[str]) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit(program, epochs="3", **given))
    source = archive(tmp_path / "s.tar.gz", {program: "#!/bin/sh\n", "train.py": ""})
    launch = toolkit.prepare(root, {}, archive=source)
    launcher, processes, *rest = words
    start = (sys.executable, "-P", "-m", "drivetrain.training_scripts.launch")
    assert launch.command == (*start, f"--launcher={launcher}", f"--processes={processes}", *rest, "--epochs", "3")


def test_variables_among_the_options_of_mpirun_reach_the_processes(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    options = "-verbose -x HOROVOD_FUSION_THRESHOLD=1048576 -x PATH -x NCCL_DEBUG=VERSION --mca btl_tcp_if_include eth0"
    lay_out(root, submit("t.py", sagemaker_mpi_enabled="true", sagemaker_mpi_custom_mpi_options=json.dumps(options)))
    launch = toolkit.prepare(root, {}, archive=archive(tmp_path / "s.tar.gz", {"t.py": ""}))
    assert launch.environment["HOROVOD_FUSION_THRESHOLD"] == "1048576"
    assert launch.environment["NCCL_DEBUG"] == "VERSION"
    (note,) = launch.notes
    assert note.startswith("-verbose --mca btl_tcp_if_include eth0 of sagemaker_mpi_custom_mpi_options is left out")


@pytest.mark.slow
def test_an_imported_mpi_job_runs_as_one(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    mpi = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "2"}
    lay_out(root, submit("train.py", **mpi))
    code = (
        "import os\n"
        "place = [os.environ[name] for name in ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'SM_MODEL_DIR')]\n"
        "open(f\"{os.environ['SM_OUTPUT_DATA_DIR']}/{place[0]}\", 'w').write(' '.join(place[:2]))\n"
    )
    launch = toolkit.prepare(root, {}, archive=archive(tmp_path / "s.tar.gz", {"train.py": code}))
    job = Job(
        command=launch.command,
        environment=launch.environment,
        hosts=(Host("127.0.0.1", root),),
        log_folder=tmp_path / "logs",
        working_folder=launch.working_folder,
    )
    result = start(job).wait(120)
    assert result is not None and result.exit_code == 0, result
    written = {path.name: path.read_text() for path in (root / "output" / "data").iterdir()}
    assert written == {"0": "0 2", "1": "1 2"}


def test_a_hyperparameter_that_cannot_be_a_variable_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("train.py", **{"a=b": "1"}))
    with pytest.raises(UserError, match="'A=B'"):
        toolkit.prepare(root, {}, archive=archive(tmp_path / "s.tar.gz", {"train.py": ""}))


def test_requirements_are_not_installed_and_a_note_says_so(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("train.py"))
    launch = toolkit.prepare(
        root, {}, archive=archive(tmp_path / "s.tar.gz", {"train.py": "", "requirements.txt": "nosuch==1"})
    )
    assert any("requirements.txt" in note for note in launch.notes)


def hyperparameters_of_definitions() -> list[tuple[str, dict[str, str]]]:
    """The sagemaker_program steps of published definitions, references replaced by a value."""
    found: list[tuple[str, dict[str, str]]] = []

    def walk(value: Any, where: str) -> None:
        if isinstance(value, dict):
            given = value.get("HyperParameters", {})
            if isinstance(given, dict) and "sagemaker_program" in given:
                plain = {name: v if isinstance(v, str) else "7" for name, v in given.items()}
                found.append((f"{where}-{len(found)}", plain))
            for below in value.values():
                walk(below, where)
        elif isinstance(value, list):
            for below in value:
                walk(below, where)

    for form in FORMS.values():
        walk(form(), form.__name__)
    assert len(found) >= 3
    return found


CASES: list[tuple[str, dict[str, str]]] = [
    ("plain", submit("train.py", epochs="5", lr="9e-05", sagemaker_region='"us-east-1"')),
    ("types", submit("train.py", a="1.50", b='[1, "x"]', c='{"k": "v", "a": null}', d="false", e="text", f='""')),
    ("unicode", submit("train.py", text='"é ✓"')),
    ("names", submit("sub/train.py", **{"max-vocab": "3", "x": "1", "under_score": "2", "model_dir": '"/data/model"'})),
    ("shell", submit("run.sh", text='"a b; $HOME \'q\' \\"d\\""', n="null")),
    ("command", submit("run", epochs="1")),
    ("framework", submit("train.py", sagemaker_job_name='"job-x"', sagemaker_custom="3", _tuning_objective_metric="a")),
    ("level", submit("train.py", sagemaker_container_log_level="10")),
    *hyperparameters_of_definitions(),
]  # fmt: skip


@pytest.mark.toolkit
@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize(("name", "hyperparameters"), CASES, ids=[name for name, _ in CASES])
def test_the_real_toolkit_gives_the_same(
    tmp_path: Path, name: str, hyperparameters: dict[str, str], hosts: int
) -> None:
    program = json.loads(hyperparameters["sagemaker_program"])
    files = {program: DUMP_PY if program.endswith(".py") else DUMP_SH}
    source = archive(tmp_path / "sourcedir.tar.gz", files)
    # The toolkit would fetch the archive from S3: both get the path of the local file in its place.
    hyperparameters = {**hyperparameters, "sagemaker_submit_directory": json.dumps(str(source))}
    environment = {"TRAINING_JOB_NAME": "job-1", "SM_HP_MP_PARAMETERS": "{}", "AWS_DEFAULT_REGION": "eu-west-1"}

    theirs = tmp_path / "theirs" / "ml"
    lay_out(theirs, hyperparameters, hosts=hosts, channels=("train", "validation-1"))
    done = subprocess.run(
        [str(TOOLKIT / "bin" / "train")],
        env={
            **environment,
            "PATH": f"{TOOLKIT / 'bin'}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "SAGEMAKER_BASE_DIR": str(theirs),
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    expected = json.loads((theirs / "output" / "data" / "dump.json").read_text())

    ours = tmp_path / "ours" / "ml"
    lay_out(ours, hyperparameters, hosts=hosts, channels=("train", "validation-1"))
    launch = toolkit.prepare(ours, environment, archive=source)
    actual = run(ours, launch)

    base = mounts.BASE if mounts.isolation() != "none" else str(ours)
    assert actual["argv"] == [word.replace(str(theirs), base) for word in expected["argv"]]
    assert actual["cwd"] == expected["cwd"].replace(str(theirs), base)
    # The toolkit starts a shell program through /bin/sh, and dash drops variables that it could not name.
    shell = not program.endswith(".py")
    dropped = [name for name in actual["variables"] if shell and not name.isidentifier()]
    variables = {n: v for n, v in actual["variables"].items() if is_compared(n) and n not in dropped}
    assert variables == {n: v.replace(str(theirs), base) for n, v in expected["variables"].items() if is_compared(n)}
    assert actual["variables"]["PYTHONPATH"].split(":")[0] == f"{base}/code"


def is_compared(variable: str) -> bool:
    if variable == mounts.BASE_VARIABLE:  # how the toolkit is moved away from /opt/ml in this test
        return False
    return variable.startswith(("SM_", "SAGEMAKER_")) or variable in ("CURRENT_HOST", "TRAINING_JOB_NAME")


def test_an_argument_that_is_always_true_is_warned_of(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    lay_out(root, submit("train.py"))
    script = "parser.add_argument('--flag', type=bool)"
    launch = toolkit.prepare(root, {}, archive=archive(tmp_path / "s.tar.gz", {"train.py": script}))
    assert [warning[:28] for warning in launch.warnings] == ["train.py, line 1: --flag has"]
