"""What every source keeps: run for each file of drivetrain/data/sources, on a table that the file of the same name in
tests/contract/sources makes, changes and appends to, in the real format.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.read_source import read_source
from drivetrain.components.source_version import source_version
from drivetrain.data import sources
from drivetrain.data.manifest import Manifest


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "price": pa.array([None if number == 3 else number / 4 for number in numbers], pa.float64()),
            "city": pa.array([None if number == 5 else f"Zürich {number % 3}" for number in numbers], pa.string()),
        }
    )


# A server is started for each test; pyiceberg takes a second to import.
DEAR = {"postgresql": pytest.mark.slow, "iceberg": pytest.mark.slow}


@pytest.fixture(params=[pytest.param(name, marks=DEAR.get(name, ())) for name in sources.names()])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    file = Path(__file__).parent / "sources" / f"{request.param}.py"
    assert file.is_file(), f"add {file}: a class Place with address, missing, options, append and rewrite"
    made = importlib.import_module(f"tests.contract.sources.{request.param}").Place(tmp_path, monkeypatch)
    if hasattr(made, "close"):
        request.addfinalizer(made.close)
    return made


def read(place: Any, output: Path, **given: Any) -> Manifest:
    read_source(output, source=place.address, **{**place.options, **given})
    assert not list(output.glob(".*"))
    return Manifest.read(output)


def version(place: Any) -> str:
    return source_version(place.address, **place.options)["version"]


def table(folder: Path) -> pa.Table:
    manifest = Manifest.read(folder)
    found = pa.concat_tables(parquet.read_table(folder / shard.file) for shard in manifest.shards)
    return found.sort_by("id")


def test_the_rows_are_those_that_were_written_and_a_version_names_them(place: Any, tmp_path: Path) -> None:
    place.append(rows(0, 40))
    first = version(place)
    manifest = read(place, tmp_path / "a", version=first)
    assert table(tmp_path / "a").equals(rows(0, 40))
    assert manifest.lineage["source"]["version"] == first == version(place)
    assert manifest.lineage["source"]["address"] == place.address
    again = read(place, tmp_path / "b")
    assert again.content_hash == manifest.content_hash
    place.append(rows(40, 44))
    assert version(place) != first


def test_only_new_rows_are_read_and_known_files_stay(place: Any, tmp_path: Path, capsys: Any) -> None:
    place.append(rows(0, 40))
    before = read(place, tmp_path / "a")
    place.append(rows(40, 44))
    capsys.readouterr()
    after = read(place, tmp_path / "b", previous=tmp_path / "a")
    assert "44 rows, 4 of them read now" in capsys.readouterr().out
    assert table(tmp_path / "b").equals(rows(0, 44))
    names = [(Path(shard.file).name, shard.sha256) for shard in after.shards]
    assert names[:1] == [(Path(shard.file).name, shard.sha256) for shard in before.shards]
    assert after.lineage["parent"] == before.content_hash
    assert after.lineage["source"]["version"] == version(place)
    assert read(place, tmp_path / "c", previous=tmp_path / "b").content_hash == after.content_hash
    assert "44 rows, 0 of them read now" in capsys.readouterr().out


def test_rewritten_data_are_reread_with_the_reason(place: Any, tmp_path: Path, capsys: Any) -> None:
    place.append(rows(0, 40))
    read(place, tmp_path / "a")
    place.rewrite(rows(2, 41))
    read(place, tmp_path / "a", previous=tmp_path / "a")
    assert "all is read anew: " in capsys.readouterr().out
    assert table(tmp_path / "a").equals(rows(2, 41))


def test_prepare_data_continues_with_new_rows(place: Any, tmp_path: Path, capsys: Any) -> None:
    def prepare(out: Path, previous: Path | None) -> int:
        sides = [out / side for side in ("train", "validation", "test")]
        prepare_data(tmp_path / "table", *sides, previous, key="id", incremental=True)
        return sum(Manifest.read(side).rows for side in sides)

    place.append(rows(0, 60))
    read(place, tmp_path / "table")
    assert prepare(tmp_path / "first", None) == 60
    place.append(rows(60, 70))
    read(place, tmp_path / "table", previous=tmp_path / "table")
    capsys.readouterr()
    assert prepare(tmp_path / "second", tmp_path / "first") == 70
    assert "prepared anew" not in capsys.readouterr().out


def test_an_unknown_version_and_a_missing_table_are_one_error(place: Any, tmp_path: Path) -> None:
    place.append(rows(0, 10))
    with pytest.raises(InputError, match=r"has no version '12345678901234567'.*newest"):
        read(place, tmp_path / "a", version="12345678901234567")
    with pytest.raises(InputError) as found:
        read_source(tmp_path / "a", source=place.missing, **place.options)
    assert place.missing.rpartition("/")[2] in str(found.value)
    assert not list((tmp_path / "a").glob("*.json"))
