"""A place for the local registry: a database that does not exist yet."""

from pathlib import Path


def location(folder: Path) -> str:
    return str(folder / "home" / "ledger.db")
