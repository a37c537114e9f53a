"""Running code of others: without network where the kernel allows it, ended with all that it started (confined.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from drivetrain.processes.mounts import CONFINED


def run_confined(
    command: Sequence[str], environment: Mapping[str, str], seconds: float, folder: Path | None = None
) -> tuple[int, str, str] | None:
    """Run a program.

    Args:
        seconds: after which it is ended.
        folder: in which it runs; by default this one.

    Returns:
        The exit code, stdout and stderr; None if it was ended.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(CONFINED), *command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):  # with all that it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, out, err
