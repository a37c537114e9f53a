"""Keys that two data sets share, by their hashes: exact up to 8,192 keys, in a sample beyond."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.key_sample import MOST, KeySample
from drivetrain.data.manifest import Manifest

SIDES = ("train", "validation", "test")


def sample(keys: Iterable[int], kind: pa.DataType | None = None, batch: int = 5000) -> KeySample:
    found, given = KeySample("id"), pa.array(list(keys), pa.int64()).cast(kind or pa.int64())
    for start in range(0, len(given), batch):
        found.add(given.slice(start, batch))
    return found


def test_few_keys_are_compared_exactly_whatever_their_type() -> None:
    ours, theirs = sample(range(4000, 6000), pa.string()), sample(range(4012))
    assert ours.shared(theirs) == (12, 2000, 1.0) and theirs.shared(ours) == (12, 4012, 1.0)
    assert "below" not in ours.entry() and ours.shared(sample(())) == (0, 2000, 1.0)
    other = KeySample("user")
    other.add(pa.array(["7"]))
    assert ours.shared(other) is None, "other columns name other things"


def test_large_key_sets_are_compared_by_their_smallest_hashes() -> None:
    many, few = sample(range(100_000)), sample(range(97_000, 100_500))
    found = few.shared(many)
    assert found is not None and found.share == pytest.approx(MOST / 100_000, rel=0.05)
    assert found == few.shared(KeySample.read(json.loads(json.dumps(many.entry())), "here"))
    # What is compared is a binomial part of all; each shared key in it is found.
    for there, looked_at in ((3500, found.compared), (3000, found.keys)):
        assert abs(looked_at - there * found.share) < 4 * np.sqrt(there * found.share)
    assert few.shared(many) == few.shared(sample(random.Random(1).sample(range(100_000), 100_000), batch=777))


@pytest.mark.parametrize("entry", [{}, {"column": "id", "hashes": "AAAA"}, {"column": "id", "hashes": "?"}])
def test_damaged_key_files_are_reported(entry: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"the keys in model\.json are damaged"):
        KeySample.read(entry, r"model.json")


def prepare(folder: Path, parts: list[range], **parameters: object) -> dict[str, Manifest]:
    """One night after the other."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    for number, part in enumerate(parts):
        pq.write_table(pa.table({"id": pa.array(part, pa.int64()), "x": pa.array(part)}), raw / f"{number}.parquet")
        previous = folder / "sets" if number else None
        prepare_data(raw, *(folder / "sets" / side for side in SIDES), previous, key="id", **parameters)  # type: ignore[arg-type]
    return {side: Manifest.read(folder / "sets" / side) for side in SIDES}


def keys_of(folder: Path) -> set[int]:
    shards = Manifest.read(folder).shards
    return {key for shard in shards for key in pq.read_table(folder / shard.file).column("id").to_pylist()}


def test_prepared_splits_record_their_keys(tmp_path: Path) -> None:
    one = prepare(tmp_path / "one", [range(600)])
    other = prepare(tmp_path / "other", [range(300, 900)], salt="another")
    test, train = (KeySample.read(each.keys, "here") for each in (other["test"], one["train"]))
    ours, theirs = keys_of(tmp_path / "other/sets/test"), keys_of(tmp_path / "one/sets/train")
    found = test.shared(train)
    assert found == (len(ours & theirs), len(ours), 1.0) and ours & theirs
    assert KeySample.read(one["test"].keys, "here").shared(train) == (0, one["test"].rows, 1.0)
    assert one["train"].content_hash == replace(one["train"], keys={}).content_hash


def test_increments_have_keys_of_all_nights_or_none(tmp_path: Path) -> None:
    whole = prepare(tmp_path / "whole", [range(11_000)], salt="a")
    nights = prepare(tmp_path / "nights", [range(6000), range(6000, 11_000)], salt="a", incremental=True)
    assert {side: each.keys for side, each in nights.items()} == {side: each.keys for side, each in whole.items()}
    assert "below" in whole["train"].keys and "below" not in whole["test"].keys
    ignored = prepare(tmp_path / "ignored", [range(500)], on_leakage="ignore", incremental=True)
    assert not any(each.keys for each in ignored.values())
    pq.write_table(pa.table({"id": [500], "x": [1]}), tmp_path / "ignored/raw/1.parquet")
    folders = (tmp_path / "ignored" / "sets" / side for side in SIDES)
    raw, previous = tmp_path / "ignored/raw", tmp_path / "ignored/sets"
    prepare_data(raw, *folders, previous=previous, key="id", incremental=True)
    found = [Manifest.read(previous / side).keys for side in SIDES]
    assert found == [{}, {}, {}], "those of the first night are not known"
