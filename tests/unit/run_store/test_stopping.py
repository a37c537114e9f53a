"""Runs that another process runs are asked to stop; tests/unit/client and tests/unit/cli/runs stop real ones."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store import stopping
from drivetrain.run_store.home import Home
from drivetrain.run_store.stopping import stop
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.training.launch.processes.parent import follows_parent

STEPS = [("train", "Training", "train")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with a run `e-1`, of which the ledger does not know an end."""
    home = Home(tmp_path)
    home.create()
    with LedgerWriter(home) as writer:
        writer.begin("e-1", "p", definition_hash="d", request_hash="r", parameters={}, steps=STEPS)
    return home


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The signals that a process is sent, which a runner would handle."""
    found: list[int] = []
    before = {each: signal.signal(each, lambda number, frame: found.append(number)) for each in stopping._HANDLED}
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


def refused(home: Home, said: str) -> None:
    with pytest.raises(UserError, match=said):
        stop(home, "latest")


def test_the_process_of_the_run_is_signalled_once(home: Home, asked: list[int]) -> None:
    with home.lock("e-1"):
        assert stop(home, "e") == "e-1"
    assert asked == [signal.SIGTERM]


def test_a_run_without_a_process_is_refused(home: Home, asked: list[int]) -> None:
    refused(home, r"Run e-1 was interrupted: .* Go on with it: drivetrain runs resume e-1")
    with LedgerWriter(home) as writer:
        writer.finish("e-1", "Succeeded", None)
    refused(home, r"Run e-1 has ended \(succeeded\); there is nothing to stop\.")
    assert asked == []


def test_a_process_id_of_another_machine_is_ignored(home: Home, asked: list[int]) -> None:
    other = subprocess.Popen(["sleep", "600"], preexec_fn=follows_parent(signal.SIGKILL))
    try:
        with home.lock("e-1"):  # a lock of a file system that machines share
            for number in (other.pid, 2**22 + 1):  # a process of something else has it, or none: Linux counts to 2**22
                home.lock_file("e-1").write_text(str(number))
                refused(
                    home, rf"\(pid {number}\) on another machine, or in another container. Stop it there: drivetrain"
                )
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    assert asked == []


def test_a_run_in_a_thread_cannot_be_stopped(home: Home) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # which would end the process, and all that it does besides
    try:
        with home.lock("e-1"):
            refused(home, f"process {os.getpid()} runs it in a thread that signals do not reach")
    finally:
        signal.signal(signal.SIGTERM, before)
