"""The last steps of a rank, in a file that is written as they are taken: what killed the rank leaves it.

<output>/health/flight/rank-00000.bin     a row of numbers for each of the last steps, in shared memory
<output>/health/flight/rank-00000.json    why the rank ended: it says so itself, or its launcher where it was killed
"""

from __future__ import annotations

import json
import mmap
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drivetrain.training.health.record import PHASES, Floats
from drivetrain.training.launch.processes.last_word import announce

FOLDER = "flight"
COLUMNS: tuple[str, ...] = ("step", "consumed", "time", "learning_rate", "loss", "samples", *PHASES, "queued")
# Of these the file has what they come to since the first step: nobody takes differences while steps are taken.
_ADDED_UP = slice(COLUMNS.index(PHASES[0]), len(COLUMNS))
STEPS = 256
_ROWS = STEPS + 1  # the oldest is what the next one is more than
_MAGIC = b"DTFLIGHT"
_HEAD = struct.Struct("<8s5Q")  # magic; version, rows, columns, rank, rows written so far
_ROW = struct.Struct(f"<{len(COLUMNS)}d")
_VERSION, _WRITTEN_AT = 2, _HEAD.size - 8
_COUNT = struct.Struct("<Q")
_SIZE = _HEAD.size + _ROWS * _ROW.size
_MOST_BYTES = 1 << 20


class FlightRecorder:
    """The recorder of one rank; `folder` is that of all ranks, or None: nothing outlives the process then.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, folder: Path | None, rank: int) -> None:
        self._folder, self._rank, self._written = folder, rank, 0
        self._memory: mmap.mmap | bytearray = bytearray(_SIZE)
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rank-{rank:05}.bin"
        path.with_suffix(".json").unlink(missing_ok=True)
        announce(path.with_suffix(".json"))
        temporary = path.with_suffix(".partial")
        with temporary.open("w+b") as file:
            # Written, and not only made longer: a page that the disk has no room for would end the rank by SIGBUS.
            file.write(self._memory)
            file.flush()
            self._memory = mmap.mmap(file.fileno(), 0)
        _HEAD.pack_into(self._memory, 0, _MAGIC, _VERSION, _ROWS, len(COLUMNS), rank, 0)
        temporary.replace(path)

    def add(self, *row: float) -> None:
        """A step, in the order of `COLUMNS`; what is not known is NaN. Phases and `queued` are added up since the first
        step."""
        _ROW.pack_into(self._memory, _HEAD.size + self._written % _ROWS * _ROW.size, *row)
        self._written += 1
        _COUNT.pack_into(self._memory, _WRITTEN_AT, self._written)

    def last(self, steps: int) -> Floats:
        """At most so many of the last steps, the oldest first: [steps, COLUMNS], each row of its own step."""
        return _rows(bytes(self._memory), self._written)[-steps:]

    def ends(self, reason: str) -> None:
        """The rank is about to end otherwise than well: write down why, and what torch recorded of its collectives.

        Raises:
            OSError: there is no room.
        """
        if self._folder is None:
            return
        said = {"rank": self._rank, "time": round(time.time(), 3), "reason": reason, "collectives": _collectives()}
        (self._folder / f"rank-{self._rank:05}.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")

    def close(self) -> None:
        if isinstance(self._memory, mmap.mmap):
            self._memory.close()
            self._memory = bytearray(_SIZE)


@dataclass(frozen=True)
class Flight:
    """The record of a rank. `steps` are rows by `COLUMNS`, the oldest first; `end` is {} if the rank wrote none."""

    rank: int
    steps: list[dict[str, float]]
    end: dict[str, Any]


def read_flights(folder: Path) -> list[Flight]:
    """Read the records of all ranks.

    Raises:
        ValueError: a file is no recording.
    """
    return [_read(path) for path in sorted((folder / FOLDER).glob("rank-*.bin"))]


def _read(path: Path) -> Flight:
    data = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
    if len(data) < _HEAD.size:
        raise ValueError(f"{path} is no file of a flight recorder")
    magic, version, rows, columns, rank, written = _HEAD.unpack_from(data)
    if (magic, version, columns) != (_MAGIC, _VERSION, len(COLUMNS)) or (rows, len(data)) != (_ROWS, _SIZE):
        raise ValueError(f"{path} is no file of a flight recorder, or of another version")
    end = path.with_suffix(".json")
    said: Any = json.loads(end.read_text(encoding="utf-8")) if end.is_file() else {}
    if not isinstance(said, dict):
        raise ValueError(f"{end} does not hold an object")
    steps: list[list[float]] = _rows(data, written).tolist()
    return Flight(rank, [dict(zip(COLUMNS, step, strict=True)) for step in steps], said)


def _rows(data: bytes, written: int) -> Floats:
    """The steps that a file or its memory has, each by itself, the oldest first."""
    ring = np.frombuffer(data, dtype="<f8", offset=_HEAD.size).reshape(_ROWS, len(COLUMNS))
    rows = ring[np.arange(max(0, written - _ROWS), written) % _ROWS]
    if rows.size:
        before = np.vstack([np.zeros_like(rows[:1]), rows[:-1]])
        rows[:, _ADDED_UP] -= before[:, _ADDED_UP]
    return rows[1:] if written > STEPS else rows


def _collectives() -> Any:
    """Read this rank's collectives from torch's flight recorder; None if it records none
    (TORCH_FR_BUFFER_SIZE)."""
    torch_c: Any = sys.modules.get("torch._C._distributed_c10d")
    if torch_c is None or not hasattr(torch_c, "_dump_fr_trace_json"):
        return None
    try:
        return json.loads(torch_c._dump_fr_trace_json())
    except (RuntimeError, ValueError) as error:  # it must not take the place of why the rank ends
        return f"torch's flight recorder cannot be read: {error}"
