"""Files written past the page cache, where memory and file system allow, and through it where they do not."""

from __future__ import annotations

import errno
import fcntl
import os
import zlib
from pathlib import Path

_CHUNK = 8 << 20  # written by one call, at most
_ALIGNMENT = 4096
# What a file system answers that has no direct writes (tmpfs: EINVAL).
_NO_DIRECT = (errno.EINVAL, errno.EOPNOTSUPP)


def write_new(path: Path, data: memoryview) -> int:
    """Write a file that is not there, durably; gives the CRC-32. An error leaves no file, as far as possible."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        try:
            done, checksum = _write_directly(descriptor, data)
            while done < len(data):
                count = os.write(descriptor, data[done : done + _CHUNK])
                checksum = zlib.crc32(data[done : done + count], checksum)
                done += count
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return checksum


def _write_directly(descriptor: int, data: memoryview) -> tuple[int, int]:
    """Write whole pages past the page cache, where buffer and file system allow; gives bytes written and their CRC-32.

    Through the cache the same bytes take 3 to 10 times as long to become durable, and a processor all the while.
    """
    whole = len(data) - len(data) % _ALIGNMENT
    if not whole or data.readonly or not _is_aligned(data) or not _set_direct(descriptor, True):
        return 0, 0
    done, checksum = 0, 0
    try:
        while done < whole:
            count = os.write(descriptor, data[done : min(done + _CHUNK, whole)])
            checksum = zlib.crc32(data[done : done + count], checksum)
            done += count
            if count % _ALIGNMENT:  # the file system's last word: the rest goes through the cache
                break
    except OSError as error:
        if error.errno not in _NO_DIRECT:
            raise
    _set_direct(descriptor, False)
    return done, checksum


def _is_aligned(data: memoryview) -> bool:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(data)) % _ALIGNMENT == 0


def _set_direct(descriptor: int, direct: bool) -> bool:
    flag = getattr(os, "O_DIRECT", 0)
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | flag if direct else flags & ~flag)
    except OSError as error:
        if error.errno not in _NO_DIRECT:
            raise
        return False
    return direct and bool(flag)
