"""Queries: versions by a watermark, and what is refused."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.read_source import read_source
from drivetrain.components.source_version import source_version
from drivetrain.data.manifest import Manifest
from drivetrain.data.sources._sql import check_dates, check_types


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


def test_a_version_is_read_even_after_rows_were_added(shop: str, tmp_path: Path) -> None:
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


def test_a_text_with_quotes_can_be_a_watermark(shop: str, tmp_path: Path) -> None:
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
        ({"query": "select id, 9e999 as w from orders", "watermark": "w"}, "value of the watermark 'w' is infinity or"),
    ],
)
def test_unreadable_tables_give_one_error(shop: str, tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_source(tmp_path / "out", source=shop, **given)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("data/orders", r"is not SCHEME:PLACE. Examples: delta:lake/orders"),
        ("detla:lake", "there is no source 'detla'. Did you mean 'delta'"),
        ("postgresql://reader:hunter2@db/shop", r"has a password in it.*PGPASSWORD"),
        ("postgresql://reader@db/shop?sslmode=require&PASSWORD=hunter2", r"has a password in it.*PGPASSWORD"),
        ("delta:lake", "query and watermark are for databases"),
        ("iceberg:orders", "Allowed: iceberg:CATALOG/NAMESPACE.TABLE"),
        ("s3:bucket", "names no bucket"),
    ],
)
def test_an_invalid_address_is_refused(tmp_path: Path, address: str, message: str) -> None:
    query = "select 1" if "orders" not in address and "bucket" not in address else ""
    with pytest.raises(InputError, match=message) as found:
        read_source(tmp_path / "out", source=address, query=query)
    assert "hunter2" not in str(found.value)


def test_a_query_may_end_with_a_comment(shop: str, tmp_path: Path) -> None:
    read_source(tmp_path / "out", source=shop, query="select id from orders -- all of them", watermark="id")
    assert Manifest.read(tmp_path / "out").rows == 4


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["0.1", "'a'"], r"column 'x' holds values of several types: real and text\. Cast .*: cast\(x as text\) as x"),
        (["7", "'007'", "x'00'"], "several types: blob, integer and text"),
        (["0.5", str(2**53 + 1)], "integer and real, and a float does not hold all digits"),
        (["1", "0.5"], [1.0, 0.5]),
        (["null", str(-(2**63))], [None, -(2**63)]),
        (["null", "null"], [None, None]),
        (["1"] * 1024 + ["0.5"], r"first 1,024 rows, which have no real, .*cast\(x as real\) as x"),
    ],
)
def test_a_column_of_sqlite_holds_values_of_one_type(tmp_path: Path, cells: list[str], expected: Any) -> None:
    address = f"sqlite:{tmp_path / 'mixed.db'}"
    change(address, "create table t (x)")
    change(address, f"insert into t values {', '.join(f'({cell})' for cell in cells)}")
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            read_source(tmp_path / "out", source=address, query="select x from t")
        return
    read_source(tmp_path / "out", source=address, query="select x from t")
    (shard,) = Manifest.read(tmp_path / "out").shards
    assert parquet.read_table(tmp_path / "out" / shard.file).column("x").to_pylist() == expected


@pytest.mark.parametrize(
    ("nights", "said"),
    [
        ((["x'00'"], ["null"]), "1 of them read now"),
        ((["null"], ["'007'"]), "all is read anew: column 'x' was of the type int64, and is string now"),
        ((["7"], ["'007'"]), "several types: integer and text"),
    ],
)
def test_new_rows_have_the_type_of_those_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nights: tuple[list[str], list[str]], said: str
) -> None:
    address = f"sqlite:{tmp_path / 'nights.db'}"
    given: dict[str, Any] = {"source": address, "query": "select rowid as id, x from t", "watermark": "id"}
    change(address, "create table t (x)")
    for number, cells in enumerate(nights):
        change(address, f"insert into t values {', '.join(f'({cell})' for cell in cells)}")
        previous = tmp_path / "out" if number else None
        if said.startswith("several") and number:
            with pytest.raises(InputError, match=said):
                read_source(tmp_path / "out", previous, **given)
            return
        read_source(tmp_path / "out", previous, **given)
    assert said in capsys.readouterr().out
    shards = Manifest.read(tmp_path / "out").shards
    found = [cell for shard in shards for cell in parquet.read_table(tmp_path / "out" / shard.file)["x"].to_pylist()]
    assert found == [{"null": None, "x'00'": b"\0", "'007'": "007"}[cell] for cells in nights for cell in cells]


def field(kind: Any, named: str) -> Any:
    return pa.field("v", kind, metadata={"POSTGRESQL:type": named})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (field(pa.int64(), "money"), r"type money, .* in the query: cast\(v as numeric\) as v\."),
        (field(pa.list_(pa.int64()), "_money"), "type _money"),
        (field(pa.opaque(pa.binary(), "inet", "PostgreSQL"), "inet"), r"type inet, .*: cast\(v as text\) as v\."),
        (field(pa.list_(pa.opaque(pa.binary(), "inet", "PostgreSQL")), "_inet"), "type _inet"),
        (field(pa.uuid(), "uuid"), "type uuid"),
        (pa.field("v", pa.month_day_nano_interval()), "type interval"),
        (field(pa.opaque(pa.string(), "numeric", "PostgreSQL"), "numeric"), ""),
        (field(pa.json_(), "jsonb"), ""),
        (field(pa.list_(pa.int32()), "_int4"), ""),
        (field(pa.binary(), "bytea"), ""),
    ],
)
def test_types_that_would_change_values_are_refused(given: Any, expected: str) -> None:
    if not expected:
        check_types("db", pa.schema([given]))
        return
    with pytest.raises(InputError, match=rf"^db: column 'v' is of the {expected}"):
        check_types("db", pa.schema([given]))


def test_duplicate_column_names_are_refused() -> None:
    with pytest.raises(InputError, match=r"two columns of the query are called 'v'\. Rename one"):
        check_types("db", pa.schema([("id", pa.int64()), ("v", pa.int64()), ("v", pa.string())]))


@pytest.mark.parametrize("kind", [pa.date32(), *(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns"))])
def test_infinite_dates_of_a_driver_are_refused(kind: Any) -> None:
    dates = [date(1, 1, 1), date(9999, 12, 31)]
    if str(kind).startswith("timestamp[ns"):  # which has no such years
        dates = [date(1677, 9, 22), date(2262, 4, 11)]
    check_dates("db", pa.record_batch([pa.array([None, *dates], pa.date32()).cast(kind)], names=["v"]))
    if "ns" in str(kind):
        return
    integers = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    for end in (-(2**31), 2**31 - 1) if pa.types.is_date32(kind) else (-(2**62), 2**62):
        with pytest.raises(InputError, match=r"column 'v' has a date before the year 1 or after 9999.*nullif\(v, 'inf"):
            check_dates("db", pa.record_batch([pa.array([0, None, end], integers).cast(kind)], names=["v"]))


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(InputError, match=r"deltalake is not installed: python -m pip install 'drivetrain\[delta\]'"):
        read_source(tmp_path / "out", source="delta:lake")
