"""Queries: versions by a watermark, and what is refused."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.read_source import read_source
from drivetrain.components.source_version import source_version
from drivetrain.data.manifest import Manifest


@pytest.fixture
def shop(tmp_path: Path) -> str:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute('create table orders (id integer, "when" text, x)')
        rows = [(1, "2026-01-01", 1.5), (2, "2026-01-02", 2.5), (3, "it's late", None), (4, None, 4.0)]
        connection.executemany("insert into orders values (?, ?, ?)", rows)
    return f"sqlite:{path}"


def change(address: str, sql: str) -> None:
    with closing(sqlite3.connect(address.removeprefix("sqlite:"))) as connection, connection:
        connection.execute(sql)


def test_a_version_is_read_also_when_more_rows_are_there(shop: str, tmp_path: Path) -> None:
    given = {"query": "select id, x from orders", "watermark": "id"}
    found = source_version(shop, **given)["version"]
    assert found == "4/4"
    change(shop, "insert into orders values (5, '2026-01-05', 5.5)")
    read_source(tmp_path / "out", source=shop, version=found, **given)
    (shard,) = Manifest.read(tmp_path / "out").shards
    assert parquet.read_table(tmp_path / "out" / shard.file).column("id").to_pylist() == [1, 2, 3, 4]
    change(shop, "delete from orders where id = 2")
    with pytest.raises(InputError, match="has no version '4/4': the newest is '5/4'"):
        read_source(tmp_path / "out", source=shop, version=found, **given)


def test_a_text_is_a_watermark_too_with_quotes_in_it(shop: str, tmp_path: Path) -> None:
    given = {"query": 'select * from orders where "when" is not null', "watermark": "when"}
    assert source_version(shop, **given)["version"] == "'it''s late'/3"
    read_source(tmp_path / "out", source=shop, version="'it''s late'/3", **given)
    assert Manifest.read(tmp_path / "out").rows == 3


def test_without_a_watermark_there_is_no_version(shop: str, tmp_path: Path) -> None:
    read_source(tmp_path / "out", source=shop, query="select id from orders")
    manifest = Manifest.read(tmp_path / "out")
    assert (manifest.rows, manifest.lineage["source"]["version"]) == (4, "")
    with pytest.raises(InputError, match="a query without a watermark has no version"):
        source_version(shop, query="select id from orders")
    with pytest.raises(InputError, match="a query without a watermark has no version"):
        read_source(tmp_path / "out", source=shop, query="select id from orders", version="4/4")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "is a database: say what to read"),
        ({"query": "select nothing from orders"}, "refuses the query: .*nothing.*error\\.$"),
        ({"query": "select * from orders", "watermark": "number"}, "refuses the query|gives no column 'number'"),
        ({"query": "select * from orders", "watermark": "when"}, "watermark 'when' is missing in 1 of 4 rows"),
        ({"query": "select * from orders where id > 9", "watermark": "id"}, "the query gives no row"),
        ({"query": "select * from orders", "watermark": "id", "version": "1 or 1=1/4"}, "has no version '1 or 1=1/4'"),
        ({"query": "select * from orders", "watermark": "id", "version": "'a' or 'a'/4"}, "has no version"),
        ({"query": "delete from orders"}, "refuses the query"),
    ],
)
def test_what_cannot_be_read_is_one_error(shop: str, tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_source(tmp_path / "out", source=shop, **given)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("data/orders", r"is not SCHEME:PLACE. Examples: delta:lake/orders"),
        ("detla:lake", "there is no source 'detla'. Did you mean 'delta'"),
        ("postgresql://reader:hunter2@db/shop", r"has a password in it.*PGPASSWORD"),
        ("delta:lake", "query and watermark are for databases"),
        ("iceberg:orders", "Allowed: iceberg:CATALOG/NAMESPACE.TABLE"),
        ("s3:bucket", "names no bucket"),
    ],
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str, message: str) -> None:
    query = "select 1" if "orders" not in address and "bucket" not in address else ""
    with pytest.raises(InputError, match=message) as found:
        read_source(tmp_path / "out", source=address, query=query)
    assert "hunter2" not in str(found.value)


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(InputError, match=r"deltalake is not installed: python -m pip install 'drivetrain\[delta\]'"):
        read_source(tmp_path / "out", source="delta:lake")
