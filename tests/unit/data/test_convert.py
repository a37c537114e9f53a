"""Cells of text: which types they get, and which of them are missing."""

import pyarrow as pa
import pytest

from drivetrain.data.convert import BadValueError, converted, inferred_type

FLOAT = pa.schema([("x", pa.float64())])


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["Nan", "NAN"], pa.string()),
        (["-nan", "1.5"], pa.string()),
        (["NaN", "1.5", " nan "], pa.float64()),
        (["NaN", "nan", "  "], pa.null()),
        ([" 7", "7 ", "\u00a0"], pa.int64()),
    ],
)
def test_only_missing_value_markers_are_not_text(cells: list[str], expected: pa.DataType) -> None:
    assert inferred_type(pa.array(cells)) == expected


def test_nan_is_missing_whatever_its_neighbours_are() -> None:
    for cells, values in ((["NaN", "1.5"], [None, 1.5]), (["NaN", " 7 ", "NA"], [None, 7.0, None])):
        batch = converted(pa.record_batch({"x": cells}), FLOAT, text=True, strict=frozenset("x"))
        assert batch["x"].to_pylist() == values
    read_by_arrow = pa.record_batch([pa.array([float("nan"), 1.5])], schema=FLOAT)
    assert converted(read_by_arrow, FLOAT, text=True)["x"].to_pylist() == [None, 1.5]


def test_other_spellings_of_nan_make_an_inferred_column_text() -> None:
    with pytest.raises(BadValueError, match="'Nan' is not a float64"):
        converted(pa.record_batch({"x": ["1.5", "Nan"]}), FLOAT, text=True, strict=frozenset("x"))
