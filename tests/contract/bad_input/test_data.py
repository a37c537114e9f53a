"""Data that cannot be trained on: prepare_data names file, row and column, and the run ends with exit code 2."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.contract.bad_input.place import Place

ROWS = gzip.decompress((Path(__file__).parents[3] / "pipelines/data/digits.csv.gz").read_bytes()).splitlines(True)


def changed(number: int, line: bytes) -> bytes:
    return b"".join([*ROWS[:number], line, *ROWS[number + 1 :]])


def one_row_of_a_class() -> bytes:
    """The nines are gone but for one, whose key puts it on the side of the tests for ever."""
    others = [row for row in ROWS if row.split(b",")[1] != b"9"]
    nine = next(row for row in ROWS if row.split(b",")[1] == b"9")
    return b"".join([*others, b"100007," + nine.partition(b",")[2]])


@pytest.mark.slow_cases(but=["empty"])
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("data.csv", changed(50, b"\xff" + ROWS[50]), ["data.csv, row 51", "is not UTF-8 (byte 0xff)", "iconv"]),
        ("data.csv", b"", ["data.csv is empty"]),
        ("data.csv", ROWS[0], ["the data has no rows"]),
        ("data.csv", one_row_of_a_class(), ["class 9", "no row in train, but 1 in"]),
        ("data.csv", changed(50, b"5000,1,2\n"), ["data.csv, row 51 has 3 cells", "66 columns"]),
        ("data.parquet", b"PAR1" + bytes(100), ["data.parquet", "Parquet"]),
        ("data.jsonl", b'{"id": 1}\n{"id": \n', ["data.jsonl, line 2"]),
        ("data.csv.gz", gzip.compress(b"".join(ROWS))[:-100], ["data.csv.gz", "damaged"]),
    ],
    ids=["not UTF-8", "empty", "no rows", "a class with one row", "ragged", "Parquet", "JSON Lines", "cut gzip"],
)
def test_a_dataset(place: Place, name: str, content: bytes, words: list[str]) -> None:
    file = place.write(f"my data/{name}", content)
    ran = place.drivetrain("run", "retraining", "--set", f"dataset={file}")
    place.failed_by_input(ran, "prepare", *words)
    assert place.step("train")[0] == "NotExecuted"
    assert place.files() == {f"my data/{name}"}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("dataset=nowhere.csv", ["no such file or folder"]),
        ("dataset=example:digts", ["No example data 'digts'", "Did you mean 'digits'?"]),
        ("learning_rate=.nan", ["Setting learning_rate", "finite number"]),
        ("processes=0", ["processes is 0", "greater than or equal to 1"]),
        ("instance_type=ml.m5.hugee", ["ml.m5.hugee", "is not known"]),
        ("epoch=3", ["Setting epoch ", "Did you mean 'epochs'?"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_setting_of_the_flagship(place: Place, setting: str, words: list[str]) -> None:
    place.refused(place.drivetrain("run", "retraining", "--set", setting), *words)
