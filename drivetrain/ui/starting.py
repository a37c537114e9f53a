"""Runs that a page starts: each the command line of the user's own, in a process that outlives the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from drivetrain.base.errors import UserError
from drivetrain.base.masking import without_secrets

MAX_STARTS = 50
_FIRST_BYTES, _LAST_BYTES = 256 * 1024, 16 * 1024


class Start:
    """A command that was started, and what it says."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "drivetrain.cli.main", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,  # Ctrl-C ends the pages, and not the runs
        )
        threading.Thread(target=self._child.wait, daemon=True).start()

    def execution(self) -> str | None:
        """The run's id, as soon as it has begun."""
        return execution_in(os.pread(self._out.fileno(), _FIRST_BYTES, 0))

    def code(self) -> int | None:
        """The exit status; None while it works."""
        return self._child.poll()

    def said(self) -> str:
        """The end of its messages."""
        file = self._err.fileno()
        text = os.pread(file, _LAST_BYTES, max(os.fstat(file).st_size - _LAST_BYTES, 0))
        return without_secrets(text.decode("utf-8", "replace")).strip()


def execution_in(output: bytes) -> str | None:
    """The run's id in what its command prints (`--json`). A pipeline's file may print lines of its own before."""
    for line in output.split(b"\n")[:-1]:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and event.get("event") == "execution_started":
            return str(event["execution"])
    return None


class Starts:
    """The last starts by their keys; each key starts once: a form that is sent twice is one start."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._by_key: dict[str, Start] = {}

    def start(self, key: str, words: Sequence[str], folder: Path) -> None:
        """Start it, unless it was."""
        with self._guard:
            if key in self._by_key:
                return
            try:
                self._by_key[key] = Start(words, folder)
            except OSError as error:
                raise UserError(f"The run cannot be started in {folder}: {error.strerror}.") from None
            while len(self._by_key) > MAX_STARTS:
                del self._by_key[next(iter(self._by_key))]

    def get(self, key: str) -> Start:
        """The start of that key.

        Raises:
            UserError: this server has started nothing of that key.
        """
        if (found := self._by_key.get(key)) is None:
            raise UserError("This server has not started that run. The list of runs shows what was started.")
        return found

    def state(self, key: str) -> str:
        """A text that is another one when the start has gone on."""
        start = self._by_key.get(key)
        return "" if start is None else f"{start.execution()} {start.code()}"
