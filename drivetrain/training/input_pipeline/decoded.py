"""Decoded data sets, kept on a machine from one start of a training to the next.

    DRIVETRAIN_DECODED_CACHE=/home/me/decoded    the folder; without it nothing is kept
    DRIVETRAIN_DECODED_CACHE_MIB=8192            what the folder may hold [MiB]; what was used longest ago goes first

An entry is a safetensors file. It is called after what it was made of: the hash of the source's content, which is taken
at every start, the reader's code and options, and the versions of what decoded it. A checksum guards its bytes. What
took less than a second to decode is not kept, for that is about what keeping it costs.

Who can write into the folder can change what is learnt, as who can write the data can; nothing in it is run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.base.file_locks import hold
from drivetrain.training.input_pipeline.host_memory import HostArrays, Shapes, host_arrays, map_file
from drivetrain.training.process import Process

FOLDER, LIMIT_MIB = "DRIVETRAIN_DECODED_CACHE", "DRIVETRAIN_DECODED_CACHE_MIB"
DEFAULT_MIB = 8192
LEAST_SECONDS = 1.0
FORMAT = 1
_SUFFIX, _NEW, _LOCK = ".safetensors", ".new", ".lock"
_ALIGNMENT = 64
_TAGS = {
    "b1": "BOOL",
    **{f"u{size}": f"U{8 * size}" for size in (1, 2, 4, 8)},
    **{f"i{size}": f"I{8 * size}" for size in (1, 2, 4, 8)},
    **{f"f{size}": f"F{8 * size}" for size in (2, 4, 8)},
}

Facts = Mapping[str, Any]
Fill = Callable[[HostArrays], Facts | None]


@dataclass(frozen=True)
class Kept:
    """Arrays by name, complete on every rank, and plain JSON values that were found while they were made."""

    arrays: dict[str, NDArray[Any]]
    facts: Facts


def kept_arrays(process: Process, shapes: Shapes, made_of: Facts, fill: Fill) -> Kept:
    """Arrays that an earlier start has decoded, or that are filled now and perhaps kept for the next.

    Every rank comes here at the same point, with the same arguments.

    Args:
        shapes: name -> shape and dtype of each array.
        made_of: plain JSON values that decide every byte of the result (`origin`, options, names).
        fill: decodes, as the body of `host_arrays` does; it may return facts. It is called on all ranks or on none.

    Raises:
        InputError: a limit of the cache that is no whole number; no room for the arrays; what `fill` raises.
    """
    cache = Cache.of_environment()
    key = json.dumps({"format": FORMAT, **made_of}, sort_keys=True)
    with ExitStack() as held:
        entry: Entry | None = None
        if cache and process.local_rank == 0 and (entry := cache.find(key, shapes)):
            held.callback(entry.stream.close)  # with which its lock ends: no other run removes it meanwhile
        hosts = process.world_size // process.local_world_size
        if int(process.sum(int(entry is not None))) == hosts:
            assert cache is not None
            kept = _shared(cache.path(key), entry, shapes, process)
            process.barrier()
            return kept
    started = time.monotonic()
    with host_arrays(process, shapes) as filling:
        facts = fill(filling) or {}
    kept = Kept(filling.arrays, facts)
    if cache and process.local_rank == 0 and time.monotonic() - started >= LEAST_SECONDS:
        cache.keep(key, kept)
    return kept


def origin(content: str, options: Facts, *modules: ModuleType) -> dict[str, Any]:
    """The origin that decides a reader's arrays: the hash of the content, the options, and the code of the modules
    that read."""
    code = {module.__name__: _file_hash(module) for module in modules}
    return {"content": content, "options": dict(options), "code": code, "numpy": np.__version__}


def _file_hash(module: ModuleType) -> str:
    assert module.__file__ is not None
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """A file that was checked, open and locked."""

    stream: BufferedReader
    places: dict[str, int]
    """The start of each array in the file [bytes]."""
    facts: Facts


def _shared(path: Path, entry: Entry | None, shapes: Shapes, process: Process) -> Kept:
    """The entry that the first rank of this host has checked, mapped on each of its ranks."""
    if entry is None:
        with path.open("rb") as stream:
            header, start = _header(stream)
        entry = Entry(stream, _places(header, start), json.loads(header["__metadata__"]["facts"]))
    mapped = {name: map_file(path, dtype, shape, offset=entry.places[name]) for name, (shape, dtype) in shapes.items()}
    return Kept(mapped, entry.facts)


class DamagedEntryError(ValueError):
    """A file of the cache is not what was written."""


@dataclass(frozen=True)
class Cache:
    """A folder of decoded arrays that never holds more than `limit` bytes."""

    folder: Path
    limit: int

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Cache | None:
        """The cache that the variables name, or None.

        Raises:
            InputError: a limit that is no whole number.
        """
        folder, limit = environment.get(FOLDER, ""), environment.get(LIMIT_MIB, "") or str(DEFAULT_MIB)
        if not folder:
            return None
        if not (limit.isascii() and limit.isdigit()):
            raise InputError(f"{LIMIT_MIB}={limit!r}; allowed are whole numbers of MiB from 0.")
        return cls(Path(folder), int(limit) << 20) if int(limit) else None

    def path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}{_SUFFIX}"

    def find(self, key: str, shapes: Shapes) -> Entry | None:
        """The entry of a key, checked and locked until its stream is closed. A damaged one is thrown away."""
        path = self.path(key)
        try:
            stream = path.open("rb")
        except OSError:
            return None
        try:
            hold(stream.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            entry = _checked(stream, key, shapes)
            if not os.fstat(stream.fileno()).st_nlink:  # removed before it was locked
                stream.close()
                return None
            os.utime(path)
            return entry
        except BlockingIOError:  # it is being removed
            stream.close()
        except (OSError, DamagedEntryError) as error:
            stream.close()
            path.unlink(missing_ok=True)
            print(f"decoded data {path} is damaged ({error}): it is thrown away and made again", flush=True)
        return None

    def keep(self, key: str, kept: Kept) -> None:
        """Write an entry, all of it or nothing. What goes wrong is told, and is no error: a cache may be without it."""
        path = self.path(key)
        try:
            header = _new_header(key, kept)
            num_bytes = len(header) + sum(array.nbytes for array in kept.arrays.values())
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (self.folder / _LOCK).open("wb") as lock:
                hold(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not path.exists() and self._makes_room(num_bytes):
                    _publish(path, header, kept.arrays)
        except BlockingIOError:
            return  # another run is writing: of this or other data
        except (OSError, TypeError) as error:
            print(f"decoded data is not kept in {self.folder}: {error}", flush=True)

    def _makes_room(self, num_bytes: int) -> bool:
        """Remove what was used longest ago, and what a killed run left; whether there is room now."""
        for left in self.folder.glob(f"*{_NEW}"):
            left.unlink(missing_ok=True)
        entries = sorted((path.stat().st_mtime_ns, path) for path in self.folder.glob(f"*{_SUFFIX}"))
        total = num_bytes + sum(path.stat().st_size for _, path in entries)
        for _, path in entries:
            if total <= self.limit or num_bytes > self.limit:
                break
            size = path.stat().st_size
            with path.open("rb") as stream:
                try:
                    hold(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue  # it is being read
                path.unlink()
            total -= size
        return total <= self.limit and shutil.disk_usage(self.folder).free > 2 * num_bytes


def _ordered(arrays: Mapping[str, NDArray[Any]]) -> list[tuple[str, NDArray[Any]]]:
    """The widest values first, so that all lie at multiples of their size."""
    return sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)


def _bytes_of(array: NDArray[Any]) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _new_header(key: str, kept: Kept) -> bytes:
    header: dict[str, Any] = {}
    digest, place = hashlib.sha256(), 0
    for name, array in _ordered(kept.arrays):
        tag = _TAGS.get(array.dtype.str[1:])
        if tag is None or array.dtype.str[0] == ">":
            raise TypeError(f"array {name!r} has type {array.dtype}")
        header[name] = {"dtype": tag, "shape": list(array.shape), "data_offsets": [place, place + array.nbytes]}
        digest.update(_bytes_of(array))
        place += array.nbytes
    facts = json.dumps(dict(kept.facts))
    told = hashlib.sha256(f"{key}\n{facts}".encode()).hexdigest()
    header["__metadata__"] = {"key": key, "facts": facts, "sha256": digest.hexdigest(), "sha256_of_texts": told}
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _publish(path: Path, header: bytes, arrays: Mapping[str, NDArray[Any]]) -> None:
    new = path.with_suffix(_NEW)
    try:
        with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
            stream.write(header)
            for _, array in _ordered(arrays):
                stream.write(_bytes_of(array))
            stream.flush()
            os.fsync(stream.fileno())
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)


def _checked(stream: BufferedReader, key: str, shapes: Shapes) -> Entry:
    """
    Raises:
        DamagedEntryError: it is not what was written for this key.
    """
    header, start = _header(stream)
    try:
        told: dict[str, str] = header["__metadata__"]
        texts = hashlib.sha256(f"{told['key']}\n{told['facts']}".encode()).hexdigest()
        if told["key"] != key or texts != told["sha256_of_texts"]:
            raise DamagedEntryError("its header is another one's")
        expected = start + sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in shapes.values())
        if (size := os.fstat(stream.fileno()).st_size) != expected:
            raise DamagedEntryError(f"{size} bytes, and {expected} by its arrays")
        for name, (shape, dtype) in shapes.items():
            first, last = header[name]["data_offsets"]
            wanted = (_TAGS[np.dtype(dtype).str[1:]], list(shape), math.prod(shape) * np.dtype(dtype).itemsize)
            if (header[name]["dtype"], header[name]["shape"], last - first) != wanted:
                raise DamagedEntryError(f"array {name!r} is another one")
        stream.seek(start)
        if hashlib.file_digest(stream, "sha256").hexdigest() != told["sha256"]:
            raise DamagedEntryError("its checksum is another one")
        return Entry(stream, _places(header, start), json.loads(told["facts"]))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DamagedEntryError):
            raise
        raise DamagedEntryError(f"its header cannot be read: {error!r:.100}") from None


def _header(stream: BufferedReader) -> tuple[dict[str, Any], int]:
    """The header's object, and where the values begin."""
    size = os.fstat(stream.fileno()).st_size
    length = int.from_bytes(stream.read(8), "little")
    if not 0 < length <= size - 8:
        raise DamagedEntryError("it is torn")
    try:
        header: Any = json.loads(stream.read(length))
    except (ValueError, RecursionError):
        raise DamagedEntryError("its header is no JSON") from None
    if not isinstance(header, dict):
        raise DamagedEntryError("its header is no object")
    return header, 8 + length


def _places(header: Mapping[str, Any], start: int) -> dict[str, int]:
    return {name: start + each["data_offsets"][0] for name, each in header.items() if name != "__metadata__"}
