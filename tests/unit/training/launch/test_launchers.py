"""What each launcher starts; several processes without torch."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.base.ports import held_port
from drivetrain.training import plugins
from drivetrain.training.launch import torchrun as started_by_torchrun
from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.job import Job, Options, Program
from drivetrain.training.launch.launchers import deepspeed, horovodrun, mpirun, torchrun
from drivetrain.training.launch.launchers.mpirun import mpirun_command

SHOW = """
import json, os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TF_CONFIG")
os.write(1, (json.dumps({name: os.environ.get(name) for name in names}) + chr(10)).encode())
if sys.argv[1:] == ["fail"] and os.environ["RANK"] == "1":
    raise KeyError("price")
"""


def launch(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "show.py").write_text(SHOW)
    return subprocess.run(
        [sys.executable, "-m", "drivetrain.training_scripts.launch", *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("name", plugins.names("launchers"))
def test_every_launcher_says_what_it_is(name: str) -> None:
    module = plugins.load("launchers", name, kind="launcher")
    assert module.SUMMARY
    assert callable(module.run)


def test_tf_config_gives_every_process_the_whole_cluster(tmp_path: Path) -> None:
    ended = launch(tmp_path, "--launcher=tf_config", "--processes=2", "--port=2222", "--script", "show.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    shown = sorted((json.loads(line) for line in ended.stdout.splitlines()[1:]), key=lambda one: one["RANK"])
    assert [one["RANK"] for one in shown] == [one["LOCAL_RANK"] for one in shown] == ["0", "1"]
    parts = [json.loads(one["TF_CONFIG"]) for one in shown]
    assert [part["task"] for part in parts] == [{"type": "worker", "index": 0}, {"type": "worker", "index": 1}]
    assert parts[0]["cluster"] == parts[1]["cluster"] == {"worker": ["127.0.0.1:2222", "127.0.0.1:2223"]}
    # Where nobody names a port, other jobs on this machine have theirs.
    ended = launch(tmp_path, "--launcher=tf_config", "--processes=2", "--script", "show.py")
    workers = json.loads(json.loads(ended.stdout.splitlines()[1])["TF_CONFIG"])["cluster"]["worker"]
    assert len(set(workers)) == 2 and not {"127.0.0.1:29500", "127.0.0.1:29501"} & set(workers)


ROLES = """
import json, os, signal, sys
task = json.loads(os.environ["TF_CONFIG"])["task"]
os.write(1, f"{task['type']} {task['index']} gpus={os.environ.get('CUDA_VISIBLE_DEVICES')}\\n".encode())
if task["type"] == sys.argv[1]:
    raise KeyError("price")
if task["type"] in ("worker", "ps"):
    os.write(os.open("ready", os.O_WRONLY), b".")
    signal.pause()  # as a server of TensorFlow, which never ends
ready = os.open("ready", os.O_RDWR)  # of both ends, so that it is never at its end
for _ in range(int(sys.argv[2])):
    os.read(ready, 1)
"""


def test_servers_end_when_the_chief_is_done(tmp_path: Path) -> None:
    (tmp_path / "roles.py").write_text(ROLES)
    os.mkfifo(tmp_path / "ready")
    words = ["--launcher=tf_config", "--roles=chief=1,worker=1,ps=1", "--script", "roles.py"]
    ended = launch(tmp_path, *words, "nobody", "2", CUDA_VISIBLE_DEVICES="0")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(ended.stdout.splitlines()[1:]) == ["chief 0 gpus=0", "ps 0 gpus=", "worker 0 gpus=0"]


def test_a_server_that_fails_is_named_by_its_role(tmp_path: Path) -> None:
    (tmp_path / "roles.py").write_text(ROLES)
    os.mkfifo(tmp_path / "ready")
    words = ["--launcher=tf_config", "--roles=chief=1,worker=1,ps=1", "--script", "roles.py"]
    ended = launch(tmp_path, *words, "ps", "9")
    assert ended.returncode == 1
    assert ended.stderr.startswith("ps 0, rank 2 of 3 on 127.0.0.1 failed: KeyError: 'price'\nTraceback")


@pytest.mark.slow
def test_the_chiefs_end_is_that_of_servers_on_other_hosts(tmp_path: Path) -> None:
    (tmp_path / "roles.py").write_text(ROLES)
    os.mkfifo(tmp_path / "ready")
    program = ["--script", "roles.py", "nobody", "3"]
    words = [sys.executable, "-m", "drivetrain.training_scripts.launch", "--launcher=tf_config"]
    with held_port() as held:
        hosts = {"DRIVETRAIN_HOSTS": "127.0.0.2,127.0.0.3", "DRIVETRAIN_PORT": str(held.getsockname()[1])}
        started = [
            subprocess.Popen(
                [*words, "--roles=chief=1,worker=2,ps=1", *program],
                cwd=tmp_path,
                env={**os.environ, **hosts, "DRIVETRAIN_HOST": host},
                stdout=subprocess.PIPE,
                text=True,
            )
            for host in hosts["DRIVETRAIN_HOSTS"].split(",")
        ]
        said = [one.communicate(timeout=60)[0].splitlines()[1:] for one in started]
    assert [sorted(lines) for lines in said] == [
        ["chief 0 gpus=None", "worker 0 gpus=None"],
        ["ps 0 gpus=", "worker 1 gpus=None"],
    ]
    assert [one.returncode for one in started] == [0, 0]


@pytest.mark.slow
def test_a_host_that_does_not_come_is_named(tmp_path: Path) -> None:
    (tmp_path / "roles.py").write_text("raise SystemExit(9)")
    with held_port() as held:
        hosts = {"DRIVETRAIN_HOSTS": "127.0.0.2,127.0.0.3", "DRIVETRAIN_HOST": "127.0.0.2"}
        hosts |= {"DRIVETRAIN_PORT": str(held.getsockname()[1]), "DRIVETRAIN_JOIN_TIMEOUT": "1"}
        ended = launch(tmp_path, "--launcher=tf_config", "--script", "roles.py", **hosts)
    assert ended.returncode == 75
    assert "127.0.0.3 did not come within 1 s" in ended.stderr


def test_a_port_that_another_simulated_host_holds_is_named(tmp_path: Path) -> None:
    with held_port() as held:
        port = held.getsockname()[1]
        (tmp_path / "serve.py").write_text(f"import socket\nsocket.socket().bind(('', {port}))\n")
        hosts = {"DRIVETRAIN_HOSTS": "127.0.0.2,127.0.0.3", "DRIVETRAIN_HOST": "127.0.0.3"}
        simulated = launch(tmp_path, "--launcher=python", "--script", "serve.py", **hosts)
        alone = launch(tmp_path, "--launcher=python", "--script", "serve.py")
    said = f"The hosts of this job are simulated on one machine, so only one of them can listen on port {port} of all"
    assert simulated.returncode == alone.returncode == 1
    first, second, *_ = simulated.stderr.splitlines()
    assert first.endswith(f"failed: OSError: [Errno 98] Address already in use: port {port}")
    assert second.startswith(said) and "SM_CURRENT_HOST" in second
    assert f"already in use: port {port}" in alone.stderr and "simulated" not in alone.stderr


DEEPSPEED = """
import json, os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "MASTER_ADDR", "DS_ACCELERATOR")
found = {name: os.environ[name] for name in names}
os.write(1, (json.dumps([sys.argv[1:], found, "torch" in sys.modules]) + chr(10)).encode())
"""


def test_deepspeed_gives_each_process_its_variables_and_its_local_rank(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(DEEPSPEED)
    builders = tmp_path / "deepspeed" / "ops" / "op_builder"  # stands for the package, which takes seconds to import
    builders.mkdir(parents=True)
    (tmp_path / "deepspeed" / "__init__.py").write_text("import deepspeed.ops")
    (builders / "builder.py").write_text("class OpBuilder: ...")
    (builders / "cpu.py").write_text("class NotImplementedBuilder: ...")
    words = [
        "--launcher=deepspeed",
        "--processes=2",
        "--port=2223",
        "--script",
        "program.py",
        "--deepspeed_config",
        "d",
    ]
    hosts = {"DRIVETRAIN_HOSTS": "127.0.0.2,127.0.0.3", "DRIVETRAIN_HOST": "127.0.0.3", "CUDA_VISIBLE_DEVICES": ""}
    ended = launch(tmp_path, *words, **hosts, PYTHONPATH=str(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")
    shown = sorted(json.loads(line) for line in ended.stdout.splitlines() if line.startswith("["))
    common = {"WORLD_SIZE": "4", "LOCAL_SIZE": "2", "CROSS_RANK": "1", "CROSS_SIZE": "2", "MASTER_ADDR": "127.0.0.2"}
    assert shown == [
        [
            [f"--local_rank={local}", "--deepspeed_config", "d"],
            {"RANK": str(2 + local), "LOCAL_RANK": str(local), "DS_ACCELERATOR": "cpu", **common},
            False,
        ]
        for local in (0, 1)
    ]


def test_the_process_that_failed_is_named_without_torchrun(tmp_path: Path) -> None:
    ended = launch(tmp_path, "--launcher=tf_config", "--processes=3", "--script", "show.py", "fail")
    assert ended.returncode == 1
    assert ended.stderr.startswith("rank 1 of 3 on 127.0.0.1 failed: KeyError: 'price'\nTraceback")


def test_python_starts_a_script_as_it_is_and_a_module_as_a_group_of_one(tmp_path: Path) -> None:
    ended = launch(tmp_path, "--launcher=python", "--script", "show.py")
    assert set(json.loads(ended.stdout).values()) == {None}
    ended = launch(tmp_path, "--launcher=python", "show")
    assert json.loads(ended.stdout) == {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "TF_CONFIG": None}
    ended = launch(tmp_path, "--launcher=python", "--processes=2", "show")
    shown = sorted((json.loads(line) for line in ended.stdout.splitlines()[1:]), key=lambda one: one["RANK"])
    assert [(one["RANK"], one["WORLD_SIZE"], one["LOCAL_RANK"]) for one in shown] == [("0", "2", "0"), ("1", "2", "1")]
    (tmp_path / "meet.py").write_text("import os; print(os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'])")
    hosts = {"DRIVETRAIN_HOSTS": "127.0.0.2,127.0.0.3", "DRIVETRAIN_HOST": "127.0.0.3"}
    ended = launch(tmp_path, "--launcher=python", "--port=7777", "--script", "meet.py", **hosts)
    assert ended.stdout.splitlines()[-1] == "127.0.0.2 7777"
    ended = launch(tmp_path, "--launcher=python", "show", **hosts)
    # The program makes of its hosts what it likes.
    assert set(json.loads(ended.stdout.splitlines()[-1]).values()) == {None}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--launcher=python", "--processes=2"], "launcher=python starts one process a host"),
        (["--launcher=mpi"], "no launcher 'mpi'. Did you mean 'mpirun'?"),
        (["--launcher=python", "--max-restarts=1"], "launcher=python has no restarts"),
        (["--nodes=1:2"], "DRIVETRAIN_NODES='1:2', but a plain shell names 1 host"),
    ],
)
def test_unstartable_programs_are_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    ended = launch(tmp_path, *words, "--script", "show.py")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: {message}")
    assert ended.stderr.count("\n") == 1


def test_without_mpirun(tmp_path: Path) -> None:
    job = Job(
        cluster=Cluster(processes=2),
        program=Program("command", "/bin/true"),
        options=Options(launcher="mpirun"),
        environment={"PATH": str(tmp_path)},
        folder=tmp_path,
    )
    with pytest.raises(InputError, match=r"there is no mpirun on PATH. Install Open MPI"):
        mpirun.run(job)


def test_deepspeed_starts_python_alone(tmp_path: Path) -> None:
    job = Job(
        cluster=Cluster(processes=2),
        program=Program("command", "/bin/true"),
        options=Options(launcher="deepspeed"),
        environment={},
        folder=tmp_path,
    )
    with pytest.raises(InputError, match=r"/bin/true is neither. Give the script; or start .* with launcher=python"):
        deepspeed.run(job)


def test_horovodrun_without_horovod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(
        cluster=Cluster(processes=2),
        program=Program("script", "train.py"),
        options=Options(launcher="horovodrun"),
        environment={},
        folder=tmp_path,
    )
    monkeypatch.setitem(sys.modules, "horovod.runner.http.http_server", None)
    with pytest.raises(InputError, match=r"package horovod is needed .* or take an image that has Horovod"):
        horovodrun.run(job)


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(
        cluster=Cluster(processes=2),
        program=Program("command", "/bin/true"),
        options=Options(launcher="torchrun"),
        environment={},
        folder=tmp_path,
    )
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    with pytest.raises(InputError, match=r"torch is not installed here. .* choose launcher=python or mpirun"):
        torchrun.run(job)


def following(words: list[str], option: str) -> list[Any]:
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def test_mpirun_is_told_the_hosts_their_slots_and_what_to_forward() -> None:
    environment = {
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_DEBUG": "INFO",
        "PYTHONPATH": "/code",
        "HOME": "/root",
        "SM_CURRENT_HOST": "algo-1",
        "OMPI_MCA_btl": "tcp",
        "BASH_FUNC_module%%": "() { :; }",
    }
    cluster = Cluster(("algo-1.invalid", "algo-2.invalid"), 0, 4)
    words = mpirun_command(cluster, ["program", "--x", "1"], environment)
    assert words[-3:] == ["program", "--x", "1"]
    assert following(words, "-np") == ["8"]
    assert following(words, "--host") == ["algo-1.invalid:4,algo-2.invalid:4"]
    assert following(words, "-x") == ["GLOO_SOCKET_IFNAME", "NCCL_DEBUG", "PYTHONPATH"]
    settings = {words[at + 1]: words[at + 2] for at, word in enumerate(words) if word == "--mca"}
    assert settings["btl_tcp_if_include"] == settings["oob_tcp_if_include"] == "eth0"
    assert "BatchMode=yes" in settings["plm_rsh_args"]
    # `job-node-0-1.job` is a pod's name; by `job-node-0-1`, as Open MPI shortens it, nobody finds the pod.
    assert settings["orte_keep_fqdn_hostnames"] == "1"


def test_hosts_that_are_this_machine_need_no_ssh() -> None:
    words = mpirun_command(Cluster(("127.0.0.2", "127.0.0.3"), 0, 2), ["program"], {"GLOO_SOCKET_IFNAME": "lo"})
    assert following(words, "--host") == ["localhost:4"]
    assert "plm_rsh_agent" not in words
    # Open MPI 5 says "No network interfaces were found" where its daemon is given the loopback interface.
    assert "btl_tcp_if_include" in words and "oob_tcp_if_include" not in words


def test_an_older_torch_is_not_given_the_option_that_it_does_not_know() -> None:
    words = ["--standalone", "--shutdown-timeout=90", "-m", "--", "program", "--shutdown-timeout=1"]
    assert started_by_torchrun._known(words, "usage: [--shutdown-timeout SECONDS]") == words
    assert started_by_torchrun._known(words, "usage:") == [words[0], *words[2:]]
    assert started_by_torchrun._known(["-m"], "usage:") == ["-m"]
