"""Ranks that agree on a step to save and to leave at, whoever was told first."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.errors import StoppedError
from drivetrain.training.loop.agreement import Agreement
from drivetrain.training.process import Process


def told_at(process: Process, steps: dict[int, int], seconds: float) -> tuple[int, int]:
    """Steps until it stops, where ranks get SIGTERM after so many steps; and how often the ranks looked."""
    looks, heard = 0, list[int]()
    with Agreement(process, on_stop=lambda: heard.append(1)) as agreement:
        right = agreement._look

        def counted() -> None:
            nonlocal looks
            looks += 1
            right()

        agreement._look = counted
        for step in range(1, 5000):
            process.barrier()  # as the gradients do
            time.sleep(seconds)
            if step == steps.get(process.rank):
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)
            agreement.step()
            if agreement.stops:
                assert heard == [1]  # whoever was told
                return step, looks
    raise AssertionError("nobody stopped")


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("world_size", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_signal_to_one_rank_stops_all_at_the_same_step(world_size: int, forked: Any) -> None:
    answers = forked(world_size, told_at, {world_size - 1: 300}, 0.001)
    assert len(set(answers)) == 1
    step, looks = answers[0]
    assert 300 <= step < 300 + 2 * 256
    assert looks < 30  # a look at each step would be 300


@pytest.mark.slow
def test_signals_at_different_steps_stop_all_at_one_step(forked: Any) -> None:
    answers = forked(3, told_at, {0: 100, 1: 102, 2: 99}, 0.0)
    assert len(set(answers)) == 1


@pytest.mark.slow
def test_long_steps_are_checked_individually(forked: Any) -> None:
    assert forked(2, told_at, {1: 4}, 0.15) == [(4, 4), (4, 4)]


def saves_at(process: Process, due_at: int) -> list[int]:
    found: list[int] = []
    step = 0

    def is_due() -> bool:
        assert process.is_main
        return step >= due_at and not found

    with Agreement(process, save_is_due=is_due) as agreement:
        for step in range(1, 400):
            process.barrier()
            agreement.step()
            if agreement.saves:
                found.append(step)
            if step == 350:
                agreement.now()
                assert not agreement.saves
    return found


def test_the_first_rank_says_when_to_save_and_once(forked: Any) -> None:
    answers = forked(3, saves_at, 40)
    assert len(answers[0]) == 1
    assert answers[0] == answers[1] == answers[2]
    assert 40 <= answers[0][0] < 400


def at_once(process: Process) -> tuple[bool, bool, bool]:
    with Agreement(process, save_is_due=lambda: True) as agreement:
        agreement.now()
        first = agreement.saves
        agreement.restart()
        if process.rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        agreement.now()
        return first, agreement.saves, agreement.stops


def test_at_once(forked: Any) -> None:
    assert forked(2, at_once) == [(True, True, True)] * 2


def handlers(process: Process, ending: str) -> tuple[Any, bool]:
    try:
        with Agreement(process) as agreement:
            if ending == "stopped":
                raise StoppedError("enough")
            if ending == "failed":
                raise ValueError("boom")
    except (StoppedError, ValueError):
        pass
    left = signal.getsignal(signal.SIGTERM)
    return ("default" if left is signal.SIG_DFL else "noted"), agreement.is_told


@pytest.mark.parametrize(("ending", "expected"), [("well", "default"), ("failed", "default"), ("stopped", "noted")])
def test_the_signal_gets_its_meaning_back(ending: str, expected: str, forked: Any) -> None:
    assert forked(1, handlers, ending) == [(expected, False)]


def alone_after_a_signal(process: Process, tell_rank: Path) -> str:
    """As torchrun does it: a rank dies, and the others are sent SIGTERM while they wait for it."""
    started = time.monotonic()
    try:
        with Agreement(process) as agreement:
            for step in range(10_000):
                if process.rank == 1 and step == 50:
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == 50:
                    agreement._note(signal.SIGTERM, None)
                    tell_rank.write_text(str(time.time()))
                process.barrier()
                agreement.step()
    except RuntimeError as error:
        return f"{time.monotonic() - started:.1f} {error}"
    return "it went on"


def test_a_signalled_rank_that_lost_its_peer_exits_at_once(forked: Any, tmp_path: Path) -> None:
    """By the signal's own meaning: it gives no answer, and nothing is saved."""
    assert forked(2, alone_after_a_signal, tmp_path / "told", may_die=(0, 1), timeout=30) == [None, None]
    assert time.time() - float((tmp_path / "told").read_text()) < 20  # a group waits half an hour
