"""Starts by triggers here, kept in the home: so that nothing starts twice and limits hold over a restart."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.triggers.starting import Earlier

FILE = "started.jsonl"


class History:
    """A line a start, appended before the start: a crash in between loses a start, and never doubles one.

    What was kept and came to nothing, since the server ended before, gets a second line, and counts no more.
    """

    def __init__(self, folder: Path) -> None:
        """Read what there is; the end of a line that a crash cut off is taken away.

        Raises:
            UserError: the file holds something else.
        """
        self._path = folder / FILE
        self._guard = threading.Lock()
        self._known: dict[str, list[Earlier]] = {}
        content = self._path.read_bytes() if self._path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(self._path, len(whole))
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                said = json.loads(line)
                pipeline, name = str(said["pipeline"]), str(said["name"])
                if "forgotten" in said:
                    self._forget(pipeline, name)
                else:
                    found = Earlier(name, datetime.fromisoformat(said["started"]))
                    self._known.setdefault(pipeline, []).append(found)
            except (ValueError, KeyError, TypeError):
                raise UserError(
                    f"{self._path}, line {number}: not a start. Move the file away to begin anew."
                ) from None

    def of(self, pipeline: str) -> tuple[Earlier, ...]:
        """The starts of a pipeline, the oldest first."""
        with self._guard:
            return tuple(self._known.get(pipeline, ()))

    def add(self, pipeline: str, name: str, started: datetime, parameters: Mapping[str, str]) -> None:
        """Keep a start, on disk when this returns.

        Raises:
            OSError: the file cannot be written.
        """
        record: dict[str, Any] = {
            "pipeline": pipeline,
            "name": name,
            "started": started.isoformat(),
            "parameters": sorted(parameters),  # names alone: a value may be a secret
        }
        with self._guard:
            self._write(record)
            self._known.setdefault(pipeline, []).append(Earlier(name, started))

    def forget(self, pipeline: str, name: str) -> None:
        """Keep that a start came to nothing.

        Raises:
            OSError: the file cannot be written.
        """
        with self._guard:
            self._write({"pipeline": pipeline, "name": name, "forgotten": True})
            self._forget(pipeline, name)

    def _forget(self, pipeline: str, name: str) -> None:
        self._known[pipeline] = [one for one in self._known.get(pipeline, ()) if one.name != name]

    def _write(self, record: Mapping[str, Any]) -> None:
        before = self._path.stat().st_size if self._path.exists() else 0
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            # What is tried again would stand behind half a line, or twice.
            with contextlib.suppress(OSError):
                os.truncate(self._path, before)
            raise
