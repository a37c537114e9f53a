"""A folder that does not exist yet, and what goes wrong in one."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def location(folder: Path) -> Generator[str]:
    yield str(folder / "not" / "there" / "yet")
