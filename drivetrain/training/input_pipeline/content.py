"""A hash of the content of files, for formats that come without a manifest."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process

SECONDS_BETWEEN_LINES = 5.0
_WORDS = 8  # SHA-256 as 32-bit words, summed in int64 over up to 2^31 files


def content_hash(
    folder: Path, files: Sequence[Path], process: Process, *, clock: Callable[[], float] = time.monotonic
) -> str:
    """A SHA-256 of names (below `folder`), sizes and bytes of files, the same on any number of processes.

    The ranks of a host share the files out: each file is hashed with its name, and the hashes are added up, so that it
    does not matter who reads which. Hosts with other files than the first one are told.

    Raises:
        InputError: a file that is gone or cannot be read; other content on another host.
    """
    total = np.zeros(_WORDS, dtype=np.int64)
    said, done = clock(), 0
    for path in files[process.local_rank :: process.local_world_size]:
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256")
                done += stream.tell()
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}). Copy the data again.") from None
        digest.update(path.relative_to(folder).as_posix().encode())
        total += np.frombuffer(digest.digest(), dtype=">u4")
        if process.is_main and clock() - said > SECONDS_BETWEEN_LINES:
            said = clock()
            print(f"checking {folder}: {done / 2**30:.1f} GiB read by this process so far", flush=True)
    host = process.rank // process.local_world_size
    table = np.zeros((process.world_size // process.local_world_size, _WORDS + 1), dtype=np.int64)
    table[host, :_WORDS] = total
    table[host, _WORDS] = len(files) if process.local_rank == 0 else 0
    table = process.sum(table)
    first = table[0]
    for other, row in enumerate(table):
        if not np.array_equal(row, first):
            raise InputError(
                f"host {other + 1} has other data in {folder} than host 1 ({int(row[_WORDS])} files there, "
                f"{int(first[_WORDS])} here). Every host needs all of it."
            )
    return hashlib.sha256((first % 2**32).astype(">i8").tobytes()).hexdigest()
