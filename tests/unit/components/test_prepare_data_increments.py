"""A run that reads only what is new: as a run over everything, but for shards of its own; or the reason why not."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data import increments, reading
from drivetrain.data.manifest import Manifest

SIDES = ("train", "validation", "test")


def night(raw: Path, name: str, keys: range, text: str = "") -> Path:
    raw.mkdir(exist_ok=True)
    draw = random.Random(name)
    rows = [f"{key},{draw.randrange(3)},{draw.gauss(0, 1):.3f},w{draw.randrange(9000)}\n" for key in keys]
    (raw / name).write_text("id,label,x,word\n" + "".join(rows) + text)
    return raw


def prepare(raw: Path, out: Path, previous: Path | None = None, **parameters: Any) -> None:
    given = {"key": "id", "label": "label", "incremental": True, "rows_per_shard": 400, **parameters}
    prepare_data(raw, *(out / side for side in SIDES), previous, **given)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for shard in Manifest.read(folder).shards for row in pq.read_table(folder / shard.file).to_pylist()]


def test_an_increment_reads_new_files_and_gives_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = night(tmp_path / "raw", "1.csv", range(3000))
    prepare(raw, tmp_path / "out")
    before = {side: Manifest.read(tmp_path / "out" / side) for side in SIDES}
    night(raw, "2.csv", range(3000, 3100))
    night(raw, "3.csv", range(3100, 3130))
    read: list[str] = []
    real = reading.csv_batches

    def counted(source: Any, *given: Any, **options: Any) -> Any:
        read.append(source.name)
        return real(source, *given, **options)

    monkeypatch.setattr(reading, "csv_batches", counted)
    prepare(raw, tmp_path / "out", tmp_path / "out")
    assert read == ["2.csv", "3.csv"]
    prepare(raw, tmp_path / "full")
    assert "anew" not in capsys.readouterr().out
    for side in SIDES:
        found, full = (Manifest.read(tmp_path / name / side) for name in ("out", "full"))
        assert rows(tmp_path / "out" / side) == rows(tmp_path / "full" / side)
        assert [shard.sha256 for shard in found.shards][: len(before[side].shards)] == [
            shard.sha256 for shard in before[side].shards
        ]
        assert found.lineage["parent"] == before[side].content_hash
        assert found.lineage["sources"] == full.lineage["sources"]
        for name in ("nulls", "min", "max", "distinct", "classes", "values"):
            assert found.statistics["label"].get(name) == full.statistics["label"].get(name)
        for name in ("mean", "std", "sum"):
            assert found.statistics["x"][name] == pytest.approx(full.statistics["x"][name], rel=1e-9)
        assert found.statistics["word"]["distinct"] == full.statistics["word"]["distinct"]
        assert found.statistics["x"]["histogram"]["edges"] == full.statistics["x"]["histogram"]["edges"]


def test_increments_can_be_chained_across_folders(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for number in range(4):
        night(raw, f"{number}.csv", range(1000 * number, 1000 * number + (1000 if number == 0 else 50)))
        prepare(raw, tmp_path / f"out{number}", tmp_path / f"out{number - 1}" if number else None)
    prepare(raw, tmp_path / "full")
    for side in SIDES:
        assert rows(tmp_path / "out3" / side) == rows(tmp_path / "full" / side)


def test_rows_of_a_file_that_sorts_before_known_ones_come_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = night(tmp_path / "raw", "m.csv", range(1000))
    prepare(raw, tmp_path / "out")
    before = {side: rows(tmp_path / "out" / side) for side in SIDES}
    night(raw, "a.csv", range(2000, 2100))
    night(raw, "z.csv", range(3000, 3100))
    capsys.readouterr()
    prepare(raw, tmp_path / "out", tmp_path / "out")
    assert capsys.readouterr().out.startswith(
        "warning: a.csv sorts before a file that was read earlier: its rows come last"
    )
    prepare(raw, tmp_path / "full")
    for side in SIDES:
        found, full = rows(tmp_path / "out" / side), rows(tmp_path / "full" / side)
        assert found[: len(before[side])] == before[side]
        assert [row["id"] for row in found[len(before[side]) :]] == sorted(
            row["id"] for row in full if row["id"] >= 2000
        )
        assert sorted(found, key=lambda row: row["id"]) == sorted(full, key=lambda row: row["id"])


def test_a_night_without_a_new_file_is_the_same_set(tmp_path: Path) -> None:
    raw = night(tmp_path / "raw", "1.csv", range(1000))
    prepare(raw, tmp_path / "out")
    before = {side: Manifest.read(tmp_path / "out" / side).content_hash for side in SIDES}
    prepare(raw, tmp_path / "out", tmp_path / "out")
    assert {side: Manifest.read(tmp_path / "out" / side).content_hash for side in SIDES} == before


@pytest.mark.parametrize("where", ["before", "new"])
def test_an_existing_key_is_refused(tmp_path: Path, where: str) -> None:
    raw = night(tmp_path / "raw", "1.csv", range(1000))
    prepare(raw, tmp_path / "out")
    before = (tmp_path / "out" / "train" / "manifest.json").read_bytes()
    night(raw, "2.csv", range(1000, 1050), text="7,1,0.5,x\n" if where == "before" else "1001,1,0.5,x\n")
    expected = (
        r"2\.csv, row 52: the key 'id' is 7, as it is in the earlier (train|validation|test)/part-0000\d\.parquet"
        if where == "before"
        else r"2\.csv, row 52: the key 'id' is 1001, as it is in 2\.csv, row 3"
    )
    with pytest.raises(InputError, match=expected):
        prepare(raw, tmp_path / "out", tmp_path / "out")
    assert (tmp_path / "out" / "train" / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "parameters", "reason"),
    [
        (lambda raw: night(raw, "1.csv", range(900)), {}, "1.csv has changed since"),
        (lambda raw: (raw / "1.csv").unlink(), {}, "1.csv is not in the data any more"),
        (lambda raw: None, {"salt": "other"}, "salt was '', and is 'other' now"),
        (lambda raw: None, {"test_percent": 20}, "test_percent was 10, and is 20 now"),
        (lambda raw: None, {"split_by": "strata:label"}, "rows change sides in a split by strata"),
    ],
)
def test_the_reason_for_a_full_run_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, parameters: dict[str, Any], reason: str
) -> None:
    raw = night(tmp_path / "raw", "0.csv", range(5000, 5000))
    night(raw, "1.csv", range(1000))
    night(raw, "0.csv", range(2000, 2500))
    prepare(raw, tmp_path / "out")
    change(raw)
    prepare(raw, tmp_path / "out", tmp_path / "out", **parameters)
    assert f"all is prepared anew: {reason}" in capsys.readouterr().out
    prepare(raw, tmp_path / "full", **parameters)
    for side in SIDES:
        found, full = (Manifest.read(tmp_path / name / side) for name in ("out", "full"))
        assert found.content_hash == full.content_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "5000,1,soon,x\n",
            r"2\.csv, row 12, column 'x': 'soon' is not a float64\. Column 'x' is a float64 column in the earlier run "
            r"\(previous\), and a string column in 2\.csv\. Correct the file, or leave out previous",
        ),
        ("5000,0.5,1,x\n", r"row 12, .* Column 'label' is an int64 column in the earlier run .* a float64 column in 2"),
    ],
)
def test_a_column_of_another_type_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    raw = night(tmp_path / "raw", "1.csv", range(1000))
    prepare(raw, tmp_path / "out")
    before = (tmp_path / "out" / "train" / "manifest.json").read_bytes()
    night(raw, "2.csv", range(1000, 1010), text=text)
    with pytest.raises(InputError, match=expected):
        prepare(raw, tmp_path / "out", tmp_path / "out")
    assert (tmp_path / "out" / "train" / "manifest.json").read_bytes() == before
    prepare(raw, tmp_path / "out")  # anew, on purpose
    assert len(rows(tmp_path / "out" / "train")) > 1000 * 0.7


def test_a_column_gets_its_type_with_its_first_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is said by a column without a value; one of text would turn the numbers of later nights into text."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for number, cell in enumerate(("NA", "", "2.5")):
        (raw / f"{number}.csv").write_text("id,x\n" + "".join(f"{number * 100 + n},{cell}\n" for n in range(100)))
        prepare(raw, tmp_path / "out", tmp_path / "out" if number else None, label=None)
        said = capsys.readouterr().out
        shards = (tmp_path / "out" / "train").glob(f"{Manifest.read(tmp_path / 'out' / 'train').version}/*.parquet")
        types = {str(pq.read_schema(shard).field("x").type) for shard in shards}
        assert types == {"string" if number < 2 else "double"}
        assert ("warning: column 'x' has no value. It is text" in said) == (number == 0)
        assert ("prepared anew: column 'x' had no value before, and has some in 2.csv" in said) == (number == 2)
    prepare(raw, tmp_path / "full", label=None)
    for side in SIDES:
        assert len({Manifest.read(tmp_path / name / side).content_hash for name in ("out", "full")}) == 1


def test_a_file_with_types_of_its_own_must_match_those_before(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    pq.write_table(pa.table({"id": range(500), "label": [0, 1] * 250, "x": [1.5] * 500}), raw / "1.parquet")
    prepare(raw, tmp_path / "out")
    pq.write_table(pa.table({"id": [900], "label": [1], "x": pa.array([2], pa.int32())}), raw / "2.parquet")
    prepare(raw, tmp_path / "out", tmp_path / "out")
    # A cast would be possible, and the keys' values would be the same: a full run refuses it all the same.
    pq.write_table(pa.table({"id": ["901"], "label": [1], "x": [0.5]}), raw / "3.parquet")
    with pytest.raises(InputError, match=r"Column 'id' is an int64 column in the .* and a string column in 3\.parquet"):
        prepare(raw, tmp_path / "out", tmp_path / "out")


def test_an_earlier_run_that_kept_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = night(tmp_path / "raw", "1.csv", range(500))
    prepare(raw, tmp_path / "out", incremental=False)
    assert [path.name for path in (tmp_path / "out" / "train").rglob("*.u64")] == []
    prepare(raw, tmp_path / "out", tmp_path / "out")
    assert "all is prepared anew: it was prepared without incremental=true" in capsys.readouterr().out


def test_statistics_of_another_format_are_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = night(tmp_path / "raw", "1.csv", range(500))
    prepare(raw, tmp_path / "out")
    monkeypatch.setattr(increments, "STATE_VERSION", 99)
    prepare(raw, tmp_path / "out", tmp_path / "out")
    assert "all is prepared anew: its statistics are those of another version" in capsys.readouterr().out


def test_a_damaged_file_of_the_earlier_run_is_named(tmp_path: Path) -> None:
    raw = night(tmp_path / "raw", "1.csv", range(500))
    prepare(raw, tmp_path / "out")
    with pytest.raises(InputError, match=r"^\S+/out/train is one set\. Give previous the folder above it"):
        prepare(raw, tmp_path / "new", tmp_path / "out" / "train")
    (keys,) = (tmp_path / "out" / "test").rglob("keys-00000.u64")
    keys.write_bytes(bytes(len(keys.read_bytes())))
    night(raw, "2.csv", range(500, 520))
    with pytest.raises(InputError, match=r"keys-00000.u64 was altered since it was written. Leave out previous"):
        prepare(raw, tmp_path / "new", tmp_path / "out")


def test_a_damaged_shard_is_not_taken_into_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = night(tmp_path / "raw", "1.csv", range(500))
    prepare(raw, tmp_path / "out")
    (shard,) = (tmp_path / "out" / "train").rglob("part-00000.parquet")
    whole, times = shard.read_bytes(), (0, shard.stat().st_mtime_ns)
    shard.write_bytes(whole[:-1] + b"0")
    with pytest.raises(InputError, match=r"part-00000\.parquet is damaged: .* Leave out previous"):
        prepare(raw, tmp_path / "new", tmp_path / "out")
    shard.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(InputError, match=r"out/train/\w+/part-00000\.parquet was altered: .* Leave out previous"):
        prepare(raw, tmp_path / "new", tmp_path / "out")
    os.utime(shard, ns=times)  # now only a copy is read

    def other_disk(*_: Any) -> None:
        raise OSError

    monkeypatch.setattr(increments.os, "link", other_disk)
    with pytest.raises(InputError, match=r"part-00000\.parquet was altered"):
        prepare(raw, tmp_path / "new", tmp_path / "out")


def test_a_new_file_with_other_columns_is_refused(tmp_path: Path) -> None:
    raw = night(tmp_path / "raw", "1.csv", range(500))
    prepare(raw, tmp_path / "out")
    (raw / "2.csv").write_text("id,label,x\n900,1,0.5\n")
    with pytest.raises(InputError, match=r"2\.csv has no column 'word', which the files before it have"):
        prepare(raw, tmp_path / "out", tmp_path / "out")
    (raw / "2.csv").write_text("id,label,x,word,y\n900,1,0.5,w,1\n")
    with pytest.raises(InputError, match=r"2\.csv: column 'y' is in no file before it"):
        prepare(raw, tmp_path / "out", tmp_path / "out")


def test_the_manifest_records_the_origin_of_rows(tmp_path: Path) -> None:
    raw = night(tmp_path / "raw", "1.csv", range(500))
    prepare(raw, tmp_path / "out")
    lineage = json.loads((tmp_path / "out" / "train" / "manifest.json").read_bytes())["lineage"]
    assert lineage["parameters"]["key"] == "id" and lineage["parent"] is None
    size = (raw / "1.csv").stat().st_size
    assert [(each["name"], each["bytes"]) for each in lineage["sources"]] == [("1.csv", size)]


def test_columns_keep_types_that_parquet_has_not(tmp_path: Path) -> None:
    """Parquet stores seconds as milliseconds: an increment has the statistics of a run over everything, and finds a row
    that is there again under another key."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for name, first in (("1.arrow", 0), ("2.arrow", 300)):
        numbers = pa.array(range(300))
        times = {"at": pa.timestamp("s"), "zoned": pa.timestamp("s", "UTC"), "clock": pa.time32("s")}
        columns = {each: numbers.cast(pa.int32()).cast(kind) if "32" in str(kind) else numbers.cast(kind)
                   for each, kind in times.items()}  # fmt: skip
        day = pa.array([86_400_000 * row for row in range(300)]).cast(pa.date64())
        table = pa.table({"id": pa.array(range(first, first + 300)), **columns, "day": day})
        with pa.ipc.new_file(raw / name, table.schema) as file:
            file.write_table(table)
        if not first:
            prepare(raw, tmp_path / "out", label=None)
    prepare(raw, tmp_path / "out", tmp_path / "out", label=None)
    prepare(raw, tmp_path / "full", label=None)
    for side in SIDES:
        found, full = (Manifest.read(tmp_path / name / side) for name in ("out", "full"))
        assert (found.schema, found.leakage) == (full.schema, full.leakage)
        assert [found.statistics[name] for name in ("day", *times)] == [
            full.statistics[name] for name in ("day", *times)
        ]
    assert full.leakage["rows"] > 0 and rows(tmp_path / "out" / "test")
