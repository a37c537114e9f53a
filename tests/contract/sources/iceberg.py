"""An Iceberg table, written by pyiceberg into a catalog in SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config


class Place:
    address = "iceberg:shop/sales.orders"
    missing = "iceberg:shop/sales.nothing"
    options: ClassVar[dict[str, str]] = {}

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        where = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
        for name, value in where.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__SHOP__{name.upper()}", value)
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which is read once, with the package
        self._catalog = load_catalog("shop")
        self._catalog.create_namespace("sales")

    def append(self, rows: pa.Table) -> None:
        self._catalog.create_table_if_not_exists("sales.orders", schema=rows.schema).append(rows)

    def rewrite(self, rows: pa.Table) -> None:
        self._catalog.load_table("sales.orders").overwrite(rows)
