"""Files written and read past the page cache, where memory and file system allow, and through it where they do not."""

from __future__ import annotations

import errno
import fcntl
import os
import queue
import threading
import zlib
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

CHUNK = 8 << 20
"""So many bytes are read or written by one call, at most."""

READERS = 3
"""So many threads read a large file."""

_ALIGNMENT = 4096
_WORTH_IT = 1 << 20
# What a file system answers that has no direct writes (tmpfs: EINVAL).
_NO_DIRECT = (errno.EINVAL, errno.EOPNOTSUPP)


def write_new(path: Path, data: memoryview) -> int:
    """Write a file that is not there, durably; gives the CRC-32. An error leaves no file, as far as possible."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        try:
            done, checksum = _write_directly(descriptor, data)
            while done < len(data):
                count = os.write(descriptor, data[done : done + CHUNK])
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
            count = os.write(descriptor, data[done : min(done + CHUNK, whole)])
            checksum = zlib.crc32(data[done : done + count], checksum)
            done += count
            if count % _ALIGNMENT:  # the file system's last word: the rest goes through the cache
                break
    except OSError as error:
        if error.errno not in _NO_DIRECT:
            raise
    _set_direct(descriptor, False)
    return done, checksum


def read_pieces(descriptor: int, size: int, room: Callable[[int, int], memoryview]) -> Generator[memoryview]:
    """The first `size` bytes of a file, or fewer where it ends before; `room(start, stop)` says where to put them.

    Past the page cache, where what is read lies on the disk alone: to make room in the cache takes several times as
    long as the disk does, and costs the processor as much.
    """
    whole = size - size % _ALIGNMENT
    if size < _WORTH_IT or _is_cached(descriptor, size) or not _is_aligned(room(0, _ALIGNMENT)):
        whole = 0
    direct = bool(whole) and _set_direct(descriptor, True)
    done = 0
    while done < size:
        if direct and done >= whole:
            direct = _set_direct(descriptor, False)
        piece = room(done, min(done + CHUNK, whole if direct else size))
        try:
            count = os.readv(descriptor, [piece])
        except OSError as error:
            if not direct or error.errno not in _NO_DIRECT:
                raise
            direct = _set_direct(descriptor, False)
            continue
        if not count:
            return
        if direct and count % _ALIGNMENT:
            direct = _set_direct(descriptor, False)
        yield piece[:count]
        done += count


def read_whole(descriptor: int, buffer: memoryview) -> tuple[int, int]:
    """Fill a buffer from the beginning of a file; gives how many bytes there were, and their CRC-32.

    A large one is brought by several readers while the checksum of what came before is computed: a disk answers several
    questions at a time, and memory that is used for the first time costs a processor more than reading does.
    """
    if len(buffer) < READERS * CHUNK:
        return _checked(read_pieces(descriptor, len(buffer), lambda start, stop: buffer[start:stop]))
    if not _is_cached(descriptor, len(buffer)) and _is_aligned(buffer):
        _set_direct(descriptor, True)
    end = len(buffer) - len(buffer) % _ALIGNMENT  # the rest is no whole page
    pieces = [buffer[start : min(start + CHUNK, end)] for start in range(0, end, CHUNK)]
    came: list[queue.SimpleQueue[int | OSError]] = [queue.SimpleQueue() for _ in pieces]

    def read(first: int) -> None:
        for number in range(first, len(pieces), READERS):
            try:
                came[number].put(_fill(descriptor, pieces[number], number * CHUNK))
            except OSError as failure:
                came[number].put(failure)

    readers = [threading.Thread(target=read, args=(first,), name="reader", daemon=True) for first in range(READERS)]
    for reader in readers:
        reader.start()
    try:
        filled, checksum = 0, 0
        for piece, answer in zip(pieces, came, strict=True):
            count = answer.get()
            if isinstance(count, OSError):
                raise count
            checksum = zlib.crc32(piece[:count], checksum)
            filled += count
            if count < len(piece):
                return filled, checksum
    finally:
        for reader in readers:
            reader.join()
    _set_direct(descriptor, False)
    count = _fill(descriptor, buffer[end:], end)
    return filled + count, zlib.crc32(buffer[end : end + count], checksum)


def _checked(pieces: Iterable[memoryview]) -> tuple[int, int]:
    size, checksum = 0, 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
        size += len(piece)
    return size, checksum


def _fill(descriptor: int, piece: memoryview, start: int) -> int:
    """Fill a piece from byte `start` of the file on; gives how many bytes there were."""
    filled = 0
    while filled < len(piece):
        direct = _is_direct(descriptor)  # asked before: another reader may be giving up on it at this very moment
        try:
            count = os.preadv(descriptor, [piece[filled:]], start + filled)
        except OSError as error:
            if error.errno not in _NO_DIRECT or not direct:
                raise
            _set_direct(descriptor, False)  # for the other readers, too
            continue
        if not count:
            break
        filled += count
    return filled


def _is_cached(descriptor: int, size: int) -> bool:
    """Whether a file seems to be in the page cache: it was written, or brought here, not long ago."""
    if not hasattr(os, "RWF_NOWAIT"):
        return True
    byte = bytearray(1)
    try:
        return all(os.preadv(descriptor, [byte], at, os.RWF_NOWAIT) for at in (0, size // 2, size - 1))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_DIRECT:
            raise
        return True  # a file system that cannot say


def _is_aligned(data: memoryview) -> bool:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(data)) % _ALIGNMENT == 0


def _is_direct(descriptor: int) -> bool:
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & getattr(os, "O_DIRECT", 0))


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
