"""A machine that is taken away: with notice, without, on several hosts, and against a user's stop."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drivetrain.processes import mounts, with_token
from drivetrain.processes.container import Host, Job, RunningJob, start

PYTHON = ("python3", "-I", "-S", "-c")
PATIENCE_S = 20.0
# A child in a session of its own, and a parent that says what it was told.
PROGRAM = """
import os, signal, sys, time
def told(number, frame):
    os.write(1, b"told\\n")  # print may be at work where the signal comes
    if sys.argv[1] == "obey":
        sys.exit(75)
signal.signal(signal.SIGTERM, told)
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"asked\\n"))
print("ready", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture(params=["pid", "none"], autouse=True)
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pid" and mounts.isolation() != "pid":
        pytest.skip("this machine has no pid namespaces")
    monkeypatch.setattr(mounts, "isolation", lambda: request.param)


def begin(folder: Path, how: str, hosts: int = 1) -> RunningJob:
    names = [f"127.0.0.{number + 1}" for number in range(hosts)]
    for name in names:
        (folder / name).mkdir(parents=True)
    job = Job(
        command=(*PYTHON, PROGRAM, how),
        environment={},
        hosts=tuple(Host(name, folder / name) for name in names),
        log_folder=folder / "logs",
    )
    running = start(job)
    deadline = time.monotonic() + PATIENCE_S
    while logged(folder).count("ready") < 2 * hosts:
        assert running.wait(0.01) is None, logged(folder)
        assert time.monotonic() < deadline
    return running


def logged(folder: Path) -> str:
    return "".join(path.read_text() for path in (folder / "logs").glob("*.log"))


@pytest.mark.parametrize("hosts", [1, 2])
def test_without_notice_no_signal_is_sent_first(tmp_path: Path, hosts: int) -> None:
    running = begin(tmp_path, "stay", hosts)
    began = time.monotonic()
    running.interrupt(0.0)
    result = running.wait(PATIENCE_S)
    assert result is not None and result.interrupted
    assert not (result.succeeded or result.stopped or result.timed_out) and result.failed_host is None
    assert time.monotonic() - began < 20.0
    assert "told" not in logged(tmp_path) and "asked" not in logged(tmp_path)
    assert not any(with_token(record.token) for record in running.processes)


def test_a_program_that_exits_in_time_ends_all_hosts(tmp_path: Path) -> None:
    running = begin(tmp_path, "obey", hosts=2)
    running.interrupt(PATIENCE_S)
    result = running.wait(PATIENCE_S)
    assert result is not None and result.interrupted and {host.exit_code for host in result.hosts} == {75}
    assert logged(tmp_path).count("told") == 2 and "asked" not in logged(tmp_path)
    assert result.wall_s < PATIENCE_S
    assert not any(with_token(record.token) for record in running.processes)


def test_a_program_that_stays_is_killed_after_the_notice(tmp_path: Path) -> None:
    running = begin(tmp_path, "stay")
    running.interrupt(0.3)
    began = time.monotonic()
    result = running.wait(PATIENCE_S)
    assert result is not None and result.interrupted and result.hosts[0].signal == 9
    assert time.monotonic() - began >= 0.29
    assert "told" in logged(tmp_path)
    assert not any(with_token(record.token) for record in running.processes)


def test_a_stop_by_the_user_has_priority(tmp_path: Path) -> None:
    running = begin(tmp_path, "stay")
    running.interrupt(PATIENCE_S * 10)
    running.stop(0.1)
    result = running.wait(PATIENCE_S)
    assert result is not None and result.stopped and not result.interrupted


def test_a_failure_before_the_interruption_stays_a_failure(tmp_path: Path) -> None:
    (tmp_path / "127.0.0.1").mkdir()
    job = Job(
        command=(*PYTHON, "import sys; sys.exit(3)"),
        environment={},
        hosts=(Host("127.0.0.1", tmp_path / "127.0.0.1"),),
        log_folder=tmp_path / "logs",
    )
    running = start(job)
    deadline = time.monotonic() + PATIENCE_S
    while not (tmp_path / "logs" / "127.0.0.1.ended").exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    running.interrupt(0.0)
    result = running.wait(PATIENCE_S)
    assert result is not None and result.failed_host == "127.0.0.1" and result.exit_code == 3 and not result.interrupted
