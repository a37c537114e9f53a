"""A file to which whole records are appended. A record that does not fit on the disk leaves no partial bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path


class AppendedFile:
    """Appends to an existing file; nothing is buffered in memory."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("ab", buffering=0)

    def append(self, record: bytes) -> None:
        """Write a record.

        Raises:
            OSError: the disk is full, or fails. What was written of the record is taken out again: those that follow,
                once there is room, stand after whole ones.
        """
        whole = self._stream.seek(0, os.SEEK_END)
        left = memoryview(record)
        try:
            while left:
                left = left[self._stream.write(left) :]
        except OSError:
            self._stream.truncate(whole)
            raise

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def close(self) -> None:
        self._stream.close()


def records_until(lines: Iterable[str], step: int) -> list[str]:
    """The records of an earlier attempt, a JSON object with its `step` a line, up to `step`; one that was cut off in
    the middle ends them."""
    kept: list[str] = []
    for line in lines:
        try:
            if json.loads(line)["step"] > step:
                break
        except (ValueError, KeyError, TypeError):
            break
        kept.append(line)
    return kept
