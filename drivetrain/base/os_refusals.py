"""One line for what the machine refuses; apart from errors.py, which travels with every model."""

from __future__ import annotations

import errno

# What the machine refuses and its owner can change, and how. Any other OSError was not foreseen.
_ROOM = "Make room, or give another place."
_OPEN_FILES = "Raise the limit of open files (ulimit -n)."
_REFUSALS = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.EACCES: "Give this user the right, or give another place.",
    errno.EPERM: "Give this user the right, or give another place.",
    errno.EROFS: "Give a place that can be written.",
    errno.EISDIR: "Give the name of a file.",
    errno.ENOTDIR: "A file is where a folder is needed: move it, or give another place.",
    errno.EEXIST: "Something of this name is there: move it, or give another place.",
    errno.ELOOP: "Links lead in a circle: replace one by what it stands for.",
    errno.ENAMETOOLONG: "Give a shorter name.",
    errno.EMFILE: _OPEN_FILES,
    errno.ENFILE: _OPEN_FILES,
    errno.EIO: "The disk, or the network to it, failed: look after it, and try again.",
    errno.ESTALE: "The file was replaced on its server: try again.",
}


def refusal(error: OSError) -> str | None:
    """One line for what the machine refuses: the file, the reason, what to do; None for an error of another kind."""
    advice = _REFUSALS.get(error.errno) if error.errno else None
    return advice and f"{error.filename or 'the output'}: {error.strerror}. {advice}"
