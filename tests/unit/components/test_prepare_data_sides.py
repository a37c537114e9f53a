"""Splits by group, time and strata: which row is where, and what cannot be."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.manifest import Manifest

SIDES = ("train", "validation", "test")
COUNT = 2000


def split(folder: Path, **parameters: Any) -> dict[str, list[dict[str, Any]]]:
    rows = [f"{row},u{row % 97},{'abc'[row % 7 % 3]},2026-{1 + row % 12:02d}-15,{row / 2}\n" for row in range(COUNT)]
    (folder / "raw.csv").write_text("id,user,kind,day,x\n" + "".join(rows))
    given = {"key": "id", "schema": "day:date32", "extra_columns": "keep", **parameters}
    prepare_data(folder / "raw.csv", *(folder / side for side in SIDES), **given)
    sides = (*SIDES, "calibration") if "calibration" in parameters else SIDES
    found = {side: rows_of(folder / side) for side in sides}
    assert sorted(row["id"] for rows in found.values() for row in rows) == list(range(COUNT))
    return found


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for shard in Manifest.read(folder).shards for row in pq.read_table(folder / shard.file).to_pylist()]


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def fraction(key: str, salt: str = "") -> float:
    return int.from_bytes(hashlib.blake2b(f"{salt}\0{key}".encode(), digest_size=8).digest(), "little") / 2**64


def test_a_group_is_on_one_side(tmp_path: Path) -> None:
    found = split(tmp_path, split_by="group:user", salt="s", test_percent=20)
    for side, low, high in (("test", 0.0, 0.2), ("validation", 0.2, 0.3), ("train", 0.3, 1.0)):
        assert found[side] and all(low <= fraction(row["user"], "s") < high for row in found[side])


def test_time(tmp_path: Path) -> None:
    found = split(tmp_path, split_by="time:day", validation_from="2026-10-01", test_from="2026-11-15")
    months = {side: sorted({row["day"].month for row in rows}) for side, rows in found.items()}
    assert months == {"train": [*range(1, 10)], "validation": [10], "test": [11, 12]}


def test_time_without_a_validation_set(tmp_path: Path) -> None:
    found = split(tmp_path, split_by="time:day", test_from="2026-12-15")
    assert {side: len(rows) > 0 for side, rows in found.items()} == {"train": True, "validation": False, "test": True}


def test_the_times_are_compared_as_values_of_the_column(tmp_path: Path) -> None:
    found = split(tmp_path, split_by="time:id", validation_from="900", test_from="1000")
    assert {side: min(row["id"] for row in rows) for side, rows in found.items()} == {
        **{"train": 0, "validation": 900, "test": 1000}
    }
    # As text, a "T" sorts after a blank.
    moments = {"schema": "day:timestamp[us]", "split_by": "time:day"}
    found = split(tmp_path, **moments, validation_from="2026-06-15T00:00:00", test_from="2026-06-15 08:00:00")
    assert {row["day"].month for row in found["validation"]} == {6}
    with pytest.raises(InputError, match=r"'2026-06-15 08:00:00' is not before test_from '2026-06-15T00:00:00'"):
        split(tmp_path, **moments, validation_from="2026-06-15 08:00:00", test_from="2026-06-15T00:00:00")


def test_each_stratum_is_divided_alike(tmp_path: Path) -> None:
    found = split(tmp_path, split_by="strata:kind", test_percent=15)
    whole = Counter("abc"[row % 7 % 3] for row in range(COUNT))
    for side, percent in (("test", 15), ("validation", 10)):
        counted = Counter(row["kind"] for row in found[side])
        assert all(abs(counted[kind] - whole[kind] * percent / 100) <= 1 for kind in whole)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"split_by": "grup:user"}, r"split_by: there is no split by 'grup'. Did you mean 'group'"),
        ({"split_by": "group"}, r"split_by is 'group'. Allowed: \"key\", or one of group, time and strata"),
        ({"split_by": "group:usr"}, r"split_by: there is no column 'usr'. Did you mean 'user'"),
        ({"split_by": "group:x"}, r"split_by: column 'x' is a float64 column. Allowed: integers, bools and text"),
        ({"split_by": "time:user", "test_from": "2026"}, r"column 'user' is a string column. Allowed: dates"),
        ({"split_by": "time:day"}, r"validation_from and test_from are the times of a split by time: give one or both"),
        ({"test_from": "2026-01-01"}, r"leave them out, or give split_by=\"time:COLUMN\""),
        (
            {"split_by": "time:day", "test_from": "soon"},
            r"test_from is 'soon', which is not a date32\[day\]. Give it as",
        ),
        (
            {"split_by": "time:day", "validation_from": "2026-05-01", "test_from": "2026-05-01"},
            r"validation_from '2026-05-01' is not before test_from",
        ),
        (
            {"split_by": "time:day", "test_from": "2030-01-01"},
            r"no row falls into test by column 'day': test begins at 2030-01-01. Give other times",
        ),
        ({"keep_versions": -1}, r"keep_versions is -1. Allowed: 0 and more"),
    ],
)
def test_impossible_splits_are_refused(tmp_path: Path, parameters: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        split(tmp_path, **parameters)
    assert not [path for side in SIDES for path in (tmp_path / side).glob("*")]


@pytest.mark.parametrize("by", ["key", "group:user", "strata:kind"])
def test_a_calibration_side_takes_its_rows_from_train_alone(tmp_path: Path, by: str) -> None:
    before = split(tmp_path, split_by=by, on_leakage="ignore")
    manifests = {side: Manifest.read(tmp_path / side) for side in SIDES}
    prepare_data(
        tmp_path / "raw.csv",
        *(tmp_path / "more" / side for side in SIDES),
        calibration=tmp_path / "more" / "calibration",
        **{"key": "id", "schema": "day:date32", "extra_columns": "keep", "split_by": by, "calibration_percent": 15},
    )
    after = {side: rows_of(tmp_path / "more" / side) for side in (*SIDES, "calibration")}
    assert after["test"] == before["test"] and after["validation"] == before["validation"]
    assert sorted((*ids(after["train"]), *ids(after["calibration"]))) == sorted(ids(before["train"]))
    assert 0.1 * COUNT < len(after["calibration"]) < 0.2 * COUNT
    for side in ("test", "validation"):  # the set without that side keeps its name, and its manifest says nothing of it
        assert Manifest.read(tmp_path / "more" / side).content_hash == manifests[side].content_hash
        assert not any("calibration" in name for name in manifests[side].lineage["parameters"])
    assert Manifest.read(tmp_path / "more" / "calibration").leakage == {"rows": 0, "groups": {}}


def test_a_calibration_side_by_time_begins_between_validation_and_test(tmp_path: Path) -> None:
    times = {"validation_from": "2026-09-01", "calibration_from": "2026-10-01", "test_from": "2026-11-15"}
    found = split(tmp_path, split_by="time:day", calibration=tmp_path / "calibration", **times)
    assert {side: sorted({row["day"].month for row in rows}) for side, rows in found.items()} == {
        **{"train": [*range(1, 9)], "validation": [9], "test": [11, 12], "calibration": [10]}
    }
    with pytest.raises(InputError, match="calibration_from '2026-12-01' is not before test_from '2026-11-15'"):
        split(tmp_path, split_by="time:day", **{**times, "calibration_from": "2026-12-01"}, calibration=tmp_path / "c")
    with pytest.raises(InputError, match="Give calibration_from"):
        split(tmp_path, split_by="time:day", test_from="2026-11-15", calibration_percent=5, calibration=tmp_path / "c")


def test_a_calibration_side_needs_its_folder_and_leaves_something_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Give --calibration"):
        split(tmp_path, calibration_percent=5)
    with pytest.raises(InputError, match="test_percent 10 and calibration_percent 80 leave nothing to train on"):
        split(tmp_path, calibration_percent=80, calibration=tmp_path / "calibration")


def test_rows_of_the_calibration_side_that_train_has_are_counted(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("id,x\n" + "".join(f"{row},1\n" for row in range(400)))
    folders = [tmp_path / side for side in SIDES]
    prepare_data(tmp_path / "raw.csv", *folders, calibration=tmp_path / "c", key="id", calibration_percent=10)
    assert (found := Manifest.read(tmp_path / "c")).leakage["rows"] == found.rows > 0
