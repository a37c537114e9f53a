"""Numbers that overflow their type are refused with the row; infinities that are written are kept."""

import math
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.manifest import Manifest

NUMBERS = "id,x\n" + "".join(f"{key},{key}.5\n" for key in range(50))
OBJECTS = "".join(f'{{"id": {key}, "x": {key}.5}}\n' for key in range(50))


def prepared(folder: Path, name: str, text: str, schema: str | None) -> list[float]:
    """The column x of all rows."""
    (folder / "raw").mkdir(exist_ok=True)
    (folder / "raw" / name).write_text(text)
    sets = [folder / side for side in ("train", "validation", "test")]
    prepare_data(folder / "raw", *sets, key="id", validation_percent=0, test_percent=0, schema=schema)
    (shard,) = Manifest.read(sets[0]).shards
    return pq.read_table(sets[0] / shard.file).column("x").to_pylist()


def refused(folder: Path, name: str, text: str, schema: str | None) -> str:
    with pytest.raises(InputError) as caught:
        prepared(folder, name, text, schema)
    return str(caught.value)


@pytest.mark.parametrize(
    ("file", "text", "schema", "expected"),
    [
        ("a.csv", NUMBERS + "50,1e400\n", None, r"a\.csv, row 52, column 'x': '1e400' is not a float64: it is beyond"),
        (
            "a.csv",
            NUMBERS + "50,-1e400\n",
            "id:int64,x:float64",
            r"row 52, column 'x': '-1e400' is not a float64: it is",
        ),
        (
            "a.csv",
            NUMBERS + "50,1e39\n",
            "id:int64,x:float32",
            r"row 52, column 'x': '1e39' is not a float32: it is beyond",
        ),
        (
            "a.jsonl",
            OBJECTS + '{"id": 50, "x": 1e400}\n',
            None,
            r"a\.jsonl, line 51: 1e400 is not a float64: it is beyond",
        ),
        (
            "a.jsonl",
            OBJECTS + '{"id": 50, "x": 1e39}\n',
            "id:int64,x:float32",
            r"a\.jsonl, line 51, column 'x': 1e\+39 is not a float32: it is beyond .* a wider type",
        ),
    ],
)
def test_a_number_that_overflows_is_refused(
    tmp_path: Path, file: str, text: str, schema: str | None, expected: str
) -> None:
    assert re.search(expected, refused(tmp_path, file, text, schema))


def test_a_double_that_overflows_as_float32_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    table = pa.table({"id": [1, 2, 3], "x": [math.inf, 1.0, 1e39]})
    pq.write_table(table, tmp_path / "raw" / "a.parquet")
    found = refused(tmp_path, "README.md", "", "id:int64,x:float32")
    assert "a.parquet, row 3, column 'x': 1e+39 is not a float32: it is beyond the range of the type" in found


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_an_infinity_that_is_written_is_kept(tmp_path: Path, kind: str) -> None:
    text = NUMBERS + "50,inf\n51,-INF\n52, Infinity \n53,NaN\n"
    values = prepared(tmp_path, "a.csv", text, f"id:int64,x:{kind}")
    assert values[50:53] == [math.inf, -math.inf, math.inf] and values[49] == 49.5
    (tmp_path / "raw" / "a.csv").unlink()
    values = prepared(tmp_path, "a.jsonl", OBJECTS + '{"id": 50, "x": Infinity}\n', f"id:int64,x:{kind}")
    assert values[50] == math.inf
