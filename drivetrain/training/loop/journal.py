"""The reports of a running training: lines for people, JSON lines, TensorBoard.

epoch 3/20 step 138 train_loss=0.412 learning_rate=0.00271 gradient_norm=1.8 samples_per_second=5210 time_left=0:00:41

<output>/metrics.jsonl      {"epoch": 3, "step": 138, "time": 1763688012.531, "train_loss": 0.412, ...}
<output>/tensorboard/       event files
"""

from __future__ import annotations

import json
import math
import os
import socket
import struct
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from drivetrain.training.loop.appended import AppendedFile, records_until
from drivetrain.training.process import Process

METRICS_FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
# Field numbers of Event, Summary, Summary.Value and SessionLog.
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY, _SESSION_LOG = 1, 2, 3, 5, 7
_VALUE, _TAG, _SIMPLE_VALUE, _STATUS = 1, 1, 2, 1
_START = 1
# Wire types of protobuf.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_CASTAGNOLI = 0x82F63B78


class Journal:
    """Writes on rank 0; on the other ranks it does nothing.

    Every line is written at once, and the files are closed at the end of the `with` block, because ranks do not end
    through the interpreter's normal exit. If a file cannot be written (a full disk), the journal says so once and
    continues: statistics are not worth losing a training that can still save checkpoints.

    Args:
        process: this one.
        output: gets the files; None for lines in the terminal alone.
        tensorboard: a second folder for TensorBoard's files, which the platform copies away while the training runs.
        epochs: for the lines.
        unit: what is counted there in place of epochs.
        total_steps: for the time left.
    """

    def __init__(
        self,
        process: Process,
        output: Path | None,
        tensorboard: Path | None = None,
        *,
        epochs: int,
        total_steps: int,
        unit: str = "epoch",
    ) -> None:
        self._is_main = process.is_main
        self._output = output if process.is_main else None
        folders = [output / TENSORBOARD_FOLDER if output else None, tensorboard]
        self._tensorboard = [folder for folder in folders if folder] if process.is_main else []
        self._epochs, self._total_steps, self._unit = epochs, total_steps, unit
        self._lines: AppendedFile | None = None
        self._event_files: list[EventFile] = []
        self._pace = Pace()
        self._has_complained = False

    def begin(self, step: int, samples: int, history: Sequence[Mapping[str, Any]]) -> None:
        """Open the files of a training that has seen `samples` samples in `step` steps, with the validations of
        `history` behind it.

        Records of later steps come from an interrupted attempt or another training; they are removed.
        """
        self._pace = Pace(step, samples)
        if self._output:
            with self._complaining(self._output):
                self._output.mkdir(parents=True, exist_ok=True)
                path = self._output / METRICS_FILE
                kept = _lines_until(path, step)
                if not kept:  # another machine wrote them, and they went with it; the checkpoint knows the validations
                    kept = [json.dumps(_plain(entry)) for entry in history]
                temporary = path.with_suffix(".partial")
                temporary.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
                temporary.replace(path)
                self._lines = AppendedFile(path)
        for folder in self._tensorboard:
            with self._complaining(folder):
                self._event_files.append(EventFile(folder, step=step + 1))

    def progress(
        self, epoch: int, step: int, samples: int, metrics: Mapping[str, float], **about: float | None
    ) -> None:
        """A line, with the speed since the line before.

        Args:
            epoch: counted from 0.
            step: steps taken.
            samples: samples seen in all.
            metrics: names and values; they may be infinite or not a number.
            about: what else there is to say of the step; None says nothing.
        """
        if not self._is_main:
            return
        about = {"samples_per_second": self._pace.samples_per_second(samples), **about}
        values = {**metrics, **{name: value for name, value in about.items() if value is not None}}
        self._print(epoch, step, values, self._pace.seconds_left(step, self._total_steps))
        if self._lines:
            record = {"epoch": epoch + 1, "step": step, "time": round(time.time(), 3), **values}
            with self._complaining(self._output):
                self._lines.append(json.dumps(_plain(record)).encode() + b"\n")
        for file in self._event_files:
            with self._complaining(file.folder):
                file.add(step, values)

    def finding(self, step: int, rule: str, action: str, text: str) -> None:
        """A health rule has fired: a line, unless it is only to be noted, and one in the file."""
        if not self._is_main:
            return
        if action != "note":
            self.say(f"health: {text}")
        if self._lines:
            record = {"step": step, "time": round(time.time(), 3), "rule": rule, "action": action, "finding": text}
            with self._complaining(self._output):
                self._lines.append(json.dumps(record).encode() + b"\n")
        self.scalars(step, {f"health/{rule}": 1.0})

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """For TensorBoard alone."""
        for file in self._event_files:
            with self._complaining(file.folder):
                file.add(step, values)

    def resume_pace(self, samples: int) -> None:
        """Exclude the time since the last line (a validation, a checkpoint) from the speed."""
        self._pace.mark(samples)

    def say(self, *lines: str) -> None:
        for line in lines if self._is_main else ():
            print(line, flush=True)

    @contextmanager
    def _complaining(self, folder: Path | None) -> Generator[None]:
        try:
            yield
        except OSError as error:
            if not self._has_complained:
                self._has_complained = True
                self.say(
                    f"metrics cannot be written to {folder} ({error.strerror}): training continues, and its metrics "
                    "are only printed here. Free some space: the model needs it at the end."
                )

    def _print(self, epoch: int, step: int, values: Mapping[str, float], seconds_left: float | None) -> None:
        words = [f"{self._unit} {epoch + 1}/{self._epochs} step {step}"]
        words += [f"{name}={value:.6g}" for name, value in values.items()]
        if seconds_left:
            words.append(f"time_left={timedelta(seconds=round(seconds_left))}")
        print(*words, flush=True)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lines:
            self._lines.close()
        for file in self._event_files:
            file.close()


class Pace:
    """Speed and remaining time. The first `step` steps and `samples` samples belong to an earlier attempt."""

    def __init__(self, step: int = 0, samples: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._first_step, self._samples, self._clock = step, samples, clock
        self._begun = self._marked = clock()

    def mark(self, samples: int) -> None:
        self._marked, self._samples = self._clock(), samples

    def samples_per_second(self, samples: int) -> float | None:
        """Speed since the last mark, rounded; sets the next mark. None if no sample was consumed since."""
        seconds, seen = self._clock() - self._marked, samples - self._samples
        self.mark(samples)
        return round(seen / seconds, 1) if seen and seconds > 0 else None

    def seconds_left(self, step: int, total_steps: int) -> float | None:
        """Estimated from the average speed of this attempt, everything included; None before its first step."""
        taken = step - self._first_step
        return (self._clock() - self._begun) / taken * (total_steps - step) if taken > 0 else None


def _lines_until(path: Path, step: int) -> list[str]:
    if not (step and os.path.isfile(path)):
        return []
    return records_until(path.read_text(encoding="utf-8", errors="replace").splitlines(), step)


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has neither infinities nor NaN: they become null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}


class EventFile:
    """A new event file in `folder`, which is made; records of `step` and later in older files of the folder no longer
    count (TensorBoard drops them when it reads that a session started at that step)."""

    def __init__(self, folder: Path, *, step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        # TensorBoard reads the files of a folder in the order of their names.
        path = folder / f"events.out.tfevents.{now:017.6f}.{socket.gethostname()}.{os.getpid()}"
        self.folder, self._file = folder, AppendedFile(path)
        self._write(now, 0, _field(_FILE_VERSION, b"brain.Event:2"))
        self._write(now, step, _field(_SESSION_LOG, _number(_STATUS, _START)))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write one value for each name.

        Raises:
            OSError: there is no room; the file is as it was.
        """
        values = (
            _field(_TAG, name.encode()) + _key(_SIMPLE_VALUE, _FIXED32) + struct.pack("<f", value)
            for name, value in scalars.items()
        )
        self._write(time.time(), step, _field(_SUMMARY, b"".join(_field(_VALUE, value) for value in values)))

    def close(self) -> None:
        self._file.close()

    def _write(self, wall_time: float, step: int, what: bytes) -> None:
        data = _key(_WALL_TIME, _FIXED64) + struct.pack("<d", wall_time) + _number(_STEP, step) + what
        length = struct.pack("<Q", len(data))
        self._file.append(length + _checksum(length) + data + _checksum(data))


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _number(field: int, value: int) -> bytes:
    return _key(field, _VARINT) + _varint(value)


def _field(field: int, data: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; the highest bit says that more follow."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _table() -> tuple[int, ...]:
    table: list[int] = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_CASTAGNOLI if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_TABLE = _table()


def _checksum(data: bytes) -> bytes:
    """CRC-32C (RFC 3720, appendix B.4), masked as the format wants: a checksum of checksums is a weak one."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
