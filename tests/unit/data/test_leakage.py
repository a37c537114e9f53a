"""Rows and groups that are on several sides: counted, said, and refused where that is asked for."""

from __future__ import annotations

import datetime as dt
import random
import shutil
import zlib
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.manifest import Manifest
from drivetrain.data.split import below, key_hashes

SIDES = ("train", "validation", "test")
SCHEMA = pa.schema(
    {
        **{"id": pa.int64(), "user": pa.string(), "x": pa.float64(), "n": pa.int8(), "flag": pa.bool_()},
        **{"day": pa.date32(), "price": pa.decimal128(6, 2), "image": pa.list_(pa.int64()), "none": pa.null()},
    }
)


def rows(count: int) -> list[dict[str, Any]]:
    draw = random.Random(1)
    return [
        {
            **{
                "id": key,
                "user": f"u{draw.randrange(150)}",
                "x": draw.choice([None, 0.0, 0.5]),
                "n": draw.randrange(2),
            },
            **{"flag": draw.choice([None, True]), "day": dt.date(2026, 1, draw.randrange(1, 3))},
            **{"price": Decimal(draw.randrange(2)), "image": [draw.randrange(2), 7], "none": None},
        }
        for key in range(count)
    ]


def prepare(folder: Path, given: list[dict[str, Any]], **parameters: Any) -> dict[str, list[dict[str, Any]]]:
    (folder / "raw").mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(given, SCHEMA), folder / "raw" / "1.parquet")
    prepare_data(folder / "raw", *(folder / side for side in SIDES), key="id", **parameters)
    return {
        side: [
            row
            for shard in Manifest.read(folder / side).shards
            for row in pq.read_table(folder / side / shard.file).to_pylist()
        ]
        for side in SIDES
    }


def without_key(row: dict[str, Any]) -> str:
    return repr({name: value for name, value in row.items() if name != "id"})


def test_rows_shared_with_train_are_counted_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = prepare(tmp_path, rows(2000), groups="user, n")
    said = capsys.readouterr().out
    train = sides["train"]
    for side in ("validation", "test"):
        known = {without_key(row) for row in train}
        equal = sum(without_key(row) in known for row in sides[side])
        assert 0 < equal < len(sides[side])
        shared = {name: len({r[name] for r in sides[side]} & {r[name] for r in train}) for name in ("user", "n")}
        assert Manifest.read(tmp_path / side).leakage == {"rows": equal, "groups": shared}
        assert f"leakage: {equal:,} of {len(sides[side]):,} rows of {side} are equal to a row of train, but for" in said
        assert f"leakage: {shared['user']:,} values of 'user' are in {side} and in train" in said
    assert Manifest.read(tmp_path / "train").leakage == {}


def test_a_split_by_group_shares_no_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(tmp_path, rows(2000), groups="user", split_by="group:user", on_leakage="fail")
    assert "leakage" not in capsys.readouterr().out
    assert Manifest.read(tmp_path / "test").leakage == {"rows": 0, "groups": {"user": 0}}


def test_missing_values_are_not_a_shared_group(tmp_path: Path) -> None:
    given = [{**row, "user": str(row["id"]) if row["id"] % 2 else None, "x": float(row["id"])} for row in rows(300)]
    prepare(tmp_path, given, groups="user", on_leakage="fail")
    assert leakage_of(tmp_path) == [{"rows": 0, "groups": {"user": 0}}] * 2
    (shard,) = Manifest.read(tmp_path / "test").shards
    read = pq.read_table(tmp_path / "test" / shard.file).to_pylist()
    held_back = next(row for row in read if row["user"])
    given += [{**held_back, "id": key, "x": float(key)} for key in range(1000, 1030)]
    with pytest.raises(InputError, match=r"1 value of 'user' is in test and in train"):
        prepare(tmp_path, given, groups="user", on_leakage="fail")


def test_leakage_is_refused_on_request(tmp_path: Path) -> None:
    prepare(tmp_path, rows(500), on_leakage="ignore")
    assert Manifest.read(tmp_path / "test").leakage == {}
    before = (tmp_path / "test" / "manifest.json").read_bytes()
    with pytest.raises(
        InputError, match=r"the sides leak: \d+ of \d+ rows of validation are equal .*on_leakage=report"
    ):
        prepare(tmp_path, rows(500), on_leakage="fail")
    assert (tmp_path / "test" / "manifest.json").read_bytes() == before
    with pytest.raises(InputError, match=r"groups: there is no column 'usr'. Did you mean 'user'"):
        prepare(tmp_path, rows(500), groups="usr")


def leakage_of(folder: Path) -> list[dict[str, Any]]:
    return [dict(Manifest.read(folder / side).leakage) for side in SIDES[1:]]


def nights(folder: Path, given: list[dict[str, Any]], ends: list[int], **parameters: Any) -> None:
    """Prepare rows night by night, each going on from the one before."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    for number, (start, end) in enumerate(pairwise([0, *ends])):
        pq.write_table(pa.Table.from_pylist(given[start:end], SCHEMA), raw / f"{number}.parquet")
        previous = folder / "sets" if number else None
        sides = (folder / "sets" / side for side in SIDES)
        prepare_data(raw, *sides, previous, **{"key": "id", "incremental": True, **parameters})


@pytest.mark.parametrize("ends", [[900, 1000], [40, 60, 61, 500, 1000], [1000, 1000]])
def test_increments_count_what_a_run_over_everything_counts(
    tmp_path: Path, ends: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    given = rows(1000)
    nights(tmp_path / "by_night", given, ends, groups="user,n")
    assert "anew" not in capsys.readouterr().out
    nights(tmp_path / "at_once", given, [1000], groups="user,n")
    found = leakage_of(tmp_path / "by_night" / "sets")
    assert found == leakage_of(tmp_path / "at_once" / "sets")
    assert all(side["rows"] > 0 and side["groups"]["user"] > 0 for side in found)


def test_an_increment_is_refused_for_what_leaks_between_old_and_new_rows(tmp_path: Path) -> None:
    apart = [{**row, "x": float(row["id"])} for row in rows(300)]
    again = [{**row, "id": row["id"] + 1000} for row in apart]
    with pytest.raises(InputError, match=r"the sides leak: \d+ of \d+ rows of validation are equal"):
        nights(tmp_path, apart + again, [300, 600], on_leakage="fail")
    assert sum(Manifest.read(tmp_path / "sets" / side).rows for side in SIDES) == 300
    assert [side["rows"] for side in leakage_of(tmp_path / "sets")] == [0, 0]


def test_a_missing_check_of_the_earlier_run_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nights(tmp_path, rows(300), [300], on_leakage="ignore")
    more = pa.Table.from_pylist(rows(1000)[300:], SCHEMA)
    pq.write_table(more, tmp_path / "raw" / "1.parquet")

    def go_on(**parameters: Any) -> str:
        capsys.readouterr()
        sides = (tmp_path / "more" / side for side in SIDES)
        prepare_data(tmp_path / "raw", *sides, tmp_path / "sets", key="id", incremental=True, **parameters)
        return capsys.readouterr().out

    assert "leakage is not looked for in this run, nor in those that go on from it: it did not look" in go_on()
    assert leakage_of(tmp_path / "more") == [{}, {}]
    assert "leakage" not in go_on(on_leakage="ignore")
    with pytest.raises(InputError, match="the sides leak"):
        go_on(on_leakage="fail")
    assert "all is prepared anew: it did not look for leakage" in capsys.readouterr().out
    nights(tmp_path / "other", rows(300), [300], groups="user")
    pq.write_table(more, tmp_path / "other" / "raw" / "1.parquet")
    sides = (tmp_path / "other" / "sets" / side for side in SIDES)
    prepare_data(tmp_path / "other" / "raw", *sides, tmp_path / "other" / "sets", key="id", groups="n")
    assert "groups was 'user', and is 'n' now" in capsys.readouterr().out


def test_long_texts_with_equal_checksums_are_not_taken_for_equal(tmp_path: Path) -> None:
    prefix = "a text that is longer than what is hashed in words, by some: "
    texts = prefix + "a02552f76dbdf5fd", prefix + "670009b22c087272"
    assert len({zlib.crc32(text.encode()) for text in texts}) == 1
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    keys = pa.array(range(200), pa.int64())
    in_train = pa.compute.invert(below(key_hashes(keys, ""), 20))
    column = [texts[side] for side in in_train.to_pylist()]
    (tmp_path / "raw").mkdir()
    pq.write_table(pa.table([keys, column], schema=schema), tmp_path / "raw" / "1.parquet")
    prepare_data(tmp_path / "raw", *(tmp_path / side for side in SIDES), key="id")
    assert [Manifest.read(tmp_path / side).leakage["rows"] for side in SIDES[1:]] == [0, 0]


@pytest.mark.parametrize("side_is_named", [True, False])
def test_a_set_in_the_folder_of_another_side_is_refused(tmp_path: Path, side_is_named: bool) -> None:
    nights(tmp_path, rows(300), [200])
    previous = tmp_path / "sets"
    shutil.rmtree(previous / "test")
    shutil.copytree(previous / "train", previous / "test")
    if not side_is_named:  # as an earlier release wrote it
        manifest = Manifest.read(previous / "test")
        lineage = {name: value for name, value in manifest.lineage.items() if name != "side"}
        replace(manifest, lineage=lineage).write(previous / "test" / "manifest.json")
    with pytest.raises(
        InputError, match=r"sets/test holds the train set of a run, not its test set\. Give previous the"
    ):
        prepare_data(
            tmp_path / "raw", *(tmp_path / "new" / side for side in SIDES), previous, key="id", incremental=True
        )
    assert not list(tmp_path.glob("new/*/manifest.json"))


def test_nanosecond_times_in_lists_are_compared(tmp_path: Path) -> None:
    """Nanoseconds, as pandas writes them, and years beyond 9999; other packages on a machine change no hash."""
    nanoseconds = pa.array([[1], [2], [1]] * 40, pa.list_(pa.timestamp("ns")))
    far = pa.array([{"day": 10**9 + number % 3} for number in range(120)], pa.struct({"day": pa.date32()}))
    (tmp_path / "raw").mkdir()
    pq.write_table(pa.table({"id": range(120), "times": nanoseconds, "far": far}), tmp_path / "raw" / "1.parquet")
    prepare_data(tmp_path / "raw", *(tmp_path / side for side in SIDES), key="id")
    assert [each["rows"] for each in leakage_of(tmp_path)] == [Manifest.read(tmp_path / s).rows for s in SIDES[1:]]
