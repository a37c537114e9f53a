"""What a real PostgreSQL server gives, type by type: the values that it shows, or an error that says what to cast."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.read_source import read_source
from drivetrain.components.source_version import source_version
from drivetrain.data.manifest import Manifest

# A server is started.
pytestmark = pytest.mark.slow

UTC = datetime.UTC
KEPT: dict[str, tuple[list[str], list[Any]]] = {
    "bigint": (["-9223372036854775808", "9223372036854775807"], [-(2**63), 2**63 - 1]),
    "smallint": (["-32768", "32767"], [-32768, 32767]),
    "double precision": (["'-Infinity'", "0.1"], [float("-inf"), 0.1]),
    "numeric": (["12345678901234567890.5", "'NaN'"], ["12345678901234567890.5", "nan"]),
    "timestamp": (["'2026-01-01 10:00:00.123456'"], [datetime.datetime(2026, 1, 1, 10, 0, 0, 123456)]),
    "timestamptz": (["'2026-01-01 10:00:00+02'"], [datetime.datetime(2026, 1, 1, 8, tzinfo=UTC)]),
    "date": (["'0001-01-01'", "'9999-12-31'"], [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    "bytea": (["'\\x00ff'", "''"], [b"\x00\xff", b""]),
    "jsonb": (["'{\"b\": [1, 2]}'", "'null'"], ['{"b": [1, 2]}', "null"]),
    "int[]": (["'{1,2,NULL}'", "'{}'"], [[1, 2, None], []]),
    "text[]": (["'{\"y z\",x}'"], [["y z", "x"]]),
    "boolean": (["true", "false"], [True, False]),
    "text": (["'Zürich'", "''"], ["Zürich", ""]),
}
REFUSED = {
    "money": ("12.5", r"type money, .*cast\(v as numeric\) as v"),
    "uuid": ("gen_random_uuid()", r"type uuid, .*cast\(v as text\) as v"),
    "inet": ("'10.0.0.1'", r"type inet, .*cast\(v as text\) as v"),
    "interval": ("'1 day'", r"type interval, .*cast\(v as text\) as v"),
    "json": ("'{}'", r"no.* ordering operator for type json.*cast this one in the query"),
    "timestamptz": ("'infinity'", r"column 'v' has a date before the year 1 or after 9999, such as infinity"),
    "date": ("'-infinity'", r"column 'v' has a date before the year 1 or after 9999, such as infinity"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.contract.sources.postgresql import Place

    with pytest.MonkeyPatch.context() as patch:
        place = Place(tmp_path_factory.mktemp("server"), patch)
        yield place
        place.close()


def execute(server: Any, *statements: str) -> None:
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(server.address) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def test_values_equal_those_of_the_server_and_null_stays_null(server: Any, tmp_path: Path) -> None:
    def row(number: int) -> str:
        cells = [(kind, cells[number] if number < len(cells) else "null") for kind, (cells, _) in KEPT.items()]
        return ", ".join([f"select {number} as id", *(f'cast({cell} as {kind}) as "{kind}"' for kind, cell in cells)])

    read_source(tmp_path / "out", source=server.address, query=" union all ".join(map(row, range(3))), watermark="id")
    (shard,) = Manifest.read(tmp_path / "out").shards
    found = parquet.read_table(tmp_path / "out" / shard.file).to_pydict()
    assert found == {"id": [0, 1, 2]} | {kind: (values + [None] * 3)[:3] for kind, (_, values) in KEPT.items()}


def test_unsupported_types_are_refused_with_the_cast_to_use(server: Any, tmp_path: Path) -> None:
    for kind, (cell, expected) in REFUSED.items():
        given = {"watermark": "id"} if kind == "json" else {}
        query = f"select 1 as id, {cell}::{kind} as v"
        with pytest.raises(InputError, match=expected):
            read_source(tmp_path / "out", source=server.address, query=query, **given)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("numeric", ["0.001", "12.345", "99.999"]),
        ("timestamptz", ["'2026-01-01 10:00:00.000001+02'", "'2026-01-02'", "'2026-01-03 10:00:00.5'"]),
        ("text", ["'a'", "'it''s'", "'z\\b'"]),
    ],
)
def test_a_watermark_of_any_ordered_type_finds_new_rows(
    server: Any, tmp_path: Path, kind: str, cells: list[str]
) -> None:
    given = {"source": server.address, "query": "select * from waters", "watermark": "v"}
    execute(server, "drop table if exists waters", f"create table waters (v {kind}, x int)")
    execute(server, f"insert into waters values ({cells[0]}, 1), ({cells[1]}, 2)")
    read_source(tmp_path / "one", version=source_version(**given)["version"], **given)
    execute(server, f"insert into waters values ({cells[2]}, 3)")
    read_source(tmp_path / "two", tmp_path / "one", **given)
    assert [shard.rows for shard in Manifest.read(tmp_path / "two").shards] == [2, 1]


def test_a_query_that_fails_midway_leaves_nothing(server: Any, tmp_path: Path) -> None:
    query = "select n as id, 1 / (n - 90000) as v from generate_series(1, 100000) n"
    with pytest.raises(InputError, match=r"cannot be read: .*division by zero\.$"):
        read_source(tmp_path / "out", source=server.address, query=query)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_unreachable_server_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    with pytest.raises(InputError, match=r"^postgresql://reader@127\.0\.0\.1:1/shop cannot be reached: ") as found:
        read_source(tmp_path / "out", source="postgresql://reader@127.0.0.1:1/shop", query="select 1 as id")
    assert "hunter2" not in str(found.value)


def test_rows_changed_in_place_are_reported(server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"source": server.address, "query": "select * from shop", "watermark": "id"}
    execute(server, "create table shop (id int, state text)")
    execute(server, "insert into shop select n, 'open' from generate_series(1, 1000) n")
    read_source(tmp_path / "0", **given)
    said: list[bool] = []
    changes = [
        "",
        "update shop set state = 'paid' where id = 7",
        "",
        "delete from shop where id = 3",
    ]
    for night, change in enumerate(changes, start=1):
        execute(server, f"insert into shop values ({1000 + night}, 'open')", *([change] if change else []))
        capsys.readouterr()
        read_source(tmp_path / f"{night}", tmp_path / f"{night - 1}", **given)
        out = capsys.readouterr().out
        said.append(
            "warning: rows up to id = 10" in out and "some were changed in place. They stay as they were" in out
        )
    # It is said until all is read anew, as it is where a row is gone.
    assert said == [False, True, True, False]
    assert "all is read anew: rows up to id = 1003 were changed or removed" in out
    execute(server, "insert into shop values (2000, 'open')")
    read_source(tmp_path / "last", tmp_path / "4", **given)
    assert "warning" not in capsys.readouterr().out
