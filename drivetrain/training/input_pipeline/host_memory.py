"""Arrays that the processes of one host fill together and then hold once, in a file that they all map.

The file has no name any more when the first row is read, so it ends with the last process that maps it, however that
ends. Mappings are copy-on-write: what one process writes into its rows stays its own.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import secrets
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process

# Below this each process holds its own copy: two processes fill 2 MB twice in the time that sharing takes.
PRIVATE_BYTES = 1 << 20
# One process alone shares with nobody; it maps a file only so that data larger than memory can be paged out.
ALONE_PRIVATE_BYTES = 1 << 30

Shapes = Mapping[str, tuple[tuple[int, ...], DTypeLike]]


class HostArrays:
    """Arrays while they are being filled: each process fills the part that it was given.

    `number` of `count`: the part of this process among those that fill one copy together.
    """

    def __init__(self, arrays: dict[str, NDArray[Any]], number: int, count: int) -> None:
        self.arrays = arrays
        self.number = number
        self.count = count

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]


@contextmanager
def host_arrays(process: Process, shapes: Shapes) -> Generator[HostArrays]:
    """Arrays of the given shapes and dtypes, to be filled in the body and complete after it, on every rank.

    Every rank comes here with the same shapes. `arrays` of what is yielded is replaced at the end.

    Raises:
        InputError: no room for them in the temporary folder.
    """
    num_bytes = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in shapes.values())
    if num_bytes <= (PRIVATE_BYTES if process.local_world_size > 1 else ALONE_PRIVATE_BYTES):
        yield HostArrays({name: np.empty(shape, dtype) for name, (shape, dtype) in shapes.items()}, 0, 1)
        return
    with host_folder(process) as folder:
        if process.local_rank == 0:
            for number, (shape, dtype) in enumerate(shapes.values()):
                _reserve(folder / str(number), math.prod(shape) * np.dtype(dtype).itemsize)
        process.barrier()
        filling = HostArrays(_mapped(folder, shapes, "r+"), process.local_rank, process.local_world_size)
        yield filling
        process.barrier()
        filling.arrays = _mapped(folder, shapes, "c")


@contextmanager
def host_folder(process: Process) -> Generator[Path]:
    """A folder of the temporary folder that all ranks of this host see, and that is gone afterwards."""
    token = process.broadcast_bytes(secrets.token_hex(8).encode() if process.is_main else None).decode()
    # Two hosts may be two groups of processes on one machine.
    folder = Path(tempfile.gettempdir()) / f"drivetrain-{token}-{process.rank - process.local_rank}"
    if process.local_rank == 0:
        folder.mkdir(mode=0o700)
    process.barrier()
    try:
        yield folder
        process.barrier()
        if process.local_rank == 0:
            shutil.rmtree(folder)
        process.barrier()
    except BaseException:
        # Any rank may fail, and the one that made the folder may then wait for it until it is killed.
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _reserve(path: Path, num_bytes: int) -> None:
    """A file whose bytes are really there: writing into a mapping on a full disk would kill the process."""
    with path.open("xb") as stream:
        if not num_bytes:
            return
        try:
            os.posix_fallocate(stream.fileno(), 0, num_bytes)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise InputError(
                f"{path.parent.parent} has no room for {num_bytes / 2**20:.0f} MiB of decoded data ({error.strerror}). "
                "Make room, or let TMPDIR name a folder on a larger disk."
            ) from None


def _mapped(folder: Path, shapes: Shapes, mode: str) -> dict[str, NDArray[Any]]:
    mapped: dict[str, NDArray[Any]] = {}
    for number, (name, (shape, dtype)) in enumerate(shapes.items()):
        mapped[name] = map_file(folder / str(number), dtype, shape, mode=mode)
    return mapped


def map_file(path: Path, dtype: DTypeLike, shape: tuple[int, ...], *, offset: int = 0, mode: str = "c") -> NDArray[Any]:
    """A plain array over the bytes of a file (np.memmap costs 10 µs a slice for what it adds).

    Args:
        mode: `c`: what is written stays in this process; `r+`: it goes to the file.
    """
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if not num_bytes:
        return np.empty(shape, dtype)
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    access = mmap.ACCESS_COPY if mode == "c" else mmap.ACCESS_WRITE
    with path.open("rb" if mode == "c" else "r+b") as stream:
        mapping = mmap.mmap(stream.fileno(), offset - start + num_bytes, access=access, offset=start)
    return np.frombuffer(mapping, np.dtype(dtype), math.prod(shape), offset - start).reshape(shape)
