"""Errors of the local registry's database, in the user's words."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def mendable(error: sqlite3.DatabaseError, path: Path, busy_seconds: float) -> str | None:
    """The message about what the user can mend; None for a mistake of ours."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return f"{path} is damaged or no SQLite file ({error}). Restore a copy, or name another file."
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{path} has been locked by another process for {busy_seconds:g} s. Try again when it ends."
    if name.startswith("SQLITE_FULL"):
        return f"no space left for {path}. Free some; nothing was registered."
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_IOERR", "SQLITE_AUTH")):
        return f"{path} cannot be opened for reading and writing ({error}). Check the path and its rights."
    if name == "SQLITE_ERROR":
        return f"{path} holds tables that are not this registry's ({error}). Name another file."
    return None
