"""A Delta table, written by deltalake."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from deltalake import write_deltalake


class Place:
    options: ClassVar[dict[str, str]] = {}

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder / "lake" / "orders"
        self.address = f"delta:{self._folder}"
        self.missing = f"delta:{folder / 'lake' / 'nothing'}"

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self._folder, rows, mode="append")

    def rewrite(self, rows: pa.Table) -> None:
        write_deltalake(self._folder, rows, mode="overwrite")
