"""Starts of a job counted by the real launcher, with a program that knows nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.attempts import read_attempts
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.launch.interruptions import FOLDER, TooManyInterruptionsError, count_start, counted
from drivetrain.training.launch.job import Options


def endings(folder: Path) -> list[str | None]:
    return [attempt.ended for attempt in read_attempts(open_place(folder), FOLDER)]


def test_consecutive_interruptions_count(tmp_path: Path) -> None:
    for code in (75, 0, 75, 130, 1):
        count_start(str(tmp_path), 2)(code)
    assert endings(tmp_path) == ["stopped", "finished", "stopped", "stopped", "failed"]
    for _ in range(3):  # killed: they say nothing
        count_start(str(tmp_path), 2)
    with pytest.raises(TooManyInterruptionsError, match=r"interrupted 3 times in a row, and max_interruptions=2\."):
        count_start(str(tmp_path), 2)
    count_start(str(tmp_path), 2)  # somebody starts it all the same: counted anew


def test_no_more_starts_are_kept_than_are_counted(tmp_path: Path) -> None:
    for code in (75, 0, *[75] * 60):
        count_start(str(tmp_path), 60)(code)
    assert len(endings(tmp_path)) == 62
    count_start(str(tmp_path), 60)
    assert len(endings(tmp_path)) == 62
    with pytest.raises(TooManyInterruptionsError, match=r"interrupted 61 times in a row, and max_interruptions=60\."):
        count_start(str(tmp_path), 60)


def test_a_start_with_bad_input_is_no_interruption(tmp_path: Path) -> None:
    options = Options(checkpoints=str(tmp_path), max_interruptions=1)
    with pytest.raises(InputError), counted(options, is_first=True):
        raise InputError("no such launcher")
    assert endings(tmp_path) == ["failed"]


def test_without_a_bound_or_on_other_hosts_nothing_is_written(tmp_path: Path) -> None:
    for options, is_first in (
        (Options(checkpoints=str(tmp_path)), True),
        (Options(checkpoints=str(tmp_path), max_interruptions=1), False),
    ):
        with counted(options, is_first=is_first) as end:
            end(75)
    assert list(tmp_path.iterdir()) == []


def test_a_bound_needs_a_place_to_count_in() -> None:
    with pytest.raises(InputError, match="max_interruptions=3 is counted in the checkpoints folder"):
        Options(max_interruptions=3)
    with pytest.raises(InputError, match="max_interruptions=-1; allowed are whole numbers from 0"):
        Options(max_interruptions=-1)


@pytest.mark.slow
def test_the_launcher_counts_for_any_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os, signal, sys\n"
        "print('ready', os.getppid(), flush=True)\n"
        "signal.pause() if sys.argv[1] == 'wait' else None\n"
    )
    failure = tmp_path / "failure"
    environment = {**os.environ, "DRIVETRAIN_FAILURE_FILE": str(failure), "DRIVETRAIN_MAX_INTERRUPTIONS": "2"}
    command = [sys.executable, "-m", "drivetrain.training_scripts.launch", f"--checkpoints={tmp_path / 'kept'}"]

    def start(word: str, number: signal.Signals | None) -> int:
        with subprocess.Popen(
            [*command, "--script", "program.py", word],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as launcher:
            assert launcher.stdout is not None
            if number is not None:
                assert launcher.stdout.readline().startswith("ready")
                launcher.send_signal(number)
            launcher.stdout.read()
            return launcher.wait(timeout=30)

    assert start("wait", signal.SIGTERM) == 75
    assert start("wait", signal.SIGKILL) == -signal.SIGKILL
    assert start("wait", signal.SIGKILL) == -signal.SIGKILL
    assert start("end", None) == 1
    assert failure.read_text().startswith("interrupted 3 times in a row, and max_interruptions=2. What was saved is in")
    assert "--set spot=false" in failure.read_text()
    assert start("end", None) == 0
    assert endings(tmp_path / "kept") == ["stopped", None, None, "failed", "finished"]
