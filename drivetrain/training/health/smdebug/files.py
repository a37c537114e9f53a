"""The files of a trial, smdebug's word for what one training has saved.

    TRIAL/collections/000000000/WORKER_collections.json   the collections, with the names of their tensors
    TRIAL/index/000000000/000000000500_WORKER.json        of each saved step, where its tensors are
    TRIAL/events/000000000500/000000000500_WORKER.tfevents

An event file is a row of TensorFlow's records (length, checksum, data, checksum), each an `Event` in protobuf's wire
format with one tensor. Read in smdebug 1.0.34 (core/index_reader.py, core/tfevent/), and held against what it writes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.health.record import Floats

COLLECTIONS = "_collections.json"
# Field numbers of Event, Summary, Summary.Value, TensorProto, TensorShapeProto and its Dim.
_SUMMARY, _VALUE, _TENSOR, _DTYPE, _SHAPE, _CONTENT, _DIMENSION, _SIZE = 5, 1, 8, 1, 2, 4, 2, 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_HEAD, _TAIL = 12, 4  # bytes of a record before its data (length, checksum), and after it (checksum)
# TensorProto's numbers of the types that numpy has.
_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 9: "<i8", 10: "?", 19: "<f2"}


@dataclass(frozen=True)
class SavedStep:
    """A step with saved tensors.

    Attributes:
        mode: TRAIN, EVAL, PREDICT, or GLOBAL where the script told none.
        step: of this mode, from 0.
        places: tensor -> its first byte in the event file, and how many there are.
    """

    mode: str
    step: int
    events: Path
    places: Mapping[str, tuple[int, int]]

    def tensor(self, name: str) -> Floats:
        """
        Raises:
            InputError: the event file has no such tensor, or one of a type that numpy lacks (bfloat16).
        """
        start, length = self.places[name]
        try:
            with self.events.open("rb") as file:
                _ = file.seek(start)
                return _tensor(file.read(length))
        except (OSError, ValueError, KeyError, IndexError, OverflowError, struct.error) as error:
            raise InputError(
                f"{self.events}: {name!r} cannot be read at byte {start} ({error or type(error).__name__}). Copy the "
                "trial again, whole; tensors of float16, float32, float64 and integers are read."
            ) from None


@dataclass(frozen=True)
class Trial:
    """A trial of the first worker: smdebug saves one of them unless it is told otherwise.

    Attributes:
        collections: a collection that has tensors -> their names.
        steps: in the order in which they were saved.
    """

    folder: Path
    workers: int
    collections: Mapping[str, frozenset[str]]
    steps: tuple[SavedStep, ...]


def trials_below(folder: Path) -> list[Path]:
    """The trials in a folder, and the folder itself where it is one."""
    found = folder.rglob(f"collections/*/*{COLLECTIONS}")
    return sorted({path.parent.parent.parent for path in found if path.is_file()})


def read_trial(folder: Path) -> Trial:
    """The names and places of all that was saved; no tensor is read yet.

    Raises:
        InputError: it is no trial, or a file of it is broken.
    """
    described = sorted(folder.glob(f"collections/*/*{COLLECTIONS}"))
    workers = sorted({path.name.removesuffix(COLLECTIONS) for path in described})
    if not workers:
        raise InputError(f"{folder} is no trial of smdebug: it has no collections/*/*{COLLECTIONS}.")
    worker = workers[0]
    # Of a script that adds collections later, the last file has all of them.
    last = [path for path in described if path.name == f"{worker}{COLLECTIONS}"][-1]
    try:
        collections = {
            str(name): frozenset(map(str, one["tensor_names"]))
            for name, one in _object(last, "collections")["collections"].items()
            if one["tensor_names"]
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{last} names no collections of smdebug ({error!r}). Copy the trial again, whole.") from None
    indexes = sorted(folder.glob(f"index/*/*_{worker}.json"))
    return Trial(folder, len(workers), collections, tuple(_step(folder, path) for path in indexes))


def _step(folder: Path, path: Path) -> SavedStep:
    found = _object(path, "meta", "tensor_payload")
    try:
        events = folder / str(found["meta"]["event_file_name"])
        places = {
            str(one["tensorname"]): (int(one["start_idx"]), int(one["length"])) for one in found["tensor_payload"]
        }
        step = SavedStep(str(found["meta"]["mode"]), int(found["meta"]["mode_step"]), events, places)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no index of smdebug ({error!r}). Copy the trial again, whole.") from None
    if not events.resolve().is_relative_to(folder.resolve()) or any(min(place) < 0 for place in places.values()):
        raise InputError(f"{path} names bytes outside the trial's own files ({events}). It is not read.")
    return step


def _object(path: Path, *keys: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        _ = [found[key] for key in keys]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"{path} is no file of smdebug: it has no {' and '.join(keys)}. Copy the trial again."
        ) from None
    return found


def _tensor(record: bytes) -> Floats:
    (length,) = struct.unpack_from("<Q", record)
    if len(record) != _HEAD + length + _TAIL:
        raise ValueError(f"{len(record)} bytes for a record of {_HEAD + length + _TAIL}")
    event = dict(_fields(record[_HEAD:-_TAIL]))
    tensor = dict(_fields(dict(_fields(dict(_fields(event[_SUMMARY]))[_VALUE]))[_TENSOR]))
    if tensor[_DTYPE] not in _DTYPES:
        raise ValueError(f"type {tensor[_DTYPE]} of TensorProto")
    shape = [dict(_fields(data)).get(_SIZE, 0) for field, data in _fields(tensor[_SHAPE]) if field == _DIMENSION]
    return np.frombuffer(tensor.get(_CONTENT, b""), _DTYPES[tensor[_DTYPE]]).reshape(shape).astype(np.float64)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers, and bytes of what has a length."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > len(data):
            raise ValueError("a field ends after its message")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
