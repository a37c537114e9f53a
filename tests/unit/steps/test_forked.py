"""Processes that are forked before they have a program."""

from __future__ import annotations

import os
import signal
import sys
import types
from pathlib import Path

import pytest

from drivetrain.steps.forked import Forked, forked
from drivetrain.training.launch.processes.supervision import supervise

PROGRAM = "import os, pathlib; pathlib.Path(os.environ['FILE']).write_text(str(os.getpgid(0) == os.getpid()))"


def test_a_forked_process_prepares_and_then_becomes_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    children = forked(3, lambda: os.setpgid(0, 0))
    files = [tmp_path / str(number) for number in range(3)]
    commands = [([sys.executable, "-c", PROGRAM], {"FILE": str(file)}) for file in files]
    assert supervise(commands, stop_seconds=30, forked=children) == ([0, 0, 0], None)
    assert [file.read_text() for file in files] == ["True"] * 3
    assert [child.returncode for child in children] == [0, 0, 0]


def test_without_torch_no_process_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert forked(2) == []


def test_a_fork_without_a_program_ends_with_its_launcher() -> None:
    first = Forked([])
    second = Forked([first])
    assert (first.poll(), second.poll()) == (None, None)
    first.leave()  # the second has no end of the first one's pipe
    assert first.returncode == 0
    second.send_signal(signal.SIGTERM)
    assert second.wait() == -signal.SIGTERM
    third = Forked([])
    os.kill(third.pid, signal.SIGSTOP)
    third.kill()
    assert third.wait() == -signal.SIGKILL
