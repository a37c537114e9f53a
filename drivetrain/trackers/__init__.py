"""Experiment trackers that are told of runs on this machine: parameters, metrics as they come, artifacts, links.

tracker.py     what a tracker is told, and its settings
follow.py      the program that reads a run from the ledger and tells one tracker; one process a tracker
backends/      a tracker a file, found by its name

This file starts these programs when a run begins, and waits for them at its end, for a bounded time. Each tracker has a
process of its own: one that hangs, or takes long to import, neither fails nor slows the run. What was not told is said
once, at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from drivetrain.run_store.events import Event, ExecutionStarted, Observer
from drivetrain.run_store.home import Home, saved_options

PATIENCE_S = 30.0
"""How long the end of a run waits for all trackers together."""
Programs = dict[str, subprocess.Popen[bytes]]


@contextmanager
def told_to_trackers(home: Home, observer: Observer) -> Generator[Observer]:
    """An observer that also tells the run's trackers, until the end of the `with`; by then the page must be written."""
    execution = ""
    programs: Programs = {}

    def seen(event: Event) -> None:
        nonlocal execution
        if isinstance(event, ExecutionStarted):
            execution = event.execution
            _start(home, execution, programs)
        observer(event)

    try:
        yield seen
    finally:
        for problem in _finish(home, execution, programs):
            print(f"warning: {problem}", file=sys.stderr)


def _start(home: Home, execution: str, programs: Programs) -> None:
    """Start the programs of a run's trackers, and enter each under the tracker's name."""
    for name in saved_options(home.run(execution)).get("trackers", {}):
        log = home.trackers(execution) / f"{name}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            programs[name] = subprocess.Popen(
                [sys.executable, "-m", "drivetrain.trackers.follow", str(home.root), execution, name],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C stops the run, of whose end the tracker is still told
            )


def _finish(home: Home, execution: str, programs: Programs) -> list[str]:
    """Wait for the programs; gives what was not told, a sentence each."""
    for program in programs.values():
        assert program.stdin is not None
        program.stdin.close()
    deadline = time.monotonic() + PATIENCE_S
    problems: list[str] = []
    for name, program in programs.items():
        try:
            program.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            problem = f"{name} took more than {PATIENCE_S:g} s"
        else:
            from drivetrain.run_store.told import Told

            problem = Told.load(home, execution, name).problem
            if not problem and program.returncode:
                problem = f"{name} ended with exit code {program.returncode}"
        if problem:
            problems.append(f"{problem}. Tell it again: drivetrain runs track {execution}")
    return problems
