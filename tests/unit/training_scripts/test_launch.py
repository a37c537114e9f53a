"""The launcher with one process, which needs no torch; tests/distributed starts several."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.errors import LostHostError
from drivetrain.training.launch.arguments import parse, read_options
from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.job import Options, Program
from drivetrain.training.launch.launchers.torchrun import torchrun_command
from drivetrain.training_scripts.launch import (
    choose_launcher,
    describe_cluster,
    literal_of_strategy,
    resolve_hosts,
)

PROGRAM = """
import os, signal, sys, time
from drivetrain.base.errors import InputError
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.launch.processes.parent import die_with_parent

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
def test_a_stop_leaves_no_process(number: signal.Signals, code: int, launcher: list[str], tmp_path: Path) -> None:
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


def command(cluster: Cluster, **options: Any) -> list[str]:
    program = Program("module", "m", ("-x",))
    return torchrun_command(cluster, program, Options(**options), report=Path("r"), log_folder=Path("l"))


def test_one_host_takes_no_fixed_port() -> None:
    words = command(Cluster(processes=2))
    assert "--standalone" in words
    assert not any("port" in word for word in words)
    assert words[-6:] == ["-m", "--", "drivetrain.training.launch.processes.rank", "module", "m", "-x"]
    assert {"--nproc-per-node=2", "--shutdown-timeout=90", "--max-restarts=0"} <= set(words)


def test_several_hosts_meet_at_the_first_in_their_order() -> None:
    words = command(Cluster(hosts=("a", "b", "c"), host_index=2, processes=4, port=1234))
    assert {"--nnodes=3", "--node-rank=2", "--master-addr=a", "--master-port=1234", "--local-addr=c"} <= set(words)
    assert not any("c10d" in word for word in words)


def test_hosts_that_may_come_again_meet_by_c10d() -> None:
    cluster = Cluster(hosts=("a", "b", "c"), host_index=1, port=1234, min_hosts=2, job="job-7")
    words = command(cluster, max_restarts=3, join_timeout=60, last_call=5)
    assert {"--nnodes=2:3", "--rdzv-backend=c10d", "--rdzv-endpoint=a:1234", "--rdzv-id=job-7"} <= set(words)
    assert "--max-restarts=3" in words
    assert "--rdzv-conf=is_host=0,join_timeout=60,last_call_timeout=5,timeout=60" in words
    assert "--rdzv-conf=is_host=1" in " ".join(command(Cluster(hosts=("a", "b")), rendezvous="c10d"))
    with pytest.raises(InputError, match="rendezvous=static with max_restarts"):
        command(Cluster(hosts=("a", "b")), rendezvous="static", max_restarts=1)


@pytest.mark.parametrize(
    ("words", "options", "program"),
    [
        (["m", "--script", "x"], {}, Program("module", "m", ("--script", "x"))),
        (["--processes", "2", "m", "-h"], {"processes": 2}, Program("module", "m", ("-h",))),
        (["--processes=2", "--script=t.py", "--processes", "9"], None, Program("script", "t.py", ("--processes", "9"))),
        (["--max-restarts", "3", "--script", "t.py"], {"max_restarts": 3}, Program("script", "t.py")),
    ],
)
def test_our_options_end_where_the_program_begins(
    words: list[str], options: dict[str, Any] | None, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").touch()
    given, found = parse(words)
    assert found == program
    wanted = {"processes": 2} if options is None else options
    assert {name: value for name, value in given.items() if value is not None} == wanted


def test_a_program_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"no script 'train.py' in"):
        parse(["--script", "train.py"])
    with pytest.raises(InputError, match=r"'notes.txt' is neither Python"):
        parse(["--script", "notes.txt"])
    with pytest.raises(SystemExit, match="2"):
        parse(["--processes", "2"])


def test_options_come_from_the_command_line_then_from_variables() -> None:
    variables = {"DRIVETRAIN_MAX_RESTARTS": "2", "DRIVETRAIN_HANG_TIMEOUT": "2.5", "DRIVETRAIN_LAUNCHER": "mpirun"}
    found = read_options(variables, {"launcher": "torchrun", "max_restarts": None})
    assert found == Options(launcher="torchrun", max_restarts=2, hang_timeout=2.5)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"DRIVETRAIN_MAX_RESTARTS": "two"}, "DRIVETRAIN_MAX_RESTARTS='two'; allowed are whole numbers"),
        ({"DRIVETRAIN_HANG_TIMEOUT": "soon"}, "DRIVETRAIN_HANG_TIMEOUT='soon'; allowed are numbers"),
        ({"DRIVETRAIN_HANG_TIMEOUT": "-1"}, "hang_timeout=-1.0; allowed are numbers from 0 to below 1000000000"),
        ({"DRIVETRAIN_STOP_TIMEOUT": "0"}, "stop_timeout=0; allowed are whole numbers from 1"),
        ({"DRIVETRAIN_RENDEZVOUS": "etcd"}, "no rendezvous 'etcd'. Allowed: auto, c10d, static"),
        ({"DRIVETRAIN_LAUNCHER": "mpirun", "DRIVETRAIN_MAX_RESTARTS": "1"}, "launcher=mpirun has no restarts"),
    ],
)
def test_invalid_options_are_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_options(variables, {})


def test_the_launcher_is_chosen_by_what_there_is_to_start() -> None:
    ours, other = Program("module", "drivetrain.training_scripts.train"), Program("module", "train")
    assert choose_launcher(Cluster(), other, Options()) == "python"
    assert choose_launcher(Cluster(), other, Options(max_restarts=1)) == "torchrun"
    assert choose_launcher(Cluster(processes=2), other, Options()) == "torchrun"
    assert choose_launcher(Cluster(processes=2), ours, Options()) == "python"
    assert choose_launcher(Cluster(processes=2), ours, Options(max_restarts=1)) == "torchrun"
    assert choose_launcher(Cluster(hosts=("a", "b")), ours, Options()) == "torchrun"
    keras = Program("module", "drivetrain.training_scripts.train", ("--strategy=tf_multi_worker",))
    assert choose_launcher(Cluster(hosts=("a", "b")), keras, Options()) == "tf_config"
    assert choose_launcher(Cluster(hosts=("a", "b")), keras, Options(launcher="mpirun")) == "mpirun"
    servers = Program("module", "drivetrain.training_scripts.train", ("--strategy=tf_parameter_server",))
    assert choose_launcher(Cluster(), servers, Options()) == "tf_config"
    assert literal_of_strategy(servers, "ROLES") == "chief=1,worker=*,ps=1"
    assert literal_of_strategy(keras, "ROLES") == ""
    with pytest.raises(InputError, match=r"no launcher 'torchrum'. Did you mean 'torchrun'?"):
        choose_launcher(Cluster(), ours, Options(launcher="torchrum"))


def test_hosts_that_never_resolve_are_named() -> None:
    hosts = ("127.0.0.1", "no-such-host.invalid", "nor-this-one.invalid")
    missing = r"'no-such-host.invalid', 'nor-this-one.invalid' have no address after 0 s"
    with pytest.raises(LostHostError, match=missing):
        resolve_hosts(Cluster(hosts=hosts, contract="SM_HOSTS"), Options(resolve_timeout=0))
    # A range of hosts starts without them.
    found = resolve_hosts(Cluster(hosts=hosts, min_hosts=1), Options(resolve_timeout=0))
    assert found == {hosts[0]: "127.0.0.1", hosts[1]: None, hosts[2]: None}
    with pytest.raises(LostHostError, match=r"'no-such-host.invalid' has no address"):
        resolve_hosts(Cluster(hosts=(hosts[1], hosts[0]), min_hosts=1), Options(resolve_timeout=0))


def test_one_line_says_which_contract_was_read() -> None:
    cluster = Cluster(("a", "b"), 1, 4, port=1234, min_hosts=1, contract="SM_HOSTS")
    assert describe_cluster(cluster, Options(launcher="torchrun", max_restarts=2), "eth0", "the route") == (
        "from SM_HOSTS: 1 to 2 hosts x 4 processes, this is 1 (b); torchrun, meeting at a:1234, up to 2 restarts, "
        "network interface eth0 (the route)"
    )
    one = Cluster(processes=2)
    assert describe_cluster(one, Options(launcher="torchrun"), "lo", "") == (
        "from a plain shell: 1 host x 2 processes; torchrun"
    )
