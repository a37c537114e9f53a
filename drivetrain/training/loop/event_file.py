"""Scalars in TensorBoard's event files, without TensorBoard or TensorFlow, which training images lack.

A file is a row of records (length, checksum, data, checksum; TensorFlow's record_writer.cc), each an `Event` in
protobuf's wire format (tensorflow/core/util/event.proto and framework/summary.proto).
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from drivetrain.training.loop.appended import AppendedFile

# Field numbers of Event, Summary, Summary.Value and SessionLog.
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY, _SESSION_LOG = 1, 2, 3, 5, 7
_VALUE, _TAG, _SIMPLE_VALUE, _STATUS = 1, 1, 2, 1
_START = 1
# Wire types of protobuf.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_CASTAGNOLI = 0x82F63B78


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
