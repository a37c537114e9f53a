"""The first rows of a table, whatever the file claims to be."""

from __future__ import annotations

import io
from datetime import date
from typing import Any

import pytest

from drivetrain.base.markup import join
from drivetrain.data.arrow import arrow
from drivetrain.ui import tables
from drivetrain.ui.tables import csv_table, parquet_table


def parquet(columns: dict[str, Any]) -> io.BytesIO:
    file = io.BytesIO()
    pyarrow = arrow()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    file.seek(0)
    return file


def test_parquet_shows_its_first_rows_with_numbers_below_each_other() -> None:
    rows = 150
    shown = join([
        parquet_table(parquet({
            "year": [2026] * rows, "<b>": ["<i>"] * rows, "day": [date(2026, 1, 2)] * rows, "list": [[1, None]] * rows,
            "price": [0.5, None] * (rows // 2),
        }))
    ])  # fmt: skip
    assert shown.count("<tr>") == 101 and "Shown: the first 100 rows." in shown
    assert '<td class="right">2026</td>' in shown and '<th scope="col" class="right">price</th>' in shown
    assert '<td class="short">2026-01-02</td>' in shown and "[1, None]" in shown
    assert "&lt;i&gt;" in shown and "<i>" not in shown and "<b>" not in shown


def test_parquet_of_many_columns_or_without_rows() -> None:
    wide = join([parquet_table(parquet({f"c{number}": [number] for number in range(40)}))])
    assert "the first 30 of 40 columns" in wide and ">c29<" in wide and ">c30<" not in wide
    empty = join([parquet_table(parquet({"year": []}))])
    assert ">year</th>" in empty and "Shown:" not in empty


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "cannot be read as Parquet"),
        (b"PAR1 and no more", "cannot be read as Parquet"),
        (b"PAR1" + b"x" * 50 + (20).to_bytes(4, "little") + b"PAR1", "cannot be read as Parquet"),
        (b"PAR1" + (2**31 - 1).to_bytes(4, "little") + b"PAR1", "too many columns"),
    ],
)
def test_what_is_no_parquet_is_said_to_be_none(content: bytes, told: str) -> None:
    assert told in join([parquet_table(io.BytesIO(content))])


def test_rows_that_are_too_large_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_BATCH_BYTES", 10_000)
    assert "too large" in join([parquet_table(parquet({"a": ["x" * 1_000] * 50}))])


def test_csv_sets_numbers_as_numbers() -> None:
    shown = join([csv_table("year,name,rows\n2026,a,1\n2025,7,\n", ",", is_whole=True)])
    assert '<td class="right">2025</td>' in shown and '<td class="short">7</td>' in shown and "Shown:" not in shown


def test_a_row_may_be_longer_than_the_first_line() -> None:
    shown = join([csv_table("title\nx,1\ny,20,z\n", ",", is_whole=True)])
    assert shown.count("<tr>") == 3 and "z" in shown
    assert shown.count('class="right"') == 2, "numbers of a column without a name end below each other, too"
