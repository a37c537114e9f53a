"""The manifest's statistics against Python's own."""

import datetime
import decimal
import math
import statistics
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.data import statistics as tabular_statistics
from drivetrain.data.statistics import TableStatistics


def entries(pieces: list[list[Any]], data_type: Any, label: bool = False) -> Any:
    """Statistics of a column that comes in pieces."""
    schema = pa.schema([("x", data_type)])
    gathered = TableStatistics(schema, "x" if label else None)
    for piece in pieces:
        gathered.add(pa.table({"x": pa.array(piece, data_type)}))
    return gathered.entries()["x"]


def pieces_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    return st.lists(st.lists(st.one_of(st.none(), values), min_size=1, max_size=8), max_size=5)


@settings(deadline=None)
@given(pieces_of(st.integers(-(2**63), 2**63 - 1)))
def test_integers_are_summed_exactly(pieces: list[list[int | None]]) -> None:
    found = entries(pieces, pa.int64())
    values = [value for piece in pieces for value in piece if value is not None]
    assert found["nulls"] == sum(len(piece) for piece in pieces) - len(values)
    if not values:
        assert [found[name] for name in ("min", "max", "mean", "std")] == [None] * 4
        return
    assert (found["min"], found["max"], found["mean"]) == (min(values), max(values), sum(values) / len(values))
    spread = max(abs(value) for value in values)
    assert math.isclose(found["std"], statistics.pstdev(values), rel_tol=1e-6, abs_tol=1e-6 * spread)


def test_unsigned_integers_near_their_end() -> None:
    found = entries([[2**64 - 1, 2**64 - 3], [2**64 - 2]], pa.uint64())
    assert (found["min"], found["max"], found["mean"]) == (2**64 - 3, 2**64 - 1, (3 * 2**64 - 6) / 3)


# Their squares are floats again.
FLOATS = st.floats(-1e100, 1e100).filter(lambda value: value == 0 or abs(value) > 1e-100)


@settings(deadline=None)
@given(pieces_of(FLOATS | st.sampled_from([math.nan, math.inf, -math.inf])))
def test_float_statistics_ignore_nonfinite_values(pieces: list[list[float | None]]) -> None:
    found = entries(pieces, pa.float64())
    present = [value for piece in pieces for value in piece if value is not None]
    values = [value for value in present if math.isfinite(value)]
    assert found["nulls"] == sum(len(piece) for piece in pieces) - len(present)
    assert found["not_finite"] == len(present) - len(values)
    if not values:
        assert [found[name] for name in ("min", "max", "mean", "std")] == [None] * 4
        return
    spread = max(abs(value) for value in values)
    assert (found["min"], found["max"]) == (min(values), max(values))
    assert math.isclose(found["mean"], statistics.fmean(values), rel_tol=1e-9, abs_tol=1e-12 * spread)
    assert math.isclose(found["std"], statistics.pstdev(values), rel_tol=1e-6, abs_tol=1e-6 * spread)


def test_values_beyond_a_double_are_null() -> None:
    found = entries([[1e308, 1e308], [1e308, -1e308]], pa.float64())
    assert (found["min"], found["max"], found["mean"], found["std"]) == (-1e308, 1e308, None, None)


UPPER = dict.fromkeys(["0.5", "0.75", "0.95", "0.99"], 1)


def test_other_types() -> None:
    assert entries([[True, False, None], [True]], pa.bool_()) == {
        **{"nulls": 1, "min": 0, "max": 1, "mean": pytest.approx(2 / 3), "std": pytest.approx(math.sqrt(2) / 3)},
        **{"sum": 2, "distinct": 2, "quantiles": {"0.01": 0.02, "0.05": 0.1, "0.25": 0.5, **UPPER}},
        "histogram": {"edges": pytest.approx([place / 20 for place in range(21)]), "rows": [1, *[0] * 18, 2]},
        "values": [{"value": False, "rows": 1}, {"value": True, "rows": 2}],
    }
    assert entries([[decimal.Decimal("1.5"), decimal.Decimal("2.5")]], pa.decimal128(5, 2))["mean"] == 2.0
    assert entries([["a", None]], pa.string()) == {**{"nulls": 1, "distinct": 1, "values": [{"value": "a", "rows": 1}]}}
    assert entries([[[1.0], None]], pa.list_(pa.float32())) == {"nulls": 1}
    assert entries([[None]], pa.null()) == {"nulls": 1}


def test_half_floats() -> None:
    pytest.importorskip("numpy")  # with which alone Arrow makes them from Python's floats
    assert entries([[1.5, 2.5]], pa.float16())["mean"] == 2.0


def test_dates_and_times_are_iso_text() -> None:
    first, last = datetime.date(2026, 1, 31), datetime.date(2026, 12, 1)
    ends = {"min": "2026-01-31", "max": "2026-12-01"}
    assert entries([[last, None], [first]], pa.date32()) == {"nulls": 1, "distinct": 2, **ends}
    assert entries([[None]], pa.date32()) == {"nulls": 1, "distinct": 0, "min": None, "max": None}
    moment = datetime.datetime(2026, 1, 31, 10, 0, 0, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert entries([[moment.replace(tzinfo=None)]], pa.timestamp("us"))["min"] == "2026-01-31T10:00:00.000005"
    assert entries([[moment]], pa.timestamp("us", tz="Europe/Zurich"))["max"] == "2026-01-31T08:00:00.000005Z"


def test_classes_are_counted() -> None:
    found = entries([["b", "a", "b"], ["c", "b"]], pa.string(), label=True)
    classes = [{"value": "a", "rows": 1}, {"value": "b", "rows": 3}, {"value": "c", "rows": 1}]
    assert found == {"nulls": 0, "distinct": 3, "classes": classes, "values": classes}
    assert entries([[True, False]], pa.bool_(), label=True)["classes"] == [
        {"value": False, "rows": 1},
        {"value": True, "rows": 1},
    ]
    assert "classes" not in entries([[1.0, 2.0]], pa.float64(), label=True)


def test_too_many_classes_are_no_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular_statistics, "MAX_CLASSES", 5)
    with pytest.raises(InputError, match=r"column 'x' has more than 5 values.* schema=\"x:float64\""):
        entries([[0, 1, 2], [3, 4, 5]], pa.int64(), label=True)


def counted(values: list[Any]) -> list[dict[str, Any]]:
    present = [value for value in values if value is not None]
    return [{"value": value, "rows": present.count(value)} for value in sorted(set(present))]


@settings(deadline=None)
@given(pieces_of(st.integers(-(2**63), 2**63 - 1)) | pieces_of(st.integers(0, 2)))
def test_the_values_of_a_column_are_counted(pieces: list[list[int | None]]) -> None:
    assert entries(pieces, pa.int64())["values"] == counted([value for piece in pieces for value in piece])


def test_values_of_bools_and_text_are_counted_and_those_of_others_are_not() -> None:
    assert entries([[True, None], [False, True]], pa.bool_())["values"] == counted([False, True, True])
    assert entries([["north", "é"], ["north"]], pa.string())["values"] == counted(["north", "é", "north"])
    assert "values" not in entries([[1.0]], pa.float64())
    assert entries([], pa.string())["values"] == []


@pytest.mark.parametrize("num_values, is_counted", [(256, True), (257, False)])
@pytest.mark.parametrize("repeated", [1, 40])  # in one look, and in two
def test_a_column_of_many_values_is_not_counted(num_values: int, is_counted: bool, repeated: int) -> None:
    values: list[Any] = list(range(num_values)) * repeated
    assert ("values" in entries([values], pa.int32())) == is_counted
    assert ("values" in entries([[None, *values]], pa.int32())) == is_counted
    assert ("values" in entries([values[:100], values[100:]], pa.int32())) == is_counted
    assert ("values" in entries([values, values], pa.int32())) == is_counted  # it does not come back


def test_a_column_of_documents_is_not_counted() -> None:
    assert entries([["x" * 256]], pa.string())["values"] == counted(["x" * 256])
    assert "values" not in entries([["x" * 257]], pa.string())


def test_the_key_is_not_counted() -> None:
    gathered = TableStatistics(pa.schema([("id", pa.int64()), ("x", pa.int64())]), None, key="id")
    gathered.add(pa.table({"id": [1, 2], "x": [3, 3]}))
    found = gathered.entries()
    assert "values" not in found["id"]
    assert found["x"]["values"] == [{"value": 3, "rows": 2}]


def test_many_columns_limit_counting_to_those_with_few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular_statistics, "MAX_ALL_VALUES", 5)
    columns = {"a": [1, 2, 3], "b": [1, 1, 2], "c": [0, 0, 0], "d": [5, 6, 6]}
    gathered = TableStatistics(pa.schema([(name, pa.int64()) for name in columns]), None)
    gathered.add(pa.table(columns))
    assert [name for name, entry in gathered.entries().items() if "values" in entry] == ["b", "c", "d"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "date"])
def test_placeholder_dates_are_counted(unit: str) -> None:
    day = datetime.datetime
    values = [day(1900, 1, 1), day(1900, 1, 1, 23, 59, 59), day(1899, 12, 31), day(1900, 1, 2), day(2026, 5, 6), None]
    late = [] if unit == "ns" else [day(9999, 12, 31, 23), day(9999, 12, 30)]
    data_type = pa.date32() if unit == "date" else pa.timestamp(unit, tz="UTC")
    found = entries([values, late, late], data_type)
    assert found["sentinels"] == {"1900-01-01": 2, **({"9999-12-31": 2} if late else {})}
    assert "sentinels" not in entries([[day(2026, 5, 6)]], data_type)


def test_sentinels_are_kept_from_one_run_to_the_next() -> None:
    schema = pa.schema([("x", pa.date32())])
    rows = pa.table({"x": pa.array([datetime.date(9999, 12, 31)], pa.date32())})
    first, second, older = (TableStatistics(schema, None) for _ in range(3))
    first.add(rows)
    second.restore(first.state())
    second.add(rows)
    assert second.entries()["x"]["sentinels"] == {"9999-12-31": 2}
    state = first.state()
    del state["columns"]["x"]["sentinels"]  # of an earlier release: how many there were nobody knows
    older.restore(state)
    older.add(rows)
    assert "sentinels" not in older.entries()["x"]
