"""The profile of a set against the rows themselves; and merged profiles against those of all rows."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.transform_data import transform_data
from drivetrain.data.profile import STATISTICS, TABLE, WHOLE, Profile, merged, profile_of
from drivetrain.data.statistics import TableStatistics

SIDES = ("train", "validation", "test")
DAY = dt.date(2026, 11, 30)
_draw = random.Random(44)


def table(rows: int = 3000, first: int = 0) -> pa.Table:
    """Rows with empty cells in three columns together, blank texts, days, and a label that x follows."""
    labels = [_draw.choice(["cat", "dog", "owl"]) for _ in range(rows)]
    gap = [_draw.random() < 0.1 and row != 9 for row in range(rows)]
    start = dt.datetime(2026, 11, 1)
    columns: dict[str, Any] = {
        "id": range(first, first + rows),
        "label": labels,
        "x": [_draw.gauss(len(label) + ord(label[0]), 1) for label in labels],
        "a": [None if empty else _draw.gauss(0, 1) for empty in gap],
        "b": [None if empty else "word" for empty in gap],
        "c": [None if empty else _draw.randrange(5000) for empty in gap],
        "few": [_draw.randrange(4) for _ in range(rows)],
        "text": [_draw.choice(["", " \t", "é", "long text"]) for _ in range(rows)],
        "when": [start + dt.timedelta(hours=_draw.randrange(24 * 20)) for _ in range(rows)],
        "day": [start.date() + dt.timedelta(days=row % 200) for row in range(rows)],
    }
    columns["x"][7], columns["a"][9] = math.nan, math.inf
    return pa.table(columns)


def profile(rows: pa.Table, pieces: int = 3, label: str | None = "label") -> Profile:
    found = TableStatistics(rows.schema, label, key="id")
    size = max(1, -(-rows.num_rows // pieces))
    for start in range(0, rows.num_rows, size):
        found.add(rows.slice(start, size).combine_chunks())
    return Profile.of(found)


ROWS = table()


@pytest.fixture(scope="module")
def whole() -> Profile:
    return profile(ROWS)


def values(name: str) -> np.ndarray[Any, Any]:
    found = np.array([math.nan if value is None else value for value in ROWS.column(name).to_pylist()])
    return found[np.isfinite(found)]


def test_the_statistics_of_a_night_are_those_of_its_rows(whole: Profile) -> None:
    night = whole.night(DAY, "c" * 64)
    assert set(night.values) == set(STATISTICS) and night.rows == 3000
    found = {name: dict(zip(night.columns, each.tolist(), strict=True)) for name, each in night.values.items()}
    empty = sum(value is None for value in ROWS.column("b").to_pylist())
    texts = ROWS.column("text").to_pylist()
    whens = ROWS.column("when").to_pylist()
    assert found["rows"][TABLE] == 3000 and math.isnan(found["rows"]["x"])
    assert found["nulls"]["a"] == found["nulls"]["c"] == empty / 3000
    assert found["blanks"]["text"] == sum(not text.strip() for text in texts) / 3000
    assert found["length"]["text"] == pytest.approx(sum(map(len, texts)) / 3000)
    assert found["hour"]["when"] == pytest.approx(sum(when.hour for when in whens) / 3000)
    assert found["not_finite"]["x"] == pytest.approx(1 / 3000) and found["not_finite"]["few"] == 0
    assert found["distinct"]["few"] == 4 / 3000 and found["distinct"]["day"] == 200 / 3000
    for name in ("x", "a", "c"):
        assert found["mean"][name] == pytest.approx(values(name).mean(), rel=1e-12)
        assert found["std"][name] == pytest.approx(values(name).std(), rel=1e-9)
        assert found["median"][name] == pytest.approx(np.median(values(name)), abs=0.01 * np.ptp(values(name)))
    cats = sum(label == "cat" for label in ROWS.column("label").to_pylist())
    assert found["class_share"]["label=cat"] == cats / 3000
    assert math.isnan(found["mean"]["text"]) and math.isnan(found["correlation"]["label"])
    assert whole.null_together == [("a", "b", "c")]


def test_days_are_counted_and_those_before_the_latest_together(whole: Profile) -> None:
    start = (dt.date(2026, 11, 1) - dt.date(1970, 1, 1)).days
    assert whole.days["day"] == {start + day: 15 for day in range(136, 200)}
    assert whole.arrays["before"][whole.places["day"]] == 136 * 15
    assert sum(whole.days["when"].values()) == 3000
    ends = [whole.arrays[name][whole.places["day"]] for name in ("oldest", "newest")]
    assert ends == [start, start + 199]


@pytest.mark.parametrize("cuts", [[1000], [1, 2, 2999], [0, 3000], [700, 1400, 2100]])
def test_merged_profiles_are_that_of_all_rows(whole: Profile, cuts: list[int]) -> None:
    ends = [0, *cuts, 3000]
    parts = merged(profile(ROWS.slice(start, end - start), 2) for start, end in itertools.pairwise(ends))
    assert (parts.rows, parts.classes) == (whole.rows, whole.classes)
    assert parts.values == whole.values and parts.days == whole.days and parts.null_together == whole.null_together
    for name, each in whole.arrays.items():
        tolerance = 0.25 if name == "distinct" else 1e-9
        assert parts.arrays[name] == pytest.approx(each, rel=tolerance, nan_ok=True), name
    correlation = whole.statistics["correlation"]
    assert parts.statistics["correlation"] == pytest.approx(correlation, rel=1e-9, abs=1e-9, nan_ok=True)
    for name in ("x", "a", "c", "few"):
        ordered, grid = np.sort(values(name)), parts.grid[parts.places[name]]
        low, high = (np.searchsorted(ordered, grid, side) / len(ordered) for side in ("left", "right"))
        wanted = np.linspace(0, 1, 65)
        assert (low - 1 / 64 <= wanted).all() and (wanted <= high + 1 / 64).all(), name


@pytest.mark.parametrize("name", ["x", "a", "c", "few"])
def test_a_histogram_on_edges_of_others_is_near_the_rows(whole: Profile, name: str) -> None:
    edges = np.quantile(values(name), [0.1, 0.3, 0.5, 0.9]) + 0.01
    edges = [values(name).min() - 5, *edges.tolist(), values(name).max() + 5]
    counted, _ = np.histogram(values(name), edges)
    found = whole.histogram({name: edges})[name]
    assert found.sum() == pytest.approx(len(values(name)))
    assert np.abs(found - counted).max() <= 2 * (1 / 64 + 0.005) * len(values(name))


def test_different_values_of_two_sets_are_estimated() -> None:
    first, next_, half = (
        profile(pa.table({"x": pa.array(range(start, start + 9000))}), 1, None) for start in (0, 9000, 4500)
    )
    total = first.arrays["distinct"][0] + next_.arrays["distinct"][0]
    assert merged([first, next_]).arrays["distinct"][0] == pytest.approx(total)
    assert merged([first, half]).arrays["distinct"][0] == pytest.approx(13_500, rel=0.25)
    # The statistic of nights has no error of that estimate.
    nearly = profile(pa.table({"x": pa.array([*range(1000)] * 2)}), 1, None)
    assert merged([nearly, nearly]).statistics["distinct"][0] == 0.5


def test_a_profile_comes_back_from_its_file(whole: Profile) -> None:
    again = Profile.from_bytes(whole.to_bytes(), "profile.npz")
    assert again.to_bytes() == whole.to_bytes()
    assert (again.classes, again.values, again.days) == (whole.classes, whole.values, whole.days)
    np.testing.assert_equal(dict(again.night(DAY, "").values), dict(whole.night(DAY, "").values))


def test_a_damaged_profile_is_refused_in_one_line(whole: Profile) -> None:
    data = whole.to_bytes()
    for place in [*random.Random(1).sample(range(len(data)), 150), -1]:
        damaged = data[: len(data) // 2] if place == -1 else bytearray(data)
        if place >= 0:
            damaged[place] ^= 0xFF  # type: ignore[index]
        try:
            assert (
                Profile.from_bytes(bytes(damaged), "profile.npz").rows == 3000
            )  # (a byte that says nothing, such as a date)
        except InputError as error:
            assert "profile.npz" in str(error) and "\n" not in str(error)


def test_sets_of_other_columns_are_not_merged(whole: Profile) -> None:
    with pytest.raises(InputError, match="different columns or types"):
        merged([whole, profile(ROWS.drop_columns(["text"]))])


def write(raw: Path, name: str, rows: pa.Table) -> None:
    import pyarrow.parquet as pq

    raw.mkdir(exist_ok=True)
    pq.write_table(rows, raw / name)


def prepare(raw: Path, out: Path, previous: Path | None = None, **given: Any) -> None:
    train, validation, test = (out / side for side in SIDES)
    prepare_data(raw, train, validation, test, previous, key="id", label="label", **given)


def sides(out: Path, which: str = "profile") -> Profile:
    return merged(profile_of(out / side, which) for side in SIDES)


def same(first: Profile, second: Profile) -> None:
    """Equal but for the order in which sums were made."""
    for name, each in first.night(DAY, "").values.items():
        assert second.night(DAY, "").values[name] == pytest.approx(each, rel=1e-9, abs=1e-9, nan_ok=True), name
    assert (first.rows, first.values, first.days) == (second.rows, second.values, second.days)


def test_an_increment_has_the_profile_of_its_own_rows_and_of_all(tmp_path: Path) -> None:
    first, second = table(400), table(300, first=400)
    write(tmp_path / "raw", "1.parquet", first)
    prepare(tmp_path / "raw", tmp_path / "sets", incremental=True)
    write(tmp_path / "raw", "2.parquet", second)
    prepare(tmp_path / "raw", tmp_path / "sets", tmp_path / "sets")
    write(tmp_path / "alone", "2.parquet", second)
    prepare(tmp_path / "alone", tmp_path / "by_itself")
    prepare(tmp_path / "raw", tmp_path / "full")
    same(sides(tmp_path / "by_itself"), sides(tmp_path / "sets"))
    same(sides(tmp_path / "full"), sides(tmp_path / "sets", WHOLE))
    before = [profile_of(tmp_path / "sets" / side).rows for side in SIDES]
    prepare(tmp_path / "raw", tmp_path / "sets", tmp_path / "sets")  # again, with no file that is new
    assert [profile_of(tmp_path / "sets" / side).rows for side in SIDES] == before


def test_a_set_whose_profile_is_gone_or_changed_is_named(tmp_path: Path) -> None:
    write(tmp_path / "raw", "1.parquet", table(50))
    transform_data(tmp_path / "raw", tmp_path / "set", plan='[{"select": ["id", "x"]}]')
    assert profile_of(tmp_path / "set").columns == ("id", "x")
    (path,) = (tmp_path / "set").rglob("profile.npz")
    assert profile_of(path.parent).rows == 50  # the folder of a version
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"profile\.npz was altered since it was written"):
        profile_of(tmp_path / "set")
    path.unlink()
    with pytest.raises(InputError, match=r"profile\.npz is missing"):
        profile_of(tmp_path / "set")
