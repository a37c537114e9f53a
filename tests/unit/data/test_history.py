"""The history of accepted nights: what is kept, dropped, restarted; and its file."""

from __future__ import annotations

import datetime as dt
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from drivetrain.base.errors import InputError
from drivetrain.data.history import History, change
from drivetrain.data.profile import STATISTICS, TABLE, Night, Profile
from drivetrain.data.statistics import TableStatistics
from drivetrain.data.version_folder import locked

FIRST = dt.date(2026, 11, 2)  # a Monday


def night(number: int, columns: str = "ab", content: str = "") -> Night:
    names = (TABLE, *columns)
    values = {name: np.full(len(names), np.nan) for name in STATISTICS}
    values["rows"][0] = 1000 + number
    values["mean"][1:] = [1e12 + number + ord(name) for name in columns]
    values["nulls"][1:] = 0.25
    day = FIRST + dt.timedelta(days=number)
    return Night(day=day, rows=1000 + number, content_hash=content or f"{number:064d}", columns=names, values=values)


def history(*nights: Night, **given: Any) -> History:
    found = History()
    for each in nights:
        found = found.append(each, {"train": "sets/train/3f6c0a41b2d7"}, **given)
    return found


def means(found: History, column: str) -> list[float]:
    return found.aligned([column])["mean"][:, 0].tolist()


def test_nights_are_kept_in_their_order_and_the_oldest_are_dropped() -> None:
    found = history(*map(night, range(8)), at_most=5)
    assert len(found) == 5 and found.rows == (1003, 1004, 1005, 1006, 1007)
    assert found.weekdays == [3, 4, 5, 6, 0]
    assert means(found, "a") == [1e12 + number + ord("a") for number in range(3, 8)]
    assert found.aligned(["b", TABLE])["rows"][:, 1].tolist() == [1003, 1004, 1005, 1006, 1007]
    assert found.accepted == {
        "content_hash": f"{7:064d}",
        "day": "2026-11-09",
        "sets": {"train": "sets/train/3f6c0a41b2d7"},
    }


def test_columns_that_come_and_go_are_aligned_by_name() -> None:
    found = history(night(0, "ab"), night(1, "bc"), night(2, "ca"), at_most=2)
    assert set(found.columns) == {TABLE, "a", "b", "c"}
    np.testing.assert_equal(means(found, "b"), [1e12 + 1 + ord("b"), np.nan])
    np.testing.assert_equal(means(found, "a"), [np.nan, 1e12 + 2 + ord("a")])
    np.testing.assert_equal(means(found, "unknown"), [np.nan, np.nan])
    assert "b" not in history(night(0, "ab"), night(1, "ac"), at_most=1).columns


def test_the_same_night_again_is_one_night() -> None:
    found = history(night(0), night(1), night(1))
    assert found.rows == (1000, 1001)


def test_a_restart_forgets_the_earlier_nights_of_the_named_columns_and_says_who_and_why() -> None:
    found = history(night(0), night(1)).restarted(["a"], who="ann", why="a new sensor", day=FIRST)
    found = found.append(night(2), {})
    np.testing.assert_equal(means(found, "a"), [np.nan, np.nan, 1e12 + 2 + ord("a")])
    assert not np.isnan(means(found, "b")).any()
    assert found.records == (
        {"what": "accepted", "day": "2026-11-02", "columns": ["a"], "who": "ann", "why": "a new sensor"},
    )
    with pytest.raises(InputError, match=r"the history has no column 'z'\. It has: a, b\."):
        found.restarted(["z"], who="ann", why="", day=FIRST)


def test_a_history_comes_back_from_its_file_with_the_same_bytes(tmp_path: Path) -> None:
    rows = TableStatistics(pa.schema([("x", pa.int64()), ("t", pa.string())]), None)
    rows.add(pa.table({"x": [1, 2, 3], "t": ["a", "b", None]}))
    found = history(night(0), night(1, "ac")).recorded("refused", FIRST, content_hash="f" * 64, verdict="3 columns")
    found = History(**{**vars(found), "baseline": Profile.of(rows)})
    found.write(tmp_path / "history.npz")
    again = History.read(tmp_path / "history.npz")
    again.write(tmp_path / "again.npz")
    assert (tmp_path / "history.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()
    for name in ("days", "rows", "content_hashes", "columns", "records", "accepted"):
        assert getattr(again, name) == getattr(found, name)
    np.testing.assert_equal(dict(again.values), dict(found.values))  # 0.25 and 1e12 + 1 lose no digit
    assert again.baseline and again.baseline.values["t"] == {"a": 1, "b": 1}


def test_a_damaged_history_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "history.npz"
    history(night(0), night(1)).write(path)
    data = path.read_bytes()
    for place in random.Random(2).sample(range(len(data)), 60):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            assert History.read(path).rows == (1000, 1001)
        except InputError as error:
            assert str(path) in str(error) and "\n" not in str(error)
    path.write_bytes(data[:-40])
    with pytest.raises(InputError, match=r"history\.npz is damaged .* Put back a copy of it, or begin a new history"):
        History.read(path)
    Profile.of(TableStatistics(pa.schema([("x", pa.int64())]), None)).write(path)
    with pytest.raises(InputError, match="is no history"):
        History.read(path)


def test_one_writer_at_a_time_changes_a_history(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.npz"
    change(path, lambda found: found.append(night(0), {}))
    held = locked(path.parent)
    with pytest.raises(InputError, match="another run is writing into"):
        change(path, lambda found: found.append(night(1), {}))
    os.close(held)
    assert len(change(path, lambda found: found.append(night(1), {}))) == 2
    assert len(History.read(path)) == 2 and [each.name for each in path.parent.iterdir()] == ["history.npz"]
