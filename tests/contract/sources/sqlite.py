"""A table in a SQLite database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest


class Place:
    options: ClassVar[dict[str, str]] = {"query": "select id, price, city from orders;", "watermark": "id"}

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = folder / "shop.db"
        self.address = f"sqlite:{self._path}"
        self.missing = f"sqlite:{folder / 'nothing.db'}"
        self._run("create table orders (id integer, price real, city text)")

    def append(self, rows: pa.Table) -> None:
        self._run("insert into orders values (:id, :price, :city)", rows.to_pylist())

    def rewrite(self, rows: pa.Table) -> None:
        self._run("delete from orders")
        self.append(rows)

    def _run(self, sql: str, rows: list[dict[str, object]] | None = None) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.executemany(sql, rows) if rows is not None else connection.execute(sql)
