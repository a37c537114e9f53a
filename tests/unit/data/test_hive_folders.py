"""Columns in the names of folders, as Hive writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.manifest import Manifest
from drivetrain.data.reading import TableOptions, open_table


def write(root: Path, folder: str, **columns: list[Any]) -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), root / folder / "part.parquet")


def read(root: Path, **options: Any) -> pa.Table:
    table = open_table(root, TableOptions(**{"key": None, "label": None, **options}), whole=False)
    return pa.Table.from_batches([batch for _, _, batch in table.batches()], schema=table.schema)


def test_folders_give_columns_with_types(tmp_path: Path) -> None:
    write(tmp_path, "year=2025/city=Z%C3%BCrich", id=[1, 2])
    write(tmp_path, "year=2026/city=__HIVE_DEFAULT_PARTITION__", id=[3])
    found = read(tmp_path)
    assert found.to_pylist() == [
        {"id": 1, "year": 2025, "city": "Zürich"},
        {"id": 2, "year": 2025, "city": "Zürich"},
        {"id": 3, "year": 2026, "city": None},
    ]
    typed = read(tmp_path, schema="id:int64,year:string,city:string")
    assert typed.column("year").to_pylist() == ["2025", "2025", "2026"]


def test_the_type_holds_all_values_of_all_folders(tmp_path: Path) -> None:
    for value in ("1", "2.5", "07"):
        write(tmp_path, f"part={value}", id=[1])
    assert read(tmp_path).column("part").to_pylist() == ["07", "1", "2.5"]


def test_a_column_in_the_file_overrides_the_folder(tmp_path: Path) -> None:
    write(tmp_path, "day=1", id=[1], day=["2026-01-01"])
    write(tmp_path, "day=2", id=[2], day=["2026-01-02"])
    assert read(tmp_path).column("day").to_pylist() == ["2026-01-01", "2026-01-02"]


def test_csv_and_prepared_data_and_increments(tmp_path: Path, capsys: Any) -> None:
    def night(day: int, start: int) -> None:
        folder = tmp_path / "raw" / f"day={day}"
        folder.mkdir(parents=True)
        (folder / "rows.csv").write_text("id,x\n" + "".join(f"{key},{key / 2}\n" for key in range(start, start + 40)))

    def prepare(out: str, previous: Path | None = None) -> Manifest:
        sides = [tmp_path / out / side for side in ("train", "validation", "test")]
        prepare_data(tmp_path / "raw", *sides, previous, key="id", incremental=True)
        return Manifest.read(sides[0])

    night(1, 0)
    assert [column.name for column in prepare("first").schema] == ["id", "x", "day"]
    night(2, 40)
    capsys.readouterr()
    after = prepare("second", tmp_path / "first")
    assert "anew" not in capsys.readouterr().out
    assert after.statistics["day"]["max"] == 2


@pytest.mark.parametrize(
    ("folders", "options", "message"),
    [
        (("year=2025", "."), {}, "do not give the same columns"),
        (("year=2025", "month=1"), {}, "do not give the same columns"),
        (("a=1/a=2",), {}, "two of its folders give the column 'a'"),
        (("year=next",), {"schema": "id:int64,year:int64"}, "year=next/part.parquet, .*: 'next' is not an int64"),
        (("year=2025",), {"key": "year"}, "'year' stands in the names of folders"),
    ],
)
def test_invalid_folder_names_give_one_error(
    tmp_path: Path, folders: tuple[str, ...], options: dict[str, Any], message: str
) -> None:
    for folder in folders:
        write(tmp_path, folder, id=[1])
    with pytest.raises(InputError, match=message):
        read(tmp_path, **options)
