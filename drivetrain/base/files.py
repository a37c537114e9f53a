"""Files that are written for the user."""

from __future__ import annotations

import os
from pathlib import Path

from drivetrain.base.errors import UserError


def write_text(path: Path, text: str) -> None:
    """Write a whole file or none: a reader, or a full disk, never meets half of it.

    A link stays one, and so does a device or a pipe, such as /dev/null: there the text is only written.

    Raises:
        UserError: the folder does not exist, or the place cannot be written.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder. Give a file's name.")
    place = path.resolve()
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        if place.exists() and not place.is_file():
            place.write_text(text, encoding="utf-8")
            return
        beside.write_text(text, encoding="utf-8")
        beside.replace(place)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no folder {path.parent}. Make it, or give another place.") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}.") from error
    finally:
        beside.unlink(missing_ok=True)
