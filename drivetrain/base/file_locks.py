"""Locks on open files, by flock (https://man7.org/linux/man-pages/man2/flock.2.html): they end with their holder; and
files that outlast the machine's power."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

_TRIES, _BETWEEN_TRIES_S = 50, 0.005
# What a file system answers that has no locks (Lustre mounted without `flock`).
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def hold(descriptor: int, how: int) -> None:
    """Lock an open file against other holders, of this process too; BlockingIOError where it cannot be had at once."""
    try:
        fcntl.flock(descriptor, how)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def hold_soon(descriptor: int) -> bool:
    """Lock an open file that others hold for an instant only; False where one of them was stopped in that instant."""
    for _ in range(_TRIES):
        try:
            hold(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_BETWEEN_TRIES_S)
        else:
            return True
    return False


def make_durable(path: Path) -> None:
    """Wait until the disk has a file's bytes, or a folder's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():  # some file systems cannot sync a folder (SMB, 9p)
            raise
    finally:
        os.close(descriptor)
