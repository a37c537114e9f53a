"""Several processes through the real launcher and torchrun."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.slow
def test_two_ranks_with_their_share_of_the_cores(
    start: Start, tmp_path: Path, ranks: Any, new_interpreters: None
) -> None:
    process = start("--processes=2", "rank_program", "fine")
    found = ranks(process, 2)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    assert set(found) == {0, 1}
    assert {values["of"] for values in found.values()} == {2}
    assert {values["threads"] for values in found.values()} == {max(1, len(os.sched_getaffinity(0)) // 2)}
    assert list((tmp_path / "tmp").iterdir()) == []  # torchrun's own folder is gone, too


@pytest.mark.parametrize(
    ("kind", "code", "first_line", "last_line"),
    [
        pytest.param(
            "raise",
            1,
            "rank 1 of 2 on 127.0.0.1 failed: ValueError: boom on rank 1",
            "ValueError: boom on rank 1",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("kill", 75, "rank 1 of 2 on 127.0.0.1 failed: it was ended by SIGKILL", ""), marks=pytest.mark.slow
        ),
        pytest.param(
            *("terminate", 75, "rank 1 of 2 on 127.0.0.1 failed: it was ended by SIGTERM", ""),
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            *("exit", 1, "rank 1 of 2 on 127.0.0.1 failed: it ended with exit code 3", "SystemExit: 3"),
            marks=pytest.mark.slow,
        ),
        pytest.param(*("input", 2, "error: no recipe 'digit'", "error: no recipe 'digit'"), marks=pytest.mark.nightly),
    ],
)
def test_the_rank_that_failed_is_named(
    kind: str, code: int, first_line: str, last_line: str, start: Start, tmp_path: Path
) -> None:
    process = start("--processes=2", "rank_program", kind)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.startswith(first_line)
    assert err.rstrip().endswith(last_line)
    assert (tmp_path / "failure").read_text().rstrip() == err.rstrip()
    if kind == "raise":
        assert 'raise ValueError("boom on rank 1")' in err
    if kind == "input":
        assert err.count("\n") == 1  # once, not once a rank


@pytest.mark.slow
def test_a_native_crash_is_distinguished_from_ranks_that_torchrun_stopped(start: Start) -> None:
    process = start("--processes=2", "rank_program", "abort")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "rank 1 of 2 on 127.0.0.1 failed: it was ended by SIGABRT" in err
    assert "Fatal Python error: Aborted" in err


@pytest.mark.slow
def test_sigterm_ends_all(start: Start, ranks: Any, assert_gone: Any) -> None:
    process = start("--processes=2", "rank_program", "wait")
    found = ranks(process, 2)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)  # ends with the last holder of the pipe
    assert (process.returncode, out) == (75, "")
    assert err == "stopped by SIGTERM before the program was done; it can be tried again.\n"
    assert_gone([pid for values in found.values() for pid in (values["pid"], values["parent"])])


LEFT = ("1 process", "2 processes")  # or none: they end by themselves when torchrun does


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["launcher", "torchrun"])
def test_no_rank_outlives_a_killed_parent(victim: str, start: Start, ranks: Any, assert_gone: Any) -> None:
    process = start("--processes=2", "rank_program", "wait")
    found = ranks(process, 2)
    os.kill(process.pid if victim == "launcher" else found[0]["parent"], signal.SIGKILL)
    out, err = process.communicate(timeout=60)  # ends with the last holder of the pipe
    if victim == "launcher":
        assert out == ""
    else:
        assert out in ("", *(f"launcher: ended {some} that the program had left behind\n" for some in LEFT))
        assert process.returncode == 75
        assert err == "torchrun on 127.0.0.1 was ended by SIGKILL; it can be tried again.\n"
    assert_gone([pid for values in found.values() for pid in (values["pid"], values["parent"])])


@pytest.mark.slow
def test_two_hosts_are_ranked_in_their_order(two_hosts: Any) -> None:
    processes = two_hosts("rank_program", "fine")
    for number, process in enumerate(processes):
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        said, line = out.splitlines()
        assert said.startswith(f"launcher: from DRIVETRAIN_HOSTS: 2 hosts x 1 process, this is {number} (127.0.0.")
        assert said.endswith("network interface lo (the route to the other hosts)")
        assert line.startswith(f"rank {number} of 2 ")


@pytest.mark.slow
def test_a_port_that_is_taken(start: Start, tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.2", 0))
        listener.listen()
        process = start(
            "rank_program",
            "fine",
            DRIVETRAIN_HOSTS="127.0.0.2,127.0.0.3",
            DRIVETRAIN_HOST="127.0.0.2",
            DRIVETRAIN_PORT=str(listener.getsockname()[1]),
        )
        _, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert err.startswith("127.0.0.2 did not meet the other hosts of the job (DistNetworkError: ")
    assert "Give another DRIVETRAIN_PORT" in err
    assert (tmp_path / "failure").read_text() == err


@pytest.mark.slow
def test_hosts_that_never_resolve_are_named(start: Start, tmp_path: Path) -> None:
    process = start(
        *("--resolve-timeout=1", "rank_program", "fine"),
        DRIVETRAIN_HOSTS="127.0.0.2,no-such-host.invalid,nor-this.invalid",
        DRIVETRAIN_HOST="127.0.0.2",
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "launcher: waiting for no-such-host.invalid, nor-this.invalid: no address yet after 0 s of 1 s\n" in out
    assert err == (
        "the hosts of the job did not meet: 'no-such-host.invalid', 'nor-this.invalid' have no address after 1 s. Are "
        "they part of this job (DRIVETRAIN_HOSTS names 3 hosts)? It can be tried again.\n"
    )
    assert (tmp_path / "failure").read_text() == err


CRASH_ONCE = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
first = int(os.environ["TORCHELASTIC_RESTART_COUNT"]) == 0
for step in range(20):
    dist.all_reduce(torch.ones(3))
    if first and step == 5 and dist.get_rank() == 1:
        raise ValueError("the first time")
print(f"done {dist.get_rank()}", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.nightly
def test_one_crash_with_restarts_left_ends_well(start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CRASH_ONCE)
    process = start("--processes=2", "--max-restarts=2", "--script", "train.py")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "launcher: restart 1 of 2 (rank 1: ValueError: the first time)\n" in out
    assert sorted(line for line in out.splitlines() if line.startswith("done")) == ["done 0", "done 1"]
    assert not (tmp_path / "failure").exists()


@pytest.mark.slow
def test_one_crash_on_one_of_two_hosts_with_restarts_left_ends_well(two_hosts: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CRASH_ONCE)
    for number, process in enumerate(two_hosts("--max-restarts=1", "--script", "train.py")):
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        assert f"done {number}\n" in out


@pytest.mark.slow
def test_restarts_that_do_not_help_end_with_the_last_reason(start: Start) -> None:
    process = start("--processes=2", "--max-restarts=1", "rank_program", "raise")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "launcher: restart 1 of 1 (rank 1: ValueError: boom on rank 1)\n" in out
    assert err.startswith("rank 1 of 2 on 127.0.0.1 failed: ValueError: boom on rank 1\n")


@pytest.mark.slow
def test_bad_input_is_not_retried(start: Start, tmp_path: Path) -> None:
    process = start("--processes=2", "--max-restarts=5", "rank_program", "input")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err == "error: no recipe 'digit'\n"
    assert "restart" not in out.partition("\n")[2]  # the first line says how many there may be
    assert (tmp_path / "failure").read_text() == err


@pytest.mark.nightly
def test_many_jobs_side_by_side_on_one_machine(start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CRASH_ONCE.replace("first and", "False and"))
    jobs = [start("--processes=2", "--script", "train.py") for _ in range(4)]
    for job in jobs:
        out, err = job.communicate(timeout=180)
        assert job.returncode == 0, err
        assert {"done 0", "done 1"} <= set(out.splitlines())


@pytest.mark.slow
def test_a_users_script_gets_its_arguments_and_its_traceback_is_reported(start: Start, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os, sys, time\nprint(sys.argv[1:], flush=True)\n"
        "if os.environ['RANK'] == '1':\n    raise OSError('no data')\ntime.sleep(60)\n"
    )
    process = start("--processes=2", "--script", "mine.py", "--epochs", "3", "--name=a b")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "['--epochs', '3', '--name=a b']" in out
    assert err.splitlines()[:2] == [
        "rank 1 of 2 on 127.0.0.1 failed: OSError: no data",
        "Traceback (most recent call last):",
    ]
    assert (tmp_path / "failure").read_text() == err


TALKING = """
import os, signal
import torch
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.process import join_group

def program():
    with join_group() as process:
        for step in range(10_000):
            process.sum(torch.ones(10))
            if step == 3 and process.rank == 1:
                raise ValueError("boom on rank 1")

run_rank(program)
"""


@pytest.mark.slow
def test_a_failing_host_ends_the_others_and_is_the_only_cause(tmp_path: Path, two_hosts: Any) -> None:
    (tmp_path / "talking.py").write_text(TALKING)
    first, second = two_hosts("talking")
    _, first_err = first.communicate(timeout=120)
    _, second_err = second.communicate(timeout=120)
    assert second.returncode == 1
    assert second_err.startswith("rank 1 of 2 on 127.0.0.3 failed: ValueError: boom on rank 1\n")
    assert first.returncode == 75
    assert first_err.startswith("rank 0 of 2 on 127.0.0.2 failed: ")
    assert "It lost another process" in first_err


def arguments_of_train(data: Path, target: Path) -> list[str]:
    return [
        "drivetrain.training_scripts.train",
        *(f"--train={data}", f"--validation={data}", f"--model={target / 'model'}"),
        *(f"--output={target / 'output'}", f"--checkpoints={target / 'checkpoints'}"),
        *("--recipe=digits_cnn", '--recipe-options={"channels": 8, "hidden": 32}', "--epochs=2"),
    ]


@pytest.mark.slow
def test_a_job_and_beside_it_the_same_on_two_hosts_give_the_same_bytes(
    start: Start, digits: Path, tmp_path: Path, two_hosts: Any
) -> None:
    """Two jobs at once on one machine (no port is fixed): of two ranks on one host, and of the same on two.

    With one number of threads: how a sum is split among threads decides its last bit.
    """
    threads = {"OMP_NUM_THREADS": "1"}
    one = start("--processes=2", *arguments_of_train(digits, tmp_path / "one"), **threads)
    for job in (one, *two_hosts(*arguments_of_train(digits, tmp_path / "two"), **threads)):
        out, err = job.communicate(timeout=180)
        assert (job.returncode, err) == (0, "")
        if job is one:
            line = r"^epoch 2/2 step 4 train_loss=\S+ validation_loss=\S+ validation_accuracy=\S+ s"
            assert re.search(line, out, re.M)

    def files(name: str) -> dict[str, bytes]:
        found = [*(tmp_path / name / "model").rglob("*"), tmp_path / name / "output" / "history.json"]
        return {str(path.relative_to(tmp_path / name)): path.read_bytes() for path in found if path.is_file()}

    handed_on = {"model/model.safetensors", "model/model.json", "model/code/inference.py", "output/history.json"}
    assert handed_on <= set(files("one"))
    assert files("one") == files("two")
