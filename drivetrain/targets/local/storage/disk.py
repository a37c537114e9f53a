"""What the disk has for certain, and a full disk as one clear error."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from drivetrain.base.errors import UserError

# No space, no quota, or a limit on the size of files: no other step would fare better, so that it ends the run.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFullError(UserError):
    """No space is left for what the runner itself has to write. What the ledger holds is whole."""


def make_durable(path: Path) -> None:
    """Wait until the disk has a file's bytes, or a folder's names: then they outlast the machine's power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():  # some file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)


@contextmanager
def no_space(what: str, then: str) -> Generator[None]:
    """Say of a full disk what could not be written and what to do `then`.

    Raises:
        DiskFullError: in place of the system's error.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        where = f" ({error.filename})" if error.filename else ""
        raise DiskFullError(f"{what}: {error.strerror}{where}. Free some space; then {then}.") from error


def go_on(execution: str) -> str:
    """How a run that ended so is taken up."""
    return f"`drivetrain runs resume {execution}` goes on from here"
