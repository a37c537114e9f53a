"""Run a program in a process of its own that is killed at an instant which is drawn."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

# The share of kills at any instant; the others fall before one of the changes of names that publishing makes.
ANY_INSTANT = 0.3


def killed(program: Callable[[], None], draw: random.Random, *, seconds: float, changes: int) -> tuple[str, bool]:
    """The instant's name, and whether the program was killed rather than ended before.

    Args:
        program: what is run.
        draw: draws the instant.
        seconds: how long the program takes.
        changes: about how many names and times in its folders it changes.
    """
    change = 0 if draw.random() < ANY_INSTANT else draw.randrange(1, changes)
    pid = os.fork()
    if pid == 0:
        try:
            if change:
                _die_at(change)
            program()
        finally:
            os._exit(0)
    if not change:
        time.sleep(draw.uniform(0, seconds))
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    return (f"at change {change}" if change else "at any instant"), os.WIFSIGNALED(status)


def _die_at(change: int) -> None:
    """Kill this process at the change of this number (of names and times in its folders), before it is made."""
    made = 0

    def counting(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal made
        if event in ("os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir", "os.utime"):
            made += 1
            if made == change:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(counting)
