"""A rank skips a collective, gives a tensor of another size, is SIGSTOPped or SIGKILLed: the launcher says which rank
it is, in which collective the others wait for it, and at which line."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from drivetrain.base.errors import FAILED, RETRY
from drivetrain.processes import become
from drivetrain.training.launch.processes.parent import announce_parent, follows_parent
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.progress import ROOT

FAULT = "a collective skipped or of another size, a rank SIGSTOPped or SIGKILLed: named within 5 s of the time-out"
TRIALS, QUICK, AT_ONCE = 100, 2, 2
PRELOAD = ("torch", "drivetrain.training_scripts.launch")

_NAMED_WITHIN_S = 5.0
_TIMEOUT_S = 2.0
_PATIENCE_S = 60.0
_PAUSE_S = 0.02
_OPERATIONS = ("all_reduce", "broadcast", "all_gather", "barrier")
_CALLED = r"\w+( of float \[\d+\])? \(collective \d+, called at \S*collective_calls\.py, line \d+ in \w+\)"
_TOLD = {
    "skip": rf"it (calls {_CALLED}, where rank \d calls {_CALLED}|ended, but did not come to {_CALLED}, in which rank)",
    "shape": rf"it calls (?=all_reduce){_CALLED}, where rank \d calls (?=all_reduce){_CALLED}",
    "stop": rf"it did not come to {_CALLED} before rank \d(, rank \d)* timed out: it is stopped \(SIGSTOP\)[^\n]*\n"
    r"It was here \(most recent call first\):\n.* in misbehave\n",
    "kill": rf"it was ended by SIGKILL(.|\n)*Rank \d was in {_CALLED}\.",
}


Kind = Literal["skip", "shape", "stop", "kill"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the ranks do.

    Attributes:
        calls: of each step, (operation, elements).
        step, call: at which the `victim` does `kind`.
        elements: that it gives in place of the right number.
        folder: gets `injected`, the time of it.
    """

    calls: list[tuple[str, int]]
    steps: int
    kind: Kind
    victim: int
    step: int
    call: int
    elements: int
    timeout: float
    folder: str

    def words(self) -> list[str]:
        return ["tests.faults.harness.collective_calls", json.dumps(asdict(self))]


def trial(given: Trial, shared: None) -> Found:
    draw, size = given.draw, given.draw.choice((2, 2, 3))
    kind: Kind = given.in_turn(get_args(Kind))
    calls = [(draw.choice(_OPERATIONS), draw.randint(1, 5000)) for _ in range(draw.randint(1, 4))]
    place = draw.randrange(len(calls))
    if kind == "shape":  # what else gets a larger tensor than it waits for, gloo does not notice
        calls[place] = ("all_reduce", calls[place][1])
    plan = Plan(
        calls=calls,
        steps=8,
        kind=kind,
        victim=draw.randrange(size),
        step=draw.randint(2, 6),
        call=place,
        elements=_another(calls[place][1], draw),
        timeout=_TIMEOUT_S,
        folder=str(given.folder),
    )
    log = given.folder / "log.txt"
    pid = _launch([f"--processes={size}", "--launcher=python", *plan.words()], str(log))
    injected = given.folder / "injected"
    code, turns = _end_of(pid, injected)
    said, did, ended = log.read_text(), {f"{kind}, {size} ranks": 1}, time.time()
    if not injected.is_file():
        return Found([f"nothing was injected: {said}"], did)
    until = 0.0 if kind == "kill" else _TIMEOUT_S
    wall, seconds = ended - float(injected.read_text()) - until, turns - until
    did[f"named within {max(math.ceil(wall), 1)} s by the clock"] = 1
    expected = FAILED if kind in ("skip", "shape") else RETRY
    found = [] if code == expected else [f"the launcher ended with {code} instead of {expected}"]
    if f"rank {plan.victim} of {size} on 127.0.0.1 " not in said or not re.search(_TOLD[kind], said):
        found.append(f"rank {plan.victim} is not named")
    if seconds > _NAMED_WITHIN_S:
        found.append(f"it took {seconds:.1f} s, {wall:.1f} s by the clock")
    return Found([f"{kind} by rank {plan.victim} of {size}: {one}: {said[-2000:]}" for one in found], did)


def _another(elements: int, draw: random.Random) -> int:
    return elements + draw.choice((1, 7, elements)) if draw.random() < 0.5 or elements < 3 else elements // 2


def _launch(words: list[str], log: str) -> int:
    """The launcher, in a fork that need not import torch again; its process."""
    follow = follows_parent(signal.SIGKILL)
    command = [sys.executable, "-m", "drivetrain.training_scripts.launch", *words]
    environment = announce_parent({**os.environ, "PYTHONPATH": str(ROOT)})
    pid = os.fork()
    if pid:
        return pid
    try:
        follow()
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        become.prepare(command, environment)
    except become.Become as program:
        become.run(program)
    finally:
        os._exit(1)


def _end_of(pid: int, injected: Path) -> tuple[int | None, float]:
    """The exit code, and the seconds since something was injected for which this machine gave a process that waits its
    turn: beside busy neighbours the clock runs on while nobody here does."""
    deadline, turns = time.monotonic() + _PATIENCE_S, 0
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), turns * _PAUSE_S
        time.sleep(_PAUSE_S)
        turns += injected.is_file()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None, turns * _PAUSE_S
