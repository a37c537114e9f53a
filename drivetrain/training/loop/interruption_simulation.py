"""Simulates an interruption at an exact step: the training waits at that step for the signal.

    DRIVETRAIN_REHEARSE_STEP=120     after this step the first rank makes the file and waits
    DRIVETRAIN_REHEARSE_FILE=/...    once it is there, no later start waits again

The local runner (`drivetrain run ... --interrupt "train@step=120"`) watches for the file and sends the signal.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from drivetrain.base.errors import InputError

STEP, FILE = "DRIVETRAIN_REHEARSE_STEP", "DRIVETRAIN_REHEARSE_FILE"
# Whoever wanted to interrupt has gone, then.
PATIENCE_SECONDS = 20.0


class Rehearsal:
    """`step` is the step to stop at, on every rank; 0 for none.

    Raises:
        InputError: a step that is no number, or no file.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        text, file = environment.get(STEP, ""), environment.get(FILE, "")
        if text and not (text.isascii() and text.isdigit() and file):
            raise InputError(f"{STEP}={text!r} and {FILE}={file!r}; give the number of a step, and a file to make.")
        self.step, self.file = int(text or 0), Path(file)

    def wait(self, is_told: Callable[[], bool], *, patience: float = PATIENCE_SECONDS) -> None:
        """Say that the step has been taken, and wait for the signal; on the first rank, at the step."""
        try:
            self.file.touch(exist_ok=False)
        except FileExistsError:
            return
        deadline = time.monotonic() + patience
        while not is_told() and time.monotonic() < deadline:
            time.sleep(0.005)  # a handler runs between two of them; what it must not do is take a lock
