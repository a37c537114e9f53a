"""A night's data that is wrong: one error with file, column and row, whatever prepares it; what was there stays.

The same cases for prepare_data and for transform_data on each engine, in the second night of two.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.transform_data import transform_data
from drivetrain.data import engines
from drivetrain.data.manifest import Manifest

WAYS = [
    "prepare_data",
    "previous",
    *(pytest.param(name, marks=pytest.mark.spark if name == "spark" else ()) for name in engines.names()),
]
GOOD = "id,label,x\n" + "".join(f"{key},{key % 2},{key}.5\n" for key in range(100))
SCHEMA = "id:int64,label:int64,x:float64"


def truncated(path: Path) -> None:
    table = pa.table({"id": list(range(100, 9000)), "label": [1] * 8900, "x": [0.5] * 8900})
    parquet.write_table(table, path / "2.parquet")
    whole = (path / "2.parquet").read_bytes()
    (path / "2.parquet").write_bytes(whole[: len(whole) // 2])


def not_utf8(path: Path) -> None:
    binary = pa.array([b"\xff"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 1, binary.buffers())
    parquet.write_table(pa.table({"id": [100], "label": [1], "x": texts}), path / "2.parquet")


def text(content: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "2.csv").write_text(content)

    return write


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a missing column": (text("id,label\n100,1\n"), r"2\.csv has no column 'x'"),
    "another column": (text("id,label,x,y\n100,1,2,3\n"), r"2\.csv.* 'y'|'y'.* 2\.csv|column 'y'"),
    "a changed type": (
        text("id,label,x\n100,1,2\n101,0,soon\n"),
        r"2\.csv, row 3, column 'x': 'soon' is not a float64",
    ),
    "a truncated Parquet file": (truncated, r"2\.parquet cannot be read as Parquet: .*Is it damaged, or cut short\?"),
    "text that is not UTF-8 in Parquet": (not_utf8, r"2\.parquet, row 1, column 'x': b'\\xff' is not UTF-8"),
    "a NUL in a name": (text("id,label,x\0\n100,1,2\n"), r"2\.csv: the name of column 3 holds a NUL: 'x\\x00'"),
    "a link to nothing": (
        lambda folder: (folder / "2.csv").symlink_to("/nowhere/2.csv"),
        r"2\.csv is a link to '/nowhere/2\.csv', where no file is",
    ),
    "an open quote": (text('id,label,x\n100,1,"2\n101,0,3\n'), r"2\.csv, row 2 is not CSV: .*quote not closed"),
    "an empty night": (text(""), r"2\.csv is empty \(0 bytes\)\. Was its upload cut short\?"),
    "too few cells": (text("id,label,x\n100,1\n"), r"2\.csv, row 2 has 2 cells; the header names 3 columns"),
}


@pytest.fixture
def night(tmp_path: Path) -> Path:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "1.csv").write_text(GOOD)
    return tmp_path


def run(way: str, night: Path) -> None:
    raw, out = night / "raw", night / "out"
    if way in ("prepare_data", "previous"):
        previous = out if way == "previous" and out.exists() else None
        sides = (out / side for side in ("train", "validation", "test"))
        prepare_data(raw, *sides, previous, key="id", label="label", schema=SCHEMA, incremental=True)
    else:
        transform_data(raw, out / "train", plan='[{"sort": "id"}]', engine=way, schema=SCHEMA, extra_columns="refuse")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", WAYS)
def test_one_error_gives_the_place(way: str, case: str, night: Path) -> None:
    run(way, night)
    before = Manifest.read(night / "out" / "train").content_hash
    write, expected = CASES[case]
    write(night / "raw")
    with pytest.raises(InputError) as found:
        run(way, night)
    message = str(found.value)
    assert re.search(expected, message), message
    assert "\n" not in message and len(message) < 500
    assert Manifest.read(night / "out" / "train").content_hash == before
    assert not list((night / "out").rglob(".drivetrain-*"))


@pytest.mark.parametrize("way", WAYS)
def test_a_night_with_only_a_header_adds_no_row(way: str, night: Path) -> None:
    run(way, night)
    before = Manifest.read(night / "out" / "train").rows
    (night / "raw" / "2.csv").write_text("id,label,x\n")
    run(way, night)
    assert Manifest.read(night / "out" / "train").rows == before
