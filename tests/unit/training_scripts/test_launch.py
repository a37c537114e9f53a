"""The launcher with one process, which needs no torch; tests/distributed starts several."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.training_scripts.cluster import Cluster
from drivetrain.training_scripts.launch import torchrun_command, wait_for

PROGRAM = """
import os, signal, sys, time
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.failure import run_rank
from drivetrain.training_scripts.parent import die_with_parent

def program():
    kind = sys.argv[1]
    print("arguments", sys.argv[1:], os.environ["RANK"], os.environ["WORLD_SIZE"], os.getpid(), flush=True)
    if kind == "input":
        raise InputError("no recipe 'digit'")
    if kind == "raise":
        raise ValueError("boom")
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "wait":
        signal.pause()
    if kind == "save":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        print("ready", flush=True)
        signal.sigwait([signal.SIGTERM])
        print("saved", flush=True)

die_with_parent(signal.SIGKILL)
run_rank(program)
"""


@pytest.fixture
def launcher(tmp_path: Path) -> list[str]:
    (tmp_path / "rank_program.py").write_text(PROGRAM)
    return [sys.executable, "-m", "drivetrain.training_scripts.launch", "--processes=1", "rank_program"]


def environment(tmp_path: Path) -> dict[str, str]:
    temporary = tmp_path / "tmp"
    temporary.mkdir(exist_ok=True)
    failure = str(tmp_path / "failure")
    return {**os.environ, "PYTHONPATH": str(tmp_path), "DRIVETRAIN_FAILURE_FILE": failure, "TMPDIR": str(temporary)}


@pytest.mark.parametrize(
    ("kind", "code", "last_line"),
    [
        ("fine", 0, ""),
        ("input", 2, "error: no recipe 'digit'"),
        ("raise", 1, "ValueError: boom"),
        ("killed", 75, "or the machine was taken back)"),
    ],
)
def test_exit_code_and_reason(kind: str, code: int, last_line: str, launcher: list[str], tmp_path: Path) -> None:
    ended = subprocess.run(
        [*launcher, kind, "--epochs", "3", "a b"], env=environment(tmp_path), capture_output=True, text=True
    )
    assert ended.returncode == code
    assert ended.stdout.startswith(f"arguments ['{kind}', '--epochs', '3', 'a b'] 0 1 ")
    failure = tmp_path / "failure"
    if code == 0:
        assert ended.stderr == ""
        assert not failure.exists()
    else:
        assert ended.stderr.rstrip().endswith(last_line)
        assert failure.read_text().rstrip().endswith(last_line)
    if kind == "raise":
        assert ended.stderr.startswith("rank 0 of 1 on 127.0.0.1 failed: ValueError: boom\nTraceback")
        assert 'raise ValueError("boom")' in failure.read_text()
        assert len(ended.stderr.splitlines()) <= 16
    assert list((tmp_path / "tmp").iterdir()) == []  # nothing is left behind


def test_sigterm_is_passed_on_and_a_save_counts(launcher: list[str], tmp_path: Path) -> None:
    with subprocess.Popen([*launcher, "save"], env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("arguments")
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "saved\n"
        assert process.wait(timeout=20) == 0  # the rank ended well, so the job did


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_stop_leaves_nobody(number: signal.Signals, code: int, launcher: list[str], tmp_path: Path) -> None:
    with subprocess.Popen([*launcher, "wait"], env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        rank = int(process.stdout.readline().split()[-1])
        process.send_signal(number)
        assert process.wait(timeout=20) == code
        assert process.stdout.read() == ""  # the rank's end of the pipe is closed: it is gone
    with pytest.raises(ProcessLookupError):
        os.kill(rank, 0)
    assert (tmp_path / "failure").read_text().startswith(f"stopped by {number.name} before the program was done")


def test_a_rank_does_not_outlive_a_killed_launcher(launcher: list[str], tmp_path: Path) -> None:
    with subprocess.Popen([*launcher, "wait"], env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        assert process.stdout.read() == ""  # returns only when the rank, too, has ended


def test_bad_variables_are_one_line(launcher: list[str], tmp_path: Path) -> None:
    ended = subprocess.run(
        [*launcher, "fine"],
        env={**environment(tmp_path), "DRIVETRAIN_HOSTS": "a,b", "DRIVETRAIN_HOST": "c"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stderr == "error: DRIVETRAIN_HOST='c' is not one of DRIVETRAIN_HOSTS='a,b'.\n"


def test_the_launcher_imports_no_torch() -> None:
    code = "import drivetrain.training_scripts.launch, sys; print('torch' in sys.modules, 'numpy' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False False\n"


def test_one_host_takes_no_fixed_port() -> None:
    command = torchrun_command(Cluster(processes=2), ["m", "-x"], report=Path("r"), log_folder=Path("l"))
    assert "--standalone" in command
    assert not any("port" in argument for argument in command)
    assert command[-3:] == ["-m", "m", "-x"]
    assert "--nproc-per-node=2" in command
    assert "--shutdown-timeout=90" in command


def test_several_hosts_meet_at_the_first() -> None:
    cluster = Cluster(hosts=("a", "b", "c"), host_index=2, processes=4, port=1234)
    command = torchrun_command(cluster, ["m"], report=Path("r"), log_folder=Path("l"))
    assert {"--nnodes=3", "--node-rank=2", "--master-addr=a", "--master-port=1234"} <= set(command)


def test_waiting_for_a_name_ends() -> None:
    assert wait_for("127.0.0.1")
    assert not wait_for("no-such-host.invalid", seconds=-1)
