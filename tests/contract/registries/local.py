"""A place for the local registry: a database that does not exist yet."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def place(folder: Path) -> Generator[tuple[str, dict[str, str]]]:
    (folder / "home").mkdir()
    yield str(folder / "home" / "ledger.db"), {}


def unreachable(location: str) -> tuple[str, dict[str, str]]:
    return str(Path(location).parent), {}
