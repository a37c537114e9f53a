"""Processes that this very process spawns, with light programs; tests of notebook.py train with them."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.launch.processes import spawned
from drivetrain.training.launch.processes.spawned import RankError, Ranks

PROGRAMS = """
import os, signal, sys
from drivetrain.base.errors import InputError

def rank():  # this module is imported before the rank is known
    return int(os.environ["RANK"])

def talk(work):
    print(f"rank {rank()} of {os.environ['WORLD_SIZE']} on {os.environ['LOCAL_RANK']}: {work}")
    print("é" * 3, file=sys.stderr)
    assert "__file__" not in vars(sys.modules["__main__"])

def raises_on_1(work):
    if rank() == 1:
        raise KeyError(work)
    signal.pause()  # the others wait for it, as in a collective

def bad_input(work):
    raise InputError("no recipe 'digit'")

def dies_on_1(work):
    if rank() == 1:
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()

def loses_1(work):
    if rank() == 0:
        raise RuntimeError("Connection closed by peer (gloo)")
    if rank() == 1:
        open(work).read()  # a pipe: the reason comes after its consequence
        raise KeyError("the reason")

def stubborn(work):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", os.getpid(), flush=True)
    while True:
        signal.pause()

def leaves_a_child(work):
    pid = os.fork()
    if pid == 0:
        signal.pause()
    print("child", pid, flush=True)
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that the processes can import by name."""
    (tmp_path / "spawned_programs.py").write_text(PROGRAMS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("spawned_programs")
    del sys.modules["spawned_programs"]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def run(number: int, program: Callable[[str], None], work: str, tmp_path: Path) -> Ranks:
    ranks = Ranks(number, program, work, {"MINE": "1"})
    try:
        ranks.run(tmp_path)
    finally:
        assert [process.exitcode for process in ranks.processes].count(None) == 0
    return ranks


def test_output_of_rank_0_is_shown(programs: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks = run(2, programs.talk, "some work", tmp_path)
    assert capsys.readouterr().out == "rank 0 of 2 on 0: some work\nééé\n"
    assert list(ranks.last[1]) == ["rank 1 of 2 on 1: some work\n", "ééé\n"]


def test_a_rank_that_raises_is_named_with_its_traceback(programs: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(RankError, match=r"^rank 1 of 2 on this machine failed: KeyError: 'boom'\n") as raised:
        run(2, programs.raises_on_1, "boom", tmp_path)
    assert "raise KeyError(work)" in str(raised.value)
    assert {failure.rank: failure.kind for failure in raised.value.failures} == {0: "stopped", 1: "program"}


def test_bad_input_is_bad_input(programs: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^no recipe 'digit'$"):
        run(2, programs.bad_input, "", tmp_path)


def test_a_rank_that_dies_is_named_with_its_last_words(programs: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(RankError, match=r"(?s)rank 1 of 2 .*ended by SIGKILL.*last words$"):
        run(2, programs.dies_on_1, "", tmp_path)


def test_the_rank_with_the_reason_is_waited_for(programs: ModuleType, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    report = tmp_path / "error-0.json"

    def let_go() -> None:
        while not report.exists():
            time.sleep(0.01)
        pipe.write_text("")

    thread = threading.Thread(target=let_go)
    thread.start()
    with pytest.raises(RankError, match=r"^rank 1 of 2 on this machine failed: KeyError: 'the reason'"):
        run(2, programs.loses_1, str(pipe), tmp_path)
    thread.join()


def test_an_interrupt_ends_all_even_stubborn_ranks(
    programs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawned, "LEAVE_S", 0.2)
    ranks = Ranks(2, programs.stubborn, "")
    shown: list[str] = []

    def write(text: str) -> int:
        shown.append(text)
        os.kill(os.getpid(), signal.SIGINT)
        return len(text)

    monkeypatch.setattr(sys, "stdout", type("Cell", (), {"write": staticmethod(write), "flush": lambda self: None})())
    with pytest.raises(KeyboardInterrupt):
        ranks.run(tmp_path)
    monkeypatch.undo()
    assert shown and shown[0].startswith("ready ")
    assert [process.exitcode for process in ranks.processes] == [-signal.SIGKILL] * 2 or -signal.SIGTERM in [
        process.exitcode
        for process in ranks.processes  # the second had perhaps not come so far
    ]


def test_a_leftover_process_of_a_rank_does_not_block(
    programs: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It still has the pipe that its rank wrote to."""
    run(1, programs.leaves_a_child, "", tmp_path)
    child = int(capsys.readouterr().out.split()[1])
    assert not is_gone(child)
    os.kill(child, signal.SIGKILL)
