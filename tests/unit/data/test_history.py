"""The history of accepted nights: what is kept, dropped, restarted; and its file."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from drivetrain.base.errors import InputError
from drivetrain.data.history import History
from drivetrain.data.profile import STATISTICS, TABLE, Night, Profile
from drivetrain.data.statistics import TableStatistics

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
        found = found.append(each, **given)
    return found


def means(found: History, column: str) -> list[float]:
    return found.aligned([column])["mean"][:, 0].tolist()


def test_nights_are_kept_in_their_order_and_the_oldest_are_dropped() -> None:
    found = history(*map(night, range(8)), at_most=5)
    assert len(found) == 5 and found.rows == (1003, 1004, 1005, 1006, 1007)
    assert found.weekdays == [3, 4, 5, 6, 0]
    assert means(found, "a") == [1e12 + number + ord("a") for number in range(3, 8)]
    assert found.aligned(["b", TABLE])["rows"][:, 1].tolist() == [1003, 1004, 1005, 1006, 1007]


def test_columns_that_come_and_go_are_aligned_by_name() -> None:
    found = history(night(0, "ab"), night(1, "bc"), night(2, "ca"), at_most=2)
    assert set(found.columns) == {TABLE, "a", "b", "c"}
    np.testing.assert_equal(means(found, "b"), [1e12 + 1 + ord("b"), np.nan])
    np.testing.assert_equal(means(found, "a"), [np.nan, 1e12 + 2 + ord("a")])
    np.testing.assert_equal(means(found, "unknown"), [np.nan, np.nan])
    assert "b" not in history(night(0, "ab"), night(1, "ac"), at_most=1).columns


def test_a_night_stands_in_the_order_of_its_day_and_replaces_one_of_the_same_day() -> None:
    found = history(night(0), night(3), night(1), night(1, content="f" * 64))
    assert found.rows == (1000, 1001, 1003) and found.content_hashes[1] == "f" * 64
    assert means(found, "a") == [1e12 + number + ord("a") for number in (0, 1, 3)]
    assert found.append(night(2), at_most=2).rows == (1002, 1003)


def test_a_restart_forgets_the_earlier_nights_of_the_named_columns_and_says_who_and_why() -> None:
    found = history(night(0), night(1)).restarted(["a"], FIRST, who="ann", why="a new sensor")
    found = found.append(night(2))
    np.testing.assert_equal(means(found, "a"), [np.nan, np.nan, 1e12 + 2 + ord("a")])
    assert not np.isnan(means(found, "b")).any()
    assert found.records == (
        {"what": "accepted", "day": "2026-11-02", "columns": ["a"], "who": "ann", "why": "a new sensor"},
    )


def test_a_history_comes_back_from_its_file_with_the_same_bytes() -> None:
    found = history(night(0), night(1, "ac")).recorded("refused", FIRST, content_hash="f" * 64, verdict="3 columns")
    found = replace(found, alarms=({"column": "a", "since": "2026-11-02"},))
    again = History.from_bytes(found.to_bytes(), "history.npz")
    assert again.to_bytes() == found.to_bytes()
    for name in ("days", "rows", "content_hashes", "columns", "records", "alarms"):
        assert getattr(again, name) == getattr(found, name)
    for name, values in found.values.items():  # 1e12 + 97 keeps 33 significant bits, a tenth of what is told apart
        np.testing.assert_allclose(again.values[name], values, rtol=2.0**-33)
    assert len(History.from_bytes(b"", "history.npz")) == 0


def test_a_damaged_history_is_refused_in_one_line() -> None:
    data = history(night(0), night(1)).to_bytes()
    for place in random.Random(2).sample(range(len(data)), 60):
        damaged = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        try:
            assert History.from_bytes(damaged, "history.npz").rows == (1000, 1001)
        except InputError as error:
            assert "history.npz" in str(error) and "\n" not in str(error)
    with pytest.raises(InputError, match=r"history\.npz is damaged .* Put back a copy of it, or begin anew"):
        History.from_bytes(data[:-40], "history.npz")
    profile = Profile.of(TableStatistics(pa.schema([("x", pa.int64())]), None))
    with pytest.raises(InputError, match="is no history"):
        History.from_bytes(profile.to_bytes(), "history.npz")
