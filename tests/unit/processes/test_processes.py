"""Ending what a dead runner left: everything of ours, and nothing else's."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from drivetrain import processes as containers
from drivetrain.base.process_identity import start_time
from drivetrain.processes import (
    TOKEN_VARIABLE,
    ProcessRecord,
    end_survivors,
    process_table,
    record_of,
)

SLEEP = "import time; print('ready', flush=True); time.sleep(600)"
IGNORE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def spawn(program: str, token: str = "none") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program],
            env={TOKEN_VARIABLE: token},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    yield spawn
    for process in started:
        process.kill()
        process.communicate()


def test_a_live_process_is_recognised_and_a_dead_one_is_not(spawn: Callable[..., subprocess.Popen[str]]) -> None:
    process = spawn(SLEEP)
    record = record_of(process.pid, "t")
    assert containers.alive(record)
    process.kill()
    deadline = time.monotonic() + 10
    while containers.alive(record):  # it becomes a zombie: its pid is taken, but it does not run
        assert time.monotonic() < deadline
    assert start_time(process.pid, zombie=True) == record.start_time
    process.wait()
    assert start_time(process.pid) is None
    with pytest.raises(ProcessLookupError):
        record_of(process.pid, "t")


def test_names_with_brackets_and_spaces_do_not_confuse_the_table(spawn: Callable[..., subprocess.Popen[str]]) -> None:
    process = spawn("open('/proc/self/comm', 'w').write('a) S 1 (b'); " + SLEEP)
    assert process_table.stat(process.pid) is not None
    assert process.pid in process_table.descendants(os.getpid())


@pytest.mark.parametrize("program", [SLEEP, IGNORE], ids=["ends on SIGTERM", "ignores it"])
def test_a_survivor_is_ended(spawn: Callable[..., subprocess.Popen[str]], program: str) -> None:
    process = spawn(program)
    record = record_of(process.pid, "t")
    assert end_survivors([record], grace_s=0.2) == [record]
    assert process.wait(10) == -(signal.SIGTERM if program == SLEEP else signal.SIGKILL)
    assert end_survivors([record], grace_s=0.2) == []


@pytest.mark.parametrize("change", [{"start_time": 1}, {"boot": "another"}, {"start_time": 1, "boot": "another"}])
def test_a_reused_pid_is_not_signalled(spawn: Callable[..., subprocess.Popen[str]], change: dict[str, object]) -> None:
    process = spawn(SLEEP)
    record = dataclasses.replace(record_of(process.pid, "t"), **change)  # type: ignore[arg-type]
    assert end_survivors([record], grace_s=0.1) == []
    assert process.poll() is None


def test_descendants_of_a_killed_supervisor_are_found_by_their_token(
    spawn: Callable[..., subprocess.Popen[str]],
) -> None:
    ours, other = spawn(IGNORE, "token-1"), spawn(SLEEP, "token-2")
    gone = ProcessRecord(2**22 - 1, 1, containers.boot_id(), "token-1")
    assert end_survivors([gone]) == []
    assert ours.wait(10) == -signal.SIGKILL
    assert other.poll() is None


def test_a_temporary_folder_that_was_left_is_removed() -> None:
    token = f"test-{os.getpid()}"
    folder = containers.temporary_folder(token)
    os.makedirs(os.path.join(folder, "a"))
    end_survivors([ProcessRecord(2**22 - 1, 1, containers.boot_id(), token)])
    assert not os.path.exists(folder)


def test_the_descendants_of_descendants_are_listed(spawn: Callable[..., subprocess.Popen[str]]) -> None:
    process = spawn("import os, time\nfor _ in range(3):\n  if os.fork(): time.sleep(600)\n" + SLEEP)
    found = process_table.descendants(process.pid)
    assert len(found) == 3
    parents = [int((process_table.stat(pid) or ["", "0"])[1]) for pid in found]
    assert parents == [process.pid, *found[:2]]
    for pid in found:
        process_table.send(pid, signal.SIGKILL)


def test_a_process_without_its_environment_is_found_by_its_limit(spawn: Callable[..., subprocess.Popen[str]]) -> None:
    marks = f"import resource; resource.setrlimit(resource.RLIMIT_RTTIME, ({containers.mark_of('t')}, -1)); "
    daemons = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
    process = spawn(marks + daemons + SLEEP)
    (daemon,) = containers.with_token("t")
    assert process.wait(10) == 0 and containers.with_token("another") == []
    end_survivors([ProcessRecord(2**22 - 1, 1, containers.boot_id(), "t")])
    assert containers.with_token("t") == [] and start_time(daemon) is None


def test_a_process_that_exits_while_being_ended_is_no_error(
    spawn: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = spawn(SLEEP)
    record = record_of(process.pid, "t")
    opened = containers._open

    def ends_meanwhile(record: ProcessRecord) -> int | None:
        descriptor = opened(record)
        process.kill()
        process.wait()
        return descriptor

    monkeypatch.setattr(containers, "_open", ends_meanwhile)
    assert end_survivors([record]) == [record]


def test_an_unkillable_process_is_reported_and_not_awaited(
    spawn: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a process in an uninterruptible read: signals reach it, and it stays."""
    process = spawn(SLEEP, "stuck")
    monkeypatch.setattr(containers, "_send", lambda descriptor, number: True)
    end_survivors([ProcessRecord(2**22 - 1, 1, containers.boot_id(), "stuck")], unkillable_s=0.02)
    assert f"cannot be killed were left behind: [{process.pid}]" in capsys.readouterr().err
